/* SPDX-License-Identifier: MIT */
/*
 * volumes - what nodes say of the shared volumes that they have: asked of every peer that is connected, answered for
 * peers. One VOLUMES_ASK, then VOLUMES until one has no MORE.
 */
#ifndef FM_VOLUMES_H
#define FM_VOLUMES_H

#include "mover/node/node.h"

struct fm_session;

void fm_volumes_asked(struct fm_session *s, const struct fm_wire_volumes_ask *m);
void fm_volumes_answered(struct fm_session *s, const struct fm_wire_volumes *m);

void fm_volumes_session_lost(struct fm_session *s, const struct fm_err *err);
void fm_volumes_stop_all(struct fm_engine *e);
void fm_volumes_tick(struct fm_engine *e, uint64_t now_ns);

#endif
