/* SPDX-License-Identifier: MIT */
/*
 * promise - the room that a tree which comes was promised: how much of it is not made yet, and how
 * that goes on.
 *
 * What a tree takes is what its source says, before it sends a byte, and saying it costs nothing.
 * So the whole must have room, but one peer or user is promised at most half of what is free for
 * him, with all of his trees; the rest is asked for as files are made. Others, files that come by
 * themselves too, may come in between and get what is not promised: the tree fails then when it
 * comes to that. A tree may also wait for ever for its far end: what was not used for long lapses
 * before others are refused, and is asked for again when the tree goes on.
 *
 * Any thread, fm_promise_init(), _ask() and _end() of one promise in one; _ask() and _take() wait
 * for the disk.
 */
#ifndef FM_STORE_PROMISE_H
#define FM_STORE_PROMISE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/store/store.h"

struct fm_err;
struct fm_store_dir;

#define FM_PROMISE_IDLE_NS UINT64_C(300000000000)

/* Those of a store. */
struct fm_promises {
	pthread_mutex_t lock;		/* of the list, and of what changes in each of them */
	struct fm_list all;
};

struct fm_promise {
	struct fm_list at;
	struct fm_store_dir *dir;	/* not held on to */
	int fd;				/* on the tree's file system; the tree's own */
	uint64_t held;			/* bytes promised, and not made */
	uint64_t rest;			/* bytes to come that are not promised */
	uint64_t moved_ns;		/* when the tree last went on */
	bool is_asking;			/* for more: one thread at a time */
	char peer[FM_NAME_LEN_MAX + 1];	/* whose tree it is; "": a local user's ... */
	uid_t uid;			/* ... this one's */
};

void fm_promises_init(struct fm_promises *all);
void fm_promises_free(struct fm_promises *all);		/* each has ended */

/* Nothing is promised yet to a tree of who. End it, before the store goes. */
void fm_promise_init(struct fm_promise *p, struct fm_store_dir *dir, const struct fm_who *who);
void fm_promise_end(struct fm_promise *p);

/*
 * So many bytes come at least, into the directory fd, which is open as long as anything is taken.
 * -ENOSPC, -EDQUOT with the numbers and what to do if they have no room.
 */
int fm_promise_ask(struct fm_promise *p, int fd, uint64_t bytes, struct fm_err *err);

/*
 * A file of so many bytes is made: they are used from now on. -ENOSPC, -EDQUOT: not so, since
 * others took the room meanwhile.
 */
int fm_promise_take(struct fm_promise *p, uint64_t bytes, struct fm_err *err);

/* The tree goes on, whether a file is made or not. */
void fm_promise_touch(struct fm_promise *p);

/* What was not used for FM_PROMISE_IDLE_NS is promised no more. How much that was. */
uint64_t fm_promises_lapse(struct fm_store_dir *dir);

#endif
