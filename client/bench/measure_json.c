/* SPDX-License-Identifier: MIT */
/*
 * measure_json - a measurement as a document and back. See measure.h.
 *
 * A document may come from a stranger: it is bounded, texts are cut to their place, and numbers are
 * finite and not negative. Keys that are not known are passed over.
 */
#include "client/bench/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/validity.h"
#include "mover/facts/facts.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/whole_file.h"

#define KEY_VERSION "fmove_bench"

/* ---- writing ---- */

static void rates_write(struct fm_json_writer *w, const struct fm_bench_rates *r)
{
	fm_jw_real(w, "median_bytes_per_s", r->median);
	fm_jw_real(w, "min_bytes_per_s", r->min);
	fm_jw_real(w, "max_bytes_per_s", r->max);
	fm_jw_real(w, "cv", r->cv);
}

static void repeats_write(struct fm_json_writer *w, const struct fm_bench_path *p)
{
	fm_jw_array(w, "repeats");
	for (unsigned i = 0; i < p->repeat_count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_u64(w, "bytes", p->repeats[i].bytes);
		fm_jw_real(w, "seconds", p->repeats[i].seconds);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void latency_write(struct fm_json_writer *w, const struct fm_bench_latency *l)
{
	if (l->count == 0) {
		fm_jw_null(w, "latency");
		return;
	}
	fm_jw_object(w, "latency");
	fm_jw_u64(w, "count", l->count);
	fm_jw_real(w, "p50_s", l->p50);
	fm_jw_real(w, "p90_s", l->p90);
	fm_jw_real(w, "p99_s", l->p99);
	fm_jw_real(w, "p999_s", l->p999);
	fm_jw_real(w, "max_s", l->max);
	fm_jw_object_end(w);
}

static void cpu_write(struct fm_json_writer *w, const char *key, const struct fm_bench_path *p,
		      const struct fm_bench_cpu *cpu)
{
	fm_jw_object(w, key);
	if (!cpu->is_known) {
		fm_jw_text(w, "unknown", cpu->why);
	} else {
		fm_jw_real(w, "process_s", cpu->process_s);
		fm_jw_real(w, "kernel_s", cpu->kernel_s);
		fm_jw_real(w, "softirq_s", cpu->softirq_s);
		fm_jw_real(w, "s_per_gib", fmax(0, fm_bench_cpu_per_gib(p, cpu)));
		fm_jw_real(w, "busiest_core", cpu->busiest);
		fm_jw_u64(w, "allowed_processors", cpu->allowed);
		fm_jw_real(w, "watched_s", cpu->watched_s);
		fm_jw_real(w, "waited_s", cpu->wait_s);
		fm_jw_real(w, "allowed_busy_s", cpu->allowed_busy_s);
		fm_jw_real(w, "busiest_thread_s", cpu->thread_s);
		fm_jw_real(w, "softirq_core_s", cpu->core_softirq_s);
	}
	fm_jw_object_end(w);
}

static void invalid_write(struct fm_json_writer *w, unsigned invalid)
{
	fm_jw_array(w, "invalid");
	for (unsigned bit = 1; bit <= FM_BENCH_FAILED; bit *= 2)
		if (invalid & bit)
			fm_jw_text(w, NULL, fm_bench_invalid_word(bit));
	fm_jw_array_end(w);
}

static void only_write(struct fm_json_writer *w, const struct fm_bench_only *o)
{
	fm_jw_object(w, "only");
	if (o->device[0])
		fm_jw_text(w, "device", o->device);
	if (o->local[0])
		fm_jw_text(w, "local", o->local);
	if (o->remote[0])
		fm_jw_text(w, "remote", o->remote);
	if (o->connections > 0)
		fm_jw_u64(w, "connections", o->connections);
	fm_jw_object_end(w);
}

static void rails_write(struct fm_json_writer *w, const struct fm_bench_path *p)
{
	fm_jw_array(w, "rails");
	for (unsigned i = 0; i < p->rail_count; i++) {
		const struct fm_bench_rail *r = &p->rails[i];
		enum fm_bench_kind kind = r->is_rdma ? FM_BENCH_RDMA : FM_BENCH_TCP;

		fm_jw_object(w, NULL);
		fm_jw_text(w, "kind", fm_bench_kind_words[kind]);
		fm_jw_text(w, "device", r->device);
		fm_jw_text(w, "local", r->local);
		fm_jw_text(w, "remote", r->remote);
		fm_jw_u64(w, "sent_bytes", r->sent);
		fm_jw_u64(w, "received_bytes", r->received);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static bool is_of_peer(const struct fm_bench_path *p)
{
	return p->kind == FM_BENCH_RDMA || p->kind == FM_BENCH_TCP || p->kind == FM_BENCH_PUT;
}

static void path_write(struct fm_json_writer *w, const struct fm_bench_path *p)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "kind", fm_bench_kind_words[p->kind]);
	fm_jw_text(w, "op", fm_bench_op_words[p->op]);
	fm_jw_name(w, "where", p->where, strlen(p->where));
	if (p->from[0])
		fm_jw_name(w, "from", p->from, strlen(p->from));
	if (!fm_bench_is_any(&p->only))
		only_write(w, &p->only);
	if (p->depth > 0) {
		fm_jw_u64(w, "block_bytes", p->block_bytes);
		fm_jw_u64(w, "depth", p->depth);
	}
	repeats_write(w, p);
	rates_write(w, &p->rates);
	if (p->hardware > 0)
		fm_jw_real(w, "hardware_bytes_per_s", p->hardware);
	latency_write(w, &p->latency);
	cpu_write(w, "cpu_here", p, &p->here);
	if (is_of_peer(p)) {
		cpu_write(w, "cpu_there", p, &p->there);
		fm_jw_u64(w, "connections", p->connections);
		fm_jw_u64(w, "rdma_bytes", p->rdma_bytes);
		fm_jw_u64(w, "tcp_bytes", p->tcp_bytes);
		rails_write(w, p);
		fm_jw_u64(w, "tcp_segments_sent", p->segments_sent);
		fm_jw_u64(w, "tcp_segments_again", p->segments_again);
		fm_jw_u64(w, "tcp_segments_needless", p->segments_needless);
	}
	fm_jw_bool(w, "cached", p->is_cached);
	fm_jw_bool(w, "throttled", p->is_throttled);
	invalid_write(w, p->invalid);
	fm_jw_text(w, "why", p->why);
	fm_jw_object_end(w);
}

static void counters_write(struct fm_json_writer *w, const struct fm_bench *b)
{
	fm_jw_array(w, "counters");
	for (unsigned i = 0; i < b->counter_count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_text(w, "object", b->counters[i].object);
		fm_jw_text(w, "name", b->counters[i].name);
		fm_jw_u64(w, "growth", b->counters[i].growth);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

int fm_bench_write(const struct fm_bench *b, int exit, char *buf, size_t cap)
{
	struct fm_json_writer w;

	fm_jw_begin(&w, buf, cap);
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, KEY_VERSION, FM_BENCH_VERSION);
	fm_jw_text(&w, "fmove", b->fmove);
	fm_jw_text(&w, "node", b->node);
	fm_jw_u64(&w, "began_ms", b->began_ms);
	fm_jw_text(&w, "label", b->is_thorough ? "thorough" : "quick");
	fm_jw_real(&w, "wanted_s", b->wanted_s);
	fm_jw_text(&w, "latency_of", "each operation, from start to end, in a closed loop");
	fm_jw_array(&w, "paths");
	for (unsigned i = 0; i < b->path_count; i++)
		path_write(&w, &b->paths[i]);
	fm_jw_array_end(&w);
	counters_write(&w, b);
	fm_jw_text(&w, "verdict", b->verdict);
	if (b->facts)
		fm_facts_put(&w, "facts", b->facts);
	else
		fm_jw_null(&w, "facts");
	fm_jw_u64(&w, "exit", (uint64_t)exit);
	fm_jw_object_end(&w);
	return fm_jw_end(&w);
}

/* ---- reading ---- */

/* Of a missing key: what is there already. -EINVAL: a number that none of ours can be. */
static int real_read(const struct fm_json *json, const char *key, double max, double *out)
{
	const struct fm_json *value = fm_json_get(json, key);
	double v;

	if (!value)
		return 0;
	if (fm_json_real(value, &v) < 0 || !isfinite(v) || v < 0 || v > max)
		return -EINVAL;
	*out = v;
	return 0;
}

static int u64_read(const struct fm_json *json, const char *key, uint64_t max, uint64_t *out)
{
	const struct fm_json *value = fm_json_get(json, key);
	uint64_t v;

	if (!value)
		return 0;
	if (fm_json_u64(value, &v) < 0 || v > max)
		return -EINVAL;
	*out = v;
	return 0;
}

static int unsigned_read(const struct fm_json *json, const char *key, uint64_t max, unsigned *out)
{
	uint64_t v = *out;
	int ret = u64_read(json, key, max, &v);

	*out = (unsigned)v;
	return ret;
}

/* Cut to its place. */
static int text_read(const struct fm_json *json, const char *key, char *out, size_t cap)
{
	const struct fm_json *value = fm_json_get(json, key);
	size_t len;
	const char *text;

	if (!value)
		return 0;
	if (fm_json_type(value) == FM_JSON_OBJECT)
		return fm_json_name(value, out, cap, &len) < 0 ? -EINVAL : 0;
	if (fm_json_text(value, &text) < 0)
		return -EINVAL;
	(void)snprintf(out, cap, "%s", text);
	return 0;
}

static int bool_read(const struct fm_json *json, const char *key, bool *out)
{
	const struct fm_json *value = fm_json_get(json, key);

	return value ? fm_json_bool(value, out) : 0;
}

static int word_read(const struct fm_json *json, const char *key, const char *const *words,
		     unsigned *out)
{
	const char *text;

	if (fm_json_text(fm_json_get(json, key), &text) < 0)
		return -EINVAL;
	for (unsigned i = 0; words[i]; i++)
		if (strcmp(words[i], text) == 0) {
			*out = i;
			return 0;
		}
	return -EINVAL;
}

#define SECONDS_MAX 1e9
#define BYTES_MAX   (UINT64_C(1) << 53)
#define RATE_MAX    1e15

static int repeats_read(const struct fm_json *json, struct fm_bench_path *p)
{
	size_t count = fm_json_count(json);
	int ret = 0;

	if (count > FM_BENCH_REPEATS_MAX || (json && fm_json_type(json) != FM_JSON_ARRAY))
		return -EINVAL;
	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct fm_bench_repeat *r = &p->repeats[p->repeat_count++];

		ret = u64_read(fm_json_at(json, i), "bytes", BYTES_MAX, &r->bytes);
		if (ret == 0)
			ret = real_read(fm_json_at(json, i), "seconds", SECONDS_MAX, &r->seconds);
	}
	return ret;
}

static int latency_read(const struct fm_json *json, struct fm_bench_latency *l)
{
	const struct {
		const char *key;
		double *to;
	} rows[] = {{"p50_s", &l->p50},
		    {"p90_s", &l->p90},
		    {"p99_s", &l->p99},
		    {"p999_s", &l->p999},
		    {"max_s", &l->max}};
	int ret = u64_read(json, "count", BYTES_MAX, &l->count);

	for (size_t i = 0; ret == 0 && i < sizeof(rows) / sizeof(rows[0]); i++)
		ret = real_read(json, rows[i].key, SECONDS_MAX, rows[i].to);
	return ret;
}

static int cpu_read(const struct fm_json *json, struct fm_bench_cpu *cpu)
{
	const struct {
		const char *key;
		double max;
		double *to;
	} rows[] = {{"process_s", SECONDS_MAX, &cpu->process_s},
		    {"kernel_s", SECONDS_MAX, &cpu->kernel_s},
		    {"softirq_s", SECONDS_MAX, &cpu->softirq_s},
		    {"busiest_core", 1, &cpu->busiest},
		    {"watched_s", SECONDS_MAX, &cpu->watched_s},
		    {"waited_s", SECONDS_MAX, &cpu->wait_s},
		    {"allowed_busy_s", SECONDS_MAX, &cpu->allowed_busy_s},
		    {"busiest_thread_s", SECONDS_MAX, &cpu->thread_s},
		    {"softirq_core_s", SECONDS_MAX, &cpu->core_softirq_s}};
	int ret = text_read(json, "unknown", cpu->why, sizeof(cpu->why));

	if (ret == 0)
		ret = unsigned_read(json, "allowed_processors", UINT16_MAX, &cpu->allowed);
	cpu->is_known = fm_json_get(json, "process_s") != NULL;
	for (size_t i = 0; ret == 0 && i < sizeof(rows) / sizeof(rows[0]); i++)
		ret = real_read(json, rows[i].key, rows[i].max, rows[i].to);
	return ret;
}

static int only_read(const struct fm_json *json, struct fm_bench_only *o)
{
	if (!json)
		return 0;
	if (text_read(json, "device", o->device, sizeof(o->device)) < 0 ||
	    text_read(json, "local", o->local, sizeof(o->local)) < 0 ||
	    text_read(json, "remote", o->remote, sizeof(o->remote)) < 0)
		return -EINVAL;
	return unsigned_read(json, "connections", UINT16_MAX, &o->connections);
}

static int rails_read(const struct fm_json *json, struct fm_bench_path *p)
{
	size_t count = fm_json_count(json);

	if (count > FM_BENCH_RAILS_MAX || (json && fm_json_type(json) != FM_JSON_ARRAY))
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		const struct fm_json *at = fm_json_at(json, i);
		struct fm_bench_rail *r = &p->rails[p->rail_count++];
		unsigned kind;

		if (word_read(at, "kind", fm_bench_kind_words, &kind) < 0 || kind > FM_BENCH_TCP ||
		    text_read(at, "device", r->device, sizeof(r->device)) < 0 ||
		    text_read(at, "local", r->local, sizeof(r->local)) < 0 ||
		    text_read(at, "remote", r->remote, sizeof(r->remote)) < 0 ||
		    u64_read(at, "sent_bytes", BYTES_MAX, &r->sent) < 0 ||
		    u64_read(at, "received_bytes", BYTES_MAX, &r->received) < 0)
			return -EINVAL;
		r->is_rdma = kind == FM_BENCH_RDMA;
	}
	return 0;
}

static int path_read(const struct fm_json *json, struct fm_bench *b)
{
	unsigned kind = 0, op = 0;
	struct fm_bench_path *p;
	int ret = word_read(json, "kind", fm_bench_kind_words, &kind);

	if (ret == 0)
		ret = word_read(json, "op", fm_bench_op_words, &op);
	if (ret < 0)
		return ret;
	p = fm_bench_add(b, (enum fm_bench_kind)kind, (enum fm_bench_op)op, "");
	if (!p || text_read(json, "where", p->where, sizeof(p->where)) < 0 ||
	    text_read(json, "from", p->from, sizeof(p->from)) < 0 ||
	    text_read(json, "why", p->why, sizeof(p->why)) < 0 ||
	    u64_read(json, "block_bytes", BYTES_MAX, &p->block_bytes) < 0 ||
	    real_read(json, "hardware_bytes_per_s", RATE_MAX, &p->hardware) < 0 ||
	    unsigned_read(json, "depth", UINT16_MAX, &p->depth) < 0 ||
	    unsigned_read(json, "connections", UINT16_MAX, &p->connections) < 0 ||
	    u64_read(json, "rdma_bytes", BYTES_MAX, &p->rdma_bytes) < 0 ||
	    u64_read(json, "tcp_bytes", BYTES_MAX, &p->tcp_bytes) < 0 ||
	    u64_read(json, "tcp_segments_sent", BYTES_MAX, &p->segments_sent) < 0 ||
	    u64_read(json, "tcp_segments_again", BYTES_MAX, &p->segments_again) < 0 ||
	    u64_read(json, "tcp_segments_needless", BYTES_MAX, &p->segments_needless) < 0 ||
	    bool_read(json, "cached", &p->is_cached) < 0 ||
	    bool_read(json, "throttled", &p->is_throttled) < 0 ||
	    only_read(fm_json_get(json, "only"), &p->only) < 0 ||
	    rails_read(fm_json_get(json, "rails"), p) < 0 ||
	    repeats_read(fm_json_get(json, "repeats"), p) < 0 ||
	    latency_read(fm_json_get(json, "latency"), &p->latency) < 0 ||
	    cpu_read(fm_json_get(json, "cpu_here"), &p->here) < 0)
		return -EINVAL;
	return cpu_read(fm_json_get(json, "cpu_there"), &p->there);
}

static int paths_read(const struct fm_json *json, struct fm_bench *b, struct fm_err *err)
{
	if (!json || fm_json_type(json) != FM_JSON_ARRAY)
		return fm_err_set(err, -EINVAL, "paths: not an array");
	for (size_t i = 0; i < fm_json_count(json); i++)
		if (path_read(fm_json_at(json, i), b) < 0)
			return fm_err_set(err, -EINVAL, "paths[%zu]: not a path of a measurement",
					  i);
	return 0;
}

static int document_read(const struct fm_json *json, struct fm_bench *b, struct fm_err *err)
{
	const char *label = "";
	uint64_t version;
	int ret;

	if (fm_json_u64(fm_json_get(json, KEY_VERSION), &version) < 0)
		return fm_err_set(err, -EINVAL,
				  "no measurement of fmove bench: " KEY_VERSION " is missing");
	if (version < 1 || version > FM_BENCH_VERSION)
		return fm_err_set(err, -EOPNOTSUPP,
				  "a measurement of version %llu, this fmove knows %d",
				  (unsigned long long)version, FM_BENCH_VERSION);
	if (fm_json_text(fm_json_get(json, "label"), &label) < 0 ||
	    (strcmp(label, "quick") != 0 && strcmp(label, "thorough") != 0))
		return fm_err_set(err, -EINVAL, "label: neither quick nor thorough");
	b->is_thorough = strcmp(label, "thorough") == 0;
	if (text_read(json, "node", b->node, sizeof(b->node)) < 0 ||
	    text_read(json, "fmove", b->fmove, sizeof(b->fmove)) < 0 ||
	    text_read(json, "verdict", b->verdict, sizeof(b->verdict)) < 0 ||
	    u64_read(json, "began_ms", INT64_MAX, &b->began_ms) < 0 ||
	    real_read(json, "wanted_s", SECONDS_MAX, &b->wanted_s) < 0)
		return fm_err_set(err, -EINVAL, "not the values of a measurement");
	ret = paths_read(fm_json_get(json, "paths"), b, err);
	if (ret == 0)
		(void)fm_bench_judge(b);
	return ret;
}

int fm_bench_parse(const char *text, size_t len, struct fm_bench **out, struct fm_err *err)
{
	struct fm_json *json;
	struct fm_bench *b;
	int ret;

	if (len > FM_BENCH_BYTES_MAX)
		return fm_err_set(err, -E2BIG, "longer than %u bytes", FM_BENCH_BYTES_MAX);
	ret = fm_json_parse(text, len, &json, err);
	if (ret < 0)
		return ret;
	b = fm_bench_new();
	ret = b ? document_read(json, b, err) : fm_err_set(err, -ENOMEM, "no memory");
	fm_json_free(json);
	if (ret < 0)
		fm_bench_free(b);
	else
		*out = b;
	return ret;
}

int fm_bench_load(const char *path, struct fm_bench **out, struct fm_err *err)
{
	char *text = NULL;
	size_t len;
	int ret = fm_whole_file(path, FM_BENCH_BYTES_MAX, &text, &len, err);

	if (ret == 0)
		ret = fm_bench_parse(text, len, out, err);
	free(text);
	if (ret < 0)
		(void)fm_err_wrap(err, "%s", path);
	return ret;
}
