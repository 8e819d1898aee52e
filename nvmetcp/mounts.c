/* SPDX-License-Identifier: MIT */
/*
 * mounts - see mounts.h. mover/base/mountinfo.h has the form of a line, and says why no library
 * reads it. Here "not mounted" permits a mount on another node, so a line that cannot be read is an
 * error.
 */
#include "nvmetcp/mounts.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/mountinfo.h"

/* --------------------------------------------------------------------------------- taking apart */

/* The word as a string at *to, which is moved behind it; never longer than the word and the blank
 * behind it. */
static char *put_word(char **to, struct fm_mountinfo_word word, bool is_escaped)
{
	const char *at = word.at, *end = at + word.len;
	char *start = *to;

	while (at < end)
		*(*to)++ = is_escaped ? fm_mountinfo_byte(&at, end) : *at++;
	*(*to)++ = '\0';
	return start;
}

/* Whether "ro" is one of the options. */
static bool has_ro(struct fm_mountinfo_word options)
{
	const char *at = options.at, *end = at + options.len, *comma;

	for (; at; at = comma ? comma + 1 : NULL) {
		comma = memchr(at, ',', (size_t)(end - at));
		if ((comma ? comma : end) - at == 2 && memcmp(at, "ro", 2) == 0)
			return true;
	}
	return false;
}

/* Takes one line apart, and copies its strings to *to. */
static bool parse_line(const char *line, size_t len, struct fm_mount *m, char **to)
{
	struct fm_mountinfo_more more;
	struct fm_mountinfo is;

	if (!fm_mountinfo_parse(line, len, &is) || !fm_mountinfo_more(&is, &more) ||
	    memchr(more.fs_options.at, ' ', more.fs_options.len))
		return false;
	m->id = (int)is.id;
	m->parent = (int)is.parent;
	m->dev = is.device;
	m->root = put_word(to, is.root, true);
	m->point = put_word(to, is.point, true);
	m->options = put_word(to, more.options, false);
	(*to)[-1] = ',';
	(void)put_word(to, more.fs_options, false);
	m->fs_type = put_word(to, more.type, true);
	m->source = put_word(to, more.source, true);
	m->is_read_only = has_ro(more.options) || has_ro(more.fs_options);
	return true;
}

static size_t count_lines(const char *text, size_t len)
{
	const char *end = text + len;
	size_t count = 0;

	for (const char *at = text; at < end; count++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		at = newline ? newline + 1 : end;
	}
	return count;
}

static int alloc_table(struct fm_mounts *out, size_t lines, size_t len, struct fm_err *err)
{
	*out = (struct fm_mounts){ 0 };
	if (lines > FM_MOUNTS_MAX || len > FM_MOUNTS_BYTES_MAX)
		return fm_err_set(err, -E2BIG,
				  "%zu mounts in %zu bytes; %d in %u bytes are allowed", lines, len,
				  FM_MOUNTS_MAX, FM_MOUNTS_BYTES_MAX);
	out->mounts = FM_FAULT("mounts.table") ? NULL : calloc(lines + 1, sizeof(*out->mounts));
	out->text = FM_FAULT("mounts.text") ? NULL : malloc(len + 1);
	if (out->mounts && out->text)
		return 0;
	fm_mounts_free(out);
	return fm_err_set(err, -ENOMEM, "no memory for a table of %zu mounts", lines);
}

int fm_mounts_parse(const char *text, size_t len, struct fm_mounts *out, struct fm_err *err)
{
	const char *end = text + len, *at = text, *line_end;
	size_t lines = count_lines(text, len), line;
	int ret = alloc_table(out, lines, len, err);
	char *to = out->text;

	for (line = 0; ret == 0 && line < lines; line++, at = line_end + 1) {
		line_end = memchr(at, '\n', (size_t)(end - at));
		if (!line_end)
			line_end = end;
		if (!parse_line(at, (size_t)(line_end - at), &out->mounts[line], &to))
			ret = fm_err_set(err, -EINVAL,
					 "line %zu is not of the form of proc_pid_mountinfo(5)",
					 line + 1);
	}
	if (ret < 0) {
		fm_mounts_free(out);
		return ret;
	}
	assert((size_t)(to - out->text) <= len + 1);
	out->count = lines;
	return 0;
}

void fm_mounts_free(struct fm_mounts *mounts)
{
	free(mounts->mounts);
	free(mounts->text);
	*mounts = (struct fm_mounts){ 0 };
}

/* -------------------------------------------------------------------------------------- reading */

int fm_mounts_read(const char *root, struct fm_mounts *out, struct fm_err *err)
{
	char path[PATH_MAX], *text = NULL;
	size_t len;
	int ret;

	*out = (struct fm_mounts){ 0 };
	if ((size_t)snprintf(path, sizeof(path), "%s" FM_MOUNTINFO,
			     strcmp(root, "/") == 0 ? "" : root) >= sizeof(path))
		return fm_err_sys(err, -ENAMETOOLONG, "open proc/self/mountinfo below \"%.64s...\"",
				  root);
	ret = FM_FAULT("mounts.read") ? -EIO : fm_mountinfo_read(path, &text, &len);
	if (ret < 0)
		(void)fm_err_sys(err, ret, "read %s", path);
	else if ((ret = fm_mounts_parse(text, len, out, err)) < 0)
		(void)fm_err_wrap(err, "%s", path);
	free(text);
	return ret;
}

/* ----------------------------------------------------------------------------------- looking up */

/* Whether `point` is `path` or a directory on the way to it. */
static bool is_on_the_way(const char *point, const char *path)
{
	size_t len = strlen(point);

	if (len == 1)		/* "/" */
		return true;
	return strncmp(point, path, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Whether it is mounted on `on`; NULL: on nothing that is in the table. The first of all is its own
 * parent, or so. */
static bool is_mounted_on(const struct fm_mounts *mounts, const struct fm_mount *m,
			  const struct fm_mount *on)
{
	if (on)
		return m != on && m->parent == on->id;
	for (size_t i = 0; i < mounts->count; i++)
		if (&mounts->mounts[i] != m && mounts->mounts[i].id == m->parent)
			return false;
	return true;
}

/*
 * The kernel's own way through the path: from a mount to the first one that is met on it. The order
 * of the table says nothing (mount --move, mount --beneath), and a longer point may lie below a
 * shorter one that covers it.
 */
const struct fm_mount *fm_mounts_at(const struct fm_mounts *mounts, const char *point)
{
	const struct fm_mount *at = NULL, *next = NULL, *m;

	for (size_t step = 0; step <= mounts->count; step++, at = next) {
		next = NULL;
		for (size_t i = 0; i < mounts->count; i++) {
			m = &mounts->mounts[i];
			if (is_on_the_way(m->point, point) &&
			    (!next || strlen(m->point) <= strlen(next->point)) &&
			    is_mounted_on(mounts, m, at))
				next = m;
		}
		if (!next)
			return at && strcmp(at->point, point) == 0 ? at : NULL;
	}
	return NULL;		/* they are mounted on each other in a circle: no kernel's table */
}

const char *fm_mount_device(const struct fm_mount *m)
{
	bool is_fuse = strcmp(m->fs_type, "fuse") == 0 || strncmp(m->fs_type, "fuse.", 5) == 0;

	return !is_fuse && strncmp(m->source, "/dev/", 5) == 0 ? m->source + 5 : "";
}

bool fm_mount_is_of(const struct fm_mount *m, dev_t dev, const char *name)
{
	return (dev != 0 && m->dev == dev) ||
	       (major(m->dev) == 0 && name[0] && strcmp(fm_mount_device(m), name) == 0);
}

const struct fm_mount *fm_mounts_of(const struct fm_mounts *mounts, dev_t dev,
				    const struct fm_mount *after)
{
	const struct fm_mount *end = mounts->mounts + mounts->count;

	for (const struct fm_mount *m = after ? after + 1 : mounts->mounts; m < end; m++)
		if (m->dev == dev)
			return m;
	return NULL;
}

