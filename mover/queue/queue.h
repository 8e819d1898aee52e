/* SPDX-License-Identifier: MIT */
/*
 * queue - the transfers that local callers asked for: which of them run, which wait, what became of
 * those that ended.
 *
 * Everything a local caller wants moved goes through here. A job is started when a place is free:
 * by priority, then of the user who has the fewest running, then the oldest. Jobs that hang
 * together with something outside of the daemon (a caller's pipe, a put that waits for another's)
 * start at once and take no place: held back, they might wait for each other.
 *
 * A *detached* job belongs to nobody's connection: it is written down in the state directory before
 * it is accepted, is tried again after failures that may pass, and is kept for a while when it has
 * ended. Its end is told when that is written down, too. One between two stores goes on by itself
 * when the daemon starts again; one on a caller's own file is then paused until that caller hands
 * the file again. A job that is not detached ends with its caller, but for fm_queue_abandon().
 *
 * An *attended* job is a detached one on what only its caller can touch: a file of the caller's
 * that is received, and wants its name, or a directory of the caller's. A process of the caller
 * keeps its connection until the end. When that goes away the job is paused, and the same asked for
 * again goes on with it, under its id.
 *
 * Control loop only; what may wait for a disk goes to the worker. Callbacks come in a later pass,
 * never from inside a call. Jobs belong to the queue: a pointer to one is good until its done(),
 * for a detached one (which stays) until accepted().
 */
#ifndef FM_QUEUE_H
#define FM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/list.h"
#include "mover/base/retry.h"
#include "mover/services/transfer/transfer.h"

struct fm_err;
struct fm_holder;
struct fm_loop;
struct fm_queue;
struct fm_queue_job;
struct fm_random;
struct fm_worker;

#define FM_QUEUE_ID_LEN 8		/* characters of a job's id: a-z and 2-7 */
/*
 * Each is divided among users, with a part for root, as mover/base/share.h says: one user has seven
 * eighths of what is free at most. So are the descriptors that jobs hold open, and
 * FM_TREES_LOCAL_MAX.
 */
/* the largest limit on running jobs; of fewer than FM_QUEUE_RUNNING_SHARED nothing is kept */
#define FM_QUEUE_RUNNING_MAX 64u
#define FM_QUEUE_RUNNING_SHARED 8u
#define FM_QUEUE_PROMPT_MAX 72u		/* jobs that start at once, at once */
#define FM_QUEUE_PROMPT_ROOT 8u
/* callers' files that are being closed, after all: who has too many of them waits */
#define FM_QUEUE_LINGERING_MAX 24u
#define FM_QUEUE_LINGERING_ROOT 4u
#define FM_QUEUE_JOBS_MAX 10000u	/* that have not ended */
#define FM_QUEUE_JOBS_ROOT 500u
#define FM_QUEUE_JOBS_USER_MAX 1000u	/* of these of one user, root too */
#define FM_QUEUE_ATTENDED_MAX 72u	/* jobs that hold a client's connection (api.h) */
#define FM_QUEUE_ATTENDED_ROOT 8u
#define FM_QUEUE_TREES_ROOT 4u		/* of FM_TREES_LOCAL_MAX */
#define FM_QUEUE_BYTES_MAX (16u << 20)	/* that all jobs together take in memory */
#define FM_QUEUE_BYTES_ROOT (1u << 20)
#define FM_QUEUE_KEPT_MAX 1000u		/* that have ended and are still known */
#define FM_QUEUE_KEPT_USER_MAX 100u	/* of these of one user, the last */
#define FM_QUEUE_KEPT_MS (UINT64_C(24) * 3600 * 1000)
#define FM_QUEUE_FILE_PATH_MAX 4095	/* bytes of the path of a caller's file */

_Static_assert(FM_QUEUE_RUNNING_MAX + FM_QUEUE_PROMPT_MAX + FM_QUEUE_LINGERING_MAX <=
		       FM_JOBS_LOCAL_MAX,
	       "the engine keeps a place for each");

struct fm_request_opts;
struct fm_request_result;
struct fm_store_ref;

/* What the queue needs of the engine, as transfer.h, request.h, target.h and node.h say. */
struct fm_queue_needs {
	int (*check)(struct fm_engine *engine, const struct fm_job_opts *opts, struct fm_err *err);
	int (*start)(struct fm_engine *engine, const struct fm_job_opts *opts,
		     const struct fm_job_events *events, void *ctx, struct fm_job **out,
		     struct fm_err *err);
	void (*cancel)(struct fm_job *job, int code, bool is_kept, const char *reason);
	void (*named)(struct fm_job *job);
	void (*commit)(struct fm_job *job);
	void (*progress)(struct fm_job *job, struct fm_job_progress *out);
	int (*request)(struct fm_engine *engine, const struct fm_request_opts *opts,
		       void (*done)(void *ctx, const struct fm_request_result *result), void *ctx,
		       struct fm_err *err);
	int (*store_get)(struct fm_engine *engine, const char *name, size_t len,
			 struct fm_store_ref **out, struct fm_err *err);
	void (*store_put)(struct fm_store_ref *store);
};

extern const struct fm_queue_needs fm_queue_engine;

struct fm_queue_config {
	struct fm_loop *loop;
	struct fm_engine *engine;
	const struct fm_queue_needs *needs;	/* fm_queue_engine; a test has its own */
	struct fm_worker *worker;
	const struct fm_random *random;
	const char *node;		/* our name; copied */
	unsigned running_max;		/* 1 .. FM_QUEUE_RUNNING_MAX */
	/* where detached jobs are written down; made if need be; copied; NULL: nowhere */
	const char *directory;
};

/*
 * Reads what an earlier daemon left in the directory (blocks; before the loop runs). A directory
 * that cannot be used is logged and costs the detached jobs only. -ENOMEM.
 */
int fm_queue_new(const struct fm_queue_config *config, struct fm_queue **out, struct fm_err *err);

/*
 * Nothing is started or accepted any more; before fm_engine_stop(), which ends those that run. Jobs
 * that are detached go on when the next daemon starts.
 */
void fm_queue_stop(struct fm_queue *q);

/* The worker is about to be freed, before the queue: what is still to be closed or written down is
 * so at once, on the loop. Stopped. NULL is allowed. */
void fm_queue_worker_ends(struct fm_queue *q);

/* Stopped, the engine too, the worker has ended what it had of the queue, and the loop has run what
 * both posted. NULL is allowed. */
void fm_queue_free(struct fm_queue *q);

/*
 * There is a session with that peer: jobs that wait to be tried again with it are, now. No job more
 * often than once in FM_RETRY_PAUSE_MIN_NS, however often a peer comes and goes.
 */
void fm_queue_peer_up(struct fm_queue *q, const char *peer);

void fm_queue_set_running_max(struct fm_queue *q, unsigned running_max);

/* ---- one job ---- */

/* In the order of their words (base/words.h); fm_queue_ranks is that of their turns. */
enum fm_queue_priority { FM_QUEUE_NORMAL, FM_QUEUE_LOW, FM_QUEUE_HIGH, FM_QUEUE_PRIORITY_COUNT };

/* Our end of the transfer. */
enum fm_queue_end {
	FM_QUEUE_FILE,		/* job.file, ready to be used; never of a detached job */
	FM_QUEUE_FD,		/* a descriptor that the caller opened */
	FM_QUEUE_STORE,		/* a path in a store of this node */
};

enum fm_queue_state {
	FM_QUEUE_QUEUED,
	FM_QUEUE_RUNNING,
	FM_QUEUE_WAITING,	/* failed for a reason that may pass; tried again soon */
	FM_QUEUE_PAUSED,	/* needs its caller's file again */
	FM_QUEUE_DONE,
	FM_QUEUE_FAILED,
	FM_QUEUE_CANCELLED,
	FM_QUEUE_STATE_COUNT
};

struct fm_queue_opts {
	struct fm_job_opts job;		/* strings are copied; file and attr: FM_QUEUE_FILE only */
	enum fm_queue_end end;
	/* FM_QUEUE_FD: in whose table they are, a reference, taken over too; NULL: they are ours */
	struct fm_holder *holder;
	int fd;				/* FM_QUEUE_FD; taken over, also on error */
	/* FM_QUEUE_FD of a get: see fm_caller_sink(); taken over too; -1: none */
	int journal;
	/* FM_QUEUE_FD: its path as the caller knows it; "" if it has none */
	const char *file;
	size_t file_len;
	const char *own_store;		/* FM_QUEUE_STORE */
	const char *own_path;
	size_t own_path_len;
	/* FM_QUEUE_STORE: a directory; job.excludes: of what is sent, either way */
	bool is_tree;
	bool is_detached;
	/* is_detached too; a get of FM_QUEUE_FD, or FM_QUEUE_FILE of a directory; file is set */
	bool is_attended;
	/* is_attended: the id of the paused or ended job that this is; NULL or "": none */
	const char *again;
	enum fm_queue_priority priority;
	/*
	 * Whose share of places, threads and memory it takes, though it is a user's job: of this
	 * peer, which had it begun in his name; copied; NULL or "": the user's. Of none that is
	 * detached.
	 */
	const char *peer;
	/*
	 * Not of one that is attended: what its id is to be, made by fm_queue_make_id(), so that
	 * what a service has done by several jobs is logged under one; copied; NULL, "", or that
	 * of a job that is known: a new one.
	 */
	const char *id;
	/*
	 * After a failure that may pass, tried again until so long has passed since a byte came, or
	 * else since it was first tried; the last try begins when that time is up. 0: not;
	 * FM_RETRY_ALWAYS.
	 */
	uint64_t retry_ns;
};

/* An id that no job has. */
void fm_queue_make_id(struct fm_queue *q, char id[static FM_QUEUE_ID_LEN + 1]);

struct fm_queue_watch;

/* Any may be NULL. */
struct fm_queue_events {
	/* It has its place; a detached one is on disk. Only to who submitted it; before done(), if
	 * it comes at all. */
	void (*accepted)(struct fm_queue_watch *watch);
	/*
	 * Only its name is missing; fm_queue_commit(). A put that is held (see struct
	 * fm_job_events, which has `sent`, too): result is NULL. An attended get: what it came to;
	 * valid during the call.
	 */
	void (*prepared)(struct fm_queue_watch *watch, const struct fm_job_result *result,
			 uint64_t sent);
	/* job.has_names: a page of them, valid during the call; fm_queue_named() asks for the next.
	 * To who submitted it. */
	void (*names)(struct fm_queue_watch *watch, const struct fm_tree_names *page);
	/* Once, last: the watch is off. -EAGAIN: it is paused. */
	void (*done)(struct fm_queue_watch *watch, const struct fm_job_result *result);
};

/* Somebody who wants to know. Belongs to the caller; must stay until done() or
 * fm_queue_unwatch(). */
struct fm_queue_watch {
	const struct fm_queue_events *events;
	struct fm_queue_job *job;	/* set by the queue; NULL: watches nothing */
	struct fm_list at;		/* the queue's */
};

/*
 * Errors that are known at once: those of fm_job_start(), -EBUSY over a limit, -EINVAL, -EOPNOTSUPP
 * no directory for detached jobs; done() is not called then. What belongs to opts is taken over in
 * any case.
 */
int fm_queue_submit(struct fm_queue *q, const struct fm_queue_opts *opts,
		    struct fm_queue_watch *watch, struct fm_err *err);

/* The watched job ends with code and this reason; done() follows. is_kept: what came stays for the
 * next try. */
void fm_queue_end_job(struct fm_queue_watch *watch, int code, bool is_kept, const char *reason);

/*
 * Who watches it, and asked for it, has gone away: it ends, what came stays. A put of a file whose
 * path is known is kept as one that is paused for FM_QUEUE_KEPT_MS, for fm_queue_resume(); asking
 * for the same again takes its place. So is one that is attended; asking for the same again goes on
 * with it. The watch is off.
 */
void fm_queue_abandon(struct fm_queue_watch *watch);

/* After prepared(). err: of an attended get, why it could not be given its name, which is its end;
 * NULL: it has it. */
void fm_queue_commit(struct fm_queue_watch *watch, const struct fm_err *err);

/* After names(). */
void fm_queue_named(struct fm_queue_watch *watch);

/* NULL job: nothing happens. The job goes on. */
void fm_queue_unwatch(struct fm_queue_watch *watch);

/* ---- by id; who: root may all, others their own jobs; else as if there was none: -ENOENT ---- */

/* done() follows, soon if it has ended already or is paused. */
int fm_queue_watch_id(struct fm_queue *q, const char *id, uid_t who, struct fm_queue_watch *watch,
		      struct fm_err *err);

/*
 * 0: no later daemon begins it again. 1: so it will be soon, when that is written down: done() of
 * the watch says it, with code 0 (or -EALREADY, it had come to another end; -ETIMEDOUT, the state
 * directory does not answer; another one, it could not be written down). watch NULL: nobody wants
 * to know. -EALREADY: it has ended, or is being given its name.
 */
int fm_queue_cancel(struct fm_queue *q, const char *id, uid_t who, bool is_kept,
		    struct fm_queue_watch *watch, struct fm_err *err);

/*
 * One that waits is tried now; one that is paused, failed or was cancelled is queued again, with fd
 * where it needs a file (taken over in any case, with the reference to its holder; -1: none). For
 * one that is attended and receives a file, fd is the file that has its name already: if it is of
 * the size and time of the source, an earlier try made it and the job is done, else it fails with
 * -EEXIST. -EINVAL: a file is needed, or is not, or it is attended and needs its caller; -EPERM: a
 * file came, and not from its user (root's would be opened with root's rights); -EALREADY: it is
 * queued, runs or is done.
 */
int fm_queue_resume(struct fm_queue *q, const char *id, uid_t who, int fd, struct fm_holder *holder,
		    struct fm_err *err);

/* ---- looking ---- */

struct fm_queue_progress {
	struct fm_job_progress job;	/* state: also "queued", "waiting", "paused" */
	unsigned before;		/* QUEUED: about how many are before it */
	const char *text;		/* WAITING, PAUSED, FAILED, CANCELLED: why; else "" */
	uint64_t again_ns;		/* WAITING: until the next try */
};

struct fm_queue_info {
	const char *id;
	uint64_t seq;			/* grows from job to job */
	uid_t uid;
	enum fm_queue_state state;
	const char *node;		/* ours */
	const struct fm_queue_opts *opts;
	unsigned tries;			/* begun so far */
	int64_t created_ms;		/* since 1970 */
	int64_t ended_ms;		/* DONE, FAILED, CANCELLED */
	struct fm_queue_progress progress;
	const struct fm_job_result *result;	/* DONE; else NULL */
	/* FAILED, CANCELLED, WAITING: the errno of the last failure */
	int code;
};

void fm_queue_progress(const struct fm_queue_job *job, struct fm_queue_progress *out);
const char *fm_queue_id(const struct fm_queue_job *job);

/* "queued", "running", ... */

/*
 * Jobs with a seq above `after`, the oldest first, until visit() returns false: those of uid, or
 * all of them if is_all (which the caller may decide for root only). *info is valid during the
 * call. What ended too long ago is forgotten first.
 */
void fm_queue_visit(struct fm_queue *q, uid_t uid, bool is_all, uint64_t after,
		    bool (*visit)(void *ctx, const struct fm_queue_info *info), void *ctx);

/* How many jobs are in each state now; what never gets less since the start: tries that were begun
 * after a failure, and how jobs ended. */
struct fm_queue_counts {
	unsigned jobs[FM_QUEUE_STATE_COUNT];
	uint64_t retries;
	uint64_t ended[FM_QUEUE_STATE_COUNT];	/* DONE, FAILED, CANCELLED; others are 0 */
	/* of now, QUEUED or WAITING: with a caller's own file or directory, which goes when the
	 * daemon ends, so that the job is paused until its user hands it over again */
	unsigned with_file;
};

void fm_queue_counts(const struct fm_queue *q, struct fm_queue_counts *out);

/* That one alone: -ENOENT, with a text. */
int fm_queue_find(struct fm_queue *q, const char *id, uid_t who, struct fm_queue_info *out,
		  struct fm_err *err);

#endif
