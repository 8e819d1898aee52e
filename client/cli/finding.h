/* SPDX-License-Identifier: MIT */
/* finding - asks on this machine's links which nodes have invited somebody, for `fmove join
 * --find`. The other side is mover/join/find.h. */
#ifndef FM_CLIENT_FINDING_H
#define FM_CLIENT_FINDING_H

#include <stdbool.h>

#include "mover/join/find_link.h"
#include "mover/join/find_msg.h"

struct fm_err;

#define FM_FINDING_MAX 64	/* answers that are kept: strangers say as many as they like */

struct fm_finding_row {
	struct sockaddr_in6 from;
	struct fm_find_found said;	/* by a stranger: its name may be anything */
};

struct fm_finding {
	struct sockaddr_in6 links[FM_FIND_LINKS_MAX];
	unsigned link_count;		/* where it asked */
	unsigned count;
	struct fm_finding_row rows[FM_FINDING_MAX];
	bool are_more;			/* there was no room for all */
};

/* Takes two seconds. That nobody answers is no error. */
int fm_finding_run(enum fm_find_where where, struct fm_finding *out, struct fm_err *err);

#endif
