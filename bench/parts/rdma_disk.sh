# SPDX-License-Identifier: MIT
# rdma_disk - durable put from NVMe to NVMe over soft-RoCE in the lab's guest.
# shellcheck shell=bash

bench_rdma_disk() {
	lab bench_rdma_disk
	compare "put, lab, emulated NVMe to NVMe, 64 MiB, durable, RDMA, checksums off" "$work/nvme" 1 2 MiB/s \
		"the slowest of fio and ib_write_bw" ">=" 0.85
}
