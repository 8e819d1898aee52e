/* SPDX-License-Identifier: MIT */
/*
 * group_count - the open groups of a store (group.h), so that no user has more of them than the
 * store allows.
 *
 * In memory: what is begun is added, what ends is dropped, and what an earlier daemon left is found
 * by the first look through the store, until which more than that can be begun. What went with the
 * directory above it is missed by the next look that is whole. A group whose time is over does not
 * count, and is dropped where there is no more room, or at the end of the next look. Any thread.
 */
#ifndef FM_STORE_GROUP_COUNT_H
#define FM_STORE_GROUP_COUNT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/store/group_use.h"
#include "mover/store/group_watch.h"

#define FM_GROUPS_OPEN_MAX 65536u	/* of one store, all users together */
#define FM_GROUPS_BUCKETS 1024u

struct fm_group_count {
	pthread_mutex_t lock;		/* of what follows */
	struct fm_list groups;
	struct fm_list buckets[FM_GROUPS_BUCKETS];	/* the same, by their keys */
	struct fm_list users[FM_GROUPS_BUCKETS];	/* who have any, by their numbers */
	uint32_t count;
	uint32_t published;		/* of these */
	uint32_t limit;			/* of one user */
	uint32_t looks;			/* how often a look through the store began */
	int64_t until_ns;		/* the time of none of them is over before */
	struct fm_group_watches watches;
};

void fm_group_count_init(struct fm_group_count *gc, uint32_t limit);
void fm_group_count_free(struct fm_group_count *gc);

/* A group is begun. expires_ns: since 1970. -EDQUOT: its user, or the store, has no more room. */
int fm_group_count_add(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
		       int64_t expires_ns, struct fm_err *err);

/* It has ended, or was not begun. One that was never added is no error. */
void fm_group_count_drop(struct fm_group_count *gc, const struct fm_group_key *key);

/*
 * It has ended, and nothing of it was synced: it is watched on, for one look through the store at
 * least, and counts for nobody. Whoever begins one takes its place if there is no other.
 */
void fm_group_count_publish(struct fm_group_count *gc, const struct fm_group_key *key);

/*
 * A look through the store begins; an open group is found, whoever has how many (-ENOMEM: it may
 * not be counted; -EDQUOT: the store has no room for it); the look has ended, and the groups
 * whose time is over are dropped. is_whole: it found all that there are, so those that it did not
 * find have gone, and are dropped, too. One look at a time.
 */
void fm_group_count_look(struct fm_group_count *gc);
int fm_group_count_found(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
			 int64_t expires_ns);
void fm_group_count_looked(struct fm_group_count *gc, bool is_whole);

/*
 * From now on the file system of a group that is counted is watched (group_watch.h), if it was not
 * before: dir is a directory of it. A group that is not counted is not watched, which is no error.
 * May wait for that file system, and keeps nobody else meanwhile.
 */
int fm_group_count_watch(struct fm_group_count *gc, const struct fm_group_key *key, int dir);

/*
 * Whether it is on the disk that members of the group may come without a sync
 * (fm_group_dir_note_unsynced()): what a file says that is in the page cache only may be gone after
 * a power cut. Of a group that is not counted that is never known.
 */
bool fm_group_count_is_noted(struct fm_group_count *gc, const struct fm_group_key *key);
void fm_group_count_note(struct fm_group_count *gc, const struct fm_group_key *key);

/*
 * All that was written to the group's file system is on the disk, since it is watched; if it is
 * not (*is_watched), as far as dir, opened now, hears of it. An error is for ever only as long as
 * it is counted.
 */
int fm_group_count_sync(struct fm_group_count *gc, const struct fm_group_key *key, int dir,
			bool *is_watched);

#endif
