/* SPDX-License-Identifier: MIT */
/* cmd_ln - fmove ln --symbolic [--force] TARGET NODE:STORE/PATH */
#include "client/cli/ask.h"

#include <string.h>

#include "mover/base/err.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_SYMBOLIC, OPT_FORCE };

const struct fm_opt fm_opts_ln[] = {
	{"symbolic", 's', OPT_SYMBOLIC, NULL, "a symbolic link; there is no other", NULL},
	{"force", 'f', OPT_FORCE, NULL, "replace a symbolic link that has the name", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

static int make_link(const char *target, const char *text, const struct fm_name *name,
		     bool may_replace, bool is_json)
{
	struct fmove_name parts = fm_name_parts(name);
	int ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fmove *c;

	if (fm_ask_open("ln", false, &c, &status) < 0)
		return status;
	ret = fmove_symlink(c, target, &parts, may_replace, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail("ln", text, &why);
	if (is_json)
		fm_ask_outcome_json(text, "target", target, status, ret < 0 ? &why : NULL);
	return fm_stdout_end("ln", status);
}

/* Whether a target is no path but a name as commands take it, of the link's node. */
static bool is_remote(const char *target, const struct fm_name *link)
{
	struct fm_name name;
	struct fm_err err;

	return fm_name_parse(target, &name, &err) == 0 && strcmp(name.node, link->node) == 0;
}

int fm_cmd_ln(int argc, char **argv)
{
	bool is_symbolic = false, may_replace = false, is_json = false;
	struct fm_args args;
	struct fm_name name;
	struct fm_err err;
	int key;

	fm_args_begin(&args, "ln", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		is_symbolic |= key == OPT_SYMBOLIC;
		may_replace |= key == OPT_FORCE;
		is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 2, 2) < 0)
		return args.status;
	if (!is_symbolic)
		return fm_usage(&args, "only symbolic links are made: say --symbolic (-s)");
	if (fm_name_parse(args.operands[1], &name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (name.is_dir)
		return fm_usage(&args, "\"%.200s\" is a directory: name the link in it",
				args.operands[1]);
	if (is_remote(args.operands[0], &name))
		return fm_usage(&args, "\"%.200s\" is no path: say where the link leads from its "
				       "own directory on, without node and store; a file that is "
				       "called so is ./%.200s",
				args.operands[0], args.operands[0]);
	return make_link(args.operands[0], args.operands[1], &name, may_replace, is_json);
}
