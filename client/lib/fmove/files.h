/* SPDX-License-Identifier: MIT */
/* fmove/files.h - put and get, of files and directories. See <fmove.h>. */
#ifndef FMOVE_FILES_H
#define FMOVE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "connect.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* NODE:STORE/PATH in parts. Stays as it is. */
struct fmove_name {
	const char *node;
	const char *store;
	const char *path;		/* below the store, terminated; "" is the store itself */
};

enum fmove_transport { FMOVE_AUTO, FMOVE_RDMA, FMOVE_TCP };
enum fmove_durability { FMOVE_DEFAULT, FMOVE_DISK, FMOVE_MEMORY };
enum fmove_priority { FMOVE_NORMAL, FMOVE_LOW, FMOVE_HIGH };

struct fmove_progress {
	size_t struct_size;
	/*
	 * "queued", "connecting", "opening", "copying", "committing", "waiting"; valid during the
	 * call
	 */
	const char *state;
	uint64_t before;		/* "queued": about how many are before it */
	uint64_t again_ms;		/* "waiting": until the next try ... */
	const char *text;		/* ... and why the last one failed */
	uint64_t size;			/* UINT64_MAX: not known; a tree: at least */
	uint64_t bytes;
	uint64_t files;			/* of a tree: found or made so far */
	uint64_t resumed_bytes;		/* there from an earlier try, and not moved again */
	uint64_t resent_bytes;
	unsigned corrupt_chunks;
	unsigned connections;		/* in use */
};

struct fmove_range;
struct fmove_tree_options;
struct fmove_result;

/*
 * Of the connections to a peer: what fmove_status() says of their rails. NULL: any; 0: all; its
 * struct_size is to be set.
 */
struct fmove_only {
	size_t struct_size;
	const char *device;
	const char *local;
	const char *remote;
	unsigned connections;
};

/* Zero-initialise but for struct_size; what is zero is the default. */
struct fmove_options {
	size_t struct_size;
	enum fmove_transport transport;
	enum fmove_durability durability;
	/* an existing file, not of fmove_get(); a tree as a whole, or, with is_update, an entry of
	 * it of another kind */
	bool may_replace;
	uint64_t rate_bytes;		/* a second; 0: no limit */
	uint64_t timeout_ms;		/* for the whole transfer; 0: none */
	enum fmove_priority priority;	/* which of those that wait is next */
	/* try again for so long after failures that may pass, the end of the daemon too; 0: not,
	 * detached: without end */
	uint64_t retry_ms;
	const char *file;		/* the path of fd, for fmove_jobs(); NULL: not said */
	/* between stores: it is a directory, moved like this; NULL: a file */
	const struct fmove_tree_options *tree;
	uint64_t progress_ms;		/* how often progress is called; 0: never */
	void (*progress)(void *ctx, const struct fmove_progress *p);
	void *ctx;
	/* > 0: the transfer is cancelled when this becomes readable (e.g. a signalfd) */
	int cancel_fd;
	/* when it is cancelled, what has arrived stays for a later try */
	bool keep_partial;
	/* put: every chunk is read back from the far disk and compared */
	bool is_readback;
	/* what a store gives is compared with the digest it kept; this takes what differs all the
	 * same */
	bool accepts_corrupt;
	/* put: read fd through the page cache, so that several puts of one file at once read the
	 * disk once */
	bool is_buffered;
	/* put: the ID of a group of which it becomes a member; NULL: it gets its name by itself */
	const char *group;
	/* fmove_put_generated(), fmove_get_discarded(): which connections alone carry it; NULL:
	 * all */
	const struct fmove_only *only;
	/*
	 * put: > 0: it is held when all of it is there but its name: prepared() is called. When
	 * this becomes readable, decide() is: true: it gets its name (as soon as it is prepared);
	 * false: it is cancelled, what has arrived stays for a later try. It is held for as long as
	 * that takes: only timeout_ms bounds it. All called from within fmove_put().
	 */
	int hold_fd;
	void (*prepared)(void *ctx);	/* may be NULL */
	bool (*decide)(void *ctx);
	/*
	 * fmove_get(): > 0: an empty regular file in which is noted what of fd is there, or the one
	 * of an earlier try to get the same into fd, which then holds what came; both open for
	 * reading and writing. After an error, both may be tried again unless the journal is empty.
	 */
	int journal_fd;
	/*
	 * fmove_get() and trees: the job is listed, and kept after its end, as a detached one.
	 * `file` is the absolute path of our end. If this process goes away before the end, the job
	 * is paused, and goes on when the same is asked for again.
	 */
	bool is_attended;
	/* is_attended: the id of a job that is paused, failed or was cancelled, to go on as; or
	 * NULL */
	const char *again;
	/* It has its place in the queue; may be NULL. Only if is_attended, or progress is
	 * wanted. */
	void (*accepted)(void *ctx, const char *job);
	/*
	 * fmove_get(), is_attended: all of it is in fd, and what comes is not changed any more:
	 * give it its name. 0, or a negative errno and *err, which is the end of the job then. Must
	 * not be NULL.
	 */
	int (*publish)(void *ctx, const struct fmove_result *result, struct fmove_error *err);
	/*
	 * fmove_get(): not the whole file, but these ranges of it, one after the other; 1 to
	 * FMOVE_RANGES_MAX. NULL: the whole file.
	 */
	const struct fmove_range *ranges;
	size_t range_count;
	/* ranges: compare also blocks with the kept digest that are covered in part */
	bool whole_blocks;
	/*
	 * In place of prepared(), for who puts one thing to several nodes. sent is the same text
	 * for two puts that sent the same bytes, and of a tree found the same versions of the same
	 * names: name, size, times and mode; "": not known. Valid during the call.
	 */
	void (*prepared_as)(void *ctx, const char *sent);
};

struct fmove_result {
	size_t struct_size;
	uint64_t bytes;
	uint64_t data_bytes;		/* bytes less holes */
	double seconds;
	double gb_per_s;
	char transport[16];		/* "rdma", "tcp"; "rdma+tcp", if connections came or went */
	uint64_t rdma_bytes;		/* of data_bytes, what each of them carried */
	uint64_t tcp_bytes;
	/* on the way: "tls", "ktls" (the kernel's), "plain", "tls+plain"; RDMA is plain */
	char encryption[16];
	char why[160];			/* why this transport, at last */
	unsigned connections;
	/* of the whole; the same number as other CRC32C tools give; 0 without has_crc32c */
	uint32_t crc32c;
	bool is_durable;
	/* every byte was compared on its way. Not of what an earlier try had got there, whose
	 * answer was lost (note says so): that is told by its size and time */
	bool is_checked;
	uint64_t resent_bytes;
	unsigned corrupt_chunks;
	unsigned mode;			/* of the source */
	int64_t mtime_ns;		/* of the source, since 1970 */
	/* ranges: of the same file as long as nobody writes to it, the same text; else "" */
	char version[64];
	/* were there from an earlier try, and are what they should be */
	uint64_t resumed_bytes;
	uint64_t damaged_bytes;		/* were there, and were not: they came again */
	/* A tree; `bytes` is the sum of its files then, and crc32c, mode and mtime_ns say
	 * nothing: */
	bool is_tree;
	uint64_t files;
	uint64_t dirs;			/* below its root */
	uint64_t links;			/* symbolic */
	uint64_t hard_links;		/* further names of files */
	/* of fmove_put_tree() and fmove_get_tree(): symbolic links that lead out of the tree, so
	 * there they may lead to nothing */
	uint64_t leaving_links;
	uint64_t reused_files;		/* taken from the version that was replaced ... */
	uint64_t reused_bytes;
	bool is_reflinked;		/* ... by reflink, else by hard link */
	uint64_t resumed_files;		/* were there from an earlier try */
	/* names, compared with the version that was there; a dry run: what would be. An update that
	 * has none of the first three publishes nothing: */
	uint64_t added;
	uint64_t replaced;		/* with another content, kind, mode or owner */
	uint64_t removed;		/* were only there, and went ... */
	uint64_t kept;			/* ... or were taken over */
	uint64_t wanted_files;		/* dry run: would be sent */
	uint64_t wanted_bytes;
	/* fmove_get_tree(): the version that was replaced, below parent_fd; "": there was none
	 * ... */
	char former[288];
	/* ... since 1970: then the next call removes it; earlier if room is needed */
	int64_t former_until_ns;
	char note[320];			/* what was not as asked; may be empty */
	/* of data_bytes: from a buffer (fmove/memory.h) to the wire, or into one, without a copy */
	uint64_t direct_bytes;
	bool has_crc32c;		/* crc32c is known */
};

/*
 * Send what fd holds from where it stands to its end (a regular file or a pipe) to name. opts may
 * be NULL. -ECANCELED. POSIX locks of the file (fcntl(2), lockf(3)) that this process has, or takes
 * meanwhile, stay: while there is one, what the call opened of the file may stay open. One that
 * another thread takes in the very moment in which the call ends may go; OFD locks never do.
 */
int fmove_put(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err);

/*
 * Receive name into fd (an empty regular file, or a pipe). Nothing is renamed, and after an error
 * what is in the file is nothing to use.
 */
int fmove_get(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err);

/* For measuring: put `bytes` generated bytes; get into nothing. */
int fmove_put_generated(struct fmove *c, uint64_t bytes, const struct fmove_name *name,
			const struct fmove_options *opts, struct fmove_result *result,
			struct fmove_error *err);
int fmove_get_discarded(struct fmove *c, const struct fmove_name *name,
			const struct fmove_options *opts, struct fmove_result *result,
			struct fmove_error *err);

/* ---- trees: directories with all that is in them, published as a whole ---- */

#define FMOVE_EXCLUDES_MAX 64
#define FMOVE_EXCLUDE_MAX 255		/* bytes of a pattern */

enum fmove_change { FMOVE_ADDED = 1, FMOVE_REPLACED = 2, FMOVE_REMOVED = 3 };

/* Zero-initialise but for struct_size. */
struct fmove_tree_options {
	size_t struct_size;
	/* move what differs (size, time) from the version that is replaced; a dry run of it goes
	 * first if the whole would have no room ... */
	bool is_update;
	bool has_checksums;		/* ... or differs in content; implies is_update */
	/* fmove_put_tree(): what a symbolic link leads to goes in its place */
	bool follows_links;
	/* with is_update: what only that version has goes; else it comes into the new one */
	bool is_delete;
	bool is_dry_run;		/* say what would be moved, change nothing */
	/* what to leave out, as in fnmatch(3): with a '/' the path below the root, else any name;
	 * NULL-terminated, or NULL */
	const char *const *excludes;
	/*
	 * Called within the call, when all of it came, for each name that the result counts as
	 * added, replaced or removed: path is below the root,
	 * "." the root itself, and is what other people called their files. Not of a job that is
	 * detached or attended. NULL: nobody wants to know.
	 */
	void (*named)(void *ctx, enum fmove_change change, const char *path);
	void *ctx;			/* named()'s */
};

/*
 * Send the directory dir_fd (open for reading) to name, which becomes its copy. The directory is
 * read by threads of this process while the call lasts. name must not exist, unless may_replace or
 * is_update. A process that stands still (SIGSTOP) for 8 s meanwhile: -ETIMEDOUT when it goes on.
 * All files of it are opened and closed, which gives up the POSIX locks (fcntl(2), lockf(3)) that
 * this process has of them; locks of descriptions (F_OFD_SETLK, flock(2)) stay.
 */
int fmove_put_tree(struct fmove *c, int dir_fd, const struct fmove_name *name,
		   const struct fmove_options *opts, const struct fmove_tree_options *tree,
		   struct fmove_result *result, struct fmove_error *err);

/*
 * Receive the directory name as `as` in the directory parent_fd. It appears there complete, by one
 * rename; after an error whose is_kept is set, what arrived stays in a hidden directory beside it.
 * What it replaces stays for ten minutes at least, in another one, if room is not needed; a later
 * call with the same parent_fd removes it. Of an update the files of that version are opened and
 * closed, as those of fmove_put_tree() are.
 */
int fmove_get_tree(struct fmove *c, int parent_fd, const char *as, const struct fmove_name *name,
		   const struct fmove_options *opts, const struct fmove_tree_options *tree,
		   struct fmove_result *result, struct fmove_error *err);

/*
 * The same between a store of this node (own->node is not looked at) and one of another: nothing of
 * it is in our hands.
 */
int fmove_put_store(struct fmove *c, const struct fmove_name *own, const struct fmove_name *name,
		    const struct fmove_options *opts, struct fmove_result *result,
		    struct fmove_error *err);
int fmove_get_store(struct fmove *c, const struct fmove_name *name, const struct fmove_name *own,
		    const struct fmove_options *opts, struct fmove_result *result,
		    struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
