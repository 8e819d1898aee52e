/* SPDX-License-Identifier: MIT */
/*
 * tree - to whom a node sends an extent from memory. A pure function of what the offer says, so
 * nobody has to tell the nodes below.
 *
 * Who read it is the root. Where all who want extents can read the source, each sends what it
 * read to all others (FM_RUN_TREE_DIRECT):
 * each carries the same. Where few can read it, they send it once, to one who sends it to the
 * others; who that is goes round
 * with the extents, so that each carries the same again. Nobody sends to more than
 * FM_RUN_FANOUT; those beyond are
 * spread evenly below the others. It says nothing of who is reached: who does not get it takes
 * it from a disk later.
 */
#ifndef FM_STAGING_RUN_TREE_H
#define FM_STAGING_RUN_TREE_H

#include <stdint.h>

/* A bit of a shape; the rest of it says how often the way was changed. */
#define FM_RUN_TREE_DIRECT 1U
#define FM_RUN_TREE_TURN 2U		/* one turn more */

uint64_t fm_run_tree_below(unsigned me, unsigned root, uint64_t wants, uint32_t extent,
			   uint8_t shape);

#endif
