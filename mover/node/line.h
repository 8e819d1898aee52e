/* SPDX-License-Identifier: MIT */
/*
 * line - the connection that carries a session, which may change while the session goes on.
 *
 * - Happy path: one line from HELLO to BYE.
 * - A cut cable: what was sent is repeated in vain. The dialler of the session connects over
 *   another cable (a *spare*), and as soon as that is there it leaves the old line, says RESUME
 *   on the new one and waits for the answer; both then send again what the other has not had.
 *   Jobs, requests and data connections notice nothing. A line that is not stuck any more is
 *   kept.
 * - Cables that come and go: which of them works changes while a spare is made. So spares do
 *   not wait for each other: every half second the next address of the peer is dialled, and the
 *   first that opens carries the session.
 * - A slow peer looks the same as a cut cable. So the line that was left is open until the
 *   answer is there: its end would come to such a peer before the RESUME does, and end the
 *   session. Nothing counts that comes over it.
 * - A peer that asks twice: its first RESUME may be read behind its second, from a connection
 *   that it has given up. They are numbered, so that the first does not take the session back.
 * - A reset: the peer's process has ended, or its kernel alone has given the connection up,
 *   before ours did, as when cables come and go. Who dialled finds out by dialling: an address
 *   refuses and no other answers, or another run does. Who accepted dials, too, but only to see
 *   whether anybody listens, and waits a few seconds for the other to come.
 * - Failure: no other cable leads there: tried again every second, until the session was silent
 *   for stall_ns and ends. The peer knows nothing of the session (it was started again), or one
 *   end kept too little: the session ends.
 *
 * What was sent is kept until the peer says that it has it; FM_LINE_KEPT_MAX bytes at most, and no
 * more than the peer's share of half of what the budget has for sessions: the oldest make room and
 * with them goes the way back to before them. So peers that say nothing take no memory that others'
 * sessions live on. Control thread only.
 */
#ifndef FM_LINE_H
#define FM_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/base/share.h"
#include "mover/node/engine_opts.h"
#include "mover/transport/transport.h"
#include "mover/wire/wire.h"

struct fm_session;
struct fm_reach_dial;

#define FM_LINE_KEPT_MAX (1u << 20)
#define FM_LINES_LEFT_MAX 8	/* then the first of them is closed */
#define FM_LINES_SPARE_MAX 4

struct fm_line {
	struct fm_list at;		/* in spares or left */
	bool is_spare;
	struct fm_session *session;
	struct fm_ctl *ctl;
};

struct fm_lines {
	struct fm_line *main;		/* NULL: none just now */
	/* being dialled, to take its place; by an acceptor: to see who listens */
	struct fm_list spares;
	unsigned spare_count;
	bool is_round;			/* the peer may have addresses that were not tried yet */
	struct fm_list left;		/* what was main, the first one first */
	unsigned left_count;
	bool can_resume;		/* the peer knows how */
	/* the address of main at our end is no more, or its link is down */
	bool is_gone;
	bool is_nowhere;		/* and of all other addresses of the peer none answered */
	bool is_refused;		/* one of them did, in this round */
	bool is_resuming;		/* RESUME was said on main and is not answered yet */
	uint64_t number;		/* of the session, by its dialler */
	uint64_t order;			/* of the last RESUME: which one it was of this session */
	uint64_t received;		/* messages that count */
	uint64_t told;			/* of them the peer knows that we have them */
	size_t told_bytes;		/* received since */
	uint64_t sent;
	uint64_t forgotten;		/* the first so many of them are not kept */
	struct fm_list kept;		/* struct kept, the oldest first */
	size_t kept_bytes;
	struct fm_share_held kept_share;	/* the same, of the peer's share */
	uint64_t retry_ns;		/* no round of spares begins before */
	uint64_t answer_ns;		/* until when RESUME is to be answered */
	struct fm_err doubt;		/* main was reset, and the peer may live; code 0: no */
	uint64_t doubt_ns;		/* until then who accepted waits whether it goes on */
	struct fm_addr local, remote;	/* of the line that was given up */
};

void fm_lines_init(struct fm_lines *lines);

/* The session's first line: dialled, or accepted. -ENOMEM: ctl is closed. */
int fm_line_dial(struct fm_session *s, const struct fm_reach_dial *to);
int fm_line_accept(struct fm_session *s, struct fm_ctl *ctl, const struct fm_ctl_events **events,
		   void **ctx);

/* The end: every line and all that is kept. */
void fm_line_end(struct fm_session *s);

/* The connection to send on; NULL: none just now. */
struct fm_ctl *fm_line_ctl(const struct fm_session *s);

/*
 * Whether its cable is gone, so that the session waits for another way; whether nothing leads there
 * now, for all that is known here, whatever becomes of what is under way.
 */
bool fm_line_is_moving(const struct fm_session *s);
bool fm_line_is_lost(const struct fm_session *s);

/* Whether RESUME is out, and its answer may come: a few seconds at most. */
bool fm_line_may_answer(const struct fm_session *s, uint64_t now_ns);

/* For status. */
void fm_line_way(const struct fm_session *s, struct fm_session_way *out);

/*
 * For the error of a session that heard nothing: the way that it has, or had last. *is_dead: our
 * address there is no more, or its link is down.
 */
void fm_line_lost_way(const struct fm_session *s, struct fm_session_way *out, bool *is_dead);

/* An encoded message: kept, and sent as soon as there is a line. As ctl_send. */
int fm_line_send(struct fm_session *s, enum fm_wire_type type, const uint8_t *msg, size_t len);
size_t fm_line_queued(const struct fm_session *s);

/* A message came. */
void fm_line_count(struct fm_session *s, enum fm_wire_type type, size_t len);
void fm_line_on_received(struct fm_session *s, const struct fm_wire_msg *msg);
/* On a connection that has not said HELLO: it is to carry another session of this peer. Or it is
 * the answer. */
void fm_line_on_resume(struct fm_session *s, const struct fm_wire_msg *msg);

/* An address of ours is no more, or its link is down: if the line goes there, it is stuck. */
void fm_line_address_gone(struct fm_session *s, const struct fm_addr *gone);
/*
 * This one we have, perhaps again. Who dials left it, or is about to; who does not stays with the
 * line if the other end saw nothing of that.
 */
void fm_line_address_there(struct fm_session *s, const struct fm_addr *there);

/* This node stood still for so long: what is awaited is awaited for as much longer. */
void fm_line_stood_still(struct fm_session *s, uint64_t still_ns);

/* Twice a second, and once a second with the PING. */
void fm_line_tick(struct fm_session *s, uint64_t now_ns);
void fm_line_tell(struct fm_session *s);

#endif
