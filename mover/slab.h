/* SPDX-License-Identifier: MIT */
/*
 * slab - the node's one memory arena, cut into slabs that data connections lease.
 *
 * At most half the slabs send and half receive, so that two nodes that fill each other cannot both wait for the
 * other's memory. A session that has no slab of a kind yet says that it waits; who has more than one then gives one
 * back. Any thread.
 */
#ifndef FM_SLAB_H
#define FM_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_slabs;
struct fm_err;

enum fm_slab_use { FM_SLAB_TX, FM_SLAB_RX };

/* memory must outlive it. -EINVAL if there is not room for two slabs. */
int fm_slabs_new(void *memory, size_t len, uint32_t slab_bytes, struct fm_slabs **out, struct fm_err *err);

/* Every slab is back. NULL is allowed. */
void fm_slabs_free(struct fm_slabs *slabs);

/* A slab's number, or -EAGAIN: none is free for that use. */
int fm_slabs_take(struct fm_slabs *slabs, enum fm_slab_use use);
/* How many may be taken for that use now. */
unsigned fm_slabs_left(struct fm_slabs *slabs, enum fm_slab_use use);
void fm_slabs_put(struct fm_slabs *slabs, enum fm_slab_use use, int slab);

void *fm_slabs_at(const struct fm_slabs *slabs, int slab);
uint32_t fm_slabs_bytes(const struct fm_slabs *slabs);
unsigned fm_slabs_count(const struct fm_slabs *slabs);
unsigned fm_slabs_free_count(struct fm_slabs *slabs);

/* A session without any slab for that use is waiting: +1 when it begins, -1 when it ends. */
void fm_slabs_wait(struct fm_slabs *slabs, enum fm_slab_use use, int change);
bool fm_slabs_is_wanted(struct fm_slabs *slabs, enum fm_slab_use use);

#endif
