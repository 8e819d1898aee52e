# SPDX-License-Identifier: MIT
"""The same for asyncio: each call runs in a thread, and ends there when its task is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Callable, Concatenate, Coroutine, List, Optional, ParamSpec, TypeVar


from .connection import Connection, Named
from .connection import connect as _connect
from .link import Cancel, check_cancelled
from .results import Entry

P = ParamSpec("P")
R = TypeVar("R")


async def run(function: Callable[[], R]) -> R:
    """What a function that asks the daemon returns. A task that is cancelled waits for its end,
    however often it is."""
    cancel = Cancel()

    def call() -> R:
        with cancel:
            check_cancelled()  # it may have waited for a thread
            return function()

    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        cancel.set()
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):  # cancelled once more
                await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # it is ours now: nobody else is told
        raise


def _in_thread(
    method: Callable[Concatenate[Connection, P], R]
) -> "Callable[Concatenate[AsyncConnection, P], Coroutine[Any, Any, R]]":
    async def call(self: "AsyncConnection", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await run(lambda: method(self.connection, *args, **kwargs))

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call


class AsyncConnection:
    """The calls of Connection, to be awaited."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    put = _in_thread(Connection.put)
    get = _in_thread(Connection.get)
    read = _in_thread(Connection.read)
    read_ranges = _in_thread(Connection.read_ranges)
    read_ranges_into = _in_thread(Connection.read_ranges_into)
    put_tree = _in_thread(Connection.put_tree)
    get_tree = _in_thread(Connection.get_tree)
    stage = _in_thread(Connection.stage)
    stat = _in_thread(Connection.stat)
    exists = _in_thread(Connection.exists)
    rm = _in_thread(Connection.rm)
    mkdir = _in_thread(Connection.mkdir)
    mv = _in_thread(Connection.mv)
    ln = _in_thread(Connection.ln)
    verify = _in_thread(Connection.verify)
    status = _in_thread(Connection.status)

    async def ls(self, name: Named) -> List[Entry]:
        return await run(lambda: list(self.connection.ls(name)))


def connect(socket: Optional[str] = None) -> AsyncConnection:
    return AsyncConnection(_connect(socket))
