/* SPDX-License-Identifier: MIT */
/* cmd_group_list - fmove group list [NODE[:STORE]]: the groups that are open. */
#include "client/cli/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/df.h"
#include "client/cli/interrupt.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

enum { OPT_JSON = FM_ASK_JSON_KEY };

const struct fm_opt fm_opts_group_list[] = {
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct listing {
	struct fmove *stores, *groups;	/* connections: one asks while the other is at a store */
	const char *node;		/* NULL: ours */
	const char *store;		/* at hand */
	bool is_json;
	struct fm_rows rows;
	unsigned count;
	struct fmove_error failed;
};

/* ---- one group ---- */

/* The names as they stand in the text, one after the other, into each(). */
static void each_name(const struct fmove_group_members *m, void (*each)(void *ctx, const char *at,
									size_t len),
		      void *ctx)
{
	for (const char *at = m->names; *at;) {
		size_t len = strcspn(at, "\n");

		each(ctx, at, len);
		at += len + (at[len] == '\n');
	}
}

static void name_json(void *ctx, const char *at, size_t len)
{
	fm_jw_name(ctx, NULL, at, len);
}

static void members_json(struct fm_json_writer *w, const char *key,
			 const struct fmove_group_members *m)
{
	fm_jw_object(w, key);
	fm_jw_u64(w, "count", m->count);
	fm_jw_array(w, "names");
	each_name(m, name_json, w);
	fm_jw_array_end(w);
	fm_jw_object_end(w);
}

static void print_json(struct listing *l, const struct fmove_group *g)
{
	struct fm_json_writer *w = fm_rows_next(&l->rows);

	fm_jw_text(w, "store", l->store);
	fm_jw_name(w, "path", g->path, strlen(g->path));
	fm_jw_text(w, "peer", g->peer);
	fm_jw_u64(w, "uid", g->uid);
	fm_jw_i64(w, "begun_ns", g->begun_ns);
	fm_jw_i64(w, "expires_ns", g->expires_ns);
	fm_jw_bool(w, "replace", g->may_replace);
	fm_jw_u64_or_null(w, "members", g->members ? g->members : UINT64_MAX, UINT64_MAX);
	members_json(w, "there", &g->there);
	members_json(w, "coming", &g->coming);
	members_json(w, "missing", &g->missing);
	fm_jw_object_end(w);
}

static void name_text(void *ctx, const char *at, size_t len)
{
	char shown[4 * sizeof(((struct fmove_group_members *)NULL)->names)];

	(void)printf("%s%s", (const char *)ctx, fm_show(at, len, shown, sizeof(shown)));
}

static void members_text(const struct fmove_group_members *m, const char *what)
{
	if (m->count == 0)
		return;
	(void)printf("  %" PRIu32 " %s%s", m->count, what, m->names[0] ? ":" : "");
	each_name(m, name_text, (void *)" ");
	(void)printf("\n");
}

static void print_text(const struct listing *l, const struct fmove_group *g)
{
	char shown[4 * sizeof(g->path)], begun[FM_SHOW_MAX], expires[FM_SHOW_MAX];

	/* fm_stdout_end() looks for errors */
	(void)printf("%s/%s: begun by uid %" PRIu32 "%s%s %s, until %s\n", l->store,
		     fm_show(g->path, strlen(g->path), shown, sizeof(shown)), g->uid,
		     g->peer[0] ? " of " : "", g->peer,
		     fm_show_date(g->begun_ns / (int64_t)FM_NS_PER_MS, begun),
		     fm_show_date(g->expires_ns / (int64_t)FM_NS_PER_MS, expires));
	members_text(&g->there, "there");
	members_text(&g->coming, "coming");
	members_text(&g->missing, "missing");
}

static bool show(void *ctx, const struct fmove_group *group)
{
	struct listing *l = ctx;

	if (l->is_json)
		print_json(l, group);
	else
		print_text(l, group);
	l->count++;
	return !ferror(stdout) && !fm_is_interrupted();
}

/* ---- all of them ---- */

static bool list_store(void *ctx, const struct fmove_space *space)
{
	struct listing *l = ctx;
	const struct fmove_name name = {l->node, space->store, ""};

	l->store = space->store;
	return !space->may_read || fmove_groups(l->groups, &name, show, l, &l->failed) == 0;
}

static int ask(struct listing *l, const struct fm_name *name, struct fmove_error *why)
{
	const struct fmove_name parts = {name->node[0] ? name->node : NULL, name->store, ""};
	int ret;

	l->node = parts.node;
	ret = fmove_space(l->stores, &parts, list_store, l, why);
	if (ret == 0 && l->failed.code == 0 && fm_is_interrupted())
		return fm_found_wrong(why, -ECANCELED, "cancelled");
	if (ret < 0 || l->failed.code == 0)
		return ret;
	*why = l->failed;
	return why->code;
}

static int list(struct listing *l, const struct fm_name *name, const char *text)
{
	int status = FM_EXIT_DONE, ret;
	struct fmove_error why;

	if (fm_ask_open("group list", false, &l->stores, &status) < 0)
		return status;
	if (fm_ask_open("group list", false, &l->groups, &status) < 0) {
		fmove_close(l->stores);
		return status;
	}
	if (l->is_json)
		fm_rows_begin(&l->rows, "groups");
	ret = ask(l, name, &why);
	fmove_close(l->groups);
	fmove_close(l->stores);
	if (ret < 0)
		status = fm_ask_fail("group list", text, &why);
	if (l->is_json)
		fm_rows_end(&l->rows, status);
	else if (ret == 0 && l->count == 0)
		fm_say("group list: no group is open at %s that you may read%s",
		       text ? text : "this node",
		       text ? "" : "; \"fmove group list NODE\" asks another one");
	return fm_stdout_end("group list", status);
}

int fm_cmd_group_list(int argc, char **argv)
{
	static struct listing l;
	struct fm_name name = {.node = ""};
	struct fm_args args;
	struct fm_err err;

	fm_args_begin(&args, "group list", argc, argv);
	while (fm_args_next(&args) > 0)
		l.is_json = true;
	if (fm_args_end(&args, 0, 1) < 0)
		return args.status;
	if (args.count > 0 && fm_df_name(args.operands[0], &name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (name.path[0])
		return fm_usage(&args, "\"%.200s\": groups are listed of a store; leave out the "
				"path",
				args.operands[0]);
	return list(&l, &name, args.count > 0 ? args.operands[0] : NULL);
}
