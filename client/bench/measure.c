/* SPDX-License-Identifier: MIT */
/* measure - see measure.h. The document is in measure_json.c. */
#include "client/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/facts/facts.h"

#define GIB 1073741824.0

const char *const fm_bench_kind_words[] = {"rdma", "tcp", "put", "disk", "nvme-tcp", NULL};
const char *const fm_bench_op_words[] = {"send", "receive", "both", "read", "write", NULL};

const char *fm_bench_invalid_word(unsigned bit)
{
	static const char *const words[] = {"too short", "cached", "noisy", "throttled", "failed"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (bit & 1u << i)
			return words[i];
	return NULL;
}

struct fm_bench *fm_bench_new(void)
{
	return calloc(1, sizeof(struct fm_bench));
}

void fm_bench_free(struct fm_bench *bench)
{
	if (bench)
		fm_facts_free(bench->facts);
	free(bench);
}

struct fm_bench_path *fm_bench_add(struct fm_bench *bench, enum fm_bench_kind kind,
				   enum fm_bench_op op, const char *where)
{
	struct fm_bench_path *p;

	if (bench->path_count == FM_BENCH_PATHS_MAX)
		return NULL;
	p = &bench->paths[bench->path_count++];
	memset(p, 0, sizeof(*p));
	p->kind = kind;
	p->op = op;
	(void)snprintf(p->where, sizeof(p->where), "%s", where);
	return p;
}

static const char *size_text(uint64_t bytes, char out[static 32])
{
	if (bytes >= 1u << 20 && bytes % (1u << 20) == 0)
		(void)snprintf(out, 32, "%llu MiB", (unsigned long long)bytes >> 20);
	else
		(void)snprintf(out, 32, "%llu KiB", (unsigned long long)bytes >> 10);
	return out;
}

bool fm_bench_is_any(const struct fm_bench_only *o)
{
	return !o->device[0] && !o->local[0] && !o->remote[0] && o->connections == 0;
}

/* " over mlx5_0 10.0.0.1 - 10.0.0.2, 2 connections", of what is said. */
static void say_only(const struct fm_bench_only *o, char *out, size_t cap)
{
	const char *const words[][2] = {{" over ", o->device},
					{o->device[0] ? " " : " over ", o->local},
					{o->local[0] ? " - " : " to ", o->remote}};
	size_t len = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i][1][0] && len < cap)
			len += (size_t)snprintf(out + len, cap - len, "%s%.60s", words[i][0],
						words[i][1]);
	if (o->connections > 0 && len < cap)
		(void)snprintf(out + len, cap - len, ", %u connection%s", o->connections,
			       o->connections == 1 ? "" : "s");
}

const char *fm_bench_path_name(const struct fm_bench_path *p, char out[static FM_BENCH_TEXT_MAX])
{
	char size[32];
	int len = snprintf(out, FM_BENCH_TEXT_MAX, "%s %s %.300s", fm_bench_kind_words[p->kind],
			   fm_bench_op_words[p->op], p->where);

	if (!fm_bench_is_any(&p->only))
		say_only(&p->only, out + len, FM_BENCH_TEXT_MAX - (size_t)len);
	else if (p->depth > 0)
		(void)snprintf(out + len, FM_BENCH_TEXT_MAX - (size_t)len, ", %u x %s", p->depth,
			       size_text(p->block_bytes, size));
	else if (p->from[0])
		(void)snprintf(out + len, FM_BENCH_TEXT_MAX - (size_t)len, " from %.150s", p->from);
	return out;
}

double fm_bench_cpu_per_gib(const struct fm_bench_path *p, const struct fm_bench_cpu *cpu)
{
	double bytes = 0;

	for (unsigned i = 0; i < p->repeat_count; i++)
		bytes += (double)p->repeats[i].bytes;
	if (!cpu->is_known || bytes <= 0)
		return -1;
	return (cpu->process_s + cpu->kernel_s + cpu->softirq_s) / (bytes / GIB);
}
