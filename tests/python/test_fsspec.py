# SPDX-License-Identifier: MIT
# Needs: fsspec
# Nodes: 3
# Goal:   fmove:// does what users of fsspec expect of a file system, and a transaction is seen as a whole.
# Method: each call, against what the store has; a transaction that ends well, badly, and whose second file fails; pandas where it is there.
import contextlib
import errno
import gc
import gzip
import io
import os
import threading
import unittest
from unittest import mock

import fsspec
from fsspec.callbacks import Callback

import fmove
from fmove import moving
from fmove.errors import error
from fmove.filesystem import FmoveFileSystem
from fmove.names import parse
from nodes import SOURCE, Case, await_it, in_child

fsspec.register_implementation("fmove", FmoveFileSystem, clobber=True)


class FsspecCase(Case):
    def setUp(self):
        super().setUp()
        self.fs = fsspec.filesystem("fmove")
        self.fs.invalidate_cache()
        self.url = f"fmove://n2/s/{self.id()}"
        self.plain = f"n2/s/{self.id()}"


class Files(FsspecCase):
    def test_write_and_read(self):
        content = os.urandom(3000000)
        with fsspec.open(f"{self.url}/d/f", "wb") as file:
            file.write(content)
        self.assertEqual(self.stored("d/f"), content)
        with fsspec.open(f"{self.url}/d/f", "rb") as file:
            self.assertEqual(file.read(), content)
            with self.assertRaises(io.UnsupportedOperation):
                file.fileno()
        with self.fs.open(f"{self.url}/d/f", "wb") as file:
            file.write(b"shorter")
        self.assertEqual(self.fs.cat(f"{self.url}/d/f"), b"shorter")
        with self.assertRaises(FileExistsError):
            self.fs.open(f"{self.url}/d/f", "xb")
        with self.assertRaises(FileExistsError):
            self.fs.pipe_file(f"{self.url}/d/f", b"1", mode="create")
        self.local("f", b"1")
        with self.assertRaises(FileExistsError):
            self.fs.put_file(self.local("f"), f"{self.url}/d/f", mode="create")
        with self.fs.open(f"{self.url}/d/new", "xb") as file:
            file.write(b"1")
        with self.assertRaises(NotImplementedError):
            self.fs.open(f"{self.url}/d/f", "ab")
        with fsspec.open(f"{self.url}/z.gz", "wt", compression="gzip") as file:
            file.write("text")
        with fsspec.open(f"{self.url}/z.gz", "rt", compression="gzip") as file:
            self.assertEqual(file.read(), "text")
        with self.assertRaises(ZeroDivisionError), self.fs.open(f"{self.url}/e", "wb") as file:
            file.write(b"1")
            raise ZeroDivisionError
        self.assertFalse(self.fs.exists(f"{self.url}/e"))

    def test_what_ends_by_an_exception_leaves_the_last(self):
        """Of fsspec.open, whose with-block closes the file whatever ended it, and in a transaction."""
        self.fs.pipe(f"{self.url}/f", b"old")
        for how in ({"mode": "wb"}, {"mode": "w"}, {"mode": "wb", "compression": "gzip"}, {"mode": "wt", "compression": "xz"}):
            some = b"1" * 1000000 if how["mode"] == "wb" else "1" * 1000000
            for opened in (fsspec.open, self.fs.open):
                for in_transaction in (False, True):
                    with self.assertRaises(ZeroDivisionError), self.fs.transaction if in_transaction else contextlib.nullcontext():
                        with opened(f"{self.url}/f", **how) as file:
                            file.write(some)
                            raise ZeroDivisionError
            with self.assertRaises(ZeroDivisionError), fsspec.open_files([f"{self.url}/f", f"{self.url}/g"], **how) as files:
                files[0].write(some)
                raise ZeroDivisionError
        self.assertEqual(self.stored("f"), b"old")
        self.assert_names(["f"])
        self.assert_idle()

    def test_text_that_is_dropped_leaves_the_last(self):
        self.fs.pipe(f"{self.url}/f", b"old")
        for opened in (lambda: fsspec.open(f"{self.url}/f", "w").open(), lambda: self.fs.open(f"{self.url}/f", "w")):
            with self.assertWarns(RuntimeWarning):
                opened().write("1")
                gc.collect()
        self.assertEqual(self.stored("f"), b"old")
        self.assert_idle()

    def test_what_is_closed_while_an_exception_is_handled_is_seen(self):
        late = fsspec.open(f"{self.url}/late", "w").open()
        by_itself = self.fs.open(f"{self.url}/by_itself", "w")
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            for i, mode in enumerate(("wb", "w")):
                with fsspec.open(f"{self.url}/{i}", mode) as file:
                    file.write(b"why" if mode == "wb" else "why")
                with self.fs.open(f"{self.url}/{i}.fs", mode) as file:
                    file.write(b"why" if mode == "wb" else "why")
            for file in (late, by_itself):
                file.write("what there is")
                file.close()
        self.assert_names(["0", "0.fs", "1", "1.fs", "by_itself", "late"])
        self.assertEqual((self.stored("1"), self.stored("late")), (b"why", b"what there is"))

    def test_compressed(self):
        """Ours is closed behind the compressor; what ends by an exception, or is dropped, is discarded."""
        for codec in ("gzip", "bz2", "xz", "zip"):
            for mode, some, read in (("wb", b"1" * 1000000, "rb"), ("wt", "ä\n", "rt"), ("xb", b"", "rb")):
                path = f"{self.url}/{codec}/{mode}"
                with self.fs.open(path, mode, compression=codec, **({} if "b" in mode else {"encoding": "utf-8"})) as file:
                    file.write(some)
                    self.assertFalse(self.fs.exists(path))
                with self.fs.open(path, read, compression=codec) as file:
                    self.assertEqual(file.read(), some)
            before = self.stored(f"{codec}/wb")
            for mode, some in (("wb", b"2"), ("w", "2")):
                with self.assertRaises(ZeroDivisionError):
                    with self.fs.open(f"{self.url}/{codec}/wb", mode, compression=codec) as file:
                        file.write(some)
                        raise ZeroDivisionError
                if codec != "zip":  # which says on stderr that it is not closed
                    with self.assertWarns(RuntimeWarning):
                        self.fs.open(f"{self.url}/{codec}/wb", mode, compression=codec).write(some)
                        gc.collect()
            self.assertEqual(self.stored(f"{codec}/wb"), before)
        with self.fs.open(f"{self.url}/a.gz", "w", compression="infer") as file:
            file.write("a")
            self.assertEqual(file.buffer.tell(), 0)
        self.assertEqual(gzip.decompress(self.stored("a.gz")), b"a")
        with self.fs.open(f"{self.url}/a", "wb", compression="infer") as file:
            file.write(b"a")
        self.assertEqual(self.stored("a"), b"a")
        with self.assertRaises(ValueError):
            self.fs.open(f"{self.url}/b", "wb", compression="none such")
        with self.assertRaises(LookupError):
            self.fs.open(f"{self.url}/b", "w", encoding="none such")
        with self.assertRaises(FileExistsError):
            self.fs.open(f"{self.url}/a.gz", "xb", compression="gzip")
        file = self.fs.open(f"{self.url}/b", "wb", compression="gzip")
        with mock.patch.object(file._into.raw, "_write_some", side_effect=error(errno.ENOSPC, "full")), self.assertRaises(fmove.FmoveError):
            file.write(os.urandom(1000000))
        with self.assertRaises(fmove.FmoveError) as why:
            file.close()
        self.assertEqual(why.exception.code, "ECANCELED")
        self.assert_names(["a", "a.gz", "bz2", "gzip", "xz", "zip"])
        self.assert_idle()

    def test_looking(self):
        self.fs.pipe({f"{self.url}/a/b/1": b"1", f"{self.url}/a/2.txt": b"22", f"{self.url}/3.txt": b"333"})
        self.assertEqual(self.fs.ls(self.url, detail=False), [f"{self.plain}/3.txt", f"{self.plain}/a"])
        self.assertEqual(self.fs.find(self.url), [f"{self.plain}/{n}" for n in ("3.txt", "a/2.txt", "a/b/1")])
        self.assertEqual(self.fs.glob(f"{self.url}/*.txt"), [f"{self.plain}/3.txt"])
        self.assertEqual(self.fs.glob(f"{self.url}/a/*"), [f"{self.plain}/a/2.txt", f"{self.plain}/a/b"])
        self.assertEqual(self.fs.du(self.url), 6)
        info = self.fs.info(f"{self.url}/a/2.txt")
        self.assertEqual((info["type"], info["size"], info["name"]), ("file", 2, f"{self.plain}/a/2.txt"))
        self.assertEqual(info["mtime_ns"], os.stat(f"{self.store}/a/2.txt").st_mtime_ns)
        self.assertTrue(self.fs.isdir(f"{self.url}/a") and self.fs.isfile(f"{self.url}/3.txt"))
        self.assertEqual(self.fs.ls("fmove://", detail=False), ["n1", "n2", "n3"])
        self.assertEqual(self.fs.ls("fmove://n2", detail=False), ["n2/s"])
        self.assertTrue(self.fs.isdir("fmove://n2/s") and self.fs.isdir("fmove://n2") and self.fs.isdir("fmove://"))
        self.assertFalse(self.fs.exists("fmove://n2/none") or self.fs.exists(f"{self.url}/none/x"))
        with self.assertRaises(FileNotFoundError):
            self.fs.ls(f"{self.url}/none")

    def test_listings_are_kept_until_we_change_something(self):
        self.fs.pipe(f"{self.url}/a", b"1")
        self.fs.ls(self.url)
        self.fm.put(b"2", self.name("b"))
        self.assertEqual(len(self.fs.ls(self.url)), 1)
        self.assertEqual(len(self.fs.ls(self.url, refresh=True)), 2)
        self.fs.pipe(f"{self.url}/c", b"3")
        self.assertEqual(len(self.fs.ls(self.url)), 3)

    def test_changing(self):
        self.fs.mkdir(f"{self.url}/d/e")
        with self.assertRaises(FileExistsError):
            self.fs.mkdir(f"{self.url}/d/e")
        self.fs.makedirs(f"{self.url}/d/e", exist_ok=True)
        self.fs.touch(f"{self.url}/d/f")
        self.fs.mv(f"{self.url}/d/f", f"{self.url}/d/g")
        self.fs.cp(f"{self.url}/d/g", f"{self.url}/d/h")
        self.assertEqual(sorted(os.listdir(f"{self.store}/d")), ["e", "g", "h"])
        self.fs.rmdir(f"{self.url}/d/e")
        with self.assertRaises(NotADirectoryError):
            self.fs.rmdir(f"{self.url}/d/g")
        with self.assertRaises(OSError) as why:
            self.fs.rmdir(f"{self.url}/d")
        self.assertEqual(why.exception.errno, errno.ENOTEMPTY)
        self.fs.rm(f"{self.url}/d/g*")
        self.assertEqual(os.listdir(f"{self.store}/d"), ["h"])
        self.fs.rm(f"{self.url}/d", recursive=True)
        self.assertFalse(self.fs.exists(f"{self.url}/d"))

    def test_local_files(self):
        os.makedirs(self.local("d/e"))
        self.local("d/e/f", b"1" * 2000000)
        self.fs.put(self.local("d"), f"{self.url}/d", recursive=True)
        self.assertEqual(len(self.stored("d/e/f")), 2000000)
        told = Callback()
        self.fs.get_file(f"{self.url}/d/e/f", self.local("back"), callback=told)
        self.assertEqual((told.value, told.size), (2000000, 2000000))
        self.fs.get(f"{self.url}/d", self.local("all"), recursive=True)
        self.assertEqual(os.path.getsize(self.local("all/e/f")), 2000000)

    def test_ranges(self):
        content = os.urandom(100000)
        self.fs.pipe({f"{self.url}/a": content, f"{self.url}/b": content[::-1]})
        a, b = f"{self.url}/a", f"{self.url}/b"
        asked = []
        ours = self.fs.connection.ask
        self.fs.connection.ask = lambda op, *rest: (asked.append(op), ours(op, *rest))[1]
        try:
            found = self.fs.cat_ranges([a, b] * 300, list(range(600)), list(range(10, 610)))
        finally:
            del self.fs.connection.ask
        self.assertEqual(asked, ["get", "get"])  # one for each file
        for i, part in enumerate(found):
            self.assertEqual(part, (content, content[::-1])[i % 2][i : i + 10])
        self.assertEqual(self.fs.cat_ranges([a, a, a], [-5, 99990, None], [None, 200000, 3]),
                         [content[-5:], content[99990:], content[:3]])
        self.assertEqual(self.fs.cat_file(a, start=5, end=-7), content[5:-7])
        found = self.fs.cat_ranges([a, f"{self.url}/none"], 0, 5, on_error="return")
        self.assertEqual((found[0], type(found[1])), (content[:5], fmove.NotFound))
        with self.assertRaises(FileNotFoundError):
            self.fs.cat_ranges([f"{self.url}/none"], 0, 5, on_error="raise")

    def test_in_a_child(self):
        self.fs.pipe(f"{self.url}/a", b"1")
        self.assertEqual(in_child(lambda: self.assertEqual(fsspec.filesystem("fmove").cat(f"{self.url}/a"), b"1")), 0)

    def test_pandas(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("there is no pandas")
        frame = pandas.DataFrame({"a": range(1000), "b": [str(i) for i in range(1000)]})
        frame.to_csv(f"{self.url}/t.csv", index=False)
        frame.to_pickle(f"{self.url}/t.pkl")
        self.assertTrue(pandas.read_csv(f"{self.url}/t.csv", dtype={"b": str}).equals(frame))
        self.assertTrue(pandas.read_pickle(f"{self.url}/t.pkl").equals(frame))


class Once:
    """A method that fails once, of what is named so."""

    def __init__(self, case, of, method, path, why):
        self.real, self.path, self.why = getattr(of, method), path, why
        patch = mock.patch.object(of, method, self)
        patch.start()
        case.addCleanup(patch.stop)

    def __call__(self, name, *rest, **how):
        if str(name).endswith(self.path) and self.why is not None:
            why, self.why = self.why, None
            raise why
        return self.real(name, *rest, **how)


class Trees(FsspecCase):
    def setUp(self):
        super().setUp()
        self.fs.pipe({f"{self.url}/t/{name}": name.encode() for name in ("a", "d/b", "d/e/c")})
        self.other = f"fmove://n3/s/{self.id()}"
        self.there = os.path.join(os.environ["FM_DIR"], "n3", "s", self.id())

    def fails_once(self, why):
        return Once(self, self.fs.connection, "ls", "/t/d", why)

    def left(self):
        return sorted(os.path.relpath(f, f"{self.plain}/t") for f in self.fs.find(f"{self.url}/t", refresh=True))

    def test_what_cannot_be_listed_is_an_error(self):
        broken = error(errno.EIO, "once")
        for call in (
            lambda: self.fs.find(f"{self.url}/t"),
            lambda: list(self.fs.walk(f"{self.url}/t")),
            lambda: self.fs.get(f"{self.url}/t", self.local("got"), recursive=True),
            lambda: self.fs.cp(f"{self.url}/t", f"{self.url}/copy", recursive=True),
            lambda: self.fs.mv(f"{self.url}/t", self.other, recursive=True),
        ):
            self.fs.invalidate_cache()
            self.fails_once(broken)
            with self.assertRaises(fmove.FmoveError) as why:
                call()
            self.assertEqual(why.exception.code, "EIO")
        self.assertFalse(os.path.exists(self.there))
        self.assertEqual(self.left(), ["a", "d/b", "d/e/c"])
        told = []
        self.fails_once(broken)
        self.fs.invalidate_cache()
        list(self.fs.walk(f"{self.url}/t", on_error=told.append))
        self.assertEqual(told, [broken])
        self.fails_once(fmove.NotFound(errno.ENOENT, "gone"))  # while it was looked
        self.assertEqual(self.fs.find(f"{self.url}/t", refresh=True), [f"{self.plain}/t/a"])

    def test_walk(self):
        def of(**how):
            return [(os.path.relpath(path, self.plain), sorted(dirs), sorted(files)) for path, dirs, files in self.fs.walk(f"{self.url}/t", **how)]

        wanted = [("t", ["d"], ["a"]), ("t/d", ["e"], ["b"]), ("t/d/e", [], ["c"])]
        self.assertEqual(of(), wanted)
        self.assertEqual(of(detail=True), wanted)
        self.assertEqual(of(topdown=False), wanted[::-1])
        self.assertEqual(of(maxdepth=2), wanted[:2])
        self.assertEqual(self.fs.expand_path(f"{self.url}/t", recursive=True, maxdepth=1)[-2:], [f"{self.plain}/t/a", f"{self.plain}/t/d"])
        seen = []
        for path, dirs, _ in self.fs.walk(f"{self.url}/t"):
            seen.append(path)
            dirs.clear()
        self.assertEqual(seen, [f"{self.plain}/t"])

    def test_what_is_got_is_listed_anew(self):
        self.fs.find(f"{self.url}/t")
        self.fm.put(b"new", self.name("t/d/new"))
        self.fs.get(f"{self.url}/t", self.local("got"), recursive=True)
        self.assertEqual(sorted(os.listdir(self.local("got/d"))), ["b", "e", "new"])

    def test_a_link_to_a_directory_is_no_empty_one(self):
        self.fm.ln("d", self.name("t/last"))
        with self.assertRaises(IsADirectoryError):
            self.fs.get(f"{self.url}/t", self.local("got"), recursive=True)
        self.fs.get(f"{self.url}/t/last", self.local("last"), recursive=True)
        self.assertEqual(sorted(os.listdir(self.local("last"))), ["b", "e"])

    def test_what_a_pattern_matches_is_removed_whole_and_no_link_followed(self):
        self.fs.pipe({f"{self.url}/{name}": b"1" for name in ("run/step4/r", "run/step5/r", "run/step5-x", "shared/w")})
        self.fm.ln("step5", self.name("run/last"))
        self.fm.ln("../shared", self.name("run/base"))
        self.fs.find(self.url)
        self.fm.put(b"1", self.name("run/step6/new"))  # which no listing has
        self.fs.rm(f"{self.url}/run/las*", recursive=True)
        self.assertEqual(self.stored("run/step5/r"), b"1")
        self.assertFalse(os.path.lexists(f"{self.store}/run/last"))
        self.fs.rm(f"{self.url}/run/step[456]*", recursive=True)
        self.assertEqual(os.listdir(f"{self.store}/run"), ["base"])
        self.assertEqual(self.fs.ls(f"{self.url}/run", detail=False), [f"{self.plain}/run/base"])
        self.fs.rm(f"{self.url}/run/*", recursive=True)
        self.assertEqual(os.listdir(f"{self.store}/run"), [])
        self.assertEqual(self.stored("shared/w"), b"1")
        with self.assertRaises(FileNotFoundError):
            self.fs.rm(f"{self.url}/run/*", recursive=True)
        for path in (f"{self.url}/t", f"{self.url}/t*"):
            with self.assertRaises(fmove.FmoveError) as why:
                self.fs.rm(path, recursive=True, maxdepth=1)
            self.assertEqual(why.exception.code, "ENOTSUP")
        self.assertEqual(self.left(), ["a", "d/b", "d/e/c"])

    def test_a_match_that_somebody_else_removes(self):
        Once(self, self.fs.connection, "rm", "/t/a", fmove.NotFound(errno.ENOENT, "gone"))
        self.fs.rm(f"{self.url}/t/*", recursive=True)
        self.assertEqual(os.listdir(f"{self.store}/t"), ["a"])
        self.fs.pipe(f"{self.url}/t/d/e/f", b"1")
        self.fs.rm(f"{self.url}/t/d/**", recursive=True)  # what is in a match goes with that
        self.assertEqual(self.left(), ["a"])

    def test_rmdir_takes_no_pattern(self):
        self.fm.mkdir(self.name("t/[ad]"))
        self.fs.rmdir(f"{self.url}/t/[ad]")
        self.assertEqual(self.left(), ["a", "d/b", "d/e/c"])
        self.assertFalse(self.fs.exists(f"{self.url}/t/[ad]"))

    def test_move(self):
        """To another store: all of it, what nobody listed yet included."""
        self.fs.find(f"{self.url}/t")
        self.fm.put(b"new", self.name("t/d/new"))
        self.fm.ln("d/b", self.name("t/last"))
        self.fm.ln("d", self.name("t/link"))
        self.fm.mkdir(self.name("t/empty"))
        with self.assertRaises(IsADirectoryError):
            self.fs.mv(f"{self.url}/t", self.other)
        self.fs.mv(f"{self.url}/t", self.other, recursive=True)
        self.assertFalse(self.fs.exists(f"{self.url}/t"))
        found = [(os.path.relpath(path, self.there), sorted(dirs), sorted(files)) for path, dirs, files in os.walk(self.there)]
        self.assertEqual(
            sorted(found), [(".", ["d", "empty", "link"], ["a", "last"]), ("d", ["e"], ["b", "new"]), ("d/e", [], ["c"]), ("empty", [], [])]
        )
        self.assertEqual([os.readlink(f"{self.there}/{name}") for name in ("last", "link")], ["d/b", "d"])
        self.fs.mv(f"{self.other}/a", self.url)  # a directory: into it
        self.fs.mv(f"{self.other}/d/*", f"{self.url}/into", recursive=True)
        self.assertEqual(self.stored("a"), b"a")
        self.assertEqual(sorted(os.listdir(f"{self.store}/into")), ["b", "e", "new"])
        self.assertEqual(os.listdir(f"{self.there}/d"), [])

    def test_what_is_moved_is_on_the_disk_before_its_source_goes(self):
        puts = []
        ours = self.fs.connection.ask

        def ask(op, fields, *rest):
            if op == "put":
                puts.append(fields.get("durability"))
            return ours(op, fields, *rest)

        with mock.patch.object(self.fs.connection, "ask", ask):
            self.fs.mv(f"{self.url}/t", self.other, recursive=True)
        self.assertEqual(puts, ["disk"] * 3)

    def test_move_goes_into_a_directory(self):
        """In one store and to another: also where a link leads to it, which stays."""
        self.fs.pipe({f"{top}/run/step5/r": b"1" for top in (self.url, self.other)})
        for node in ("n2", "n3"):
            self.fm.ln("step5", f"{node}:s/{self.id()}/run/last")
        for top in (self.url, self.other):
            for i, (old, new) in enumerate((("f", "run/last/"), ("f", "run/last"), ("f/", "run/last"), ("f", "run/step5/"))):
                self.fs.pipe(f"{self.url}/f{i}", b"f")
                self.fs.mv(f"{self.url}/" + old.replace("f", f"f{i}"), f"{top}/{new}")
            self.fs.mv(f"{self.url}/t/d/e", f"{top}/run/last", recursive=True)
            self.fs.pipe(f"{self.url}/t/d/e/c", b"again")
            self.assertEqual(self.fs.ls(f"{top}/run/step5", detail=False, refresh=True), [f"{top[8:]}/run/step5/{n}" for n in ("e", "f0", "f1", "f2", "f3", "r")])
            self.assertEqual(self.fm.stat(f"{parse(top)}/run/last", follow_symlinks=False).leads_to, "step5")
        with self.assertRaises(FileExistsError):
            self.fs.mv(f"{self.url}/t/d/", f"{self.url}/run/last")
        with self.assertRaises(NotADirectoryError):
            self.fs.mv(f"{self.url}/t/a", f"{self.url}/t/d/b/")
        self.fm.ln("step5", self.name("run/next"))
        self.fs.mv(f"{self.url}/run/next", f"{self.url}/run/first")  # of a link: the link
        self.assertEqual(os.readlink(f"{self.store}/run/first"), "step5")

    def test_what_a_pattern_matches_keeps_its_path(self):
        """Two of one last name are two, and nothing is removed before all is copied."""
        self.fs.pipe({f"{self.url}/{name}": name.encode() for name in ("run1/m", "run2/m")})
        with mock.patch.object(moving, "_copy", mock.Mock(side_effect=[None, error(errno.ENOSPC, "full")])):
            with self.assertRaises(fmove.FmoveError):
                self.fs.mv(f"{self.url}/run*/m", self.other)
        self.assertEqual((self.stored("run1/m"), self.stored("run2/m")), (b"run1/m", b"run2/m"))
        self.fs.mv(f"{self.url}/run*/m", self.other)
        for name in ("run1/m", "run2/m"):
            self.assertEqual(self.fs.cat(f"{self.other}/{name}"), name.encode())
            self.assertFalse(self.fs.exists(f"{self.url}/{name}"))
        self.fs.mv(f"{self.url}/t/**", self.other, recursive=True)  # d, and what is in it: once
        top = f"{self.other}/t" if os.path.exists(f"{self.there}/t") else self.other  # of newer versions ** is t, too
        self.assertEqual(self.fs.cat(f"{top}/d/e/c"), b"d/e/c")
        self.assertEqual(self.left(), [])

    def test_a_pattern_does_not_move_what_it_matches_to_itself(self):
        """A pattern of nodes or stores may match one in the store that all go to."""
        with self.assertRaises(fmove.FmoveError) as why:
            self.fs.mv(f"{self.url.replace('n2', 'n[2]')}/t/a", self.url + "/t")
        self.assertEqual(why.exception.code, "EINVAL")
        self.assertEqual(self.stored("t/a"), b"a")

    def test_a_directory_with_a_put_under_way_stays(self):
        """One that has a journal, that is: of a file and not of a stream."""
        self.fs.rm(f"{self.url}/t/d/e/c")
        source = self.local("f", os.urandom(3000000))
        cancel = fmove.Cancel()

        def put_slowly():
            with cancel, contextlib.suppress(fmove.FmoveError):
                self.fm.put(source, self.name("t/d/e/new"), options=fmove.Options(limit=30000))  # 100 s

        def is_noted():
            return self.fm.answer("list", {**parse(self.name("t/d/e")).fields(), "partial": True}).get("entries")

        thread = threading.Thread(target=put_slowly)
        thread.start()
        try:
            await_it(is_noted, "the put has a journal")
            for remove in (lambda: self.fs.rmdir(f"{self.url}/t/d/e"), lambda: self.fs.mv(f"{self.url}/t", self.other, recursive=True)):
                with self.assertRaises(fmove.FmoveError) as why:
                    remove()
                self.assertEqual(why.exception.code, "ENOTEMPTY")
                self.assertIn("fmove purge --unfinished n2:s ", str(why.exception))
            self.assertFalse(self.fs.exists(self.other))  # nothing was copied
        finally:
            cancel.set()
            thread.join()

    def test_what_comes_while_it_is_moved_stays(self):
        for path, code in (("t/d/new", "ENOTEMPTY"), ("t/d/b", "ESTALE")):
            copied = moving._copy

            def copy(fm, old, *rest):
                copied(fm, old, *rest)
                if old.last == "c":
                    fm.put(b"came later", self.name(path), force=True)

            with mock.patch.object(moving, "_copy", copy):
                with self.assertRaises(fmove.FmoveError) as why:
                    self.fs.mv(f"{self.url}/t", self.other, recursive=True)
            self.assertEqual(why.exception.code, code)
            self.assertEqual(self.stored(path), b"came later")
            self.setUp_again()

    def setUp_again(self):
        self.fs.rm(self.other, recursive=True)
        self.fs.pipe({f"{self.url}/t/{name}": name.encode() for name in ("a", "d/b", "d/e/c")})

    def test_no_move_to_another_store_in_a_transaction(self):
        with self.fs.transaction:
            with self.assertRaises(fmove.FmoveError) as why:
                self.fs.mv(f"{self.url}/t/a", self.other)
        self.assertEqual(why.exception.code, "ENOTSUP")
        self.assertEqual(self.stored("t/a"), b"a")


class Transactions(FsspecCase):
    def write(self, path, content=b"1"):
        with self.fs.open(f"{self.url}/{path}", "wb") as file:
            file.write(content)

    def test_a_new_directory_is_a_group(self):
        self.fs.mkdir(self.url)
        with self.fs.transaction:
            self.write("ckpt/d/a")
            self.write("ckpt/b")
            self.fs.pipe(f"{self.url}/ckpt/c", b"3")
            self.assertFalse(self.fs.exists(f"{self.url}/ckpt"))
            self.assertEqual(len([n for n in self.names() if n.endswith(".group")]), 1)
        self.assertEqual([os.path.relpath(f, self.plain) for f in self.fs.find(self.url)], ["ckpt/b", "ckpt/c", "ckpt/d/a"])

    def test_files_of_a_directory_that_is_there(self):
        self.fs.pipe(f"{self.url}/old", b"old")
        with self.fs.transaction:
            self.write("old", b"new")
            self.write("a")
            self.assertEqual(self.fs.cat(f"{self.url}/old"), b"old")
        self.assertEqual(self.fs.cat(f"{self.url}/old"), b"new")
        self.assertEqual(self.fs.ls(self.url, detail=False), [f"{self.plain}/a", f"{self.plain}/old"])

    def test_exception(self):
        self.fs.pipe(f"{self.url}/old", b"old")
        with self.assertRaises(ZeroDivisionError):
            with self.fs.transaction:
                self.write("old", b"new")
                self.write("ckpt/a")
                raise ZeroDivisionError
        self.assert_names(["old"])
        self.assertEqual(self.fs.cat(f"{self.url}/old"), b"old")
        self.write("after")
        self.assertEqual(self.stored("after"), b"1")
        self.assert_idle()

    def test_one_that_fails_drops_all(self):
        self.fs.pipe(f"{self.url}/old", b"old")
        self.fs.start_transaction()
        self.write("ckpt/a")
        self.write("new")
        with self.assertRaises(ZeroDivisionError):
            with self.fs.open(f"{self.url}/b", "wb") as file:
                raise ZeroDivisionError
        with self.assertRaises(fmove.FmoveError) as why:
            self.fs.end_transaction()
        self.assertEqual(why.exception.errno, errno.ECANCELED)
        self.assert_names(["old"])
        self.write("after")
        self.assertEqual(self.stored("after"), b"1")

    def test_text_and_compressed(self):
        self.fs.mkdir(self.url)
        for fails in (True, False):
            with contextlib.suppress(ZeroDivisionError), self.fs.transaction:
                with self.fs.open(f"{self.url}/ckpt/a.gz", "wt", compression="gzip") as file:
                    file.write("1")
                with self.fs.open(f"{self.url}/ckpt/b", "w") as file:
                    file.write("2")
                self.assertEqual(len([n for n in self.names() if n.endswith(".group")]), 1)
                self.assertFalse(self.fs.exists(f"{self.url}/ckpt"))
                if fails:
                    raise ZeroDivisionError
            if fails:
                self.assert_names([])
        self.assertEqual((gzip.decompress(self.stored("ckpt/a.gz")), self.stored("ckpt/b")), (b"1", b"2"))
        self.assert_idle()

    def test_what_is_not_closed_drops_all(self):
        """Text and compressors hold back what they were told to write."""
        for how in ({"mode": "wb"}, {"mode": "w"}, {"mode": "wb", "compression": "gzip"}):
            with self.assertRaises(fmove.FmoveError) as why:
                with self.fs.transaction:
                    self.write("ckpt/a")
                    file = self.fs.open(f"{self.url}/ckpt/b", **how)
                    file.write("2" if how["mode"] == "w" else b"2")
            self.assertEqual(why.exception.errno, errno.ECANCELED)
            self.assertIn("was not closed", str(why.exception))
            self.assert_names([])
            with contextlib.suppress(ValueError):
                file.close()


if __name__ == "__main__":
    unittest.main()
