# SPDX-License-Identifier: MIT
"""For PyTorch: torch.save and torch.load over a stream, without a temporary file; checkpoints of all
ranks, at once or while training goes on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Optional

import torch

from .connection import Connection, Named, connect
from .results import Options, Result
from .tensors import TensorFile as TensorFile

if TYPE_CHECKING:
    from .checkpoint import FmoveReader as FmoveReader
    from .checkpoint import FmoveWriter as FmoveWriter
    from .saver import Saver as Saver
    from .stager import Stager as Stager

_LATER = {
    "FmoveReader": "checkpoint",
    "FmoveWriter": "checkpoint",
    "Saver": "saver",
    "Stager": "stager",
}


def __getattr__(name: str) -> Any:
    """What needs torch.distributed.checkpoint, which some builds of torch do not have."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"fmove.{_LATER[name]}"), name)


def save(
    obj: Any,
    name: Named,
    *,
    force: bool = False,
    group: Optional[str] = None,
    timeout: Optional[float] = None,
    options: Options = Options(),
    connection: Optional[Connection] = None,
    **how: Any,
) -> Result:
    """What torch.save(obj) writes is seen as a whole, or not at all. how is torch.save's."""
    fm = connection or connect()
    with fm.open_writer(name, force=force, group=group, timeout=timeout, options=options) as file:
        torch.save(obj, file, **how)
    assert file.result is not None
    return file.result


def load(
    name: Named,
    *,
    map_location: Any = None,
    weights_only: bool = True,
    options: Options = Options(),
    connection: Optional[Connection] = None,
    **how: Any,
) -> Any:
    """A file that is read by ranges. Unless weights_only is False PyTorch executes nothing of it;
    versions before 2.6 could be made to (CVE-2025-32434)."""
    fm = connection or connect()
    with fm.open_reader(name, options=options) as file:
        return torch.load(file, map_location=map_location, weights_only=weights_only, **how)
