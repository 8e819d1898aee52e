/* SPDX-License-Identifier: MIT */
/* cmd_mv - fmove mv [--force] NODE:STORE/PATH NODE:STORE/PATH */
#include "client/cli/ask.h"

#include <string.h>

#include "mover/base/err.h"

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

static int move(const struct move *m)
{
	struct fmove_name from = fm_name_parts(&m->from);
	char to[FM_ASK_NAME_TEXT_MAX];
	int ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fmove *c;

	if (fm_ask_open("mv", false, &c, &status) < 0)
		return status;
	ret = fmove_move(c, &from, m->to.path, m->may_replace, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail_literal("mv", m->text, &why);
	(void)fm_name_text(&m->to, to, sizeof(to));
	if (m->is_json)
		fm_ask_outcome_json(m->text, "to", to, status, ret < 0 ? &why : NULL);
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
