# SPDX-License-Identifier: MIT
"""What a program asks of the daemon of its machine."""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import io
import mmap
import os
import secrets
import stat as modes
import struct
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import ranges as _ranges
from . import stream, tree
from .buffer import Buffer
from .errors import FmoveError, error
from .group import COMMIT_S, Group, check_latest, new_id
from .link import ANSWER_S, SOCKET, Event, Link, Request, close_after_fork
from .names import HUB, Name, from_json, hub_fields, parse, to_json
from .owned import Owned, memory_file, owned
from .results import (
    Entry,
    Finding,
    Options,
    Progress,
    Result,
    Rotated,
    Verified,
    entry_of,
    progress_of,
    result_of,
)

Named = Union[str, Name]
Content = Union[bytes, bytearray, memoryview]
Source = Union[int, str, "os.PathLike[str]", Content, io.IOBase]
OnProgress = Callable[[Progress], object]

STORES_MAX = 1024  # many times what a node has
ENTRIES_MAX = 4 << 20  # a node reads a directory again for each page of it: hours
MEMORY_PUT_MAX = 64 << 20  # bytes in memory of which a put makes a copy; more go through a pipe
PROGRESS_MS = 200
FLOCK = "hhqqi0q"  # struct flock
LEAST_S = 0.001  # of a timeout: 0 would be without end
REMOVE_S = 3600.0  # millions of files may be in a directory


class Connection:
    """To the daemon. Threads share it, and a child process opens one of its own."""

    def __init__(self, socket: Optional[str] = None) -> None:
        self.socket = socket or os.environ.get("FMOVE_SOCKET") or SOCKET
        self._lock = threading.RLock()  # a signal's handler may make calls, too
        self._link: Optional[Link] = None
        close_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.RLock()  # a thread of the parent may hold the other
        self._link = None

    def close(self) -> None:
        """What is under way is cancelled. The next request connects again."""
        with self._lock:
            link, self._link = self._link, None
        if link:
            link.close()

    # ---- requests ----

    def ask(self, op: str, fields: Dict[str, Any], fds: Sequence[int] = ()) -> Request:
        """A request of fmove-api(7); over a new connection if the old one does not take it."""
        link, is_new = self._connected()
        try:
            return link.ask(op, fields, fds)
        except FmoveError:
            if is_new or link.error is None:
                raise
        return self._connected()[0].ask(op, fields, fds)

    def _connected(self) -> Tuple[Link, bool]:
        with self._lock:
            if self._link is not None and self._link.error is None:
                return self._link, False
            link = Link(self.socket)
            if self._link is not None and self._link.error is None:
                link.close()  # a signal's handler has made one meanwhile
            else:
                self._link = link
            return self._link, True

    def answer(
        self,
        op: str,
        fields: Dict[str, Any],
        *,
        timeout: Optional[float] = None,
        on_event: Optional[Callable[[Event], None]] = None,
    ) -> Event:
        """The last event of a request about stores or nodes."""
        if timeout is not None:
            fields = {**fields, "timeout_ms": _ms(timeout)}
        request = self.ask(op, fields)
        if timeout is not None:
            request.silence_s = timeout + ANSWER_S
        return request.wait(on_event)

    def _transfer(
        self,
        op: str,
        name: Name,
        fields: Dict[str, Any],
        fds: Sequence[int],
        timeout: Optional[float],
        progress: Optional[OnProgress],
    ) -> Result:
        fields = {**name.fields(), **fields}
        if timeout is not None:
            fields["timeout_ms"] = _ms(timeout)
        if progress:
            fields["progress_ms"] = PROGRESS_MS
        request = self.ask(op, fields, fds)
        request.silence_s = None if timeout is None else timeout + ANSWER_S
        return result_of(request.wait(_teller(progress)))

    # ---- whole files ----

    def put(
        self,
        source: Source,
        name: Named,
        *,
        force: bool = False,
        group: Optional[str] = None,
        latest: Optional[str] = None,
        keep_last: int = 0,
        timeout: Optional[float] = None,
        progress: Optional[OnProgress] = None,
        options: Options = Options(),
    ) -> Result:
        """Sends a file (a path, a descriptor, an open file) or bytes to name, which is seen as a
        whole. force: it may replace a file. latest: when it is on disk, the symbolic link of that
        name, beside it, leads to it. keep_last: of what it was led to with this the last so many
        stay. An error that has is_published: it is put, and why the link was not led."""
        to = parse(name)
        check_latest(latest, keep_last)
        if latest is not None:
            options = on_disk(options, group)
            timeout = self.check_link(to, latest, timeout)
        fields = _put_fields(force, group, options)
        if isinstance(source, (bytes, bytearray, memoryview)):
            result = self._put_bytes(memoryview(source).cast("B"), to, fields, timeout, progress)
        else:
            with _opened(source) as file:
                result = self._transfer("put", to, fields, [file.fileno()], timeout, progress)
        if latest is not None:
            result = replace(result, rotated=self.lead(to, latest, keep_last))
        return result

    def check_link(
        self, published: Name, latest: str, timeout: Optional[float] = None
    ) -> Optional[float]:
        """EEXIST: what has that name, beside what is to be published, is no link, and none could be
        led. What is left of the timeout for the publication, which tells of what cannot be looked
        at, unless the time is up: it may wait for longer than a look does."""
        name = published.beside(latest)
        begun = time.monotonic()

        def left() -> Optional[float]:
            gone = time.monotonic() - begun
            return None if timeout is None else max(LEAST_S, timeout - gone)

        try:
            entry = self.stat(name, follow_symlinks=False, timeout=timeout)
        except FmoveError:
            if left() == LEAST_S:
                raise
        else:
            if entry.leads_to is None:
                raise error(errno.EEXIST, f"{name} is there, and no symbolic link")
        return left()

    def lead(
        self, published: Name, latest: str, keep_last: int = 0, *, later: bool = False
    ) -> Rotated:
        """The symbolic link of that name, beside what was published, leads to it. later: unless it
        leads to what was published later. is_published: why the link was not led."""
        try:
            return self._lead(published, latest, keep_last, later)
        except FmoveError as why:
            if later and why.errno == errno.ESTALE:
                return Rotated()
            raise error(
                why.errno or errno.EIO,
                f"{published} is saved, but the link {latest} was not led to it: {why.strerror}",
                exit=why.exit,
                is_published=True,
            ) from why

    def _lead(self, published: Name, latest: str, keep_last: int, later: bool) -> Rotated:
        fields: Dict[str, Any] = published.beside(latest).fields()
        fields.update(to=to_json(published.last), force=True)
        if later:
            fields["later"] = True
        if keep_last:
            fields["keep_last"] = keep_last
        timeout = REMOVE_S if later or keep_last else None  # a file system may have to be synced
        done = self.answer("link", fields, timeout=timeout)
        return Rotated(tuple(map(from_json, done.get("gone", []))), str(done.get("stays", "")))

    def _put_bytes(
        self,
        data: memoryview,
        name: Name,
        fields: Dict[str, Any],
        timeout: Optional[float],
        progress: Optional[OnProgress],
    ) -> Result:
        if len(data) <= MEMORY_PUT_MAX:
            with memory_file("fmove bytes") as file:
                while len(data):
                    data = data[file.write(data) :]
                file.seek(0)
                return self._transfer("put", name, fields, [file.fileno()], timeout, progress)
        if timeout is not None:
            fields = {**fields, "timeout_ms": _ms(timeout)}
        raw = stream.RawWriter(self, name, fields)
        try:
            for at in range(0, len(data), MEMORY_PUT_MAX):
                raw.write(data[at : at + MEMORY_PUT_MAX])
                if progress:
                    progress(Progress("copying", raw.tell(), len(data), ""))
            return raw.commit()
        except BaseException:
            raw.discard()
            raise

    def put_buffer(
        self,
        buffer: Buffer,
        length: int,
        name: Named,
        *,
        force: bool = False,
        group: Optional[str] = None,
        timeout: Optional[float] = None,
        progress: Optional[OnProgress] = None,
        options: Options = Options(),
    ) -> Result:
        """The first bytes of a buffer, from where they lie. They must not change meanwhile."""
        fields = _put_fields(force, group, options)
        to = parse(name)

        def put(number: int) -> Result:
            part = {**fields, "buffer": [number, 0, length]}
            return self._transfer("put", to, part, [], timeout, progress)

        return buffer.use(self, put)

    def get(
        self,
        name: Named,
        target: Union[int, str, "os.PathLike[str]"],
        *,
        force: bool = False,
        timeout: Optional[float] = None,
        progress: Optional[OnProgress] = None,
        options: Options = Options(),
    ) -> Result:
        """Receives a file into a path, which is there as a whole or not at all, or into a
        descriptor: an empty file, a pipe or a socket. force: it may replace what has that path."""
        source = parse(name)
        if isinstance(target, int):
            return self._transfer("get", source, options.fields(), [target], timeout, progress)
        part = _Part(os.fspath(target), force)
        try:
            result = self._transfer("get", source, options.fields(), [part.fd], timeout, progress)
            part.publish(result, options.durability != "memory")
            return result
        finally:
            part.close()

    def read(
        self, name: Named, *, timeout: Optional[float] = None, options: Options = Options()
    ) -> bytes:
        """All of a file."""
        fields = {**options.fields(), "durability": "memory"}
        with memory_file("fmove file") as file:
            result = self._transfer("get", parse(name), fields, [file.fileno()], timeout, None)
            if result.bytes == 0:
                return b""
            with mmap.mmap(file.fileno(), result.bytes, prot=mmap.PROT_READ) as content:
                return content[:]

    # ---- parts of files ----

    def read_ranges(
        self,
        name: Named,
        ranges: Iterable[Tuple[int, int]],
        *,
        timeout: Optional[float] = None,
        options: Options = Options(),
    ) -> List[bytes]:
        """What each range, an offset and a length, has. All are of one version of the file: ESTALE
        else. EINVAL: one ends behind the file's end."""
        wanted = list(ranges)
        _ranges.check(wanted)
        rooms = [bytearray(length) for _, length in wanted]
        self.read_ranges_into(name, wanted, rooms, timeout=timeout, options=options)
        return [bytes(room) for room in rooms]

    def read_ranges_into(
        self,
        name: Named,
        ranges: Sequence[Tuple[int, int]],
        into: Sequence[Union[bytearray, memoryview]],
        *,
        timeout: Optional[float] = None,
        options: Options = Options(),
    ) -> None:
        """Range i comes into the memory into[i], which has its length."""
        _ranges.check(ranges)
        rooms = [memoryview(room).cast("B") for room in into]
        if [len(room) for room in rooms] != [length for _, length in ranges]:
            raise error(errno.EINVAL, "each range needs memory of its length")
        fields = options.fields()
        if timeout is not None:
            fields["timeout_ms"] = _ms(timeout)
        _ranges.read(self.ask, parse(name), ranges, rooms, fields)

    def open(
        self,
        name: Named,
        mode: str = "rb",
        *,
        force: bool = False,
        group: Optional[str] = None,
        timeout: Optional[float] = None,
        encoding: str = "utf-8",
        options: Options = Options(),
    ) -> Any:
        """A stored file to read ("rb", "r"), or a new one to write ("wb", "w"). The new one is seen
        when it is closed; an exception in its with-block discards it."""
        if mode in ("r", "rb"):
            reader = self.open_reader(name, options=options)
            return reader if mode == "rb" else io.TextIOWrapper(reader, encoding=encoding)
        if mode not in ("w", "wb"):
            raise ValueError(f"mode {mode!r}: a stored file is read, or written as a whole")
        writer = self.open_writer(name, force=force, group=group, timeout=timeout, options=options)
        return writer if mode == "wb" else stream.TextWriteStream(writer, encoding=encoding)

    def open_reader(self, name: Named, *, options: Options = Options()) -> stream.ReadStream:
        of = parse(name)
        entry = self.stat(of)
        if entry.is_dir:
            raise error(errno.EISDIR, f"{of} is a directory")
        return stream.ReadStream(stream.RawReader(self, of, entry, options.fields()))

    def open_writer(
        self,
        name: Named,
        *,
        force: bool = False,
        group: Optional[str] = None,
        timeout: Optional[float] = None,
        autocommit: bool = True,
        options: Options = Options(),
    ) -> stream.WriteStream:
        """autocommit False: close() brings all of it to the far end, and commit() names it."""
        fields = _put_fields(force, group, options)
        if timeout is not None:
            fields["timeout_ms"] = _ms(timeout)
        return stream.WriteStream(stream.RawWriter(self, parse(name), fields), autocommit)

    # ---- directories, by libfmove ----

    def put_tree(
        self,
        directory: Union[str, "os.PathLike[str]"],
        name: Named,
        *,
        force: bool = False,
        update: bool = False,
        delete: bool = False,
        group: Optional[str] = None,
        timeout: Optional[float] = None,
        progress: Optional[OnProgress] = None,
        options: Options = Options(),
    ) -> Result:
        """Sends a directory, published as a whole. update: what differs; delete: what is only there
        goes."""
        how = tree.How(force, update, delete, group, timeout, progress, options)
        return tree.put(self.socket, os.fspath(directory), parse(name), how)

    def get_tree(
        self,
        name: Named,
        directory: Union[str, "os.PathLike[str]"],
        *,
        force: bool = False,
        update: bool = False,
        delete: bool = False,
        timeout: Optional[float] = None,
        progress: Optional[OnProgress] = None,
        options: Options = Options(),
    ) -> Result:
        """Receives a directory, which is there as a whole or not at all."""
        how = tree.How(force, update, delete, None, timeout, progress, options)
        return tree.get(self.socket, parse(name), os.fspath(directory), how)

    def stage(
        self,
        name: Named,
        *,
        called: Optional[str] = None,
        pin: bool = False,
        live: bool = False,
        progress: Optional[OnProgress] = None,
    ) -> str:
        """The path of a copy on this node's disk, of this very content. It stays as long as this
        process lives, and pinned ones until they are unpinned. hf:ORG/NAME[@REVISION] is the
        snapshot of a repository in the hub cache of any node. called: else as the path's last
        part. live: also of a volume that another node has mounted read-write. What ends the waiting
        does not end the fetch."""
        is_hub = isinstance(name, str) and name.startswith(HUB)
        of = hub_fields(str(name)) if is_hub else parse(name).fields()
        fields: Dict[str, Any] = {**of, "pid": os.getpid()}
        if called is not None:
            fields["name"] = called
        if pin:
            fields["pin"] = True
        if live:
            fields["force"] = True
        if progress:
            fields["progress_ms"] = PROGRESS_MS
        request = self.ask("stage_hub" if is_hub else "stage", fields)
        request.silence_s = None
        return str(request.wait(_teller(progress))["path"])

    # ---- what is in a store ----

    def stat(
        self, name: Named, *, follow_symlinks: bool = True, timeout: Optional[float] = None
    ) -> Entry:
        of = parse(name)
        op = "stat" if follow_symlinks else "look"
        return entry_of(self.answer(op, of.fields(), timeout=timeout), of.last)

    def exists(self, name: Named) -> bool:
        try:
            self.stat(name)
            return True
        except (FileNotFoundError, NotADirectoryError):
            return False

    def ls(self, name: Named, *, timeout: Optional[float] = None) -> Iterator[Entry]:
        """The entries of a directory, in the order of their bytes."""
        fields = parse(name).fields()
        after: Any = ""
        told = 0
        while told < ENTRIES_MAX:
            done = self.answer("list", {**fields, "after": after}, timeout=timeout)
            entries = done.get("entries", [])
            yield from map(entry_of, entries)
            if not done.get("more") or not entries:
                return
            after = entries[-1]["name"]
            told += len(entries)
        raise error(errno.EPROTO, f"{name} has {told} names, it says, and more than those")

    def rm(self, name: Named, *, recursive: bool = False, timeout: Optional[float] = None) -> None:
        fields = parse(name).fields()
        if recursive:
            fields["recursive"] = True
            timeout = REMOVE_S if timeout is None else timeout
        self.answer("remove", fields, timeout=timeout)

    def mkdir(self, name: Named, *, timeout: Optional[float] = None) -> None:
        """Missing parents are made."""
        self.answer("mkdir", parse(name).fields(), timeout=timeout)

    def mv(
        self, name: Named, to: str, *, force: bool = False, timeout: Optional[float] = None
    ) -> None:
        """Another name, a path of the same store, by one rename."""
        self._name("move", parse(name), to, force, timeout)

    def ln(
        self, target: str, name: Named, *, force: bool = False, timeout: Optional[float] = None
    ) -> None:
        """A symbolic link that says target. force: it may replace another link."""
        self._name("link", parse(name), target, force, timeout)

    def _name(self, op: str, name: Name, to: str, force: bool, timeout: Optional[float]) -> None:
        fields: Dict[str, Any] = {**name.fields(), "to": to_json(to)}
        if force:
            fields["force"] = True
        self.answer(op, fields, timeout=timeout)

    def verify(self, name: Named) -> Verified:
        """Reads again what is stored, and compares it with the checksums that were kept."""
        findings: List[Finding] = []

        def on_event(event: Event) -> None:
            if event["event"] == "finding":
                findings.append(
                    Finding(
                        str(event.get("kind", "")),
                        from_json(event.get("path", "")),
                        int(event.get("offset", 0)),
                        int(event.get("length", 0)),
                    )
                )

        request = self.ask("verify", parse(name).fields())
        request.silence_s = None
        done = request.wait(on_event)
        return Verified(done["files"], done["bytes"], done["without"], tuple(findings))

    def group(
        self,
        name: Named,
        *,
        members: int = 0,
        expect: Iterable[str] = (),
        force: bool = False,
        expires: Optional[float] = None,
        timeout: float = COMMIT_S,
    ) -> Group:
        """Begins a group: what is put below name with its ID is seen at its commit."""
        made = Group(self, parse(name), new_id())
        return made.begin(
            members=members, expect=expect, force=force, expires=expires, timeout=timeout
        )

    # ---- nodes ----

    def ping(self) -> Event:
        return self.answer("ping", {})

    def status(self) -> Event:
        """The node's status, as fmove-api(7) describes it."""
        return self.answer("status", {})

    def stores(self, node: str) -> Iterator[Event]:
        """What each store of a node has room for, as fmove-api(7) describes it."""
        after = ""
        for _ in range(STORES_MAX):
            fields = {"node": node, "store": "", "path": "", "after": after}
            done = self.answer("space", fields)
            after = str(done.get("store", ""))
            if not after:
                return
            yield done
        raise error(errno.EPROTO, f"{node} tells of {STORES_MAX} stores, and of more")


def _ms(seconds: float) -> int:
    """0 would be without end."""
    return max(1, int(seconds * 1000))


def on_disk(options: Options, group: Optional[str]) -> Options:
    """Those of a put that a link is led to."""
    if group:
        raise error(errno.EINVAL, "latest is for what is seen: a group's commit takes it", exit=2)
    if options.durability == "memory":
        raise error(errno.EINVAL, "latest leads to what is on disk: not with memory", exit=2)
    return replace(options, durability="disk")


def _put_fields(force: bool, group: Optional[str], options: Options) -> Dict[str, Any]:
    fields = options.fields()
    if force:
        fields["force"] = True
    if group:
        fields["group"] = group
    return fields


def _teller(progress: Optional[OnProgress]) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        if progress and event["event"] == "progress":
            progress(progress_of(event))

    return on_event


@contextlib.contextmanager
def _opened(named: Union[int, str, "os.PathLike[str]", io.IOBase]) -> Iterator[io.FileIO]:
    """A descriptor for the daemon, of what a program names: a path, a descriptor, an open file.

    All of a regular file is sent, wherever the program stands in it, and it stands there meanwhile,
    too: so the file is opened once more, at its start. Whoever closes any descriptor of a file
    gives up the locks that his process has of it, so one of a file with a lock is closed later.
    """
    if isinstance(named, io.IOBase):
        named.flush()
        named = named.fileno()
    if not isinstance(named, int):
        file = _opened_at(os.fspath(named))
        try:
            yield file
        finally:
            _close_or_keep([file], if_unknown=False)
    elif not modes.S_ISREG(os.fstat(named).st_mode):
        yield io.FileIO(named, closefd=False)
    else:
        again = _opened_again(named)
        if again is not None:
            try:
                yield again
            finally:
                _close_or_keep([again])
        else:
            with _at_start(named) as itself:
                yield itself


def _opened_at(path: Union[str, bytes]) -> Owned:
    there = os.stat(path)
    kept = _take_kept()
    same = [file for file in kept if _is_of(file.fileno(), there)]
    same = [file for file in same if _access(file.fileno()) != os.O_WRONLY][:1]
    _close_or_keep([file for file in kept if file not in same])
    if same:
        os.lseek(same[0].fileno(), 0, os.SEEK_SET)
        return same[0]
    return _marked(Owned(path))


def _marked(file: Owned) -> Owned:
    file.mark()
    return file


def _access(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE


def _opened_again(fd: int) -> Optional[Owned]:
    """None: it is somebody else's, who opened it for us; or nobody can say when to close it."""
    access, there = _access(fd), os.fstat(fd)
    kept = _take_kept()
    same = [file for file in kept if _is_of(file.fileno(), there)]
    same = [file for file in same if _access(file.fileno()) == access][:1]
    _close_or_keep([file for file in kept if file not in same])
    try:
        _is_locked(fd)
        if same:
            os.lseek(same[0].fileno(), 0, os.SEEK_SET)
            return same[0]
        return _marked(owned(os.open, f"/proc/self/fd/{fd}", access | os.O_CLOEXEC))
    except OSError:
        _close_or_keep(same)
        return None


_kept: List[Owned] = []  # of files with a lock, each for the next put of that file or any other


def _close_inherited() -> None:
    """Parent and child would move one position. No child has locks yet that closing gives up."""
    while _kept:
        _kept.pop().close()


os.register_at_fork(after_in_child=_close_inherited)


def _take_kept() -> List[Owned]:
    """Without a lock, which a child process could find taken: another thread takes others."""
    taken: List[Owned] = []
    with contextlib.suppress(IndexError):
        while True:
            taken.append(_kept.pop())
    return [file for file in taken if file.is_there()]


def _is_of(kept: int, there: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(kept), there)
    except OSError:  # of its file system
        return False


def _close_or_keep(files: List[Owned], if_unknown: bool = True) -> None:
    for file in files:
        try:
            is_kept = _is_locked(file.fileno())
        except OSError:
            is_kept = if_unknown
        if is_kept:
            _kept.append(file)
        else:
            file.close()


@contextlib.contextmanager
def _at_start(fd: int) -> Iterator[io.FileIO]:
    """What the daemon does with position and flags is seen in it until it is sent: nobody may use it
    meanwhile."""
    stood, flags = os.lseek(fd, 0, os.SEEK_CUR), fcntl.fcntl(fd, fcntl.F_GETFL)
    os.lseek(fd, 0, os.SEEK_SET)
    try:
        yield io.FileIO(fd, closefd=False)
    finally:
        os.lseek(fd, stood, os.SEEK_SET)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def _is_locked(fd: int) -> bool:
    """By anybody, this process among them."""
    asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    told = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    return bool(struct.unpack(FLOCK, told)[0] != fcntl.F_UNLCK)


class _Part:
    """The target of a get, under another name until it is complete."""

    _is_closed = True  # it is not made yet

    def __init__(self, path: str, force: bool) -> None:
        self._path = path
        self._force = force
        if not force and os.path.lexists(path):
            raise error(errno.EEXIST, f"{path} exists; it is replaced only if asked for")
        directory = os.path.dirname(path) or "."
        self._dir = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name: Optional[str] = f".fmove.{secrets.token_hex(8)}.part"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self.fd = os.open(self._name, flags, 0o600, dir_fd=self._dir)
        except BaseException:
            os.close(self._dir)
            raise
        self._is_closed = False

    def publish(self, result: Result, is_durable: bool) -> None:
        """Mode and time are those of the source."""
        assert self._name is not None
        last = os.path.basename(self._path)
        os.fchmod(self.fd, modes.S_IMODE(result.mode) & 0o777)
        os.utime(self.fd, ns=(result.mtime_ns, result.mtime_ns))
        if is_durable:
            os.fsync(self.fd)
        if self._force:
            os.replace(self._name, last, src_dir_fd=self._dir, dst_dir_fd=self._dir)
            self._name = None
        else:
            os.link(self._name, last, src_dir_fd=self._dir, dst_dir_fd=self._dir)
        if is_durable:
            os.fsync(self._dir)

    def close(self) -> None:
        name, self._name = self._name, None
        if name is not None:
            os.unlink(name, dir_fd=self._dir)
        if not self._is_closed:
            self._is_closed = True
            os.close(self.fd)
            os.close(self._dir)

    def __del__(self) -> None:
        if not self._is_closed:  # a signal came before its maker had it
            self.close()


_connections: Dict[str, Connection] = {}


@atexit.register
def _close_all() -> None:
    for connection in list(_connections.values()):
        connection.close()
    for file in _kept:
        file.close()


def connect(socket: Optional[str] = None) -> Connection:
    """The connection of this process. socket: of another daemon than FMOVE_SOCKET says."""
    path = socket or os.environ.get("FMOVE_SOCKET") or SOCKET
    return _connections.get(path) or _connections.setdefault(path, Connection(path))
