# SPDX-License-Identifier: MIT
"""Memory that the daemon and GPUs reach directly."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from .buffer import Buffer

if TYPE_CHECKING:
    from .connection import Connection


class Memory:
    """A buffer that is made once, by the size of what is first asked for, and kept."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._buffer: Optional[Buffer] = None
        self._pid = os.getpid()  # whose buffer it is
        self._lent: Callable[[], Any] = lambda: None  # what all tensors of the last room refer to
        self._is_tried = False
        self._pinned_at = 0  # its address; 0: it is not pinned

    @property
    def buffer(self) -> Buffer:
        """What room() gave."""
        assert self._buffer is not None
        return self._buffer

    @property
    def is_lent(self) -> bool:
        """A tensor of what room() gave last, or of a part of it, is still there."""
        return self._lent() is not None

    def room(self, size: int) -> Any:
        """A tensor of so many bytes or more. What it gave before is not to be used any more."""
        if self._pid != os.getpid():  # a child: its parent may be sending what is there
            self._buffer, self._is_tried, self._pinned_at = None, False, 0
            self._pid = os.getpid()
        if self._buffer is None or self._buffer.size < size:
            self.close()
            self._buffer = Buffer(size)
        lent = (ctypes.c_char * self._buffer.size).from_buffer(self._buffer.memory)
        self._lent = weakref.ref(lent)
        return torch.frombuffer(lent, dtype=torch.uint8)

    def pin(self) -> None:
        """GPUs copy from and to it directly, if the machine lets them. Only who has a GPU's tensors
        calls this: it uses CUDA, which a process that was forked from one that does cannot."""
        if not self._is_tried:
            self._is_tried = True
            at = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer.memory))
            if int(torch.cuda.cudart().cudaHostRegister(at, self.buffer.size, 0)) == 0:
                self._pinned_at = at
            else:
                _take_error()

    def _unpin(self) -> None:
        """CUDA would take the next memory at this address for this one."""
        at, self._pinned_at = self._pinned_at, 0
        if at and self._pid == os.getpid():
            torch.cuda.cudart().cudaHostUnregister(at)

    def close(self) -> None:
        self._unpin()
        if self._buffer is not None and self._pid == os.getpid():
            self._buffer.close(self._connection)
        self._buffer = None
        self._is_tried = False

    def __del__(self) -> None:
        try:
            self._unpin()  # whoever had it forgot to close it
        except Exception:
            pass  # the interpreter ends


def _take_error() -> None:
    """What CUDA refused, whoever uses the GPU next would be told of."""
    try:
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    except RuntimeError:
        pass
