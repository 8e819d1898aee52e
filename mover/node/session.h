/* SPDX-License-Identifier: MIT */
/*
 * session - one control connection to a peer, from HELLO to its end, and its flows.
 *
 * Happy path: dialled or accepted -> HELLO both ways -> the peer takes it as its session -> ADDRS
 * both ways -> the dialler makes data connections (rail.h) -> messages go to the services; PING
 * every second. Failure modes: the connection breaks, the peer is silent for stall_ns, sends what
 * breaks the protocol, is removed, or has a better session: what services have under way on it ends
 * with the reason, flows close, and when the last flow and the last connection being made are gone
 * the session is freed.
 */
#ifndef FM_SESSION_H
#define FM_SESSION_H

#include "mover/data/only.h"
#include "mover/node/line.h"
#include "mover/node/node.h"
#include "mover/node/rail.h"

#define FM_SESSION_TOKENS_MAX 64
/* connections that a peer can make, those of its sessions that have ended included */
#define FM_PEER_FLOWS_MAX 256

struct fm_token {
	uint8_t token[FM_TOKEN_LEN];
	uint64_t until_ns;		/* 0: unused entry */
};

struct fm_session {
	struct fm_list at;		/* engine->sessions */
	struct fm_engine *engine;
	struct fm_peer *peer;		/* NULL: removed meanwhile */
	char name[FM_WIRE_NAME_MAX + 1];
	struct fm_lines lines;
	bool is_dialler;
	bool is_up;			/* the peer's session */
	bool is_closed;
	uint8_t boot_id[16];
	/* what the peer has at most on one rail; 0: it does not say */
	unsigned conns_there[FM_KIND_COUNT];
	uint64_t up_ns;
	/* not 0: another one is used; ends when what was begun on it has ended */
	uint64_t retired_ns;
	uint64_t heard_ns;		/* later by what this node stood still since */
	uint64_t pinged_ns;
	/* of the last PING that was answered before the next; 0: of none yet */
	uint64_t round_trip_ns;
	uint64_t deadline_ns;		/* for HELLO */
	struct fm_link *link;
	struct fm_domain *domain;
	struct fm_list flows;		/* fm_flow.owner_at */
	/* those included whose connection is gone and whose I/O is not */
	unsigned flow_count;
	unsigned pending;		/* data connections being made, either way */
	/* of these: a token was used up and the connection is not here yet */
	struct fm_list arriving;	/* connections whose token was good */
	struct fm_share_held conns;	/* for these and its flows: the peer's share of memory */
	bool is_refusal_said;		/* that there is no room for one of them */
	unsigned up[FM_KIND_COUNT];	/* connections */
	struct fm_token tokens[FM_SESSION_TOKENS_MAX];
	unsigned next_token;		/* the oldest of them */
	struct fm_rails rails;
	uint64_t next_id;
	struct fm_task free_task;
};

struct fm_session *fm_session_dial(struct fm_peer *p, const struct fm_reach_dial *to);

/* The listener's. */
extern const struct fm_net_events fm_session_net_events;

#define fm_session_log(s, level, ...) fm_peer_log((s)->engine, (s)->peer, level, __VA_ARGS__)

/* Queue a message. A peer that does not read loses its session. */
void fm_session_send(struct fm_session *s, const struct fm_wire_msg *m);

/*
 * Whether what is long and can wait may be sent now, a message at a time: it leaves the greater
 * part of the queue to what cannot wait.
 */
bool fm_session_has_room(const struct fm_session *s);

/*
 * Whether what would begin on it now is to be refused, with that error, which names the cable: its
 * way is gone and there is no other. What is under way waits as long as a peer may be silent.
 */
bool fm_session_is_lost(const struct fm_session *s, struct fm_err *err);

/* The same error, of one that moves and may yet find another way. */
void fm_session_name_cable(const struct fm_session *s, struct fm_err *err);

/* End it: err for the services and the log; bye: tell the peer this (NULL: nothing). */
void fm_session_close(struct fm_session *s, const struct fm_err *err, const char *bye);

/* Before a tick: this node stood still for so long until now. That was no silence of the peer. */
void fm_session_stood_still(struct fm_session *s, uint64_t still_ns);

/* Twice a second. */
void fm_session_tick(struct fm_session *s, uint64_t now_ns);

/* A number for a transfer or request that we begin; unique in the session. */
uint64_t fm_session_new_id(struct fm_session *s);
bool fm_session_is_peers_id(const struct fm_session *s, uint64_t id);

/* A source has work for the lanes: wake as many as `chunks` can use. */
void fm_session_wake(struct fm_session *s, unsigned kinds, uint64_t chunks);

/* A data connection is ours: make a flow of it. rail: index, or -1 (the peer made it). Takes conn
 * over. */
int fm_session_add_flow(struct fm_session *s, struct fm_conn *conn, int rail);

/* How many of that kind carry what only these may; 0: there are not so many as it says. */
unsigned fm_session_conns(const struct fm_session *s, enum fm_kind kind,
			  const struct fm_only *only);

/* Adds what its connections moved, those that are not up included. */
void fm_session_add_moved(const struct fm_session *s, uint64_t *sent, uint64_t *received,
			  struct fm_port_sums *ports);

/* How the connections of that kind that were made last are sealed. */
enum fm_encryption fm_session_encryption(const struct fm_session *s, enum fm_kind kind);

/* The network was stopped: what was arriving never will. */
void fm_session_net_stopped(struct fm_session *s);

/* One pending connection less. */
void fm_session_settle(struct fm_session *s);

/* A line's: it is open; a message came over it; it broke for good. */
void fm_session_say_hello(struct fm_session *s);
void fm_session_message(struct fm_session *s, const uint8_t *msg, size_t len);
void fm_session_heard(struct fm_session *s);	/* it carries the session, and the peer is there */
void fm_session_broke(struct fm_session *s, const struct fm_err *err);

void fm_session_protocol_error(struct fm_session *s, const char *what);

#endif
