/* SPDX-License-Identifier: MIT */
/*
 * source_priv - inside of the source of a tree: what its files share.
 *
 * tree_source.c has the functions of the table, source_work.c hands out work (batches of names),
 * source_put.c makes entries of it, source_sent.c remembers what was sent. The happy path of one
 * fill():
 *   - take a batch: what others left over, else what the far end asked for, else the next names of
 * the walk;
 *   - put each item into the pack, until one has no room: the rest is left over for the next fill;
 *   - keep the outline of the pack until it is acknowledged.
 *
 * Locks, each innermost where it is taken: `walk_lock` is held while directories are read; `lock`
 * guards everything else and is never held across a call that may wait for a disk.
 */
#ifndef FM_TREE_SOURCE_PRIV_H
#define FM_TREE_SOURCE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/tree/exclude.h"
#include "mover/tree/hardlinks.h"
#include "mover/tree/pack.h"
#include "mover/tree/reading.h"
#include "mover/tree/scan.h"
#include "mover/tree/tree.h"
#include "mover/tree/xattrs.h"

#define FM_SOURCE_BATCH_MAX 32		/* names that one fill takes at once */
#define FM_SOURCE_BATCH_DIRS_MAX 8	/* of them directories, which stay open */
#define FM_SOURCE_NAMES_LEN 8192u
#define FM_SOURCE_UNANSWERED_MAX 64	/* offering packs that the far end has not answered */
/* of a pack's buffer: room for the longest paths, and more */
#define FM_SOURCE_LEN_MIN (32u << 10)
#define FM_SOURCE_SCRATCH_LEN (256u << 10)

/* One name to be sent, or the rest of a file. */
struct fm_source_item {
	/* it is in (a directory: itself), or NULL: name is the whole path */
	struct fm_scan_dir *dir;
	struct fm_reading *file;	/* once it was opened */
	uint64_t from;			/* the file's first byte that is not in a pack yet */
	const char *name;		/* in the batch's names, terminated */
	size_t name_len;
	unsigned char type;		/* DT_DIR, DT_LNK, DT_REG */
	/* it was offered with the following, and the far end asked for it */
	bool is_wanted;
	bool is_large;
	uint64_t size;
	int64_t mtime_ns;
	bool is_compared;		/* also by the next one: fm_tree.is_compared */
	int64_t ctime_ns;
};

struct fm_source_batch {
	struct fm_list link;		/* while it is left over */
	unsigned at;			/* the next item */
	unsigned count;
	/* its files go with their data; else as the walk found them */
	bool is_data;
	struct fm_source_item items[FM_SOURCE_BATCH_MAX];
	size_t names_len;
	char names[FM_SOURCE_NAMES_LEN];
};

struct fm_source_large {
	struct fm_list link;
	struct fm_tree_large file;
};

enum fm_source_mode {
	FM_SOURCE_ANY,			/* not decided: the pack is empty */
	FM_SOURCE_DATA,			/* a pack of an offering transfer that carries data ... */
	FM_SOURCE_OFFER,		/* ... or that offers */
	FM_SOURCE_ALL,			/* nothing is offered in this transfer */
};

/* One call of fill(). Kept for the next one, since it is large. */
struct fm_source_fill {
	struct fm_list link;		/* while it is idle */
	struct fm_source *source;
	struct fm_pack_writer w;
	enum fm_source_mode mode;
	bool is_active;			/* holds work, which may come back as left over */
	unsigned offers;		/* in the pack */
	int64_t ctimes[FM_TREE_OFFERS_MAX];	/* of what is offered, by entry */
	struct fm_source_batch *batch;	/* or NULL */
	struct fm_tree_count found;	/* by this call */
	struct fm_err *err;
	char path[FM_TREE_PATH_MAX + 1];	/* of the item at hand, terminated */
	size_t path_len;
	char target[FM_TREE_PATH_MAX + 1];
	struct stat st;			/* of an item that was not opened */
	struct fm_xattrs *xattrs;	/* allocated when it is needed, ... */
	uint8_t *scratch;		/* ... this too: FM_SOURCE_SCRATCH_LEN */
};

/* A pack that was filled, until it is acknowledged and, if it offers, answered and what it offered
 * was sent. */
struct fm_source_sent {
	struct fm_source_sent *next;	/* in its bucket */
	/* the table, the list of what is needed, a fill that makes it again */
	unsigned refs;
	uint64_t seq;
	bool is_acked;
	bool is_answered;		/* or it offered nothing */
	uint32_t count;			/* entries */
	uint8_t offered[FM_TREE_OFFERS_MAX / 8];
	struct fm_list link;		/* in what is needed */
	uint8_t wanted[FM_TREE_OFFERS_MAX / 8];
	struct fm_pack_reader r;	/* at the next entry that may be wanted */
	const int64_t *ctimes;		/* of what was offered, by entry; NULL: not kept */
	size_t len;
	uint8_t outline[] __attribute__((aligned(8)));
};

#define FM_SOURCE_SENT_BUCKETS 256

/* Things that were not sent as they are. */
enum fm_source_note {
	FM_SOURCE_NOTE_HARD_LINKS,	/* files of several names became several files */
	FM_SOURCE_NOTE_RESERVED,	/* names that no far end takes were left out */
	FM_SOURCE_NOTES
};

#define FM_SOURCE_NOTE_LEN 256u		/* all of them, one behind the other */

struct fm_source {
	struct fm_tree tree;
	struct fm_log_limit corrupt_lines;	/* of files that are taken all the same */
	bool is_offering;
	bool has_checksums;
	bool has_owners;
	bool is_dry;
	bool follows_links;
	bool accepts_corrupt;
	struct fm_exclude exclude;
	struct fm_scan_dir *root;

	pthread_mutex_t walk_lock;
	struct fm_scan *scan;

	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a fill let go of its work, stop() */
	unsigned waiting;		/* fills that wait for it */
	unsigned active;		/* fills that hold work */
	atomic_bool is_stopped;
	/* the first error: what was taken then is lost, so the transfer is */
	struct fm_err failed;
	bool is_walked;
	size_t per_item;		/* bytes that one item takes in a pack, on the average */
	struct fm_list left_data;	/* batches */
	struct fm_list left_walk;
	struct fm_list needed;		/* sent packs of which something is wanted */
	struct fm_source_sent *sent[FM_SOURCE_SENT_BUCKETS];
	unsigned unanswered;
	struct fm_list larges;
	unsigned larges_count;
	struct fm_hardlinks hardlinks;
	struct fm_tree_count count;
	bool is_noted[FM_SOURCE_NOTES];
	/* tree.note is read without the lock, so each stays as it is: the n-th says n things */
	char notes[FM_SOURCE_NOTES][FM_SOURCE_NOTE_LEN];
	unsigned notes_said;
	struct fm_list idle;		/* struct fm_source_fill */
};

/* ---- source_put.c ---- */

enum fm_source_put {
	FM_SOURCE_PUT = 0,		/* the item is done */
	FM_SOURCE_FULL = 1,		/* it has no room in this pack */
	FM_SOURCE_BLOCKED = 2,		/* it is a large file and too many of them wait */
};

/* Put an item into the fill's pack: enum fm_source_put, or an error with a text in f->err. */
int fm_source_put(struct fm_source_fill *f, struct fm_source_item *it);

/* Make what the outline says again. The same bytes, or an error with a text in f->err. */
int fm_source_put_again(struct fm_source_fill *f, const struct fm_source_sent *sent);

/* ---- source_work.c ---- */

/* Whether the fill may go on: 0, or the error of all calls from now on, with its text in f->err.
 * The lock is held. */
int fm_source_check_state(struct fm_source_fill *f);

/*
 * Work for this fill: 1, and f->batch. 0: none, and the pack is to be sent as it is, or, if it is
 * empty, there will never be any. -EAGAIN: the pack is empty, and it waits for the engine. Or an
 * error, with its text in f->err. Waits for the other fills: what they leave over may be the last.
 */
int fm_source_take_work(struct fm_source_fill *f);

/* Gives the rest of the batch back; it comes before all other names. */
void fm_source_leave_batch(struct fm_source_fill *f);

/* Tell who reads the tree's note, once for each. Takes the lock. */
void fm_source_note(struct fm_source *s, enum fm_source_note what);

/* The fill holds no work any more. The lock is held. */
void fm_source_become_idle(struct fm_source_fill *f);

/* Something is there to do for fills that wait. The lock is held. */
void fm_source_wake(struct fm_source *s);

void fm_source_item_free(struct fm_source_item *it);
void fm_source_batches_free(struct fm_list *head);

/* Others go on with the item's file at `from`. -ENOMEM. */
int fm_source_leave_rest(struct fm_source_fill *f, const struct fm_source_item *it, uint64_t from);

/*
 * The item's file, f->path, becomes a transfer of its own; its descriptor is taken. FM_SOURCE_PUT,
 * FM_SOURCE_BLOCKED or -ENOMEM.
 */
int fm_source_add_large(struct fm_source_fill *f, struct fm_source_item *it, bool has_holes);

/* Whether f->path is a further name of a file: 1, and the first one is in f->target, *len bytes. 0:
 * no. -ENOMEM. */
int fm_source_meet_hardlink(struct fm_source_fill *f, const struct fm_hardlink_id *id,
			    size_t *len);

/* ---- source_sent.c; the lock is held but for new ---- */

/*
 * Remembers a pack for fill() and need() of the same number, with one reference. ctimes: one for
 * each entry, copied; or NULL. NULL: no memory.
 */
struct fm_source_sent *fm_source_sent_new(uint64_t seq, const void *pack, size_t len,
					  bool is_offer, const int64_t *ctimes);

/* The slot of a pack number in the table. *slot is NULL if the number is not there. */
struct fm_source_sent **fm_source_sent_slot(struct fm_source *s, uint64_t seq);

void fm_source_sent_put(struct fm_source_sent *sent);

/* Out of the table, if nobody will ask for it by its number any more. */
void fm_source_sent_settle(struct fm_source *s, struct fm_source_sent *sent);

static inline void fm_source_set_bit(uint8_t *bits, size_t i)
{
	bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
}

static inline bool fm_source_has_bit(const uint8_t *bits, size_t i)
{
	return ((unsigned)bits[i / 8] >> i % 8 & 1u) != 0;
}

#endif
