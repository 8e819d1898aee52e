/* SPDX-License-Identifier: MIT */
/*
 * tree_file - one end of a tree (tree/tree.h) as a file, so that lanes read and write packs as they
 * read and write chunks.
 *
 * What a tree does may wait for a disk, so it is done by threads of its own: read() has one of them
 * fill the buffer with pack number io->offset and ends with its bytes, 0 (there are no more packs),
 * -EAGAIN (none now) or an error; write() has one apply the pack. What why() says is the text of
 * the first error.
 *
 * The buffer of a write may be memory that a peer can still write to, so nobody looks at the pack
 * there: it is copied first, into memory that each thread takes from the budget once. The CRC32C is
 * computed of the copy, and the copy is what the tree gets. A pack whose CRC32C is not *io->crc
 * ends with -EBADMSG, and no other error is that one.
 *
 * A pack that offers files is answered: the answer waits for the control thread, and the write does
 * not end before it was taken (fm_tree_file_pop_answer()), so no more of them wait than there are
 * slots.
 */
#ifndef FM_STORE_TREE_FILE_H
#define FM_STORE_TREE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/share.h"
#include "mover/tree/tree.h"

struct fm_err;
struct fm_file;
struct fm_loop;
struct fm_worker;

struct fm_tree_file_opts {
	struct fm_tree *tree;		/* taken over, also on error */
	/* 0: none, all is done on the lanes' loops (the simulator) */
	unsigned threads;
	struct fm_share_id who;		/* whose share of the memory it takes; copied */
	/* when it was closed, NULL: nobody is told; not after an error of fm_tree_file_new() */
	void (*closed)(void *ctx);
	/* An error of the tree, before anybody sees it. Any thread. NULL: as it is. */
	void (*failed)(void *ctx, struct fm_err *err);
	void *ctx;
};

/* How many threads suit this machine, while there is memory for them. */
unsigned fm_tree_file_threads(void);

int fm_tree_file_new(const struct fm_tree_file_opts *opts, struct fm_file **out,
		     struct fm_err *err);

/*
 * Control thread, before any read or write. happened(ctx) is called on that loop when there may be
 * answers to take (sink) or large files (source: tree->ops->next_large()).
 */
void fm_tree_file_listen(struct fm_file *file, struct fm_loop *control, void (*happened)(void *ctx),
			 void *ctx);

/* Worker. Source: what the far end wants; before any read. A sink's is file->ops->begin(). */
int fm_tree_file_begin(struct fm_file *file, const struct fm_tree_begin *how, struct fm_err *err);

/* For the tree's other calls that may wait: those of a caller who is stopped then wait here, and
 * for nobody else. Not for its close(). */
struct fm_worker *fm_tree_file_worker(struct fm_file *file);

/*
 * Control thread. How many reads and writes are with the tree's threads, or wait for one. *ended:
 * how many were so far: while that stays the same and there are some, the tree stands still.
 */
unsigned fm_tree_file_calls(struct fm_file *file, uint64_t *ended);

struct fm_tree_answer {
	uint64_t seq;			/* of the offering pack */
	size_t count;			/* of its entries, 1 .. FM_TREE_OFFERS_MAX */
	/* which of them are needed; those behind count are 0 */
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	uint64_t wanted_files;		/* so many ... */
	uint64_t wanted_bytes;		/* ... and their bytes */
};

/* Control thread. False: none waits. */
bool fm_tree_file_pop_answer(struct fm_file *file, struct fm_tree_answer *out);

/* Control thread. The transfer is over: calls that run end soon, answers are dropped, no more is
 * begun. */
void fm_tree_file_stop(struct fm_file *file);

#endif
