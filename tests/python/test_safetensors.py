# SPDX-License-Identifier: MIT
# Goal:   the head of a safetensors file comes back as it was made; another one is refused, whatever its bytes are.
# Method: heads made, changed in one thing each, and at random.
import json
import random
import unittest

import fmove
from fmove import safetensors
from fmove.safetensors import Tensor

GOOD = {
    "a": Tensor("F32", (2, 3), 0, 24),
    "é": Tensor("BF16", (), 24, 26),
    "none": Tensor("I64", (0, 7), 26, 26),
    "u": Tensor("U8", (5,), 26, 31),
}


def file_size(head):
    return len(head) + 31


class Head(unittest.TestCase):
    def test_there_and_back(self):
        head = safetensors.encode(GOOD, {"format": "pt"})
        self.assertEqual(len(head) % safetensors.ALIGNED, 0)
        length = safetensors.length_of(head[:8], file_size(head))
        self.assertEqual(length, len(head) - 8)
        tensors, metadata = safetensors.decode(head[8:], file_size(head))
        self.assertEqual((tensors, metadata), (GOOD, {"format": "pt"}))

    def refuses(self, text, size=31):
        with self.assertRaises(fmove.FmoveError) as caught:
            safetensors.decode(text, 8 + len(text) + size)
        self.assertEqual((caught.exception.code, caught.exception.exit), ("EBADMSG", 5))

    def test_wrong_lengths(self):
        for first in (b"", b"1234567", bytes(8), b"\xff" * 8, (101).to_bytes(8, "little")):
            with self.assertRaises(fmove.FmoveError):
                safetensors.length_of(first, 108)
        with self.assertRaises(fmove.FmoveError):
            safetensors.length_of((100_000_001).to_bytes(8, "little"), 1 << 40)
        self.assertEqual(safetensors.length_of((100).to_bytes(8, "little"), 108), 100)

    def test_wrong_heads(self):
        tensor = {"dtype": "U8", "shape": [31], "data_offsets": [0, 31]}
        for wrong in (
            [],
            {"a": 1},
            {"a": {**tensor, "dtype": "F7"}},
            {"a": {**tensor, "dtype": ["U8"]}},
            {"a": {**tensor, "shape": [30]}},
            {"a": {**tensor, "shape": [-1, -31]}},
            {"a": {**tensor, "shape": [True, 31]}},
            {"a": {**tensor, "shape": "31"}},
            {"a": {**tensor, "data_offsets": [0]}},
            {"a": {**tensor, "data_offsets": [31, 62]}},
            {"a": {**tensor, "data_offsets": [0, 30], "shape": [30]}},
            {"a": {**tensor, "more": 1}},
            {"a": {"dtype": "U8", "shape": [0, 1 << 62, 4], "data_offsets": [0, 0]}, "b": tensor},
            {"a": {**tensor, "shape": [31] + [1] * 64}},
            {"a": tensor, "b": tensor},
            {"a": tensor, "__metadata__": {"x": 1}},
            {"a": tensor, "__metadata__": []},
        ):
            self.refuses(json.dumps(wrong).encode())
        self.refuses(b'{"a":' * 100000)
        self.refuses(b'{"a":%s,"a":%s}' % ((json.dumps(tensor).encode(),) * 2))
        self.refuses(b"\xff\xfe")

    def test_damaged(self):
        """Any bytes are a head's or an FmoveError, and nothing else."""
        head = safetensors.encode(GOOD, {"format": "pt"})
        dice = random.Random(1)
        for _ in range(5000):
            text = bytearray(head[8:])
            for _ in range(dice.randint(1, 4)):
                text[dice.randrange(len(text))] = dice.choice(b'0123456789[]{},"-e \x00\xff')
            try:
                safetensors.decode(bytes(text), file_size(head))
            except fmove.FmoveError as why:
                self.assertEqual(why.code, "EBADMSG")


if __name__ == "__main__":
    unittest.main()
