/* SPDX-License-Identifier: MIT */
/*
 * aside - the directories that were replaced and are kept for a while: where they are, how much
 * goes with them, and that they go first when room is needed.
 *
 * An index in memory, the oldest first: what a transfer replaced is added then, what an earlier
 * daemon left is added by the sweep. An entry says where something was; whether it is still there,
 * and a replaced directory, is looked at each time. So what has gone otherwise does no harm, and
 * what the index has no room for waits for its time: each owner of such directories has a share of
 * it. Never in it: what is unfinished, and a version of which something is nowhere else.
 *
 * What has such a name and is no stash (tree/stash.h) counts, and a purge says where it is; it goes
 * for nobody.
 *
 * Any thread; all but fm_aside_init() and fm_aside_free() wait for the disk.
 */
#ifndef FM_STORE_ASIDE_H
#define FM_STORE_ASIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/base/share.h"

struct fm_err;
struct fm_space_page;
struct fm_store_dir;

#define FM_ASIDE_MAX 1024u		/* entries of one store, */
#define FM_ASIDE_ROOT 128u		/* of these for what is root's, */
#define FM_ASIDE_FOREIGN_MAX 64u	/* and besides such as are no stashes: anybody makes them */

struct fm_aside_index {
	pthread_mutex_t lock;		/* of what follows */
	struct fm_list entries;		/* the oldest first */
	struct fm_share places;		/* of entries, by the owner of what is kept aside */
	struct fm_share foreign;	/* of those that are no stashes */
	bool is_looked;			/* the store was looked through once */
	bool is_complete;		/* ... and all of it could be read */
	pthread_cond_t looked;		/* it is now */
	/* since 1970: what was put aside before is in nobody's use here */
	int64_t opened_ns;
	pthread_mutex_t looking;	/* held by who adds up, and of: */
	/* so long counts what was seen when all of them were looked at */
	uint64_t all_until_ns;
	/* one at a time, so that no more goes than is needed; taken before `lock` */
	pthread_mutex_t removing;
};

void fm_aside_init(struct fm_aside_index *index);
void fm_aside_free(struct fm_aside_index *index);

/* Something kept aside has this path below the store. What is no such thing is passed over, and so
 * is what is too much. */
void fm_aside_add(struct fm_store_dir *dir, const char *path);

/* The sweep went through the whole store. is_complete: it failed at nothing, but what is closed to
 * it. */
void fm_aside_looked(struct fm_store_dir *dir, bool is_complete);

/*
 * Whether so many bytes could become free if all of it went, on the file system of fd (-1: on any).
 * Rather yes than no: what goes may have other names elsewhere, or stay.
 */
bool fm_aside_reaches(struct fm_store_dir *dir, int fd, uint64_t bytes);

/* The oldest goes, of those on the file system of fd (-1: on any). 1: it went. 0: there is nothing
 * (more) that could. */
int fm_aside_drop_oldest(struct fm_store_dir *dir, int fd);

/*
 * How much would go if all of them went, and how many there are. One looks at a time, and not again
 * soon: the others hear what was seen last. True: all of the store was looked through, and each of
 * them at least once; else there may be more.
 */
bool fm_aside_sum(struct fm_store_dir *dir, uint64_t *bytes, uint32_t *count);

/*
 * A page of them, the oldest first, each with its path and, as one more part of that, the name that
 * it had, if that is known: those behind the path `after` ("": all), which stay (is_dry), or all,
 * which go. Ends early after some seconds: is_more then. An error if one cannot be removed and none
 * went. Before the store was looked through once it waits for that for some seconds. -EBUSY: it
 * still was not, or not all of it, and there is no more that is known.
 */
int fm_aside_page(struct fm_store_dir *dir, const char *after, bool is_dry,
		  struct fm_space_page *out, struct fm_err *err);

#endif
