# SPDX-License-Identifier: MIT
"""fsspec's view of stores: fmove://NODE/STORE/PATH."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from fsspec.callbacks import NoOpCallback
from fsspec.compression import compr
from fsspec.core import OpenFile, get_compression
from fsspec.spec import AbstractFileSystem
from fsspec.transaction import Transaction
from fsspec.utils import stringify_path

from . import moving
from .connection import Connection, connect
from .errors import FmoveError, error
from .group import Group
from .names import SCHEME, Name, parse
from .results import Entry, Progress, Result
from .stream import CompressedStream, ReadStream, TextWriteStream, WriteStream

_NO_CALLBACK = NoOpCallback()
MAGIC = "*?["
TEXT = ("encoding", "errors", "newline")
GONE = (FileNotFoundError, NotADirectoryError)


class FmoveFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """socket: of another daemon than FMOVE_SOCKET says. Files are replaced as a whole."""

    protocol = "fmove"
    root_marker = ""

    _transaction: "Optional[GroupTransaction]"

    def __init__(self, socket: Optional[str] = None, **options: Any) -> None:
        super().__init__(socket=socket, **options)
        self.connection = connect(socket)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """NODE/STORE/PATH."""
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        text = stringify_path(path)
        if text.startswith(SCHEME):
            text = text[len(SCHEME) :]
        return text.strip("/")

    def _name(self, path: str) -> Name:
        return parse(SCHEME + self._strip_protocol(path))

    # ---- looking ----

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> List[Any]:
        path = self._strip_protocol(path)
        infos = None if refresh else self.dircache.get(path)
        if infos is None:
            infos = self._list(path)
        return list(infos) if detail else sorted(info["name"] for info in infos)

    def _list(self, path: str) -> List[Dict[str, Any]]:
        infos = []
        if not path:
            status = self.connection.status()
            nodes = [status["node"]] + [peer["name"] for peer in status["peers"]]
            infos = [_directory(node) for node in nodes]
        elif "/" not in path:
            infos = [_directory(f"{path}/{s['store']}") for s in self.connection.stores(path)]
        else:
            name = self._name(path)
            entry = self.connection.stat(name)
            if not entry.is_dir:
                return [_info(path, entry)]
            infos = [_info(f"{path}/{e.name}", e) for e in self.connection.ls(name)]
        self.dircache[path] = infos
        return infos

    def info(self, path: str, **_: Any) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        if path.count("/") > 1:
            return _info(path, self.connection.stat(self._name(path)))
        parent = self._parent(path)
        if path and path not in self.ls(parent, detail=False):
            raise error(errno.ENOENT, f"there is no {path}")
        return _directory(path)

    def walk(
        self,
        path: str,
        maxdepth: Optional[int] = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **kwargs: Any,
    ) -> Iterator[Tuple[str, Any, Any]]:
        """What cannot be listed is an error, and not an empty directory: fsspec leaves out whatever
        fails. What is gone is left out, or as on_error says."""
        path = self._strip_protocol(path)
        detail = kwargs.pop("detail", False)
        try:
            listing = self.ls(path, detail=True, **kwargs)
        except OSError as why:
            if callable(on_error):
                on_error(why)
            elif on_error == "raise" or not isinstance(why, GONE):
                raise
            return
        below: Dict[str, str] = {}
        dirs: Any = {}
        files: Any = {}
        for info in listing:
            name = _last(info["name"])
            if info["name"] == path:
                files[""] = info  # path is a file
            elif info["type"] == "directory":
                dirs[name] = info
                below[name] = info["name"]
            else:
                files[name] = info
        if not detail:
            dirs, files = list(dirs), list(files)
        if topdown:
            yield path, dirs, files
        if maxdepth is None or maxdepth > 1:
            depth = None if maxdepth is None else maxdepth - 1
            for name in list(dirs):  # without what the caller took out
                yield from self.walk(
                    below[name], depth, topdown, on_error, detail=detail, **kwargs
                )
        if not topdown:
            yield path, dirs, files

    def expand_path(
        self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any
    ) -> List[str]:
        """What is copied, got or removed with all that is in it is listed anew."""
        if recursive:
            self.dircache.clear()
        expanded: List[str] = super().expand_path(path, recursive, maxdepth, **kwargs)
        return expanded

    def _is_there_as_dir(self, path: str) -> bool:
        """isdir() takes what cannot be asked for none."""
        try:
            return bool(self.info(path)["type"] == "directory")
        except GONE:
            return False

    def _is_dir(self, path: str) -> bool:
        """Of what is copied. EISDIR: a link to a directory that was met in a listing, which is not
        followed: an empty directory would stand for it."""
        if not self.isdir(path):
            return False
        path = self._strip_protocol(path)
        if path.count("/") > 1 and path not in self.dircache:  # what was named itself was listed
            if self.connection.stat(self._name(path), follow_symlinks=False).leads_to is not None:
                raise error(errno.EISDIR, f"{path} is a link to a directory, which is not followed")
        return True

    def exists(self, path: str, **_: Any) -> bool:
        """What cannot be asked is an error, and not missing."""
        try:
            self.info(path)
            return True
        except GONE:
            return False

    def modified(self, path: str) -> Any:
        import datetime

        seconds = self.info(path)["mtime"]
        return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        if path is None:
            self.dircache.clear()
        else:
            path = self._strip_protocol(path)
            while path:
                self.dircache.pop(path, None)
                path = self._parent(path)
        super().invalidate_cache(path)

    @classmethod
    def _parent(cls, path: str) -> str:
        return str(cls._strip_protocol(path)).rpartition("/")[0]

    # ---- changing ----

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        if self.exists(path):
            raise error(errno.EEXIST, f"{path} exists")
        if not create_parents and not self.exists(self._parent(path)):
            raise error(errno.ENOENT, f"{self._parent(path)} is not there")
        self.connection.mkdir(self._name(path))
        self.invalidate_cache(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if not exist_ok or not self.isdir(path):
            self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """There is no request that refuses one that is not empty: what is put into it between the
        look and the removal goes with it. So does a stream that is being written; a
        file that is being put is seen."""
        if not self.isdir(path):
            raise error(errno.ENOTDIR, f"{path} is not a directory")
        moving.refuse_full(self.connection, self._name(path))
        self._remove([self._name(path)])

    def _rm(self, path: str) -> None:
        self.connection.rm(self._name(path))
        self.invalidate_cache(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """What a pattern matches goes as a whole with recursive=True, and a link goes alone: fsspec
        would look below each match, and so find what links lead to."""
        if recursive and maxdepth is not None:
            raise error(errno.ENOTSUP, "all of a directory is removed, or nothing: no maxdepth")
        for one in [path] if isinstance(path, str) else path:
            if not recursive:
                super().rm(one)
            elif any(c in one for c in MAGIC):
                self.dircache.clear()
                matches = moving.outermost([self._name(match) for match in self.expand_path(one)])
                self._remove(matches, is_gone_right=True)
            else:
                self._remove([self._name(one)])

    def _remove(self, names: Sequence[Name], is_gone_right: bool = False) -> None:
        """With what is in them. is_gone_right: somebody else may have removed one meanwhile."""
        try:
            for name in names:
                try:
                    self.connection.rm(name, recursive=True)
                except FileNotFoundError:
                    if not is_gone_right:
                        raise
        finally:
            self.dircache.clear()

    def mv(
        self,
        path1: str,
        path2: str,
        recursive: bool = False,
        maxdepth: Optional[int] = None,
        **_: Any,
    ) -> None:
        """In one store by one rename. Between two by a copy through this machine and the removal of
        what was copied; a directory with recursive=True, links as links. What a pattern matches has
        in path2 the path that it has below what all matches are in, as copy() has it."""
        old, new = self._name(path1), self._name(path2)
        try:
            if old[:2] == new[:2]:
                self.connection.mv(old, self._becomes(path1, path2).path, force=True)
                return
            if maxdepth is not None:
                raise error(errno.ENOTSUP, "between stores all of a directory is moved, or nothing")
            if self._intrans:
                raise error(errno.ENOTSUP, "between stores: the source would go before the end")
            if any(c in path1 for c in MAGIC) and not self.exists(path1):
                self.dircache.clear()
                matches = [self._name(one) for one in self.expand_path(path1)]
                moving.move(self.connection, moving.below_one(matches, new), recursive)
                return
            moving.move(self.connection, [(old, self._becomes(path1, path2))], recursive)
        finally:
            self.dircache.clear()

    def _becomes(self, path1: str, path2: str) -> Name:
        """Of one that is moved: into a directory that is there, or that path2 calls one, and a link
        to one is not replaced. With / behind path1 a directory takes that very name."""
        old, new = self._name(path1), self._name(path2)
        if not path2.endswith("/") and not self._is_there_as_dir(path2):
            return new
        if path1.endswith("/") and self.connection.stat(old, follow_symlinks=False).is_dir:
            return new
        return new.below(old.last)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Through this machine."""
        if self._is_dir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)

    # ---- content ----

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        cache_options: Any = None,
        compression: Optional[str] = None,
        **options: Any,
    ) -> Any:
        """As fsspec's, but what it puts before the stream, for text and compression, closes that
        behind it, and discards it after an exception. A transaction has the stream itself."""
        if "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        text = {} if "b" in mode else {k: options.pop(k) for k in TEXT if k in options}
        codec = get_compression(self._strip_protocol(path), compression)
        binary = mode.replace("b", "").replace("t", "") + "b"
        stream = super().open(path, binary, block_size, cache_options, **options)
        try:
            file: Any = stream
            if codec is not None:
                file = CompressedStream(compr[codec](stream, mode="w"), stream)
            return file if "b" in mode else TextWriteStream(file, **text)
        except BaseException:
            stream.discard()
            raise

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, **_: Any
    ) -> Union[ReadStream, WriteStream]:
        name = self._name(path)
        if mode == "rb":
            return self.connection.open_reader(name)
        if mode not in ("wb", "xb"):
            raise NotImplementedError(f"mode {mode!r}: a file is read, or written as a whole")
        self.invalidate_cache(path)
        force = mode == "wb"
        if not force and self.exists(path):  # the end of the put refuses it, too
            raise error(errno.EEXIST, f"{path} exists")
        if autocommit:
            stream = self.connection.open_writer(name, force=force)
        else:
            stream = self.transaction.open(name, force)
        stream.is_given_up = _ended_by_exception
        return stream

    def cat_file(
        self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any
    ) -> bytes:
        if start is None and end is None:
            return self.connection.read(self._name(path))
        return self._read_ranges(path, [(start, end)])[0]

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: Any = None,
        on_error: str = "return",
        **_: Any,
    ) -> List[Any]:
        """The ranges of each file by one request; on_error "raise", or "return" in their place."""
        starts = starts if isinstance(starts, (list, tuple)) else [starts] * len(paths)
        ends = ends if isinstance(ends, (list, tuple)) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("paths, starts and ends differ in length")
        of: Dict[str, List[int]] = {}
        for i, path in enumerate(paths):
            of.setdefault(path, []).append(i)
        found: List[Any] = [None] * len(paths)
        for path, places in of.items():
            try:
                parts: List[Any] = self._read_ranges(path, [(starts[i], ends[i]) for i in places])
            except FmoveError as why:
                if on_error == "raise":
                    raise
                parts = [why] * len(places)
            for i, part in zip(places, parts):
                found[i] = part
        return found

    def _read_ranges(
        self, path: str, slices: Sequence[Tuple[Optional[int], Optional[int]]]
    ) -> List[bytes]:
        """As Python's slices, which are cut at the end of the file."""
        name = self._name(path)
        plain = [(s, e - s) for s, e in slices if s is not None and e is not None and 0 <= s <= e]
        if len(plain) == len(slices):
            try:
                return self.connection.read_ranges(name, plain)
            except FmoveError as why:
                if why.errno != errno.EINVAL:
                    raise
        size = self.connection.stat(name).size
        cut = [slice(start, end).indices(size) for start, end in slices]
        return self.connection.read_ranges(name, [(s, max(0, e - s)) for s, e, _ in cut])

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        force = mode != "create"
        if self._intrans:
            with self.open(path, "wb" if force else "xb") as file:
                file.write(value)
        else:
            self.connection.put(value, self._name(path), force=force)
            self.invalidate_cache(path)

    def put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Any = _NO_CALLBACK,
        mode: str = "overwrite",
        **_: Any,
    ) -> None:
        force = mode != "create"
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
        elif self._intrans:
            mode = "wb" if force else "xb"
            with open(lpath, "rb") as source, self.open(rpath, mode) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        else:
            told = _Told(callback)
            told.end(
                self.connection.put(
                    os.fspath(lpath), self._name(rpath), force=force, progress=told.progress
                )
            )
            self.invalidate_cache(rpath)

    def get_file(
        self, rpath: str, lpath: Any, callback: Any = _NO_CALLBACK, outfile: Any = None, **_: Any
    ) -> None:
        if outfile is not None:
            with self.open(rpath, "rb") as source:
                shutil.copyfileobj(source, outfile, 1 << 20)
        elif self._is_dir(rpath):
            os.makedirs(lpath, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
            told = _Told(callback)
            told.end(
                self.connection.get(self._name(rpath), lpath, force=True, progress=told.progress)
            )

    # ---- transactions ----

    @property
    def transaction(self) -> "GroupTransaction":
        if self._transaction is None:
            self._transaction = GroupTransaction(self)
        return self._transaction

    def start_transaction(self) -> "GroupTransaction":
        self._transaction = GroupTransaction(self)
        self._transaction.start()
        return self.transaction

    def end_transaction(self) -> None:
        self.transaction.complete()


class GroupTransaction(Transaction):  # type: ignore[misc]
    """What is written in it is seen at its end, or never.

    A directory that it makes is a group: it is seen at once and whole. Files of directories that
    are there wait at the far end, all of them, before the first gets its name.
    """

    def __init__(self, fs: FmoveFileSystem, **kwargs: Any) -> None:
        super().__init__(fs, **kwargs)
        self._groups: List[Group] = []

    def start(self) -> None:
        super().start()
        self.files: List[WriteStream] = []

    def open(self, name: Name, force: bool) -> WriteStream:
        connection: Connection = self.fs.connection
        group = self._group_of(name)
        if group is None:
            return connection.open_writer(name, force=force, autocommit=False)
        return connection.open_writer(name, force=force, group=group.id)

    def _group_of(self, name: Name) -> Optional[Group]:
        for group in self._groups:
            if name.is_below(group.name):
                return group
        missing = None
        above = name.above()
        while above.path and not self.fs.connection.exists(above):
            missing, above = above, above.above()
        if missing is not None:
            self._groups.append(self.fs.connection.group(missing))
            return self._groups[-1]
        return None

    def complete(self, commit: bool = True) -> None:
        fs = self.fs
        try:
            if commit:
                self._commit()
            else:
                self._discard()
        except BaseException:
            self._discard()
            raise
        finally:
            self.files, self._groups = [], []
            fs._intrans = False
            fs._transaction = None
            fs.dircache.clear()

    def _commit(self) -> None:
        for file in self.files:
            file.finish()
        written = [file.name for file in self.files]
        for group in list(self._groups):
            below = [n.below_of(group.name) for n in written if n.is_below(group.name)]
            group.commit(members=len({path.split("/")[0] for path in below}))
            self._groups.remove(group)
        for file in self.files:
            file.commit()

    def _discard(self) -> None:
        for file in self.files:
            file.discard()
        for group in self._groups:
            try:
                group.discard()
            except FmoveError:
                pass  # it ends by itself


def _ended_by_exception(stream: WriteStream) -> bool:
    """Who closes it is the with-block of fsspec.open(), which closes its file whatever ended it.
    Only its own arguments tell: an exception that is being handled may have nothing to do with the
    file, or be the reason to save what there is."""
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        block = frame.f_locals.get("self") if frame.f_code.co_name == "__exit__" else None
        if isinstance(block, OpenFile) and stream in block.fobjects:
            return bool(frame.f_locals.get("args", (None,))[0] is not None)
        frame = frame.f_back
    return False


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _directory(path: str) -> Dict[str, Any]:
    return {"name": path, "size": 0, "type": "directory"}


def _info(path: str, entry: Entry) -> Dict[str, Any]:
    return {
        "name": path,
        "size": entry.size,
        "type": entry.type,
        "mode": entry.mode,
        "mtime": entry.mtime_ns / 1e9,
        "mtime_ns": entry.mtime_ns,
        "islink": entry.type == "link",
    }


class _Told:
    """fsspec's callback, which is told of progress and of the end."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback
        self.progress = None if isinstance(callback, NoOpCallback) else self._progress

    def _progress(self, p: Progress) -> None:
        if p.size is not None:
            self._callback.set_size(p.size)
        self._callback.absolute_update(p.bytes)

    def end(self, result: Result) -> None:
        self._progress(Progress("done", result.bytes, result.bytes, ""))
