# SPDX-License-Identifier: MIT
"""Descriptors that are closed when nobody has them any more, at whatever moment a signal raises.

Python runs the handler of a signal behind a call: a number that the call returned is lost then, and
stays open. Between the calls that `map` makes it runs none.
"""

from __future__ import annotations

import io
import itertools
import os
from typing import Any, Callable, Tuple


def owned(make: Callable[..., int], *arguments: Any) -> io.FileIO:
    """The descriptor that make(*arguments) returns, not of a directory."""
    made = map(make, *((argument,) for argument in arguments))
    return next(map(io.FileIO, made, ("r+b",)))


def pipe() -> Tuple[io.FileIO, io.FileIO]:
    """Its end to read from, and the one to write to."""
    made = itertools.chain.from_iterable(map(os.pipe2, (os.O_CLOEXEC,)))
    reader, writer = map(io.FileIO, made, ("rb", "wb"))
    return reader, writer


def memory_file(name: str) -> io.FileIO:
    return owned(os.memfd_create, name, os.MFD_CLOEXEC)
