/* SPDX-License-Identifier: MIT */
/* mountinfo - see mountinfo.h. */
#include "mover/base/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define READ_FIRST (64u << 10)
#define READ_TRIES 16		/* until nothing was mounted or unmounted meanwhile */

/* ---- taking apart ---- */

bool fm_mountinfo_word(const char **at, const char *end, struct fm_mountinfo_word *out)
{
	const char *blank;

	if (!*at)
		return false;
	blank = memchr(*at, ' ', (size_t)(end - *at));
	*out = (struct fm_mountinfo_word){ *at, (size_t)((blank ? blank : end) - *at) };
	*at = blank ? blank + 1 : NULL;
	return true;
}

/* A decimal number that ends before `until` or, with 0, with the word. *at is moved behind it. */
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

static bool get_id(const char **at, const char *end, unsigned *out)
{
	struct fm_mountinfo_word word;

	return fm_mountinfo_word(at, end, &word) &&
	       get_number(&word.at, word.at + word.len, 0, out);
}

static bool get_device(const char **at, const char *end, dev_t *out)
{
	unsigned major_no, minor_no;
	struct fm_mountinfo_word word;
	const char *word_end;

	if (!fm_mountinfo_word(at, end, &word))
		return false;
	word_end = word.at + word.len;
	if (!get_number(&word.at, word_end, ':', &major_no) ||
	    !get_number(&word.at, word_end, 0, &minor_no))
		return false;
	*out = makedev(major_no, minor_no);
	return true;
}

bool fm_mountinfo_parse(const char *line, size_t len, struct fm_mountinfo *out)
{
	const char *at = line;

	out->line = line;
	out->end = line + len;
	return !memchr(line, '\0', len) && get_id(&at, out->end, &out->id) &&
	       get_id(&at, out->end, &out->parent) && get_device(&at, out->end, &out->device) &&
	       fm_mountinfo_word(&at, out->end, &out->root) &&
	       fm_mountinfo_word(&at, out->end, &out->point) && at && out->point.len > 0 &&
	       out->point.at[0] == '/';
}

bool fm_mountinfo_next(const char **at, const char *end, struct fm_mountinfo *out)
{
	bool is_one = false;

	while (!is_one && *at < end) {
		const char *newline = memchr(*at, '\n', (size_t)(end - *at));
		const char *line_end = newline ? newline : end;

		is_one = fm_mountinfo_parse(*at, (size_t)(line_end - *at), out);
		*at = newline ? newline + 1 : end;
	}
	return is_one;
}

bool fm_mountinfo_more(const struct fm_mountinfo *of, struct fm_mountinfo_more *out)
{
	const char *at = of->point.at + of->point.len + 1;
	struct fm_mountinfo_word word;

	if (!fm_mountinfo_word(&at, of->end, &out->options))
		return false;
	do {
		if (!fm_mountinfo_word(&at, of->end, &word))
			return false;
	} while (word.len != 1 || word.at[0] != '-');
	if (!fm_mountinfo_word(&at, of->end, &out->type) || out->type.len == 0 ||
	    !fm_mountinfo_word(&at, of->end, &out->source) || !at)
		return false;
	out->fs_options = (struct fm_mountinfo_word){ at, (size_t)(of->end - at) };
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

char fm_mountinfo_byte(const char **at, const char *end)
{
	char byte = unescape(*at, end), as_it_is = **at;

	*at += byte ? 4 : 1;
	return byte ? byte : as_it_is;
}

bool fm_mountinfo_string(struct fm_mountinfo_word word, char *out, size_t size)
{
	const char *at = word.at, *end = at + word.len;
	size_t len = 0;

	while (at < end && len < size)
		out[len++] = fm_mountinfo_byte(&at, end);
	if (len == size)
		return false;
	out[len] = '\0';
	return true;
}

/* ---- reading ---- */

/* Room for more: all that is allowed, and a byte that is not. */
static int grow(char **text, size_t *room)
{
	size_t want = *room ? *room * 2 : READ_FIRST;
	char *grown;

	if (*room > FM_MOUNTINFO_BYTES_MAX)
		return -E2BIG;
	if (want > FM_MOUNTINFO_BYTES_MAX)
		want = FM_MOUNTINFO_BYTES_MAX + 1;
	grown = realloc(*text, want);
	if (!grown)
		return -ENOMEM;
	*text = grown;
	*room = want;
	return 0;
}

/* Reads the file from its start. */
static int read_all(int fd, char **text, size_t *room, size_t *len)
{
	ssize_t got = 1;
	int ret;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	for (*len = 0; got > 0; *len += (size_t)got) {
		ret = *len == *room ? grow(text, room) : 0;
		if (ret < 0)
			return ret;
		got = read(fd, *text + *len, *room - *len);
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

int fm_mountinfo_read_fd(int fd, bool (*has_changed_since)(int fd), char **text, size_t *len)
{
	int ret = -EAGAIN;
	size_t room = 0;

	*text = NULL;
	*len = 0;
	for (unsigned i = 0; ret == -EAGAIN && i < READ_TRIES; i++) {
		ret = read_all(fd, text, &room, len);
		if (ret == 0 && has_changed_since(fd))
			ret = -EAGAIN;
	}
	return ret;
}

int fm_mountinfo_read(const char *path, char **text, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	*text = NULL;
	*len = 0;
	if (fd < 0)
		return -errno;
	ret = fm_mountinfo_read_fd(fd, has_changed, text, len);
	close(fd);
	return ret;
}
