/* SPDX-License-Identifier: MIT */
/* metrics - see metrics.h. */
#include "mover/daemon/metrics.h"

#include <stddef.h>
#include <string.h>

#include "config/config.h"
#include "config/value.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/words.h"
#include "mover/base/worker.h"
#include "mover/metrics/exporter.h"
#include "mover/metrics/process.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/node/rail_sum.h"
#include "mover/queue/queue.h"
#include "mover/services/transfer/transfer.h"
#include "staging/service/stager.h"

enum {
	BUILD,
	CONFIG_READ,
	CONFIG_MISTAKE,
	LANES,
	ARENA,
	SLOTS,
	SLOTS_USED,
	WORKERS,
	CALLS_RUNNING,
	CALLS_WAITING,
	STORES,
	STORE_ON_VOLUME,
	PEER_CONNECTED,
	PEER_SENT,
	PEER_RECEIVED,
	PEER_ROUND_TRIP,
	PORT_SENT,
	PORT_RECEIVED,
	RAIL_UP,
	RAIL_CONNECTIONS,
	RAIL_SPEED,
	TRANSFERS_RUNNING,
	TRANSFER_BYTES,
	TRANSFER_CHUNKS,
	TRANSFER_RESENT,
	TRANSFER_RESUMED,
	TRANSFER_CORRUPT,
	TRANSFER_DURATION,
	JOBS,
	JOBS_ENDED,
	JOB_RETRIES,
	CACHE_SIZE,
	CACHE_USED,
	CACHE_PROMISED,
	CACHE_DATASETS,
	CACHE_HOLDS,
	LEFT_OUT,
	PROCESS,
	METRICS = PROCESS + FM_PROCESS_COUNT
};

/* clang-format off */
static const struct fm_metric table[] = {
	[BUILD] = { "fmove_build_info", FM_METRIC_GAUGE,
	  "1: the version of this daemon and the name of its node are its labels." },
	[CONFIG_READ] = { "fmove_config_read_timestamp_seconds", FM_METRIC_GAUGE,
	  "When the configuration in force was read, as Unix time." },
	[CONFIG_MISTAKE] = { "fmove_config_refused", FM_METRIC_GAUGE,
	  "1: a configuration that was read later was not taken; fmove status says why." },
	[LANES] = { "fmove_lanes", FM_METRIC_GAUGE,
	  "Threads that move data." },
	[ARENA] = { "fmove_arena_bytes", FM_METRIC_GAUGE,
	  "Memory that transfers go through." },
	[SLOTS] = { "fmove_slabs", FM_METRIC_GAUGE,
	  "Slabs, the pieces of that memory that are lent to connections." },
	[SLOTS_USED] = { "fmove_slabs_used", FM_METRIC_GAUGE,
	  "Of these, those that are lent to a connection." },
	[WORKERS] = { "fmove_workers", FM_METRIC_GAUGE,
	  "Threads for calls that may wait for a disk." },
	[CALLS_RUNNING] = { "fmove_worker_calls_running", FM_METRIC_GAUGE,
	  "Such calls that a thread has." },
	[CALLS_WAITING] = { "fmove_worker_calls_waiting", FM_METRIC_GAUGE,
	  "Such calls that wait for a thread." },
	[STORES] = { "fmove_stores", FM_METRIC_GAUGE,
	  "Stores that this node serves." },
	[STORE_ON_VOLUME] = { "fmove_store_on_volume", FM_METRIC_GAUGE,
	  "1: the volume that a store is on is mounted, and the store is there." },
	[PEER_CONNECTED] = { "fmove_peer_connected", FM_METRIC_GAUGE,
	  "1: there is a session with that peer." },
	[PEER_SENT] = { "fmove_peer_sent_bytes", FM_METRIC_COUNTER,
	  "Data sent to a peer over all rails, what was sent again included." },
	[PEER_RECEIVED] = { "fmove_peer_received_bytes", FM_METRIC_COUNTER,
	  "Data received from a peer over all rails." },
	[PEER_ROUND_TRIP] = { "fmove_peer_round_trip_seconds", FM_METRIC_GAUGE,
	  "Time of a message to a peer and back, as measured last." },
	[PORT_SENT] = { "fmove_port_sent_bytes", FM_METRIC_COUNTER,
	  "Data sent to a peer through one port of this node, what was sent again included." },
	[PORT_RECEIVED] = { "fmove_port_received_bytes", FM_METRIC_COUNTER,
	  "Data received from a peer through one port of this node." },
	[RAIL_UP] = { "fmove_rail_up", FM_METRIC_GAUGE,
	  "1: a connection of that rail is up; 0: it broke in this session, and has none any "
	  "more." },
	[RAIL_CONNECTIONS] = { "fmove_rail_connections", FM_METRIC_GAUGE,
	  "Connections of a rail." },
	[RAIL_SPEED] = { "fmove_rail_speed_bytes_per_second", FM_METRIC_GAUGE,
	  "What the device of a rail can carry; left out where it does not say." },
	[TRANSFERS_RUNNING] = { "fmove_transfers_running", FM_METRIC_GAUGE,
	  "Files, directories and parts of datasets on their way, those that peers asked for "
	  "included." },
	[TRANSFER_BYTES] = { "fmove_transfer_bytes", FM_METRIC_COUNTER,
	  "Bytes of files that have arrived, holes and what was there already aside." },
	[TRANSFER_CHUNKS] = { "fmove_transfer_chunks", FM_METRIC_COUNTER,
	  "Chunks that carried them." },
	[TRANSFER_RESENT] = { "fmove_transfer_resent_bytes", FM_METRIC_COUNTER,
	  "Bytes that had to be sent again." },
	[TRANSFER_RESUMED] = { "fmove_transfer_resumed_bytes", FM_METRIC_COUNTER,
	  "Bytes that were there from an earlier try, and were not sent." },
	[TRANSFER_CORRUPT] = { "fmove_transfer_corrupt_chunks", FM_METRIC_COUNTER,
	  "Chunks that had a wrong checksum behind the wire, or when they were read back from the "
	  "disk." },
	[TRANSFER_DURATION] = { "fmove_transfer_duration_seconds", FM_METRIC_HISTOGRAM,
	  "How long transfers took that have ended: each try of a job, each part of a dataset." },
	[JOBS] = { "fmove_jobs", FM_METRIC_GAUGE,
	  "Jobs of local callers by state; of those that have ended, the ones that are kept." },
	[JOBS_ENDED] = { "fmove_jobs_ended", FM_METRIC_COUNTER,
	  "Jobs of local callers that have ended, by how." },
	[JOB_RETRIES] = { "fmove_job_retries", FM_METRIC_COUNTER,
	  "Tries of jobs behind their first." },
	[CACHE_SIZE] = { "fmove_cache_size_bytes", FM_METRIC_GAUGE,
	  "What staged datasets may take, as configured; only of a node that stages." },
	[CACHE_USED] = { "fmove_cache_used_bytes", FM_METRIC_GAUGE,
	  "What they take." },
	[CACHE_PROMISED] = { "fmove_cache_promised_bytes", FM_METRIC_GAUGE,
	  "Of that, what is still to come." },
	[CACHE_DATASETS] = { "fmove_cache_datasets", FM_METRIC_GAUGE,
	  "Staged datasets." },
	[CACHE_HOLDS] = { "fmove_cache_holds", FM_METRIC_GAUGE,
	  "Holds on them: who uses a dataset, which stays as long." },
	[LEFT_OUT] = { "fmove_metrics_left_out", FM_METRIC_GAUGE,
	  "Values that this page has no room for." },
	[PROCESS] = FM_METRICS_PROCESS_ROWS
};
/* clang-format on */

_Static_assert(sizeof(table) / sizeof(table[0]) == METRICS, "a row for each");

struct page {
	struct fm_metrics *m;
	unsigned stores;
	const char *peer;		/* whose rails are being collected; NULL: nobody's yet */
	struct fm_rail_sums rails;
	unsigned left_out;
};

/* ---- the engine's ---- */

static void add_rails(struct page *page)
{
	for (unsigned i = 0; page->peer && i < page->rails.count; i++) {
		const struct fm_rail_sum *r = &page->rails.rail[i];
		const struct fm_metrics_label labels[] = {
			{"peer", page->peer},
			{"transport", fm_words_kind[r->info.kind]},
			{"encryption", fm_words_encryption[r->info.encryption]},
			{"device", r->info.local},
			{"local", r->info.local_addr},
			{"remote", r->info.remote_addr},
			{NULL, NULL}};

		fm_metrics_add(page->m, RAIL_UP, r->conns_up > 0, labels);
		fm_metrics_add(page->m, RAIL_CONNECTIONS, r->conns_up, labels);
		if (r->info.speed_mbps > 0)
			fm_metrics_add(page->m, RAIL_SPEED, r->info.speed_mbps * 125e3, labels);
	}
	page->rails.count = 0;
}

static void see_node(void *ctx, const struct fm_node_status *n)
{
	struct fm_metrics *m = ((struct page *)ctx)->m;
	const struct fm_metrics_label labels[] = {
		{"node", n->node}, {"version", FM_VERSION}, {NULL, NULL}};

	fm_metrics_add(m, BUILD, 1, labels);
	fm_metrics_add(m, CONFIG_READ, (double)n->config_read_ms / 1000, NULL);
	fm_metrics_add(m, CONFIG_MISTAKE, n->config_mistake[0] != '\0', NULL);
	fm_metrics_add(m, LANES, n->lanes, NULL);
	fm_metrics_add(m, ARENA, (double)n->arena_bytes, NULL);
	fm_metrics_add(m, SLOTS, (double)n->slabs, NULL);
	fm_metrics_add(m, SLOTS_USED, (double)(n->slabs - n->slabs_free), NULL);
}

static void see_store(void *ctx, const struct fm_store *store)
{
	(void)store;
	((struct page *)ctx)->stores++;
}

static void add_ports(struct fm_metrics *m, const struct fm_peer_status *peer)
{
	for (unsigned i = 0; i < peer->ports.count; i++) {
		const struct fm_port_sum *p = &peer->ports.port[i];
		const struct fm_metrics_label labels[] = {{"peer", peer->name},
							  {"transport", fm_words_kind[p->kind]},
							  {"port", p->port},
							  {NULL, NULL}};

		fm_metrics_add(m, PORT_SENT, (double)p->sent, labels);
		fm_metrics_add(m, PORT_RECEIVED, (double)p->received, labels);
	}
}

static void see_peer(void *ctx, const struct fm_peer_status *peer)
{
	struct page *page = ctx;
	const struct fm_metrics_label labels[] = {{"peer", peer->name}, {NULL, NULL}};

	add_rails(page);
	page->peer = peer->name;
	fm_metrics_add(page->m, PEER_CONNECTED, peer->is_connected, labels);
	fm_metrics_add(page->m, PEER_SENT, (double)peer->bytes_sent, labels);
	fm_metrics_add(page->m, PEER_RECEIVED, (double)peer->bytes_received, labels);
	add_ports(page->m, peer);
	if (peer->round_trip_ns > 0)
		fm_metrics_add(page->m, PEER_ROUND_TRIP,
			       (double)peer->round_trip_ns / (double)FM_NS_PER_S, labels);
}

/* What does not fit is counted as every value is that does not. */
static void see_rail(void *ctx, const struct fm_rail_status *rail)
{
	struct page *page = ctx;

	page->left_out += !fm_rail_sums_add(&page->rails, rail);
}

static unsigned add_engine(struct fm_metrics *m, struct fm_engine *engine)
{
	static const struct fm_status_visitor visitor = {see_node, see_store, see_peer, see_rail};
	static struct page page;	/* loop thread only, and too large for its stack */

	page.m = m;
	page.stores = page.left_out = page.rails.count = 0;
	page.peer = NULL;
	fm_engine_status(engine, &visitor, &page);
	add_rails(&page);
	fm_metrics_add(m, STORES, page.stores, NULL);
	return page.left_out;
}

static void add_volumes(struct fm_metrics *m, struct fm_engine *engine, const struct fm_config *cfg)
{
	for (unsigned i = 0; i < cfg->store_count; i++) {
		const struct fm_config_store *store = &cfg->stores[i];
		const struct fm_metrics_label labels[] = {
			{"store", store->name}, {"volume", store->volume}, {NULL, NULL}};
		struct fm_store_ref *ref;

		if (!store->volume[0])
			continue;
		ref = fm_engine_store_get(engine, store->name, strlen(store->name));
		fm_metrics_add(m, STORE_ON_VOLUME, ref != NULL, labels);
		if (ref)
			fm_engine_store_put(ref);
	}
}

static void add_worker(struct fm_metrics *m, struct fm_worker *worker)
{
	struct fm_worker_count count;

	fm_worker_count(worker, &count);
	fm_metrics_add(m, WORKERS, count.threads, NULL);
	fm_metrics_add(m, CALLS_RUNNING, count.running, NULL);
	fm_metrics_add(m, CALLS_WAITING, count.waiting, NULL);
}

/* ---- the services' ---- */

static void add_durations(struct fm_metrics *m, const char *direction,
			  const struct fm_transfer_total *total)
{
	const struct fm_metrics_label done[] = {
		{"direction", direction}, {"result", "done"}, {NULL, NULL}};
	const struct fm_metrics_label failed[] = {
		{"direction", direction}, {"result", "failed"}, {NULL, NULL}};

	fm_metrics_add_histogram(m, TRANSFER_DURATION, &total->done, done);
	fm_metrics_add_histogram(m, TRANSFER_DURATION, &total->failed, failed);
}

static void add_transfers(struct fm_metrics *m, struct fm_engine *engine)
{
	static const char *const directions[] = {"receive", "send"};
	struct fm_transfer_totals totals;

	fm_transfer_totals(engine, &totals);
	for (unsigned i = 0; i < 2; i++) {
		const struct fm_transfer_total *t = &totals.way[i];
		const struct fm_metrics_label labels[] = {{"direction", directions[i]},
							  {NULL, NULL}};

		for (unsigned kind = 0; kind < FM_KIND_COUNT; kind++) {
			const struct fm_metrics_label of_kind[] = {
				{"direction", directions[i]},
				{"transport", fm_words_kind[kind]},
				{NULL, NULL}};

			fm_metrics_add(m, TRANSFER_BYTES, (double)t->kind_bytes[kind], of_kind);
		}
		fm_metrics_add(m, TRANSFERS_RUNNING, t->running, labels);
		fm_metrics_add(m, TRANSFER_CHUNKS, (double)t->chunks, labels);
		fm_metrics_add(m, TRANSFER_RESENT, (double)t->bytes_resent, labels);
		fm_metrics_add(m, TRANSFER_RESUMED, (double)t->bytes_resumed, labels);
		fm_metrics_add(m, TRANSFER_CORRUPT, (double)t->corrupt_chunks, labels);
		add_durations(m, directions[i], t);
	}
}

static void add_queue(struct fm_metrics *m, const struct fm_queue *queue)
{
	struct fm_queue_counts counts;

	fm_queue_counts(queue, &counts);
	for (unsigned i = 0; i < FM_QUEUE_STATE_COUNT; i++) {
		const struct fm_metrics_label labels[] = {{"state", fm_words_state[i]},
							  {NULL, NULL}};

		fm_metrics_add(m, JOBS, counts.jobs[i], labels);
		if (i >= FM_QUEUE_DONE)
			fm_metrics_add(m, JOBS_ENDED, (double)counts.ended[i], labels);
	}
	fm_metrics_add(m, JOB_RETRIES, (double)counts.retries, NULL);
}

static void add_cache(struct fm_metrics *m, const struct fm_engine *engine)
{
	struct fm_stager *stager = fm_stager_of(engine);
	struct fm_cache_sums sums;

	if (!stager)
		return;
	fm_cache_sums(fm_stager_cache(stager), &sums);
	fm_metrics_add(m, CACHE_SIZE, (double)sums.size, NULL);
	fm_metrics_add(m, CACHE_USED, (double)sums.used, NULL);
	fm_metrics_add(m, CACHE_PROMISED, (double)sums.promised, NULL);
	fm_metrics_add(m, CACHE_DATASETS, sums.datasets, NULL);
	fm_metrics_add(m, CACHE_HOLDS, sums.holds, NULL);
}

/* ---- all of them ---- */

static void collect(void *ctx, struct fm_metrics *m)
{
	const struct fm_measured *of = ctx;
	unsigned left_out = add_engine(m, of->engine);

	add_volumes(m, of->engine, *of->cfg);
	add_worker(m, of->worker);
	add_transfers(m, of->engine);
	add_queue(m, of->queue);
	add_cache(m, of->engine);
	fm_metrics_add(m, LEFT_OUT, left_out + fm_metrics_left_out(m), NULL);
}

int fm_measured_serve(const struct fm_measured *of, const char *listen,
		      struct fm_exporter **out, struct fm_err *err)
{
	char host[FM_VALUE_HOST_MAX];
	struct fm_exporter_opts opts = {.loop = of->loop,
					.at = {.host = host,
					       .path = fm_value_unix(listen),
					       .daemon = "fmoved"},
					.table = table,
					.count = METRICS,
					.process = PROCESS,
					.collect = collect,
					.ctx = (void *)of};

	if (!opts.at.path)	/* was checked when it was read */
		(void)fm_value_address(listen, false, host, sizeof(host), &opts.at.port);
	if (fm_exporter_new(&opts, out, err) < 0)
		return fm_err_wrap(err, "metrics.listen");
	fm_metrics_log(listen, opts.at.path);
	return 0;
}
