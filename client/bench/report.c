/* SPDX-License-Identifier: MIT */
/* report - see report.h. */
#include "client/bench/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/page.h"
#include "client/cli/show.h"

#define CELL_MAX 96

/* ---- for people ---- */

/* "too short, noisy"; "": all is well. */
static const char *words(unsigned invalid, const char *between, char out[static CELL_MAX])
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned bit = 1; bit <= FM_BENCH_FAILED; bit *= 2)
		if (invalid & bit && len < CELL_MAX)
			len += (size_t)snprintf(out + len, CELL_MAX - len, "%s%s",
						len ? between : "", fm_bench_invalid_word(bit));
	return out;
}

static const char *cpu_text(const struct fm_bench_path *p, const struct fm_bench_cpu *cpu,
			    char out[static 16])
{
	double s = fm_bench_cpu_per_gib(p, cpu);

	if (s < 0)
		(void)snprintf(out, 16, "-");
	else
		(void)snprintf(out, 16, "%.2f", s);
	return out;
}

static const char *time_text(const struct fm_bench_latency *l, double s, char out[static 16])
{
	if (l->count == 0)
		(void)snprintf(out, 16, "-");
	else
		(void)snprintf(out, 16, "%.3f", s * 1000);
	return out;
}

/* A number that is not to be believed does not stand alone. */
static void print_path(const struct fm_bench_path *p)
{
	char name[FM_BENCH_TEXT_MAX], median[FM_SHOW_MAX], min[FM_SHOW_MAX], max[FM_SHOW_MAX];
	char why[CELL_MAX], here[16], there[16], p50[16], p99[16];

	(void)words(p->invalid, ", ", why);
	if (p->invalid & FM_BENCH_FAILED && p->repeat_count == 0) {
		(void)printf("%-34s %s: %s\n", fm_bench_path_name(p, name), why, p->why);
		return;
	}
	(void)printf("%-34s %10s %10s %10s %5.1f %9s %9s %6s %6s", fm_bench_path_name(p, name),
		     p->invalid ? "-" : fm_show_rate(p->rates.median, median),
		     fm_show_rate(p->rates.min, min), fm_show_rate(p->rates.max, max),
		     100 * p->rates.cv, time_text(&p->latency, p->latency.p50, p50),
		     time_text(&p->latency, p->latency.p99, p99), cpu_text(p, &p->here, here),
		     cpu_text(p, &p->there, there));
	if (p->invalid)
		(void)printf("  %s (%s)", why, fm_show_rate(p->rates.median, median));
	(void)printf("%s%s\n", p->why[0] ? "  " : "", p->why);
}

static void print_table(const struct fm_bench *b)
{
	(void)printf("%s at %s: repeats of %.3g s\n", b->is_thorough ? "thorough" : "quick",
		     b->node, b->wanted_s);
	(void)printf("%-34s %10s %10s %10s %5s %9s %9s %6s %6s\n", "path", "median", "min", "max",
		     "cv %", "p50 ms", "p99 ms", "here", "there");
	for (unsigned i = 0; i < b->path_count; i++)
		print_path(&b->paths[i]);
	(void)printf("here, there: seconds of processors for each GiB, at both ends\n");
	for (unsigned i = 0; i < b->counter_count; i++)
		if (b->counters[i].growth > 0)
			(void)printf("%s %s grew by %llu\n", b->counters[i].object,
				     b->counters[i].name,
				     (unsigned long long)b->counters[i].growth);
	if (b->verdict[0])
		(void)printf("%s\n", b->verdict);
}

/* ---- CSV (RFC 4180) ---- */

static void print_quoted(const char *text)
{
	(void)putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			(void)putchar('"');
		(void)putchar(*text);
	}
	(void)putchar('"');
}

static void print_row(const struct fm_bench_path *p)
{
	const struct fm_bench_latency *l = &p->latency;
	char why[CELL_MAX], here[16], there[16];

	(void)printf("%s,%s,", fm_bench_kind_words[p->kind], fm_bench_op_words[p->op]);
	print_quoted(p->where);
	(void)putchar(',');
	print_quoted(p->from);
	(void)printf(",%u,%llu,%u,%u,%.0f,%.0f,%.0f,%.6f", p->depth,
		     (unsigned long long)p->block_bytes, p->connections, p->repeat_count,
		     p->rates.median, p->rates.min, p->rates.max, p->rates.cv);
	if (l->count > 0)
		(void)printf(",%.6f,%.6f,%.6f,%.6f,%.6f", l->p50, l->p90, l->p99, l->p999, l->max);
	else
		(void)printf(",,,,,");
	(void)printf(",%s,%s,", p->here.is_known ? cpu_text(p, &p->here, here) : "",
		     p->there.is_known ? cpu_text(p, &p->there, there) : "");
	print_quoted(words(p->invalid, " ", why));
	(void)putchar(',');
	print_quoted(p->only.device);
	(void)putchar(',');
	print_quoted(p->only.local);
	(void)putchar(',');
	print_quoted(p->only.remote);
	(void)printf(",%u\n", p->only.connections);
}

static void print_csv(const struct fm_bench *b)
{
	(void)printf("kind,op,where,from,depth,block_bytes,connections,repeats,median_bytes_per_s,"
		     "min_bytes_per_s,max_bytes_per_s,cv,p50_s,p90_s,p99_s,p999_s,max_s,"
		     "cpu_here_s_per_gib,cpu_there_s_per_gib,invalid,only_device,only_local,"
		     "only_remote,only_connections\n");
	for (unsigned i = 0; i < b->path_count; i++)
		print_row(&b->paths[i]);
}

int fm_bench_print(const struct fm_bench *b, enum fm_bench_form form, int exit)
{
	char *buf;
	int len;

	if (form == FM_BENCH_TABLE)
		print_table(b);
	if (form == FM_BENCH_CSV)
		print_csv(b);
	if (form == FM_BENCH_HTML)
		return fm_page_print(&(const char *){"this run"}, &b, 1, exit);
	if (form != FM_BENCH_JSON)
		return 0;
	buf = malloc(FM_BENCH_BYTES_MAX);
	len = buf ? fm_bench_write(b, exit, buf, FM_BENCH_BYTES_MAX) : -ENOMEM;
	if (len >= 0)
		(void)printf("%s\n", buf);
	free(buf);
	return len < 0 ? len : 0;
}
