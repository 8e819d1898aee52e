/* SPDX-License-Identifier: MIT */
/*
 * api - the local API of fmove-nvmed, as fmove-nvmed-api(7) has it: one JSON object per
 * SOCK_SEQPACKET message. Loop thread.
 *
 * Who asks is what the kernel says (SO_PEERCRED): looking is for everybody who may open the socket,
 * changing for root. Every client is taken for hostile: connections, requests and what waits to be
 * read are limited, see mover/base/packet_conn.h.
 */
#ifndef FM_NVMETCP_DAEMON_API_H
#define FM_NVMETCP_DAEMON_API_H

#include <stdint.h>
#include <stdbool.h>
#include <sys/types.h>

struct fm_err;
struct fm_helpers;
struct fm_host;
struct fm_loop;
struct fm_nvmed_api;
struct fm_supervisor;

#define FM_NVMED_API_VERSION 1
#define FM_NVMED_MSG_MAX (256u << 10)		/* bytes of an answer */
#define FM_NVMED_REQUEST_BYTES_MAX (64u << 10)
/* Divided among users, with a part for root, as mover/base/share.h says: a user has a half of what
 * is free at most. */
#define FM_NVMED_CONNS_MAX 64u
#define FM_NVMED_CONNS_ROOT 16u
#define FM_NVMED_REQUESTS_MAX 16		/* under way on one connection */
#define FM_NVMED_DISCOVERIES_MAX 8		/* under way for all of them: each is a process */

struct fm_nvmed_api_opts {
	struct fm_loop *loop;
	const char *socket_path;	/* what a dead daemon left there is replaced */
	mode_t mode;
	gid_t gid;			/* (gid_t)-1: leave as it is */
	struct fm_helpers *helpers;
	const struct fm_host *host;	/* who discovers; outlives it */
};

/* Listens at once; requests fail until the supervisor is there. -EADDRINUSE: another daemon serves
 * this socket. */
int fm_nvmed_api_new(const struct fm_nvmed_api_opts *opts, struct fm_nvmed_api **out,
		     struct fm_err *err);

void fm_nvmed_api_set_supervisor(struct fm_nvmed_api *api, struct fm_supervisor *sup);

/* For status: the configuration in force was read at that Unix time; then, that one read later was
 * not taken, and why (copied), until one is. */
void fm_nvmed_api_config_taken(struct fm_nvmed_api *api, int64_t read_ms);
void fm_nvmed_api_config_refused(struct fm_nvmed_api *api, const char *why);
bool fm_nvmed_api_is_config_refused(const struct fm_nvmed_api *api);

/* The supervisor has looked: whoever waits for something may have it now. */
void fm_nvmed_api_changed(struct fm_nvmed_api *api);

/* No more connections; those that are there are closed, the socket is removed. */
void fm_nvmed_api_stop(struct fm_nvmed_api *api);

/* Stopped, and the helpers have ended theirs. NULL is allowed. */
void fm_nvmed_api_free(struct fm_nvmed_api *api);

#endif
