# SPDX-License-Identifier: MIT
# rdma_rails - two rate-limited soft-RoCE rails between two guests of the lab against one.
# shellcheck shell=bash

bench_rdma_rails() {
	lab bench_rdma_rails
	compare "put, lab, two rate-limited RDMA rails, checksums off" "$work/rdma_rails" 1 2 MiB/s "one such rail" ">=" 1.8
}
