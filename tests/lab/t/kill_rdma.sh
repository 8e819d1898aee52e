# about: SIGKILL of either daemon and of the command in the midst of puts and gets over RDMA
# guests: 1
# disks: 1 1G
#
# Goal:   what tests/fault/kill.sh shows over TCP holds over RDMA: memory that a dead node's peer may still write to hurts nobody.
# Method: the same script in a guest, with two RDMA devices on a wire, on a disk. LAB_ROUNDS: rounds.

need_module veth
rxe_pair rxe0 rxe1 10.1.1
mkdisk /dev/lab/disk1 xfs /mnt/1
rxe_mark rxe0
export FMOVE_BIN TMPDIR=/mnt/1 FM_SEED=$LAB_SEED FM_KILL_TRANSPORT=rdma FM_KILL_MIB=4 FM_KILL_SECONDS=6
check bash "$LAB_TOP/tests/fault/kill.sh" "${LAB_ROUNDS:-2}"
