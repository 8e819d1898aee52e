# SPDX-License-Identifier: MIT
"""Descriptors that are closed when nobody has them any more, at whatever moment a signal raises.

Python runs the handler of a signal behind a call: a number that the call returned is lost then, and
stays open. Between the calls that `map` makes it runs none.
"""

from __future__ import annotations

import io
import itertools
import os
from typing import Any, Callable, Optional, Tuple


class Owned(io.FileIO):
    """One that closes what it opened, if that is known. A program may have closed its number and
    have another file by it: that stays open, also when this is destructed."""

    opened: Optional[os.stat_result] = None

    def is_there(self) -> bool:
        try:
            return self.opened is None or os.path.samestat(os.fstat(self.fileno()), self.opened)
        except OSError:
            return False

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
