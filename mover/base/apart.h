/* SPDX-License-Identifier: MIT */
/*
 * apart - a process that shares all of our memory and none of our descriptors.
 *
 * For what is done to descriptors of others, on a file system that may never answer. Nothing ends a
 * thread that waits there, SIGKILL included: as long as it waits, its process keeps all that it has
 * open, and its number. So the thread belongs to another process: ours can end beside it, and lets
 * go of its sockets and locks at once.
 *
 * Everything else is as with threads of our own: memory, locks and condition variables are the
 * same, fm_loop_post() works both ways, and threads that are started there belong to that process.
 * Only descriptors are other ones there: a number means nothing on the other side, but for those
 * that both have (`keep`).
 *
 * It ends with ours (SIGKILL, when it can; what fm_apart_forget() named it gives back before), and
 * ours does with it if it does not end as it should: it may have held a lock. Under the thread
 * sanitizer, which knows no such processes, it is a thread of ours.
 *
 * None of our descriptors is copied there but those in `keep`: to close a copy of a file may take
 * as long as its file system (FUSE, NFS) does.
 */
#ifndef FM_BASE_APART_H
#define FM_BASE_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_apart;
struct fm_err;

/*
 * Before the first of them, and before anything is opened that may never answer: from now on the
 * thread that makes them has no descriptors of ours. Not kept over fork(2).
 */
int fm_apart_start(struct fm_err *err);

/* The last of them was freed, or never will be. Not started: nothing happens. */
void fm_apart_stop(void);

/*
 * Call run(arg) there. It has standard error and the descriptors in keep, under the same numbers,
 * and no others; each of keep is there once. They stay open here until this returns, so that no
 * copy is the last, and must be such that closing a copy asks nobody: sockets, of loops. The
 * threads of it take no signals. Any thread; one at a time.
 */
int fm_apart_new(void (*run)(void *arg), void *arg, const int *keep, unsigned count,
		 struct fm_apart **out, struct fm_err *err);

/*
 * Before the first: memory that all have, and none keeps. A thread that waits for ever keeps all
 * memory of its process; when ours ends, those that are left unmap this.
 */
void fm_apart_forget(void *memory, size_t len);

/* Whether it has descriptors of its own: not under the thread sanitizer. */
bool fm_apart_has_descriptors(void);

/* Whether run() has returned and nothing of it is left. */
bool fm_apart_is_over(struct fm_apart *a);

/* Wait for that. False: not within this time. */
bool fm_apart_wait(struct fm_apart *a, uint64_t max_ns);

/* It is over. NULL is allowed. */
void fm_apart_free(struct fm_apart *a);

#endif
