/* SPDX-License-Identifier: MIT */
/*
 * channel_pulse - tells a caller that is slow from one that stands still: stopped (SIGSTOP,
 * Ctrl-Z), frozen, in a debugger.
 *
 * While the daemon waits for an answer, memory of its arena waits too, which other transfers need.
 * A caller whose disk is slow is waited for; one that stands still is given up.
 *
 * The caller: a thread of its own counts a number up in the memory file every FM_CHANNEL_PULSE_MS,
 * whatever the threads that read and write the tree wait for. The daemon looks as often at that
 * number, 8 bytes at FM_CHANNEL_PULSE_AT, while it waits; one that is the same for
 * FM_CHANNEL_PULSES_MISSED looks in a row belongs to a caller that stands still, or to one that
 * does not count.
 *
 * Looks are counted, not time: a machine that was suspended, or a daemon that was stopped itself,
 * missed none of them.
 */
#ifndef FM_TREE_CHANNEL_PULSE_H
#define FM_TREE_CHANNEL_PULSE_H

#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>

#include "mover/tree/channel.h"

struct fm_channel_pulse;
struct fm_err;

/*
 * The caller's: count at *at from now on. *at must outlive it. The thread has the signal mask of
 * this one. -EAGAIN and others: there is no thread; -ENOMEM.
 */
int fm_channel_pulse_new(atomic_uint_fast64_t *at, struct fm_channel_pulse **out,
			 struct fm_err *err);

/* Ends the thread. NULL is allowed. */
void fm_channel_pulse_free(struct fm_channel_pulse *p);

/*
 * The daemon's: wait until socket has something to receive, or its end. -ETIMEDOUT: neither, and
 * the caller, who made the memory file, stands still. poll_fn is poll(2), or what a test has
 * instead of it.
 */
int fm_channel_pulse_wait(int socket, int memory,
			  int (*poll_fn)(struct pollfd *fds, nfds_t count, int timeout_ms));

#endif
