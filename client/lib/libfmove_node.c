/* SPDX-License-Identifier: MIT */
/* libfmove_node - the daemon itself, and what its peers say of themselves. See fmove.h. */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/exit_code.h"

/* ---- about the daemon ---- */

static int ping(struct fmove *c, const char *key, char *out, size_t cap, struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	fm_lib_begin(c, &req, "ping");
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	fm_lib_text(done, key, out, cap);
	fm_json_free(done);
	return 0;
}

int fmove_version(struct fmove *c, char *out, size_t cap, struct fmove_error *err)
{
	return ping(c, "version", out, cap, err);
}

int fmove_node(struct fmove *c, char *out, size_t cap, struct fmove_error *err)
{
	return ping(c, "node", out, cap, err);
}

int fmove_status(struct fmove *c, char **json, struct fmove_error *err)
{
	const struct fm_lib_parcel nothing = {.count = 0};
	struct fm_lib_waiting waiting = {.opts = NULL};
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	fm_lib_begin(c, &req, "status");
	ret = fm_lib_ask(&req, &nothing, &waiting, &done, err);
	if (ret == 0) {
		fm_json_free(done);
		*json = strdup(req.talk->rx); /* the text of the message that was waited for */
		ret = *json ? 0 : fm_lib_fail(err, -ENOMEM, "no memory for the status");
	}
	fm_lib_end(&req);
	return ret;
}

/* Reads a peer. What is missing is "", false or 0. */
static void peer_read(const struct fm_json *json, struct fmove_peer *p)
{
	*p = (struct fmove_peer){.struct_size = sizeof(*p)};
	fm_lib_text(json, "name", p->name, sizeof(p->name));
	fm_lib_text(json, "address", p->address, sizeof(p->address));
	fm_lib_text(json, "error", p->error, sizeof(p->error));
	(void)fm_json_bool(fm_json_get(json, "connected"), &p->is_connected);
	(void)fm_json_u64(fm_json_get(json, "since_ms"), &p->since_ms);
}

int fmove_nodes(struct fmove *c, bool (*each)(void *ctx, const struct fmove_peer *node), void *ctx,
		struct fmove_error *err)
{
	struct fmove_peer node = {
		.struct_size = sizeof(node), .is_self = true, .is_connected = true};
	const struct fm_json *peers;
	struct fm_lib_request req;
	struct fm_json *done;
	bool wants_more;
	int ret;

	fm_lib_begin(c, &req, "status");
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	fm_lib_text(done, "node", node.name, sizeof(node.name));
	(void)fm_json_u64(fm_json_get(done, "uptime_ms"), &node.since_ms);
	wants_more = each(ctx, &node);
	peers = fm_json_get(done, "peers");
	for (size_t i = 0; i < fm_json_count(peers) && wants_more; i++) {
		peer_read(fm_json_at(peers, i), &node);
		wants_more = each(ctx, &node);
	}
	fm_json_free(done);
	return 0;
}

/* ---- facts of peers ---- */

#define FACTS_BYTES_MAX (512u << 10) /* of one node, as nodes send them */
#define FACTS_NODES_MAX 256

/* One node's, as far as it came. */
struct told {
	char node[FMOVE_NAME_MAX + 1];
	char *text;
	size_t len;
};

struct telling {
	void (*each)(void *ctx, const struct fmove_facts *facts);
	void *ctx;
	struct told told[FACTS_NODES_MAX];
};

static void told_end(struct telling *t, struct told *n, int code, const char *why)
{
	const struct fmove_facts facts = {.struct_size = sizeof(facts),
					  .node = n->node,
					  .text = code == 0 ? n->text : NULL,
					  .len = n->len,
					  .code = code,
					  .why = why};

	t->each(t->ctx, &facts);
	free(n->text);
	*n = (struct told){.text = NULL};
}

/* The place that collects the facts of a node, or a free one. NULL: there is none left. */
static struct told *told_of(struct telling *t, const char *node)
{
	struct told *place = NULL;

	for (size_t i = 0; i < FACTS_NODES_MAX; i++) {
		if (strcmp(t->told[i].node, node) == 0)
			return &t->told[i];
		if (!t->told[i].node[0] && !place)
			place = &t->told[i];
	}
	if (place)
		(void)snprintf(place->node, sizeof(place->node), "%s", node);
	return place;
}

/*
 * Adds a piece to a node's facts. Negative: it does not fit or is no text; later pieces of that
 * node are ignored.
 */
static int told_piece(struct told *n, const struct fm_json *json)
{
	size_t len;
	int ret;

	if (!n->text)
		n->text = malloc(FACTS_BYTES_MAX + 1);
	if (!n->text)
		return -ENOMEM;
	ret = fm_json_name(fm_json_get(json, "piece"), n->text + n->len,
			   FACTS_BYTES_MAX + 1 - n->len, &len);
	if (ret == 0)
		n->len += len;
	return ret;
}

static void facts_between(void *ctx, const char *event, const struct fm_json *json)
{
	const char *node = "", *code = "", *text = "";
	struct telling *t = ctx;
	struct told *n;
	bool is_more = false;
	int ret;

	(void)fm_json_text(fm_json_get(json, "node"), &node); /* the defaults stay */
	(void)fm_json_text(fm_json_get(json, "code"), &code);
	(void)fm_json_text(fm_json_get(json, "text"), &text);
	(void)fm_json_bool(fm_json_get(json, "more"), &is_more);
	if (strcmp(event, "facts") != 0 || !*node || !(n = told_of(t, node)))
		return;
	if (*code) {
		told_end(t, n, fm_api_errno(code), text);
		return;
	}
	ret = told_piece(n, json);
	if (ret < 0)
		told_end(t, n, ret, fm_err_name(ret));
	else if (!is_more)
		told_end(t, n, 0, "");
}

int fmove_facts(struct fmove *c, const char *node,
		void (*each)(void *ctx, const struct fmove_facts *facts), void *ctx,
		struct fmove_error *err)
{
	struct telling *t = calloc(1, sizeof(*t));
	struct fm_lib_waiting waiting = {.between = facts_between, .ctx = t};
	static const struct fm_lib_parcel nothing;
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	if (!t)
		return fm_lib_fail(err, -ENOMEM, "no memory for facts");
	t->each = each;
	t->ctx = ctx;
	fm_lib_begin(c, &req, "facts");
	if (node)
		fm_jw_text(&req.json, "node", node);
	ret = fm_lib_run(&req, &nothing, &waiting, &done, err);
	if (ret == 0)
		fm_json_free(done);
	for (size_t i = 0; i < FACTS_NODES_MAX; i++)
		free(t->told[i].text);
	free(t);
	return ret;
}
