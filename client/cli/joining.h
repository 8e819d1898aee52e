/* SPDX-License-Identifier: MIT */
/*
 * joining - the new node's side of the protocol of join_msg.h: dial the inviting node, ask, take
 * its answer. For `fmove join`.
 *
 * A loop and a net of its own for the time it takes; blocks.
 */
#ifndef FM_CLIENT_JOINING_H
#define FM_CLIENT_JOINING_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/join/join_msg.h"
#include "mover/transport/transport.h"

struct fm_err;

struct fm_joining {
	const char *host;		/* of the inviting node */
	uint16_t port;
	uint8_t key[FM_KEY_LEN];	/* the only one it may have */
	const char *key_file;		/* ours */
	/* the port where we listen at each of our addresses: these are told; 0: at one of them
	 * alone */
	uint16_t everywhere;
	int cancel_fd;			/* readable: it is no longer begun; 0 or less: none */
	struct fm_join_request request;
};

enum fm_joining_end {
	FM_JOINING_NOT_THERE,	/* the inviting node was not found at this address */
	FM_JOINING_SETTLED,	/* it answered, or refused to be asked */
	FM_JOINING_UNKNOWN	/* it was asked; nobody knows whether we are a peer there now */
};

/*
 * The answer, with code 0 and of its further addresses those that can be used, or an error: what
 * the inviting node said, or why it was not reached. -ECANCELED: by cancel_fd.
 */
int fm_joining_run(const struct fm_joining *joining, struct fm_join_answer *answer,
		   enum fm_joining_end *end, struct fm_err *err);

#endif
