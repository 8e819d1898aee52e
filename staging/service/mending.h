/* SPDX-License-Identifier: MIT */
/*
 * mending - damaged chunks of a dataset come again: from its source, or what that has not, from
 * another node that has the dataset, too (borrow.h). Other nodes are not asked for what the source
 * refuses, nor for bytes of a hub, which are as sure as their hash and not as a CRC.
 *
 * A file of a store of this node, or of one that it shares with others, is read where it is. Of one
 * of another node each damaged chunk is fetched, and nothing else of it, into a file without a name
 * in the cache's directory, for which room is made, with the rights of who asks. What is not as the
 * manifest says is not taken. Control thread; what waits for a disk goes to the worker.
 */
#ifndef FM_STAGE_MENDING_H
#define FM_STAGE_MENDING_H

struct fm_err;
struct fm_mending_opts;

/* All that opts points to stays until done(), which comes later. why: of the first that could not
 * be mended, and which nodes could not help; code 0: all were. */
int fm_mending_start(const struct fm_mending_opts *opts,
		     void (*done)(void *ctx, const struct fm_err *why), void *ctx,
		     struct fm_err *err);

#endif
