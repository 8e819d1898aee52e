# SPDX-License-Identifier: MIT
"""Directories, by libfmove: its own threads answer the daemon in time, which Python's might not.

The structures are those of fmove.h; tests/python compares them with it.
"""

from __future__ import annotations

import ctypes as c
import io
import os
import select
import threading
from typing import Any, Callable, List, NamedTuple, Optional

from .background import Background
from .errors import error
from .link import can_be_cancelled
from .names import Name
from .owned import pipe
from .results import Options, Progress, Result

LIBRARY = "libfmove.so.0"
UNKNOWN = (1 << 64) - 1
PROGRESS_MS = 200


class How(NamedTuple):
    force: bool
    update: bool
    delete: bool
    group: Optional[str]
    timeout: Optional[float]
    progress: Optional[Callable[[Progress], object]]
    options: Options


class CError(c.Structure):
    _fields_ = [
        ("code", c.c_int),
        ("exit", c.c_int),
        ("is_kept", c.c_bool),
        ("is_full", c.c_bool),
        ("bytes", c.c_uint64),
        ("text", c.c_char * 512),
        ("node", c.c_char * 256),
        ("store", c.c_char * 256),
        ("path", c.c_char * 4096),
    ]


class CName(c.Structure):
    _fields_ = [("node", c.c_char_p), ("store", c.c_char_p), ("path", c.c_char_p)]


class CProgress(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("state", c.c_char_p),
        ("before", c.c_uint64),
        ("again_ms", c.c_uint64),
        ("text", c.c_char_p),
        ("size", c.c_uint64),
        ("bytes", c.c_uint64),
        ("files", c.c_uint64),
        ("resumed_bytes", c.c_uint64),
        ("resent_bytes", c.c_uint64),
        ("corrupt_chunks", c.c_uint),
        ("connections", c.c_uint),
    ]


class Sized(c.Structure):
    """One that says its size, so that an older and a newer libfmove know what is in it."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=c.sizeof(self), **fields)


OnCProgress = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(CProgress))


class COptions(Sized):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("transport", c.c_int),
        ("durability", c.c_int),
        ("may_replace", c.c_bool),
        ("rate_bytes", c.c_uint64),
        ("timeout_ms", c.c_uint64),
        ("priority", c.c_int),
        ("retry_ms", c.c_uint64),
        ("file", c.c_char_p),
        ("tree", c.c_void_p),
        ("progress_ms", c.c_uint64),
        ("progress", OnCProgress),
        ("ctx", c.c_void_p),
        ("cancel_fd", c.c_int),
        ("keep_partial", c.c_bool),
        ("is_readback", c.c_bool),
        ("accepts_corrupt", c.c_bool),
        ("is_buffered", c.c_bool),
        ("group", c.c_char_p),
        ("only", c.c_void_p),
        ("hold_fd", c.c_int),
        ("prepared", c.c_void_p),
        ("decide", c.c_void_p),
        ("journal_fd", c.c_int),
        ("is_attended", c.c_bool),
        ("again", c.c_char_p),
        ("accepted", c.c_void_p),
        ("publish", c.c_void_p),
        ("ranges", c.c_void_p),
        ("range_count", c.c_size_t),
        ("whole_blocks", c.c_bool),
        ("prepared_as", c.c_void_p),
    ]


class CTreeOptions(Sized):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("is_update", c.c_bool),
        ("has_checksums", c.c_bool),
        ("follows_links", c.c_bool),
        ("is_delete", c.c_bool),
        ("is_dry_run", c.c_bool),
        ("excludes", c.c_void_p),
        ("named", c.c_void_p),
        ("ctx", c.c_void_p),
    ]


class CResult(Sized):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("bytes", c.c_uint64),
        ("data_bytes", c.c_uint64),
        ("seconds", c.c_double),
        ("gb_per_s", c.c_double),
        ("transport", c.c_char * 16),
        ("rdma_bytes", c.c_uint64),
        ("tcp_bytes", c.c_uint64),
        ("encryption", c.c_char * 16),
        ("why", c.c_char * 160),
        ("connections", c.c_uint),
        ("crc32c", c.c_uint32),
        ("is_durable", c.c_bool),
        ("is_checked", c.c_bool),
        ("resent_bytes", c.c_uint64),
        ("corrupt_chunks", c.c_uint),
        ("mode", c.c_uint),
        ("mtime_ns", c.c_int64),
        ("version", c.c_char * 64),
        ("resumed_bytes", c.c_uint64),
        ("damaged_bytes", c.c_uint64),
        ("is_tree", c.c_bool),
        ("files", c.c_uint64),
        ("dirs", c.c_uint64),
        ("links", c.c_uint64),
        ("hard_links", c.c_uint64),
        ("leaving_links", c.c_uint64),
        ("reused_files", c.c_uint64),
        ("reused_bytes", c.c_uint64),
        ("is_reflinked", c.c_bool),
        ("resumed_files", c.c_uint64),
        ("added", c.c_uint64),
        ("replaced", c.c_uint64),
        ("removed", c.c_uint64),
        ("kept", c.c_uint64),
        ("wanted_files", c.c_uint64),
        ("wanted_bytes", c.c_uint64),
        ("former", c.c_char * 288),
        ("former_until_ns", c.c_int64),
        ("note", c.c_char * 320),
        ("direct_bytes", c.c_uint64),
        ("has_crc32c", c.c_bool),
    ]


# What fmove.h calls each of them.
STRUCTURES = {
    "fmove_error": CError,
    "fmove_name": CName,
    "fmove_progress": CProgress,
    "fmove_options": COptions,
    "fmove_tree_options": CTreeOptions,
    "fmove_result": CResult,
}
WORDS = {
    "transport": ("auto", "rdma", "tcp"),
    "durability": ("default", "disk", "memory"),
    "priority": ("normal", "low", "high"),
}

# With COptions, CTreeOptions, CResult and CError.
Transfer = Callable[..., int]


def put(socket: str, directory: str, name: Name, how: How) -> Result:
    of = _c_name(name)

    def transfer(lib: Any, conn: c.c_void_p, fd: int, *rest: c.Structure) -> int:
        refs = [c.byref(one) for one in (of, *rest)]
        return int(lib.fmove_put_tree(conn, fd, *refs))

    return _Call(socket, directory, how, transfer).wait()


def get(socket: str, name: Name, directory: str, how: How) -> Result:
    parent, last = os.path.split(os.path.abspath(directory))
    of = _c_name(name)

    def transfer(lib: Any, conn: c.c_void_p, fd: int, *rest: c.Structure) -> int:
        refs = [c.byref(one) for one in (of, *rest)]
        return int(lib.fmove_get_tree(conn, fd, os.fsencode(last), *refs))

    return _Call(socket, parent, how, transfer).wait()


def _c_name(name: Name) -> CName:
    return CName(os.fsencode(name.node), os.fsencode(name.store), os.fsencode(name.path))


def _library() -> Any:
    lib = c.CDLL(os.environ.get("FMOVE_LIBRARY") or LIBRARY)
    # Else ctypes would cut pointers to 32 bits.
    lib.fmove_connect.argtypes = [c.c_char_p, c.POINTER(c.c_void_p), c.POINTER(CError)]
    lib.fmove_close.argtypes = [c.c_void_p]
    lib.fmove_set_cancel.argtypes = [c.c_void_p, c.c_int]
    lib.fmove_set_cancel.restype = None
    lib.fmove_put_tree.argtypes = [c.c_void_p, c.c_int, *[c.c_void_p] * 5]
    lib.fmove_get_tree.argtypes = [c.c_void_p, c.c_int, c.c_char_p, *[c.c_void_p] * 5]
    return lib


class _Call:
    """A call of libfmove in a thread of its own, so that signals still reach the caller's. The
    thread has all that libfmove uses, descriptors included: where an exception takes whoever waits
    does not matter to it."""

    def __init__(self, socket: str, directory: str, how: How, transfer: Transfer) -> None:
        self._socket = socket
        self._directory = directory
        self._how = how
        self._transfer = transfer
        self._lib = _library()
        self._raised: List[BaseException] = []
        self._result: Optional[Result] = None
        self._lock = threading.RLock()  # of these; a signal's handler may cancel, too
        self._is_cancelled = self._is_told = False
        self._cancel_by: Optional[io.FileIO] = None  # while the call goes on: ends it

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            self._tell()

    def _tell(self) -> None:
        """Under the lock. The pipe stays readable: once is enough."""
        if self._cancel_by is not None and not self._is_told:
            self._cancel_by.write(b"!")
            self._is_told = True

    def wait(self) -> Result:
        work = Background(self._run, "fmove tree")
        try:
            work.start()
            can_be_cancelled(self)
            work.wait()
        except BaseException:
            self._wait_for_end(work)
            raise
        if self._raised:
            raise self._raised[0]
        assert self._result is not None
        return self._result

    def _wait_for_end(self, work: Background) -> None:
        """What is raised meanwhile, as by Ctrl-C once more, says nothing new: when this returns
        nothing is read or written any more."""
        while True:
            try:
                if work.is_over():
                    return
                self.cancel()
                work.wait()
            except BaseException:
                pass

    def _run(self) -> None:
        try:
            self._result = self._cancellable()
        except BaseException as why:
            self._raised.append(why)  # what a callback raised comes first

    def _cancellable(self) -> Result:
        reader, writer = pipe()
        self._cancel_fd = reader.fileno()
        with reader, writer:
            with self._lock:
                self._cancel_by = writer
                if self._is_cancelled:
                    self._tell()
            try:
                return self._opened()
            finally:
                with self._lock:
                    self._cancel_by = None

    def _opened(self) -> Result:
        fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return self._do(fd)
        finally:
            os.close(fd)

    def _do(self, fd: int) -> Result:
        lib, why, conn = self._lib, CError(), c.c_void_p()
        if lib.fmove_connect(os.fsencode(self._socket), c.byref(conn), c.byref(why)) < 0:
            raise _error_of(why)
        lib.fmove_set_cancel(conn, self._cancel_fd)
        result = CResult()
        rest = (self._options(), self._tree_options(), result, why)
        try:
            if self._transfer(lib, conn, fd, *rest) < 0:
                raise _error_of(why)
        finally:
            lib.fmove_close(conn)
        return _result_of(result)

    def _options(self) -> COptions:
        how = self._how
        options = COptions(
            may_replace=how.force,
            rate_bytes=how.options.limit,
            timeout_ms=0 if how.timeout is None else max(1, int(how.timeout * 1000)),
            retry_ms=int(how.options.retry * 1000),
            is_readback=how.options.readback,
            accepts_corrupt=how.options.accept_corrupt,
            group=how.group.encode() if how.group else None,
            cancel_fd=self._cancel_fd,
        )
        for key, words in WORDS.items():
            word = getattr(how.options, key)
            if word is not None:
                setattr(options, key, words.index(word))
        if how.progress:
            options.progress_ms = PROGRESS_MS
            options.progress = OnCProgress(self._told)
        return options

    def _tree_options(self) -> CTreeOptions:
        return CTreeOptions(is_update=self._how.update, is_delete=self._how.delete)

    def _told(self, _: Any, told: Any) -> None:
        p = told.contents
        size = None if p.size == UNKNOWN else int(p.size)
        text = (p.text or b"").decode("utf-8", "replace")
        try:
            if self._how.progress and not self._raised:
                self._how.progress(Progress(p.state.decode(), int(p.bytes), size, text))
        except BaseException as why:
            self._raised.append(why)
            self.cancel()


def _error_of(why: CError) -> Exception:
    return error(
        -why.code,
        why.text.decode("utf-8", "replace"),
        exit=why.exit,
        is_kept=bool(why.is_kept),
        is_full=bool(why.is_full),
        bytes=int(why.bytes),
    )


def _result_of(result: CResult) -> Result:
    fields = {
        key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for key, value in ((f[0], getattr(result, f[0])) for f in CResult._fields_[1:])
    }
    return Result(
        bytes=int(result.bytes),
        seconds=float(result.seconds),
        crc32c="",
        durable=bool(result.is_durable),
        mode=0,
        mtime_ns=0,
        version="",
        note=str(fields["note"]),
        all=fields,
    )
