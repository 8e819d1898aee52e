/* SPDX-License-Identifier: MIT */
/*
 * fmoved - what the other nodes say of their volumes, asked of fmoved of this node over its local
 * API (fmove-api(7), "volumes"): it has authenticated connections to them, fmove-nvmed has none to
 * anybody. And the file where fmoved finds what this node says. Nothing here waits: an answer
 * comes, or the deadline does. Nobody waits for a file that somebody puts
 * beside an answer either, which ends it (packet_shut.h). Loop thread.
 */
#ifndef FM_NVMETCP_DAEMON_FMOVED_H
#define FM_NVMETCP_DAEMON_FMOVED_H

struct fm_err;
struct fm_fmoved;
struct fm_loop;
struct fm_peers;

struct fm_fmoved_opts {
	struct fm_loop *loop;
	const char *socket_path;	/* fmoved's */
	const char *nvmed_socket_path;	/* ours: the file is beside it */
	/* One for each fm_fmoved_ask(), never from inside; the peers are to be taken over, or
	 * cleared. */
	void (*answered)(void *ctx, struct fm_peers *peers);
	void *ctx;
};

/* Texts are copied. -ENOMEM, -ENAMETOOLONG. */
int fm_fmoved_new(const struct fm_fmoved_opts *opts, struct fm_fmoved **out, struct fm_err *err);

/* None must be under way. */
void fm_fmoved_ask(struct fm_fmoved *fmoved);

/* The whole file, at once. */
int fm_fmoved_publish(struct fm_fmoved *fmoved, const char *text, struct fm_err *err);

/* Asks no more; what is under way is over when the loop has come round, and answered no more. */
void fm_fmoved_stop(struct fm_fmoved *fmoved);

/* Stopped. NULL is allowed. */
void fm_fmoved_free(struct fm_fmoved *fmoved);

#endif
