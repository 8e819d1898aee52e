/* SPDX-License-Identifier: MIT */
/*
 * borrow - damaged chunks of a dataset come again from a node that has it, too.
 *
 * Happy path: the nodes of staging.peers are asked who has the dataset READY. The first that has is
 * asked to hold it, and each chunk comes as a range of a file of its hidden store (lent.h); it is
 * written if it has the CRC of the manifest of this node. What is still damaged then is asked of
 * the next one.
 *
 * Failure: of a node, which is said with its name, and the next one is asked. None has it, or what
 * they send is wrong: the chunk stays as it was. Control thread; what waits for a disk goes to the
 * worker.
 */
#ifndef FM_STAGE_BORROW_H
#define FM_STAGE_BORROW_H

struct fm_err;
struct fm_mending_opts;

/*
 * The chunks that are not mended yet. All that opts points to stays until done(), which comes
 * later. why: what was tried for those that are not mended; "": there is nobody to ask; code 0: all
 * are.
 */
int fm_borrow_start(const struct fm_mending_opts *opts,
		    void (*done)(void *ctx, const struct fm_err *why), void *ctx,
		    struct fm_err *err);

#endif
