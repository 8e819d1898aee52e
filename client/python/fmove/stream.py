# SPDX-License-Identifier: MIT
"""Files that are written and read like Python's own."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import select
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from . import ranges
from .errors import FmoveError, error
from .link import close_after_fork
from .names import Name
from .owned import pipe
from .results import Entry, Result, result_of

if TYPE_CHECKING:
    from .connection import Connection

PIPE_SIZE = 1 << 20
WRITE_BUFFER = 1 << 18
READ_BUFFER = 1 << 17
WINDOW_MIN = 1 << 18
WINDOW_MAX = 16 << 20
PREPARE_S = 3600.0  # all that came may have to get to the disk


class RawWriter(io.RawIOBase):
    """A put from a pipe, which gets its name when commit() says so, and never otherwise."""

    def __init__(self, connection: "Connection", name: Name, fields: Dict[str, Any]) -> None:
        super().__init__()
        self.name = name
        self.result: Optional[Result] = None
        self._timeout_s: Optional[float] = None
        self._size = 0
        self.is_failed = self._is_ended = True  # there is nothing to discard yet
        self._reader, self._pipe = pipe()
        close_after_fork(self)  # before the daemon has the other end: a child may be forked any time
        try:
            os.set_blocking(self._pipe.fileno(), False)
            _enlarge(self._pipe.fileno())
            fields = {**name.fields(), **fields, "hold": True}
            self._request = connection.ask("put", fields, [self._reader.fileno()])
            if "timeout_ms" in fields:
                self._timeout_s = fields["timeout_ms"] / 1000
        except BaseException:
            self._pipe.close()
            super().close()
            raise
        finally:
            self._reader.close()
        self._request.silence_s = PREPARE_S
        self.is_failed = self._is_ended = False

    def after_fork(self) -> None:
        self.is_failed = self._is_ended = True
        self._reader.close()  # else nobody is told that the daemon has closed it
        self._pipe.close()  # else the end of the file would never come

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        """Writes all of it."""
        if self._pipe.closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        left = view
        try:
            while len(left):
                left = left[self._write_some(left) :]
        except BaseException:
            self.is_failed = True
            raise
        self._size += len(view)
        return len(view)

    def _write_some(self, data: memoryview) -> int:
        end = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            try:
                size: Optional[int] = self._pipe.write(data)
            except BrokenPipeError:
                raise self._why() from None
            if size is not None:
                return size
            poll = select.poll()
            poll.register(self._pipe, select.POLLOUT)
            left = None if end is None else (end - time.monotonic()) * 1000
            if left is not None and left <= 0:
                raise error(errno.ETIMEDOUT, f"{self.name} takes no bytes")
            poll.poll(left)

    def _why(self) -> FmoveError:
        """The daemon closed its end of the pipe, and says why."""
        try:
            self._request.wait()
        except FmoveError as why:
            return why
        return error(errno.EIO, f"{self.name} ended early")

    def finish(self) -> None:
        """All of it is at the far end then, but its name."""
        if self._is_ended and not self.is_failed:
            return
        self._pipe.close()
        self._is_ended = True
        try:
            if self.is_failed:
                raise error(errno.ECANCELED, f"{self.name} was not written as a whole")
            while self._request.next_event()["event"] != "prepared":
                pass
        except BaseException:
            self.is_failed = True
            self._request.stop()
            raise

    def commit(self) -> Result:
        """It gets its name. Again: nothing more."""
        if self.result is None:
            self.finish()
            self._request.link.tell("commit", {"job": self._request.number})
            self.result = result_of(self._request.wait())
        return self.result

    def discard(self) -> None:
        """Nothing of it stays, unless it has its name."""
        if self.result is None and not (self._is_ended and self.is_failed):
            self.is_failed = self._is_ended = True
            self._request.stop()
        self._pipe.close()

    def __del__(self) -> None:
        if not self.closed and hasattr(self, "_pipe"):  # else a signal came before it was made
            self.discard()
            super().close()


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        pass  # it is slower


class WriteStream(io.BufferedWriter):
    """A file that is seen when it is closed, as a whole. What ends a with-block by an exception,
    or is dropped without being closed, is discarded."""

    raw: RawWriter

    def __init__(self, raw: RawWriter, autocommit: bool = True) -> None:
        super().__init__(raw, WRITE_BUFFER)
        self._autocommit = autocommit
        self.is_given_up: Callable[[WriteStream], bool] = lambda _: False  # close() discards then

    @property
    def name(self) -> Name:  # type: ignore[override]
        return self.raw.name

    @property
    def result(self) -> Optional[Result]:
        """Of the put, once it has its name."""
        return self.raw.result

    def close(self) -> None:
        if self.closed:
            return
        if self.is_given_up(self):
            self.discard()
            return
        try:
            self.flush()
            if self._autocommit:
                self.raw.commit()
            else:
                self.raw.finish()
        except BaseException:
            self.raw.discard()
            raise
        finally:
            io.RawIOBase.close(self.raw)

    def finish(self) -> None:
        """Of one that is closed: all of it is at the far end. ECANCELED: it was discarded, or is
        open, and something before it may hold back what it was told to write."""
        if not self.closed:
            self.discard()
            raise error(errno.ECANCELED, f"{self.name} was not closed before its transaction ended")
        self.raw.finish()

    def commit(self) -> Result:
        """Of one that is closed and was opened with autocommit False: it gets its name."""
        self.close()
        return self.raw.commit()

    def discard(self) -> None:
        self.raw.discard()
        io.RawIOBase.close(self.raw)

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        try:
            is_closed = self.closed
        except ValueError:  # a signal came before it was made
            return
        if not is_closed:
            self._dealloc_warn(self)

    def _dealloc_warn(self, source: object) -> None:
        """It is dropped and was not closed, or source is, which writes into it: Python calls this
        before it closes text of its own, and us. The warning is one that is seen by default."""
        try:
            if not self.raw.is_failed:  # else it was told, or this is a child process
                warnings.warn(f"{self.raw.name} was not closed: discarded", RuntimeWarning, 2)
        finally:
            self.discard()


class TextWriteStream(io.TextIOWrapper):
    """The same for text."""

    def discard(self) -> None:
        self.buffer.discard()  # type: ignore[attr-defined]

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        try:
            is_closed = self.closed
        except ValueError:  # its encoding is unknown: it was not made
            return
        if not is_closed:
            self.buffer._dealloc_warn(self)  # type: ignore[attr-defined]


class CompressedStream(io.BufferedIOBase):
    """What a compressor writes into a stream, which is closed or discarded with it: many leave it
    open, and none discards it."""

    def __init__(self, compressor: Any, into: WriteStream) -> None:
        self._compressor = compressor
        self._into = into
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._compressor.write(data)
        self._size += size
        return size

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._compressor.close()
            self._into.close()
        except BaseException:
            self._into.discard()
            raise
        finally:
            super().close()

    def discard(self) -> None:
        self._into.discard()
        with contextlib.suppress(Exception):  # what it held back has no place any more
            self._compressor.close()
        super().close()

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if not self.closed:
            self._dealloc_warn(self)

    def _dealloc_warn(self, source: object) -> None:
        try:
            self._into._dealloc_warn(source)
        finally:
            self.discard()


class RawReader(io.RawIOBase):
    """A stored file, read by ranges into windows. Who reads on finds the next window on its way."""

    def __init__(
        self, connection: "Connection", name: Name, entry: Entry, more: Dict[str, Any]
    ) -> None:
        super().__init__()
        self.name = name
        self.size = entry.size
        self._entry = entry
        self._more = more
        self._ask = connection.ask
        self._at = 0
        self._window: Optional[_Window] = None
        self._ahead: Optional[_Window] = None
        self._version = ranges.Version()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise error(errno.EINVAL, f"{self.name} has nothing before its start")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self.closed:
            raise ValueError("read of a closed file")
        into = memoryview(buffer).cast("B")
        if self._at >= self.size or not len(into):
            return 0
        window = self._window
        if window is None or not window.has(self._at):
            window = self._turn_to(self._at, len(into))
        size = min(len(into), window.end - self._at)
        ranges.copy(window.fetch.fd, self._at - window.start, into[:size])
        self._at += size
        return size

    def _turn_to(self, at: int, wanted: int) -> "_Window":
        """The window that has that byte, and if it was read up to there, the one behind it."""
        before, ahead = self._window, self._ahead
        self._window = self._ahead = None
        goes_on = before is not None and before.end == at
        length = 2 * before.length if before is not None and goes_on else wanted
        length = min(max(length, WINDOW_MIN), WINDOW_MAX)
        if before is not None:
            before.fetch.close()
        if ahead is not None and not ahead.has(at):
            ahead.fetch.stop()
            ahead = None
        window = ahead or self._window_at(at, length)
        try:
            self._check(window.fetch.wait())
        except BaseException:
            window.fetch.close()
            raise
        self._window = window
        if goes_on and window.end < self.size:
            self._ahead = self._window_at(window.end, length)
        return window

    def _window_at(self, start: int, length: int) -> "_Window":
        return _Window(self, start, min(length, self.size - start))

    def fetch(self, start: int, length: int) -> ranges.Fetch:
        return ranges.Fetch(self._ask, self.name, [(start, length)], self._more)

    def _check(self, result: Result) -> None:
        self._version.check(result)
        if result.mtime_ns != self._entry.mtime_ns:
            raise error(errno.ESTALE, f"{self.name} was replaced since it was opened")

    def close(self) -> None:
        for window in (self._window, self._ahead):
            if window is not None:
                window.fetch.stop()
        self._window = self._ahead = None
        super().close()


class _Window:
    """Bytes of a file that came, or are on their way."""

    def __init__(self, reader: RawReader, start: int, length: int) -> None:
        self.start = start
        self.length = length
        self.end = start + length
        self.fetch = reader.fetch(start, length)

    def has(self, at: int) -> bool:
        return self.start <= at < self.end


class ReadStream(io.BufferedReader):
    """A stored file. size is what it has."""

    raw: RawReader

    def __init__(self, raw: RawReader) -> None:
        super().__init__(raw, READ_BUFFER)

    @property
    def size(self) -> int:
        return self.raw.size
