/* SPDX-License-Identifier: MIT */
/*
 * background - --detach of what only its caller can touch: a file that is received into a directory
 * of the caller's, a directory that is read or made. The transfer runs in a process of its own,
 * with the caller's rights; the command ends as soon as the daemon has accepted the job.
 *
 * That process has a session of its own, no terminal, and holds nothing of the command's but its
 * working directory. When the daemon is restarted it goes on, if that takes less than a minute.
 * When it is killed, the job is paused, and `fmove resume` begins another one; if what was received
 * has its name by then, `fmove resume` shows it to the daemon, which looks whether it is what the
 * job was to receive.
 */
#ifndef FM_CLIENT_BACKGROUND_H
#define FM_CLIENT_BACKGROUND_H

#include <stdbool.h>

struct fm_err;
struct fm_outcome;
struct fm_part;
struct fm_transfer;
struct fmove;

/*
 * In a new process: connect, and run(t, ctx, one), which is a transfer with t->opts. Here: wait
 * until it is accepted; one->job is set then and one->is_handed_over. Else one->err is that of
 * run().
 *
 * path: of our end, as it was typed; is_target: it need not be there yet.
 */
int fm_background_run(struct fm_transfer *t, const char *path, bool is_target,
		      int (*run)(struct fm_transfer *t, void *ctx, struct fm_outcome *one),
		      void *ctx, struct fm_outcome *one);

/* Within run(): the file that a get writes. Once all of it is there it is published, and then: */
void fm_background_part(struct fm_transfer *t, struct fm_part *part);

/* Whether the part was published or could not be, and is closed. Also outside of run(): false. */
bool fm_background_is_over(const struct fm_transfer *t, bool *is_published);

/* path has its name already, perhaps from an earlier try of that job, whose process or daemon went
 * away just then: the job looks. */
int fm_background_found(struct fmove *c, const char *job, const char *path, struct fm_err *err);

#endif
