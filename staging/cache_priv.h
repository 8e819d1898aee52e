/* SPDX-License-Identifier: MIT */
/*
 * cache_priv - what the files of a cache share: the index, its lock, who may change what.
 *
 * The index is in memory, under `lock`, which is never held over a call that may wait for the disk.
 * Who does something to a dataset on the disk sets is_busy under the lock, and alone may move or
 * free its entry then. `room` is held by whoever sets room aside, `use` by whoever writes a .use
 * file, `places` by whoever renames a dataset's directory, until the index knows, and by whoever
 * opens one by its name. They are taken in this order, before `lock`, and only in calls that may
 * wait.
 */
#ifndef FM_STAGING_CACHE_PRIV_H
#define FM_STAGING_CACHE_PRIV_H

#include <pthread.h>

#include "mover/base/list.h"
#include "staging/cache.h"
#include "staging/cache_format.h"
#include "staging/evict.h"

#define FM_CACHE_BLOCK 4096u /* that a file or directory may take beside its bytes */

enum fm_cache_place {
	FM_CACHE_PARTIAL,
	FM_CACHE_IN_READY,
	FM_CACHE_IN_EVICTING,
	FM_CACHE_GONE,
	FM_CACHE_HOLDS,
	FM_CACHE_AFAR,
	FM_CACHE_PLACES,
};

#define FM_CACHE_HEAD_NAME	"head"
#define FM_CACHE_LOCK_NAME	"lock"
#define FM_CACHE_DATASET_NAME	".dataset"
#define FM_CACHE_USE_NAME	".use"
#define FM_CACHE_EXTENTS_NAME	".extents"
#define FM_CACHE_MARK_FORM	".made.%016" PRIx64
#define FM_CACHE_ENTRY_NAME_MAX (FM_CACHE_HEX_LEN + 1)

struct fm_cache_entry {
	struct fm_list at;
	struct fm_cache_dataset set;
	struct fm_cache_use use; /* boot_ns: of this boot only */
	enum fm_cache_state state;
	enum fm_cache_place place;
	uint64_t ino;
	uint64_t written; /* of what it takes, so much is on the disk: less is promised */
	unsigned extents_done;
	unsigned hold_count;
	unsigned kept; /* by those who take from it */
	unsigned allowed; /* how often a user was */
	bool is_busy;
	bool is_fetched; /* a fetch is open */
	bool is_wanted;	 /* somebody asked for it while it was looked at */
	bool is_going;	 /* nothing brings it back */
	bool is_measured; /* `written` is right, or kept so by its fetch */
	bool is_use_new; /* in memory only */
	/* For whom it comes, if that is known: not after a start. In memory only. */
	bool has_asker;
	uid_t asker;
	char asker_node[FM_CACHE_NODE_MAX + 1]; /* "": he asked here */
	bool is_list_refused; /* its file system took no list for rules, and that was said */
	struct fm_list holds;
};

struct fm_cache_hold {
	struct fm_list at; /* in its entry, or among those that have ended */
	struct fm_cache_hold_record record;
	struct fm_cache_entry *entry;
	int pidfd; /* -1: a connection's, or another node's */
	uint64_t until_ns; /* of another node's: since the boot; put off by that node */
};

struct fm_cache {
	struct fm_cache_opts o;
	char *directory;
	int root;
	int locked; /* the file that is, as long as we are there; under `places` */
	dev_t device; /* of its file system */
	char *real; /* where it is; NULL: not known */
	char *place; /* that this leads to, at the start (mount_of.h); NULL: not known */
	unsigned mount; /* that it is on; 0: not known */
	size_t mount_len; /* that the mount point takes of `real` */
	atomic_bool is_hidden; /* something else is there, and that was said */
	int dirs[FM_CACHE_PLACES];
	uint8_t boot[FM_HOLD_BOOT_LEN];
	pthread_mutex_t room;
	pthread_mutex_t use;
	pthread_mutex_t places;
	pthread_mutex_t lock;
	struct fm_list entries;
	unsigned count;
	/* There is a dataset that the disk could not read at the start, or that had no place. */
	bool has_unread;
	struct fm_list ended; /* holds whose file has to go */
	unsigned hold_count;
};

/* ---- cache_mount.c: no lock; none waits for a file system ---- */

/* When the directory was opened. */
void fm_cache_mount_note(struct fm_cache *c);
/* -ENODEV: its path leads to another file system than the one on which it was opened. */
int fm_cache_mount_check(const struct fm_cache *c, struct fm_err *err);
/* Upkeep: says so in the log, once, and when it is over. */
void fm_cache_mount_look(struct fm_cache *c);

/* ---- cache.c: under the lock, if not said otherwise ---- */

struct fm_cache_entry *fm_cache_entry_of(struct fm_cache *c, uint64_t id);

/* *set is the entry's then, its source too; not on error. -ENOMEM. */
struct fm_cache_entry *fm_cache_entry_new(struct fm_cache *c, struct fm_cache_dataset *set);

/* It goes from the index, with its holds. */
void fm_cache_entry_free(struct fm_cache *c, struct fm_cache_entry *e);

/* How its directory is called. */
void fm_cache_entry_name(const struct fm_cache_entry *e, char out[static FM_CACHE_ENTRY_NAME_MAX]);

/*
 * Opens the directory of a dataset. Writes through it reach the dataset even if it is moved. No
 * lock but `room` or `use` is held. -ENOENT: there is none.
 */
int fm_cache_entry_open(struct fm_cache *c, uint64_t id);

/* The most room that the whole dataset can take. */
uint64_t fm_cache_room_of(const struct fm_cache_dataset *set);
/* The same as far as nobody else has it, too. */
uint64_t fm_cache_own_of(struct fm_cache *c, const struct fm_cache_entry *e);
void fm_cache_sum(struct fm_cache *c, struct fm_cache_sums *out);

/* The error for a dataset that is not there or is being evicted. 0: it may be used. */
int fm_cache_may_use(struct fm_cache_entry *e, struct fm_err *err);

/* Any thread, no lock. */
struct fm_cache_stamp fm_cache_now(const struct fm_cache *c);
uint64_t fm_cache_age(const struct fm_cache *c, const struct fm_cache_stamp *stamp);
uint64_t fm_cache_random(void); /* not 0 */

/* ---- the rest ---- */

/* cache_load.c: the directory itself, and what is in it. On error nothing is open. */
int fm_cache_load(struct fm_cache *c, struct fm_err *err);
/*
 * Makes directories of the cache again that somebody removed. No lock but `room` or `use` is held.
 */
int fm_cache_renew(struct fm_cache *c, struct fm_err *err);
/* Removes evicted datasets from the disk, and their entries. */
void fm_cache_clear_gone(struct fm_cache *c);

/* cache_use.c: the entry's .use as it is in memory. By id: it may go meanwhile. Without is_durable
 * the pins that were on the disk stay there, and nothing else need. */
int fm_cache_use_save(struct fm_cache *c, uint64_t id, bool is_durable);
/* Under the lock: whether he holds or pins it, by what he does here or, is_any, also from other
 * nodes. */
bool fm_cache_is_charged(const struct fm_cache_entry *e, uid_t uid, bool is_any);
/*
 * Whether a user may hold or pin one more, under the lock: 0 or -EDQUOT. For root it never ends,
 * but for one of another node.
 */
int fm_cache_may_charge(struct fm_cache *c, const struct fm_cache_entry *e, uid_t uid,
			bool is_elsewhere, struct fm_err *err);

/* What interrupted fetches of a user left, in the order in which it goes for his next one. */
struct fm_cache_left {
	struct fm_evict_item *items; /* to be freed with fm_budget_free() */
	size_t all;
	size_t count; /* so many, from the first on, are to go */
};

/*
 * Under `room`: whether the quota of the user of that plan has place for it, and what of his has to
 * go for that. Nothing goes yet. -EDQUOT, -ENOMEM: *out has nothing to be freed.
 */
int fm_cache_charge_choose(struct fm_cache *c, const struct fm_cache_plan *plan,
			   struct fm_cache_left *out, struct fm_err *err);
/* ... and it goes; others of it, too, if one of these cannot. -EDQUOT: it was not enough. */
int fm_cache_charge_take(struct fm_cache *c, const struct fm_cache_plan *plan,
			 const struct fm_cache_left *left, struct fm_err *err);

/* cache_hold.c */
int fm_cache_hold_load(struct fm_cache *c, const char *name);
/* Ends the holds of processes that have ended, so that nobody has to wait for upkeep. */
void fm_cache_holds_end(struct fm_cache *c);
void fm_cache_hold_free(struct fm_cache_hold *h);

/* cache_room.c: under `room`. name: for whom, or NULL. */
int fm_cache_room_make(struct fm_cache *c, uint64_t bytes, uint64_t files, const char *name,
		       struct fm_err *err);
/* Under the lock: what eviction has to know of it. */
struct fm_evict_item fm_cache_item_of(struct fm_cache *c, struct fm_cache_entry *e);
/*
 * Whether so many bytes and files more can have room when what was chosen has gone, and all else
 * that may; 0 of them: whether what is promised has. Nothing goes yet. -ENOSPC: they cannot.
 */
int fm_cache_room_check(struct fm_cache *c, uint64_t bytes, uint64_t files,
			const struct fm_cache_left *left, const char *name, struct fm_err *err);
/* Then: what else has to go does, and nothing that was chosen. -ENOSPC: it could not. */
int fm_cache_room_beside(struct fm_cache *c, uint64_t bytes, uint64_t files,
			 const struct fm_cache_left *left, const char *name, struct fm_err *err);
/*
 * Whether who asks may have one more place in the index when what was chosen has gone; that there
 * is one, for which a dataset goes if need be.
 */
int fm_cache_place_check(struct fm_cache *c, const struct fm_cache_plan *plan,
			 const struct fm_cache_left *left, struct fm_err *err);
int fm_cache_place_make(struct fm_cache *c, const char *name, struct fm_err *err);

/*
 * For a small file of ours that was not written because the disk is full: datasets that nobody
 * needs go. Whether a second try may go well. No lock is held, and what it is about is held or
 * pinned in memory, so that it does not go for it.
 */
bool fm_cache_has_made_room(struct fm_cache *c, int code);

/* cache_fetch.c */
struct fm_cache_fetch {
	struct fm_cache *c;
	struct fm_cache_entry *e; /* stays as long as this is open */
	int dir; /* opened before anything was written: its syncfs(2) knows all that failed since */
	uint8_t *bits; /* under the lock */
	uint8_t *copy; /* while it is saved */
	uint8_t *file;
	size_t file_max;
	unsigned missing;
	bool is_broken; /* a sync failed */
	bool (*is_spoilt)(void *ctx); /* asked before it becomes READY; NULL: nobody is */
	void *ctx;
};

/* Under is_busy, which these set and clear: -EBUSY, or -EIO of a broken one. */
int fm_cache_fetch_begin(struct fm_cache_fetch *f, struct fm_err *err);
void fm_cache_fetch_end(struct fm_cache_fetch *f);
int fm_cache_dataset_write(int dir, const struct fm_cache_dataset *set);

/* cache_evict.c: one goes, READY or partial. -EBUSY: it cannot, and stays as it was; -EAGAIN:
 * somebody asked for it. */
int fm_cache_evict(struct fm_cache *c, uint64_t id);
/* 1: somebody has a file of it open; 0: nobody. */
int fm_cache_is_open(int dir, const char *name);

#endif
