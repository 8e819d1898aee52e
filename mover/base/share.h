/* SPDX-License-Identifier: MIT */
/*
 * share - so many of something, and who has them: places in a table, threads, descriptors, bytes.
 *
 * One rule for all that users of this machine or peers can use up. Some of it is kept for root. Of
 * the rest each may have at most `times` times what is left free then, so that whoever comes next
 * finds something, however much the others want: with 1, the first gets a half, the next a half of
 * what is left, and so on; with 7, seven eighths. The first piece is everybody's who finds one
 * free.
 *
 * What is held is held by what uses it (a job, a request), not by the connection that asked for it,
 * and given back when that is freed: hanging up and coming back resets nothing.
 *
 * One thread at a time.
 */
#ifndef FM_BASE_SHARE_H
#define FM_BASE_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/list.h"

struct fm_err;

struct fm_share_limits {
	/* "places for transfers": with the verb "are", for whoever is refused */
	const char *what;
	uint64_t total;
	uint64_t root;			/* of these for root alone */
	/* that one may have, whatever is free; 0: no limit but the rule */
	uint64_t most;
	unsigned times;			/* 0: whoever comes first */
};

/* A user of this machine, or whoever has that name: a peer, an address. */
struct fm_share_id {
	const char *name;		/* NULL: a user */
	uid_t uid;
};

struct fm_share {
	struct fm_share_limits limits;
	uint64_t used;
	struct fm_list holders;		/* those who have something */
};

/* What something holds of a share. Zero-initialise. */
struct fm_share_held {
	struct fm_share *share;		/* NULL: nothing */
	struct fm_share_holder *by;
	uint64_t count;
};

static inline struct fm_share_id fm_share_user(uid_t uid)
{
	return (struct fm_share_id){ .uid = uid };
}

static inline struct fm_share_id fm_share_name(const char *name)
{
	return (struct fm_share_id){ .name = name };
}

void fm_share_init(struct fm_share *share, const struct fm_share_limits *limits);

/* What is held stays held, if it is more now. */
void fm_share_set_total(struct fm_share *share, uint64_t total);

bool fm_share_may(const struct fm_share *share, struct fm_share_id id, uint64_t count);

/* Whether this one could have so many if nobody had any. */
bool fm_share_could(const struct fm_share *share, struct fm_share_id id, uint64_t count);

/* Whether he may now: 0, or -EBUSY and the words for whoever asked; *err is_full unless it is more
 * than this one could ever have. */
int fm_share_check(const struct fm_share *share, struct fm_share_id id, uint64_t count,
		   struct fm_err *err);

/* The same, and takes it: *held has so much more. -ENOMEM. What holds something already holds it
 * for the same one. */
int fm_share_take(struct fm_share *share, struct fm_share_id id, uint64_t count,
		  struct fm_share_held *held, struct fm_err *err);

/* Without asking: for what is there already. Should there be no memory for that, it is not
 * counted. */
void fm_share_force(struct fm_share *share, struct fm_share_id id, uint64_t count,
		    struct fm_share_held *held);

void fm_share_give(struct fm_share_held *held, uint64_t count);

/* All of it. */
void fm_share_give_all(struct fm_share_held *held);

/* How much one has. */
uint64_t fm_share_of(const struct fm_share *share, struct fm_share_id id);

#endif
