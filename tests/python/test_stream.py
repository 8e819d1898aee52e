# SPDX-License-Identifier: MIT
# Goal:   what is written as a file is seen when it is closed, as a whole, or never; what is read as a file is one version of it.
# Method: every way to end a stream; reading in any order, compared with the bytes; replacing the file meanwhile.
import errno
import gc
import io
import json
import os
import random
import threading
import unittest
import warnings
import zipfile

import fmove
from nodes import Case, descriptors, in_child


def _interrupted(_):
    raise KeyboardInterrupt


class Write(Case):
    def test_seen_when_closed(self):
        file = self.fm.open(self.name("f"), "wb")
        parts = [os.urandom(n) for n in (1, 5000, 0, 3000000, 7)]
        for part in parts:
            self.assertEqual(file.write(part), len(part))
        self.assertEqual(file.tell(), 3005008)
        self.assertFalse(self.fm.exists(self.name("f")))
        file.close()
        file.close()
        self.assertEqual(self.stored("f"), b"".join(parts))
        self.assertEqual(file.result.bytes, 3005008)
        with self.assertRaises(ValueError):
            file.write(b"more")

    def test_empty(self):
        self.fm.open(self.name("f"), "wb").close()
        self.assertEqual(self.stored("f"), b"")

    def test_exception_discards(self):
        for mode, some in (("wb", b"1" * 1000000), ("w", "1" * 1000000), ("wb", b"")):
            with self.assertRaises(ZeroDivisionError):
                with self.fm.open(self.name("f"), mode) as file:
                    file.write(some)
                    raise ZeroDivisionError
            self.assert_names([])
        self.assert_idle()

    def test_dropped_is_discarded(self):
        """Also by text of Python's own, whose end closes what it writes into. That is said."""
        for opened, some in (
            (lambda: self.fm.open(self.name("f"), "wb"), b"1"),
            (lambda: self.fm.open(self.name("f"), "w"), "1"),
            (lambda: io.TextIOWrapper(self.fm.open(self.name("f"), "wb")), "1"),
        ):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                opened().write(some)
                gc.collect()
            self.assertEqual([(w.category, str(w.message)) for w in told], [(RuntimeWarning, f"{self.name('f')} was not closed: discarded")])
            self.assert_names([])
        self.assert_idle()

    def test_dropped_after_it_failed_or_in_a_child_says_nothing(self):
        def drop_it():
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                kept.clear()
                gc.collect()
            self.assertEqual(told, [])

        kept = [self.fm.open(self.name("f"), mode) for mode in ("w", "wb")]
        self.assertEqual(in_child(drop_it), 0)
        for file in kept:
            file.discard()
        drop_it()
        self.assert_names([])

    def test_text_and_writers_of_python(self):
        with self.fm.open(self.name("t"), "w") as file:
            json.dump({"ä": [1, 2]}, file, ensure_ascii=False)
        self.assertEqual(self.stored("t"), '{"ä": [1, 2]}'.encode())
        with self.fm.open(self.name("t")) as file:
            self.assertEqual(json.load(file), {"ä": [1, 2]})
        with self.fm.open(self.name("z"), "wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("a", b"x" * 100000)
        with zipfile.ZipFile(self.fm.open(self.name("z"), "rb")) as archive:
            self.assertEqual(archive.read("a"), b"x" * 100000)
            archive.fp.close()

    def test_name_is_taken(self):
        self.fm.put(b"old", self.name("f"))
        with self.assertRaises(FileExistsError):
            with self.fm.open(self.name("f"), "wb") as file:
                file.write(b"1" * 3000000)
        self.assertTrue(file.closed)
        self.assertEqual(self.stored("f"), b"old")
        with self.fm.open(self.name("f"), "wb", force=True) as file:
            file.write(b"new")
        self.assertEqual(self.stored("f"), b"new")

    def test_a_write_that_failed_is_never_seen(self):
        file = self.fm.open(self.name("f"), "wb")
        file.write(b"1" * 1000000)
        ours, file.raw._write_some = file.raw._write_some, _interrupted
        with self.assertRaises(KeyboardInterrupt):
            file.write(b"2" * 1000000)
        file.raw._write_some = ours
        with self.assertRaises(fmove.FmoveError) as why:
            file.close()
        self.assertEqual(why.exception.errno, errno.ECANCELED)
        self.assertTrue(file.closed)
        self.assert_names([])

    def test_held_until_commit(self):
        file = self.fm.open_writer(self.name("f"), autocommit=False)
        file.write(b"1")
        file.close()
        self.assertFalse(self.fm.exists(self.name("f")))
        file.commit()
        self.assertEqual(self.stored("f"), b"1")
        file = self.fm.open_writer(self.name("g"), autocommit=False)
        file.write(b"1")
        file.close()
        file.discard()
        with self.assertRaises(fmove.FmoveError):
            file.commit()
        self.assert_names(["f"])
        self.assert_idle()

    def test_no_descriptor_stays(self):
        self.fm.ping()
        before = descriptors()
        for i in range(20):
            with self.fm.open(self.name(f"f{i}"), "wb") as file:
                file.write(b"1")
            with self.assertRaises(ZeroDivisionError), self.fm.open(self.name("g"), "wb") as file:
                raise ZeroDivisionError
            with self.fm.open(self.name(f"f{i}"), "rb") as file:
                file.read()
        self.assertEqual(descriptors(), before)


class Read(Case):
    def setUp(self):
        super().setUp()
        self.content = random.Random(5).randbytes(9000000)
        self.fm.put(self.content, self.name("f"))

    def test_any_order(self):
        draw = random.Random(6)
        with self.fm.open(self.name("f"), "rb") as file:
            same = io.BytesIO(self.content)
            for _ in range(120):
                if draw.random() < 0.3:
                    to, whence = draw.choice(((draw.randrange(9000000), 0), (-draw.randrange(1, 9000000), 2)))
                    self.assertEqual(file.seek(to, whence), same.seek(to, whence))
                size = draw.choice((1, 100, 5000, 300000, 700000))
                self.assertEqual(file.read(size), same.read(size))
                self.assertEqual(file.tell(), same.tell())
            self.assertEqual(file.seek(0, 2), 9000000)
            self.assertEqual(file.read(), b"")
            with self.assertRaises(OSError):
                file.seek(-1)
        self.assert_idle()

    def test_read_on(self):
        asked = []

        class Counts(fmove.Connection):
            def ask(self, op, fields, fds=()):
                asked.append(op)
                return super().ask(op, fields, fds)

        other = Counts()
        with other.open(self.name("f"), "rb") as file:
            self.assertEqual(file.size, 9000000)
            parts = [file.read(300000)]
            self.assertEqual(asked, ["stat", "get", "get", "get"])  # the last is on its way
            while part := file.read(100000):
                parts.append(part)
        self.assertEqual(b"".join(parts), self.content)
        self.assertLess(len(asked), 10)  # windows grow
        other.close()

    def test_lines(self):
        lines = [f"line {i}\n" for i in range(50000)]
        self.fm.put("".join(lines).encode(), self.name("t"))
        with self.fm.open(self.name("t"), "r") as file:
            self.assertEqual(list(file), lines)

    def test_replaced_meanwhile(self):
        """Before it is read, and in the midst; by a newer one, and by one that only its inode tells from it."""
        before = os.stat(f"{self.store}/f")
        for read, mtime_ns in ((0, None), (10, None), (10, before.st_mtime_ns)):
            os.utime(f"{self.store}/f", ns=(0, before.st_mtime_ns))
            with self.fm.open(self.name("f"), "rb") as file:
                file.read(read)
                other = self.local("other", b"x" * 9000000)
                if mtime_ns is not None:
                    os.utime(other, ns=(0, mtime_ns))
                self.fm.put(other, self.name("f"), force=True)
                with self.assertRaises(fmove.FmoveError) as why:
                    file.read()
                self.assertEqual(why.exception.errno, errno.ESTALE)

    def test_refused(self):
        for wrong in (self.name("none"), self.top):
            with self.assertRaises((FileNotFoundError, IsADirectoryError)):
                self.fm.open(wrong, "rb")
        with self.assertRaises(ValueError):
            self.fm.open(self.name("f"), "a")
        file = self.fm.open(self.name("f"), "rb")
        file.close()
        with self.assertRaises(ValueError):
            file.read(1)


class Threads(Case):
    def test_many_share_a_connection(self):
        wrong = []

        def work(i):
            try:
                content = random.Random(i).randbytes(200000 + i)
                with self.fm.open(self.name(f"s{i}"), "wb") as file:
                    file.write(content)
                for j in range(10):
                    self.fm.put(content[:j], self.name(f"p{i}-{j}"))
                    if self.fm.read(self.name(f"p{i}-{j}")) != content[:j]:
                        wrong.append((i, j))
                with self.fm.open(self.name(f"s{i}"), "rb") as file:
                    if file.read() != content:
                        wrong.append(i)
            except BaseException as why:
                wrong.append(why)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
