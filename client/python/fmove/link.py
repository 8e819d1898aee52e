# SPDX-License-Identifier: MIT
"""The socket to the daemon of this machine: requests, and the events that answer them.

Requests of all threads share it. Whoever waits for an event reads the socket if nobody else does,
and hands out what belongs to others. fmove-api(7) describes the messages.
"""

from __future__ import annotations

import array
import contextvars
import errno
import itertools
import json
import os
import select
import socket
import threading
import time
import weakref
from collections import deque
from copy import copy
from typing import Any, Callable, Deque, Dict, List, Optional, Protocol, Sequence, Tuple, TypeVar

from .errors import CANCELLED, FAILED, UNREACHABLE, FmoveError, error
from .names import from_json

SOCKET = "/run/fmove/fmoved.sock"
REQUEST_MAX = 65536
EVENT_MAX = 262144
ANSWER_S = 60.0  # longer than the daemon itself waits for a peer
SLICE_S = 0.1  # another call may have read what the main thread waits for
CANCEL_S = 8.0  # longer than the daemon waits for its journal
CAN_BE_CANCELLED = frozenset(("put", "get", "wait", "verify"))
GIVES_BACK = frozenset(("group_discard", "buffer_free"))  # what was begun: also of what is cancelled

Event = Dict[str, Any]
T = TypeVar("T")

_inherited: "weakref.WeakSet[Any]" = weakref.WeakSet()


def close_after_fork(thing: Any) -> None:
    """thing.after_fork() is called in every child: it closes what the daemon takes for ours."""
    _inherited.add(thing)


def listed(things: "weakref.WeakSet[T]") -> List[T]:
    """All of them, also where a signal's handler adds one meanwhile."""
    while True:
        try:
            return list(things)
        except RuntimeError:
            pass  # one was added


def _after_fork() -> None:
    for thing in listed(_inherited):
        thing.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class Work(Protocol):
    """What a Cancel can end."""

    def cancel(self) -> None:
        ...


class Cancel:
    """As a context: what is begun in it, by this thread, ends when any thread calls set(), and
    nothing is begun in it after that."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may set it within add()
        self._work: "weakref.WeakSet[Work]" = weakref.WeakSet()
        self._is_set = False

    def add(self, work: Work) -> None:
        with self._lock:
            self._work.add(work)
            is_set = self._is_set
        if is_set:
            work.cancel()

    def set(self) -> None:
        with self._lock:
            self._is_set = True
            all_work = listed(self._work)
        for work in all_work:
            work.cancel()

    @property
    def is_set(self) -> bool:
        with self._lock:
            return self._is_set

    def __enter__(self) -> "Cancel":
        self._before = _cancel.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _cancel.reset(self._before)


_cancel: "contextvars.ContextVar[Optional[Cancel]]" = contextvars.ContextVar(
    "fmove_cancel", default=None
)


def can_be_cancelled(work: Work) -> None:
    """By the Cancel that is in force, if one is."""
    cancel = _cancel.get()
    if cancel:
        cancel.add(work)


def check_cancelled() -> None:
    """ECANCELED: the Cancel that is in force was set before this began."""
    cancel = _cancel.get()
    if cancel and cancel.is_set:
        raise error(errno.ECANCELED, "cancelled before it was asked", exit=CANCELLED)


def _error_of(event: Event) -> FmoveError:
    """What an event "error" says."""
    code = getattr(errno, str(event.get("code")), errno.EIO)
    missing = event.get("missing", {})
    names = tuple(filter(None, from_json(missing.get("names", "")).split("\n")))
    return error(
        code if isinstance(code, int) else errno.EIO,
        str(event.get("text", "")),
        exit=int(event.get("exit", FAILED)),
        is_kept=bool(event.get("kept", False)),
        is_full=bool(event.get("full", False)),
        bytes=int(event.get("bytes", 0)),
        missing=names,
        missing_more=max(0, int(missing.get("count", 0)) - len(names)),
    )


class Request:
    """One request, from its sending to its last event. The link does not keep it: one that a signal
    took from whoever asked is cancelled."""

    is_over = True  # its last event came, or nobody waits for it any more, or it was not made yet

    def __init__(self, link: "Link", number: int, op: str) -> None:
        self.link = link
        self.number = number
        self.op = op
        self.silence_s: Optional[float] = ANSWER_S  # None: the daemon may say nothing for ever
        self.events: Deque[Event] = deque()
        self.is_cancelled = False
        self.is_over = False

    def wait(self, on_event: Optional[Callable[[Event], None]] = None) -> Event:
        """The event "done". Whatever else ends the waiting cancels the request."""
        try:
            while True:
                event = self.next_event()
                if event["event"] == "done":
                    return event
                if on_event:
                    on_event(event)
        except BaseException:
            self.stop()
            raise

    def next_event(self) -> Event:
        """Raises what an event "error" says."""
        event = self.link.next_event(self, CANCEL_S if self.is_cancelled else self.silence_s)
        if event.get("event") == "error":
            raise _error_of(event)
        return event

    def cancel(self) -> None:
        """Asks for its end; its last event still comes."""
        if self.is_over or self.is_cancelled:
            return
        self.is_cancelled = True
        if self.op in CAN_BE_CANCELLED:
            self.link.tell("cancel", {"job": self.number})
        else:
            self.link.give_up(self)

    def stop(self) -> None:
        """Cancels it and waits until it is over."""
        self.cancel()
        try:
            while not self.is_over:
                self.link.next_event(self, CANCEL_S)
        except FmoveError:
            pass  # the connection is lost, and it with it
        finally:
            self.link.forget(self)

    def __del__(self) -> None:
        if not self.is_over and not self.is_cancelled and self.op in CAN_BE_CANCELLED:
            self.link.drop(self.number)


def open_socket(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)  # a full backlog would keep connect() for ever
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * REQUEST_MAX)
        made.connect(path)
    except OSError as why:
        made.close()
        raise _cannot_connect(why, path) from None
    return made


def _cannot_connect(why: OSError, path: str) -> FmoveError:
    code = why.errno or errno.ENAMETOOLONG  # Python itself refuses a long path, without a code
    if code in (errno.ENOENT, errno.ECONNREFUSED):
        return error(
            errno.ECONNREFUSED,
            f"no fmoved listens at {path}; start it, or name its socket with FMOVE_SOCKET",
            exit=UNREACHABLE,
        )
    if code in (errno.EACCES, errno.EPERM):
        return error(errno.EACCES, f"{path} may not be used by you: join the group that owns it")
    if code == errno.EAGAIN:
        return error(errno.EBUSY, f"{path}: too many programs wait for fmoved", is_full=True)
    return error(code, f"connect to {path}: {why}")


class Link:
    """One connection, until it is closed or lost; then error says why."""

    def __init__(self, path: str) -> None:
        self.error: Optional[FmoveError] = None
        self._socket = open_socket(path)
        self._make_lock()
        self._requests: "weakref.WeakValueDictionary[int, Request]" = weakref.WeakValueDictionary()
        self._numbers = itertools.count(1)
        self._dropped: Deque[int] = deque()  # whose cancelling is not sent yet
        self._reader: Optional[int] = None  # the thread that reads
        self._was_reset = False
        self._received: Deque[Any] = deque()  # one message, or its event, that has no request yet
        close_after_fork(self)

    def _make_lock(self) -> None:
        # A signal may raise within Condition.__enter__(), and then nobody would free the lock.
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)

    def after_fork(self) -> None:
        self._make_lock()  # a thread of the parent may hold the other
        self._lose(error(errno.ECONNRESET, "this request was begun by the parent process"))

    def close(self) -> None:
        """What is under way is cancelled."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes whoever waits
        except OSError:
            pass  # it is closed
        self._lose(error(errno.ECONNRESET, "the connection was closed"))

    # ---- requests ----

    def ask(self, op: str, fields: Dict[str, Any], fds: Sequence[int] = ()) -> Request:
        if op not in GIVES_BACK:
            check_cancelled()
        request = self._new(op)
        try:
            self._send(op, request.number, fields, fds)
        except BaseException:
            if op in CAN_BE_CANCELLED:
                self.tell("cancel", {"job": request.number})  # a signal may have come behind it
            self.forget(request)
            raise
        can_be_cancelled(request)
        return request

    def tell(self, op: str, fields: Dict[str, Any]) -> None:
        """A request about another one. Nobody waits for its answer."""
        try:
            self._send(op, next(self._numbers), fields, ())
        except FmoveError:
            pass  # whoever waits for the other one is told

    def drop(self, number: int) -> None:
        """Cancels a request that nobody has any more, now or before the next one."""
        self._dropped.append(number)
        self._send_dropped()

    def _send_dropped(self) -> None:
        while self._dropped and self.error is None:
            number = self._dropped[0]
            message = _encode("cancel", next(self._numbers), {"job": number})
            try:
                self._socket.send(message, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                pass  # the connection is lost, and it with it
            if number in self._dropped:  # another thread may have sent it, too
                self._dropped.remove(number)

    def forget(self, request: Request) -> None:
        with self._lock:
            request.is_over = True
            self._requests.pop(request.number, None)

    def give_up(self, request: Request) -> None:
        """Ends the waiting for a request that the daemon cannot take back."""
        with self._lock:
            if self._requests.pop(request.number, None):
                self._end(request, {"code": "ECANCELED", "text": "cancelled", "exit": CANCELLED})

    def _end(self, request: Request, why: Event) -> None:
        request.is_over = True
        request.events.append({"event": "error", **why})
        self._news.notify_all()

    def _new(self, op: str) -> Request:
        request = Request(self, next(self._numbers), op)
        with self._lock:
            if self.error:
                raise copy(self.error)
            self._requests[request.number] = request
        return request

    def _send(self, op: str, number: int, fields: Dict[str, Any], fds: Sequence[int]) -> None:
        self._send_dropped()
        message = _encode(op, number, fields)
        if len(message) > REQUEST_MAX:
            raise error(errno.ENAMETOOLONG, "the paths and ranges are too long for one request")
        beside = []
        if fds:
            beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        end = time.monotonic() + ANSWER_S
        while not self._try_send(message, beside):
            if time.monotonic() > end:
                raise error(errno.ETIMEDOUT, "fmoved takes no requests", exit=UNREACHABLE)

    def _try_send(self, message: bytes, beside: Any) -> bool:
        try:
            self._socket.sendmsg([message], beside, socket.MSG_NOSIGNAL)
            return True
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            raise self._hear_why() from None
        except OSError as why:
            if self.error:
                raise copy(self.error) from None
            raise error(why.errno or errno.EIO, f"ask fmoved: {why.strerror}") from None
        # It reads no requests while events wait for us.
        self._read_one(0.05)
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        poll.poll(50)
        return False

    # ---- events ----

    def next_event(self, request: Request, silence_s: Optional[float]) -> Event:
        """The next one of this request. ETIMEDOUT: nothing came for so long."""
        end = None if silence_s is None else time.monotonic() + silence_s
        while True:
            with self._lock:
                if request.events:
                    return self._taken(request)
                if self.error:
                    raise copy(self.error)
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise error(errno.ETIMEDOUT, "fmoved does not answer", exit=UNREACHABLE)
                if self._is_read_elsewhere():
                    self._news.wait(left)
                    continue
            self._read_one(left)

    def _taken(self, request: Request) -> Event:
        event = request.events.popleft()
        if _is_last(event):
            self.forget(request)
        return event

    def _is_read_elsewhere(self) -> bool:
        """A call within a signal's handler reads itself: the call beneath it does not go on."""
        return self._reader not in (None, threading.get_ident())

    def _read_one(self, timeout_s: Optional[float]) -> None:
        """Reads one message, or none, unless another thread is about to. The main thread is about
        to when something has come, and not before: its signals' handlers may wait for threads."""
        if _is_main() and not self._received and not self._has_come(timeout_s):
            return
        is_mine = False
        try:
            with self._lock:
                if self._is_read_elsewhere() or self.error:
                    return
                if self._reader is None:
                    is_mine = True
                    self._reader = threading.get_ident()
            if _is_main() or self._received or self._has_come(timeout_s):
                self._receive()
        finally:
            with self._lock:
                if is_mine:
                    self._reader = None
                self._news.notify_all()

    def _has_come(self, timeout_s: Optional[float]) -> bool:
        if _is_main():
            timeout_s = SLICE_S if timeout_s is None else min(timeout_s, SLICE_S)
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
        except ValueError:  # it was closed meanwhile
            return False
        return bool(poll.poll(None if timeout_s is None else max(0, timeout_s * 1000)))

    def _receive(self) -> None:
        """A signal may come at any moment. If its handler raises, the next one who reads goes on
        with what was received; if it makes calls, these did, and nothing is there any more."""
        try:
            if not self._received:
                # By map, so that no signal comes between: another thread may wait for this event.
                self._received.extend(map(self._socket.recvmsg, (EVENT_MAX,)))
            message = self._received[0]
        except (BlockingIOError, IndexError):
            return
        except OSError as why:
            # A reset is told once, and before what the daemon said.
            if why.errno == errno.ECONNRESET and not self._was_reset:
                self._was_reset = True
                return
            message = (b"", [], 0, None)
        if isinstance(message, tuple) and not message[0]:
            self._lose(_gone())
            return
        try:
            self._hand_out(message if isinstance(message, dict) else self._parsed(message))
        except (ValueError, KeyError, TypeError):
            self._lose(error(errno.EPROTO, "fmoved's answer is not understood: another version?"))
        except IndexError:
            pass

    def _parsed(self, message: Tuple[bytes, Any, int, Any]) -> Event:
        data, _, flags, _ = message
        if flags & socket.MSG_TRUNC:
            raise ValueError
        event: Event = json.loads(data)
        event["id"], event["event"]  # each has these
        self._received[0] = event
        return event

    def _hear_why(self) -> FmoveError:
        """Before it closed the connection the daemon may have said why."""
        end = time.monotonic() + 1
        while self.error is None and time.monotonic() < end:
            self._read_one(0.01)
        return copy(self.error or _gone())

    def _hand_out(self, event: Event) -> None:
        """What was received. IndexError: it was, meanwhile."""
        number = event["id"]
        if number is None:
            self._lose(_error_of(event))
            return
        with self._lock:
            request = self._requests.get(number)
            if request is None:
                self._received.clear()
                return
            # By map, so that it is there or here, and once.
            request.events.extend(map(deque.popleft, (self._received,)))
            if _is_last(event):
                request.is_over = True
                self._requests.pop(number, None)
            self._news.notify_all()

    def _lose(self, why: FmoveError) -> None:
        with self._lock:
            if self.error is None:
                self.error = why
            for request in list(self._requests.values()):
                request.is_over = True
            self._requests.clear()
            self._socket.close()
            self._news.notify_all()


def _is_main() -> bool:
    """The thread that has the signals' handlers."""
    return threading.current_thread() is threading.main_thread()


def _is_last(event: Event) -> bool:
    return event["event"] in ("done", "error")


def _encode(op: str, number: int, fields: Dict[str, Any]) -> bytes:
    message = {"op": op, "id": number, **fields}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _gone() -> FmoveError:
    return error(
        errno.ECONNRESET,
        "fmoved closed the connection: it was stopped or restarted",
        exit=UNREACHABLE,
        is_kept=True,
    )
