# SPDX-License-Identifier: MIT
# Goal:   the callback for the Trainer puts what all ranks have written, waits wherever the Trainer may remove next what is still being
#         put, and goes on waiting for what a signal interrupted it within; its link leads to what is on disk.
# Method: the calls that the Trainer makes, in its order, without it; puts that end when they may. test_transformers.py has the real one.
# Calls libfmove.
import errno
import os
import sys
import threading
import time
import types
import unittest
from unittest import mock

import fmove
from nodes import HANG_S, Case, interrupted


def fake_transformers():
    made = types.ModuleType("transformers")
    made.TrainerCallback = object
    utils = types.ModuleType("transformers.trainer_utils")
    utils.PREFIX_CHECKPOINT_DIR = "checkpoint"
    return {"transformers": made, "transformers.trainer_utils": utils}


with mock.patch.dict(sys.modules, fake_transformers()):
    from fmove.transformers import FmoveCallback


class Puts:
    """A connection of which each put ends when it may."""

    def __init__(self):
        self.may_end = threading.Event()
        self.put, self.led, self.checked, self.timeout, self.options = [], [], [], None, None

    def put_tree(self, source, to, *, timeout, options, **_):
        assert self.may_end.wait(HANG_S)
        self.put.append(str(to))
        self.timeout, self.options = timeout, options

    def check_link(self, to, latest, timeout):
        self.checked.append(f"{to} {latest} {timeout}")
        return timeout - 30

    def lead(self, to, *_, **__):
        self.led.append(str(to))


class Calls(Case):
    def setUp(self):
        super().setUp()
        self.puts = Puts()
        self.addCleanup(self.puts.may_end.set)
        self.state = types.SimpleNamespace(is_world_process_zero=True, global_step=1, best_model_checkpoint=None)
        self.args = types.SimpleNamespace(output_dir=self.here, save_total_limit=None, save_strategy="steps")
        self.control = types.SimpleNamespace(should_save=False)

    def made(self, **how):
        return FmoveCallback(self.name("run"), connection=self.puts, **how)

    def call(self, callback, event):
        getattr(callback, event)(self.args, self.state, self.control)

    def test_only_what_may_remove_it_waits(self):
        callback = self.made()
        self.call(callback, "on_save")
        self.call(callback, "on_evaluate")
        self.call(callback, "on_step_end")
        self.assertEqual(self.puts.put, [])
        self.control.should_save = True
        for event in ("on_step_end", "on_epoch_end", "on_evaluate", "on_train_end"):
            interrupted(self, lambda: self.call(callback, event))
        self.assertEqual(self.puts.put, [])
        self.puts.may_end.set()
        self.call(callback, "on_step_end")
        self.assertEqual(self.puts.put, [self.name("run/checkpoint-1")])

    def test_the_best(self):
        """Whether it is the best is found out behind the evaluation."""
        strategy = types.SimpleNamespace(value="best")
        for self.args.save_strategy in ("best", strategy):
            self.puts.may_end.clear()
            callback = self.made()
            self.call(callback, "on_save")
            interrupted(self, lambda: self.call(callback, "on_evaluate"))
            self.puts.may_end.set()
            self.call(callback, "on_evaluate")
        self.assertEqual(len(self.puts.put), 2)

    def test_all_but_the_best_go_when_training_ends(self):
        self.args.save_total_limit, self.state.best_model_checkpoint = 1, "checkpoint-0"
        callback = self.made()
        interrupted(self, lambda: self.call(callback, "on_save"))
        self.puts.may_end.set()
        self.state.global_step = 2
        self.call(callback, "on_save")
        self.assertEqual(self.puts.put, [self.name(f"run/checkpoint-{step}") for step in (1, 2)])

    def test_latest_leads_to_what_is_on_disk(self):
        with self.assertRaises(fmove.FmoveError) as why:
            self.made(latest="last", options=fmove.Options(durability="memory"))
        self.assertEqual(why.exception.code, "EINVAL")
        self.puts.may_end.set()
        for latest, durability, timeout in (("last", "disk", 60.0), (None, None, 90.0)):
            callback = self.made(latest=latest, timeout=90.0)
            self.call(callback, "on_save")
            self.call(callback, "on_train_end")
            self.assertEqual((self.puts.options.durability, self.puts.timeout), (durability, timeout))
        self.assertEqual(self.puts.led, [self.name("run/checkpoint-1")])
        self.assertEqual(self.puts.checked, [self.name("run/checkpoint-1") + " last 90.0"])

    def test_a_store_that_hangs_for_a_moment(self):
        """The look at the link fails of it, and the put may wait for longer."""
        late = fmove.errors.error(errno.ETIMEDOUT, "the store does not answer", exit=4)
        source = os.path.join(self.here, "checkpoint-1")
        os.mkdir(source)
        with open(os.path.join(source, "model"), "wb") as file:
            file.write(b"1")
        callback = FmoveCallback(self.name("run"), latest="last")
        with mock.patch.object(self.fm, "stat", side_effect=late):
            self.call(callback, "on_save")
            self.call(callback, "on_train_end")
        self.assertEqual(os.readlink(f"{self.store}/run/last"), "checkpoint-1")
        self.assertEqual(self.stored("run/last/model"), b"1")

    def test_what_other_ranks_write_is_put_too(self):
        """Each writes a file of its own at the end, and comes to on_save then."""
        meet = threading.Barrier(2)
        dist = types.ModuleType("torch.distributed")
        dist.is_available = dist.is_initialized = lambda: True
        dist.barrier = lambda: meet.wait(HANG_S)
        written, there = self.local("rng_state_1.pth"), []
        self.puts.may_end.set()
        self.puts.put_tree = lambda *_, **__: there.append(os.path.exists(written))
        other = self.made()

        def other_rank():
            time.sleep(0.3)
            self.local("rng_state_1.pth", b"1")
            other.on_save(self.args, types.SimpleNamespace(is_world_process_zero=False), self.control)

        thread = threading.Thread(target=other_rank)
        with mock.patch.dict(sys.modules, {"torch.distributed": dist}):
            thread.start()
            callback = self.made()
            self.call(callback, "on_save")
            self.call(callback, "on_train_end")
            thread.join()
        self.assertEqual(there, [True])


if __name__ == "__main__":
    unittest.main()
