/* SPDX-License-Identifier: MIT */
/*
 * fmoved - the running daemon: everything that main.c made of the configuration, in the order in
 * which it is made and unmade.
 */
#ifndef FM_DAEMON_FMOVED_H
#define FM_DAEMON_FMOVED_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/config.h"
#include "mover/base/loop.h"
#include "mover/daemon/arena.h"
#include "mover/daemon/here.h"
#include "mover/daemon/metrics.h"
#include "mover/daemon/sockets.h"
#include "mover/daemon/tune.h"

struct fm_api;
struct fm_engine;
struct fm_err;
struct fm_exporter;
struct fm_follow;
struct fm_join;
struct fm_invites;
struct fm_lanes;
struct fm_net;
struct fm_holders;
struct fm_queue;
struct fm_reload;
struct fm_store;
struct fm_volume_store;
struct fm_worker;

struct fm_fmoved_opts {
	const char *config_file;	/* absolute: the daemon may be asked to read it again */
	int log_level;			/* -1: as the configuration says */
	bool is_unchecked;		/* measuring only */
};

struct fm_peer_book;

struct fm_fmoved {
	struct fm_fmoved_opts opts;
	struct fm_config *cfg;		/* as read last */
	/* as it was at the start: still in force for what takes a restart */
	struct fm_config *started;
	struct fm_tune tune;
	uint64_t registered_bytes;	/* of struct fm_engine_opts */
	struct fm_arena arena;
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_lanes *lanes;
	struct fm_net *net;
	struct fm_here here;
	struct fm_engine *engine;
	struct fm_peer_book *book;	/* NULL: there is no state directory */
	struct fm_holders *holders;
	struct fm_queue *queue;
	gid_t socket_group;		/* of the local API's socket; -1: the daemon's own */
	struct fm_api *api;
	struct fm_sockets sockets;	/* that are open */
	bool awaits_users;		/* to open those that the start could not */
	struct fm_join *join;
	struct fm_invites *invites;
	struct fm_measured measured;
	struct fm_exporter *exporter;	/* of metrics; NULL: there is none */
	struct fm_reload *reload;
	struct fm_follow *follow;
	struct fm_watch signals;
	struct fm_timer watchdog;
	uint64_t watchdog_ns;		/* 0: nobody watches */
	struct fm_timer deadline;	/* of stopping */
	uint64_t stop_by_ns;
	bool is_stopping;
	bool has_failed;		/* to start */
	/* the engine waits for local callers' files, and nobody waits for it */
	bool is_cut;
};

/* Takes cfg over. On failure everything is unmade again. Signals must be blocked. */
int fm_fmoved_start(struct fm_fmoved *fmoved, const struct fm_fmoved_opts *opts,
		    struct fm_config *cfg, struct fm_err *err);

/* Until SIGTERM or SIGINT, and then until everything has stopped. */
void fm_fmoved_run(struct fm_fmoved *fmoved);

void fm_fmoved_end(struct fm_fmoved *fmoved);

/* Open a store as the configuration says; volume: what it is on, NULL: none. May block. */
int fm_fmoved_open_store(const struct fm_config_store *cfg, const struct fm_volume_store *volume,
			 struct fm_store **out, struct fm_err *err);

/* Tell the engine of a peer, with what the book has of its addresses. May block, but not without a
 * book. */
int fm_fmoved_set_peer(struct fm_engine *engine, const struct fm_config_peer *cfg,
		       const struct fm_peer_book *book, struct fm_err *err);

/* mover.private_networks, for connections from now on. */
void fm_fmoved_set_networks(struct fm_net *net, const struct fm_config *cfg);

/* What systemctl status shows. */
void fm_fmoved_say_status(const struct fm_fmoved *fmoved);

/* Whether the user database is asked when it is opened: its rules name users or groups. */
bool fm_fmoved_asks_users(const struct fm_config_store *cfg);

/*
 * Whether a store that was just opened is apart from what the node keeps for itself, by this
 * configuration and by that of the start: what takes a restart is in use where it was then. As
 * fm_own_dirs_check(); any thread.
 */
int fm_fmoved_check_apart(const struct fm_config *cfg, const struct fm_config *started,
			  const struct fm_config_store *of, const struct fm_store *store,
			  struct fm_err *err);

/* For a sentence, behind the file system of such a store. */
const char *fm_fmoved_or_users(bool is_of_users);

/* One of which nothing is known yet (fm_store.is_silent). code: why; 0: no answer. At once. */
int fm_fmoved_silent_store(const struct fm_config_store *cfg, int code, struct fm_store **out,
			   struct fm_err *err);

/* follow.c. With loop and worker: opens the stores, and waits a few seconds for them. */
int fm_follow_new(struct fm_fmoved *fmoved, struct fm_follow **out, struct fm_err *err);

/* Gives the engine the stores that are on no volume. Fails as the first that cannot be opened. */
int fm_follow_fill(struct fm_follow *follow, struct fm_err *err);

/* From now on what does not answer, or is on a volume, comes when it can. */
void fm_follow_start(struct fm_follow *follow);

/*
 * A store on no volume that a reload has opened anew, or found silent, becomes the engine's; but
 * what lies beneath a mount that is no more does not. Before the new configuration is in force.
 */
int fm_follow_take(struct fm_follow *follow, const struct fm_config_store *of,
		   struct fm_store *store, struct fm_err *err);

/*
 * A store that a reload has changed, and that is on a volume now: it goes, and is opened by the
 * first look that finds it there. What was going to another directory ends. Before the new
 * configuration is in force.
 */
void fm_follow_drop(struct fm_follow *follow, const struct fm_config_store *of);

/* After a reload: look at once whether each store's path leads to what is served of it; and serve
 * what is there now, also where that is not done without one. */
void fm_follow_look(struct fm_follow *follow);

/* How many stores are being opened, or looked at, just now. */
unsigned fm_follow_awaits(const struct fm_follow *follow);
void fm_follow_stop(struct fm_follow *follow);

/* Stopped; the worker has ended and its posts have run. NULL is allowed, as above. */
void fm_follow_free(struct fm_follow *follow);

/* reload.c */
int fm_reload_new(struct fm_fmoved *fmoved, struct fm_reload **out, struct fm_err *err);

/* Begin, or once more when the one under way has ended. */
void fm_reload_start(struct fm_reload *reload);

/* Open the sockets that a start had to do without, if the user database answers by now. */
void fm_reload_sockets(struct fm_reload *reload);

/* None under way: the worker has ended and its posts have run. NULL is allowed. */
void fm_reload_free(struct fm_reload *reload);

#endif
