/* SPDX-License-Identifier: MIT */
/*
 * here - what the services need to know of this node: what fmove-nvmed says of its volumes, how its
 * facts are read, where datasets lie. They stop and end by their own tables (node/service.h).
 */
#ifndef FM_HERE_H
#define FM_HERE_H

#include "mover/services/node_facts.h"
#include "mover/services/volumes_file.h"

struct fm_fmoved;

struct fm_here {
	struct fm_volumes_file volumes;
	struct fm_node_facts_here facts;
};

/* There is an engine, which is not started yet: peers that ask are told from its start on. */
void fm_here_engine_made(struct fm_fmoved *fmoved);

/* There is a queue, too. */
void fm_here_queue_made(struct fm_fmoved *fmoved);

/* The engine is gone, or was never made. */
void fm_here_end(struct fm_fmoved *fmoved);

#endif
