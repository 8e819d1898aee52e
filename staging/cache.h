/* SPDX-License-Identifier: MIT */
/*
 * cache - what a node has staged: one directory on the local disk, of a set size.
 *
 * A dataset is ABSENT, PLANNED (there is room for it, nothing is written), FETCHING, READY or
 * EVICTING. One rename makes it READY, when all of it is on the disk for good; nothing writes to it
 * from then on. A crash at any moment leaves nothing, a partial dataset with which the next fetch
 * goes on, or a READY one. fmove-cache(5) describes the directory.
 *
 * A dataset that is fetched is known by the digest of its listing, since its CRCs come later; one
 * that is READY by its version, the SHA-256 of its manifest. Its *id* stays the same all the time.
 *
 * Any thread. Each call says whether it may wait for the disk. Those that may are for workers:
 * removing or looking through millions of files takes minutes. Those that may not never do, not
 * even while others wait. No two calls do something to one dataset at once: the second one hears
 * -EBUSY.
 *
 * Errors have a line for people. -ENOENT: there is no such dataset (any more). -EAGAIN: it is being
 * evicted; it stays if nothing of it was removed yet, so a second call a moment later says how it
 * ended. What the disk says is passed on.
 */
#ifndef FM_STAGING_CACHE_H
#define FM_STAGING_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "staging/cache_limits.h"

struct fm_err;
struct fm_cache;
struct fm_cache_fetch;

#define FM_CACHE_DATASETS_MAX	4096
#define FM_CACHE_ROOT_DATASETS	64 /* of these for root alone */
#define FM_CACHE_HOLDS_MAX	4096
#define FM_CACHE_USER_HOLDS_MAX 1024 /* of one user; for other nodes as many, less those here */
#define FM_CACHE_ROOT_HOLDS	256  /* for root alone */
#define FM_CACHE_NODE_HOLDS_MAX 512  /* for one other node */
#define FM_CACHE_NODE_PINS_MAX	256  /* of one other node */
#define FM_CACHE_NODE_S		600  /* that a hold for another node lasts without a word of it */
#define FM_CACHE_WHO_MAX	64   /* users who may read one dataset since they staged it */
#define FM_CACHE_READERS_MAX	256  /* users and groups who may since rules name them */

/*
 * Names that the caller keeps beside the data. All other names there that begin with a dot belong
 * to the cache.
 */
#define FM_CACHE_MANIFEST_NAME ".manifest" /* must be there when the dataset becomes READY */
#define FM_CACHE_SCRATCH_NAME  ".scratch"  /* goes when it does: CRCs that are known, say */

enum fm_cache_state {
	FM_CACHE_ABSENT,
	FM_CACHE_PLANNED,
	FM_CACHE_FETCHING,
	FM_CACHE_READY,
	FM_CACHE_EVICTING,
};

/* "absent", "planned", ... */
const char *fm_cache_state_name(enum fm_cache_state state);

/* Time as a table, so that a test can set it back. */
struct fm_cache_clock {
	int64_t (*wall_ns)(void *ctx); /* since 1970; may jump */
	uint64_t (*boot_ns)(
		void *ctx); /* since the start of the machine, sleep included; never jumps */
	void *ctx;
};

extern const struct fm_cache_clock fm_cache_clock_real;

struct fm_cache_opts {
	const char *directory; /* absolute; made if it is missing, its parent is not */
	uint64_t size;	       /* bytes that datasets may have together */
	unsigned high;	       /* percent of it: above that, what nobody needs goes ... */
	unsigned low;	       /* ... until this much is left */
	uint64_t grace_ns;     /* what was asked for within that time stays */
	/* bytes that one user may hold and pin here, with a block for each file; from other nodes
	 * as much, with what he has here; 0: no limit */
	uint64_t user_quota;
	const struct fm_cache_clock *clock; /* NULL: the real one */
};

/* ---- the whole ---- */

/*
 * Waits for the disk; as long for five million files as for one. -EPERM: the directory is not ours,
 * or others may write to it. -EBUSY: another process has it. -EBADMSG: it is no cache, and not
 * empty. What is damaged in it is ABSENT, and said in the log; so is, until the next start, what
 * the disk cannot read, which stays where it is.
 */
int fm_cache_open(const struct fm_cache_opts *opts, struct fm_cache **out, struct fm_err *err);

/* Every fetch is closed, no call is under way. NULL is allowed. Waits for the disk. */
void fm_cache_close(struct fm_cache *cache);

/*
 * To be called every few seconds: holds of processes that are gone end, what was evicted or given
 * up when we were ended is removed, and above the high watermark what nobody needs goes. The log
 * says when something is mounted over the directory. Waits for the disk.
 */
void fm_cache_upkeep(struct fm_cache *cache);

/* ---- what is there: these never wait ---- */

/* The file system that it is on, as stat(2) has it. */
dev_t fm_cache_device(const struct fm_cache *cache);

struct fm_cache_info {
	uint64_t id; /* never 0 */
	enum fm_cache_state state;
	char name[FM_CACHE_NAME_MAX + 1];
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_cache_key listing;
	struct fm_cache_key version; /* zeros before it is READY */
	uint64_t bytes;			/* with what it shares with another version */
	uint64_t shared; /* of these, hard links to what another dataset here has, too */
	unsigned extents;
	unsigned extents_done; /* on the disk for good */
	unsigned holds;
	unsigned pins;
	int64_t created_ns; /* times: ns since 1970, never in the future; 0: never */
	int64_t requested_ns;
	int64_t used_ns; /* when the last hold began or ended; of a partial one, its fetch, too */
	int64_t verified_ns;
	int64_t begun_ns; /* created_ns as it was noted: in the future if the clock was put back */
};

struct fm_cache_sums {
	uint64_t size;	   /* as configured */
	uint64_t used;	   /* by what is here, shared bytes once */
	uint64_t promised; /* of these, not written yet */
	unsigned datasets;
	unsigned holds;
};

/*
 * The id of a READY or EVICTING dataset of that version, of one that is fetched with that
 * listing; 0: none.
 */
uint64_t fm_cache_find_version(struct fm_cache *cache, const struct fm_cache_key *version);
uint64_t fm_cache_find_listing(struct fm_cache *cache, const struct fm_cache_key *listing);

/*
 * The dataset of that name, or from that source, that was asked for last; a READY one is preferred.
 * 0: there is none.
 */
uint64_t fm_cache_find_name(struct fm_cache *cache, const char *name);

bool fm_cache_look(struct fm_cache *cache, uint64_t id, struct fm_cache_info *out);
void fm_cache_sums(struct fm_cache *cache, struct fm_cache_sums *out);

/*
 * Whether a dataset lies in the directory that was not taken at the start, since the disk could not
 * read it, or there were too many: a later start may take it. The same as long as the cache is
 * open.
 */
bool fm_cache_has_unread(const struct fm_cache *cache);

/* Sets the error for a file that could not be made in the cache's directory. Returns code. */
int fm_cache_no_file(const struct fm_cache *cache, int code, struct fm_err *err);

/* Lists the datasets that are here, at most max. Returns how many. */
size_t fm_cache_list(struct fm_cache *cache, uint64_t *ids, size_t max);

/*
 * The path of its data, now or later: DIRECTORY/ready/VERSION/NAME. -EINVAL: it has no version yet.
 */
int fm_cache_path(struct fm_cache *cache, uint64_t id, char *out, size_t max);

/* ---- who needs it ---- */

/*
 * Notes that somebody asks for the dataset now: it stays for the grace. -ENODEV: a file system was
 * mounted over the directory since the start, so that its path would not lead there. Waits for the
 * disk.
 */
int fm_cache_request(struct fm_cache *cache, uint64_t id, struct fm_err *err);

/* Notes that its bytes were read and match the manifest. Waits for the disk. */
int fm_cache_verified(struct fm_cache *cache, uint64_t id, struct fm_err *err);

struct fm_cache_holder {
	uid_t uid; /* whose hold it is: counted, and charged if it has a process or a node */
	pid_t pid; /* it ends with this process; 0: with fm_cache_release() or with us */
	/* For a process of that node, which calls the hold `theirs`; "": of this one. pid is 0. */
	char node[FM_CACHE_NODE_MAX + 1];
	uint64_t theirs;
};

/*
 * It stays as long as that process lives, also over a restart of ours; a process that asks again
 * has the hold that it had. *hold is for fm_cache_release(). A process of another user is -EPERM,
 * unless root asks; one that is gone is -ESRCH. -EBUSY (is_full): too many holds. -EDQUOT: with it
 * the user has more than his quota, which one without a process or a node, as that of a check,
 * asks nothing of. Waits for the disk, but not if pid is 0.
 *
 * One for another node lasts FM_CACHE_NODE_S, also over a restart of ours or of the machine, and as
 * long again whenever it is asked for again; fm_cache_release_node() ends it. Root of another node
 * has a quota, too. Waits for the disk the first time.
 */
int fm_cache_hold(struct fm_cache *cache, uint64_t id, const struct fm_cache_holder *who,
		  uint64_t *hold, struct fm_err *err);

/* Whether that user holds or pins it, here or from another node. Never waits. */
bool fm_cache_is_held_by(struct fm_cache *cache, uint64_t id, uid_t uid);

/* Whether a process of that node holds it. Never waits. */
bool fm_cache_is_held_by_node(struct fm_cache *cache, uint64_t id, const char *node);

/* The processes and nodes that hold it, the first max of them: their number. Never waits. */
size_t fm_cache_holders(struct fm_cache *cache, uint64_t id, struct fm_cache_holder *out,
			size_t max);

/* Never waits. One that has ended is left alone. */
void fm_cache_release(struct fm_cache *cache, uint64_t hold);
void fm_cache_release_node(struct fm_cache *cache, const char *node, uint64_t theirs);

/*
 * The hold of that node on that dataset lasts FM_CACHE_NODE_S from now. False: there is none. Never
 * waits.
 */
bool fm_cache_renew_node(struct fm_cache *cache, uint64_t id, const char *node, uint64_t theirs);

/*
 * It stays until that user, or root, unpins it; pinned twice is pinned once. -EDQUOT. Wait for
 * the disk.
 */
int fm_cache_pin(struct fm_cache *cache, uint64_t id, uid_t uid, struct fm_err *err);
/*
 * For another node, which says who the user is: root has a quota, too. -EBUSY: that node, or all
 * others, pin too much: FM_CACHE_NODE_PINS_MAX, or so many bytes that little is left for this node.
 */
int fm_cache_pin_node(struct fm_cache *cache, uint64_t id, const char *node, uid_t uid,
		      struct fm_err *err);

/*
 * Ends what that user pins, here and from other nodes. -ENOENT also if he does not. Root takes
 * everybody's pins away with is_all.
 */
int fm_cache_unpin(struct fm_cache *cache, uint64_t id, uid_t uid, bool is_all, struct fm_err *err);
/* Only what that node pinned for him. -ENOENT: it did not. */
int fm_cache_unpin_node(struct fm_cache *cache, uint64_t id, const char *node, uid_t uid,
			struct fm_err *err);

/*
 * A dataset of that name or source that the user pins: node NULL: here, or if he pins none here,
 * from any other node; else from that node. 0: there is none.
 */
uint64_t fm_cache_find_pinned(struct fm_cache *cache, const char *name, uid_t uid,
			      const char *node);

/*
 * The bytes that a user holds and pins, here and from other nodes; each dataset counts in full,
 * with a block for each of its files, as for the cache's size. Never waits.
 */
uint64_t fm_cache_charged(struct fm_cache *cache, uid_t uid);

/* ---- how it comes ---- */

struct fm_cache_plan {
	struct fm_cache_key listing;
	const char *name; /* one component, no dot first, FM_CACHE_NAME_MAX bytes */
	const char *source;
	uint64_t bytes; /* its files' sizes, holes counted: who lists a source sees none */
	uint64_t files; /* and directories: each may take a block beside its bytes */
	unsigned extents;
	unsigned cost; /* to fetch a byte of it again, relative to others; at least 1 */
	uid_t uid; /* for whom it comes */
	const char *node; /* that says so; NULL: he asked here */
};

/*
 * -EDQUOT: with this one, and what is fetched for him just now, the user has more than his quota
 * here; of another node: than what that may hold and pin for him. Its extents and cost do not
 * count. Never waits.
 */
int fm_cache_check_quota(struct fm_cache *cache, const struct fm_cache_plan *plan,
			 struct fm_err *err);

/*
 * Room for it is set aside, for which others go if need be, and its directory is made; or the
 * partial one that is there is gone on with. If the user had more than his quota with what
 * interrupted fetches of his left (that he asked for here; for a node: that it did), as many of
 * these go as have to; of what is refused for the quota, a place or room, none. Waits for the disk.
 *
 * -EUCLEAN: what was not taken at the start is in its place. -ENODEV: as of fm_cache_request().
 *
 * -EALREADY: a READY dataset has that listing. -EBUSY: it is being fetched. -EBADMSG: a partial one
 * of that listing is of another size: discard it. -EDQUOT as above, or so many came for him, or for
 * that node, and cannot go yet that too few places were left for others. -ENOSPC: no room, or
 * FM_CACHE_DATASETS_MAX are there and none may go; err names the cache, and what would make room.
 */
int fm_cache_fetch(struct fm_cache *cache, const struct fm_cache_plan *plan,
		   struct fm_cache_fetch **out, struct fm_err *err);

/*
 * Ends a fetch. A dataset that is not READY stays as a partial one, with room promised for the
 * rest, until that is wanted after the grace. After an error of the disk nothing stays. Waits for
 * the disk.
 */
void fm_cache_fetch_close(struct fm_cache_fetch *f);

uint64_t fm_cache_fetch_id(const struct fm_cache_fetch *f);

/*
 * The directory in which the caller makes NAME, a file or a directory. The descriptor stays the
 * cache's.
 */
int fm_cache_fetch_dir(const struct fm_cache_fetch *f);

/*
 * So much of it is on the disk now, in all: that room is promised no more. Without this word it
 * counts twice, since the file system has it no more. Never waits.
 */
void fm_cache_fetch_wrote(struct fm_cache_fetch *f, uint64_t bytes, uint64_t files);

/* Whether an extent is there (written, not necessarily saved); that it is now. Never wait. */
bool fm_cache_fetch_has(const struct fm_cache_fetch *f, unsigned extent);
void fm_cache_fetch_mark(struct fm_cache_fetch *f, unsigned extent);
unsigned fm_cache_fetch_missing(const struct fm_cache_fetch *f);

/*
 * Syncs the file system, and then writes down the extents that were marked before this call. After
 * an error of the disk nothing of this fetch can be trusted: -EIO now and from then on, and
 * fm_cache_fetch_close() removes it. Waits for the disk.
 */
int fm_cache_fetch_save(struct fm_cache_fetch *f, struct fm_err *err);

/*
 * fm_cache_fetch_ready() asks this last, when all is synced, which may have taken minutes: whether
 * what came was found damaged meanwhile. ctx is good until then. Any thread, no lock is held.
 */
void fm_cache_fetch_ask(struct fm_cache_fetch *f, bool (*is_spoilt)(void *ctx), void *ctx);

/*
 * All extents are marked and the manifest is there: READY, and requested now. -EINVAL: they are
 * not. -EEXIST: this version is here already; the partial one should be discarded. -EUCLEAN: what
 * was not taken at the start is in its place. -EBADMSG: what was asked last says that it is
 * damaged. The caller still closes f. Waits for the disk.
 */
int fm_cache_fetch_ready(struct fm_cache_fetch *f, const struct fm_cache_key *version,
			 struct fm_err *err);

/*
 * That user may read it, too, beside us and those who may already. If there are FM_CACHE_WHO_MAX,
 * one goes who does not hold or pin it here; -EBUSY: all do. is_of_node: it is another node that
 * names him, or nobody knows whom. Then one has to go from half as many on, and only one in whose
 * name no other node holds or pins it either. Before and after it is READY. -EOPNOTSUPP: this file
 * system has no ACLs. Waits for the disk.
 */
int fm_cache_allow_user(struct fm_cache *cache, uint64_t id, uid_t uid, bool is_of_node,
			struct fm_err *err);

/*
 * Of another directory in the cache's: that user may read it beside us, and nobody else. A negative
 * errno; -EOPNOTSUPP as above. Waits for the disk.
 */
int fm_cache_allow_dir(int dir, uid_t uid);

/*
 * Keeps only those named users for whom may() returns true. may() is called without a lock, and may
 * wait. Waits for the disk.
 */
int fm_cache_allow_only(struct fm_cache *cache, uint64_t id, bool (*may)(void *ctx, uid_t uid),
			void *ctx, struct fm_err *err);

/* Whom rules let read, besides those who staged it: numbers of this machine. */
struct fm_cache_readers {
	bool is_all;			/* everybody */
	unsigned user_count, group_count;	/* FM_CACHE_READERS_MAX together */
	uid_t users[FM_CACHE_READERS_MAX];
	gid_t groups[FM_CACHE_READERS_MAX];
};

/*
 * These may read it, and no others whom rules named before; those who staged it stay. A dataset
 * that is not READY is left alone. -ENOSPC, -E2BIG and others: the file system takes no list of
 * that length, and none are named; 1: it fails again, after an error that was returned. is_stale
 * (may be NULL): the list is as it was, since that failed, too, or the dataset is being evicted and
 * may stay; it is to be tried again. Waits for the disk.
 */
int fm_cache_allow_readers(struct fm_cache *cache, uint64_t id,
			   const struct fm_cache_readers *readers, bool *is_stale,
			   struct fm_err *err);

/* 1: that user was allowed by name, since he staged it; 0: not so. Waits for the disk. */
int fm_cache_is_user(struct fm_cache *cache, uint64_t id, uid_t uid, struct fm_err *err);
/* The same, and 1 for root. */
int fm_cache_has_staged(struct fm_cache *cache, uint64_t id, uid_t uid, struct fm_err *err);

/* ---- how it goes ---- */

/*
 * So many bytes more have room, for which datasets go that are not fetched, pinned, held, open or
 * asked for within the grace: partial ones whose fetch ended before that, then READY ones; oldest,
 * largest and cheapest to fetch again first. -ENOSPC as above: none goes if that were not enough.
 * Waits for the disk.
 */
int fm_cache_make_room(struct fm_cache *cache, uint64_t bytes, struct fm_err *err);
/* The same; the error says what it was for. */
int fm_cache_make_room_for(struct fm_cache *cache, uint64_t bytes, const char *name,
			   struct fm_err *err);

/*
 * This one goes, READY or partial, whatever the grace says. -EBUSY: it is pinned, held, open or
 * fetched.
 */
int fm_cache_discard(struct fm_cache *cache, uint64_t id, struct fm_err *err);

/* Whether it would go: 0, or the error of fm_cache_discard(). *bytes: what it takes. */
int fm_cache_try_discard(struct fm_cache *cache, uint64_t id, uint64_t *bytes, struct fm_err *err);

/* ---- a new version of what is here ---- */

/* One regular file of a manifest. */
struct fm_cache_file {
	const char *path; /* below NAME; "": NAME itself is the file */
	uint64_t size;
	int64_t mtime_ns;
	mode_t mode;	      /* permissions */
	const uint32_t *crcs; /* of its chunks; NULL: not known */
	size_t crc_count;
};

/*
 * Files in the canonical order of a manifest (fm_stage_path_compare()); false: there is none left.
 * *out stays until the next call.
 */
struct fm_cache_files {
	bool (*next)(void *ctx, struct fm_cache_file *out);
	void *ctx;
};

struct fm_cache_reuse {
	uint64_t old;		      /* a READY dataset */
	struct fm_cache_files had;    /* its files: without CRCs none is taken */
	struct fm_cache_files wanted; /* the new one's: without CRCs size and time tell what is
				       * unchanged, which only those of one source can */
	const char *into;	      /* a name beside NAME, below which they are put, or NAME */
	/* Each of the new one that must be fetched. */
	void (*missing)(void *ctx, const struct fm_cache_file *file);
	void *ctx;
	const atomic_bool *is_stopped; /* looked at for each chunk and file; NULL: never */
	_Atomic uint64_t *bytes_done;  /* added to for each chunk that was read; NULL allowed */
	/* Said at the end: */
	uint64_t cloned_bytes;
	uint64_t linked_bytes;
};

/*
 * Takes unchanged files from the old version, by reflink or else by hard link of the same read-only
 * file. Each is read first: one that has not the CRCs of the old version is missing. Directories
 * are made as needed. The old version stays meanwhile. The caller marks the extents. Waits for the
 * disk, for as long as it takes to read all that is taken. -ECANCELED: it was stopped; what was
 * taken stays.
 */
int fm_cache_fetch_reuse(struct fm_cache_fetch *f, struct fm_cache_reuse *reuse,
			 struct fm_err *err);

#endif
