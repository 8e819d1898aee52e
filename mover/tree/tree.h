/* SPDX-License-Identifier: MIT */
/*
 * tree - one end of a directory that is transferred as a whole.
 *
 * What travels: *packs* (pack.h), each complete in itself, so that they may arrive in any order,
 * over any connection, twice; and *large files* (over FM_TREE_LARGE bytes, or with holes), each a
 * transfer of its own. A source makes packs by walking (nothing but the way from the root to the
 * current directory is held); a sink makes what they say in a directory of its own beside the final
 * name, and publishes it with one rename.
 *
 * A tree is reached through a table of functions, since an end may be a store of this node
 * (tree_source.c, tree_sink.c) or a caller's directory, which only the caller may read and write
 * (the same code in the caller's process, called over a socket: channel.h).
 *
 * All functions may wait for a disk, never for the peer; any thread, several at once unless said
 * otherwise. Numbers of packs (seq) count from 0.
 */
#ifndef FM_TREE_H
#define FM_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/base/ranges.h"
#include "mover/journal/journal.h"

struct fm_digest;
struct fm_tree;
struct fm_tree_names;

#define FM_TREE_LARGE (4u << 20)	/* files of more bytes travel by themselves */
#define FM_TREE_DEPTH_MAX 1024		/* directories in directories */
#define FM_TREE_PATH_MAX 4095		/* bytes of a path below the root */
#define FM_TREE_OFFERS_MAX 1024		/* entries of one offering pack */
/* large files found and not begun yet: the walk waits then */
#define FM_TREE_LARGE_WAITING_MAX 16
/* inodes with several names that are remembered, ... */
#define FM_TREE_HARDLINKS_MAX (256u << 10)
#define FM_TREE_HARDLINK_PATHS_MAX (64u << 20)	/* ... and bytes of their first names */
#define FM_TREE_EXCLUDES_MAX 64
#define FM_TREE_EXCLUDE_LEN_MAX 255
#define FM_TREE_XATTRS_MAX (64u << 10)	/* bytes of one entry's extended attributes */

/* Counts of what was found (source) or made (sink). */
struct fm_tree_count {
	uint64_t files;			/* regular ones, large ones too */
	uint64_t dirs;			/* below the root, which is not counted */
	uint64_t links;			/* symbolic */
	uint64_t hard_links;		/* further names of a file */
	uint64_t bytes;			/* of the files */
	uint64_t reused_files;		/* sink: taken from the version that is replaced ... */
	uint64_t reused_bytes;
	/* ... or there from an earlier try; source: offered, and not asked for */
	uint64_t resumed_files;
	uint64_t resumed_bytes;
	/* of those that were there, small ones that were not what they should be: they come
	 * again */
	uint64_t damaged_files;
	uint64_t damaged_bytes;
	/* sink: of all names, compared with the version that is replaced (none, and nothing is
	 * counted, if there is no such one): */
	uint64_t added;			/* were not in it */
	uint64_t replaced;		/* were, with another content, kind, mode or owner */
	uint64_t removed;		/* entries that only the old version has: removed ... */
	uint64_t kept;			/* ... and taken over */
	uint64_t wanted_files;		/* of those that were offered, what the sink asked for */
	uint64_t wanted_bytes;
	bool is_reflinked;		/* reused by reflink; else by hard link */
	/*
	 * source: of all names that were found, which version of each: the same number for two
	 * sources that found the same, in whatever order. 0 of a tree in another process.
	 */
	uint64_t seen;
};

/* A large file, at the source. */
struct fm_tree_large {
	char path[FM_TREE_PATH_MAX + 1];	/* below the root */
	int fd;				/* open for reading; the receiver's to close */
	uint64_t size;
	uint32_t mode;
	int64_t mtime_ns;
	struct fm_identity id;		/* node is "" */
	bool has_holes;
};

/* What an end learns from the other one, before anything is moved. */
struct fm_tree_begin {
	/*
	 * To a source: what the far end wants. It replaces the options that the source was made
	 * with.
	 */
	bool is_offering;
	bool has_checksums;
	bool has_owners;
	bool is_dry;
	/* also what does not match the digest that was kept with it */
	bool accepts_corrupt;
	/* To a sink: the identity of the source, and its size (as in struct fm_tree_sink_opts). */
	struct fm_identity source;
};

struct fm_tree_ops {
	/*
	 * Once, before all other calls but stop(), close() and (a sink) discard(). An end that was
	 * made before the far end was known learns the rest here; a sink's is_partial and
	 * has_owners are known after it. NULL: it knows everything already.
	 */
	int (*begin)(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err);

	/* ---- source ---- */

	/*
	 * Make pack number seq in buf (8-aligned). > 0: its bytes. 0: there are no more packs, this
	 * number does not exist (a greater one may, from a call that ran beside this one), but
	 * large files may still wait for next_large(). -EAGAIN: not yet (offers are not answered,
	 * or too many large files wait): ask again after need() or next_large(). A number that was
	 * filled before and is not acked is made again (its connection broke). Everything else is
	 * an error with a text that names the entry.
	 */
	int64_t (*fill)(struct fm_tree *t, uint64_t seq, void *buf, size_t len, struct fm_err *err);
	/* The far end has made what pack seq says. Quick. */
	void (*acked)(struct fm_tree *t, uint64_t seq);
	/* Which entries of offering pack seq the far end wants: bit i is its entry i. -EPROTO:
	 * nonsense. Quick. */
	int (*need)(struct fm_tree *t, uint64_t seq, const uint8_t *bits, size_t count,
		    struct fm_err *err);
	/* 1: out is filled. 0: none now. Quick. */
	int (*next_large)(struct fm_tree *t, struct fm_tree_large *out);

	/* ---- sink ---- */

	/*
	 * Make what the pack says (its CRC was checked). An offering pack: nothing is made but
	 * links and directories, and bit i of bits (FM_TREE_OFFERS_MAX / 8 bytes) says whether
	 * entry i is needed; *count is the number of entries, 0 for a pack that offers nothing. The
	 * pack's bytes are hostile, but nobody can change them during the call. May be called twice
	 * with the same pack, also at once.
	 */
	int (*apply)(struct fm_tree *t, const void *pack, size_t len, uint8_t *bits, size_t *count,
		     struct fm_err *err);
	/*
	 * A large file: *fd is open for reading and writing (the caller's to close), `have` what
	 * the journal says is in it already from an earlier try (to be freed by the caller), which
	 * nobody has looked at yet; else the file is empty.
	 */
	int (*create_large)(struct fm_tree *t, const struct fm_tree_large *how, int *fd,
			    struct fm_have *have, struct fm_err *err);
	/* Of a large file these bytes are written; the next log() makes them count. Quick.
	 * entry->path is below the root. */
	int (*wrote_large)(struct fm_tree *t, const struct fm_journal_entry *entry,
			   struct fm_err *err);
	/* It is complete: mode, time, digest (NULL: none is known); fd is the one of
	 * create_large(), still the caller's. */
	int (*seal_large)(struct fm_tree *t, const struct fm_tree_large *how, int fd,
			  const struct fm_digest *digest, struct fm_err *err);
	/*
	 * Syncs what was made so far, then writes it to the journal. One thread at a time; fill()
	 * and apply() may run meanwhile.
	 */
	int (*log)(struct fm_tree *t, struct fm_err *err);
	/*
	 * Everything came: hard links, times of directories, one syncfs if is_durable. No other
	 * call runs or follows but publish(), keep() or discard(). In a dry run: what the run
	 * itself would be refused for, of what all names that came are needed to tell; nothing is
	 * made.
	 */
	int (*prepare)(struct fm_tree *t, bool is_durable, struct fm_err *err);
	/* The final name, by one rename. The version it replaces is moved away and removed after
	 * its grace time. */
	int (*publish)(struct fm_tree *t, bool is_durable, struct fm_err *err);
	/* Instead of publish: leave it for the next try (keep), or remove it (discard). */
	void (*keep)(struct fm_tree *t);
	void (*discard)(struct fm_tree *t);

	/*
	 * The names that count() counts as added, replaced and removed, page by page (names.h),
	 * once nothing more comes: behind publish(), or at the end of a dry run. *at: 0 at first,
	 * moved on; a page without names is behind the last. NULL: this end does not keep them.
	 */
	int (*names)(struct fm_tree *t, uint64_t *at, struct fm_tree_names *out,
		     struct fm_err *err);

	/* ---- both ---- */

	void (*count)(struct fm_tree *t, struct fm_tree_count *out);	/* quick */
	/* Calls that run end soon with -ECANCELED, later ones at once (but keep, discard, close).
	 * Quick. */
	void (*stop)(struct fm_tree *t);
	/*
	 * In a child that was forked while calls ran: gives up its copy of what others wait for.
	 * Nothing else is called there any more. NULL: there is nothing.
	 */
	void (*forked)(struct fm_tree *t);
	/* No call runs. A sink that was neither published, kept nor discarded is discarded. Frees
	 * it. */
	void (*close)(struct fm_tree *t);
};

struct fm_tree {
	const struct fm_tree_ops *ops;
	bool is_source;
	bool is_callers;	/* of a client, who is waited for: see channel_pulse.h */
	/* sink: something of an earlier try is there: offers save sending it */
	bool is_partial;
	/* source: what is read is compared with the digests that were kept: digest.h */
	bool has_digests;
	/* source, said before the first fill(): others read the same for other nodes. What was
	 * offered is sent only with the change time that it had then, as large files are. */
	bool is_compared;
	/* source: something did not match and was sent, since the far end accepts that */
	atomic_bool has_corrupt;
	/* sink: -ENOSPC was said of the whole of an update, or of what may be lost: a dry run can
	 * tell what will come */
	bool is_unmeasured;
	/* symbolic links that leads_out.h tells: there they may point to nothing. Of a tree of this
	 * process only. */
	atomic_ullong leaving_links;
	bool has_owners;	/* sink: owners, extended attributes and ACLs are to be sent */
	uint32_t pack_max;	/* sink: bytes of the longest pack it takes; 0: any */
	const char *note;	/* NULL, or what is not as asked */
	/*
	 * Sink: 0, or the error of a sync that failed. It covered all that was made: nothing of
	 * that counts any more, and keep() discards.
	 */
	atomic_int sync_error;
};

/* ---- a directory of this process ---- */

struct fm_tree_source_opts {
	int root;			/* directory, open for reading; taken over, also on error */
	bool is_offering;		/* files are offered first, and sent if they are needed */
	bool has_checksums;		/* offers carry the CRC32C of the content (--checksum) */
	bool has_owners;		/* owner, extended attributes and ACLs are sent */
	bool is_dry;			/* offers only; what is needed is opened, and not sent */
	bool follows_links;		/* a symbolic link's target is sent in its place */
	/* files are compared with the digests kept with them: in a store, not at a user's */
	bool has_digests;
	/* fnmatch() patterns, NULL-terminated; with a '/' they match the path below the root, else
	 * any name; NULL: none */
	const char *const *excludes;
	/* names that are not sent (fmove's own); NULL: none */
	bool (*skips)(const char *name);
	/* whether a path below the root is sent, asked before what is below it; NULL: all are */
	bool (*wants)(void *ctx, const char *path);
	void *wants_ctx;		/* outlives the tree */
};

int fm_tree_source_new(const struct fm_tree_source_opts *opts, struct fm_tree **out,
		       struct fm_err *err);

#define FM_TREE_LOCK_WAIT_MS 2000

struct fm_tree_sink_opts {
	/* the directory in which the tree gets its name; taken over, also on error */
	int parent;
	const char *name;		/* in it; copied */
	const char *path;		/* for messages; copied */
	/* An existing tree as a whole; with is_update: an entry of it of another kind, by what came
	 * under its name. */
	bool may_replace;
	/* unchanged files are taken from the old version; so are entries that only it has ... */
	bool is_update;
	bool is_delete;			/* ... not */
	/* unchanged is told by the content's CRC32C, not by size and time */
	bool has_checksums;
	/* what is unchanged keeps its mode and owner, if it has to: for who sets them all later */
	bool has_any_mode;
	/* apply owner, extended attributes, ACLs as sent; else they are this process's */
	bool has_owners;
	/* with has_owners: all belongs to uid and gid, whoever the entries name */
	bool has_one_owner;
	uid_t uid;
	gid_t gid;
	/* the group may read what the owner may; directories pass their group on to new entries */
	bool is_for_group;
	bool is_synced;			/* durable: the journal is synced */
	bool is_dry;			/* answer offers, make nothing */
	/* of an update: source.size is what will come, though it be 0 */
	bool is_measured;
	/*
	 * an update that only looks: begin() always fails. -ECANCELED: there is room for all of it
	 */
	bool is_look;
	/* keep each file's CRC32C in an extended attribute (digest.h) */
	bool has_digests;
	bool has_manifest;		/* leave a manifest beside it (manifest.h) */
	/* keep which names are added, replaced and removed, for names() */
	bool has_names;
	/* the replaced version is kept this long; 0: removed at once, unless others need something
	 * in it */
	uint64_t grace_ns;
	/* for a tree that is in use: its transfer may be just ending; 0: FM_TREE_LOCK_WAIT_MS */
	unsigned lock_wait_ms;
	/*
	 * Of the root: node, dev and ino; an earlier try of another source is removed. dev and ino
	 * 0: begin() says it, and nothing is made before it. size: bytes that will come at least,
	 * for which there must be room; 0: not known. begin() says how much the files take, which
	 * of an update is the most that comes. The rest is not looked at.
	 */
	struct fm_identity source;
	/*
	 * Quota: each name of a regular file counts its size, as soon as it is made. take(): so
	 * many bytes more are used from now on, or -EDQUOT, -ENOSPC and a text. is_sent: their
	 * content comes, as promise() was told; else it was here before, under another name or in
	 * another version. used(): so many went (negative), or are there whatever the quota says.
	 * Any thread; both or neither NULL.
	 */
	int (*take)(void *ctx, uint64_t bytes, bool is_sent, struct fm_err *err);
	void (*used)(void *ctx, int64_t bytes);
	/*
	 * Room for so many bytes is wanted in `parent`, before anything is made: -ENOSPC, -EDQUOT
	 * and a text. NULL: only the file system is asked.
	 */
	int (*promise)(void *ctx, int parent, uint64_t bytes, struct fm_err *err);
	/* How much may come into `parent`, without anything going for it. Both or neither of
	 * promise() and this are NULL. */
	uint64_t (*room)(void *ctx, int parent);
	/*
	 * Something of the tree came, or was written: it does not stand still. Any thread, quick.
	 * NULL: nobody asks.
	 */
	void (*goes_on)(void *ctx);
	/* The replaced version of the tree with that path has this name beside it, and is kept for
	 * grace_ns. NULL: nobody asks. */
	void (*put_aside)(void *ctx, const char *path, const char *name);
	/*
	 * The replaced version goes into other hands: it is `name` in dir now, and has another name
	 * when this returns 0. ino: its inode; others may write to dir, and have put something else
	 * there. NULL: it is kept for grace_ns under a name beside the tree.
	 */
	int (*take_old)(void *ctx, int dir, const char *name, uint64_t ino);
	/*
	 * Asks the store to free so many bytes in `parent`, by removing replaced versions. NULL: it
	 * has none.
	 */
	void (*make_room)(void *ctx, int parent, uint64_t bytes);
	/*
	 * Whether the path of the tree leads into another directory by now than `held`: 1, and *fd
	 * is that one, the receiver's. 0: it does not. An error: nothing can be put there. NULL: it
	 * always leads into parent.
	 */
	int (*find_other)(void *ctx, const char *path, int held, int *fd, struct fm_err *err);
	void *ctx;
};

int fm_tree_sink_new(const struct fm_tree_sink_opts *opts, struct fm_tree **out,
		     struct fm_err *err);

#endif
