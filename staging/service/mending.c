/* SPDX-License-Identifier: MIT */
/*
 * mending - see mending.h. What can be read here goes file by file, since one open file is enough
 * for all its chunks; what comes from another node, chunk by chunk, for which room is made.
 */
#include "staging/service/mending.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/ranges.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/store/access.h"
#include "staging/service/borrow.h"
#include "staging/service/check_runs.h"
#include "staging/service/hub.h"
#include "staging/service/mending_fetch.h"
#include "staging/service/mending_opts.h"
#include "staging/service/rights.h"
#include "staging/service/stager.h"

struct mending {
	struct fm_mending_opts o;
	const struct fm_stager_opts *s;
	struct fm_work work;
	struct fm_mending_fetch fetch;
	struct fm_store_ref *store;	/* of this node; NULL: another node's */
	char node[65], name[65];	/* of the store */
	char base[FM_CACHE_SOURCE_MAX + 1];
	char path[FM_CACHE_SOURCE_MAX + FM_PATH_LEN_MAX + 2];
	unsigned at;			/* the first chunk at hand */
	struct fm_range range;		/* of its file; another node's */
	int from;			/* that file as it should be, or that range; -1: none */
	bool has_source;		/* it is known, and its store is there if it is ours */
	bool is_refused;		/* this node, or who asks, may read it no more */
	struct fm_err err, why;		/* of what is at hand; the first of all */
	void (*done)(void *ctx, const struct fm_err *why);
	void *ctx;
};

static void next(struct mending *m);

static void submit_awaiting(struct mending *m, void (*run)(struct fm_work *w),
			    void (*done)(struct fm_work *w), const void *may_await)
{
	m->work = (struct fm_work){ .run = run, .done = done,
				    .may_await = may_await,
				    .who = fm_share_user(m->o.who.uid) };
	fm_worker_submit(m->s->worker, &m->work, m->s->loop);
}

/* All of it goes to the source, if that is a store of this node. */
static const void *may_await(const struct mending *m)
{
	return m->store ? fm_store_may_await(m->store->store) : NULL;
}

static void submit(struct mending *m, void (*run)(struct fm_work *w),
		   void (*done)(struct fm_work *w))
{
	submit_awaiting(m, run, done, may_await(m));
}

/* ---- what was at hand is done ---- */

static bool is_of_file(const struct mending *m, unsigned n)
{
	return n < m->o.count && strcmp(m->o.chunks[n].path, m->o.chunks[m->at].path) == 0;
}

static bool is_at_hand(const struct mending *m, unsigned n)
{
	return m->store ? is_of_file(m, n) : n == m->at;
}

/* Whether the source may have other chunks of the file, though it had not this one. */
static bool may_go_on(const struct mending *m)
{
	return m->err.code == 0 || m->err.code == -EBADMSG || m->err.code == -EIO ||
	       m->err.code == -EILSEQ ||
	       m->err.code == -EINVAL;	/* it ends before that one by now */
}

static void end_file(struct mending *m)
{
	unsigned n = m->at;

	if (m->err.code < 0 && m->why.code == 0)
		m->why = m->err;
	while (may_go_on(m) ? is_at_hand(m, n) : is_of_file(m, n))
		n++;
	m->at = n;
	next(m);
}

/* ---- its chunks are written ---- */

static void mend_run(struct fm_work *work)
{
	struct mending *m = fm_container_of(work, struct mending, work);

	for (unsigned n = m->at; is_at_hand(m, n) && !atomic_load(&m->o.run->is_stopped); n++) {
		struct fm_mending_chunk *c = &m->o.chunks[n];
		int ret = fm_stage_mend(m->o.root, c->path, m->from, m->store ? c->bad.offset : 0,
					&c->bad);

		c->is_mended = ret == 0;
		if (ret == 0)
			(void)snprintf(c->from, sizeof(c->from), "%s", m->node);
		if (ret == -EBADMSG)
			(void)fm_err_set(&m->err, ret, "%.300s has other bytes by now", m->path);
		else if (ret < 0)
			(void)fm_err_sys(&m->err, ret, "write %.300s again", c->path);
	}
	(void)close(m->from);	/* only read from here on */
	m->from = -1;
}

static void mended(struct fm_work *work)
{
	end_file(fm_container_of(work, struct mending, work));
}

/* ---- it is opened, or comes ---- */

static void open_here(struct mending *m)
{
	struct fm_store *s = m->store->store;

	m->from = s->ops->open_fd ? s->ops->open_fd(s, m->path, &m->o.who, &m->err)
				  : fm_err_set(&m->err, -EOPNOTSUPP, "store %s has no files",
					       s->name);
}

static void open_run(struct fm_work *work)
{
	struct mending *m = fm_container_of(work, struct mending, work);

	if (m->store)
		open_here(m);
	else
		m->from = fm_mending_file(m->o.stager, m->range.len, &m->err);
}

/*
 * What did not come was refused, by a rule or by what its file is; or it is just not there, or its
 * node does not talk with this one.
 */
static void note_refusal(struct mending *m)
{
	m->is_refused |= fm_stage_rights_is_refusal(&m->err) || m->err.code == -EPERM;
}

static void not_fetched(struct fm_work *work)
{
	(void)close(fm_container_of(work, struct mending, work)->from);
}

static void fetched(struct fm_mending_fetch *fetch, const struct fm_err *err)
{
	struct mending *m = fm_container_of(fetch, struct mending, fetch);

	m->err = *err;
	note_refusal(m);
	submit(m, err->code < 0 ? not_fetched : mend_run, mended);
}

static void fetch(struct mending *m)
{
	const struct fm_job_opts job = { .node = m->node, .store = m->name, .path = m->path,
					 .path_len = strlen(m->path),
					 .ranges = &m->range, .range_count = 1 };

	m->fetch = (struct fm_mending_fetch){ .to = m->from, .done = fetched };
	if (fm_mending_fetch_start(&m->fetch, &m->o, &job, &m->err) < 0)
		submit(m, not_fetched, mended);
}

static void opened(struct fm_work *work)
{
	struct mending *m = fm_container_of(work, struct mending, work);

	if (m->from < 0) {
		note_refusal(m);
		end_file(m);
	} else if (m->store) {
		submit(m, mend_run, mended);
	} else {
		fetch(m);
	}
}

/* ---- other nodes, for what the source has not ---- */

static void end(struct mending *m)
{
	if (m->store)
		fm_engine_store_put(m->store);
	m->done(m->ctx, &m->why);
	free(m);
}

/* What is not mended was tried at its source first: both reasons are told. */
static void borrowed(void *ctx, const struct fm_err *why)
{
	struct mending *m = ctx;
	char text[FM_ERR_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%s", m->why.text);
	if (why->code == 0)
		fm_err_clear(&m->why);
	else if (why->text[0])
		(void)fm_err_set(&m->why, m->why.code, "%.200s; %s", text, why->text);
	end(m);
}

/*
 * Refuses what no other node is asked for: what the source's rules let this node or user read no
 * more would come by a copy that they do not know of, and a CRC32C is not what a hub's names say.
 */
static int may_borrow(const struct mending *m, struct fm_err *err)
{
	if (m->is_refused)
		return fm_err_set(err, -EACCES,
				  "no other node is asked for what the source refuses");
	if (strncmp(m->o.source, FM_HUB_SOURCE, strlen(FM_HUB_SOURCE)) == 0)
		return fm_err_set(err, -EOPNOTSUPP, "no other node is asked for bytes of a hub");
	return 0;
}

static void borrow(struct mending *m)
{
	struct fm_err err;

	if (m->why.code == 0 || atomic_load(&m->o.run->is_stopped))
		end(m);
	else if (may_borrow(m, &err) < 0)
		borrowed(m, &err);
	else if (fm_borrow_start(&m->o, borrowed, m, &err) < 0)
		borrowed(m, &err);
}

/* ---- one after the other ---- */

static void next(struct mending *m)
{
	const struct fm_mending_chunk *c;

	if (m->at == m->o.count || !m->has_source || atomic_load(&m->o.run->is_stopped)) {
		borrow(m);
		return;
	}
	c = &m->o.chunks[m->at];
	m->range = (struct fm_range){ c->bad.offset, c->bad.len };
	(void)snprintf(m->path, sizeof(m->path), "%s%s%s", m->base,
		       m->o.is_file || !m->base[0] ? "" : "/", m->o.is_file ? "" : c->path);
	fm_err_clear(&m->err);
	m->from = -1;
	submit_awaiting(m, open_run, opened,
			may_await(m) || !m->store ? may_await(m)
						  : fm_access_may_await(m->store->store,
									&m->o.who));
}

/*
 * A store that several nodes have is read here, where it is as near as anywhere. This node may have
 * none any more, or another seal of a volume, which is another store.
 */
static int take_shared(struct mending *m, const char *id, struct fm_err *err)
{
	(void)snprintf(m->node, sizeof(m->node), "%s", m->s->node);
	m->store = fm_engine_store_shared(m->s->engine, id);
	return m->store ? 0
			: fm_err_set(err, -ENOENT,
				     "no store of this node is, or can be read as, shared \"%s\"",
				     id);
}

/* Of a hub the files are where they are in its store. */
static int take_source(struct mending *m, const char *source, struct fm_err *err)
{
	struct fm_stage_source_parts s;

	if (fm_stage_source_parse(source, &s) < 0)
		return fm_err_set(err, -EOPNOTSUPP, "%.300s is no source of a store", source);
	if (s.kind == FM_STAGE_OWN_HUB)
		return fm_err_set(err, -EOPNOTSUPP,
				  "it came from a user's own hub cache, which only he can read: "
				  "fmove unstage it, and stage it again as that user");
	(void)snprintf(m->base, sizeof(m->base), "%s", s.kind == FM_STAGE_HUB ? "" : s.path);
	if (s.kind == FM_STAGE_SHARED_STORE)
		return take_shared(m, s.store, err);
	(void)snprintf(m->node, sizeof(m->node), "%s", s.node);
	(void)snprintf(m->name, sizeof(m->name), "%s", s.store);
	if (strcmp(m->node, m->s->node) != 0)
		return 0;
	m->store = fm_engine_store_get(m->s->engine, m->name, strlen(m->name));
	return m->store ? 0
			: fm_err_set(err, -ENOENT, "there is no store \"%s\" any more", m->name);
}

int fm_mending_start(const struct fm_mending_opts *opts,
		     void (*done)(void *ctx, const struct fm_err *why), void *ctx,
		     struct fm_err *err)
{
	struct mending *m = FM_FAULT("mend.new") ? NULL : calloc(1, sizeof(*m));

	if (!m)
		return fm_err_set(err, -ENOMEM, "no memory to mend what is damaged");
	m->o = *opts;
	m->s = fm_stager_config(opts->stager);
	m->done = done;
	m->ctx = ctx;
	m->has_source = take_source(m, opts->source, &m->why) == 0;
	next(m);
	return 0;
}
