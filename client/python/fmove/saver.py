# SPDX-License-Identifier: MIT
"""Checkpoints that are saved while training goes on."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import math
import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist

from . import layout
from .background import Background
from .checkpoint import FmoveWriter
from .connection import Connection, Named, connect
from .errors import FAILED, FmoveError, error
from .group import check_latest
from .image import Image
from .memory import Memory
from .names import Name, parse
from .results import TIMEOUT_S, Options, Rotated

try:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.default_planner import (
        DefaultSavePlanner as DefaultSavePlanner,
    )
    from torch.distributed.checkpoint.planner import SavePlanner
except ImportError:  # before torch 2.0
    import torch.distributed._shard.checkpoint as dcp
    from torch.distributed._shard.checkpoint.default_planner import DefaultSavePlanner
    from torch.distributed._shard.checkpoint.planner import SavePlanner

GRACE_S = 120.0  # behind the deadline of a save, to end what it had begun
SLACK_S = 0.5  # before it, since gloo's clock is not ours
LOOK_S, LOOK_MAX_S = 0.0005, 0.05  # from one look at a vote to the next
TOLD_MAX = 4  # ranks whose failures are told


class _Snapshot(SavePlanner):  # type: ignore[misc]
    """A planner and copies of what its rank may be asked for: the state may change then."""

    def __init__(self, planner: Any, memory: Memory) -> None:
        self._planner = planner
        self._plan = planner.create_local_plan()
        made = layout.lay_out(self._plan.items, planner)
        self._places = {place.item.index: place for place in made.places}
        self.image = Image(made, memory)
        self.image.fill(planner)

    def init(self, state_dict: Any, is_coordinator: bool) -> None:
        pass  # it was, with the state itself

    def set_up_planner(
        self, state_dict: Any, storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        pass

    def create_local_plan(self) -> Any:
        return self._plan

    def create_global_plan(self, all_plans: Any) -> Any:
        return self._planner.create_global_plan(all_plans)

    def finish_plan(self, new_plan: Any) -> Any:
        return self._planner.finish_plan(new_plan)

    def resolve_data(self, write_item: Any) -> Any:
        place = self._places[write_item.index]
        if layout.is_bytes(write_item):
            return io.BytesIO(place.data)
        return self.image.tensor(place)


class _Failed(_Snapshot):
    """None, of a rank whose save() raised: it tells the other ranks why."""

    def __init__(self, why: BaseException) -> None:
        code = getattr(why, "errno", None)
        text = str(why) or type(why).__name__
        # Another exception may not be one that can be sent to other ranks.
        self._why = why if isinstance(why, FmoveError) else error(code or errno.EIO, text)

    def create_local_plan(self) -> Any:
        raise self._why


class _Turn(NamedTuple):
    """What a rank has for one call of save()."""

    label: str  # as the caller named it
    name: Optional[Name]  # None: the call began nothing, and raised
    force: bool
    snapshot: _Snapshot


class _Vote:
    """Of this rank, in one call of save(): all ranks leave it out if one of them is busy."""

    def __init__(self, group: Any) -> None:
        self._group = group  # None: it is alone
        self._value = torch.tensor([0])
        self._works: List[Any] = []

    def cast(self, is_busy: bool) -> None:
        self._value.fill_(int(is_busy))
        if self._group is not None:
            # By map, so that no signal comes between: it is cast and we know it, or neither.
            works = map(self._group.allreduce, (self._value,), (dist.ReduceOp.MAX,))
            self._works.extend(works)

    def is_cast(self) -> bool:
        return self._group is None or bool(self._works)

    def is_left_out(self) -> bool:
        """When all ranks have cast theirs."""
        self._wait()
        for work in self._works:
            work.wait()
        return bool(self._value.item())

    def was_left_out(self) -> bool:
        """Of a call that something ended. Not where the vote itself failed."""
        self._wait()
        with contextlib.suppress(RuntimeError):
            return self.is_left_out()
        return False

    def _wait(self) -> None:
        """Until it is known, or failed. Within work.wait() no signal's handler would run."""
        pause = LOOK_S
        while not all(work.is_completed() for work in self._works):
            time.sleep(pause)
            pause = min(2 * pause, LOOK_MAX_S)


class _Save:
    """One save, in a thread of its own."""

    def __init__(
        self,
        number: int,
        name: str,
        timeout: float,
        run: Callable[["_Save"], Rotated],
    ) -> None:
        self.number = number  # of the call of save() that it is for, or the last such
        self.name = name
        self.end = time.monotonic() + timeout
        self.rotated = Rotated()
        self._run = run
        self._work = Background(self._save, "fmove save")

    def start(self) -> None:
        self._work.start()

    def _save(self) -> None:
        self.rotated = self._run(self)

    def is_over(self) -> bool:
        return self._work.is_over()

    def is_late(self) -> bool:
        return time.monotonic() > self.end - SLACK_S

    def left(self) -> float:
        """Seconds; a save that is late may have a little, to end."""
        return max(self.end - time.monotonic(), 1.0)

    def wait(self) -> None:
        self._work.wait(max(0.0, self.end + GRACE_S - time.monotonic()))

    def check(self, is_over: bool) -> None:
        """Raises what ended it, or that it is late."""
        if not is_over and time.monotonic() > self.end:
            raise error(errno.ETIMEDOUT, f"{self.name} is not saved yet, and late")
        if is_over and self._work.failure is not None:
            raise self._work.failure


class Saver:
    """Saves while training goes on. All ranks make one, and call the same of it in the same order.

    save() copies the state to memory that is kept, and returns; a thread puts it, and all of it is
    seen at once, under its name. What ends a save is raised by the next call of save(), check() or
    wait(), and nowhere else. save() raises it when it has begun its own, since other ranks may have
    been told by check() before they begin theirs; it begins none where a rank was lost. What keeps
    it from beginning one is raised at once, and the other ranks are told by their next call. Ranks
    that come to a save with different names, or have called save() a different number of times, are
    refused: ESTALE. A save goes on when a signal's handler raises in one of the calls: the next
    call waits for it as this one did. A call of save() within another, as in a signal's handler,
    is refused, EBUSY, since the memory is in use: the other ranks are told, or with
    when_busy="drop" leave it out, too. One save is under way at most: the next waits for it, or
    with when_busy="drop" is left out by all ranks. timeout: seconds of a save; then it is late, and
    is discarded. A rank that does not come to a save is named. After that the ranks that did cannot
    meet any more: make another Saver.
    """

    def __init__(
        self,
        *,
        replicas: Sequence[str] = (),
        latest: Optional[str] = None,
        keep_last: int = 0,
        timeout: float = TIMEOUT_S,
        when_busy: str = "wait",
        planner: Callable[[], Any] = DefaultSavePlanner,
        options: Options = Options(),
        connection: Optional[Connection] = None,
    ) -> None:
        check_latest(latest, keep_last)
        if when_busy not in ("wait", "drop"):
            raise ValueError(f'when_busy={when_busy!r}: must be "wait" or "drop"')
        self._how: Dict[str, Any] = {
            "replicas": replicas,
            "latest": latest,
            "keep_last": keep_last,
            "options": options,
        }
        self._timeout = timeout
        self._is_dropping = when_busy == "drop"
        self._planner = planner
        self._connection = connection or connect()
        self._memory = Memory(self._connection)
        self._save: Optional[_Save] = None
        self._is_saving = False  # a call of save() has not returned, or one begins a telling
        self._numbers = itertools.count(1)  # of calls of save()
        self._begun = 0  # the last of them that began a save, or a telling
        self._turns: Dict[int, _Turn] = {}  # that the ranks have to meet for, by number
        self._unvoted: Deque[int] = deque()  # calls of save() that got to no vote: left out
        self._late: Deque[_Vote] = deque()  # votes for them, for which nobody has waited
        self._is_lost = False  # a rank is: they cannot meet any more
        self._group = self._votes = None
        self._is_coordinator = True
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            self._is_coordinator = dist.get_rank() == 0
            # Their own: the thread and the trainer must not meet in the same one.
            self._group = self._new_group()
            self._votes = self._new_group() if self._is_dropping else None

    def _new_group(self) -> Any:
        return dist.new_group(backend="gloo", timeout=timedelta(seconds=self._timeout))

    def save(self, state_dict: Dict[str, Any], name: Named, *, force: bool = False) -> bool:
        """Returns when the state may change again. False: it was left out."""
        if self._is_saving:
            raise self._refused(next(self._numbers), str(name))
        self._is_saving = True  # before it has a number: one of a signal's handler comes later
        try:
            return self._save_as(next(self._numbers), state_dict, name, force)
        finally:
            self._is_saving = False
            self._tell()

    def _refused(self, number: int, label: str) -> FmoveError:
        """A call within another one. It counts all the same: all ranks count alike."""
        why = error(errno.EBUSY, f"{label} is not saved: save() is under way, call it later")
        if self._is_dropping:
            self._unvoted.append(number)  # the vote of the call beneath may be to come
        else:
            self._miss(number, label, why)
        return why

    def _save_as(self, number: int, state_dict: Dict[str, Any], name: Named, force: bool) -> bool:
        vote = _Vote(self._votes)
        try:
            if self._is_dropping and self._is_any_busy(number, vote):
                return False
            ended = self._ended()
            self._begin(number, state_dict, parse(name), force)
        except BaseException as why:
            if self._is_dropping and not vote.is_cast():
                self._unvoted.append(number)
            elif not vote.was_left_out():  # all ranks leave it out then, whatever ends this call
                self._miss(number, str(name), why)
            raise
        if ended is not None:
            raise ended
        return True

    def _ended(self) -> Optional[Exception]:
        """Waits until no save is under way. What ended the last one, unless that was raised."""
        try:
            self._wait()
        except Exception as why:
            if self._save is not None or self._is_lost:  # it is late, or a signal came
                raise
            return why
        return None

    def _begin(self, number: int, state_dict: Dict[str, Any], to: Name, force: bool) -> None:
        planner = self._planner()
        set_up(planner, _plain(state_dict), self._is_coordinator)
        snapshot = _Snapshot(planner, self._memory)
        self._turns[number] = _Turn(str(to), to, force, snapshot)
        self._start(number)

    def _start(self, number: int) -> None:
        """For the turns up to this one."""
        before, label = self._begun, self._turns[number].label
        save = _Save(number, label, self._timeout, self._run)
        self._save, self._begun = save, number  # before it runs: a signal may come while it begins
        try:
            save.start()
        except BaseException:
            if save.is_over():
                self._save, self._begun = None, before  # it never ran
            raise

    def _miss(self, number: int, label: str, why: BaseException) -> None:
        """The other ranks meet this one for each save, or would meet its next one: they are told,
        in the order of the calls."""
        if self._begun == number:
            return
        self._turns.pop(number, None)  # it did not get to begin
        if self._group is not None and not self._is_lost:
            self._turns[number] = _Turn(label, None, False, _Failed(why))

    def _tell(self) -> None:
        """Of what this rank did not begin, unless a save is under way: then it is told behind."""
        if self._is_saving:
            return
        self._is_saving = True  # what a signal's handler begins meanwhile would be forgotten
        try:
            with contextlib.suppress(RuntimeError):  # no thread can be started
                if self._turns and self._save is None and not self._is_lost:
                    self._start(max(self._turns))
            with contextlib.suppress(RuntimeError):  # a rank is lost
                self._vote_late()
        finally:
            self._is_saving = False

    def _vote_late(self, before: float = math.inf) -> None:
        """In the place of calls before that one which got to no vote. Nobody waits here until the
        other ranks come to them: what those do first may need this rank."""
        while self._unvoted and self._unvoted[0] < before:
            self._unvoted.popleft()
            self._late.append(_Vote(self._votes))
            self._late[-1].cast(True)

    def _is_any_busy(self, number: int, vote: _Vote) -> bool:
        """All ranks leave a save out, or none."""
        self._vote_late(number)
        save = self._save
        vote.cast(save is not None and not save.is_over())
        is_left_out = vote.is_left_out()
        self._late.clear()  # the other ranks have come past them
        return is_left_out

    def check(self) -> None:
        """Raises what ended the last save, once, or that it is late."""
        try:
            self._check()
        finally:
            self._tell()

    def _check(self) -> None:
        save = self._save
        if save is not None:
            is_over = save.is_over()
            if is_over:
                if self._save is not save:
                    return  # a signal's handler made a call meanwhile, and that was told
                self._save = None
            save.check(is_over)

    def wait(self) -> Rotated:
        """Until no save is under way. What keep_last removed, on the coordinator."""
        try:
            return self._wait()
        finally:
            self._tell()

    def _wait(self) -> Rotated:
        rotated = Rotated()
        while True:  # a signal's handler may begin one meanwhile
            save = self._save
            if save is None:
                return rotated
            save.wait()
            self._check()
            rotated = save.rotated

    def close(self) -> None:
        """Waits, and gives the memory back."""
        try:
            ended = self._ended()
            self._tell()
            self._wait()
            while self._late:
                self._wait_late(self._late.popleft())
        finally:
            if self._save is None:
                self._memory.close()
        if ended is not None:
            raise ended

    def _wait_late(self, vote: _Vote) -> None:
        """The other ranks need this one for it."""
        try:
            vote.was_left_out()
        except BaseException:
            self._late.appendleft(vote)
            raise

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, save: _Save) -> Rotated:
        """Meets the other ranks for each call of save() up to its own, in their order."""
        rotated = Rotated()
        while True:
            number = min(list(self._turns), default=save.number + 1)
            if number > save.number:
                return rotated
            try:
                rotated = self._meet(save, number, self._turns[number])
            except FmoveError:
                if self._turns[number].name is not None:
                    raise  # of another one its caller was told
            finally:
                del self._turns[number]

    def _meet(self, save: _Save, number: int, turn: _Turn) -> Rotated:
        """All ranks do, once for each call of save()."""
        writer = None
        try:
            if self._group is not None:
                left = timedelta(seconds=save.left())
                dist.monitored_barrier(self._group, timeout=left, wait_all_ranks=True)
            writer = FmoveWriter(
                turn.name,
                force=turn.force,
                timeout=save.left(),  # of what the others left
                connection=self._connection,
                **self._how,
            )
            writer.turn = number
            _save_with(turn.snapshot, writer, self._group)
        except BaseException as why:
            failed = _failure(save, why, writer)
            self._is_lost = self._group is not None and not hasattr(why, "failures")
            if writer is not None:
                writer.discard()
            raise failed from why
        return writer.rotated


def _plain(state_dict: Dict[str, Any]) -> Dict[str, Any]:
    """Of modules and optimizers their state."""
    return {
        key: value.state_dict() if hasattr(value, "load_state_dict") else value
        for key, value in state_dict.items()
    }


def set_up(planner: Any, state_dict: Dict[str, Any], is_coordinator: bool) -> None:
    if hasattr(planner, "set_up_planner"):
        planner.set_up_planner(state_dict=state_dict, is_coordinator=is_coordinator)
    else:  # before torch 2.0
        planner.init(state_dict, is_coordinator)


def _save_with(planner: Any, writer: FmoveWriter, group: Any) -> None:
    """The planner has the state."""
    is_alone = group is None
    if hasattr(dcp, "save"):
        dcp.save(
            {}, storage_writer=writer, planner=planner, process_group=group, no_dist=is_alone
        )
    else:  # before torch 2.2
        dcp.save_state_dict({}, writer, process_group=group, no_dist=is_alone, planner=planner)


def _failure(save: _Save, why: BaseException, writer: Optional[FmoveWriter]) -> FmoveError:
    """Which ranks failed, and of what; of ranks that were lost what they have not put."""
    failures = getattr(why, "failures", None)
    status = FAILED
    if failures:
        cause = next(iter(failures.values()))[0]
        if isinstance(cause, FmoveError) and cause.is_published:
            return cause
        told = [f"rank {r}: {_text(f[0])}" for r, f in sorted(failures.items())[:TOLD_MAX]]
        code = getattr(cause, "errno", None) or errno.EIO
        status = getattr(cause, "exit", FAILED)
    else:
        told = [str(why), writer.missing() if writer else ""]
        code = errno.ETIMEDOUT if save.is_late() else errno.ECONNABORTED
    return error(code, f"{save.name} was not saved: " + "; ".join(filter(None, told)), exit=status)


def _text(why: BaseException) -> str:
    return str(why.strerror) if isinstance(why, FmoveError) else str(why)
