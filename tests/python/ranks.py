# SPDX-License-Identifier: MIT
"""Processes that are the ranks of one training, by gloo on this machine."""

import os
import signal
import sys
import tempfile
import traceback
from datetime import timedelta

import old_torch  # noqa: F401  before what needs torch.distributed._shard
import torch
import torch.distributed as dist
from nodes import HANG_S

try:
    import torch.distributed.checkpoint as dcp
except ImportError:
    import torch.distributed._shard.checkpoint as dcp

torch.set_num_threads(1)  # a forked child cannot use the threads of its parent


def start(world, function, timeout_s=HANG_S):
    """The ranks' process IDs. function(rank) runs in each; one that raises ends with 1."""
    meeting = tempfile.mktemp(dir=os.getcwd(), prefix="ranks.")
    return [_start_one(meeting, rank, world, function, timeout_s) for rank in range(world)]


def _start_one(meeting, rank, world, function, timeout_s):
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group(
            "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=timeout_s),
        )
        function(rank)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def ends(pids):
    """Their exit statuses, negative of a signal, when all have ended."""
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def run(world, function):
    return ends(start(world, function))


def save(state, writer, no_dist=False, **how):
    if hasattr(dcp, "save"):
        dcp.save(state, storage_writer=writer, no_dist=no_dist, **how)
    else:
        dcp.save_state_dict(state, writer, no_dist=no_dist, **how)


def load(state, reader, no_dist=False, **how):
    if hasattr(dcp, "load"):
        dcp.load(state, storage_reader=reader, no_dist=no_dist, **how)
    else:
        dcp.load_state_dict(state, reader, no_dist=no_dist, **how)


def empty_like(kept):
    """What it is loaded into."""
    if isinstance(kept, dict):
        return {key: empty_like(value) for key, value in kept.items()}
    return torch.zeros_like(kept) if isinstance(kept, torch.Tensor) else None


def flat(kept):
    """As the planner names what is in it. Before torch 2.1 it named the outermost only."""
    if not hasattr(dcp, "save"):
        return kept
    from torch.distributed.checkpoint import _nested_dict

    return _nested_dict.flatten_state_dict(kept)[0]


def sharded(full, rank, world, dim=0):
    """This rank's part of a tensor that all ranks share, along one dimension."""
    from torch.distributed._shard import sharded_tensor

    begins = [full.shape[dim] * r // world for r in range(world + 1)]
    part = full.narrow(dim, begins[rank], begins[rank + 1] - begins[rank]).clone()
    offsets = [0] * full.dim()
    offsets[dim] = begins[rank]
    shard = sharded_tensor.Shard.from_tensor_and_offsets(part, offsets, rank)
    return sharded_tensor.init_from_local_shards([shard], list(full.shape))


def local(tensor):
    """The part of it that is here."""
    return tensor.local_shards()[0].tensor
