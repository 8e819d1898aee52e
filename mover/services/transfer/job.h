/* SPDX-License-Identifier: MIT */
/*
 * job - one transfer as the control thread sees it, at either end, whichever end began it.
 *
 * Source:  WAIT for the session -> PUT, READY (or GET, open, FOUND) -> COPYING
 *          -> CHECKING that the source is unchanged -> FINISH -> FINISHING -> DONE
 * Sink:    WAIT for the session -> GET, FOUND (or PUT, create, READY) -> COPYING
 *          -> FINISH -> DRAINING -> PUBLISHING -> DONE
 *
 * Failure: the first reason counts. A local caller hears it at once. The peer is told by ABORT.
 * Chunks under way end on their own. Then the file is discarded (sink) and closed on a worker, and
 * the job is freed.
 *
 * Private to transfer/: shared by job.c (its life), job_source.c and job_sink.c (the two roles) and
 * job_tree.c (what trees have beyond that). Control thread only.
 */
#ifndef FM_JOB_PRIV_H
#define FM_JOB_PRIV_H

#include "mover/base/env.h"
#include "mover/base/log.h"
#include "mover/node/session.h"
#include "mover/data/xfer.h"
#include "mover/services/transfer/transfer.h"

#define FM_JOB_OPEN_NS (60 * FM_NS_PER_S)	/* the far end opens a file: its disk may be slow */
/* the same of a tree, which may have another one's rest to remove first */
#define FM_JOB_OPEN_TREE_NS (600 * FM_NS_PER_S)
#define FM_JOB_LOG_NS FM_NS_PER_S	/* the journal is at most this far behind, and a sync */
#define FM_JOB_CORRUPT_NOTE "not what was put there: its source is corrupt, which was accepted"
/* Some of each transfer are held while a file that may stand still is waited for (beside.h). */
#define FM_JOB_BESIDE_CHUNK_MAX (256u << 10)
/* large files of one tree, those included that are over and whose file is being closed */
#define FM_JOB_SUBS_KEPT_MAX 256

enum fm_job_state {
	FM_JOB_WAIT,		/* for the session, or for a connection of the kind wanted */
	FM_JOB_OPENING,		/* the far end opens its file, or a worker ours */
	FM_JOB_COPYING,
	/* sink that may stand still: all is here, and it has not taken all yet */
	FM_JOB_EMPTYING,
	FM_JOB_CHECKING,	/* source: is it still what it was? */
	FM_JOB_FINISHING,	/* source: FINISH is out */
	/* held: all is there but the name; COMMIT is awaited (sink), the caller's word (source) */
	FM_JOB_PREPARED,
	FM_JOB_DRAINING,	/* sink: the last lanes let go of the file */
	FM_JOB_PUBLISHING,	/* sink: a worker syncs and renames */
	FM_JOB_ENDED,
};

/* What the end that has the bytes knows beyond that. */
struct fm_job_source {
	/* As in struct fm_job_opts. */
	bool may_replace;
	bool is_buffered;		/* large files of a tree, too */
	bool is_held;			/* COMMIT was not sent yet */
	bool awaits_ready;		/* of a get: the sink says first what it has */
	bool is_windowed;		/* the sink may stand still ... */
	uint64_t window;		/* ... and its chunks numbered below may be sent */
	bool is_corrupt;		/* what was read is not what was kept, which was accepted */
	bool is_given_up;		/* the far end dropped a chunk; the reason is to follow */
};

/* What the end that writes the bytes knows beyond that. */
struct fm_job_sink {
	struct fm_create create;	/* asked for by a peer: how its file is made */
	bool has_begun;			/* the file knows its source, so log() may be called */
	bool is_published;
	/* how far what an earlier try left was read again; NULL: there is nothing, or not begun */
	struct fm_kept *kept;
	bool is_rereading;		/* a worker does that now */
	size_t note_said;		/* so much of the file's note READY had; it only grows */
	/* being written to the journal; room for FM_XFER_LOG_MAX */
	struct fm_written *log;
	size_t log_count;
	struct fm_written *last_log;	/* what was left to be written there when it ended */
	size_t last_log_count;
	uint64_t logged_ns;
	struct fm_wire_finish finish;
	struct fm_digest digest;	/* of what was written */
	/* the worker's while it publishes and closes it, and fm_job.file is NULL; NULL: it is
	 * closed */
	struct fm_file *work_file;
};

/* The names that change in a tree, as they are told page by page: job_names.c. */
struct fm_job_names {
	enum {
		FM_NAMES_UNASKED,	/* nobody wants them */
		FM_NAMES_ASKED,
		/* a page was told, and no more was asked for yet (sink), or may be yet (source) */
		FM_NAMES_SHOWN,
	} state;
	/* Sink */
	struct fm_tree_names *page;	/* that is told; NULL: none yet */
	uint64_t next;			/* where the next one is */
	const char *note;		/* why not all were told; NULL: they were */
};

/* What a tree has beyond a file, at either end. Its large files are jobs too, which have a
 * parent. */
struct fm_job_tree {
	struct fm_share_held place;	/* a peer's: this, beside fm_job.place */
	bool is_listening;		/* its file is there and tells us things */
	uint64_t bytes;			/* that its files take at least; 0: not known */
	/* As in struct fm_job_opts. */
	bool is_update;
	bool is_delete;
	bool has_checksums;
	bool is_dry;
	char **excludes;		/* NULL-terminated, in one block; NULL: none */
	struct fm_list subs;		/* fm_job.sub_at of its large files, until they are freed */
	struct fm_moved sums;		/* for those that ended */
	struct fm_task task;		/* a large file is over: go on */

	struct fm_job_names names;	/* that change */

	/* Source */
	unsigned wants;			/* flags of READY */

	/* Sink */
	uint64_t wanted_files;		/* of what was offered, what was needed */
	uint64_t wanted_bytes;
	struct fm_ranges answered;	/* numbers of the offering packs that were answered */
	/* large files whose log the worker has; they count as working */
	struct fm_job *logging[FM_JOB_SUBS_MAX];
	unsigned logging_count;
};

/* What the local caller has heard of the end. */
enum fm_job_report {
	FM_REPORT_NONE,			/* nobody here waits for it: a peer's, or a large file */
	FM_REPORT_DUE,
	FM_REPORT_LATE,			/* not before the file is closed, or report_by_ns */
	FM_REPORT_TOLD,
};

struct fm_job {
	struct fm_list at;		/* fm_jobs.list */
	struct fm_engine *engine;
	struct fm_session *session;	/* NULL: none yet, or lost */
	struct fm_peer *peer;		/* ours only, while it waits */
	char peer_name[FM_WIRE_NAME_MAX + 1];
	char asked_by[FM_WIRE_NAME_MAX + 1];	/* ours, and "": for our user */
	bool is_ours;			/* a local caller began it */
	struct fm_share_held place;	/* else: its peer's, until nothing of it runs any more */
	bool is_source;
	bool is_tree;
	enum fm_job_state state;
	uint64_t id;
	char name[FM_WIRE_JOB_LEN + 1];	/* in the logs of both nodes; "": none */
	uint64_t started_ns;
	uint64_t deadline_ns;		/* of this state; 0: none */
	uint64_t timeout_ns;		/* of the whole; 0: none */
	uint64_t moved;			/* when the tick looked last and something had moved ... */
	uint64_t moved_ns;		/* ... and when that was */

	char store[FM_WIRE_NAME_MAX + 1];
	char *path;			/* terminated; path_len bytes */
	size_t path_len;
	struct fm_who who;
	char who_peer[FM_WIRE_NAME_MAX + 1];
	enum fm_transport_want want;
	enum fm_durability durability;
	bool is_readback;
	bool has_group;			/* put: it becomes a member of the one with the ID ... */
	uint8_t group[FM_GROUP_ID_LEN];	/* ... here */
	bool accepts_corrupt;
	bool is_ordered;		/* the sink is a stream */
	/* get: range_count of them, which are the file then; NULL: the whole file */
	struct fm_range *ranges;
	size_t range_count;
	bool is_verified;		/* blocks that they cover in part, too */
	uint64_t size_max;		/* get: of more bytes nothing comes; 0: any */
	struct fm_only only;
	uint64_t rate_bytes;
	unsigned weight;
	uint32_t chunk;

	/* our store, at whichever end began it; NULL: a caller's file, or a large one */
	struct fm_store_ref *store_ref;
	struct fm_file *file;
	struct fm_attr attr;		/* of the source */
	struct fm_have have;		/* of it, from an earlier try */
	bool is_kept;			/* ended: what is there stays for the next try */
	struct fm_xfer *x;
	bool is_drained;		/* no lane uses x or file any more */
	bool is_durable;

	/* A large file. */
	struct fm_job *parent;		/* NULL: none */
	struct fm_list sub_at;
	struct fm_tree_large *large;

	/* One thing at a time is with the worker. */
	struct fm_work work;
	bool is_working;
	int work_ret;
	/* the worker's: `attr` as it was when it began, or what it found. Others read and write
	 * `attr` meanwhile */
	struct fm_attr work_attr;
	struct fm_err work_err;

	struct fm_job_source source;	/* if is_source ... */
	struct fm_job_sink sink;	/* ... and if not */
	struct fm_job_tree tree;	/* if is_tree */

	struct fm_job_events events;
	void *ctx;
	void *gone_ctx;
	struct fm_job_result result;
	struct fm_task report_task;
	struct fm_task free_task;
	enum fm_job_report report;
	uint64_t report_by_ns;
	bool is_far_end_told;		/* it knows that the job ended, or was never asked */
};

/* Those of one engine. */
struct fm_jobs {
	struct fm_list list;		/* fm_job.at */
	/* without the large files of trees; local callers' and peers' */
	unsigned count;
	unsigned tree_count;		/* of them trees */
	struct fm_share peer_places;	/* of all peers together, divided among them */
	struct fm_share peer_trees;	/* the same of trees */
	struct fm_transfer_totals ended;	/* of those that are over */
	struct fm_log_users lines;	/* in the log, of local callers' */
};

/* job.c */
struct fm_jobs *fm_jobs_of(const struct fm_engine *e);
struct fm_job *fm_job_find(struct fm_session *s, uint64_t id);
/* name: as in the message, FM_WIRE_JOB_LEN characters, or zeros: none */
struct fm_job *fm_job_new_for_peer(struct fm_session *s, uint64_t id, const char *name,
				   const struct fm_wire_str *store, const struct fm_wire_str *path,
				   uint32_t uid, uint32_t gid, bool is_source);
/* The first call counts. code 0: done. text: why not. What came stays for the next try if that
 * could help. */
void fm_job_end(struct fm_job *j, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with all that why says: also that no place was free, and the same may be taken later. */
void fm_job_fail(struct fm_job *j, const struct fm_err *why);
/* Who has the descriptors of its end, or of its tree; NULL: they are ours. */
struct fm_holder *fm_job_holder(const struct fm_job *j);
void fm_job_work(struct fm_job *j, void (*run)(struct fm_work *work),
		 void (*done)(struct fm_work *work));
/* The same of work that is not the job's one thing at a time. */
void fm_job_submit(struct fm_job *j, struct fm_work *work);
/* As fm_job_end(), and whether it stays is said. */
void fm_job_end_kept(struct fm_job *j, bool is_kept, int code, const char *text);
int fm_job_make_xfer(struct fm_job *j);
/* Room for so many ranges, to be filled in. -ENOMEM. */
int fm_job_make_ranges(struct fm_job *j, size_t count, struct fm_err *err);
/* Which connections alone may carry it: to the source; from the sink, where there is a flag ONLY.
 * -EHOSTUNREACH, -E2BIG and *err: that cannot be said. */
int fm_job_tell_only(const struct fm_job *j, struct fm_wire_get *get, struct fm_err *err);
void fm_job_take_only(struct fm_job *j, const struct fm_wire_get *get);
/* Its chunks go through memory beside the slots (beside.h): they are small then. */
bool fm_job_is_beside(const struct fm_job *j);
/* Those of a transfer with a low limit, too: else who waits for it would seem to stand still. */
void fm_job_limit_chunk(struct fm_job *j);
/* A job of this session; parent: its tree, or NULL. Not counted against any limit. NULL: no
 * memory. */
struct fm_job *fm_job_new(struct fm_engine *e, const char *path, size_t path_len,
			  struct fm_job *parent);
/* It has ended: as soon as nobody uses the file, close it; then free the job. */
void fm_job_clean(struct fm_job *j);
void fm_job_refuse(struct fm_session *s, uint64_t id, const struct fm_err *why);
void fm_job_set_note(struct fm_job *j, const char *text, size_t len);
/* Which kinds of connection (bits) may carry it now; 0: none there. */
unsigned fm_job_kinds(const struct fm_job *j);
/* The same, noting in the result what was chosen and why. */
unsigned fm_job_choose(struct fm_job *j);
/* After work: the job ended meanwhile; goes on with its end. */
bool fm_job_is_over(struct fm_job *j);
/* After work: it did not, and what was done succeeded. What failed ends the job. */
bool fm_job_goes_on(struct fm_job *j);

/* job_source.c */
void fm_job_on_get(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_job_on_ready(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_job_on_window(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_job_on_done(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_job_source_start(struct fm_job *j);	/* put: send PUT */
void fm_job_source_copy(struct fm_job *j);
void fm_job_identity(const struct fm_job *j, struct fm_identity *out);	/* of the source. Worker */
void fm_job_source_progressed(struct fm_job *j);

/* job_kept.c */
void fm_job_on_kept(struct fm_session *s, const struct fm_wire_msg *msg);
/* Sink, behind READY: read again what is there from an earlier try. */
void fm_job_reread_kept(struct fm_job *j);
/* Whether some of it was not yet. */
bool fm_job_is_kept_unread(const struct fm_job *j);

/* job_names.c */
void fm_job_on_names(struct fm_session *s, const struct fm_wire_msg *msg);
/* Sink: published. fm_job_sink_told() follows, now or when all names were told. */
void fm_job_tell_names(struct fm_job *j);
/* Its deadline passed: the rest is not told. */
void fm_job_names_unread(struct fm_job *j);

/* job_tree.c */
void fm_job_on_need(struct fm_session *s, const struct fm_wire_msg *msg);
bool fm_job_has_room_for_tree(const struct fm_engine *e);
/* It is one from here on; it is counted. */
void fm_job_set_tree(struct fm_job *j);
/* The same of one that a peer began, who has a share of the places: -EBUSY, -ENOMEM, and it has
 * ended. */
int fm_job_set_peers_tree(struct fm_job *j);
/* Copies. -EINVAL: too many, or too long; -ENOMEM. */
int fm_job_set_excludes(struct fm_job *j, const struct fm_wire_str *at, size_t count,
			struct fm_err *err);
int fm_job_set_excludes_of(struct fm_job *j, const char *const *at, struct fm_err *err);
/* Its file is there: it may tell us things now. */
void fm_job_tree_listen(struct fm_job *j);
/* Source: READY came. */
void fm_job_tree_ready(struct fm_job *j, const struct fm_wire_ready *m);
/* Source: whether large files are under way, or could be begun now. */
bool fm_job_tree_has_large(struct fm_job *j);
/* Worker. */
int fm_job_tree_open(struct fm_job *j);
int fm_job_tree_create(struct fm_job *j);
unsigned fm_job_tree_ready_flags(const struct fm_job *j);
void fm_job_tree_count(const struct fm_job *j, struct fm_tree_count *out);
unsigned fm_job_subs(const struct fm_job *j);	/* under way */
/* Sink: log what was made, and what its large files wrote. */
void fm_job_tree_log(struct fm_job *j);
/* Sink: PUT with `tree` came. */
void fm_job_tree_put(struct fm_session *s, const struct fm_wire_put *m);
/* The tree ends: so do its large files, silently. */
void fm_job_tree_end_subs(struct fm_job *j);
/* A large file has ended; its job is being freed. */
void fm_job_sub_ended(struct fm_job *j);
void fm_job_sub_freed(struct fm_job *j);
/* What moved so far for the tree, its own packs aside. */
void fm_job_tree_sums(const struct fm_job *j, struct fm_moved *out);

/* job_sink.c */
void fm_job_on_put(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_job_on_found(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_job_on_finish(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_job_on_commit(struct fm_session *s, const struct fm_wire_msg *msg);
/* Worker's: what was asked for is there, or not: READY, or the end. */
void fm_job_sink_created(struct fm_work *work);
/* The journal was written: go on. */
void fm_job_sink_logged(struct fm_job *j);
void fm_job_sink_start(struct fm_job *j);	/* get: send GET */
void fm_job_sink_drained(struct fm_job *j);
void fm_job_sink_progressed(struct fm_job *j);	/* what may stand still took something */
/* It is published and all is told but that: DONE. */
void fm_job_sink_told(struct fm_job *j);
void fm_job_sink_tick(struct fm_job *j, uint64_t now_ns);

#endif
