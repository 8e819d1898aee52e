/* SPDX-License-Identifier: MIT */
/*
 * sink - what the files of a tree's sink share. tree_sink.c begins and ends one; sink_apply.c takes
 * packs apart.
 *
 * Threads: apply(), create_large(), wrote_large() and seal_large() run several at once, log()
 * beside them. What they share is behind the locks below; of those only `logging` is held while
 * waiting for a disk, and `journal` while the journal is written. prepare() and what follows it run
 * alone.
 */
#ifndef FM_TREE_SINK_H
#define FM_TREE_SINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/ranges.h"
#include "mover/journal/journal.h"
#include "mover/tree/deferred.h"
#include "mover/tree/digest.h"
#include "mover/tree/manifest.h"
#include "mover/tree/pack.h"
#include "mover/tree/sink_names.h"
#include "mover/tree/staging.h"
#include "mover/tree/tree.h"

#define FM_SINK_WAS_MAX 16		/* earlier tries whose files are still looked for */
#define FM_SINK_NAME_MAX 255
#define FM_SINK_MADE_MAX (32u << 10)	/* finished files that are not in the journal yet ... */
#define FM_SINK_MADE_PATHS_MAX (2u << 20)	/* ... and bytes of their paths */
#define FM_SINK_PIECES_MAX 4096u	/* files of which some pieces are there */
#define FM_SINK_PIECE_RANGES_MAX 64u	/* in one of them */
#define FM_SINK_PIECE_BUCKETS 256u

/* Entries for the journal. Their paths lie one behind the other in `paths`; entry.path is set when
 * they are logged. */
struct fm_sink_made {
	struct fm_journal_entry *at;
	size_t count;
	size_t cap;
	char *paths;
	size_t paths_len;
	size_t paths_cap;
};

/* Counts of entries that met the old version. */
struct fm_sink_tally {
	uint64_t met;			/* names that are in both */
	uint64_t other;			/* of those, the ones that are no directories now ... */
	uint64_t same;			/* ... and do not differ in anything */
	/* directories in the place of something else, or with another mode or owner */
	uint64_t dirs;
};

#define FM_SINK_LOOK_PACKS_MAX 4096u	/* so 4 million names, where packs are full */
#define FM_SINK_LOOK_BYTES_MAX (UINT64_C(1) << 30)	/* of them: no quota has what they take */

enum fm_sink_look_state { FM_SINK_BUILT, FM_SINK_LOOKING, FM_SINK_BUILDING };

/* Offers that are the same as the old version, put aside while nothing is made (sink_look.c). */
struct fm_sink_look {
	atomic_int state;
	pthread_mutex_t lock;		/* of what follows */
	int fd;				/* the packs, each behind its length; -1: none */
	uint64_t bytes;
	unsigned packs;
	struct fm_tree_count count;
	uint64_t first[FM_SINK_LOOK_PACKS_MAX];	/* of each pack a hash of its first name */
};

#define FM_SINK_FOREIGN_MAX 1024u

/* Entries of the old version that could not be taken over (sink_foreign.c). */
struct fm_sink_foreign {
	bool may_link;			/* whatever it is */
	bool may_give;			/* what is made to another user */
	size_t count;
	struct foreign *at[FM_SINK_FOREIGN_MAX];	/* sorted when the survey is over */
};

enum fm_sink_state { FM_SINK_OPEN, FM_SINK_PUBLISHED, FM_SINK_KEPT, FM_SINK_DISCARDED };

struct fm_sink {
	struct fm_tree tree;
	struct fm_tree_sink_opts opts;	/* name and path are copies of ours; parent is ours */
	uid_t uid;			/* that we run as */
	uint64_t bytes;			/* that will come at least; 0: not known */
	bool had_room;			/* that was seen for them when it began */
	enum fm_sink_state state;
	pthread_mutex_t beginning;
	atomic_bool is_begun;		/* the source is known, and the staging directory is made */
	struct fm_err begin_err;	/* or could not be made */
	char tree_name[FM_STAGING_NAME_LEN + 1];
	char new_name[FM_STAGING_NAME_LEN + 1];
	char note[256];
	int stage;			/* the .tree directory; -1: dry */
	int lock;
	int data;			/* the tree that is being made */
	int old;			/* the one under the final name; -1: none */
	/* a sync of it failed: what it has is neither compared nor shared (sink_unsure.c) */
	bool is_old_unsure;
	bool is_merging;		/* entries that only the old version has are taken over */
	bool is_same;			/* nothing differs: it is not published */
	struct fm_sink_look look;
	pthread_mutex_t surveying;
	bool is_surveyed;
	/* of the old one, as far as that is known: while one walks it another asks */
	atomic_uint_least64_t old_names;
	struct fm_err survey_err;
	struct fm_sink_foreign foreign;
	bool is_moved;			/* data has the .new name now */
	bool has_final_name;		/* data has the final name now, for good */
	int was[FM_SINK_WAS_MAX];	/* what earlier tries made; the last is the youngest */
	unsigned was_count;
	mode_t umask;
	bool has_default_acl;		/* modes of new files are not what was asked for */

	atomic_bool is_stopped;
	atomic_int folds;		/* file names that differ are one: -1 not known yet, 0, 1 */
	atomic_bool has_lost_xattrs;
	atomic_bool has_cut_times;	/* of fm_time_is_cut() */
	atomic_bool has_no_digests;	/* this file system keeps none */
	atomic_bool has_no_clone;
	atomic_uint temp_number;

	pthread_mutex_t counting;
	struct fm_tree_count total;
	struct fm_sink_tally tally;
	bool is_root_told;		/* what became of it is counted once, and named */
	struct fm_sink_names names;

	pthread_mutex_t journaling;
	struct fm_journal *journal;
	bool is_journal_full;

	pthread_mutex_t logging;	/* one at a time; taken before `making` and `journaling` */
	struct fm_sink_made logged;
	pthread_mutex_t making;
	struct fm_sink_made made;

	pthread_mutex_t timing;		/* of the lock file, which times are tried with */

	pthread_mutex_t piecing;
	pthread_cond_t piece_done;
	struct fm_list pieces[FM_SINK_PIECE_BUCKETS];	/* of struct piece */
	unsigned piece_count;

	struct fm_deferred deferred;
	bool has_deferred;
	struct fm_deferred carried;	/* what only the old version had */
	bool has_carried;
	bool has_unnoted;		/* files of that are missing there: they were too many */
	bool has_unasked;		/* whether a file that was copied is written to */

	struct fm_manifest manifest;
	bool has_manifest;
	atomic_bool is_manifest_full;	/* the tree is published without it */
	bool is_manifest_placed;	/* it has its name beside the tree's: */
	char manifest_name[FM_MANIFEST_NAME_LEN + 1];
};

/* The directory that was used last below a root: entries of one directory follow one another. */
struct fm_sink_dir {
	int root;			/* not ours */
	bool is_fixed;			/* nothing is made there: what is missing stays missing */
	bool has_path;
	int fd;				/* or the error of opening it */
	size_t len;
	char path[FM_TREE_PATH_MAX + 1];
};

/* One call of a function of the table. */
struct fm_sink_call {
	struct fm_sink *s;
	struct fm_err *err;
	struct fm_sink_dir data;
	struct fm_sink_dir old;
	struct fm_sink_dir *was;	/* was_count of them; NULL: not asked yet */
	struct fm_tree_count count;	/* made by this call */
	struct fm_sink_tally tally;
};

/* A name in a directory below data. */
struct fm_sink_at {
	int dir;			/* the call's */
	const char *path;		/* below the root, for messages: not terminated */
	size_t path_len;
	char name[FM_SINK_NAME_MAX + 1];
};

/* ---- tree_sink.c ---- */

void fm_sink_begin(struct fm_sink_call *call, struct fm_sink *s, struct fm_err *err);
void fm_sink_add_count(struct fm_tree_count *to, const struct fm_tree_count *n);
void fm_sink_end(struct fm_sink_call *call);	/* its counts are added, its descriptors closed */

/*
 * A name of so many bytes was made: 0, or -EDQUOT, -ENOSPC and a text: then the name must go.
 * fm_sink_take(): their content comes. fm_sink_take_old(): it is here already.
 */
int fm_sink_take(struct fm_sink_call *call, uint64_t bytes);
int fm_sink_take_old(struct fm_sink_call *call, uint64_t bytes);
void fm_sink_goes_on(const struct fm_sink *s);		/* for who holds room for it */
void fm_sink_give(const struct fm_sink *s, uint64_t bytes);	/* it went again */

/*
 * All that was made is on the disk. The first failure is for ever: what it covered, which is all,
 * is unknown, though the next sync would succeed.
 */
int fm_sink_sync(struct fm_sink *s, struct fm_err *err);
/* One was made otherwise, and ended with ret. */
int fm_sink_note_sync(struct fm_sink *s, int ret, const char *verb, struct fm_err *err);

/* The error of a sync that failed, or -ECANCELED after stop(). */
int fm_sink_may_go_on(const struct fm_sink *s, struct fm_err *err);

/* The same, at the beginning of a call: the staging directory is made, if it is not there yet,
 * unless the sink looks first. */
int fm_sink_enter(struct fm_sink *s, struct fm_err *err);

/* 'VERB "TREE/PATH": why and what to do' from the errno of a system call; returns it (EACCES as
 * EPERM). */
int fm_sink_fail(const struct fm_sink *s, int code, const char *verb, const char *path, size_t len,
		 struct fm_err *err);

/* One more note behind those that the tree has. Runs alone. */
void fm_sink_note(struct fm_sink *s, const char *text);

/* The same of what somebody has to do something about: it is said before all others, so it is not
 * what is cut. */
void fm_sink_warn(struct fm_sink *s, const char *text);

/* -EPROTO '"TREE/PATH": why'. */
int fm_sink_refuse(const struct fm_sink *s, const char *path, size_t len, const char *why,
		   struct fm_err *err);

/* Whether entries that only the old version has are taken over into the new one. */
static inline bool fm_sink_keeps_old(const struct fm_sink *s)
{
	return s->opts.is_update && !s->opts.is_delete;
}

/* The callbacks that hear of removed files. */
static inline struct fm_tree_freed fm_sink_freed(const struct fm_sink *s)
{
	return (struct fm_tree_freed){ .used = s->opts.used, .ctx = s->opts.ctx };
}

/* ---- sink_stage.c ---- */

/* The final name: free, or a directory that may be replaced. It is kept open if unchanged files
 * come from it. */
int fm_sink_look(struct fm_sink *s, struct fm_err *err);

/* The staging directory, locked, with what earlier tries left and an empty data directory. After an
 * error nothing new is left. Of a dry run: whether it could be made. */
int fm_sink_stage(struct fm_sink *s, struct fm_err *err);

/* Removes what this try and earlier ones made in the staging directory. Best effort. */
void fm_sink_remove_data(const struct fm_sink *s);

/* ---- sink_unsure.c ---- */

/* A sync failed that was to cover what that version has, too: the old one, or the new one when it
 * has the final name. That is written down of it. */
int fm_sink_mark_unsure(const struct fm_sink *s, int dir);

/* Whether that is written of the old version, which is open. */
bool fm_sink_is_unsure(const struct fm_sink *s);

/* ---- sink_room.c ---- */

/*
 * -ENOSPC, -EDQUOT and a text: what will come has no room. That is s->bytes, or, if they are not
 * known, the whole of the source (0: not known either). Where the whole is all that is known of an
 * update, is_unmeasured is set.
 */
int fm_sink_check_room(struct fm_sink *s, uint64_t whole, struct fm_err *err);

/* ---- sink_look.c ---- */

/* Whether it looks first, instead of making its staging directory. */
bool fm_sink_looks(struct fm_sink *s);

/* 1: it looks, and all that the pack offers is there already: nothing is needed. 0: it is to be
 * made. */
int fm_sink_look_at(struct fm_sink *s, const void *pack, size_t len, struct fm_err *err);

/* It looks no more: what was compared so far is made. 0 also if it did not look. */
int fm_sink_build(struct fm_sink *s, struct fm_err *err);

/* Everything came: is_same and the counts, if it still looks and nothing differs; else it is made.
 * is_durable: what is the same is to be synced, of which this does what is mounted in it. */
int fm_sink_settle_look(struct fm_sink *s, bool is_durable, struct fm_err *err);

/* ---- sink_apply.c ---- */

/* Makes what a pack says, without looking for differences first; as apply() of the table. */
int fm_sink_make(struct fm_sink *s, const void *pack, size_t len, uint8_t *bits, size_t *count,
		 struct fm_err *err);

/* As fm_pack_next(); of an offer a large file's extended attributes, which stand in front of it,
 * are the offer's too. e: the entry before, at first zeros. */
int fm_sink_next(struct fm_pack_reader *r, struct fm_pack_entry *e);

/* Whether the attributes belong to the offer behind them. */
bool fm_sink_is_offered_next(struct fm_pack_reader r, const struct fm_pack_entry *attr);

/* Sets owner and mode of an entry as the store demands, unless the entry may decide itself. */
void fm_sink_adapt(const struct fm_sink *s, struct fm_pack_entry *e);

/* ---- sink_dirs.c ---- */

/* The descriptor of a directory (len 0: the root), or -errno. The cache owns it. */
int fm_sink_dir_find(struct fm_sink_dir *d, const char *path, size_t len);

/*
 * Finds the place of a path below data, and makes its directories. The path was checked (pack.h).
 */
int fm_sink_at(struct fm_sink_call *call, const char *path, size_t len, struct fm_sink_at *out);

/*
 * A name that is taken: 0 if it is taken by exactly these bytes, -ENOTUNIQ if by another that the
 * file system takes for the same.
 */
int fm_sink_check_name(struct fm_sink_call *call, const struct fm_sink_at *at);

/* The error for a name that is taken by an entry of another kind. */
int fm_sink_clash(struct fm_sink_call *call, const struct fm_sink_at *at);

void fm_sink_dir_close(struct fm_sink_dir *d);

/* ---- sink_attr.c ---- */

/* The mode that it gets: a directory may have the set-group-ID bit, which no entry has. */
mode_t fm_sink_mode(const struct fm_sink *s, const struct fm_pack_entry *e);

/* The mode to create a regular file with; *is_final: it needs no other one later. */
mode_t fm_sink_create_mode(const struct fm_sink *s, const struct fm_pack_entry *e, bool *is_final);

/* The digest of a small file from its CRC contributions, or NULL if none are kept. */
const struct fm_digest *fm_sink_digest(const struct fm_sink *s, const struct fm_pack_entry *e,
				       uint32_t crc, struct fm_digest *out);

/* Digest (NULL: none is known), mode (unless is_final) and time. fd is open, not O_PATH. */
int fm_sink_set_mode(struct fm_sink *s, int fd, const struct fm_pack_entry *e,
		     const struct fm_digest *digest, bool is_final, struct fm_err *err);

/* The same, and extended attributes and owner if they are kept. */
int fm_sink_set_attrs(struct fm_sink *s, int fd, const struct fm_pack_entry *e,
		      const struct fm_digest *digest, bool is_final, struct fm_err *err);

/* Whether what is open has exactly the entry's extended attributes. 1, 0, -errno. */
int fm_sink_has_xattrs(int fd, const struct fm_pack_entry *e);

/* What name a file has, and what it was when it was looked at. */
struct fm_sink_seen {
	int dir;
	const char *name;
	const struct stat *st;
};

/* Whether a file has exactly what the entry says: mode, owner and extended attributes, where they
 * are kept. 1, 0, -errno. */
int fm_sink_has_attrs(const struct fm_sink *s, const struct fm_sink_seen *seen,
		      const struct fm_pack_entry *e);

/* ---- sink_file.c ---- */

/* A whole small file, or a piece of one. */
int fm_sink_file(struct fm_sink_call *call, const struct fm_pack_entry *e);

/* A file that is offered: 1: it is there now. 0: it has to come. */
int fm_sink_offer(struct fm_sink_call *call, const struct fm_pack_entry *e);

/* Whether a file has that time, as the file system keeps it: some round it, or have no such
 * year. */
bool fm_sink_has_time(struct fm_sink *s, const struct stat *st, int64_t mtime_ns);

/* 1: a regular file with that size and time is there. 0: it is another. -errno; -EPROTO: it is no
 * file. */
int fm_sink_is_complete(struct fm_sink_call *call, const struct fm_sink_at *at,
			const struct fm_pack_entry *e);

/* Note a file as made; logs first if there are too many. */
int fm_sink_finished(struct fm_sink_call *call, const struct fm_pack_entry *e, uint32_t crc);

/* ---- sink_pieces.c ---- */

int fm_sink_piece(struct fm_sink_call *call, const struct fm_sink_at *at,
		  const struct fm_pack_entry *e);
/* a file is not whole: its path, cut to len - 1 bytes */
bool fm_sink_has_pieces(struct fm_sink *s, char *path, size_t len);
void fm_sink_free_pieces(struct fm_sink *s);

/* ---- sink_resume.c ---- */

/* 1: the file is in data, from an earlier try, and was read again. 0: it is not, and has to
 * come. */
int fm_sink_resume(struct fm_sink_call *call, const struct fm_sink_at *at,
		   const struct fm_pack_entry *e);

/* The same for a large file of which a part may be there: *have. Nobody has looked at that yet. */
int fm_sink_resume_part(struct fm_sink_call *call, const struct fm_sink_at *at,
			const struct fm_pack_entry *e, struct fm_have *have);

/* ---- sink_reuse.c ---- */

/* 1: the file was taken from the version that is replaced (dry: could be). 0: it has to come. */
int fm_sink_reuse(struct fm_sink_call *call, const struct fm_sink_at *at,
		  const struct fm_pack_entry *e);

/* 1: the old version has exactly that file, and it can be taken over by hard link. */
int fm_sink_is_same_file(struct fm_sink_call *call, const struct fm_pack_entry *e);

/* ---- sink_meet.c ---- */

enum fm_sink_met { FM_SINK_MET_NOTHING, FM_SINK_MET_OTHER, FM_SINK_MET_SAME };

/*
 * Compares an entry with what has its name in the old version. MET_SAME is never returned for a
 * file: only reading tells. -EEXIST: it is of another kind, and may not be replaced. Or another
 * error.
 */
int fm_sink_meet(struct fm_sink_call *call, const struct fm_pack_entry *e);

/* The same in a dry run, and it is counted. is_same: of a file. */
int fm_sink_meet_dry(struct fm_sink_call *call, const struct fm_pack_entry *e, bool is_same);

/* "PATH is a directory there ...": -EEXIST. */
int fm_sink_refuse_kind(const struct fm_sink *s, const char *path, size_t len, bool is_dir_there,
			struct fm_err *err);

/* ---- sink_merge.c ---- */

/*
 * Before anything is made: how many names the old version has. What cannot be read of it, or is
 * another file system, is refused if all of it is to stay. Whoever calls it second waits for the
 * first.
 */
int fm_sink_survey(struct fm_sink *s, struct fm_err *err);

/* How many names the old version has, without a look at each of them. is_durable: file systems that
 * are mounted in it are synced. */
int fm_sink_count_old(struct fm_sink *s, bool is_durable, uint64_t *names, struct fm_err *err);

/* In a dry run: a name that came is in the old version, too. */
void fm_sink_foreign_met(struct fm_sink *s, const char *path, size_t len);

/* Dry run, when all names came: -EPERM: something is only in the old version, and could not be
 * kept. */
int fm_sink_refuse_foreign(struct fm_sink *s, struct fm_err *err);

/*
 * After the last entry: entries that only the old version has are taken over, or counted as
 * removed.
 */
int fm_sink_merge(struct fm_sink_call *call);

/* Dry run: what is in a directory of the old version goes with it. Counted, and named. */
int fm_sink_lose_dir(struct fm_sink_call *call, const char *path, size_t len);

/* Dry run: what only the old version has is named. */
int fm_sink_name_unmet(struct fm_sink *s, struct fm_err *err);

/* The totals, and whether there is anything to publish. */
void fm_sink_settle(struct fm_sink *s);

/*
 * The new version has the name; the replaced one that of `name` in `dir`. What appeared in that one
 * since it was looked through is taken over. An error: not all could be. *has_changed: something
 * was, also then.
 */
int fm_sink_merge_late(struct fm_sink *s, int dir, const char *name, bool *has_changed,
		       struct fm_err *err);

/*
 * A try died after it had the final name, and what it replaced is beside that under `name`: whether
 * all of that is in the new version, or was there before the try began, so that this took it from
 * there or put something else in its place. False: or nobody can say.
 */
bool fm_sink_is_taken_over(struct fm_sink *s, const char *name,
			   const struct fm_staging_state *state);

/* ---- sink_carry.c ---- */

/* The directories that were taken over get what the old ones have: when nothing is made in them any
 * more. Once the tree has its final name, those behind one that fails do, too. */
int fm_sink_finish_carried(struct fm_sink_call *call);

/* ---- sink_manifest.c ---- */

/* Begin it, in the staging directory; where the file system cannot have one there is none. */
int fm_sink_begin_manifest(struct fm_sink *s);

/* A file that is there now. crc: CRC32C of its content; NULL: not known. */
int fm_sink_list_file(struct fm_sink_call *call, const struct fm_pack_entry *e,
		      const uint32_t *crc);

/* A hard or symbolic link that is there now. */
int fm_sink_list(struct fm_sink_call *call, const struct fm_pack_entry *e);

/* The tree is beside its final name: so is its manifest now. One that would be too large is left
 * out, which is noted. */
int fm_sink_place_manifest(struct fm_sink *s, struct fm_err *err);

/* The tree was not published. Best effort. */
void fm_sink_drop_manifest(struct fm_sink *s);

/* ---- sink_log.c ---- */

/* -ENOBUFS: too many wait for log(). entry->path is copied. */
int fm_sink_made(struct fm_sink *s, const struct fm_journal_entry *entry);
/* The same for a file of which ranges may be in the journal: those count no more. Best effort. */
void fm_sink_made_anew(struct fm_sink *s, const struct fm_journal_entry *entry);
int fm_sink_log(struct fm_sink *s, struct fm_err *err);
/*
 * Strikes a file from the journal, because the journal is wrong. This comes before the file is made
 * again.
 */
int fm_sink_forget(struct fm_sink *s, const char *path, size_t len, struct fm_err *err);
void fm_sink_free_made(struct fm_sink *s);

/* ---- the table's functions ---- */

int fm_sink_apply(struct fm_tree *t, const void *pack, size_t len, uint8_t *bits, size_t *count,
		  struct fm_err *err);
int fm_sink_create_large(struct fm_tree *t, const struct fm_tree_large *how, int *fd,
			 struct fm_have *have, struct fm_err *err);
int fm_sink_wrote_large(struct fm_tree *t, const struct fm_journal_entry *entry,
			struct fm_err *err);
int fm_sink_seal_large(struct fm_tree *t, const struct fm_tree_large *how, int fd,
		       const struct fm_digest *digest, struct fm_err *err);
int fm_sink_prepare(struct fm_tree *t, bool is_durable, struct fm_err *err);
int fm_sink_publish(struct fm_tree *t, bool is_durable, struct fm_err *err);
void fm_sink_keep(struct fm_tree *t);
void fm_sink_discard(struct fm_tree *t);

static inline struct fm_sink *fm_sink_of(struct fm_tree *t)
{
	return fm_container_of(t, struct fm_sink, tree);
}

#endif
