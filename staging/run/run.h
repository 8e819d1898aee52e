/* SPDX-License-Identifier: MIT */
/*
 * run - a node's part in one staging run: a member, and the coordinator too while this node is
 * the first in rank that it knows of.
 * README.md has the protocol.
 *
 * No I/O, no clock, no thread: events come by calls, what is to be done goes out through struct
 * fm_run_world, whose functions only note it:
 * none calls back. The time is what fm_run_tick() says; a clock that is set back or stands still
 * does no harm.
 * One thread at a time.
 */
#ifndef FM_STAGING_RUN_RUN_H
#define FM_STAGING_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "staging/run/message.h"

struct fm_run;

/*
 * What the run asks for. Each of read, write, check_source, invited and publish is answered once
 * by the event named beside it; what is
 * cancelled is answered no more. An extent's bytes lie in a slot, 0 to FM_RUN_SLOTS - 1, until
 * release.
 */
struct fm_run_world {
	/* `hop` is a peer that is up: the message's receiver, or who passes it on. */
	void (*send)(void *ctx, unsigned hop, const struct fm_run_msg *msg);
	void (*read)(void *ctx, unsigned slot, uint32_t extent);	/* fm_run_read_done() */
	/* and sync: fm_run_written() */
	void (*write)(void *ctx, unsigned slot, uint32_t extent);
	/* slot < 0: from this node's disk. fm_run_sent(), or nothing if the peer is lost. */
	void (*upload)(void *ctx, unsigned to, uint32_t extent, int slot, unsigned to_slot);
	/* The receiver hears that it does not come. */
	void (*cancel_upload)(void *ctx, unsigned to, uint32_t extent, int slot);
	/* The sender hears of it: fm_run_sent(). */
	void (*cancel_receive)(void *ctx, unsigned slot);
	void (*release)(void *ctx, unsigned slot);
	/* take it out of the journal: it is not on the disk */
	void (*forget)(void *ctx, uint32_t extent);
	/* list it again: fm_run_checked() */
	void (*check_source)(void *ctx, uint32_t number);
	/* fm_run_want() or fm_run_refuse() */
	void (*invited)(void *ctx);
	/* all is there and right: fm_run_published() */
	void (*publish)(void *ctx);
	/*
	 * It is over: 0, or why a member that wanted it does not have it. `missing`: nodes that
	 * were asked for and do not. Free it.
	 */
	void (*end)(void *ctx, int code, uint64_t missing);
};

/* Nanoseconds. */
struct fm_run_times {
	uint64_t pulse;			/* how often a member says what it is at */
	uint64_t silent;		/* without a word for so long a member is gone */
	uint64_t settle;		/* before a new coordinator has extents read */
	/* how long a read may take; then another one may try; doubled each time */
	uint64_t lease;
	uint64_t offer;			/* how long an extent stays in memory for others */
	uint64_t send;			/* how long sending it may keep a slot that is needed */
	/* how long a member waits for an extent; doubled each time */
	uint64_t fetch;
	uint64_t write;			/* how long a write may take; then nobody waits for it */
	/* after an extent is on the first disk, before it is fetched from there */
	uint64_t quiet;
	uint64_t retry;			/* of storage that failed; doubled up to 16 times */
	uint64_t check;			/* how long listing the source again may take */
	uint64_t stall;			/* the run ends if nothing came anywhere for so long */
	uint64_t away;			/* how long one who was there and is lost is waited for */
};

extern const struct fm_run_times fm_run_times_default;

struct fm_run_params {
	unsigned self, node_count;
	const uint8_t *rank;		/* of each node: rank.h */
	/* a random number: where it begins to count, so that no order to an earlier run fits */
	uint32_t join;
	uint64_t up;			/* peers that have a session now, and stage */
	uint32_t extent_count;
	bool can_read;
	unsigned uploads;		/* 1 to FM_RUN_UPLOADS_MAX */
	/* extents of each of several parts that one decision looks at; 0: FM_RUN_SCAN */
	uint32_t scan;
	enum fm_run_place place;	/* FM_RUN_PASSIVE, FM_RUN_SINK or FM_RUN_READY */
	/* FM_RUN_SINK: bits of extents that are on the disk and were read again; NULL: none */
	const uint64_t *have;
	const uint32_t *crc;		/* of those; FM_RUN_READY: of all */
	/* what the CRCs must be, where a manifest is known; NULL: not known */
	const uint32_t *expected;
	const struct fm_run_times *times;
};

/* Memory that a run takes for each extent: the coordinator's part, and what must come, included. */
#define FM_RUN_EXTENT_MEMORY 38u

/* Copies what params points to, except times. -EINVAL, -ENOMEM. world may be called at once. */
int fm_run_new(const struct fm_run_params *params, const struct fm_run_world *world, void *ctx,
	       struct fm_run **out);
void fm_run_free(struct fm_run *run);

/* ---- events ---- */

void fm_run_tick(struct fm_run *run, uint64_t now_ns);
/* `via` is the peer whose session it came over. */
void fm_run_message(struct fm_run *run, unsigned via, const struct fm_run_msg *msg);
void fm_run_peer_up(struct fm_run *run, unsigned peer);
/* The peer is lost. Everything that was being sent to it or came from it is cancelled. */
void fm_run_peer_lost(struct fm_run *run, unsigned peer);
/*
 * Tells the core which peers have a session and have not said yet whether they take part, and which
 * refused; nobody waits for the latter.
 */
void fm_run_called(struct fm_run *run, uint64_t peers, uint64_t refused);

/* A request made here for these nodes. */
void fm_run_request(struct fm_run *run, uint64_t nodes);
/* Room is reserved: this node is a sink. have, crc: as in the params of one. */
void fm_run_want(struct fm_run *run, const uint64_t *have, const uint32_t *crc);
/* It is none: no room, no right. */
void fm_run_refuse(struct fm_run *run, int code);

/* Whether a read that has not begun yet is still to be done. */
bool fm_run_wants_read(struct fm_run *run, unsigned slot);
/* code: 0, or FM_RUN_READ_FAILED's. crc is of the bytes in the slot. */
void fm_run_read_done(struct fm_run *run, unsigned slot, uint32_t crc, int code);
/* code: 0, -EBADMSG if the bytes are not what the sender said, others: it did not come. */
void fm_run_received(struct fm_run *run, unsigned slot, uint32_t crc, int code);
void fm_run_written(struct fm_run *run, unsigned slot, int code);
void fm_run_sent(struct fm_run *run, unsigned to, uint32_t extent, int code);
/* An extent on this node's disk is damaged. Uploads of it were answered with FM_RUN_NONE. */
void fm_run_disk_bad(struct fm_run *run, uint32_t extent);
void fm_run_checked(struct fm_run *run, uint32_t number, int code);
void fm_run_published(struct fm_run *run, int code);

/* ---- what is shown ---- */

struct fm_run_show {
	enum fm_run_place place;
	bool is_coordinator;
	unsigned coordinator;		/* whom it takes for it */
	uint32_t have_count;
	unsigned slots_used, leases, uploads;
	/* Of the coordinator: */
	unsigned leases_given;
	/* leases, members, reports, fetches: since it began */
	unsigned revoked, forgotten, resynced, failed;
};

void fm_run_show(const struct fm_run *run, struct fm_run_show *show);

#endif
