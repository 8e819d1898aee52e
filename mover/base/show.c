/* SPDX-License-Identifier: MIT */
/*
 * show - a path as a text for people.
 */
#include "mover/base/show.h"

#include <assert.h>
#include <string.h>

#include "mover/base/plain.h"

/* The next character, or one byte of what is not plain as \xNN, into out (FM_PLAIN_MAX bytes).
 * Moves *path; returns the bytes shown. */
static size_t show_next(const char **path, const char *end, char *out)
{
	if (**path != '\\' && **path != '"')
		return fm_plain_next(path, end, out);
	memcpy(out, **path == '"' ? "\\x22" : "\\x5c", 4);
	(*path)++;
	return 4;
}

const char *fm_path_show(const char *path, struct fm_path_shown *shown)
{
	const size_t half = sizeof(shown->text) / 2 - sizeof("...");
	const char *p = path, *end = path + strlen(path);
	char skipped[FM_PLAIN_MAX];
	size_t at = 0, left = 0;

	while (*p)
		left += show_next(&p, end, skipped);
	/* The head; then, if the rest is too long, a gap up to where it no longer is. */
	for (p = path; *p && at + 4 <= half;) {
		size_t len = show_next(&p, end, shown->text + at);

		at += len;
		left -= len;
	}
	if (left > half) {
		while (left > half)
			left -= show_next(&p, end, skipped);
		memcpy(shown->text + at, "...", 3);
		at += 3;
	}
	while (*p)
		at += show_next(&p, end, shown->text + at);
	assert(at < sizeof(shown->text));
	shown->text[at] = '\0';
	return shown->text;
}
