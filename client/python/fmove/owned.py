# SPDX-License-Identifier: MIT
"""Descriptors that are closed when nobody has them any more, at whatever moment a signal raises.

Python runs the handler of a signal behind a call: a number that the call returned is lost then, and
stays open. Between the calls that `map` makes it runs none.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import itertools
import os
import signal
from typing import Any, Callable, Tuple


class Owned(io.FileIO):
    """One that closes what it opened, if that is marked. A program may have closed its number and
    have another file by it, or the same one again: that stays open, also when this is destructed.

    A signal to be sent when it can be read or written, and nobody to get it: that does nothing, and
    nobody else asks for it. It belongs to what was opened, and no file system is asked for it."""

    _is_marked = False

    def mark(self) -> None:
        with contextlib.suppress(OSError):  # it is closed as any other file then
            fcntl.fcntl(self.fileno(), fcntl.F_SETSIG, signal.SIGRTMAX)
            self._is_marked = True

    def is_there(self) -> bool:
        if not self._is_marked:
            return True
        try:
            told = [fcntl.fcntl(self.fileno(), ask) for ask in (fcntl.F_GETSIG, fcntl.F_GETOWN)]
        except OSError:  # EBADF
            return False
        return told == [signal.SIGRTMAX, 0]

    def close(self) -> None:
        if self.closed or self.is_there():
            super().close()


def owned(make: Callable[..., int], *arguments: Any) -> Owned:
    """The descriptor that make(*arguments) returns, not of a directory."""
    made = map(make, *((argument,) for argument in arguments))
    return next(map(Owned, made, ("r+b",)))


def pipe() -> Tuple[io.FileIO, io.FileIO]:
    """Its end to read from, and the one to write to."""
    made = itertools.chain.from_iterable(map(os.pipe2, (os.O_CLOEXEC,)))
    reader, writer = map(io.FileIO, made, ("rb", "wb"))
    return reader, writer


def memory_file(name: str) -> io.FileIO:
    return owned(os.memfd_create, name, os.MFD_CLOEXEC)
