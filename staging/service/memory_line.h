/* SPDX-License-Identifier: MIT */
/*
 * memory_line - whose extent has the next memory that becomes free (mover/base/budget.h).
 *
 * What finds no memory waits here, and is called when others have given enough back. Runs take
 * turns, and what a run asks for is served in order. Nobody overtakes the first: a large extent has
 * its turn, too. What waits holds no memory, so no two nodes wait for each other. FM_STAGE_LEFT is
 * never given.
 *
 * What goes to a peer is held until that takes it. So each has a share (mover/base/share.h) of what
 * there is: one that takes nothing has half of it at most, and one extent at least. What waits for
 * its peer's share is in nobody's way. Loop thread.
 */
#ifndef FM_STAGE_MEMORY_LINE_H
#define FM_STAGE_MEMORY_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/base/budget.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"

struct fm_engine;

struct fm_memory_line {
	struct fm_engine *engine;
	struct fm_list turns;		/* fm_memory_turn.at, of runs that wait */
	struct fm_share share;		/* of what goes to peers */
	struct fm_budget_waiter waiter;
	bool is_called;			/* the budget has the waiter, or the task is posted */
	struct fm_task task;
};

/* A run's. */
struct fm_memory_turn {
	struct fm_list at;
	struct fm_list asks;		/* fm_memory_ask.at */
};

struct fm_memory_ask {
	struct fm_list at;
	size_t bytes;
	const char *peer;		/* that they go to; good until it is over; NULL: to none */
	struct fm_share_held held;	/* of the peer's share */
	/* They were taken from the budget. Once, unless it was withdrawn. */
	void (*given)(struct fm_memory_ask *ask);
};

void fm_memory_line_init(struct fm_memory_line *line, struct fm_engine *engine);
/* When no run waits any more. false: its task has to run first, which tells the engine. */
bool fm_memory_line_stop(struct fm_memory_line *line);

void fm_memory_turn_init(struct fm_memory_turn *turn);
/* given() comes within this call if nobody waits and there is memory. */
void fm_memory_ask(struct fm_memory_line *line, struct fm_memory_turn *turn,
		   struct fm_memory_ask *ask);
/* The memory was given back, or is now: the peer may have as much more. Zeroed: does nothing. */
void fm_memory_let_go(struct fm_memory_line *line, struct fm_memory_ask *ask);
/* Of one that waits. */
void fm_memory_withdraw(struct fm_memory_line *line, struct fm_memory_turn *turn,
			struct fm_memory_ask *ask);

#endif
