/* SPDX-License-Identifier: MIT */
/*
 * hub_ask - a request for a revision of a repository of Hugging Face.
 *
 * Happy path: find it in a hub cache of any node (hub_find.h); have that commit staged as any
 * source is (stage_ask.h), also on several nodes, each of which shows it in its hub (hub.h).
 * Failure: of any of these, it ends.
 * Control thread.
 */
#ifndef FM_STAGE_HUB_ASK_H
#define FM_STAGE_HUB_ASK_H

#include "staging/service/stage_ask.h"

struct fm_hub_ask;

struct fm_hub_ask_opts {
	const char *job;		/* an id, as of struct fm_stage_request; not NULL */
	const char *path;		/* KIND--ORG--NAME@REVISION */
	const char *name;		/* of the dataset; "": KIND--ORG--NAME */
	struct fm_who who;
	pid_t pid;			/* who holds it; 0: nobody */
	bool is_pinned;
	enum fm_stage_freshness check;	/* not FM_STAGE_UNASKED */
	bool is_live;			/* these as of struct fm_stage_request */
	const char *nodes;
};

/*
 * done(ctx, ...) once, unless an error is returned; its path is that of the snapshot, and home what
 * HF_HOME is.
 */
int fm_hub_ask(struct fm_stager *s, const struct fm_hub_ask_opts *o,
	       void (*done)(void *ctx, const struct fm_stage_result *result, const char *home),
	       void *ctx, struct fm_hub_ask **out, struct fm_err *err);

/* Who asked has gone away. */
void fm_hub_ask_forget(struct fm_hub_ask *h);

void fm_hub_ask_look(const struct fm_hub_ask *h, struct fm_stage_progress *out);

#endif
