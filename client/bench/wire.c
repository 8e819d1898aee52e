/* SPDX-License-Identifier: MIT */
/*
 * wire - see wire.h.
 *
 * A repeat is one transfer that takes about as long as it should: how large it is was found out by
 * smaller ones, which also make the connections warm. Both directions at once are two threads with
 * a connection to the daemon each; what they moved is added where they overlap in time.
 */
#include "client/bench/wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/cpu_watch.h"
#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define FIRST_BYTES (UINT64_C(4) << 20)
#define GROWTH_MAX  16.0 /* a first, short transfer says little */
#define SAMPLES_MAX 16384u
#define SAMPLE_MS   20u
/* A transfer that takes this many times as long as a repeat, and the time to ask, hangs. */
#define HANGS_AFTER 20u
#define ENOUGH	    0.9	 /* of the wanted time: a repeat need not go on */
#define SIZE_SHARE  0.25 /* of it: a transfer this long says how large a repeat is */

/* One direction. */
struct way {
	const struct fm_wire_opts *o;
	struct fmove *conn;
	bool is_send;
	uint64_t bytes; /* of a transfer */
	struct fmove_result result;
	struct fm_err err;
	int ret;
	struct fm_bench_sample *samples; /* NULL: nobody wants them */
	size_t sample_count;
};

static uint64_t now(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* What is small, or sized to its time, was not slow: something hangs. what: "a transfer ...". */
static int say_hangs(struct fm_err *err, const char *peer, const char *what, uint64_t limit_ms)
{
	return fm_err_set(err, -ETIMEDOUT,
			  "%s: %s was not done after %.3g s, and nothing says why: something of "
			  "fmoved there hangs, or others hold it up. Look at \"fmove status\" and "
			  "the log there; if no transfer goes on, restart it",
			  peer, what, (double)limit_ms / 1e3);
}

int fm_wire_may(struct fmove *conn, const char *peer, struct fm_err *err)
{
	static struct fm_cpu_time unused;
	uint64_t bytes;
	int ret = fm_cpu_ask(conn, peer, &unused, &bytes, err);

	if (ret == -ETIMEDOUT)
		return say_hangs(err, peer, "a transfer of a few bytes", FM_CPU_ASK_MS);
	if (ret != -ENOENT && ret != -EACCES && ret != -EPERM)
		return ret;
	return fm_err_set(err, -EACCES,
			  "%s does not let this node measure: write bench = true into its entry of "
			  "this node there, and reload fmoved",
			  peer);
}

/* ---- one transfer ---- */

static enum fmove_transport transport_of(const struct fm_wire_opts *o)
{
	if (o->kind == FM_BENCH_RDMA)
		return FMOVE_RDMA;
	return o->kind == FM_BENCH_TCP ? FMOVE_TCP : o->transport;
}

int fm_wire_check(const struct fmove_result *r, enum fmove_transport wanted, uint64_t bytes,
		  struct fm_err *err)
{
	if (r->bytes != bytes)
		return fm_err_set(err, -EPROTO, "it was %llu bytes, not %llu",
				  (unsigned long long)r->bytes, (unsigned long long)bytes);
	if (wanted == FMOVE_RDMA && (r->tcp_bytes > 0 || r->rdma_bytes == 0))
		return fm_err_set(err, -EPROTONOSUPPORT, "not carried by rdma but by %s: %s",
				  r->transport, r->why);
	if (wanted == FMOVE_TCP && (r->rdma_bytes > 0 || r->tcp_bytes == 0))
		return fm_err_set(err, -EPROTONOSUPPORT, "not carried by tcp but by %s: %s",
				  r->transport, r->why);
	return 0;
}

static void sample(struct way *w, uint64_t bytes)
{
	if (w->samples && w->sample_count < SAMPLES_MAX)
		w->samples[w->sample_count++] = (struct fm_bench_sample){now(), bytes};
}

static void progress(void *ctx, const struct fmove_progress *p)
{
	sample(ctx, p->bytes);
}

uint64_t fm_wire_limit_ms(double seconds)
{
	return FM_CPU_ASK_MS + (uint64_t)(HANGS_AFTER * seconds * 1e3);
}

static int transfer(struct way *w)
{
	const struct fm_wire_opts *o = w->o;
	const uint64_t limit_ms = o->fd > 0 ? 0 : fm_wire_limit_ms(o->seconds);
	const struct fmove_options opts = {.struct_size = sizeof(opts),
					   .transport = transport_of(o),
					   .durability = FMOVE_MEMORY,
					   .cancel_fd = fm_interrupt_fd(),
					   .timeout_ms = limit_ms,
					   .only = o->only,
					   .progress_ms = w->samples ? SAMPLE_MS : 0,
					   .progress = w->samples ? progress : NULL,
					   .ctx = w};
	char size[32], wanted[64];
	const struct fmove_name name = {o->peer, FM_CONFIG_BENCH_STORE, w->is_send ? "data" : size};
	struct fmove_error why = {.code = 0};

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)w->bytes);
	(void)snprintf(wanted, sizeof(wanted), "a transfer that should take %.3g s", o->seconds);
	w->sample_count = 0;
	w->result.struct_size = sizeof(w->result);
	sample(w, 0);
	if (!w->is_send)
		w->ret = fmove_get_discarded(w->conn, &name, &opts, &w->result, &why);
	else if (o->fd > 0)
		w->ret = fmove_put(w->conn, o->fd, &name, &opts, &w->result, &why);
	else
		w->ret = fmove_put_generated(w->conn, w->bytes, &name, &opts, &w->result, &why);
	if (w->ret == -ETIMEDOUT && limit_ms > 0)
		return say_hangs(&w->err, o->peer, wanted, limit_ms);
	if (w->ret < 0)
		return fm_err_set(&w->err, w->ret, "%s", why.text);
	sample(w, w->bytes);
	w->ret = fm_wire_check(&w->result, transport_of(o), w->bytes, &w->err);
	return w->ret;
}

static void note(struct fm_bench_path *path, const struct way *w)
{
	path->rdma_bytes += w->result.rdma_bytes;
	path->tcp_bytes += w->result.tcp_bytes;
	if (w->result.connections > path->connections)
		path->connections = w->result.connections;
	if (!w->result.is_checked)
		(void)snprintf(path->why, sizeof(path->why),
			       "not verified: a daemon runs without checksums");
	else if (w->result.corrupt_chunks > 0 || w->result.resent_bytes > 0)
		(void)snprintf(path->why, sizeof(path->why),
			       "%u chunks came damaged; %llu bytes were sent again",
			       w->result.corrupt_chunks,
			       (unsigned long long)w->result.resent_bytes);
}

/* Find out how large a transfer is that takes about so long. */
static int find_size(struct way *w, double seconds)
{
	uint64_t *found = &w->o->sizes[w->is_send ? 0 : 1];
	double factor;

	if (w->o->fd > 0)
		return 0;
	w->bytes = *found;
	if (*found > 0)
		return 0;
	for (w->bytes = FIRST_BYTES;;) {
		if (transfer(w) < 0)
			return w->ret;
		if (w->result.seconds >= SIZE_SHARE * seconds)
			break;
		factor = seconds / (w->result.seconds > 0 ? w->result.seconds : 1e-6);
		w->bytes =
			(uint64_t)((double)w->bytes * (factor < GROWTH_MAX ? factor : GROWTH_MAX));
	}
	w->bytes = (uint64_t)((double)w->bytes * seconds / w->result.seconds);
	w->bytes -= w->bytes % FM_WIRE_SMALL;
	w->bytes += FM_WIRE_SMALL;
	*found = w->bytes;
	return 0;
}

/* ---- repeats ---- */

static int one_way(struct way *w, struct fm_bench_path *path, struct fm_bench_repeat *out)
{
	*out = (struct fm_bench_repeat){0};
	while (out->seconds < ENOUGH * w->o->seconds) {
		if (transfer(w) < 0)
			return w->ret;
		out->bytes += w->bytes;
		out->seconds += w->result.seconds;
		note(path, w);
	}
	return 0;
}

static void *run(void *ctx)
{
	(void)transfer(ctx); /* its end is in the way */
	return NULL;
}

static int both_ways(struct way *send, struct way *receive, struct fm_bench_path *path,
		     struct fm_bench_repeat *out)
{
	pthread_t thread;
	int ret = pthread_create(&thread, NULL, run, receive);

	if (ret != 0)
		return fm_err_sys(&send->err, -ret, "start a thread");
	ret = transfer(send);
	(void)pthread_join(thread, NULL); /* it is one of ours */
	if (ret == 0 && receive->ret < 0) {
		send->err = receive->err;
		ret = receive->ret;
	}
	if (ret < 0)
		return ret;
	*out = fm_bench_overlap(send->samples, send->sample_count, receive->samples,
				receive->sample_count);
	note(path, send);
	note(path, receive);
	return 0;
}

static int repeat(const struct fm_wire_opts *o, struct way ways[static 2],
		  struct fm_bench_path *path)
{
	struct fm_cpu_watch *watch = calloc(1, sizeof(*watch));
	struct way *one = path->op == FM_BENCH_RECEIVE ? &ways[1] : &ways[0];
	int ret = watch ? 0 : fm_err_set(&ways[0].err, -ENOMEM, "no memory");

	if (ret == 0 && path->op != FM_BENCH_RECEIVE)
		ret = find_size(&ways[0], o->seconds);
	if (ret == 0 && path->op != FM_BENCH_SEND && (ret = find_size(&ways[1], o->seconds)) < 0)
		ways[0].err = ways[1].err;
	if (watch) {
		watch->pid = fm_cpu_daemon();
		watch->conn = o->conn;
		watch->peer = o->peer;
	}
	for (unsigned i = 0; ret == 0 && i < o->repeats; i++) {
		struct fm_bench_repeat *to = &path->repeats[path->repeat_count];

		o->step(o->ctx, path, i);
		fm_cpu_watch_begin(watch);
		ret = path->op == FM_BENCH_BOTH ? both_ways(&ways[0], &ways[1], path, to)
						: one_way(one, path, to);
		/* What came to nothing costs nothing of what is counted, and its peer may hang. */
		if (ret == 0)
			fm_cpu_watch_end(watch, path);
		path->repeat_count += ret == 0;
	}
	if (ret < 0 && one == &ways[1])
		ways[0].err = ways[1].err;
	free(watch);
	return ret;
}

int fm_wire_measure(const struct fm_wire_opts *o, struct fm_bench_path *path, struct fm_err *err)
{
	struct way ways[2] = {{.o = o, .conn = o->conn, .is_send = true, .bytes = o->file_bytes},
			      {.o = o, .conn = o->conn}};
	struct fmove_error why;
	int ret = 0;

	if (path->op == FM_BENCH_BOTH) {
		for (int i = 0; i < 2; i++)
			ways[i].samples = calloc(SAMPLES_MAX, sizeof(*ways[i].samples));
		if (!ways[0].samples || !ways[1].samples)
			ret = fm_err_set(&ways[0].err, -ENOMEM, "no memory for samples");
		else if ((ret = fmove_connect(fm_socket_path(), &ways[1].conn, &why)) < 0)
			(void)fm_err_set(&ways[0].err, ret, "%s", why.text);
	}
	if (ret == 0)
		ret = repeat(o, ways, path);
	if (ret < 0)
		*err = ways[0].err;
	if (ways[1].conn != o->conn)
		fmove_close(ways[1].conn);
	free(ways[0].samples);
	free(ways[1].samples);
	return ret;
}

int fm_wire_latency(const struct fm_wire_opts *o, struct fm_bench_path *path, struct fm_err *err)
{
	struct way w = {.o = o, .conn = o->conn, .is_send = true, .bytes = FM_WIRE_SMALL};
	struct fm_histogram *h = calloc(1, sizeof(*h));
	uint64_t end_ns, began_ns;
	int ret = h ? transfer(&w) : fm_err_set(&w.err, -ENOMEM, "no memory");

	path->depth = 1;
	path->block_bytes = FM_WIRE_SMALL;
	for (unsigned i = 0; ret == 0 && i < o->repeats; i++) {
		struct fm_bench_repeat r = {0};
		uint64_t first_ns = now();

		o->step(o->ctx, path, i);
		end_ns = first_ns + (uint64_t)(o->seconds / 2 * 1e9);
		do {
			began_ns = now();
			ret = transfer(&w);
			if (ret == 0)
				fm_histogram_add(h, now() - began_ns);
			r.bytes += FM_WIRE_SMALL;
		} while (ret == 0 && now() < end_ns);
		r.seconds = (double)(now() - first_ns) / 1e9;
		if (ret == 0)
			path->repeats[path->repeat_count++] = r;
	}
	if (h)
		fm_histogram_latency(h, &path->latency);
	if (ret < 0)
		*err = w.err;
	free(h);
	return ret;
}
