/* SPDX-License-Identifier: MIT */
/* facts_here - the facts of this node, read for peers (mover/services/node_facts.h). */
#ifndef FM_FACTS_HERE_H
#define FM_FACTS_HERE_H

struct fm_fmoved;

/* Peers that ask are told from now on, if the configuration says so then. */
void fm_facts_here_begin(struct fm_fmoved *fmoved);

#endif
