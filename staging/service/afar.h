/* SPDX-License-Identifier: MIT */
/*
 * afar - what users of this node keep on other nodes: the side of keep.h that asks.
 *
 * A request goes to each node at once. It ends when each has answered or cannot, at the latest
 * after FM_AFAR_NS. A hold of a process of this node goes on behind it: it is written down first
 * (cache_afar.h), so that it survives a restart; each of its nodes is told again once a minute
 * that the process lives, also one that was away or refused. Within FM_AFAR_LOOK_NS after the
 * process has ended all are told so, and one that is away when it is back. A node that hears
 * nothing lets go by itself after FM_CACHE_NODE_S. A hold of no process (pid 0) is none of these:
 * it ends with fm_afar_put(), or after that time. Loop thread.
 */
#ifndef FM_STAGE_AFAR_H
#define FM_STAGE_AFAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/env.h"
#include "staging/cache.h"
#include "staging/service/keep.h"

struct fm_afar;
struct fm_afar_ask;
struct fm_engine;
struct fm_err;
struct fm_loop;
struct fm_session;
struct fm_wire_stage;
struct fm_worker;

#define FM_AFAR_NS	 (10 * FM_NS_PER_S)	/* that an answer may take */
#define FM_AFAR_LOOK_NS	 (5 * FM_NS_PER_S)	/* after which processes are looked at again */
#define FM_AFAR_RENEW_NS (60 * FM_NS_PER_S)
#define FM_AFAR_ORDERS_MAX 64u	/* to pin, unpin and unstage by name, under way */
#define FM_AFAR_HOLDS_MAX 256u	/* of processes here; one user may have a half of what is left */

struct fm_afar_opts {
	struct fm_engine *engine;
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_cache *cache;
};

/* Reads what was held before: waits for the disk. What the opts point to outlives it. */
int fm_afar_new(const struct fm_afar_opts *opts, struct fm_afar **out, struct fm_err *err);
/* All requests end now. Holds stay, for the next start. */
void fm_afar_stop(struct fm_afar *a);
bool fm_afar_is_idle(const struct fm_afar *a);
void fm_afar_free(struct fm_afar *a);	/* idle; NULL is allowed */

/* KEPT. */
void fm_afar_message(struct fm_afar *a, struct fm_session *s, const struct fm_wire_stage *m);
void fm_afar_session_lost(struct fm_afar *a, const struct fm_session *s);

struct fm_afar_wish {
	enum fm_stage_verb verb;	/* not FM_STAGE_RELEASE */
	uid_t uid;
	gid_t gid;			/* SHOW */
	pid_t pid;			/* HOLD: of whom; 0: until fm_afar_put() */
	const struct fm_cache_key *key;	/* NULL: by name */
	const char *name;		/* SHOW: the revision; by key of others: NULL */
	const char *job;		/* of the request, for the log; copied; NULL: none */
	const char *what;		/* the dataset there; copied; with a job */
	/* The nodes, 1 .. FM_CACHE_AFAR_NODES, none of them this one; good during the call. */
	const char *const *nodes;
	unsigned count;
};

/*
 * done() once, later. The ask stays until fm_afar_put(), which may be called before: then done() is
 * not called any more. -ESRCH, -EPERM: there is no such process of that user. -EBUSY: too many
 * holds, or orders.
 */
int fm_afar_ask(struct fm_afar *a, const struct fm_afar_wish *wish, void (*done)(void *ctx),
		void *ctx, struct fm_afar_ask **out, struct fm_err *err);
void fm_afar_put(struct fm_afar_ask *ask);	/* NULL is allowed */

/*
 * How node n < count of the wish has answered: 0, or a code and *text. SHOW, 0: *text is the path
 * of the snapshot there, or "".
 */
int fm_afar_look(const struct fm_afar_ask *ask, unsigned n, const char **text);
/* The same of a node by its name; one that was not asked has done well. */
int fm_afar_look_at(const struct fm_afar_ask *ask, const char *node, const char **text);
/* Says in the log which nodes do not do it, and why. NULL is allowed. */
void fm_afar_log(const struct fm_afar_ask *ask);

#endif
