#!/bin/bash
# SPDX-License-Identifier: MIT
#
# slurm-save.sh NODE:STORE/PATH COMMAND... - in a job of Slurm: runs COMMAND as the job's tasks, each of which puts one file or
# directory of its own below PATH, and publishes them all by one rename, or none:
#
#   slurm-save.sh first:models/step9000 sh -c 'fmove put "shard.$SLURM_PROCID" "$FMOVE_SAVE/"'
#
# Processes that use torch.distributed need no step for it: fmove.torch.Saver of the package for Python does the same among them.
set -eu
[ $# -gt 1 ] || { echo "usage: ${0##*/} NODE:STORE/PATH COMMAND..." >&2; exit 2; }
export FMOVE_SAVE=$1
shift

# Without a number of tasks srun runs one on each node. That many names are expected: a task that puts nothing is missed.
tasks=${SLURM_NTASKS:-$SLURM_JOB_NUM_NODES}
FMOVE_GROUP=$(fmove group begin --members "$tasks" "$FMOVE_SAVE")
# What the tasks put finds the group by it. Their environment is this one.
export FMOVE_GROUP

# If one cannot, nobody will want what came. If this script is killed, that goes when the group expires (stores.group_keep of
# fmove.conf).
srun "$@" || { status=$?; fmove group discard "$FMOVE_SAVE" || :; exit $status; }
exec fmove group commit "$FMOVE_SAVE"
