/* SPDX-License-Identifier: MIT */
/*
 * interrupt - see interrupt.h. A handler may only do what is async-signal-safe: write, unlinkat,
 * _exit.
 */
#include "client/cli/interrupt.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "mover/base/err.h"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
#define SIGNAL_COUNT (sizeof(signals) / sizeof(signals[0]))

static int pipe_fds[2] = { -1, -1 };
static volatile sig_atomic_t signal_count;
static volatile sig_atomic_t has_partial;
static int partial_dir;
static char partial_name[256], partial_journal[256];

static void on_signal(int number)
{
	int errno_saved = errno;

	(void)number;
	signal_count++;
	if (signal_count > 1) {
		if (has_partial) {
			/* nobody is left to be told */
			(void)unlinkat(partial_dir, partial_name, 0);
			(void)unlinkat(partial_dir, partial_journal, 0);
		}
		fm_end_cancelled();
	}
	fm_interrupt_raise();
	errno = errno_saved;
}

int fm_interrupt_start(struct fm_err *err)
{
	/* no SA_RESTART: what waits is to end */
	struct sigaction action = { .sa_handler = on_signal };

	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return fm_err_sys(err, -errno, "make a pipe");
	for (size_t i = 0; i < SIGNAL_COUNT; i++) {
		struct sigaction before;

		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			/* these signals can be caught */
			(void)sigaction(signals[i], &action, NULL);
	}
	return 0;
}

void fm_interrupt_stop(void)
{
	const struct sigaction action = { .sa_handler = SIG_DFL };

	for (size_t i = 0; i < SIGNAL_COUNT; i++) {
		struct sigaction now;

		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == on_signal)
			(void)sigaction(signals[i], &action, NULL);	/* as above */
	}
}

int fm_interrupt_fd(void)
{
	return pipe_fds[0];
}

bool fm_is_interrupted(void)
{
	return signal_count > 0;
}

int fm_interrupt_check(struct fm_err *err)
{
	return fm_is_interrupted() ? fm_err_set(err, -ECANCELED, "cancelled") : 0;
}

void fm_interrupt_raise(void)
{
	/* a full pipe is readable, which is all that matters */
	(void)!write(pipe_fds[1], "", 1);
}

static void on_time(int number)
{
	int errno_saved = errno;

	(void)number;
	fm_interrupt_raise();
	errno = errno_saved;
}

void fm_interrupt_after(unsigned ms)
{
	const struct itimerval at = {.it_value = {.tv_sec = (time_t)(ms / 1000),
						  .tv_usec = (suseconds_t)(ms % 1000) * 1000}};
	const struct sigaction action = {.sa_handler = on_time, .sa_flags = SA_RESTART};
	sigset_t all, before;
	char byte;

	(void)sigfillset(&all);
	/* so that the byte of a signal is not taken for one of ours */
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	if (signal_count == 0)
		(void)!read(pipe_fds[0], &byte, 1);
	(void)sigaction(SIGALRM, &action, NULL);	/* it can be caught */
	(void)setitimer(ITIMER_REAL, &at, NULL);	/* so many fit */
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
}

static struct sigaction pipe_before;	/* as who started us left SIGPIPE */
static bool has_pipe_before;

void fm_pipe_signal_ignore(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	/* SIGPIPE is a signal that exists */
	(void)sigaction(SIGPIPE, &ignore, has_pipe_before ? NULL : &pipe_before);
	has_pipe_before = true;
}

void fm_pipe_signal_restore(void)
{
	if (has_pipe_before)
		(void)sigaction(SIGPIPE, &pipe_before, NULL);	/* as above */
}

void fm_interrupt_partial(int dir_fd, const char *name, const char *journal_name)
{
	sigset_t all, before;

	(void)sigfillset(&all);
	/* so that the handler sees all of it or nothing */
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	has_partial = name != NULL;
	if (name) {
		assert(strlen(name) < sizeof(partial_name));
		partial_dir = dir_fd;
		(void)snprintf(partial_name, sizeof(partial_name), "%s", name);
		(void)snprintf(partial_journal, sizeof(partial_journal), "%s",
			       journal_name ? journal_name : "");
	}
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
}
