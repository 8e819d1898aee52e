# SPDX-License-Identifier: MIT
"""Debian 12's torch 1.13 cannot import its own torch.distributed._shard with Python 3.11, which wants
defaults of dataclasses to be hashable: import_shard() imports it with the one class that is not made so.
A newer torch needs nothing."""

import dataclasses
import importlib

import torch


def import_shard():
    if not torch.__version__.startswith("1."):
        return
    real = dataclasses.dataclass

    def dataclass(cls=None, **how):
        if cls is not None and cls.__name__ == "TensorProperties":
            return real(cls, unsafe_hash=True)
        return real(cls, **how)

    dataclasses.dataclass = dataclass
    try:
        importlib.import_module("torch.distributed._shard.checkpoint")
    finally:
        dataclasses.dataclass = real


import_shard()
