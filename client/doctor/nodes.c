/* SPDX-License-Identifier: MIT */
/* nodes - see nodes.h. */
#include "client/doctor/nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cmd.h"
#include "client/lib/fmove.h"
#include "mover/base/json.h"
#include "mover/facts/collect.h"
#include "mover/facts/given_up.h"

#define STATUS_MAX (4u << 20)
#define PEERS_MS   30000 /* their daemons give up before */

/* ---- this node ---- */

/* In another process. Its status behind a 1, or behind a 0 why there is none. */
static int ask(void *ctx, char *out, size_t cap)
{
	struct fmove_error why;
	struct fmove *c = NULL;
	char *text = NULL;
	int ret, len;

	(void)ctx;
	ret = fmove_connect(fm_socket_path(), &c, &why);
	if (ret == 0)
		ret = fmove_status(c, &text, &why);
	len = snprintf(out, cap, "%d%s", ret == 0, ret == 0 ? text : why.text);
	free(text);
	if (c)
		fmove_close(c);
	return len < 0 || (size_t)len >= cap ? -EMSGSIZE : len;
}

/* The daemon's status, or why there is none. */
static struct fm_json *ask_daemon(char why[static FM_ERR_TEXT_MAX])
{
	char *text = malloc(STATUS_MAX);
	int len = text ? fm_ask_or_give_up(ask, NULL, text, STATUS_MAX) : -ENOMEM;
	struct fm_json *status = NULL;
	struct fm_err err;

	if (len <= 0)
		(void)snprintf(why, FM_ERR_TEXT_MAX, "ask fmoved: %s", fm_err_name(len));
	else if (text[0] == '0')
		(void)snprintf(why, FM_ERR_TEXT_MAX, "%.*s", len - 1, text + 1);
	else if (fm_json_parse(text + 1, (size_t)len - 1, &status, &err) < 0)
		(void)snprintf(why, FM_ERR_TEXT_MAX, "%s", err.text);
	free(text);
	return status;
}

static int collect(const char *config, struct fm_nodes *out, struct fm_err *err)
{
	char why[FM_ERR_TEXT_MAX] = "";
	struct fm_json *status = ask_daemon(why);
	const struct fm_collect_options options = {
		.config = config, .status = status, .status_why = why};
	struct fm_facts *facts;
	int ret = fm_facts_collect(&options, &facts, err);

	if (status)
		fm_json_free(status);
	if (ret == 0)
		out->set.at[out->set.count++] = facts;
	return ret;
}

/* ---- the peers ---- */

struct asking {
	const struct fm_nodes_ask *ask;
	struct fm_nodes *out;
};

static void miss(struct fm_nodes *out, const char *node, const char *why)
{
	struct fm_nodes_missing *m = &out->missing[out->missing_count];

	if (out->missing_count == FM_NODES_MISSING_MAX)
		return;
	out->missing_count++;
	(void)snprintf(m->node, sizeof(m->node), "%s", node);
	(void)snprintf(m->why, sizeof(m->why), "%s", why);
}

static bool is_wanted(const struct fm_nodes_ask *ask, const char *node)
{
	for (size_t i = 0; i < ask->peer_count; i++)
		if (strcmp(ask->peers[i], node) == 0)
			return true;
	return ask->is_all;
}

static void take(void *ctx, const struct fmove_facts *said)
{
	struct asking *a = ctx;
	struct fm_nodes *out = a->out;
	struct fm_facts *facts;
	struct fm_err err = {0};

	if (!is_wanted(a->ask, said->node)) {
		return;
	} else if (!said->text) {
		miss(out, said->node, said->why);
	} else if (out->set.count == FM_FACTS_NODES_MAX) {
		miss(out, said->node, "more nodes than are looked at together");
	} else if (fm_facts_parse(said->text, said->len, &facts, &err) < 0) {
		(void)fm_err_wrap(&err, "what it says is no facts");
		miss(out, said->node, err.text);
	} else {
		fm_fact_text(&facts->node.name, FM_FACT_TEXT, said->node);
		out->set.at[out->set.count++] = facts;
	}
}

/* One that is not heard of at all is no peer, or the daemon gave up. */
static void miss_others(struct asking *a, const char *why)
{
	for (size_t i = 0; i < a->ask->peer_count; i++) {
		const char *peer = a->ask->peers[i];
		bool has = false;

		for (size_t n = 1; n < a->out->set.count; n++)
			has |= fm_fact_is(&a->out->set.at[n]->node.name, peer);
		for (size_t n = 0; n < a->out->missing_count; n++)
			has |= strcmp(a->out->missing[n].node, peer) == 0;
		if (!has)
			miss(a->out, peer, why);
	}
}

/* Each of those that are named is asked at once with all others; who has many is not asked for one.
 */
static void ask_peers(struct asking *a)
{
	bool is_one = !a->ask->is_all && a->ask->peer_count == 1;
	struct fmove_error why = {.text = "is no peer of this node"};
	struct fmove *c = NULL;
	int ret = fmove_connect(fm_socket_path(), &c, &why);

	if (ret == 0) {
		fmove_set_timeout(c, PEERS_MS);
		ret = fmove_facts(c, is_one ? a->ask->peers[0] : NULL, take, a, &why);
		fmove_close(c);
	}
	miss_others(a, ret < 0 ? why.text : "is no peer of this node");
	if (ret < 0 && a->ask->is_all)
		miss(a->out, "the peers", why.text);
}

static int by_name(const void *a, const void *b)
{
	const struct fm_facts *const *x = a, *const *y = b;

	return strcmp(fm_text_of(&(*x)->node.name), fm_text_of(&(*y)->node.name));
}

static int by_node(const void *a, const void *b)
{
	const struct fm_nodes_missing *x = a, *y = b;

	return strcmp(x->node, y->node);
}

/* They answer in any order; what is printed is the same each time. */
static void sort(struct fm_nodes *out)
{
	qsort(out->set.at + 1, out->set.count - 1, sizeof(out->set.at[0]), by_name);
	qsort(out->missing, out->missing_count, sizeof(out->missing[0]), by_node);
}

int fm_nodes_collect(const struct fm_nodes_ask *ask, struct fm_nodes *out, struct fm_err *err)
{
	struct asking a = {.ask = ask, .out = out};
	int ret = collect(ask->config, out, err);

	if (ret == 0 && (ask->is_all || ask->peer_count > 0))
		ask_peers(&a);
	if (ret == 0)
		sort(out);
	return ret;
}

void fm_nodes_free(struct fm_nodes *nodes)
{
	for (size_t i = 0; i < nodes->set.count; i++)
		fm_facts_free((struct fm_facts *)(uintptr_t)nodes->set.at[i]); /* ours, as made */
	*nodes = (struct fm_nodes){.missing_count = 0};
}
