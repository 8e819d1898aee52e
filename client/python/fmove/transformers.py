# SPDX-License-Identifier: MIT
"""For the Trainer of Hugging Face's transformers: each checkpoint that it saves goes to another
node, too, while training goes on."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Optional

from transformers import TrainerCallback  # type: ignore[import]
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR  # type: ignore[import]

from .connection import Connection, Named, connect
from .group import check_latest
from .names import Name, parse
from .results import TIMEOUT_S, Options


class FmoveCallback(TrainerCallback):  # type: ignore[misc]
    """Puts OUTPUT/checkpoint-N to `path`/checkpoint-N, which is seen as a whole; the link `latest`
    beside it leads to it then, and of what it led to the last keep_last stay. The Trainer's first
    process does it, behind each save.

    Before the Trainer saves again it waits for the put, so that save_total_limit removes nothing
    that is still read. What ends a put is raised then, or when training ends. force: a checkpoint
    that is there already is replaced. timeout: seconds of one put.
    """

    def __init__(
        self,
        path: Named,
        *,
        force: bool = False,
        latest: Optional[str] = None,
        keep_last: int = 0,
        timeout: float = TIMEOUT_S,
        options: Options = Options(),
        connection: Optional[Connection] = None,
    ) -> None:
        check_latest(latest, keep_last)
        self._path = parse(path)
        self._force = force
        self._latest = latest
        self._keep_last = keep_last
        self._timeout = timeout
        self._options = options
        self._connection = connection
        self._put: Optional[_Put] = None

    def wait(self) -> None:
        """Until no put is under way; raises what ended it."""
        put, self._put = self._put, None
        if put is not None:
            put.wait()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if control.should_save:
            self.wait()

    on_epoch_end = on_step_end

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.wait()
        if state.is_world_process_zero:
            directory = f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            source = os.path.join(args.output_dir, directory)
            self._put = _Put(lambda: self._save(source, self._path.below(directory)))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.wait()

    def _save(self, source: str, to: Name) -> None:
        fm = self._connection or connect()
        fm.put_tree(
            source, to, force=self._force, timeout=self._timeout, options=self._options
        )
        if self._latest is not None:
            fm.lead(to, self._latest, self._keep_last, later=True)


class _Put:
    """In a thread of its own."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._failure: Optional[BaseException] = None
        self._run = run
        self._thread = threading.Thread(target=self._work, name="fmove put")
        self._thread.start()

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as why:
            self._failure = why  # for who waits

    def wait(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure
