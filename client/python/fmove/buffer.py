# SPDX-License-Identifier: MIT
"""Memory that goes to a peer from where it lies: pages that the daemon maps, too."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from .errors import FmoveError
from .owned import owned

if TYPE_CHECKING:
    from .connection import Connection

F_ADD_SEALS = 1033
F_SEAL_SHRINK, F_SEAL_GROW = 2, 4
SHOWN_MAX = 8  # so often it is shown to daemons that do not know it, within a put
R = TypeVar("R")


class Buffer:
    """A memory file of that many bytes, 1 or more, all of them there and mapped as `memory`.

    The daemon hears of it with the first put, and keeps it until close() or the end of the
    connection; over a new connection it is shown again. The pages last as long as anything refers
    to `memory`. Nobody may write to it during a put.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.RLock()  # a signal's handler may put it, too
        self._number: Optional[int] = None  # as the daemon calls it
        self._file = owned(os.memfd_create, "fmove buffer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(self._file.fileno(), 0, size)
            fcntl.fcntl(self._file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
            self.memory = mmap.mmap(self._file.fileno(), size)
        except BaseException:
            self._file.close()
            raise

    def use(self, connection: "Connection", request: Callable[[int], R]) -> R:
        """What request(number) returns. A daemon that does not know the number, since it was
        started again, is shown the buffer once more."""
        for _ in range(SHOWN_MAX - 1):
            number = self.number_at(connection)
            try:
                return request(number)
            except FmoveError as why:
                if why.errno != errno.EBADF:
                    raise
            with self._lock:
                if self._number == number:
                    self._number = None
        return request(self.number_at(connection))

    def number_at(self, connection: "Connection") -> int:
        """What the daemon calls it, which is shown it if it does not know it yet."""
        with self._lock:
            if self._number is None:
                shown = connection.ask("buffer", {"bytes": self.size}, [self._file.fileno()]).wait()
                number = int(shown["buffer"])
                if self._number is None:
                    self._number = number
                else:  # a signal's handler has shown it meanwhile
                    _give_back(connection, number)
            return self._number

    def close(self, connection: "Connection") -> None:
        """The daemon gives it back, unless it is gone and the buffer with it."""
        with self._lock:
            number, self._number = self._number, None
        self._file.close()
        if number is not None:
            _give_back(connection, number)


def _give_back(connection: "Connection", number: int) -> None:
    try:
        connection.answer("buffer_free", {"buffer": [number]})
    except FmoveError:
        pass
