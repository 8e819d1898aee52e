/* SPDX-License-Identifier: MIT */
/*
 * request - ls, stat, rm, mkdir, mv, ln, group, df, purge on stores, ours (node NULL or our name)
 * or a peer's; and answering peers. One REQUEST, one REPLY or SPACE.
 */
#ifndef FM_REQUEST_H
#define FM_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/node/engine.h"
#include "mover/node/service.h"

extern const struct fm_service fm_request_service;

/*
 * What there may be at once: what local callers asked for and what all peers together did, so that
 * neither takes the other's places. What one user or peer may have of it base/share.h says; of what
 * is local, some is for root.
 */
#define FM_REQUESTS_LOCAL_MAX 256u	/* ls, stat, rm, mkdir, mv, ln, group */
#define FM_REQUESTS_LOCAL_ROOT 32u
#define FM_REQUESTS_PEERS_MAX 768u

enum fm_verb {
	FM_VERB_STAT = 1,
	FM_VERB_LIST = 2,
	FM_VERB_REMOVE = 3,
	FM_VERB_MKDIR = 4,
	FM_VERB_PARTIALS = 5,
	FM_VERB_FREE = 6,
	FM_VERB_PURGE = 7,
	FM_VERB_PURGE_PARTIALS = 8,
	FM_VERB_MOVE = 9,
	FM_VERB_LINK = 10,
	FM_VERB_GROUP_BEGIN = 11,
	FM_VERB_GROUP_CHECK = 12,
	FM_VERB_GROUP_COMMIT = 13,
	FM_VERB_GROUP_DISCARD = 14,
	FM_VERB_GROUP_LIST = 15,
	FM_VERB_LOOK = 16
};

struct fm_request_opts {
	enum fm_verb verb;
	const char *node;
	/* FREE: "": the first one behind `after` that the caller may read or write to */
	const char *store;
	const char *path;		/* PURGE: "", or with is_dry what is behind that one;
					   GROUP_LIST: what is behind that one */
	size_t path_len;
	const char *after;		/* LIST, PARTIALS: names behind it; "" from the start */
	const char *to;			/* MOVE: the new name; LINK: what the link says */
	size_t to_len;
	uint32_t keep;			/* LINK: as of the wire (wire.h); 0: nothing goes */
	bool is_recursive;		/* REMOVE */
	bool may_replace;		/* MOVE, LINK, GROUP_BEGIN, _CHECK, _COMMIT */
	bool is_later;			/* LINK that may replace: as of the wire */
	/* GROUP_*, else NULL; its `op` and `may_replace` are those above */
	const struct fm_group_ask *group;
	bool is_dry;			/* PURGE */
	/* with a peer: a service asks for it; a store here sees the peer, which also has the place;
	 * another node sees us */
	struct fm_who who;
	uint64_t timeout_ns;		/* 0: 30 s */
};

struct fm_request_result {
	int code;
	struct fm_err err;
	/* LIST, PARTIALS, STAT, LOOK (of these one, name empty); valid during the call */
	const struct fm_entry *entries;
	size_t count;
	bool is_more;
	/* STAT: the ID by which that node shares its store; "": it does not */
	const char *shared;
	bool is_sealed;			/* STAT: what has that ID never changes */
	/* STAT: the other node that has the store's volume read-write; "": none */
	const char *written_by;
	const char *says;		/* LOOK: what the link says; "" of anything else */
	/* LINK with keep, beside the entries that went: what stays beyond that, and why; or "" */
	const char *stays;
	/* FREE: space, PURGE: aside; valid during the call */
	const struct fm_space_page *page;
	const struct fm_group_page *groups;	/* GROUP_LIST; valid during the call */
	/* GROUP_CHECK, GROUP_COMMIT with -ENODATA: which members are; valid during the call */
	const struct fm_group_names *missing;
	const char *store;		/* FREE: which it is; "": there is no further one */
};

/* done() exactly once, unless an error is returned. */
int fm_request_start(struct fm_engine *engine, const struct fm_request_opts *opts,
		     void (*done)(void *ctx, const struct fm_request_result *result), void *ctx,
		     struct fm_err *err);

#endif
