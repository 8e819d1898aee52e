# SPDX-License-Identifier: MIT
# Needs: torch
# Needs a GPU.
# Goal:   a model's state that is in a GPU's memory is saved while training changes it, lost, and loaded, bit by bit as it was; so are its
#         parts, by other numbers of ranks than saved it.
# Method: each test in children of its own, since a process that was forked from one that uses a GPU cannot.
import unittest

import old_torch  # noqa: F401  before fmove.saver
import ranks
import torch

import fmove.torch
from nodes import Case


def train(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 10, 64, device="cuda")).pow(2).mean().backward()
        optimizer.step()


def make():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 3).cuda()
    return model, torch.optim.AdamW(model.parameters())


def state_of(model, optimizer):
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def copy_of(value):
    if isinstance(value, dict):
        return {key: copy_of(one) for key, one in value.items()}
    return value.clone() if isinstance(value, torch.Tensor) else value


class Gpu(Case):
    def same(self, one, other, where=""):
        if isinstance(one, dict):
            self.assertEqual(one.keys(), other.keys(), where)
            for key in one:
                self.same(one[key], other[key], f"{where}.{key}")
        elif isinstance(one, torch.Tensor):
            self.assertEqual(one.device, other.device, where)
            self.assertTrue(torch.equal(one, other), where)
        else:
            self.assertEqual(one, other, where)

    def test_saved_while_it_changes(self):
        def work(rank):
            model, optimizer = make()
            train(model, optimizer)
            wanted = copy_of(state_of(model, optimizer))
            with fmove.torch.Saver() as saver:
                saver.save(state_of(model, optimizer), self.name("c"))
                train(model, optimizer)
            into = state_of(model, optimizer)
            self.assertFalse(torch.equal(into["model"]["layers.0.linear1.weight"], wanted["model"]["layers.0.linear1.weight"]))
            ranks.load(into, fmove.torch.FmoveReader(self.name("c")), no_dist=True)
            self.same(wanted, into)
            again, other = make()
            again.load_state_dict(into["model"])
            other.load_state_dict(into["optimizer"])
            self.same(wanted, state_of(again, other))

        self.assertEqual(ranks.run(1, work), [0])

    def test_tensors_of_a_file(self):
        def work(rank):
            full = self.full()
            with fmove.torch.Saver() as saver:
                saver.save({"full": full}, self.name("c"))
            file = fmove.torch.TensorFile(self.name("c/rank0.safetensors"), device="cuda")
            self.same(full, file.tensor("full"))
            self.same(full[3:5], file.rows("full", 3, 5))

        self.assertEqual(ranks.run(1, work), [0])

    def test_one_saves_and_two_load(self):
        self.assertEqual(ranks.run(1, lambda rank: self.save(rank, 1)), [0])
        self.assertEqual(ranks.run(2, lambda rank: self.load(rank, 2)), [0, 0])

    def test_two_save_and_one_loads(self):
        self.assertEqual(ranks.run(2, lambda rank: self.save(rank, 2)), [0, 0])
        self.assertEqual(ranks.run(1, lambda rank: self.load(rank, 1)), [0])

    def full(self):
        return torch.arange(7 * 1000 * 300, dtype=torch.float32, device="cuda").reshape(7, 1000, 300)

    def save(self, rank, world):
        with fmove.torch.Saver() as saver:
            saver.save({"full": ranks.sharded(self.full(), rank, world)}, self.name("c"))

    def load(self, rank, world):
        for dim in (0, 1):
            into = {"full": ranks.sharded(torch.zeros_like(self.full()), rank, world, dim)}
            ranks.load(into, fmove.torch.FmoveReader(self.name("c")))
            self.assertTrue(torch.equal(ranks.local(into["full"]), ranks.local(ranks.sharded(self.full(), rank, world, dim))))


if __name__ == "__main__":
    unittest.main()
