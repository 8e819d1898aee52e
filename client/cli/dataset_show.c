/* SPDX-License-Identifier: MIT */
/* dataset_show - see dataset_show.h. */
#include "client/cli/dataset_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/show.h"

#define NODE_TEXT_MAX (FM_SHOW_MAX + 4 * FMOVE_NAME_MAX)
#define AGE_MAX	      32

/* The day on which a dataset was read again; "-": it never was. */
static void show_day(int64_t ms, char out[static 16])
{
	time_t at = (time_t)(ms / 1000);
	struct tm tm;

	if (ms <= 0 || !localtime_r(&at, &tm) || strftime(out, 16, "%Y-%m-%d", &tm) == 0)
		(void)strcpy(out, "-");
}

/* "12s", "5m", "3h", "40d"; "-": there was no such time. A clock that was put back makes it 0s. */
static const char *show_age(int64_t ms, int64_t now_ms, char out[static AGE_MAX])
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' } };
	int64_t age = now_ms > ms ? (now_ms - ms) / 1000 : 0;

	(void)snprintf(out, AGE_MAX, "%s", "-");
	if (ms <= 0)
		return out;
	(void)snprintf(out, AGE_MAX, "%us", (unsigned)(age % 60));
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (age < units[i].seconds)
			continue;
		(void)snprintf(out, AGE_MAX, "%" PRId64 "%c", age / units[i].seconds,
			       units[i].unit);
		break;
	}
	return out;
}

/* ---- a line ---- */

/* What other nodes have: "  n2 ready, n3 silent". */
static void print_nodes(const struct fmove_dataset *d)
{
	char name[NODE_TEXT_MAX];

	for (unsigned i = 0; i < d->node_count; i++) {
		fm_show(d->nodes[i].node, strlen(d->nodes[i].node), name, sizeof(name));
		(void)printf("%s%s %s", i == 0 ? "  elsewhere: " : ", ", name, d->nodes[i].state);
	}
}

/* "process 12 (uid 1000)", "n2 (uid 1000)" */
static void print_holder(const struct fmove_dataset *d, unsigned i)
{
	char node[NODE_TEXT_MAX];

	fm_show(d->holder_nodes[i], strlen(d->holder_nodes[i]), node, sizeof(node));
	if (node[0])
		(void)printf("%s", node);
	else
		(void)printf("process %d", (int)d->holders[i].pid);
	(void)printf(" (uid %u)", (unsigned)d->holders[i].uid);
}

static void print_holders(const struct fmove_dataset *d)
{
	for (unsigned i = 0; i < d->holder_count; i++) {
		(void)printf("%s", i == 0 ? "  held by " : ", ");
		print_holder(d, i);
	}
}

void fm_dataset_line(const struct fmove_dataset *d, int64_t now_ms)
{
	char bytes[FM_SHOW_MAX], name[1024], source[4 * 1024], day[16], age[AGE_MAX], used[AGE_MAX];

	fm_show(d->name, strlen(d->name), name, sizeof(name));
	fm_show(d->source, strlen(d->source), source, sizeof(source));
	show_day(d->verified_ms, day);
	(void)printf("%-9s  %-12.12s  %10s  %3" PRIu64 " held  %3" PRIu64 " pinned  age %3s  "
		     "used %3s  checked %-10s  %s  %s",
		     d->state, d->version[0] ? d->version : "-", fm_show_bytes(d->bytes, bytes),
		     d->holds, d->pins, show_age(d->created_ms, now_ms, age),
		     show_age(d->used_ms, now_ms, used), day, name, source);
	print_holders(d);
	print_nodes(d);
	(void)printf("\n");
}

/* ---- all of it ---- */

static void print_text(const char *what, const char *text)
{
	char shown[4 * FMOVE_PATH_MAX];

	fm_show(text, strlen(text), shown, sizeof(shown));
	(void)printf("  %-9s  %s\n", what, shown[0] ? shown : "-");
}

static void print_time(const char *what, int64_t ms, int64_t now_ms)
{
	char date[FM_SHOW_MAX], age[AGE_MAX];

	if (ms <= 0)
		(void)printf("  %-9s  never\n", what);
	else
		(void)printf("  %-9s  %s, %s ago\n", what, fm_show_date(ms, date),
			     show_age(ms, now_ms, age));
}

void fm_dataset_whole(const struct fmove_dataset *d, int64_t now_ms)
{
	char name[1024], bytes[FM_SHOW_MAX], count[FM_SHOW_MAX], node[NODE_TEXT_MAX];

	fm_show(d->name, strlen(d->name), name, sizeof(name));
	(void)printf("%s\n", name);
	print_text("state", d->state);
	print_text("source", d->source);
	print_text("path", d->path);
	print_text("version", d->version);
	(void)printf("  %-9s  %s (%s bytes)\n", "size", fm_show_bytes(d->bytes, bytes),
		     fm_show_count(d->bytes, count));
	print_time("made", d->created_ms, now_ms);
	print_time("asked for", d->requested_ms, now_ms);
	print_time("used", d->used_ms, now_ms);
	print_time("checked", d->verified_ms, now_ms);
	(void)printf("  %-9s  %" PRIu64 "\n", "pins", d->pins);
	(void)printf("  %-9s  %" PRIu64 "\n", "holds", d->holds);
	for (unsigned i = 0; i < d->holder_count; i++) {
		(void)printf("  %-9s  ", "held by");
		print_holder(d, i);
		(void)printf("\n");
	}
	for (unsigned i = 0; i < d->node_count; i++) {
		fm_show(d->nodes[i].node, strlen(d->nodes[i].node), node, sizeof(node));
		(void)printf("  %-9s  %s %s, %s\n", "elsewhere", node, d->nodes[i].state,
			     fm_show_bytes(d->nodes[i].bytes, bytes));
	}
}
