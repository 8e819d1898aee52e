/* SPDX-License-Identifier: MIT */
/*
 * holder - who has the descriptors that local callers pass: for each user a process of its own
 * (apart.h).
 *
 * A caller's descriptor may be of a file system that never answers (FUSE, a dead NFS server), at
 * whatever is done to it, closing it included. So it never is in our own table: it is received in
 * that of the holder of its user, everything is done to it there, and its number means something
 * there only. Who waits then is that user; and when we end, our own descriptors are free at once,
 * whatever the holder waits for.
 *
 * A holder has a worker, for calls that wait, and a few lanes (a loop with a ring), for reads and
 * writes. Both work on our memory. It is made when it is asked for first, and ends when nobody has
 * used it for a while.
 */
#ifndef FM_BASE_HOLDER_H
#define FM_BASE_HOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_err;
struct fm_holder;
struct fm_holders;
struct fm_loop;
struct fm_ring;
struct fm_work;
struct fm_worker;

#define FM_HOLDERS_MAX 64u		/* users at once; more have to wait, which is logged */
#define FM_HOLDERS_ROOT 2u		/* of these for root alone */
/* of one's worker: so many calls that hang are one user's limit */
#define FM_HOLDER_THREADS 8u
#define FM_HOLDER_LANES_MAX 16u
#define FM_HOLDER_LOOPS_MAX 17u		/* that are posted to from there */

struct fm_holders_opts {
	/* whose thread calls everything that is not for "any thread" */
	struct fm_loop *loop;
	struct fm_loop *const *others;		/* that are posted to from there, too; copied */
	unsigned others_count;
	unsigned lanes;				/* of each holder, 0 .. FM_HOLDER_LANES_MAX */
	uint64_t spin_ns;			/* of its lanes */
	bool is_threads_only;			/* no io_uring */
};

int fm_holders_new(const struct fm_holders_opts *opts, struct fm_holders **out, struct fm_err *err);

/* Run the loop until no work is under way there, nor what came of it. False: not within max_ns.
 * NULL is allowed. */
bool fm_holders_settle(struct fm_holders *all, uint64_t max_ns);

/*
 * Everybody who had one has let go of it, or does as the loop goes on: runs that until then, for at
 * most max_ns. False: somebody waits there for ever; nothing can be freed. NULL is allowed.
 */
bool fm_holders_stop(struct fm_holders *all, uint64_t max_ns);

/* Stopped, and the loop has run what was posted to it. NULL is allowed. */
void fm_holders_free(struct fm_holders *all);

/* The one of that user, for the caller to fm_holder_put(). NULL: not now (too many, no memory): try
 * again later. */
struct fm_holder *fm_holder_get(struct fm_holders *all, uid_t uid);

/* Any thread, both; NULL is allowed. */
struct fm_holder *fm_holder_ref(struct fm_holder *h);
void fm_holder_put(struct fm_holder *h);

/* Any thread. run() there, then done() on the loop of the holders. Who submits has a reference
 * until done(). */
void fm_holder_work(struct fm_holder *h, struct fm_work *work);

/* For who submits by himself, and to have done() elsewhere. */
struct fm_worker *fm_holder_worker(struct fm_holder *h);

/* Any thread. Close these there, soon: they are given up. Those that are negative are none. h NULL:
 * they are ours; now. */
void fm_holder_close(struct fm_holder *h, const int *fds, unsigned count);

/* ---- handing it a descriptor of ours ---- */

/* Zero-initialise but for fd; must stay until fm_holder_passed(). */
struct fm_passed {
	int fd;			/* -1 */
};

/* -EAGAIN: too many are on their way. fd stays ours, too. */
int fm_holder_pass(struct fm_holder *h, int fd, struct fm_passed *passed);

/* There, once for each that was passed: its number, for the caller to close, or a negative
 * errno. */
int fm_holder_passed(struct fm_holder *h, struct fm_passed *passed);

/* ---- its lanes ---- */

/* The loop of lane number `any` of so many as there are. NULL: it has none. */
struct fm_loop *fm_holder_loop(struct fm_holder *h, unsigned any);

/* On that loop. */
struct fm_ring *fm_holder_ring(struct fm_holder *h, unsigned any);

#endif
