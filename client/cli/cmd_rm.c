/* SPDX-License-Identifier: MIT */
/* cmd_rm - fmove rm [--recursive] [--force] NODE:STORE/PATH... */
#include "client/cli/ask.h"

#include <errno.h>

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_RECURSIVE, OPT_FORCE };

const struct fm_opt fm_opts_rm[] = {
	{ "recursive", 'r', OPT_RECURSIVE, NULL, "directories too, with all that is in them",
	  NULL },
	{ "force", 'f', OPT_FORCE, NULL, "what is not there is no error", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

struct how {
	bool is_recursive;
	bool is_forced;
};

/* Whether the store exists: a misspelt one is reported also with --force. */
static bool has_store(struct fmove *c, const struct fmove_name *name)
{
	const struct fmove_name root = { name->node, name->store, "" };
	struct fmove_entry entry;
	struct fmove_error why;

	return fmove_stat(c, &root, &entry, &why) == 0;
}

static int remove_one(struct fmove *c, const struct fmove_name *name, void *ctx,
		      struct fmove_error *why)
{
	const struct how *how = ctx;
	int ret = fmove_remove(c, name, how->is_recursive, why);

	return ret == -ENOENT && how->is_forced && has_store(c, name) ? 0 : ret;
}

int fm_cmd_rm(int argc, char **argv)
{
	struct how how = { .is_recursive = false };
	bool is_json = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, "rm", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		how.is_recursive |= key == OPT_RECURSIVE;
		how.is_forced |= key == OPT_FORCE;
		is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	return fm_ask_each_name(&args, is_json,
				&(struct fm_ask_names){.do_one = remove_one,
						       .ctx = &how,
						       .has_patterns = true,
						       .may_match_nothing = how.is_forced});
}
