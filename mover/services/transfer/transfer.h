/* SPDX-License-Identifier: MIT */
/*
 * transfer - moving a file or a tree between this node and a peer: what local callers ask for. What
 * peers ask for is this service's as well. (job.h is the inside.)
 */
#ifndef FM_TRANSFER_H
#define FM_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/histogram.h"
#include "mover/base/ranges.h"
#include "mover/data/only.h"
#include "mover/node/engine.h"
#include "mover/node/service.h"
#include "mover/tree/tree.h"

extern const struct fm_service fm_transfer_service;

struct fm_job;

/*
 * What there may be at once: what local callers asked for and what all peers together did, so that
 * neither takes the other's places. What one user or peer may have of it base/share.h says; of what
 * is local, some is for root.
 */
#define FM_JOBS_LOCAL_MAX 160u		/* transfers; the queue divides them (queue/queue.h) */
#define FM_JOBS_PEERS_MAX 864u
/* of these transfers those of trees: each has threads of its own; the queue divides them */
#define FM_TREES_LOCAL_MAX 32u
#define FM_TREES_PEERS_MAX 48u
#define FM_JOB_RANGES_MAX 1024u		/* of one get: FM_WIRE_GET_RANGES_MAX */
/* large files of one tree under way at once; they are no transfers of their own to anybody */
#define FM_JOB_SUBS_MAX 8

enum fm_transport_want { FM_WANT_AUTO, FM_WANT_RDMA, FM_WANT_TCP };
enum fm_durability { FM_DURABILITY_DEFAULT, FM_DURABILITY_DISK, FM_DURABILITY_MEMORY };

struct fm_job_opts {
	bool is_put;			/* else get */
	/* its id in the logs of both nodes: FM_WIRE_JOB_LEN characters a-z, 2-7; NULL: none */
	const char *name;
	const char *node;		/* the peer */
	const char *store;
	const char *path;		/* path_len bytes */
	size_t path_len;
	/* ours: source of a put, sink of a get; taken over, also on error; or a tree
	 * (store/tree_file.h) */
	struct fm_file *file;
	/* of which store of this node that is; the job has a reference of its own; NULL: of none */
	struct fm_store_ref *store_ref;
	struct fm_attr attr;		/* put: of the source; of a tree's root dev and ino count */
	struct fm_who who;		/* the local caller; peer is NULL */
	/* the peer that had it begun in his name, and for whom it counts; NULL or "": none */
	const char *asked_by;
	enum fm_transport_want transport;
	enum fm_durability durability;
	/* a file, a tree as a whole; with is_update: an entry of another kind */
	bool may_replace;
	/* put: each chunk is read back from the far disk and compared */
	bool is_readback;
	bool is_held;			/* put: it gets its name only after fm_job_commit() */
	/* put: it becomes a member of the group with that ID */
	bool has_group;
	uint8_t group[FM_GROUP_ID_LEN];
	/* put of a caller's: through the page cache, since others read it at the same time */
	bool is_buffered;
	/* also what is not what the digest kept with it says; else that is -EBADMSG */
	bool accepts_corrupt;
	/* get: range_count of them, one after the other, in place of the whole file; NULL: that */
	const struct fm_range *ranges;
	size_t range_count;
	/* ranges: what is kept of blocks that they cover in part is compared, too */
	bool is_verified;
	uint64_t size_max;		/* get of a file: of a larger one -EFBIG; 0: any */
	struct fm_only only;		/* no tree, no ranges: which connections may carry it */
	uint64_t rate_bytes;		/* 0: no limit of its own */
	/* put: its turns among those that this node sends to that peer; 0: FM_WEIGHT_NORMAL
	 * (link.h) */
	unsigned weight;
	uint64_t timeout_ns;		/* for the whole transfer; 0: none */
	void *gone_ctx;			/* for gone() */
	/* A tree (file->tree is set): */
	/* send what differs from the version that is replaced ... */
	bool is_update;
	bool has_checksums;		/* ... by content */
	/* ... and what only that version has goes; else it is kept */
	bool is_delete;
	bool is_dry;			/* say what would be sent, change nothing */
	/* names() of the events is called with the names that change */
	bool has_names;
	uint64_t tree_bytes;		/* put of a tree: that will come at least; 0: not known */
	/* get: patterns of what not to send, NULL-terminated; NULL: none */
	const char *const *excludes;
};

struct fm_job_progress {
	uint64_t size;			/* FM_SIZE_UNKNOWN until known; a tree: at least */
	uint64_t bytes_done;		/* acknowledged (put) or written (get), holes not counted */
	uint64_t bytes_resent;
	uint64_t bytes_resumed;		/* of bytes_done: were there from an earlier try */
	uint64_t files;			/* tree: found so far, or made */
	unsigned corrupt_chunks;	/* found and sent again */
	unsigned conns;			/* in use now */
	const char *state;		/* "connecting", "opening", "copying", "committing" */
};

struct fm_job_result {
	int code;			/* 0 or a negative errno */
	struct fm_err err;
	struct fm_attr attr;		/* of the source */
	uint64_t size;			/* a tree: of its files */
	uint64_t data_bytes;		/* size less holes; a tree: what was moved for it */
	uint64_t chunks;		/* that carried these */
	uint64_t bytes_resent;
	uint64_t bytes_direct;		/* of a buffer, without a copy at this node */
	uint64_t bytes_resumed;		/* were there from an earlier try, and not sent */
	/* were there too, and were not what they should be: sent again */
	uint64_t bytes_damaged;
	/* what was moved and what was there: if that is no more than ever before, it did not get
	 * on */
	uint64_t bytes_reached;
	unsigned corrupt_chunks;
	uint32_t crc;			/* CRC32C of the whole; a tree: 0 */
	bool is_tree;
	bool is_ranged;			/* of these ranges, and no whole file */
	/* what is there now; wanted_*: was needed of what was offered (of a dry run: would be
	 * sent) */
	struct fm_tree_count tree;
	/* get: refused, since the whole of an update has no room; a dry run can tell how much of it
	 * will come */
	bool is_unmeasured;
	bool is_partial_kept;		/* failed: what came is kept for the next try */
	bool is_durable;
	bool is_checked;		/* false only in measuring mode, and of what was there */
	/* An earlier try had got it there, whose word was lost: told by size and time, crc is not
	 * known. The engine never sets it. */
	bool was_there;
	enum fm_kind kind;		/* that carried the data, at last */
	/* what of them each kind carried: several, if connections came or went */
	uint64_t kind_bytes[FM_KIND_COUNT];
	enum fm_encryption encryption;	/* of that kind, if it carried nothing */
	/* how what was moved was sealed; RDMA is plain */
	uint64_t encryption_bytes[FM_ENCRYPTION_COUNT];
	unsigned conns;			/* data connections of that kind that were up */
	char why[160];			/* why this transport: "no RDMA device at n2" */
	char note[320];			/* what was not as asked: "buffered: ..."; may be empty */
	uint64_t elapsed_ns;
};

struct fm_job_events {
	/* Once, last; the job is gone afterwards. A get's sink is synced but not renamed: the
	 * caller does that. */
	void (*done)(void *ctx, const struct fm_job_result *result);
	/* is_held only, NULL else: all is at the far end but the name; fm_job_commit() or
	 * fm_job_cancel() is awaited. sent: the same number for two puts that sent the same bytes
	 * (a tree: that found the same versions of the same names); 0: not known here. */
	void (*prepared)(void *ctx, uint64_t sent);
	/* has_names only, NULL else: a page of them (tree/names.h), valid during the call. None
	 * follows before fm_job_named(). */
	void (*names)(void *ctx, const struct fm_tree_names *page);
	/* NULL, or once, after done(), with gone_ctx: nothing of it is left, its file is closed:
	 * that may wait for ever. */
	void (*gone)(void *ctx);
};

/*
 * Errors that are known at once: -ENOENT unknown node, -EINVAL bad path, -EBUSY over
 * FM_JOBS_LOCAL_MAX; done() is not called then.
 */
int fm_job_start(struct fm_engine *engine, const struct fm_job_opts *opts,
		 const struct fm_job_events *events, void *ctx, struct fm_job **out,
		 struct fm_err *err);

/* Those errors alone, for who will start it later; the file may be NULL and is not taken over. */
int fm_job_check(struct fm_engine *engine, const struct fm_job_opts *opts, struct fm_err *err);

/*
 * done() comes with code and the reason, at once at this end; the far end is told. is_kept: what is
 * there already stays for the next try.
 */
void fm_job_cancel(struct fm_job *job, int code, bool is_kept, const char *reason);

/* After names(): the next page. */
void fm_job_named(struct fm_job *job);

/* After prepared(). */
void fm_job_commit(struct fm_job *job);

void fm_job_progress(struct fm_job *job, struct fm_job_progress *out);

struct fm_job_status {
	bool is_put;
	bool is_ours;			/* started at this node */
	const char *peer;
	const char *store;
	const char *path;		/* terminated; may be no UTF-8 */
	struct fm_job_progress progress;
	uint64_t elapsed_ns;
};

/* Status: every transfer that has not ended, those of peers included. */
void fm_job_visit(struct fm_engine *engine, void (*job)(void *ctx, const struct fm_job_status *s),
		  void *ctx);

/*
 * What all transfers came to since the start, those that run included: of what this node sends or
 * sent ([1]) and receives ([0]), whoever began them. None of it but `running` ever gets less.
 */
struct fm_transfer_totals {
	struct fm_transfer_total {
		uint64_t kind_bytes[FM_KIND_COUNT];	/* over which connections */
		uint64_t chunks;
		uint64_t bytes_resent;
		uint64_t bytes_resumed;	/* were there from earlier tries, and not sent */
		uint64_t corrupt_chunks;
		unsigned running;
		struct fm_histogram done, failed;	/* how long those took that ended */
	} way[2];
};

void fm_transfer_totals(struct fm_engine *engine, struct fm_transfer_totals *out);

#endif
