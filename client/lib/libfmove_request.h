/* SPDX-License-Identifier: MIT */
/*
 * libfmove_request - one request of the local API, for the files of the library: it is sent, then
 * messages are read until its "done" or "error". What is public is in fmove.h.
 *
 * Requests are numbered; what answers another number is late and skipped. Each has a connection of
 * its own while it lasts (connections.h). One that is refused since no place is free is sent again
 * when another request of the same handle has ended, or if the caller has patience; the connection,
 * which is one of the places, is given back meanwhile.
 */
#ifndef FM_CLIENT_LIBFMOVE_REQUEST_H
#define FM_CLIENT_LIBFMOVE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/connections.h"
#include "client/lib/fail.h"
#include "client/lib/fmove.h"
#include "client/lib/libfmove_tree.h"
#include "client/lib/ops.h"
#include "client/lib/sized.h"
#include "mover/api/api.h"
#include "mover/base/json.h"

/* two paths of 4095 bytes, each escaped as six, and the rest */
#define FM_LIB_REQUEST_MAX (60u << 10)

struct fmove {
	struct fm_connections connections;
	struct fm_ops ops;	   /* under the lock of connections */
	struct fm_list in_handles; /* of the process */
	atomic_uint_fast64_t id;   /* of the last request: no two have the same */
	uint64_t timeout_ms;	   /* of requests about stores; 0: the daemon's */
	int cancel_fd;		   /* > 0: ends requests that have none of their own */
	bool (*again)(void *ctx, const struct fmove_error *why, unsigned refused, uint64_t left_ms);
	void *again_ctx;
};

/* What goes to the daemon and comes back, on one connection. */
struct fm_lib_talk {
	struct fm_connection connection;
	char tx[FM_LIB_REQUEST_MAX];
	char rx[FM_API_MSG_MAX + 1];
};

/* One request. Once begun it is ended. */
struct fm_lib_request {
	struct fmove *c;
	struct fm_lib_talk *talk; /* NULL: there was no memory */
	struct fm_json_writer json;
	char no_room; /* for json without memory */
	struct fmove_name about; /* for errors */
	uint64_t id;
	uint64_t limit_ms; /* its timeout; 0: none is said */
	bool is_lost;	   /* in the end: the daemon went away, or was not there */
	bool is_answered;  /* the last answer came: the connection serves another one */
};

/* What comes with a request. */
struct fm_lib_parcel {
	const int *fds;
	unsigned count;
	/* it was sent, or could not be; NULL: nobody wants to know */
	void (*passed)(void *ctx);
	void *ctx;
};

/* For the end of a request. */
struct fm_lib_waiting {
	uint64_t id;
	const struct fmove_options *opts; /* may be NULL */
	bool is_cancellable;		  /* the daemon can be told to end it */
	bool is_cancelled;
	bool is_wait;			  /* for a job, which goes on: there is little to confirm */
	/* a put that is held, an attended get: only its name is missing */
	bool is_prepared;
	bool is_decided;		       /* what becomes of it */
	uint64_t bytes;			       /* how far the last progress said it was */
	const struct fmove_tree_options *tree; /* a transfer of one; NULL: none */
	struct fm_tree *source;		       /* what is put of it, if we read it; else NULL */
	/* Events between the first and the last, if the request is no transfer. */
	void (*between)(void *ctx, const char *event, const struct fm_json *json);
	/* The last one, if it is an error: what it says besides. May be NULL. */
	void (*failed)(void *ctx, const struct fm_json *json);
	void *ctx;
};

/* A request, which the caller goes on with; a name in it. */
void fm_lib_begin(struct fmove *c, struct fm_lib_request *req, const char *op);
void fm_lib_end(struct fm_lib_request *req);
void fm_lib_add_name(struct fm_lib_request *req, const struct fmove_name *name);

/* Store and path under these keys. NULL, which names nothing, is null: the daemon refuses it. */
void fm_lib_add_parts(struct fm_json_writer *w, const char *store_key, const char *store,
		      const char *path_key, const char *path);

/* One descriptor, or none (-1). */
struct fm_lib_parcel fm_lib_parcel_of(const int *fd);

/* Send what was begun, and wait for its end: once, or until it is taken. */
int fm_lib_try(struct fm_lib_request *req, const struct fm_lib_parcel *with,
	       struct fm_lib_waiting *w, struct fm_lib_turns *turns, struct fm_json **out,
	       struct fmove_error *err);
int fm_lib_ask(struct fm_lib_request *req, const struct fm_lib_parcel *with,
	       struct fm_lib_waiting *w, struct fm_json **out, struct fmove_error *err);

/* Ask, and end it. */
int fm_lib_run(struct fm_lib_request *req, const struct fm_lib_parcel *with,
	       struct fm_lib_waiting *w, struct fm_json **out, struct fmove_error *err);

/* The same without options, with fd (or -1); with none; and if its "done" says nothing more. */
int fm_lib_run_with(struct fm_lib_request *req, int fd, struct fm_json **out,
		    struct fmove_error *err);
int fm_lib_do(struct fm_lib_request *req, struct fm_json **out, struct fmove_error *err);
int fm_lib_do_simple(struct fm_lib_request *req, struct fmove_error *err);

/* The word for a value of an enum. A wrong value is "", which the daemon refuses with the name of
 * the key. */
const char *fm_lib_word_of(const char *const words[], unsigned value);

/* ---- what an answer says ---- */

/* "" if the key is missing; cut if it is too long. */
void fm_lib_text(const struct fm_json *json, const char *key, char *out, size_t cap);
unsigned fm_lib_mode(const struct fm_json *json);

/* The place of the text under that key in words; `other` if it is none of them, or the key is
 * missing. */
int fm_lib_word(const struct fm_json *json, const char *key, const char *const *words, int other);

/* ---- libfmove_transfer.c ---- */

void fm_lib_result_read(const struct fm_json *done, struct fmove_result *r);
void fm_lib_put_begin(struct fmove *c, struct fm_lib_request *req, const struct fmove_name *name,
		      const struct fmove_options *opts);
void fm_lib_get_begin(struct fmove *c, struct fm_lib_request *req, const struct fmove_name *name,
		      const struct fmove_options *opts);

/* What the daemon reads or writes by itself, in a store of this node. */
void fm_lib_own_add(struct fm_json_writer *w, const struct fmove_name *own,
		    const struct fmove_options *opts);

/*
 * fmove_get() of a file of at most so many bytes, > 0; -EFBIG before any of a larger one comes. A
 * daemon that is older than this library, until it is restarted, refuses to be told how many: it is
 * asked once more without that, and all of a larger file comes.
 */
int fm_lib_get_at_most(struct fmove *c, int fd, uint64_t bytes_max, const struct fmove_name *name,
		       const struct fmove_options *opts, struct fmove_result *result,
		       struct fmove_error *err);

/* fd: passed, or -1. */
int fm_lib_transfer_do(struct fm_lib_request *req, int fd, const struct fmove_options *opts,
		       struct fmove_result *result, struct fmove_error *err);

#endif
