/* SPDX-License-Identifier: MIT */
/* page - see page.h. */
#include "client/bench/page.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/compare.h"
#include "client/cli/show.h"

#define LABEL_PX    460
#define BAR_PX	    390
#define VALUE_PX    220
#define LABEL_CHARS 56u
#define ROW_PX	    20
#define QUANTILES   5u
#define CURVE_PX    120 /* from one quantile to the next */
#define DECADE_PX   60
#define DECADES	    8 /* of a latency's axis: 1 us to 100 s */

struct page {
	const char *const *names;
	const struct fm_bench *const *all;
	size_t count;
};

/* ---- text ---- */

static void put_escaped(const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			(void)fputs("&amp;", stdout);
			break;
		case '<':
			(void)fputs("&lt;", stdout);
			break;
		case '>':
			(void)fputs("&gt;", stdout);
			break;
		case '"':
			(void)fputs("&quot;", stdout);
			break;
		case '\'':
			(void)fputs("&#39;", stdout);
			break;
		default:
			(void)putchar(*text);
		}
	}
}

/* Bytes of unknown origin: what is not plain is shown as \xNN. */
static void put_name(const char *name)
{
	char plain[4 * FM_BENCH_WHERE_MAX + 1];

	put_escaped(fm_show(name, strlen(name), plain, sizeof(plain)));
}

static void put_path_name(const struct fm_bench_path *p)
{
	char name[FM_BENCH_TEXT_MAX];

	put_name(fm_bench_path_name(p, name));
}

/* Its end, if there is no room for more. */
static void put_label(const struct fm_bench_path *p)
{
	char name[FM_BENCH_TEXT_MAX];
	size_t len = strlen(fm_bench_path_name(p, name));
	bool is_cut = len > LABEL_CHARS;

	(void)fputs(is_cut ? "... " : "", stdout);
	put_name(name + (is_cut ? len - LABEL_CHARS : 0));
}

/* "too short, noisy" */
static void put_invalid(unsigned invalid)
{
	const char *between = "";

	for (unsigned bit = 1; bit <= FM_BENCH_FAILED; bit *= 2) {
		if (!(invalid & bit))
			continue;
		(void)printf("%s%s", between, fm_bench_invalid_word(bit));
		between = ", ";
	}
}

/* ---- bars: one for each path of each measurement ---- */

struct bar {
	double value, min, max; /* value < 0: there is none */
	double hardware;	/* 0: not known, or not asked for */
	char text[2 * FM_SHOW_MAX + 16];
};

struct chart {
	const char *title;
	void (*bar)(const struct fm_bench_path *p, struct bar *out);
};

static void rate_bar(const struct fm_bench_path *p, struct bar *out)
{
	*out = (struct bar){.value = -1};
	if (p->repeat_count == 0)
		return;
	*out = (struct bar){p->rates.median, p->rates.min, p->rates.max, 0, ""};
	(void)fm_show_rate(p->rates.median, out->text);
}

static void cpu_bar(const struct fm_bench_path *p, const struct fm_bench_cpu *cpu, struct bar *out)
{
	double s = fm_bench_cpu_per_gib(p, cpu);

	*out = (struct bar){s, s, s, 0, ""};
	(void)snprintf(out->text, sizeof(out->text), "%.3f s/GiB", s);
}

static void cpu_here_bar(const struct fm_bench_path *p, struct bar *out)
{
	cpu_bar(p, &p->here, out);
}

static void cpu_there_bar(const struct fm_bench_path *p, struct bar *out)
{
	cpu_bar(p, &p->there, out);
}

/* Of a stage: what is not to be believed is none. */
static void stage_bar(const struct fm_bench_path *p, struct bar *out)
{
	char is[FM_SHOW_MAX], of[FM_SHOW_MAX];

	rate_bar(p, out);
	if (p->hardware > 0 && out->value >= 0) {
		out->hardware = p->hardware;
		(void)snprintf(out->text, sizeof(out->text), "%s, %.0f %% of %s",
			       fm_show_rate(out->value, is), 100 * out->value / p->hardware,
			       fm_show_rate(p->hardware, of));
	}
	if (p->invalid || p->op == FM_BENCH_BOTH || (p->depth == 1 && p->kind < FM_BENCH_DISK))
		out->value = -1;
}

static const struct chart charts[] = {
	{"Bandwidth by path, depth and size; the line: slowest to fastest repeat", rate_bar},
	{"Ceilings of the stages: what each carries alone, if it is to be believed; the mark: what "
	 "its hardware allows",
	 stage_bar},
	{"Seconds of processors for each GiB, here", cpu_here_bar},
	{"Seconds of processors for each GiB, at the peer", cpu_there_bar},
};

/* All bars of a chart: how many, and the longest. */
static unsigned count_bars(const struct page *page, const struct chart *c, double *most)
{
	unsigned count = 0;
	struct bar bar;

	*most = 0;
	for (size_t k = 0; k < page->count; k++)
		for (unsigned i = 0; i < page->all[k]->path_count; i++) {
			c->bar(&page->all[k]->paths[i], &bar);
			if (bar.value < 0)
				continue;
			count++;
			*most = fmax(*most, fmax(bar.max, bar.hardware));
		}
	return count;
}

static void print_bar(const struct page *page, size_t k, const struct fm_bench_path *p,
		      const struct bar *bar, double scale, unsigned row)
{
	unsigned y = row * ROW_PX;

	(void)printf("<g transform=\"translate(0,%u)\"><text x=\"%d\" y=\"14\" class=\"l\">", y,
		     LABEL_PX - 8);
	put_label(p);
	if (page->count > 1) {
		(void)fputs(" (", stdout);
		put_name(page->names[k]);
		(void)putchar(')');
	}
	(void)printf("</text><rect x=\"%d\" y=\"3\" width=\"%.1f\" height=\"14\" "
		     "class=\"%s c%zu\"/>",
		     LABEL_PX, bar->value * scale, p->invalid ? "doubt" : "sure", k % 4);
	(void)printf("<path d=\"M%.1f 10H%.1f\" class=\"w\"/>", LABEL_PX + bar->min * scale,
		     LABEL_PX + bar->max * scale);
	if (bar->hardware > 0)
		(void)printf("<path d=\"M%.1f 1V19\" class=\"w\"/>",
			     LABEL_PX + bar->hardware * scale);
	(void)printf("<text x=\"%.1f\" y=\"14\">%s</text></g>\n",
		     LABEL_PX + fmax(bar->max, bar->hardware) * scale + 6, bar->text);
}

/* The same path of all measurements stands together. */
static void print_chart(const struct page *page, const struct chart *c)
{
	double most, scale;
	unsigned count = count_bars(page, c, &most), row = 0;

	if (count == 0)
		return;
	scale = most > 0 ? BAR_PX / most : 0;
	(void)printf("<h2>%s</h2>\n<svg viewBox=\"0 0 %d %u\" width=\"%d\" role=\"img\">\n",
		     c->title, LABEL_PX + BAR_PX + VALUE_PX, count * ROW_PX,
		     LABEL_PX + BAR_PX + VALUE_PX);
	for (unsigned i = 0; i < FM_BENCH_PATHS_MAX; i++)
		for (size_t k = 0; k < page->count; k++) {
			struct bar bar;

			if (i >= page->all[k]->path_count)
				continue;
			c->bar(&page->all[k]->paths[i], &bar);
			if (bar.value >= 0)
				print_bar(page, k, &page->all[k]->paths[i], &bar, scale, row++);
		}
	(void)fputs("</svg>\n", stdout);
}

/* ---- latencies ---- */

/* From 1 us up, a decade after the other. */
static double latency_y(double s)
{
	double decades = log10(fmax(s, 1e-6)) + 6;

	return DECADE_PX * (DECADES - fmin(decades, DECADES)) + 10;
}

static void print_curve(const struct fm_bench_path *p, size_t k)
{
	const double s[QUANTILES] = {p->latency.p50, p->latency.p90, p->latency.p99,
				     p->latency.p999, p->latency.max};

	(void)printf("<polyline class=\"q c%zu\" points=\"", k % 4);
	for (unsigned i = 0; i < QUANTILES; i++)
		(void)printf("%u,%.1f ", 60 + i * CURVE_PX, latency_y(s[i]));
	(void)printf("\"/><text x=\"%u\" y=\"%.1f\">", 66 + (QUANTILES - 1) * CURVE_PX,
		     latency_y(s[QUANTILES - 1]) + 4);
	put_label(p);
	(void)fputs("</text>\n", stdout);
}

static void print_axes(void)
{
	static const char *const quantiles[QUANTILES] = {"p50", "p90", "p99", "p99.9", "max"};
	static const char *const decades[] = {"1 us",	"10 us", "100 us", "1 ms", "10 ms",
					      "100 ms", "1 s",	 "10 s",   "100 s"};

	for (unsigned i = 0; i < QUANTILES; i++)
		(void)printf("<text x=\"%u\" y=\"%d\">%s</text>\n", 50 + i * CURVE_PX,
			     DECADE_PX * DECADES + 28, quantiles[i]);
	for (int i = 0; i <= DECADES; i++)
		(void)printf("<path d=\"M56 %dH%u\" class=\"a\"/><text x=\"50\" y=\"%d\" "
			     "class=\"l\">%s</text>\n",
			     DECADE_PX * (DECADES - i) + 10, 60 + (QUANTILES - 1) * CURVE_PX,
			     DECADE_PX * (DECADES - i) + 14, decades[i]);
}

static void print_latencies(const struct page *page)
{
	unsigned count = 0;

	for (size_t k = 0; k < page->count; k++)
		for (unsigned i = 0; i < page->all[k]->path_count; i++)
			count += page->all[k]->paths[i].latency.count > 0;
	if (count == 0)
		return;
	(void)printf("<h2>Latency of an operation</h2>\n<svg viewBox=\"0 0 1000 %d\" "
		     "width=\"1000\" role=\"img\">\n",
		     DECADE_PX * DECADES + 40);
	print_axes();
	for (size_t k = 0; k < page->count; k++)
		for (unsigned i = 0; i < page->all[k]->path_count; i++)
			if (page->all[k]->paths[i].latency.count > 0)
				print_curve(&page->all[k]->paths[i], k);
	(void)fputs("</svg>\n", stdout);
}

/* ---- tables ---- */

static void print_verdicts(const struct page *page)
{
	for (size_t k = 0; k < page->count; k++) {
		const struct fm_bench *b = page->all[k];

		(void)printf("<p><b class=\"k%zu\">", k % 4);
		put_name(page->names[k]);
		(void)printf("</b>: %s at ", b->is_thorough ? "thorough" : "quick");
		put_name(b->node);
		(void)printf(", repeats of %g s. ", b->wanted_s);
		put_name(b->verdict);
		(void)fputs("</p>\n", stdout);
	}
}

static void print_doubts(const struct page *page)
{
	for (size_t k = 0; k < page->count; k++)
		for (unsigned i = 0; i < page->all[k]->path_count; i++) {
			const struct fm_bench_path *p = &page->all[k]->paths[i];

			if (!p->invalid && !p->why[0])
				continue;
			(void)fputs("<li>", stdout);
			put_path_name(p);
			(void)fputs(": ", stdout);
			put_invalid(p->invalid);
			(void)fputs(p->invalid && p->why[0] ? "; " : "", stdout);
			put_name(p->why);
			(void)fputs("</li>\n", stdout);
		}
}

static const char *word_of(int difference)
{
	return difference < 0 ? "slower" : difference > 0 ? "faster" : "no more than noise";
}

static void print_differences(const struct page *page)
{
	const struct fm_bench *first = page->all[0];

	if (page->count < 2)
		return;
	(void)fputs("<h2>Against the first</h2>\n<table>\n", stdout);
	for (unsigned i = 0; i < first->path_count; i++)
		for (size_t k = 1; k < page->count; k++) {
			const struct fm_bench_path *a = &first->paths[i],
						   *b = fm_compare_find(page->all[k], a);

			(void)fputs("<tr><td>", stdout);
			put_path_name(a);
			(void)fputs("</td><td>", stdout);
			put_name(page->names[k]);
			if (!b)
				(void)fputs("</td><td>not measured", stdout);
			else if (a->invalid || b->invalid)
				(void)fputs("</td><td>not to be compared", stdout);
			else
				(void)printf("</td><td>%+.1f %%, %s",
					     100 * (b->rates.median / a->rates.median - 1),
					     word_of(fm_compare_rates(a, b)));
			(void)fputs("</td></tr>\n", stdout);
		}
	(void)fputs("</table>\n", stdout);
}

static int print_documents(const struct page *page, int exit)
{
	char *buf = malloc(FM_BENCH_BYTES_MAX);
	int len = buf ? 0 : -ENOMEM;

	for (size_t k = 0; len >= 0 && k < page->count; k++) {
		len = fm_bench_write(page->all[k], exit, buf, FM_BENCH_BYTES_MAX);
		if (len < 0)
			break;
		(void)fputs("<details><summary>The document of ", stdout);
		put_name(page->names[k]);
		(void)fputs("</summary><pre>", stdout);
		put_escaped(buf);
		(void)fputs("</pre></details>\n", stdout);
	}
	free(buf);
	return len < 0 ? len : 0;
}

/* ---- the page ---- */

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
	"'unsafe-inline'\"/>\n<title>fmove bench</title>\n<style>\n"
	"body{font:14px sans-serif;margin:2em;max-width:1040px}text{font:12px sans-serif}"
	".l{text-anchor:end}.w{stroke:#222;stroke-width:2}.a{stroke:#ddd}"
	".q{fill:none;stroke-width:2}.doubt{opacity:.35}.c0{fill:#4878a8;stroke:#4878a8}"
	".c1{fill:#c8843c;stroke:#c8843c}.c2{fill:#5a9e5a;stroke:#5a9e5a}"
	".c3{fill:#9060a0;stroke:#9060a0}.q.c0,.q.c1,.q.c2,.q.c3{fill:none}"
	".k0{color:#4878a8}.k1{color:#a86414}.k2{color:#3a7e3a}.k3{color:#704080}"
	"td{padding:2px 12px 2px 0}pre{white-space:pre-wrap;overflow-wrap:anywhere}\n"
	"</style></head><body>\n<h1>fmove bench</h1>\n";

int fm_page_print(const char *const *names, const struct fm_bench *const *all, size_t count,
		  int exit)
{
	const struct page page = {names, all, count};
	int ret;

	(void)fputs(head, stdout);
	print_verdicts(&page);
	print_differences(&page);
	for (size_t i = 0; i < sizeof(charts) / sizeof(charts[0]); i++)
		print_chart(&page, &charts[i]);
	print_latencies(&page);
	(void)fputs("<p>A pale bar is not to be believed:</p>\n<ul>\n", stdout);
	print_doubts(&page);
	(void)fputs("<li>Latency is of each operation, from start to end, in a closed loop.</li>"
		    "\n</ul>\n",
		    stdout);
	ret = print_documents(&page, exit);
	(void)fputs("</body></html>\n", stdout);
	return ret;
}
