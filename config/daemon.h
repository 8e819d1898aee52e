/* SPDX-License-Identifier: MIT */
/*
 * daemon - what fmoved and fmove-nvmed do alike before they serve: their command line, signals, the
 * configuration.
 */
#ifndef FM_CONFIG_DAEMON_H
#define FM_CONFIG_DAEMON_H

#include <limits.h>
#include <stdbool.h>

struct fm_config;
struct fm_err;
struct fm_loop;
struct fm_watch;

enum { FM_DAEMON_EXIT_CONFIG = 2 };	/* the command line or the configuration is wrong */

struct fm_daemon_program {
	const char *name;
	const char *usage;		/* --help prints it, then help_more() if there is one */
	void (*help_more)(void);
	const char *hidden;		/* a flag that stands in no help; NULL: there is none */
	/* fm_config_load() or fm_config_load_alone() */
	int (*load)(const char *file, struct fm_config **out, struct fm_err *err);
};

struct fm_daemon_args {
	char file[PATH_MAX];		/* the configuration, absolute, perhaps a link; set by
					 * fm_daemon_load() */
	const char *config;		/* as it was said */
	int log_level;			/* -1: as the configuration says */
	bool is_check;
	bool has_hidden;
};

/* -1: go on; else the exit status, and everything is said. */
int fm_daemon_parse(const struct fm_daemon_program *program, int argc, char **argv,
		    struct fm_daemon_args *args);

/* Blocked before there is a thread, so that every thread inherits it and the loop alone hears of
 * SIGTERM, SIGINT and SIGHUP. */
void fm_daemon_block_signals(void);

/* ... through this watch, whose ready() then reads each as a struct signalfd_siginfo. */
int fm_daemon_watch_signals(struct fm_loop *loop, struct fm_watch *watch, struct fm_err *err);

/* Reads it and sets the log's level. 0: *out is to be fm_config_free()d; else the exit status, and
 * the error is logged. */
int fm_daemon_load(const struct fm_daemon_program *program, struct fm_daemon_args *args,
		   struct fm_config **out);

/* Logs the error; returns status. */
int fm_daemon_fail(const struct fm_err *err, int status);

#endif
