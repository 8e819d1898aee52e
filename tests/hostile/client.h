/* SPDX-License-Identifier: MIT */
/*
 * client - what the files of the hostile local client share. See client.c.
 */
#ifndef FM_TEST_HOSTILE_CLIENT_H
#define FM_TEST_HOSTILE_CLIENT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/tree/channel.h"
#include "tests/hostile/odds.h"

#define FDS_MAX 10 /* beside one message: more than may be */

/* A tree's end that is passed to the daemon: see mover/tree/channel.h. */
struct channel {
	int sockets[FM_CHANNEL_SOCKETS_MAX]; /* -1: closed */
	int memory;			     /* -1: the place is free */
	bool is_alive;			     /* counts its pulse */
	bool is_mute;
	unsigned manners;
	uint64_t pulse, fills, larges;
};

/* ---- fds.c: descriptors of every kind ---- */

#define BUFFER_BYTES 65536u		/* of fd_buffer(), mostly */

/* -1: none could be had. The caller's. */
int fd_any(struct odds *o, int api);
int fd_source(struct odds *o);
int fd_target(struct odds *o);
int fd_buffer(struct odds *o);

/* ---- channels.c ---- */

/* The descriptors to pass, into fds; returns how many. They are the caller's. 0: no place, or none
 * could be had. */
unsigned channel_begin(struct odds *o, int fds[static FDS_MAX]);
unsigned channels_poll(struct pollfd *polls, unsigned max);
/* What came is answered, one way or another; returns how many messages were sent. */
unsigned channels_serve(struct odds *o);
extern uint64_t channel_trees; /* whose PUBLISH was answered, or which were walked to their end */

/* ---- requests.c: requests of the local API ---- */

#define REQUEST_MAX 70000 /* more than a request may have */

struct request {
	char text[REQUEST_MAX];
	unsigned len;
	int fds[FDS_MAX];
	unsigned fd_count;
};

/* api: the connection it will go over. */
void request_make(struct odds *o, int api, struct request *r);
/* An event came: the ids of jobs in it are used later. */
void request_heard(struct odds *o, const char *event);

#endif
