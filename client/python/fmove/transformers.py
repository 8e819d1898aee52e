# SPDX-License-Identifier: MIT
"""For the Trainer of Hugging Face's transformers: each checkpoint that it saves goes to another
node, too, while training goes on."""

from __future__ import annotations

import os
import sys
from typing import Any, Optional

from transformers import TrainerCallback  # type: ignore[import]
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR  # type: ignore[import]

from .background import Background
from .connection import Connection, Named, connect, on_disk
from .group import check_latest
from .names import Name, parse
from .results import TIMEOUT_S, Options


class FmoveCallback(TrainerCallback):  # type: ignore[misc]
    """Puts OUTPUT/checkpoint-N to `path`/checkpoint-N, which is seen as a whole; the link `latest`
    beside it leads to it then, and of what it led to the last keep_last stay. With latest what is
    put is on disk before the link leads to it. The Trainer's first process does it, behind each
    save, when the others have written their parts of it, on a file system that all share: each
    process has this callback.

    Before the Trainer saves again it waits for the put, so that save_total_limit removes nothing
    that is still read: with save_strategy="best" before each evaluation ends, and with
    save_total_limit=1 and a best checkpoint, of which the end of training removes all others,
    within the save. What ends a put is raised then, or when training ends. force: a checkpoint that
    is there already is replaced. timeout: seconds of one put.
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
        self._options = options if latest is None else on_disk(options, None)
        self._connection = connection
        self._put: Optional[Background] = None

    def wait(self) -> None:
        """Until no put is under way; raises what ended it. It goes on when a signal's handler
        raises here: the next call waits for it."""
        put = self._put
        if put is not None:
            put.wait()
            self._put = None
            if put.failure is not None:
                raise put.failure

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if control.should_save:
            self.wait()

    on_epoch_end = on_step_end

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Behind it the Trainer may find that this is the best so far, and save."""
        if control.should_save or _word(getattr(args, "save_strategy", None)) == "best":
            self.wait()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _await_others()
        self.wait()
        if not state.is_world_process_zero:
            return
        directory = f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        source = os.path.join(args.output_dir, directory)
        to = self._path.below(directory)
        put = Background(lambda: self._save(source, to), "fmove put")
        self._put = put  # before it runs: a signal may come while it begins
        put.start()
        if args.save_total_limit == 1 and state.best_model_checkpoint is not None:
            self.wait()  # when training ends nobody is asked before this one is removed

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.wait()

    def _save(self, source: str, to: Name) -> None:
        fm = self._connection or connect()
        timeout: Optional[float] = self._timeout
        if self._latest is not None:
            timeout = fm.check_link(to, self._latest, timeout)
        fm.put_tree(source, to, force=self._force, timeout=timeout, options=self._options)
        if self._latest is not None:
            fm.lead(to, self._latest, self._keep_last, later=True)


def _await_others() -> None:
    """Each process has written its part of the checkpoint then: the Trainer waits for none."""
    dist = sys.modules.get("torch.distributed")  # who is one of several has imported it
    if dist is not None and dist.is_available() and dist.is_initialized():
        dist.barrier()


def _word(strategy: Any) -> str:
    """Of an enumeration of the Trainer, or the word itself."""
    return str(getattr(strategy, "value", strategy))
