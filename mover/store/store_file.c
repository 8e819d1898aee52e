/* SPDX-License-Identifier: MIT */
/*
 * store_file - a directory as a store: who may, where, and which of the other files here does it.
 *
 * On tmpfs it is a memory store; nothing here knows the difference (fileio does).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/store/access.h"
#include "mover/store/file_source.h"
#include "mover/store/group.h"
#include "mover/store/group_list.h"
#include "mover/store/hub.h"
#include "mover/store/lead.h"
#include "mover/store/leftovers.h"
#include "mover/store/may_stand.h"
#include "mover/store/room.h"
#include "mover/store/rotation.h"
#include "mover/store/store_dir.h"
#include "mover/store/store_null.h"
#include "mover/store/sys.h"
#include "mover/store/verify.h"

#define PARTIAL_KEEP_NS (7 * 24 * 3600 * FM_NS_PER_S)	/* if the options do not say */
#define GROUP_KEEP_NS (24 * 3600 * FM_NS_PER_S)		/* as well */
#define GROUP_LIMIT 1024				/* as well */
/* the last sync of a transfer that was interrupted may take so long */
#define LOCK_WAIT_MS 3000
#define WAITING_MAX 2u

static struct fm_store_dir *dir_of(struct fm_store *store)
{
	return fm_container_of(store, struct fm_store_dir, store);
}

/* ------------------------------------------------------------------------------------- lifetime */

void fm_store_dir_get(struct fm_store_dir *dir)
{
	atomic_fetch_add(&dir->users, 1);
}

void fm_store_dir_put(struct fm_store_dir *dir)
{
	if (atomic_fetch_sub(&dir->users, 1) > 1)
		return;
	fm_aside_free(&dir->aside);
	fm_group_count_free(&dir->groups);
	fm_group_list_end(dir);
	pthread_mutex_destroy(&dir->rotating);
	fm_promises_free(&dir->promises);
	fm_access_free(dir->write);
	fm_access_free(dir->read);
	if (dir->root >= 0)
		close(dir->root);
	free(dir);
}

static void store_dir_put(void *ctx)
{
	fm_store_dir_put(ctx);
}

static void store_file_free(struct fm_store *store)
{
	fm_store_dir_put(dir_of(store));
}

unsigned fm_store_dir_begin_wait(struct fm_store_dir *dir)
{
	return atomic_fetch_add(&dir->waiting, 1) < WAITING_MAX ? dir->lock_wait_ms : 0;
}

void fm_store_dir_end_wait(struct fm_store_dir *dir)
{
	atomic_fetch_sub(&dir->waiting, 1);
}

struct fm_path_make fm_store_dir_make(const struct fm_store_dir *dir, const struct fm_who *who)
{
	return (struct fm_path_make){
		.has_owner = dir->owner == FM_OWNER_CALLER &&
			     (who->uid != geteuid() || who->gid != getegid()),
		.uid = who->uid,
		.gid = who->gid,
		.is_for_group = dir->is_for_group,
	};
}

/* ----------------------------------------------------------------------------------- operations */

/* The checks that every reading operation begins with: the rights, and the form of the path. */
static int may_read(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		    struct fm_err *err)
{
	int ret = fm_access_check(dir->read, who, "read", err);

	return ret < 0 ? ret : fm_path_check(path, err);
}

static int may_write(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		     struct fm_err *err)
{
	int ret = fm_access_check(dir->write, who, "write", err);

	return ret < 0 ? ret : fm_path_check(path, err);
}

/* Whether the path is that of one revision of a hub cache. */
static bool is_revision(const struct fm_store_dir *dir, const char *path, struct fm_hub_name *out)
{
	return dir->is_hub && fm_hub_path_parse(path, out) == 0;
}

/* Ends an operation: an error says which store it is about. */
static int store_result(const struct fm_store_dir *dir, int ret, struct fm_err *err)
{
	if (ret < 0)
		fm_err_wrap(err, "store %s", dir->store.name);
	return ret;
}

/*
 * Opens a regular file. O_NONBLOCK, because opening a named pipe would wait for its other end;
 * fileio clears it.
 */
static int open_regular(struct fm_store_dir *dir, const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct stat st;
	int fd = fm_path_open(dir->root, path, O_RDONLY | O_NONBLOCK, err);
	int ret;

	if (fd < 0)
		return fd;
	ret = fm_sys_fstat(fd, &st);
	if (ret < 0)
		ret = fm_path_fail(err, ret, "look at", path);
	else if (S_ISDIR(st.st_mode))
		ret = fm_path_fail(err, -EISDIR, "read", path);
	else if (!S_ISREG(st.st_mode))
		ret = fm_err_set(err, -EINVAL, "read \"%s\": is no regular file",
				 fm_path_show(path, &shown));
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

static int store_file_open_fd(struct fm_store *store, const char *path, const struct fm_who *who,
			      struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int fd = may_read(dir, path, who, err);

	if (fd == 0)
		fd = open_regular(dir, path, err);
	return store_result(dir, fd, err);
}

/*
 * Whether an absolute path is in this store. It is compared with where the directory is now, not
 * with the configuration.
 */
static bool store_file_has_path(struct fm_store *store, const char *path, const struct fm_who *who,
				const char **below)
{
	struct fm_store_dir *dir = dir_of(store);
	char link[32], root[FM_PATH_LEN_MAX + 1];
	ssize_t len;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir->root);
	len = readlink(link, root, sizeof(root));
	if (len <= 0 || (size_t)len == sizeof(root) || !fm_access_allows(dir->read, who))
		return false;
	len -= root[len - 1] == '/';	/* the root of all */
	if (strncmp(path, root, (size_t)len) != 0 || (path[len] && path[len] != '/'))
		return false;
	*below = path + len + (path[len] == '/');
	return true;
}

static bool store_file_lets_peer(struct fm_store *store, const char *peer)
{
	const struct fm_who who = {.peer = peer};

	return fm_access_allows(dir_of(store)->read, &who);
}

static bool store_file_asks_users(struct fm_store *store)
{
	return fm_access_asks_users(dir_of(store)->read) ||
	       fm_access_asks_users(dir_of(store)->write);
}

static void store_file_rights(struct fm_store *store, const struct fm_who *who, bool *may_read,
			      bool *may_write)
{
	*may_read = fm_access_allows(dir_of(store)->read, who);
	*may_write = fm_access_allows(dir_of(store)->write, who);
}

/* With owner = "caller" a file has an owner and a mode that say who else may read it. */
static void store_file_readers(struct fm_store *store, fm_access_user *on, void *ctx)
{
	const struct fm_store_dir *dir = dir_of(store);

	if (dir->owner == FM_OWNER_SERVICE)
		fm_access_users(dir->read, on, ctx);
}

static int store_file_open_source(struct fm_store *store, const char *path,
				  const struct fm_who *who, struct fm_file **out,
				  struct fm_attr *attr, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	struct fm_file_source_opts opts = {.is_stored = true,
					   .is_buffered = dir->is_buffered,
					   .closed = store_dir_put,
					   .ctx = dir};
	struct fm_path_shown shown;
	int fd = may_read(dir, path, who, err);

	if (fd == 0)
		fd = open_regular(dir, path, err);
	if (fd < 0)
		return store_result(dir, fd, err);
	fm_store_dir_get(dir);
	fd = fm_file_source_new(fd, &opts, out, attr, err);
	if (fd == 0)
		return 0;
	fm_err_wrap(err, "read \"%s\"", fm_path_show(path, &shown));
	store_result(dir, fd, err);
	fm_store_dir_put(dir);
	return fd;
}

/* Creates a file as a member of a group: the group's directory is where its path leads. */
static int create_member(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
			 const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	char place[FM_PATH_LEN_MAX + 1];
	const struct fm_group_member comes = {path, who, how->group, how->is_synced};
	struct fm_group_use *member;
	int ret = fm_group_enter(dir, &comes, place, &member, err);

	if (ret < 0)
		return ret;
	ret = fm_file_sink_new(dir, place, who, how, member, out, err);
	if (ret == 0)
		return 0;
	fm_group_name_as_asked(member, err);
	fm_group_let_go(member);
	return ret;
}

static int store_file_create(struct fm_store *store, const char *path, const struct fm_who *who,
			     const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	if (ret == 0 && path[0] == '\0')
		ret = fm_err_set(err, -EISDIR,
				 "the store itself is a directory; name a file in it");
	if (ret == 0 && !how->group)
		ret = fm_group_stay_out(dir, path, err);
	if (ret == 0 && how->group)
		ret = create_member(dir, path, who, how, out, err);
	else if (ret == 0)
		ret = fm_file_sink_new(dir, path, who, how, NULL, out, err);
	return store_result(dir, ret, err);
}

static int store_file_open_tree(struct fm_store *store, const char *path, const struct fm_who *who,
				const char *const *excludes, struct fm_file **out,
				struct fm_attr *attr, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_read(dir, path, who, err);
	struct fm_hub_name name;

	if (ret == 0 && is_revision(dir, path, &name))
		ret = fm_hub_tree(dir, &name, who, excludes, out, attr, err);
	else if (ret == 0)
		ret = fm_tree_store_source(dir, path, who, excludes, out, attr, err);
	return store_result(dir, ret, err);
}

static int store_file_open_dir(struct fm_store *store, const char *path, const struct fm_who *who,
			       struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	struct fm_hub_name name;
	int ret = may_read(dir, path, who, err);

	if (ret == 0 && is_revision(dir, path, &name))
		path = "";
	if (ret == 0)
		ret = fm_path_open(dir->root, path, O_RDONLY | O_DIRECTORY, err);
	return store_result(dir, ret, err);
}

/* The same of a tree. A dry run of one holds the group, too. */
static int create_tree_member(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
			      const struct fm_create_tree *how, struct fm_file **out,
			      struct fm_err *err)
{
	char place[FM_PATH_LEN_MAX + 1];
	const struct fm_group_member comes = {path, who, how->group,
					      how->is_durable || how->is_dry};
	struct fm_group_use *member;
	int ret = fm_group_enter(dir, &comes, place, &member, err);

	if (ret < 0)
		return ret;
	ret = fm_tree_store_sink(dir, place, who, how, member, out, err);
	if (ret == 0)
		return 0;
	fm_group_name_as_asked(member, err);
	fm_group_let_go(member);
	return ret;
}

static int store_file_create_tree(struct fm_store *store, const char *path,
				  const struct fm_who *who, const struct fm_create_tree *how,
				  struct fm_file **out, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	if (ret == 0 && !how->group)
		ret = fm_group_stay_out(dir, path, err);
	if (ret == 0 && how->group)
		ret = create_tree_member(dir, path, who, how, out, err);
	else if (ret == 0)
		ret = fm_tree_store_sink(dir, path, who, how, NULL, out, err);
	return store_result(dir, ret, err);
}

static int store_file_stat(struct fm_store *store, const char *path, const struct fm_who *who,
			   struct fm_attr *attr, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	struct fm_hub_name name;
	struct stat st;
	int fd = may_read(dir, path, who, err);
	int ret;

	if (fd == 0 && is_revision(dir, path, &name))
		return store_result(dir, fm_hub_stat(dir, &name, attr, err), err);
	if (fd == 0)
		fd = fm_path_open(dir->root, path, O_PATH, err);
	if (fd < 0)
		return store_result(dir, fd, err);
	ret = fm_sys_fstat(fd, &st);
	close(fd);
	if (ret < 0)
		return store_result(dir, fm_path_fail(err, ret, "look at", path), err);
	fm_attr_from_stat(&st, -1, attr);
	return 0;
}

static int store_file_look(struct fm_store *store, const char *path, const struct fm_who *who,
			   struct fm_attr *attr, char says[static FM_PATH_LEN_MAX + 1],
			   struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	struct fm_hub_name name;
	struct stat st;
	int fd = may_read(dir, path, who, err);
	int ret;

	says[0] = '\0';
	if (fd == 0 && is_revision(dir, path, &name))
		return store_result(dir, fm_hub_stat(dir, &name, attr, err), err);
	if (fd == 0)
		fd = fm_path_open(dir->root, path, O_PATH | O_NOFOLLOW, err);
	if (fd < 0)
		return store_result(dir, fd, err);
	ret = fm_sys_fstat(fd, &st);
	if (ret == 0 && S_ISLNK(st.st_mode))
		ret = fm_sys_read_link(fd, says, FM_PATH_LEN_MAX + 1);
	close(fd);
	if (ret < 0)
		return store_result(dir, fm_path_fail(err, ret, "look at", path), err);
	fm_attr_from_stat(&st, -1, attr);
	return 0;
}

static int store_file_list(struct fm_store *store, const char *path, const struct fm_who *who,
			   const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
			   struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_read(dir, path, who, err);
	struct fm_hub_name name;

	if (ret == 0 && is_revision(dir, path, &name))
		ret = fm_hub_list(dir, &name, opts, out, count, err);
	else if (ret == 0)
		ret = fm_listing(dir, path, opts, out, count, err);
	return store_result(dir, ret, err);
}

static int store_file_partials(struct fm_store *store, const char *path, const struct fm_who *who,
			       const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
			       struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_read(dir, path, who, err);

	if (ret == 0)
		ret = fm_listing_partials(dir, path, opts, out, count, err);
	return store_result(dir, ret, err);
}

static void store_file_sweep(struct fm_store *store, const atomic_bool *is_over)
{
	fm_sweep(dir_of(store), is_over);
}

static int store_file_remove(struct fm_store *store, const char *path, const struct fm_who *who,
			     bool is_recursive, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	if (ret == 0)
		ret = fm_removal(dir, path, is_recursive, err);
	return store_result(dir, ret, err);
}

/* Makes a directory in its open parent, and syncs it. */
static int make_dir(struct fm_store_dir *dir, const char *path, const struct fm_path_parent *parent,
		    const struct fm_path_make *make, struct fm_err *err)
{
	int ret = fm_path_make_dir(parent->fd, parent->name, make);

	if (ret < 0)
		return fm_path_fail(
			err, ret,
			make->has_owner
				? "make (for its caller, which needs CAP_CHOWN) the directory"
				: "make the directory",
			path);
	if (!dir->store.is_durable)
		return 0;
	ret = fm_sys_fsync(parent->fd);
	if (ret == 0 || ret == -EINVAL)		/* EINVAL: no such thing there */
		return fm_path_sync_up(dir->root, parent->fd, path, err);
	(void)unlinkat(parent->fd, parent->name, AT_REMOVEDIR);		/* the first error counts */
	return fm_path_fail(err, ret, "sync the directory of", path);
}

static int store_file_mkdir(struct fm_store *store, const char *path, const struct fm_who *who,
			    struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	struct fm_path_make make = fm_store_dir_make(dir, who);
	struct fm_path_parent parent;
	int ret = may_write(dir, path, who, err);

	if (ret == 0 && path[0] == '\0')
		ret = fm_err_set(err, -EEXIST, "the store itself exists already");
	if (ret == 0)
		ret = fm_path_open_parent(dir->root, path, &make, &parent, err);
	if (ret < 0)
		return store_result(dir, ret, err);
	ret = make_dir(dir, path, &parent, &make, err);
	close(parent.fd);
	return store_result(dir, ret, err);
}

static int store_file_move(struct fm_store *store, const char *path, const char *to,
			   const struct fm_who *who, bool may_replace, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	if (ret == 0)
		ret = fm_path_check(to, err);
	if (ret == 0)
		ret = fm_move(dir, path, to, may_replace, err);
	return store_result(dir, ret, err);
}

static int store_file_link(struct fm_store *store, const char *path, const char *target,
			   const struct fm_who *who, bool may_replace, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	if (ret == 0)
		ret = fm_symlink(dir, path, target, who, may_replace, err);
	return store_result(dir, ret, err);
}

static int store_file_lead(struct fm_store *store, const char *path, const char *published,
			   const struct fm_who *who, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	if (ret == 0)
		ret = fm_lead(dir, path, published, who, err);
	return store_result(dir, ret, err);
}

static int store_file_rotate(struct fm_store *store, const char *path, const char *published,
			     const struct fm_who *who, uint32_t keep, struct fm_entry *gone,
			     size_t *count, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	*count = 0;
	if (ret == 0)
		ret = fm_rotate(dir, path, published, keep, gone, count, err);
	return store_result(dir, ret, err);
}

static int store_file_group(struct fm_store *store, const char *path, const struct fm_who *who,
			    const struct fm_group_ask *ask, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, path, who, err);

	if (ret == 0)
		ret = fm_group_do(dir, path, who, ask, err);
	return store_result(dir, ret, err);
}

static int store_file_groups(struct fm_store *store, const char *after, const struct fm_who *who,
			     struct fm_group_page *out, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_read(dir, "", who, err);

	if (ret == 0)
		ret = fm_group_list(dir, after, out, err);
	return store_result(dir, ret, err);
}

static int store_file_verify(struct fm_store *store, const char *path, const struct fm_who *who,
			     struct fm_verify *v, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_read(dir, path, who, err);

	if (ret == 0)
		ret = fm_verify_run(v, dir->root, path, err);
	return store_result(dir, ret, err);
}

static int store_file_space(struct fm_store *store, const struct fm_who *who,
			    struct fm_store_space *out, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_read(dir, "", who, err);

	if (ret == 0)
		ret = fm_room_look(dir, out, err);
	return store_result(dir, ret, err);
}

static int store_file_purge(struct fm_store *store, const char *after, const struct fm_who *who,
			    bool is_dry, struct fm_space_page *out, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, "", who, err);

	if (ret == 0)
		ret = fm_aside_page(dir, after, is_dry, out, err);
	return store_result(dir, ret, err);
}

static int store_file_purge_partials(struct fm_store *store, const char *after,
				     const struct fm_who *who, bool is_dry,
				     struct fm_space_page *out, struct fm_err *err)
{
	struct fm_store_dir *dir = dir_of(store);
	int ret = may_write(dir, "", who, err);

	if (ret == 0)
		ret = fm_leftovers_page(dir, after, is_dry, out, err);
	return store_result(dir, ret, err);
}

static const struct fm_store_ops store_file_ops = {
	.open_source = store_file_open_source,
	.open_fd = store_file_open_fd,
	.has_path = store_file_has_path,
	.lets_peer = store_file_lets_peer,
	.asks_users = store_file_asks_users,
	.rights = store_file_rights,
	.readers = store_file_readers,
	.create = store_file_create,
	.open_tree = store_file_open_tree,
	.open_dir = store_file_open_dir,
	.create_tree = store_file_create_tree,
	.stat = store_file_stat,
	.look = store_file_look,
	.list = store_file_list,
	.partials = store_file_partials,
	.sweep = store_file_sweep,
	.remove = store_file_remove,
	.space = store_file_space,
	.purge = store_file_purge,
	.purge_partials = store_file_purge_partials,
	.mkdir = store_file_mkdir,
	.move = store_file_move,
	.link = store_file_link,
	.lead = store_file_lead,
	.rotate = store_file_rotate,
	.group = store_file_group,
	.groups = store_file_groups,
	.verify = store_file_verify,
	.free = store_file_free,
};

/* -------------------------------------------------------------------------------------- opening */

static int open_root(struct fm_store_dir *dir, const char *path, struct fm_err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	struct statfs fs;
	int ret;

	if (fd < 0)
		return fm_err_sys(err, -errno, "directory %s", path);
	dir->root = fd;
	ret = fm_sys_fstat(fd, &st);
	if (ret < 0)
		return fm_err_sys(err, ret, "directory %s: look at it", path);
	dir->store.device = st.st_dev;
	ret = fm_sys_fstatfs(fd, &fs);
	if (ret < 0)
		return fm_err_sys(err, ret, "directory %s: look at its file system", path);
	dir->store.may_stand = fm_fs_may_stand(&fs);
	dir->store.inode = st.st_ino;
	ret = fm_dirway_of(fd, &dir->store.way);
	if (ret < 0)
		return fm_err_sys(err, ret, "directory %s: look at it", path);
	ret = fm_sys_open_beneath(fd, ".", O_PATH);
	if (ret == -ENOSYS || ret == -EPERM)
		return fm_err_set(err, -ENOSYS,
				  "directory %s: openat2(2) is refused; it needs Linux 5.6 and a "
				  "seccomp profile that allows it", path);
	if (ret < 0)
		return fm_err_sys(err, ret, "directory %s", path);
	close(ret);
	return 0;
}

static int read_rules(struct fm_store_dir *dir, const struct fm_store_opts *opts,
		      struct fm_err *err)
{
	int ret = fm_access_new(opts->read, &dir->read, err);

	if (ret < 0) {
		fm_err_wrap(err, "read");
		return ret;
	}
	ret = fm_access_new(opts->write, &dir->write, err);
	if (ret < 0)
		fm_err_wrap(err, "write");
	return ret;
}

static bool is_member(gid_t gid)
{
	int count = getgroups(0, NULL);
	gid_t *groups = count > 0 ? fm_sys_alloc((size_t)count * sizeof(*groups)) : NULL;
	bool is_found = geteuid() == 0 || getegid() == gid;

	count = groups ? getgroups(count, groups) : 0;
	for (int i = 0; i < count && !is_found; i++)
		is_found = groups[i] == gid;
	free(groups);
	return is_found;
}

/*
 * Checks that what is made in the directory gets its group: by the set-group-ID bit, which only
 * members may set.
 */
static int check_group(const struct fm_store_dir *dir, const char *path, struct fm_err *err)
{
	struct stat st;
	int ret = fm_sys_fstat(dir->root, &st);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at \"%s\"", path);
	if (dir->owner == FM_OWNER_CALLER)
		return fm_err_set(err, -EINVAL,
				  "access = \"group\" and owner = \"caller\": what comes has the "
				  "group of its caller, not the store's; leave out one of them");
	if (!(st.st_mode & S_ISGID))
		return fm_err_set(err, -EINVAL,
				  "access = \"group\": \"%s\" gives its group to nothing that is "
				  "made in it; say: chgrp GROUP \"%s\" && chmod g+rxs \"%s\"",
				  path, path, path);
	if (!is_member(st.st_gid))
		return fm_err_set(err, -EPERM,
				  "access = \"group\": the daemon's user is no member of group %u, "
				  "which \"%s\" has; say: usermod -aG %u USER, and start it again",
				  (unsigned)st.st_gid, path, (unsigned)st.st_gid);
	return 0;
}

static int store_file_open(const struct fm_store_opts *opts, struct fm_store **out,
			   struct fm_err *err)
{
	struct fm_store_dir *dir = fm_sys_alloc(sizeof(*dir));
	int ret;

	if (!dir)
		return fm_err_set(err, -ENOMEM, "allocate the store");
	strcpy(dir->store.name, opts->name);
	dir->store.ops = &store_file_ops;
	dir->store.is_durable = opts->is_durable;
	dir->store.takes_small = true;
	dir->root = -1;
	dir->users = 1;
	dir->may_replace = opts->may_replace;
	dir->is_buffered = opts->is_buffered;
	dir->owner = opts->owner;
	dir->is_for_group = opts->is_for_group;
	dir->is_hub = opts->is_hub;
	dir->usage.store = dir->store.name;
	dir->usage.quota = opts->quota_bytes;
	dir->partial_keep_ns = opts->partial_keep_ns > 0 ? opts->partial_keep_ns : PARTIAL_KEEP_NS;
	dir->old_keep_ns = opts->old_keep_ns;
	dir->group_keep_ns = opts->group_keep_ns > 0 ? opts->group_keep_ns : GROUP_KEEP_NS;
	dir->lock_wait_ms = LOCK_WAIT_MS;
	fm_aside_init(&dir->aside);
	fm_group_count_init(&dir->groups, opts->group_limit > 0 ? opts->group_limit : GROUP_LIMIT);
	pthread_mutex_init(&dir->rotating, NULL);
	fm_promises_init(&dir->promises);
	ret = read_rules(dir, opts, err);
	if (ret == 0)
		ret = open_root(dir, opts->directory, err);
	if (ret == 0 && dir->is_for_group)
		ret = check_group(dir, opts->directory, err);
	if (ret == 0)
		ret = fm_usage_count(&dir->usage, dir->root, err);
	if (ret < 0) {
		fm_store_dir_put(dir);
		return ret;
	}
	*out = &dir->store;
	return 0;
}

int fm_store_open(const struct fm_store_opts *opts, struct fm_store **out, struct fm_err *err)
{
	int ret;

	assert(opts->name && opts->directory);
	if (strlen(opts->name) > FM_NAME_LEN_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "store %.32s...: its name is longer than %d bytes", opts->name,
				  FM_NAME_LEN_MAX);
	if (strcmp(opts->directory, "null:") == 0 || opts->is_silent)
		ret = fm_store_null_open(opts, out, err);
	else
		ret = store_file_open(opts, out, err);
	if (ret < 0) {
		fm_err_wrap(err, "store %s", opts->name);
		return ret;
	}
	(void)snprintf((*out)->shared, sizeof((*out)->shared), "%s",
		       opts->shared ? opts->shared : "");
	(*out)->is_sealed = opts->is_sealed;
	(*out)->is_silent = opts->is_silent;
	(*out)->silent_code = opts->silent_code;
	(*out)->is_of_users = fm_access_names_users(opts->read) ||
			      fm_access_names_users(opts->write);
	(void)snprintf((*out)->written_by, sizeof((*out)->written_by), "%s",
		       opts->written_by ? opts->written_by : "");
	return 0;
}
