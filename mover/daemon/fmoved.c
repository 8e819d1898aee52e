/* SPDX-License-Identifier: MIT */
/*
 * fmoved - see fmoved.h.
 *
 * Start: numbers that suit the machine, memory, loop, worker, stores, lanes, net, engine, peers,
 * queue, API, joins. Stop (SIGTERM, SIGINT): the API and joins take nothing more, the queue starts
 * nothing more, the engine aborts its jobs and says goodbye to the peers, then everything is freed
 * in the order that the headers ask for. What waits for a local caller's file after HOLDERS_NS is
 * left as it is: nothing of it is lost. A stop that takes longer than STOP_NS, or a second signal,
 * ends the process at once: no file is left half published either way.
 */
#include "mover/daemon/fmoved.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "config/address.h"
#include "config/check.h"
#include "config/daemon.h"
#include "config/files.h"
#include "config/own_dirs.h"
#include "config/value.h"
#include "mover/api/api.h"
#include "mover/base/apart.h"
#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/holder.h"
#include "mover/base/log.h"
#include "mover/base/network.h"
#include "mover/base/users.h"
#include "mover/base/worker.h"
#include "mover/daemon/admit.h"
#include "mover/daemon/here.h"
#include "mover/daemon/invites.h"
#include "mover/daemon/lanes.h"
#include "mover/daemon/limits.h"
#include "mover/daemon/parts.h"
#include "mover/daemon/peer_book.h"
#include "mover/data/registered.h"
#include "mover/node/engine.h"
#include "mover/join/join.h"
#include "mover/metrics/exporter.h"
#include "mover/queue/queue.h"
#include "mover/services/volume_store.h"
#include "mover/store/access.h"
#include "mover/store/mapped.h"
#include "mover/store/store.h"
#include "mover/transport/net.h"

/* each may wait for a disk: a few long syncs must not keep others from opening files */
#define WORKERS 16
/* of these for root and the daemon itself; the others are divided among users and peers */
#define WORKERS_ROOT 2
/* a start waits so long for the user database */
#define USERS_NS (3 * FM_NS_PER_S)
#define STOP_NS (15 * FM_NS_PER_S)
#define HOLDERS_NS (5 * FM_NS_PER_S)
#define STOP_LOOK_NS (500 * FM_NS_PER_MS)
#define LOOK_AGAIN_NS (10 * FM_NS_PER_MS)
/* for a store that is just being looked at, and answers */
#define OPENINGS_NS (500 * FM_NS_PER_MS)
#define DRAIN_PASSES_MAX 10000		/* of a loop that nobody feeds any more */
/* a lane with work under way looks for so long before it sleeps */
#define SPIN_NS 20000

_Static_assert((int)FM_CONFIG_LOG_DEBUG == (int)FM_LOG_DEBUG, "the same levels");
_Static_assert((int)FM_CONFIG_OWNER_CALLER == (int)FM_OWNER_CALLER, "the same owners");
_Static_assert(FM_CONFIG_NETWORKS_MAX <= FM_NETWORKS_MAX, "the list has a place for each");
_Static_assert(FM_CONFIG_RUNNING_MAX <= FM_QUEUE_RUNNING_MAX, "the queue has so many places");
_Static_assert(FM_CONFIG_STORES_MAX <= FM_STORES_MAX && FM_CONFIG_PEERS_MAX <= FM_PEERS_MAX,
	       "the engine takes all of them");

/* ---- starting ---- */

/*
 * Each lane's ring has the whole arena for its fixed buffers; RDMA registers what it is lent, at
 * most all of it. Of what may be locked beside these one half is for the buffers of local callers,
 * which can do without: the rest is for each connection's messages.
 */
static void check_limits(struct fm_fmoved *fmoved)
{
	const struct fm_config *cfg = fmoved->cfg;
	unsigned lanes = fmoved->tune.is.lanes;
	bool has_rdma = (cfg->mover.transports & FM_CONFIG_TRANSPORT_RDMA) &&
			access("/dev/infiniband", F_OK) == 0;
	unsigned rings = cfg->mover.io == FM_CONFIG_IO_THREADS ? 0 : lanes;
	char user[256] = "fmove";
	uint64_t left;

	(void)fm_users_name_within(geteuid(), USERS_NS, user, sizeof(user));
	left = fm_limits_memlock((rings + has_rdma) * cfg->memory.arena_bytes, user);
	fmoved->registered_bytes = fm_registered_bytes_max(left, cfg->memory.buffer_bytes);
}

static int start_lanes(struct fm_fmoved *fmoved, struct fm_err *err)
{
	struct fm_lanes_opts opts = {
		.count = fmoved->tune.is.lanes,
		.arena = &fmoved->arena,
		.is_threads_only = fmoved->cfg->mover.io == FM_CONFIG_IO_THREADS,
		.is_uring_only = fmoved->cfg->mover.io == FM_CONFIG_IO_URING,
		.spin_ns = SPIN_NS,
	};

	fm_mapped_set_lanes(opts.count);
	return fm_lanes_new(&opts, &fmoved->lanes, err);
}

void fm_fmoved_set_networks(struct fm_net *net, const struct fm_config *cfg)
{
	struct fm_networks networks = { .count = 0 };
	char *const *text = cfg->mover.private_networks;

	for (; *text && networks.count < FM_NETWORKS_MAX; text++)
		/* was checked when it was read */
		if (fm_network_parse(*text, &networks.network[networks.count]) == 0)
			networks.count++;
	fm_net_set_private(net, &networks);
}

static int start_net(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const struct fm_config *cfg = fmoved->cfg;
	struct fm_net_opts opts = {
		.listen = cfg->node.listen,
		.key_file = cfg->node.key_file,
		.is_tcp_allowed = (cfg->mover.transports & FM_CONFIG_TRANSPORT_TCP) != 0,
		.is_rdma_allowed = (cfg->mover.transports & FM_CONFIG_TRANSPORT_RDMA) != 0,
		.dscp = (uint8_t)cfg->mover.dscp,
	};

	int ret = fm_net_new(fmoved->loop, &opts, &fmoved->net, err);

	if (ret == 0)
		fm_fmoved_set_networks(fmoved->net, cfg);
	return ret;
}

static void peer_up(void *ctx, const char *peer)
{
	struct fm_fmoved *fmoved = ctx;

	if (fmoved->queue)
		fm_queue_peer_up(fmoved->queue, peer);
}

static int make_engine(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const struct fm_config *cfg = fmoved->cfg;
	const struct fm_tune *tune = &fmoved->tune;
	struct fm_engine_opts opts = {
		.node = cfg->node.name,
		.lanes = tune->is.lanes,
		.chunk_bytes = tune->is.chunk_bytes,
		.slab_bytes = tune->is.slab_bytes,
		.rdma_conns = tune->is.rdma_conns,
		.tcp_conns = tune->is.tcp_conns,
		.is_link_counted = cfg->mover.tcp_conns == 0,
		.chosen = tune->text,
		.rate_bytes = cfg->mover.rate_bytes,
		.stall_ns = cfg->mover.stall_ns,
		.registered_bytes = fmoved->registered_bytes,
		.is_unchecked = fmoved->opts.is_unchecked,
	};
	struct fm_engine_env env = {
		.clock = &fm_clock_real,
		.random = &fm_random_real,
		.loop = fmoved->loop,
		.net = fmoved->net,
		.worker = fmoved->worker,
		.arena = fmoved->arena.memory,
		.arena_len = fmoved->arena.len,
		.services = fm_parts_services(),
		.watcher = { peer_up, fmoved },
	};
	int ret;

	if (strcmp(cfg->node.state_directory, "null:") != 0) {
		ret = fm_peer_book_new(cfg->node.state_directory, fmoved->worker, fmoved->loop,
				       &fmoved->book, err);
		if (ret < 0)
			return ret;
		env.keeper = fm_peer_book_keeper(fmoved->book);
	}
	fm_net_key(fmoved->net, opts.key);
	for (unsigned i = 0; i < opts.lanes; i++) {
		env.lane_loops[i] = fm_lanes_loop(fmoved->lanes, i);
		env.lane_rings[i] = fm_lanes_ring(fmoved->lanes, i);
	}
	ret = fm_engine_new(&opts, &env, &fmoved->engine, err);
	if (ret == 0)
		fm_here_engine_made(fmoved);
	return ret;
}

static struct fm_store_opts store_opts(const struct fm_config_store *cfg)
{
	return (struct fm_store_opts){
		.name = cfg->name,
		.directory = cfg->directory,
		.read = (const char *const *)cfg->read,
		.write = (const char *const *)cfg->write,
		.is_durable = cfg->durability == FM_CONFIG_DURABLE_DISK,
		.may_replace = cfg->may_replace,
		.is_buffered = cfg->is_buffered,
		.quota_bytes = cfg->quota_bytes,
		.partial_keep_ns = cfg->partial_keep_ns,
		.group_keep_ns = cfg->group_keep_ns,
		.group_limit = cfg->group_limit,
		.old_keep_ns = cfg->old_keep_ns,
		.owner = (enum fm_store_owner)cfg->owner,
		.is_for_group = cfg->access == FM_CONFIG_ACCESS_GROUP,
		.is_hub = cfg->layout == FM_CONFIG_LAYOUT_HF,
		.shared = cfg->shared,
	};
}

static int open_store(const struct fm_config_store *cfg, const struct fm_store_opts *opts,
		      struct fm_store **out, struct fm_err *err)
{
	int ret = fm_store_open(opts, out, err);

	if (ret < 0)
		fm_err_wrap(err, "%.200s:%u: store \"%s\"", cfg->file, cfg->line, cfg->name);
	return ret;
}

int fm_fmoved_open_store(const struct fm_config_store *cfg, const struct fm_volume_store *volume,
			 struct fm_store **out, struct fm_err *err)
{
	struct fm_store_opts opts = store_opts(cfg);

	if (volume) {
		opts.shared = volume->shared;
		opts.is_sealed = volume->shared[0];
		opts.written_by = volume->written_by;
	}
	return open_store(cfg, &opts, out, err);
}

int fm_fmoved_check_apart(const struct fm_config *cfg, const struct fm_config *started,
			  const struct fm_config_store *of, const struct fm_store *store,
			  struct fm_err *err)
{
	int ret = fm_own_dirs_check(cfg, of, &store->way, err);
	struct fm_err used;

	if (ret < 0 || started == cfg)
		return ret;
	ret = fm_own_dirs_check(started, of, &store->way, &used);
	if (ret == -EPERM)
		return fm_err_set(err, ret, "%s; that one is in use until fmoved is restarted",
				  used.text);
	if (ret < 0)
		*err = used;
	return ret;
}

bool fm_fmoved_asks_users(const struct fm_config_store *cfg)
{
	return fm_access_names_users((const char *const *)cfg->read) ||
	       fm_access_names_users((const char *const *)cfg->write);
}

const char *fm_fmoved_or_users(bool is_of_users)
{
	return is_of_users ? ", or the user database that its rules need," : "";
}

int fm_fmoved_silent_store(const struct fm_config_store *cfg, int code, struct fm_store **out,
			   struct fm_err *err)
{
	struct fm_store_opts opts = store_opts(cfg);

	opts.is_silent = true;
	opts.silent_code = code;
	return open_store(cfg, &opts, out, err);
}

int fm_fmoved_set_peer(struct fm_engine *engine, const struct fm_config_peer *cfg,
		       const struct fm_peer_book *book, struct fm_err *err)
{
	struct fm_peer_opts peer = { .name = cfg->name };
	struct fm_endpoint more[FM_CONFIG_PEER_ADDRESSES_MAX], learned[FM_PEER_ADDRS_MAX];
	char host[FM_VALUE_HOST_MAX];

	_Static_assert(FM_CONFIG_PEER_ADDRESSES_MAX < FM_PEER_ADDRS_MAX,
		       "the first one has a place too");
	memcpy(peer.key, cfg->key, FM_KEY_LEN);
	if (cfg->address[0]) {
		if (fm_value_address(cfg->address, false, host, sizeof(host), &peer.port) < 0)
			/* was checked when it was read */
			return fm_err_set(err, -EINVAL, "%s", cfg->address);
		peer.host = host;
	}
	for (unsigned i = 0; cfg->addresses[i]; i++) {
		struct fm_endpoint *to = &more[peer.more_count++];

		if (fm_value_address(cfg->addresses[i], false, to->host, sizeof(to->host),
				     &to->port) < 0)
			/* likewise */
			return fm_err_set(err, -EINVAL, "%s", cfg->addresses[i]);
	}
	peer.more = more;
	peer.learned = learned;
	peer.learned_count = fm_peer_book_read(book, cfg->name, peer.key, learned);
	return fm_engine_set_peer(engine, &peer, err);
}

static int fill_engine(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const struct fm_config *cfg = fmoved->cfg;
	int ret;

	fm_engine_config_taken(fmoved->engine, (int64_t)time(NULL) * 1000);
	ret = fm_follow_fill(fmoved->follow, err);
	for (unsigned i = 0; ret == 0 && i < cfg->peer_count; i++)
		ret = fm_fmoved_set_peer(fmoved->engine, &cfg->peers[i], fmoved->book, err);
	return ret;
}

/* The socket's directory lives in /run, which is empty after a boot; without systemd nobody else
 * makes it. */
static int make_socket_dir(const char *socket_path, struct fm_err *err)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", socket_path);
	*strrchr(dir, '/') = '\0';
	return dir[0] ? fm_dir_make(dir, 0755, err) : 0;
}

/* A state directory that cannot be made costs the detached jobs only; the queue says so. */
static int start_queue(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const struct fm_config *cfg = fmoved->cfg;
	bool has_state = strcmp(cfg->node.state_directory, "null:") != 0;
	struct fm_err why = { 0 };
	char directory[PATH_MAX];
	struct fm_queue_config opts = {
		.needs = &fm_queue_engine,
		.loop = fmoved->loop,
		.engine = fmoved->engine,
		.worker = fmoved->worker,
		.random = &fm_random_real,
		.node = cfg->node.name,
		.running_max = cfg->jobs.running,
		.directory = has_state ? directory : NULL,
	};

	snprintf(directory, sizeof(directory), "%s/" FM_CONFIG_JOBS_DIR, cfg->node.state_directory);
	if (has_state && fm_dir_make(cfg->node.state_directory, 0700, &why) < 0) {
		fm_log_warn("node.state_directory: %s; detached jobs are refused", why.text);
		opts.directory = NULL;
	}
	return fm_queue_new(&opts, &fmoved->queue, err);
}

static int start_holders(struct fm_fmoved *fmoved, struct fm_err *err)
{
	struct fm_loop *lanes[FM_LANES_MAX];
	unsigned count = fmoved->tune.is.lanes;
	struct fm_holders_opts opts = {
		.loop = fmoved->loop,
		.others = lanes,
		.others_count = count,
		.lanes = count < FM_HOLDER_LANES_MAX ? count : FM_HOLDER_LANES_MAX,
		.spin_ns = SPIN_NS,
		.is_threads_only = fmoved->cfg->mover.io == FM_CONFIG_IO_THREADS,
	};

	for (unsigned i = 0; i < count; i++)
		lanes[i] = fm_lanes_loop(fmoved->lanes, i);
	return fm_holders_new(&opts, &fmoved->holders, err);
}

static mode_t socket_mode(const struct fm_config_node *cfg)
{
	static const mode_t modes[] = { 0600, 0660, 0666 };	/* by enum fm_config_mode */

	return modes[cfg->socket_mode];
}

/* Before the queue is made: who stages lets whoever may use the socket read, too. */
static int find_socket_group(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const char *name = fmoved->cfg->node.socket_group;

	fmoved->socket_group = (gid_t)-1;
	if (!name[0])
		return 0;
	return fm_users_find_socket_group("node.socket_group", name, USERS_NS,
					  &fmoved->socket_group, err);
}

static int start_api(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const struct fm_config_node *cfg = &fmoved->cfg->node;
	struct fm_api_opts opts = {
		.socket_path = cfg->socket,
		.mode = socket_mode(cfg),
		.gid = fmoved->socket_group,
		.queue = fmoved->queue,
		.ops = fm_parts_ops(),
		.holders = fmoved->holders,
		.node = fmoved->cfg->node.name,
		.buffer_bytes = fmoved->cfg->memory.buffer_bytes,
	};
	int ret = make_socket_dir(cfg->socket, err);

	return ret < 0 ? ret : fm_api_new(fmoved->loop, &opts, fmoved->engine, &fmoved->api, err);
}

static int start_metrics(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const char *listen = fmoved->cfg->metrics.listen;

	if (!listen[0])
		return 0;
	fmoved->measured =
		(struct fm_measured){fmoved->loop, fmoved->engine, fmoved->queue, fmoved->worker,
				     &fmoved->cfg};
	return fm_measured_serve(&fmoved->measured, listen, &fmoved->exporter, err);
}

/* Whoever waits for these sockets must not keep peers and all others waiting, too. */
static int start_sockets(struct fm_fmoved *fmoved, struct fm_err *err)
{
	const struct fm_sockets none = {.count = 0};
	int ret = fm_sockets_find(fmoved->cfg, USERS_NS, &fmoved->sockets, err);

	fmoved->awaits_users = ret == -ETIMEDOUT;
	if (fmoved->awaits_users) {
		fm_log_error("%s; they are opened when it does", err->text);
		return 0;
	}
	return ret < 0 ? ret : fm_sockets_set(fmoved->api, &none, &fmoved->sockets, err);
}

/* Where we listen at each of our addresses, as a new peer is told; 0: at one of them alone. */
static uint16_t port_everywhere(const struct fm_fmoved *fmoved)
{
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	if (fm_value_address(fmoved->started->node.listen, true, host, sizeof(host), &port) < 0)
		return 0;
	return fm_address_is_any(host) ? fm_net_port(fmoved->net) : 0;
}

static int start_join(struct fm_fmoved *fmoved, struct fm_err *err)
{
	struct fm_join_opts opts = {
		.loop = fmoved->loop,
		.worker = fmoved->worker,
		.net = fmoved->net,
		.engine = fmoved->engine,
		.node = fmoved->cfg->node.name,
		.address = fmoved->cfg->node.address,
		.port = port_everywhere(fmoved),
		.find = fmoved->cfg->node.find,
		.admit = fm_admit,
		.retract = fm_admit_retract,
		.ctx = (void *)fmoved->opts.config_file,
	};
	int ret = fm_join_new(&opts, &fmoved->join, err);

	if (ret < 0)
		return ret;
	return fm_invites_new(&(struct fm_invites_opts){.loop = fmoved->loop,
							.worker = fmoved->worker,
							.join = fmoved->join,
							.dir = fmoved->cfg->dir},
			      &fmoved->invites, err);
}

/* ---- signals, the watchdog ---- */

/*
 * It is looked at again and again from its begin on: a look that comes late tells that this process
 * stood still itself, and what it waits for perhaps not. That time does not count.
 */
static void look_at_stop(struct fm_timer *timer)
{
	struct fm_fmoved *fmoved = fm_container_of(timer, struct fm_fmoved, deadline);
	uint64_t now_ns = fm_loop_now(fmoved->loop);

	fmoved->stop_by_ns += now_ns - timer->at_ns;
	if (now_ns >= fmoved->stop_by_ns) {
		fm_log_error("not stopped within %llu s; ending as it is",
			     (unsigned long long)(STOP_NS / FM_NS_PER_S));
		_exit(1);	/* no exit handlers: threads are still running */
	}
	fmoved->is_cut = now_ns >= fmoved->stop_by_ns - (STOP_NS - HOLDERS_NS) &&
			 fm_engine_awaits_callers(fmoved->engine);
	if (fmoved->is_cut)
		fm_loop_stop(fmoved->loop);
	else
		fm_timer_set(fmoved->loop, timer, now_ns + STOP_LOOK_NS);
}

static void engine_stopped(void *ctx)
{
	struct fm_fmoved *fmoved = ctx;

	/* it may be due in this very pass of the loop */
	fm_timer_clear(fmoved->loop, &fmoved->deadline);
	fm_loop_stop(fmoved->loop);
}

static void begin_stop(struct fm_fmoved *fmoved, const char *why)
{
	if (fmoved->is_stopping) {
		fm_log_warn("%s while it stops; ending as it is", why);
		_exit(1);
	}
	fmoved->is_stopping = true;
	fm_log_info("%s: stopping", why);
	sd_notify(0, "STOPPING=1");
	fmoved->stop_by_ns = fm_loop_now(fmoved->loop) + STOP_NS;
	fmoved->deadline.fire = look_at_stop;
	fm_timer_set(fmoved->loop, &fmoved->deadline, fm_loop_now(fmoved->loop) + STOP_LOOK_NS);
	fm_follow_stop(fmoved->follow);
	fm_api_stop(fmoved->api);
	fm_invites_stop(fmoved->invites);
	fm_join_stop(fmoved->join);
	fm_queue_stop(fmoved->queue);
	fm_engine_stop(fmoved->engine, engine_stopped, fmoved);
}

static void signals_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_fmoved *fmoved = fm_container_of(watch, struct fm_fmoved, signals);
	struct signalfd_siginfo si;

	(void)events;
	while (read(watch->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGHUP && !fmoved->is_stopping)
			fm_reload_start(fmoved->reload);
		else if (si.ssi_signo != SIGHUP)
			begin_stop(fmoved, si.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
	}
}

/* Each lane must have come round since the last time: a lane that hangs is a daemon that hangs. */
static void watchdog_fire(struct fm_timer *timer)
{
	struct fm_fmoved *fmoved = fm_container_of(timer, struct fm_fmoved, watchdog);

	if (fm_lanes_are_alive(fmoved->lanes))
		sd_notify(0, "WATCHDOG=1");
	else
		fm_log_warn("a lane does not answer; the watchdog is not told that all is well");
	fm_timer_set(fmoved->loop, timer, fm_loop_now(fmoved->loop) + fmoved->watchdog_ns);
}

static int start_watches(struct fm_fmoved *fmoved, struct fm_err *err)
{
	uint64_t watchdog_us = 0;
	int ret;

	ret = fm_daemon_watch_signals(fmoved->loop, &fmoved->signals, err);
	if (ret < 0)
		return ret;
	if (sd_watchdog_enabled(0, &watchdog_us) > 0) {
		fmoved->watchdog_ns = watchdog_us * 1000 / 2;
		fmoved->watchdog.fire = watchdog_fire;
		fm_timer_set(fmoved->loop, &fmoved->watchdog,
			     fm_loop_now(fmoved->loop) + fmoved->watchdog_ns);
	}
	return 0;
}

/* ---- the whole ---- */

static int start_all(struct fm_fmoved *fmoved, struct fm_err *err)
{
	struct fm_loop_opts loop_opts = { 0 };
	int ret;

	fm_limits_files();
	fm_tune(fmoved->cfg, &fmoved->tune);
	check_limits(fmoved);
	fm_budget_set(fmoved->cfg->memory.total_bytes - fmoved->cfg->memory.arena_bytes -
		      FM_CONFIG_OVERHEAD_BYTES);
	ret = fm_arena_map(&fmoved->cfg->memory, &fmoved->arena, err);
	if (ret == 0)
		fm_apart_forget(fmoved->arena.memory, fmoved->arena.len);
	if (ret == 0)
		ret = fm_apart_start(err);	/* before any store is opened */
	if (ret == 0)
		ret = fm_loop_new(&loop_opts, &fmoved->loop, err);
	if (ret == 0)
		ret = fm_worker_new(WORKERS, &fmoved->worker, err);
	if (ret == 0)
		fm_worker_share(fmoved->worker, WORKERS_ROOT);
	if (ret == 0)
		ret = fm_follow_new(fmoved, &fmoved->follow, err);
	if (ret == 0)
		ret = start_lanes(fmoved, err);
	if (ret == 0)
		ret = start_net(fmoved, err);
	if (ret == 0)
		ret = make_engine(fmoved, err);
	if (ret == 0)
		ret = fill_engine(fmoved, err);
	if (ret == 0)
		ret = fm_engine_start(fmoved->engine, err);
	return ret;
}

static int start_doors(struct fm_fmoved *fmoved, struct fm_err *err)
{
	int ret = fm_reload_new(fmoved, &fmoved->reload, err);

	if (ret == 0)
		fm_follow_start(fmoved->follow);
	if (ret == 0)
		ret = start_watches(fmoved, err);
	if (ret == 0)
		ret = find_socket_group(fmoved, err);
	if (ret == 0)
		ret = start_queue(fmoved, err);
	if (ret == 0)
		fm_here_queue_made(fmoved);
	if (ret == 0)
		ret = start_holders(fmoved, err);
	if (ret == 0)
		ret = start_api(fmoved, err);
	if (ret == 0)
		ret = start_sockets(fmoved, err);
	if (ret == 0)
		ret = start_metrics(fmoved, err);
	if (ret == 0)
		ret = start_join(fmoved, err);
	return ret;
}

/* The engine runs, but nobody was let in: stop it again. */
static void abandon(struct fm_fmoved *fmoved)
{
	fmoved->is_stopping = true;	/* a signal that comes meanwhile ends it */
	fm_follow_stop(fmoved->follow);
	if (fmoved->api)
		fm_api_stop(fmoved->api);
	if (fmoved->queue)
		fm_queue_stop(fmoved->queue);
	fm_engine_stop(fmoved->engine, engine_stopped, fmoved);
	fm_loop_run(fmoved->loop);
}

int fm_fmoved_start(struct fm_fmoved *fmoved, const struct fm_fmoved_opts *opts,
		    struct fm_config *cfg, struct fm_err *err)
{
	int ret;

	*fmoved = (struct fm_fmoved){
		.opts = *opts,
		.cfg = cfg,
		.started = cfg,
		.signals = {.fd = -1, .ready = signals_ready}};
	ret = start_all(fmoved, err);
	if (ret == 0) {
		ret = start_doors(fmoved, err);
		if (ret < 0)
			abandon(fmoved);
	}
	if (ret < 0) {
		fmoved->has_failed = true;
		if (fmoved->follow && fm_follow_awaits(fmoved->follow) > 0)
			fm_log_error("%s", err->text);	/* the end may be that of the process */
		fm_fmoved_end(fmoved);
		return ret;
	}
	fm_log_info("node %s: port %u, %u lane%s, %s, arena %s", cfg->node.name,
		    fm_net_port(fmoved->net), fmoved->tune.is.lanes,
		    fmoved->tune.is.lanes == 1 ? "" : "s",
		    fm_ring_kind(fm_lanes_ring(fmoved->lanes, 0)),
		    fmoved->arena.is_huge ? "in huge pages" : "in ordinary pages");
	fm_log_info("chosen: %s", fmoved->tune.text);
	if (opts->is_unchecked)
		fm_log_warn("--measure-unchecked: no checksum is computed or checked; for "
			    "measuring only");
	return 0;
}

void fm_fmoved_say_status(const struct fm_fmoved *fmoved)
{
	sd_notifyf(0, "STATUS=node %s, port %u, %u peers, %u stores", fmoved->cfg->node.name,
		   fm_net_port(fmoved->net), fmoved->cfg->peer_count, fmoved->cfg->store_count);
}

void fm_fmoved_run(struct fm_fmoved *fmoved)
{
	fm_fmoved_say_status(fmoved);
	sd_notify(0, "READY=1");
	fm_loop_run(fmoved->loop);
}

static void drain(struct fm_loop *loop)
{
	for (unsigned i = 0; i < DRAIN_PASSES_MAX && fm_loop_step(loop, 0); i++)
		;
}

/* Until all ends that the worker has; false: not within HOLDERS_NS. */
static bool await_worker(struct fm_fmoved *fmoved)
{
	uint64_t by_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + HOLDERS_NS;
	struct fm_worker_count count;

	do {
		drain(fmoved->loop);
		fm_worker_count(fmoved->worker, &count);
		if (count.running + count.waiting == 0)
			return true;
		(void)nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
	} while (fm_clock_real.now_ns(fm_clock_real.ctx) < by_ns);
	return false;
}

/* Until no store is being opened or looked at; how many are after OPENINGS_NS. */
static unsigned await_openings(struct fm_fmoved *fmoved)
{
	uint64_t by_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + OPENINGS_NS;
	unsigned n;

	if (!fmoved->follow)
		return 0;
	while ((n = fm_follow_awaits(fmoved->follow)) > 0 &&
	       fm_clock_real.now_ns(fm_clock_real.ctx) < by_ns) {
		(void)nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
		drain(fmoved->loop);
	}
	return n;
}

/*
 * Nothing ends a thread that waits for what does not answer: it opens a store, closes a file in
 * one, looks at a directory for a reload, or looks a name up. What else the worker has ends before.
 */
static void end_worker(struct fm_fmoved *fmoved)
{
	unsigned openings;
	bool is_over;

	if (!fmoved->worker)
		return;
	is_over = await_worker(fmoved);
	openings = await_openings(fmoved);
	if (!is_over || openings > 0) {
		fm_log_warn("%s does not answer: ending without it",
			    openings > 0 ? "the file system of a store, or the user database,"
					 : "the file system of a store, or of another configured "
					   "directory, or a look-up of a user or group,");
		_exit(fmoved->has_failed ? EXIT_FAILURE : EXIT_SUCCESS);	/* threads run */
	}
	fm_queue_worker_ends(fmoved->queue);
	fm_worker_free(fmoved->worker);
}

/* Of a caller's file that never answers nothing can be freed; it is all ended, or written down, by
 * now. */
static void end_without(const char *what)
{
	fm_log_warn("a local user's file does not answer: ending without %s", what);
	_exit(EXIT_SUCCESS);	/* no exit handlers: threads are still running */
}

/* Also after half a start: what was not made is NULL. */
void fm_fmoved_end(struct fm_fmoved *fmoved)
{
	if (fmoved->loop) {
		fm_follow_stop(fmoved->follow);
		fm_timer_clear(fmoved->loop, &fmoved->watchdog);
		if (fmoved->signals.is_added)
			fm_watch_del(fmoved->loop, &fmoved->signals);
		drain(fmoved->loop);
	}
	fm_exporter_stop(fmoved->exporter);
	fm_peer_book_stop(fmoved->book);
	/* What the worker still has ends now, and its done() must run while those it belongs to are
	 * there. */
	fm_engine_worker_ends(fmoved->engine);
	end_worker(fmoved);
	if (fmoved->loop)
		drain(fmoved->loop);
	if (fmoved->is_cut || !fm_holders_settle(fmoved->holders, HOLDERS_NS))
		end_without("it");
	/* What the engine has on the lanes' loops it takes away from this thread. */
	if (fmoved->lanes)
		fm_lanes_stop(fmoved->lanes);
	fm_follow_free(fmoved->follow);
	fm_exporter_free(fmoved->exporter);
	fm_reload_free(fmoved->reload);
	fm_invites_free(fmoved->invites);
	fm_join_free(fmoved->join);
	fm_api_free(fmoved->api);
	fm_queue_free(fmoved->queue);
	if (!fm_holders_stop(fmoved->holders, HOLDERS_NS))
		end_without("closing it");
	if (fmoved->loop)
		drain(fmoved->loop);
	fm_holders_free(fmoved->holders);
	fm_lanes_free(fmoved->lanes);	/* before the engine, parts of which their threads use */
	fm_engine_free(fmoved->engine);
	fm_peer_book_free(fmoved->book);
	fm_here_end(fmoved);
	fm_net_free(fmoved->net);
	fm_loop_free(fmoved->loop);
	fm_apart_stop();
	fm_arena_unmap(&fmoved->arena);
	if (fmoved->started != fmoved->cfg)
		fm_config_free(fmoved->started);
	fm_config_free(fmoved->cfg);
	if (fmoved->signals.fd >= 0)
		close(fmoved->signals.fd);
}
