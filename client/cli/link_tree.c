/* SPDX-License-Identifier: MIT */
/* link_tree - see link_tree.h. */
#include "client/cli/link_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"

struct linking {
	const char *staged, *dir;
	int root;			/* dir, open */
	bool is_begun;			/* the mark is there: what is missing is made */
	uint64_t links;
	struct fm_err *err;
};

/* ---- the directory ---- */

static int fail_dir(const char *dir, int code, const char *what, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, code, "--link %s: %s", fm_path_show(dir, &shown), what);
}

/* Refuses anything but a directory of the caller: another owner could put other links into it. */
static int check_owner(const char *dir, const struct stat *st, struct fm_err *err)
{
	if (S_ISLNK(st->st_mode))
		return fail_dir(dir, -ELOOP, "it is a symbolic link: name the directory itself",
				err);
	if (!S_ISDIR(st->st_mode))
		return fail_dir(dir, -ENOTDIR, "it is there, and no directory", err);
	if (st->st_uid != geteuid())
		return fail_dir(dir, -EPERM, "it is another user's directory", err);
	return 0;
}

int fm_link_tree_check(const char *dir, struct fm_err *err)
{
	size_t len = strlen(dir);
	char path[PATH_MAX];
	struct stat st;

	if (len == 0 || len >= sizeof(path))
		return fail_dir(dir, -EINVAL, "it is no path", err);
	memcpy(path, dir, len + 1);
	while (len > 1 && path[len - 1] == '/')	/* else a link is followed */
		path[--len] = '\0';
	if (fm_call(lstat(path, &st)) == 0)
		return check_owner(dir, &st, err);
	*(strrchr(path, '/') ? strrchr(path, '/') + 1 : path) = '\0';
	if (fm_call(stat(path[0] ? path : ".", &st)) < 0)
		return fail_dir(dir, -ENOENT,
				"the directory above it is not there; mkdir -p makes it", err);
	return 0;
}

static int open_dir(struct linking *l)
{
	int ret = fm_link_tree_check(l->dir, l->err);
	struct stat st;

	if (ret < 0)
		return ret;
	ret = FM_FAULT("link.mkdir") ? -EIO : fm_call(mkdir(l->dir, 0777));
	if (ret < 0 && ret != -EEXIST)
		return fm_err_sys(l->err, ret, "--link: make %s", l->dir);
	l->root = FM_FAULT("link.open")
			  ? -EMFILE
			  : fm_call(open(l->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	ret = l->root < 0 ? l->root : FM_FAULT("link.fstat") ? -EIO : fm_call(fstat(l->root, &st));
	if (ret < 0)
		return fm_err_sys(l->err, ret, "--link: open %s", l->dir);
	/* where there are no locks two calls may be in each other's way, and say so */
	while (flock(l->root, LOCK_EX) < 0 && errno == EINTR)
		if (fm_is_interrupted())
			return fail_dir(l->dir, -ECANCELED, "another call makes it just now",
					l->err);
	return check_owner(l->dir, &st, l->err);
}

/* Whether the directory is empty: 1, 0, or an error. */
static int is_empty(int root)
{
	int fd = FM_FAULT("link.list")
			 ? -EMFILE
			 : fm_call(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int ret = 1;

	if (!dir)
		return fd < 0 ? fd : -ENOMEM;
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			ret = 0;
	(void)closedir(dir);	/* only read */
	return ret;
}

static int leads_to(int root, const char *name, const char *target)
{
	char is[PATH_MAX];
	int n = FM_FAULT("link.readlink") ? -EIO : fm_call(readlinkat(root, name, is, sizeof(is)));

	if (n < 0)
		return n;
	return (size_t)n == strlen(target) && memcmp(is, target, (size_t)n) == 0;
}

static int make_link(const char *target, int root, const char *name)
{
	return FM_FAULT("link.symlink") ? -ENOSPC : fm_call(symlinkat(target, root, name));
}

/*
 * Begins to make the links, or goes on with links that were begun. A directory that has them all is
 * only looked at.
 */
static int begin(struct linking *l)
{
	int ret = leads_to(l->root, FM_LINK_MARK, l->staged);

	if (ret == -ENOENT) {
		ret = is_empty(l->root);
		if (ret > 0)
			ret = make_link(l->staged, l->root, FM_LINK_MARK);
		else if (ret == 0)
			return 0;
		ret = ret == 0 ? 1 : ret;
	}
	if (ret < 0)
		return fm_err_sys(l->err, ret, "--link: begin %s", l->dir);
	if (ret == 0)
		return fail_dir(l->dir, -EEXIST,
				"what is in it was begun for another version, and never ended: "
				"remove it, or name another",
				l->err);
	l->is_begun = true;
	return 0;
}

/* ---- what is in it ---- */

static int fail_entry(struct linking *l, const char *below)
{
	struct fm_path_shown dir, entry;

	fm_path_show(l->dir, &dir);
	fm_path_show(below, &entry);
	if (l->is_begun)
		return fm_err_set(l->err, -EEXIST,
				  "--link %s: \"%s\" in it is not ours: remove it, or name "
				  "another directory",
				  dir.text, entry.text);
	return fm_err_set(l->err, -ENOTEMPTY,
			  "--link %s: it is not empty, and does not have all links of this copy "
			  "(not \"%s\"): name a directory that is empty or not there",
			  dir.text, entry.text);
}

static int put_dir(struct linking *l, const char *below)
{
	int ret = -EEXIST;
	struct stat st;

	if (l->is_begun)
		ret = FM_FAULT("link.mkdirat") ? -ENOSPC : fm_call(mkdirat(l->root, below, 0777));
	if (ret != -EEXIST)
		return ret < 0 ? fm_err_sys(l->err, ret, "--link: make %s/%s", l->dir, below) : 0;
	ret = FM_FAULT("link.look") ? -EIO
				    : fm_call(fstatat(l->root, below, &st, AT_SYMLINK_NOFOLLOW));
	if (ret == -ENOENT || (ret == 0 && !S_ISDIR(st.st_mode)))
		return fail_entry(l, below);
	return ret < 0 ? fm_err_sys(l->err, ret, "--link: read %s/%s", l->dir, below) : 0;
}

static int put_link(struct linking *l, const char *below, const char *target)
{
	int ret = l->is_begun ? make_link(target, l->root, below) : -EEXIST;

	l->links++;
	if (ret != -EEXIST)
		return ret < 0 ? fm_err_sys(l->err, ret, "--link: make %s/%s", l->dir, below) : 0;
	ret = leads_to(l->root, below, target);
	if (ret == 0 || ret == -ENOENT || ret == -EINVAL)	/* not there, or no link */
		return fail_entry(l, below);
	return ret < 0 ? fm_err_sys(l->err, ret, "--link: read %s/%s", l->dir, below) : 0;
}

/*
 * Whether a link at that place below the tree leads to something in the tree, judged by names
 * alone.
 */
static bool stays_inside(const char *below, const char *target)
{
	long depth = 0;

	if (target[0] == '/')
		return false;
	for (const char *at = below; *at; at++)
		depth += *at == '/';
	while (*target) {
		size_t len = strcspn(target, "/");

		if (len == 2 && memcmp(target, "..", 2) == 0)
			depth--;
		else if (len > 1 || (len == 1 && target[0] != '.'))
			depth++;
		if (depth < 0)
			return false;
		target += len + strspn(target + len, "/");
	}
	return true;
}

/* Copies a link. If it leads out of the tree, the new one leads to it, and so to what it names. */
static int put_same(struct linking *l, const char *below, const char *path)
{
	char target[PATH_MAX];
	int n = FM_FAULT("link.readlink") ? -EIO
					  : fm_call(readlink(path, target, sizeof(target) - 1));

	if (n < 0)
		return fm_err_sys(l->err, n, "--link: read %s", path);
	target[n] = '\0';
	return put_link(l, below, stays_inside(below, target) ? target : path);
}

static int put_entry(struct linking *l, const FTSENT *e)
{
	const char *below = e->fts_path + strlen(l->staged);

	if (fm_is_interrupted())
		return fail_dir(l->dir, -ECANCELED,
				"it is not whole yet: the same command goes on with it", l->err);
	if (e->fts_level == 0 && e->fts_info != FTS_F)
		below = "";
	else
		below = e->fts_level == 0 ? e->fts_name : below + strspn(below, "/");
	switch (e->fts_info) {
	case FTS_D:
		return below[0] ? put_dir(l, below) : 0;
	case FTS_DP:
		return 0;
	case FTS_SL:
	case FTS_SLNONE:
		return put_same(l, below, e->fts_accpath);
	case FTS_F:
	case FTS_DEFAULT:
		return put_link(l, below, e->fts_path);
	default:
		return fm_err_sys(l->err, e->fts_errno ? -e->fts_errno : -ELOOP, "--link: read %s",
				  e->fts_path);
	}
}

/* NULL: errno says why, or is 0 at the end. */
static const FTSENT *next_entry(FTS *fts)
{
	const FTSENT *e;

	errno = 0;
	e = fts_read(fts);
	return FM_FAULT("link.read") ? (errno = EIO, NULL) : e;
}

static int put_all(struct linking *l)
{
	char *roots[] = { (char *)l->staged, NULL };
	FTS *fts = FM_FAULT("link.walk")
			   ? (errno = ENOMEM, NULL)
			   : fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	const FTSENT *e;
	int ret = 0;

	if (!fts)
		return fm_err_sys(l->err, -errno, "--link: read %s", l->staged);
	while (ret == 0 && (e = next_entry(fts)))
		ret = put_entry(l, e);
	if (ret == 0 && errno)
		ret = fm_err_sys(l->err, -errno, "--link: read %s", l->staged);
	(void)fts_close(fts);	/* only read */
	return ret;
}

static int end(struct linking *l)
{
	int ret = 0;

	if (l->is_begun)
		ret = FM_FAULT("link.unlink") ? -EIO : fm_call_unlinkat(l->root, FM_LINK_MARK, 0);
	return ret < 0 ? fm_err_sys(l->err, ret, "--link: end %s", l->dir) : 0;
}

static int name_it(const struct linking *l, char *out, size_t cap)
{
	char path[PATH_MAX];
	struct stat st;
	int ret = FM_FAULT("link.stat") ? -EIO : fm_call(stat(l->staged, &st)), n;

	if (ret < 0)
		return fm_err_sys(l->err, ret, "--link: look at %s", l->staged);
	if (FM_FAULT("link.where") ? (errno = EIO, true) : !realpath(l->dir, path))
		return fm_err_sys(l->err, -errno, "--link: where %s is", l->dir);
	n = S_ISDIR(st.st_mode) ? snprintf(out, cap, "%s", path)
				: snprintf(out, cap, "%s%s", path, strrchr(l->staged, '/'));
	return n < 0 || (size_t)n >= cap ? fail_dir(l->dir, -ENAMETOOLONG, "its path is too long",
						    l->err)
					 : 0;
}

int fm_link_tree(const char *staged, const char *dir, char *out, size_t cap, uint64_t *links,
		 struct fm_err *err)
{
	struct linking l = { .staged = staged, .dir = dir, .root = -1, .err = err };
	int ret = open_dir(&l);

	if (ret == 0)
		ret = begin(&l);
	if (ret == 0)
		ret = put_all(&l);
	if (ret == 0)
		ret = end(&l);
	if (ret == 0)
		ret = name_it(&l, out, cap);
	if (l.root >= 0)
		(void)close(l.root);	/* the lock ends with it */
	*links = l.links;
	return ret;
}
