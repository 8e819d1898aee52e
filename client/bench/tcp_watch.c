/* SPDX-License-Identifier: MIT */
/* tcp_watch - see tcp_watch.h. */
#include "client/bench/tcp_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/measure.h"

#define SNMP	 "/proc/self/net/snmp"
#define NETSTAT	 "/proc/self/net/netstat"
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

/* Two lines: "Tcp: NAME NAME ...", "Tcp: NUMBER NUMBER ...", of any such prefix. */
static bool value_of(const char *text, const char *prefix, const char *name, uint64_t *out)
{
	const char *names = strstr(text, prefix), *numbers;
	int place = names ? place_of(names, name) : -1;

	numbers = names ? strchr(names, '\n') : NULL;
	return place > 0 && numbers && strncmp(numbers + 1, prefix, strlen(prefix)) == 0 &&
	       number_at(numbers + 1, place, out);
}

bool fm_tcp_watch_parse(const char *snmp, const char *netstat, struct fm_tcp_watch *out)
{
	*out = (struct fm_tcp_watch){0};
	out->is_known = value_of(snmp, "Tcp: ", "OutSegs", &out->sent) &&
			value_of(snmp, "Tcp: ", "RetransSegs", &out->again) &&
			value_of(netstat, "TcpExt: ", "TCPDSACKRecvSegs", &out->needless);
	return out->is_known;
}

static void text_read(const char *path, char out[static TEXT_MAX])
{
	FILE *f = fopen(path, "re");

	out[f ? fread(out, 1, TEXT_MAX - 1, f) : 0] = '\0';
	if (f)
		(void)fclose(f);
}

void fm_tcp_watch_begin(struct fm_tcp_watch *watch)
{
	static char snmp[TEXT_MAX], netstat[TEXT_MAX];

	text_read(SNMP, snmp);
	text_read(NETSTAT, netstat);
	(void)fm_tcp_watch_parse(snmp, netstat, watch);
}

void fm_tcp_watch_end(const struct fm_tcp_watch *watch, struct fm_bench_path *path)
{
	struct fm_tcp_watch now;

	fm_tcp_watch_begin(&now);
	if (!watch->is_known || !now.is_known || now.sent < watch->sent ||
	    now.again < watch->again || now.needless < watch->needless)
		return;
	path->segments_sent += now.sent - watch->sent;
	path->segments_again += now.again - watch->again;
	path->segments_needless += now.needless - watch->needless;
}
