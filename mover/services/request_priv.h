/* SPDX-License-Identifier: MIT */
/*
 * request_priv - what the parts of a request share: request.c (from its beginning to its end, and
 * what happens around it), request_ask.c (ours, at another node), request_answer.c (a peer's),
 * request_store.c (on a store of this node), request_space.c (how much room a store has, and what
 * can be removed from it), request_group.c (publication groups).
 */
#ifndef FM_REQUEST_PRIV_H
#define FM_REQUEST_PRIV_H

#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/session.h"
#include "mover/services/request.h"

/*
 * Ours: WAIT for the session -> REQUEST -> REPLY -> done().  Ours, own store: worker -> done().  A
 * peer's: worker -> REPLY.
 */
struct fm_request {
	struct fm_list at;		/* requests.list */
	struct fm_engine *engine;
	struct fm_session *session;	/* asked, or asking; NULL: own store, waiting, or lost */
	struct fm_peer *peer;		/* waiting for this one's session */
	bool is_ours;
	/* the user's or the peer's, until no worker has it any more */
	struct fm_share_held place;
	bool is_over;			/* answered, or given up */
	bool is_reported;		/* ours: done() was called */
	uint64_t id;
	uint64_t deadline_ns;
	enum fm_verb verb;
	bool is_recursive;
	bool may_replace;
	bool is_later;			/* LINK */
	bool is_dry;
	bool is_any_store;		/* FREE: the next one that may be read */
	bool is_at_room;		/* FREE: its rights are known, its file system is asked */
	char store[FM_WIRE_NAME_MAX + 1];
	char *path;
	size_t path_len;
	char *to;			/* MOVE, LINK; else NULL */
	size_t to_len;
	uint32_t keep;			/* LINK */
	struct fm_group_ask *group;	/* GROUP_*; else NULL */
	char after[FM_NAME_LEN_MAX + 1];
	struct fm_who who;
	char who_peer[FM_WIRE_NAME_MAX + 1];
	struct fm_store_ref *store_ref;
	struct fm_work work;
	bool is_working;
	int work_ret;			/* the worker's, until it is done */
	struct fm_store_space room;	/* the worker's, too */
	struct fm_err work_err;
	struct fm_task report_task;
	struct fm_task free_task;
	void (*done)(void *ctx, const struct fm_request_result *result);
	void *ctx;
	int code;
	struct fm_err err;
	size_t count;
	bool is_more;
	/* STAT: */
	char shared[FM_SHARED_LEN_MAX + 1];
	bool is_sealed;
	char written_by[FM_WIRE_NAME_MAX + 1];
	char says[FM_PATH_LEN_MAX + 1];		/* LOOK; a peer's GROUP_*: has_missing */
	bool has_missing;			/* GROUP_CHECK, _COMMIT: -ENODATA */
	char stays[FM_ERR_TEXT_MAX];		/* LINK with keep */
	union {
		struct fm_entry entries[FM_WIRE_ENTRIES_MAX];
		struct fm_space_page page;	/* FREE, PURGE */
		struct fm_group_page groups;	/* GROUP_LIST */
		struct fm_group_names missing;	/* GROUP_CHECK, _COMMIT */
	};
};

struct fm_requests {
	struct fm_list list;		/* request.at */
	unsigned count;
	struct fm_share places;		/* of local callers, by user */
	struct fm_share peer_places;	/* of all peers together */
};

struct fm_requests *fm_requests_of(const struct fm_engine *engine);

/* Of both kinds of purge. */
bool fm_verb_is_purge(enum fm_verb verb);

/* Whether the request has a second name. */
bool fm_verb_is_naming(enum fm_verb verb);

/* Whether what it brings is a page of room, not entries. */
bool fm_request_is_about_space(const struct fm_request *r);

/* to may be NULL: it has no second name. NULL: no memory. */
struct fm_request *fm_request_new(struct fm_engine *engine, const char *path, size_t path_len,
				  const char *to, size_t to_len);

/* Ends the request, unless it has ended. The first outcome counts. */
void fm_request_finish(struct fm_request *r);
void fm_request_fail(struct fm_request *r, const struct fm_err *err);

/* When no worker has it any more, and whoever asked has heard. */
void fm_request_free_later(struct fm_request *r);

/* The one of ours that this peer answers; NULL: it is over, or never was. */
struct fm_request *fm_request_asked(const struct fm_session *s, uint64_t id);

/* request_ask.c */

void fm_request_send(struct fm_request *r, struct fm_session *s);
void fm_request_on_reply(struct fm_session *s, const struct fm_wire_msg *msg);

/* request_answer.c */

void fm_request_on_request(struct fm_session *s, const struct fm_wire_msg *msg);

/* Sends what came of a peer's request. */
void fm_request_answer(struct fm_request *r);

/* request_store.c */

void fm_request_start_work(struct fm_request *r);

/*
 * Goes on with the first store behind r->after, in the order of names. If there is none, the answer
 * says that the list has ended.
 */
void fm_request_next_store(struct fm_request *r);

/* request_space.c */

/* Worker. */
int fm_request_run_space(struct fm_request *r, struct fm_store *s);

/*
 * The worker did its part of FREE, and r is not over. Whether this goes on: the rights are known,
 * and the file system is asked, or was by somebody else, and did not answer.
 */
bool fm_request_goes_on(struct fm_request *r);

/* The file system answered. */
void fm_request_take_room(struct fm_request *r);

/* Whether this answers with the store's name, and why its file system said nothing of it: it is one
 * of several that were asked for. */
bool fm_request_say_failed(struct fm_request *r);

/* From time to time: r ends if it waits for a file system that does not answer. */
void fm_request_check_room(struct fm_request *r);

void fm_request_fill_space(const struct fm_request *r, struct fm_wire_msg *m);
void fm_request_on_space(struct fm_session *s, const struct fm_wire_msg *msg);

/* request_group.c */

bool fm_verb_is_of_group(enum fm_verb verb);

/* Checks what no message could say of a group. */
int fm_request_check_group(const struct fm_request_opts *o, struct fm_err *err);

/* Take a copy of what is asked; -ENOMEM, and of a peer's with a text in r->err. */
int fm_request_set_group(struct fm_request *r, const struct fm_group_ask *ask);
int fm_request_set_peers_group(struct fm_request *r, const struct fm_wire_request *m);

void fm_request_fill_group(const struct fm_request *r, struct fm_wire_request *m);

/* Worker, both. */
int fm_request_run_group(struct fm_request *r, struct fm_store *s);
int fm_request_run_group_list(struct fm_request *r, struct fm_store *s);

/*
 * Which members are missing: what the worker found becomes what a REPLY says, and the other way
 * round. What cannot be read says that it is none.
 */
void fm_request_note_missing(struct fm_request *r);
void fm_request_take_missing(struct fm_request *r, const struct fm_wire_str *says);

void fm_request_fill_groups(const struct fm_request *r, struct fm_wire_msg *m);
void fm_request_on_groups(struct fm_session *s, const struct fm_wire_msg *msg);

#endif
