/* SPDX-License-Identifier: MIT */
/*
 * fmove-nvmed - the supervisor of volumes: arguments, the configuration, and then until it is told
 * to stop.
 *
 * Exit status: 0 stopped as asked, 1 failed, 2 the command line or the configuration is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/config.h"
#include "config/daemon.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/log_file.h"
#include "nvmetcp/daemon/host.h"
#include "nvmetcp/daemon/service.h"

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

/*
 * This program does not read what the user of fmoved may write (peers.d); service.c does the same
 * at a reload.
 */
static const struct fm_daemon_program program = {
	.name = "fmove-nvmed", .usage = usage, .load = fm_config_load_alone};

/*
 * Opens descriptors 0, 1 and 2 if they are closed. Otherwise a pipe to a helper could become one of
 * them.
 */
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
		(void)fm_err_set(&err, -EPERM,
				 "fmove-nvmed must be root: it connects to targets and mounts");
		return fm_daemon_fail(&err, EXIT_FAILURE);
	}
	if (fm_nvmed_start(&nvmed, opts, cfg, &err) < 0)
		return fm_daemon_fail(&err, EXIT_FAILURE);
	fm_nvmed_run(&nvmed);
	fm_nvmed_end(&nvmed);
	fm_log_info("stopped");
	return EXIT_SUCCESS;
}

static int serve_logging(struct fm_config *cfg, const struct fm_nvmed_opts *opts)
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
	struct fm_nvmed_opts opts;
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	struct fm_host host;
	int ret;

	ret = fm_daemon_parse(&program, argc, argv, &args);
	if (ret >= 0)
		return ret;
	fm_fault_arm_from_env();
	open_standard();
	fm_daemon_block_signals();
	/* Whoever started it may ignore it; then no helper's end would be heard of. */
	signal(SIGCHLD, SIG_DFL);
	ret = fm_daemon_load(&program, &args, &cfg);
	if (ret != 0)
		return ret;
	if (args.is_check) {
		ret = fm_host_read(&cfg->nvme, &host, &err);
		fm_config_free(cfg);
		return ret < 0 ? fm_daemon_fail(&err, FM_DAEMON_EXIT_CONFIG) : EXIT_SUCCESS;
	}
	opts = (struct fm_nvmed_opts){ args.file, args.log_level };
	return serve_logging(cfg, &opts);
}
