/* SPDX-License-Identifier: MIT */
/*
 * cmd_resume - fmove resume [--file FILE] JOB...: a job on a file of ours is handed that file
 * again, opened here with our rights; one that needs a command of ours gets one, in the background.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/background.h"
#include "client/cli/part.h"
#include "client/cli/transfer.h"
#include "mover/base/err.h"

#define LOOK_MS 50
#define LOOKS_MAX 100

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_FILE };

const struct fm_opt fm_opts_resume[] = {
	{ "file", 0, OPT_FILE, "FILE", "where its file is now, if it was moved", "FILE" },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

static int fail(struct fmove_error *why, const struct fm_err *err)
{
	why->code = err->code;
	why->exit = (int)fm_api_exit(err->code);
	why->is_kept = why->is_full = false;
	(void)snprintf(why->text, sizeof(why->text), "%s", err->text);
	return err->code;
}

/* Whether the job needs the caller's file again. A job that only waits still has it. */
static bool needs_file(const struct fmove_job *j)
{
	return !j->local_store[0] && j->state != FMOVE_JOB_WAITING &&
	       j->state != FMOVE_JOB_QUEUED && j->state != FMOVE_JOB_RUNNING &&
	       j->state != FMOVE_JOB_DONE;
}

static int refuse_file(const struct fmove_job *j, struct fmove_error *why)
{
	struct fm_err err;

	(void)fm_err_set(&err, -EINVAL, "%s: leave out --file",
			 j->local_store[0] ? "it is between two stores" : "it needs no file");
	return fail(why, &err);
}

/*
 * Its user may have led the name elsewhere since: opened with root's rights, that would be a file
 * that he may not read. Nor is what root would write into his directory his.
 */
static int refuse_other(const struct fmove_job *j, struct fmove_error *why)
{
	struct fm_err err;

	(void)fm_err_set(&err, -EPERM,
			 "its file is opened with the rights of whose job it is, uid %u: sudo -u "
			 "'#%u' fmove resume %s",
			 j->user, j->user, j->id);
	return fail(why, &err);
}

static int open_file(const struct fmove_job *j, const char *other, struct fmove_error *why)
{
	const char *path = other ? other : j->local_path;
	struct fm_err err;
	int fd;

	if (!path[0]) {
		(void)fm_err_set(&err, -EINVAL,
				 "the path of its file was never said; say it with --file FILE");
		return fail(why, &err);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		(void)fm_err_sys(&err, -errno, "%s", path);
		return fail(why, &err);
	}
	return fd;
}

/* ---- one that a command attends to ---- */

static void transfer_of(const struct fmove_job *j, struct fmove *c, struct fm_transfer *t)
{
	fm_transfer_init(t, "resume");
	t->conn = c;
	t->is_detached = true;
	t->opts = (struct fmove_options){.struct_size = sizeof(t->opts),
					 .transport = j->transport,
					 .durability = j->durability,
					 .may_replace = j->may_replace,
					 .rate_bytes = j->rate_bytes,
					 .timeout_ms = j->timeout_ms,
					 .retry_ms = j->retry_ms,
					 .priority = j->priority,
					 .is_readback = j->is_readback,
					 .accepts_corrupt = j->accepts_corrupt,
					 .group = j->group[0] ? j->group : NULL,
					 .again = j->id};
	t->dir.replaces = t->is_forced = j->may_replace;	/* whichever of them it was */
	t->dir.tree = (struct fmove_tree_options){.struct_size = sizeof(t->dir.tree),
						  .is_update = j->is_update,
						  .has_checksums = j->has_checksums,
						  .is_delete = j->is_delete,
						  .is_dry_run = j->is_dry_run};
	for (unsigned i = 0; i < j->excludes_count; i++)
		t->dir.excludes[i] = j->excludes[i];
	t->dir.tree.excludes = j->excludes_count > 0 ? t->dir.excludes : NULL;
}

/*
 * The file of the job has its final name already: waits until the job has looked at it, but not for
 * long, nor for a peer that cannot be reached.
 */
static int look(struct fmove *c, const struct fmove_job *j, const char *path,
		struct fmove_error *why)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	static struct fmove_job now = {.struct_size = sizeof(now)};	/* large */
	struct fm_err err;
	int ret = fm_background_found(c, j->id, path, &err);

	if (ret < 0)
		return fail(why, &err);
	for (unsigned i = 0; i < LOOKS_MAX; i++) {
		ret = fmove_find_job(c, j->id, &now, why);
		if (ret == 0 && now.state == FMOVE_JOB_DONE)
			fm_part_forget(path);
		if (ret < 0 || now.state == FMOVE_JOB_DONE || now.state == FMOVE_JOB_WAITING)
			return ret;
		if (now.state == FMOVE_JOB_FAILED || now.state == FMOVE_JOB_CANCELLED) {
			(void)fm_err_set(&err, now.state == FMOVE_JOB_FAILED ? -EEXIST : -ECANCELED,
					 "%s: %s", path, now.text);
			return fail(why, &err);
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* Runs the job's transfer again, with its options, as the same job. */
static int attend(struct fmove *c, const struct fmove_job *j, const char *path,
		  struct fmove_error *why)
{
	static char target[FM_DIR_DST_MAX];
	struct fm_outcome one = { .source = path, .target = path };
	struct fm_transfer t;
	struct fm_name name = { .is_dir = false };
	int ret;

	/* no name has more */
	(void)snprintf(name.node, sizeof(name.node), "%.*s", FM_NAME_PART_MAX, j->node);
	(void)snprintf(name.store, sizeof(name.store), "%.*s", FM_NAME_PART_MAX, j->store);
	(void)snprintf(name.path, sizeof(name.path), "%s", j->path);
	transfer_of(j, c, &t);
	if (j->is_put)
		ret = fm_dir_put(&t, -1, path, &name, &one);
	else if (j->is_tree)
		ret = fm_dir_get(&t, &name, path, target, &one);
	else
		ret = fm_transfer_get_file(&t, &name, path, &one);
	if (ret == -EEXIST && !j->is_put && !j->is_tree)
		return look(c, j, path, why);
	if (ret == -EEXIST && !j->is_put)
		(void)fm_err_wrap(&one.err,
				  "if %s is what this job made, whose command ended right behind "
				  "that, end it with fmove cancel %s; "
				  "else move it away first",
				  path, j->id);
	return ret < 0 ? fail(why, &one.err) : 0;
}

static int resume_one(struct fmove *c, const char *job, void *ctx, struct fmove_error *why)
{
	const char *other = *(const char **)ctx;
	struct fmove_job j = {.struct_size = sizeof(j)};
	int fd = -1;
	int ret = fmove_find_job(c, job, &j, why);

	if (ret < 0)
		return ret;
	if (other && !needs_file(&j))
		return refuse_file(&j, why);
	if (needs_file(&j) && !j.is_own)
		return refuse_other(&j, why);
	if (j.is_attended && needs_file(&j))
		return attend(c, &j, other ? other : j.local_path, why);
	if (needs_file(&j)) {
		fd = open_file(&j, other, why);
		if (fd < 0)
			return fd;
	}
	ret = fmove_resume(c, job, fd, why);
	if (fd >= 0)
		(void)close(fd);	/* only read */
	return ret;
}

int fm_cmd_resume(int argc, char **argv)
{
	const char *file = NULL;
	bool is_json = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, "resume", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == OPT_FILE)
			file = args.value;
		is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	if (file && args.count > 1)
		return fm_usage(&args, "--file is for one job");
	return fm_ask_each_job(&args, is_json, resume_one, &file);
}
