/* SPDX-License-Identifier: MIT */
/*
 * offered - the listing of a source on another node, before anything of it is fetched.
 *
 * It is the receiving end of a tree (mover/tree/tree.h) in a dry run: the source offers all that it
 * has, and this end wants nothing of it and notes what it was. So a dataset has its listing digest,
 * its size and its extents before room is set aside, and a second request for it costs a walk of
 * the source, by the source's own node.
 *
 * Packs come in any order, and some twice. A file of several names is offered under the one that
 * was met first; here the first in canonical order counts, as it does in a manifest. The names are
 * held in memory, from the budget (mover/base/budget.h).
 *
 * The tree's calls: any thread. It and its maker share the listing; the last of both frees it.
 */
#ifndef FM_STAGE_OFFERED_H
#define FM_STAGE_OFFERED_H

#include "mover/tree/tree.h"
#include "staging/manifest.h"

struct fm_stage_offered;

#define FM_STAGE_OFFERED_MAX (UINT64_C(512) << 20)	/* bytes of memory for one listing */

/* bytes_max: FM_STAGE_OFFERED_MAX; a test has less. -ENOMEM. */
int fm_stage_offered_new(uint64_t bytes_max, struct fm_stage_offered **out, struct fm_err *err);

/* Its end of the tree, once; the tree's close() gives it up. */
struct fm_tree *fm_stage_offered_tree(struct fm_stage_offered *o);

/*
 * The source has said that this is all. -ESTALE: it changed while it was walked. -EPROTO: what it
 * says cannot be. -EFBIG. Takes processor time: for a worker. Once.
 */
int fm_stage_offered_end(struct fm_stage_offered *o, struct fm_stage_totals *totals,
			 struct fm_err *err);

/*
 * The same, and the draft of its manifest into fd, an empty file: names, sizes and extents, and for
 * each chunk a CRC of 0, which nobody knows yet. -1: none. If that could not be written, it may be
 * called again.
 */
int fm_stage_offered_draft(struct fm_stage_offered *o, int fd, struct fm_stage_totals *totals,
			   struct fm_err *err);

/*
 * Behind one of these: the CRC32C of the content of the file of that name, which a source offers
 * that was asked for it. False: it offered none.
 */
bool fm_stage_offered_crc(struct fm_stage_offered *o, const char *path, size_t len, uint32_t *crc);

void fm_stage_offered_free(struct fm_stage_offered *o);	/* the maker's part; NULL is allowed */

#endif
