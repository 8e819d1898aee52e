/* SPDX-License-Identifier: MIT */
/*
 * libfmove_tree - trees in libfmove: the directory is read or written in this process, by threads
 * that live as long as the call, for the daemon, which asks over a channel (mover/tree/channel.h).
 */
#include "client/lib/libfmove_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/lib/connections.h"
#include "client/lib/fail.h"
#include "client/lib/former.h"
#include "client/lib/ops.h"
#include "client/lib/sized.h"
#include "client/lib/tries.h"
#include "mover/base/exit_code.h"
#include "mover/base/err.h"
#include "mover/tree/channel.h"
#include "mover/tree/measure.h"
#include "mover/tree/names.h"
#include "mover/tree/staging.h"
#include "mover/tree/stash.h"
#include "mover/tree/tree.h"

/* who asks for a job to be left alone does not wait longer to hear whether there is room */
#define LOOK_MS 10000

static int fail_as(struct fmove_error *err, const struct fm_err *why)
{
	return fm_lib_fail(err, why->code, "%s", why->text);
}

/* Copies the descriptor, so that the caller keeps his own. */
static int dup_dir(int fd, struct fm_err *err)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? fm_err_sys(err, -errno, "the descriptor of the directory") : copy;
}

static void passed(void *ctx)
{
	fm_channel_passed(ctx);
}

/* Whether a function of the caller has come back in a child: the transfer is its parent's. */
static bool is_forked(const struct fm_lib_tree *t)
{
	return t->forks != fm_forks();
}

/* Tells the caller what our sink changed. Its note says what could not be kept. */
static void tell_names(struct fm_tree *tree, const struct fm_lib_tree *t,
		       struct fmove_result *result)
{
	const struct fmove_tree_options *o = t->tree;
	char path[FMOVE_PATH_MAX + 1];
	struct fm_tree_names page;
	struct fm_tree_name name;
	struct fm_err why;
	uint64_t at = 0;

	while (!is_forked(t) && tree->ops->names(tree, &at, &page, &why) == 0 && page.len > 0) {
		size_t pos = 0;

		while (!is_forked(t) && fm_tree_names_next(page.at, page.len, &pos, &name) > 0) {
			memcpy(path, name.path, name.len);
			path[name.len] = '\0';
			o->named(o->ctx, (enum fmove_change)name.change, path);
		}
	}
	if (tree->note)
		/* cut if it is too long */
		(void)snprintf(result->note, sizeof(result->note), "%s", tree->note);
}

/* Serve the tree until the daemon says how it ended. */
static int serve(struct fmove *c, struct fm_lib_tree *t, struct fm_tree *tree,
		 struct fmove_result *result, struct fm_channel_end *end, struct fmove_error *err)
{
	struct fm_channel *channel;
	struct fm_err why;
	int ret;

	*end = (struct fm_channel_end){ .is_begun = false };
	if (fm_channel_new(tree, &channel, &why) < 0)
		return fail_as(err, &why);
	t->fds = fm_channel_to_pass(channel, &t->fds_count);
	t->passed = passed;
	t->ctx = channel;
	ret = fm_lib_tree_do(c, t, result, err);
	if (ret == 0 && !t->is_put && t->tree->named && !t->opts->is_attended)
		tell_names(tree, t, result);	/* before the tree is stopped */
	*end = fm_channel_free(channel);
	return end->is_forked ? fm_lib_fail_forked(err) : ret;
}

/* ---- as often as it takes ---- */

/* Of one of the requests of a try, which have the timeout together. */
static struct fm_lib_turns turns_of(uint64_t since_ms)
{
	return (struct fm_lib_turns){ .since_ms = since_ms };
}

struct kind {
	bool is_put;
	int (*once)(struct fmove *c, int dir_fd, const char *as, struct fm_lib_tree *t,
		    struct fmove_result *result, struct fmove_error *err);
	int dir_fd;
	const char *as;
};

/*
 * Runs tries until one succeeds or time is up. Each try compares everything anew, and what earlier
 * tries left is used.
 */
static int try_tree(struct fmove *c, const struct kind *kind, const struct fm_lib_tree *what,
		    struct fmove_result *result, struct fmove_error *err)
{
	struct fm_tries tries;
	struct fm_lib_tree t;
	int ret;

	fm_tries_begin(&tries, what->opts);
	t.is_again = false;
	do {
		bool is_again = t.is_again;

		t = *what;
		t.opts = &tries.opts;
		t.is_again = is_again;
		t.turns = turns_of(fm_lib_now_ms());
		ret = kind->once(c, kind->dir_fd, kind->as, &t, result, err);
		t.is_again = true;
	} while (ret < 0 && !t.turns.is_over && fm_tries_again(&tries, c, err));
	if (ret == 0)
		return 0;
	fm_lib_about(err, what->name);
	return err->code;
}

/* The whole call. */
static int run(struct fmove *c, const struct kind *kind, const struct fmove_name *name,
	       const struct fmove_options *opts, const struct fmove_tree_options *tree,
	       struct fmove_result *result, struct fmove_error *err)
{
	struct fm_sized_call call;
	const struct fm_lib_tree t = {
		.is_put = kind->is_put,
		.name = name,
		.opts = &call.opts,
		.tree = &call.tree,
		.forks = fm_forks()};
	struct fmove_error own;
	struct fm_err why;
	int ret;

	err = err ? err : &own;
	ret = fm_sized_call_begin(&call, opts, result, err);
	if (ret == 0)
		ret = fm_sized_take(&call.tree, sizeof(call.tree), tree, "fmove_tree_options", err);
	if (ret == 0)
		ret = try_tree(c, kind, &t, &call.result, err);
	if (ret == 0 && !t.is_put && !call.tree.is_dry_run)
		/* What cannot go a later one tries again. */
		(void)fm_former_remove(kind->dir_fd, FM_FORMER_KEEP_NS, false, NULL, NULL, &why);
	return fm_sized_call_end(&call, ret, result);
}

static int open_source(int dir_fd, const struct fmove_tree_options *o, struct fm_lib_tree *t,
		       struct fm_tree **out, struct fm_err *err)
{
	struct fm_tree_source_opts source = {.excludes = o->excludes,
					     .follows_links = o->follows_links,
					     .skips = fm_staging_is_ours};
	struct stat st;

	if (fstat(dir_fd, &st) < 0)
		return fm_err_sys(err, -errno, "the directory");
	if (!S_ISDIR(st.st_mode))
		return fm_err_set(err, -ENOTDIR, "it is no directory");
	/* Numbers of the API are below 2^63; what is left of them tells one directory from another
	 * as well. */
	t->dev = st.st_dev & (uint64_t)INT64_MAX;
	t->ino = st.st_ino & (uint64_t)INT64_MAX;
	source.root = dup_dir(dir_fd, err);
	return source.root < 0 ? source.root : fm_tree_source_new(&source, out, err);
}

static int put_tree_once(struct fmove *c, int dir_fd, struct fm_lib_tree *t,
			 struct fmove_result *result, struct fmove_error *err)
{
	struct fm_tree *tree;
	struct fm_err why;
	struct fm_channel_end end;
	int ret;

	if (is_forked(t))
		return fm_lib_fail_forked(err);
	if (open_source(dir_fd, t->tree, t, &tree, &why) < 0)
		return fail_as(err, &why);
	tree->is_compared = t->opts->hold_fd > 0;
	t->source = tree;
	ret = serve(c, t, tree, result, &end, err);
	t->source = NULL;
	if (end.is_forked)
		return ret;
	result->leaving_links = atomic_load(&tree->leaving_links);
	tree->ops->close(tree);
	return ret;
}

/*
 * Puts a tree; asks again if there was no place for it. The daemon closes what it was passed when
 * it refuses, so each request makes its own tree and sockets.
 */
static int put_tree(struct fmove *c, int dir_fd, struct fm_lib_tree *t, struct fmove_result *result,
		    struct fmove_error *err)
{
	int ret;

	do {
		ret = put_tree_once(c, dir_fd, t, result, err);
	} while (ret < 0 && fm_lib_asks_again(c, &t->turns, err));
	return ret < 0 ? err->code : ret;
}

static bool is_update(const struct fmove_tree_options *o)
{
	return o->is_update || o->has_checksums;
}

/* The same as a dry run, of which nobody is told. */
struct dry {
	struct fmove_options opts;
	struct fmove_tree_options tree;
	struct fm_lib_tree t;
};

static void dry_init(struct dry *d, const struct fm_lib_tree *t)
{
	d->opts = *t->opts;
	d->opts.is_attended = d->opts.is_readback = false;
	d->opts.again = NULL;
	d->opts.accepted = NULL;
	d->opts.prepared = NULL;
	d->opts.prepared_as = NULL;
	d->opts.hold_fd = 0;
	d->opts.progress_ms = 0;
	d->tree = *t->tree;
	d->tree.is_dry_run = true;
	d->tree.named = NULL;
	d->t = (struct fm_lib_tree){.is_put = t->is_put,
				    .name = t->name,
				    .opts = &d->opts,
				    .tree = &d->tree,
				    .turns = turns_of(t->turns.since_ms),
				    .forks = t->forks};
}

/* The bytes that will come, at least 1: 0 would mean that this is not known. */
static uint64_t wanted(const struct fmove_result *r)
{
	return r->wanted_bytes > 0 ? r->wanted_bytes : 1;
}

static bool take_free(void *ctx, const struct fmove_space *s)
{
	*(uint64_t *)ctx = s->free > s->promised ? s->free - s->promised : 0;
	return false;
}

/* Whoever ends the call does not wait for all of a directory to be looked at. */
static bool is_ended(void *ctx)
{
	const struct fm_lib_tree *t = ctx;
	struct pollfd fds[] = {{t->opts->cancel_fd > 0 ? t->opts->cancel_fd : -1, POLLIN, 0},
			       {fm_op_cancel_fd(), POLLIN, 0}};

	return poll(fds, 2, 0) > 0;
}

/* The sum of the files of a directory. Of a call that is ended it says nothing. */
static uint64_t whole_of(int dir_fd, struct fm_lib_tree *t)
{
	const struct fm_measure_opts opts = {.excludes = t->tree->excludes,
					     .skips = fm_staging_is_ours,
					     .is_ended = is_ended,
					     .ctx = t};

	return fm_measure(dir_fd, &opts);
}

/*
 * All that the file system of a directory holds: few trees on it are larger, such as one with
 * something mounted in it. UINT64_MAX: it does not tell.
 */
static uint64_t held_around(int dir_fd)
{
	struct statvfs st;

	if (fstatvfs(dir_fd, &st) < 0 || st.f_blocks <= st.f_bfree)
		return UINT64_MAX;
	return (uint64_t)(st.f_blocks - st.f_bfree) * st.f_frsize;
}

/*
 * Whether the far store may be without room for the whole. The files are looked at for that only if
 * it does not have room for all that is around them.
 */
static bool is_short(struct fmove *c, struct fm_lib_tree *t, int dir_fd)
{
	uint64_t free_bytes = UINT64_MAX;
	struct fmove_error err;

	return fmove_space(c, t->name, take_free, &free_bytes, &err) == 0 &&
	       held_around(dir_fd) > free_bytes && whole_of(dir_fd, t) > free_bytes;
}

/*
 * Finds out with a dry run how many bytes an update will send, and puts it into t->bytes. An error
 * is the caller's.
 */
static int put_dry(struct fmove *c, int dir_fd, struct fm_lib_tree *t, struct fmove_result *result,
		   struct fmove_error *err)
{
	struct dry dry;
	int ret;

	dry_init(&dry, t);
	ret = put_tree(c, dir_fd, &dry.t, result, err);
	if (ret == 0)
		t->bytes = wanted(result);
	return ret;
}

/*
 * Finds out how much will come, so that the far end can refuse it before the first byte. For an
 * update only a dry run can tell. It is left out where the whole would fit, but not for a job that
 * is listed, which must not fail for want of the number. -EPERM: something that only the target has
 * cannot be kept. The transfer reports any other error.
 */
static int announce(struct fmove *c, int dir_fd, struct fm_lib_tree *t, struct fmove_result *result,
		    struct fmove_error *err)
{
	bool is_listed = t->opts->is_attended;

	if (!is_update(t->tree))
		t->bytes = whole_of(dir_fd, t);
	else if ((is_listed || is_short(c, t, dir_fd)) &&
		 put_dry(c, dir_fd, t, result, err) == -EPERM)
		return -EPERM;
	return 0;
}

/*
 * Whether an update that removes the rest would change nothing: 1, 0, or an error that may pass
 * until the next try. What else is wrong the put itself says.
 */
static int is_there(struct fmove *c, int dir_fd, const struct fm_lib_tree *t, bool has_checksums,
		    struct fmove_result *result, struct fmove_error *err)
{
	struct dry dry;
	int ret;

	dry_init(&dry, t);
	dry.tree.is_update = dry.tree.is_delete = true;
	dry.tree.has_checksums = has_checksums;
	ret = put_tree(c, dir_fd, &dry.t, result, err);
	if (ret < 0)
		return fm_errno_may_pass(ret) ? ret : 0;
	return result->added + result->replaced + result->removed + result->wanted_files == 0;
}

/*
 * The answer to an earlier try was lost: what it published is not to be replaced once more, nor to
 * be in the way of itself. Another version can have the same sizes and times, and be what was to be
 * replaced: the content decides. As is_there(): if the far end cannot be asked, nothing is put.
 */
static int is_published(struct fmove *c, int dir_fd, const struct fm_lib_tree *t,
			struct fmove_result *result, struct fmove_error *err)
{
	int ret = is_there(c, dir_fd, t, false, result, err);

	if (ret > 0)
		ret = is_there(c, dir_fd, t, true, result, err);
	if (ret > 0)
		(void)snprintf(result->note, sizeof(result->note),
			       "an earlier try, of which no answer came, had published it");
	return ret;
}

static int put_tree_announced(struct fmove *c, int dir_fd, const char *as, struct fm_lib_tree *t,
			      struct fmove_result *result, struct fmove_error *err)
{
	int ret = 0;

	(void)as;
	if (t->tree->is_dry_run)
		return put_tree(c, dir_fd, t, result, err);
	if (t->is_again && !is_update(t->tree))
		ret = is_published(c, dir_fd, t, result, err);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	ret = announce(c, dir_fd, t, result, err);
	if (ret == 0)
		ret = put_tree(c, dir_fd, t, result, err);
	if (ret != -ENOSPC || !is_update(t->tree) || t->bytes > 0)
		return ret;
	/* The far end may be unable to keep what only it has, and wants to know. */
	ret = put_dry(c, dir_fd, t, result, err);
	if (ret < 0)
		return ret;
	t->turns = turns_of(t->turns.since_ms);
	return put_tree(c, dir_fd, t, result, err);
}

int fmove_put_tree(struct fmove *c, int dir_fd, const struct fmove_name *name,
		   const struct fmove_options *opts, const struct fmove_tree_options *tree,
		   struct fmove_result *result, struct fmove_error *err)
{
	const struct kind put = { true, put_tree_announced, dir_fd, NULL };

	return run(c, &put, name, opts, tree, result, err);
}

/* The version that was replaced. */
struct aside {
	const char *as;
	char stash[FM_STAGING_NAME_LEN + 1];	/* "": there was none */
	char path[PATH_MAX];			/* of the directory that it is in */
};

static int take_old(void *ctx, int dir, const char *name, uint64_t ino)
{
	struct aside *a = ctx;
	const struct fm_stash_what what = { .dir = dir, .from = name, .ino = ino, .name = a->as };
	int ret = fm_stash_keep(&what, dir, FM_STAGING_OLD, a->stash);

	if (ret < 0)
		a->stash[0] = '\0';
	return ret;
}

static void tell_aside(const struct aside *a, struct fmove_result *result)
{
	if (!a->stash[0])
		return;
	/* fits */
	(void)snprintf(result->former, sizeof(result->former), "%s/%s", a->stash, a->as);
	result->former_until_ns = fm_former_until_ns();
}

static int find_other(void *ctx, const char *as, int held, int *fd, struct fm_err *err)
{
	(void)as;
	return fm_former_find_other(((const struct aside *)ctx)->path, held, fd, err);
}

static void make_room(void *ctx, int parent, uint64_t bytes)
{
	(void)ctx;
	(void)fm_former_make_room(parent, bytes);	/* best effort */
}

static int open_sink(int parent_fd, const struct fm_lib_tree *t, struct aside *aside,
		     struct fm_tree **out, struct fm_err *err)
{
	const struct fmove_tree_options *o = t->tree;
	struct fm_tree_sink_opts sink = { .name = aside->as, .path = aside->as };

	fm_former_note_path(parent_fd, aside->path);
	sink.take_old = take_old;
	sink.find_other = find_other;
	sink.make_room = make_room;
	sink.ctx = aside;
	sink.source.size = t->bytes;
	sink.is_update = is_update(o);
	sink.has_checksums = o->has_checksums;
	sink.is_dry = o->is_dry_run;
	sink.is_look = t->is_look;
	sink.is_delete = o->is_delete;
	sink.has_names = o->named;
	sink.may_replace = t->opts->may_replace;
	sink.has_owners = geteuid() == 0;
	sink.is_synced = t->opts->durability != FMOVE_MEMORY;
	sink.parent = dup_dir(parent_fd, err);
	return sink.parent < 0 ? sink.parent : fm_tree_sink_new(&sink, out, err);
}

/* Whether an earlier try left something to go on with. */
static bool has_stage(int parent_fd, const char *as)
{
	char name[FM_STAGING_NAME_LEN + 1];
	struct stat st;

	fm_staging_name(FM_STAGING_TREE, as, name);
	return fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The tree has its name, but the daemon reported a failure: it did not hear of the end. */
static void say_published(const char *as, struct fmove_error *err)
{
	const struct fmove_error why = *err;

	(void)snprintf(err->text, sizeof(err->text),
		       "%s is complete and has its name, but fmoved did not hear of it: %.400s", as,
		       why.text);
}

static int get_tree_once(struct fmove *c, int parent_fd, const char *as, struct fm_lib_tree *t,
			 struct fmove_result *result, struct fmove_error *err)
{
	struct fm_tree *tree;
	struct fm_err why;
	struct fm_channel_end end;
	struct aside aside = { .as = as };
	int ret;

	if (is_forked(t))
		return fm_lib_fail_forked(err);
	if (open_sink(parent_fd, t, &aside, &tree, &why) < 0)
		return fail_as(err, &why);
	ret = serve(c, t, tree, result, &end, err);
	if (end.is_forked)
		return ret;
	result->leaving_links = atomic_load(&tree->leaving_links);
	if (ret == 0)
		tell_aside(&aside, result);
	else
		err->is_kept = err->is_kept && end.is_begun && !end.is_published;
	if (end.is_published)
		/* what is saved there from now on nobody may replace once more */
		t->turns.is_over = true;
	if (ret < 0 && end.is_published)
		say_published(as, err);
	if (ret < 0 && err->is_kept)
		tree->ops->keep(tree);
	t->is_unmeasured = tree->is_unmeasured;
	tree->ops->close(tree);		/* discards what is neither published nor kept */
	if (ret < 0 && err->is_kept)	/* what was refused before the first byte left nothing */
		err->is_kept = has_stage(parent_fd, as);
	return ret;
}

static int get_tree(struct fmove *c, int parent_fd, const char *as, struct fm_lib_tree *t,
		    struct fmove_result *result, struct fmove_error *err)
{
	int ret;

	do {
		ret = get_tree_once(c, parent_fd, as, t, result, err);
	} while (ret < 0 && fm_lib_asks_again(c, &t->turns, err));
	return ret < 0 ? err->code : ret;
}

/* Gets an update after a dry run told how many bytes will come. An error of the dry run ends it. */
static int get_measured(struct fmove *c, int parent_fd, const char *as, struct fm_lib_tree *t,
			struct fmove_result *result, struct fmove_error *err)
{
	struct dry dry;
	int ret;

	dry_init(&dry, t);
	ret = get_tree(c, parent_fd, as, &dry.t, result, err);
	if (ret < 0)
		return ret;
	t->bytes = wanted(result);
	t->turns = turns_of(t->turns.since_ms);
	return get_tree(c, parent_fd, as, t, result, err);
}

/*
 * Asks the sink whether it has room for `bytes` (0: for the whole), before there is a job. Nothing
 * is moved.
 */
static int look(struct fmove *c, int parent_fd, const char *as, struct fm_lib_tree *t,
		uint64_t bytes, struct fmove_error *err)
{
	struct fmove_result result;
	struct dry dry;
	int ret;

	dry_init(&dry, t);
	dry.opts.timeout_ms = LOOK_MS;
	dry.tree.is_dry_run = false;
	dry.t.bytes = bytes;
	dry.t.is_look = true;
	dry.t.turns = (struct fm_lib_turns){ .is_over = true };
	ret = get_tree(c, parent_fd, as, &dry.t, &result, err);
	t->is_unmeasured = dry.t.is_unmeasured;
	return ret;
}

/*
 * Looks for room before there is a job: a listed job should not fail because the whole of an update
 * does not fit, if what will come does. -ENOSPC: that does not fit either. -EPERM: something that
 * only the target has cannot be kept. The transfer reports any other error.
 */
static int look_first(struct fmove *c, int parent_fd, const char *as, struct fm_lib_tree *t,
		      struct fmove_error *err)
{
	struct fmove_result result;
	struct dry dry;

	t->bytes = 1;
	if (look(c, parent_fd, as, t, 0, err) != -ENOSPC || !t->is_unmeasured)
		return 0;
	dry_init(&dry, t);
	if (get_tree(c, parent_fd, as, &dry.t, &result, err) < 0)
		return err->code == -EPERM ? -EPERM : 0;
	t->bytes = wanted(&result);
	return look(c, parent_fd, as, t, t->bytes, err) == -ENOSPC ? -ENOSPC : 0;
}

static int get_tree_as(struct fmove *c, int parent_fd, const char *as, struct fm_lib_tree *t,
		       struct fmove_result *result, struct fmove_error *err)
{
	struct fm_err why;
	int ret;

	if (!as[0] || strchr(as, '/') || strcmp(as, ".") == 0 || strcmp(as, "..") == 0) {
		(void)fm_err_set(&why, -EINVAL, "\"%.64s\" is no name that a directory could get",
				 as);
		return fail_as(err, &why);
	}
	if (is_update(t->tree) && !t->tree->is_dry_run && t->opts->is_attended &&
	    look_first(c, parent_fd, as, t, err) < 0)
		return err->code;
	ret = get_tree(c, parent_fd, as, t, result, err);
	return ret == -ENOSPC && t->is_unmeasured ? get_measured(c, parent_fd, as, t, result, err)
						  : ret;
}

int fmove_get_tree(struct fmove *c, int parent_fd, const char *as, const struct fmove_name *name,
		   const struct fmove_options *opts, const struct fmove_tree_options *tree,
		   struct fmove_result *result, struct fmove_error *err)
{
	const struct kind get = { false, get_tree_as, parent_fd, as };

	return run(c, &get, name, opts, tree, result, err);
}
