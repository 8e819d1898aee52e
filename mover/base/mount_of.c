/* SPDX-License-Identifier: MIT */
/* mount_of - see mount_of.h. */
#include "mover/base/mount_of.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A mount that a path is below, as far as its mount point goes. */
struct point {
	unsigned id, parent;
	size_t len;		/* that its mount point takes of the path */
	bool was_met;
	char device[24];	/* MAJOR:MINOR */
	char *root;		/* the directory of the file system that is mounted, escaped */
};

struct points {
	struct point *at;
	size_t count;
};

static bool is_octal(const char *at)
{
	return at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' &&
	       at[3] >= '0' && at[3] <= '7';
}

static char octal(const char *at)
{
	return (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + at[3] - '0');
}

/*
 * How much of a path a mount point takes, which is written as in mountinfo (a blank is "\040") and
 * ends with a blank. 0: the path is not below it.
 */
static size_t taken(const char *point, const char *path)
{
	size_t len = 0;

	while (*point && *point != ' ') {
		char c = *point;

		if (is_octal(point)) {
			c = octal(point);
			point += 3;
		}
		if (path[len] != c)
			return 0;
		point++;
		len++;
	}
	if (len == 1)	/* "/" */
		return 1;
	return path[len] == '/' || path[len] == '\0' ? len : 0;
}

/* ---- the mounts that a path may lead to ---- */

/* False: there is no memory. */
static bool add(struct points *all, const struct point *p, const char *root, size_t root_len)
{
	struct point *more = realloc(all->at, (all->count + 1) * sizeof(*more));

	if (!more)
		return false;
	all->at = more;
	more[all->count] = *p;
	more[all->count].root = strndup(root, root_len);
	return more[all->count++].root != NULL;
}

static bool add_line(struct points *all, const char *line, const char *path)
{
	struct point p = { .id = 0 };
	const char *end;
	int at = 0;

	if (sscanf(line, "%u %u %23s %n", &p.id, &p.parent, p.device, &at) != 3 || at == 0)
		return true;
	end = strchr(line + at, ' ');
	p.len = end ? taken(end + 1, path) : 0;
	return p.len == 0 || add(all, &p, line + at, (size_t)(end - line) - (size_t)at);
}

static void free_all(struct points *all)
{
	for (size_t i = 0; i < all->count; i++)
		free(all->at[i].root);
	free(all->at);
}

/* ---- which of them it does ---- */

static bool is_below_another(const struct points *all, const struct point *p)
{
	for (size_t i = 0; i < all->count; i++)
		if (&all->at[i] != p && all->at[i].id == p->parent)
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
		bool is_here = on ? p->parent == on->id && p->len > 1 : !is_below_another(all, p);

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

static const struct point *find(struct points *all, FILE *mounts, const char *path)
{
	size_t size = 0;
	char *line = NULL;
	bool is_ok = true;

	while (is_ok && getline(&line, &size, mounts) >= 0)
		is_ok = add_line(all, line, path);
	free(line);
	return is_ok ? lead(all) : NULL;
}

unsigned fm_mount_in(FILE *mounts, const char *path, size_t *out_len)
{
	struct points all = { .at = NULL };
	const struct point *p = find(&all, mounts, path);
	unsigned id = p ? p->id : 0;

	*out_len = p ? p->len : 0;
	free_all(&all);
	return id;
}

/* Without what is escaped, as in a path. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++, to++) {
		*to = *at;
		if (!is_octal(at))
			continue;
		*to = octal(at);
		at += 3;
	}
	*to = '\0';
}

bool fm_mount_place_in(FILE *mounts, const char *path, char *out, size_t size)
{
	struct points all = { .at = NULL };
	const struct point *p = find(&all, mounts, path);
	int len = 0;

	if (p) {
		unescape(p->root);
		len = snprintf(out, size, "%s %s%s", p->device,
			       strcmp(p->root, "/") == 0 ? "" : p->root,
			       path + (p->len > 1 ? p->len : 0));
	}
	free_all(&all);
	return len > 0 && (size_t)len < size;
}

bool fm_mount_place(const char *path, char *out, size_t size)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	bool is_found = mounts && fm_mount_place_in(mounts, path, out, size);

	if (mounts)
		(void)fclose(mounts);	/* only read */
	return is_found;
}

static unsigned look_up(const char *path, size_t *out_len)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	unsigned mount = mounts ? fm_mount_in(mounts, path, out_len) : 0;

	if (mounts)
		(void)fclose(mounts);	/* only read */
	return mount;
}

unsigned fm_mount_of(const char *path)
{
	size_t len;

	return look_up(path, &len);
}

size_t fm_mount_len(const char *path)
{
	size_t len = 0;

	(void)look_up(path, &len);
	return len;
}
