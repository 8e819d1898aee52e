/* SPDX-License-Identifier: MIT */
/*
 * own_hub - one revision of a repository in the caller's own hub cache, served to the daemon
 * (mover/tree/channel.h): read here, with the rights of this process.
 *
 * Two channels, since the daemon lists it before it copies it. What is served is what
 * mover/store/hub.h says the revision needs, and no link that leads out of the cache is followed.
 */
#ifndef FM_CLIENT_OWN_HUB_H
#define FM_CLIENT_OWN_HUB_H

#include "mover/base/hub_name.h"

struct fm_err;
struct fm_own_hub;

#define FM_OWN_HUB_FDS 8		/* what is passed */

/*
 * hub_fd: the cache's directory, which stays the caller's. -ENOENT: it has no such repository or
 * revision. Else as fm_hub_commit() and fm_hub_view(). Waits for the file system.
 */
int fm_own_hub_new(int hub_fd, const struct fm_hub_name *name, struct fm_own_hub **out,
		   struct fm_err *err);
void fm_own_hub_free(struct fm_own_hub *o);	/* NULL is allowed */

const char *fm_own_hub_commit(const struct fm_own_hub *o);
const int *fm_own_hub_fds(const struct fm_own_hub *o);	/* FM_OWN_HUB_FDS */
/* They were passed, or could not be. ctx: of type struct fm_own_hub. */
void fm_own_hub_passed(void *ctx);

#endif
