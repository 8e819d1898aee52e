# SPDX-License-Identifier: MIT
# Goal:   whatever goes wrong is one exception with its cause; nothing half-done gets a name, and the next call works.
# Method: daemons that are absent, shut, or killed in the midst; full stores; forks; signals; callbacks that raise; 200 saves.
import contextlib
import errno
import gc
import os
import random
import signal
import threading
import time
import unittest
import warnings
import weakref
from unittest import mock

import fmove
from fmove import buffer, connection
from nodes import DIR, HANG_S, Case, await_it, crash, descriptors, in_child, start_again

SLOW = fmove.Options(limit=1 << 20)
NOBODY = 65534


def is_moving(connection, past):
    return any(job["bytes"] > past for job in connection.status()["jobs"])


class Daemon(Case):
    def test_absent(self):
        for path in (self.local("none"), "/dev/null/x", "x" * 200):
            with self.assertRaises(OSError) as why:
                fmove.Connection(path).put(b"", "n2:s/f")
            self.assertIsInstance(why.exception, fmove.FmoveError, path)
        with self.assertRaises(ConnectionRefusedError) as why:
            fmove.Connection(self.local("none")).ping()
        self.assertEqual(why.exception.exit, 4)
        self.assertIn("no fmoved listens", str(why.exception))

    @unittest.skipIf(os.getuid() != 0, "only root can become somebody else")
    def test_no_permission(self):
        socket = f"{DIR}/n1/fmoved.sock"
        before = os.stat(socket).st_mode
        os.chmod(socket, 0o600)

        def nobody():
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with self.assertRaises(PermissionError) as why:
                fmove.Connection(socket).ping()
            self.assertIn("may not be used", str(why.exception))

        try:
            self.assertEqual(in_child(nobody), 0)
        finally:
            os.chmod(socket, before & 0o777)

    def test_stores_without_end(self):
        told = 0
        with mock.patch.object(self.fm, "answer", lambda op, f: {"store": f["after"] + "s"}):
            with self.assertRaises(fmove.FmoveError) as why:
                for _ in self.fm.stores("n2"):
                    told += 1
                    self.assertLessEqual(told, connection.STORES_MAX)
        self.assertEqual(why.exception.code, "EPROTO")
        self.assertEqual(told, connection.STORES_MAX)

    def test_entries_without_end(self):
        page = [{"name": "f", "type": "file", "size": 0, "mode": "0644", "mtime_ns": 0}] * 4
        answer = {"entries": page, "more": True}
        with mock.patch.object(connection, "ENTRIES_MAX", 1000):
            with mock.patch.object(self.fm, "answer", lambda op, f, timeout: answer):
                told = 0
                with self.assertRaises(fmove.FmoveError) as why:
                    for _ in self.fm.ls("n2:s/d"):
                        told += 1
                        self.assertLessEqual(told, 1000)
                self.assertEqual(why.exception.code, "EPROTO")
                self.assertEqual(told, 1000)

    def test_far_one_killed(self):
        with self.assertRaises(fmove.FmoveError) as why:
            with self.fm.open(self.name("f"), "wb", options=SLOW) as file:
                file.write(b"1" * 1000000)
                await_it(lambda: is_moving(self.fm, 0), "bytes move")
                crash("n2")
                for _ in range(1000):
                    file.write(b"1" * 1000000)
        self.assertIn(why.exception.exit, (1, 4))
        start_again("n2")
        await_it(self._reaches_n2, "n2 can be reached")
        self.assertFalse(self.fm.exists(self.name("f")))

    def _reaches_n2(self):
        try:
            return list(self.fm.ls("n2:s")) is not None
        except fmove.FmoveError:
            return False

    def test_own_one_killed(self):
        with self.assertRaises(ConnectionResetError) as why:
            with self.fm.open(self.name("f"), "wb", options=SLOW) as file:
                file.write(b"1" * 1000000)
                await_it(lambda: is_moving(self.fm, 0), "bytes move")
                crash("n1")
                for _ in range(1000):
                    file.write(b"1" * 1000000)
        self.assertEqual(why.exception.exit, 4)
        with self.assertRaises(ConnectionRefusedError):
            self.fm.ping()
        start_again("n1")
        await_it(self._reaches_n2, "n2 can be reached")
        self.assertFalse(self.fm.exists(self.name("f")))

    def test_restarted_between_two_calls(self):
        self.fm.ping()
        crash("n1")
        start_again("n1")
        self.assertEqual(self.fm.ping()["node"], "n1")
        await_it(self._reaches_n2, "n2 can be reached")

    def test_store_is_full(self):
        with self.assertRaises(fmove.FmoveError) as why:
            with self.fm.open(self.name("f"), "wb") as file:
                for _ in range(500):
                    file.write(b"1" * 1000000)
        self.assertIn(why.exception.errno, (errno.ENOSPC, errno.EDQUOT))
        self.assertEqual(why.exception.exit, 6)
        with open(self.local("large"), "wb") as file:
            file.truncate(500 << 20)
            file.seek(0)
            file.write(b"1")
        with self.assertRaises(fmove.FmoveError) as why:
            self.fm.put(self.local("large"), self.name("f"))
        self.assertEqual(why.exception.exit, 6)
        self.fm.put(b"1", self.name("g"))
        self.assertEqual([n for n in self.names() if not n.startswith(".fmove")], ["g"])


class Ends(Case):
    def interrupted(self, function):
        """SIGINT comes when its bytes move."""
        main = os.getpid()
        asks = fmove.Connection()

        def interrupt():
            await_it(lambda: is_moving(asks, 0), "bytes move")
            os.kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            function()
        thread.join()
        self.assertEqual([n for n in self.names() if not n.startswith(".fmove")], [])
        self.assert_idle()
        asks.close()

    def test_interrupted_put(self):
        with open(self.local("f"), "wb") as file:
            file.write(b"1" * 30000000)
        self.interrupted(lambda: self.fm.put(self.local("f"), self.name("f"), options=SLOW))

    def test_interrupted_stream(self):
        def write():
            with self.fm.open(self.name("f"), "wb", options=SLOW) as file:
                for _ in range(100):
                    file.write(b"1" * 1000000)

        self.interrupted(write)

    def test_interrupted_behind_the_sending(self):
        self.fm.ping()
        link = self.fm._link
        ours = link._send

        def send(op, *rest):
            ours(op, *rest)
            if op == "put":
                raise KeyboardInterrupt

        link._send = send
        with self.assertRaises(KeyboardInterrupt):
            self.fm.open(self.name("f"), "wb")
        del link._send
        self.assert_idle()

    def test_dropped_behind_the_asking(self):
        self.fm.ping()
        ours = self.fm.ask

        def ask(*rest):
            ours(*rest)
            raise KeyboardInterrupt

        self.fm.ask = ask
        for call in (lambda: self.fm.open(self.name("f"), "wb"), lambda: self.fm.put(b"1" * 9000000, self.name("f"))):
            with self.assertRaises(KeyboardInterrupt):
                call()
            self.assert_idle()
        del self.fm.ask

    def test_part_dropped_behind_its_making(self):
        self.fm.put(b"1", self.name("f"))
        ours, open_files = connection._Part, descriptors()

        def make(*rest):
            ours(*rest)
            raise KeyboardInterrupt

        connection._Part = make
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.fm.get(self.name("f"), self.local("to"))
        finally:
            connection._Part = ours
        self.assertEqual((os.listdir(self.here), descriptors()), ([], open_files))

    def test_signals_at_random_moments(self):
        seed = int(os.environ.get("FM_SEED") or random.randrange(1 << 32))
        print(f"FM_SEED={seed}", flush=True)
        moments = random.Random(seed)
        self.local("from", b"1" * 300000)
        self.fm.put(b"1" * 300000, self.name("there"))
        self.fm.ping()
        calls = [
            lambda: self.fm.put(self.local("from"), self.name("f"), force=True),
            lambda: self.fm.put(b"1" * 300000, self.name("f"), force=True),
            self._writes,
            self._reads,
            lambda: self.fm.read(self.name("there")),
            lambda: self.fm.stat(self.name("there")),
        ]
        before = signal.signal(signal.SIGALRM, _raise)
        open_files = descriptors()
        raised = 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # what a signal leaves unclosed is not our fault
                for _ in range(150):
                    raised += self._interrupted_once(moments.choice(calls), moments.random())
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(raised, 30)
        self.assert_idle()
        gc.collect()
        self.assertEqual(descriptors(), open_files)
        self.assertEqual(self.fm.read(self.name("there")), b"1" * 300000)
        self.assertEqual(self.fm.ping()["node"], "n1")

    def test_calls_within_a_signals_handler(self):
        """The call beneath cannot read what they wait for, at whatever moment it was interrupted."""
        moments = random.Random(1)
        told = []
        source, end = os.pipe()

        def calls(*_):
            self.fm.put(b"1", self.name(f"handler{len(told)}"))
            told.append(self.fm.exists(self.name("f")))
            if len(told) <= 9:
                os.write(end, b"1000")
            if len(told) == 9:
                os.close(end)
            signal.setitimer(signal.ITIMER_REAL, moments.random() * pause)

        def stats():
            while len(told) < 40:
                self.assertEqual(self.fm.stat(self.name("f")).size, 36)

        before = signal.signal(signal.SIGALRM, calls)
        try:
            for call, pause in ((lambda: self.fm.put(source, self.name("f")), 0.2), (stats, 0.005)):
                signal.setitimer(signal.ITIMER_REAL, pause)
                call()
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            os.close(source)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertFalse(told[0])
        self.assertEqual(self.stored(f"handler{len(told) - 1}"), b"1")
        self.assert_idle()

    def test_a_signals_handler_that_waits_for_a_thread(self):
        """Whose call is answered while the one beneath the handler stands still."""
        told = []

        def waits(*_):
            asks = threading.Thread(target=lambda: told.append(self.fm.exists(self.name("f"))), daemon=True)
            asks.start()
            asks.join(HANG_S)
            self.assertEqual(told, [False])

        path = self.local("f", b"1" * 3000000)
        before = signal.signal(signal.SIGALRM, waits)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            self.fm.put(path, self.name("f"), options=SLOW)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(told, [False])

    def test_a_signals_handler_within_what_is_made_once(self):
        """It makes the connection, or shows the buffer, that the call beneath it is about to."""
        fm, make, calls, numbers = fmove.Connection(), connection.Link, [], []
        self.addCleanup(fm.close)

        def made(path):
            link = make(path)
            while calls:
                calls.pop()()
            return link

        def asks(op, *arguments):
            request = ask(op, *arguments)
            while op == "buffer" and calls:
                calls.pop()()
            return request

        open_files = descriptors()
        calls.append(fm.ping)
        with mock.patch.object(connection, "Link", made):
            self.assertEqual(fm.ping()["node"], "n1")
        self.assertEqual(descriptors(), open_files + 1)
        shown, ask = buffer.Buffer(1 << 20), fm.ask

        def number():
            numbers.append(shown.number_at(fm))

        calls.append(number)
        with mock.patch.object(fm, "ask", asks):
            thread = threading.Thread(target=number, daemon=True)
            thread.start()
            thread.join(HANG_S)
        self.assertEqual(len(numbers), 2)
        self.assertEqual(numbers[0], numbers[1])
        shown.close(fm)

    def test_cancelled_while_a_signals_handler_begins_something(self):
        class Work:
            is_cancelled = False

            def cancel(self):
                self.is_cancelled = True

        class Growing(weakref.WeakSet):
            def __iter__(self):
                for one in super().__iter__():
                    if len(works) == 2:
                        works.append(Work())
                        self.add(works[2])
                    yield one

        works = [Work(), Work()]
        cancel = fmove.Cancel()
        cancel._work = Growing(works)
        cancel.set()
        self.assertEqual([work.is_cancelled for work in works], [True] * 3)

    def test_cancelled_within_a_signals_handler(self):
        """It comes while something is begun in it."""
        cancel = fmove.Cancel()

        def interrupted():
            with cancel._lock:
                cancel.set()

        thread = threading.Thread(target=interrupted, daemon=True)
        thread.start()
        thread.join(HANG_S)
        self.assertFalse(thread.is_alive())

    def _interrupted_once(self, call, when):
        start = time.monotonic()
        call()
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, when * (time.monotonic() - start)))
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            return 1
        return 0

    def _writes(self):
        with self.fm.open(self.name("f"), "wb", force=True) as file:
            file.write(b"1" * 300000)

    def _reads(self):
        with self.fm.open(self.name("there"), "rb") as file:
            self.assertEqual(file.read(1000), b"1" * 1000)

    def test_callback_raises(self):
        def progress(_):
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            self.fm.put(self.local("f", b"1" * 9000000), self.name("f"), progress=progress, options=SLOW)
        self.assert_idle()
        self.assert_names([])

    def test_cancelled_by_another_thread(self):
        cancel = fmove.Cancel()

        def when_it_moves():
            asks = fmove.Connection()
            await_it(lambda: is_moving(asks, 0), "bytes move")
            asks.close()
            cancel.set()

        thread = threading.Thread(target=when_it_moves)
        thread.start()
        with self.assertRaises(fmove.FmoveError) as why:
            with cancel:
                self.fm.put(self.local("f", b"1" * 30000000), self.name("f"), options=SLOW)
        thread.join()
        self.assertEqual(why.exception.errno, errno.ECANCELED)
        with self.assertRaises(fmove.FmoveError) as why:
            with cancel:
                self.fm.put(b"1", self.name("f"), options=SLOW)
        self.assertEqual(why.exception.errno, errno.ECANCELED)
        self.fm.put(b"1", self.name("g"))
        group = self.fm.group(self.name("group"))
        with cancel:
            for call in (lambda: self.fm.rm(self.name("g")), lambda: self.fm.mkdir(self.name("h"))):
                with self.assertRaises(fmove.FmoveError) as why:
                    call()
                self.assertEqual(why.exception.errno, errno.ECANCELED)
            with self.assertRaises(fmove.FmoveError):
                group.discard()  # this is asked all the same, and not waited for
        self.assert_names(["g"])
        self.assert_idle()
        self.assertFalse(self.fm.exists(self.name("f")))

    def test_timeout(self):
        with self.assertRaises(TimeoutError):
            self.fm.put(self.local("f", b"1" * 30000000), self.name("f"), timeout=0.3, options=SLOW)
        with self.assertRaises(TimeoutError):
            with self.fm.open(self.name("f"), "wb", timeout=0.3, options=SLOW) as file:
                for _ in range(100):
                    file.write(b"1" * 1000000)
        self.assert_idle()
        self.assertFalse(self.fm.exists(self.name("f")))

    def looking(self, takes, code):
        """The look at a link takes so many seconds, and fails."""
        clock, gone = time.monotonic, []

        def stat(*_, **__):
            gone.append(takes)
            raise fmove.errors.error(code, "nobody is there", exit=4)

        both = contextlib.ExitStack()
        both.enter_context(mock.patch.object(time, "monotonic", lambda: clock() + sum(gone)))
        both.enter_context(mock.patch.object(self.fm, "stat", stat))
        return both

    def test_a_timeout_counts_once(self):
        """Of a put, and of the look at the link before it. So does that of a group's commit."""
        asked, ask = [], self.fm.ask
        group = self.fm.group(self.name("d"), members=1)
        group.put(b"1", "f")
        calls = {
            "put": lambda: self.fm.put(b"1", self.name("f"), latest="last", timeout=3600.0),
            "group_commit": lambda: group.commit(latest="last", timeout=3600.0),
        }
        for code in (errno.ETIMEDOUT, errno.EHOSTUNREACH):
            for call in calls.values():
                with self.looking(3600.0, code), self.assertRaises(fmove.FmoveError) as why:
                    call()
                self.assertEqual(why.exception.errno, code)
        self.assert_seen([])
        with mock.patch.object(self.fm, "ask", lambda op, *rest: asked.append((op, rest[0])) or ask(op, *rest)):
            for call in calls.values():
                with self.looking(1800.0, errno.ETIMEDOUT):
                    call()
        left = {op: fields.get("timeout_ms", 0) for op, fields in asked}
        for op in calls:
            self.assertTrue(0 < left[op] <= 1800000, left)
        self.assert_seen(["d", "f", "last"])

    def test_a_look_that_fails_ends_nothing(self):
        """The put may wait for longer than the look does."""
        for code in (errno.ETIMEDOUT, errno.EHOSTUNREACH):
            for how in ({}, {"timeout": 1800.0}):
                with self.looking(31.0, code):
                    self.fm.put(b"1", self.name("f"), force=True, latest="last", **how)
                self.assertEqual(os.readlink(f"{self.store}/last"), "f")
                os.unlink(f"{self.store}/last")

    def test_a_daemon_that_does_not_answer(self):
        """The look at the link says so, too."""
        self.fm.ping()
        send = self.fm._link._send
        with mock.patch.object(connection, "ANSWER_S", 0.0):
            with mock.patch.object(self.fm._link, "_send", lambda op, *rest: op == "look" or send(op, *rest)):
                with self.assertRaises(TimeoutError) as why:
                    self.fm.put(b"1", self.name("f"), latest="last", timeout=0.3)
        self.assertEqual(why.exception.exit, 4)
        self.assertIn("fmoved does not answer", str(why.exception))
        self.assert_names([])

    def test_closed_under_others(self):
        other = fmove.Connection()
        caught = []

        def put():
            try:
                other.put(self.local("f", b"1" * 30000000), self.name("f"), options=SLOW)
            except fmove.FmoveError as why:
                caught.append(why)

        thread = threading.Thread(target=put)
        thread.start()
        await_it(lambda: is_moving(self.fm, 0), "bytes move")
        other.close()
        thread.join()
        self.assertEqual([why.errno for why in caught], [errno.ECONNRESET])
        self.assertEqual(other.ping()["node"], "n1")
        other.close()
        self.assert_idle()


class Killed(Case):
    def test_writer(self):
        """At any moment of a stream, also when all of it is there but its name."""
        for i in range(6):
            pid = os.fork()
            if pid == 0:
                file = self.fm.open_writer(self.name("f"), autocommit=False, force=True)
                file.write(b"1" * (i * 700000))
                file.close()
                time.sleep(1000)
            await_it(lambda: self._is_begun(), "it is begun")
            time.sleep(0.02 * i)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.assert_idle()
            self.assertFalse(os.path.exists(f"{self.store}/f"))

    def _is_begun(self):
        return self.fm.status()["jobs"] != []


class Fork(Case):
    def test_each_has_its_own(self):
        self.fm.ping()

        def child():
            self.fm.put(b"child", self.name("child"))
            self.assertIs(fmove.connect(), self.fm)

        self.assertEqual(in_child(child), 0)
        self.fm.put(b"parent", self.name("parent"))
        self.assert_names(["child", "parent"])

    def test_child_has_nothing_of_a_stream(self):
        file = self.fm.open(self.name("f"), "wb")
        file.write(b"1" * 1000)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            os.read(reader, 1)  # lives until the parent has closed the file
            os._exit(0)
        file.close()
        self.assertEqual(self.stored("f"), b"1" * 1000)
        os.close(writer)
        os.close(reader)
        os.waitpid(pid, 0)

    def test_child_has_nothing_of_a_stream_that_is_being_opened(self):
        """Another thread may fork while the daemon is asked."""
        ours, children = self.fm.ask, []

        def pipes():
            ends = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
            return sum(os.path.exists(end) and os.readlink(end).startswith("pipe:") for end in ends)

        def ask(*rest):
            children.append(in_child(lambda: self.assertEqual(pipes(), open_pipes)))
            return ours(*rest)

        self.fm.ping()
        open_pipes = pipes()
        with mock.patch.object(self.fm, "ask", ask):
            self.fm.open(self.name("f"), "wb").close()
        self.assertEqual(children, [0])
        self.assertEqual(self.stored("f"), b"")

    def test_child_cannot_go_on_with_a_stream(self):
        file = self.fm.open(self.name("f"), "wb")

        def child():
            with self.assertRaises((fmove.FmoveError, ValueError)):
                file.write(b"2" * 1000000)

        self.assertEqual(in_child(child), 0)
        file.write(b"1")
        file.close()
        self.assertEqual(self.stored("f"), b"1")

    def test_while_threads_ask(self):
        ends = threading.Event()

        def work():
            while not ends.is_set():
                self.fm.ping()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                self.assertEqual(in_child(self.fm.ping), 0)
        finally:
            ends.set()
            for thread in threads:
                thread.join()


class Long(Case):
    def test_200_saves(self):
        content = os.urandom(2000000)

        def save(i):
            with self.fm.open(self.name("f"), "wb", force=True) as file:
                file.write(content)
            self.fm.put(content, self.name("g"), force=True)
            with self.fm.open(self.name("f"), "rb") as file:
                self.assertEqual(file.read(10), content[:10])

        for i in range(20):
            save(i)
        memory, open_files = _resident(), descriptors()
        for i in range(200):
            save(i)
        self.assertEqual(descriptors(), open_files)
        self.assertLess(_resident() - memory, 8 << 20)


def _raise(*_):
    raise KeyboardInterrupt


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    unittest.main()
