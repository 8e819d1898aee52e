/* SPDX-License-Identifier: MIT */
/*
 * store_tree - directories of a store as a whole, that are sent or that come.
 *
 * The path is checked, and the caller may do it (store_file.c). A tree that comes is made beside
 * its final name by tree/tree_sink.c; here is what makes it this store's: where it goes, quota,
 * owner, how long what it replaces is kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/store/file_source.h"
#include "mover/store/group.h"
#include "mover/store/promise.h"
#include "mover/store/room.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/tree_file.h"
#include "mover/tree/measure.h"

#define MEASURE_NS (10 * FM_NS_PER_S)	/* the far end waits for it */
#define TRIES_MAX 16			/* each time somebody looks, or it moves */

static void source_closed(void *ctx)
{
	fm_store_dir_put(ctx);
}

/*
 * Makes a file of the tree's end. It keeps the store until closed(ctx), which is called after an
 * error too.
 */
static int wrap(const struct fm_store_dir *dir, const struct fm_who *who, struct fm_tree *tree,
		void (*closed)(void *ctx), void (*failed)(void *ctx, struct fm_err *err), void *ctx,
		struct fm_file **out, struct fm_err *err)
{
	const struct fm_tree_file_opts opts = {.tree = tree,
					       .threads = fm_tree_file_threads(),
					       .closed = closed,
					       .failed = failed,
					       .ctx = ctx,
					       .who = who->peer ? fm_share_name(who->peer)
								: fm_share_user(who->uid)};
	int ret = fm_tree_file_new(&opts, out, err);

	if (ret < 0)
		closed(ctx);
	else
		(*out)->may_stand = dir->store.may_stand;
	return ret;
}

/* -------------------------------------------------------------------------------------- sources */

static void hold(int fd)
{
	static const struct timespec pause = {.tv_nsec = 1000000};

	/* Who looks has its own lock for a moment. Where there are no locks nothing is held. */
	for (int i = 0; i < TRIES_MAX; i++) {
		if (flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
			return;
		(void)nanosleep(&pause, NULL);
	}
}

/* Whether the path leads to the open directory. */
static bool is_at(int root, const char *path, int fd)
{
	int now = fm_sys_open_beneath(root, path[0] ? path : ".", O_PATH | O_DIRECTORY);
	struct stat by_path, by_fd;
	bool is_same;

	if (now < 0)
		return false;
	is_same = fstat(now, &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
		  by_path.st_ino == by_fd.st_ino && by_path.st_dev == by_fd.st_dev;
	close(now);
	return is_same;
}

/*
 * Opens a directory that is read, and holds it: no rotation (rotation.h) takes it away then. Before
 * it was held it may have been, so its path is followed once more.
 */
static int open_held(int root, const char *path, struct fm_err *err)
{
	int fd = -1;

	for (int i = 0; i < TRIES_MAX; i++) {
		fd = fm_path_open(root, path, O_RDONLY | O_DIRECTORY, err);
		if (fd < 0)
			return fd;
		hold(fd);
		if (is_at(root, path, fd) || i + 1 == TRIES_MAX)
			break;
		close(fd);
	}
	return fd;
}

int fm_tree_store_source(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
			 const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
			 struct fm_err *err)
{
	struct fm_tree_source_opts opts = {
		.excludes = excludes, .skips = fm_path_is_reserved, .has_digests = true};
	const struct fm_measure_opts measure = {
		.excludes = excludes, .skips = opts.skips, .limit_ns = MEASURE_NS};
	struct fm_tree *tree;
	struct stat st;
	int fd = open_held(dir->root, path, err), ret;

	if (fd < 0)
		return fd;
	ret = fm_sys_fstat(fd, &st);
	if (ret < 0) {
		close(fd);
		return fm_path_fail(err, ret, "look at", path);
	}
	fm_attr_from_stat(&st, -1, attr);
	attr->size = fm_measure(fd, &measure);
	attr->dev = st.st_dev;
	attr->ino = st.st_ino;
	opts.root = fd;
	fm_store_dir_get(dir);
	ret = fm_tree_source_new(&opts, &tree, err);
	if (ret < 0) {
		fm_store_dir_put(dir);
		return ret;
	}
	return wrap(dir, who, tree, source_closed, NULL, dir, out, err);
}

/* ---------------------------------------------------------------------------------------- sinks */

/* A tree that comes. */
struct incoming {
	struct fm_store_dir *dir;
	struct fm_path_make make;	/* directories on the way */
	bool is_durable;
	struct fm_promise promise;
	struct fm_group_use *member;	/* of a group; NULL: of none */
};

static struct incoming *incoming_new(struct fm_store_dir *dir, const struct fm_who *who,
				     struct fm_err *err)
{
	struct incoming *in = fm_sys_alloc(sizeof(*in));

	if (!in) {
		(void)fm_err_sys(err, -ENOMEM, "allocate the tree");
		return NULL;
	}
	in->dir = dir;
	fm_store_dir_get(dir);
	fm_promise_init(&in->promise, dir, who);
	return in;
}

static void sink_closed(void *ctx)
{
	struct incoming *in = ctx;

	fm_promise_end(&in->promise);
	fm_group_let_go(in->member);
	fm_store_dir_put(in->dir);
	free(in);
}

static void sink_failed(void *ctx, struct fm_err *err)
{
	fm_group_name_as_asked(((struct incoming *)ctx)->member, err);
}

static void tree_used(void *ctx, int64_t bytes)
{
	struct fm_store_dir *dir = ((struct incoming *)ctx)->dir;

	if (bytes >= 0)
		fm_usage_add(&dir->usage, (uint64_t)bytes);
	else
		fm_usage_sub(&dir->usage, (uint64_t)-bytes);
}

static int tree_take(void *ctx, uint64_t bytes, bool is_sent, struct fm_err *err)
{
	struct incoming *in = ctx;

	if (is_sent)
		return fm_promise_take(&in->promise, bytes, err);
	fm_room_ahead(in->dir, bytes);
	return fm_room_take(in->dir, bytes, err);
}

static int tree_promise(void *ctx, int parent, uint64_t bytes, struct fm_err *err)
{
	return fm_promise_ask(&((struct incoming *)ctx)->promise, parent, bytes, err);
}

static void tree_goes_on(void *ctx)
{
	fm_promise_touch(&((struct incoming *)ctx)->promise);
}

static uint64_t tree_room(void *ctx, int parent)
{
	return fm_room_left(((struct incoming *)ctx)->dir, parent);
}

/* Notes that what a tree replaced is beside it now, under that name. */
static void tree_put_aside(void *ctx, const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	char aside[FM_PATH_LEN_MAX + 1];
	int len = snprintf(aside, sizeof(aside), "%.*s%s", slash ? (int)(slash + 1 - path) : 0,
			   path, name);

	if (len > 0 && (size_t)len < sizeof(aside))
		fm_aside_add(((struct incoming *)ctx)->dir, aside);
}

static int tree_find_other(void *ctx, const char *path, int held, int *fd, struct fm_err *err)
{
	const struct incoming *in = ctx;
	int ret = fm_path_find_other(in->dir->root, path, held, &in->make, fd, err), synced;

	if (ret <= 0 || !in->is_durable)
		return ret;
	synced = fm_path_sync_up(in->dir->root, *fd, path, err);
	if (synced < 0)
		close(*fd);
	return synced < 0 ? synced : ret;
}

/* Checks that a tree may replace what has the final name now. */
static int check_target(const struct fm_path_parent *parent, const char *path, bool may_replace,
			struct fm_err *err)
{
	return fm_path_check_target(parent, path, may_replace, "a tree",
				    "--update merges into it, --replace puts this one in its "
				    "place, and a / behind that name puts it inside",
				    err);
}

static int sink_new(struct fm_store_dir *dir, const char *path, const struct fm_path_parent *parent,
		    const struct fm_who *who, const struct fm_create_tree *how,
		    struct fm_group_use *member, struct fm_file **out, struct fm_err *err)
{
	struct fm_tree_sink_opts opts = {
		.parent = parent->fd,
		.name = parent->name,
		.path = path,
		.may_replace = how->may_replace,
		.is_update = how->is_update,
		.is_delete = how->is_delete,
		.has_checksums = how->has_checksums,
		.has_any_mode = how->has_any_mode,
		.has_owners = dir->owner == FM_OWNER_CALLER,
		/* What the entries say was written by the caller's own process. */
		.has_one_owner = who->uid != 0,
		.uid = who->uid,
		.gid = who->gid,
		.is_for_group = dir->is_for_group,
		.is_synced = how->is_durable,
		.is_dry = how->is_dry,
		.is_measured = how->is_measured,
		.has_digests = how->has_digests,
		.has_manifest = true,
		.has_names = how->has_names,
		.grace_ns = dir->old_keep_ns,
		.source = how->source,
		.take = tree_take,
		.used = tree_used,
		.promise = tree_promise,
		.room = tree_room,
		.goes_on = tree_goes_on,
		.put_aside = tree_put_aside,
		.find_other = tree_find_other,
	};
	struct incoming *in;
	struct fm_tree *tree;
	int ret = check_target(parent, path, how->may_replace || how->is_update, err);

	in = ret == 0 ? incoming_new(dir, who, err) : NULL;
	if (!in) {
		close(parent->fd);
		return ret < 0 ? ret : -ENOMEM;
	}
	opts.source.size = how->bytes;
	opts.ctx = in;
	in->make = fm_store_dir_make(dir, who);
	in->is_durable = how->is_durable;
	ret = fm_tree_sink_new(&opts, &tree, err);
	if (ret < 0) {
		sink_closed(in);
		return ret;
	}
	ret = wrap(dir, who, tree, sink_closed, sink_failed, in, out, err);
	if (ret == 0)
		in->member = member;
	return ret;
}

/*
 * For a dry run where the directory does not exist, and must not be made: a name that never exists,
 * in the directory that the missing ones would be made in.
 */
static int open_nowhere(struct fm_store_dir *dir, const char *path, struct fm_path_parent *parent,
			struct fm_err *err)
{
	char above[FM_PATH_LEN_MAX + 1];
	int ret = -ENOENT;

	(void)snprintf(above, sizeof(above), "%s", path);
	while (ret == -ENOENT && strchr(above, '/')) {
		*strrchr(above, '/') = '\0';
		ret = fm_path_open_parent(dir->root, above, NULL, parent, err);
	}
	if (ret == 0)
		parent->name = "(a dry run: nothing is there)";
	return ret;
}

int fm_tree_store_sink(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		       const struct fm_create_tree *how, struct fm_group_use *member,
		       struct fm_file **out, struct fm_err *err)
{
	struct fm_path_make make = fm_store_dir_make(dir, who);
	struct fm_path_parent parent;
	int ret;

	if (path[0] == '\0')
		return fm_err_set(
			err, -EISDIR,
			"the store itself is not replaced by a tree; name a directory in it");
	ret = fm_path_open_parent(dir->root, path, how->is_dry ? NULL : &make, &parent, err);
	if (ret == -ENOENT && how->is_dry)
		ret = open_nowhere(dir, path, &parent, err);
	if (ret < 0)
		return ret;
	if (how->is_durable && !how->is_dry)
		ret = fm_path_sync_up(dir->root, parent.fd, path, err);
	if (ret < 0) {
		close(parent.fd);
		return ret;
	}
	return sink_new(dir, path, &parent, who, how, member, out, err);
}
