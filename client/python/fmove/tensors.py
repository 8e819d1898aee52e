# SPDX-License-Identifier: MIT
"""Tensors of a safetensors file that is stored on a node, read when they are asked for, straight to
a device."""

from __future__ import annotations

import errno
import time
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from . import layout, ranges, safetensors
from .connection import Connection, Named, connect
from .errors import error
from .loader import Loader
from .names import parse
from .results import TIMEOUT_S, Options

HEAD = 256 << 10  # bytes that are read first: most heads are shorter


class TensorFile:
    """Its head is read at once. All that is read is of one version of the file: ESTALE else. A
    pickle cannot be in it. timeout: seconds of one call."""

    def __init__(
        self,
        name: Named,
        *,
        device: Any = "cpu",
        timeout: float = TIMEOUT_S,
        options: Options = Options(),
        connection: Optional[Connection] = None,
    ) -> None:
        self._name = parse(name)
        self._device = torch.device(device)
        self._timeout = timeout
        self._options = options
        self._connection = connection or connect()
        self._version = ranges.Version()
        size = self._connection.stat(self._name, timeout=timeout).size
        head = self._bytes(0, min(size, HEAD))
        length = safetensors.length_of(head[: safetensors.LENGTH_SIZE], size)
        self._begin = safetensors.LENGTH_SIZE + length  # of the tensors
        if self._begin > len(head):
            head += self._bytes(len(head), self._begin - len(head))
        text = head[safetensors.LENGTH_SIZE : self._begin]
        self._tensors, self.metadata = safetensors.decode(text, size)

    def keys(self) -> List[str]:
        return list(self._tensors)

    def tensor(self, key: str) -> Any:
        return self.tensors([key])[key]

    def tensors(self, keys: Optional[Iterable[str]] = None) -> Dict[str, Any]:
        """These, or all. KeyError: there is none of that name."""
        wanted = {key: self._tensors[key] for key in (self._tensors if keys is None else keys)}
        made = {key: self._empty(key, tensor.shape) for key, tensor in wanted.items()}
        self._read([(self._begin + wanted[key].begin, made[key]) for key in made])
        return made

    def rows(self, key: str, begin: int, end: int) -> Any:
        """Of a tensor those whose first index is from begin up to, and without, end."""
        tensor = self._tensors[key]
        if not tensor.shape or not 0 <= begin <= end <= tensor.shape[0]:
            raise error(errno.EINVAL, f"{key!r} is {tensor.shape} and has no rows {begin}:{end}")
        part = self._empty(key, (end - begin, *tensor.shape[1:]))
        row = safetensors.size_of(tensor.dtype, tensor.shape[1:])
        self._read([(self._begin + tensor.begin + begin * row, part)])
        return part

    def _empty(self, key: str, shape: Tuple[int, ...]) -> Any:
        name = self._tensors[key].dtype
        if name not in layout.DTYPES:
            raise error(errno.ENOTSUP, f"{key!r} is {name}, which this torch has not")
        return torch.empty(shape, dtype=layout.DTYPES[name], device=self._device)

    def _bytes(self, offset: int, length: int) -> bytes:
        data = torch.empty(length, dtype=torch.uint8)
        self._read([(offset, data)])
        return bytes(layout.bytes_of(data))

    def _read(self, reads: Sequence[Tuple[int, Any]]) -> None:
        """Fills tensors with what the file has from these offsets on."""
        end = time.monotonic() + self._timeout
        rooms = [layout.room_of(tensor) for _, tensor in reads]
        wanted = [(offset, room.numel()) for (offset, _), room in zip(reads, rooms)]

        def fields() -> Dict[str, Any]:
            left_ms = max(1, int((end - time.monotonic()) * 1000))
            return {**self._options.fields(), "timeout_ms": left_ms}

        with Loader(self._connection, sum(size for _, size in wanted), fields) as loader:
            loader.read(self._name, wanted, rooms.__getitem__, lambda _: None, self._version)
