# SPDX-License-Identifier: MIT
"""A rank's file of a checkpoint in memory that is kept, from where it is put without a copy."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional, Set, Tuple

import torch

from . import layout
from .connection import Connection
from .errors import FmoveError
from .link import listed
from .memory import Memory
from .names import Name
from .results import Options

PIECE = 16 << 20


class Image:
    """It lies where the buffer does, whatever becomes of the tensors that show it."""

    def __init__(self, made: layout.Layout, memory: Memory) -> None:
        self._made = made
        self._at = _places_of(made)
        self._memory = memory
        self._room = memory.room(made.size)
        self._buffer = memory.buffer
        self._address = self._room.data_ptr()
        self._pid = os.getpid()
        self.is_sent = threading.Lock()  # held by who sends it

    @property
    def is_here(self) -> bool:
        """It is this process's, and not its parent's, who may be sending it."""
        return self._pid == os.getpid()

    def tensor(self, place: layout.Place) -> Any:
        """The memory of a tensor of it, as one."""
        dtype = layout.DTYPES[place.dtype]
        shape = tuple(place.item.tensor_data.chunk.sizes)
        return self._room[self._at[place.item.index]].view(dtype).view(shape)

    def leave(self) -> None:
        """The memory is lent to those alone who have its tensors. No more of them are asked for."""
        self._room = None

    def fill(self, planner: Any) -> None:
        """With the tensors that the planner has. What GPUs have to copy is copied when this
        returns."""
        devices: Set[Any] = set()
        try:
            for place in self._made.places:
                if not layout.is_bytes(place.item) and place.begin < place.end:
                    self._copy(planner.resolve_data(place.item).detach(), place, devices)
        finally:  # what is under way would come later, to whatever is there then
            for device in devices:
                torch.cuda.current_stream(device).synchronize()

    def _copy(self, tensor: Any, place: layout.Place, devices: Set[Any]) -> None:
        # A copy that is under way would come over what is conjugated here.
        plain = tensor.resolve_conj().resolve_neg()
        if plain.is_cuda:
            devices.add(plain.device)
            self._memory.pin()
        self.tensor(place).copy_(plain, non_blocking=plain.is_cuda)

    def is_of(self, made: layout.Layout, planner: Any) -> bool:
        """It is the file of a plan: whose tensors are those of this memory, each at its place."""
        places = [p for p in made.places if not layout.is_bytes(p.item) and p.begin < p.end]
        return bool(places) and _places_of(made) == self._at and all(
            self._has(planner.resolve_data(place.item), place) for place in places
        )

    def _has(self, tensor: Any, place: layout.Place) -> bool:
        """What is at the place is what the file has there, byte by byte."""
        return bool(
            tensor.is_cpu
            and tensor.data_ptr() == self._address + self._at[place.item.index].start
            and layout.contiguous(tensor).data_ptr() == tensor.data_ptr()
        )

    def become(self, made: layout.Layout) -> bool:
        """The file of a plan that has the same items or fewer, in the same order: what other ranks
        write is left out, and what follows it moves up. False: it is another plan, and nothing was
        changed. What tensor() gave before is not to be used any more."""
        moves = list(self._moves(made))
        if len(moves) < len(made.places):
            return False
        for begin, to, size in moves:
            if begin != to:
                ctypes.memmove(self._address + to, self._address + begin, size)
        self._made, self._at = made, _places_of(made)
        return True

    def _moves(self, made: layout.Layout) -> Iterator[Tuple[int, int, int]]:
        """From where to where, and bytes, of each item in turn, up to one that is not here, or
        would move over what follows it."""
        last = 0
        for place in made.places:
            old, new = self._at.get(place.item.index), made.at(place)
            if old is None or old.start < max(new.start, last):
                return
            if old.stop - old.start != new.stop - new.start:
                return
            last = old.stop
            yield old.start, new.start, new.stop - new.start

    def finish(self) -> None:
        """What is no tensor comes to its place."""
        self._write(0, self._made.head)
        for place in self._made.places:
            if place.data:
                self._write(self._made.at(place).start, place.data)

    def _write(self, at: int, data: bytes) -> None:
        ctypes.memmove(self._address + at, data, len(data))

    def put(
        self, connection: Connection, name: Name, group: str, timeout: float, options: Options
    ) -> None:
        size = self._made.size
        try:
            connection.put_buffer(
                self._buffer, size, name, group=group, timeout=timeout, options=options
            )
        except FmoveError as why:
            if not why.is_full:
                raise
            self._stream(connection, name, group, timeout, options)

    def _stream(
        self, connection: Connection, name: Name, group: str, timeout: float, options: Options
    ) -> None:
        """The daemon has no room for another buffer."""
        data = memoryview(self._buffer.memory)[: self._made.size]
        with connection.open_writer(name, group=group, timeout=timeout, options=options) as out:
            for at in range(0, len(data), PIECE):
                out.write(data[at : at + PIECE])


def _places_of(made: layout.Layout) -> Dict[Any, slice]:
    return {place.item.index: made.at(place) for place in made.places}


_remembered: "weakref.WeakSet[Image]" = weakref.WeakSet()
_remembering = threading.RLock()  # a signal's handler may save, too


def _forget() -> None:
    """Both processes show the same memory: a child sends none of it from where it lies."""
    global _remembered, _remembering
    _remembered, _remembering = weakref.WeakSet(), threading.RLock()


os.register_at_fork(after_in_child=_forget)


def remember(image: Image) -> None:
    """sending() finds it, for as long as somebody has it."""
    with _remembering:
        _remembered.add(image)


def _find(made: layout.Layout, planner: Any) -> Optional[Image]:
    image = getattr(planner, "image", None)
    if isinstance(image, Image):  # of a Saver
        return image if image.is_here else None
    with _remembering:
        images = listed(_remembered)
    return next((image for image in images if image.is_of(made, planner)), None)


@contextmanager
def sending(made: layout.Layout, planner: Any) -> Iterator[Optional[Image]]:
    """That which is the file of a plan, whole; it stays so. None: there is none, or somebody else is
    sending it, and the planner has to be asked for its parts."""
    image = _find(made, planner)
    if image is None or not image.is_sent.acquire(blocking=False):
        yield None
        return
    try:
        if image.become(made):
            image.finish()
            yield image
        else:
            yield None
    finally:
        image.is_sent.release()
