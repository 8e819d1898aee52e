/* SPDX-License-Identifier: MIT */
/* cmd_df - fmove df [NODE[:STORE]]: what stores have room for. See df.h. */
#include "client/cli/df.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cli/ask.h"
#include "client/cli/show.h"
#include "config/value.h"
#include "mover/base/json.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_UNFINISHED, OPT_HUMAN };

const struct fm_opt fm_opts_df[] = {
	{"unfinished", 0, OPT_UNFINISHED, NULL,
	 "also what transfers that were cut off left there, which takes a look at all of a store",
	 NULL},
	{"human", 'h', OPT_HUMAN, NULL, "sizes in the unit that fits, as without it", NULL},
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

/* What transfers that were cut off left in a store. */
struct left {
	uint64_t bytes;			/* UINT64_MAX: it is not for the caller to know */
	uint64_t transfers;
};

static void add_left(void *ctx, const struct fmove_aside *one)
{
	struct left *left = ctx;

	left->bytes += one->bytes;
	left->transfers++;
}

/*
 * Sums up what unfinished transfers left in a store. false: df->failed says why. What may not be
 * looked at or removed is no failure here.
 */
static bool sum_left(struct fm_df *df, const struct fmove_space *s, struct left *left)
{
	const struct fmove_name name = { df->node, s->store, "" };
	bool has_numbers = s->silent_ms == 0 && s->code == 0;
	int ret = 0;

	*left = (struct left){ .bytes = 0 };
	if (df->unfinished && has_numbers)
		ret = fmove_purge_partials(df->unfinished, &name, true, add_left, left,
					   &df->failed);
	if (ret == -EACCES || !has_numbers)
		left->bytes = UINT64_MAX;
	else if (ret < 0 && ret != -EBUSY && ret != -EPERM)
		return false;
	df->failed.code = 0;
	return true;
}

static void print_json(struct fm_df *df, const struct fmove_space *s, const struct left *left)
{
	struct fm_json_writer *w = fm_rows_next(&df->rows);

	fm_jw_text(w, "store", s->store);
	fm_jw_u64_or_null(w, "size", s->size, UINT64_MAX);
	fm_jw_u64_or_null(w, "free", s->free, UINT64_MAX);
	fm_jw_u64_or_null(w, "used", s->used, UINT64_MAX);
	fm_jw_u64_or_null(w, "quota", s->quota, UINT64_MAX);
	fm_jw_u64_or_null(w, "promised", s->promised, UINT64_MAX);
	fm_jw_u64_or_null(w, "aside", s->aside, UINT64_MAX);
	fm_jw_u64_or_null(w, "aside_trees", s->trees, UINT64_MAX);
	fm_jw_bool(w, "counting", s->is_counting);
	fm_jw_u64_or_null(w, "silent_ms", s->silent_ms, 0);
	if (s->code != 0)
		fm_jw_text(w, "code", fm_api_errno_name(s->code));
	else
		fm_jw_null(w, "code");
	if (df->unfinished) {
		fm_jw_u64_or_null(w, "unfinished", left->bytes, UINT64_MAX);
		fm_jw_u64_or_null(w, "unfinished_transfers",
				  left->bytes == UINT64_MAX ? UINT64_MAX : left->transfers,
				  UINT64_MAX);
	}
	fm_jw_object_end(w);
}

static const char *bytes_text(uint64_t bytes, char out[static FM_SHOW_MAX])
{
	return bytes == UINT64_MAX ? "-" : fm_show_bytes(bytes, out);
}

static void print_text(const struct fm_df *df, const struct fmove_space *s,
		       const struct left *left)
{
	char free[FM_SHOW_MAX], used[FM_SHOW_MAX], of[FM_SHOW_MAX], promised[FM_SHOW_MAX],
		unfinished[FM_SHOW_MAX], aside[FM_SHOW_MAX], since[FM_SHOW_MAX];

	if (df->count == 0)
		(void)printf("%-16s %10s %10s %10s %10s%s %12s\n", "store", "free", "used", "of",
			     "promised", df->unfinished ? "   unfinished" : "", "kept aside");
	if (s->silent_ms > 0) {
		(void)printf("%-16s its file system has not answered for %s\n", s->store,
			     fm_show_time(s->silent_ms / 1000, since));
		return;
	}
	if (s->code != 0) {
		(void)printf("%-16s its file system fails: %s\n", s->store, fm_err_name(s->code));
		return;
	}
	(void)printf("%-16s %10s %10s %10s %10s", s->store, bytes_text(s->free, free),
		     bytes_text(s->used, used),
		     bytes_text(s->quota < s->size ? s->quota : s->size, of),
		     bytes_text(s->promised, promised));
	if (df->unfinished)
		(void)printf(" %12s", bytes_text(left->bytes, unfinished));
	(void)printf(" %12s%s", bytes_text(s->aside, aside), s->is_counting ? " or more" : "");
	if (s->trees > 0)
		(void)printf(" in %" PRIu64 " %s", s->trees, fm_show_directories(s->trees));
	(void)printf("\n");
}

bool fm_df_print(void *ctx, const struct fmove_space *space)
{
	struct fm_df *df = ctx;
	struct left left;

	if (!space->may_read)	/* it is named, and nothing else is said of it */
		return true;
	if (!sum_left(df, space, &left))
		return false;
	if (df->is_json)
		print_json(df, space, &left);
	else
		print_text(df, space, &left);
	df->count++;
	return !ferror(stdout);
}

int fm_df_name(const char *text, struct fm_name *out, struct fm_err *err)
{
	size_t node_len = strcspn(text, ":");

	*out = (struct fm_name){ .node = "" };
	if (text[node_len] == ':' && text[node_len + 1])
		return fm_name_parse(text, out, err);
	if (node_len > FM_NAME_PART_MAX)
		return fm_err_set(err, -EINVAL, "\"%.200s\" is no name of a node", text);
	memcpy(out->node, text, node_len);
	out->node[node_len] = '\0';
	return fm_value_is_name(out->node)
		       ? 0
		       : fm_err_set(err, -EINVAL,
				    "\"%.200s\" is not of the form NODE or NODE:STORE", text);
}

/* Hints that a directory of that name is here, and may be meant. */
static void hint_dir(const char *text, struct fmove_error *why)
{
	size_t len = strlen(why->text);
	struct stat st;

	if (text && stat(text, &st) == 0 && S_ISDIR(st.st_mode))
		(void)snprintf(why->text + len, sizeof(why->text) - len,
			       "; the directory here is ./%s", text);	/* cut if it is too long */
}

/* Asks for the stores of a node, or one of them. A refusal of the daemon is the answer. */
static int ask(struct fmove *c, const struct fm_name *name, struct fm_df *how,
	       struct fmove_error *why)
{
	const struct fmove_name parts = { name->node[0] ? name->node : NULL, name->store, "" };
	int ret;

	how->node = parts.node;
	ret = fmove_space(c, &parts, fm_df_print, how, why);
	if (ret < 0 || how->failed.code == 0)
		return ret;
	*why = how->failed;
	return why->code;
}

static int df(const struct fm_name *name, const char *text, bool is_unfinished, struct fm_df *how)
{
	int ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fmove *c;

	if (fm_ask_open("df", false, &c, &status) < 0)
		return status;
	if (is_unfinished && fm_ask_open("df", false, &how->unfinished, &status) < 0) {
		fmove_close(c);
		return status;
	}
	if (how->is_json)
		fm_rows_begin(&how->rows, "stores");
	ret = ask(c, name, how, &why);
	fmove_close(how->unfinished);
	fmove_close(c);
	if (ret < 0) {
		hint_dir(text, &why);
		status = fm_ask_fail("df", text, &why);
	}
	if (how->is_json)
		fm_rows_end(&how->rows, status);
	else if (ret == 0 && how->count == 0)
		fm_say("df: no store there that you may read");
	return fm_stdout_end("df", status);
}

/*
 * Whether the operand is a local directory: it has a / or is . or .. before any colon, which no
 * node's name has.
 */
static bool is_dir(const char *text)
{
	return text[0] == '.' || text[strcspn(text, "/:")] == '/';
}

int fm_cmd_df(int argc, char **argv)
{
	struct fm_df how = { .count = 0 };
	struct fm_name name = { .node = "" };
	bool is_unfinished = false;
	struct fm_args args;
	struct fm_err err;
	int key;

	fm_args_begin(&args, "df", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		how.is_json |= key == OPT_JSON;
		is_unfinished |= key == OPT_UNFINISHED;
	}
	if (fm_args_end(&args, 0, 1) < 0)
		return args.status;
	if (args.count > 0 && is_dir(args.operands[0]))
		return fm_df_dir(args.operands[0], how.is_json);
	if (args.count > 0 && fm_df_name(args.operands[0], &name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (name.path[0])
		return fm_usage(&args, "\"%.200s\": room is a store's; leave out the path",
				args.operands[0]);
	return df(&name, args.count > 0 ? args.operands[0] : NULL, is_unfinished, &how);
}
