/* SPDX-License-Identifier: MIT */
/*
 * engine - what a node does: sessions with its peers, transfers, requests. The daemon, the API and the simulator
 * drive it through this header.
 *
 * It sees the world through struct fm_engine_env only. Everything here is called on the control loop and calls back
 * there, in a later pass. Strings handed in are copied unless said otherwise.
 */
#ifndef FM_ENGINE_H
#define FM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/store/store.h"
#include "mover/store/verify.h"
#include "mover/transport/transport.h"
#include "mover/tree/tree.h"

struct fm_engine;
struct fm_job;
struct fm_clock;
struct fm_random;
struct fm_worker;

#define FM_PEERS_MAX 256
#define FM_STORES_MAX 64
#define FM_LANES_MAX 16
/*
 * What there may be of each at once: what local callers asked for and what all peers together did, so that neither takes
 * the other's places. What one user or peer may have of it base/share.h says; of what is local, some is for root.
 */
#define FM_JOBS_LOCAL_MAX 160u		/* transfers; the queue divides them (queue/queue.h) */
#define FM_JOBS_PEERS_MAX 864u
#define FM_TREES_LOCAL_MAX 32u		/* of these transfers those of trees: each has threads of its own; the queue divides them */
#define FM_TREES_PEERS_MAX 48u
#define FM_REQUESTS_LOCAL_MAX 256u	/* ls, stat, rm, mkdir */
#define FM_REQUESTS_LOCAL_ROOT 32u
#define FM_REQUESTS_PEERS_MAX 768u
#define FM_VERIFICATIONS_LOCAL_MAX 8u	/* each with a thread where the store is ours */
#define FM_VERIFICATIONS_LOCAL_ROOT 2u
#define FM_VERIFICATIONS_PEERS_MAX 12u
#define FM_VOLUME_ASKS_MAX 16u		/* of all peers */
#define FM_VOLUME_ASKS_ROOT 4u
#define FM_VOLUMES_SAID_MAX 256		/* of one node */
#define FM_JOB_SUBS_MAX 8		/* large files of one tree under way at once; they are no transfers of their own to anybody */

/* What a node says of one shared volume (see fmove-nvmed(8)): its own word, for others to refuse by. */
struct fm_volume_said {
	char name[65];
	char subsystem[224];		/* 1 byte and more */
	char wwid[160];			/* "": never seen there */
	char writer[65];		/* whom the configuration there names; "" */
	bool is_mounted;		/* or about to be */
	bool is_read_write;
	bool is_sealed;			/* by that node, its writer */
	uint64_t epoch;			/* the writer: of its last seal or unseal; others: the highest they have heard of; 0: none */
};

/* What this node says of its own. read() must not block; *out is malloc()ed. -ENOENT: nobody supervises volumes here. */
struct fm_volumes_here {
	int (*read)(void *ctx, struct fm_volume_said **out, unsigned *count, struct fm_err *err);
	void *ctx;
};

#define FM_PEER_ADDRS_MAX 16		/* at which one peer is dialled: that the configuration names, and that it said itself */

/* A node's name or address, and its port. */
struct fm_endpoint {
	char host[256];
	uint16_t port;
};

/* Who keeps what a peer says of its addresses for the next start. Must not block. */
struct fm_peer_keeper {
	void (*told)(void *ctx, const char *peer, const uint8_t key[FM_KEY_LEN], const struct fm_endpoint *learned, unsigned count);
	void *ctx;
};

/* Who wants to know that there is a session with a peer (again). Must not call the engine. */
struct fm_peer_watcher {
	void (*up)(void *ctx, const char *peer);
	void *ctx;
};

struct fm_engine_env {
	const struct fm_clock *clock;
	const struct fm_random *random;
	struct fm_loop *loop;			/* the control loop */
	struct fm_loop *lane_loops[FM_LANES_MAX];
	struct fm_ring *lane_rings[FM_LANES_MAX];	/* NULL in the simulator */
	struct fm_net *net;
	struct fm_worker *worker;
	void *arena;				/* slabs are cut from it; page-aligned */
	size_t arena_len;
	const struct fm_volumes_here *volumes;	/* NULL: it says nothing of any */
	const struct fm_peer_keeper *keeper;	/* NULL: nobody does */
	struct fm_peer_watcher watcher;		/* up NULL: nobody does */
};

struct fm_engine_opts {
	const char *node;			/* our name */
	uint8_t key[FM_KEY_LEN];		/* our public key: of two nodes the lower one dials first */
	unsigned lanes;				/* 1 .. FM_LANES_MAX */
	uint32_t chunk_bytes;			/* power of two, 4 KiB .. 64 MiB; also the size of a slot */
	uint32_t slab_bytes;			/* multiple of chunk_bytes, at most 64 chunks */
	unsigned rdma_conns;			/* queue pairs per rail, 1 .. 8; if the peer has fewer, so many */
	unsigned tcp_conns;			/* connections per rail, 1 .. 16; the same */
	bool is_link_counted;			/* fewer TCP connections over a slow link (mover/node/tuning.h) */
	const char *chosen;			/* for status: how all of these came about, one line; outlives the engine; NULL: nothing is said */
	uint64_t rate_bytes;			/* a second, over all transfers this node sends; 0: no limit */
	uint64_t stall_ns;			/* a peer silent for this long is lost; default 10 s */
	bool is_unchecked;			/* measuring only: no CRC is computed or checked, no journal kept */
};

struct fm_peer_opts {
	const char *name;
	const char *host;			/* NULL: it dials us */
	uint16_t port;
	uint8_t key[FM_KEY_LEN];
	const struct fm_endpoint *more;		/* further addresses of it, FM_PEER_ADDRS_MAX - 1 at most; tried in turn */
	unsigned more_count;
	const struct fm_endpoint *learned;	/* what told() of struct fm_peer_keeper was told last */
	unsigned learned_count;
};

/* env is copied; what it points to must outlive the engine. */
int fm_engine_new(const struct fm_engine_opts *opts, const struct fm_engine_env *env, struct fm_engine **out, struct fm_err *err);

/* Listen, dial the peers. */
int fm_engine_start(struct fm_engine *engine, struct fm_err *err);

/* Abort every job, close every session; then stopped(ctx). */
void fm_engine_stop(struct fm_engine *engine, void (*stopped)(void *ctx), void *ctx);

/* Stopping: whether nothing is left but transfers that have ended and wait for a local caller's file, which may be for ever. */
bool fm_engine_awaits_callers(const struct fm_engine *engine);

/* Stopped, or never started. Closes the stores. NULL is allowed. */
void fm_engine_free(struct fm_engine *engine);

/*
 * Add or change; -EEXIST if another peer has that key, -ENOSPC. A change of key or address ends the session there is.
 */
int fm_engine_set_peer(struct fm_engine *engine, const struct fm_peer_opts *peer, struct fm_err *err);

/* Revoked: its session ends now. */
void fm_engine_remove_peer(struct fm_engine *engine, const char *name);

/* Taken over. Replaces one of the same name (jobs under way keep the old one until they end). -ENOSPC. */
int fm_engine_set_store(struct fm_engine *engine, struct fm_store *store, struct fm_err *err);
void fm_engine_remove_store(struct fm_engine *engine, const char *name);

void fm_engine_set_rate(struct fm_engine *engine, uint64_t rate_bytes);

/* The networks that are private have changed: peers are told, and TCP connections that exist are made anew. */
void fm_engine_networks_changed(struct fm_engine *engine);

/* ---- transfers ---- */

enum fm_transport_want { FM_WANT_AUTO, FM_WANT_RDMA, FM_WANT_TCP };
enum fm_durability { FM_DURABILITY_DEFAULT, FM_DURABILITY_DISK, FM_DURABILITY_MEMORY };

struct fm_job_opts {
	bool is_put;			/* else get */
	const char *node;		/* the peer */
	const char *store;
	const char *path;		/* path_len bytes */
	size_t path_len;
	struct fm_file *file;		/* ours: source of a put, sink of a get; taken over, also on error; or a tree (store/tree_file.h) */
	struct fm_attr attr;		/* put: of the source; of a tree's root dev and ino count */
	struct fm_who who;		/* the local caller; peer is NULL */
	enum fm_transport_want transport;
	enum fm_durability durability;
	bool may_replace;		/* a file, a tree as a whole; with is_update: an entry of another kind */
	bool is_readback;		/* put: each chunk is read back from the far disk and compared */
	bool is_held;			/* put: it gets its name only after fm_job_commit() */
	bool is_buffered;		/* put of a caller's: through the page cache, since others read it at the same time */
	bool accepts_corrupt;		/* also what is not what the digest kept with it says; else that is -EBADMSG */
	uint64_t rate_bytes;		/* 0: no limit of its own */
	unsigned weight;		/* put: its turns among those that this node sends to that peer; 0: FM_WEIGHT_NORMAL (link.h) */
	uint64_t timeout_ns;		/* for the whole transfer; 0: none */
	void *gone_ctx;			/* for gone() */
	/* A tree (file->tree is set): */
	bool is_update;			/* send what differs from the version that is replaced ... */
	bool has_checksums;		/* ... by content */
	bool is_delete;			/* ... and what only that version has goes; else it is kept */
	bool is_dry;			/* say what would be sent, change nothing */
	bool has_names;			/* names() of the events is called with the names that change */
	uint64_t tree_bytes;		/* put of a tree: that will come at least; 0: not known */
	const char *const *excludes;	/* get: patterns of what not to send, NULL-terminated; NULL: none */
};

struct fm_job_progress {
	uint64_t size;			/* FM_SIZE_UNKNOWN until known */
	uint64_t bytes_done;		/* acknowledged (put) or written (get), holes not counted */
	uint64_t bytes_resent;
	uint64_t bytes_resumed;		/* of bytes_done: were there from an earlier try */
	uint64_t files;			/* tree: found so far, or made */
	unsigned corrupt_chunks;	/* found and sent again */
	unsigned rails;			/* connections in use now */
	const char *state;		/* "connecting", "opening", "copying", "committing" */
};

struct fm_job_result {
	int code;			/* 0 or a negative errno */
	struct fm_err err;
	struct fm_attr attr;		/* of the source */
	uint64_t size;			/* a tree: of its files */
	uint64_t data_bytes;		/* size less holes; a tree: what was moved for it */
	uint64_t bytes_resent;
	uint64_t bytes_resumed;		/* were there from an earlier try, and not sent */
	uint64_t bytes_damaged;		/* were there too, and were not what they should be: sent again */
	uint64_t bytes_reached;		/* what was moved and what was there: if that is no more than ever before, it did not get on */
	unsigned corrupt_chunks;
	uint32_t crc;			/* CRC32C of the whole; a tree: 0 */
	bool is_tree;
	struct fm_tree_count tree;	/* what is there now; wanted_*: was needed of what was offered (of a dry run: would be sent) */
	bool is_unmeasured;		/* get: refused, since the whole of an update has no room; a dry run can tell how much of it will come */
	bool is_partial_kept;		/* failed: what came is kept for the next try */
	bool is_durable;
	bool is_checked;		/* false only in measuring mode */
	enum fm_kind kind;		/* that carried the data, at last */
	uint64_t kind_bytes[FM_KIND_COUNT];	/* what of them each kind carried: several, if connections came or went */
	enum fm_encryption encryption;	/* of that kind, if it carried nothing */
	uint64_t encryption_bytes[FM_ENCRYPTION_COUNT];	/* how what was moved was sealed; RDMA is plain */
	unsigned conns;			/* data connections of that kind that were up */
	char why[160];			/* why this transport: "2 rails", "no RDMA device at n2" */
	char note[320];			/* what was not as asked: "buffered: ..."; may be empty */
	uint64_t elapsed_ns;
};

struct fm_job_events {
	/* Once, last; the job is gone afterwards. A get's sink is synced but not renamed: the caller does that. */
	void (*done)(void *ctx, const struct fm_job_result *result);
	/* is_held only, NULL else: all is at the far end but the name; fm_job_commit() or fm_job_cancel() is awaited. */
	void (*prepared)(void *ctx);
	/* has_names only, NULL else: a page of them (tree/names.h), valid during the call. None follows before fm_job_named(). */
	void (*names)(void *ctx, const struct fm_tree_names *page);
	/* NULL, or once, after done(), with gone_ctx: nothing of it is left, its file is closed: that may wait for ever. */
	void (*gone)(void *ctx);
};

/*
 * Errors that are known at once: -ENOENT unknown node, -EINVAL bad path, -EBUSY over FM_JOBS_LOCAL_MAX; done() is not
 * called then.
 */
int fm_job_start(struct fm_engine *engine, const struct fm_job_opts *opts, const struct fm_job_events *events, void *ctx,
		 struct fm_job **out, struct fm_err *err);

/* Those errors alone, for who will start it later; the file may be NULL and is not taken over. */
int fm_job_check(struct fm_engine *engine, const struct fm_job_opts *opts, struct fm_err *err);

/*
 * done() comes with code and the reason, at once at this end; the far end is told. is_kept: what is there already stays
 * for the next try.
 */
void fm_job_cancel(struct fm_job *job, int code, bool is_kept, const char *reason);

/* After names(): the next page. */
void fm_job_named(struct fm_job *job);

/* After prepared(). */
void fm_job_commit(struct fm_job *job);

void fm_job_progress(struct fm_job *job, struct fm_job_progress *out);

/* ---- requests about stores, ours (node NULL or our name) or a peer's ---- */

enum fm_verb { FM_VERB_STAT = 1, FM_VERB_LIST = 2, FM_VERB_REMOVE = 3, FM_VERB_MKDIR = 4, FM_VERB_PARTIALS = 5,
	       FM_VERB_FREE = 6, FM_VERB_PURGE = 7 };

struct fm_request_opts {
	enum fm_verb verb;
	const char *node;
	const char *store;		/* FREE: "": the first one behind `after` that the caller may read */
	const char *path;		/* PURGE: "", or with is_dry what is behind that one */
	size_t path_len;
	const char *after;		/* LIST, PARTIALS: names behind it; "" from the start */
	bool is_recursive;		/* REMOVE */
	bool is_dry;			/* PURGE */
	struct fm_who who;
	uint64_t timeout_ns;		/* 0: 30 s */
};

struct fm_request_result {
	int code;
	struct fm_err err;
	const struct fm_entry *entries;	/* LIST, PARTIALS, STAT (one, name empty); valid during the call */
	size_t count;
	bool is_more;
	const struct fm_space_page *page;	/* FREE: space, PURGE: aside; valid during the call */
	const char *store;		/* FREE: which it is; "": there is no further one */
};

/* done() exactly once, unless an error is returned. */
int fm_request_start(struct fm_engine *engine, const struct fm_request_opts *opts,
		     void (*done)(void *ctx, const struct fm_request_result *result), void *ctx, struct fm_err *err);

/* ---- reading again what is stored, ours (node NULL or our name) or a peer's ---- */

struct fm_verification;

struct fm_verification_opts {
	const char *node;
	const char *store;
	const char *path;		/* a file, or a directory with all below it */
	size_t path_len;
	struct fm_who who;
};

struct fm_verification_events {
	void (*progress)(void *ctx, const struct fm_verify_count *count);	/* about once a second */
	void (*finding)(void *ctx, enum fm_finding_kind kind, uint64_t offset, uint64_t length, const char *path);
	/* Once, last; gone afterwards. err->code 0: all of it was looked at, whatever was found. */
	void (*done)(void *ctx, const struct fm_err *err, const struct fm_verify_count *count);
};

/* -ENOENT unknown node or store, -EINVAL bad path, -EBUSY no place is left, or none for that user: done() is not called then. */
int fm_verification_start(struct fm_engine *engine, const struct fm_verification_opts *opts,
			  const struct fm_verification_events *events, void *ctx, struct fm_verification **out,
			  struct fm_err *err);

/* done() comes with -ECANCELED. */
void fm_verification_cancel(struct fm_verification *v);

/* ---- what the peers say of shared volumes ---- */

struct fm_volumes_answer {
	const char *node;
	const struct fm_err *err;	/* why it does not answer; NULL: it does */
	const struct fm_volume_said *volumes;	/* valid during the call */
	unsigned count;
	bool is_more;			/* another answer of this node follows */
};

struct fm_volumes_events {
	void (*answer)(void *ctx, const struct fm_volumes_answer *answer);
	void (*done)(void *ctx);	/* once, last: every peer was heard, or will not be; after 3 s at the latest */
};

/* Those that are not connected are not waited for. uid: who asks. -EBUSY: no place is left, or none for that user. */
int fm_volumes_ask(struct fm_engine *engine, uid_t uid, const struct fm_volumes_events *events, void *ctx, struct fm_err *err);

/* ---- status: a snapshot, by visiting ---- */

struct fm_rail_status {
	const struct fm_conn_info *info;
	unsigned lane;
	uint64_t bytes_sent;
	uint64_t bytes_received;
	bool is_up;
	const char *why;		/* NULL: one of its connections; else it was up and has none any more, for this reason ... */
	uint64_t down_ns;		/* ... for so long */
};

/* Which way a session goes just now: our port, our address and the peer's, as numbers. All "": there is no connection for it. */
struct fm_session_way {
	char device[FM_RAIL_NAME_MAX];
	char local[INET6_ADDRSTRLEN + 16];
	char remote[INET6_ADDRSTRLEN + 16];
};

struct fm_peer_status {
	const char *name;
	const char *address;		/* "" if it dials us */
	bool is_connected;
	const char *last_error;		/* "" */
	uint64_t since_ns;		/* how long it is in this state */
	unsigned conns;
	struct fm_session_way session;
};

struct fm_job_status {
	bool is_put;
	bool is_ours;			/* started at this node */
	const char *peer;
	const char *store;
	const char *path;		/* terminated; may be no UTF-8 */
	struct fm_job_progress progress;
	uint64_t elapsed_ns;
};

struct fm_node_status {
	const char *node;
	unsigned lanes;
	const char *io[FM_LANES_MAX];	/* fm_ring_kind() of each lane */
	unsigned tcp_conns;		/* on one rail at most */
	unsigned rdma_conns;
	uint64_t chunk_bytes;
	uint64_t slab_bytes;
	const char *chosen;		/* "": not said */
	uint64_t arena_bytes;
	uint64_t slabs;
	uint64_t slabs_free;
	uint16_t rdma_port;		/* 0: none, rdma_why says why */
	const char *rdma_why;
	uint16_t tcp_port;
	const char *tcp_why;
	uint64_t uptime_ns;
};

struct fm_status_visitor {
	void (*node)(void *ctx, const struct fm_node_status *s);
	void (*store)(void *ctx, const struct fm_store *s);
	void (*peer)(void *ctx, const struct fm_peer_status *s);
	void (*rail)(void *ctx, const struct fm_rail_status *s);	/* of the peer visited last */
	void (*job)(void *ctx, const struct fm_job_status *s);
};

/* Calls the visitor for everything, in the order above. */
void fm_engine_status(struct fm_engine *engine, const struct fm_status_visitor *visitor, void *ctx);

#endif
