/* SPDX-License-Identifier: MIT */
/* rails - see rails.h. */
#include "client/bench/rails.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/ask.h"
#include "client/cli/fields.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

/* ---- which there are ---- */

static bool is_same(const struct fm_bench_rail *a, const struct fm_bench_rail *b)
{
	return a->is_rdma == b->is_rdma && strcmp(a->device, b->device) == 0 &&
	       strcmp(a->local, b->local) == 0 && strcmp(a->remote, b->remote) == 0;
}

static struct fm_bench_rail *find(struct fm_rails *rails, const struct fm_bench_rail *of)
{
	for (unsigned i = 0; i < rails->count; i++)
		if (is_same(&rails->at[i], of))
			return &rails->at[i];
	return NULL;
}

/* Those of a rail that are sealed in another way are a row of their own in a status. */
static void take(struct fm_rails *to, const struct fm_json *json)
{
	struct fm_bench_rail r = {
		.is_rdma = strcmp(fm_field_text(json, "kind"), "rdma") == 0,
		.connections = (unsigned)fm_field_u64(json, "connections"),
		.sent = fm_field_u64(json, "sent_bytes"),
		.received = fm_field_u64(json, "received_bytes")};
	struct fm_bench_rail *at;

	(void)snprintf(r.device, sizeof(r.device), "%s", fm_field_text(json, "device"));
	(void)snprintf(r.local, sizeof(r.local), "%s", fm_field_text(json, "local"));
	(void)snprintf(r.remote, sizeof(r.remote), "%s", fm_field_text(json, "remote"));
	at = find(to, &r);
	if (at) {
		at->connections += r.connections;
		at->sent += r.sent;
		at->received += r.received;
	} else if (to->count < FM_BENCH_RAILS_MAX) {
		to->at[to->count++] = r;
	}
}

void fm_rails_of(const struct fm_json *status, const char *peer, struct fm_rails *out)
{
	const struct fm_json *peers = fm_json_get(status, "peers"), *rails;

	out->count = 0;
	for (size_t i = 0; i < fm_json_count(peers); i++) {
		if (strcmp(fm_field_text(fm_json_at(peers, i), "name"), peer) != 0)
			continue;
		rails = fm_json_get(fm_json_at(peers, i), "rails");
		for (size_t k = 0; k < fm_json_count(rails); k++)
			if (fm_field_is(fm_json_at(rails, k), "up"))
				take(out, fm_json_at(rails, k));
	}
}

int fm_rails_read(struct fmove *conn, const char *peer, struct fm_rails *out, struct fm_err *err)
{
	struct fm_json *status;
	struct fmove_error why;
	int ret = fm_ask_status(conn, &status, &why);

	if (ret < 0)
		return fm_err_set(err, ret, "%s", why.text);
	fm_rails_of(status, peer, out);
	fm_json_free(status);
	return 0;
}

/* ---- which are measured alone ---- */

static void only_rail(const struct fm_bench_rail *r, struct fm_bench_only *out)
{
	memcpy(out->local, r->local, sizeof(out->local));
	memcpy(out->remote, r->remote, sizeof(out->remote));
}

/* By its number, or an address at either end that no other one has. */
static bool is_rail(const struct fm_bench_rail *r, unsigned number, const char *wanted)
{
	char *end;
	unsigned long n = strtoul(wanted, &end, 10);

	if (!*end)
		return n == number;
	return strcmp(r->local, wanted) == 0 || strcmp(r->remote, wanted) == 0;
}

static void add_word(char *text, size_t cap, const char *word)
{
	size_t len = strlen(text);

	if (!strstr(text, word))
		(void)snprintf(text + len, cap - len, "%s%s", len ? ", " : "", word);
}

int fm_rails_pick(const struct fm_rails *rails, bool is_rdma, const struct fm_rails_wanted *w,
		  struct fm_bench_only *out, struct fm_err *err)
{
	char devices[FM_BENCH_TEXT_MAX] = "", ways[FM_BENCH_TEXT_MAX] = "", way[300];
	unsigned number = 0, found = 0, of_device = 0;

	*out = (struct fm_bench_only){.connections = w->connections};
	for (unsigned i = 0; i < rails->count; i++) {
		const struct fm_bench_rail *r = &rails->at[i];

		if (r->is_rdma != is_rdma)
			continue;
		(void)snprintf(way, sizeof(way), "%u: %s - %s", ++number, r->local, r->remote);
		add_word(ways, sizeof(ways), way);
		add_word(devices, sizeof(devices), r->device);
		of_device += w->device && strcmp(w->device, r->device) == 0;
		if (w->rail && is_rail(r, number, w->rail)) {
			only_rail(r, out);
			found++;
		}
	}
	if (number == 0)
		return fm_err_set(err, -EHOSTUNREACH, "no rail of %s is up; fmove doctor says why",
				  fm_bench_kind_words[is_rdma ? FM_BENCH_RDMA : FM_BENCH_TCP]);
	if (w->device && of_device == 0)
		return fm_err_set(err, -ENOENT, "no rail goes over %.60s; there are %.300s",
				  w->device, devices);
	if (w->rail && found != 1)
		return fm_err_set(err, -ENOENT, "%s rail is %.60s; there are %.300s",
				  found ? "more than one" : "no", w->rail, ways);
	if (w->device)
		(void)snprintf(out->device, sizeof(out->device), "%s", w->device);
	return 0;
}

struct singles {
	struct fm_bench_only *out;
	size_t count;
};

static void add(struct singles *s, const struct fm_bench_only *only)
{
	if (s->count < FM_RAILS_SINGLES_MAX)
		s->out[s->count++] = *only;
}

static bool has_device(const struct fm_rails *rails, unsigned before, const struct fm_bench_rail *r)
{
	for (unsigned i = 0; i < before; i++)
		if (rails->at[i].is_rdma == r->is_rdma &&
		    strcmp(rails->at[i].device, r->device) == 0)
			return true;
	return false;
}

static void add_devices(struct singles *s, const struct fm_rails *rails, bool is_rdma)
{
	for (unsigned i = 0; i < rails->count; i++) {
		struct fm_bench_only only = {.connections = 0};

		if (rails->at[i].is_rdma != is_rdma || has_device(rails, i, &rails->at[i]))
			continue;
		memcpy(only.device, rails->at[i].device, sizeof(only.device));
		if (only.device[0]) /* else it is not known, and any would be meant */
			add(s, &only);
	}
}

static void add_rails(struct singles *s, const struct fm_rails *rails, bool is_rdma)
{
	for (unsigned i = 0; i < rails->count; i++) {
		struct fm_bench_only only = {.connections = 0};

		if (rails->at[i].is_rdma != is_rdma)
			continue;
		only_rail(&rails->at[i], &only);
		add(s, &only);
	}
}

/* One alone is all of them; devices with one rail each need no row of these. */
static size_t without_one(struct singles *s, size_t from, size_t than)
{
	if (s->count - from <= than)
		s->count = from;
	return s->count - from;
}

size_t fm_rails_singles(const struct fm_rails *rails, bool is_rdma,
			struct fm_bench_only out[static FM_RAILS_SINGLES_MAX])
{
	struct singles s = {.out = out};
	unsigned conns = 0;
	size_t devices, from;

	add_devices(&s, rails, is_rdma);
	devices = without_one(&s, 0, 1);
	from = s.count;
	add_rails(&s, rails, is_rdma);
	(void)without_one(&s, from, devices > 1 ? devices : 1);
	for (unsigned i = 0; i < rails->count; i++)
		conns += rails->at[i].is_rdma ? 0 : rails->at[i].connections;
	for (unsigned n = 1; !is_rdma && n < conns && n <= FM_RAILS_CONNS_MAX; n *= 2)
		add(&s, &(struct fm_bench_only){.connections = n});
	return s.count;
}

/* ---- what they carried ---- */

void fm_rails_growth(const struct fm_rails *before, const struct fm_rails *after,
		     struct fm_bench_path *path)
{
	struct fm_rails was = *before;

	path->rail_count = 0;
	for (unsigned i = 0; i < after->count; i++) {
		struct fm_bench_rail r = after->at[i];
		const struct fm_bench_rail *old = find(&was, &r);

		/* Of one that was made anew meanwhile, what it carried since. */
		if (old && old->sent <= r.sent && old->received <= r.received) {
			r.sent -= old->sent;
			r.received -= old->received;
		}
		if (r.sent > 0 || r.received > 0)
			path->rails[path->rail_count++] = r;
	}
}

static bool is_of(const struct fm_bench_only *o, bool is_rdma, const struct fm_bench_rail *r)
{
	return r->is_rdma == is_rdma && (!o->device[0] || strcmp(o->device, r->device) == 0) &&
	       (!o->local[0] || strcmp(o->local, r->local) == 0) &&
	       (!o->remote[0] || strcmp(o->remote, r->remote) == 0);
}

int fm_rails_prove(const struct fm_bench_path *p, struct fm_err *err)
{
	const bool is_receive = p->op == FM_BENCH_RECEIVE;
	uint64_t bytes = p->rdma_bytes + p->tcp_bytes, sum = 0;
	uint64_t told = is_receive ? p->asked_bytes : 0;

	for (unsigned i = 0; i < p->rail_count; i++) {
		const struct fm_bench_rail *r = &p->rails[i];
		uint64_t moved = is_receive ? r->received : r->sent;

		if (is_of(&p->only, p->kind == FM_BENCH_RDMA, r)) {
			sum += moved;
			continue;
		}
		if (moved > told)
			return fm_err_set(err, -EPROTO,
					  "%llu bytes %s over %s %s - %s meanwhile: another "
					  "transfer ran, or the rail was not kept to",
					  (unsigned long long)moved, is_receive ? "came" : "went",
					  r->device, r->local, r->remote);
		told -= moved;
	}
	if (sum < bytes)
		return fm_err_set(err, -EPROTO,
				  "its rails carried %llu of %llu bytes: a connection ended "
				  "meanwhile",
				  (unsigned long long)sum, (unsigned long long)bytes);
	if (is_receive && p->only.connections > 0 && p->connections > p->only.connections)
		return fm_err_set(err, -EPROTO,
				  "%u connections carried it, not %u: one ended meanwhile, or the "
				  "peer did not keep to so many",
				  p->connections, p->only.connections);
	return 0;
}
