/* SPDX-License-Identifier: MIT */
/*
 * request - ls, stat, rm, mkdir, df, purge: asked of a peer, answered for a peer, or done on our own stores. One REQUEST, one
 * REPLY or SPACE.
 */
#ifndef FM_REQUEST_H
#define FM_REQUEST_H

#include "mover/node/node.h"

struct fm_session;

void fm_request_message(struct fm_session *s, const struct fm_wire_request *m);
void fm_request_space(struct fm_session *s, const struct fm_wire_space *m);
void fm_request_reply(struct fm_session *s, const struct fm_wire_reply *m);
/* Whether one is under way there. */
bool fm_request_is_on(const struct fm_session *s);

void fm_request_session_lost(struct fm_session *s, const struct fm_err *err);
void fm_request_peer_unreachable(struct fm_peer *p, const struct fm_err *err);
void fm_request_peer_up(struct fm_peer *p);
void fm_request_stop_all(struct fm_engine *e);
void fm_request_tick(struct fm_engine *e, uint64_t now_ns);

#endif
