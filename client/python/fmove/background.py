# SPDX-License-Identifier: MIT
"""What runs in a thread of its own, for whoever waits for it and may be interrupted."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional

SLICE_S = 1.0  # a waiter that a signal took from within acquire() may not have given the lock back


class Background:
    """run() in a thread. A signal's handler may raise in whoever waits, as often as it likes: it is
    over when run() has ended and not before. Thread.join() would not do: in Python 3.10 to 3.12 one
    that is ended by an exception marks the thread, which runs on, as one that is over."""

    def __init__(self, run: Callable[[], None], name: str) -> None:
        self.failure: Optional[BaseException] = None  # what run() raised
        self._run = run
        self._claim = threading.Lock()  # who has it decides whether run() is called
        self._running = threading.Lock()  # held until it is over
        self._running.acquire()
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=name)

    def start(self) -> None:
        """What raises here leaves one that is over, or one that runs: is_over() knows."""
        try:
            self._thread.start()
        except BaseException:
            if self._claim.acquire(blocking=False):
                self._is_over = True  # the thread may come yet: it finds nothing to do
            raise

    def _work(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._run()
        except BaseException as why:
            self.failure = why
        finally:
            self._is_over = True
            self._running.release()

    def is_over(self) -> bool:
        return self._is_over

    def wait(self, timeout: Optional[float] = None) -> None:
        """Until it is over, or for so many seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_over:
            left = SLICE_S if end is None else min(end - time.monotonic(), SLICE_S)
            if left <= 0:
                return
            if self._running.acquire(timeout=left):
                self._running.release()
