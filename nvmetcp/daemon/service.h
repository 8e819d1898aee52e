/* SPDX-License-Identifier: MIT */
/* service - the running fmove-nvmed: what main.c made of the configuration, in the order in which
 * it is made and unmade. */
#ifndef FM_NVMETCP_DAEMON_SERVICE_H
#define FM_NVMETCP_DAEMON_SERVICE_H

#include <stdbool.h>

#include "config/config.h"
#include "mover/base/loop.h"
#include "nvmetcp/daemon/host.h"
#include "nvmetcp/daemon/metrics.h"
#include "nvmetcp/daemon/world.h"

struct fm_err;
struct fm_fmoved;
struct fm_helpers;
struct fm_loop_exporter;
struct fm_nvmed_api;
struct fm_supervisor;
struct fm_uevent;

struct fm_nvmed_opts {
	const char *config_file;	/* absolute: it may be read again */
	int log_level;			/* -1: as the configuration says */
};

struct fm_nvmed {
	struct fm_nvmed_opts opts;
	struct fm_config *cfg;
	struct fm_host host;		/* as at the start: another one takes a restart */
	struct fm_loop *loop;
	struct fm_helpers *helpers;
	struct fm_fmoved *fmoved;
	struct fm_world world;
	struct fm_uevent *uevent;	/* NULL: there is none, the audit does */
	struct fm_nvmed_api *api;
	struct fm_supervisor *sup;
	struct fm_nvmed_measured measured;
	struct fm_loop_exporter *exporter;	/* NULL: metrics are served nowhere */
	struct fm_watch signals;
	struct fm_timer watchdog;
	struct fm_timer metrics;	/* when they are tried again */
	bool are_metrics_late;		/* that they cannot be served was said */
	uint64_t watchdog_ns;		/* 0: nobody watches */
	char status[128];		/* as systemd was told */
};

/* Takes cfg over, also on failure. Signals must be blocked. */
int fm_nvmed_start(struct fm_nvmed *nvmed, const struct fm_nvmed_opts *opts, struct fm_config *cfg,
		   struct fm_err *err);

/* Until SIGTERM or SIGINT. */
void fm_nvmed_run(struct fm_nvmed *nvmed);

/* Leaves what is connected and mounted as it is. */
void fm_nvmed_end(struct fm_nvmed *nvmed);

#endif
