# SPDX-License-Identifier: MIT
"""The head of a safetensors file: 8 bytes that say its length, and a JSON object that says of each
tensor what it is and which bytes behind the head are its own."""

from __future__ import annotations

import errno
import json
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from .errors import FmoveError, error

LENGTH_SIZE = 8
HEAD_MAX = 100_000_000  # of the JSON, as the format has it
ALIGNED = 64  # the head that is made here ends at a multiple of it
DIMENSIONS_MAX = 64  # of a tensor, as PyTorch has them
METADATA = "__metadata__"
WIDTHS = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
    "C64": 8,
}


class Tensor(NamedTuple):
    """Bytes `begin` to `end` behind the head."""

    dtype: str
    shape: Tuple[int, ...]
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def size_of(dtype: str, shape: Tuple[int, ...]) -> int:
    size = WIDTHS[dtype]
    for length in shape:
        size *= length
    return size


def encode(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The head, with its length."""
    head: Dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    for name, t in tensors.items():
        head[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": (t.begin, t.end)}
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(LENGTH_SIZE + len(text)) % ALIGNED)
    return len(text).to_bytes(LENGTH_SIZE, "little") + text


def length_of(first: bytes, file_size: int) -> int:
    """How long the JSON is, by the file's first 8 bytes."""
    length = int.from_bytes(first, "little")
    if len(first) != LENGTH_SIZE or not 2 <= length <= min(HEAD_MAX, file_size - LENGTH_SIZE):
        raise _bad("its first 8 bytes are not the length of a head")
    return length


def decode(text: bytes, file_size: int) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
    """The tensors and the metadata. EBADMSG: not one valid head of a file of that size."""
    try:
        head = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise _bad("its head is not JSON") from None
    if not isinstance(head, dict):
        raise _bad("its head is not an object")
    metadata = head.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _bad(f"{METADATA} is not an object of strings")
    tensors = {name: _tensor(name, value) for name, value in head.items()}
    _check_places(tensors, file_size - LENGTH_SIZE - len(text))
    return tensors, metadata


def _once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _tensor(name: str, value: Any) -> Tensor:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise _bad(f"{name!r} is not a tensor")
    dtype, shape, place = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in WIDTHS:
        raise _bad(f"{name!r} has a type that is not known: {dtype!r}")
    if not _are_sizes(shape) or not _are_sizes(place) or len(place) != 2:
        raise _bad(f"{name!r} has no shape or no place")
    if len(shape) > DIMENSIONS_MAX or size_of(dtype, tuple(max(n, 1) for n in shape)) >= 1 << 63:
        raise _bad(f"{name!r} has a shape that no tensor can have")  # one length may be 0
    tensor = Tensor(dtype, tuple(shape), *place)
    if tensor.size != size_of(dtype, tensor.shape):
        raise _bad(f"{name!r} has {tensor.size} bytes, which is not what its shape takes")
    return tensor


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


def _check_places(tensors: Mapping[str, Tensor], size: int) -> None:
    """They have all bytes behind the head, and none twice."""
    end = 0
    for tensor in sorted(tensors.values(), key=lambda t: (t.begin, t.end)):
        if tensor.begin != end:
            raise _bad("its tensors overlap, or bytes between them are nobody's")
        end = tensor.end
    if end != size:
        raise _bad(f"its tensors take {end} bytes and there are {size}")


def _bad(what: str) -> FmoveError:
    return error(errno.EBADMSG, f"not a safetensors file: {what}", exit=5)
