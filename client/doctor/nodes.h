/* SPDX-License-Identifier: MIT */
/*
 * nodes - facts of this node and, through its daemon, of its peers; and of whom there are none.
 *
 * A peer's document is read as a file of a stranger's would be (mover/facts/facts.h). The name that
 * it has here counts, not the one that it says.
 */
#ifndef FM_DOCTOR_NODES_H
#define FM_DOCTOR_NODES_H

#include "client/doctor/finding.h"
#include "mover/base/err.h"

#define FM_NODES_MISSING_MAX 256u

struct fm_nodes_ask {
	const char *config;	  /* NULL: FM_COLLECT_CONFIG */
	const char *const *peers; /* these */
	size_t peer_count;
	bool is_all; /* or all of them */
};

struct fm_nodes_missing {
	char node[65];
	char why[FM_ERR_TEXT_MAX];
};

struct fm_nodes {
	struct fm_facts_set set; /* this node's are the first, then by name */
	struct fm_nodes_missing missing[FM_NODES_MISSING_MAX];
	size_t missing_count;
};

/*
 * -ENOMEM is the only error. Zero-initialise *out; free it whatever this returns. Only while this
 * process has one thread (mover/facts/given_up.h).
 */
int fm_nodes_collect(const struct fm_nodes_ask *ask, struct fm_nodes *out, struct fm_err *err);
void fm_nodes_free(struct fm_nodes *nodes);

#endif
