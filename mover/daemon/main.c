/* SPDX-License-Identifier: MIT */
/*
 * fmoved - the daemon: arguments, the configuration, and then a node until it is told to stop.
 *
 * Exit status: 0 stopped as asked, 1 failed, 2 the command line or the configuration is wrong.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/config.h"
#include "config/keys.h"
#include "config/options.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/daemon/service.h"
#include "mover/store/store.h"

enum { EXIT_CONFIG = 2 };

/* glibc makes eight per core, each keeping what was freed: that would be outside of memory.total. */
#define MALLOC_ARENAS 2

struct arguments {
	const char *config;
	int log_level;		/* -1: as the configuration says */
	bool is_check;
	bool is_unchecked;
};

static const char usage[] =
	"Usage: fmoved [--config FILE] [--check] [--log-level LEVEL]\n"
	"The daemon of fmove; runs in the foreground. See fmoved(8).\n"
	"\n"
	"  --config FILE      the configuration (" FM_CONFIG_DIR "/" FM_CONFIG_FILE ")\n"
	"  --check            check the configuration, the key and the stores, and end\n"
	"  --log-level LEVEL  error, warn, info or debug, whatever the configuration says\n"
	"  --version          print the version and end\n"
	"  --help             print this and end\n"
	"\n"
	"SIGTERM and SIGINT stop it, SIGHUP makes it read its configuration again.\n"
	"\n"
	"The configuration:\n";

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "fmoved: %s%s; see fmoved --help\n", what, value);
	return EXIT_CONFIG;
}

enum { OPT_CONFIG = 256, OPT_CHECK, OPT_LEVEL, OPT_VERSION, OPT_HELP, OPT_UNCHECKED };

/* -1: go on; else the exit status. --measure-unchecked is for bench/ and stands in no help. */
static int parse(int argc, char **argv, struct arguments *args)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, OPT_CONFIG },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "log-level", required_argument, NULL, OPT_LEVEL },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ "help", no_argument, NULL, OPT_HELP },
		{ "measure-unchecked", no_argument, NULL, OPT_UNCHECKED },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case OPT_CONFIG:
			args->config = optarg;
			break;
		case OPT_CHECK:
			args->is_check = true;
			break;
		case OPT_LEVEL:
			args->log_level = fm_log_level_named(optarg);
			if (args->log_level < 0)
				return wrong("--log-level must be error, warn, info or debug, not ", optarg);
			break;
		case OPT_VERSION:
			printf("fmoved %s\n", FM_VERSION);
			return EXIT_SUCCESS;
		case OPT_HELP:
			fputs(usage, stdout);
			fm_options_print_help(stdout);
			return EXIT_SUCCESS;
		case OPT_UNCHECKED:
			args->is_unchecked = true;
			break;
		default:
			return EXIT_CONFIG;	/* getopt said it */
		}
	}
	return optind < argc ? wrong("no argument is wanted: ", argv[optind]) : -1;
}

/* Everything that a start would trip over and that takes no port, thread or memory. */
static int check(const struct fm_config *cfg, struct fm_err *err)
{
	uint8_t key[FM_CONFIG_KEY_LEN];
	struct fm_store *store;
	int ret = fm_key_read(cfg->node.key_file, key, err);

	for (unsigned i = 0; ret == 0 && i < cfg->store_count; i++) {
		ret = fm_service_open_store(&cfg->stores[i], &store, err);
		if (ret == 0)
			store->ops->free(store);
	}
	return ret;
}

static int fail(const struct fm_err *err, int status)
{
	fm_log_error("%s", err->text);
	return status;
}

/* Blocked before there is a thread, so that every thread inherits it and the loop alone hears of them. */
static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int serve(struct fm_config *cfg, const struct fm_service_opts *opts)
{
	struct fm_service service;
	struct fm_err err = { 0 };

	if (fm_service_start(&service, opts, cfg, &err) < 0)
		return fail(&err, EXIT_FAILURE);
	fm_service_run(&service);
	fm_service_end(&service);
	fm_log_info("stopped");
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct arguments args = { .config = FM_CONFIG_DIR "/" FM_CONFIG_FILE, .log_level = -1 };
	struct fm_service_opts opts;
	struct fm_err err = { 0 };
	char file[PATH_MAX];
	struct fm_config *cfg;
	int ret = parse(argc, argv, &args);

	if (ret >= 0)
		return ret;
	fm_fault_arm_from_env();
	mallopt(M_ARENA_MAX, MALLOC_ARENAS);
	block_signals();
	if (!realpath(args.config, file)) {
		fm_err_sys(&err, -errno, "%s", args.config);
		return fail(&err, EXIT_CONFIG);
	}
	if (fm_config_load(file, &cfg, &err) < 0)
		return fail(&err, err.code == -ENOMEM ? EXIT_FAILURE : EXIT_CONFIG);
	fm_log_set_level((enum fm_log_level)(args.log_level < 0 ? (int)cfg->node.log_level : args.log_level));
	if (args.is_check) {
		ret = check(cfg, &err);
		fm_config_free(cfg);
		return ret < 0 ? fail(&err, EXIT_CONFIG) : EXIT_SUCCESS;
	}
	opts = (struct fm_service_opts){ file, args.log_level, args.is_unchecked };
	return serve(cfg, &opts);
}
