/* SPDX-License-Identifier: MIT */
/*
 * sockets - the further sockets of the local API that the configuration names, each with the rights
 * of one user (mover/api/api_door.h).
 */
#ifndef FM_DAEMON_SOCKETS_H
#define FM_DAEMON_SOCKETS_H

#include "config/config.h"
#include "mover/api/api_door.h"

#include <stdbool.h>
#include <stdint.h>

struct fm_err;

struct fm_sockets {
	unsigned count;
	struct fm_api_socket of[FM_CONFIG_SOCKETS_MAX];
};

/*
 * Who the users and groups are, and whether nobody else can change the directories, which are made.
 * -ENOENT: this machine has no such user or group; -EPERM: root, or such a directory; -ETIMEDOUT:
 * the user database has not answered within max_ns, or has not yet since an earlier call; -ENOMEM.
 * An error leaves none in *out. What it answers after that is for the next call about the same
 * sockets, within a minute. One call at a time.
 */
int fm_sockets_find(struct fm_config *cfg, uint64_t max_ns, struct fm_sockets *out,
		    struct fm_err *err);

/* Whether the user database still has not answered an earlier call. Any thread. */
bool fm_sockets_are_sought(void);

/*
 * Opens what is new and closes what is gone, with those who came in by it. Loop thread. What could
 * not be opened is dropped from `now`, and the others are opened all the same.
 */
int fm_sockets_set(struct fm_api *api, const struct fm_sockets *was, struct fm_sockets *now,
		   struct fm_err *err);

#endif
