/* SPDX-License-Identifier: MIT */
/*
 * own_ask - a request for a revision of a repository that is in the caller's own hub cache.
 *
 * He reads it himself, and serves it (served.h): one channel for the listing, one for the copy.
 * Happy path: what he passed is looked at in his holder; the rest is a request as any
 * (stage_ask.h), whose source has his number in it (hub.h), so nobody else is given its copy,
 * and no other node hears of it. Failure: of any of these, or he goes away: nothing is left. What
 * came by then is no part of his next request, who may serve anything else then (run.c).
 *
 * Control thread.
 */
#ifndef FM_STAGE_OWN_ASK_H
#define FM_STAGE_OWN_ASK_H

#include "staging/service/stage_ask.h"

struct fm_holder;
struct fm_own_ask;

#define FM_OWN_SOCKETS 3		/* of each channel */
#define FM_OWN_FDS     (2 * (1 + FM_OWN_SOCKETS))

struct fm_own_ask_opts {
	const char *job;		/* an id, as of struct fm_stage_request; not NULL */
	const char *path;		/* KIND--ORG--NAME@COMMIT */
	const char *revision;		/* by which he asked for it */
	const char *name;		/* of the dataset; "": KIND--ORG--NAME */
	struct fm_who who;
	pid_t pid;			/* who holds it; 0: nobody */
	bool is_pinned;
	/* FM_OWN_FDS, of the listing's channel and of the copy's; taken over: set to -1, unless an
	 * error is returned */
	int *fds;
	struct fm_holder *holder;	/* who has them; is referred to */
};

/*
 * done(ctx, ...) once, unless an error is returned; its path is that of the snapshot, and home what
 * HF_HOME is. -EBUSY, with is_full: this user, or all, have as many as there may be.
 */
int fm_own_ask(struct fm_stager *s, const struct fm_own_ask_opts *o,
	       void (*done)(void *ctx, const struct fm_stage_result *result, const char *home),
	       void *ctx, struct fm_own_ask **out, struct fm_err *err);

/* It ends, -ECANCELED: now, or as soon as our own disk answers. */
void fm_own_ask_cancel(struct fm_own_ask *o);

/* Who asked has gone away, and it ends. */
void fm_own_ask_forget(struct fm_own_ask *o);

void fm_own_ask_look(const struct fm_own_ask *o, struct fm_stage_progress *out);

#endif
