/* SPDX-License-Identifier: MIT */
/*
 * cmd_ls - fmove ls [NODE:[STORE[/PATH]]]: entries are printed as the pages come, so a directory
 * may be of any size. Of a pattern: the names that it matches. Nodes and stores: ls_nodes.c.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/glob.h"
#include "client/cli/ls_nodes.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "mover/base/json.h"
#include "mover/base/err.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_LONG, OPT_AFTER, OPT_MAX, OPT_PARTIAL, OPT_NULL,
       OPT_HUMAN };

const struct fm_opt fm_opts_ls[] = {
	{ "long", 'l', OPT_LONG, NULL,
	  "mode, size and time before each name, where a link leads behind it; of nodes since "
	  "when and where, of stores their room", NULL },
	{ "human", 'h', OPT_HUMAN, NULL, "sizes in the unit that fits (1.23 GB)", NULL },
	{ "null", '0', OPT_NULL, NULL,
	  "names only, as they are, a zero byte behind each, for xargs -0", NULL },
	{ "after", 0, OPT_AFTER, "NAME",
	  "only names that come after this one in the order of their bytes", NULL },
	{ "max", 0, OPT_MAX, "COUNT", "at most this many names; with --after page by page", NULL },
	{ "partial", 0, OPT_PARTIAL, NULL,
	  "unfinished transfers into the directory: what is there of each, of how much, since "
	  "when; the same put again goes on from there", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

struct listing {
	struct fmove *c;
	const struct fm_name *where;	/* the directory, or the store of what a pattern matched */
	struct fm_rows rows;
	bool is_json;
	bool is_long;
	bool is_human;
	bool is_partial;
	bool is_null;		/* a zero byte ends each name, not a line */
	bool is_raw;		/* names as they are: nobody looks at them on a terminal */
	const char *after;
	uint64_t max;		/* 0: all */
	uint64_t count;
};

/*
 * What a link says; "" of anything else, and of one that went meanwhile. Asked only for who wants
 * more than names: it takes a request for each link.
 */
static void find_out(const struct listing *l, const char *name, const struct fmove_entry *e,
		     char says[FMOVE_PATH_MAX + 1])
{
	struct fm_name at = *l->where;
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;
	struct fmove_name parts;
	struct fm_err err;

	says[0] = '\0';
	if (e->type != FMOVE_LINK || (!l->is_long && !l->is_json) || l->is_partial ||
	    fm_name_append(&at, name, &err) < 0)
		return;
	parts = fm_name_parts(&at);
	(void)fmove_look(l->c, &parts, &entry, says, &why);	/* then nothing is shown */
}

static void print_json(struct listing *l, const char *name, const struct fmove_entry *e)
{
	char says[FMOVE_PATH_MAX + 1];
	struct fm_json_writer *w;

	find_out(l, name, e, says);
	w = fm_rows_next(&l->rows);
	fm_jw_name(w, "name", name, strlen(name));
	fm_ask_entry_json(w, e);
	fm_ask_says_json(w, says);
	if (l->is_partial)
		fm_jw_u64_or_null(w, "whole", e->whole, UINT64_MAX);
	fm_jw_object_end(w);
}

static const char *size_text(const struct listing *l, uint64_t bytes, char out[static FM_SHOW_MAX])
{
	if (l->is_human)
		return fm_show_bytes(bytes, out);
	(void)snprintf(out, FM_SHOW_MAX, "%" PRIu64, bytes);	/* fits */
	return out;
}

static void print_text(const struct listing *l, const char *name, const struct fmove_entry *e)
{
	static char shown[4 * FMOVE_PATH_MAX + 8], shown_says[4 * FMOVE_PATH_MAX + 8];
	char says[FMOVE_PATH_MAX + 1], mode[11], time_text[32], size[FM_SHOW_MAX];
	const char *slash = e->type == FMOVE_DIRECTORY ? "/" : "", *to = says;

	find_out(l, name, e, says);
	if (!l->is_raw) {
		name = fm_show(name, strlen(name), shown, sizeof(shown));
		to = fm_show(says, strlen(says), shown_says, sizeof(shown_says));
	}
	if (!l->is_long) {
		/* fm_stdout_end() looks for errors */
		(void)printf("%s%s%c", name, slash, l->is_null ? '\0' : '\n');
		return;
	}
	fm_ask_mode_text(e, mode);
	fm_ask_time_text(e, time_text);
	(void)printf("%s %*s %s %s%s%s%s\n", mode, l->is_human ? 10 : 15,
		     size_text(l, e->size, size), time_text, name, slash, says[0] ? " -> " : "",
		     to);
}

/* Prints " 1500000000 of 3000000000 50 % 2026-03-01 12:00:00 NAME". */
static void print_partial(const struct listing *l, const struct fmove_entry *e)
{
	char shown[4 * FMOVE_NAME_MAX + 8], time_text[32], size[FM_SHOW_MAX],
		whole[FM_SHOW_MAX] = "?", part[8] = "    -";
	const char *name =
		l->is_raw ? e->name : fm_show(e->name, strlen(e->name), shown, sizeof(shown));

	if (e->whole > 0 && e->whole < UINT64_MAX) {
		(void)size_text(l, e->whole, whole);
		/* fits */
		(void)snprintf(part, sizeof(part), "%3.0f %%",
			       100.0 * (double)e->size / (double)e->whole);
	}
	fm_ask_time_text(e, time_text);
	(void)printf("%15s of %15s %s %s %s%s\n", size_text(l, e->size, size), whole, part,
		     time_text, name, e->type == FMOVE_DIRECTORY ? "/" : "");
}

static bool print_entry(void *ctx, const struct fmove_entry *e)
{
	struct listing *l = ctx;

	if (l->is_json)
		print_json(l, e->name, e);
	else if (l->is_partial)
		print_partial(l, e);
	else
		print_text(l, e->name, e);
	l->count++;
	return !ferror(stdout) && (l->max == 0 || l->count < l->max);
}

/* Lists a file, or a link that leads to nothing or to a file, which have no entries, as ls does. */
static int list_file(struct fmove *c, const struct fm_name *name, struct listing *l,
		     struct fmove_error *why)
{
	struct fmove_name parts = fm_name_parts(name);
	char says[FMOVE_PATH_MAX + 1];
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fm_name dir = *name;
	char *slash = strrchr(dir.path, '/');
	int ret;

	ret = fmove_look(c, &parts, &entry, says, why);
	if (ret < 0)
		return ret;
	*(slash ? slash : dir.path) = '\0';
	l->where = &dir;
	(void)snprintf(entry.name, sizeof(entry.name), "%s", fm_name_last(name->path));
	(void)print_entry(l, &entry);
	return 0;
}

/* Lists what a pattern matches, by paths below the store: the names, and not what is in them. */
static int list_matches(struct fmove *c, const struct fm_name *pattern, int ret, struct listing *l,
			struct fmove_error *why)
{
	struct fm_glob matches = {.count = 0};
	struct fm_name store = *pattern;

	store.path[0] = '\0';
	l->where = &store;
	ret = fm_glob_instead(c, pattern, ret, &matches, why);
	for (size_t i = 0; ret == 0 && i < matches.count; i++)
		if (l->is_json)
			print_json(l, matches.paths[i], &matches.entries[i]);
		else
			print_text(l, matches.paths[i], &matches.entries[i]);
	fm_glob_free(&matches);
	return ret;
}

static bool is_of_directory(const struct listing *l)
{
	return l->is_partial || l->after[0] || l->max > 0;
}

static int list(const struct fm_name *name, const char *text, struct listing *l)
{
	struct fmove_name parts = fm_name_parts(name);
	int ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fmove *c;

	if (fm_ask_open("ls", false, &c, &status) < 0)
		return status;
	l->c = c;
	l->where = name;
	if (l->is_json)
		fm_rows_begin(&l->rows, "entries");
	ret = (l->is_partial ? fmove_partials : fmove_list)(c, &parts, l->after, print_entry, l,
							    &why);
	if ((ret == -ENOTDIR || ret == -ENOENT) && !l->is_partial)
		ret = list_file(c, name, l, &why);
	if (ret == -ENOENT && fm_glob_is_pattern(name->path) && !is_of_directory(l))
		ret = list_matches(c, name, ret, l, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail("ls", text, &why);
	if (l->is_json)
		fm_rows_end(&l->rows, status);
	return fm_stdout_end("ls", status);
}

/* Lists the nodes, or the stores of one. Such a list has no pages and nothing unfinished. */
static int list_nodes(struct fm_args *args, const struct listing *l)
{
	const struct fm_ls_nodes how = {
		.is_json = l->is_json, .is_long = l->is_long, .is_null = l->is_null};

	if (is_of_directory(l))
		return fm_usage(args, "--partial, --after and --max are for a directory: name one, "
				      "as NODE:STORE/PATH");
	return args->count == 0 ? fm_ls_nodes(&how) : fm_ls_stores(args->operands[0], &how);
}

static int take_max(struct fm_args *args, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(args->value, &end, 10);
	if (errno != 0 || *end || end == args->value || args->value[0] == '-' || *out == 0)
		return fm_usage(args, "--max %s: must be a number from 1 on", args->value);
	return 0;
}

int fm_cmd_ls(int argc, char **argv)
{
	struct listing l = { .after = "", .is_raw = !isatty(STDOUT_FILENO) };
	struct fm_args args;
	struct fm_name name;
	struct fm_err err;
	int key;

	fm_args_begin(&args, "ls", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		switch (key) {
		case OPT_JSON:
			l.is_json = true;
			break;
		case OPT_LONG:
			l.is_long = true;
			break;
		case OPT_HUMAN:
			l.is_human = true;
			break;
		case OPT_AFTER:
			l.after = args.value;
			break;
		case OPT_PARTIAL:
			l.is_partial = true;
			break;
		case OPT_NULL:
			l.is_null = l.is_raw = true;
			break;
		case OPT_MAX:
			if (take_max(&args, &l.max) != 0)
				return FM_EXIT_USAGE;
			break;
		}
	}
	if (fm_args_end(&args, 0, 1) < 0)
		return args.status;
	if (l.is_null && (l.is_long || l.is_partial || l.is_json))
		return fm_usage(&args, "--null (-0) prints names only: leave out --long, --partial "
				       "and --json");
	if (args.count == 0 || fm_name_is_node(args.operands[0]))
		return list_nodes(&args, &l);
	if (l.is_raw)
		fm_stdout_raw();
	if (fm_name_parse(args.operands[0], &name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	return list(&name, args.operands[0], &l);
}
