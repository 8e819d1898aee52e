/* SPDX-License-Identifier: MIT */
/*
 * libfmove_tree - between two parts of libfmove: libfmove_transfer.c speaks with the daemon,
 * libfmove_tree.c has the directory.
 */
#ifndef FM_CLIENT_LIBFMOVE_TREE_H
#define FM_CLIENT_LIBFMOVE_TREE_H

#include "client/lib/fmove.h"

/* Of one request, which is asked again as long as no place is free. Zero-initialise. */
struct fm_lib_turns {
	unsigned refused;		/* how often */
	unsigned asked;			/* how often the caller was asked about it */
	int cancel_fd;			/* ends it; -1: none */
	bool is_over;			/* it was cancelled, or decided about: not asked again */
	uint64_t limit_ms;		/* its timeout; 0: none */
	/* since when its timeout counts, by fm_lib_now_ms(); 0: since it is asked first */
	uint64_t since_ms;
	unsigned forks;			/* fm_forks() then */
};

struct fm_lib_tree {
	bool is_put;
	const struct fmove_name *name;
	const struct fmove_options *opts;	/* NULL: none */
	const struct fmove_tree_options *tree;	/* the same */
	uint64_t dev;				/* put: of the root ... */
	uint64_t ino;
	uint64_t bytes;				/* that will come at least; 0: not known */
	bool is_look;				/* get: only to see whether it is refused */
	/* get: refused, since the whole of an update has no room */
	bool is_unmeasured;
	const int *fds;				/* to pass */
	unsigned fds_count;
	void (*passed)(void *ctx);		/* they were */
	void *ctx;
	struct fm_lib_turns turns;
	struct fm_tree *source;			/* put: while it is asked for */
	/* an earlier try may have published it, and its answer was lost */
	bool is_again;
	unsigned forks;				/* fm_forks() when the call began */
};

/* Milliseconds of a clock that goes on. */
uint64_t fm_lib_now_ms(void);

/* Ask for it once and wait for its end. err is filled after an error, its is_kept too. */
int fm_lib_tree_do(struct fmove *c, struct fm_lib_tree *t, struct fmove_result *result,
		   struct fmove_error *err);

/*
 * Whether what failed with *err is to be asked again, now: it was refused since no place is free,
 * and another call has ended, or the caller has waited. If not, *err may be another one now: its
 * time is up, or it was cancelled.
 */
bool fm_lib_asks_again(struct fmove *c, struct fm_lib_turns *t, struct fmove_error *err);

#endif
