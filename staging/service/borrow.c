/* SPDX-License-Identifier: MIT */
/* borrow - see borrow.h. One node after the other, of it one chunk after the other. */
#include "staging/service/borrow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/ranges.h"
#include "mover/base/worker.h"
#include "staging/service/afar.h"
#include "staging/service/check_runs.h"
#include "staging/service/elsewhere.h"
#include "staging/service/lent.h"
#include "staging/service/mending_fetch.h"
#include "staging/service/mending_opts.h"
#include "staging/service/stager.h"

#define CHUNK_NS (120 * FM_NS_PER_S)	/* that a chunk of 4 MiB may take */

struct borrow {
	struct fm_mending_opts o;
	const struct fm_stager_opts *s;
	struct fm_afar_ask *hold;	/* on the node at hand; NULL: none */
	unsigned count, node;		/* that have it; the one at hand */
	char of[FM_ELSEWHERE_NODES_MAX][FM_CACHE_NODE_MAX + 1];
	unsigned at;			/* the chunk at hand */
	int from;			/* what came of it; -1: nothing */
	struct fm_range range;
	char path[FM_LENT_KEY_LEN + 1 + FM_PATH_LEN_MAX + 1];
	struct fm_work work;
	struct fm_mending_fetch fetch;
	struct fm_err err;		/* of the chunk at hand */
	struct fm_err first;		/* of the node at hand: the first of its chunks' */
	struct fm_err why;		/* what was tried */
	void (*done)(void *ctx, const struct fm_err *why);
	void *ctx;
};

static void next_node(struct borrow *b);
static void next_chunk(struct borrow *b);

static void submit(struct borrow *b, void (*run)(struct fm_work *w),
		   void (*done)(struct fm_work *w))
{
	b->work = (struct fm_work){ .run = run, .done = done,
				    .who = fm_share_user(b->o.who.uid) };
	fm_worker_submit(b->s->worker, &b->work, b->s->loop);
}

/* Adds a node to what was tried, and what became of it there. */
static void tried(struct borrow *b, const char *node, const char *what)
{
	size_t len = strlen(b->why.text);

	b->why.code = -ENODATA;
	(void)snprintf(b->why.text + len, sizeof(b->why.text) - len, "%s%s: %.200s",
		       len > 0 ? "; " : "", node, what);
}

static bool is_all_mended(const struct borrow *b)
{
	for (unsigned n = 0; n < b->o.count; n++)
		if (!b->o.chunks[n].is_mended)
			return false;
	return true;
}

static void end(struct borrow *b)
{
	if (is_all_mended(b))
		fm_err_clear(&b->why);
	fm_afar_put(b->hold);
	b->done(b->ctx, &b->why);
	free(b);
}

/* ---- a chunk ---- */

static const char *node_of(const struct borrow *b)
{
	return b->of[b->node];
}

static void write_run(struct fm_work *work)
{
	struct borrow *b = fm_container_of(work, struct borrow, work);
	struct fm_mending_chunk *c = &b->o.chunks[b->at];
	int ret = b->err.code;

	if (ret == 0) {
		ret = fm_stage_mend(b->o.root, c->path, b->from, 0, &c->bad);
		c->is_mended = ret == 0;
		if (ret == -EBADMSG)
			(void)fm_err_set(&b->err, ret, "%.200s is damaged there, too", c->path);
		else if (ret < 0)
			(void)fm_err_sys(&b->err, ret, "write %.200s again", c->path);
	}
	(void)close(b->from);	/* only read from here on */
	b->from = -1;
}

static void end_chunk(struct borrow *b)
{
	if (b->first.code == 0)
		b->first = b->err;
	b->at++;
	next_chunk(b);
}

static void written(struct fm_work *work)
{
	struct borrow *b = fm_container_of(work, struct borrow, work);
	struct fm_mending_chunk *c = &b->o.chunks[b->at];

	if (b->err.code == -EBADMSG)	/* also if another node mends it: that one should know */
		fm_log_warn("staging: %s sent other bytes of a chunk that is damaged here: %s",
			    node_of(b), b->err.text);
	if (c->is_mended)
		(void)snprintf(c->from, sizeof(c->from), "%s", node_of(b));
	end_chunk(b);
}

static void fetched(struct fm_mending_fetch *fetch, const struct fm_err *err)
{
	struct borrow *b = fm_container_of(fetch, struct borrow, fetch);

	b->err = *err;
	submit(b, write_run, written);
}

static void fetch(struct borrow *b)
{
	const struct fm_job_opts job = { .node = node_of(b), .store = FM_LENT_STORE,
					 .path = b->path, .path_len = strlen(b->path),
					 .ranges = &b->range, .range_count = 1,
					 .timeout_ns = CHUNK_NS };

	b->fetch = (struct fm_mending_fetch){ .to = b->from, .done = fetched };
	if (fm_mending_fetch_start(&b->fetch, &b->o, &job, &b->err) < 0)
		submit(b, write_run, written);
}

static void open_run(struct fm_work *work)
{
	struct borrow *b = fm_container_of(work, struct borrow, work);

	b->from = fm_mending_file(b->o.stager, b->range.len, &b->err);
}

static void opened(struct fm_work *work)
{
	struct borrow *b = fm_container_of(work, struct borrow, work);

	if (b->from >= 0)
		fetch(b);
	else
		end_chunk(b);
}

/* Whether the node may have other chunks, though one failed: its bytes, or its disk there. */
static bool may_go_on(const struct borrow *b)
{
	return b->err.code == 0 || b->err.code == -EBADMSG || b->err.code == -EIO;
}

static void next_chunk(struct borrow *b)
{
	const struct fm_mending_chunk *c;

	while (b->at < b->o.count && b->o.chunks[b->at].is_mended)
		b->at++;
	if (b->at == b->o.count || atomic_load(&b->o.run->is_stopped) || !may_go_on(b)) {
		if (b->first.code < 0)
			tried(b, node_of(b), b->first.text);
		b->node++;
		next_node(b);
		return;
	}
	fm_err_clear(&b->err);
	c = &b->o.chunks[b->at];
	b->range = (struct fm_range){ c->bad.offset, c->bad.len };
	fm_lent_key(&b->o.listing, b->path);
	if (!b->o.is_file)
		(void)snprintf(b->path + FM_LENT_KEY_LEN,
			       sizeof(b->path) - FM_LENT_KEY_LEN, "/%s", c->path);
	submit(b, open_run, opened);
}

/* ---- a node ---- */

static void held(void *ctx)
{
	struct borrow *b = ctx;
	const char *text;

	b->at = 0;
	fm_err_clear(&b->err);
	fm_err_clear(&b->first);
	if (fm_afar_look(b->hold, 0, &text) == 0) {
		next_chunk(b);
		return;
	}
	tried(b, node_of(b), text);
	b->node++;
	next_node(b);
}

static void next_node(struct borrow *b)
{
	const char *name = b->node < b->count ? node_of(b) : NULL;
	const struct fm_afar_wish wish = { .verb = FM_STAGE_HOLD, .uid = b->o.who.uid,
					   .key = &b->o.listing, .nodes = &name, .count = 1,
					   .job = b->o.job, .what = b->o.name };

	fm_afar_put(b->hold);
	b->hold = NULL;
	if (!name || is_all_mended(b) || atomic_load(&b->o.run->is_stopped)) {
		end(b);
		return;
	}
	if (fm_afar_ask(fm_stager_afar(b->o.stager), &wish, held, b, &b->hold, &b->err) == 0)
		return;
	tried(b, name, b->err.text);
	end(b);		/* this node has no memory, or stops: no other one would help */
}

/* ---- who has it ---- */

/* Why a node in that state, which is not "ready", is not asked for bytes. */
static const char *why_passed(const char *state)
{
	if (strcmp(state, "silent") == 0)
		return "is away, or says nothing";
	if (strcmp(state, "refused") == 0)
		return "does not stage with this node: staging.peers of its fmove.conf lacks it";
	return strcmp(state, "absent") == 0 ? "has no copy" : "has no whole copy";
}

static void answered(void *ctx, const struct fm_elsewhere_ask *ask)
{
	struct borrow *b = ctx;
	struct fm_elsewhere_node n;

	for (unsigned i = 0; i < fm_elsewhere_nodes(ask); i++) {
		fm_elsewhere_look(ask, i, 0, &n);
		if (strcmp(n.state, "ready") == 0)
			(void)snprintf(b->of[b->count++], sizeof(b->of[0]), "%s", n.name);
		else
			tried(b, n.name, why_passed(n.state));
	}
	if (fm_elsewhere_nodes(ask) == 0)
		(void)fm_err_set(&b->why, -ENODATA, "%s", "");	/* staging.peers names none */
	next_node(b);
}

int fm_borrow_start(const struct fm_mending_opts *opts,
		    void (*done)(void *ctx, const struct fm_err *why), void *ctx,
		    struct fm_err *err)
{
	struct borrow *b = FM_FAULT("mend.borrow") ? NULL : calloc(1, sizeof(*b));
	const struct fm_elsewhere_question q = {
		.who = fm_share_user(opts->who.uid), .nodes = "all", .keys = &opts->listing,
		.count = 1, .done = answered, .ctx = b,
	};
	struct fm_elsewhere_ask *ask;
	int ret;

	if (!b)
		return fm_err_set(err, -ENOMEM, "no memory to ask other nodes for it");
	b->o = *opts;
	b->s = fm_stager_config(opts->stager);
	b->from = -1;
	b->done = done;
	b->ctx = ctx;
	ret = fm_elsewhere_ask(fm_stager_elsewhere(opts->stager), &q, &ask, err);
	if (ret < 0)
		free(b);
	return ret;
}
