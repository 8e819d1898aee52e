/* SPDX-License-Identifier: MIT */
/*
 * scan - every name of a directory tree.
 */
#include "mover/tree/scan.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"
#include "mover/tree/reading.h"
#include "mover/tree/staging_names.h"

#define NAMES_LEN (32u << 10)	/* of one level's buffer */
#define NAME_LEN_MAX 255
#define NAMES_MAX (NAMES_LEN / 24)	/* a name takes at least that */

/* What getdents64(2) writes. */
struct dent {
	uint64_t ino;
	int64_t next;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* What one call of it brought. */
struct names {
	unsigned at;			/* the next one, in order */
	unsigned count;
	const struct dent *order[NAMES_MAX];
	uint8_t bytes[NAMES_LEN];
};

/* A directory on the way. */
struct level {
	struct fm_scan_dir *dir;	/* NULL: closed for now, see shelve() */
	struct names *names;		/* kept for the next directory of this depth */
	size_t path_len;		/* of its path */
	dev_t dev;			/* with follows_links: which directory it is */
	ino_t ino;
	off_t cookie;			/* while it is closed: where to read on, ... */
	struct fm_identity was;		/* ... and what it was */
};

struct fm_scan {
	struct fm_scan_opts opts;
	/* of what was met last; the way to it are its first bytes */
	char path[FM_TREE_PATH_MAX + 1];
	unsigned depth;				/* levels in use */
	bool is_begun;
	bool has_left_out;
	struct fm_err failed;			/* after it the way is not what it should be */
	struct level levels[FM_TREE_DEPTH_MAX + 1];
};

struct fm_scan_dir *fm_scan_dir_get(struct fm_scan_dir *dir)
{
	atomic_fetch_add_explicit(&dir->refs, 1, memory_order_relaxed);
	return dir;
}

void fm_scan_dir_put(struct fm_scan_dir *dir)
{
	if (!dir || atomic_fetch_sub_explicit(&dir->refs, 1, memory_order_acq_rel) > 1)
		return;
	close(dir->fd);
	fm_budget_free(dir);
}

struct fm_scan_dir *fm_scan_dir_new(int fd, const char *path, size_t path_len)
{
	struct fm_scan_dir *dir = FM_FAULT("scan.dir_alloc")
					  ? NULL
					  : fm_budget_realloc(NULL, sizeof(*dir) + path_len + 1);

	if (!dir) {
		close(fd);
		return NULL;
	}
	atomic_init(&dir->refs, 1);
	dir->fd = fd;
	dir->path_len = path_len;
	memcpy(dir->path, path, path_len);
	dir->path[path_len] = '\0';
	return dir;
}

struct fm_scan *fm_scan_new(const struct fm_scan_opts *opts)
{
	struct fm_scan *s = FM_FAULT("scan.alloc") ? NULL : fm_budget_alloc(sizeof(*s));

	if (!s)
		return NULL;
	s->opts = *opts;
	fm_scan_dir_get(s->opts.root);
	return s;
}

void fm_scan_free(struct fm_scan *s)
{
	if (!s)
		return;
	for (size_t i = 0; i <= FM_TREE_DEPTH_MAX; i++) {
		fm_scan_dir_put(s->levels[i].dir);
		fm_budget_free(s->levels[i].names);
	}
	fm_scan_dir_put(s->opts.root);
	fm_budget_free(s);
}

static struct level *top(struct fm_scan *s)
{
	assert(s->depth > 0);
	return &s->levels[s->depth - 1];
}

/*
 * The error for an unreadable entry of the version at the target: it may hold something that is
 * nowhere else.
 */
static int fail_target(const struct fm_scan *s, int code, struct fm_err *err)
{
	struct fm_path_shown shown;
	const char *name = fm_path_show(s->path[0] ? s->path : ".", &shown);

	if (code == -EACCES || code == -EPERM)
		return fm_err_set(err, -EPERM,
				  "\"%s\", which is there, cannot be read, so nobody knows what "
				  "only it has: look at its "
				  "owner and mode, or say --delete to keep nothing of it",
				  name);
	if (code == -ESTALE)
		return fm_err_set(err, code,
				  "\"%s\", which is there, changed while it was read; run it again "
				  "when nothing writes there",
				  name);
	return fm_err_sys(err, code, "read \"%s\", which is there", name);
}

static int fail(struct fm_scan *s, int code, struct fm_err *err)
{
	return s->opts.is_target ? fail_target(s, code, err) : fm_reading_fail(err, code, s->path);
}

/* The advice for an entry that cannot be sent or kept. */
static const char *way_out(const struct fm_scan *s)
{
	return s->opts.is_target ? "move it away, or say --delete to keep nothing of it"
				 : FM_READING_WAY_OUT;
}

static enum fm_reading_way way_of(const struct fm_scan *s, bool is_path)
{
	if (s->opts.follows_links)
		return FM_READING_FOLLOW;
	return is_path ? FM_READING_PATH : FM_READING_NAME;
}

/* ---- directories that are closed for now ---- */

/* Close a directory that is not the innermost one: we read on there when we are back. What was read
 * of it is kept. */
static int shelve(struct level *l)
{
	struct stat st;

	if (!l->dir)
		return 0;
	if (FM_FAULT("scan.shelve"))
		return -EIO;
	l->cookie = lseek(l->dir->fd, 0, SEEK_CUR);
	if (l->cookie < 0 || fstat(l->dir->fd, &st) < 0)
		return -errno;
	fm_reading_identity(&st, &l->was);
	fm_scan_dir_put(l->dir);
	l->dir = NULL;
	return 0;
}

/*
 * Goes back to the entry where the walk left this directory. An error if the directory was changed
 * meanwhile.
 */
static int find_again(const struct level *l, int fd)
{
	struct fm_identity now;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	fm_reading_identity(&st, &now);
	if (!fm_identity_is_same(&now, &l->was))
		return -ESTALE;
	return lseek(fd, l->cookie, SEEK_SET) < 0 ? -errno : 0;
}

/* Open the innermost directory again, if it was closed. s->path is its path. */
static int unshelve(struct fm_scan *s)
{
	struct level *l = top(s);
	int fd, ret;

	if (l->dir)
		return 0;
	fd = fm_reading_open_fd(s->opts.root->fd, l->path_len > 0 ? s->path : ".", O_DIRECTORY,
				way_of(s, true));
	if (fd < 0)
		return fd;
	ret = find_again(l, fd);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	l->dir = fm_scan_dir_new(fd, s->path, l->path_len);
	return l->dir ? 0 : -ENOMEM;
}

/* ---- down and up ---- */

/* dir becomes the innermost one; its reference is taken over, also on error. */
static int push(struct fm_scan *s, struct fm_scan_dir *dir)
{
	struct level *l = &s->levels[s->depth];
	int ret = 0;

	assert(s->depth <= FM_TREE_DEPTH_MAX && !l->dir);
	if (!l->names)
		l->names = FM_FAULT("scan.names_alloc")
				   ? NULL
				   : fm_budget_realloc(NULL, sizeof(*l->names));
	if (l->names && s->depth >= FM_SCAN_OPEN_MAX)
		ret = shelve(l - FM_SCAN_OPEN_MAX);
	if (!l->names || ret < 0) {
		fm_scan_dir_put(dir);
		return l->names ? ret : -ENOMEM;
	}
	l->dir = dir;
	l->names->at = l->names->count = 0;
	l->path_len = dir->path_len;
	s->depth++;
	return 0;
}

static void cut_path(struct fm_scan *s, size_t len)
{
	s->path[len] = '\0';
}

/* Out of the innermost directory. */
static int pop(struct fm_scan *s)
{
	struct level *l = top(s);

	fm_scan_dir_put(l->dir);
	l->dir = NULL;
	s->depth--;
	if (s->depth >= FM_SCAN_OPEN_MAX) {	/* deep down not every level keeps its buffer */
		fm_budget_free(l->names);
		l->names = NULL;
	}
	if (s->depth == 0)
		return 0;
	cut_path(s, top(s)->path_len);
	return unshelve(s);
}

/* Which directory is entered by way of links; -ELOOP: it is one of those around it. */
static int check_loop(struct fm_scan *s, int fd, struct level *l)
{
	struct stat st;

	if (!s->opts.follows_links)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	for (const struct level *at = s->levels; at < l; at++)
		if (at->dev == st.st_dev && at->ino == st.st_ino)
			return -ELOOP;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

static int fail_loop(const struct fm_scan *s, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -ELOOP,
			  "\"%s\" leads back to a directory that it is in, so what is below it has "
			  "no end; %s",
			  fm_path_show(s->path, &shown), way_out(s));
}

/* Into the directory whose path is s->path. */
static int enter(struct fm_scan *s, const char *name, struct fm_scan_met *out, struct fm_err *err)
{
	struct fm_scan_dir *dir;
	int fd, ret;

	if (s->depth > FM_TREE_DEPTH_MAX) {
		struct fm_path_shown shown;

		return fm_err_set(err, -ELOOP,
				  "\"%s\": more than %d directories in one another; %s",
				  fm_path_show(s->path, &shown), FM_TREE_DEPTH_MAX, way_out(s));
	}
	fd = fm_reading_open_fd(top(s)->dir->fd, name, O_DIRECTORY, way_of(s, false));
	if (fd == -ENOENT && s->opts.is_target)
		return 0;
	if (fd < 0)
		return fail(s, fd, err);
	ret = check_loop(s, fd, &s->levels[s->depth]);
	if (ret < 0) {
		close(fd);
		return ret == -ELOOP ? fail_loop(s, err) : fail(s, ret, err);
	}
	dir = fm_scan_dir_new(fd, s->path, strlen(s->path));
	ret = dir ? push(s, dir) : -ENOMEM;
	if (ret < 0)
		return fail(s, ret, err);
	*out = (struct fm_scan_met){ .dir = dir, .name = "", .type = DT_DIR };
	return 1;
}

/* ---- names ---- */

static int compare_inodes(const void *a, const void *b)
{
	const struct dent *const *x = a, *const *y = b;

	return ((*x)->ino > (*y)->ino) - ((*x)->ino < (*y)->ino);
}

/*
 * Sorts the names of the buffer by inode. File systems list names by hash and place files by inode,
 * so a disk is read more in order. In memory it makes no difference.
 */
static void put_in_order(struct names *names, size_t len)
{
	names->at = names->count = 0;
	for (size_t at = 0; at < len; at += names->order[names->count++]->len) {
		assert(names->count < NAMES_MAX);
		names->order[names->count] = (const void *)(names->bytes + at);
	}
	qsort(names->order, names->count, sizeof(names->order[0]), compare_inodes);
}

/* The innermost directory's next names. 0: it has no more. s->path is its path. */
static int read_names(struct fm_scan *s)
{
	struct level *l = top(s);
	long n;

	cut_path(s, l->path_len);
	n = FM_FAULT("scan.getdents")
		    ? (errno = EIO, -1)
		    : syscall(SYS_getdents64, l->dir->fd, l->names->bytes, NAMES_LEN);
	if (n < 0)
		return -errno;
	put_in_order(l->names, (size_t)n);
	return n > 0 ? 1 : 0;
}

static bool is_skipped(struct fm_scan *s, const char *name)
{
	if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
		return true;
	if (s->opts.skips && s->opts.skips(name))
		return true;
	if (s->opts.is_target ||
	    strncmp(name, FM_STAGING_PREFIX, sizeof(FM_STAGING_PREFIX) - 1) != 0)
		return false;
	s->has_left_out = true;
	return true;
}

bool fm_scan_has_left_out(const struct fm_scan *s)
{
	return s->has_left_out;
}

/* Make s->path the path of name in the innermost directory. */
static int make_path(struct fm_scan *s, const char *name, struct fm_err *err)
{
	size_t dir_len = top(s)->path_len, slash = dir_len > 0 ? 1 : 0, len = strlen(name);
	struct fm_path_shown shown;

	cut_path(s, dir_len);
	if (len > NAME_LEN_MAX || dir_len + slash + len > FM_TREE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "a name of %zu bytes in \"%s\" makes a path of %zu; names of %d "
				  "bytes and paths of %d can be moved; %s",
				  len, fm_path_show(s->path, &shown), dir_len + slash + len,
				  NAME_LEN_MAX, FM_TREE_PATH_MAX, way_out(s));
	if (slash)
		s->path[dir_len] = '/';
	memcpy(s->path + dir_len + slash, name, len + 1);
	return 0;
}

/* Some file systems do not say what a name is. */
static int ask_type(struct fm_scan *s, const char *name, unsigned char *type)
{
	struct stat st;

	if (FM_FAULT("scan.stat"))
		return -EIO;
	if (fstatat(top(s)->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*type = (unsigned char)IFTODT(st.st_mode);
	return 0;
}

static int refuse(struct fm_scan *s, unsigned char type, struct fm_err *err)
{
	static const struct {
		unsigned char type;
		const char *text;
	} kinds[] = {
		{ DT_FIFO, "a fifo" }, { DT_SOCK, "a socket" }, { DT_CHR, "a character device" },
		{ DT_BLK, "a block device" },
	};
	const char *text = "of a kind that is not known";
	struct fm_path_shown shown;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].type == type)
			text = kinds[i].text;
	return fm_err_set(
		err, -EINVAL,
		"\"%s\" is %s: only files, directories and links can be sent; " FM_READING_WAY_OUT,
		fm_path_show(s->path, &shown), text);
}

/* Meets the target of a symbolic link in place of the link. */
static int follow(struct fm_scan *s, const char *name, unsigned char *type, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct stat st;

	if (fstatat(top(s)->dir->fd, name, &st, 0) == 0) {
		*type = (unsigned char)IFTODT(st.st_mode);
		return 0;
	}
	if (errno != ENOENT && errno != ELOOP && errno != ENOTDIR)
		return fail(s, -errno, err);
	return fm_err_set(err, -ENOENT,
			  "\"%s\" is a symbolic link that leads to nothing; leave it out with "
			  "--exclude, or send links as they are, without -L",
			  fm_path_show(s->path, &shown));
}

/* Handles one name of the innermost directory. 1: it is part of the tree. 0: it is left out. */
static int meet(struct fm_scan *s, const struct dent *d, struct fm_scan_met *out,
		struct fm_err *err)
{
	unsigned char type = d->type;
	int ret;

	if (is_skipped(s, d->name))
		return 0;
	ret = make_path(s, d->name, err);
	if (ret < 0)
		return ret;
	if (s->opts.wants && !s->opts.wants(s->opts.wants_ctx, s->path))
		return 0;
	ret = type == DT_UNKNOWN || FM_FAULT("scan.unknown") ? ask_type(s, d->name, &type) : 0;
	if (ret == -ENOENT && s->opts.is_target)
		return 0;
	if (ret < 0)
		return fail(s, ret, err);
	if (s->opts.exclude &&
	    fm_exclude_matches(s->opts.exclude, s->path, d->name, type == DT_DIR))
		return 0;
	ret = type == DT_LNK && s->opts.follows_links ? follow(s, d->name, &type, err) : 0;
	if (ret < 0)
		return ret;
	if (type == DT_DIR)
		return enter(s, d->name, out, err);
	if (type != DT_REG && type != DT_LNK && !s->opts.is_target)
		return refuse(s, type, err);
	*out = (struct fm_scan_met){
		.dir = top(s)->dir, .name = d->name, .name_len = strlen(d->name), .type = type};
	return 1;
}

static int begin(struct fm_scan *s, struct fm_scan_met *out, struct fm_err *err)
{
	int ret = push(s, fm_scan_dir_get(s->opts.root));

	if (ret < 0)
		return fail(s, ret, err);
	s->is_begun = true;
	ret = check_loop(s, s->opts.root->fd, s->levels);
	if (ret < 0)
		return fail(s, ret, err);
	*out = (struct fm_scan_met){ .dir = s->opts.root, .name = "", .type = DT_DIR };
	return 1;
}

/* More names into the innermost directory's buffer, or out of it. */
static int go_on(struct fm_scan *s, struct fm_err *err)
{
	int ret = read_names(s);

	if (ret == 0)
		ret = pop(s);
	return ret < 0 ? fail(s, ret, err) : 0;
}

/* Until a name is met. */
static int find_next(struct fm_scan *s, struct fm_scan_met *out, struct fm_err *err)
{
	int ret = 0;

	while (ret == 0 && s->depth > 0) {
		struct names *names = top(s)->names;

		if (names->at < names->count)
			ret = meet(s, names->order[names->at++], out, err);
		else
			ret = go_on(s, err);
	}
	return ret;
}

int fm_scan_next(struct fm_scan *s, struct fm_scan_met *out, struct fm_err *err)
{
	int ret;

	if (s->failed.code == 0) {
		ret = s->is_begun ? find_next(s, out, &s->failed) : begin(s, out, &s->failed);
		if (ret >= 0)
			return ret;
	}
	if (err)
		*err = s->failed;
	return s->failed.code;
}
