/* SPDX-License-Identifier: MIT */
/*
 * usage - how many bytes a store holds against its quota.
 *
 * What counts is what each name of a regular file says its size is (so holes too, and links not),
 * partial files that nobody works on among them: what a file may grow to without anybody being
 * asked again, however little of it the disk holds now. Counted by a walk when the store is opened,
 * kept up by what goes through the store, and counted again before anything is refused, since files
 * may have been removed behind its back. What is promised counts from then on: files under way hold
 * reservations, those of trees count when they are made. Any thread, no lock; fm_usage_count()
 * blocks.
 */
#ifndef FM_STORE_USAGE_H
#define FM_STORE_USAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fm_err;

/* names that are counted; a store with more cannot have a quota */
#define FM_USAGE_ENTRIES_MAX 10000000

struct fm_usage {
	const char *store;		/* its name, for the log */
	uint64_t quota;			/* 0: none, and nothing is counted */
	_Atomic uint64_t used;
	/* counted without a quota, too: people ask what is promised */
	_Atomic uint64_t reserved;
	/* of `reserved`, promised to trees: nothing is set aside for it on the disk */
	_Atomic uint64_t trees;
	_Atomic uint64_t added;		/* ever */
	_Atomic uint64_t counted_ns;	/* or tried to */
	_Atomic unsigned passed_over;	/* directories, by the last count */
};

/*
 * Count what is below the directory root. Without a quota: nothing. A directory that cannot be
 * read, or is nested too deep, is passed over: any user who writes to the store can make one. The
 * log says so when there are more or fewer than before. Where one is nested too deep, or was not
 * found again by the walk (walk.h), the count lowers nothing: what was put there before still
 * counts. -E2BIG: too many names.
 */
int fm_usage_count(struct fm_usage *usage, int root, struct fm_err *err);

/* -EDQUOT if there is no room for bytes more. Data path: at once. */
int fm_usage_reserve(struct fm_usage *usage, uint64_t bytes);
void fm_usage_unreserve(struct fm_usage *usage, uint64_t bytes);

/*
 * As fm_usage_reserve(), but counts again before it refuses (at most once in ten seconds), and says
 * the numbers; where that cannot be counted it says why, and the numbers it had. -ENOMEM, -EMFILE,
 * -ENFILE: it could not be counted for now, so nothing is known; the next one counts.
 */
int fm_usage_ask(struct fm_usage *usage, int root, uint64_t bytes, struct fm_err *err);

/* The same, and nothing is reserved. */
int fm_usage_check(struct fm_usage *usage, int root, uint64_t bytes, struct fm_err *err);

/* The same, and they are used then. */
int fm_usage_take(struct fm_usage *usage, int root, uint64_t bytes, struct fm_err *err);

/*
 * A tree is promised room before it comes: the promise is part of what is reserved.
 * fm_usage_keep_promise(): so much of it is used now; fm_usage_break_promise(): will not be.
 */
void fm_usage_promise(struct fm_usage *usage, uint64_t bytes);	/* behind fm_usage_reserve() */
void fm_usage_keep_promise(struct fm_usage *usage, uint64_t bytes);
void fm_usage_break_promise(struct fm_usage *usage, uint64_t bytes);

/* Files came or went. */
void fm_usage_add(struct fm_usage *usage, uint64_t bytes);
void fm_usage_sub(struct fm_usage *usage, uint64_t bytes);

#endif
