/* SPDX-License-Identifier: MIT */
/*
 * verification - reading again what is stored: asked of a peer, for a peer, or of our own stores. One VERIFY, then
 * VERIFIED about once a second until one says that it is over. ABORT ends it.
 */
#ifndef FM_VERIFICATION_H
#define FM_VERIFICATION_H

#include "mover/node/node.h"

struct fm_session;

void fm_verification_asked(struct fm_session *s, const struct fm_wire_verify *m);
void fm_verification_said(struct fm_session *s, const struct fm_wire_verified *m);
/* Whether that number was one of these. */
bool fm_verification_abort(struct fm_session *s, uint64_t id);
/* Whether one is under way there. */
bool fm_verification_is_on(const struct fm_session *s);

void fm_verification_session_lost(struct fm_session *s, const struct fm_err *err);
void fm_verification_peer_unreachable(struct fm_peer *p, const struct fm_err *err);
void fm_verification_peer_up(struct fm_peer *p);
void fm_verification_stop_all(struct fm_engine *e);
void fm_verification_tick(struct fm_engine *e, uint64_t now_ns);

#endif
