# SPDX-License-Identifier: MIT
# Needs: torch transformers accelerate
# Calls libfmove.
# Goal:   what the Trainer saves is on the other node, as it was, though save_total_limit removed it here; a put that fails is
#         raised by the training; a put that is slow holds up the next save, and nothing before it.
# Method: a small model, trained for some steps on this machine's processor, with a checkpoint after each.
import os
import unittest

import torch
import transformers

import fmove
from fmove.transformers import FmoveCallback
from nodes import Case

STEPS = 4


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.arange(i, i + 8) % 100
        return {"input_ids": ids, "labels": ids}


class Train(Case):
    def trainer(self, callback, **how):
        config = transformers.GPT2Config(vocab_size=100, n_positions=8, n_embd=32, n_layer=2, n_head=2)
        arguments = transformers.TrainingArguments(
            output_dir=self.local("out"), max_steps=STEPS, save_steps=1, save_total_limit=1, report_to=[], use_cpu=True, **how
        )
        return transformers.Trainer(
            model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=Numbers(), callbacks=[callback]
        )

    def test_all_are_there(self):
        trainer = self.trainer(FmoveCallback(self.name("run"), latest="last", keep_last=2, options=fmove.Options(limit=2 << 20)))
        trainer.train()
        there = sorted(name for name in os.listdir(f"{self.store}/run") if not name.startswith(".") and not name.endswith(".rotation"))
        self.assertEqual(there, [f"checkpoint-{STEPS - 1}", f"checkpoint-{STEPS}", "last"])
        here = self.local(f"out/checkpoint-{STEPS}")
        self.assertEqual(sorted(os.listdir(os.path.dirname(here))), [f"checkpoint-{STEPS}"])
        got = self.local("got")
        self.fm.get_tree(self.name("run/last"), got)
        for name in os.listdir(here):
            with open(f"{here}/{name}", "rb") as one, open(f"{got}/{name}", "rb") as other:
                self.assertEqual(one.read(), other.read(), name)
        loaded = transformers.GPT2LMHeadModel.from_pretrained(got)
        for key, value in trainer.model.state_dict().items():
            self.assertTrue(torch.equal(value, loaded.state_dict()[key]), key)

    def test_a_failure_is_raised(self):
        self.fm.put(b"in its way", self.name("run/checkpoint-1/model"))
        with self.assertRaises(FileExistsError):
            self.trainer(FmoveCallback(self.name("run"))).train()
        self.assertTrue(os.path.isdir(self.local("out/checkpoint-1")))

    def test_no_daemon(self):
        nobody = fmove.Connection(self.local("nobody.sock"))
        with self.assertRaises(ConnectionRefusedError):
            self.trainer(FmoveCallback(self.name("run"), connection=nobody)).train()


if __name__ == "__main__":
    unittest.main()
