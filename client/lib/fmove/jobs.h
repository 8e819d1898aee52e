/* SPDX-License-Identifier: MIT */
/* fmove/jobs.h - transfers that go on without their caller. See <fmove.h>. */
#ifndef FMOVE_JOBS_H
#define FMOVE_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "files.h"
#include "groups.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

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
	size_t struct_size;
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
	char group[FMOVE_GROUP_ID_LEN + 1];	/* of which it becomes a member; or "" */
	unsigned excludes_count;
	char excludes[FMOVE_EXCLUDES_MAX][FMOVE_EXCLUDE_MAX + 1];
	/*
	 * It is of the user that we are to the daemon: whom a socket of one user makes of us, or
	 * root in a container, need not have the user id of this process.
	 */
	bool is_own;
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
 * it is attended; see struct fmove_options. -EPERM: fd is not from the job's own user; root,
 * who may resume a job that needs no file, may not hand one over.
 */
int fmove_resume(struct fmove *c, const char *job, int fd, struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
