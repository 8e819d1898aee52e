/* SPDX-License-Identifier: MIT */
/*
 * libfmove - ask the fmoved of this machine to move files between nodes. fmove-api(7) describes
 * what lies below.
 *
 * One struct fmove serves all threads of a program. Every call blocks until its answer, closes no
 * descriptor of the caller and prints nothing. Calls return 0 or a negative errno and then fill
 * *err (which may be NULL). Names are bytes: any but NUL.
 *
 * What changes the SOVERSION: the caller makes most of the structs, and they say no size of their
 * own, so a release in which one of them, or the value of an enumerator, is another than in the
 * release before has the next one. New functions and new enumerators at an end do not change it.
 * There is no release yet: it stays 0, and a program is compiled with the header of the very
 * library it uses.
 */
#ifndef FMOVE_H
#define FMOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define FMOVE_DATASET_NAME_MAX 240	/* bytes of a dataset's name */
#define FMOVE_PATH_MAX 4095
#define FMOVE_NAME_MAX 255
#define FMOVE_TEXT_MAX 512

struct fmove;

struct fmove_error {
	int code;			/* negative errno */
	int exit;			/* the exit status that fmove(1) would end with */
	/* of a transfer: what has arrived stays, and the same transfer again goes on from there */
	bool is_kept;
	/* no place is free now, or too many are this user's: nothing was begun, and the same may be
	 * taken later */
	bool is_full;
	/* of a transfer: how far it got, with what was there before; no more than ever before: it
	 * did not get on */
	uint64_t bytes;
	char text[FMOVE_TEXT_MAX];	/* one line for people */
	/* what was asked about, if it is in a store; else "" */
	char node[FMOVE_NAME_MAX + 1];
	char store[FMOVE_NAME_MAX + 1];
	char path[FMOVE_PATH_MAX + 1];
};

/*
 * Each call has a connection to the daemon of its own while it lasts. FMOVE_CALLS_MAX run at the
 * same time, or as many as the daemon allows; more wait in a line, in which they can be cancelled
 * and time out. Calls that wait for each other, as puts that are held do, must not be more.
 *
 * A child that was forked may go on with the handle, over connections of its own. A call that its
 * parent began is its parent's: -ECONNRESET, should it come back in the child.
 */
#define FMOVE_CALLS_MAX 128

/*
 * socket_path NULL: the environment's FMOVE_SOCKET (unless the program has the rights of somebody
 * else: secure_getenv(3)), else /run/fmove/fmoved.sock. -EBUSY, with is_full: too many others wait
 * to be accepted there; it is not waited for.
 */
int fmove_connect(const char *socket_path, struct fmove **out, struct fmove_error *err);

/* No call is under way. What was started beside its caller is cancelled, waited for and freed. NULL
 * is allowed. */
void fmove_close(struct fmove *c);

/* Give the connections that no call uses back to the daemon, of whose connections a user has a
 * share; the next call connects again. */
void fmove_disconnect(struct fmove *c);

/* The following three are set before other threads use c. */

/*
 * For requests about stores (fmove_stat() to fmove_mkdir()): give up after this long; 0, the
 * default: what the daemon thinks fit.
 */
void fmove_set_timeout(struct fmove *c, uint64_t ms);

/*
 * Requests without a cancel_fd of their own (all but transfers, fmove_wait(), fmove_verify() and
 * fmove_stage()) end with -ECANCELED when fd becomes readable, and none is begun while it is. What
 * was asked may be done all the same. 0, the default, or less: nothing ends them.
 */
void fmove_set_cancel(struct fmove *c, int fd);

/*
 * What is refused with is_full when no other call of c is under way, whose end would be waited for,
 * is asked again as long as again() returns true; it is to wait before it does, and must not use c.
 * refused: how often this call was, 1 the first time; left_ms: what is left of its timeout
 * (UINT64_MAX: it has none), at the end of which the call is -ETIMEDOUT. The default, NULL: such a
 * call fails at once. What is called when a job is accepted may be called once more.
 */
void fmove_set_again(struct fmove *c,
		     bool (*again)(void *ctx, const struct fmove_error *why, unsigned refused,
				   uint64_t left_ms),
		     void *ctx);

/*
 * ---- calls that go on beside their caller ----
 *
 * fmove_op_start() has call() run in a thread of the library. There it makes whatever calls it
 * wants with c, one after the other, and what they call back runs in that thread, too, which takes
 * no signals. What call() and ctx use must stay until the op is over. FMOVE_CALLS_MAX of a handle
 * run at the same time, and more wait for their turn.
 */
#define FMOVE_OPS_MAX 4096		/* of a handle; each has a descriptor */

struct fmove_op;

/* -EBUSY, -EMFILE, -EAGAIN, with is_full: there are too many, or too many threads. */
int fmove_op_start(struct fmove *c,
		   int (*call)(struct fmove *c, void *ctx, struct fmove_error *err), void *ctx,
		   struct fmove_op **out, struct fmove_error *err);

/* For poll(2): readable when it is over. The op's own: do not read or close it. */
int fmove_op_fd(const struct fmove_op *op);

/*
 * The call that it makes, and each that it would still make, ends with -ECANCELED: a transfer as if
 * its cancel_fd were readable, others as by fmove_set_cancel(). What has not begun does not. It is
 * not waited for.
 */
void fmove_op_cancel(struct fmove_op *op);

/* What call() returned, and its error. Waits until it is over. */
int fmove_op_result(struct fmove_op *op, struct fmove_error *err);

/* Cancels it and waits, if it is not over. NULL is allowed. */
void fmove_op_free(struct fmove_op *op);

/* NODE:STORE/PATH in parts. */
struct fmove_name {
	const char *node;
	const char *store;
	const char *path;		/* below the store, terminated; "" is the store itself */
};

enum fmove_transport { FMOVE_AUTO, FMOVE_RDMA, FMOVE_TCP };
enum fmove_durability { FMOVE_DEFAULT, FMOVE_DISK, FMOVE_MEMORY };
enum fmove_priority { FMOVE_NORMAL, FMOVE_LOW, FMOVE_HIGH };

struct fmove_progress {
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

struct fmove_tree_options;
struct fmove_result;

/* Bytes of a file. */
struct fmove_range {
	uint64_t offset;
	uint64_t length;		/* or FMOVE_TO_END */
};

#define FMOVE_TO_END UINT64_MAX		/* up to the end of the file */
#define FMOVE_RANGES_MAX 1024u		/* of one fmove_get() */

/* Of the connections to a peer: what fmove_status() says of their rails. NULL: any; 0: all. */
struct fmove_only {
	const char *device;
	const char *local;
	const char *remote;
	unsigned connections;
};

/* Zero-initialise; what is zero is the default. */
struct fmove_options {
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
	/* fmove_put_generated(): which connections alone carry it; NULL: all */
	const struct fmove_only *only;
	/*
	 * put: > 0: it is held when all of it is there but its name: prepared() is called. When
	 * this becomes readable, decide() is: true: it gets its name (as soon as it is prepared);
	 * false: it is cancelled, what has arrived stays for a later try. All called from within
	 * fmove_put().
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
};

struct fmove_result {
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
	/* of the whole; the same number as other CRC32C tools give */
	uint32_t crc32c;
	bool is_durable;
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
};

/*
 * Send what fd holds (a regular file from its start, or a pipe to its end) to name. opts may be
 * NULL. -ECANCELED.
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

/*
 * Receive ranges of name into fd, one after the other. They may overlap and have any order. Any
 * number goes into a pipe; at most FMOVE_RANGES_MAX (-E2BIG) into an empty regular file. So many
 * are one request. -EINVAL: one lies past the end. -ESTALE: the file changed between two requests.
 */
int fmove_get_ranges(struct fmove *c, int fd, const struct fmove_name *name,
		     const struct fmove_range *ranges, size_t count,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err);

/*
 * Receive ranges of name into memory: range i into to[i], which has room for its length. Any
 * number. After an error the memory holds nothing to use.
 */
int fmove_read_ranges(struct fmove *c, const struct fmove_name *name,
		      const struct fmove_range *ranges, void *const *to, size_t count,
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

/* Zero-initialise. */
struct fmove_tree_options {
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
 */
int fmove_put_tree(struct fmove *c, int dir_fd, const struct fmove_name *name,
		   const struct fmove_options *opts, const struct fmove_tree_options *tree,
		   struct fmove_result *result, struct fmove_error *err);

/*
 * Receive the directory name as `as` in the directory parent_fd. It appears there complete, by one
 * rename; after an error whose is_kept is set, what arrived stays in a hidden directory beside it.
 * What it replaces stays for ten minutes at least, in another one, if room is not needed; a later
 * call with the same parent_fd removes it.
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

/* ---- jobs: transfers that go on without their caller ---- */

#define FMOVE_JOB_MAX 16		/* bytes of a job's id, terminator included */

/*
 * Hand a transfer over to the daemon and be told its id as soon as it is on disk. fd is a regular
 * file.
 */
int fmove_put_detached(struct fmove *c, int fd, const struct fmove_name *name,
		       const struct fmove_options *opts, char job[FMOVE_JOB_MAX],
		       struct fmove_error *err);
int fmove_put_store_detached(struct fmove *c, const struct fmove_name *own,
			     const struct fmove_name *name, const struct fmove_options *opts,
			     char job[FMOVE_JOB_MAX], struct fmove_error *err);
int fmove_get_store_detached(struct fmove *c, const struct fmove_name *name,
			     const struct fmove_name *own, const struct fmove_options *opts,
			     char job[FMOVE_JOB_MAX], struct fmove_error *err);

enum fmove_job_state {
	FMOVE_JOB_QUEUED,
	FMOVE_JOB_RUNNING,
	FMOVE_JOB_WAITING,		/* for its next try */
	/* for its file: fmove_resume(); or, is_attended, for its caller */
	FMOVE_JOB_PAUSED,
	FMOVE_JOB_DONE,
	FMOVE_JOB_FAILED,
	FMOVE_JOB_CANCELLED,
	FMOVE_JOB_OTHER			/* a newer daemon's: not known here */
};

struct fmove_job {
	char id[FMOVE_JOB_MAX];
	unsigned user;			/* numeric user id of who asked */
	bool is_put;
	bool is_detached;
	enum fmove_job_state state;
	enum fmove_priority priority;
	/* RUNNING: "connecting", "opening", "copying", "committing" */
	char phase[16];
	char node[FMOVE_NAME_MAX + 1];
	char store[FMOVE_NAME_MAX + 1];
	char path[FMOVE_PATH_MAX + 1];
	/* our end: a store of this node, or (local_store "") a file of who asked */
	char local_node[FMOVE_NAME_MAX + 1];	/* our name */
	char local_store[FMOVE_NAME_MAX + 1];
	char local_path[FMOVE_PATH_MAX + 1];
	uint64_t size;			/* UINT64_MAX: not known */
	uint64_t bytes;
	uint64_t before;		/* QUEUED: about how many are before it */
	uint64_t again_ms;		/* WAITING: until the next try */
	uint64_t tries;
	int64_t created_ms;		/* since 1970 */
	int64_t ended_ms;		/* 0: not yet */
	int exit;			/* of the last failure */
	char text[FMOVE_TEXT_MAX];	/* why it waits, is paused or has failed */
	bool is_tree;
	/*
	 * On what only its caller can touch: it is paused when the process that attended to it went
	 * away, and to let it go on is to ask for the same again. What that was, from
	 * fmove_find_job():
	 */
	bool is_attended;
	enum fmove_transport transport;
	enum fmove_durability durability;
	bool may_replace;
	bool is_readback;
	bool accepts_corrupt;
	bool is_update;
	bool is_delete;
	bool has_checksums;
	bool is_dry_run;
	uint64_t rate_bytes;
	uint64_t timeout_ms;
	uint64_t retry_ms;
	unsigned excludes_count;
	char excludes[FMOVE_EXCLUDES_MAX][FMOVE_EXCLUDE_MAX + 1];
};

/* Call each() for our jobs, the oldest first, until it returns false; is_all: those of all users
 * (root). */
int fmove_jobs(struct fmove *c, bool is_all, bool (*each)(void *ctx, const struct fmove_job *job),
	       void *ctx, struct fmove_error *err);

/* One of them. -ENOENT. */
int fmove_find_job(struct fmove *c, const char *job, struct fmove_job *out,
		   struct fmove_error *err);

/*
 * Until it has ended, and what became of it, as the transfer itself would have said. opts
 * (progress, cancel_fd, which ends the waiting and not the job) may be NULL. -EAGAIN: it is paused.
 */
int fmove_wait(struct fmove *c, const char *job, const struct fmove_options *opts,
	       struct fmove_result *result, struct fmove_error *err);

/* is_kept: what has arrived stays for a later try. -EALREADY: it has ended. */
int fmove_cancel(struct fmove *c, const char *job, bool is_kept, struct fmove_error *err);

/*
 * Let a job that is paused, failed or was cancelled go on, fd being its file again (-1: it needs
 * none), or one that waits begin its next try now. -EALREADY: there is nothing to resume. -EINVAL:
 * it is attended; see struct fmove_options.
 */
int fmove_resume(struct fmove *c, const char *job, int fd, struct fmove_error *err);

/* ---- requests about stores ---- */

enum fmove_type { FMOVE_FILE, FMOVE_DIRECTORY, FMOVE_LINK, FMOVE_OTHER };

struct fmove_entry {
	char name[FMOVE_NAME_MAX + 1];	/* "" from fmove_stat() */
	enum fmove_type type;
	uint64_t size;
	unsigned mode;
	int64_t mtime_ns;
	/* fmove_partials(): bytes it will have; UINT64_MAX: not known; else 0 */
	uint64_t whole;
};

int fmove_stat(struct fmove *c, const struct fmove_name *name, struct fmove_entry *out,
	       struct fmove_error *err);

/*
 * As fmove_stat(), but of a symbolic link itself. says: what it says, "" of anything else.
 */
int fmove_look(struct fmove *c, const struct fmove_name *name, struct fmove_entry *out,
	       char says[FMOVE_PATH_MAX + 1], struct fmove_error *err);

/*
 * Call each() for every entry behind the name `after` ("": all), in the order of the names' bytes,
 * until it returns false. The directory is read in pages; between two of them, so in each(), other
 * requests may be made over c.
 */
int fmove_list(struct fmove *c, const struct fmove_name *name, const char *after,
	       bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
	       struct fmove_error *err);

/*
 * The same for unfinished transfers into the directory, by the names they would get; size: bytes
 * that are there, mtime_ns: when the last of them was written down. The same put again goes on from
 * there.
 */
int fmove_partials(struct fmove *c, const struct fmove_name *name, const char *after,
		   bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
		   struct fmove_error *err);

/* What a store has room for; UINT64_MAX: no limit, or of quota: none. */
struct fmove_space {
	char store[FMOVE_NAME_MAX + 1];
	uint64_t size;			/* of its file system */
	/* what may still come: of the file system, and of the quota */
	uint64_t free;
	uint64_t used;			/* against the quota; without one: of the file system */
	uint64_t quota;
	uint64_t promised;		/* to transfers that run */
	/* goes with the directories that were replaced and are kept for a while ... */
	uint64_t aside;
	uint64_t trees;			/* ... which are so many */
	/* the store was not looked through yet: aside may be more */
	bool is_counting;
	/* what its rules allow; of one that may only be written the rest says nothing */
	bool may_read;
	bool may_write;
};

/* name->store "": each of the node's stores that may be read or written, in the order of their
 * names. Until each() returns false; it must not use c. */
int fmove_space(struct fmove *c, const struct fmove_name *name,
		bool (*each)(void *ctx, const struct fmove_space *space), void *ctx,
		struct fmove_error *err);

/* A directory that was replaced and is kept aside. */
struct fmove_aside {
	uint64_t bytes;			/* that go with it */
	int64_t since_ns;		/* when it was replaced, since 1970 */
	char path[FMOVE_PATH_MAX + 1];	/* where it is, below the store */
	char name[FMOVE_PATH_MAX + 1];	/* what it was, below the store; "": that is not known */
};

/*
 * Remove what was replaced in a store and is kept aside, the oldest first; is_dry: only tell.
 * each() is called for each, when it is gone, and must not use c. An error in the midst leaves the
 * rest. A node that tells of more than FMOVE_ASIDE_MAX: -EPROTO.
 */
#define FMOVE_ASIDE_MAX 16384		/* many times what a store remembers */
int fmove_purge(struct fmove *c, const struct fmove_name *name, bool is_dry,
		void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
		struct fmove_error *err);

/* The same of what is unfinished in a store, and nobody works on, by its path; name: that it would
 * have got; since_ns: when it last changed. */
int fmove_purge_partials(struct fmove *c, const struct fmove_name *name, bool is_dry,
			 void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
			 struct fmove_error *err);

/* is_recursive: a directory too, for which it waits up to an hour, unless fmove_set_timeout() said
 * how long. A node goes on after -ETIMEDOUT. */
int fmove_remove(struct fmove *c, const struct fmove_name *name, bool is_recursive,
		 struct fmove_error *err);

/* Missing parents are made. */
int fmove_mkdir(struct fmove *c, const struct fmove_name *name, struct fmove_error *err);

/*
 * Give a file, link or directory another name in the same store: one rename, which is on the disk
 * when the call returns (if the store is durable). to: a path below the store, whose directory is
 * there. -EEXIST: it is taken; may_replace: a file or link takes the place of one.
 */
int fmove_move(struct fmove *c, const struct fmove_name *name, const char *to, bool may_replace,
	       struct fmove_error *err);

/*
 * Make a symbolic link that says target, which is relative and leads nowhere out of the store.
 * -EEXIST: the name is taken; may_replace: it takes the place of another link.
 */
int fmove_symlink(struct fmove *c, const char *target, const struct fmove_name *name,
		  bool may_replace, struct fmove_error *err);

/* What went of what a link led to, and what could not go. */
struct fmove_rotated {
	uint32_t gone;
	char names[513];		/* the first of them, beside the link, one a line */
	char stays[512];		/* what stays though it is older, and why; "": nothing */
};

/*
 * fmove_symlink() to target, a name beside the link, which is replaced; then of what it was led to
 * by this the last `keep` stay (1 to 1000) and the others go, the oldest first. What another link
 * beside it leads to, or somebody reads, stays for now. Waits as fmove_remove() does.
 */
int fmove_rotate(struct fmove *c, const char *target, const struct fmove_name *name, uint32_t keep,
		 struct fmove_rotated *out, struct fmove_error *err);

/*
 * ---- groups: what many put gets its place in one step ----
 *
 * Who begins a group for a path draws an ID, a secret that he gives to those who put its members:
 * files and trees below that path, with that ID in their options. Nothing of them is seen before
 * the commit. Several destinations have a group each, of one ID.
 */

#define FMOVE_GROUP_ID_LEN 32		/* hexadecimal digits */

/* Zero-initialise; what is zero is not said. */
struct fmove_group_options {
	bool may_replace;		/* a directory that has the path */
	/* What is expected. A commit says it, or relies on what was said when it was begun. */
	uint32_t members;		/* names directly below the path */
	const char *expect;		/* paths below it, one a line */
	uint64_t expires_ms;		/* begin: it ends then; 0: as the store says (group_keep) */
};

/* Draw an ID. */
void fmove_group_id(char id[FMOVE_GROUP_ID_LEN + 1]);

/* -EEXIST: another group was begun for the path, or it is there and may not be replaced. */
int fmove_group_begin(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_error *err);

/*
 * Publish the members by one rename, which is on the disk when the call returns (if the store is
 * durable). -ENODATA: some are missing, or others came; -EBUSY: some still come; err names them.
 * -ENOENT: no group of it goes on. A group that was committed is committed again with 0. check:
 * whether a commit would do it now, and nothing else. opts may be NULL.
 */
int fmove_group_check(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_error *err);
int fmove_group_commit(struct fmove *c, const struct fmove_name *name, const char *id,
		       const struct fmove_group_options *opts, struct fmove_error *err);

/* End it, with all that came. */
int fmove_group_discard(struct fmove *c, const struct fmove_name *name, const char *id,
			struct fmove_error *err);

struct fmove_group_members {
	uint32_t count;
	char names[513];		/* the first of them, below the path, one a line */
};

/* An open group; nobody but who begins it is told its ID. */
struct fmove_group {
	char path[FMOVE_PATH_MAX + 1];	/* below the store */
	char peer[65];			/* whose user began it; "": of the store's node */
	uint32_t uid;
	int64_t begun_ns;		/* since 1970 */
	int64_t expires_ns;
	bool may_replace;
	uint32_t members;		/* names that are expected; 0: not said */
	/* missing: of those that were said to be expected when it was begun */
	struct fmove_group_members there, coming, missing;
};

/*
 * The open groups of a store that the caller may read, in the order of their paths; name->path is
 * not looked at. The node looks through the whole store. each() returns false to end it.
 */
int fmove_groups(struct fmove *c, const struct fmove_name *name,
		 bool (*each)(void *ctx, const struct fmove_group *group), void *ctx,
		 struct fmove_error *err);

/* ---- reading again what is stored ---- */

struct fmove_verified {
	/* looked at: all of the following, and those that are well */
	uint64_t files;
	uint64_t bytes;			/* read */
	uint64_t corrupt;
	uint64_t unreadable;
	uint64_t changed;
	uint64_t missing;
	uint64_t swapped;
	uint64_t without;		/* nothing was kept to compare with */
	/* of a directory: no manifest names them, and what is missing beside them is not known */
	uint64_t unlisted;
	/* findings of kinds that are not known here; 0 from progress() */
	uint64_t other;
};

enum fmove_finding_kind {
	/* size and time are those it came with, the content is not */
	FMOVE_CORRUPT,
	FMOVE_UNREADABLE,
	FMOVE_CHANGED,			/* somebody wrote to it since */
	FMOVE_MISSING,			/* it came with its directory, and is not there any more */
	FMOVE_SWAPPED,			/* another file has its name */
	FMOVE_FINDING_OTHER,		/* a newer daemon's: not known here */
};

struct fmove_finding {
	enum fmove_finding_kind kind;
	/* where the first block begins that differs; what cannot be read */
	uint64_t offset;
	/* of the blocks that differ there; of what cannot be read, or is missing; 0: not known */
	uint64_t length;
	char path[2 * FMOVE_PATH_MAX + 2];	/* below the store */
};

/* Zero-initialise; each of the functions may be NULL. */
struct fmove_verify_options {
	void (*finding)(void *ctx, const struct fmove_finding *finding);
	/* about once a second */
	void (*progress)(void *ctx, const struct fmove_verified *so_far);
	void *ctx;
	int cancel_fd;			/* as in struct fmove_options */
};

/*
 * Read a file, or all files below a directory, from the disk of the node that has it, and compare
 * with the digests that were kept when they came. 0: all of it was looked at; what was found is in
 * *out and was told by finding().
 */
int fmove_verify(struct fmove *c, const struct fmove_name *name,
		 const struct fmove_verify_options *opts, struct fmove_verified *out,
		 struct fmove_error *err);

/* What a peer says of itself, or why it does not. */
struct fmove_facts {
	const char *node;
	/* fmove-facts(5), len bytes of whoever that peer is; NULL: there is none, so ... */
	const char *text;
	size_t len;
	int code;			/* ... a negative errno and why */
	const char *why;
};

/*
 * Ask a peer, or all of them (node NULL), for its facts: each() for every one, in no order, with
 * what is valid during the call. -ENOENT: there is no such peer. Takes some seconds.
 */
int fmove_facts(struct fmove *c, const char *node,
		void (*each)(void *ctx, const struct fmove_facts *facts), void *ctx,
		struct fmove_error *err);

/* ---- what is staged on this node ---- */

#define FMOVE_HOLDERS_MAX 16

/* By what a copy that is here is known to be what its source is now. */
enum fmove_freshness {
	FMOVE_BY_LISTING,		/* names, sizes and times */
	FMOVE_UNASKED,			/* by nothing: one that is here is the answer */
	FMOVE_BY_CONTENT,		/* all bytes of the source were read for this request */
};

/* A dataset. Times: ms since 1970. */

struct fmove_dataset {
	char name[FMOVE_DATASET_NAME_MAX + 1];
	/* "planned", "copying", "fetching", "checking", "partial", "ready", "evicting" */
	char state[16];
	char version[65];		/* 64 hex digits; "" before it is ready */
	char source[FMOVE_PATH_MAX + 2 * FMOVE_NAME_MAX + 4];
	char path[FMOVE_PATH_MAX + 1];	/* of a ready one: absolute, of this node */
	uint64_t bytes;
	uint64_t holds;
	uint64_t pins;
	int64_t created_ms;
	int64_t requested_ms;
	int64_t used_ms;
	enum fmove_freshness check;	/* fmove_stage(): that it has */
	int64_t verified_ms;		/* when all of it was read and was right; 0: never */
	/* fmove_datasets(): of the processes that hold it the first ones, and whose hold it is */
	unsigned holder_count;
	struct {
		pid_t pid;
		uid_t uid;
	} holders[FMOVE_HOLDERS_MAX];
};

/* A node of a request for several; texts are valid during the call. */
struct fmove_stage_node {
	const char *node;
	const char *state;		/* "waiting", "fetching", "ready", "failed", "silent" */
	bool is_wanted;			/* else it only reads, or passes on */
	uint64_t bytes;			/* that are there */
	uint64_t read;			/* bytes that it read from the source */
	const char *path;		/* of a ready one: absolute, on that node; or "" */
	/* why not; or "". text without a code: what is worth a warning */
	const char *code, *text;
};

/* Zero-initialise. */
struct fmove_stage_options {
	const char *name;		/* NULL: the last part of the path */
	/* it stays as long as this process of ours lives; 0: for the grace */
	pid_t pid;
	bool is_pinned;			/* it stays until it is unpinned */
	enum fmove_freshness check;	/* that is wanted; of a hub not FMOVE_UNASKED */
	void (*progress)(void *ctx, const char *phase, uint64_t bytes, uint64_t size);
	void *ctx;
	int cancel_fd;	/* as in struct fmove_options, but it ends the waiting, and not the fetch */
	/* "all", or names between commas: where it is to be; NULL: here */
	const char *nodes;
	/* with nodes: for each node, in each progress (is_end false) and in the end; or NULL */
	void (*node)(void *ctx, const struct fmove_stage_node *node, bool is_end);
};

/*
 * A directory of another node, or of a store of this one, is on this node's disk, in *out, when
 * this returns. is_fetched: not all of it was there. With nodes each of them is told of, and 0 says
 * only that all have ended; out->path is "" if it is not here.
 */
int fmove_stage(struct fmove *c, const struct fmove_name *source,
		const struct fmove_stage_options *opts, struct fmove_dataset *out, bool *is_fetched,
		struct fmove_error *err);

struct fmove_place {
	char node[FMOVE_NAME_MAX + 1];
	char store[FMOVE_NAME_MAX + 1];
	char path[FMOVE_PATH_MAX + 1];	/* "": the store itself */
};

/*
 * The store of this node that an absolute path without symbolic links is in, and its name there.
 * -ENOENT: it is in none that the caller may read.
 */
int fmove_locate(struct fmove *c, const char *path, struct fmove_place *out,
		 struct fmove_error *err);

/*
 * A repository of Hugging Face, as a hub cache's directory calls it
 * (models--ORG--NAME), from a hub cache of any node. out->path: of the snapshot; hf_home: what
 * HF_HOME is to be.
 */
int fmove_stage_hub(struct fmove *c, const char *repository, const char *revision,
		    const struct fmove_stage_options *opts, struct fmove_dataset *out,
		    char hf_home[FMOVE_PATH_MAX + 1], bool *is_fetched, struct fmove_error *err);

/* Call each() for all that is staged, or comes, until it returns false. */
int fmove_datasets(struct fmove *c, bool (*each)(void *ctx, const struct fmove_dataset *d),
		   void *ctx, struct fmove_error *err);

/* What of a dataset is not what its manifest says. */
struct fmove_dataset_finding {
	char kind[16];			/* "missing", "extra", "changed", "corrupt", "unreadable" */
	char path[FMOVE_PATH_MAX + 1];	/* below the dataset */
	uint64_t offset, length;	/* of a file: where */
	bool is_mended;			/* it came again from the source */
};

/* Zero-initialise. */
struct fmove_check_options {
	void (*progress)(void *ctx, uint64_t bytes, uint64_t size);
	void (*finding)(void *ctx, const struct fmove_dataset_finding *f);
	void *ctx;
};

struct fmove_checked {
	uint64_t bytes;
	uint64_t findings;		/* of many the first ones were told */
	uint64_t mended;		/* of them */
	char why[FMOVE_TEXT_MAX];	/* why one of them was not; "": not known */
};

/*
 * A dataset that is ready is read again; what is damaged in files that are else as they should be
 * comes again from its source. 0 also if something was found.
 */
int fmove_dataset_check(struct fmove *c, const char *name, const struct fmove_check_options *opts,
			struct fmove_checked *out, struct fmove_error *err);

/* Bytes that this node has read from sources since its daemon started, for nodes that staged
 * together. */
int fmove_source_bytes(struct fmove *c, uint64_t *out, struct fmove_error *err);

/* It stays until it is unpinned; it does no more; it is removed now. */
int fmove_pin(struct fmove *c, const char *name, struct fmove_error *err);
int fmove_unpin(struct fmove *c, const char *name, struct fmove_error *err);
int fmove_unstage(struct fmove *c, const char *name, struct fmove_error *err);

/* Whether fmove_unstage() would remove it, and the bytes that it has. Nothing is removed. */
int fmove_unstage_try(struct fmove *c, const char *name, uint64_t *bytes, struct fmove_error *err);

/* The name of this node, terminated, cut to cap. */
int fmove_node(struct fmove *c, char *out, size_t cap, struct fmove_error *err);

/* A node that the daemon knows: itself, or a peer. */
struct fmove_peer {
	char name[FMOVE_NAME_MAX + 1];
	bool is_self;
	bool is_connected;
	uint64_t since_ms;		/* so long it is, or is not; itself: so long it runs */
	char address[FMOVE_NAME_MAX + 1];	/* of a peer, as it is configured; may be "" */
	char error[FMOVE_TEXT_MAX];	/* why it is not connected; may be "" */
};

/* This node first, then its peers. Until each() returns false; it must not use c. */
int fmove_nodes(struct fmove *c, bool (*each)(void *ctx, const struct fmove_peer *node), void *ctx,
		struct fmove_error *err);

/* The daemon's version, terminated, cut to cap. */
int fmove_version(struct fmove *c, char *out, size_t cap, struct fmove_error *err);

/* The daemon's whole status as the JSON object that fmove-api(7) describes; free() it. */
int fmove_status(struct fmove *c, char **json, struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
