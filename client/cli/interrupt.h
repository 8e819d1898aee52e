/* SPDX-License-Identifier: MIT */
/*
 * interrupt - Ctrl-C (and SIGTERM, SIGHUP) while the daemon is asked: the first cancels that in
 * order, the second ends the process at once.
 *
 * Signal handlers, so one per process. What the second one must not leave behind is named with
 * fm_interrupt_partial().
 */
#ifndef FM_CLIENT_INTERRUPT_H
#define FM_CLIENT_INTERRUPT_H

#include <stdbool.h>

struct fm_err;

/*
 * Signals that were ignored stay so (nohup). Once in a process: a second call makes another pipe,
 * for one that was forked and closed the first, and whoever has the first hears nothing any more.
 */
int fm_interrupt_start(struct fm_err *err);

/* From here on a signal ends the process at once, and nothing is removed. */
void fm_interrupt_stop(void);

/* Readable from the first signal on; -1: none is caught yet. */
int fm_interrupt_fd(void);

bool fm_is_interrupted(void);

/* -ECANCELED after a signal; else 0: between steps that can be undone. */
int fm_interrupt_check(struct fm_err *err);

/* As a signal would. Any thread. */
void fm_interrupt_raise(void);

/*
 * The same once so many milliseconds have gone by; 0: never. What has waited for an earlier one may
 * go on. SIGALRM is taken for it. fm_is_interrupted() tells it from a signal.
 */
void fm_interrupt_after(unsigned ms);

/*
 * A write to a pipe that nobody reads says EPIPE. What we start must not inherit
 * that: it is undone before, and done again behind that, if we are still there. The main thread.
 */
void fm_pipe_signal_ignore(void);
void fm_pipe_signal_restore(void);

/* Remove these files before ending at once; NULL or "": none. dir_fd must stay open until then. */
void fm_interrupt_partial(int dir_fd, const char *name, const char *journal_name);

#endif
