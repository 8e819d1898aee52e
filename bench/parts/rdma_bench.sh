# SPDX-License-Identifier: MIT
# rdma_bench - what fmove bench rdma says in the lab's guest, against the usual tools.
# shellcheck shell=bash

bench_rdma_bench() {
	lab bench_rdma_bench
	compare "fmove bench rdma, lab, sending, checksums off" "$work/rdma_bench" 1 3 MiB/s "ib_write_bw, 1 MiB" ">=" 0.95
	compare "its median latency: a put of 4 KiB" "$work/rdma_bench" 2 4 us "ib_send_lat, 4 KiB, one way" "<=" 1.5
}
