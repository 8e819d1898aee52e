/* SPDX-License-Identifier: MIT */
/*
 * api_door - a socket where clients of the local API come in, and whose rights they have: their
 * own, as the kernel says, or those of one user, whoever they are. The latter are for containers,
 * in which the kernel says uid 0 of everybody's root. Loop thread.
 */
#ifndef FM_API_DOOR_H
#define FM_API_DOOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "mover/base/list.h"
#include "mover/base/packet_listener.h"

struct fm_api;

/* How one is to be. */
struct fm_api_socket {
	/* its directory must exist; what a dead daemon left there is replaced */
	char path[108];			/* as long as an address may be */
	mode_t mode;			/* who may connect, e.g. 0660 */
	gid_t gid;			/* owning group; (gid_t)-1: leave as it is */
	bool is_of_user;		/* clients have this one's rights: */
	uid_t user_uid;
	gid_t user_gid;
};

struct fm_api_door {
	struct fm_list link;		/* of the API's doors */
	struct fm_api *api;
	struct fm_api_socket is;
	struct fm_packet_listener listener;
};

#endif
