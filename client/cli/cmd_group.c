/* SPDX-License-Identifier: MIT */
/*
 * cmd_group - fmove group begin|commit|discard: what many put gets its place in one step.
 *
 * Happy path with several destinations: begin opens the group at each; commit asks each whether all
 * is there, and then each to commit.
 * Failure modes: begin fails at one, or nobody can be told its ID: it is dropped at those that have
 * it, or may have. One is not ready: nothing is committed. One fails to commit after another has:
 * what has and what lacks it is said, and the status is 3; the same command again commits the rest.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/group_id.h"
#include "client/cli/interrupt.h"
#include "client/cli/latest.h"
#include "client/cli/rows.h"
#include "client/cli/several.h"
#include "config/value.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/group_id.h"
#include "mover/base/json.h"
#include "mover/base/whole_file.h"

#define EXPECT_MAX 32768
#define DROP_MS 10000

enum {
	OPT_JSON = FM_ASK_JSON_KEY,
	OPT_MEMBERS,
	OPT_EXPECT,
	OPT_EXPECT_FROM,
	OPT_EXPIRES,
	OPT_REPLACE,
	OPT_LATEST,
	OPT_KEEP_LAST
};

/* clang-format off */
#define EXPECT_OPTS \
	{"members", 0, OPT_MEMBERS, "N", "so many names are expected directly below PATH", NULL}, \
	{"expect", 0, OPT_EXPECT, "NAME[,NAME...]", "these are expected, paths below PATH", NULL}, \
	{"expect-from", 0, OPT_EXPECT_FROM, "FILE", "the same, one a line of a file", "FILE"}, \
	{"replace", 0, OPT_REPLACE, NULL, "a directory that is there is replaced", NULL}
/* clang-format on */

const struct fm_opt fm_opts_group_begin[] = {
	EXPECT_OPTS,
	{"expires", 0, OPT_EXPIRES, "TIME",
	 "it ends by itself after this long, for example 1h (group_keep of the store)", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

const struct fm_opt fm_opts_group_commit[] = {
	EXPECT_OPTS,
	{"latest", 0, OPT_LATEST, "NAME",
	 "then lead the symbolic link NAME, beside PATH, to it", NULL},
	{"keep-last", 0, OPT_KEEP_LAST, "N",
	 "with --latest: remove what that link led to before the last N", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

const struct fm_opt fm_opts_group_discard[] = {
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct command {
	struct fm_args args;
	struct fmove *conn;
	struct fmove_group_options opts;
	char *expect;
	bool is_json;
	const char *id;
	const char *latest;		/* NULL: no link is led to it */
	uint32_t keep_last;		/* of what that was led to; 0: all */
	struct fmove_rotated rotated[FM_SEVERAL_MAX];
	bool stays[FM_SEVERAL_MAX];	/* the link, which leads to a later one */
	char **dests;			/* as typed */
	unsigned count;
	struct fmove_error why[FM_SEVERAL_MAX];
	struct fmove_group_members missing[FM_SEVERAL_MAX];
	int ret[FM_SEVERAL_MAX];
};

int fm_group_take_id(struct fm_args *args, const char *said, const char **id)
{
	const char *env = getenv("FMOVE_GROUP");
	uint8_t bytes[FM_GROUP_ID_LEN];

	*id = said ? said : env && *env ? env : NULL;
	if (!*id || fm_group_id_parse(*id, bytes) == 0)
		return 0;
	return fm_usage(args, "%sa group's ID has %d hexadecimal digits, and this has not",
			said ? "" : "FMOVE_GROUP: ", FMOVE_GROUP_ID_LEN);
}

/* ---- the command line ---- */

static int take_members(struct command *c)
{
	const char *text = c->args.value;
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || n == 0 || n > 1000000)
		return fm_usage(&c->args, "--members %s: must be 1 to 1000000", text);
	c->opts.members = (uint32_t)n;
	return 0;
}

static int take_expires(struct command *c)
{
	uint64_t ns;

	if (fm_value_time_typed(c->args.value, &ns) < 0 || ns < FM_NS_PER_S ||
	    ns / FM_NS_PER_S > UINT64_C(366) * 24 * 3600)
		return fm_usage(&c->args,
				"--expires %s: must be " FM_VALUE_TIME_FORM ", 1s up to a year",
				c->args.value);
	c->opts.expires_ms = ns / FM_NS_PER_MS;
	return 0;
}

/* Takes names that are divided by commas, one a line from then on. */
static int take_expect(struct command *c)
{
	free(c->expect);
	c->expect = strdup(c->args.value);
	if (!c->expect)
		return fm_usage(&c->args, "no memory for what is expected");
	for (char *at = c->expect; *at; at++)
		if (*at == ',')
			*at = '\n';
	return 0;
}

static int take_expect_from(struct command *c)
{
	struct fm_err err;
	char *text;
	size_t len;

	if (fm_whole_file(c->args.value, EXPECT_MAX, &text, &len, &err) < 0)
		return fm_fail(c->args.cmd->name, &err);
	free(c->expect);
	c->expect = strndup(text, len);
	free(text);
	return c->expect ? 0 : fm_usage(&c->args, "no memory for what is expected");
}

static int take_option(struct command *c, int key)
{
	switch (key) {
	case OPT_MEMBERS:
		return take_members(c);
	case OPT_EXPECT:
		return take_expect(c);
	case OPT_EXPECT_FROM:
		return take_expect_from(c);
	case OPT_EXPIRES:
		return take_expires(c);
	case OPT_REPLACE:
		c->opts.may_replace = true;
		break;
	case OPT_LATEST:
		return fm_latest_take(&c->args, &c->latest);
	case OPT_KEEP_LAST:
		return fm_latest_take_keep(&c->args, &c->keep_last);
	default:
		c->is_json = true;
		break;
	}
	return 0;
}

static int check_dests(struct command *c)
{
	struct fm_name name;
	struct fm_err err;

	if (c->count == 0)
		return fm_usage(&c->args, "a destination is missing: NODE:STORE/PATH");
	if (c->count > FM_SEVERAL_MAX)
		return fm_usage(&c->args, "%u destinations: no more than %d at once", c->count,
				FM_SEVERAL_MAX);
	for (unsigned i = 0; i < c->count; i++) {
		if (fm_name_parse(c->dests[i], &name, &err) < 0)
			return fm_usage(&c->args, "%s", err.text);
		if (name.path[0] == '\0')
			return fm_usage(&c->args,
					"\"%.200s\" is a whole store: name a directory in it",
					c->dests[i]);
	}
	return 0;
}

/* Takes the ID: the first operand if it is one, else that of the environment. */
static int take_id(struct command *c)
{
	const char *said = NULL;
	int status;

	if (c->count > 0 && !strchr(c->dests[0], ':')) {
		said = c->dests[0];
		c->dests++;
		c->count--;
	}
	status = fm_group_take_id(&c->args, said, &c->id);
	if (status == 0 && !c->id)
		return fm_usage(&c->args, "which group? its ID comes before NODE:STORE/PATH, or "
					"is in FMOVE_GROUP");
	return status;
}

/* -1: said and over, c->args.status. */
static int take_args(struct command *c, const char *verb, int argc, char **argv, bool has_id)
{
	int key, status = 0;

	fm_args_begin(&c->args, verb, argc, argv);
	while (status == 0 && (key = fm_args_next(&c->args)) > 0)
		status = take_option(c, key);
	if (status == 0 && fm_args_end(&c->args, 1, FM_SEVERAL_MAX + 1) < 0)
		return -1;
	c->dests = c->args.operands;
	c->count = (unsigned)c->args.count;
	if (status == 0 && has_id)
		status = take_id(c);
	if (status == 0)
		status = check_dests(c);
	if (status == 0)
		status = fm_latest_check(&c->args, c->latest, c->keep_last);
	c->opts.struct_size = sizeof(c->opts);
	c->opts.expect = c->expect;
	c->args.status = status;
	return status == 0 ? 0 : -1;
}

/* ---- one destination ---- */

enum step { BEGIN, CHECK, COMMIT, DISCARD };

static int commit_one(struct command *c, unsigned i, const struct fm_name *name)
{
	struct fmove_error *why = &c->why[i];
	const struct fmove_name parts = fm_name_parts(name);
	int ret = fmove_group_commit(c->conn, &parts, c->id, &c->opts, &c->missing[i], why);
	struct fm_err err;

	if (ret < 0 || !c->latest)
		return ret;
	ret = fm_latest_lead(c->conn, name, c->latest, c->keep_last, true, &c->rotated[i], why);
	if (ret == 0) {
		fm_latest_say(c->args.cmd->name, &c->rotated[i]);
		return 0;
	}
	if (ret == -ESTALE) {
		fm_say("%s: %.200s: it was committed before: %s, and stays so", c->args.cmd->name,
		       c->dests[i], why->text);
		c->stays[i] = true;
		return 0;
	}
	(void)fm_err_set(&err, ret, "%s", why->text);
	fm_err_wrap(&err, "it is committed, but %.200s does not lead to it", c->latest);
	return fm_found_wrong(why, ret, err.text);
}

static int do_one(struct command *c, unsigned i, enum step step)
{
	struct fmove_name parts;
	struct fm_name name;
	struct fm_err err;

	(void)fm_name_parse(c->dests[i], &name, &err);	/* it could be parsed before */
	parts = fm_name_parts(&name);
	switch (step) {
	case BEGIN:
		return fmove_group_begin(c->conn, &parts, c->id, &c->opts, &c->why[i]);
	case CHECK:
		return fmove_group_check(c->conn, &parts, c->id, &c->opts, &c->missing[i],
					 &c->why[i]);
	case COMMIT:
		return commit_one(c, i, &name);
	case DISCARD:
		return fmove_group_discard(c->conn, &parts, c->id, &c->why[i]);
	}
	abort();	/* a step without case: our bug */
}

/* Does it at each, and says what failed. Returns how many failed. */
static unsigned do_all(struct command *c, enum step step, int *status)
{
	unsigned failed = 0;

	for (unsigned i = 0; i < c->count; i++) {
		c->ret[i] = do_one(c, i, step);
		if (c->ret[i] == 0)
			continue;
		failed++;
		*status = fm_ask_fail(c->args.cmd->name, c->dests[i], &c->why[i]);
	}
	return failed;
}

/* The names of those that are missing, and how many more there are. */
static void missing_json(struct fm_json_writer *w, const struct fmove_group_members *m)
{
	uint32_t named = 0;

	fm_jw_array(w, "missing");
	for (const char *at = m->names; *at; named++) {
		size_t len = strcspn(at, "\n");

		fm_jw_name(w, NULL, at, len);
		at += len + (at[len] == '\n');
	}
	fm_jw_array_end(w);
	fm_jw_u64(w, "missing_more", m->count > named ? m->count - named : 0);
}

/* The ID stands there if it is of a group: of one that could not be begun nobody needs it. */
static void print_json(const struct command *c, int status)
{
	struct fm_json_writer *w;
	struct fm_rows rows;

	fm_rows_begin(&rows, "names");
	for (unsigned i = 0; i < c->count; i++) {
		w = fm_rows_next(&rows);
		fm_jw_name(w, "name", c->dests[i], strnlen(c->dests[i], FM_ASK_NAME_TEXT_MAX));
		fm_jw_u64(w, "exit", (uint64_t)fm_api_exit(c->ret[i]));
		if (c->ret[i] < 0)
			fm_ask_error_json(w, &c->why[i]);
		if (c->ret[i] == -ENODATA)
			missing_json(w, &c->missing[i]);
		if (c->ret[i] == 0 && c->keep_last > 0)
			fm_latest_json(w, &c->rotated[i]);
		if (c->ret[i] == 0 && c->latest)
			fm_jw_bool(w, "latest", !c->stays[i]);
		fm_jw_object_end(w);
	}
	w = fm_rows_over(&rows);
	if (c->id)
		fm_jw_text(w, "id", c->id);
	fm_rows_end(&rows, status);
}

static int end(struct command *c, int status)
{
	fmove_close(c->conn);
	free(c->expect);
	if (c->is_json)
		print_json(c, status);
	return fm_stdout_end(c->args.cmd->name, status);
}

/* ---- the verbs ---- */

/* Nothing failed there, and nothing was done either. */
static void left_out(struct command *c, unsigned i, const char *text)
{
	c->ret[i] = fm_found_wrong(&c->why[i], -ECANCELED, text);
}

/* Whether only the answer may be missing: the group may be there, or still come. */
static bool may_have_begun(int code)
{
	return code == -ECANCELED || fm_api_exit(code) == FM_EXIT_UNREACHABLE;
}

/*
 * Drops it where it is, or may be: the path is refused to all until it ends. False: it may stay,
 * and it is said, there and as its error, what ends it: nobody else knows the ID. is_sure: it was
 * begun. A begin without an answer may be under way, and come behind the discard: what is not there
 * then is not dropped.
 */
static bool drop(struct command *c, unsigned i, bool is_sure)
{
	int ret = do_one(c, i, DISCARD);
	char text[FMOVE_TEXT_MAX];

	if (ret == 0 || (ret == -ENOENT && is_sure) || ret == -EPERM)
		return true;
	(void)snprintf(text, sizeof(text),
		       "it %s, and %s: %.200s; fmove group discard %s ends it there",
		       is_sure ? "was begun" : "may have been begun",
		       ret == -ENOENT ? "if not, may come yet" : "cannot be dropped",
		       c->why[i].text, c->id);
	fm_say("%s: %.200s: %s", c->args.cmd->name, c->dests[i], text);
	c->ret[i] = fm_found_wrong(&c->why[i], ret, text);
	return false;
}

/* The signal that ended the command does not end this, and a node that is silent does not for
 * long. */
static void drop_begin(struct command *c)
{
	fmove_set_cancel(c->conn, 0);
	fmove_set_timeout(c->conn, DROP_MS);
}

/* It failed at one: what has it drops it, and what comes behind is not asked. */
static int begin_nowhere(struct command *c, unsigned at)
{
	int status = fm_ask_fail(c->args.cmd->name, c->dests[at], &c->why[at]);
	const struct fmove_error why = c->why[at];

	drop_begin(c);
	for (unsigned i = 0; i < c->count; i++)
		if (i != at && (i > at || drop(c, i, true)))
			left_out(c, i, "it is not begun, since another one failed");
	if (!may_have_begun(why.code) || drop(c, at, false))
		c->why[at] = why;
	c->why[at].code = c->ret[at] = why.code;	/* only the text is of the discard */
	c->why[at].exit = why.exit;
	c->id = NULL;
	return status;
}

static int begin_all(struct command *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		c->ret[i] = do_one(c, i, BEGIN);
		if (c->ret[i] < 0)
			return begin_nowhere(c, i);
	}
	return FM_EXIT_DONE;
}

/* Whoever opens a group has its ID: what nobody was told of is dropped again. */
static int begin_end(struct command *c, int status)
{
	bool is_open = status == FM_EXIT_DONE;

	if (c->is_json)
		print_json(c, status);
	else if (is_open)
		(void)printf("%s\n", c->id);
	status = fm_stdout_end(c->args.cmd->name, status);
	if (is_open && status != FM_EXIT_DONE) {
		drop_begin(c);
		for (unsigned i = 0; i < c->count; i++)
			(void)drop(c, i, true);
	}
	fmove_close(c->conn);
	free(c->expect);
	return status;
}

int fm_cmd_group_begin(int argc, char **argv)
{
	static struct command c;
	char id[FMOVE_GROUP_ID_LEN + 1];
	int status;

	if (take_args(&c, "group begin", argc, argv, false) < 0)
		return c.args.status;
	fmove_group_id(id);
	c.id = id;
	if (fm_ask_open(c.args.cmd->name, false, &c.conn, &status) < 0)
		return status;
	return begin_end(&c, begin_all(&c));
}

/* Says what has the group's members, and what has not, or may not have. */
static void say_partly(const struct command *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->ret[i] == 0)
			fm_say("%s: %.200s is committed", c->args.cmd->name, c->dests[i]);
	fm_say("%s: the same again commits the rest", c->args.cmd->name);
}

/* They could be committed, and are not. */
static int commit_none(struct command *c, int status)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->ret[i] == 0)
			left_out(c, i, "all is there, and it is not committed");
	return status;
}

static int commit_all(struct command *c)
{
	int status = FM_EXIT_DONE;
	unsigned failed = c->count > 1 ? do_all(c, CHECK, &status) : 0;

	if (failed > 0)
		return commit_none(c, status);
	if (fm_is_interrupted())
		return commit_none(c, FM_EXIT_CANCELLED);
	failed = do_all(c, COMMIT, &status);
	if (failed == 0 || failed == c->count)
		return status;
	say_partly(c);
	return FM_EXIT_PARTLY;
}

int fm_cmd_group_commit(int argc, char **argv)
{
	static struct command c;
	int status;

	if (take_args(&c, "group commit", argc, argv, true) < 0)
		return c.args.status;
	if (fm_ask_open(c.args.cmd->name, false, &c.conn, &status) < 0)
		return status;
	return end(&c, commit_all(&c));
}

/*
 * Of several some may have been dropped by the same command before, which failed at others: what is
 * gone there is as it was meant to be, if any was there.
 */
static int discard_all(struct command *c)
{
	int status = FM_EXIT_DONE;
	unsigned done = 0, failed = 0;

	for (unsigned i = 0; i < c->count; i++) {
		c->ret[i] = do_one(c, i, DISCARD);
		done += c->ret[i] == 0;
	}
	for (unsigned i = 0; i < c->count; i++) {
		if (c->ret[i] == -ENOENT && done > 0)
			c->ret[i] = 0;
		if (c->ret[i] == 0)
			continue;
		failed++;
		status = fm_ask_fail(c->args.cmd->name, c->dests[i], &c->why[i]);
	}
	return failed > 0 && failed < c->count ? FM_EXIT_PARTLY : status;
}

int fm_cmd_group_discard(int argc, char **argv)
{
	static struct command c;
	int status;

	if (take_args(&c, "group discard", argc, argv, true) < 0)
		return c.args.status;
	if (fm_ask_open(c.args.cmd->name, false, &c.conn, &status) < 0)
		return status;
	return end(&c, discard_all(&c));
}
