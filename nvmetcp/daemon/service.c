/* SPDX-License-Identifier: MIT */
/*
 * service - see service.h.
 *
 * Start: loop, signals, helpers, state, socket, events, supervisor, metrics. The socket comes
 * before anything is done: a second daemon ends there. Stop: the supervisor starts nothing more,
 * helpers are killed, volumes stay as they are: the units take them down, and the next start finds
 * its own by its state.
 */
#include "nvmetcp/daemon/service.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "config/daemon.h"
#include "config/files.h"
#include "config/options.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/users.h"
#include "mover/metrics/loop_exporter.h"
#include "nvmetcp/daemon/api.h"
#include "nvmetcp/daemon/fmoved.h"
#include "nvmetcp/daemon/second_owner.h"
#include "nvmetcp/daemon/volumes.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/libnvme.h"
#include "nvmetcp/supervisor.h"
#include "nvmetcp/uevent.h"

/* a start waits so long for the user database */
#define USERS_NS (3 * FM_NS_PER_S)
#define METRICS_AGAIN_NS (5 * FM_NS_PER_S)
#define DRAIN_PASSES_MAX 10000		/* of a loop that nobody feeds any more */

/* ---- what happens ---- */

static void say_status(struct fm_nvmed *n)
{
	struct fm_supervisor_count count = fm_supervisor_count(n->sup);
	unsigned stuck = fm_helpers_stuck(n->helpers);
	char text[sizeof(n->status)], more[64] = "";

	if (count.refused || stuck)
		(void)snprintf(more, sizeof(more), ", %u refused, %u calls hang", count.refused,
			       stuck);
	(void)snprintf(text, sizeof(text), "%s%u of %u volumes as wanted%s",
		       count.alarms ? "ALARM: two nodes write to one volume; " : "",
		       count.as_wanted, count.volumes, more);
	if (strcmp(text, n->status) == 0)
		return;
	memcpy(n->status, text, sizeof(text));
	(void)sd_notifyf(0, "STATUS=%s", text);
}

static void supervisor_changed(void *ctx)
{
	struct fm_nvmed *n = ctx;

	fm_nvmed_api_changed(n->api);
	say_status(n);
}

static void peers_answered(void *ctx, struct fm_peers *peers)
{
	fm_supervisor_peers(((struct fm_nvmed *)ctx)->sup, peers);
}

static void kernel_changed(void *ctx)
{
	fm_supervisor_wake(((struct fm_nvmed *)ctx)->sup);
}

static void controller_connected(void *ctx, const char *controller)
{
	fm_supervisor_connected(((struct fm_nvmed *)ctx)->sup, controller);
}

static void watchdog_fire(struct fm_timer *timer)
{
	struct fm_nvmed *n = fm_container_of(timer, struct fm_nvmed, watchdog);

	(void)sd_notify(0, "WATCHDOG=1");
	fm_timer_set(n->loop, timer, fm_loop_now(n->loop) + n->watchdog_ns);
}

/* ---- the configuration ---- */

static int apply_config(struct fm_nvmed *n, const struct fm_config *cfg, struct fm_err *err)
{
	struct fm_supervisor_config config = {
		.node = cfg->node.name, .host_nqn = n->host.nqn, .host_id = n->host.id};
	struct fm_volumes volumes;
	int ret = fm_volumes_make(cfg, &volumes, err);

	if (ret < 0)
		return ret;
	config.volumes = volumes.volume;
	config.count = volumes.count;
	ret = fm_supervisor_set(n->sup, &config, err);
	fm_volumes_clear(&volumes);
	return ret;
}

static void say_restarts(const struct fm_nvmed *n, const struct fm_config *cfg)
{
	for (unsigned i = 0; i < fm_option_count; i++) {
		const struct fm_option *o = &fm_options[i];

		if (fm_option_is_in(o, "nvme") && !o->is_live &&
		    !fm_option_is_equal(o, n->cfg, cfg))
			fm_log_warn("reload: %s changed; it takes a restart", o->path);
	}
}

static int reload(struct fm_nvmed *n, struct fm_err *err)
{
	int64_t began_ms = (int64_t)time(NULL) * 1000;
	struct fm_config *cfg;
	int ret = fm_config_load_alone(n->opts.config_file, &cfg, err);

	if (ret < 0)
		return ret;
	ret = apply_config(n, cfg, err);
	if (ret < 0) {
		fm_config_free(cfg);
		return ret;
	}
	say_restarts(n, cfg);
	if (n->opts.log_level < 0)
		fm_log_set_level((enum fm_log_level)cfg->node.log_level);
	fm_config_free(n->cfg);
	n->cfg = cfg;
	fm_nvmed_api_config_taken(n->api, began_ms);
	fm_log_info("reloaded %s", n->opts.config_file);
	return 0;
}

static void reload_and_say(struct fm_nvmed *n)
{
	struct fm_err err = { 0 };
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld",
			 (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	if (reload(n, &err) < 0) {
		fm_log_error("reload: %s; nothing is changed", err.text);
		fm_nvmed_api_config_refused(n->api, err.text);
	}
	(void)sd_notify(0, "READY=1");
}

static void signals_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_nvmed *n = fm_container_of(watch, struct fm_nvmed, signals);
	struct signalfd_siginfo si;

	(void)events;
	while (read(watch->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGHUP) {
			reload_and_say(n);
			continue;
		}
		fm_log_info("%s: stopping; volumes stay as they are",
			    si.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
		(void)sd_notify(0, "STOPPING=1");
		fm_loop_stop(n->loop);
	}
}

/* ---- starting ---- */

/*
 * Opens the directory of state. Its files say which controllers may be removed and which volumes
 * are wanted up, so only root may write to it.
 */
static int open_state(const char *directory, struct fm_err *err)
{
	struct stat st;
	int ret = fm_dir_make(directory, 0700, err);

	if (ret < 0)
		return ret;
	if (stat(directory, &st) < 0)
		return fm_err_sys(err, -errno, "%s", directory);
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return fm_err_set(err, -EACCES,
				  "others than root may write to %s (user %u, mode %04o): chown "
				  "root it and chmod 700 it",
				  directory, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
	return 0;
}

static int start_world(struct fm_nvmed *n, struct fm_err *err)
{
	struct fm_helpers_opts opts = { .loop = n->loop, .run = fm_helper_main };
	struct fm_fmoved_opts asking = {.loop = n->loop,
					.socket_path = n->cfg->node.socket,
					.nvmed_socket_path = n->cfg->nvme.socket,
					.answered = peers_answered,
					.ctx = n};
	const char *directory = n->cfg->nvme.state_directory;
	bool is_wanted = strcmp(directory, "null:") != 0, has_state = is_wanted;
	char broken[512];
	int ret = fm_helpers_new(&opts, &n->helpers, err);

	if (ret == 0)
		ret = fm_fmoved_new(&asking, &n->fmoved, err);
	if (ret < 0)
		return ret;
	if (is_wanted && open_state(directory, err) < 0) {
		(void)snprintf(broken, sizeof(broken), "nvme.state_directory: %.400s", err->text);
		fm_log_error("%s; nothing is mounted until that is mended and fmove-nvmed "
			     "restarted, and what it connects is taken for others' "
			     "then",
			     broken);
		has_state = false;
	}
	fm_world_init(&n->world, n->helpers, n->fmoved, has_state ? directory : NULL,
		      is_wanted && !has_state ? broken : NULL);
	return 0;
}

/* The look-up has a thread of its own. This process forks, so only a start that fails leaves it. */
static int find_socket_group(const char *name, gid_t *gid, struct fm_err *err)
{
	return fm_users_find_socket_group("nvme.socket_group", name, USERS_NS, gid, err);
}

static int start_api(struct fm_nvmed *n, struct fm_err *err)
{
	static const mode_t modes[] = { 0600, 0660, 0666 };	/* by enum fm_config_mode */
	const struct fm_config_nvme *cfg = &n->cfg->nvme;
	struct fm_nvmed_api_opts opts = {.loop = n->loop,
					 .socket_path = cfg->socket,
					 .mode = modes[cfg->socket_mode],
					 .gid = (gid_t)-1,
					 .helpers = n->helpers,
					 .host = &n->host};
	char dir[PATH_MAX];
	int ret = cfg->socket_group[0] ? find_socket_group(cfg->socket_group, &opts.gid, err) : 0;

	if (ret < 0)
		return ret;
	/* /run is empty after a boot; without systemd nobody else makes it. */
	(void)snprintf(dir, sizeof(dir), "%s", cfg->socket);
	*strrchr(dir, '/') = '\0';
	if (dir[0])
		ret = fm_dir_make(dir, 0755, err);
	return ret < 0 ? ret : fm_nvmed_api_new(&opts, &n->api, err);
}

static int start_supervisor(struct fm_nvmed *n, struct fm_err *err)
{
	struct fm_supervisor_opts opts = {.loop = n->loop,
					  .world = &n->world.table,
					  .random = &fm_random_real,
					  .changed = supervisor_changed,
					  .ctx = n};
	const struct fm_uevent_heard heard = { kernel_changed, controller_connected, n };
	struct fm_err why = { 0 };
	int ret = fm_supervisor_new(&opts, &n->sup, err);

	if (ret < 0)
		return ret;
	fm_nvmed_api_set_supervisor(n->api, n->sup);
	fm_nvmed_api_config_taken(n->api, (int64_t)time(NULL) * 1000);
	if (fm_uevent_new(n->loop, &heard, &n->uevent, &why) < 0)
		fm_log_warn("%s; what happens is seen every 10 s only", why.text);
	return apply_config(n, n->cfg, err);
}

/*
 * Tries it until it works: its address may come later than this daemon, and a port that somebody
 * else has keeps no volume away.
 */
static void serve_metrics(struct fm_timer *timer)
{
	struct fm_nvmed *n = fm_container_of(timer, struct fm_nvmed, metrics);
	const char *listen = n->cfg->nvme.metrics_listen;
	struct fm_err err;

	if (fm_nvmed_metrics_serve(&n->measured, listen, &n->exporter, &err) == 0)
		return;
	if (!n->are_metrics_late)
		fm_log_error("%s; it is tried again every %u s", err.text,
			     (unsigned)(METRICS_AGAIN_NS / FM_NS_PER_S));
	n->are_metrics_late = true;
	fm_timer_set(n->loop, timer, fm_loop_now(n->loop) + METRICS_AGAIN_NS);
}

static void start_metrics(struct fm_nvmed *n)
{
	n->measured = (struct fm_nvmed_measured){n->loop, n->api, n->helpers, n->sup};
	n->metrics.fire = serve_metrics;
	if (n->cfg->nvme.metrics_listen[0])
		serve_metrics(&n->metrics);
}

static void start_watchdog(struct fm_nvmed *n)
{
	uint64_t watchdog_us = 0;

	if (sd_watchdog_enabled(0, &watchdog_us) <= 0)
		return;
	n->watchdog_ns = watchdog_us * 1000 / 2;
	n->watchdog.fire = watchdog_fire;
	fm_timer_set(n->loop, &n->watchdog, fm_loop_now(n->loop) + n->watchdog_ns);
}

static void say_start(const struct fm_nvmed *n)
{
	struct fm_err why = { 0 };

	fm_log_info("node %s: %u volume%s, as %s", n->cfg->node.name, n->cfg->volume_count,
		    n->cfg->volume_count == 1 ? "" : "s", n->host.nqn);
	if (fm_libnvme_check(&why) < 0)
		fm_log_warn("%s; discovery will be refused", why.text);
	if (fm_nvmed_second_owner()[0])
		fm_log_warn("%s is enabled and connects too: systemctl disable it, or leave to it "
			    "what it connects",
			    fm_nvmed_second_owner());
}

int fm_nvmed_start(struct fm_nvmed *n, const struct fm_nvmed_opts *opts, struct fm_config *cfg,
		   struct fm_err *err)
{
	struct fm_loop_opts loop_opts = { 0 };
	int ret;

	*n = (struct fm_nvmed){ .opts = *opts,
				.cfg = cfg,
				.signals = { .fd = -1, .ready = signals_ready } };
	ret = fm_host_read(&cfg->nvme, &n->host, err);
	if (ret == 0)
		ret = fm_loop_new(&loop_opts, &n->loop, err);
	if (ret == 0)
		ret = fm_daemon_watch_signals(n->loop, &n->signals, err);
	if (ret == 0)
		ret = start_world(n, err);
	if (ret == 0)
		ret = start_api(n, err);
	if (ret == 0)
		ret = start_supervisor(n, err);
	if (ret < 0) {
		fm_nvmed_end(n);
		return ret;
	}
	start_metrics(n);
	start_watchdog(n);
	say_start(n);
	return 0;
}

void fm_nvmed_run(struct fm_nvmed *n)
{
	(void)sd_notify(0, "READY=1");
	fm_loop_run(n->loop);
}

/* Also after half a start: what was not made is NULL. */
void fm_nvmed_end(struct fm_nvmed *n)
{
	fm_loop_exporter_free(n->exporter);
	if (n->sup)
		fm_supervisor_stop(n->sup);
	if (n->api)
		fm_nvmed_api_stop(n->api);
	fm_uevent_free(n->uevent);
	fm_helpers_free(n->helpers);
	if (n->fmoved)
		fm_fmoved_stop(n->fmoved);
	if (n->loop) {
		fm_timer_clear(n->loop, &n->watchdog);
		fm_timer_clear(n->loop, &n->metrics);
		if (n->signals.is_added)
			fm_watch_del(n->loop, &n->signals);
		for (unsigned i = 0; i < DRAIN_PASSES_MAX && fm_loop_step(n->loop, 0); i++)
			;
	}
	fm_nvmed_api_free(n->api);
	fm_supervisor_free(n->sup);
	fm_fmoved_free(n->fmoved);
	fm_loop_free(n->loop);
	fm_config_free(n->cfg);
	if (n->signals.fd >= 0)
		close(n->signals.fd);
}
