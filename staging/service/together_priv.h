/* SPDX-License-Identifier: MIT */
/* together_priv - what together.c and together_io.c share. */
#ifndef FM_STAGE_TOGETHER_PRIV_H
#define FM_STAGE_TOGETHER_PRIV_H

#include <errno.h>
#include <stdatomic.h>

#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "staging/run/run.h"
#include "staging/service/about.h"
#include "staging/service/landing.h"
#include "staging/service/memory_line.h"
#include "staging/service/outbox.h"
#include "staging/service/refusals.h"
#include "staging/service/together.h"

/*
 * Ids that one run has one after the other: with each new one the earlier of two counts, and of N
 * nodes that ask at once a node hears of some ln N that come before its own.
 */
#define FM_TOGETHER_IDS_MAX 16u

struct fm_togethers {
	struct fm_togethers_opts o;
	struct fm_log_users lines;	/* of runs that callers of this node want */
	struct fm_run_times times;
	struct fm_list list;		/* fm_together.at */
	unsigned count;
	struct fm_share places;
	struct fm_refusals refusals;	/* of runs that were not to be */
	struct fm_landing *landing;
	struct fm_memory_line memory;	/* for what is read here */
	atomic_bool is_stopping;	/* the worker looks, too */
	_Atomic uint64_t read;
};

/* A node, as it says; ourselves, too. */
struct fm_together_peer {
	bool is_heard;
	uint8_t place;			/* enum fm_run_place */
	uint8_t entries;		/* how often it came, up to what is said of that */
	char job[FM_WIRE_JOB_LEN + 1];	/* what it calls the run; "": it says no name */
	int code;
	uint64_t done, read;
	uint64_t may_read;		/* its word on which nodes may have bytes of it */
	char *path, *text;		/* NULL: "" */
};

struct fm_together_slot {
	struct fm_together *owner;
	struct fm_landed *b;		/* NULL: nothing is there (yet) */
	struct fm_landing_place *place;	/* NULL: nothing is awaited */
	uint32_t extent;
	uint32_t crc;			/* of b */
};

struct fm_together {
	struct fm_list at;
	struct fm_togethers *all;
	char begun_by[FM_WIRE_NAME_MAX + 1];	/* a peer; "": a caller here wants it, too: */
	uid_t caller;
	struct fm_share_held place;
	struct fm_share_held memory;	/* of what is known of its extents */
	bool has_memory;
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];
	struct fm_cache_key key;
	struct fm_stage_about about;
	/* what it is logged under, last, and before: the worker may still log under one */
	char ids[FM_TOGETHER_IDS_MAX][FM_WIRE_JOB_LEN + 1];
	unsigned id_count;
	unsigned id_by;			/* the node that said the last one; self: none did */
	bool is_id_good;		/* a caller's here, or of a node that may take part */
	uint8_t rank[FM_RUN_NODES_MAX];
	unsigned self;
	struct fm_together_peer peer[FM_RUN_NODES_MAX];
	uint64_t in;			/* peers that take part, with a session, and may */
	uint64_t was_in;		/* and those that have left since */
	uint64_t said_in;		/* peers that say so */
	uint64_t told;			/* nodes whose word on who may read it was heard */
	uint64_t said_to;		/* peers that heard of it over the session that is there */
	uint64_t asked_by;		/* peers whose requests name this node: they wait for it */
	uint64_t wanted;		/* by requests made here; of each node the first was: */
	struct {
		uid_t uid;
		gid_t gid;
	} by[FM_RUN_NODES_MAX];
	uid_t uid;			/* with whose rights the source is looked at here */
	gid_t gid;
	uid_t named_uid;		/* of whom a peer's request for this node is */
	gid_t named_gid;
	unsigned named_by;		/* that peer */
	struct fm_run *core;		/* NULL: not yet, or not any more */
	unsigned generation;		/* of the core: answers to an earlier one are dropped */
	struct fm_outbox out;
	struct fm_list waiters;
	unsigned users;
	struct fm_task task;
	bool is_woken;			/* it is posted */
	struct fm_timer timer;
	uint64_t said_ns;
	/* The disk: */
	char source[FM_CACHE_SOURCE_MAX + 1];	/* what it is called */
	/* Of the manifest, in which each extent that is laid has its CRCs; -1: not known here. */
	int draft;
	bool is_manifest;		/* it is that of what was READY here: only read */
	int next_draft;			/* that came while a worker has the other; -1: none */
	bool is_listed;			/* the draft is what this node sees of the source */
	int root;			/* of the source; -1: cannot read it */
	int disk;			/* of what is here; -1: nothing */
	int scratch;			/* the CRCs of what is laid */
	struct fm_store_ref *store;	/* of the source, here; NULL: it has none */
	struct fm_err note;		/* why that is not read although it is shared */
	uint64_t hold;			/* of what is READY here */
	uint32_t *sizes;		/* of extents; NULL: not known */
	uint64_t *have;			/* extents that are on the disk, bits ... */
	uint32_t *crc;			/* ... and their CRCs */
	_Atomic uint64_t laid;		/* bytes of all that the worker found, and wrote */
	bool is_ready;			/* all of them, READY */
	bool lacks_rules;		/* fm_togethers_lack_rules(), at the look */
	bool lacks_volume;		/* the source's store is here, on a volume that is away */
	bool is_found;			/* it became so while it was looked for */
	struct fm_together_slot slot[FM_RUN_SLOTS];
	struct fm_list starting, running;	/* ops */
	struct fm_memory_turn turn;	/* of those that wait for memory */
	unsigned ops;			/* that have not ended, with works of other kinds */
	unsigned at_source;		/* of these, reads and looks at the source: it may hang */
	/* Of these, extents that are being written, that wait for a sync, that are being synced: */
	struct fm_list batch, written, saving;
	struct fm_work write_work, save_work;
	struct fm_work work;		/* look, take */
	struct fm_err work_err;
	char *work_path;		/* for our peer.path; NULL: none */
	char asker[FM_WIRE_NAME_MAX + 1];	/* "": a caller of this node */
	bool is_looking, is_taking;
	/* Wanting it: */
	bool is_to_take;		/* somebody here makes room for it */
	struct fm_together_sink *sink;
	struct fm_cache_fetch *fetch;
	bool is_anew;			/* it was here, went, and is to come again */
	bool is_publishing;
	atomic_bool is_spoilt;		/* meanwhile what came was found damaged on the disk */
	bool is_other;			/* fm_together_is_other() was told, meanwhile */
	bool is_named;			/* by a peer's request */
	bool is_invited, is_answering;
	uint64_t invited_ns;
	/* The end: */
	bool is_broken;			/* no memory for what the run asked for */
	bool is_ended;			/* the run says so */
	bool is_over;
	bool is_told;			/* to those who waited */
	uint64_t over_ns;
	uint64_t missing;
	struct fm_err err;
};

/* Whether that is said of a source which is another one by now, or is gone. */
static inline bool fm_together_is_another(int code)
{
	return code == -ESTALE || code == -ENOENT || code == -ENOTDIR;
}

/*
 * Whether that is said of a source which says nothing of who asks: it is another one, or its own
 * node may not open it, keeps its store apart, or waits for its file system.
 */
static inline bool fm_together_is_closed(int code)
{
	return fm_together_is_another(code) || code == -EPERM || code == -EAGAIN ||
	       code == -ETIMEDOUT;
}

/* A line of the run, under its id. */
#define fm_together_log(t, level, ...)                                                       \
	fm_together_log_by(t, (t)->begun_by, level, __VA_ARGS__)

/* The same, of what that peer caused; "": a caller of this node. */
#define fm_together_log_by(t, peer, level, ...)                                              \
	fm_log_job(fm_together_lines((t), (peer)), fm_loop_now((t)->all->o.loop), (level),   \
		   fm_together_job(t), __VA_ARGS__)

/* together.c */
/* What lines count on that this peer causes; "": callers of this node do. */
struct fm_log_limit *fm_together_lines(const struct fm_together *t, const char *peer);
void fm_together_wake(struct fm_together *t);
void fm_together_queue(struct fm_together *t, unsigned hop, const struct fm_run_msg *msg);
void fm_together_begin(struct fm_together *t);
/* Whom requests made here name, and this node from when it makes room: the run waits. */
void fm_together_tell_wanted(struct fm_together *t);
void fm_together_tell_called(struct fm_together *t);
/* Who may read the source, to the nodes that take part: before this one refuses to. */
void fm_together_tell_rules(struct fm_together *t);
/* Who may take part, after what decides that has changed. */
void fm_together_sort(struct fm_together *t);
void fm_together_fail_here(struct fm_together *t, const struct fm_err *err);
void fm_together_check_invited(struct fm_together *t);
/* This node has other bytes than the others: tells them. */
void fm_together_warn(struct fm_together *t, const struct fm_err *note);
/* err NULL: as the run says. */
void fm_together_over(struct fm_together *t, const struct fm_err *err);

/* together_io.c */
/* The store of a source on this node, with a reference; NULL: there is none. */
struct fm_store_ref *fm_togethers_store(const struct fm_togethers *all,
					const struct fm_stage_about *a);
/* The same, also of one that is silent: it has its rules. */
struct fm_store_ref *fm_togethers_rules(const struct fm_togethers *all,
					const struct fm_stage_about *a);
/* It is this node's, and whom it lets read is not known: it is in no configuration any more, or
 * on a volume that is not mounted. */
bool fm_togethers_lack_rules(const struct fm_togethers *all, const struct fm_stage_about *a);
/* The latter. */
bool fm_togethers_lack_volume(const struct fm_togethers *all, const struct fm_stage_about *a);
void fm_together_look_here(struct fm_together *t, const char *asker);
void fm_together_start_ops(struct fm_together *t);
/* Whether anything is under way, but at the source, that uses what this node keeps. */
bool fm_together_is_busy(const struct fm_together *t);
/* What is to come again comes, once nothing is under way. */
void fm_together_take_anew(struct fm_together *t);
/* Cancels the operations to that node (-1: to all): they are not answered any more. */
void fm_together_cancel_ops(struct fm_together *t, int to);
void fm_together_drop_core(struct fm_together *t);
void fm_together_close_io(struct fm_together *t);

#endif
