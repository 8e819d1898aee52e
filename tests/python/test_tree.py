# SPDX-License-Identifier: MIT
# Calls libfmove.
# Goal:   directories go and come by libfmove, and its structures are those of fmove.h.
# Method: a C program prints their layout; directories put, updated and got; errors, callbacks and signals in the midst.
import ctypes
import glob
import os
import select
import signal
import subprocess
import threading
import time
import unittest
from unittest import mock

import fmove
from fmove import tree
from nodes import SOURCE, Case, await_it, descriptors, interrupted

SLOW = fmove.Options(limit=1 << 20)


class Layout(Case):
    def test_structures(self):
        lines, wanted = [], []
        for name, structure in tree.STRUCTURES.items():
            lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
            wanted.append((name, ctypes.sizeof(structure)))
            for field in structure._fields_:
                lines.append(f'printf("%zu %zu\\n", offsetof(struct {name}, {field[0]}), sizeof(((struct {name} *)0)->{field[0]}));')
                at = getattr(structure, field[0])
                wanted.append((f"{name}.{field[0]}", at.offset, at.size))
        source = self.local("layout.c", ("#include <stdio.h>\n#include <client/lib/fmove.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n").encode())
        program = self.local("layout")
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run(["cc", "-I", SOURCE, "-o", program, source], check=True, env=environment)
        told = subprocess.run([program], check=True, env=environment, stdout=subprocess.PIPE).stdout.decode().split("\n")
        for one, line in zip(wanted, told):
            self.assertEqual(list(one[1:]), [int(n) for n in line.split()], one[0])
        self.assertEqual(len(wanted), len(told) - 1)

    def test_words(self):
        header = ""
        for path in glob.glob(f"{SOURCE}/client/lib/fmove/*.h"):
            with open(path) as file:
                header += file.read()
        for key, words in tree.WORDS.items():
            names = ", ".join("FMOVE_" + word.upper() for word in words)
            self.assertIn(f"enum fmove_{key} {{ {names} }};", header)
        self.assertIn("#define FMOVE_TEXT_MAX 512", header)


class Tree(Case):
    def setUp(self):
        super().setUp()
        self.dir = self.local("d")
        os.makedirs(f"{self.dir}/e")
        self.local("d/a", b"1" * 1000)
        self.local("d/e/b", os.urandom(3000000))

    def test_there_and_back(self):
        told = []
        result = self.fm.put_tree(self.dir, self.name("d"), progress=told.append)
        self.assertEqual((result.bytes, result.all["files"], result.all["dirs"]), (3001000, 2, 1))
        subprocess.run(["diff", "-r", self.dir, f"{self.store}/d"], check=True)
        self.fm.get_tree(self.name("d"), self.local("back"))
        subprocess.run(["diff", "-r", self.dir, self.local("back")], check=True)

    def test_update(self):
        self.fm.put_tree(self.dir, self.name("d"))
        self.local("d/a", b"2" * 1001)
        with self.assertRaises(FileExistsError) as why:
            self.fm.put_tree(self.dir, self.name("d"))
        self.assertEqual(why.exception.exit, 6)
        result = self.fm.put_tree(self.dir, self.name("d"), update=True)
        self.assertEqual((result.all["replaced"], result.all["reused_files"]), (1, 1))
        self.assertEqual(self.stored("d/a"), b"2" * 1001)

    def test_member_of_a_group(self):
        with self.fm.group(self.name("g"), members=1) as group:
            self.fm.put_tree(self.dir, self.name("g/d"), group=group.id)
        self.assertEqual(self.stored("g/d/a"), b"1" * 1000)

    def test_refused(self):
        with self.assertRaises(FileNotFoundError):
            self.fm.put_tree(self.local("none"), self.name("d"))
        with self.assertRaises(FileNotFoundError):
            self.fm.get_tree(self.name("none"), self.local("back"))
        with self.assertRaises(ConnectionRefusedError):
            fmove.Connection(self.local("none")).put_tree(self.dir, self.name("d"))

    def test_callback_raises(self):
        def progress(p):
            if p.bytes:
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            self.fm.put_tree(self.dir, self.name("d"), progress=progress, options=SLOW)
        self.assert_idle()
        self.assertFalse(os.path.exists(f"{self.store}/d"))

    def test_interrupted(self):
        main = os.getpid()

        def interrupt():
            asks = fmove.Connection()
            await_it(lambda: any(job["bytes"] for job in asks.status()["jobs"]), "bytes move")
            asks.close()
            os.kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            self.fm.put_tree(self.dir, self.name("d"), options=SLOW)
        thread.join()
        self.assert_idle()
        self.assertFalse(os.path.exists(f"{self.store}/d"))

    def test_interrupted_again_and_again(self):
        """What libfmove uses stays open until it has ended, and nobody goes on before."""
        main, fine = os.getpid(), []

        def do(call, fd):
            select.select([call._cancel_fd], [], [])
            for _ in range(5):
                os.kill(main, signal.SIGALRM)
                time.sleep(0.05)  # for the handler to raise; any time will do
            self.assertEqual(os.fstat(fd).st_ino, os.stat(self.dir).st_ino)
            self.assertEqual(select.select([call._cancel_fd], [], [], 0)[0], [call._cancel_fd])
            fine.append(fd)
            raise ZeroDivisionError

        before = descriptors()
        with mock.patch.object(tree._Call, "_do", do):
            interrupted(self, lambda: self.fm.put_tree(self.dir, self.name("d")))
        self.assertEqual(len(fine), 1)
        self.assertEqual(descriptors(), before)

    def test_cancelled_before_it_began(self):
        with fmove.Cancel() as cancel:
            cancel.set()
            with self.assertRaises(fmove.FmoveError) as why:
                self.fm.put_tree(self.dir, self.name("d"))
        self.assertEqual(why.exception.code, "ECANCELED")
        self.assertFalse(os.path.exists(f"{self.store}/d"))


if __name__ == "__main__":
    unittest.main()
