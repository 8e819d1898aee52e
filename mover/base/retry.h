/* SPDX-License-Identifier: MIT */
/*
 * retry - what failed for a reason that may pass is tried again, until it has not got on for long
 * enough.
 *
 * The one place that says how long the pauses are and when that ends; which reasons those are:
 * exit_code.h. It does not wait and does not try: whoever does says when. Time is the caller's.
 */
#ifndef FM_BASE_RETRY_H
#define FM_BASE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;
struct fm_random;

#define FM_RETRY_ALWAYS UINT64_MAX
#define FM_RETRY_PAUSE_MIN_NS UINT64_C(1000000000)	/* before the second try; doubles ... */
/* ... up to this, each time more or less by a quarter */
#define FM_RETRY_PAUSE_MAX_NS UINT64_C(60000000000)

/* Zero-initialise: it has not failed. */
struct fm_retry {
	uint64_t since_ns;		/* it does not get on */
	unsigned tries;			/* begun since then; 0: it has not failed */
	uint64_t pause_ns;		/* the last one, less what chance made of it */
	uint64_t reached;		/* by the try that got furthest, ever */
};

/*
 * A try that was begun at begun_ns has failed at now_ns, when it had reached so much of what there
 * is to do: what it found done counts, too. Who gets further than any try before, however slowly,
 * starts to count anew. Who does the same again and again does not. Who never got anywhere counts
 * from when it was first tried.
 */
void fm_retry_failed(struct fm_retry *r, uint64_t begun_ns, uint64_t now_ns, uint64_t reached);

/*
 * Whether it is tried again, *pause_ns from now: the last time when for_ns without progress are
 * over, not before. However short for_ns is, the first pause is a whole one: who gets on a little
 * each time is tried once a second at most.
 */
bool fm_retry_next(struct fm_retry *r, uint64_t for_ns, uint64_t now_ns,
		   const struct fm_random *random, uint64_t *pause_ns);

/* It is not: err says so before what it says of the last try. */
void fm_retry_give_up(const struct fm_retry *r, uint64_t now_ns, struct fm_err *err);

#endif
