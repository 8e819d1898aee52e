/* SPDX-License-Identifier: MIT */
/* plain - see plain.h. */
#include "mover/base/plain.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mover/base/utf8.h"

/* Unicode's controls and format characters that move a cursor, begin a line or turn text around. */
static bool is_obeyed(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} obeyed[] = {
		{0, 0x1f},	  {0x7f, 0x9f},	    {0x61c, 0x61c},   {0x200e, 0x200f},
		{0x2028, 0x202e}, {0x2066, 0x2069}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
	};

	for (size_t i = 0; i < sizeof(obeyed) / sizeof(obeyed[0]); i++)
		if (c >= obeyed[i].first && c <= obeyed[i].last)
			return true;
	return false;
}

size_t fm_plain_len(const char *text, size_t len)
{
	const uint8_t *at = (const uint8_t *)text;
	size_t n = fm_utf8_len(text, len);
	uint32_t c;

	if (n == 0)
		return 0;
	c = n == 1 ? at[0] : at[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (at[i] & 0x3f);
	return is_obeyed(c) ? 0 : n;
}

size_t fm_plain_next(const char **text, const char *end, char out[static FM_PLAIN_MAX])
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t byte = (uint8_t) * *text;
	size_t n = fm_plain_len(*text, (size_t)(end - *text));

	if (n > 0) {
		memcpy(out, *text, n);
		*text += n;
		return n;
	}
	memcpy(out, (const char[4]){'\\', 'x', hex[byte >> 4], hex[byte & 15]}, 4);
	(*text)++;
	return 4;
}

char *fm_plain(const char *text, size_t len, char *out, size_t cap)
{
	const char *end = text + len;
	char step[FM_PLAIN_MAX];
	size_t at = 0, n;

	while (text < end) {
		n = fm_plain_next(&text, end, step);
		if (at + n >= cap)
			break;
		memcpy(out + at, step, n);
		at += n;
	}
	out[at] = '\0';
	return out;
}
