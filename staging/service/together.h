/* SPDX-License-Identifier: MIT */
/*
 * together - several nodes stage one dataset: the run of staging/run with a network, disks and a
 * clock.
 *
 * Happy path: a request (or a peer's ABOUT) makes the run known here; the node looks whether it has
 * the dataset READY or can read the source; all peers that stage hear of it. A node that wants the
 * dataset (fm_together_take) lays it out and becomes a sink; extents come from the source, from
 * peers' memory or from their disks; when all are there and right it is handed over to be made
 * READY. The run ends here when the coordinator says so; who waits hears how it went on each node.
 *
 * Failure: what fails in the run is staging/run's. A source that does not stage, or does not let
 * us, ends it with -EOPNOTSUPP: it can be fetched from alone. A full disk takes this node out, and
 * the others go on.
 *
 * Of a shared store each node looks at its own: who sees what was listed reads for the run; who
 * does not says so, and takes what the others read.
 *
 * Who takes part: whom the rules of the source's store let read; of a shared store those of each
 * node that has it and can be asked. Each node says it in ABOUT, passes on what it heard, and deals
 * with nobody before all that are connected have answered.
 *
 * Which nodes there are: this one and all its peers, sorted; whoever has other peers is in another
 * run. Whom a node deals with staging.peers says, at each node.
 *
 * Loop thread; disks are read and written by workers.
 */
#ifndef FM_STAGE_TOGETHER_H
#define FM_STAGE_TOGETHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/list.h"
#include "mover/node/service.h"
#include "staging/cache.h"
#include "staging/manifest.h"
#include "staging/run/message.h"

struct fm_err;
struct fm_loop;
struct fm_queue;
struct fm_together;
struct fm_togethers;
struct fm_worker;

/* Runs that a node takes part in; one user or peer may begin a half of what is left. */
#define FM_TOGETHERS_MAX 16u
/* Where a dataset is laid out, beside what the cache keeps. */
#define FM_TOGETHER_LAID ".together"

struct fm_together_source {
	const char *node, *store, *path, *name;
	const char *shared;		/* the ID by which other nodes have its store; "": none */
	bool is_hub;			/* path is a commit of a hub's repository */
	bool is_unlisted;		/* what is here is taken for it: it may be another by now */
	const char *peer;		/* who asked this node; NULL: that user, here */
	/* an id of a job, under which it is logged here, and on the other nodes if they log it
	 * under none yet */
	const char *job;
	uid_t uid;
	gid_t gid;
};

struct fm_togethers_opts {
	struct fm_engine *engine;
	struct fm_loop *loop;
	struct fm_worker *worker;
	const char *node;		/* our name */
	struct fm_cache *cache;
	struct fm_queue *queue;		/* of jobs whose ids no run is to take */
	const char *directory;		/* the cache's */
	const char *const *peers;	/* staging.peers, NULL-terminated; NULL: none */
	uint64_t settle_ns;		/* staging.settle */
	unsigned uploads;		/* staging.upload_slots: 1 to FM_STAGE_UPLOADS_MAX */
	/* A peer's request names this node: it is to want the dataset, or fm_together_refuse(). */
	void (*invited)(void *ctx, struct fm_together *t, const struct fm_together_source *s);
	void *ctx;
};

int fm_togethers_new(const struct fm_togethers_opts *opts, struct fm_togethers **out,
		     struct fm_err *err);
void fm_togethers_stop(struct fm_togethers *all);
/* Whether there is a run just now, of whichever nodes. */
bool fm_togethers_are_any(const struct fm_togethers *all);
/* After stop. */
bool fm_togethers_are_idle(struct fm_togethers *all);
/* Whether nothing of them is left but what requests refer to. */
bool fm_togethers_are_through(const struct fm_togethers *all);
void fm_togethers_free(struct fm_togethers *all);	/* NULL is allowed */

/* The service's. */
void fm_togethers_message(struct fm_togethers *all, struct fm_session *s,
			  const struct fm_wire_msg *m);
/* This node stages nothing. */
void fm_togethers_refuse(struct fm_session *s, const struct fm_wire_msg *m);
void fm_togethers_peer_up(struct fm_togethers *all, struct fm_peer *p);
void fm_togethers_session_lost(struct fm_togethers *all, struct fm_session *s);

/* Bytes that this node read from sources for runs, since it started. */
uint64_t fm_togethers_read(const struct fm_togethers *all);

/* ---- a run ---- */

/* 0: what that node has may be staged together with it; else why not. */
int fm_togethers_may(const struct fm_togethers *all, const char *source, struct fm_err *err);

/* The nodes of a list, as a set over all nodes in the order of their names; -ENOENT names one that
 * is none. */
int fm_togethers_nodes(const struct fm_togethers *all, const char *list, uint64_t *out,
		       struct fm_err *err);
bool fm_togethers_has_self(const struct fm_togethers *all, uint64_t nodes);
/* Of what is staged. Good as long as t. */
const struct fm_cache_key *fm_together_key(const struct fm_together *t);

struct fm_together *fm_together_find(struct fm_togethers *all, const struct fm_cache_key *key);

/* The id under which all nodes log it; another one from when another node's came before it. */
const char *fm_together_job(const struct fm_together *t);

/*
 * The run of that source and listing, or a new one. draft: of its manifest (offered.h), taken over,
 * also on error.
 */
int fm_together_join(struct fm_togethers *all, const struct fm_together_source *source,
		     const struct fm_stage_totals *totals, int draft, struct fm_together **out,
		     struct fm_err *err);

/* What was listed for an invitation. -ESTALE: the source is another one by now. draft as above. */
int fm_together_listed(struct fm_together *t, const struct fm_cache_key *key, int draft,
		       struct fm_err *err);

/* It stays as long as somebody has it. */
void fm_together_get(struct fm_together *t);
void fm_together_put(struct fm_together *t);

/* A request made here for these nodes, of that user. */
void fm_together_request(struct fm_together *t, uint64_t nodes, uid_t uid, gid_t gid);

/* Somebody who waits for the end. The caller owns it; ended() is called once. */
struct fm_together_waiter {
	struct fm_list at;
	void (*ended)(struct fm_together_waiter *w, const struct fm_err *err);
};

void fm_together_wait(struct fm_together *t, struct fm_together_waiter *w);

/*
 * This node makes room for it, however long that takes: the run does not end before
 * fm_together_take(), fm_together_found() or fm_together_refuse().
 */
void fm_together_will_take(struct fm_together *t);

/* This node is to have it. */
struct fm_together_sink {
	/*
	 * All of it is in the fetch's directory: make it READY, then fm_together_published(). Until
	 * then fm_together_manifest() is its manifest.
	 */
	void (*publish)(struct fm_together_sink *sink);
	/* Nothing comes any more, and the fetch is not used any more. Once, last. */
	void (*ended)(struct fm_together_sink *sink, const struct fm_err *err);
};

void fm_together_take(struct fm_together *t, struct fm_together_sink *sink,
		      struct fm_cache_fetch *fetch);
/* Only read; borrowed. -1: it is not known, and is made from what is in the directory. */
int fm_together_manifest(const struct fm_together *t);
/*
 * A manifest that was made of what is in the directory, against the CRCs that were written down
 * when its extents came. 0: they agree, or it did not come so. -EBADMSG. Worker.
 */
int fm_together_agrees(int dir, int manifest, uint32_t extents);
/*
 * Since publish() something that came was found damaged on the disk: it is not to become READY, and
 * to be thrown away. Worker, or the loop.
 */
bool fm_together_is_spoilt(struct fm_together *t);
/*
 * Since publish(): what is READY is a copy that was here already, below dir (borrowed), with the
 * same names and bytes. Other nodes are sent that, and what came may be thrown away. Worker.
 */
int fm_together_is_other(struct fm_together *t, int dir);
/*
 * err: code 0, and where it is; or why it is not READY. The sink hears nothing more. What was found
 * damaged since whoever made it READY asked last is READY: who waits is warned.
 */
void fm_together_published(struct fm_together *t, const char *path, const struct fm_err *err);
/* It became READY here by itself. */
void fm_together_found(struct fm_together *t);
void fm_together_refuse(struct fm_together *t, const struct fm_err *err);

/* The bytes that came to this node so far, of unfinished extents too. */
uint64_t fm_together_done(const struct fm_together *t);

/* A node of a request, as it is, or as it was in the end. */
struct fm_together_node {
	const char *name;
	const char *state;		/* "waiting", "fetching", "ready", "failed", "silent" */
	uint64_t done;
	uint64_t read;			/* bytes of the source */
	const char *path;		/* READY: there */
	const char *text;		/* code < 0: why; else what is worth a warning, or "" */
	int code;
	bool is_wanted;
	bool is_here;			/* this node */
};

/* Each node that takes part, in order. */
unsigned fm_together_count(const struct fm_together *t);
void fm_together_look(const struct fm_together *t, unsigned n, struct fm_together_node *out);

#endif
