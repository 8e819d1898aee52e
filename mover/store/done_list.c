/* SPDX-License-Identifier: MIT */
/*
 * done_list - done() of operations that ended at once, called from a task.
 */
#include "mover/store/done_list.h"

#include <assert.h>

#include "mover/store/store.h"

/*
 * Calls done() of all that has ended. What these calls start goes to the list of the next pass, so
 * this list is taken off first.
 */
static void done_list_run(struct fm_task *task)
{
	struct fm_done_list *list = fm_container_of(task, struct fm_done_list, task);
	struct fm_list ended, *at;

	ended = list->ended;
	ended.next->prev = &ended;
	ended.prev->next = &ended;
	fm_list_init(&list->ended);
	while ((at = fm_list_pop(&ended))) {
		struct fm_io *io = fm_container_of(at, struct fm_io, link);

		io->done(io);
	}
}

void fm_done_list_init(struct fm_done_list *list, struct fm_loop *loop)
{
	*list = (struct fm_done_list){ .task.run = done_list_run, .loop = loop };
	fm_list_init(&list->ended);
}

void fm_done_list_add(struct fm_done_list *list, struct fm_io *io, int64_t res)
{
	assert(list && io->done);
	io->res = res;
	if (fm_list_is_empty(&list->ended))
		fm_loop_post(list->loop, &list->task);
	fm_list_append(&list->ended, &io->link);
}
