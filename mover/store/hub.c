/* SPDX-License-Identifier: MIT */
/* hub - see hub.h. */
#include "mover/store/hub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
#define REF_BYTES_MAX 128

struct name {
	char *path;
	uint64_t size;
};

/* Of a name: where it is. Each kind is met in an order of its own. */
enum kind { OF_SNAPSHOT, OWN_BLOB, BLOB, KINDS };

struct fm_hub_view {
	int root;			/* while it is made */
	const char *dir, *commit;
	char blobs[FM_HUB_DIR_MAX + 16];	/* DIR/blobs/ */
	size_t files;			/* of the snapshot */
	unsigned depth;			/* of the directory that is read, in the snapshot */
	struct name *names;		/* sorted when it is made; each once */
	size_t count, cap;
	char last[KINDS][FM_PATH_LEN_MAX + 1];	/* that was added */
};

/* Opens a path on which nothing is a link. The last part may be one only with O_PATH. */
static int open_plain(int root, const char *path, int flags)
{
	return fm_call_open_below(root, path, flags, 0, RESOLVE_NO_SYMLINKS);
}

static int fail_link(const char *path, int code, struct fm_err *err)
{
	struct fm_path_shown shown;
	const char *name = fm_path_show(path, &shown);

	if (code == -EXDEV)
		return fm_err_set(err, code,
				  "\"%s\" leads to where no blobs of this hub cache are: it is not "
				  "followed",
				  name);
	if (code == -ENOENT)
		return fm_err_set(err, -EBADMSG,
				  "\"%s\" leads to a blob that is not there: the repository is not "
				  "whole; download it again",
				  name);
	if (code == -E2BIG)
		return fm_err_set(err, code,
				  "with \"%s\" it is too much: a revision has %u files, blobs and "
				  "directories at most",
				  name, FM_HUB_NAMES_MAX);
	return fm_err_sys(err, code, "look at \"%s\"", name);
}

/* ---- names ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->path, ((const struct name *)b)->path);
}

static void sort(struct fm_hub_view *v)
{
	size_t left = 0;

	qsort(v->names, v->count, sizeof(*v->names), compare);
	for (size_t i = 0; i < v->count; i++) {
		if (left > 0 && strcmp(v->names[left - 1].path, v->names[i].path) == 0)
			fm_budget_free(v->names[i].path);
		else
			v->names[left++] = v->names[i];
	}
	v->count = left;
}

/*
 * Makes a place for one more. A blob that several files have comes with each, so there may be twice
 * as many names, for a while, as there may be in the end.
 */
static int make_place(struct fm_hub_view *v)
{
	size_t cap = v->cap ? 2 * v->cap : 64;
	struct name *more;

	if (v->count < v->cap)
		return 0;
	if (v->count > 0)
		sort(v);
	if (v->count > FM_HUB_NAMES_MAX)
		return -E2BIG;
	if (v->count < v->cap && v->count <= v->cap / 2)
		return 0;
	more = FM_FAULT("hub.alloc") ? NULL : fm_budget_realloc(v->names, cap * sizeof(*more));
	if (!more)
		return -ENOMEM;
	v->names = more;
	v->cap = cap;
	return 0;
}

static int add(struct fm_hub_view *v, const char *path, size_t len, uint64_t size)
{
	int ret = make_place(v);

	if (ret < 0)
		return ret;
	v->names[v->count].size = size;
	v->names[v->count].path = FM_FAULT("hub.alloc") ? NULL : fm_budget_alloc(len + 1);
	if (!v->names[v->count].path)
		return -ENOMEM;
	memcpy(v->names[v->count].path, path, len);
	v->count++;
	return 0;
}

/*
 * Adds a file or link, and the directories on the way to it, but for those on the way to the last
 * one of that kind.
 */
static int add_with_dirs(struct fm_hub_view *v, enum kind kind, const char *path, uint64_t size)
{
	int ret = add(v, path, strlen(path), size);
	char *last = v->last[kind];

	for (const char *at = path; ret == 0 && (at = strchr(at, '/')); at++)
		if (strncmp(last, path, (size_t)(at - path) + 1) != 0)
			ret = add(v, path, (size_t)(at - path), 0);
	(void)snprintf(last, sizeof(v->last[kind]), "%s", path);
	return ret;
}

/* ---- blobs ---- */

static uint64_t size_of(const struct stat *st)
{
	return S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
}

static bool begins(const char *path, const char *with)
{
	size_t len = strlen(with);

	return strncmp(path, with, len) == 0 && path[len];
}

/* Reads a link: its target as a path below the root. */
static int read_link(int fd, const char *name, const char *dir, char *out, size_t max)
{
	char target[FM_PATH_LEN_MAX + 1];
	int len = fm_call(readlinkat(fd, name, target, sizeof(target)));

	if (len < 0)
		return len;
	if ((size_t)len >= sizeof(target))
		return -ENAMETOOLONG;
	target[len] = '\0';
	return fm_hub_link(dir, target, out, max);
}

/*
 * Adds a blob: a file of the repository, or a link to one of the cache's own blobs (the newer
 * layout), which are files.
 */
static int add_blob(struct fm_hub_view *v, const char *path)
{
	char dir[FM_PATH_LEN_MAX + 1], next[FM_PATH_LEN_MAX + 1];
	bool is_own = begins(path, v->blobs);
	struct stat st;
	int fd, ret;

	if (!is_own && !begins(path, "blobs/"))
		return -EXDEV;
	fd = open_plain(v->root, path, O_PATH | O_NOFOLLOW);
	if (fd < 0)
		return fd == -ELOOP ? -EXDEV : fd;
	ret = fm_call(fstat(fd, &st));
	if (ret == 0 && S_ISLNK(st.st_mode) && is_own) {
		(void)snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
		ret = read_link(fd, "", dir, next, sizeof(next));
		if (ret == 0 && begins(next, v->blobs))
			ret = -EXDEV;	/* one of its own again: not how it is made */
		if (ret == 0)
			ret = add_blob(v, next);
	} else if (ret == 0 && !S_ISREG(st.st_mode)) {
		ret = -EXDEV;
	}
	(void)close(fd);	/* O_PATH */
	return ret < 0 ? ret : add_with_dirs(v, is_own ? OWN_BLOB : BLOB, path, size_of(&st));
}

/* ---- the snapshot ---- */

static int walk(struct fm_hub_view *v, const char *dir, struct fm_err *err);

/*
 * Walks through a directory. The depth is bounded: each level takes a descriptor and some of the
 * stack, and who writes there chooses how many there are.
 */
static int enter(struct fm_hub_view *v, const char *dir, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret;

	if (v->depth == FM_HUB_DEPTH_MAX)
		return fm_err_set(err, -E2BIG,
				  "\"%s\" is too deep: a snapshot has %d directories in one "
				  "another at most",
				  fm_path_show(dir, &shown), FM_HUB_DEPTH_MAX);
	v->depth++;
	ret = walk(v, dir, err);
	v->depth--;
	return ret;
}

static int meet(struct fm_hub_view *v, int fd, const char *dir, const char *name,
		struct fm_err *err)
{
	char path[FM_PATH_LEN_MAX + 1], target[FM_PATH_LEN_MAX + 1];
	int len = snprintf(path, sizeof(path), "%s/%s", dir, name), ret;
	struct fm_path_shown shown;
	struct stat st;

	if (len < 0 || (size_t)len >= sizeof(path))
		return fm_err_set(err, -ENAMETOOLONG, "\"%s\": its path is too long",
				  fm_path_show(name, &shown));
	ret = fm_call_fstatat(fd, name, &st);
	if (ret == 0 && S_ISDIR(st.st_mode))
		return enter(v, path, err);
	if (ret == 0 && S_ISLNK(st.st_mode)) {
		ret = read_link(fd, name, dir, target, sizeof(target));
		if (ret == 0)
			ret = add_blob(v, target);
	} else if (ret == 0 && !S_ISREG(st.st_mode)) {
		return fm_err_set(err, -EINVAL, "\"%s\" is neither a file nor a link",
				  fm_path_show(path, &shown));
	}
	/* where links cannot be made the hub's own tools put files into snapshots */
	if (ret == 0)
		ret = add_with_dirs(v, OF_SNAPSHOT, path, size_of(&st));
	v->files++;
	return ret < 0 ? fail_link(path, ret, err) : 0;
}

static int walk(struct fm_hub_view *v, const char *dir, struct fm_err *err)
{
	int fd = open_plain(v->root, dir, DIR_FLAGS), ret = 0;
	struct fm_path_shown shown;
	const struct dirent *e;
	DIR *d;

	if (fd < 0)
		return fm_err_sys(err, fd, "open \"%s\"", fm_path_show(dir, &shown));
	d = FM_FAULT("hub.opendir") ? NULL : fdopendir(fd);
	if (!d) {
		(void)close(fd);	/* only read */
		return fm_err_sys(err, -ENOMEM, "read \"%s\"", fm_path_show(dir, &shown));
	}
	while (ret == 0 && (errno = 0, e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			ret = meet(v, fd, dir, e->d_name, err);
	if (ret == 0 && errno)
		ret = fm_err_sys(err, -errno, "read \"%s\"", fm_path_show(dir, &shown));
	(void)closedir(d);	/* only read */
	return ret;
}

/* ---- what is not through ---- */

static int check_downloads(const struct fm_hub_view *v, struct fm_err *err)
{
	static const char end[] = ".incomplete";
	int fd = open_plain(v->root, v->blobs, DIR_FLAGS), ret = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct fm_path_shown shown;
	const struct dirent *e;

	if (fd == -ENOENT)
		return 0;
	if (!d) {
		ret = fd < 0 ? fd : -errno;
		if (fd >= 0)
			(void)close(fd);	/* only read */
		return fm_err_sys(err, ret, "open \"%s\"", v->blobs);
	}
	while (ret == 0 && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len < sizeof(end) || strcmp(e->d_name + len - sizeof(end) + 1, end) != 0)
			continue;
		ret = fm_err_set(err, -EBADMSG,
				 "%s is being downloaded, or a download of it was broken off: end "
				 "it, or remove \"%s%s\"",
				 v->dir, v->blobs, fm_path_show(e->d_name, &shown));
	}
	(void)closedir(d);	/* only read */
	return ret;
}

/* Adds the newer layout's list of what the commit has. */
static int add_list(struct fm_hub_view *v)
{
	char path[FM_HUB_DIR_MAX + FM_HUB_COMMIT_LEN + 32];
	struct stat st;
	int fd, ret;

	(void)snprintf(path, sizeof(path), "%s/trees/%s.json", v->dir, v->commit);
	fd = open_plain(v->root, path, O_PATH | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	ret = fm_call(fstat(fd, &st));
	(void)close(fd);	/* O_PATH */
	if (ret == 0 && S_ISREG(st.st_mode))
		ret = add_with_dirs(v, OF_SNAPSHOT, path, (uint64_t)st.st_size);
	return ret;
}

/* ---- from outside ---- */

static int make(struct fm_hub_view *v, struct fm_err *err)
{
	char snapshot[FM_HUB_DIR_MAX + FM_HUB_COMMIT_LEN + 16];
	int ret = check_downloads(v, err);

	(void)snprintf(snapshot, sizeof(snapshot), "%s/snapshots/%s", v->dir, v->commit);
	if (ret == 0)
		ret = walk(v, snapshot, err);
	if (ret == 0 && v->files == 0)
		ret = fm_err_set(err, -ENOENT, "%s has no file of %s", v->dir, v->commit);
	if (ret < 0)
		return ret;
	ret = add_list(v);
	if (ret == -E2BIG)
		return fail_link(v->dir, ret, err);
	if (ret < 0)
		return fm_err_sys(err, ret, "look at the list of %s", v->dir);
	sort(v);
	return v->count > FM_HUB_NAMES_MAX ? fail_link(v->dir, -E2BIG, err) : 0;
}

int fm_hub_view(int root, const char *dir, const char *commit, struct fm_hub_view **out,
		struct fm_err *err)
{
	struct fm_hub_view *v = FM_FAULT("hub.alloc") ? NULL : calloc(1, sizeof(*v));
	int ret;

	if (!v)
		return fm_err_sys(err, -ENOMEM, "look at %s", dir);
	*v = (struct fm_hub_view){ .root = root, .dir = dir, .commit = commit };
	(void)snprintf(v->blobs, sizeof(v->blobs), "%s/blobs/", dir);
	ret = make(v, err);
	if (ret < 0) {
		fm_hub_view_free(v);
		return ret;
	}
	*out = v;
	return 0;
}

void fm_hub_view_free(struct fm_hub_view *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->count; i++)
		fm_budget_free(v->names[i].path);
	fm_budget_free(v->names);
	free(v);
}

bool fm_hub_view_has(const struct fm_hub_view *v, const char *path)
{
	const struct name key = { .path = (char *)path };

	return bsearch(&key, v->names, v->count, sizeof(key), compare);
}

uint64_t fm_hub_view_bytes(const struct fm_hub_view *v)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < v->count; i++)
		sum += v->names[i].size;
	return sum;
}

const char *fm_hub_view_blob(const struct fm_hub_view *v, size_t *at)
{
	while (*at < v->count) {
		const char *path = v->names[(*at)++].path;

		if (begins(path, v->blobs))
			return path;
	}
	return NULL;
}

/* ---- refs ---- */

int fm_hub_ref_read(int root, const char *path, char commit[FM_HUB_COMMIT_LEN + 1])
{
	char text[REF_BYTES_MAX];
	int fd = open_plain(root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	int64_t len;

	if (fd < 0)
		return fd;
	len = fm_call_read_all(fd, text, sizeof(text), 0);
	(void)close(fd);	/* only read */
	return len < 0 ? (int)len : fm_hub_ref_parse(text, (size_t)len, commit);
}

int fm_hub_commit(int root, const struct fm_hub_name *name, char commit[FM_HUB_COMMIT_LEN + 1],
		  struct fm_err *err)
{
	char path[FM_HUB_DIR_MAX + FM_HUB_REVISION_MAX + 16];
	struct fm_path_shown shown;
	int fd = open_plain(root, name->dir, DIR_FLAGS), ret;

	if (fd < 0)
		return fm_err_sys(err, fd, "look for %s", name->dir);
	(void)close(fd);	/* only looked at */
	if (fm_hub_is_commit(name->revision)) {
		strcpy(commit, name->revision);
		return 0;
	}
	(void)snprintf(path, sizeof(path), "%s/refs/%s", name->dir, name->revision);
	ret = fm_hub_ref_read(root, path, commit);
	if (ret == -EBADMSG)
		return fm_err_set(err, ret, "\"%s\" names no commit", fm_path_show(path, &shown));
	return ret < 0 ? fm_err_sys(err, ret, "read \"%s\"", fm_path_show(path, &shown)) : 0;
}
