/* SPDX-License-Identifier: MIT */
/* utf8 - see utf8.h. */
#include "mover/base/utf8.h"

#include <stdint.h>
#include <string.h>

size_t fm_utf8_len(const char *text, size_t len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *at = (const uint8_t *)text;
	size_t n = at[0] < 0x80		    ? 1
		   : (at[0] & 0xe0) == 0xc0 ? 2
		   : (at[0] & 0xf0) == 0xe0 ? 3
		   : (at[0] & 0xf8) == 0xf0 ? 4
					    : 0;
	uint32_t c;

	if (n <= 1)
		return n;
	if (n > len)
		return 0;
	c = at[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (at[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return n;
}

bool fm_is_utf8(const char *text, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = fm_utf8_len(text + i, len - i);
		if (n == 0)
			return false;
	}
	return true;
}

void fm_utf8_mend(char *text)
{
	size_t len = strlen(text), n;

	for (size_t i = 0; i < len; i += n ? n : 1) {
		n = fm_utf8_len(text + i, len - i);
		if (n == 0)
			text[i] = '?';
	}
}
