/* SPDX-License-Identifier: MIT */
/* top_frame - see top_frame.h. */
#include "client/cli/top_frame.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/cli/show.h"
#include "mover/base/env.h"

/* An answer that is this much late is missed. */
#define LATE_NS (2 * FM_NS_PER_S)

static const char *const help[] = {
	"1 rails  2 transfers  3 waiting",
	"4 stores  5 volumes  6 cache",
	"  only that; again: all",
	"up down PgUp PgDn Home  scroll",
	"s  sort by rate, or as it stands",
	"?  this    q  quit",
	"",
	"RAILS: a port here, an address",
	"  there, and what goes over it",
	"TRANSFERS: of all users and peers",
	"WAITING: jobs of yours that do not run",
	"  (fmove jobs says why)",
	"CACHE: how full it is, and the datasets",
	"  that are staged here",
};

struct picture {
	const struct fm_top_view *view;
	void (*line)(void *ctx, int at, enum fm_top_style style, const char *text);
	void *ctx;
	uint64_t now_ns;
	size_t lines; /* of the tables, so far */
};

/* Where the next line of the tables stands; -1: outside. */
static int place_of_next(struct picture *p)
{
	size_t at = p->lines++;

	if (at < p->view->scroll)
		return -1;
	at += FM_TOP_HEAD_LINES - p->view->scroll;
	return p->view->height > 0 && at >= (size_t)p->view->height ? -1 : (int)at;
}

static void put(struct picture *p, int at, enum fm_top_style style, const char *text)
{
	const struct fm_top_view *view = p->view;
	char fitting[FM_TOP_LINE_MAX];

	if (at < 0 || (view->height > 0 && at >= view->height))
		return;
	(void)fm_top_fit(text, view->width < FM_TOP_WIDTH_MAX ? view->width : FM_TOP_WIDTH_MAX,
			 false, fitting);
	p->line(p->ctx, at, style, fitting);
}

static void putf(struct picture *p, int at, enum fm_top_style style, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void putf(struct picture *p, int at, enum fm_top_style style, const char *fmt, ...)
{
	char text[512];
	va_list list;

	va_start(list, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, list); /* what is too long is cut */
	va_end(list);
	put(p, at, style, text);
}

/* ---- the head ---- */

static void put_head(struct picture *p, const struct fm_top_state *state)
{
	const struct fm_top_node *n = &state->node;
	const struct fm_top_part *asked = &state->part[FM_TOP_RAILS];
	char up[FM_SHOW_MAX], out[FM_SHOW_MAX], in[FM_SHOW_MAX];

	putf(p, 0, FM_TOP_PLAIN, "%s  out %s  in %s  up %s%s  fmove %s", n->node[0] ? n->node : "-",
	     fm_show_rate(n->out, out), fm_show_rate(n->in, in), fm_show_time(n->uptime_s, up),
	     n->restarts > 0 ? " (fmoved was restarted)" : "", n->version);
	if (p->view->is_help)
		put(p, 1, FM_TOP_TITLE, "keys; any of them ends this");
	else if (asked->error[0])
		putf(p, 1, FM_TOP_BAD, "fmoved does not answer, asked again every %.3g s: %s",
		     (double)state->every_ns / (double)FM_NS_PER_S, asked->error);
	else
		putf(p, 1, FM_TOP_PLAIN, "? help  %zu of %zu peers  %llu of %llu slabs free",
		     n->peers_up, n->peers, (unsigned long long)n->slabs_free,
		     (unsigned long long)n->slabs);
}

/* ---- sections ---- */

/* For how long an answer is missed, or 0. */
static uint64_t late_s(const struct fm_top_state *state, const struct fm_top_part *part,
		       uint64_t now_ns)
{
	uint64_t from = part->answered_ns > 0 ? part->answered_ns : state->since_ns;
	uint64_t wanted = from + (part->answered_ns > 0 ? state->every_ns : 0) + LATE_NS;

	return now_ns > wanted ? (now_ns - from) / FM_NS_PER_S : 0;
}

static void put_title(struct picture *p, const struct fm_top_state *state, unsigned section)
{
	const struct fm_top_part *part = &state->part[section];
	uint64_t late = late_s(state, part, p->now_ns);
	const char *title = fm_top_title(section);
	char line[FM_TOP_LINE_MAX], time[FM_SHOW_MAX];
	int at = place_of_next(p);

	if (late > 0) {
		putf(p, at, FM_TOP_BAD, "%s  no answer for %s", title, fm_show_time(late, time));
	} else if (part->error[0]) {
		putf(p, at, FM_TOP_BAD, "%s  not known: %s", title, part->error);
	} else if (part->absent) {
		putf(p, at, FM_TOP_TITLE, "%s  none: %s", title, part->absent);
	} else if (part->answered_ns == 0) {
		putf(p, at, FM_TOP_TITLE, "%s  asked", title);
	} else if (part->table->count == 0) {
		putf(p, at, FM_TOP_TITLE, "%s  none", title);
	} else {
		fm_top_head_line(section, p->view->width, line);
		put(p, at, FM_TOP_TITLE, line);
	}
}

static void put_rows(struct picture *p, unsigned section, const struct fm_top_table *table)
{
	const struct fm_top_row *order[FM_TOP_ROWS_MAX];
	char line[FM_TOP_LINE_MAX];

	fm_top_order(table, p->view->is_by_rate, order);
	for (size_t i = 0; i < table->count; i++) {
		int at = place_of_next(p);

		if (at < 0)
			continue;
		fm_top_row_line(section, order[i], p->view->width, line);
		put(p, at, order[i]->is_bad ? FM_TOP_BAD : FM_TOP_PLAIN, line);
	}
	if (table->more > 0)
		putf(p, place_of_next(p), FM_TOP_PLAIN, "and %zu more", table->more);
}

static void put_sections(struct picture *p, const struct fm_top_state *state)
{
	for (unsigned i = 0; i < FM_TOP_SECTIONS; i++) {
		if (p->view->section != FM_TOP_ALL && p->view->section != i)
			continue;
		put_title(p, state, i);
		if (!state->part[i].error[0])
			put_rows(p, i, state->part[i].table);
	}
}

size_t fm_top_frame(const struct fm_top_state *state, const struct fm_top_view *view,
		    uint64_t now_ns,
		    void (*line)(void *ctx, int at, enum fm_top_style style, const char *text),
		    void *ctx)
{
	struct picture p = {.view = view, .line = line, .ctx = ctx, .now_ns = now_ns};

	put_head(&p, state);
	if (!view->is_help)
		put_sections(&p, state);
	else
		for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
			put(&p, place_of_next(&p), FM_TOP_PLAIN, help[i]);
	return p.lines;
}
