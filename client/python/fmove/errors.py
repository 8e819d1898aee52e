# SPDX-License-Identifier: MIT
"""What goes wrong: FmoveError, and kinds of it that are also Python's own."""

from __future__ import annotations

import errno as _errno
import os
from typing import Any, Dict, Optional, Tuple, Type

UNREACHABLE, FAILED, CANCELLED = 4, 1, 130


class FmoveError(OSError):
    """errno says what, strerror why; exit is the status that fmove(1) would end with.

    is_kept: what came stays, and the same transfer again goes on from there. is_full: no place is
    free now; nothing was begun. is_published: what was put is seen all the same, and what was to
    follow failed. bytes: how far a transfer had got. missing: of a group's commit,
    the first members that are, and missing_more: how many besides, all of them if only a number was
    expected.
    """

    def __init__(
        self,
        code: int,
        text: str,
        *,
        exit: int = FAILED,
        is_kept: bool = False,
        is_full: bool = False,
        is_published: bool = False,
        bytes: int = 0,
        missing: Tuple[str, ...] = (),
        missing_more: int = 0,
    ) -> None:
        super().__init__(code, text)
        self.exit = exit
        self.is_kept = is_kept
        self.is_full = is_full
        self.is_published = is_published
        self.bytes = bytes
        self.missing = missing
        self.missing_more = missing_more

    @property
    def code(self) -> str:
        """The name of the errno."""
        return _errno.errorcode.get(self.errno or 0, str(self.errno))

    def __str__(self) -> str:
        return f"{self.strerror} ({self.code})"

    def __reduce__(self) -> Any:
        return (_again, (self.errno, self.strerror, self.__dict__))


def _again(code: int, text: str, state: Dict[str, Any]) -> FmoveError:
    return error(code, text, **state)


class NotFound(FmoveError, FileNotFoundError):
    pass


class Exists(FmoveError, FileExistsError):
    pass


class Denied(FmoveError, PermissionError):
    pass


class IsDirectory(FmoveError, IsADirectoryError):
    pass


class NotDirectory(FmoveError, NotADirectoryError):
    pass


class TimedOut(FmoveError, TimeoutError):
    pass


class Refused(FmoveError, ConnectionRefusedError):
    """No daemon listens."""


class Lost(FmoveError, ConnectionResetError):
    """The daemon closed the connection: it was stopped or restarted."""


_KINDS: Dict[int, Type[FmoveError]] = {
    _errno.ENOENT: NotFound,
    _errno.EEXIST: Exists,
    _errno.EACCES: Denied,
    _errno.EPERM: Denied,
    _errno.EISDIR: IsDirectory,
    _errno.ENOTDIR: NotDirectory,
    _errno.ETIMEDOUT: TimedOut,
    _errno.ECONNREFUSED: Refused,
    _errno.ECONNRESET: Lost,
}


def error(code: int, text: Optional[str] = None, **more: Any) -> FmoveError:
    """The kind of FmoveError that belongs to an errno."""
    return _KINDS.get(code, FmoveError)(code, text or os.strerror(code), **more)
