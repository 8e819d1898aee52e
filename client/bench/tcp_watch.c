/* SPDX-License-Identifier: MIT */
/* tcp_watch - see tcp_watch.h. */
#include "client/bench/tcp_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/measure.h"

#define SNMP	 "/proc/self/net/snmp"
#define TEXT_MAX 16384u

/* The place of a name among the words of a line; -1: it is not there. */
static int place_of(const char *line, const char *name)
{
	size_t len = strlen(name);
	int place = 0;

	for (;; place++) {
		size_t word = strcspn(line, " \n");

		if (word == len && strncmp(line, name, len) == 0)
			return place;
		if (line[word] != ' ')
			return -1;
		line += word + 1;
	}
}

/* The number at this place of a line. */
static bool number_at(const char *line, int place, uint64_t *out)
{
	char *end;

	for (; place > 0; place--) {
		line += strcspn(line, " \n");
		if (*line != ' ')
			return false;
		line++;
	}
	*out = strtoull(line, &end, 10);
	return end != line;
}

/* Two lines: "Tcp: NAME NAME ...", "Tcp: NUMBER NUMBER ...". */
bool fm_tcp_watch_parse(const char *text, struct fm_tcp_watch *out)
{
	const char *names = strstr(text, "Tcp: "), *numbers;
	int sent, again;

	*out = (struct fm_tcp_watch){0};
	numbers = names ? strstr(names + 1, "\nTcp: ") : NULL;
	if (!numbers)
		return false;
	sent = place_of(names, "OutSegs");
	again = place_of(names, "RetransSegs");
	out->is_known = sent > 0 && again > 0 && number_at(numbers + 1, sent, &out->sent) &&
			number_at(numbers + 1, again, &out->again);
	return out->is_known;
}

void fm_tcp_watch_begin(struct fm_tcp_watch *watch)
{
	static char text[TEXT_MAX];
	FILE *f = fopen(SNMP, "re");

	text[f ? fread(text, 1, sizeof(text) - 1, f) : 0] = '\0';
	if (f)
		(void)fclose(f);
	(void)fm_tcp_watch_parse(text, watch);
}

void fm_tcp_watch_end(const struct fm_tcp_watch *watch, struct fm_bench_path *path)
{
	struct fm_tcp_watch now;

	fm_tcp_watch_begin(&now);
	if (!watch->is_known || !now.is_known || now.sent < watch->sent || now.again < watch->again)
		return;
	path->segments_sent += now.sent - watch->sent;
	path->segments_again += now.again - watch->again;
}
