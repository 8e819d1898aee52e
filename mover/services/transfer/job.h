/* SPDX-License-Identifier: MIT */
/*
 * job - one transfer as the control thread sees it, at either end, whoever began it.
 *
 * Source:  (WAIT for the session) -> PUT, READY  or  GET, open, FOUND -> COPYING -> CHECKING that the source is
 * unchanged -> FINISH -> FINISHING -> DONE Sink:    (WAIT for the session) -> GET, FOUND  or  PUT, create, READY ->
 * COPYING -> FINISH -> DRAINING -> PUBLISHING -> DONE
 *
 * Failure: the first reason counts. The caller (if it is ours) hears it at once; the peer is told by ABORT; chunks
 * under way end on their own; then the file is discarded (sink) and closed on a worker, and the job is freed.
 */
#ifndef FM_JOB_H
#define FM_JOB_H

#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/wire/wire.h"

struct fm_session;

/* Messages of transfers. */
void fm_job_put(struct fm_session *s, const struct fm_wire_put *m);
void fm_job_get(struct fm_session *s, const struct fm_wire_get *m);
void fm_job_ready(struct fm_session *s, const struct fm_wire_ready *m);
void fm_job_found(struct fm_session *s, const struct fm_wire_found *m);
void fm_job_finish(struct fm_session *s, const struct fm_wire_finish *m);
void fm_job_peer_done(struct fm_session *s, const struct fm_wire_done *m);
void fm_job_peer_commit(struct fm_session *s, const struct fm_wire_commit *m);
void fm_job_need(struct fm_session *s, const struct fm_wire_need *m);
void fm_job_names(struct fm_session *s, const struct fm_wire_names *m);
void fm_job_kept(struct fm_session *s, const struct fm_wire_kept *m);
void fm_job_window(struct fm_session *s, const struct fm_wire_window *m);
void fm_job_abort(struct fm_session *s, const struct fm_wire_abort *m);

/* The session is up, or its connections changed: go on, choose again. */
void fm_job_session_changed(struct fm_session *s);
void fm_job_session_lost(struct fm_session *s, const struct fm_err *err);

/* Dialling failed: jobs that wait for that peer end with err. */
void fm_job_peer_unreachable(struct fm_peer *p, const struct fm_err *err);
void fm_job_peer_up(struct fm_peer *p);

/* Every job ends. */
void fm_job_stop_all(struct fm_engine *e);

/* Whether those that are left have told their end, and wait for a local caller's file only. */
bool fm_job_await_callers(const struct fm_engine *e);

/* Twice a second: deadlines. */
void fm_job_tick(struct fm_engine *e, uint64_t now_ns);

void fm_job_visit(struct fm_engine *e, const struct fm_status_visitor *v, void *ctx);

#endif
