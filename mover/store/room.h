/* SPDX-License-Identifier: MIT */
/*
 * room - whether a store has room for what is to come: on its file system, less what trees were
 * promised, and in its quota. Before anything is refused, what was promised to trees
 * that stand still is promised no more, and what was replaced and is kept aside goes, the oldest
 * first, unless all of it could not be enough. Worker threads.
 */
#ifndef FM_STORE_ROOM_H
#define FM_STORE_ROOM_H

#include <stdint.h>

struct fm_err;
struct fm_store_dir;
struct fm_store_space;

/*
 * -ENOSPC and the numbers if bytes more do not fit on the file system of fd, beside what trees were
 * promised.
 */
int fm_room_check(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err);

/*
 * As fm_space_reserve(), of a file of so many bytes. -ENOSPC also if that takes what a tree was
 * promised meanwhile.
 */
int fm_room_reserve(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err);

/* As fm_usage_ask() and fm_usage_take(). */
int fm_room_ask(struct fm_store_dir *dir, uint64_t bytes, struct fm_err *err);
int fm_room_take(struct fm_store_dir *dir, uint64_t bytes, struct fm_err *err);

/*
 * Whether a tree that is to come has room as a whole in the directory fd, beside what other trees
 * were promised: -ENOSPC, -EDQUOT with the numbers and what to do. It is promised nothing yet.
 */
int fm_room_for_tree(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err);

/*
 * How much more is promised now to who holds so much and lacks `rest`: with what he holds half of
 * what is free for him at most. Then fm_usage_keep_promise() or fm_usage_break_promise(). Who
 * keeps account: promise.h.
 */
uint64_t fm_room_promise_more(struct fm_store_dir *dir, int fd, uint64_t held, uint64_t rest);

/*
 * A file of such a tree that was not promised as a whole is made just now. -ENOSPC: others took the
 * room since the tree began.
 */
int fm_room_go_on(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err);

/*
 * A file of a tree is made just now: if the file system is all but full, what is kept aside goes.
 * Best effort: whether there is room after that, who writes it hears.
 */
void fm_room_ahead(struct fm_store_dir *dir, uint64_t bytes);

/*
 * How much may come into the directory of fd, of which nothing was promised to others and for which
 * nothing kept aside goes; UINT64_MAX also if nobody can say.
 */
uint64_t fm_room_left(struct fm_store_dir *dir, int fd);

int fm_room_look(struct fm_store_dir *dir, struct fm_store_space *out, struct fm_err *err);

#endif
