/* SPDX-License-Identifier: MIT */
/* dir - see dir.h. */
#include "client/cli/dir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/cli/background.h"
#include "client/cli/part.h"
#include "client/cli/transfer.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/shell.h"

#define QUOTED_MAX 512		/* a name of some 120 bytes, and all quotes that a shell may need */

/* ---- options ---- */

static int add_exclude(struct fm_dir_args *dir, struct fm_args *args)
{
	size_t len = strlen(args->value);

	if (len == 0 || len > FMOVE_EXCLUDE_MAX)
		return fm_usage(args, "--exclude: a pattern has 1 to %d bytes", FMOVE_EXCLUDE_MAX);
	if (dir->count == FMOVE_EXCLUDES_MAX)
		return fm_usage(args, "--exclude: no more than %d patterns", FMOVE_EXCLUDES_MAX);
	dir->excludes[dir->count++] = args->value;
	return 0;
}

int fm_dir_option(struct fm_dir_args *dir, struct fm_args *args, int key)
{
	switch ((enum fm_dir_key)key) {
	case FM_DIR_RECURSIVE:
		dir->is_recursive = true;
		break;
	case FM_DIR_EXCLUDE:
		return add_exclude(dir, args);
	case FM_DIR_DRY_RUN:
		dir->tree.is_dry_run = true;
		break;
	case FM_DIR_CHECKSUM:
		dir->tree.has_checksums = true;
		dir->tree.is_update = true;
		break;
	case FM_DIR_UPDATE:
		dir->tree.is_update = true;
		break;
	case FM_DIR_COPY_LINKS:
		dir->tree.follows_links = true;
		break;
	case FM_DIR_DELETE:
		dir->tree.is_delete = true;
		break;
	case FM_DIR_VERBOSE:
		dir->is_verbose = true;
		break;
	case FM_DIR_REPLACE:
		dir->replaces = true;
		break;
	}
	return 0;
}

/* The first option that was given and needs -r; NULL: none. */
static const char *needs_recursive(const struct fm_dir_args *dir)
{
	const struct {
		bool is_given;
		const char *name;
	} options[] = {
		{ dir->count > 0, "--exclude" },
		{ dir->tree.has_checksums, "--checksum" },
		{ dir->tree.is_update, "--update" },
		{ dir->replaces, "--replace" },
		{ dir->tree.follows_links, "--copy-links (-L)" },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].is_given)
			return options[i].name;
	return NULL;
}

int fm_dir_check(struct fm_dir_args *dir, struct fm_args *args)
{
	const char *option;

	dir->tree.excludes = dir->count > 0 ? dir->excludes : NULL;
	if (dir->tree.is_delete && !dir->tree.is_update)
		return fm_usage(
			args,
			"--delete needs --update: of what only the target has, it removes all");
	if (dir->replaces && dir->tree.is_update)
		return fm_usage(args, "--replace and --update exclude each other: one removes what "
				      "is there, the other merges into it");
	if (dir->is_recursive)
		return 0;
	option = needs_recursive(dir);
	return option ? fm_usage(args, "%s needs --recursive (-r): it is about directories", option)
		      : 0;
}

/* ---- both ways ---- */

struct naming {
	struct fm_transfer *t;
	const struct fm_outcome *one;
};

static void named(void *ctx, enum fmove_change change, const char *path)
{
	struct naming *n = ctx;

	fm_transfer_end(n->t);		/* no line of progress between them */
	n->t->progress.is_on = false;
	fm_outcomes_name(&n->t->outcomes, n->one, change, path);
}

void fm_dir_name(struct fm_transfer *t, const struct fm_outcome *one)
{
	static struct naming n;		/* one transfer at a time */

	if (!t->dir.is_verbose)
		return;
	n = (struct naming){ t, one };
	t->dir.tree.named = named;
	t->dir.tree.ctx = &n;
}

void fm_dir_allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	/* as many as there were will do for most trees */
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

void fm_dir_outcome(const struct fm_dir_args *dir, struct fm_outcome *one)
{
	one->is_dry = dir->tree.is_dry_run;
	one->is_update = dir->tree.is_update;
	if (one->is_dry) {	/* what is there stays as it is: the others would come */
		one->result.files += one->result.wanted_files;
		one->result.bytes += one->result.wanted_bytes;
	}
}

static int transfer_over(struct fm_transfer *t, int ret, const struct fmove_error *why,
			 const char *label, struct fm_outcome *one)
{
	fm_transfer_end(t);
	fm_dir_outcome(&t->dir, one);
	if (ret == 0)
		return 0;
	return fm_transfer_fail(one, label, why);
}

int fm_dir_check_background(const struct fm_transfer *t, struct fm_err *err)
{
	return !t->is_detached || t->opts.retry_ms == 0
		       ? 0
		       : fm_err_set(err, -EINVAL,
				    "a directory of yours that is left to the background is tried "
				    "once: leave out --retry, and let "
				    "fmove resume go on with it, or leave out --detach");
}

/* ---- put ---- */

int fm_dir_refuse(const struct fm_transfer *t, const char *source, struct fm_outcome *one)
{
	const char *verb = t->outcomes.verb, *group = t->opts.group;
	char quoted[2][QUOTED_MAX];
	const char *from = fm_shell_quote(source, quoted[0], QUOTED_MAX);
	const char *to = fm_shell_quote(one->target, quoted[1], QUOTED_MAX);

	if (!*from || !*to)	/* the line would be too long, or unreadable */
		return fm_err_set(&one->err, -EISDIR,
				  "%.200s is a directory: %s -r moves it with all that is in it",
				  source, verb);
	return fm_err_set(&one->err, -EISDIR,
			  "%s is a directory, which moves with all that is in it by: fmove %s "
			  "%s%s%s-r %s %s",
			  source, verb, group ? "--group " : "", group ? group : "",
			  group ? " " : "", from, to);
}

struct dir_put {
	int fd;			/* -1: the label is the path of it */
	const char *label;
	const struct fm_name *target;
};

static int put_now(struct fm_transfer *t, void *ctx, struct fm_outcome *one)
{
	const struct dir_put *put = ctx;
	struct fmove_name parts = fm_name_parts(put->target);
	int ret, fd = put->fd >= 0 ? put->fd : open(put->label, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fmove_error why;

	if (fd < 0)
		return fm_err_sys(&one->err, -errno, "%s", put->label);
	fm_dir_allow_descriptors();
	fm_transfer_set_kind(t, true);
	fm_transfer_begin(t, put->label);
	one->result.struct_size = sizeof(one->result);
	fm_dir_name(t, one);
	ret = fmove_put_tree(t->conn, fd, &parts, &t->opts, &t->dir.tree, &one->result, &why);
	if (put->fd < 0)
		(void)close(fd);	/* only read */
	return transfer_over(t, ret, &why, put->label, one);
}

int fm_dir_put(struct fm_transfer *t, int fd, const char *label, const struct fm_name *target,
	       struct fm_outcome *one)
{
	struct dir_put put = { fd, label, target };

	if (!t->is_detached)
		return put_now(t, &put, one);
	if (fm_dir_check_background(t, &one->err) < 0)
		return one->err.code;
	put.fd = -1;
	return fm_background_run(t, label, false, put_now, &put, one);
}

/* ---- get ---- */

int fm_dir_is_source(struct fm_transfer *t, const struct fm_name *source, struct fmove_entry *entry,
		     struct fm_outcome *one)
{
	struct fmove_error why;

	if (fm_transfer_stat(t, source, entry, &why) < 0) {
		one->is_told = true;
		(void)fm_transfer_error(&one->err, &why);
		return fm_err_wrap(&one->err, "%s", one->source);
	}
	return entry->type == FMOVE_DIRECTORY;
}

/* The path that dst means. It has no slash at its end. */
static int dst_resolve(const char *dst, const struct fm_name *source,
		       char out[static FM_DIR_DST_MAX], struct fm_err *err)
{
	size_t len = strlen(dst);
	const char *last = fm_name_last(dst), *name = fm_name_last(source->path);
	bool is_into = !*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0;

	if (len == 0)
		return fm_err_set(err, -ENOENT, "the name of the target is empty");
	if (len > FMOVE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "the target's path of %zu bytes is longer than %d", len,
				  FMOVE_PATH_MAX);
	if (is_into && !*name)
		return fm_err_set(
			err, -EISDIR,
			"a whole store has no name of its own: say which directory to make of it");
	/* fits: twice the longest path */
	(void)snprintf(out, FM_DIR_DST_MAX, "%s%s%s", dst, is_into && *last ? "/" : "",
		       is_into ? name : "");
	return 0;
}

struct dir_get {
	const struct fm_name *source;
	const char *path;
};

/*
 * Reports what is visibly wrong with the target, with its path as it was given. The library, which
 * finds the rest, knows only its last name.
 */
static int check_target(const struct fm_transfer *t, int parent, const char *path,
			struct fm_err *err)
{
	const char *last = fm_name_last(path);
	struct stat st;

	if (fstatat(parent, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		return fm_part_refuse_link(
			parent, last, path,
			"a directory does not replace it: say where it leads, or remove it", err);
	if (!S_ISDIR(st.st_mode) || t->dir.replaces || t->dir.tree.is_update)
		return 0;
	return fm_err_set(err, -EEXIST,
			  "directory %s exists; --update merges into it, --replace puts this one "
			  "in its place, and a / at "
			  "the end of the name puts it inside",
			  path);
}

static int get_now(struct fm_transfer *t, void *ctx, struct fm_outcome *one)
{
	const struct dir_get *get = ctx;
	struct fmove_name parts = fm_name_parts(get->source);
	int ret, parent = fm_part_open_dir(get->path, &one->err);
	struct fmove_error why;

	if (parent < 0)
		return parent;
	ret = check_target(t, parent, get->path, &one->err);
	if (ret < 0) {
		(void)close(parent);	/* only read */
		return ret;
	}
	fm_dir_allow_descriptors();
	fm_transfer_set_kind(t, true);
	fm_transfer_begin(t, one->source);
	one->result.struct_size = sizeof(one->result);
	fm_dir_name(t, one);
	ret = fmove_get_tree(t->conn, parent, fm_name_last(get->path), &parts, &t->opts,
			     &t->dir.tree, &one->result, &why);
	(void)close(parent);	/* only read */
	return transfer_over(t, ret, &why, one->source, one);
}

/*
 * Gets a directory in the background. That the target exists is reported here, and not by the job.
 */
static int get_later(struct fm_transfer *t, struct dir_get *get, struct fm_outcome *one)
{
	struct stat st;

	if (!t->dir.replaces && !t->dir.tree.is_update && lstat(get->path, &st) == 0)
		return fm_err_set(&one->err, -EEXIST,
				  "%s exists; --update merges into it, --replace puts this one in "
				  "its place, and a / at the end "
				  "of the name puts it inside",
				  get->path);
	return fm_background_run(t, get->path, true, get_now, get, one);
}

int fm_dir_get(struct fm_transfer *t, const struct fm_name *source, const char *dst,
	       char path[static FM_DIR_DST_MAX], struct fm_outcome *one)
{
	struct dir_get get = { source, path };
	int ret = 0;

	if (strcmp(dst, "-") == 0)
		ret = fm_err_set(&one->err, -EISDIR,
				 "%s is a directory, which cannot go to standard output",
				 one->source);
	if (ret == 0)
		ret = dst_resolve(dst, source, path, &one->err);
	if (ret < 0)
		return ret;
	one->target = path;
	return t->is_detached ? get_later(t, &get, one) : get_now(t, &get, one);
}

/* ---- a file ---- */

struct fmove_entry fm_dir_entry(const struct stat *st)
{
	struct fmove_entry e = {.type = S_ISREG(st->st_mode)   ? FMOVE_FILE
					: S_ISDIR(st->st_mode) ? FMOVE_DIRECTORY
							       : FMOVE_OTHER};

	e.size = (uint64_t)st->st_size;
	e.mode = st->st_mode & 0777;
	e.mtime_ns = fm_time_ns(&st->st_mtim);
	return e;
}

int fm_dir_file(const struct fm_dir_args *dir, const struct fmove_entry *file,
		const struct fmove_entry *there, struct fm_outcome *one)
{
	bool is_same = dir->tree.is_update && !dir->tree.has_checksums && there &&
		       there->type == FMOVE_FILE && there->size == file->size &&
		       there->mtime_ns == file->mtime_ns;

	if (!is_same && !dir->tree.is_dry_run)
		return 0;
	one->is_dry = dir->tree.is_dry_run;
	one->result = (struct fmove_result){ .is_tree = true, .files = 1, .bytes = file->size };
	one->result.is_checked = true;
	if (is_same) {
		one->result.reused_files = 1;
		one->result.reused_bytes = file->size;
		one->is_same = true;
	} else {
		one->result.wanted_files = 1;
		one->result.wanted_bytes = file->size;
		one->result.added = !there;
		one->result.replaced = there != NULL;
	}
	return 1;
}
