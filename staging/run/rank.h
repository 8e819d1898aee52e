/* SPDX-License-Identifier: MIT */
/*
 * rank - who coordinates a run: the first of this order that is there. All nodes compute it for
 * themselves, from what they have in
 * common: the names of all configured nodes, which of them can read the source, and the
 * listing's digest. Rendezvous hashing:
 * a node more or less moves only the runs that it has or had.
 */
#ifndef FM_STAGING_RUN_RANK_H
#define FM_STAGING_RUN_RANK_H

#include <stdint.h>

#define FM_RUN_DIGEST 32		/* bytes: the SHA-256 of the listing */

/*
 * rank[n]: the place of node n, 0 the first. Those of `readers` (for a source NODE:... that node
 * alone) come before all others, who can
 * still hand out what members have. count <= FM_RUN_NODES_MAX.
 */
void fm_run_rank(const uint8_t digest[FM_RUN_DIGEST], const char *const *names, unsigned count,
		 uint64_t readers, uint8_t *rank);

#endif
