# SPDX-License-Identifier: MIT
"""Saves and loads of a checkpoint by fmove.torch and by what else there is, in turn, for measuring.

    checkpoint_load.py SOCKET TO LOCAL MIB ROUNDS save|load|many [COLD]

TO is where fmove saves, NODE:STORE/PATH, and LOCAL a directory for the others. The state is MIB MiB of tensors, on the first GPU if
there is one. A line of seconds for each round:

    save    one copy of as much to pinned memory; then, until the state may change and until it is whole on the far node, of
            Saver.save(); the same of dcp.async_save() to LOCAL (0 where torch has none); torch.save() to LOCAL, without and with fsync;
            the first two of dcp.async_save() with Stager and FmoveWriter (0 where it takes no stager)
    load    FmoveReader; torch.load() of a mapped file of LOCAL, to the state's device, and of one of COLD, a directory on a disk, that is
            not in memory

many saves ROUNDS times and prints KiB of resident memory and open descriptors, after the tenth save and at the end.
"""

import inspect
import os
import sys
import time

import torch
import torch.distributed.checkpoint as dcp

import fmove
import fmove.torch

PARTS = 32


def make_state(mib, device):
    numbers = mib * (1 << 18) // PARTS
    return {f"part{i}": torch.full((numbers,), float(i), device=device) for i in range(PARTS)}


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def settle():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Copy:
    """Of the state to memory that is pinned where there is a GPU; the least that a save costs."""

    def __init__(self, state):
        self._state = state
        self._to = {
            key: torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            for key, value in state.items()
        }

    def __call__(self):
        for key, value in self._state.items():
            self._to[key].copy_(value, non_blocking=True)
        settle()


def save_by_fmove(saver, state, to):
    begin = time.perf_counter()
    saver.save(state, to, force=True)
    may_change = time.perf_counter() - begin
    saver.wait()
    return may_change, time.perf_counter() - begin


def save_by_dcp(state, **how):
    if not all(name in inspect.signature(getattr(dcp, "async_save", lambda: None)).parameters for name in ("no_dist", *how)):
        return 0.0, 0.0
    begin = time.perf_counter()
    done = dcp.async_save(state, no_dist=True, **how)
    may_change = time.perf_counter() - begin
    done.result()
    return may_change, time.perf_counter() - begin


def save_by_torch(state, to, is_synced):
    with open(to, "wb") as file:
        torch.save(state, file)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


def save(connection, to, local, state, rounds):
    copy = Copy(state)
    with fmove.torch.Saver(connection=connection) as saver, fmove.torch.Stager(connection=connection) as stager:
        writer = fmove.torch.FmoveWriter(to, force=True, connection=connection)
        save_by_fmove(saver, state, to)
        save_by_dcp(state, storage_writer=writer, async_stager=stager)
        for _ in range(rounds):
            line = [seconds(copy), *save_by_fmove(saver, state, to), *save_by_dcp(state, checkpoint_id=f"{local}/dcp")]
            line += [seconds(lambda is_synced=how: save_by_torch(state, f"{local}/file", is_synced)) for how in (False, True)]
            line += save_by_dcp(state, storage_writer=writer, async_stager=stager)
            print(*(f"{value:.4f}" for value in line), flush=True)


def load_by_fmove(connection, to, state):
    dcp.load(state, storage_reader=fmove.torch.FmoveReader(to, connection=connection), no_dist=True)
    settle()


def load_by_torch(file, device):
    torch.load(file, map_location=device, mmap=True, weights_only=True)
    settle()


def forget(file):
    """None of it stays in memory."""
    with open(file, "rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def load(connection, to, local, state, rounds, cold):
    device = next(iter(state.values())).device
    with fmove.torch.Saver(connection=connection) as saver:
        save_by_fmove(saver, state, to)
    save_by_torch(state, f"{local}/file", False)
    save_by_torch(state, f"{cold}/file", True)
    load_by_torch(f"{local}/file", device)
    for _ in range(rounds):
        forget(f"{cold}/file")
        line = [seconds(lambda: load_by_fmove(connection, to, state))]
        line += [seconds(lambda at=where: load_by_torch(f"{at}/file", device)) for where in (local, cold)]
        print(*(f"{value:.4f}" for value in line), flush=True)


def resident_kib():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def many(connection, to, state, rounds):
    with fmove.torch.Saver(connection=connection, latest="latest", keep_last=2) as saver:
        for i in range(rounds):
            saver.save(state, f"{to}{i}")
            saver.wait()
            if i in (9, rounds - 1):
                print(resident_kib(), len(os.listdir("/proc/self/fd")), flush=True)


def main():
    socket, to, local, mib, rounds, what = sys.argv[1:7]
    connection = fmove.Connection(socket)
    state = make_state(int(mib), "cuda" if torch.cuda.is_available() else "cpu")
    settle()
    if what == "save":
        save(connection, to, local, state, int(rounds))
    elif what == "load":
        load(connection, to, local, state, int(rounds), sys.argv[7])
    else:
        many(connection, to, state, int(rounds))


main()
