# SPDX-License-Identifier: MIT
# Needs: torch fsspec lightning
# Goal:   Lightning saves to another node by nothing but its name, keeps as many as it was told, and goes on from there.
# Method: a small model, trained for some steps on this machine's processor, twice.
import os
import unittest

import fsspec
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from fmove.filesystem import FmoveFileSystem
from nodes import Case

fsspec.register_implementation("fmove", FmoveFileSystem, clobber=True)  # as its installation does


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.line(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def fit(url, steps, ckpt_path=None):
    model = Line()
    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(dirpath=url, filename="{step}", every_n_train_steps=1, save_top_k=2, monitor="step", mode="max")],
    )
    trainer.fit(model, torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=8), ckpt_path=ckpt_path)
    return trainer, model


class Lightning(Case):
    def test_saved_and_gone_on(self):
        url = "fmove://" + self.top.replace(":", "/") + "/run"
        _, model = fit(url, 4)
        self.assertEqual(sorted(os.listdir(f"{self.store}/run")), ["step=3.ckpt", "step=4.ckpt"])
        kept = torch.load(f"{self.store}/run/step=4.ckpt", weights_only=False)
        for key, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, kept["state_dict"][key]), key)
        trainer, _ = fit(url, 6, f"{url}/step=4.ckpt")
        self.assertEqual(trainer.global_step, 6)
        self.assertIn("step=6.ckpt", os.listdir(f"{self.store}/run"))


if __name__ == "__main__":
    unittest.main()
