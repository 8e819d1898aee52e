/* SPDX-License-Identifier: MIT */
/* dirway - see dirway.h. */
#include "mover/base/dirway.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/mount_of.h"
#include "mover/base/mountinfo.h"

/* ---- mounts ---- */

struct mount {
	unsigned id;
	unsigned parent;
	uint64_t sum;		/* of all that says which mount it is */
};

struct mounts {
	struct mount *of;
	size_t count, size;
};

/* FNV-1a */
static uint64_t add_to(uint64_t sum, const char *at, const char *end)
{
	for (; at < end; at++)
		sum = (sum ^ (unsigned char)*at) * 0x100000001b3;
	return sum;
}

/*
 * Over what says which mount it is: the IDs, the device, the mount point. Not which directory of
 * its file system is there: that of a mount stays, but may be renamed.
 */
static uint64_t sum_of(const struct fm_mountinfo *is)
{
	uint64_t sum = add_to(0xcbf29ce484222325, is->line, is->root.at);

	sum = add_to(sum, is->point.at, is->point.at + is->point.len);
	return sum ? sum : 1;
}

static bool add(struct mounts *m, const struct fm_mountinfo *is)
{
	size_t size = m->size ? 2 * m->size : 64;
	struct mount *more;

	if (m->count == m->size) {
		more = realloc(m->of, size * sizeof(*more));
		if (!more)
			return false;
		m->of = more;
		m->size = size;
	}
	m->of[m->count++] = (struct mount){ is->id, is->parent, sum_of(is) };
	return true;
}

/* False: there is no memory for all. The caller frees m->of, also then. */
static bool list_all(const char *text, size_t len, struct mounts *m)
{
	const char *at = text, *end = text + len;
	struct fm_mountinfo is;
	bool is_ok = true;

	*m = (struct mounts){ 0 };
	while (is_ok && fm_mountinfo_next(&at, end, &is))
		is_ok = add(m, &is);
	return is_ok;
}

static const struct mount *find(const struct mounts *m, unsigned id)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->of[i].id == id)
			return &m->of[i];
	return NULL;
}

void fm_dirway_mount_in(const char *text, size_t len, unsigned id, struct fm_dirway *out)
{
	struct mounts m;
	const struct mount *at = list_all(text, len, &m) ? find(&m, id) : NULL;

	out->mount = at ? at->sum : 0;
	/* the top one's parent is not listed; no more than there are, whatever the file says */
	for (out->depth = 0; at && out->depth < m.count; out->depth++)
		at = find(&m, at->parent);
	free(m.of);
}

bool fm_dirway_lists(const char *text, size_t len, uint64_t mount)
{
	const char *at = text, *end = text + len;
	struct fm_mountinfo is;
	bool is_there = false;

	while (!is_there && fm_mountinfo_next(&at, end, &is))
		is_there = sum_of(&is) == mount;
	return is_there;
}

static void look_up(unsigned id, struct fm_dirway *out)
{
	char *text = NULL;
	size_t len;
	int ret = id > 0 ? fm_mountinfo_read(FM_MOUNTINFO, &text, &len) : -ENOENT;

	if (ret == 0 || ret == -EAGAIN)	/* it would be missing at worst */
		fm_dirway_mount_in(text, len, id, out);
	free(text);
}

/* ---- where a path leads ---- */

int fm_dirway_of(int fd, struct fm_dirway *out)
{
	struct stat st;
	int ret = fm_call(fstat(fd, &st));

	*out = (struct fm_dirway){ 0 };
	if (ret < 0)
		return ret;
	out->device = st.st_dev;
	out->inode = st.st_ino;
	out->mount_id = fm_mount_of_fd(fd);
	look_up(out->mount_id, out);
	return 0;
}

int fm_dirway_at(const char *path, struct fm_dirway *out)
{
	int fd = fm_call(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
	int ret;

	*out = (struct fm_dirway){ 0 };
	if (fd < 0)
		return fd;
	ret = fm_dirway_of(fd, out);
	close(fd);
	return ret;
}

void fm_dirway_spelled(const char *path, struct fm_dirway *out)
{
	*out = (struct fm_dirway){ 0 };
	look_up(fm_mount_of(path), out);
}

/* ---- what it led to before ---- */

bool fm_dirway_is_same(const struct fm_dirway *a, const struct fm_dirway *b)
{
	return a->device != 0 && a->device == b->device && a->inode == b->inode;
}

bool fm_dirway_is_unmounted(const struct fm_dirway *was)
{
	char *text = NULL;
	size_t len;
	bool is_gone;

	if (!was->mount)
		return false;
	/* what was read while something moved may lack a mount that is there */
	is_gone = fm_mountinfo_read(FM_MOUNTINFO, &text, &len) == 0 &&
		  !fm_dirway_lists(text, len, was->mount);
	free(text);
	return is_gone;
}

bool fm_dirway_is_beneath(const struct fm_dirway *now, const struct fm_dirway *was)
{
	return now->depth < was->depth && fm_dirway_is_unmounted(was);
}

/* One on the way: of root or of us, and no other may rename in it; in one that is sticky, not what
 * is ours. */
static bool is_ours(int top, const char *dir, bool may_be_sticky)
{
	int fd = fm_call_open_below(top, dir, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	struct stat st;
	int ret;

	if (fd < 0)
		return false;
	ret = fm_call(fstat(fd, &st));
	close(fd);
	return ret == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       ((st.st_mode & 022) == 0 || (may_be_sticky && st.st_mode & S_ISVTX));
}

/* Whether a path without a link leads to that directory, and only root and we can change that. */
static bool is_ours_alone(const char *path, const struct fm_dirway *now)
{
	int top = fm_call(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), fd;
	struct fm_dirway is = { 0 };
	bool is_last = true, is_so;
	char dir[PATH_MAX], *slash;

	if (top < 0)
		return false;
	is_so = (size_t)snprintf(dir, sizeof(dir), "%s", path + strspn(path, "/")) < sizeof(dir);
	for (size_t len = strlen(dir); len > 0 && dir[len - 1] == '/'; len--)
		dir[len - 1] = '\0';
	fd = is_so && dir[0] ? fm_call_open_below(top, dir, O_PATH | O_DIRECTORY, 0,
						  RESOLVE_NO_SYMLINKS)
			     : -ENOENT;
	is_so = fd >= 0 && fm_dirway_of(fd, &is) == 0 && fm_dirway_is_same(&is, now);
	if (fd >= 0)
		close(fd);
	while (is_so && (slash = strrchr(dir, '/'))) {
		*slash = '\0';
		is_so = is_ours(top, dir, !is_last);
		is_last = false;
	}
	is_so = is_so && is_ours(top, ".", !is_last);
	close(top);
	return is_so;
}

bool fm_dirway_is_mounted_over(const char *path, const struct fm_dirway *now,
			       const struct fm_dirway *was)
{
	return now->device != was->device && now->mount && was->mount &&
	       now->mount != was->mount && now->depth >= was->depth && is_ours_alone(path, now);
}
