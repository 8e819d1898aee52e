/* SPDX-License-Identifier: MIT */
/*
 * system - what --system of `fmove init` and `fmove join` does beside the files of setup.h: the
 * user and group fmove, and the service. As root; by the programs of the system.
 */
#ifndef FM_CLIENT_SYSTEM_H
#define FM_CLIENT_SYSTEM_H

#include <stdbool.h>
#include <stdio.h>

struct fm_err;
struct fm_setup;

/* Zeroed: nothing was done yet. */
struct fm_system {
	bool has_made_user;
	bool has_enabled;
};

/* What will be done, a line each; what is there already is said to stay. Without setup->is_system
 * that is files only. */
void fm_system_plan(const struct fm_setup *setup, FILE *to);

/* That alone is wanted, on standard output: as lines, or as an object with "plan". */
int fm_system_print_plan(const struct fm_setup *setup, struct fm_err *err);

/* Make the user, unless there is one. -EPERM: we are not root. -ENOENT: there is no unit.
 * -ECANCELED: it failed, and there was a signal. */
int fm_system_begin(struct fm_system *sys, struct fm_err *err);

/*
 * Enable the service, and start it where systemd runs. It is to listen at "ADDRESS:PORT".
 * -EADDRINUSE, with the command that says who it is: somebody else has that port. -ECANCELED: it
 * failed, and there was a signal.
 */
int fm_system_start(struct fm_system *sys, const char *listen, struct fm_err *err);

/* Undo both. */
void fm_system_undo(const struct fm_system *sys);

/* A command line that we printed before; its output is talk, so it goes to standard error. Signals
 * are as whoever started us left them. -EIO: it failed. The main thread. */
int fm_system_run(const char *line, struct fm_err *err);

#endif
