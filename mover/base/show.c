/* SPDX-License-Identifier: MIT */
/*
 * show - a path as a text for people.
 */
#include "mover/base/show.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at p, 0 if there is none or it is a control character. */
static size_t utf8_len(const unsigned char *p)
{
	static const struct {
		unsigned char lead_min, lead_max, next_min, next_max;
		size_t len;
	} forms[] = {	/* Unicode, table 3-7; the first line begins behind the C1 controls */
		{ 0x20, 0x7e, 0x00, 0xff, 1 }, { 0xc2, 0xc2, 0xa0, 0xbf, 2 }, { 0xc3, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (p[0] < forms[i].lead_min || p[0] > forms[i].lead_max)
			continue;
		if (p[1] < forms[i].next_min || p[1] > forms[i].next_max)
			continue;
		for (size_t at = 2; at < forms[i].len; at++)
			if ((p[at] & 0xc0) != 0x80)
				return 0;
		return forms[i].len;
	}
	return 0;
}

/*
 * The next character, or one byte that is none as \xNN, into out (at most 4 bytes; may be NULL). Moves *path;
 * returns the bytes shown.
 */
static size_t show_next(const char **path, char *out)
{
	const unsigned char *p = (const unsigned char *)*path;
	size_t len = *p == '\\' || *p == '"' ? 0 : utf8_len(p);
	char hex[8];

	if (len > 0) {
		if (out)
			memcpy(out, p, len);
		*path += len;
		return len;
	}
	len = (size_t)snprintf(hex, sizeof(hex), "\\x%02x", *p);
	if (out)
		memcpy(out, hex, len);
	(*path)++;
	return len;
}

const char *fm_path_show(const char *path, struct fm_path_shown *shown)
{
	const size_t half = sizeof(shown->text) / 2 - sizeof("...");
	const char *p = path;
	size_t at = 0, left = 0;

	while (*p)
		left += show_next(&p, NULL);
	/* The head; then, if the rest is too long, a gap up to where it no longer is. */
	for (p = path; *p && at + 4 <= half;) {
		size_t len = show_next(&p, shown->text + at);

		at += len;
		left -= len;
	}
	if (left > half) {
		while (left > half)
			left -= show_next(&p, NULL);
		memcpy(shown->text + at, "...", 3);
		at += 3;
	}
	while (*p)
		at += show_next(&p, shown->text + at);
	assert(at < sizeof(shown->text));
	shown->text[at] = '\0';
	return shown->text;
}
