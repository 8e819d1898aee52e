/* SPDX-License-Identifier: MIT */
/* daemon - see daemon.h. */
#include "config/daemon.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "config/config.h"
#include "config/files.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"

enum { OPT_CONFIG = 256, OPT_CHECK, OPT_LEVEL, OPT_VERSION, OPT_HELP, OPT_HIDDEN };

static int wrong(const struct fm_daemon_program *program, const char *what, const char *value)
{
	fprintf(stderr, "%s: %s%s; see %s --help\n", program->name, what, value, program->name);
	return FM_DAEMON_EXIT_CONFIG;
}

static int help(const struct fm_daemon_program *program)
{
	fputs(program->usage, stdout);
	if (program->help_more)
		program->help_more();
	return EXIT_SUCCESS;
}

/*
 * The word that getopt_long() refused. No letter is an option: of several behind one dash the first
 * is refused, and then their word is the next one still.
 */
static const char *refused_word(char **argv)
{
	const char *before = argv[optind - 1];
	bool is_letter = optopt > 0 && optopt < OPT_CONFIG;

	if (is_letter && !(before[0] == '-' && before[1] == (char)optopt && before[2] == '\0'))
		return argv[optind];
	return before;
}

int fm_daemon_parse(const struct fm_daemon_program *program, int argc, char **argv,
		    struct fm_daemon_args *args)
{
	const struct option options[] = {
		{ "config", required_argument, NULL, OPT_CONFIG },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "log-level", required_argument, NULL, OPT_LEVEL },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ "help", no_argument, NULL, OPT_HELP },
		/* the end, if there is none */
		{ program->hidden, no_argument, NULL, OPT_HIDDEN },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	*args = (struct fm_daemon_args){.config = FM_CONFIG_DIR "/" FM_CONFIG_FILE,
					.log_level = -1};
	opterr = 0;
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
				return wrong(program,
					     "--log-level must be error, warn, info or debug, not ",
					     optarg);
			break;
		case OPT_VERSION:
			printf("%s %s\n", program->name, FM_VERSION);
			return EXIT_SUCCESS;
		case OPT_HELP:
			return help(program);
		case OPT_HIDDEN:
			args->has_hidden = true;
			break;
		default:
			return wrong(program, "not an option, or one that lacks its value: ",
				     refused_word(argv));
		}
	}
	return optind < argc ? wrong(program, "no argument is wanted: ", argv[optind]) : -1;
}

static void fill_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

void fm_daemon_block_signals(void)
{
	sigset_t set;

	fill_set(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int fm_daemon_watch_signals(struct fm_loop *loop, struct fm_watch *watch, struct fm_err *err)
{
	sigset_t set;

	fill_set(&set);
	watch->fd = FM_FAULT("daemon.signalfd") ? (errno = EMFILE, -1)
						: signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (watch->fd < 0)
		return fm_err_sys(err, -errno, "signalfd");
	watch->events = EPOLLIN;
	return fm_watch_add(loop, watch, err);
}

/*
 * Links in it are not followed here, but at each load: who leads one elsewhere and reloads means
 * the file that it leads to then. What stands beside the file is where `fmove` looks for it, too.
 */
static int make_absolute(const char *config, char out[static PATH_MAX], struct fm_err *err)
{
	char here[PATH_MAX] = "";

	if (config[0] != '/' && !getcwd(here, sizeof(here)))
		return fm_config_no_file(config, -errno, err);
	if (config[0] == '/' || strcmp(here, "/") == 0)
		here[0] = '\0';
	return fm_path_join(here, config[0] == '/' ? config + 1 : config, out, err);
}

int fm_daemon_load(const struct fm_daemon_program *program, struct fm_daemon_args *args,
		   struct fm_config **out)
{
	struct fm_err err = { 0 };

	if (make_absolute(args->config, args->file, &err) < 0)
		return fm_daemon_fail(&err, FM_DAEMON_EXIT_CONFIG);
	if (program->load(args->file, out, &err) < 0)
		return fm_daemon_fail(&err,
				      err.code == -ENOMEM ? EXIT_FAILURE : FM_DAEMON_EXIT_CONFIG);
	fm_log_set_level((enum fm_log_level)(args->log_level < 0 ? (int)(*out)->node.log_level
								 : args->log_level));
	return 0;
}

int fm_daemon_fail(const struct fm_err *err, int status)
{
	fm_log_error("%s", err->text);
	return status;
}
