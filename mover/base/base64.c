/* SPDX-License-Identifier: MIT */
/* base64 - see base64.h. */
#include "mover/base/base64.h"

#include <errno.h>
#include <string.h>

static const char alphabets[][65] = {
	[FM_BASE64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	[FM_BASE64_URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

void fm_base64_encode(enum fm_base64 kind, const uint8_t *in, size_t len, char *out)
{
	const char *alphabet = alphabets[kind];
	uint32_t bits = 0;
	unsigned have = 0;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | in[i];
		for (have += 8; have >= 6; have -= 6)
			out[n++] = alphabet[bits >> (have - 6) & 63];
	}
	if (have > 0)
		out[n++] = alphabet[bits << (6 - have) & 63];
	while (kind == FM_BASE64 && n % 4 != 0)
		out[n++] = '=';
	out[n] = '\0';
}

static int digit(const char *alphabet, char c)
{
	const char *at = c ? strchr(alphabet, c) : NULL;

	return at ? (int)(at - alphabet) : -1;
}

int fm_base64_decode(enum fm_base64 kind, const char *text, uint8_t *out, size_t len)
{
	size_t digits = (len * 8 + 5) / 6;
	size_t padding = kind == FM_BASE64 ? (4 - digits % 4) % 4 : 0;
	uint32_t bits = 0;
	unsigned have = 0;
	size_t n = 0;

	if (strlen(text) != digits + padding || strspn(text + digits, "=") != padding)
		return -EINVAL;
	for (size_t i = 0; i < digits; i++) {
		int d = digit(alphabets[kind], text[i]);

		if (d < 0)
			return -EINVAL;
		bits = bits << 6 | (unsigned)d;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[n++] = (uint8_t)(bits >> have);
		}
	}
	/* Bits that belong to no byte must be zero, or two texts would name one value. */
	return (bits & ((1u << have) - 1)) == 0 ? 0 : -EINVAL;
}
