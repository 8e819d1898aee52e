/* SPDX-License-Identifier: MIT */
/*
 * rail - which data connections a session has: found by trying each of our addresses against each
 * of the peer's, source bound.
 *
 * The dialler of the control connection makes them. A pair that works becomes a rail and gets its
 * full number of connections; a port that is part of a working rail is not tried with another. What
 * fails is tried again with growing pauses; what breaks is made again. The pauses are bounded, so
 * that a rail is back within about half a minute after the network is well.
 */
#ifndef FM_RAIL_H
#define FM_RAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/transport/transport.h"
#include "mover/wire/wire.h"

struct fm_flow;
struct fm_session;

#define FM_RAILS_MAX 128		/* pairs of addresses that are tried */
#define FM_RAILS_LOST_MAX 16
#define FM_RAIL_DIALS_MAX 16		/* connections being made at once, in one session */

struct fm_rail {
	struct fm_addr local;
	struct fm_addr remote;
	enum fm_kind kind;
	unsigned up;
	unsigned dialling;
	uint64_t retry_ns;		/* not dialled before */
	uint64_t dial_pause_ns;		/* after the next dial that fails */
	uint64_t dial_timeout_ns;	/* of the next dial */
	uint64_t break_pause_ns;	/* after the next connection that breaks young */
	uint64_t up_ns;			/* since when it has a connection */
	bool has_worked;
	bool is_likely;			/* of one subnet, or was up before in this session */
	bool is_listed;			/* both addresses are still there */
	bool is_gone;			/* not, when we looked last */
	/* when they were there again, and it was dialled at once for that; 0: never */
	uint64_t back_ns;
	/* what of it is up is being ended by us: no reason to wait */
	bool is_renewing;
	/* the peer said that it takes plain TCP here, and then it did not */
	bool needs_tls;
};

/* A rail that was up and is down, for status: at both ends, whoever dials. */
struct fm_rail_lost {
	struct fm_conn_info info;	/* of its last connection */
	uint64_t since_ns;
	char why[FM_ERR_TEXT_MAX];
};

struct fm_rails {
	struct fm_wire_addrs remote;	/* what the peer said last */
	bool is_known;			/* it did */
	bool is_stale;			/* it has said something else since the pairs were listed */
	uint64_t looked_ns;		/* when our own addresses were looked at last */
	struct fm_wire_addrs sent;	/* and what we said last */
	struct fm_rail rail[FM_RAILS_MAX];
	unsigned count;
	unsigned dialling;
	uint8_t tokens[FM_WIRE_TOKENS_MAX][FM_TOKEN_LEN];
	unsigned token_count;
	bool is_asking;			/* TOKENS_WANT is out */
	unsigned renewals;		/* how often TCP connections had to be made anew */
	uint64_t renewed_ns;		/* when they had to last */
	uint64_t await_ns[FM_KIND_COUNT];	/* fm_rail_await() */
	char last_error[FM_KIND_COUNT][FM_ERR_TEXT_MAX];
	struct fm_rail_lost lost[FM_RAILS_LOST_MAX];	/* the oldest first, and it makes room */
	unsigned lost_count;
};

/* Tell the peer our addresses. */
void fm_rail_send_addrs(struct fm_session *s);

/*
 * Twice a second: have our addresses changed, or the networks that are private? Then tell the peer,
 * and try the new ones. They are looked at every few seconds, and in the next tick after
 * fm_rail_look().
 */
void fm_rail_look(struct fm_session *s);
void fm_rail_tick(struct fm_session *s, uint64_t now_ns);

/*
 * Ends a TCP connection an address of which is gone at either end. To call when it is made, and
 * whenever addresses may have changed: an address that was never listed is not gone.
 */
void fm_rail_check_flow(struct fm_session *s, struct fm_flow *f);

/* The session has another line. If it goes another way, what else went the old one's is cut:
 * whoever waits for it waits in vain. */
void fm_rail_session_moved(struct fm_session *s, const struct fm_addr *old_local,
			   const struct fm_addr *old_remote, const struct fm_addr *local,
			   const struct fm_addr *remote);

/* Messages. */
void fm_rail_on_addrs(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_rail_on_tokens_want(struct fm_session *s, const struct fm_wire_msg *msg);
void fm_rail_on_tokens(struct fm_session *s, const struct fm_wire_msg *msg);

/* Make what is missing. */
void fm_rail_step(struct fm_session *s);

/* A connection of that rail ended. */
void fm_rail_down(struct fm_session *s, int rail);

/* What status says of it: the last connection of a rail broke for this reason; one of it is up. */
void fm_rail_is_lost(struct fm_session *s, const struct fm_conn_info *info, const char *why);
void fm_rail_is_found(struct fm_session *s, const struct fm_conn_info *info);

/*
 * There is reason to hope for a connection of that kind: a job should wait for it as it does when
 * the session is new.
 */
void fm_rail_await(struct fm_session *s, enum fm_kind kind);

/* Whether a connection of that kind may still come up soon, so that a job should wait for it. */
bool fm_rail_may_come(const struct fm_session *s, enum fm_kind kind);

/* Why there is no connection of that kind, in words; never empty. */
void fm_rail_why_not(const struct fm_session *s, enum fm_kind kind, char *out, size_t len);

#endif
