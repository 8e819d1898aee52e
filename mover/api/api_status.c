/* SPDX-License-Identifier: MIT */
/*
 * api_status - the answer to "status": one object with the node, its stores, peers, rails and jobs.
 *
 * The engine is visited in a fixed order, so the text can be written as it comes. What would not
 * fit one message is counted in "left_out" instead: the writer is set back to where the last whole
 * item ended.
 */
#include "mover/api/api_event.h"

#include <stdio.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_door.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/words.h"
#include "mover/node/engine.h"
#include "mover/node/rail_sum.h"
#include "mover/queue/queue.h"
#include "mover/services/transfer/transfer.h"

#define TAIL_ROOM 256		/* kept free of items, for closing everything and "left_out" */

enum section { SECTION_NODE, SECTION_STORES, SECTION_PEERS, SECTION_JOBS, SECTION_END };

struct snapshot {
	struct fm_json_writer w;
	enum section section;
	struct fm_json_writer mark;	/* before the item that is being written */
	unsigned left_out;
	bool has_peer;			/* one is begun, and its rails are being collected */
	struct fm_rail_sums rails;
};

static void item_begin(struct snapshot *s)
{
	s->mark = s->w;
	fm_jw_keep(&s->w, TAIL_ROOM);
	fm_jw_object(&s->w, NULL);
}

static void item_end(struct snapshot *s)
{
	fm_jw_object_end(&s->w);
	fm_jw_keep(&s->w, 0);
	if (!s->w.failed)
		return;
	s->w = s->mark;
	s->left_out++;
}

static void rail_write(struct fm_json_writer *w, const struct fm_rail_sum *r)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "kind", fm_words_kind[r->info.kind]);
	fm_jw_text(w, "device", r->info.local);
	fm_jw_text(w, "local", r->info.local_addr);
	fm_jw_text(w, "remote", r->info.remote_addr);
	fm_jw_bool(w, "up", r->conns_up > 0);
	fm_jw_u64(w, "connections", r->conns);
	fm_jw_u64(w, "mtu", r->info.mtu);
	fm_jw_u64(w, "speed_mbps", r->info.speed_mbps);
	fm_jw_u64(w, "sent_bytes", r->bytes_sent);
	fm_jw_u64(w, "received_bytes", r->bytes_received);
	fm_jw_text(w, "encryption", fm_words_encryption[r->info.encryption]);
	fm_jw_text(w, "note", r->info.note ? r->info.note : "");
	fm_jw_text(w, "error", r->error);
	fm_jw_u64(w, "down_ms", r->down_ns / FM_NS_PER_MS);
	fm_jw_object_end(w);
}

/*
 * Ends the open peer with its rails. They are complete when the next peer begins, or after the last
 * one.
 */
static void peer_end(struct snapshot *s)
{
	if (!s->has_peer)
		return;
	s->has_peer = false;
	fm_jw_array(&s->w, "rails");
	for (unsigned i = 0; i < s->rails.count; i++)
		rail_write(&s->w, &s->rails.rail[i]);
	fm_jw_array_end(&s->w);
	item_end(s);
}

/* Open the arrays that come before `section`, so that each is there even if it is empty. */
static void section_to(struct snapshot *s, enum section section)
{
	static const char *const names[] = { NULL, "stores", "peers", "jobs", NULL };

	while (s->section < section) {
		if (s->section == SECTION_PEERS)
			peer_end(s);
		if (s->section != SECTION_NODE)
			fm_jw_array_end(&s->w);
		s->section++;
		if (names[s->section])
			fm_jw_array(&s->w, names[s->section]);
	}
}

/*
 * Tells the port that a transport listens on, and what is wrong with it; or why there is no port.
 */
static void way_to(struct fm_json_writer *w, const char *name, uint16_t port, const char *why)
{
	char text[320];

	if (port && why)
		(void)snprintf(text, sizeof(text),
			       "port %u, where nothing is accepted just now: %s", port, why);
	else if (port)
		(void)snprintf(text, sizeof(text), "port %u", port);
	else
		(void)snprintf(text, sizeof(text), "%s", why ? why : "switched off");
	fm_jw_text(w, name, text);
}

static void snapshot_node(void *ctx, const struct fm_node_status *n)
{
	struct snapshot *s = ctx;
	struct fm_json_writer *w = &s->w;

	fm_jw_text(w, "node", n->node);
	fm_jw_text(w, "version", FM_VERSION);
	fm_jw_u64(w, "uptime_ms", n->uptime_ns / FM_NS_PER_MS);
	fm_jw_array(w, "lanes");
	for (unsigned i = 0; i < n->lanes && i < FM_LANES_MAX; i++)
		fm_jw_text(w, NULL, n->io[i] ? n->io[i] : "");
	fm_jw_array_end(w);
	fm_jw_u64(w, "tcp_conns", n->tcp_conns);
	fm_jw_u64(w, "rdma_conns", n->rdma_conns);
	fm_jw_u64(w, "chunk_bytes", n->chunk_bytes);
	fm_jw_u64(w, "slab_bytes", n->slab_bytes);
	fm_jw_text(w, "chosen", n->chosen);
	fm_jw_i64(w, "config_read_ms", n->config_read_ms);
	if (n->config_mistake[0])
		fm_jw_text(w, "config_mistake", n->config_mistake);
	if (n->config_removed[0])
		fm_jw_text(w, "config_removed", n->config_removed);
	if (n->config_waits[0])
		fm_jw_text(w, "config_waits", n->config_waits);
	fm_jw_u64(w, "arena_bytes", n->arena_bytes);
	fm_jw_u64(w, "slabs", n->slabs);
	fm_jw_u64(w, "slabs_free", n->slabs_free);
	way_to(w, "rdma", n->rdma_port, n->rdma_why);
	way_to(w, "tcp", n->tcp_port, n->tcp_why);
}

static void snapshot_store(void *ctx, const struct fm_store *store)
{
	struct snapshot *s = ctx;

	section_to(s, SECTION_STORES);
	item_begin(s);
	fm_jw_text(&s->w, "name", store->name);
	fm_jw_bool(&s->w, "durable", store->is_durable);
	item_end(s);
}

static void snapshot_peer(void *ctx, const struct fm_peer_status *peer)
{
	struct snapshot *s = ctx;
	struct fm_json_writer *w = &s->w;

	section_to(s, SECTION_PEERS);
	peer_end(s);
	s->has_peer = true;
	s->rails.count = 0;
	item_begin(s);
	fm_jw_text(w, "name", peer->name);
	fm_jw_text(w, "address", peer->address);
	fm_jw_bool(w, "connected", peer->is_connected);
	fm_jw_text(w, "error", peer->last_error);
	fm_jw_u64(w, "since_ms", peer->since_ns / FM_NS_PER_MS);
	fm_jw_u64(w, "connections", peer->conns);
	if (peer->rdma_why[0])
		fm_jw_text(w, "rdma_why", peer->rdma_why);
	fm_jw_object(w, "session");
	fm_jw_text(w, "device", peer->session.device);
	fm_jw_text(w, "local", peer->session.local);
	fm_jw_text(w, "remote", peer->session.remote);
	if (peer->round_trip_ns > 0)
		fm_jw_u64(w, "round_trip_us", (peer->round_trip_ns + 999) / 1000);
	fm_jw_object_end(w);
}

static void snapshot_rail(void *ctx, const struct fm_rail_status *rail)
{
	struct snapshot *s = ctx;

	if (!s->has_peer || !fm_rail_sums_add(&s->rails, rail))
		s->left_out++;
}

static void snapshot_job(void *ctx, const struct fm_job_status *job)
{
	struct snapshot *s = ctx;
	struct fm_json_writer *w = &s->w;

	section_to(s, SECTION_JOBS);
	item_begin(s);
	fm_jw_text(w, "op", job->is_put ? "put" : "get");
	fm_jw_bool(w, "ours", job->is_ours);
	fm_jw_text(w, "peer", job->peer);
	fm_jw_text(w, "store", job->store);
	fm_jw_name(w, "path", job->path, strlen(job->path));
	fm_jw_text(w, "state", job->progress.state);
	fm_jw_u64_or_null(w, "size", job->progress.size, FM_SIZE_UNKNOWN);
	fm_jw_u64(w, "bytes", job->progress.bytes_done);
	fm_jw_u64(w, "connections", job->progress.conns);
	fm_jw_u64(w, "elapsed_ms", job->elapsed_ns / FM_NS_PER_MS);
	item_end(s);
}

/* The sockets of one user. NULL: nobody asks for them. */
static void add_doors(struct snapshot *s, const struct fm_list *doors)
{
	if (!doors)
		return;
	fm_jw_array(&s->w, "sockets");
	fm_list_each(at, next, doors) {
		const struct fm_api_door *door = fm_container_of(at, struct fm_api_door, link);

		if (!door->is.is_of_user)
			continue;
		item_begin(s);
		fm_jw_name(&s->w, "path", door->is.path, strlen(door->is.path));
		fm_jw_u64(&s->w, "uid", door->is.user_uid);
		item_end(s);
	}
	fm_jw_array_end(&s->w);
}

/*
 * Nothing that a restart would end, or leave to a person: a job that waits goes on, or its command
 * tries it again, but a detached one on a caller's file needs that from its user again.
 */
static bool is_idle(const struct fm_engine *engine, const struct fm_queue *queue)
{
	struct fm_queue_counts counts = { 0 };

	if (queue)
		fm_queue_counts(queue, &counts);
	return counts.jobs[FM_QUEUE_RUNNING] == 0 && counts.with_file == 0 &&
	       !fm_engine_is_working(engine);
}

int fm_api_event_status(char *buf, size_t cap, uint64_t id, struct fm_engine *engine,
			const struct fm_queue *queue, const struct fm_list *doors)
{
	static const struct fm_status_visitor visitor = { snapshot_node, snapshot_store,
							  snapshot_peer, snapshot_rail };
	static struct snapshot s;	/* loop thread only, and too large for its stack */

	memset(&s, 0, sizeof(s));
	fm_jw_begin(&s.w, buf, cap);
	fm_jw_object(&s.w, NULL);
	fm_jw_u64(&s.w, "id", id);
	fm_jw_text(&s.w, "event", "done");
	fm_engine_status(engine, &visitor, &s);
	fm_job_visit(engine, snapshot_job, &s);
	section_to(&s, SECTION_END);
	add_doors(&s, doors);
	fm_jw_bool(&s.w, "idle", is_idle(engine, queue));
	fm_jw_u64(&s.w, "left_out", s.left_out);
	fm_jw_object_end(&s.w);
	return fm_jw_end(&s.w);
}

static int status(const struct fm_api_call *call, struct fm_err *err)
{
	(void)err;
	fm_api_answer(call, fm_api_event_status(call->tasks->tx, FM_API_MSG_MAX, call->ask->id,
						call->tasks->engine, call->tasks->queue,
						call->tasks->doors));
	return 0;
}

const struct fm_api_op fm_api_status = { .name = "status", .answer = status };
