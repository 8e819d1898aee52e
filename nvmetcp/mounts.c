/* SPDX-License-Identifier: MIT */
/*
 * mounts - see mounts.h. The kernel's table of mounts, one mount a line:
 *
 *   36 35 98:0 /sub /mnt/a\040b rw,noatime master:1 shared:2 - ext4 /dev/sda1 rw,errors=continue
 *   id parent dev root point options, any number of tokens, "-", type source options
 *
 * One blank between two tokens, and one may be empty: a source can be "". Blanks, tabs, newlines,
 * backslashes and '#' in one are three octal digits behind a backslash.
 *
 * Why not libmount: here "not mounted" permits a mount on another node, so a line that cannot be
 * read must be an error. libmount leaves such a line out unless it is told otherwise, and it does
 * not say which mount covers a path. It would bring four libraries into a process of root. This
 * parser takes one format, has two limits, and is fuzzed (tests/fuzz/fuzz_mounts.c).
 */
#include "nvmetcp/mounts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

#define READ_FIRST (64u << 10)
#define READ_TRIES 16		/* until nothing was mounted or unmounted meanwhile */

/* --------------------------------------------------------------------------------- taking apart */

/* A line, or what is left of it. */
struct rest {
	const char *at, *end;	/* at NULL: there is no further token */
};

struct token {
	const char *at;
	size_t len;
};

static bool next_token(struct rest *rest, struct token *out)
{
	const char *blank;

	if (!rest->at)
		return false;
	blank = memchr(rest->at, ' ', (size_t)(rest->end - rest->at));
	*out = (struct token){ rest->at, (size_t)((blank ? blank : rest->end) - rest->at) };
	rest->at = blank ? blank + 1 : NULL;
	return true;
}

/* A decimal number that ends before `until` or, with 0, with the token. *at is moved behind it. */
static bool get_number(const char **at, const char *end, char until, unsigned *out)
{
	uint64_t value = 0;
	const char *p = *at;

	for (; p < end && *p >= '0' && *p <= '9' && value <= INT_MAX; p++)
		value = value * 10 + (uint64_t)(*p - '0');
	if (p == *at || value > INT_MAX || (until ? p == end || *p != until : p != end))
		return false;
	*out = (unsigned)value;
	*at = until ? p + 1 : p;
	return true;
}

static bool token_id(struct rest *rest, int *out)
{
	struct token token;
	unsigned value;

	if (!next_token(rest, &token) || !get_number(&token.at, token.at + token.len, 0, &value))
		return false;
	*out = (int)value;
	return true;
}

static bool token_dev(struct rest *rest, dev_t *out)
{
	unsigned major_no, minor_no;
	const char *end;
	struct token token;

	if (!next_token(rest, &token))
		return false;
	end = token.at + token.len;
	if (!get_number(&token.at, end, ':', &major_no) ||
	    !get_number(&token.at, end, 0, &minor_no))
		return false;
	*out = makedev(major_no, minor_no);
	return true;
}

/* A byte as "\040"; 0: it is none. */
static char unescape(const char *at, const char *end)
{
	unsigned value = 0;

	if (end - at < 4 || at[0] != '\\' || at[1] > '3')
		return 0;
	for (int i = 1; i < 4; i++) {
		if (at[i] < '0' || at[i] > '7')
			return 0;
		value = value * 8 + (unsigned)(at[i] - '0');
	}
	return (char)value;
}

/* The token as a string at *to, which is moved behind it; never longer than the token and the blank
 * behind it. */
static char *put_token(char **to, struct token token, bool is_escaped)
{
	const char *end = token.at + token.len;
	char *start = *to, byte;

	for (const char *p = token.at; p < end; p++) {
		byte = is_escaped ? unescape(p, end) : 0;
		*(*to)++ = byte ? byte : *p;
		p += byte ? 3 : 0;
	}
	*(*to)++ = '\0';
	return start;
}

/* Whether "ro" is one of the options. */
static bool has_ro(struct token options)
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
	struct rest rest = { line, line + len };
	struct token root, point, options, token, type, source, fs_options;

	if (memchr(line, '\0', len) || !token_id(&rest, &m->id) || !token_id(&rest, &m->parent) ||
	    !token_dev(&rest, &m->dev) || !next_token(&rest, &root) || !next_token(&rest, &point) ||
	    !next_token(&rest, &options))
		return false;
	do {
		if (!next_token(&rest, &token))
			return false;
	} while (token.len != 1 || token.at[0] != '-');
	if (!next_token(&rest, &type) || !next_token(&rest, &source) ||
	    !next_token(&rest, &fs_options))
		return false;
	if (rest.at || point.len == 0 || point.at[0] != '/' || type.len == 0)
		return false;
	m->root = put_token(to, root, true);
	m->point = put_token(to, point, true);
	m->options = put_token(to, options, false);
	(*to)[-1] = ',';
	(void)put_token(to, fs_options, false);
	m->fs_type = put_token(to, type, true);
	m->source = put_token(to, source, true);
	m->is_read_only = has_ro(options) || has_ro(fs_options);
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

/* Reads the file from its start. The caller frees *text, also after an error. */
static int read_all(int fd, char **text, size_t *room, size_t *len)
{
	ssize_t got = 1;
	char *grown;
	size_t want;

	if (FM_FAULT("mounts.seek"))
		return -EIO;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	for (*len = 0; got > 0; *len += (size_t)got) {
		if (*len == *room) {
			want = *room ? *room * 2 : READ_FIRST;
			if (want > 2 * FM_MOUNTS_BYTES_MAX)
				return -E2BIG;
			grown = FM_FAULT("mounts.room") ? NULL : realloc(*text, want);
			if (!grown)
				return -ENOMEM;
			*text = grown;
			*room = want;
		}
		got = FM_FAULT("mounts.read") ? (errno = EIO, -1)
					      : read(fd, *text + *len, *room - *len);
		if (got < 0)
			return -errno;
	}
	return 0;
}

/*
 * Whether a mount came or went since this was asked the last time, or since the file was opened.
 * The kernel gives the table piece by piece, and a mount that moved in between could be in none.
 */
static bool has_changed(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLPRI | POLLERR));
}

static int read_at_one_moment(int fd, char **text, size_t *len)
{
	size_t room = 0;
	int ret;

	for (unsigned i = 0; i < READ_TRIES; i++) {
		ret = read_all(fd, text, &room, len);
		if (ret < 0 || !(has_changed(fd) || FM_FAULT("mounts.changed")))
			return ret;
	}
	return -EAGAIN;
}

int fm_mounts_read(const char *root, struct fm_mounts *out, struct fm_err *err)
{
	char path[PATH_MAX], *text = NULL;
	size_t len = 0;
	int fd, ret;

	*out = (struct fm_mounts){ 0 };
	if ((size_t)snprintf(path, sizeof(path), "%s/proc/self/mountinfo",
			     strcmp(root, "/") == 0 ? "" : root) >= sizeof(path))
		return fm_err_sys(err, -ENAMETOOLONG, "open proc/self/mountinfo below \"%.64s...\"",
				  root);
	fd = FM_FAULT("mounts.open") ? (errno = EMFILE, -1) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fm_err_sys(err, -errno, "open %s", path);
	ret = read_at_one_moment(fd, &text, &len);
	close(fd);
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

