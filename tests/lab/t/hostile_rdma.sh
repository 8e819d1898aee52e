# about: a peer with a good key that sends anything, over RDMA
# guests: 1
# cpus: 2
# when: soak
#
# Goal:   what tests/hostile shows over TCP holds over RDMA: memory that a peer was lent or has lent, descriptors, packs that are rewritten while
#         they are applied.
# Method: the same script in a guest, with a release build, its nodes and peers at the address of an RDMA device. LAB_ROUNDS: times 10 s.

rxe_up rxe0 lab0 10.1.1.1/24
rxe_mark rxe0
export FMOVE_BIN STALL=2min FM_SEED=$LAB_SEED FM_HOSTILE_HOST=10.1.1.1 FM_HOSTILE_KIND=rdma FM_HOSTILE_CLIENTS=0
check bash "$LAB_TOP/tests/hostile/hostile.sh" $((10 * ${LAB_ROUNDS:-2}))
rxe_moved rxe0 1000000
