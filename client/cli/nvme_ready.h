/* SPDX-License-Identifier: MIT */
/*
 * nvme_ready - what a node needs before its fmove-nvmed answers: a configuration, a host NQN, the
 * kernel's NVMe-TCP, the running service. For the first command that somebody says, discover.
 */
#ifndef FM_CLIENT_NVME_READY_H
#define FM_CLIENT_NVME_READY_H

#include <stdbool.h>

struct fm_err;

/*
 * 0: fmove-nvmed listens where it does by default. Else the first thing that is missing, with the
 * command that makes it: is_system, as root, runs that, says so, and goes on with the next.
 */
int fm_nvme_ready(bool is_system, struct fm_err *err);

#endif
