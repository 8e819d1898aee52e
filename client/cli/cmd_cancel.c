/* SPDX-License-Identifier: MIT */
/* cmd_cancel - fmove cancel [--keep-partial] JOB... */
#include "client/cli/ask.h"

#include "client/cli/part.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_KEEP };

const struct fm_opt fm_opts_cancel[] = {
	{"keep-partial", 0, OPT_KEEP, NULL,
	 "leave what has arrived, for resume or the same command again", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

/*
 * Whether a cancelled get left a partial file in the caller's directory, with no process there to
 * remove it.
 */
static bool has_left_a_part(const struct fmove_job *j)
{
	return j->is_attended && !j->is_put && !j->is_tree && j->state == FMOVE_JOB_PAUSED &&
	       j->is_own;
}

static int cancel_one(struct fmove *c, const char *job, void *ctx, struct fmove_error *why)
{
	bool is_kept = *(const bool *)ctx;
	struct fmove_job j = {.struct_size = sizeof(j)};
	int ret = is_kept ? 0 : fmove_find_job(c, job, &j, why);

	if (ret == 0)
		ret = fmove_cancel(c, job, is_kept, why);
	if (ret == 0 && !is_kept && has_left_a_part(&j))
		fm_part_forget(j.local_path);
	return ret;
}

int fm_cmd_cancel(int argc, char **argv)
{
	bool is_kept = false, is_json = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, "cancel", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		is_kept |= key == OPT_KEEP;
		is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	return fm_ask_each_job(&args, is_json, cancel_one, &is_kept);
}
