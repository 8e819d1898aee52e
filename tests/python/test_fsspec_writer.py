# SPDX-License-Identifier: MIT
# Needs: torch.distributed.checkpoint._fsspec_filesystem fsspec
# Goal:   PyTorch's own FsspecWriter and FsspecReader save to another node by nothing but its name; a save over one that is there replaces
#         it, one to another directory that fails leaves it whole. (Over one that is there FsspecWriter removes the files that it could not write.)
# Method: the state of a small model and its optimizer, whole and one tensor of it.
import os
import unittest

import fsspec
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter

from fmove.filesystem import FmoveFileSystem
from nodes import Case

fsspec.register_implementation("fmove", FmoveFileSystem, clobber=True)  # as its installation does


def state(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 8, dtype=torch.bfloat16))
    return {"model": model.state_dict(), "step": torch.tensor(seed), "empty": torch.empty(0, 3)}


def zeros(like):
    return {key: zeros(value) if isinstance(value, dict) else torch.zeros_like(value) for key, value in like.items()}


class Unsaved:
    def __reduce__(self):
        raise ValueError("this is not to be saved")


class Writer(Case):
    def setUp(self):
        super().setUp()
        self.url = "fmove://" + self.top.replace(":", "/") + "/checkpoint"
        self.local = f"{self.store}/checkpoint"

    def saved(self, what, beside=""):
        dcp.save(what, storage_writer=FsspecWriter(self.url + beside))

    def loaded(self, like):
        into = zeros(like)
        dcp.load(into, storage_reader=FsspecReader(self.url))
        return into

    def assert_same(self, a, b):
        self.assertEqual(a.keys(), b.keys())
        for key in a:
            if isinstance(a[key], dict):
                self.assert_same(a[key], b[key])
            else:
                self.assertTrue(torch.equal(a[key], b[key]), key)

    def test_saved_and_loaded(self):
        first = state(1)
        self.saved(first)
        self.assertIn(".metadata", os.listdir(self.local))
        self.assert_same(self.loaded(first), first)
        one = {"step": torch.tensor(0)}
        dcp.load(one, storage_reader=FsspecReader(self.url))
        self.assertEqual(one["step"].item(), 1)

    def test_saved_again(self):
        self.saved(state(1))
        second = state(2)
        self.saved(second)
        self.assert_same(self.loaded(second), second)
        self.assertEqual([name for name in os.listdir(self.local) if name.endswith(".tmp")], [])

    def test_what_fails_leaves_the_last(self):
        first = state(1)
        self.saved(first)
        with self.assertRaises(dcp.api.CheckpointException):
            self.saved({**state(2), "bad": Unsaved()}, "2")
        self.assertFalse(os.path.exists(f"{self.local}2/.metadata"))
        self.assert_same(self.loaded(first), first)


if __name__ == "__main__":
    unittest.main()
