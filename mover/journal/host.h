/* SPDX-License-Identifier: MIT */
/*
 * host - which machine this is, and which start of its kernel.
 */
#ifndef FM_JOURNAL_HOST_H
#define FM_JOURNAL_HOST_H

#include <stdbool.h>
#include <stdint.h>

#define FM_JOURNAL_ID_LEN 16

/* All zeros: not known, and the same as no other, not even as itself. */
struct fm_journal_host {
	uint8_t machine[FM_JOURNAL_ID_LEN];
	uint8_t boot[FM_JOURNAL_ID_LEN];
};

/* The machine and kernel that this runs on. 0, also where a system has no such IDs; or an error of
 * reading them. */
int fm_journal_host_here(struct fm_journal_host *out);

/* From the texts of /etc/machine-id and boot_id (NULL: there is none), and the node name of
 * uname(2). */
void fm_journal_host_of(const char *machine_id, const char *boot_id, const char *name,
			struct fm_journal_host *out);

bool fm_journal_host_is_same(const uint8_t a[FM_JOURNAL_ID_LEN],
			     const uint8_t b[FM_JOURNAL_ID_LEN]);

#endif
