/* SPDX-License-Identifier: MIT */
/*
 * store - where bytes come from and go to: a named directory of this node, or the files that a
 * local caller handed over.
 *
 * Calls of fm_store_ops and the slow calls of fm_file_ops may block: the engine makes them on a
 * worker's thread. read() and write() are asynchronous, on a lane. One file is read and written by
 * several lanes at once, never at the same offset.
 */
#ifndef FM_STORE_H
#define FM_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/dirway.h"
#include "mover/base/err.h"
#include "mover/base/group_id.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/journal/journal.h"
#include "mover/store/sync.h"

struct fm_buffer;
struct fm_file;
struct fm_store;
struct fm_digest;
struct fm_giving_up;
struct fm_holder;
struct fm_loop;
struct fm_tree;
struct fm_verify;

/* bytes of a path below its store, without the terminator */
#define FM_PATH_LEN_MAX 4095
#define FM_NAME_LEN_MAX 255
#define FM_SHARED_LEN_MAX 63		/* of the ID of a store that several nodes have */
#define FM_GROUP_EXPECT_MAX 32768	/* bytes of the names that one expects */
#define FM_SIZE_UNKNOWN UINT64_MAX	/* a stream */
#define FM_SIZE_LIMIT ((uint64_t)INT64_MAX)

enum fm_node_type { FM_NODE_FILE = 1, FM_NODE_DIR = 2, FM_NODE_LINK = 3, FM_NODE_OTHER = 4 };

/* What is known of a file or directory. */
struct fm_attr {
	enum fm_node_type type;
	uint64_t size;			/* bytes, or FM_SIZE_UNKNOWN */
	uint32_t mode;			/* permission bits only, 0777; set-id bits never travel */
	int64_t mtime_ns;		/* since 1970 */
	bool has_holes;			/* fewer blocks than bytes */
	/* What tells it from any other file, with size and mtime. All 0: nothing does (a
	 * stream). */
	uint64_t dev;
	uint64_t ino;
	int64_t ctime_ns;
	/* What a sink keeps with the file, to publish() and prepare() only: CRCs of what was
	 * written. NULL: not known. */
	const struct fm_digest *digest;
};

/*
 * Operations of one loop that ended inside the call that started them (memory and null stores move
 * bytes with the CPU): their done() is called from a task, so that it never nests. One per lane,
 * initialised once, on the lane's thread from then on.
 */
struct fm_done_list {
	struct fm_task task;
	struct fm_list ended;
	struct fm_loop *loop;
};

void fm_done_list_init(struct fm_done_list *list, struct fm_loop *loop);

/* How a lane does its I/O. */
struct fm_lane_io {
	struct fm_loop *loop;
	struct fm_ring *ring;		/* NULL in the simulator */
	struct fm_done_list *done;	/* of this loop; NULL in the simulator */
	unsigned index;			/* which of the lanes it is */
};

/* held_file.c has one of each. */
struct fm_file_ops {
	/*
	 * Lane. As fm_ring_read() and fm_ring_write(), but io->fd is the file's business. io->buf
	 * is page-aligned with room for io->len rounded up to FM_BLOCK, for reads too: an odd
	 * length is moved in whole blocks (what lies behind it in the buffer is lost). io->offset
	 * is a multiple of the chunk size or, in a file with holes, of FM_BLOCK. A read up to the
	 * end of file may be asked for with len rounded up; io->res is then the bytes that are
	 * there. io->res of a write is io->len, never the padded length. A tree's io->offset is the
	 * number of a pack; see tree_file.h.
	 */
	/* of a sink: NULL: it cannot be read back */
	void (*read)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);
	void (*write)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);

	/* Give up a read or write that may wait for ever (streams); NULL if none can. */
	void (*cancel)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);

	/*
	 * Worker, sink only, while nothing else is written: the first len bytes, within the call.
	 * 0 or a negative errno. buf as in write(). NULL: lanes only.
	 */
	int (*write_now)(struct fm_file *file, void *buf, uint32_t len);

	/*
	 * The next stretch of data at or behind offset: [*from, *to), block-aligned but at the end
	 * of file. *from == size: holes only from here. Any lane, one call at a time; may wait for
	 * a disk. NULL: no holes, all data.
	 */
	int (*next_data)(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to);

	/*
	 * Worker. Whether the source is still what it was when opened: -ESTALE and a text if not.
	 * NULL: cannot change.
	 */
	int (*check_unchanged)(struct fm_file *file, struct fm_err *err);

	/*
	 * Lane. A tree: pack number `offset` is written at the far end. NULL: nothing to be told.
	 * Quick.
	 */
	void (*acked)(struct fm_file *file, uint64_t offset);

	/*
	 * Any thread. Why the first read or write failed, where an errno does not say it all. NULL:
	 * it does. *err is untouched if nothing failed.
	 */
	void (*why)(struct fm_file *file, struct fm_err *err);

	/*
	 * Worker, sink only; once, before log(). The source is this one: what of it is there
	 * already goes to *have (zeroed before; the caller's to free), and what is there of another
	 * source, or cannot be trusted, is dropped; `resume_note` says why. Nothing is written
	 * before it is through. NULL: it cannot be gone on with.
	 */
	int (*begin)(struct fm_file *file, const struct fm_identity *source, struct fm_have *have,
		     struct fm_err *err);

	/*
	 * Worker, sink only, once, behind begin() and before the first write: a file whose size was
	 * not known when it was made will have so many bytes, and no holes. -ENOSPC, with the
	 * numbers, if what is missing of them has no room. NULL: nobody could say.
	 */
	int (*make_room)(struct fm_file *file, uint64_t size, struct fm_err *err);

	/*
	 * Any thread, sink only, quick: whether it takes a file of so many bytes: -EFBIG, with both
	 * sizes. NULL: as large as it may be.
	 */
	int (*check_size)(const struct fm_file *file, uint64_t size, struct fm_err *err);

	/*
	 * Worker, sink only, beside writes and log(), not beside itself: read again what begin()
	 * said is there, from the disk and not from memory where that can be. *part: its
	 * contributions to the CRC of the whole. NULL: as begin.
	 */
	int (*reread)(struct fm_file *file, uint64_t offset, uint64_t len, uint32_t *part);

	/*
	 * Worker, sink only, beside writes, not beside itself. Sync, then write down that these
	 * stretches are there. A tree knows by itself what was made: count is 0 then. After a sync
	 * that failed nothing is written down, now and later. NULL: as begin.
	 */
	int (*log)(struct fm_file *file, const struct fm_written *written, size_t count,
		   struct fm_err *err);

	/*
	 * Worker, sink only. All of publish() that can fail for want of space or because of the
	 * disk, but not the final name; publish() with the same arguments, or keep(), or discard()
	 * follows. NULL: publish() does it all.
	 */
	int (*prepare)(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
		       bool is_durable, struct fm_err *err);

	/*
	 * Worker, sink only. Everything is written: set the size, sync if is_durable, set mode and
	 * mtime, publish under the final name (not for a caller's own file: the caller renames it).
	 * After an error the final name is as it was and keep() or discard() follows. Of a caller's
	 * file that is not the service's own, mode and mtime are left to the caller (who may set
	 * them) and `note` says so.
	 */
	int (*publish)(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
		       bool is_durable, struct fm_err *err);

	/* Worker, sink only, instead of publish or after it failed: remove the partial file. */
	void (*discard)(struct fm_file *file);

	/*
	 * The same, but leave it for the next try, if there is anything that the next try could
	 * use; else it is discarded. NULL: discard.
	 */
	void (*keep)(struct fm_file *file);

	/* Worker. No I/O in flight. By fm_file_close() or fm_file_give_up() only. Frees it; a sink
	 * that was neither published, kept nor discarded is discarded. */
	void (*close)(struct fm_file *file);
};

struct fm_file {
	const struct fm_file_ops *ops;
	const char *store;		/* its name, for what is said of errors; NULL: in none */
	/* read or written strictly in order, one operation at a time, FM_IO_STREAM */
	bool is_stream;
	bool is_direct;			/* O_DIRECT in use */
	/* its description is a caller's, too, and has other flags (O_DIRECT) until close() */
	bool has_other_flags;
	bool is_instant;		/* in memory: reads and writes are made within the call */
	bool is_ours;			/* memory of ours only: close() on any thread, at once */
	/*
	 * It may never answer: a stream, a file on such a file system (may_stand.h), a tree there,
	 * a caller's directory. It goes through memory of its own (beside.h).
	 */
	bool may_stand;
	bool has_fixed_size;		/* sink: size was known when created */
	/* sink: something is there of an earlier try; begin() says what */
	bool has_partial;
	/* source: its bytes lie here, each at its offset, as long as it is open, and may be sent
	 * from here; NULL: they have to be read */
	const char *memory;
	/* what that is a part of, and stays as long; NULL: nothing that is known (buffer.h) */
	struct fm_buffer *buffer;
	/*
	 * sink: the first `room` bytes are to come here, each at its offset, as long as it is open;
	 * the others are written. NULL: all are
	 */
	char *place;
	uint64_t room;
	/* source: of its bytes as they came, if nobody wrote since, or damaged; NULL: not known.
	 * The file's */
	const struct fm_digest *kept;
	/* not NULL: a directory; what is read and written are packs, one a chunk */
	struct fm_tree *tree;
	/* NULL, or why something is not as asked ("buffered: tmpfs has no O_DIRECT") */
	const char *note;
	/* NULL, or why begin() dropped what was there; the file's */
	const char *resume_note;
	struct fm_sync sync;		/* sink; of a tree's `tree` has it */
	/*
	 * NULL, or who has its descriptors: what is for a worker is for the one of that holder
	 * then, and next_data() for fm_held_file_look(). A reference.
	 */
	struct fm_holder *holder;
	struct fm_giving_up *giving_up;	/* held_file.c's */
};

/*
 * Any thread. Sink: 0, or the error of a sync that failed, whatever call made it. What that covered
 * is unknown for ever: nothing of it counts, and only discard() and close() follow.
 */
int fm_file_sync_error(const struct fm_file *file);

struct fm_create {
	uint64_t size;			/* or FM_SIZE_UNKNOWN */
	bool is_dense;			/* no holes: room is reserved before the first byte */
	bool may_replace;		/* asked for (--force); the store may allow it by itself */
	bool is_resumable;		/* the source can be told from others: begin() follows */
	/* durable: what log() writes down is on the disk first, and so is what has the name
	 * already, with its name, when that is the reason for -EEXIST */
	bool is_synced;
	/* NULL, or the ID of the group of which it becomes a member: group() */
	const uint8_t *group;
};

/* A tree that is to come into a store. */
struct fm_create_tree {
	struct fm_identity source;	/* of its root */
	bool may_replace;
	/* with is_update: what only the version that is replaced has goes; else it is kept */
	bool is_delete;
	/* what is unchanged comes from the version that is replaced ... */
	bool is_update;
	bool has_checksums;		/* ... by content */
	bool has_any_mode;		/* ... and may keep the mode that it has there */
	bool is_dry;			/* answer offers, change nothing */
	bool is_durable;
	bool has_names;			/* which names it adds, replaces and removes is asked for */
	/* CRC32Cs are computed, so they may be kept with the files */
	bool has_digests;
	bool is_measured;		/* a dry run of it said how many ... */
	/* ... that its files will take at least. If not, its source says; 0: not known */
	uint64_t bytes;
	const uint8_t *group;		/* as in struct fm_create */
};

enum fm_group_op {
	FM_GROUP_BEGIN,
	FM_GROUP_CHECK,			/* whether a commit would do it now */
	FM_GROUP_COMMIT,
	FM_GROUP_DISCARD
};

#define FM_GROUP_NAMES_LEN 512		/* FM_WIRE_GROUP_NAMES_MAX */

/* Members of a group: how many, and the first names of them, one a line; none that has a line
 * break. */
struct fm_group_names {
	uint32_t count;
	char text[FM_GROUP_NAMES_LEN + 1];
};

/* What is asked of a publication group: members that get their place in one step. */
struct fm_group_ask {
	enum fm_group_op op;
	/* a secret, drawn by who begins it */
	uint8_t id[FM_GROUP_ID_LEN];
	bool may_replace;		/* a directory that has the path */
	uint64_t expires_s;		/* BEGIN: it ends then; 0: as the store says */
	/* What is expected, for a commit. Either may be said with BEGIN already. */
	uint32_t members;		/* names directly below the path; 0: not said */
	/* paths below it, one a line; NULL if expect_len is 0 */
	const char *expect;
	size_t expect_len;
	/* CHECK, COMMIT: which are missing, of -ENODATA; NULL: nobody wants to know */
	struct fm_group_names *missing;
};

struct fm_who {
	const char *peer;		/* name of the peer that asks; NULL: a local caller */
	/* the local caller's, or what the peer says its caller's is */
	uid_t uid;
	gid_t gid;
};

/* What a store's rules say of users of this machine, apart from peers: see access.h. */
enum fm_access_kind {
	FM_ACCESS_ALL,			/* "*": no ID, and the name is "" */
	FM_ACCESS_USER,
	FM_ACCESS_GROUP,
	FM_ACCESS_KINDS
};

typedef void fm_access_user(void *ctx, enum fm_access_kind kind, uint32_t id, const char *name);

struct fm_list_opts {
	const char *after;		/* names behind this one only; "" from the start */
	size_t max;
};

struct fm_entry {
	char name[FM_NAME_LEN_MAX + 1];
	struct fm_attr attr;
	/* partials(): bytes it will have; FM_SIZE_UNKNOWN; else 0 */
	uint64_t whole;
};

/* What a store has room for. Bytes. */
struct fm_store_space {
	uint64_t size;			/* of its file system; UINT64_MAX: no limit */
	/* what may still come: of the file system, and of the quota */
	uint64_t free;
	uint64_t used;			/* against the quota; without one: of the file system */
	uint64_t quota;			/* 0: none */
	uint64_t promised;		/* to transfers that run, and not there yet */
	/* goes with the directories that were replaced and are kept for a while ... */
	uint64_t aside;
	uint32_t trees;			/* ... which are so many */
	/* not all of the store was looked through yet: there may be more */
	bool is_counting;
	/* what its rules allow who asks; of a store that he may only write to nothing else is
	 * said */
	bool may_read;
	bool may_write;
	/* for so long its file system has not said it, or why it cannot (a positive errno): there
	 * are no numbers; 0: it did */
	uint64_t silent_ns;
	uint16_t code;
};

#define FM_ROTATED_MAX 128u		/* what one rotation removes: FM_WIRE_ENTRIES_MAX */
#define FM_KEEP_LAST_MAX 1000u

#define FM_SPACE_ASIDE_MAX 8u		/* of one page: FM_WIRE_ASIDE_MAX */

/* A directory that was replaced. */
struct fm_aside {
	uint64_t bytes;			/* that go with it */
	int64_t since_ns;		/* since 1970 */
	char path[FM_PATH_LEN_MAX + 1];	/* below the store */
};

struct fm_space_page {
	struct fm_store_space space;
	struct fm_aside aside[FM_SPACE_ASIDE_MAX];
	size_t count;
	bool is_more;
};

#define FM_GROUP_PAGE_MAX 4u		/* of one page: FM_WIRE_GROUPS_MAX */
#define FM_GROUP_PEER_MAX 64

/* What is said of an open group; never its ID. */
struct fm_group_view {
	char path[FM_PATH_LEN_MAX + 1];
	char peer[FM_GROUP_PEER_MAX + 1];	/* whose user began it; "": a local caller */
	uint32_t uid;
	int64_t begun_ns;		/* since 1970 */
	int64_t expires_ns;
	bool may_replace;
	uint32_t expected;		/* names directly below the path; 0: not said */
	struct fm_group_names there, coming, missing;
};

struct fm_group_page {
	struct fm_group_view group[FM_GROUP_PAGE_MAX];
	size_t count;
	bool is_more;
};

typedef int fm_store_purge(struct fm_store *s, const char *after, const struct fm_who *who,
			   bool is_dry, struct fm_space_page *out, struct fm_err *err);

/*
 * Worker, all of them. Paths are below the store, without leading slash; "" is the store itself.
 * Errors: see store/README.md.
 */
struct fm_store_ops {
	int (*open_source)(struct fm_store *s, const char *path, const struct fm_who *who,
			   struct fm_file **out, struct fm_attr *attr, struct fm_err *err);
	/* A regular file by its descriptor, open for reading; the caller's. NULL: it has none. */
	int (*open_fd)(struct fm_store *s, const char *path, const struct fm_who *who,
		       struct fm_err *err);
	/*
	 * Whether an absolute path without symbolic links is in this store, and the caller may read
	 * it: true, and *below is the part of path that names it there. NULL: no path is.
	 */
	bool (*has_path)(struct fm_store *s, const char *path, const struct fm_who *who,
			 const char **below);
	/* Whether its rules let who asks on that peer read. Any thread, at once. NULL: nobody. */
	bool (*lets_peer)(struct fm_store *s, const char *peer);
	/*
	 * Whether its rules name groups: whom they let in is then looked up in the user database by
	 * rights(), which may wait for that without end. At once. NULL: no.
	 */
	bool (*asks_users)(struct fm_store *s);
	/* What its rules allow; of the file system nothing is asked. NULL: both, whoever asks. */
	void (*rights)(struct fm_store *s, const struct fm_who *who, bool *may_read,
		       bool *may_write);
	/*
	 * Those users and groups of this machine whom its rules let read all that is in it: on()
	 * for each. Any thread, at once. NULL, or nothing is told: its rights go by file, or there
	 * are no such rules.
	 */
	void (*readers)(struct fm_store *s, fm_access_user *on, void *ctx);
	int (*create)(struct fm_store *s, const char *path, const struct fm_who *who,
		      const struct fm_create *how, struct fm_file **out, struct fm_err *err);
	/*
	 * A directory as a whole, as a file whose `tree` is set (tree_file.h). attr->size: bytes
	 * that its files take at least; 0 or FM_SIZE_UNKNOWN: not known. excludes: patterns of what
	 * not to send, NULL-terminated, or NULL. NULL: this store has no directories.
	 */
	int (*open_tree)(struct fm_store *s, const char *path, const struct fm_who *who,
			 const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
			 struct fm_err *err);
	/*
	 * A descriptor of a directory, for reading below it by *at calls that follow no link: for
	 * who may read the store. Of a revision of a hub cache that is the whole cache, in which a
	 * list of its tree says what to read. NULL: this store has no directories.
	 */
	int (*open_dir)(struct fm_store *s, const char *path, const struct fm_who *who,
			struct fm_err *err);
	int (*create_tree)(struct fm_store *s, const char *path, const struct fm_who *who,
			   const struct fm_create_tree *how, struct fm_file **out,
			   struct fm_err *err);
	int (*stat)(struct fm_store *s, const char *path, const struct fm_who *who,
		    struct fm_attr *attr, struct fm_err *err);
	/*
	 * As stat(), but of a symbolic link itself. says: what it says; "" of anything else. NULL:
	 * it has no links.
	 */
	int (*look)(struct fm_store *s, const char *path, const struct fm_who *who,
		    struct fm_attr *attr, char says[static FM_PATH_LEN_MAX + 1],
		    struct fm_err *err);
	/* Sorted by bytes; *count entries into out. Fewer than max: that was the last. */
	int (*list)(struct fm_store *s, const char *path, const struct fm_who *who,
		    const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
		    struct fm_err *err);
	/*
	 * The same for unfinished transfers into that directory: the names they would get,
	 * attr.size: bytes there, attr.mtime_ns: when the last of them was written down. NULL:
	 * nothing is ever unfinished there.
	 */
	int (*partials)(struct fm_store *s, const char *path, const struct fm_who *who,
			const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
			struct fm_err *err);
	/*
	 * Remove what earlier transfers left and nobody has gone on with for too long. Takes its
	 * time; ends soon after *is_over. NULL: nothing is ever left.
	 */
	void (*sweep)(struct fm_store *s, const atomic_bool *is_over);
	int (*remove)(struct fm_store *s, const char *path, const struct fm_who *who,
		      bool is_recursive, struct fm_err *err);
	/* NULL: it has no end. */
	int (*space)(struct fm_store *s, const struct fm_who *who, struct fm_store_space *out,
		     struct fm_err *err);
	/*
	 * A page of what was replaced and is kept aside, the oldest first: it goes, and is told;
	 * is_dry: told only, those behind the path `after`. NULL: nothing is ever kept.
	 */
	fm_store_purge *purge;
	/* The same of what is unfinished, by its path. NULL: nothing ever is. */
	fm_store_purge *purge_partials;
	int (*mkdir)(struct fm_store *s, const char *path, const struct fm_who *who,
		     struct fm_err *err);
	/*
	 * One rename, on the disk when it returns 0 (if the store is durable). A name that is taken
	 * is -EEXIST; may_replace: a file or link takes the place of one.
	 * NULL: this store keeps no names.
	 */
	int (*move)(struct fm_store *s, const char *path, const char *to, const struct fm_who *who,
		    bool may_replace, struct fm_err *err);
	/*
	 * A symbolic link path that says `target`, which leads nowhere out of the store. A name
	 * that is taken is -EEXIST; may_replace: it takes the place of another link. NULL as above.
	 */
	int (*link)(struct fm_store *s, const char *path, const char *target,
		    const struct fm_who *who, bool may_replace, struct fm_err *err);
	/*
	 * link() that may replace, to a name beside it. -ESTALE: the link leads to what was
	 * published later. NULL: as link().
	 */
	int (*lead)(struct fm_store *s, const char *path, const char *published,
		    const struct fm_who *who, struct fm_err *err);
	/*
	 * The link path was led to `published`, a name beside it: of what it was led to by this the
	 * last `keep` stay. gone: FM_ROTATED_MAX entries, of which *count tell what went, also
	 * behind an error: that says what stays, and why. NULL as above.
	 */
	int (*rotate)(struct fm_store *s, const char *path, const char *published,
		      const struct fm_who *who, uint32_t keep, struct fm_entry *gone, size_t *count,
		      struct fm_err *err);
	/*
	 * A publication group that has the path, or is to get it (group.h). What create() and
	 * create_tree() make with its ID below the path are its members. NULL: this store has none.
	 */
	int (*group)(struct fm_store *s, const char *path, const struct fm_who *who,
		     const struct fm_group_ask *ask, struct fm_err *err);
	/* A page of those that are open, behind the path `after`, in order. NULL: it has none. */
	int (*groups)(struct fm_store *s, const char *after, const struct fm_who *who,
		      struct fm_group_page *out, struct fm_err *err);
	/* A thread of its own: it may take hours. Read all below path again; see verify.h. NULL:
	 * nothing is kept to compare with. */
	int (*verify)(struct fm_store *s, const char *path, const struct fm_who *who,
		      struct fm_verify *v, struct fm_err *err);
	/* Files that are open stay usable. */
	void (*free)(struct fm_store *s);
};

/* Names of hidden stores begin so, those of a configuration with no dot. Nodes alone say them: the
 * API takes none. */
#define FM_STORE_INTERNAL_PREFIX ".staging"

struct fm_store {
	const struct fm_store_ops *ops;
	char name[FM_NAME_LEN_MAX + 1];
	bool is_durable;		/* the store's default */
	bool is_hidden;			/* of a service: no configuration has it, nobody lists it */
	bool takes_small;		/* what create() makes has write_now(): see small_sink.h */
	dev_t device;			/* that it is on, as stat(2) has it; 0: none */
	bool may_stand;			/* its file system may never answer: see may_stand.h */
	ino_t inode;			/* of its directory there */
	struct fm_dirway way;		/* of its directory; of a silent one: where it was last */
	/* the stores of other nodes that have it, too, have the same bytes; "": none */
	char shared[FM_SHARED_LEN_MAX + 1];
	bool is_sealed;			/* ... which no node changes as long as it is called so */
	char written_by[65];		/* another node writes to it; "": none does */
	/*
	 * It is configured, and not open yet: its file system does not answer, or fails
	 * (silent_code; 0: no answer). It has the rights of peers and nothing else, and only who
	 * lists stores sees it: whom its rules mean by users and groups was not asked, since the
	 * user database may be what does not answer.
	 */
	bool is_silent;
	int silent_code;
	char silent_why[256];		/* in words, where the code says too little; else "" */
	bool is_asked_for;		/* a reload asks for what its path leads to now */
	bool is_of_users;		/* and its rules name some */
};

/* What a silent store may wait for, in words. */
static inline const char *fm_store_silent_what(const struct fm_store *store)
{
	return store->is_of_users ? "its file system, or the user database that its rules need,"
				  : "its file system";
}

/* For struct fm_work: the store, if its file system may never answer. */
static inline const void *fm_store_may_await(const struct fm_store *store)
{
	return store->may_stand ? store : NULL;
}

/* ---- the real stores (store_file.c, store_null.c, caller_file.c) ---- */

enum fm_store_owner { FM_OWNER_SERVICE, FM_OWNER_CALLER };

struct fm_store_opts {
	const char *name;
	const char *directory;		/* "null:" makes the benchmark's store */
	/* who: "*", "peer:NAME", "peer:*", "user:NAME", "group:NAME"; NULL-terminated */
	const char *const *read;
	const char *const *write;
	bool is_durable;
	bool may_replace;
	bool is_buffered;		/* never O_DIRECT */
	uint64_t quota_bytes;		/* 0: none */
	/* what an interrupted transfer left is swept after this long; 0: seven days */
	uint64_t partial_keep_ns;
	/* a tree that was replaced is kept this long; 0: removed at once */
	uint64_t old_keep_ns;
	/* a publication group ends after this long at most; 0: a day */
	uint64_t group_keep_ns;
	uint32_t group_limit;		/* groups that one user may have open; 0: 1024 */
	enum fm_store_owner owner;
	/* the directory's group may read what comes, wherever its owner may */
	bool is_for_group;
	bool is_hub;			/* a hub cache of Hugging Face: hub.h */
	const char *shared;		/* the ID of what other nodes have, too; NULL, "": none */
	bool is_sealed;			/* as of struct fm_store */
	const char *written_by;		/* likewise; NULL, "": no other node */
	bool is_silent;			/* likewise: the directory is not looked at */
	int silent_code;
};

/* The directory must exist. tmpfs directories become memory stores by themselves. Options are
 * copied. */
int fm_store_open(const struct fm_store_opts *opts, struct fm_store **out, struct fm_err *err);

/*
 * A descriptor that a local caller opened and passed; taken over, also on error. Regular files get
 * O_DIRECT where they can; pipes, terminals and sockets become streams; directories and devices are
 * refused. A sink must be empty. publish() syncs and sets mode and mtime but never renames. A small
 * source is read at once (snapshot.h).
 *
 * journal: -1, or the descriptor of a regular file, for reading and writing, in which is written
 * down what of a sink is there; taken over too. Then the sink, for reading and writing, may hold
 * what an earlier try left, as the journal says. Both are emptied if that is of no use, or by
 * discard().
 */
int fm_caller_source(int fd, struct fm_file **out, struct fm_attr *attr, struct fm_err *err);
int fm_caller_sink(int fd, int journal, const struct fm_create *how, struct fm_file **out,
		   struct fm_err *err);

/* The same of a regular file of a store (a large one of a tree), which is compared with what was
 * kept: `kept`. */
int fm_stored_source(int fd, bool is_buffered, struct fm_file **out, struct fm_attr *attr,
		     struct fm_err *err);

/* A source whose bytes stay in the page cache: for one that several transfers read at once. */
int fm_caller_source_buffered(int fd, struct fm_file **out, struct fm_attr *attr,
			      struct fm_err *err);

/* One of which it was seen before that the whole file is meant: the position of a regular file is
 * not asked again, since the caller and whoever else has the description may move it. */
int fm_caller_source_whole(int fd, bool is_buffered, struct fm_file **out, struct fm_attr *attr,
			   struct fm_err *err);

/*
 * For measuring: a source of `size` generated bytes (a function of the offset, not zeros), one that
 * leaves the buffer as it is (for the speed of everything else), and a sink that forgets
 * everything. In a null store the path of a source is its size: "64GiB", "1000000", or
 * "untouched/64GiB"; "cpu" is what this node's processors did (base/cpu_time.h).
 */
int fm_null_source(uint64_t size, struct fm_file **out, struct fm_attr *attr, struct fm_err *err);
int fm_null_source_untouched(uint64_t size, struct fm_file **out, struct fm_attr *attr,
			     struct fm_err *err);
int fm_null_sink(struct fm_file **out, struct fm_err *err);

/* The bytes of fm_null_source() at offset (a multiple of 8): for who wants to compare. */
void fm_null_fill(void *buf, uint64_t offset, size_t len);

#endif
