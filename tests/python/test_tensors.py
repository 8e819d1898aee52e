# SPDX-License-Identifier: MIT
# Needs: torch
# Goal:   of a safetensors file whatever is asked for comes, bit by bit, and nothing else is read; of a file that is none, or that is
#         replaced meanwhile, nothing comes.
# Method: files made here, with tensors of several types and shapes, read in whole and in parts, in requests of a few bytes too.
import unittest
from unittest import mock

import torch

import fmove
import fmove.torch
from fmove import layout, loader, safetensors, tensors
from nodes import Case


def make():
    torch.manual_seed(1)
    return {
        "weight": torch.randn(300, 20),
        "half": torch.randn(7, 3, 5).half(),
        "bytes": torch.arange(99, dtype=torch.uint8),
        "none": torch.empty(0, 4),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }


def encode(kept):
    words = {dtype: word for word, dtype in layout.DTYPES.items()}
    at, places, data = 0, {}, b""
    for key, value in kept.items():
        part = bytes(layout.bytes_of(value))
        places[key] = safetensors.Tensor(words[value.dtype], tuple(value.shape), at, at + len(part))
        at += len(part)
        data += part
    return safetensors.encode(places, {"format": "pt"}) + data


class File(Case):
    def setUp(self):
        super().setUp()
        self.kept = make()
        self.fm.put(encode(self.kept), self.name("m.safetensors"))

    def open(self, **how):
        return fmove.torch.TensorFile(self.name("m.safetensors"), **how)

    def assert_same(self, one, other):
        self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape))
        self.assertTrue(torch.equal(one, other))

    def test_all(self):
        file = self.open()
        self.assertEqual(file.keys(), list(self.kept))
        self.assertEqual(file.metadata, {"format": "pt"})
        for key, value in file.tensors().items():
            self.assert_same(value, self.kept[key])

    def test_in_small_requests(self):
        with mock.patch.multiple(loader, SLOT=100, SLOTS=3), mock.patch.object(tensors, "HEAD", 50):
            for key, value in self.open().tensors().items():
                self.assert_same(value, self.kept[key])

    def test_some(self):
        file = self.open()
        asked = []
        with mock.patch.object(tensors.Loader, "read", lambda _, name, wanted, *rest: asked.extend(wanted)):
            file.tensors(["half", "scalar"])
        self.assertEqual([size for _, size in asked], [7 * 3 * 5 * 2, 8])
        self.assert_same(file.tensor("half"), self.kept["half"])
        with self.assertRaises(KeyError):
            file.tensor("half a")

    def test_rows(self):
        file = self.open()
        for begin, end in ((0, 300), (0, 0), (300, 300), (13, 14), (250, 300)):
            self.assert_same(file.rows("weight", begin, end), self.kept["weight"][begin:end])
        self.assert_same(file.rows("half", 2, 5), self.kept["half"][2:5])
        for key, begin, end in (("weight", 0, 301), ("weight", -1, 3), ("weight", 5, 4), ("scalar", 0, 1)):
            with self.assertRaises(fmove.FmoveError) as caught:
                file.rows(key, begin, end)
            self.assertEqual(caught.exception.code, "EINVAL")

    def test_replaced(self):
        file = self.open()
        self.fm.put(encode(self.kept), self.name("m.safetensors"), force=True)
        with self.assertRaises(fmove.FmoveError) as caught:
            file.tensor("weight")
        self.assertEqual(caught.exception.code, "ESTALE")

    def test_what_is_none(self):
        for data in (b"", b"1234567", bytes(100), encode(self.kept)[:-1]):
            self.fm.put(data, self.name("other"), force=True)
            with self.assertRaises(fmove.FmoveError) as caught:
                fmove.torch.TensorFile(self.name("other"))
            self.assertEqual((caught.exception.code, caught.exception.exit), ("EBADMSG", 5))
        with self.assertRaises(FileNotFoundError):
            fmove.torch.TensorFile(self.name("nothing"))


if __name__ == "__main__":
    unittest.main()
