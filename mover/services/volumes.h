/* SPDX-License-Identifier: MIT */
/*
 * volumes - what nodes say of the shared volumes that they have: asked of every peer that is
 * connected, answered for peers. One VOLUMES_ASK, then VOLUMES until one has no MORE.
 */
#ifndef FM_VOLUMES_H
#define FM_VOLUMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/node/engine.h"
#include "mover/node/service.h"

extern const struct fm_service fm_volumes_service;

#define FM_VOLUME_ASKS_MAX 16u		/* of all peers */
#define FM_VOLUME_ASKS_ROOT 4u
#define FM_VOLUMES_SAID_MAX 256		/* of one node */

/* What a node says of one shared volume (see fmove-nvmed(8)): its own word, for others to refuse
 * by. */
struct fm_volume_said {
	char name[65];
	char subsystem[224];		/* 1 byte and more */
	char wwid[160];			/* "": never seen there */
	char writer[65];		/* whom the configuration there names; "" */
	bool is_mounted;		/* or about to be */
	bool is_read_write;
	bool is_sealed;			/* by that node, its writer */
	/* the writer: of its last seal or unseal; others: the highest they have heard of; 0:
	 * none */
	uint64_t epoch;
	/* Of this node's own, and never told to a peer: */
	dev_t device;			/* at its mount point, for now; 0: nothing */
	uint64_t mounted_epoch;		/* ... of which seal that is; 0: of none */
	char written_by[65];		/* another node has it read-write; "": none */
};

/* What this node says of its own. read() must not block; *out is malloc()ed. -ENOENT: nobody
 * supervises volumes here. */
struct fm_volumes_here {
	int (*read)(void *ctx, struct fm_volume_said **out, unsigned *count, struct fm_err *err);
	void *ctx;
};

/* Where this node's own are read, for peers that ask; outlives the engine. Else nothing is said. */
void fm_volumes_set_here(struct fm_engine *engine, const struct fm_volumes_here *here);

struct fm_volumes_answer {
	const char *node;
	const struct fm_err *err;	/* why it does not answer; NULL: it does */
	const struct fm_volume_said *volumes;	/* valid during the call */
	unsigned count;
	bool is_more;			/* another answer of this node follows */
};

struct fm_volumes_events {
	void (*answer)(void *ctx, const struct fm_volumes_answer *answer);
	/* once, last: every peer was heard, or will not be; after 3 s at the latest */
	void (*done)(void *ctx);
};

/* Those that are not connected are not waited for. uid: who asks. -EBUSY: no place is left, or none
 * for that user. */
int fm_volumes_ask(struct fm_engine *engine, uid_t uid, const struct fm_volumes_events *events,
		   void *ctx, struct fm_err *err);

#endif
