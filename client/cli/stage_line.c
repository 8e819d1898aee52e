/* SPDX-License-Identifier: MIT */
/* stage_line - see stage_line.h. */
#include "client/cli/stage_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/progress.h"
#include "client/cli/show.h"
#include "client/lib/fmove.h"
#include "mover/base/env.h"

#define LEFT_MAX_S (99 * 3600.0)	/* longer is no news */

void fm_stage_line_node(struct fm_stage_line *l, const struct fmove_stage_node *n)
{
	bool is_bad = strcmp(n->state, "silent") == 0 || strcmp(n->state, "failed") == 0;
	char bytes[FM_SHOW_MAX] = "", name[2 * FMOVE_NAME_MAX], *out = is_bad ? l->bad : l->others;
	size_t len = strlen(out);

	if (!n->is_wanted)
		return;
	l->nodes++;
	l->bytes += n->bytes;
	if (strcmp(n->state, "ready") == 0) {
		l->ready++;
		l->whole = n->bytes;
		return;
	}
	fm_show(n->node, strlen(n->node), name, sizeof(name));
	/* of too many the first ones are named */
	(void)snprintf(out + len, sizeof(l->others) - len, ", %s %s%s%s", name, n->state,
		       is_bad ? "" : " ", is_bad ? "" : fm_show_bytes(n->bytes, bytes));
}

/*
 * The average rate since the first report that knew the size. What came between two reports says
 * little, because reading is counted by whole extents.
 */
static double rate_of(struct fm_stage_line *l, uint64_t bytes, uint64_t size, uint64_t now_ns)
{
	if (!l->is_begun || bytes < l->first_bytes || size == 0) {
		l->is_begun = true;
		l->first_bytes = bytes;
		l->first_ns = now_ns;
	}
	if (now_ns <= l->first_ns)
		return 0;
	return (double)(bytes - l->first_bytes) * (double)FM_NS_PER_S /
	       (double)(now_ns - l->first_ns);
}

static void show_rate(double rate, uint64_t left, char *out, size_t cap)
{
	char speed[FM_SHOW_MAX], time[FM_SHOW_MAX];

	out[0] = '\0';
	if (rate < 1)
		return;
	if (left > 0 && (double)left / rate < LEFT_MAX_S)
		(void)snprintf(out, cap, "  %s  %s left", fm_show_rate(rate, speed),
			       fm_show_time((uint64_t)((double)left / rate), time));
	else
		(void)snprintf(out, cap, "  %s", fm_show_rate(rate, speed));
}

void fm_stage_line_text(struct fm_stage_line *l, const struct fm_stage_report *r, int width,
			char *out, size_t cap)
{
	uint64_t one = r->size > 0 ? r->size : l->whole;
	uint64_t bytes = l->nodes > 0 ? l->bytes : r->bytes;
	uint64_t size = l->nodes > 0 ? one * l->nodes : one;
	char done[FM_SHOW_MAX], all[FM_SHOW_MAX], rate[3 * FM_SHOW_MAX], nodes[640] = "", what[256];

	show_rate(rate_of(l, bytes, size, r->now_ns), size > bytes ? size - bytes : 0, rate,
		  sizeof(rate));
	if (l->nodes > 0)
		(void)snprintf(nodes, sizeof(nodes), "  %u of %u ready%s%s", l->ready, l->nodes,
			       l->bad, l->others);
	fm_show(r->what, strlen(r->what), what, sizeof(what));
	if ((size_t)width < cap)
		cap = (size_t)width;	/* the last column makes some terminals wrap */
	if (size > 0)
		(void)snprintf(out, cap, "%s: %s %s of %s%s%s", what, r->phase,
			       fm_show_bytes(bytes, done), fm_show_bytes(size, all), rate, nodes);
	else
		(void)snprintf(out, cap, "%s: %s%s", what, r->phase, nodes);
	l->nodes = l->ready = 0;
	l->bytes = l->whole = 0;
	l->bad[0] = l->others[0] = '\0';
}

void fm_stage_line_show(struct fm_stage_line *l, const struct fm_stage_report *r)
{
	struct fm_stage_report now = *r;
	char text[FM_STAGE_LINE_MAX];

	if (!isatty(STDERR_FILENO))
		return;
	now.now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	fm_stage_line_text(l, &now, (int)sizeof(text), text, sizeof(text));
	fm_progress_put(text);	/* which leaves no half of a character */
	l->is_shown = true;
}

void fm_stage_line_clear(struct fm_stage_line *l)
{
	if (l->is_shown)
		(void)fputs("\r\033[K", stderr);
	l->is_shown = false;
}
