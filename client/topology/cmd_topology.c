/* SPDX-License-Identifier: MIT */
/*
 * cmd_topology - fmove topology: which port reaches which, drawn.
 *
 * Facts of this node and of its peers (client/doctor/nodes.h) become a topology; that, or a saved
 * one, becomes a drawing, a graph, a document, or lines for NCCL.
 */
#include "client/cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/nodes.h"
#include "client/topology/topology.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"
#include "mover/facts/collect.h"

#define VERB "topology"

enum { OPT_JSON = 1, OPT_DOT, OPT_NCCL, OPT_FROM, OPT_CONFIG };

const struct fm_opt fm_opts_topology[] = {
	{"json", 0, OPT_JSON, NULL, "as one JSON object, fmove-topology(5)", NULL},
	{"dot", 0, OPT_DOT, NULL, "as a graph for dot(1)", NULL},
	{"nccl", 0, OPT_NCCL, NULL, "the environment that NCCL needs at this node, with reasons",
	 NULL},
	{"from", 0, OPT_FROM, "FILE", "draw what --json wrote, and ask nobody", "FILE"},
	{"config", 0, OPT_CONFIG, "FILE", "the daemon's configuration (" FM_COLLECT_CONFIG ")",
	 "FILE"},
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct wanted {
	int how; /* one of OPT_JSON, OPT_DOT, OPT_NCCL; 0: drawn */
	const char *from, *config;
};

/* *is_whole: the facts of all peers are in it. */
static int make(const struct wanted *w, struct fm_topology **out, bool *is_whole,
		struct fm_err *err)
{
	const struct fm_nodes_ask ask = {.config = w->config, .is_all = true};
	static struct fm_nodes nodes;
	int ret = fm_nodes_collect(&ask, &nodes, err);
	struct fm_topology *t = ret == 0 ? fm_topology_new() : NULL;

	if (ret == 0 && !t)
		ret = fm_err_set(err, -ENOMEM, "no memory for a topology");
	if (ret == 0) {
		fm_topology_make(&nodes.set, t);
		for (size_t i = 0; i < nodes.missing_count; i++)
			fm_topology_miss(t, nodes.missing[i].node, nodes.missing[i].why);
		*is_whole = nodes.missing_count == 0;
		*out = t;
	}
	fm_nodes_free(&nodes);
	return ret;
}

static int print(const struct wanted *w, const struct fm_topology *t, struct fm_err *err)
{
	char *text;
	int ret = 0;

	if (w->how == OPT_DOT)
		fm_topology_dot(t, stdout);
	else if (w->how == OPT_NCCL)
		fm_topology_nccl(t, stdout);
	else if (w->how == 0)
		fm_topology_draw(t, stdout);
	if (w->how != OPT_JSON)
		return 0;
	text = malloc(FM_TOPOLOGY_BYTES_MAX);
	ret = text ? fm_topology_write(t, text, FM_TOPOLOGY_BYTES_MAX) : -ENOMEM;
	if (ret >= 0)
		(void)puts(text); /* fm_stdout_end() looks for errors */
	free(text);
	return ret < 0 ? fm_err_sys(err, ret, "print the topology") : 0;
}

static int take_options(struct fm_args *args, struct wanted *w)
{
	int key;

	while ((key = fm_args_next(args)) > 0) {
		if (key == OPT_FROM)
			w->from = args->value;
		else if (key == OPT_CONFIG)
			w->config = args->value;
		else if (w->how != 0 && w->how != key)
			return fm_usage(args, "one of --json, --dot and --nccl");
		else
			w->how = key;
	}
	if (fm_args_end(args, 0, 0) < 0)
		return args->status;
	if (w->from && w->config)
		return fm_usage(args, "--from does not look at this node: no --config with it");
	return -1;
}

int fm_cmd_topology(int argc, char **argv)
{
	struct fm_topology *t = NULL;
	struct wanted w = {.how = 0};
	struct fm_err err = {.code = 0};
	struct fm_args args;
	bool is_whole = true;
	int status, ret;

	fm_args_begin(&args, VERB, argc, argv);
	ret = take_options(&args, &w);
	if (ret >= 0)
		return ret;
	ret = w.from ? fm_topology_load(w.from, &t, &err) : make(&w, &t, &is_whole, &err);
	if (ret == 0)
		ret = print(&w, t, &err);
	status = ret < 0 ? fm_fail(VERB, &err) : is_whole ? FM_EXIT_DONE : FM_EXIT_PARTLY;
	free(t);
	return fm_stdout_end(VERB, status);
}
