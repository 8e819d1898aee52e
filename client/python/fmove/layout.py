# SPDX-License-Identifier: MIT
"""A rank's file of a checkpoint: which items of a plan it has, and where. It is a safetensors file,
and an object that is no tensor is one of bytes in it, as the planner wrote it."""

from __future__ import annotations

import ctypes
import errno
import math
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

import torch

from . import safetensors
from .errors import error

_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "I64": "int64",
    "U64": "uint64",
    "F64": "float64",
    "C64": "complex64",
}
DTYPES: Dict[str, Any] = {
    name: getattr(torch, of) for name, of in _NAMES.items() if hasattr(torch, of)
}
_WORDS = {dtype: name for name, dtype in DTYPES.items()}


class Place(NamedTuple):
    """An item of the plan; data: its bytes if it is no tensor."""

    item: Any
    dtype: str
    begin: int
    end: int
    data: bytes


class Layout(NamedTuple):
    head: bytes
    places: List[Place]
    size: int  # of the file

    def at(self, place: Place) -> slice:
        """Where it is in the file."""
        return slice(len(self.head) + place.begin, len(self.head) + place.end)


def is_bytes(item: Any) -> bool:
    """The planner gives and takes it as a stream of bytes."""
    return item.tensor_data is None


def lay_out(items: Iterable[Any], planner: Any) -> Layout:
    """The same for the same items. Wide types come first, so that each has its alignment."""
    wanted: List[Tuple[Any, str, Tuple[int, ...], bytes]] = []
    for item in items:
        if is_bytes(item):
            data = planner.resolve_data(item).getvalue()
            wanted.append((item, "U8", (len(data),), data))
        else:
            dtype = _word_of(item.index.fqn, item.tensor_data.properties)
            wanted.append((item, dtype, tuple(item.tensor_data.chunk.sizes), b""))
    wanted.sort(key=lambda want: -safetensors.WIDTHS[want[1]])
    at = 0
    places: List[Place] = []
    tensors: Dict[str, safetensors.Tensor] = {}
    for item, dtype, shape, data in wanted:
        end = at + safetensors.size_of(dtype, shape)
        places.append(Place(item, dtype, at, end, data))
        tensors[_key_of(item, tensors)] = safetensors.Tensor(dtype, shape, at, end)
        at = end
    head = safetensors.encode(tensors, {"format": "pt"})
    return Layout(head, places, len(head) + at)


def _word_of(fqn: str, properties: Any) -> str:
    if properties.layout != torch.strided or properties.dtype not in _WORDS:
        what = f"{fqn} is {properties.dtype}, {properties.layout}"
        raise error(errno.ENOTSUP, f"{what}: only dense tensors of plain types are saved")
    return _WORDS[properties.dtype]


def _key_of(item: Any, taken: Dict[str, Any]) -> str:
    """Its name in the file: that of the tensor, and where the part begins if it is one of several."""
    key = str(item.index.fqn)
    data = item.tensor_data
    if data is not None and tuple(data.chunk.sizes) != tuple(data.size):
        key += "@" + ",".join(map(str, data.chunk.offsets))
    while key in taken or key == safetensors.METADATA:
        key += "@"
    return key


def bytes_of(tensor: Any) -> memoryview:
    """The memory of a contiguous tensor on the CPU, for as long as the tensor lasts."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


def room_of(tensor: Any) -> Any:
    """The bytes of a contiguous tensor on any device, as a tensor."""
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8)
    if tensor.is_cpu:
        return torch.frombuffer(bytes_of(tensor), dtype=torch.uint8)
    return tensor.view(-1).view(torch.uint8)


def contiguous(tensor: Any) -> Any:
    """It, or a copy of its own, on the CPU, in the order of its indices."""
    tensor = tensor.detach()
    if tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    return copy.copy_(tensor)


def strides_of(sizes: Tuple[int, ...]) -> Tuple[int, ...]:
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
