/* SPDX-License-Identifier: MIT */
/* cmd_rm - fmove rm [--recursive] [--force] [--dry-run] NODE:STORE/PATH... */
#include "client/cli/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/show.h"
#include "client/cli/tally.h"
#include "mover/base/json.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_RECURSIVE, OPT_FORCE, OPT_DRY };

const struct fm_opt fm_opts_rm[] = {
	{ "recursive", 'r', OPT_RECURSIVE, NULL, "directories too, with all that is in them",
	  NULL },
	{ "force", 'f', OPT_FORCE, NULL, "what is not there is no error", NULL },
	{ "dry-run", 'n', OPT_DRY, NULL, "only say what would go, and how much it is", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

struct how {
	bool is_recursive;
	bool is_forced;
	bool is_json;
	struct fm_tally tally;		/* what would go with the last name, of a dry run */
};

/* Whether the store exists: a misspelt one is reported also with --force. */
static bool has_store(struct fmove *c, const struct fmove_name *name)
{
	const struct fmove_name root = { name->node, name->store, "" };
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
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

/* ---- a dry run ---- */

static bool take_store(void *ctx, const struct fmove_space *space)
{
	*(struct fmove_space *)ctx = *space;
	return false;
}

/* Refuses what the removal would refuse. Of what is in a directory it cannot know that. */
static int check(struct fmove *c, const struct fmove_name *name, const struct fmove_entry *entry,
		 bool is_recursive, struct fmove_error *why)
{
	struct fmove_space space = {.store = ""};
	int ret = fmove_space(c, name, take_store, &space, why);

	if (ret < 0)
		return ret;
	if (!space.may_write)
		return fm_found_wrong(why, -EACCES, "you may not write to that store");
	if (name->path[0] == '\0')
		return fm_found_wrong(why, -EISDIR, "the store itself cannot be removed");
	if (entry->type == FMOVE_DIRECTORY && !is_recursive)
		return fm_found_wrong(why, -EISDIR,
				    "is a directory; removing it with all that is in it must be "
				    "asked for (-r)");
	return 0;
}

static void print_tally(const struct fmove_name *name, bool is_dir, const struct fm_tally *t)
{
	char shown[4 * FM_ASK_NAME_TEXT_MAX], bytes[FM_SHOW_MAX], files[FM_SHOW_MAX],
		dirs[FM_SHOW_MAX];

	fm_show(name->path, strlen(name->path), shown, sizeof(shown));
	(void)printf("would remove %s:%s/%s", name->node, name->store, shown);
	if (is_dir)
		(void)printf("/: %s %s and %s %s in it", fm_show_count(t->files, files),
			     t->files == 1 ? "file" : "files", fm_show_count(t->dirs, dirs),
			     fm_show_directories(t->dirs));
	/* fm_stdout_end() looks for errors */
	(void)printf(", %s\n", fm_show_bytes(t->bytes, bytes));
}

static int count_one(struct fmove *c, const struct fmove_name *name, void *ctx,
		     struct fmove_error *why)
{
	struct how *how = ctx;
	char says[FMOVE_PATH_MAX + 1];
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	int ret = fmove_look(c, name, &entry, says, why);	/* a link goes itself */
	bool is_dir = ret == 0 && entry.type == FMOVE_DIRECTORY;

	how->tally = (struct fm_tally){.files = 0};
	if (ret == -ENOENT && how->is_forced && has_store(c, name))
		return 0;
	if (ret == 0)
		ret = check(c, name, &entry, how->is_recursive, why);
	if (ret == 0 && is_dir)
		ret = fm_tally(c, name, &how->tally, why);
	else if (ret == 0)
		how->tally = (struct fm_tally){.files = 1, .bytes = entry.size};
	if (ret == 0 && !how->is_json)
		print_tally(name, is_dir, &how->tally);
	return ret;
}

static void tally_json(struct fm_json_writer *w, void *ctx)
{
	const struct how *how = ctx;

	fm_jw_bool(w, "dry_run", true);
	fm_jw_u64(w, "files", how->tally.files);
	fm_jw_u64(w, "dirs", how->tally.dirs);
	fm_jw_u64(w, "bytes", how->tally.bytes);
}

int fm_cmd_rm(int argc, char **argv)
{
	struct fm_ask_names names = {.do_one = remove_one, .has_patterns = true};
	struct how how = {.is_recursive = false};
	struct fm_args args;
	int key;

	fm_args_begin(&args, "rm", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		how.is_recursive |= key == OPT_RECURSIVE;
		how.is_forced |= key == OPT_FORCE;
		how.is_json |= key == OPT_JSON;
		if (key == OPT_DRY) {
			names.do_one = count_one;
			names.row_json = tally_json;
		}
	}
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	names.ctx = &how;
	names.may_match_nothing = how.is_forced;
	return fm_ask_each_name(&args, how.is_json, &names);
}
