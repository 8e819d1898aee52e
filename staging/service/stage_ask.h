/* SPDX-License-Identifier: MIT */
/*
 * stage_ask - one request to have a source on this node, or on several.
 *
 * Happy path of a request: the source is listed, with the caller's rights (a dry run of a tree,
 * offered.h). A READY dataset of that listing is the answer. Else a *run* fetches it, one for each
 * listing, whoever asks: room is set aside, the tree comes into the cache as any tree does, its
 * manifest is made of what came, and it is READY. Then each who asked holds it and hears its path.
 *
 * Failure: of the listing, the request ends; of the run, all requests that wait for it do. What
 * came stays for the next one. A source that is another one when it came than when it was listed is
 * told as changed. A request whose caller goes away leaves its run to go on.
 *
 * A request that wants its dataset known by content has the source read once more, if any of the
 * dataset's bytes may have been read before it (reread.h).
 *
 * Control thread; what waits for a disk goes to the worker.
 */
#ifndef FM_STAGE_ASK_H
#define FM_STAGE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/store/store.h"
#include "mover/wire/wire.h"
#include "staging/cache.h"
#include "staging/service/hub.h"

struct fm_afar_ask;
struct fm_served;
struct fm_stage_ask;
struct fm_stager;
struct fm_together;

#define FM_STAGE_ASKS_MAX 256u		/* requests under way */
/*
 * Of these for what the caller serves of his own hub cache: each has memory and a thread that he
 * alone lets go on. Of one user, and of all.
 */
#define FM_STAGE_OWN_USER 4u
#define FM_STAGE_OWN_MAX  32u

/*
 * How a request finds out that the copy here is what its source is now. Same order as
 * fm_words_freshness.
 */
enum fm_stage_freshness {
	FM_STAGE_BY_LISTING,
	FM_STAGE_UNASKED,		/* by nothing: one that is here is the answer */
	FM_STAGE_BY_CONTENT,		/* all bytes of the source were read for this request */
	/* it is of a sealed volume, which never changes; nobody wants that, a result has it */
	FM_STAGE_BY_SEAL,
};

struct fm_stage_request {
	/* An id of a job, by which it is logged here and by whoever does something for it; NULL: a
	 * new one. A run that it joins may have another: struct fm_stage_progress. */
	const char *job;
	const char *node, *store, *path;
	size_t path_len;
	const char *name;		/* of the dataset */
	const char *shared;		/* of an invitation: its store's ID; NULL, "": none */
	struct fm_who who;		/* peer: whose places and threads it takes */
	pid_t pid;			/* who holds it; 0: nobody */
	bool is_pinned;
	enum fm_stage_freshness check;	/* that he wants */
	/* also of a volume that another node than the source's has mounted read-write */
	bool is_live;
	bool is_hub;			/* path is a commit of a hub's repository: hub_ask.h */
	/*
	 * NULL, or that is in the caller's own hub cache, which he serves: once to be listed, once
	 * to be copied. No node and store then. Both are referred to.
	 */
	struct fm_served *list, *copy;
	/* by which it is shown in the hub of each node that is to have it; NULL: in none */
	const char *revision;
	/* on which it is to be, as fm_togethers_nodes() takes it; NULL, "": here */
	const char *nodes;
};

struct fm_stage_result {
	struct fm_err err;
	char job[FM_WIRE_JOB_LEN + 1];	/* by which it is logged, on each node */
	struct fm_cache_info info;
	/* By content, of several nodes: the version that its manifest names; else zeros. */
	struct fm_cache_key manifest;
	char path[FM_PATH_LEN_MAX + 1];	/* of a hub: of the snapshot in this node's */
	bool was_ready;			/* nothing was fetched for this request */
	enum fm_stage_freshness check;	/* that it has */
	bool is_here;			/* info and path are of it; else only other nodes have it */
	/* the cache is on the file system of the source, a store of this node */
	bool is_same_disk;
	/* A request for several nodes: how it ended there; good during done(). NULL: none */
	const struct fm_together *together;
	/* How its other nodes keep it for the caller; as long. NULL: they were not asked */
	const struct fm_afar_ask *held, *pinned;
	const struct fm_afar_ask *shown;	/* the same of their hubs */
	const struct fm_afar_ask *let;	/* whether they let him read it */
	bool is_hub;
	char note[FM_HUB_NOTE_MAX];	/* of this node's; "": nothing is to be told of it */
	struct fm_err keep_err;		/* why they were not; code 0: no reason */
};

/*
 * Begins a request. done(ctx, ...) comes once, later, never inside this call, and *result is good
 * during it; not after an error here. ctx NULL: to nobody. All strings of *r are copied, and what
 * it refers to is referred to. *out is good until done() returns, or until fm_stage_ask_forget().
 *
 * -EINVAL: a name; or, by content, this node is not one of the nodes. -ENAMETOOLONG: the path.
 * -EBUSY: he has as many requests under way as he may. -EACCES: the source's node is not one of
 * those that this one stages together with. -ENOENT: a name among the nodes is none's. -ENOMEM.
 * -EHOSTDOWN: the stager stops. What cannot be asked of the source at once is an error here, too,
 * as fm_request_start() has it.
 */
int fm_stager_ask(struct fm_stager *s, const struct fm_stage_request *r,
		  void (*done)(void *ctx, const struct fm_stage_result *result), void *ctx,
		  struct fm_stage_ask **out, struct fm_err *err);

/* In the log: a caller's request of that id and for that dataset ended so. */
void fm_stager_log_failed(struct fm_stager *s, const char *job, uid_t uid, const char *name,
			  const struct fm_err *why);

/* Who asked has gone away: done() does not come, and the request goes on. */
void fm_stage_ask_forget(struct fm_stage_ask *ask);

/*
 * It ends, -ECANCELED: now, or as soon as our own disk answers. For one whose caller serves it:
 * what is fetched for it ends, too, unless others of his requests wait for that.
 */
void fm_stage_ask_cancel(struct fm_stage_ask *ask);

/* Whether a request of that user for that source is under way, though he went away. */
bool fm_stager_is_asked(struct fm_stager *s, const char *source, uid_t uid);

struct fm_stage_progress {
	const char *phase;		/* "listing", "fetching", "checking", "comparing" */
	uint64_t bytes, size;
	const char *job;		/* by which it is logged; NULL: there is none yet */
	const struct fm_together *together;	/* NULL: it is for this node alone */
};

void fm_stage_ask_look(const struct fm_stage_ask *ask, struct fm_stage_progress *out);

#endif
