/* SPDX-License-Identifier: MIT */
/* mount_of - see mount_of.h. */
#include "mover/base/mount_of.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mover/base/mountinfo.h"

/* A mount that a path is below, as far as its mount point goes. */
struct point {
	struct fm_mountinfo mount;
	size_t len;		/* that its mount point takes of the path */
	bool was_met;
};

struct points {
	struct point *at;
	size_t count, size;
};

/* How much of a path a mount point takes. 0: the path is not below it. */
static size_t taken(struct fm_mountinfo_word point, const char *path)
{
	const char *at = point.at, *end = at + point.len;
	size_t len = 0;

	while (at < end)
		if (path[len++] != fm_mountinfo_byte(&at, end))
			return 0;
	if (len == 1)	/* "/" */
		return 1;
	return path[len] == '/' || path[len] == '\0' ? len : 0;
}

/* ---- the mounts that a path may lead to ---- */

/* False: there is no memory. */
static bool add(struct points *all, const struct point *p)
{
	size_t size = all->size ? 2 * all->size : 16;
	struct point *more;

	if (all->count == all->size) {
		more = realloc(all->at, size * sizeof(*more));
		if (!more)
			return false;
		all->at = more;
		all->size = size;
	}
	all->at[all->count++] = *p;
	return true;
}

/* ---- which of them it does ---- */

static bool is_below_another(const struct points *all, const struct point *p)
{
	for (size_t i = 0; i < all->count; i++)
		if (&all->at[i] != p && all->at[i].mount.id == p->mount.parent)
			return true;
	return false;
}

/*
 * The mount that is met next on the way from the root, being on that one (NULL: at the root). What
 * is mounted on the root itself is not on the way. NULL: none.
 */
static struct point *meet_next(const struct points *all, const struct point *on)
{
	struct point *next = NULL;

	for (size_t i = 0; i < all->count; i++) {
		struct point *p = &all->at[i];
		bool is_here = on ? p->mount.parent == on->mount.id && p->len > 1
				  : !is_below_another(all, p);

		if (is_here && !p->was_met && (!next || p->len <= next->len))
			next = p;
	}
	return next;
}

/*
 * The longest mount point need not be it: what was mounted above that later hides it. So the way is
 * gone as the kernel does, from each mount to the first one that is mounted on it.
 */
static const struct point *lead(const struct points *all)
{
	struct point *on = NULL, *next;

	while ((next = meet_next(all, on))) {
		next->was_met = true;
		on = next;
	}
	return on;
}

/* The words of what is found are in the text. */
static bool find(const char *text, size_t len, const char *path, struct point *out)
{
	const char *at = text, *end = text + len;
	struct points all = { .at = NULL };
	const struct point *found;
	bool is_ok = true;
	struct point p = { .len = 0 };

	while (is_ok && fm_mountinfo_next(&at, end, &p.mount)) {
		p.len = taken(p.mount.point, path);
		is_ok = p.len == 0 || add(&all, &p);
	}
	found = is_ok ? lead(&all) : NULL;
	if (found)
		*out = *found;
	free(all.at);
	return found != NULL;
}

unsigned fm_mount_in(const char *text, size_t len, const char *path, size_t *out_len)
{
	struct point p;
	bool is_found = find(text, len, path, &p);

	*out_len = is_found ? p.len : 0;
	return is_found ? p.mount.id : 0;
}

/* What was mounted, as it is written there; nothing of what a block device has, and without one. */
static struct fm_mountinfo_word source_of(const struct fm_mountinfo *mount)
{
	struct fm_mountinfo_more more;

	if (major(mount->device) != 0 || !fm_mountinfo_more(mount, &more))
		return (struct fm_mountinfo_word){ .at = "" };
	return more.source;
}

bool fm_mount_place_in(const char *text, size_t len, const char *path, char *out, size_t size)
{
	struct fm_mountinfo_word source;
	struct point p;
	size_t used, rest;
	int number;

	if (!find(text, len, path, &p))
		return false;
	source = source_of(&p.mount);
	number = snprintf(out, size, "%u:%u %.*s ", major(p.mount.device), minor(p.mount.device),
			  (int)source.len, source.at);
	if (number < 0 || (size_t)number >= size ||
	    !fm_mountinfo_string(p.mount.root, out + number, size - (size_t)number))
		return false;
	used = strcmp(out + number, "/") == 0 ? (size_t)number : strlen(out);
	path += p.len > 1 ? p.len : 0;
	rest = strlen(path) + 1;
	if (rest > size - used)
		return false;
	memcpy(out + used, path, rest);
	return true;
}

/* ---- of this process ---- */

/* False: it cannot be read. One that never stays the same for long is taken as it was read last. */
static bool read_mounts(char **text, size_t *len)
{
	int ret = fm_mountinfo_read(FM_MOUNTINFO, text, len);

	return ret == 0 || ret == -EAGAIN;
}

bool fm_mount_place(const char *path, char *out, size_t size)
{
	size_t len;
	char *text;
	bool is_found = read_mounts(&text, &len) && fm_mount_place_in(text, len, path, out, size);

	free(text);
	return is_found;
}

unsigned fm_mount_look(const char *path, size_t *out_len)
{
	size_t len;
	char *text;
	unsigned mount = read_mounts(&text, &len) ? fm_mount_in(text, len, path, out_len) : 0;

	if (mount == 0)
		*out_len = 0;
	free(text);
	return mount;
}

unsigned fm_mount_of(const char *path)
{
	size_t len;

	return fm_mount_look(path, &len);
}

size_t fm_mount_len(const char *path)
{
	size_t len;

	(void)fm_mount_look(path, &len);
	return len;
}

/* Not by statx(2), which some file systems answer for themselves. */
unsigned fm_mount_of_fd(int fd)
{
	char path[64], *line = NULL;
	unsigned id = 0;
	size_t size = 0;
	FILE *info;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info && id == 0 && getline(&line, &size, info) >= 0)
		(void)sscanf(line, "mnt_id: %u", &id);
	if (info)
		(void)fclose(info);	/* only read */
	free(line);
	return id;
}
