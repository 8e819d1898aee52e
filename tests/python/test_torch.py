# SPDX-License-Identifier: MIT
# Needs: torch
# Goal:   what fmove.torch saves it loads, bit by bit; a failed save leaves the last good one; a pickle runs only if asked.
# Method: tensors of every kind, saved, loaded and compared; objects that cannot be pickled; a pickle that would leave a mark.
import os
import pickle
import unittest

import torch

import fmove
import fmove.torch
from nodes import Case


class Marks:
    """Whoever unpickles it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def state():
    shared = torch.arange(1000.0)
    return {
        "weight": torch.randn(1000, 700),
        "not contiguous": torch.randn(30, 40).t(),
        "shared": shared,
        "a part of it": shared[100:200],
        "empty": torch.empty(0, 3),
        "bfloat16": torch.randn(333).to(torch.bfloat16),
        "ints": torch.arange(77, dtype=torch.int8),
        "step": 7,
    }


class Save(Case):
    def assert_same(self, a, b):
        self.assertEqual(a.keys(), b.keys())
        for key, value in a.items():
            if isinstance(value, torch.Tensor):
                self.assertEqual((value.dtype, value.shape), (b[key].dtype, b[key].shape), key)
                self.assertTrue(torch.equal(value, b[key]), key)
            else:
                self.assertEqual(value, b[key], key)

    def test_there_and_back(self):
        saved = state()
        result = fmove.torch.save(saved, self.name("c.pt"))
        self.assertTrue(result.durable)
        loaded = fmove.torch.load(self.name("c.pt"))
        self.assert_same(saved, loaded)
        loaded["shared"][150] = -1
        self.assertEqual(loaded["a part of it"][50], -1)
        # Torch itself reads what came.
        self.assert_same(saved, torch.load(os.path.join(self.store, "c.pt")))
        self.assertEqual(sorted(os.listdir(self.here)), [])

    def test_module(self):
        one, other = torch.nn.Linear(50, 60), torch.nn.Linear(50, 60)
        fmove.torch.save(one.state_dict(), self.name("m.pt"))
        other.load_state_dict(fmove.torch.load(self.name("m.pt"), map_location="cpu"))
        self.assertTrue(torch.equal(one.weight, other.weight))

    def test_failed_save(self):
        fmove.torch.save({"step": 1}, self.name("c.pt"))
        with self.assertRaises((AttributeError, pickle.PicklingError)):
            fmove.torch.save({"a": torch.randn(100000), "b": lambda: 0}, self.name("c.pt"), force=True)
        self.assertEqual(fmove.torch.load(self.name("c.pt")), {"step": 1})
        with self.assertRaises(FileExistsError):
            fmove.torch.save({"step": 2}, self.name("c.pt"))
        with self.assertRaises(FileNotFoundError):
            fmove.torch.load(self.name("none.pt"))
        self.assert_names(["c.pt"])

    def test_in_a_group(self):
        with self.fm.group(self.name("g"), members=2) as group:
            for rank in range(2):
                fmove.torch.save({"rank": rank}, self.name(f"g/{rank}.pt"), group=group.id)
        self.assertEqual(fmove.torch.load(self.name("g/1.pt")), {"rank": 1})

    def test_pickles_run_only_if_asked(self):
        mark = self.local("mark")
        fmove.torch.save({"evil": Marks(mark)}, self.name("e.pt"))
        with self.assertRaises(pickle.UnpicklingError):
            fmove.torch.load(self.name("e.pt"))
        self.assertFalse(os.path.exists(mark))
        fmove.torch.load(self.name("e.pt"), weights_only=False)
        self.assertTrue(os.path.exists(mark))

    def test_cut_file(self):
        fmove.torch.save(state(), self.name("c.pt"))
        self.fm.put(self.fm.read(self.name("c.pt"))[:-1000], self.name("cut.pt"))
        with self.assertRaises(RuntimeError):
            fmove.torch.load(self.name("cut.pt"))


if __name__ == "__main__":
    unittest.main()
