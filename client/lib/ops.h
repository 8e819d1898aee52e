/* SPDX-License-Identifier: MIT */
/*
 * ops - calls that go on beside their caller (struct fmove_op): a few threads of the handle run
 * them, one each, and more wait in a queue.
 *
 * Why threads, and no second, asynchronous form of each call: a call is several requests, reads
 * directories, tries again and calls back. A thread that sleeps in poll(2) costs little beside a
 * transfer, and what is started is the same code that blocks. So whatever a program does with a
 * handle it can start, by one function.
 *
 * A thread ends when it finds the queue empty: there are none without work. All of this is under
 * the lock of the handle.
 *
 * Possible failures: no descriptor or no thread for the first op of a handle: it is not started. A
 * fork: in the child every op that was not over is over, and failed.
 */
#ifndef FM_CLIENT_OPS_H
#define FM_CLIENT_OPS_H

#include "mover/base/list.h"

struct fmove;

struct fm_ops {
	struct fm_list all;	/* of struct fmove_op: not freed */
	struct fm_list queue;	/* of these: not begun, the oldest first */
	struct fm_list threads; /* that run, or have ended and are to be joined */
	unsigned count;		/* in `all` ... */
	unsigned running;	/* ... and of threads that run */
};

void fm_ops_init(struct fm_ops *ops);

/* Cancel all, wait for their ends, and free them. */
void fm_ops_close(struct fmove *c);

/* After fork() in the child, which has the lock. */
void fm_ops_forked(struct fmove *c);

/* Readable: the op whose call this thread runs is cancelled. -1: it runs none. */
int fm_op_cancel_fd(void);

#endif
