/* SPDX-License-Identifier: MIT */
/* fmove/connect.h - the handle, its connections, and errors. See <fmove.h>. */
#ifndef FMOVE_CONNECT_H
#define FMOVE_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define FMOVE_PATH_MAX 4095
#define FMOVE_NAME_MAX 255
#define FMOVE_TEXT_MAX 512

struct fmove;

/* Stays as it is. The caller need not initialise it. */
struct fmove_error {
	int code;			/* negative errno */
	int exit;			/* the exit status that fmove(1) would end with */
	/* of a transfer: what has arrived stays, and the same transfer again goes on from there */
	bool is_kept;
	/* no place is free now, or too many are this user's: nothing was begun, and the same may be
	 * taken later */
	bool is_full;
	/* of a transfer: how far it got, with what was there before; no more than ever before: it
	 * did not get on */
	uint64_t bytes;
	char text[FMOVE_TEXT_MAX];	/* one line for people */
	/* what was asked about, if it is in a store; else "" */
	char node[FMOVE_NAME_MAX + 1];
	char store[FMOVE_NAME_MAX + 1];
	char path[FMOVE_PATH_MAX + 1];
};

/*
 * Each call has a connection to the daemon of its own while it lasts. FMOVE_CALLS_MAX run at the
 * same time, or as many as the daemon allows; more wait in a line, in which they can be cancelled
 * and time out. Calls that wait for each other, as puts that are held do, must not be more.
 *
 * A child that was forked may go on with the handle, over connections of its own. A call that its
 * parent began is its parent's: -ECONNRESET, should it come back in the child.
 */
#define FMOVE_CALLS_MAX 128

/*
 * socket_path NULL: the environment's FMOVE_SOCKET (unless the program has the rights of somebody
 * else: secure_getenv(3)), else /run/fmove/fmoved.sock. -EBUSY, with is_full: too many others wait
 * to be accepted there; it is not waited for.
 */
int fmove_connect(const char *socket_path, struct fmove **out, struct fmove_error *err);

/* No call is under way. What was started beside its caller is cancelled, waited for and freed. NULL
 * is allowed. */
void fmove_close(struct fmove *c);

/* Give the connections that no call uses back to the daemon, of whose connections a user has a
 * share; the next call connects again. */
void fmove_disconnect(struct fmove *c);

/* The following three are set before other threads use c. */

/*
 * For requests about stores (fmove_stat() to fmove_mkdir()): give up after this long; 0, the
 * default: what the daemon thinks fit.
 */
void fmove_set_timeout(struct fmove *c, uint64_t ms);

/*
 * Requests without a cancel_fd of their own (all but transfers, fmove_wait(), fmove_verify() and
 * fmove_stage()) end with -ECANCELED when fd becomes readable, and none is begun while it is. What
 * was asked may be done all the same. 0, the default, or less: nothing ends them.
 */
void fmove_set_cancel(struct fmove *c, int fd);

/*
 * What is refused with is_full when no other call of c is under way, whose end would be waited for,
 * is asked again as long as again() returns true; it is to wait before it does, and must not use c.
 * refused: how often this call was, 1 the first time; left_ms: what is left of its timeout
 * (UINT64_MAX: it has none), at the end of which the call is -ETIMEDOUT. The default, NULL: such a
 * call fails at once. What is called when a job is accepted may be called once more.
 */
void fmove_set_again(struct fmove *c,
		     bool (*again)(void *ctx, const struct fmove_error *why, unsigned refused,
				   uint64_t left_ms),
		     void *ctx);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
