# SPDX-License-Identifier: MIT
"""Storage for torch.distributed.checkpoint: all ranks put their files into one group, which is one
commit. Of torch 1.13 it is torch.distributed._shard.checkpoint."""

from __future__ import annotations

import dataclasses
import errno
import io
import math
import posixpath
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.futures import Future

from . import layout, metadata, ranges
from .connection import Connection, Named, connect
from .errors import FmoveError, error
from .group import Group, check_latest
from .image import sending
from .loader import Loader
from .names import Name, parse
from .results import TIMEOUT_S, Options, Rotated

try:
    from torch.distributed.checkpoint.planner import LoadItemType
    from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
except ImportError:  # before torch 2.0
    from torch.distributed._shard.checkpoint.planner import LoadItemType
    from torch.distributed._shard.checkpoint.storage import (
        StorageReader,
        StorageWriter,
        WriteResult,
    )

DISCARD_S = 60.0


class _Deadline:
    """Of all that one save or load asks for."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise error(errno.ETIMEDOUT, "the checkpoint took longer than it may")
        return left


class _Which(NamedTuple):
    """The save that a rank is in."""

    name: Optional[Name]  # None: that is left to the coordinator
    turn: int

    def check(self, rank: int, its: "_Which") -> None:
        """Ranks meet without saying for what: one may have left out what others began."""
        if its.name is not None and its != self:
            which = f"{its.name} in save {its.turn}, and the first rank {self.name} in {self.turn}"
            raise error(errno.ESTALE, f"rank {rank} saves {which}")


class _Share(NamedTuple):
    """What the coordinator tells a rank: names and IDs of groups, its file in each, which rank it
    is, and in which save."""

    groups: Tuple[Tuple[str, str], ...]
    file: str
    rank: int
    which: _Which


class FmoveWriter(StorageWriter):  # type: ignore[misc]
    """Saves to the directory `path`, NODE:STORE/PATH, which is seen when all ranks have written,
    as a whole; checkpoint_id= of a save names another one. replicas: further nodes, which have it
    below the same STORE/PATH: it is seen on all of them, or the save failed. latest, keep_last: as
    of Group.commit(). timeout: seconds of one save. A save that a rank cannot go on with is
    discarded by that rank; what no rank discards ends by itself soon after the timeout. ESTALE: a
    rank saves to another directory than the first one, so it may be in another save."""

    def __init__(
        self,
        path: Optional[Named] = None,
        *,
        force: bool = False,
        replicas: Sequence[str] = (),
        latest: Optional[str] = None,
        keep_last: int = 0,
        timeout: float = TIMEOUT_S,
        options: Options = Options(),
        connection: Optional[Connection] = None,
    ) -> None:
        super().__init__()
        check_latest(latest, keep_last)
        self._replicas = tuple(replicas)
        self.rotated = Rotated()  # of the last save, on the coordinator
        self.turn = 0  # which one this save is, of a caller who counts them alike on all ranks
        self._name = None if path is None else parse(path)
        self._force = force
        self._latest = latest
        self._keep_last = keep_last
        self._timeout = timeout
        self._options = options
        self._asked = connection
        self._deadline = _Deadline(timeout)
        self._groups: List[Group] = []  # that are open, one on each node
        self._files: List[str] = []

    @property
    def _connection(self) -> Connection:
        return self._asked or connect()  # so one without can be sent to another process

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return _is_name(checkpoint_id)

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id is not None:
            self._name = parse(str(checkpoint_id))

    def init(self, is_coordinator: bool) -> None:
        self.set_up_storage_writer(is_coordinator)

    def set_up_storage_writer(self, is_coordinator: bool) -> None:
        self.discard()
        self._deadline = _Deadline(self._timeout)

    @property
    def _which(self) -> _Which:
        return _Which(self._name, self.turn)

    def prepare_local_plan(self, plan: Any) -> Any:
        return dataclasses.replace(plan, storage_data=self._which)

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        if self._name is None:
            raise error(errno.EINVAL, "FmoveWriter has no path, and the save no checkpoint_id")
        if not all(getattr(plan, "usable", True) for plan in plans):
            # Ranks would go on with what the first save told them, its groups included.
            raise error(errno.ENOTSUP, "FmoveWriter saves with no planner that keeps its plans")
        for rank, plan in enumerate(plans):
            if isinstance(plan.storage_data, _Which):  # else the planner has made another plan
                self._which.check(rank, plan.storage_data)
        expires = self._timeout + DISCARD_S
        for node in (self._name.node, *self._replicas):
            name = self._name._replace(node=node)
            left = self._deadline.left()
            try:
                group = self._connection.group(
                    name, force=self._force, expires=expires, timeout=left
                )
            except BaseException:
                self.discard()
                raise
            self._groups.append(group)
        groups = tuple((str(group.name), group.id) for group in self._groups)
        files = [f"rank{i}.safetensors" for i in range(len(plans))]
        self._files = [file for file, plan in zip(files, plans) if plan.items]
        return [
            dataclasses.replace(plan, storage_data=_Share(groups, file, rank, self._which))
            for rank, (plan, file) in enumerate(zip(plans, files))
        ]

    def write_data(self, plan: Any, planner: Any) -> Any:
        share: _Share = plan.storage_data
        groups = [Group(self._connection, parse(name), id) for name, id in share.groups]
        done: Any = Future()
        try:
            share.which.check(share.rank, self._which)
            done.set_result(self._write(groups, share.file, plan.items, planner))
        except BaseException:
            self._groups = groups
            self.discard()
            raise
        return done

    def _write(
        self, groups: Sequence[Group], file: str, items: Sequence[Any], planner: Any
    ) -> List[Any]:
        if not items:
            return []
        made = layout.lay_out(items, planner)
        self._put(groups, file, made, planner)
        results = []
        for place in made.places:
            at = made.at(place)
            stored = metadata.Stored(file, at.start, at.stop - at.start)
            results.append(WriteResult(place.item.index, stored.length, stored))
        return results

    def _put(
        self, groups: Sequence[Group], file: str, made: layout.Layout, planner: Any
    ) -> None:
        with sending(made, planner) as image:
            if image is not None:
                with ThreadPoolExecutor(len(groups), "fmove put") as threads:
                    list(threads.map(lambda group: self._put_image(group, file, image), groups))
                return
        for group in groups:
            self._put_stream(group, file, made, planner)

    def _put_image(self, group: Group, file: str, image: Any) -> None:
        timeout, name = self._deadline.left(), group.name.below(file)
        image.put(self._connection, name, group.id, timeout, self._options)

    def _put_stream(self, group: Group, file: str, made: layout.Layout, planner: Any) -> None:
        timeout, name = self._deadline.left(), group.name.below(file)
        with self._connection.open_writer(
            name, group=group.id, timeout=timeout, options=self._options
        ) as out:
            out.write(made.head)
            for place in made.places:
                out.write(place.data)
                if not layout.is_bytes(place.item):
                    _write_tensor(out, place, planner.resolve_data(place.item))

    def finish(self, metadata: Any, results: List[List[Any]]) -> None:
        assert self._groups, "only the coordinator, who began the groups, finishes"
        try:
            self._finish(metadata, results)
        except BaseException:
            self.discard()
            raise

    def _finish(self, kept: Any, results: List[List[Any]]) -> None:
        kept.storage_data = {one.index: one.storage_data for of in results for one in of}
        data, expect = metadata.encode(kept), [*self._files, metadata.FILE]
        for group in self._groups:
            left = self._deadline.left()
            group.put(data, metadata.FILE, timeout=left, options=self._options)
        if self._latest is not None:
            for group in self._groups:
                group.check_link(self._latest, self._deadline.left())
        for group in self._groups if len(self._groups) > 1 else ():  # before one of them is seen
            group.check(expect=expect, timeout=self._deadline.left())
        for group in reversed(self._groups):
            group.commit(expect=expect, force=self._force, timeout=self._deadline.left())
        groups, self._groups = self._groups, []  # from here on nothing is discarded: it is saved
        if self._latest is not None:
            self._lead(groups, self._latest)

    def _lead(self, groups: Sequence[Group], latest: str) -> None:
        """When all nodes have it: no link leads to what another node may not have."""
        failure: Optional[FmoveError] = None
        for group in reversed(groups):
            try:
                self.rotated = group.lead(latest, self._keep_last)
            except FmoveError as why:
                failure = failure or why
        if failure is not None:
            raise failure

    def missing(self) -> str:
        """Of a save that goes on: what ranks have not put yet; empty if nothing, or it is not known
        here."""
        try:
            for group in self._groups if self._files else ():
                group.check(expect=self._files, timeout=DISCARD_S)
        except FmoveError as why:
            return str(why.strerror)
        return ""

    def discard(self) -> None:
        """A save that began and did not finish leaves nothing."""
        groups, self._groups = self._groups, []
        for group in groups:
            try:
                group.discard(timeout=DISCARD_S)
            except FmoveError:
                pass  # it ends by itself


def _write_tensor(out: Any, place: layout.Place, tensor: Any) -> None:
    whole = layout.contiguous(tensor)
    data = layout.bytes_of(whole)
    if len(data) != place.end - place.begin:
        raise error(errno.EIO, f"{place.item.index.fqn} is not what the planner said it is")
    out.write(data)


class FmoveReader(StorageReader):  # type: ignore[misc]
    """Loads from the directory `path`, or what a link of that name leads to when the load begins;
    checkpoint_id= of a load names another one. Each rank reads what it needs, by ranges. An object
    that is no tensor is a pickle: unless weights_only is False, one that would execute something is
    refused. ESTALE: ranks found a link that led to different checkpoints, or it was replaced
    meanwhile; what they have loaded is a mixture then, and they load again."""

    def __init__(
        self,
        path: Optional[Named] = None,
        *,
        weights_only: bool = True,
        timeout: float = TIMEOUT_S,
        options: Options = Options(),
        connection: Optional[Connection] = None,
    ) -> None:
        super().__init__()
        self._path = None if path is None else parse(path)
        self._weights_only = weights_only
        self._timeout = timeout
        self._options = options
        self._asked = connection
        self._deadline = _Deadline(timeout)
        self._name = Name("", "", "")  # of the directory itself
        self._mtime_ns = 0  # of its .metadata
        self._metadata: Any = None

    @property
    def _connection(self) -> Connection:
        return self._asked or connect()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return _is_name(checkpoint_id)

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id is not None:
            self._path = parse(str(checkpoint_id))

    def read_metadata(self) -> Any:
        """What it raises is raised by who uses the result: newer versions of torch look for another
        kind of checkpoint when this fails, and forget why."""
        try:
            return self._read_metadata()
        except FmoveError as why:
            return _Unread(why)

    def _read_metadata(self) -> Any:
        if self._path is None:
            raise error(errno.EINVAL, "FmoveReader has no path, and the load no checkpoint_id")
        self._deadline = _Deadline(self._timeout)
        self._name = self._directory(self._path)
        file = self._name.below(metadata.FILE)
        self._mtime_ns, size = self._version()
        if size > metadata.FILE_MAX:
            raise error(errno.EFBIG, f"{file} has {size} bytes")
        data = self._connection.read(file, timeout=self._deadline.left(), options=self._options)
        return metadata.decode(data)

    def _directory(self, path: Name) -> Name:
        entry = self._connection.stat(
            path, follow_symlinks=False, timeout=self._deadline.left()
        )
        if entry.leads_to is None:
            return path
        return path._replace(path=posixpath.normpath(path.beside(entry.leads_to).path))

    def _version(self) -> Tuple[int, int]:
        file = self._name.below(metadata.FILE)
        entry = self._connection.stat(file, timeout=self._deadline.left())
        return entry.mtime_ns, entry.size

    def init(self, metadata: Any, is_coordinator: bool) -> None:
        self.set_up_storage_reader(metadata, is_coordinator)

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool) -> None:
        if isinstance(metadata, _Unread):
            raise metadata.why
        self._metadata = metadata

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        which = (str(self._name), self._mtime_ns)
        return [dataclasses.replace(plan, storage_data=which) for plan in plans]

    def read_data(self, plan: Any, planner: Any) -> Any:
        name, mtime_ns = plan.storage_data
        if (name, mtime_ns) != (str(self._name), self._mtime_ns):
            raise error(errno.ESTALE, f"the first rank loads {name} and this one {self._name}")
        files: Dict[str, List[_Read]] = {}
        for item in plan.items:
            stored = self._metadata.storage_data[item.storage_index]
            files.setdefault(stored.file, []).append(self._read_of(item, stored))
        size = sum(read.size for reads in files.values() for read in reads)
        with Loader(self._connection, size, self._fields) as loader:
            for file, reads in files.items():
                reads.sort(key=lambda read: read.offset)
                self._read(loader, file, reads, planner)
        if self._version()[0] != self._mtime_ns:
            raise error(errno.ESTALE, f"{self._name} was replaced while it was loaded")
        done: Any = Future()
        done.set_result(None)
        return done

    def _read_of(self, item: Any, stored: metadata.Stored) -> "_Read":
        if item.type == LoadItemType.BYTE_IO:
            return _Read(item, stored.offset, stored.length, None, ())
        kept = self._metadata.state_dict_metadata[item.storage_index.fqn]
        sizes = next(c.sizes for c in kept.chunks if c.offsets == item.storage_index.offset)
        strides = layout.strides_of(sizes)
        width = metadata.width_of(kept.properties.dtype)
        first = sum(o * s for o, s in zip(item.storage_offsets, strides))
        last = sum((n - 1) * s for n, s in zip(item.lengths, strides))
        count = 0 if 0 in item.lengths else last + 1
        offset = stored.offset + (first * width if count else 0)
        return _Read(item, offset, count * width, kept.properties.dtype, strides)

    def _fields(self) -> Dict[str, Any]:
        left = self._deadline.left()
        return {**self._options.fields(), "timeout_ms": max(1, math.ceil(left * 1000))}

    def _read(self, loader: Loader, file: str, reads: Sequence["_Read"], planner: Any) -> None:
        targets: Dict[int, _Target] = {}

        def room_for(i: int) -> Any:
            targets[i] = reads[i].target(planner)
            return targets[i].room

        def on_read(i: int) -> None:
            read, target = reads[i], targets.pop(i)
            if read.dtype is None:
                planner.load_bytes(read.item, self._checked(read, target.data()))
            else:
                target.fill(read)
                planner.commit_tensor(read.item, target.tensor)

        wanted = [(read.offset, read.size) for read in reads]
        loader.read(self._name.below(file), wanted, room_for, on_read, ranges.Version())

    def _checked(self, read: "_Read", data: Any) -> io.BytesIO:
        """The default planner unpickles it with everything allowed."""
        stream = io.BytesIO(data)
        if self._weights_only:
            torch.load(stream, map_location="cpu", weights_only=True)
            stream.seek(0)
        return stream


class _Unread:
    """Metadata that could not be read."""

    def __init__(self, why: FmoveError) -> None:
        self.why = why

    def __getattr__(self, name: str) -> Any:
        raise self.why


class _Read(NamedTuple):
    """The bytes of the file from the first that is wanted to the last; of a tensor, with the
    strides in which they lie."""

    item: Any
    offset: int
    size: int
    dtype: Any
    strides: Tuple[int, ...]

    def target(self, planner: Any) -> "_Target":
        if self.dtype is None:
            return _Target(torch.empty(self.size, dtype=torch.uint8), None, None)
        tensor = planner.resolve_tensor(self.item).detach()
        if tensor.shape != self.item.lengths:
            raise error(errno.EINVAL, f"{self.item.dest_index.fqn} has another size here")
        is_dense = self.size == tensor.numel() * metadata.width_of(self.dtype)
        if is_dense and tensor.is_contiguous() and tensor.dtype == self.dtype:
            return _Target(layout.room_of(tensor), tensor, None)
        temporary = torch.empty(self.size // metadata.width_of(self.dtype), dtype=self.dtype)
        return _Target(layout.room_of(temporary), tensor, temporary)


class _Target(NamedTuple):
    """Where what is read comes: into the tensor itself, or to be copied there."""

    room: Any
    tensor: Any
    temporary: Any

    def data(self) -> bytes:
        return bytes(layout.bytes_of(self.room))

    def fill(self, read: _Read) -> None:
        if self.temporary is not None and self.tensor.numel():
            self.tensor.copy_(self.temporary.as_strided(self.tensor.shape, read.strides))


def _is_name(checkpoint_id: Any) -> bool:
    try:
        parse(str(checkpoint_id))
        return True
    except FmoveError:
        return False
