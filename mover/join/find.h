/* SPDX-License-Identifier: MIT */
/*
 * find - the answers to nodes that look for one to join (find_msg.h).
 *
 * While it is open it listens on each chosen link, looks every two seconds which there are, and
 * answers a few questions a second, each with one datagram that is not larger. It says the node's
 * name and port, which a connection to that port shows as well. It believes nothing, and what it is
 * asked changes nothing. Closed, it has no socket. Control loop only.
 */
#ifndef FM_FIND_H
#define FM_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/join/find_link.h"

struct fm_err;
struct fm_find;
struct fm_loop;
struct fm_net;

#define FM_FIND_ANSWERS_MAX 20	/* in a second */

struct fm_find_opts {
	struct fm_loop *loop;
	struct fm_net *net;		/* says which ports there are */
	enum fm_find_where where;
	const char *node;		/* our name; at most FM_JOIN_NAME_MAX bytes, not copied */
	uint16_t port;			/* where we listen at each of our addresses; 0: we do not */
};

/* Closed. */
int fm_find_new(const struct fm_find_opts *opts, struct fm_find **out, struct fm_err *err);

/* A socket that cannot be had is logged, and tried again. */
void fm_find_set(struct fm_find *find, bool is_open);

/* Closed. NULL is allowed. */
void fm_find_free(struct fm_find *find);

#endif
