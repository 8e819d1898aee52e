/* SPDX-License-Identifier: MIT */
/*
 * channel_io - one message of a channel over a socket, with its descriptors beside it. Blocking;
 * one thread at a time for each direction of a socket.
 */
#ifndef FM_TREE_CHANNEL_IO_H
#define FM_TREE_CHANNEL_IO_H

#include <stddef.h>

#include "mover/tree/channel.h"

#define FM_CHANNEL_FDS_MAX FM_CHANNEL_LARGES_MAX	/* beside one message */

struct fm_channel_fds {
	int at[FM_CHANNEL_FDS_MAX];
	unsigned count;
};

/* 0, or a negative errno; -EPIPE: nobody is there any more. fds may be NULL; they stay the
 * caller's. */
int fm_channel_send(int socket, const void *buf, size_t len, const struct fm_channel_fds *fds);

/*
 * The bytes of a message. 0: the other end is gone. -EBADMSG: longer than cap, or with too many
 * descriptors. Descriptors are the caller's from then on; after 0 and an error there are none.
 */
int fm_channel_receive(int socket, void *buf, size_t cap, struct fm_channel_fds *fds);

void fm_channel_close_fds(struct fm_channel_fds *fds);

#endif
