/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor - fmove doctor: facts of this node, or saved ones of several, and what they mean.
 *
 * Facts come first, whole: from this machine or from the files of --from. Then checks look at all
 * of them together. A daemon that does not answer is a fact that is unknown, no failure.
 */
#include "client/cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/check.h"
#include "mover/facts/collect.h"
#include "mover/facts/given_up.h"
#include "client/doctor/report.h"
#include "client/lib/fmove.h"
#include "config/files.h"
#include "mover/base/json.h"
#include "mover/base/err.h"

#define VERB "doctor"
#define STATUS_MAX (4u << 20)
#define SAVED_MODE 0600 /* it has addresses and paths */

enum { OPT_SAVE = 1, OPT_FROM, OPT_ANONYMOUS, OPT_JSON, OPT_CONFIG };

const struct fm_opt fm_opts_doctor[] = {
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
	const char *save, *config;
	bool is_anonymous, is_json;
};

/* ---- the facts ---- */

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

static int collect(const struct wanted *w, struct fm_facts **out, struct fm_err *err)
{
	char why[FM_ERR_TEXT_MAX];
	struct fm_json *status = ask_daemon(why);
	const struct fm_collect_options options = { .config = w->config,
						    .status = status,
						    .status_why = why };
	int ret = fm_facts_collect(&options, out, err);

	if (status)
		fm_json_free(status);
	return ret;
}

/* Those that were got are in the set, whatever it returns. */
static int get(const struct wanted *w, struct fm_facts_set *set, struct fm_err *err)
{
	struct fm_facts *facts;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < (w->from_count ? w->from_count : 1); i++) {
		ret = w->from_count ? fm_facts_load(w->from[i], &facts, err)
				    : collect(w, &facts, err);
		if (ret == 0)
			set->at[set->count++] = facts;
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

static int judge(const struct fm_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->at[i].severity != FM_NOTE)
			return FM_EXIT_FAILED;
	return FM_EXIT_DONE;
}

static int show(const struct wanted *w, const struct fm_facts_set *set, int *status,
		struct fm_err *err)
{
	static struct fm_ceiling ceilings[FM_CEILINGS_MAX];
	struct fm_findings *findings = calloc(1, sizeof(*findings));
	struct fm_report report = { .set = set, .findings = findings, .ceilings = ceilings };
	int ret = 0;

	if (!findings)
		return fm_err_set(err, -ENOMEM, "no memory for findings");
	fm_check_all(set, findings);
	report.ceiling_count = fm_ceilings(set, ceilings);
	report.exit = *status = judge(findings);
	if (w->is_json)
		ret = fm_report_print_json(&report);
	else
		fm_report_print(&report);
	free(findings);
	return ret < 0 ? fm_err_sys(err, ret, "print the report") : 0;
}

/* Shown first: what is left out of the file is not left out of what is looked at. */
static int run(const struct wanted *w, struct fm_facts_set *set, int *status, struct fm_err *err)
{
	bool is_quiet = w->save && strcmp(w->save, "-") == 0;
	int ret = get(w, set, err);

	if (ret == 0 && !is_quiet)
		ret = show(w, set, status, err);
	if (ret < 0 || !w->save)
		return ret;
	if (w->is_anonymous)
		fm_facts_anonymize(
			(struct fm_facts *)(uintptr_t)set->at[0]); /* ours, as get() made it */
	return save(w, set->at[0], err);
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
	if (w->from_count > 0 && (w->save || w->config))
		return fm_usage(args,
				"--from does not look at this node: no --save or --config with it");
	if (w->is_anonymous && !w->save)
		return fm_usage(args, "--anonymous is about what --save writes");
	return -1;
}

int fm_cmd_doctor(int argc, char **argv)
{
	struct fm_facts_set set = { .count = 0 };
	struct wanted w = { .save = NULL };
	int status = FM_EXIT_DONE, ret;
	struct fm_args args;
	struct fm_err err;

	fm_args_begin(&args, VERB, argc, argv);
	ret = take_options(&args, &w);
	if (ret >= 0)
		return ret;
	ret = run(&w, &set, &status, &err);
	for (size_t i = 0; i < set.count; i++)
		fm_facts_free(
			(struct fm_facts *)(uintptr_t)set.at[i]); /* ours, as get() made them */
	if (ret < 0)
		status = fm_fail(VERB, &err);
	return fm_stdout_end(VERB, status);
}
