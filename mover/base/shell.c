/* SPDX-License-Identifier: MIT */
/* shell - see shell.h. */
#include "mover/base/shell.h"

#include <string.h>

#include "mover/base/plain.h"

const char *fm_shell_quote(const char *path, char *out, size_t cap)
{
	const char *end = path + strlen(path);
	size_t n = 0, len;

	if (path == end || strlen(path) * 4 + 3 > cap)
		return "";
	out[n++] = '\'';
	for (; path < end; path += len) {
		len = fm_plain_len(path, (size_t)(end - path));
		if (len == 0)
			return "";
		memcpy(out + n, *path == '\'' ? "'\\''" : path, *path == '\'' ? 4 : len);
		n += *path == '\'' ? 4 : len;
	}
	out[n++] = '\'';
	out[n] = '\0';
	return out;
}
