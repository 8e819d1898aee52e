# SPDX-License-Identifier: MIT
"""Memory that the daemon and GPUs reach directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import torch

from .buffer import Buffer

if TYPE_CHECKING:
    from .connection import Connection


class Memory:
    """A buffer that is made once, by the size of what is first asked for, and kept."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._buffer: Optional[Buffer] = None
        self._room: Any = None
        self._is_tried = False
        self._is_pinned = False

    @property
    def buffer(self) -> Buffer:
        """What room() gave."""
        assert self._buffer is not None
        return self._buffer

    def room(self, size: int) -> Any:
        """A tensor of so many bytes or more. What it gave before is not to be used any more."""
        if self._buffer is None or self._buffer.size < size:
            self.close()
            self._buffer = Buffer(size)
            self._room = torch.frombuffer(self._buffer.memory, dtype=torch.uint8)
        return self._room

    def pin(self) -> None:
        """GPUs copy from and to it directly, if the machine lets them. Only who has a GPU's tensors
        calls this: it uses CUDA, which a process that was forked from one that does cannot."""
        if not self._is_tried:
            self._is_tried = True
            at, size = self._room.data_ptr(), self._room.numel()
            self._is_pinned = int(torch.cuda.cudart().cudaHostRegister(at, size, 0)) == 0

    def close(self) -> None:
        if self._is_pinned:
            torch.cuda.cudart().cudaHostUnregister(self._room.data_ptr())
        if self._buffer is not None:
            self._buffer.close(self._connection)
        self._buffer = self._room = None
        self._is_tried = self._is_pinned = False
