# SPDX-License-Identifier: MIT
# Goal:   what a call of client/python sends, receives, lists and changes is what it says.
# Method: each call, with each kind of source and target, against files that are looked at by other means; every refusal.
import errno
import fcntl
import gc
import os
import pathlib
import pickle
import random
import subprocess
import threading
import unittest
from unittest import mock

import fmove
from fmove import connection, names, ranges
from nodes import DIR, Case, await_it, crash, descriptors, in_child, start_again


class Put(Case):
    def test_bytes_of_each_kind(self):
        for i, content in enumerate((b"", b"some", bytearray(b"more"), memoryview(b"abcdef")[::1])):
            result = self.fm.put(content, self.name(f"b{i}"))
            self.assertEqual(self.stored(f"b{i}"), bytes(content))
            self.assertEqual(result.bytes, len(content))
        self.assertTrue(result.durable)

    def test_more_bytes_than_are_copied(self):
        content = random.Random(1).randbytes(connection.MEMORY_PUT_MAX + 12345)
        told = []
        result = self.fm.put(content, self.name("large"), progress=told.append)
        self.assertEqual(result.bytes, len(content))
        self.assertEqual(self.fm.read(self.name("large")), content)
        self.assertEqual(told[-1].bytes, len(content))
        self.fm.rm(self.name("large"))

    def test_files_of_each_kind(self):
        content = os.urandom(300000)
        path = self.local("f", content)
        self.fm.put(path, self.name("path"))
        self.fm.put(pathlib.Path(path), self.name("pathlike"))
        with open(path, "rb") as file:
            file.seek(1000)
            flags = fcntl.fcntl(file, fcntl.F_GETFL)
            for i in range(20):
                self.fm.put(file, self.name("file"), force=True)
                self.fm.put(file.fileno(), self.name("fd"), force=True)
                # Both are the program's own, and stay as they were.
                self.assertEqual((file.tell(), fcntl.fcntl(file, fcntl.F_GETFL)), (1000, flags))
        with open(self.local("w"), "w+b") as file:
            file.write(content)
            self.fm.put(file, self.name("written"))
        for name in ("path", "pathlike", "file", "fd", "written"):
            self.assertEqual(self.stored(name), content, name)

    @unittest.skipIf(os.getuid() != 0, "only root can become somebody else")
    def test_a_file_that_somebody_else_opened(self):
        path = self.local("secret", b"s" * 5000)
        os.chmod(path, 0o600)
        with open(path, "rb") as file:
            file.seek(100)

            def nobody():
                os.setgid(65534)
                os.setuid(65534)
                self.fm.put(file, self.name("f"))

            os.makedirs(self.store)
            self.assertEqual(in_child(nobody), 0)
        self.assertEqual(self.stored("f"), b"s" * 5000)

    def test_a_file_of_which_we_have_a_lock(self):
        """Whoever closes a descriptor of it gives the lock up."""
        content = os.urandom(5000)

        def is_locked():
            with open(self.local("f"), "r+b") as file:
                with self.assertRaises(OSError):
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        with open(self.local("f", content), "r+b") as file:
            file.seek(1000)
            fcntl.lockf(file, fcntl.LOCK_EX)
            flags = fcntl.fcntl(file, fcntl.F_GETFL)
            before = len(os.listdir("/proc/self/fd"))
            seen = []
            self.fm.put(file, self.name("f"), progress=lambda _: seen.append(os.lseek(file.fileno(), 0, os.SEEK_CUR)))
            self.fm.put(file.fileno(), self.name("fd"))
            self.assertEqual((file.tell(), fcntl.fcntl(file, fcntl.F_GETFL)), (1000, flags))
            with connection._opened(file):  # a put that lasts
                self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_CUR), 1000)
            self.assertEqual(set(seen) - {1000}, set())
            self.assertEqual(in_child(is_locked), 0)
            self.assertEqual(len(os.listdir("/proc/self/fd")), before + 1)  # however often it is put
        self.assertEqual((self.stored("f"), self.stored("fd")), (content, content))
        with open(self.local("other", b"1"), "rb") as file:
            self.fm.put(file, self.name("other"))
        self.assertEqual(len(os.listdir("/proc/self/fd")), before - 1)  # the lock is gone, and so is what was kept for it

    def test_the_path_of_a_file_of_which_we_have_a_lock(self):
        path = self.local("f", b"1")

        def is_locked():
            with open(path, "r+b") as file:
                with self.assertRaises(OSError):
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        before = len(os.listdir("/proc/self/fd"))
        with open(path, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            for _ in range(3):
                self.fm.put(path, self.name("f"), force=True)
                self.assertEqual(in_child(is_locked), 0)
                self.assertEqual(len(os.listdir("/proc/self/fd")), before + 2)
        self.assertEqual(self.stored("f"), b"1")
        self.fm.put(path, self.name("g"))
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_what_is_kept_for_a_lock_and_closed_by_the_program(self):
        """As a program does that becomes a daemon, and whose next files have these numbers."""
        path, other = self.local("f", b"1"), self.local("other", b"2")

        def kept():
            fcntl.lockf(file, fcntl.LOCK_EX)
            self.fm.put(path, self.name("f"), force=True)
            return connection._kept[-1].fileno()

        reader, writer = os.pipe()
        with open(path, "r+b") as file:
            for put in (other, open(other, "rb")):
                os.close(kept())
                self.fm.put(put, self.name("closed"), force=True)
                number = kept()
                os.dup2(writer, number)
                self.fm.put(put, self.name("another"), force=True)
                gc.collect()
                self.assertEqual(os.write(number, b"3"), 1)
                self.assertEqual(os.read(reader, 1), b"3")
                os.close(number)
        put.close()
        os.close(reader)
        os.close(writer)
        self.assertEqual((self.stored("closed"), self.stored("another")), (b"2", b"2"))

    def test_what_is_kept_for_a_lock_and_opened_again_by_the_program(self):
        """The same file, by the same number."""
        path, other = self.local("f", b"1"), self.local("other", b"2")
        for put in (path, other):
            with open(path, "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX)
                self.fm.put(path, self.name("f"), force=True)
                number = connection._kept[-1].fileno()
                again = os.open(path, os.O_RDONLY)
                os.dup2(again, number)
                os.close(again)
                os.lseek(number, 1, os.SEEK_SET)
                self.fm.put(put, self.name("again"), force=True)
                self.assertEqual(os.lseek(number, 0, os.SEEK_CUR), 1)
            self.fm.put(put, self.name("again"), force=True)
            gc.collect()
            self.assertEqual(os.lseek(number, 0, os.SEEK_CUR), 1)
            os.close(number)

    def test_what_is_kept_for_a_lock_and_inherited(self):
        """A put of the child moves no position of which its parent sends."""
        path = self.local("f", b"1")

        def put():
            self.fm.put(path, self.name("child"))

        with open(path, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            self.fm.put(path, self.name("f"))
            kept = connection._kept[-1].fileno()
            os.lseek(kept, 1, os.SEEK_SET)
            self.assertEqual(in_child(put), 0)
            self.assertEqual(os.lseek(kept, 0, os.SEEK_CUR), 1)
            self.fm.put(path, self.name("again"))
        self.assertEqual((self.stored("child"), self.stored("again")), (b"1", b"1"))

    def test_a_file_system_that_fails(self):
        """As of a server that has ended: what was opened of it is closed, and what is kept of it
        for a lock stays, and keeps no other file from being put."""
        path, other = self.local("f", b"1"), self.local("other", b"2")
        has_ended = []
        fstat = os.fstat

        def fails(number):
            if has_ended:
                raise OSError(errno.ESTALE, "it is gone")
            return fstat(number)

        self.fm.ping()
        before = descriptors()
        with mock.patch.object(os, "fstat", fails):
            with connection._opened(path):
                has_ended.append(True)
            self.assertEqual(descriptors(), before)
            has_ended.clear()
            with open(path, "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX)
                self.fm.put(path, self.name("f"), force=True)
                has_ended.append(True)
                self.fm.put(other, self.name("other"), force=True)
                self.assertEqual(descriptors(), before + 2)
                has_ended.clear()
            self.fm.put(other, self.name("other"), force=True)
        self.assertEqual(descriptors(), before)

    def test_pipe(self):
        reader, writer = os.pipe()
        thread = threading.Thread(target=lambda: (os.write(writer, b"x" * 50000), os.close(writer)))
        thread.start()
        self.fm.put(reader, self.name("pipe"))
        thread.join()
        os.close(reader)
        self.assertEqual(self.stored("pipe"), b"x" * 50000)

    def test_replaces_only_if_asked(self):
        self.fm.put(b"1", self.name("f"))
        with self.assertRaises(FileExistsError) as why:
            self.fm.put(b"2", self.name("f"))
        self.assertEqual((why.exception.code, why.exception.exit), ("EEXIST", 6))
        self.assertEqual(self.stored("f"), b"1")
        self.fm.put(b"2", self.name("f"), force=True, latest="last")
        self.assertEqual(self.stored("f"), b"2")
        self.assertEqual(os.readlink(f"{self.store}/last"), "f")

    def test_the_last_are_kept(self):
        for i in range(4):
            result = self.fm.put(b"%d" % i, self.name(f"f{i}"), latest="last", keep_last=2)
        self.assertEqual((result.rotated.gone, result.rotated.stays), (("f1",), ""))
        self.assertEqual([e.name for e in self.fm.ls(self.top)], ["f2", "f3", "last"])
        self.assertEqual(self.fm.stat(self.name("last")).type, "file")
        link = self.fm.stat(self.name("last"), follow_symlinks=False)
        self.assertEqual((link.type, link.leads_to), ("link", "f3"))
        memory = fmove.Options(durability="memory")
        for wrong in (
            {"keep_last": 2},
            {"latest": "a/b"},
            {"latest": ""},
            {"latest": "last", "keep_last": 1001},
            {"latest": "last", "keep_last": -1},
            {"latest": "last", "group": "0" * 32},
            {"latest": "last", "options": memory},
        ):
            with self.assertRaises(fmove.FmoveError) as why:
                self.fm.put(b"", self.name("wrong"), **wrong)
            self.assertEqual((why.exception.errno, why.exception.exit), (errno.EINVAL, 2), wrong)
        self.assertFalse(self.fm.exists(self.name("wrong")))

    def test_the_link_cannot_be_led(self):
        os.makedirs(f"{self.store}/last")
        with self.assertRaises(FileExistsError) as why:
            self.fm.put(b"1", self.name("f"), latest="last")
        self.assertFalse(why.exception.is_published)
        self.assertFalse(self.fm.exists(self.name("f")))
        with mock.patch.object(self.fm, "check_link", return_value=None):  # it came meanwhile
            with self.assertRaises(FileExistsError) as why:
                self.fm.put(b"1", self.name("f"), latest="last")
        self.assertTrue(why.exception.is_published)
        self.assertIn("is saved, but the link last was not led to it", str(why.exception))
        self.assertEqual(self.stored("f"), b"1")

    def test_a_file_of_ours_that_is_not_there(self):
        with self.assertRaises(FileNotFoundError) as why:
            self.fm.put("/nowhere/at/all", self.name("f"))
        self.assertNotIsInstance(why.exception, fmove.FmoveError)

    def test_names(self):
        for path in ("grün", "a b", os.fsdecode(b"\xff\xfe"), 'q"\\', "new\nline"):
            self.fm.put(path.encode(errors="surrogateescape"), self.name(path))
            self.assertEqual(self.fm.read(self.name(path)), os.fsencode(path))
            self.assertIn(path, [e.name for e in self.fm.ls(self.top)])
        self.assertEqual(str(names.parse("fmove://n2/s/a/b")), "n2:s/a/b")
        for wrong in ("", "n2", "n2:", ":s", "/a:b/c", "fmove://n2"):
            with self.assertRaises(fmove.FmoveError) as why:
                self.fm.stat(wrong)
            self.assertEqual((why.exception.errno, why.exception.exit), (errno.EINVAL, 2), wrong)
        with self.assertRaises(fmove.FmoveError) as why:
            self.fm.put(b"", self.name("a" * 70000))
        self.assertEqual(why.exception.errno, errno.ENAMETOOLONG)


class Buffers(Case):
    def setUp(self):
        super().setUp()
        self.fm.status()  # there is a connection
        self.before = descriptors()
        self.buffer = fmove.Buffer(1 << 20)

    def put(self, content, path):
        self.buffer.memory[: len(content)] = content
        self.fm.put_buffer(self.buffer, len(content), self.name(path))

    def test_from_where_it_lies(self):
        whole = os.urandom(1 << 20)
        self.put(b"hello", "a")
        self.put(whole, "b")
        self.assertEqual(self.stored("a"), b"hello")
        self.assertEqual(self.stored("b"), whole)
        with self.assertRaises(FileExistsError):
            self.put(b"other", "a")
        self.buffer.close(self.fm)
        self.assertEqual(self.buffer.memory[:5], b"other")
        self.assertEqual(descriptors(), self.before + 1)  # the mapping's, as long as it lasts
        del self.buffer
        self.assertEqual(descriptors(), self.before)

    def test_longer_than_it_is(self):
        with self.assertRaises(fmove.FmoveError):
            self.fm.put_buffer(self.buffer, (1 << 20) + 1, self.name("a"))
        self.assertFalse(self.fm.exists(self.name("a")))
        self.buffer.close(self.fm)

    def test_shown_again(self):
        """Over the next connection, and to a daemon that was started again."""
        self.put(b"1", "a")
        self.fm.close()
        self.put(b"2", "b")
        crash("n1")
        start_again("n1")
        await_it(lambda: n2_is_there(self.fm), "n1 meets n2 again")
        self.put(b"3", "c")
        self.assertEqual([self.stored(name) for name in "abc"], [b"1", b"2", b"3"])
        self.buffer.close(self.fm)


def n2_is_there(fm):
    try:
        return fm.exists("n2:s")
    except fmove.FmoveError:
        return False


class Get(Case):
    def setUp(self):
        super().setUp()
        self.content = os.urandom(700000)
        self.fm.put(self.local("source", self.content), self.name("f"))

    def test_into_path(self):
        to = self.local("to")
        os.chmod(f"{self.store}/f", 0o640)
        told = []
        self.fm.get(self.name("f"), to, progress=told.append)
        with open(to, "rb") as file:
            self.assertEqual(file.read(), self.content)
        self.assertEqual(os.stat(to).st_mode & 0o7777, 0o640)
        self.assertEqual(os.stat(to).st_mtime_ns, os.stat(f"{self.store}/f").st_mtime_ns)
        with self.assertRaises(FileExistsError):
            self.fm.get(self.name("f"), to)
        self.local("to", b"old")
        self.fm.get(self.name("f"), pathlib.Path(to), force=True)
        with open(to, "rb") as file:
            self.assertEqual(file.read(), self.content)
        self.assertEqual(sorted(os.listdir(self.here)), ["source", "to"])

    def test_failure_leaves_the_old_file(self):
        to = self.local("to", b"old")
        with self.assertRaises(FileNotFoundError):
            self.fm.get(self.name("none"), to, force=True)
        with open(to, "rb") as file:
            self.assertEqual(file.read(), b"old")
        self.assertEqual(sorted(os.listdir(self.here)), ["source", "to"])

    def test_somebody_takes_the_name_meanwhile(self):
        to = self.local("to")
        with self.assertRaises(FileExistsError):
            self.fm.get(self.name("f"), to, progress=None, options=_Takes(to))
        with open(to, "rb") as file:
            self.assertEqual(file.read(), b"")
        self.assertEqual(sorted(os.listdir(self.here)), ["source", "to"])

    def test_into_descriptor_and_memory(self):
        with open(self.local("to"), "w+b") as file:
            for _ in range(20):
                file.truncate(0)
                self.fm.get(self.name("f"), file.fileno())
                self.assertFalse(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT)
            self.assertEqual(file.read(), self.content)
        self.assertEqual(self.fm.read(self.name("f")), self.content)


class OwnDescriptor(Case):
    """The daemon sets O_DIRECT by the descriptor that it is given, which shares it with ours."""

    def setUp(self):
        super().setUp()
        if subprocess.check_output(["stat", "-f", "-c", "%T", self.here]) == b"tmpfs\n":
            self.skipTest("a file in memory has no O_DIRECT")
        self.content = os.urandom(3000001)
        self.local("from", self.content)
        self.fm.put(self.local("from"), self.name("there"))

    def as_before(self, file, call):
        """After the call any bytes can be read by it."""
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        call()
        self.assertEqual(fcntl.fcntl(file, fcntl.F_GETFL), flags)
        if os.fstat(file.fileno()).st_size > 0:
            self.assertEqual(os.pread(file.fileno(), 1001, 77), self.content[77:1078])

    def put(self):
        with open(self.local("from"), "rb") as file:
            fields = {**names.parse(self.name("f")).fields(), "force": True}
            self.as_before(file, lambda: self.fm.ask("put", fields, [file.fileno()]).wait())

    def get(self):
        with open(self.local("to"), "w+b") as file:
            self.as_before(file, lambda: self.fm.get(self.name("there"), file.fileno()))

    def get_in_vain(self):
        def call():
            with self.assertRaises(TimeoutError):
                slow = fmove.Options(limit=1 << 17)
                self.fm.get(self.name("there"), file.fileno(), timeout=0.3, options=slow)

        with open(self.local("to"), "w+b") as file:
            self.as_before(file, call)

    def test_many_times(self):
        for _ in range(50):
            self.put()
            self.get()

    def test_when_they_are_put_back_late(self):
        for call in (self.put, self.get, self.get_in_vain):
            crash("n1")
            os.environ["FMOVE_FAULT"] = "store.flags:1+1"
            start_again("n1")
            del os.environ["FMOVE_FAULT"]
            await_it(self._reaches_n2, "n2 can be reached")
            call()
            with open(f"{DIR}/n1/log") as log:
                self.assertIn("store.flags is late", log.read())

    def _reaches_n2(self):
        try:
            return self.fm.exists(self.name("there"))
        except fmove.FmoveError:
            return False


class _Takes(fmove.Options):
    """Options that make the target appear when they are asked for: behind the first look at it."""

    def __init__(self, path):
        super().__init__()
        object.__setattr__(self, "path", path)

    def fields(self):
        open(self.path, "xb").close()
        return super().fields()


class Ranges(Case):
    def setUp(self):
        super().setUp()
        self.content = random.Random(2).randbytes(3000000)
        self.fm.put(self.content, self.name("f"))

    def expected(self, wanted):
        return [self.content[at : at + length] for at, length in wanted]

    def test_many(self):
        draw = random.Random(3)
        wanted = [(draw.randrange(2990000), draw.randrange(9000)) for _ in range(2500)]
        self.assertEqual(self.fm.read_ranges(self.name("f"), wanted), self.expected(wanted))

    def test_few(self):
        for wanted in ([], [(0, 0)], [(5, 10), (0, 3000000), (7, 3), (3000000, 0)]):
            self.assertEqual(self.fm.read_ranges(self.name("f"), wanted), self.expected(wanted))

    def test_longer_than_one_request(self):
        most, ranges.MEMORY_MAX = ranges.MEMORY_MAX, 10000
        try:
            wanted = [(3, 25000), (100, 10000), (0, 0), (9, 1)]
            self.assertEqual(self.fm.read_ranges(self.name("f"), wanted), self.expected(wanted))
        finally:
            ranges.MEMORY_MAX = most

    def test_into(self):
        room = bytearray(10)
        self.fm.read_ranges_into(self.name("f"), [(9, 4), (1, 6)], [memoryview(room)[:4], memoryview(room)[4:]])
        self.assertEqual(bytes(room), self.content[9:13] + self.content[1:7])
        with self.assertRaises(fmove.FmoveError):
            self.fm.read_ranges_into(self.name("f"), [(9, 4)], [room])

    def test_refused(self):
        for wrong in ((-1, 4), (4, -1), (1 << 63, 1), (2999999, 2)):
            with self.assertRaises(fmove.FmoveError) as why:
                self.fm.read_ranges(self.name("f"), [(0, 1), wrong])
            self.assertEqual(why.exception.errno, errno.EINVAL, wrong)

    def test_another_version_in_the_midst(self):
        class Replaces(fmove.Connection):
            asked = 0

            def ask(self, op, fields, fds=()):
                request = super().ask(op, fields, fds)
                self.asked += op == "get"
                if self.asked == 1 and op == "get":
                    request.next_event = _first_replaced(request, after)
                return request

        after = lambda: self.fm.put(b"n" * 3000000, self.name("f"), force=True)
        other = Replaces()
        with self.assertRaises(fmove.FmoveError) as why:
            other.read_ranges(self.name("f"), [(i, 1) for i in range(1025)])
        self.assertEqual(why.exception.errno, errno.ESTALE)
        self.assertEqual(other.asked, 2)
        other.close()


def _first_replaced(request, after):
    ours = request.next_event

    def next_event():
        event = ours()
        if event["event"] == "done":
            after()
        return event

    return next_event


class Stores(Case):
    def test_directories(self):
        self.fm.mkdir(self.name("d/e"))
        self.fm.put(b"123", self.name("d/f"))
        self.assertEqual([(e.name, e.type) for e in self.fm.ls(self.name("d"))], [("e", "directory"), ("f", "file")])
        entry = self.fm.stat(self.name("d/f"))
        self.assertEqual((entry.name, entry.size, entry.is_dir), ("f", 3, False))
        self.assertEqual(entry.mtime_ns, os.stat(f"{self.store}/d/f").st_mtime_ns)
        self.assertTrue(self.fm.stat("n2:s").is_dir)
        self.fm.mv(self.name("d/f"), self.id() + "/d/g")
        self.fm.ln("g", self.name("d/l"))
        self.assertEqual(os.readlink(f"{self.store}/d/l"), "g")
        with self.assertRaises(OSError):
            self.fm.rm(self.name("d"))
        self.fm.rm(self.name("d/g"))
        self.assertFalse(self.fm.exists(self.name("d/g")))
        self.fm.rm(self.name("d"), recursive=True)
        self.assertFalse(self.fm.exists(self.name("d")))
        with self.assertRaises(NotADirectoryError):
            self.fm.put(b"", self.name("file"))
            list(self.fm.ls(self.name("file")))

    def test_a_directory_of_several_pages(self):
        os.makedirs(self.store)
        wanted = sorted(f"{i:04}-" + "n" * 200 for i in range(3000))
        for name in wanted:
            os.symlink("x", f"{self.store}/{name}")
        self.assertEqual([e.name for e in self.fm.ls(self.top)], wanted)
        self.fm.rm(self.top, recursive=True)

    def test_verify(self):
        self.fm.put(b"a" * 100000, self.name("good"))
        self.fm.put(b"a" * 100000, self.name("bad"))
        self.assertEqual(self.fm.verify(self.top).findings, ())
        was = os.stat(f"{self.store}/bad")
        with open(f"{self.store}/bad", "r+b") as file:
            file.seek(70000)
            file.write(b"b")
        os.utime(f"{self.store}/bad", ns=(was.st_atime_ns, was.st_mtime_ns))
        verified = self.fm.verify(self.top)
        self.assertEqual([(f.kind, f.path) for f in verified.findings], [("corrupt", self.id() + "/bad")])
        self.assertEqual((verified.files, verified.bytes), (2, 200000))
        with self.assertRaises(fmove.FmoveError) as why:
            self.fm.read(self.name("bad"))
        self.assertEqual(why.exception.code, "EBADMSG")
        self.assertEqual(len(self.fm.read(self.name("bad"), options=fmove.Options(accept_corrupt=True))), 100000)

    def test_nodes(self):
        self.assertEqual(self.fm.ping()["node"], "n1")
        self.assertEqual([p["name"] for p in self.fm.status()["peers"]], ["n2"])
        self.assertEqual([s["store"] for s in self.fm.stores("n2")], ["s"])


class Stage(Case):
    def test_held_as_long_as_we_live(self):
        self.fm.put(os.urandom(3000000), self.name("set/a"))
        self.fm.put(b"b", self.name("set/d/b"))
        reader, writer = os.pipe()
        told = []

        def child():
            path = self.fm.stage(self.name("set"), called=self.id(), progress=told.append)
            os.write(writer, path.encode())
            os.close(writer)
            self.assertEqual(self.datasets(), [(self.id(), 1)])

        self.assertEqual(in_child(child), 0)
        os.close(writer)
        with os.fdopen(reader) as file:
            path = file.read()
        for name in ("a", "d/b"):
            with open(os.path.join(path, name), "rb") as file:
                self.assertEqual(file.read(), self.stored(f"set/{name}"))
        await_it(lambda: [n for _, n in self.datasets() if n] == [], "nobody holds it")
        self.assertEqual(self.fm.stage(self.name("set"), called=self.id()), path)
        self.assertEqual(self.datasets(), [(self.id(), 1)])
        with self.assertRaises(FileNotFoundError):
            self.fm.stage(self.name("none"))

    def datasets(self):
        return [(d["name"], d["holds"]) for d in self.fm.answer("datasets", {})["datasets"]]


class Groups(Case):
    def test_commit(self):
        with self.fm.group(self.name("g"), members=3) as group:
            group.put(b"1", "a")
            group.put(b"2", "d/b")
            with self.assertRaises(fmove.FmoveError) as why:
                group.check()
            self.assertIn("2 of 3 members", why.exception.strerror)
            self.assertEqual((why.exception.missing, why.exception.missing_more), ((), 1))
            other = fmove.Group(fmove.Connection(), group.name, group.id)
            other.put(b"3", "c")
            other.connection.close()
            self.assertFalse(self.fm.exists(self.name("g")))
        self.assertEqual(sorted(os.listdir(f"{self.store}/g")), ["a", "c", "d"])

    def test_latest_and_expect(self):
        group = self.fm.group(self.name("g"))
        with self.fm.open(self.name("g/a"), "wb", group=group.id) as file:
            file.write(b"1")
        with self.assertRaises(fmove.FmoveError) as why:
            group.commit(expect=["a", "b", "c/d\udcff"])
        self.assertEqual((why.exception.missing, why.exception.missing_more), (("b", "c/d\udcff"), 0))
        again = pickle.loads(pickle.dumps(why.exception))
        self.assertEqual(again.missing, why.exception.missing)
        with self.assertRaises(fmove.FmoveError) as why:
            group.commit(expect=["a", *(f"{i}" * 250 for i in range(9))])
        self.assertEqual((len(why.exception.missing), why.exception.missing_more), (2, 7))
        group.commit(expect=["a"], latest="last")
        self.assertEqual(os.readlink(f"{self.store}/last"), "g")
        self.assertEqual(self.fm.read(self.name("last/a")), b"1")
        with self.fm.group(self.name("h"), members=1) as later:
            later.put(b"2", "a")
            later.commit(latest="last")
        group.commit(expect=["a"], latest="last")  # again: it is not led back
        self.assertEqual(os.readlink(f"{self.store}/last"), "h")

    def test_the_last_are_kept(self):
        for i in range(4):
            group = self.fm.group(self.name(f"g{i}"), members=1)
            group.put(b"%d" % i, "a")
            with self.assertRaises(fmove.FmoveError):
                group.commit(keep_last=2)
            self.assertFalse(self.fm.exists(self.name(f"g{i}")))
            rotated = group.commit(latest="last", keep_last=2)
        self.assertEqual(rotated.gone, ("g1",))
        self.assertEqual([e.name for e in self.fm.ls(self.top)], ["g2", "g3", "last"])
        self.assertEqual(self.fm.read(self.name("last/a")), b"3")

    def test_discard(self):
        with self.assertRaises(ZeroDivisionError):
            with self.fm.group(self.name("g"), members=1) as group:
                group.put(b"1", "a")
                raise ZeroDivisionError
        self.assert_names([])


if __name__ == "__main__":
    unittest.main()
