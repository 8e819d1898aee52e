/* SPDX-License-Identifier: MIT */
/*
 * connections - of one struct fmove, for all its threads: a call has one alone while it lasts.
 *
 * Happy path: enter (in the line, if all places are taken); the caller uses fd; leave. A few that
 * are not used stay open for the calls that come next.
 *
 * A place is the right of one call to have a connection. There are FMOVE_CALLS_MAX. The daemon may
 * allow fewer: whom it refuses waits at the head of the line until another call of the same handle
 * ends. Each end lets two in, one for the place that is free now, and one since the daemon may have
 * room again.
 *
 * Possible failures: the call is cancelled or its time is up while it waits; the daemon refuses
 * when no other call of the handle is under way, so that there is no end to wait for.
 */
#ifndef FM_CLIENT_CONNECTIONS_H
#define FM_CLIENT_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "client/lib/fmove.h"
#include "mover/base/list.h"

#define FM_CONNECTIONS_IDLE_MAX 4u /* that stay open for the next calls */

struct fm_connections {
	/* of the whole handle; whoever holds it does nothing that waits */
	pthread_mutex_t lock;
	struct sockaddr_un address;
	unsigned entered;     /* calls that have a place */
	struct fm_list calls; /* all calls, those in the line too */
	struct fm_list line;  /* in the order in which they get a place */
	unsigned idle_count;
	int idle[FM_CONNECTIONS_IDLE_MAX];
	uint64_t closed_ns; /* when one was closed that the daemon had let in */
	/* the one that fmove_connect() made: what the daemon says on it is the answer to it; -1 */
	int first;
};

/* In the line. */
struct fm_waiter {
	struct fm_list in_line;
	pthread_cond_t woken;
	bool is_refused; /* waits for an end, not for a place */
	bool is_let_in;
	bool is_alone; /* refused: no other call is under way any more */
};

/* Of one call. */
struct fm_connection {
	int fd; /* -1: none */
	/* connections' own: */
	struct fm_connections *of; /* NULL: of the process that this one was forked from */
	bool has_place;
	struct fm_list in_calls;
};

/* How long to wait in the line. */
struct fm_line_limits {
	uint64_t ms;	   /* UINT64_MAX: no limit */
	int cancel_fds[2]; /* -1: none. Readable: no longer */
};

enum fm_leave {
	FM_LEAVE_OPEN,	  /* the connection serves the next call */
	FM_LEAVE_CLOSED,  /* it does not */
	FM_LEAVE_REFUSED, /* the daemon has no room for the call */
};

/* address: of the daemon. */
void fm_connections_init(struct fm_connections *all, const struct sockaddr_un *address);

/* Make the first connection, before other threads know of all. Negative: *err. */
int fm_connections_first(struct fm_connections *all, struct fmove_error *err);

/* No call is under way. */
void fm_connections_close(struct fm_connections *all);

/* Close those that no call uses. */
void fm_connections_drop_idle(struct fm_connections *all);

/* After fork() in the child, which has the lock: none of them is ours. */
void fm_connections_forked(struct fm_connections *all);

/* In a child that was forked in the midst of a call another number than when the call began: the
 * call is its parent's. */
unsigned fm_forks(void);

/* A call begins, without a place; it is over, and has left. */
void fm_connection_begin(struct fm_connections *all, struct fm_connection *c);
void fm_connection_end(struct fm_connection *c);

/*
 * Get a place and a connection. is_again: it was refused before, and does not stand behind others.
 * -ECANCELED, -ETIMEDOUT.
 */
int fm_connection_enter(struct fm_connection *c, bool is_again, const struct fm_line_limits *limits,
			struct fmove_error *err);

/* Give both back, if it has them. */
void fm_connection_leave(struct fm_connection *c, enum fm_leave how);

/*
 * For a call that was refused and has left: wait until another one ends. 1: one did, and it is to
 * be tried again; 0: no other is under way; -ECANCELED, -ETIMEDOUT.
 */
int fm_connections_wait_end(struct fm_connections *all, const struct fm_line_limits *limits);

#endif
