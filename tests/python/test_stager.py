# SPDX-License-Identifier: MIT
# Needs: torch
# Goal:   what Stager gives stays as it is while the state changes, lies in the same memory again at the next save, and never where a save that is
#         under way has its own. dcp.async_save saves it with FmoveWriter, where torch has that, and where there is a GPU, of its tensors.
# Method: states of every kind of tensor; a save that is under way is one whose copy is still held.
import inspect
import unittest
import weakref
from collections import namedtuple
from unittest import mock

import old_torch  # noqa: F401  before fmove.checkpoint
import ranks
import torch

import fmove
import fmove.torch
from fmove import memory
from nodes import Case, in_child

Pair = namedtuple("Pair", "one other")
TAKES_STAGER = "async_stager" in inspect.signature(getattr(ranks.dcp, "async_save", lambda: None)).parameters
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def state(seed):
    torch.manual_seed(seed)
    shared = torch.randn(50)
    made = {
        "weight": torch.randn(30, 20),
        "turned": torch.randn(30, 40).t(),
        "one byte": torch.tensor([seed], dtype=torch.uint8),
        "half": torch.randn(33).half(),
        "bfloat16": torch.randn(7).to(torch.bfloat16),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "conjugate": torch.randn(7, dtype=torch.complex64).conj(),
        "shared": shared,
        "a part of it": shared[10:20],
    }
    made = {key: value.to(DEVICE) for key, value in made.items()}
    made["conjugate"] = (made["conjugate"].resolve_conj() * 1j).conj()  # also on a GPU
    return {**made, "nested": {"list": [made["weight"] + 1, {"step": seed}], "pair": Pair(made["half"] + 1, seed)}}


def tensors(value):
    if isinstance(value, dict):
        return [one for item in value.values() for one in tensors(item)]
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def pointers(staged):
    """Of what the planner of each version of torch takes for tensors: before 2.1 not what is nested."""
    return [one.data_ptr() for one in staged.values() if isinstance(one, torch.Tensor)]


class Staged(Case):
    def assert_copies(self, staged, kept):
        self.assertEqual(len(tensors(staged)), len(tensors(kept)))
        for one, other in zip(tensors(staged), tensors(kept)):
            self.assertTrue(one.is_cpu)
            self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape))
            self.assertTrue(torch.equal(one, other.cpu().resolve_conj()))
        self.assertEqual(staged["nested"]["list"][1], kept["nested"]["list"][1])
        self.assertIsInstance(staged["nested"]["pair"], Pair)

    def test_state_may_change(self):
        with fmove.torch.Stager() as stager:
            kept, same = state(1), state(1)
            staged = stager.stage(kept)
            for tensor in tensors(kept):
                tensor.zero_()
            kept["nested"]["list"][1]["step"] = 2
            self.assert_copies(staged, same)
            self.assertFalse(stager.should_synchronize_after_execute)
            del staged

    def test_memory_is_made_once(self):
        with fmove.torch.Stager() as stager, mock.patch.object(memory, "Buffer", wraps=memory.Buffer) as made:
            first = pointers(stager.stage(state(1)))
            for seed in range(2, 5):
                kept = state(seed)
                staged = stager.stage(kept)
                self.assertEqual(pointers(staged), first)
                self.assert_copies(staged, kept)
                del staged
            self.assertEqual(made.call_count, 1)

    def test_a_save_under_way_keeps_its_own(self):
        with fmove.torch.Stager() as stager:
            first = stager.stage(state(1))
            second = stager.stage(state(2))
            self.assert_copies(first, state(1))
            self.assert_copies(second, state(2))
            part = first["weight"]
            del first, second
            third = stager.stage(state(3))
            self.assertTrue(torch.equal(part, state(1)["weight"].cpu()))
            self.assert_copies(third, state(3))
            del third, part

    def test_a_signals_handler_that_stages(self):
        """While the memory is there, and is not lent yet."""
        within = []

        def lend(lent):
            if not within:
                within.append(None)
                within[0] = stager.stage(state(2))
            return weakref.ref(lent)

        with fmove.torch.Stager() as stager:
            with mock.patch.object(memory, "weakref", mock.Mock(ref=lend)):
                staged = stager.stage(state(1))
            self.assert_copies(staged, state(1))
            self.assert_copies(within.pop(), state(2))
            del staged

    def test_sent_from_where_it_lies(self):
        kept = {key: value for key, value in state(1).items() if key != "nested"}
        with fmove.torch.Stager() as stager:
            staged = stager.stage({**kept, "words": ["a", 1]})
            with mock.patch.object(fmove.torch.FmoveWriter, "_put_stream", side_effect=AssertionError):
                ranks.save(staged, fmove.torch.FmoveWriter(self.name("c")), no_dist=True)
            part = {key: staged[key] for key in ("weight", "half")}
            ranks.save(part, fmove.torch.FmoveWriter(self.name("part")), no_dist=True)
            for name in ("c", "part"):
                into = {key: torch.zeros_like(kept[key]) for key in (kept if name == "c" else part)}
                ranks.load(into, fmove.torch.FmoveReader(self.name(name)), no_dist=True)
                for key, value in into.items():
                    self.assertTrue(torch.equal(value, kept[key]), key)
            for key, value in kept.items():
                self.assertTrue(torch.equal(staged[key], value.cpu().resolve_conj()), key)

    def test_what_was_made_of_a_copy_is_saved_as_it_is(self):
        """A view of it has the same address, and other bytes in the file."""
        square = torch.arange(9, dtype=torch.float32).reshape(3, 3).to(DEVICE)
        kept = {"square": square, "row": torch.arange(5.0).to(DEVICE), "complex": (square + 2j * square).to(torch.complex64)}
        with fmove.torch.Stager() as stager:
            staged = stager.stage(kept)
            staged["square"] = staged["square"].t()
            staged["complex"] = staged["complex"].conj()
            ranks.save(staged, fmove.torch.FmoveWriter(self.name("c")), no_dist=True)
            into = {key: torch.zeros_like(value) for key, value in kept.items()}
            ranks.load(into, fmove.torch.FmoveReader(self.name("c")), no_dist=True)
            self.assertTrue(torch.equal(into["square"], square.t()))
            self.assertTrue(torch.equal(into["complex"], kept["complex"].conj()))

    def test_memory_that_is_still_shown_by_another_tensor(self):
        with fmove.torch.Stager() as stager:
            staged = stager.stage({"t": torch.ones(9)})
            row = staged["t"].numpy()
            shown = torch.nn.Parameter(staged["t"])
            del staged
            again = stager.stage({"t": torch.zeros(9)})
            self.assertEqual((row.sum(), float(shown.sum())), (9, 9))
            del row, shown, again
            stager.stage({"t": torch.zeros(9)})
            self.assertFalse(stager._memory.is_lent)

    def test_shared_with_another_process(self):
        """The tensors move to other memory then. What is saved next is not what is left here."""
        with fmove.torch.Stager() as stager:
            ranks.save(stager.stage({"t": torch.ones(9)}), fmove.torch.FmoveWriter(self.name("a")), no_dist=True)
            staged = stager.stage({"t": torch.ones(9)})
            staged["t"].share_memory_()
            staged["t"].fill_(2)
            ranks.save(staged, fmove.torch.FmoveWriter(self.name("b")), no_dist=True)
            into = {"t": torch.zeros(9)}
            ranks.load(into, fmove.torch.FmoveReader(self.name("b")), no_dist=True)
            self.assertEqual(into["t"].sum(), 18)

    def test_two_saves_at_once(self):
        """One sends from the memory; the other has words of the same length, and streams."""
        with fmove.torch.Stager() as stager:
            staged = stager.stage({"t": torch.ones(9), "words": "one"})
            put_image = fmove.torch.FmoveWriter._put_image

            def other_first(*arguments):
                with mock.patch.object(fmove.torch.FmoveWriter, "_put_image", side_effect=AssertionError):
                    ranks.save({**staged, "words": "two"}, fmove.torch.FmoveWriter(self.name("b")), no_dist=True)
                return put_image(*arguments)

            with mock.patch.object(fmove.torch.FmoveWriter, "_put_image", other_first):
                ranks.save(staged, fmove.torch.FmoveWriter(self.name("a")), no_dist=True)
            for name, words in (("a", "one"), ("b", "two")):
                into = {"t": torch.zeros(9), "words": None}
                ranks.load(into, fmove.torch.FmoveReader(self.name(name)), no_dist=True)
                self.assertEqual((into["t"].sum(), into["words"]), (9, words))

    def test_a_child_sends_nothing_from_where_it_lies(self):
        with fmove.torch.Stager() as stager:
            staged = stager.stage({"t": torch.ones(9)})

            def save():
                with mock.patch.object(fmove.torch.FmoveWriter, "_put_image", side_effect=AssertionError):
                    ranks.save(staged, fmove.torch.FmoveWriter(self.name("c")), no_dist=True)

            if DEVICE == "cpu":
                self.assertEqual(in_child(save), 0)

    def test_what_it_does_not_copy(self):
        with fmove.torch.Stager() as stager:
            with self.assertRaisesRegex(fmove.FmoveError, "sparse"):
                stager.stage({"a": torch.eye(3).to_sparse()})

    @unittest.skipUnless(TAKES_STAGER, "this torch has no async_save that takes a stager")
    def test_saved(self):
        with fmove.torch.Stager() as stager:
            for seed in (1, 2):
                kept, same = state(seed), state(seed)
                done = ranks.dcp.async_save(
                    kept, storage_writer=fmove.torch.FmoveWriter(self.name(f"c{seed}")), async_stager=stager, no_dist=True
                )
                for tensor in tensors(kept):
                    tensor.zero_()
                done.result()
                into = {key: torch.zeros_like(value) for key, value in same.items() if key != "nested"}
                ranks.load(into, fmove.torch.FmoveReader(self.name(f"c{seed}")), no_dist=True)
                for key, value in into.items():
                    self.assertTrue(torch.equal(value, same[key]), key)


if __name__ == "__main__":
    unittest.main()
