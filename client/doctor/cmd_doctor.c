/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor - fmove doctor: facts of this node and its peers, or saved ones, and what they mean.
 *
 * Facts come first, whole: from this machine and its peers, or from the files of --from. Then
 * checks look at all of them together. A daemon that does not answer is a fact that is unknown, no
 * failure; a peer that was asked for and does not answer is missing, which is said.
 */
#include "client/cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/check.h"
#include "mover/facts/collect.h"
#include "client/doctor/nodes.h"
#include "client/doctor/report.h"
#include "config/files.h"
#include "mover/base/err.h"

#define VERB "doctor"
#define SAVED_MODE 0600 /* it has addresses and paths */

enum { OPT_PEER = 1, OPT_ALL, OPT_SAVE, OPT_FROM, OPT_ANONYMOUS, OPT_JSON, OPT_CONFIG };

const struct fm_opt fm_opts_doctor[] = {
	{ "peer", 0, OPT_PEER, "NODE",
	  "look at this peer, too, as its daemon says; give it once for each", NULL },
	{ "all", 0, OPT_ALL, NULL, "look at all peers, too", NULL },
	{ "from", 0, OPT_FROM, "FILE",
	  "look at the facts that --save wrote, and not at this node; give it once for each node",
	  "FILE" },
	{ "save", 0, OPT_SAVE, "FILE",
	  "write the facts of this node to FILE; -: to standard output, and nothing else", "FILE" },
	{ "anonymous", 0, OPT_ANONYMOUS, NULL, "leave names and addresses out of what is saved",
	  NULL },
	{ "json", 0, OPT_JSON, NULL, "findings and ceilings as one JSON object on standard output",
	  NULL },
	{ "config", 0, OPT_CONFIG, "FILE", "the daemon's configuration (" FM_COLLECT_CONFIG ")",
	  "FILE" },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

struct wanted {
	const char *from[FM_FACTS_NODES_MAX];
	size_t from_count;
	const char *peers[FM_FACTS_NODES_MAX];
	size_t peer_count;
	const char *save, *config;
	bool is_all, is_anonymous, is_json;
};

/* ---- the facts ---- */

/* Those that were got are in the set, whatever it returns. */
static int get(const struct wanted *w, struct fm_nodes *nodes, struct fm_err *err)
{
	const struct fm_nodes_ask ask = { .config = w->config, .peers = w->peers,
					  .peer_count = w->peer_count, .is_all = w->is_all };
	struct fm_facts *facts;
	int ret = 0;

	if (w->from_count == 0)
		return fm_nodes_collect(&ask, nodes, err);
	for (size_t i = 0; ret == 0 && i < w->from_count; i++) {
		ret = fm_facts_load(w->from[i], &facts, err);
		if (ret == 0)
			nodes->set.at[nodes->set.count++] = facts;
	}
	return ret;
}

/* ---- what is done with them ---- */

static int save(const struct wanted *w, const struct fm_facts *facts, struct fm_err *err)
{
	const struct fm_file_write how = { .path = w->save,
					   .mode = SAVED_MODE,
					   .may_replace = true };
	char *text = malloc(FM_FACTS_BYTES_MAX);
	int ret = text ? fm_facts_write(facts, text, FM_FACTS_BYTES_MAX - 1) : -ENOMEM;

	if (ret < 0) {
		(void)fm_err_sys(err, ret, "write the facts");
	} else {
		text[ret] = '\n';
		text[ret + 1] = '\0';
		ret = 0;
		if (strcmp(w->save, "-") == 0)
			(void)fputs(text, stdout); /* fm_stdout_end() looks for errors */
		else
			ret = fm_file_write(&how, text, err);
	}
	free(text);
	return ret;
}

static int judge(const struct fm_findings *findings, const struct fm_nodes *nodes)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->at[i].severity != FM_NOTE)
			return FM_EXIT_FAILED;
	return nodes->missing_count > 0 ? FM_EXIT_PARTLY : FM_EXIT_DONE;
}

static int show(const struct wanted *w, const struct fm_nodes *nodes, int *status,
		struct fm_err *err)
{
	static struct fm_ceiling ceilings[FM_CEILINGS_MAX];
	struct fm_findings *findings = calloc(1, sizeof(*findings));
	struct fm_report report = { .set = &nodes->set, .nodes = nodes, .findings = findings,
				    .ceilings = ceilings };
	int ret = 0;

	if (!findings)
		return fm_err_set(err, -ENOMEM, "no memory for findings");
	fm_check_all(&nodes->set, findings);
	report.ceiling_count = fm_ceilings(&nodes->set, ceilings);
	report.exit = *status = judge(findings, nodes);
	if (w->is_json)
		ret = fm_report_print_json(&report);
	else
		fm_report_print(&report);
	free(findings);
	return ret < 0 ? fm_err_sys(err, ret, "print the report") : 0;
}

/* Shown first: what is left out of the file is not left out of what is looked at. */
static int run(const struct wanted *w, struct fm_nodes *nodes, int *status, struct fm_err *err)
{
	bool is_quiet = w->save && strcmp(w->save, "-") == 0;
	int ret = get(w, nodes, err);

	if (ret == 0 && !is_quiet)
		ret = show(w, nodes, status, err);
	if (ret < 0 || !w->save)
		return ret;
	if (w->is_anonymous)
		fm_facts_anonymize(
			/* ours, as get() made it */
			(struct fm_facts *)(uintptr_t)nodes->set.at[0]);
	return save(w, nodes->set.at[0], err);
}

static int take_options(struct fm_args *args, struct wanted *w)
{
	int key;

	while ((key = fm_args_next(args)) > 0) {
		switch (key) {
		case OPT_FROM:
			if (w->from_count == FM_FACTS_NODES_MAX)
				return fm_usage(args, "--from: at most %u files",
						FM_FACTS_NODES_MAX);
			w->from[w->from_count++] = args->value;
			break;
		case OPT_PEER:
			if (w->peer_count == FM_FACTS_NODES_MAX - 1)
				return fm_usage(args, "--peer: at most %u peers",
						FM_FACTS_NODES_MAX - 1);
			w->peers[w->peer_count++] = args->value;
			break;
		case OPT_ALL:
			w->is_all = true;
			break;
		case OPT_SAVE:
			w->save = args->value;
			break;
		case OPT_CONFIG:
			w->config = args->value;
			break;
		case OPT_ANONYMOUS:
			w->is_anonymous = true;
			break;
		case OPT_JSON:
			w->is_json = true;
			break;
		}
	}
	if (fm_args_end(args, 0, 0) < 0)
		return args->status;
	if (w->from_count > 0 && (w->save || w->config || w->peer_count > 0 || w->is_all))
		return fm_usage(args,
				"--from looks at no node: no --save, --config, --peer or --all "
				"with it");
	if (w->is_anonymous && !w->save)
		return fm_usage(args, "--anonymous is about what --save writes");
	return -1;
}

int fm_cmd_doctor(int argc, char **argv)
{
	static struct fm_nodes nodes;
	struct wanted w = { .save = NULL };
	int status = FM_EXIT_DONE, ret;
	struct fm_args args;
	struct fm_err err;

	fm_args_begin(&args, VERB, argc, argv);
	ret = take_options(&args, &w);
	if (ret >= 0)
		return ret;
	ret = run(&w, &nodes, &status, &err);
	fm_nodes_free(&nodes);
	if (ret < 0)
		status = fm_fail(VERB, &err);
	return fm_stdout_end(VERB, status);
}
