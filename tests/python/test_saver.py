# SPDX-License-Identifier: MIT
# Needs: torch
# Nodes: 3
# Goal:   what Saver saved while training went on is the state as it was; a failed or late save is raised by the next call;
#         whatever is killed, what `last` names loads and is whole.
# Method: gloo on this machine; slow puts, states that change at once, ranks that do not come or are killed at random moments.
import itertools
import os
import random
import threading
import time
import unittest
from unittest import mock

import old_torch  # noqa: F401  before fmove.saver
import ranks
import torch

import fmove
import fmove.torch
from fmove import saver
from fmove.names import parse
from nodes import HANG_S, Case, Interrupt, await_it, crash, descriptors, in_child, interrupted, start_again

MIB = 1 << 18  # floats


class Gate(fmove.Connection):
    """What is saved over it waits until it is open."""

    def __init__(self):
        super().__init__()
        self.is_open = threading.Event()

    def put_buffer(self, *arguments, **how):
        assert self.is_open.wait(HANG_S)
        return super().put_buffer(*arguments, **how)


class Save(Case):
    def saver(self, **how):
        made = fmove.torch.Saver(**how)
        self.addCleanup(made.close)
        return made

    def load(self, name, like):
        into = ranks.empty_like(like)
        ranks.load(into, fmove.torch.FmoveReader(self.name(name)), no_dist=True)
        return into

    def test_the_state_changes_at_once(self):
        shared = torch.randn(MIB)
        state = {
            "t": torch.randn(2 * MIB),
            "bfloat16": torch.randn(99).to(torch.bfloat16),
            "not contiguous": torch.randn(30, 40).t(),
            "shared": shared,
            "a part of it": shared[7:9],
            "empty": torch.empty(0, 3),
            "words": {"step": [1]},
        }
        wanted = {k: v.clone() if isinstance(v, torch.Tensor) else {"step": [1]} for k, v in state.items()}
        gate = Gate()
        self.addCleanup(gate.close)
        made = self.saver(connection=gate)
        self.assertTrue(made.save(state, self.name("c")))
        for tensor in (state["t"], state["bfloat16"], state["not contiguous"], shared):
            tensor.fill_(-1)
        state["words"]["step"].append(2)
        self.assertFalse(self.fm.exists(self.name("c")))
        gate.is_open.set()
        made.wait()
        loaded = self.load("c", state)
        for key, value in wanted.items():
            if isinstance(value, torch.Tensor):
                self.assertTrue(torch.equal(value, loaded[key]), key)
            else:
                self.assertEqual(value, loaded[key])

    def test_replicas(self):
        made = self.saver(replicas=["n3"], latest="last")
        state = {"t": torch.randn(MIB)}
        made.save(state, self.name("c"))
        made.wait()
        for node in ("n3", "n2"):
            into = ranks.empty_like(state)
            reader = fmove.torch.FmoveReader(self.name("last").replace("n2:", f"{node}:"))
            ranks.load(into, reader, no_dist=True)
            self.assertTrue(torch.equal(into["t"], state["t"]))

    def test_modules(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(50, 60)
        made = self.saver()
        made.save({"model": model}, self.name("c"))
        made.wait()
        into = {"model": ranks.empty_like(model.state_dict())}
        ranks.load(into, fmove.torch.FmoveReader(self.name("c"), weights_only=False), no_dist=True)
        self.assertTrue(torch.equal(into["model"]["weight"], model.weight))

    def test_memory_is_made_once(self):
        made = self.saver(latest="last", keep_last=2)
        state = {"t": torch.randn(MIB)}
        kept = set()
        open_before = None
        for step in range(20):
            state["t"].fill_(step)
            made.save(state, self.name(f"step{step}"))
            kept.add(made._memory.buffer)
            if step == 1:
                open_before = descriptors()
        made.wait()
        self.assertEqual(len(kept), 1)
        self.assertLessEqual(descriptors(), open_before)
        self.assert_seen(["last", "step18", "step19"])
        self.assertEqual(self.load("last", state)["t"][0], 19)
        made.save({"t": torch.full((2 * MIB,), 20.0)}, self.name("larger"))
        made.wait()
        self.assertEqual(self.load("last", {"t": torch.zeros(2 * MIB)})["t"][-1], 20)

    def test_a_child_has_memory_of_its_own(self):
        """What its parent has saved, and may be sending yet, stays as it is."""
        made = self.saver()
        made.save({"t": torch.ones(MIB)}, self.name("a"))
        made.wait()
        room = made._memory.buffer.memory

        def save():
            made.save({"t": torch.zeros(MIB)}, self.name("b"))
            made.wait()

        before = bytes(room)
        self.assertEqual(in_child(save), 0)
        self.assertEqual(bytes(room), before)
        self.assertEqual(float(self.load("b", {"t": torch.ones(MIB)})["t"].sum()), 0)

    def test_a_save_within_a_save(self):
        """As of a signal's handler: it would write into the memory that the other one sends."""
        told = []

        class Planner(saver.DefaultSavePlanner):
            def resolve_data(self, item):
                if not told:
                    told.append("nothing")
                    try:
                        made.save({key: torch.zeros(MIB) for key in "tu"}, name)
                    except fmove.FmoveError as why:
                        told[0] = why.code
                return super().resolve_data(item)

        name = self.name("within")
        made = self.saver(planner=Planner)
        state = {key: torch.ones(MIB) for key in "tu"}
        made.save(state, self.name("c"))
        self.assertEqual(told, ["EBUSY"])
        made.save(state, self.name("d"))
        made.wait()
        for tensor in self.load("c", state).values():
            self.assertEqual(tensor.unique().tolist(), [1])
        self.assert_seen(["c", "d"])

    def test_a_save_within_a_check(self):
        """As of a signal's handler: the one that it begins is not forgotten."""
        gate = Gate()
        self.addCleanup(gate.close)
        self.addCleanup(gate.is_open.set)
        made = self.saver(connection=gate)
        state = {"t": torch.ones(MIB)}
        made.save(state, self.name("a"))
        gate.is_open.set()
        await_it(made._save.is_over, "it is saved")
        gate.is_open.clear()
        is_over, told = made._save.is_over, []

        def looked():
            if not told:
                told.append(True)
                made.save(state, self.name("b"))
            return is_over()

        with mock.patch.object(made._save, "is_over", looked):
            made.check()
        self.assertEqual(made._save.name, str(parse(self.name("b"))))
        gate.is_open.set()
        made.wait()
        self.assert_seen(["a", "b"])

    def test_a_save_within_a_wait(self):
        """It is waited for, too, by close() as well."""
        for end in ("wait", "close"):
            gate = Gate()
            self.addCleanup(gate.close)
            self.addCleanup(gate.is_open.set)
            made = self.saver(connection=gate)
            state = {"t": torch.ones(MIB)}
            made.save(state, self.name(f"{end}-a"))
            gate.is_open.set()
            await_it(made._save.is_over, "it is saved")
            gate.is_open.clear()
            is_over, told = made._save.is_over, []
            opener = threading.Timer(0.3, gate.is_open.set)

            def looked():
                if not told:
                    told.append(True)
                    made.save(state, self.name(f"{end}-b"))
                    opener.start()
                return is_over()

            with mock.patch.object(made._save, "is_over", looked):
                getattr(made, end)()
            self.assertIsNone(made._save)
            self.assertTrue(self.fm.exists(self.name(f"{end}-b")))
            opener.join()

    def test_no_room_for_a_buffer(self):
        class Full(fmove.Connection):
            def put_buffer(self, *_, **__):
                raise fmove.errors.error(16, "no room", is_full=True)

        full = Full()
        self.addCleanup(full.close)
        made = self.saver(connection=full)
        state = {"t": torch.randn(MIB)}
        made.save(state, self.name("c"))
        made.wait()
        self.assertTrue(torch.equal(self.load("c", state)["t"], state["t"]))

    # ---- what goes wrong ----

    def test_a_failure_is_raised_by_the_next_call_and_once(self):
        state = {"t": torch.randn(100)}
        for i, call in enumerate(
            (
                lambda made: made.save(state, self.name("next")),
                lambda made: made.wait(),
                lambda made: await_it(lambda: made._save.is_over(), "it fails") or made.check(),
            )
        ):
            made = self.saver()
            made.save(state, self.name(f"c{i}"))
            made.wait()
            made.save(state, self.name(f"c{i}"))  # it is there
            with self.assertRaises(FileExistsError) as caught:
                call(made)
            self.assertIn(f"c{i} was not saved: rank 0: ", str(caught.exception))
            made.check()
            made.save(state, self.name(f"d{i}"))
            made.wait()
        self.assert_seen(["c0", "c1", "c2", "d0", "d1", "d2", "next"])  # that one was begun

    def test_what_cannot_be_saved_is_raised_at_once(self):
        made = self.saver()
        with self.assertRaises(fmove.FmoveError) as caught:
            made.save({"t": torch.eye(3).to_sparse()}, self.name("c"))
        self.assertEqual(caught.exception.code, "ENOTSUP")

    def test_late(self):
        made = self.saver(options=fmove.Options(limit=1 << 17), timeout=2.0)
        made.save({"t": torch.randn(8 * MIB)}, self.name("c"))
        with self.assertRaises(TimeoutError):
            made.wait()
        made.check()
        self.assert_seen([])

    def test_drop(self):
        gate = Gate()
        self.addCleanup(gate.close)
        made = self.saver(connection=gate, when_busy="drop")
        state = {"t": torch.randn(MIB)}
        self.assertTrue(made.save(state, self.name("a")))
        self.assertFalse(made.save(state, self.name("b")))
        gate.is_open.set()
        made.wait()
        self.assertTrue(made.save({"t": torch.randn(10)}, self.name("c")))
        made.wait()
        self.assert_seen(["a", "c"])

    def test_no_daemon(self):
        nobody = fmove.Connection(self.local("nobody.sock"))
        made = self.saver(connection=nobody)
        state = {"t": torch.ones(3)}
        made.save(state, self.name("c"))
        with self.assertRaises(ConnectionRefusedError):
            made.wait()
        self.assertEqual(state["t"].tolist(), [1, 1, 1])

    def test_daemon_was_restarted(self):
        made = self.saver(latest="last")
        state = {"t": torch.randn(MIB)}
        made.save(state, self.name("a"))
        made.wait()
        crash("n1")
        start_again("n1")
        await_it(lambda: self.is_saved(made, state), "the daemon meets n2 again")
        self.assertTrue(torch.equal(self.load("last", state)["t"], state["t"]))

    def is_saved(self, made, state):
        try:
            made.save(state, self.name("b"))
            made.wait()
            return True
        except fmove.FmoveError:
            return False

    def test_an_interrupted_wait(self):
        """The save goes on; the next one waits for it, and writes over nothing that is still sent."""
        gate = Gate()
        self.addCleanup(gate.close)
        made = self.saver(connection=gate)
        made.save({"t": torch.zeros(MIB)}, self.name("a"))
        for call in (made.wait, lambda: made.save({"t": torch.ones(MIB)}, self.name("b"))):
            interrupted(self, call)
            self.assertFalse(made._save.is_over())
        self.assertEqual(made._save.name, str(parse(self.name("a"))))
        gate.is_open.set()
        made.save({"t": torch.ones(MIB)}, self.name("b"))
        made.wait()
        for name, value in (("a", 0), ("b", 1)):
            self.assertEqual(self.load(name, {"t": torch.zeros(MIB)})["t"].unique().tolist(), [value])

    # ---- several ranks ----

    def train(self, steps, rank, **how):
        """A shard and a replica, which have the number of the step everywhere."""
        with fmove.torch.Saver(latest="last", keep_last=2, **how) as made:
            for step in steps:
                full = torch.full((7, MIB // 14), float(step))
                state = {"full": ranks.sharded(full, rank, 2), "whole": torch.full((5,), float(step))}
                made.save(state, self.name(f"step{step}"))

    def check_last(self):
        """What last names is of one step, and whole. Which?"""
        like = {"full": torch.zeros(7, MIB // 14), "whole": torch.zeros(5)}
        loaded = self.load("last", like)
        steps = {value for tensor in loaded.values() for value in tensor.unique().tolist()}
        self.assertEqual(len(steps), 1, steps)
        return steps.pop()

    def test_two_ranks(self):
        self.assertEqual(ranks.run(2, lambda rank: self.train(range(3), rank)), [0, 0])
        self.assertEqual(self.check_last(), 2)
        self.assert_seen(["last", "step1", "step2"])

    def test_replicas_of_ranks_are_sent_from_where_they_lie(self):
        """Each rank has them in its memory and leaves out those that the other one writes."""
        torch.manual_seed(7)
        whole = {
            "double": torch.randn(9, dtype=torch.float64),
            "bytes": torch.arange(77, dtype=torch.uint8),
            "empty": torch.empty(0, 3),
            **{f"float{i}": torch.randn(50 + i) for i in range(6)},
        }
        full = torch.randn(7, 10)

        def rank_of(rank):
            state = {"full": ranks.sharded(full, rank, 2), "words": ["a", 1], **whole}
            with fmove.torch.Saver() as made:
                with mock.patch.object(fmove.torch.FmoveWriter, "_put_stream", side_effect=AssertionError):
                    made.save(state, self.name("c"))
                    made.wait()

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        like = {"full": torch.zeros(7, 10), "words": None, **{key: torch.zeros_like(one) for key, one in whole.items()}}
        loaded = self.load("c", like)
        for key, value in {"full": full, **whole}.items():
            self.assertTrue(torch.equal(value, loaded[key]), key)
        self.assertEqual(loaded["words"], ["a", 1])

    def test_two_ranks_drop_the_same(self):
        def rank_of(rank):
            gate = Gate()
            with fmove.torch.Saver(when_busy="drop", connection=gate) as made:
                state = {"full": ranks.sharded(torch.ones(7, 10), rank, 2)}
                told = [made.save(state, self.name(f"step{step}")) for step in range(3)]
                assert told == [True, False, False], told
                gate.is_open.set()

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["step0"])

    # ---- ranks that do not do the same ----

    def shard(self, step, rank):
        return {"full": ranks.sharded(torch.full((7, MIB // 14), float(step)), rank, 2), "whole": torch.full((5,), float(step))}

    def told(self, call):
        """What it raises."""
        try:
            call()
        except fmove.FmoveError as why:
            return str(why)
        return ""

    def test_a_save_that_one_rank_cannot_begin(self):
        """It raises there at once. The other one is told by its next call, and both go on."""

        def rank_of(rank):
            calls = itertools.count()

            def planner():
                if next(calls) == 0 and rank == 1:
                    raise fmove.errors.error(12, "no memory for the copy")
                return saver.DefaultSavePlanner()

            with fmove.torch.Saver(latest="last", timeout=60.0, planner=planner) as made:
                first = self.told(lambda: made.save(self.shard(1, rank), self.name("step1")))
                assert ("no memory" in first) == (rank == 1), first
                second = self.told(lambda: made.save(self.shard(2, rank), self.name("step2")))
                assert ("step1 was not saved: rank 1: no memory" in second) == (rank == 0), second
                made.save(self.shard(3, rank), self.name("step3"))

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["last", "step2", "step3"])
        self.assertEqual(self.check_last(), 3)

    def test_a_failure_that_one_rank_knows_before_the_other(self):
        """By check(), which comes before the save is over on the other one."""
        self.fm.put(b"", self.name("step1"))
        fails = saver._failure

        def rank_of(rank):
            has_looked = threading.Event()

            def late(*arguments):
                if rank == 1:
                    assert has_looked.wait(HANG_S)
                return fails(*arguments)

            with fmove.torch.Saver(latest="last", timeout=60.0) as made:
                with mock.patch.object(saver, "_failure", late):
                    made.save(self.shard(1, rank), self.name("step1"))
                    if rank == 0:
                        await_it(lambda: made._save.is_over(), "it fails")
                    told = [self.told(made.check)]
                    has_looked.set()
                    told.append(self.told(lambda: made.save(self.shard(2, rank), self.name("step2"))))
                assert ["step1 was not saved" in one for one in told] == [rank == 0, rank == 1], told
                made.save(self.shard(3, rank), self.name("step3"))

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["last", "step1", "step2", "step3"])
        self.assertEqual(self.check_last(), 3)

    def test_a_save_that_a_signal_ends_on_one_rank(self):
        """It came while the one before was under way: the other rank is told before the next one."""

        def rank_of(rank):
            gate = Gate()
            with fmove.torch.Saver(latest="last", timeout=60.0, connection=gate) as made:
                made.save(self.shard(1, rank), self.name("step1"))
                if rank == 1:
                    state = self.shard(2, rank)
                    interrupted(self, lambda: made.save(state, self.name("step2")))
                    gate.is_open.set()
                else:
                    gate.is_open.set()
                    made.save(self.shard(2, rank), self.name("step2"))
                told = self.told(lambda: made.save(self.shard(3, rank), self.name("step3")))
                assert ("step2 was not saved: rank 1: Interrupt" in told) == (rank == 0), told

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["last", "step1", "step3"])
        self.assertEqual(self.check_last(), 3)

    def test_what_signals_end_is_told_in_its_order(self):
        """Not before the save that was begun between them, and at the end by close()."""

        def rank_of(rank):
            states = [self.shard(step, rank) for step in range(1, 5)]
            names = [self.name(f"step{step}") for step in range(1, 5)]
            gate = Gate()
            made = fmove.torch.Saver(latest="last", timeout=60.0, connection=gate)
            made.save(states[0], names[0])
            if rank == 1:
                interrupted(self, lambda: made.save(states[1], names[1]))
                gate.is_open.set()
                made.save(states[2], names[2])
                interrupted(self, lambda: made.save(states[3], names[3]))
                self.local("go", b"")
                made.close()
                return
            gate.is_open.set()
            await_it(lambda: os.path.exists(self.local("go")), "the other one has ended its saves")
            told = [self.told(lambda: made.save(states[i], names[i])) for i in (1, 2, 3)]
            told.append(self.told(made.close))
            for i, step in ((1, 2), (3, 4)):
                assert f"step{step} was not saved: rank 1: Interrupt" in told[i], told
            assert told[0] == told[2] == "", told

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["last", "step1", "step3"])
        self.assertEqual(self.check_last(), 3)

    def test_a_signal_in_a_vote_that_leaves_it_out(self):
        """Behind it, and before it."""

        def rank_of(rank):
            states = [self.shard(step, rank) for step in range(1, 5)]
            gate = Gate()

            def ended(real, is_behind):
                """The call, in which a signal's handler raises once."""
                raised = [] if rank == 1 else [True]

                def call(*arguments):
                    result = real(*arguments) if is_behind or raised else None
                    if not raised:
                        raised.append(True)
                        raise Interrupt
                    return result

                return call

            with fmove.torch.Saver(timeout=60.0, when_busy="drop", connection=gate) as made:
                assert made.save(states[0], self.name("step1"))
                for step, call in ((2, "cast"), (3, "is_left_out")):
                    vote = getattr(saver._Vote, call)
                    with mock.patch.object(saver._Vote, call, ended(vote, step == 3)):
                        try:
                            assert not made.save(states[step - 1], self.name(f"step{step}")) and rank == 0
                        except Interrupt:
                            assert rank == 1
                gate.is_open.set()
                made.wait()
                assert made.save(states[3], self.name("step4"))
                made.wait()

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["step1", "step4"])

    def test_a_signal_ends_the_wait_for_a_vote(self):
        """For which another rank does not come: in close(), and in save()."""
        over, timeout = self.local("over"), 1800.0

        def rank_of(rank):
            made = fmove.torch.Saver(timeout=timeout, when_busy="drop")
            if rank == 0:
                await_it(lambda: os.path.exists(over), "the other one is ended by signals")
                return
            try:
                waits(made)
            finally:
                self.local("over", b"")

        def waits(made):
            state, cast, raised = {"whole": torch.ones(5)}, saver._Vote.cast, []

            def ended(*arguments):
                if raised:
                    return cast(*arguments)
                raised.append(True)
                raise Interrupt

            with mock.patch.object(saver._Vote, "cast", ended), self.assertRaises(Interrupt):
                made.save(state, self.name("c"))
            self.assertEqual(len(made._late), 1)
            begun = time.monotonic()
            interrupted(self, made.close)
            self.assertEqual(len(made._late), 1)  # the next call waits for it
            with mock.patch.object(saver._Vote, "was_left_out", lambda _: True):
                interrupted(self, lambda: made.save(state, self.name("d")))
            self.assertLess(time.monotonic() - begun, timeout / 2)

        self.assertEqual(ranks.run(2, rank_of), [0, 0])

    def test_a_save_within_a_save_that_may_be_dropped(self):
        """Before the vote of the one beneath and behind it: no rank has it, and all vote alike."""

        def rank_of(rank):
            states = [self.shard(step, rank) for step in range(1, 4)]
            for call in ("cast", "create_local_plan"):
                of = saver._Vote if call == "cast" else saver.DefaultSavePlanner
                real, told = getattr(of, call), []
                names = [self.name(f"{call}{step}") for step in range(1, 4)]

                def within(*arguments):
                    if rank == 1 and not told:
                        told.append("nothing")
                        told[0] = self.told(lambda: made.save(states[1], names[1]))
                    return real(*arguments)

                with fmove.torch.Saver(timeout=60.0, when_busy="drop") as made:
                    with mock.patch.object(of, call, within):
                        assert made.save(states[0], names[0])
                    made.wait()  # the other one begins it, and does not wait for our next call
                    if rank == 0:
                        assert not made.save(states[1], names[1])
                    else:
                        assert "EBUSY" in told[0], told
                    assert made.save(states[2], names[2])
                    made.wait()

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["cast1", "cast3", "create_local_plan1", "create_local_plan3"])

    def test_a_save_within_a_telling(self):
        """Of a signal's handler, while this rank begins to tell why it did not begin one."""

        def rank_of(rank):
            states = [self.shard(step, rank) for step in range(1, 4)]
            told, real = [], saver._Save
            calls = itertools.count()

            def planner():
                if rank == 1 and next(calls) == 0:
                    raise fmove.errors.error(12, "no memory for the copy")
                return saver.DefaultSavePlanner()

            def begins(*arguments):
                if rank == 1 and not told:
                    told.append("nothing")
                    told[0] = self.told(lambda: made.save(states[1], self.name("step2")))
                return real(*arguments)

            with fmove.torch.Saver(timeout=60.0, planner=planner) as made:
                with mock.patch.object(saver, "_Save", begins):
                    told_1 = self.told(lambda: made.save(states[0], self.name("step1")))
                if rank == 1:
                    assert "no memory" in told_1 and "EBUSY" in told[0], told
                else:
                    told_2 = self.told(lambda: made.save(states[1], self.name("step2")))
                    assert "step1 was not saved: rank 1: no memory" in told_2, told_2
                told_3 = self.told(lambda: made.save(states[2], self.name("step3")))
                assert ("step2 was not saved: rank 1" in told_3) == (rank == 0), told_3

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen(["step3"])

    def test_ranks_in_different_saves(self):
        """One has left out a call. Nothing of two steps is seen, whatever the names are."""
        names = [("newest", "newest"), ("step1", "step2")]

        def rank_of(rank):
            for pair in names:
                with fmove.torch.Saver(timeout=60.0) as made:
                    if rank and pair[0] == pair[1]:
                        next(made._numbers)
                    made.save(self.shard(rank, rank), self.name(pair[rank]), force=True)
                    told = self.told(made.wait)
                    assert "was not saved: rank 0: rank 1 saves " in told and "ESTALE" in told, told

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen([])

    def test_a_late_rank_takes_of_the_time(self):
        """The deadline is that of the save, and not of what a rank does once all have come."""

        def rank_of(rank):
            made = fmove.torch.Saver(options=fmove.Options(limit=1 << 20), timeout=6.0)
            state = {"full": ranks.sharded(torch.randn(4, 2 * MIB), rank, 2)}  # all ranks meet here, too
            time.sleep(4 * rank)
            made.save(state, self.name("c"))
            assert "c was not saved" in self.told(made.wait)

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen([])

    def test_a_rank_never_comes(self):
        over = self.local("over")

        def rank_of(rank):
            made = fmove.torch.Saver(timeout=10.0)
            if rank == 1:
                await_it(lambda: os.path.exists(over), "the other one gives it up")
                return
            made.save({"whole": torch.ones(5)}, self.name("c"))
            try:
                made.wait()
            except TimeoutError as why:
                assert "Ranks 1 failed to pass" in str(why), why
            else:
                raise AssertionError("it was saved")
            self.local("over", b"")

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen([])

    def test_somebody_is_killed(self):
        """A rank or a daemon, at random moments. FM_ROUNDS: how often; FM_SEED: which."""
        dice = random.Random(int(os.environ.get("FM_SEED", 1)))
        for step in range(int(os.environ.get("FM_ROUNDS", 4))):
            victim = dice.choice((0, 1, "n1", "n2")) if step > 3 else (0, "n1", 1, "n2")[step]
            self.kill_one(step * 100000, victim, after=dice.random() * 0.8)

    def has_saved(self, first):
        try:
            return self.check_last() > first
        except ranks.dcp.api.CheckpointException:  # it was removed meanwhile: there is a newer one
            return False

    def kill_one(self, first, victim, after):
        self.assertEqual(ranks.run(2, lambda rank: self.train([first], rank)), [0, 0])
        test = os.getpid()
        steps = itertools.takewhile(lambda _: os.getppid() == test, itertools.count(first + 1))
        pids = ranks.start(2, lambda rank: self.train(steps, rank, timeout=60.0))
        await_it(lambda: self.has_saved(first), "they save")
        time.sleep(after)  # any moment will do
        if isinstance(victim, str):
            crash(victim)
            self.assertEqual(ranks.ends(pids), [1, 1], "both are told")
            start_again(victim)
            await_it(self.reaches_n2, "n2 can be reached")
        else:
            ranks.kill(pids[victim])
            self.assertEqual(ranks.ends([pids[victim]]), [-9])
            self.assertEqual(ranks.ends([pids[1 - victim]]), [1], "the other one is told")
        self.assertGreater(self.check_last(), first)
        whole = {"full": torch.zeros(7, MIB // 14), "whole": torch.zeros(5)}
        for name in self.names():
            if name.startswith("step"):
                self.load(name, whole)

    def reaches_n2(self):
        try:
            return self.fm.exists(self.top)
        except fmove.FmoveError:
            return False


if __name__ == "__main__":
    unittest.main()
