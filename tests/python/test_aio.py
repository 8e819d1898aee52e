# SPDX-License-Identifier: MIT
# Goal:   the calls can be awaited, several at once, and a task that is cancelled ends its transfer.
# Method: each kind of call; transfers that are cancelled, and time out, when bytes move.
import asyncio
import os
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import fmove
from fmove import aio
from nodes import HANG_S, Case

SLOW = fmove.Options(limit=1 << 20)


class Aio(Case):
    def test_calls(self):
        async def calls():
            fm = aio.connect()
            contents = [os.urandom(10000 + i) for i in range(20)]
            await asyncio.gather(*(fm.put(c, self.name(f"f{i}")) for i, c in enumerate(contents)))
            self.assertEqual(await asyncio.gather(*(fm.read(self.name(f"f{i}")) for i in range(20))), contents)
            self.assertEqual(len(await fm.ls(self.top)), 20)
            self.assertEqual(await fm.read_ranges(self.name("f0"), [(1, 2)]), [contents[0][1:3]])
            with self.assertRaises(FileNotFoundError):
                await fm.stat(self.name("none"))

        asyncio.run(calls())

    def test_cancelled(self):
        path = self.local("f", b"1" * 30000000)

        async def cancelled():
            fm = aio.connect()
            put = asyncio.ensure_future(fm.put(path, self.name("f"), options=SLOW))
            while not any(job["bytes"] for job in (await fm.status())["jobs"]):
                await asyncio.sleep(0.02)
            put.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await put
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(fm.put(path, self.name("f"), options=SLOW), 0.3)

        asyncio.run(cancelled())
        self.assert_idle()
        self.assertFalse(self.fm.exists(self.name("f")))

    def test_cancelled_twice(self):
        """The second time ends no waiting: when it returns the thread does nothing any more."""
        may_end, ended = threading.Event(), []

        def work():
            may_end.wait(HANG_S)
            ended.append(True)

        async def cancelled():
            task = asyncio.ensure_future(aio.run(work))
            for _ in range(3):
                await asyncio.sleep(0.05)
                self.assertFalse(task.done())
                task.cancel()
            await asyncio.sleep(0.05)
            may_end.set()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(ended, [True])

        asyncio.run(cancelled())

    def test_cancelled_before_a_thread_had_it(self):
        async def queued():
            fm, is_free = aio.connect(), threading.Event()
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            before = asyncio.ensure_future(asyncio.to_thread(is_free.wait))
            rm = asyncio.ensure_future(fm.rm(self.name("f")))
            for _ in range(9):
                await asyncio.sleep(0)  # it gets as far as it can
            rm.cancel()
            for _ in range(9):
                await asyncio.sleep(0)
            is_free.set()
            with self.assertRaises(asyncio.CancelledError):
                await rm
            await before

        self.fm.put(b"1", self.name("f"))
        asyncio.run(queued())
        self.assertEqual(self.stored("f"), b"1")


if __name__ == "__main__":
    unittest.main()
