# SPDX-License-Identifier: MIT
# Needs: torch accelerate
# Calls libfmove.
# Goal:   what accelerate wrote to a directory goes to another node and comes back, and accelerate goes on from it.
# Method: put_tree() behind save_state(), get_tree() before load_state(), with a small model.
import unittest

import accelerate
import torch

from nodes import Case


def prepared():
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(4, 2)
    return accelerator, *accelerator.prepare(model, torch.optim.AdamW(model.parameters()))


def train(accelerator, model, optimizer):
    accelerator.backward(model(torch.randn(8, 4)).pow(2).mean())
    optimizer.step()


class Accelerate(Case):
    def test_there_and_back(self):
        accelerator, model, optimizer = prepared()
        train(accelerator, model, optimizer)
        wanted = {key: value.clone() for key, value in model.state_dict().items()}
        accelerator.save_state(self.local("step1"))
        self.fm.put_tree(self.local("step1"), self.name("step1"))
        train(accelerator, model, optimizer)
        self.assertFalse(torch.equal(model.state_dict()["weight"], wanted["weight"]))
        self.fm.get_tree(self.name("step1"), self.local("back"))
        accelerator.load_state(self.local("back"))
        for key, value in wanted.items():
            self.assertTrue(torch.equal(value, model.state_dict()[key]), key)


if __name__ == "__main__":
    unittest.main()
