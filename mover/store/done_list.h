/* SPDX-License-Identifier: MIT */
/*
 * done_list - done() of operations that ended at once, called from a task. struct fm_done_list is
 * in store.h, since lanes embed it.
 */
#ifndef FM_STORE_DONE_LIST_H
#define FM_STORE_DONE_LIST_H

#include <stdint.h>

struct fm_done_list;
struct fm_io;

/*
 * io ended with res (bytes or a negative errno); io->done() comes in a later pass. On the thread of
 * the list's loop.
 */
void fm_done_list_add(struct fm_done_list *list, struct fm_io *io, int64_t res);

#endif
