# SPDX-License-Identifier: MIT
"""Copies of a state for dcp.async_save, in memory that is kept from one save to the next."""

from __future__ import annotations

import copy
import errno
from typing import Any, Dict, List, Optional

import torch

from . import layout
from .connection import Connection, connect
from .errors import error
from .image import Image, remember
from .memory import Memory
from .saver import DefaultSavePlanner, set_up


class Stager:
    """dcp.async_save(state, storage_writer=FmoveWriter(...), async_stager=stager) may have its state
    changed when it returns. One stager serves all saves of a process, one after the other: the
    first save makes its memory, pinned if a GPU's tensors are in the state, and the next ones use
    it again. What a save that is still under way has is never written over: the next one gets
    memory of its own then, which takes longer."""

    should_synchronize_after_execute = False  # the copy is whole when stage() returns

    def __init__(self, *, connection: Optional[Connection] = None) -> None:
        self._memory = Memory(connection or connect())
        self._is_filling = False  # a signal's handler may come within, and stage, too
        self._image: Optional[Image] = None  # of the last stage(): its save finds it here

    def stage(self, state_dict: Dict[str, Any]) -> Dict[str, Any]:
        """The same with tensors on the CPU, which stay as they are. Tensors that share memory come
        apart; what is no tensor is copied."""
        _check(state_dict)
        copies: Dict[int, List[Any]] = {}  # by the tensor's id(), in their order
        if not self._is_filling:
            self._is_filling = True
            try:
                if not self._memory.is_lent:
                    copies = self._fill(state_dict)
            finally:
                self._is_filling = False
        staged: Dict[str, Any] = _rebuilt(state_dict, copies)
        return staged

    def _fill(self, state_dict: Dict[str, Any]) -> Dict[int, List[Any]]:
        """The memory becomes the file that FmoveWriter writes, if this rank writes all that it
        has."""
        planner = DefaultSavePlanner()
        set_up(planner, state_dict, True)
        made = layout.lay_out(planner.create_local_plan().items, planner)
        image = Image(made, self._memory)
        image.fill(planner)
        copies: Dict[int, List[Any]] = {}
        for place in made.places:
            if not layout.is_bytes(place.item):
                tensor = planner.state_dict[place.item.index.fqn]
                copies.setdefault(id(tensor), []).append(image.tensor(place))
        image.leave()
        remember(image)
        self._image = image
        return copies

    def synchronize_staging(self) -> None:
        """Nothing is left to wait for."""

    def close(self) -> None:
        """Gives the memory back. What stage() returned must not be used any more."""
        self._image = None
        self._memory.close()

    def __enter__(self) -> "Stager":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(value: Any) -> None:
    if isinstance(value, dict):
        for one in value.values():
            _check(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _check(one)
    elif isinstance(value, torch.Tensor):
        if hasattr(value, "local_shards") or value.layout != torch.strided:
            what = f"{type(value).__name__}, {getattr(value, 'layout', 'in shards')}"
            raise error(errno.ENOTSUP, f"Stager copies dense tensors and DTensor, not {what}")


def _rebuilt(value: Any, copies: Dict[int, List[Any]]) -> Any:
    """With the copies in place of the tensors; with copies of their own where there are none."""
    if isinstance(value, dict):
        return {key: _rebuilt(one, copies) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_rebuilt(one, copies) for one in value]
        return made if isinstance(value, list) else _tuple(value, made)
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)
    kept = copies.get(id(value))
    if not hasattr(value, "_spec"):
        return kept.pop(0) if kept else _copy(value.detach())
    local = kept.pop(0) if kept else _copy(value._local_tensor.detach())
    return type(value)(local, value._spec, requires_grad=False)  # a DTensor


def _tuple(like: Any, made: List[Any]) -> Any:
    """A named tuple takes its members one by one."""
    return type(like)(*made) if hasattr(like, "_fields") else tuple(made)


def _copy(tensor: Any) -> Any:
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
