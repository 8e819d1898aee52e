/* SPDX-License-Identifier: MIT */
/*
 * engine_alone - what the engine itself costs: both ends of a put in one thread, no wire, no disk.
 *
 *   engine_alone [GIB] [CHUNK_BYTES]
 *
 * Prints GB/s without CRC, GB/s with CRC at both ends, the rate at which ISA-L alone checks the
 * same slots twice, and the ratio of the last two. The memory that is checked is as much as a
 * connection has under way, so caches help both alike.
 */
#include <isa-l.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/null_net.h"
#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/services/services.h"
#include "mover/services/transfer/transfer.h"

#define SLAB_BYTES (16u << 20)
#define ARENA_BYTES (8u * SLAB_BYTES)

struct node {
	struct fm_loop *loop;
	struct fm_loop *lane;
	struct fm_worker *worker;
	struct fm_engine *engine;
	void *arena;
};

static struct node nodes[2];
static struct fm_net *nets[2];
static bool is_done;
static struct fm_job_result result;

static void die(const struct fm_err *err)
{
	fprintf(stderr, "engine_alone: %s\n", err->text);
	exit(1);
}

static double now(void)
{
	return (double)fm_clock_real.now_ns(fm_clock_real.ctx) / 1e9;
}

static void job_done(void *ctx, const struct fm_job_result *r)
{
	(void)ctx;
	result = *r;
	is_done = true;
}

static void step(void)
{
	for (unsigned i = 0; i < 2; i++) {
		fm_loop_step(nodes[i].loop, 0);
		fm_loop_step(nodes[i].lane, 0);
	}
}

static void node_new(unsigned i, uint32_t chunk, bool is_unchecked)
{
	struct node *n = &nodes[i];
	struct fm_engine_opts o = {.node = i ? "b" : "a",
				   .lanes = 1,
				   .chunk_bytes = chunk,
				   .slab_bytes = SLAB_BYTES,
				   .rdma_conns = 1,
				   .tcp_conns = 1,
				   .is_unchecked = is_unchecked};
	struct fm_engine_env env = {.clock = &fm_clock_real,
				    .random = &fm_random_real,
				    .loop = n->loop,
				    .net = nets[i],
				    .worker = n->worker,
				    .arena = n->arena,
				    .arena_len = ARENA_BYTES,
				    .services = fm_services};
	struct fm_peer_opts peer = { .name = i ? "a" : "b", .host = i ? NULL : "b", .port = 1 };
	const char *const all[] = { "*", NULL };
	struct fm_store_opts so = { .name = "s", .directory = "null:", .read = all, .write = all };
	struct fm_store *store;
	struct fm_err err = { 0 };

	o.key[0] = (uint8_t)(i + 1);
	peer.key[0] = (uint8_t)(2 - i);
	env.lane_loops[0] = n->lane;
	if (fm_engine_new(&o, &env, &n->engine, &err) < 0 || fm_store_open(&so, &store, &err) < 0 ||
	    fm_engine_set_store(n->engine, store, &err) < 0 ||
	    fm_engine_set_peer(n->engine, &peer, &err) < 0)
		die(&err);
}

/* Seconds for one put. */
static double put(uint64_t bytes)
{
	static const struct fm_job_events events = { .done = job_done };
	struct fm_job_opts o = {.is_put = true,
				.node = "b",
				.store = "s",
				.path = "x",
				.path_len = 1,
				.durability = FM_DURABILITY_MEMORY};
	struct fm_err err = { 0 };
	struct fm_job *job;
	double start;

	if (fm_null_source_untouched(bytes, &o.file, &o.attr, &err) < 0)
		die(&err);
	is_done = false;
	start = now();
	if (fm_job_start(nodes[0].engine, &o, &events, NULL, &job, &err) < 0)
		die(&err);
	while (!is_done)
		step();
	if (result.code)
		die(&result.err);
	return now() - start;
}

static void stopped(void *ctx)
{
	*(bool *)ctx = true;
}

static double measure(uint64_t bytes, uint32_t chunk, bool is_unchecked)
{
	struct fm_err err = { 0 };
	bool is_stopped[2] = { false, false };
	double seconds;

	for (unsigned i = 0; i < 2; i++)
		node_new(i, chunk, is_unchecked);
	for (unsigned i = 2; i-- > 0;)
		if (fm_engine_start(nodes[i].engine, &err) < 0)
			die(&err);
	put(chunk * 64ull);	/* connect, lease, touch */
	seconds = put(bytes);
	for (unsigned i = 0; i < 2; i++)
		fm_engine_stop(nodes[i].engine, stopped, &is_stopped[i]);
	while (!is_stopped[0] || !is_stopped[1])
		step();
	for (unsigned i = 0; i < 2; i++)
		fm_engine_free(nodes[i].engine);
	return seconds;
}

/* The same slots, checked twice by the library alone. */
static double library(uint64_t bytes, uint32_t chunk)
{
	unsigned sum = 0, slots = SLAB_BYTES / chunk;
	double start = now();

	for (uint64_t i = 0; i < bytes / chunk; i++)
		for (unsigned n = 0; n < 2; n++)
			sum ^= crc32_iscsi((unsigned char *)nodes[n].arena + i % slots * chunk,
					   (int)chunk, ~0u);
	__asm__ volatile("" : : "r"(sum));	/* used */
	return now() - start;
}

int main(int argc, char **argv)
{
	uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 16) << 30;
	uint32_t chunk = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 1u << 20;
	struct fm_loop *loops[2];
	struct fm_err err = { 0 };
	double bare, checked, isal;

	for (unsigned i = 0; i < 2; i++) {
		struct fm_loop_opts o = { 0 };

		nodes[i].arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (nodes[i].arena == MAP_FAILED || fm_loop_new(&o, &nodes[i].loop, &err) < 0 ||
		    fm_loop_new(&o, &nodes[i].lane, &err) < 0 ||
		    fm_worker_new(1, &nodes[i].worker, &err) < 0)
			die(&err);
		memset(nodes[i].arena, 1 + (int)i, ARENA_BYTES);
		loops[i] = nodes[i].loop;
	}
	null_net_pair(loops, nets);
	bare = measure(bytes, chunk, true);
	memset(nodes[0].arena, 7, ARENA_BYTES);
	/* nothing is moved: what is checked must be alike */
	memset(nodes[1].arena, 7, ARENA_BYTES);
	checked = measure(bytes, chunk, false);
	isal = library(bytes, chunk);
	printf("chunk %u KiB: engine alone %.1f GB/s; with CRC %.2f GB/s, ISA-L alone %.2f GB/s, "
	       "ratio %.3f\n",
	       chunk >> 10, (double)bytes / bare / 1e9, (double)bytes / checked / 1e9,
	       (double)bytes / isal / 1e9, isal / checked);
	return 0;
}
