/* SPDX-License-Identifier: MIT */
/*
 * fmove-nvmed - the supervisor of volumes: arguments, the configuration, and then until it is told to stop. Started with
 * --helper it is a helper process: see helper.h.
 *
 * Exit status: 0 stopped as asked, 1 failed, 2 the command line or the configuration is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "nvmetcp/daemon/host.h"
#include "nvmetcp/daemon/service.h"
#include "nvmetcp/helper.h"

enum { EXIT_CONFIG = 2 };

struct arguments {
	const char *config;
	int log_level;		/* -1: as the configuration says */
	bool is_check;
};

static const char usage[] =
	"Usage: fmove-nvmed [--config FILE] [--check] [--log-level LEVEL]\n"
	"Connects and mounts the NVMe-TCP volumes of the configuration, and keeps them\n"
	"so; runs in the foreground, as root. See fmove-nvmed(8).\n"
	"\n"
	"  --config FILE      the configuration (" FM_CONFIG_DIR "/" FM_CONFIG_FILE ")\n"
	"  --check            check the configuration and the names of this host, and end\n"
	"  --log-level LEVEL  error, warn, info or debug, not what the configuration says\n"
	"  --version          print the version and end\n"
	"  --help             print this and end\n"
	"\n"
	"SIGTERM and SIGINT stop it and leave volumes as they are, SIGHUP makes it read\n"
	"its configuration again.\n";

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "fmove-nvmed: %s%s; see fmove-nvmed --help\n", what, value);
	return EXIT_CONFIG;
}

enum { OPT_CONFIG = 256, OPT_CHECK, OPT_LEVEL, OPT_VERSION, OPT_HELP };

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct arguments *args)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, OPT_CONFIG },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "log-level", required_argument, NULL, OPT_LEVEL },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ "help", no_argument, NULL, OPT_HELP },
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
			printf("fmove-nvmed %s\n", FM_VERSION);
			return EXIT_SUCCESS;
		case OPT_HELP:
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return EXIT_CONFIG;	/* getopt said it */
		}
	}
	return optind < argc ? wrong("no argument is wanted: ", argv[optind]) : -1;
}

static int fail(const struct fm_err *err, int status)
{
	fm_log_error("%s", err->text);
	return status;
}

static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* Whoever started it may ignore it; then no helper's end would be heard of. */
	signal(SIGCHLD, SIG_DFL);
}

/* Else a pipe to a helper could become one of them. */
static void open_standard(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int serve(struct fm_config *cfg, const struct fm_nvmed_opts *opts)
{
	struct fm_nvmed nvmed;
	struct fm_err err = { 0 };

	if (geteuid() != 0) {
		fm_config_free(cfg);
		(void)fm_err_set(&err, -EPERM, "fmove-nvmed must be root: it connects to targets and mounts");
		return fail(&err, EXIT_FAILURE);
	}
	if (fm_nvmed_start(&nvmed, opts, cfg, &err) < 0)
		return fail(&err, EXIT_FAILURE);
	fm_nvmed_run(&nvmed);
	fm_nvmed_end(&nvmed);
	fm_log_info("stopped");
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct arguments args = { .config = FM_CONFIG_DIR "/" FM_CONFIG_FILE, .log_level = -1 };
	struct fm_nvmed_opts opts;
	struct fm_err err = { 0 };
	char file[PATH_MAX];
	struct fm_config *cfg;
	struct fm_host host;
	int ret;

	if (argc == 2 && strcmp(argv[1], "--helper") == 0)
		return fm_helper_main();
	ret = parse(argc, argv, &args);
	if (ret >= 0)
		return ret;
	fm_fault_arm_from_env();
	open_standard();
	block_signals();
	if (!realpath(args.config, file)) {
		fm_err_sys(&err, -errno, "%s", args.config);
		return fail(&err, EXIT_CONFIG);
	}
	if (fm_config_load(file, &cfg, &err) < 0)
		return fail(&err, err.code == -ENOMEM ? EXIT_FAILURE : EXIT_CONFIG);
	fm_log_set_level((enum fm_log_level)(args.log_level < 0 ? (int)cfg->node.log_level : args.log_level));
	if (args.is_check) {
		ret = fm_host_read(&cfg->nvme, &host, &err);
		fm_config_free(cfg);
		return ret < 0 ? fail(&err, EXIT_CONFIG) : EXIT_SUCCESS;
	}
	opts = (struct fm_nvmed_opts){ file, args.log_level };
	return serve(cfg, &opts);
}
