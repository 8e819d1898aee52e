/* SPDX-License-Identifier: MIT */
/* show - see show.h. */
#include "client/cli/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mover/base/plain.h"

char *fm_show(const char *text, size_t len, char *out, size_t cap)
{
	size_t at = 0;

	for (size_t i = 0; i < len && at + 5 < cap;) {
		size_t n = fm_plain_len(text + i, len - i);

		if (n > 0) {
			memcpy(out + at, text + i, n);
			at += n;
			i += n;
			continue;
		}
		if (text[i] == '\n' || text[i] == '\t')
			at += (size_t)sprintf(out + at, text[i] == '\n' ? "\\n" : "\\t");
		else
			at += (size_t)sprintf(out + at, "\\x%02x", (unsigned)(uint8_t)text[i]);
		i++;
	}
	out[at] = '\0';
	return out;
}

static void show_scaled(double v, const char *end, char out[static FM_SHOW_MAX])
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
	unsigned u = 0;

	/* 999.5 would be printed as 1000. */
	while (v >= 999.5 && u + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1000;
		u++;
	}
	(void)snprintf(out, FM_SHOW_MAX, "%.*f %s%s",
		       u == 0 || v >= 99.95 ? 0
		       : v >= 9.995	    ? 1
					    : 2,
		       v, units[u], end);
}

char *fm_show_bytes(uint64_t bytes, char out[static FM_SHOW_MAX])
{
	show_scaled((double)bytes, "", out);
	return out;
}

char *fm_show_rate(double bytes_per_s, char out[static FM_SHOW_MAX])
{
	show_scaled(bytes_per_s, "/s", out);
	return out;
}

char *fm_show_fill(uint64_t used, uint64_t size, uint64_t promised,
		   char out[static FM_SHOW_FILL_MAX])
{
	char taken[FM_SHOW_MAX], all[FM_SHOW_MAX], rest[FM_SHOW_MAX] = "";

	if (promised > 0)
		(void)fm_show_bytes(promised, rest);
	(void)snprintf(out, FM_SHOW_FILL_MAX, "%s of %s used%s%s%s", /* fits */
		       fm_show_bytes(used, taken), fm_show_bytes(size, all), *rest ? ", " : "",
		       rest, *rest ? " of it still to come" : "");
	return out;
}

char *fm_show_time(uint64_t seconds, char out[static FM_SHOW_MAX])
{
	uint64_t h = seconds / 3600;
	unsigned m = (unsigned)(seconds / 60 % 60), s = (unsigned)(seconds % 60);

	if (h > 0)
		(void)snprintf(out, FM_SHOW_MAX, "%" PRIu64 ":%02u:%02u", h, m, s);
	else
		(void)snprintf(out, FM_SHOW_MAX, "%u:%02u", m, s);
	return out;
}

char *fm_show_date(int64_t ms, char out[static FM_SHOW_MAX])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (ms <= 0 || !localtime_r(&seconds, &tm) ||
	    strftime(out, FM_SHOW_MAX, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		out[0] = '\0';
	return out;
}

const char *fm_show_directories(uint64_t n)
{
	return n == 1 ? "directory" : "directories";
}

char *fm_show_count(uint64_t n, char out[static FM_SHOW_MAX])
{
	char digits[24];
	size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n);
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = '\0';
	return out;
}
