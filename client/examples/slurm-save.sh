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

# Only who knows the group's ID can end it. So the ID is kept in a file of this job until the group has ended: if the script is killed and
# the job is run again, it discards what it left. Nobody but the user may read the file.
begun=${FMOVE_SAVE_STATE:-${HOME:?}/.cache/fmove}/slurm-save.$SLURM_JOB_ID
umask 077
mkdir -p "${begun%/*}"
discard() {
	FMOVE_GROUP=$(cat "$begun") fmove group discard "$FMOVE_SAVE" || :
	rm -f "$begun"
}
[ ! -s "$begun" ] || discard

# Without a number of tasks srun runs one on each node. That many names are expected: a task that puts nothing is missed.
tasks=${SLURM_NTASKS:-$SLURM_JOB_NUM_NODES}
FMOVE_GROUP=$(fmove group begin --members "$tasks" "$FMOVE_SAVE")
# What the tasks put finds the group by it. Their environment is this one, also in a job of sbatch --export=NONE.
export FMOVE_GROUP SLURM_EXPORT_ENV=ALL
printf '%s\n' "$FMOVE_GROUP" >"$begun"

# If one cannot, nobody will want what came.
srun "$@" || { status=$?; discard; exit $status; }
# A node that cannot be reached (4) may come back, and nobody else can end the group. What is left of one that expires goes by itself
# (stores.group_keep of fmove.conf).
for pause in 1 5 30 60 0; do
	status=0
	fmove group commit "$FMOVE_SAVE" || status=$?
	[ $status -eq 4 ] && [ $pause -ne 0 ] || break
	sleep $pause
done
case $status in
0)	rm -f "$begun" ;;
4)	echo "slurm-save: the group is not ended: FMOVE_GROUP=\$(cat $begun) fmove group commit $FMOVE_SAVE" >&2 ;;
*)	discard ;;
esac
exit $status
