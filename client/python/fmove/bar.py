# SPDX-License-Identifier: MIT
"""How far a transfer is, as a bar of tqdm."""

from __future__ import annotations

import importlib
from typing import Any, Optional

from .results import Progress


class Bar:
    """progress= of any call, in a with statement: what comes is shown by tqdm if that is installed,
    and not at all if not. Of one after the other the next starts anew. how: tqdm's own options."""

    def __init__(self, **how: Any) -> None:
        self._how = {"unit": "B", "unit_scale": True, **how}
        try:
            self._tqdm: Optional[Any] = importlib.import_module("tqdm").tqdm
        except ImportError:
            self._tqdm = None
        self._bar: Any = None

    def __call__(self, told: Progress) -> None:
        if self._tqdm is None:
            return
        if self._bar is None:
            self._bar = self._tqdm(total=told.size, **self._how)
        if told.bytes < self._bar.n:  # the next one, or again
            self._bar.reset()
        self._bar.total = told.size
        self._bar.update(told.bytes - self._bar.n)

    def close(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
