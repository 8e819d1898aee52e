/* SPDX-License-Identifier: MIT */
/*
 * slab - the node's one memory arena, cut into slabs that data connections lease.
 *
 * At most half the slabs send and half receive, so that two nodes that fill each other cannot both
 * wait for the other's memory. Of the slabs of a use each session that has or wants one has an
 * equal share. It may have more as long as nobody wants for his; then it gives back what is above
 * its share. Where there are more sessions than slabs, these go round. Any thread.
 *
 * A slab keeps the bytes of whoever had it last. Who lends it to a peer of which nobody can tell
 * how much it writes there (RDMA) clears it first, else the peer's chunks could be those bytes.
 */
#ifndef FM_SLAB_H
#define FM_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/list.h"

struct fm_slabs;
struct fm_err;

enum fm_slab_use { FM_SLAB_TX, FM_SLAB_RX };

/*
 * The slabs of one use that a session has. It begins with fm_slab_user_init(); from then on only
 * the pool writes to it.
 */
struct fm_slab_user {
	uint64_t id;	/* from its first slab on, nobody else's ever; 0: none yet */
	unsigned held;
	uint64_t held_ns;		/* since it has any */
	unsigned giving;		/* of these, on their way back ... */
	uint64_t asked_ns;		/* ... since the last of them was asked for */
	bool wants;			/* the last try to have one failed */
	struct fm_list want_at;		/* then; who has waited longest first */
	uint64_t want_ns;		/* since then, and since it has none ... */
	uint64_t tried_ns;		/* ... the last try */
};

#define FM_SLABS_MAX (1u << 20)

/* memory must outlive it, and holds zeros, or nothing secret. -EINVAL if it is not room for two
 * slabs, or for more than FM_SLABS_MAX. */
int fm_slabs_new(void *memory, size_t len, uint32_t slab_bytes, struct fm_slabs **out,
		 struct fm_err *err);

/* Every slab is back. NULL is allowed. */
void fm_slabs_free(struct fm_slabs *slabs);

void fm_slab_user_init(struct fm_slab_user *u);

/* A slab's number, one that it had last if there is such a one, or -EAGAIN: none is free for that
 * use, or what is free is for somebody with less than his share, or who has waited longer. */
int fm_slabs_take(struct fm_slabs *slabs, enum fm_slab_use use, struct fm_slab_user *u,
		  uint64_t now_ns);

/* Zeroes a slab that u took, if bytes of somebody else, or of the same session for the other use,
 * may be in it: also those that were there when u had it last, and did not clear it. */
void fm_slabs_clear(struct fm_slabs *slabs, const struct fm_slab_user *u, int slab);

/* is_giving: as fm_slabs_ask_back() left it for that slab. */
void fm_slabs_put(struct fm_slabs *slabs, enum fm_slab_use use, struct fm_slab_user *u, int slab,
		  bool is_giving);

/* How many may be taken for that use now. */
unsigned fm_slabs_left(struct fm_slabs *slabs, enum fm_slab_use use);

/* It wants none any more. */
void fm_slabs_unwant(struct fm_slabs *slabs, enum fm_slab_use use, struct fm_slab_user *u);

/* Whether somebody wants for his share of them. */
bool fm_slabs_is_wanted(struct fm_slabs *slabs, enum fm_slab_use use);

/*
 * Whether one of its slabs should go back for somebody else's sake. *is_giving says so of that
 * slab, and is false at first; what was said before may be taken back, as long as nobody was told.
 * No more are asked for than are above its share, or, where there are too few for all, than have
 * waited for their turn; but for those that do not come: what is under way in them may stand still.
 */
bool fm_slabs_ask_back(struct fm_slabs *slabs, enum fm_slab_use use, struct fm_slab_user *u,
		       bool *is_giving, uint64_t now_ns);

void *fm_slabs_at(const struct fm_slabs *slabs, int slab);
uint32_t fm_slabs_bytes(const struct fm_slabs *slabs);
unsigned fm_slabs_count(const struct fm_slabs *slabs);
unsigned fm_slabs_free_count(struct fm_slabs *slabs);

#endif
