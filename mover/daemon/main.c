/* SPDX-License-Identifier: MIT */
/*
 * fmoved - the daemon: arguments, the configuration, and then a node until it is told to stop.
 *
 * Exit status: 0 stopped as asked, 1 failed, 2 the command line or the configuration is wrong.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/config.h"
#include "config/daemon.h"
#include "config/options.h"
#include "config/own_dirs.h"
#include "config/preflight.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/log_file.h"
#include "mover/base/within.h"
#include "mover/daemon/faults.h"
#include "mover/daemon/fmoved.h"
#include "mover/store/access.h"
#include "mover/store/store.h"

/* glibc makes eight per core, each keeping what was freed: that would be outside of
 * memory.total. */
#define MALLOC_ARENAS 2
/* What is larger (extents, chunks) goes back to the kernel when it is freed. Unless that is said,
 * glibc keeps up to 32 MiB once one was freed. */
#define MALLOC_LARGE (8 << 20)

/* For so long a start waits for the directories that it only looks at. */
#define LOOK_NS (2 * FM_NS_PER_S)
/* ... and --check for those, and for the user database. */
#define CHECK_NS (10 * FM_NS_PER_S)

static const char usage[] =
	"Usage: fmoved [--config FILE] [--check] [--log-level LEVEL]\n"
	"The daemon of fmove; runs in the foreground. See fmoved(8).\n"
	"\n"
	"  --config FILE      the configuration (" FM_CONFIG_DIR "/" FM_CONFIG_FILE ")\n"
	"  --check            try what fmoved does with it, as its user, and end\n"
	"  --log-level LEVEL  error, warn, info or debug, whatever the configuration says\n"
	"  --version          print the version and end\n"
	"  --help             print this and end\n"
	"\n"
	"SIGTERM and SIGINT stop it, SIGHUP makes it read its configuration again.\n"
	"\n"
	"The configuration:\n";

static void print_options(void)
{
	fm_options_print_help(stdout);
}

/* --measure-unchecked is for bench/. */
static const struct fm_daemon_program program = {
	.name = "fmoved",
	.usage = usage,
	.help_more = print_options,
	.hidden = "measure-unchecked",
	.load = fm_config_load,
};

static int open_stores(const struct fm_config *cfg, struct fm_err *err)
{
	struct fm_store *store;
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < cfg->store_count; i++) {
		if (cfg->stores[i].volume[0])	/* it may not be mounted yet */
			continue;
		ret = fm_fmoved_open_store(&cfg->stores[i], NULL, &store, err);
		if (ret < 0)
			break;
		ret = fm_own_dirs_check(cfg, &cfg->stores[i], &store->way, err);
		store->ops->free(store);
	}
	return ret;
}

static void ask_users_of(const char *const *rules)
{
	struct fm_access *access;

	if (fm_access_new(rules, &access, NULL) == 0)	/* what is wrong the store says later */
		fm_access_free(access);
}

/* What fmoved would do as the user who would start it. The exit status. */
static int fly(const struct fm_config *cfg)
{
	struct fm_preflight_user user;
	struct fm_preflight *found;
	struct fm_err err = { 0 };
	unsigned faults = 0;

	if (fm_preflight_user(cfg, &user, &err) < 0 ||
	    fm_preflight_run(cfg, &user, &found, &err) < 0)
		return fm_daemon_fail(&err, FM_DAEMON_EXIT_CONFIG);
	for (unsigned i = 0; i < found->count; i++) {
		bool is_borne = found->fault[i].is_borne;

		fm_fault_say(&found->fault[i], is_borne ? FM_LOG_WARN : FM_LOG_ERROR);
		faults += !is_borne;
	}
	fm_preflight_free(found);
	for (unsigned i = 0; i < cfg->store_count; i++) {
		ask_users_of((const char *const *)cfg->stores[i].read);
		ask_users_of((const char *const *)cfg->stores[i].write);
	}
	return faults > 0 ? FM_DAEMON_EXIT_CONFIG : EXIT_SUCCESS;
}

struct flight {
	const struct fm_config *cfg;
	int status;
};

static void fly_run(void *arg)
{
	struct flight *flight = arg;

	flight->status = fly(flight->cfg);
}

/*
 * What a start would trip over and takes no port, thread or memory, and what transfers would. The
 * exit status. The user database, and file systems, may never answer. The stores are opened when
 * they did: to count what is in one may take long.
 */
static int check(const struct fm_config *cfg)
{
	static struct flight flight;	/* the thread's for good, if it does not come back */
	struct fm_err err = { 0 };
	int ret;

	flight.cfg = cfg;
	ret = fm_within(fly_run, &flight, CHECK_NS);
	if (ret == -ETIMEDOUT) {
		fm_log_error("the user database (NSS), or the file system of a configured "
			     "directory, does not answer: getent passwd and getent group show "
			     "whether it is the first");
		_exit(FM_DAEMON_EXIT_CONFIG);	/* no exit handlers: the thread is running */
	}
	if (ret < 0) {
		(void)fm_err_set(&err, ret, "no memory for the check");
		return fm_daemon_fail(&err, EXIT_FAILURE);
	}
	if (flight.status != EXIT_SUCCESS)
		return flight.status;
	return open_stores(cfg, &err) < 0 ? fm_daemon_fail(&err, FM_DAEMON_EXIT_CONFIG)
					  : EXIT_SUCCESS;
}

static int serve(struct fm_config *cfg, const struct fm_fmoved_opts *opts)
{
	struct fm_fmoved fmoved;
	struct fm_err err = { 0 };

	fm_faults_warn_within(cfg, LOOK_NS);
	if (fm_fmoved_start(&fmoved, opts, cfg, &err) < 0)
		return fm_daemon_fail(&err, EXIT_FAILURE);
	fm_fmoved_run(&fmoved);
	fm_fmoved_end(&fmoved);
	fm_log_info("stopped");
	return EXIT_SUCCESS;
}

static int serve_logging(struct fm_config *cfg, const struct fm_fmoved_opts *opts)
{
	int status;

	fm_log_file_begin();
	status = serve(cfg, opts);
	fm_log_file_end();
	return status;
}

int main(int argc, char **argv)
{
	struct fm_daemon_args args;
	struct fm_fmoved_opts opts;
	struct fm_config *cfg;
	int ret = fm_daemon_parse(&program, argc, argv, &args);

	if (ret >= 0)
		return ret;
	fm_fault_arm_from_env();
	mallopt(M_ARENA_MAX, MALLOC_ARENAS);
	mallopt(M_MMAP_THRESHOLD, MALLOC_LARGE);
	fm_daemon_block_signals();
	ret = fm_daemon_load(&program, &args, &cfg);
	if (ret != 0)
		return ret;
	if (args.is_check) {
		ret = check(cfg);
		fm_config_free(cfg);
		return ret;
	}
	opts = (struct fm_fmoved_opts){ args.file, args.log_level, args.has_hidden };
	return serve_logging(cfg, &opts);
}
