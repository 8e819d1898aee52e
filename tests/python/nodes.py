# SPDX-License-Identifier: MIT
"""What the tests share: the nodes that `run` started, and a process that ends as it should."""

import os
import signal
import subprocess
import sys
import time
import traceback
import unittest

import fmove

DIR = os.environ["FM_DIR"]
SOURCE = os.environ["FM_SOURCE"]
STORE = os.path.join(DIR, "n2", "s")
HANG_S = int(os.environ.get("HANG_S", 400))


def cluster(*arguments):
    # What it starts outlives this process, and must have nothing of it open.
    subprocess.run([f"{SOURCE}/tests/cluster", *arguments], check=True, stdout=subprocess.DEVNULL)


def crash(node):
    with open(f"{DIR}/{node}/pid") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    await_it(lambda: os.path.exists(f"{DIR}/{node}/exit"), f"{node} ends")


def start_again(node):
    cluster("start", DIR, node)


def await_it(is_so, what):
    end = time.monotonic() + HANG_S
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def in_child(function):
    """Runs it in a forked process. Its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Interrupt(BaseException):
    """As of a preemption's signal."""


def interrupted(case, call):
    """What waits for long is ended by a signal's handler that raises in it."""

    def raises(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, raises)
    try:
        with case.assertRaises(Interrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.3)  # once; where it comes does not matter to the test
            call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Case(unittest.TestCase):
    """Each test has a directory of n2's store, and one of its own."""

    def setUp(self):
        self.fm = fmove.connect()
        self.top = "n2:s/" + self.id()
        self.store = os.path.join(STORE, self.id())
        self.here = os.path.join(os.getcwd(), self.id())
        os.mkdir(self.here)

    def name(self, path):
        return f"{self.top}/{path}"

    def stored(self, path):
        with open(os.path.join(self.store, path), "rb") as file:
            return file.read()

    def names(self):
        """What is in the store's directory, what fmove keeps beside files included."""
        return sorted(os.listdir(self.store)) if os.path.exists(self.store) else []

    def local(self, path, content=None):
        full = os.path.join(self.here, path)
        if content is not None:
            with open(full, "wb") as file:
                file.write(content)
        return full

    def assert_names(self, wanted):
        """The far node may take a moment to remove what was discarded."""
        await_it(lambda: self.names() == wanted, f"{wanted} is all that there is")

    def assert_seen(self, wanted):
        """The same, but for what is kept of commits."""

        def seen():
            kept = (".group", ".rotation")
            return [name for name in self.names() if not name.endswith(kept)]

        await_it(lambda: seen() == wanted, f"{wanted} is all that is seen, of {self.names()}")

    def assert_idle(self):
        """No node has a transfer any more."""
        for node in ("n1", "n2"):
            node = fmove.Connection(f"{DIR}/{node}/fmoved.sock")
            await_it(lambda: node.status()["jobs"] == [], "no transfer is under way")
            node.close()
