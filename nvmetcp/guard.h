/* SPDX-License-Identifier: MIT */
/*
 * guard - whether a volume may be mounted here, and how. One pure function; the only place that
 * decides it.
 *
 * A namespace is mounted read-write by one node only: the writer that its configuration names. And
 * only if every node that counts has said that it does not have it read-write and names the same
 * writer, since this node told them whom it names; or if something protects it that works without
 * words (ext4's multiple mount protection, a reservation that the target confirmed) and nothing
 * that was said forbids. That nobody reads what is about to be written each node must have said at
 * the number of the unseal, or a higher one, whatever protects it. The writer mounts what it has
 * sealed, read-only, when every node that counts has answered, and named no other writer. What
 * forbids does so until the node that said it says otherwise: silence takes nothing back, and
 * permits nothing. A person can: by force, once, or by forgetting a node. Any thread.
 *
 * What is on the device must be what the configuration says (`type`), if superblock.h knows that
 * type. Of another type, f2fs or btrfs for instance, nobody can say whether it is there: such a one
 * is mounted read-only, or read-write where the mode is exclusive and no peer knows the volume.
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

/*
 * What one peer said of the same namespace. A peer that said nothing of it has an entry too, as not
 * mounted.
 */
struct fm_guard_peer {
	const char *node;
	/* whom its configuration names; "" if it does not know the volume */
	const char *writer;
	bool is_mounted;
	bool is_read_write;
	/* why it does not answer now: the rest is what it said last; "": it does */
	const char *silent_why;
	bool counts;			/* it may reach the volume: its word is waited for */
	/* since this node has told its peers what its configuration says now */
	bool has_answered;
	/* it has said what stands here; else, if it has answered, it knows no such volume */
	bool names_it;
	/* the highest of a seal or an unseal that it has heard of; with names_it */
	uint64_t number;
	/* to targets it is this host: a reservation keeps neither away */
	bool is_same_host;
	/* a person says that it is off for good: nothing of it counts */
	bool is_forgotten;
	/* since that was forced: what it said counts, although it is silent */
	bool has_spoken;
};

struct fm_guard_facts {
	const char *node;		/* our name */
	const struct fm_volume *volume;
	const struct fm_inv_namespace *ns;	/* as it was identified just now */
	/* as it was read just now; for XFS with `clean` already asked for */
	const struct fm_superblock *sb;
	/* the writer has sealed it, or is about to: nobody writes until it is unsealed */
	bool is_sealed;
	/* by this node, the writer: it is to be, once it is found clean */
	bool is_sealing;
	/* a reader: the writer has said which, since this node said that it has nothing mounted */
	bool has_heard;
	uint64_t number;		/* of the last seal or unseal; the writer's */
	const struct fm_mounts *mounts;		/* of this node */
	/* which namespace was mounted for this volume the last time; NULL: not known */
	const char *last_wwid;
	/* of this namespace when it was mounted the last time; 0: not known */
	uint64_t last_size_bytes;
	const struct fm_guard_peer *peers;	/* what each said last */
	unsigned peer_count;
	const char *peers_why;		/* why nobody can say who counts; "": those above do */
	bool is_reservable;		/* the target may offer reservations, as far as is known */
	/* a person takes silence, and what was said before it, for a permission */
	bool is_forced;
};

enum fm_guard_verdict {
	FM_GUARD_READ_WRITE,
	FM_GUARD_READ_ONLY,		/* the device read-only first, then `options` */
	FM_GUARD_WAITING,		/* for words of peers: it lifts by itself when they come */
	FM_GUARD_REFUSED,
};

#define FM_GUARD_WAITS_MAX 16

struct fm_guard_answer {
	enum fm_guard_verdict verdict;
	const char *options; /* what to add to the mount options: "rw", "ro,noload",
				"ro,norecovery", "ro"; static; NULL: it is not mounted */
	/* FM_GUARD_READ_WRITE: only if the target reserves it for this node; else it is
	 * FM_GUARD_WAITING, for the `why` below. */
	bool needs_reservation;
	/* FM_GUARD_REFUSED, at the writer: only a mount that writes makes it fit to be read. */
	bool is_unclean;
	char why[FM_GUARD_WHY_MAX];	/* what is wrong or waited for and what to do, one line */
	unsigned waits_for[FM_GUARD_WAITS_MAX];	/* the first of them, indexes into the peers */
	unsigned waits_count;
};

/* Whether this node is the one that mounts the volume read-write, as the configuration says: the
 * rule that decides. */
bool fm_guard_is_writer(const struct fm_volume *volume, const char *node);

/* The volume has a mount point. */
void fm_guard_decide(const struct fm_guard_facts *facts, struct fm_guard_answer *answer);

#endif
