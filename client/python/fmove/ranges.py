# SPDX-License-Identifier: MIT
"""Ranges of a stored file, by requests that fill files in memory."""

from __future__ import annotations

import errno
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .errors import error
from .link import Request
from .names import Name
from .owned import memory_file
from .results import Result, result_of

RANGES_MAX = 1024  # of one request
MEMORY_MAX = 64 << 20  # bytes of one request, which wait to be copied
FILE_MAX = (1 << 63) - 1

Range = Tuple[int, int]
Ask = Callable[[str, Dict[str, Any], Sequence[int]], Request]


class Piece(NamedTuple):
    """Bytes of range number `of`, which begin `at` bytes behind its start."""

    of: int
    at: int
    offset: int
    length: int


def check(ranges: Sequence[Range]) -> None:
    for offset, length in ranges:
        if offset < 0 or length < 0 or offset + length > FILE_MAX:
            raise error(errno.EINVAL, f"no file has the range {offset}:{length}")


def requests_of(ranges: Sequence[Range], most: int = MEMORY_MAX) -> List[List[Piece]]:
    """The pieces of each request: so many as one may have, and that many bytes."""
    all_of: List[List[Piece]] = []
    now: List[Piece] = []
    left = most
    for of, (offset, length) in enumerate(ranges):
        at = 0
        while True:
            some = min(length - at, left)
            now.append(Piece(of, at, offset + at, some))
            at += some
            left -= some
            if len(now) == RANGES_MAX or left == 0:
                all_of.append(now)
                now, left = [], most
            if at == length:
                break
    if now:
        all_of.append(now)
    return all_of


def _fields_of(name: Name, ranges: Sequence[Range], more: Dict[str, Any]) -> Dict[str, Any]:
    return {
        **name.fields(),
        **more,
        "ranges": [list(r) for r in ranges],
        "durability": "memory",
    }


class Into:
    """One request for ranges, whose bytes come into a part of a buffer: its number, an offset and a
    length."""

    def __init__(
        self,
        ask: Ask,
        name: Name,
        ranges: Sequence[Range],
        more: Dict[str, Any],
        part: Sequence[int],
    ) -> None:
        self._request = ask("get", {**_fields_of(name, ranges, more), "buffer": list(part)}, ())

    def wait(self) -> Result:
        return result_of(self._request.wait())

    def stop(self) -> None:
        """When this returns nobody writes there any more."""
        self._request.stop()


class Fetch:
    """One request for ranges, whose bytes come into a file in memory."""

    def __init__(self, ask: Ask, name: Name, ranges: Sequence[Range], more: Dict[str, Any]) -> None:
        self._file = memory_file("fmove ranges")
        self.fd = self._file.fileno()
        self.result: Optional[Result] = None
        try:
            self.request = ask("get", _fields_of(name, ranges, more), [self.fd])
        except BaseException:
            self.close()
            raise

    def wait(self) -> Result:
        if self.result is None:
            self.result = result_of(self.request.wait())
        return self.result

    def close(self) -> None:
        self._file.close()

    def stop(self) -> None:
        """It is not wanted any more. The daemon's own descriptor lasts as long as it writes."""
        self.request.cancel()
        self.request.link.forget(self.request)
        self.close()


def copy(fd: int, at: int, into: memoryview) -> None:
    """Fills `into` with what a file in memory has at that place."""
    while len(into):
        size = os.preadv(fd, [into], at)
        if size == 0:
            raise error(errno.EIO, "less came than was asked for")
        into = into[size:]
        at += size


class Version:
    """All requests for one file must have read the same version of it."""

    def __init__(self) -> None:
        self._text: Optional[str] = None

    def check(self, result: Result) -> None:
        if self._text not in (None, result.version):
            raise error(errno.ESTALE, "the file changed while ranges of it were read")
        self._text = result.version


def read(
    ask: Ask,
    name: Name,
    ranges: Sequence[Range],
    into: Sequence[memoryview],
    more: Dict[str, Any],
) -> None:
    """Range i comes into into[i], which has its length."""
    version = Version()
    for pieces in requests_of(ranges):
        fetch = Fetch(ask, name, [(p.offset, p.length) for p in pieces], more)
        try:
            version.check(fetch.wait())
            at = 0
            for piece in pieces:
                copy(fetch.fd, at, into[piece.of][piece.at : piece.at + piece.length])
                at += piece.length
        finally:
            fetch.close()
