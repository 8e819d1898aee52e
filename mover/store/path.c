/* SPDX-License-Identifier: MIT */
/*
 * path - names below a store.
 */
#include "mover/store/path.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/store/made_dir.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)

/* ----------------------------------------------------------------------------------- for people */

static const struct {
	int code;
	const char *text;
} reasons[] = {
	{-ENOENT, "no such file or directory"},
	{-EXDEV, "leads out of the store through a symbolic link; name the place inside the store"},
	{-ELOOP, "too many symbolic links, or one of the kernel's own (as in /proc)"},
	{-ENOTDIR, "a part of the path is not a directory"},
	{-EISDIR, "is a directory"},
	{-EPERM, "the service's user may not; look at owner and mode there"},
	{-EROFS, "the file system is mounted read-only"},
	{-ENOSPC, "no space left on the store's file system; fmove df shows what stores have, "
		  "fmove purge removes what they keep aside"},
	{-EDQUOT, "over the file system's own quota for the service's user"},
	{-ENAMETOOLONG, "the file system takes no name as long as that"},
	{-ENOMEM, "no memory left just now; run fewer at a time, raise memory.total, or let "
		  "--retry try again"},
	{-ESTALE, "the file system was unmounted or changed under the store"},
};

int fm_path_fail(struct fm_err *err, int code, const char *verb, const char *path)
{
	struct fm_path_shown shown;

	assert(code < 0);
	if (code == -EACCES)
		code = -EPERM;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].code == code)
			return fm_err_set(err, code, "%s \"%s\": %s", verb,
					  fm_path_show(path, &shown), reasons[i].text);
	return fm_err_sys(err, code, "%s \"%s\"", verb, fm_path_show(path, &shown));
}

int fm_path_fail_making(struct fm_err *err, int code, int dir, const char *verb, const char *path)
{
	struct fm_path_shown shown;

	if (code != -ENOSPC || !fm_call_lacks_inodes(dir))
		return fm_path_fail(err, code, verb, path);
	return fm_err_set(err, code,
			  "%s \"%s\": no inodes left on the store's file system, though it has "
			  "room; remove files there (df -i shows how many it takes)",
			  verb, fm_path_show(path, &shown));
}

/* --------------------------------------------------------------------------------------- checks */

bool fm_path_is_reserved(const char *name)
{
	return strncmp(name, FM_PATH_RESERVED, sizeof(FM_PATH_RESERVED) - 1) == 0;
}

/* Why a component of len bytes is not allowed; NULL: it is. */
static const char *component_fault(const char *name, size_t len)
{
	if (len == 0)
		return "has an empty component (a slash at the end, or two in a row)";
	if (len == 1 && name[0] == '.')
		return "has a component \".\"";
	if (len == 2 && name[0] == '.' && name[1] == '.')
		return "has a component \"..\": nothing outside the store can be named";
	if (len >= sizeof(FM_PATH_RESERVED) - 1 && fm_path_is_reserved(name))
		return "uses a name that begins with \"" FM_PATH_RESERVED
		       "\": those are fmove's partial files";
	return NULL;
}

int fm_path_check(const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;
	const char *at = path, *why = NULL;
	size_t path_len = strlen(path);
	bool is_outside = false;

	fm_path_show(path, &shown);
	if (path_len > FM_PATH_LEN_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "\"%s\": has %zu bytes; at most %d are allowed", shown.text,
				  path_len, FM_PATH_LEN_MAX);
	if (path[0] == '/')
		return fm_err_set(err, -EXDEV, "\"%s\": is absolute; paths begin at the store",
				  shown.text);
	while (path_len > 0 && !why) {
		size_t len = strcspn(at, "/");

		if (len > FM_NAME_LEN_MAX)
			return fm_err_set(err, -ENAMETOOLONG,
					  "\"%s\": has a name of %zu bytes; at most %d are allowed",
					  shown.text, len, FM_NAME_LEN_MAX);
		why = component_fault(at, len);
		is_outside = len == 2 && memcmp(at, "..", 2) == 0;
		at += len;
		if (*at == '\0')
			break;
		at++;
	}
	if (why)
		return fm_err_set(err, is_outside ? -EXDEV : -EINVAL, "\"%s\": %s", shown.text,
				  why);
	return 0;
}

/* -------------------------------------------------------------------------------------- opening */

int fm_path_open(int root, const char *path, int flags, struct fm_err *err)
{
	int fd = fm_sys_open_beneath(root, path[0] ? path : ".", flags);

	return fd >= 0 ? fd : fm_path_fail(err, fd, "open", path);
}

/* Opens the first len bytes of the path, or "." if that is nothing. */
static int open_prefix(int root, const char *path, size_t len)
{
	char prefix[FM_PATH_LEN_MAX + 1];

	if (len > FM_PATH_LEN_MAX)
		return -ENAMETOOLONG;
	memcpy(prefix, path, len);
	prefix[len] = '\0';
	return fm_sys_open_beneath(root, len > 0 ? prefix : ".", DIR_FLAGS);
}

/* The length of the prefix that is one component longer than at_len (0: none yet). */
static size_t next_prefix(const char *path, size_t at_len)
{
	size_t from = at_len > 0 ? at_len + 1 : 0;

	return from + strcspn(path + from, "/");
}

/* Opens the directory to its group, which is that of the directory it is in. */
static int open_to_group(int parent, const char *name)
{
	struct stat st;
	int fd = fm_sys_open_dir(parent, name, true);
	int ret = fd < 0 ? fd : fm_sys_fstat(fd, &st);

	if (ret >= 0)
		ret = fm_sys_fchmod(fd, (st.st_mode & 07777) | S_ISGID | S_IRGRP | S_IXGRP);
	if (fd >= 0)
		close(fd);
	return ret;
}

int fm_path_make_dir(int parent, const char *name, const struct fm_path_make *make)
{
	int ret;

	if (make->has_owner)
		return fm_made_dir(parent, name, make->uid, make->gid);
	ret = fm_sys_mkdirat(parent, name, 0777);
	return ret == 0 && make->is_for_group ? open_to_group(parent, name) : ret;
}

/*
 * Make the directory path[..len] in its parent. One that is there already (made by somebody else
 * meanwhile) is fine.
 */
static int make_component(int parent, const char *path, size_t at_len, size_t len,
			  const struct fm_path_make *make)
{
	char name[FM_NAME_LEN_MAX + 1];
	size_t from = at_len > 0 ? at_len + 1 : 0;
	int ret;

	if (len <= from || len - from > FM_NAME_LEN_MAX)
		return -ENAMETOOLONG;
	memcpy(name, path + from, len - from);
	name[len - from] = '\0';
	ret = fm_path_make_dir(parent, name, make);
	return ret == -EEXIST ? 0 : ret;
}

/*
 * Open path[..len], making what is missing. Every prefix is looked up from the root, not from the
 * directory before it, since a link on the way may go up with ".." and still stay inside the store.
 */
static int make_dirs(int root, const char *path, size_t len, const struct fm_path_make *make)
{
	size_t at_len = 0, next_len;
	int at = open_prefix(root, path, 0);
	int next, ret;

	while (at >= 0 && at_len < len) {
		next_len = next_prefix(path, at_len);
		next = open_prefix(root, path, next_len);
		if (next == -ENOENT) {
			ret = make_component(at, path, at_len, next_len, make);
			next = ret < 0 ? ret : open_prefix(root, path, next_len);
		}
		close(at);
		at = next;
		at_len = next_len;
	}
	return at;
}

int fm_path_open_parent(int root, const char *path, const struct fm_path_make *make,
			struct fm_path_parent *out, struct fm_err *err)
{
	struct fm_path_parent parent = { .fd = -1 };
	const char *slash = strrchr(path, '/');
	const char *verb = "open the directory of";
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (!path[0])
		return fm_path_fail(err, -EINVAL, verb, path);
	parent.name = slash ? slash + 1 : path;
	parent.fd = open_prefix(root, path, len);
	if (parent.fd == -ENOENT && make)
		parent.fd = make_dirs(root, path, len, make);
	if (make)
		verb = make->has_owner
			       ? "make (for its caller, which needs CAP_CHOWN) the directory of"
			       : "make the directory of";
	if (parent.fd < 0)
		return fm_path_fail_making(err, parent.fd, root, verb, path);
	*out = parent;
	return 0;
}

/*
 * Syncs the directory above. A file system that syncs no directories says EINVAL, which is no error
 * here.
 */
static int sync_above(int fd)
{
	int ret = fm_sys_fsync(fd);

	return ret == -EINVAL ? 0 : ret;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int fm_path_find_other(int root, const char *path, int held, const struct fm_path_make *make,
		       int *fd, struct fm_err *err)
{
	struct fm_path_parent now;
	struct stat was, is;
	int ret = fm_path_open_parent(root, path, NULL, &now, NULL);

	if (ret == -ENOTDIR)
		return fm_path_fail(err, ret, "find the directory of", path);
	if (ret < 0 && ret != -ENOENT)
		/* that it cannot be opened just now does not say that it is another */
		return 0;
	if (ret == -ENOENT)
		ret = fm_path_open_parent(root, path, make, &now, err);
	if (ret < 0)
		return ret;
	*fd = now.fd;
	if (fm_sys_fstat(held, &was) < 0 || fm_sys_fstat(now.fd, &is) < 0 || is_same(&was, &is)) {
		close(now.fd);
		return 0;
	}
	return 1;
}

/*
 * Takes `at` over; the directory that it is in, synced, or -errno. *is_top: `at` was the store's
 * directory, or (moved out of it meanwhile) the root of all.
 */
static int climb(int at, const struct stat *root, bool *is_top)
{
	struct stat st, above;
	int up = -1, ret = 0;

	*is_top = false;
	if (fstat(at, &st) < 0)
		ret = -errno;
	else
		*is_top = is_same(&st, root);
	if (ret == 0 && !*is_top) {
		up = openat(at, "..", DIR_FLAGS | O_CLOEXEC);
		ret = up < 0 || fstat(up, &above) < 0 ? -errno : 0;
		*is_top = ret == 0 && is_same(&st, &above);
	}
	if (ret == 0 && !*is_top)
		ret = sync_above(up);
	(void)close(at);	/* only synced */
	if (up >= 0 && (ret < 0 || *is_top))
		(void)close(up);
	return ret < 0 ? ret : *is_top ? -1 : up;
}

int fm_path_sync_up(int root, int parent, const char *path, struct fm_err *err)
{
	bool is_top = false;
	struct stat st;
	int at = fstat(root, &st) < 0 ? -1 : fcntl(parent, F_DUPFD_CLOEXEC, 0);
	int ret = at < 0 ? -errno : 0;

	for (unsigned i = 0; ret == 0 && !is_top && i < FM_PATH_LEN_MAX; i++) {
		at = climb(at, &st, &is_top);
		ret = is_top || at >= 0 ? 0 : at;
	}
	if (ret == 0 && !is_top)
		(void)close(at);
	/* A directory that may be passed through but not read cannot be synced by itself. */
	if (ret == -EACCES)
		ret = fm_sys_syncfs(parent);
	return ret < 0 ? fm_path_fail(err, ret, "sync the directories of", path) : 0;
}

int fm_path_check_target(const struct fm_path_parent *parent, const char *path, bool may_replace,
			 const char *what, const char *advice, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct stat st;
	int ret = fm_sys_fstatat(parent->fd, parent->name, &st);

	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return fm_path_fail(err, ret, "look at", path);
	if (!S_ISDIR(st.st_mode))
		return fm_err_set(err, -ENOTDIR,
				  "\"%s\" is there and is no directory: %s does not replace "
				  "it; remove it or choose another name",
				  fm_path_show(path, &shown), what);
	return may_replace ? 0
			   : fm_err_set(err, -EEXIST, "directory \"%s\" exists; %s",
					fm_path_show(path, &shown), advice);
}
