# SPDX-License-Identifier: MIT
""".metadata of a checkpoint: what it has, and where. It is JSON, and nothing of it is executed, so
that any version of torch reads it."""

from __future__ import annotations

import errno
import json
import math
from typing import Any, Dict, List, NamedTuple, Tuple

import torch

from .errors import FmoveError, error

try:
    from torch.distributed.checkpoint.metadata import (
        BytesStorageMetadata,
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        TensorStorageMetadata,
    )
except ImportError:  # before torch 2.0
    from torch.distributed._shard.checkpoint.metadata import (
        BytesStorageMetadata,
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        TensorStorageMetadata,
    )
try:
    from torch.distributed.checkpoint.metadata import TensorProperties
except ImportError:  # before torch 2.3
    from torch.distributed._shard.sharded_tensor.metadata import TensorProperties

FILE = ".metadata"
FILE_MAX = 1 << 30
FORMAT, VERSION = "fmove checkpoint", 1


class Stored(NamedTuple):
    """Where one item is: bytes of a file beside .metadata."""

    file: str
    offset: int
    length: int


def encode(metadata: Any) -> bytes:
    """metadata.storage_data: index -> Stored."""
    values: Dict[str, Dict[str, Any]] = {}
    for fqn, value in metadata.state_dict_metadata.items():
        if isinstance(value, BytesStorageMetadata):
            values[fqn] = {"at": _stored(metadata, MetadataIndex(fqn))}
            continue
        values[fqn] = {
            "dtype": str(value.properties.dtype).rpartition(".")[2],
            "requires_grad": bool(value.properties.requires_grad),
            "size": list(value.size),
            "chunks": [
                {
                    "offsets": list(chunk.offsets),
                    "sizes": list(chunk.sizes),
                    "at": _stored(metadata, MetadataIndex(fqn, chunk.offsets)),
                }
                for chunk in value.chunks
            ],
        }
    planner = _pack(metadata.planner_data)
    text = {"format": FORMAT, "version": VERSION, "values": values, "planner": planner}
    return json.dumps(text, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _stored(metadata: Any, index: Any) -> Stored:
    found = metadata.storage_data.get(index)
    if found is None:
        raise error(errno.EIO, f"no rank wrote {index.fqn} {index.offset or ''}")
    return Stored(*found)


def decode(data: bytes) -> Any:
    """EBADMSG: it is not one that encode() made."""
    try:
        text = json.loads(data.decode("utf-8"))
        if text["format"] != FORMAT:
            raise ValueError("it says another format")
        if text["version"] != VERSION:
            raise error(errno.ENOTSUP, f"{FILE} has version {text['version']!r}: a newer fmove's?")
        stored: Dict[Any, Stored] = {}
        values = {str(k): _value(str(k), v, stored) for k, v in text["values"].items()}
        return Metadata(values, _unpack(text["planner"]), stored)
    except FmoveError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as why:
        what = f"{FILE} is not a checkpoint's that was saved with fmove: {why!r:.200}"
        raise error(errno.EBADMSG, what, exit=5) from None


def _value(fqn: str, value: Dict[str, Any], stored: Dict[Any, Stored]) -> Any:
    if "at" in value:
        stored[MetadataIndex(fqn)] = _place(value["at"])
        return BytesStorageMetadata()
    dtype = getattr(torch, str(value["dtype"]), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{fqn} has a type that this torch does not know: {value['dtype']!r}")
    size = _sizes(value["size"])
    chunks = [_chunk(fqn, dtype, size, chunk, stored) for chunk in value["chunks"]]
    properties = TensorProperties(dtype=dtype, requires_grad=bool(value["requires_grad"]))
    return TensorStorageMetadata(properties, torch.Size(size), chunks)


def _chunk(
    fqn: str, dtype: Any, size: Tuple[int, ...], chunk: Any, stored: Dict[Any, Stored]
) -> Any:
    offsets, sizes = _sizes(chunk["offsets"]), _sizes(chunk["sizes"])
    place = _place(chunk["at"])
    is_in = len(offsets) == len(sizes) == len(size) and all(
        o + s <= whole for o, s, whole in zip(offsets, sizes, size)
    )
    if not is_in or place.length != math.prod(sizes) * width_of(dtype):
        raise ValueError(f"{fqn} has a part that does not fit")
    stored[MetadataIndex(fqn, offsets)] = place
    return ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))


def width_of(dtype: Any) -> int:
    return int(torch.empty(0, dtype=dtype).element_size())


def _sizes(value: Any) -> Tuple[int, ...]:
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 1 << 63 for n in value):
        raise ValueError(f"no sizes: {value!r:.100}")
    return tuple(value)


def _place(value: Any) -> Stored:
    file, offset, length = value
    offset, length = _sizes([offset, length])
    if not isinstance(file, str) or not file or "/" in file or file in (".", ".."):
        raise ValueError(f"no file: {file!r:.100}")
    return Stored(file, offset, length)


# What planners keep is of tuples, lists and dictionaries, which JSON does not tell from each other.


def _pack(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_pack(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_pack(k), _pack(v)] for k, v in value.items()]}
    raise error(errno.ENOTSUP, f"the planner keeps a {type(value).__name__}, which is not saved")


def _unpack(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, of),) = value.items()
    if kind == "dict":
        return {_unpack(k): _unpack(v) for k, v in of}
    items: List[Any] = [_unpack(v) for v in of]
    return {"tuple": tuple, "list": list}[kind](items)
