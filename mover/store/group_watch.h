/* SPDX-License-Identifier: MIT */
/*
 * group_watch - whether writing to the file system of an open group (group.h) has failed since the
 * group was begun.
 *
 * The kernel tells each open file once of an error that came since it was opened, and takes what
 * could not be written for clean from then on. A descriptor that is opened for the sync of a commit
 * hears nothing of an error that somebody was told of before: another commit, a transfer, sync(1).
 * So one is kept open for each group from its begin on. Of many groups several share one, the last
 * that was opened: these hear of what failed shortly before they were begun, too. One that has told
 * of an error is shared by no further group.
 *
 * In memory: what an earlier daemon left is watched from when this one comes to it. Any thread.
 */
#ifndef FM_STORE_GROUP_WATCH_H
#define FM_STORE_GROUP_WATCH_H

#include <pthread.h>

#include "mover/base/list.h"

#define FM_GROUP_WATCHES_MAX 256u	/* of one store; more only if it has more file systems */

struct fm_group_watch;

struct fm_group_watches {
	pthread_mutex_t lock;		/* of what follows */
	struct fm_list list;		/* the last that was opened comes last */
	unsigned count;
};

void fm_group_watches_init(struct fm_group_watches *all);
/* None is watched any more. */
void fm_group_watches_free(struct fm_group_watches *all);

/*
 * Watches the file system of an open directory, which stays the caller's, from now on. *out is to
 * be put. -ENOMEM, -EMFILE and others of open(2). May wait for the file system, and keeps nobody
 * else meanwhile.
 */
int fm_group_watch_get(struct fm_group_watches *all, int dir, struct fm_group_watch **out);

struct fm_group_watch *fm_group_watch_again(struct fm_group_watch *w);	/* one more put */
void fm_group_watch_put(struct fm_group_watch *w);			/* NULL is allowed */

/*
 * Syncs the file system: 0 if all that was written to it since it is watched is on the disk. An
 * error is for ever. Waits for the disk, and for others that sync the same.
 */
int fm_group_watch_sync(struct fm_group_watch *w);

#endif
