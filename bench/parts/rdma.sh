# SPDX-License-Identifier: MIT
# rdma - put over soft-RoCE in the lab's guest against ib_write_bw.
# shellcheck shell=bash

bench_rdma() {
	lab bench_rdma
	compare "put, lab, null store, 64 MiB, RDMA, checksums off" "$work/unchecked" 1 2 MiB/s "ib_write_bw, 1 MiB" ">=" 0.9
	compare "the same with checksums" "$work/checked" 1 2 MiB/s "ib_write_bw, 1 MiB" - 0
}
