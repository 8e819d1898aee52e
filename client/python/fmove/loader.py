# SPDX-License-Identifier: MIT
"""Ranges of stored files, read into tensors: several requests at once, each into its own part of
memory that the daemon fills and a GPU reads directly."""

from __future__ import annotations

from collections import deque
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Deque,
    Dict,
    List,
    Optional,
    Sequence,
    Tuple,
)

import torch

from . import ranges
from .errors import FmoveError
from .memory import Memory
from .names import Name
from .results import Result

if TYPE_CHECKING:
    from .connection import Connection

SLOTS = 8  # requests at once, at most
SLOT = 32 << 20  # bytes of one, at most


class Loader:
    """Of one load. Where the daemon has no room for a buffer, files in memory take its place."""

    def __init__(
        self, connection: "Connection", size: int, fields: Callable[[], Dict[str, Any]]
    ) -> None:
        """size: bytes of the load. fields(): what a request has beside its name and ranges."""
        self._connection = connection
        self._size = max(1, min(size, SLOT))  # of a slot
        self._count = min(SLOTS, -(-max(1, size) // self._size))
        self._fields = fields
        self._memory = Memory(connection)
        self._number: Optional[int] = None  # of the buffer, as the daemon calls it
        self._slots: List[Any] = []
        self._events: Dict[int, Dict[Any, Any]] = {}  # of slots that GPUs may still read

    def __enter__(self) -> "Loader":
        room = self._memory.room(self._count * self._size)
        try:
            self._number = self._memory.buffer.number_at(self._connection)
        except FmoveError as why:
            if not why.is_full:
                self._memory.close()
                raise
        except BaseException:
            self._memory.close()
            raise
        self._slots = list(room.split(self._size))
        return self

    def __exit__(self, *_: object) -> None:
        for slot in list(self._events):
            self._settle(slot)
        self._slots = []
        self._memory.close()

    def read(
        self,
        name: Name,
        wanted: Sequence[ranges.Range],
        room_for: Callable[[int], Any],
        on_read: Callable[[int], None],
        version: ranges.Version,
    ) -> None:
        """Range i comes into room_for(i), a tensor of as many bytes on any device, which is asked
        for when its first bytes are here. on_read(i): it has them all, or a GPU's stream will see
        to it. One range comes behind the other. All are of that version of the file, or of one.
        """
        rooms: Dict[int, Any] = {}
        free = deque(range(self._count))
        flights: Deque[Tuple[int, List[ranges.Piece], Any]] = deque()

        def land() -> None:
            slot, pieces, request = flights[0]
            version.check(request.wait())
            flights.popleft()
            at = 0
            for piece in pieces:
                if piece.at == 0:
                    rooms[piece.of] = room_for(piece.of)
                room = rooms[piece.of][piece.at : piece.at + piece.length]
                self._copy(room, slot, at)
                at += piece.length
                if piece.at + piece.length == wanted[piece.of][1]:
                    del rooms[piece.of]
                    on_read(piece.of)
            free.append(slot)

        try:
            for pieces in ranges.requests_of(wanted, self._size):
                if not free:
                    land()
                slot = free.popleft()
                flights.append((slot, pieces, self._ask(name, pieces, slot)))
            while flights:
                land()
        finally:
            for _, _, request in flights:
                request.stop()

    def _ask(self, name: Name, pieces: Sequence[ranges.Piece], slot: int) -> Any:
        self._settle(slot)
        wanted = [(piece.offset, piece.length) for piece in pieces]
        at, size = slot * self._size, sum(piece.length for piece in pieces)
        ask, more = self._connection.ask, self._fields()
        if self._number is None:
            into = memoryview(self._memory.buffer.memory)[at : at + size]
            return _Copied(ask, name, wanted, more, into)
        return ranges.Into(ask, name, wanted, more, [self._number, at, size])

    def _settle(self, slot: int) -> None:
        for event in self._events.pop(slot, {}).values():
            event.synchronize()

    def _copy(self, room: Any, slot: int, at: int) -> None:
        """Fills it with what the slot has there."""
        if room.is_cuda:
            self._memory.pin()
        room.copy_(self._slots[slot][at : at + room.numel()], non_blocking=True)
        if room.is_cuda:
            event = torch.cuda.current_stream(room.device).record_event()
            self._events.setdefault(slot, {})[room.device] = event


class _Copied(ranges.Fetch):
    """The bytes come into a file in memory first."""

    def __init__(
        self,
        ask: ranges.Ask,
        name: Name,
        wanted: Sequence[ranges.Range],
        more: Dict[str, Any],
        into: memoryview,
    ) -> None:
        super().__init__(ask, name, wanted, more)
        self._into = into

    def wait(self) -> Result:
        result = super().wait()
        ranges.copy(self.fd, 0, self._into)
        self.close()
        return result
