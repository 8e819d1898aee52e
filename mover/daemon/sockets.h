/* SPDX-License-Identifier: MIT */
/*
 * sockets - the further sockets of the local API that the configuration names, each with the rights
 * of one user (mover/api/api_door.h).
 */
#ifndef FM_DAEMON_SOCKETS_H
#define FM_DAEMON_SOCKETS_H

#include "config/config.h"
#include "mover/api/api_door.h"

struct fm_err;

struct fm_sockets {
	unsigned count;
	struct fm_api_socket of[FM_CONFIG_SOCKETS_MAX];
};

/*
 * Who the users and groups are, and whether nobody else can change the directories. May block (user
 * databases). -ENOENT: this machine has no such user or group; -EPERM: root, or such a directory.
 */
int fm_sockets_find(const struct fm_config *cfg, struct fm_sockets *out, struct fm_err *err);

/*
 * Opens what is new and closes what is gone, with those who came in by it. Loop thread. What could
 * not be opened is dropped from `now`, and the others are opened all the same.
 */
int fm_sockets_set(struct fm_api *api, const struct fm_sockets *was, struct fm_sockets *now,
		   struct fm_err *err);

#endif
