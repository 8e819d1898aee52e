# SPDX-License-Identifier: MIT
# Needs: torch
# Nodes: 2
# Goal:   when the far disk is full, stands or is gone, a save fails by its deadline with the cause, the state is untouched,
#         what `last` names is the last save that was whole, and once the disk is well again the same saver goes on.
# Method: a store with little room left; a store on a file system that stops answering (hang_fs, FUSE); a node that is killed.
import os
import signal
import subprocess
import tempfile
import unittest

import old_torch  # noqa: F401  before fmove.saver
import ranks
import torch

import fmove
import fmove.torch
from nodes import DIR, STORE, Case, await_it, crash, start_again

MIB = 1 << 18  # floats
ROOM = 400 << 20  # the quota of the store


class Disk(Case):
    def saver(self, **how):
        made = fmove.torch.Saver(latest="last", **how)
        self.addCleanup(made.close)
        return made

    def saved(self, made, step, top=None):
        """A state that has the number of the step everywhere. It is untouched, whatever becomes of the save."""
        state = {"t": torch.full((8 * MIB,), float(step))}
        try:
            made.save(state, f"{top or self.top}/step{step}")
            made.wait()
        finally:
            self.assertEqual(state["t"].unique().tolist(), [step])

    def last(self, top=None):
        into = {"t": torch.zeros(8 * MIB)}
        ranks.load(into, fmove.torch.FmoveReader(f"{top or self.top}/last"), no_dist=True)
        steps = into["t"].unique().tolist()
        self.assertEqual(len(steps), 1)
        return steps[0]

    def comes_back(self, made, step):
        try:
            self.saved(made, step)
            return True
        except fmove.FmoveError:
            return False

    def test_full(self):
        made = self.saver()
        self.saved(made, 1)
        with open(self.local("large"), "wb") as file:
            file.write(b"1" * (ROOM - (12 << 20)))
        self.fm.put(self.local("large"), self.name("large"))
        with self.assertRaises(fmove.FmoveError) as why:
            self.saved(made, 2)
        self.assertEqual(why.exception.exit, 6, why.exception)
        self.assertIn("step2 was not saved: rank 0: ", str(why.exception))
        self.assertEqual(self.last(), 1)
        self.fm.rm(self.name("large"))
        self.saved(made, 3)
        self.assertEqual(self.last(), 3)
        self.assert_seen(["last", "step1", "step3"])

    def test_node_is_gone(self):
        made = self.saver(timeout=60.0)
        self.saved(made, 1)
        crash("n2")
        with self.assertRaises(fmove.FmoveError):
            self.saved(made, 2)
        start_again("n2")
        await_it(lambda: self.comes_back(made, 3), "n2 is there again")
        self.assertEqual(self.last(), 3)

    # ---- a file system that stops answering ----

    def mounted(self):
        """One, as a store of n2. Its process."""
        at = tempfile.mkdtemp(prefix="fm-hang.", dir=os.environ.get("TMPDIR", "/tmp"))
        self.addCleanup(os.rmdir, at)
        conf = os.path.join(DIR, "n2", "fmove.conf")
        with open(conf) as file:
            before = file.read()
        self.addCleanup(self.n2_with, conf, before)  # once it has ended, for until then n2 cannot
        hang_fs = os.path.join(os.environ["FM_BUILD"], "bin", "hang_fs")
        process = subprocess.Popen(
            [hang_fs, at, "1", "1000", str(os.getuid())],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(subprocess.run, ["umount", "-l", at], stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = process.stdout.readline().strip()
        if said != "mounted":
            self.skipTest(said.replace("SKIP: ", ""))
        store = f'name = "hung"; directory = "{at}"; read = [ "*" ]; write = [ "*" ];'
        self.n2_with(conf, before.replace("stores = ( {", f"stores = ( {{ {store} }}, {{", 1))
        return process

    def n2_with(self, conf, text):
        with open(conf, "w") as file:
            file.write(text)
        crash("n2")
        start_again("n2")
        await_it(self.reaches_n2, "n2 can be reached")

    def reaches_n2(self):
        try:
            return list(self.fm.ls("n2:s")) is not None
        except fmove.FmoveError:
            return False

    def test_it_stands(self):
        hang_fs = self.mounted()
        made = self.saver(timeout=4.0)
        hang_fs.send_signal(signal.SIGUSR1)
        with self.assertRaises(TimeoutError) as why:
            self.saved(made, 1, top="n2:hung")
        self.assertIn("step1", str(why.exception))
        self.saved(self.saver(), 2)  # in another store, of the same node
        self.assertEqual(self.last(), 2)
        self.assertTrue(os.path.exists(f"{STORE}/{self.id()}/step2"))


if __name__ == "__main__":
    unittest.main()
