/* SPDX-License-Identifier: MIT */
/*
 * turn - who is refused by fmoved since no place is free waits, and asks again.
 *
 * The one place that says how long: with pauses that grow, none of them as long as another's, so
 * that many who wait neither come all at once nor keep the daemon busy. There is no end to it but
 * the timeout of the request, or a signal. It is said once, after a second. One thread.
 */
#ifndef FM_CLIENT_TURN_H
#define FM_CLIENT_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct fmove;
struct fmove_error;

struct fm_turn {
	const char *verb;
	bool is_quiet;
	/* Says that it waits; NULL: on standard error. */
	void (*say)(void *ctx, const char *text);
	void *ctx;
	/*
	 * What is refused fails at once. For pipes: what is at the other end may be a command that
	 * waits for us, and has the place that we would wait for.
	 */
	bool is_off;
	/* turn's own: */
	uint64_t since_ns;
	uint64_t pause_ns;
	bool is_said;
};

void fm_turn_init(struct fm_turn *turn, const char *verb, bool is_quiet);

/*
 * fmove_connect(), waiting for up to 30 s where too many others wait to be accepted; what is
 * refused there later waits, too, and a signal that is caught ends requests (fmove_set_cancel()).
 * turn must outlive it; err is not NULL.
 */
int fm_turn_connect(struct fm_turn *turn, struct fmove **out, struct fmove_error *err);

/* Pause behind why, the refused-th refusal of one request (1: the first). False: no more of it.
 * ctx: a struct fm_turn. */
bool fm_turn_wait(void *ctx, const struct fmove_error *why, unsigned refused, uint64_t left_ms);

#endif
