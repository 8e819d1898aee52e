/* SPDX-License-Identifier: MIT */
/*
 * peer_book - what peers said of their addresses, kept in the state directory for the next start: a
 * node whose first cable is cut while it starts finds them over the others.
 *
 * One file a peer, STATE/peers/NAME: its key, then an ADDRESS:PORT a line. It may be lost, and it
 * is read as if a stranger had written it: a plain file of our own user, numeric addresses alone,
 * FM_PEER_ADDRS_MAX at most, of the key that the configuration names; what follows a line that is
 * none of these is not read. Writing is a worker's, one file after the other, ten a second at most.
 * Control loop only, but for fm_peer_book_read().
 */
#ifndef FM_DAEMON_PEER_BOOK_H
#define FM_DAEMON_PEER_BOOK_H

#include "mover/node/engine.h"

struct fm_loop;
struct fm_peer_book;
struct fm_worker;

/* state: the directory, which is there. */
int fm_peer_book_new(const char *state, struct fm_worker *worker, struct fm_loop *loop,
		     struct fm_peer_book **out, struct fm_err *err);

/* For struct fm_engine_env. */
const struct fm_peer_keeper *fm_peer_book_keeper(struct fm_peer_book *book);

/* How many there are; 0 also if the file cannot be read. book NULL: 0. May block. */
unsigned fm_peer_book_read(const struct fm_peer_book *book, const char *peer,
			   const uint8_t key[FM_KEY_LEN],
			   struct fm_endpoint out[FM_PEER_ADDRS_MAX]);

/* Nothing is written from now on but what the worker has; before the worker ends. NULL is
 * allowed. */
void fm_peer_book_stop(struct fm_peer_book *book);

/* The worker is gone. NULL is allowed. */
void fm_peer_book_free(struct fm_peer_book *book);

#endif
