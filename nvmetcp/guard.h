/* SPDX-License-Identifier: MIT */
/*
 * guard - whether a volume may be mounted here, and how. One pure function; the only place that decides it.
 *
 * A namespace is mounted read-write by one node only: the writer that the configuration of every node names. This rule
 * alone decides, so that a partition cannot make two writers. What peers say and what the file system says can only
 * refuse, and what a peer said refuses until that peer says otherwise. Any thread.
 *
 * What is on the device must be what the configuration says (`type`), if superblock.h knows that type. Of another type,
 * f2fs or btrfs for instance, nobody can say whether it is there: such a one is mounted read-only, or read-write where the
 * mode is exclusive and no peer knows the volume.
 */
#ifndef FM_NVMETCP_GUARD_H
#define FM_NVMETCP_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmetcp/inventory.h"
#include "nvmetcp/superblock.h"
#include "nvmetcp/volume.h"

struct fm_mounts;

#define FM_GUARD_WHY_MAX 512

/* What one peer said of the same namespace. */
struct fm_guard_peer {
	const char *node;
	const char *writer;		/* whom its configuration names; "" if it does not know the volume */
	bool is_mounted;
	bool is_read_write;
	bool is_silent;			/* it does not answer now: this is what it said last */
};

struct fm_guard_facts {
	const char *node;		/* our name */
	const struct fm_volume *volume;
	const struct fm_inv_namespace *ns;	/* as it was identified just now */
	const struct fm_superblock *sb;		/* as it was read just now; for XFS with `clean` already asked for */
	bool is_sealed;			/* the writer has sealed it, or is about to: nobody writes until it is unsealed */
	bool has_heard;			/* a reader: whether it is, is known from the writer */
	const struct fm_mounts *mounts;		/* of this node */
	const char *last_wwid;		/* which namespace was mounted for this volume the last time; NULL: not known */
	uint64_t last_size_bytes;	/* of this namespace when it was mounted the last time; 0: not known */
	const struct fm_guard_peer *peers;	/* what each said last */
	unsigned peer_count;
};

enum fm_guard_verdict {
	FM_GUARD_READ_WRITE,
	FM_GUARD_READ_ONLY,		/* the device read-only first, then `options` */
	FM_GUARD_REFUSED,
};

struct fm_guard_answer {
	enum fm_guard_verdict verdict;
	const char *options;		/* what to add to the mount options: "rw", "ro,noload", "ro,norecovery", "ro";
					   static; NULL: refused */
	char why[FM_GUARD_WHY_MAX];	/* refused: what is wrong and what to do, one line */
};

/* Whether this node is the one that mounts the volume read-write, as the configuration says: the rule that decides. */
bool fm_guard_is_writer(const struct fm_volume *volume, const char *node);

/* The volume has a mount point. */
void fm_guard_decide(const struct fm_guard_facts *facts, struct fm_guard_answer *answer);

#endif
