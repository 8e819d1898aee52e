/* SPDX-License-Identifier: MIT */
/*
 * arena - the one big piece of memory that transfers go through: mapped and touched at start, never
 * grown.
 *
 * Reserved huge pages if there are enough, else ordinary ones that the kernel may join. Touched at
 * start, so that a machine without the memory says so then and not in the middle of a transfer.
 */
#ifndef FM_DAEMON_ARENA_H
#define FM_DAEMON_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct fm_err;

struct fm_arena {
	void *memory;		/* NULL: none */
	size_t len;
	bool is_huge;
};

/* -ENOMEM with what to do about it. */
int fm_arena_map(const struct fm_config_memory *cfg, struct fm_arena *out, struct fm_err *err);

/* Nothing may use it any more. Twice is fine. */
void fm_arena_unmap(struct fm_arena *arena);

#endif
