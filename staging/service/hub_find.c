/* SPDX-License-Identifier: MIT */
/* hub_find - see hub_find.h. */
#include "staging/service/hub_find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/node/node.h"
#include "mover/services/request.h"

#define ANSWER_NS (10 * FM_NS_PER_S)	/* a node that says nothing for so long is passed over */

struct find {
	struct fm_engine *engine;
	char path[FM_HUB_DIR_MAX + FM_HUB_REVISION_MAX + 2];
	char revision[FM_HUB_REVISION_MAX + 1];
	struct fm_who who;
	unsigned probes;		/* that are under way */
	char from[2 * FM_WIRE_NAME_MAX + 2];	/* is asked before other nodes; "": none, or was */
	bool has_asked_own, has_asked_peers;
	bool is_over;			/* done() was called */
	int away;			/* why a node could not be asked; 0: none */
	char asked[FM_ERR_TEXT_MAX], wrong[FM_ERR_TEXT_MAX];
	struct fm_hub_found found;
	void (*done)(void *ctx, const struct fm_hub_found *found);
	void *ctx;
};

/* The search through the stores of one node, one store at a time. */
struct probe {
	struct find *f;
	char node[FM_WIRE_NAME_MAX + 1];
	char store[FM_WIRE_NAME_MAX + 1];	/* that is looked at; "": none yet */
	bool is_first;				/* only that store is */
	unsigned stores;			/* that it has named so far */
};

static int ask_store(struct probe *p, struct fm_err *err);

/* ---- the end ---- */

static void append(char *text, const char *divider, const char *what)
{
	size_t len = strlen(text);

	(void)snprintf(text + len, FM_ERR_TEXT_MAX - len, "%s%s", len ? divider : "", what);
}

static void tell(struct find *f)
{
	f->is_over = true;
	f->done(f->ctx, &f->found);
}

static void tell_none(struct find *f)
{
	char asked[FM_ERR_TEXT_MAX / 2];

	(void)snprintf(asked, sizeof(asked), "%.200s",
		       f->asked[0] ? f->asked : "no store at all");
	if (f->wrong[0])
		(void)fm_err_set(&f->found.err, f->away ? f->away : -ENOENT,
				 "%s: %.240s; asked: %s", f->path, f->wrong, asked);
	else
		(void)fm_err_set(&f->found.err, -ENOENT,
				 "no hub cache of any node has %s; asked: %s; a store with "
				 "layout = \"hf\" in fmove.conf is one",
				 f->path, asked);
	tell(f);
}

static int start_probe(struct find *f, const char *node, struct fm_err *err);
static int start_first(struct find *f, const char *from, struct fm_err *err);

static void ask_peers(struct find *f)
{
	struct fm_err err;

	f->has_asked_peers = true;
	f->probes++;		/* ours, so that none of them is the last one meanwhile */
	fm_list_each (at, next, &f->engine->peers) {
		const struct fm_peer *peer = fm_container_of(at, struct fm_peer, at);

		if (start_probe(f, peer->name, &err) < 0)
			append(f->wrong, "; ", err.text);
	}
	f->probes--;
}

static bool is_own(const struct find *f, const char *from)
{
	size_t len = strlen(f->engine->name);

	return strncmp(from, f->engine->name, len) == 0 && from[len] == ':';
}

/* Asks whoever is next: a store of this node that it is from, its others, that of another node. */
static int go_on(struct find *f, struct fm_err *err)
{
	char from[sizeof(f->from)];

	if (f->from[0] && (f->has_asked_own || is_own(f, f->from))) {
		memcpy(from, f->from, sizeof(from));
		f->from[0] = '\0';
		/* one that cannot be asked first is asked as any other */
		if (start_first(f, from, err) == 0)
			return 0;
	}
	if (!f->has_asked_own) {
		f->has_asked_own = true;
		return start_probe(f, f->engine->name, err);
	}
	if (!f->has_asked_peers)
		ask_peers(f);
	return 0;
}

static void end_probe(struct probe *p)
{
	struct find *f = p->f;

	free(p);
	f->probes--;
	if (f->probes == 0 && !f->is_over && go_on(f, &f->found.err) < 0)
		tell(f);
	if (f->probes > 0)
		return;
	if (!f->is_over)
		tell_none(f);
	free(f);
}

/*
 * Notes an error of a node or store that does not have the repository. One that cannot be asked may
 * have it.
 */
static void note(struct probe *p, const struct fm_err *why)
{
	size_t len = strlen(p->node);
	char text[FM_ERR_TEXT_MAX];

	if (!p->f->away && fm_api_exit(why->code) == FM_EXIT_UNREACHABLE)
		p->f->away = why->code;
	/* what a peer answered begins with its name by itself */
	if (strncmp(why->text, p->node, len) == 0 && why->text[len] == ':')
		(void)snprintf(text, sizeof(text), "%.300s", why->text);
	else
		(void)snprintf(text, sizeof(text), "%.64s: %.300s", p->node, why->text);
	append(p->f->wrong, "; ", text);
}

static void give_up(struct probe *p, const struct fm_err *why)
{
	note(p, why);
	end_probe(p);
}

/* ---- one store ---- */

/* A node that says of a commit that it is another one lies. */
static bool is_answer(const struct find *f, const char *commit)
{
	return fm_hub_is_commit(commit) && fm_hub_can_be(f->revision, commit);
}

static void listed(void *ctx, const struct fm_request_result *r)
{
	struct probe *p = ctx;
	struct find *f = p->f;
	struct fm_err err;

	if (f->is_over) {
		end_probe(p);
		return;
	}
	if (r->code == 0 && r->count == 1 && is_answer(f, r->entries[0].name)) {
		(void)snprintf(f->found.node, sizeof(f->found.node), "%s", p->node);
		(void)snprintf(f->found.store, sizeof(f->found.store), "%s", p->store);
		memcpy(f->found.commit, r->entries[0].name, sizeof(f->found.commit));
		tell(f);
		end_probe(p);
		return;
	}
	if (p->is_first) {
		end_probe(p);
		return;
	}
	if (r->code < 0 && r->code != -ENOENT && r->code != -ENOTDIR)
		note(p, &r->err);
	if (ask_store(p, &err) < 0)
		give_up(p, &err);
}

static int ask(struct probe *p, enum fm_verb verb,
	       void (*done)(void *ctx, const struct fm_request_result *r), struct fm_err *err)
{
	const bool is_list = verb == FM_VERB_LIST;
	const struct fm_request_opts o = {
		.verb = verb,
		.node = p->node,
		.store = is_list ? p->store : "",
		.path = is_list ? p->f->path : "",
		.path_len = is_list ? strlen(p->f->path) : 0,
		.after = is_list ? "" : p->store,
		.who = p->f->who,
		.timeout_ns = ANSWER_NS,
	};

	return fm_request_start(p->f->engine, &o, done, p, err);
}

/* ---- which store is next ---- */

static void named(void *ctx, const struct fm_request_result *r)
{
	struct probe *p = ctx;
	char text[2 * FM_WIRE_NAME_MAX + 2];
	struct fm_err err;

	if (r->code < 0 && !p->f->is_over)
		note(p, &r->err);
	/* Names come in order, and no node has more: a peer that says otherwise would be asked for
	 * ever. */
	if (r->code < 0 || !r->store || strcmp(r->store, p->store) <= 0 ||
	    p->stores++ == FM_STORES_MAX || p->f->is_over) {
		end_probe(p);
		return;
	}
	(void)snprintf(p->store, sizeof(p->store), "%s", r->store);
	if (!r->page->space.may_read) {
		if (ask_store(p, &err) < 0)
			give_up(p, &err);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s:%s", p->node, p->store);
	append(p->f->asked, ", ", text);
	if (ask(p, FM_VERB_LIST, listed, &err) < 0)
		give_up(p, &err);
}

static int ask_store(struct probe *p, struct fm_err *err)
{
	return ask(p, FM_VERB_FREE, named, err);
}

static int start_probe(struct find *f, const char *node, struct fm_err *err)
{
	struct probe *p = FM_FAULT("hub.probe") ? NULL : calloc(1, sizeof(*p));

	int ret;

	if (!p)
		return fm_err_sys(err, -ENOMEM, "ask %s", node);
	p->f = f;
	(void)snprintf(p->node, sizeof(p->node), "%s", node);
	ret = ask_store(p, err);
	if (ret < 0)
		free(p);
	else
		f->probes++;
	return ret;
}

/* Asks one store, NODE:STORE. */
static int start_first(struct find *f, const char *from, struct fm_err *err)
{
	const char *colon = strchr(from, ':');
	struct probe *p = colon && !FM_FAULT("hub.probe") ? calloc(1, sizeof(*p)) : NULL;
	int ret;

	if (!p)
		return -ENOMEM;
	p->f = f;
	p->is_first = true;
	(void)snprintf(p->node, sizeof(p->node), "%.*s", (int)(colon - from), from);
	(void)snprintf(p->store, sizeof(p->store), "%s", colon + 1);
	ret = ask(p, FM_VERB_LIST, listed, err);
	if (ret < 0)
		free(p);
	else
		f->probes++;
	return ret;
}

int fm_hub_find(struct fm_engine *engine, const struct fm_hub_name *name, const struct fm_who *who,
		const char *from,
		void (*done)(void *ctx, const struct fm_hub_found *found), void *ctx,
		struct fm_err *err)
{
	struct find *f = FM_FAULT("hub.find") ? NULL : calloc(1, sizeof(*f));
	int ret;

	if (!f)
		return fm_err_sys(err, -ENOMEM, "look for %s", name->dir);
	f->engine = engine;
	f->who = *who;
	f->done = done;
	f->ctx = ctx;
	(void)snprintf(f->revision, sizeof(f->revision), "%s", name->revision);
	(void)snprintf(f->path, sizeof(f->path), "%s@%s", name->dir, name->revision);
	(void)snprintf(f->from, sizeof(f->from), "%s", from);
	ret = go_on(f, err);
	if (ret < 0)
		free(f);
	return ret;
}
