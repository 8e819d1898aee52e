/* SPDX-License-Identifier: MIT */
/*
 * job_priv - one job, shared by job.c (its life), job_source.c and job_sink.c (the two roles). Control thread only.
 */
#ifndef FM_JOB_PRIV_H
#define FM_JOB_PRIV_H

#include "mover/job.h"
#include "mover/session.h"
#include "mover/xfer.h"

enum fm_job_state {
	FM_JOB_WAIT,		/* for the session, or for a connection of the kind wanted */
	FM_JOB_OPENING,		/* the far end opens its file, or a worker ours */
	FM_JOB_COPYING,
	FM_JOB_CHECKING,	/* source: is it still what it was? */
	FM_JOB_FINISHING,	/* source: FINISH is out */
	FM_JOB_DRAINING,	/* sink: the last lanes let go of the file */
	FM_JOB_PUBLISHING,	/* sink: a worker syncs and renames */
	FM_JOB_ENDED,
};

struct fm_job {
	struct fm_list at;		/* engine->jobs */
	struct fm_list session_at;
	struct fm_engine *engine;
	struct fm_session *session;	/* NULL: none yet, or lost */
	struct fm_peer *peer;		/* ours only, while it waits */
	char peer_name[FM_WIRE_NAME_MAX + 1];
	bool is_ours;			/* a local caller began it */
	bool is_source;
	enum fm_job_state state;
	uint64_t id;
	uint64_t started_ns;
	uint64_t deadline_ns;		/* of this state; 0: none */
	uint64_t timeout_ns;		/* of the whole; 0: none */
	uint64_t moved_bytes;		/* when the tick looked last and something had moved ... */
	uint64_t moved_ns;		/* ... and when that was */

	char store[FM_WIRE_NAME_MAX + 1];
	char *path;			/* terminated; path_len bytes */
	size_t path_len;
	struct fm_who who;
	char who_peer[FM_WIRE_NAME_MAX + 1];
	enum fm_transport_want want;
	enum fm_durability durability;
	bool may_replace;
	bool is_ordered;		/* the sink is a stream */
	uint64_t rate_bytes;
	uint32_t chunk;

	struct fm_store_ref *store_ref;	/* the peer's jobs: our store */
	struct fm_file *file;
	struct fm_attr attr;		/* of the source */
	struct fm_xfer *x;
	bool is_drained;		/* no lane uses x or file any more */
	bool is_given_up;		/* source: the far end dropped a chunk; the reason is to follow */
	bool is_durable;
	bool is_published;
	struct fm_wire_finish finish;

	/* One thing at a time is with the worker. */
	struct fm_work work;
	bool is_working;
	int work_ret;
	struct fm_err work_err;
	struct fm_create create;

	struct fm_job_events events;
	void *ctx;
	struct fm_job_result result;
	struct fm_task report_task;
	struct fm_task free_task;
	bool is_reported;
	bool is_far_end_told;		/* it knows that the job ended, or was never asked */
};

/* job.c */
struct fm_job *fm_job_find(struct fm_session *s, uint64_t id);
struct fm_job *fm_job_new_for_peer(struct fm_session *s, uint64_t id, const struct fm_wire_str *store, const struct fm_wire_str *path,
				   uint32_t uid, uint32_t gid, bool is_source);
/* The first call counts. code 0: done. text: why not. */
void fm_job_end(struct fm_job *j, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void fm_job_work(struct fm_job *j, void (*run)(struct fm_work *work), void (*done)(struct fm_work *work));
int fm_job_make_xfer(struct fm_job *j);
void fm_job_set_note(struct fm_job *j, const char *text, size_t len);
/* Which kinds of connection (bits) may carry it now; 0: none there. */
unsigned fm_job_kinds(const struct fm_job *j);
/* The same, noting in the result what was chosen and why. */
unsigned fm_job_choose(struct fm_job *j);
bool fm_job_is_over(struct fm_job *j);		/* after work: the job ended meanwhile; goes on with its end */

/* job_source.c */
void fm_job_source_start(struct fm_job *j);	/* put: send PUT */
void fm_job_source_copy(struct fm_job *j);
void fm_job_source_progressed(struct fm_job *j);

/* job_sink.c */
void fm_job_sink_start(struct fm_job *j);	/* get: send GET */
void fm_job_sink_drained(struct fm_job *j);

#endif
