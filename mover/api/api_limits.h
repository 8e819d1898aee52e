/* SPDX-License-Identifier: MIT */
/* api_limits - what the local API allows, to both of its ends: api.h. */
#ifndef FM_API_LIMITS_H
#define FM_API_LIMITS_H

#define FM_API_VERSION 1			/* of the messages; "api" in the answer to ping */
#define FM_API_SOCKET "/run/fmove/fmoved.sock"	/* where clients look if nothing else is said */
#define FM_API_MSG_MAX (256u << 10)		/* bytes of one message, either way */
/* bytes of a request: the largest real one is a path of 4095 bytes, each escaped as six */
#define FM_API_REQUEST_BYTES_MAX (64u << 10)
#define FM_API_FDS_MAX 8			/* descriptors beside one message */
/* Divided among users, with a part for root, as mover/base/share.h says: a user has a half of what
 * is free at most. */
#define FM_API_CONNS_MAX 256u
#define FM_API_CONNS_ROOT 32u
#define FM_API_TASKS_MAX 2048u			/* requests under way */
#define FM_API_TASKS_ROOT 256u
#define FM_API_QUEUE_TOTAL_MAX (16u << 20)	/* bytes of answers waiting for clients */
#define FM_API_QUEUE_TOTAL_ROOT (2u << 20)
/* Of one connection: */
#define FM_API_REQUESTS_MAX 256			/* under way */
#define FM_API_QUEUE_MAX (2u << 20)		/* bytes of answers that wait */
/* a client that reads nothing for this long is closed */
#define FM_API_UNREAD_MS 10000

#endif
