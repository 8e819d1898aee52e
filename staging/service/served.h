/* SPDX-License-Identifier: MIT */
/*
 * served - a directory that a caller of this node serves (mover/tree/channel.h), for a thread of
 * ours that reads it as it reads any tree.
 *
 * The caller reads it, with his own rights; nothing of it is opened here. What he passed is in the
 * holder of his user (base/holder.h), since it may be of a file system that never answers. So each
 * call that may wait is made on a thread of that holder, into memory of ours, and waited for here
 * until it ends or fm_served_cancel(): then it is given up, and ends there whenever it does.
 *
 * Counted: the last put closes it there. One thread at a time makes calls, fm_served_cancel(), ref
 * and put apart.
 */
#ifndef FM_STAGE_SERVED_H
#define FM_STAGE_SERVED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct fm_err;
struct fm_holder;
struct fm_served;
struct fm_tree;

/*
 * On a thread of the holder. fds: the memory file and the sockets of a channel, which are there;
 * all taken over, also on error. The holder is referred to. -EINVAL: they are none.
 */
int fm_served_new(struct fm_holder *holder, const int *fds, unsigned count, struct fm_served **out,
		  struct fm_err *err);
struct fm_served *fm_served_ref(struct fm_served *s);	/* NULL is allowed, in both */
void fm_served_put(struct fm_served *s);

/* Any thread: whoever waits hears -ECANCELED, now and later. NULL is allowed. */
void fm_served_cancel(struct fm_served *s);

/* What all calls to it may wait for without end, as struct fm_work has it: one of his user's. */
const void *fm_served_may_await(const struct fm_served *s);

/* Its source, for its begin(), fill(), acked(), need() and next_large(); it stays s's. */
struct fm_tree *fm_served_tree(struct fm_served *s);

/* ---- a large file of it: fd is a number of the holder's ---- */

#define FM_SERVED_READ (1u << 20)	/* bytes of one read at most */

/*
 * Reads from `at` on; *out is good until the next call. Fewer bytes than len only at its end. A
 * negative errno.
 */
int64_t fm_served_read(struct fm_served *s, int fd, uint64_t at, size_t len, const uint8_t **out);
int fm_served_stat(struct fm_served *s, int fd, struct stat *out);
/* It is closed there, soon. */
void fm_served_drop(struct fm_served *s, int fd);

#endif
