/* SPDX-License-Identifier: MIT */
/*
 * api - the daemon's local API: programs of this machine ask for transfers over a UNIX socket.
 * fmove-api(7) is its specification.
 *
 * One JSON object per SOCK_SEQPACKET message, descriptors beside it; who asks is what the kernel
 * says (SO_PEERCRED). Loop thread only. Every client is taken for hostile: connections, requests,
 * messages, descriptors and what waits to be read have the limits below, and a client that does not
 * read is closed.
 *
 * Order at the end: fm_api_stop(), fm_queue_stop(), fm_engine_stop(), its stopped(), fm_api_free(),
 * fm_queue_free(), fm_engine_free().
 */
#ifndef FM_API_H
#define FM_API_H

#include <stdint.h>
#include <sys/types.h>

#include "mover/api/api_limits.h"

struct fm_api;
struct fm_api_op;
struct fm_api_socket;
struct fm_engine;
struct fm_err;
struct fm_holders;
struct fm_loop;
struct fm_queue;

struct fm_api_opts {
	/* its directory must exist; what a dead daemon left there is replaced */
	const char *socket_path;
	mode_t mode;			/* of the socket: who may connect, e.g. 0660 */
	gid_t gid;			/* owning group; (gid_t)-1: leave as it is */
	struct fm_queue *queue;		/* of transfers */
	const struct fm_api_op *const *ops;	/* NULL-terminated: fm_api_ops (api_op.h) */
	struct fm_holders *holders;	/* who receives descriptors; NULL: we do (tests) */
	const char *node;		/* our name; copied */
	uint64_t buffer_bytes;		/* of clients that are mapped, at most */
};

/*
 * Listens at once. opts are copied; loop, engine and queue must outlive it. -EADDRINUSE if another
 * daemon serves this socket.
 */
int fm_api_new(struct fm_loop *loop, const struct fm_api_opts *opts, struct fm_engine *engine,
	       struct fm_api **out, struct fm_err *err);

/*
 * One more socket, beside that of the daemon: listens at once. -EADDRINUSE as above. Closing takes
 * those along who came in by it.
 */
int fm_api_open(struct fm_api *api, const struct fm_api_socket *socket, struct fm_err *err);
void fm_api_close(struct fm_api *api, const char *path);

/*
 * No more connections and requests; those under way are cancelled (their ends come while the engine
 * stops). Removes the socket.
 */
void fm_api_stop(struct fm_api *api);

/*
 * Stopped, and nothing under way: the engine has stopped and the loop has run what it posted. NULL
 * is allowed.
 */
void fm_api_free(struct fm_api *api);

#endif
