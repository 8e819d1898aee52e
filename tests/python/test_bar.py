# SPDX-License-Identifier: MIT
# Goal:   a transfer is shown as a bar where tqdm is installed, of each call, and is the same without it.
# Method: the real tqdm, into memory; a transfer that is told of at least once, since its bytes come slowly.
import io
import os
import sys
import threading
import unittest
from unittest import mock

import fmove
from nodes import HANG_S, Case

try:
    import tqdm
except ImportError:
    tqdm = None


MIB = 1 << 20


class Shown(Case):
    def put_slowly(self, name, bar):
        """A pipe whose second half comes when the bar has been told of the first."""
        read, write = os.pipe()
        told = threading.Event()

        def show(progress):
            bar(progress)
            if progress.bytes >= MIB:
                told.set()

        def fill():
            with open(write, "wb") as file:
                file.write(bytes(4 * MIB))
                file.flush()
                told.wait(HANG_S)
                file.write(bytes(4 * MIB))

        filler = threading.Thread(target=fill)
        filler.start()
        with open(read, "rb") as source:
            result = self.fm.put(source, self.name(name), progress=show)
        filler.join()
        self.assertEqual(result.bytes, 8 * MIB)

    @unittest.skipUnless(tqdm, "there is no tqdm")
    def test_shown(self):
        text = io.StringIO()
        with fmove.Bar(file=text, desc="state", mininterval=0) as bar:
            self.put_slowly("a", bar)
        self.assertIn("state", text.getvalue())
        self.assertRegex(text.getvalue(), r"\d(\.\d+)?MB")
        self.assertTrue(text.getvalue().endswith("\n"), text.getvalue())

    def test_one_after_the_other(self):
        if tqdm is None:
            self.skipTest("there is no tqdm")
        with fmove.Bar(file=io.StringIO()) as bar:
            bar(fmove.Progress("running", 5, 9, ""))
            began = bar._bar.start_t
            bar(fmove.Progress("running", 0, 9, ""))
            self.assertGreater(bar._bar.start_t, began)
            for size, done in ((100, 70), (100, 100), (30, 10), (None, 20)):
                bar(fmove.Progress("running", done, size, ""))
                self.assertEqual((bar._bar.n, bar._bar.total), (done, size))

    def test_without_tqdm(self):
        with mock.patch.dict(sys.modules, {"tqdm": None}):
            with fmove.Bar() as bar:
                self.put_slowly("b", bar)
                self.assertIsNone(bar._bar)


if __name__ == "__main__":
    unittest.main()
