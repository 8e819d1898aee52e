/* SPDX-License-Identifier: MIT */
/*
 * service - what a node does with its peers: one table for each such thing.
 *
 * Who makes the engine hands it the tables (struct fm_engine_env). The engine, its sessions and its
 * peers walk them, in their order, and know no service by its name. Every function may be NULL.
 * Control thread only.
 */
#ifndef FM_SERVICE_H
#define FM_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/wire/wire.h"

struct fm_engine;
struct fm_err;
struct fm_peer;
struct fm_session;

/* Several may take one type: then each of them looks whether the number in it is its own. */
struct fm_service_message {
	enum fm_wire_type type;
	void (*on)(struct fm_session *s, const struct fm_wire_msg *m);	/* valid during the call */
};

struct fm_service {
	const char *name;
	const struct fm_service_message *messages;
	unsigned message_count;
	/* What it keeps in each engine: so many bytes of zeros, which init() makes ready. */
	size_t state_bytes;
	void (*init)(void *state);
	/* The engine goes, which has stopped or was never started: nothing of this is under way. */
	void (*end)(void *state);

	/* There is a session with this peer. */
	void (*peer_up)(struct fm_peer *p);
	/* Dialling failed, or the peer was removed: what waits for it ends with err. */
	void (*peer_unreachable)(struct fm_peer *p, const struct fm_err *err);
	/* Its data connections changed, or what the peer says of its addresses. */
	void (*session_changed)(struct fm_session *s);
	/* It is closed: what is under way there ends with err. */
	void (*session_lost)(struct fm_session *s, const struct fm_err *err);
	/* Whether something is under way there, so that it is not ended for a better one yet. */
	bool (*is_on)(const struct fm_session *s);

	/* Twice a second. */
	void (*tick)(struct fm_engine *e, uint64_t now_ns);
	/* The node stops: all of it ends. Then fm_engine_check_stopped(), when it may be idle. */
	void (*stop)(struct fm_engine *e);
	/* Whether nothing of it is left, so that the engine may stop. */
	bool (*is_idle)(const struct fm_engine *e);
	/*
	 * Whether something is under way that others wait for and a restart would end; what the
	 * node does for itself is not. Asked while it runs: it changes nothing. NULL: never.
	 */
	bool (*is_working)(const struct fm_engine *e);
	/* Whether what is left only waits for a local caller's file, or for the user database,
	 * which may be for ever. */
	bool (*awaits_callers)(const struct fm_engine *e);
};

/* What a service keeps in that engine, which must have it. */
void *fm_service_state(const struct fm_engine *e, const struct fm_service *service);

/* ---- the walks ---- */

int fm_services_init(struct fm_engine *e, struct fm_err *err);
void fm_services_free(struct fm_engine *e);

void fm_services_peer_up(struct fm_peer *p);
void fm_services_peer_unreachable(struct fm_peer *p, const struct fm_err *err);
void fm_services_session_changed(struct fm_engine *e, struct fm_session *s);
void fm_services_session_lost(struct fm_engine *e, struct fm_session *s, const struct fm_err *err);
bool fm_services_are_on(const struct fm_engine *e, const struct fm_session *s);
void fm_services_tick(struct fm_engine *e, uint64_t now_ns);
void fm_services_stop(struct fm_engine *e);
bool fm_services_are_idle(const struct fm_engine *e);
bool fm_services_are_working(const struct fm_engine *e);
bool fm_services_await_callers(const struct fm_engine *e);

#endif
