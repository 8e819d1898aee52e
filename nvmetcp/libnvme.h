/* SPDX-License-Identifier: MIT */
/*
 * libnvme - all that is used of libnvme: reading a discovery log. Only libnvme.c includes its
 * headers.
 *
 * Connections are made by connection.h and identity is read by inventory.h: several versions of the
 * library return wrong UUIDs, and struct nvme_fabrics_config has four layouts under one soname.
 * That structure is not used at all; what is used (struct nvme_get_log_args) carries its size, and
 * fm_libnvme_check() compares versions all the same, before any other call. Blocking: for a helper
 * process. One thread.
 */
#ifndef FM_NVMETCP_LIBNVME_H
#define FM_NVMETCP_LIBNVME_H

#include <stdbool.h>

struct fm_err;

#define FM_LIBNVME_ENTRIES_MAX 1024	/* of one log; each is 1 KiB on the wire */

/* What one entry of the log says, texts cut at the first NUL or trailing blank and printable. */
struct fm_discovered {
	char subsystem[224];
	/* as the target advertises it: need not be the one that was dialled */
	char address[64];
	char port[16];
	bool is_ipv6;
	bool wants_secure;	/* TREQ: a secure channel is required */
};

struct fm_discovery {
	struct fm_discovered entry[FM_LIBNVME_ENTRIES_MAX];
	unsigned count;
	/* entries of another transport, of discovery controllers, or not readable */
	unsigned left_out;
	bool is_cut;		/* there were more than FM_LIBNVME_ENTRIES_MAX */
};

/* -ENOTSUP, with both versions in the text, if the library loaded is not the one built against. */
int fm_libnvme_check(struct fm_err *err);

/* The versions that it compares. */
const char *fm_libnvme_built(void);
const char *fm_libnvme_loaded(void);

/*
 * The log of a discovery controller: fd is its character device (/dev/nvme3). Reads again if the
 * log changed meanwhile. -EIO with the NVMe status in the text, -EAGAIN if it kept changing,
 * -errno.
 */
int fm_libnvme_discover(int fd, struct fm_discovery *out, struct fm_err *err);

#endif
