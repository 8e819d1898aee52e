/* SPDX-License-Identifier: MIT */
/* cmd_mv - fmove mv [--force] NODE:STORE/PATH NODE:STORE/PATH */
#include "client/cli/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/json.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_FORCE };

const struct fm_opt fm_opts_mv[] = {
	{"force", 'f', OPT_FORCE, NULL, "replace a file or link that has the new name", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct move {
	const char *text, *to_text;	/* as typed */
	struct fm_name from, to;
	bool may_replace;
	bool is_json;
};

/*
 * Takes the two names. A slash at the end of the new one means: into that directory, under the old
 * name.
 */
static int take_names(struct fm_args *args, struct move *m)
{
	struct fm_err err;

	if (fm_name_parse(m->text, &m->from, &err) < 0 ||
	    fm_name_parse(m->to_text, &m->to, &err) < 0)
		return fm_usage(args, "%s", err.text);
	if (strcmp(m->from.node, m->to.node) != 0 || strcmp(m->from.store, m->to.store) != 0)
		return fm_usage(args,
				"\"%.200s\" is in another store: mv renames within one; fmove put "
				"or get copies, and rm removes what was copied",
				m->to_text);
	if (m->from.path[0] == '\0')
		return fm_usage(args, "\"%.200s\" is a whole store, which keeps its name", m->text);
	if (m->to.is_dir && fm_name_append(&m->to, fm_name_last(m->from.path), &err) < 0)
		return fm_usage(args, "%s", err.text);
	return 0;
}

/* Whether a name is a relative link, which means something else in another directory. */
static bool is_relative_link(struct fmove *c, const struct fmove_name *name)
{
	char says[FMOVE_PATH_MAX + 1];
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;

	return fmove_look(c, name, &entry, says, &why) == 0 && entry.type == FMOVE_LINK &&
	       says[0] != '/';
}

/* Whether what a name leads to is there. What cannot be told counts as there. */
static bool leads_to_something(struct fmove *c, const struct fmove_name *name)
{
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;

	return fmove_stat(c, name, &entry, &why) != -ENOENT;
}

/* Renames, and finds out whether a link led to something before and leads to nothing now. */
static int rename_it(const struct move *m, struct fmove *c, bool *dangles, struct fmove_error *why)
{
	struct fmove_name from = fm_name_parts(&m->from), to = fm_name_parts(&m->to);
	bool is_led = is_relative_link(c, &from) && leads_to_something(c, &from);
	int ret = fmove_move(c, &from, m->to.path, m->may_replace, why);

	*dangles = ret == 0 && is_led && !leads_to_something(c, &to);
	return ret;
}

static void print_json(const struct move *m, const char *to, bool dangles, int status,
		       const struct fmove_error *why)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout);	/* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "name", m->text, strlen(m->text));
	fm_jw_name(&w, "to", to, strlen(to));
	if (dangles)
		fm_jw_bool(&w, "dangles", true);
	fm_jw_u64(&w, "exit", (uint64_t)status);
	if (why)
		fm_ask_error_json(&w, why);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

static int move(const struct move *m)
{
	char to[FM_ASK_NAME_TEXT_MAX];
	bool dangles;
	int ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fmove *c;

	if (fm_ask_open("mv", false, &c, &status) < 0)
		return status;
	ret = rename_it(m, c, &dangles, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail_literal("mv", m->text, &why);
	(void)fm_name_text(&m->to, to, sizeof(to));
	if (dangles)
		fm_say("warning: %s: leads to nothing now: a relative link keeps what it says; "
		       "\"fmove ln -sf\" leads it elsewhere",
		       to);
	if (m->is_json)
		print_json(m, to, dangles, status, ret < 0 ? &why : NULL);
	return fm_stdout_end("mv", status);
}

int fm_cmd_mv(int argc, char **argv)
{
	static struct move m;	/* two paths */
	struct fm_args args;
	int key, status;

	fm_args_begin(&args, "mv", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		m.may_replace |= key == OPT_FORCE;
		m.is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 2, 2) < 0)
		return args.status;
	m.text = args.operands[0];
	m.to_text = args.operands[1];
	status = take_names(&args, &m);
	return status != 0 ? status : move(&m);
}
