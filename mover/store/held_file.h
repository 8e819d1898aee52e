/* SPDX-License-Identifier: MIT */
/*
 * held_file - a file whose descriptors a holder has (base/holder.h): what a lane asks of it is done
 * on a lane of the holder, on our memory, so that no lane of ours ever waits for it.
 *
 * What store.h says is for a worker is for that of the holder; `holder` of struct fm_file says
 * which.
 */
#ifndef FM_STORE_HELD_FILE_H
#define FM_STORE_HELD_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;
struct fm_file;
struct fm_holder;

/*
 * There. *file, which has just been opened there, becomes one that can be used here. On error it is
 * closed. NULL holder, or a file that is memory of ours: nothing happens.
 */
int fm_held_file_new(struct fm_holder *holder, struct fm_file **file, struct fm_err *err);

/* There. The same for one that does nothing on lanes by itself: a tree's. */
int fm_file_set_holder(struct fm_file *file, struct fm_holder *holder, struct fm_err *err);

/*
 * Any thread; one at a time for each file. next_data() of store.h, for who cannot wait: done()
 * comes from another thread.
 */
void fm_held_file_look(struct fm_file *file, uint64_t offset,
		       void (*done)(void *ctx, int ret, uint64_t from, uint64_t to), void *ctx);

/* On the worker of its holder, or of the engine if it has none: as its ops->close(). */
void fm_file_close(struct fm_file *file);

/* Any thread: the same, soon, where it belongs. First it is kept, if is_kept and it can be. */
void fm_file_give_up(struct fm_file *file, bool is_kept);

#endif
