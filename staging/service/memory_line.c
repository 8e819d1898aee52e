/* SPDX-License-Identifier: MIT */
/* memory_line - see memory_line.h. */
#include "staging/service/memory_line.h"

#include <assert.h>

#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "staging/chunk.h"

/* Whoever gave memory back calls: any thread. */
static void freed(struct fm_budget_waiter *w)
{
	struct fm_memory_line *line = fm_container_of(w, struct fm_memory_line, waiter);

	fm_loop_post(line->engine->env.loop, &line->task);
}

/* Takes the bytes, or sees to it that the line is called. */
static bool take(struct fm_memory_line *line, size_t bytes)
{
	if (fm_budget_take_leaving(bytes, FM_STAGE_LEFT))
		return true;
	if (line->is_called)
		return false;
	line->is_called = true;
	fm_budget_await(&line->waiter);
	/* What was given back between the two would call nobody. */
	return fm_budget_take_leaving(bytes, FM_STAGE_LEFT);
}

/* The run goes to the end: the next of its asks waits until others had their turn. */
static void remove_ask(struct fm_memory_line *line, struct fm_memory_turn *turn,
		       struct fm_memory_ask *ask)
{
	fm_list_del(&ask->at);
	fm_list_del(&turn->at);
	if (!fm_list_is_empty(&turn->asks))
		fm_list_append(&line->turns, &turn->at);
}

/* Whether its peer may have it, whatever memory there is. Who has nothing may have any one. */
static bool has_share(const struct fm_memory_line *line, const struct fm_memory_ask *ask)
{
	return !ask->peer || fm_share_of(&line->share, fm_share_name(ask->peer)) == 0 ||
	       fm_share_may(&line->share, fm_share_name(ask->peer), ask->bytes);
}

static bool take_ask(struct fm_memory_line *line, struct fm_memory_ask *ask)
{
	if (!take(line, ask->bytes))
		return false;
	if (ask->peer)
		fm_share_force(&line->share, fm_share_name(ask->peer), ask->bytes, &ask->held);
	return true;
}

/* The first ask, and whose it is, that waits for memory alone; NULL: there is none. */
static struct fm_memory_ask *first(const struct fm_memory_line *line, struct fm_memory_turn **whose)
{
	fm_list_each (at, next, &line->turns) {
		*whose = fm_container_of(at, struct fm_memory_turn, at);
		fm_list_each (in, after, &(*whose)->asks) {
			struct fm_memory_ask *ask = fm_container_of(in, struct fm_memory_ask, at);

			if (has_share(line, ask))
				return ask;
		}
	}
	return NULL;
}

static void serve(struct fm_memory_line *line)
{
	struct fm_memory_turn *turn;
	struct fm_memory_ask *ask;

	while ((ask = first(line, &turn)) != NULL && take_ask(line, ask)) {
		remove_ask(line, turn, ask);
		ask->given(ask);
	}
}

static void called(struct fm_task *task)
{
	struct fm_memory_line *line = fm_container_of(task, struct fm_memory_line, task);

	line->is_called = false;
	serve(line);
	fm_engine_check_stopped(line->engine);
}

void fm_memory_line_init(struct fm_memory_line *line, struct fm_engine *engine)
{
	uint64_t most = fm_budget_most();
	const struct fm_share_limits limits = { .what = "bytes for what goes to peers",
						.total = most > FM_STAGE_LEFT ? most - FM_STAGE_LEFT
									      : 0,
						.times = 1 };

	*line = (struct fm_memory_line){ .engine = engine, .waiter.freed = freed,
					 .task.run = called };
	fm_share_init(&line->share, &limits);
	fm_list_init(&line->turns);
	fm_list_init(&line->waiter.at);
}

bool fm_memory_line_stop(struct fm_memory_line *line)
{
	assert(fm_list_is_empty(&line->turns));	/* each run withdrew */
	if (line->is_called && fm_budget_await_no_more(&line->waiter))
		line->is_called = false;
	return !line->is_called;
}

void fm_memory_turn_init(struct fm_memory_turn *turn)
{
	fm_list_init(&turn->at);
	fm_list_init(&turn->asks);
}

void fm_memory_ask(struct fm_memory_line *line, struct fm_memory_turn *turn,
		   struct fm_memory_ask *ask)
{
	struct fm_memory_turn *whose;

	if (has_share(line, ask) && !first(line, &whose) && take_ask(line, ask)) {
		fm_list_init(&ask->at);
		ask->given(ask);
		return;
	}
	if (fm_list_is_empty(&turn->asks))
		fm_list_append(&line->turns, &turn->at);
	fm_list_append(&turn->asks, &ask->at);
}

/* The loop serves it: the caller may be in the midst of a run. */
static void look_again(struct fm_memory_line *line)
{
	if (line->is_called && !fm_budget_await_no_more(&line->waiter))
		return;
	line->is_called = true;
	fm_loop_post(line->engine->env.loop, &line->task);
}

void fm_memory_let_go(struct fm_memory_line *line, struct fm_memory_ask *ask)
{
	bool had = ask->held.share != NULL;

	fm_share_give_all(&ask->held);
	if (had && !fm_list_is_empty(&line->turns))
		look_again(line);
}

/* What is behind it may fit now. */
void fm_memory_withdraw(struct fm_memory_line *line, struct fm_memory_turn *turn,
			struct fm_memory_ask *ask)
{
	remove_ask(line, turn, ask);
	look_again(line);
}
