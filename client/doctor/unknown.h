/* SPDX-License-Identifier: MIT */
/* unknown - which facts of a node are unknown and why, and what the node is called. */
#ifndef FM_DOCTOR_UNKNOWN_H
#define FM_DOCTOR_UNKNOWN_H

#include "client/doctor/finding.h"

/* Each that has a reason: name is "ports[0].rdma_mtu". */
void fm_unknown_each(const struct fm_facts *f,
		     void (*each)(void *ctx, const struct fm_facts *f, const char *name,
				  const char *why),
		     void *ctx);

/* Its name, or which of the set it is. A text that lives until the next call. */
const char *fm_node_label(const struct fm_facts_set *set, const struct fm_facts *node);

#endif
