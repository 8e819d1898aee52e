#!/bin/bash
#SBATCH --job-name=staged
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
# SPDX-License-Identifier: MIT
#
# slurm-job.sh SOURCE COMMAND... - a job whose first step stages a dataset on each of its nodes; then COMMAND is run as the job's
# tasks, which find it in FMOVE_STAGED:
#
#   sbatch slurm-job.sh first:models/imagenet python train.py
set -eu
[ $# -gt 1 ] || { echo "usage: sbatch slurm-job.sh SOURCE COMMAND..." >&2; exit 2; }
source=$1
shift

# A step of the job, not a Prolog: a Prolog that fails drains its node. If a node cannot have the dataset, srun ends with the highest
# status of all nodes, the job ends with that, and no task is begun. What came stays for staging.grace, also for the next job.
srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --label fmove stage "$source" -- true

# Each task holds the copy of its node as long as it lives. It is there, so the source need not be asked again for each of them. Which
# commit a branch of a hub is must be asked.
check='--check=none'
case $source in
hf:*)	check='--check=listing' ;;
esac
exec srun fmove stage "$check" "$source" -- "$@"
