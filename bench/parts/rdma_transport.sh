# SPDX-License-Identifier: MIT
# rdma_transport - the RDMA transport by itself, in the lab's guest, against ib_write_bw.
# shellcheck shell=bash

bench_rdma_transport() {
	lab bench_rdma_transport
	compare "RDMA transport alone, lab, 16 x 1 MiB under way" "$work/transport" 1 3 MiB/s "ib_write_bw, 1 MiB" ">=" 0.95
	compare "RDMA packets of that, both ways" "$work/transport" 2 4 packets "ib_write_bw, 1 MiB" "<=" 1.02
}
