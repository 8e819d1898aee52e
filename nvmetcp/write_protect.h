/* SPDX-License-Identifier: MIT */
/*
 * write_protect - Namespace Write Protection (feature 84h), where a target offers it: what is
 * protected nobody can write to, from whatever host, until it is taken back.
 *
 * Of its states "write protect" alone is ever set: the one that can be taken back. Needs
 * CAP_SYS_ADMIN. Blocking: for a helper process.
 */
#ifndef FM_NVMETCP_WRITE_PROTECT_H
#define FM_NVMETCP_WRITE_PROTECT_H

#include <stdbool.h>

struct fm_err;

/*
 * By an open block device. 1: it is so now; 0: the target does not offer it, or the device is no
 * NVMe. -EROFS: it is protected until a power cycle or for ever, and is to be protected no more;
 * -errno.
 */
int fm_write_protect_set(int fd, bool is_protected, struct fm_err *err);

#endif
