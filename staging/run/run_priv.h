/* SPDX-License-Identifier: MIT */
/*
 * run_priv - what the files of a run share. What a node is to its peers is run.c's, a member's
 * part member.c's and slots.c's, the
 * coordinator's coordinator.c's (what it knows) and plan.c's (what it decides).
 */
#ifndef FM_STAGING_RUN_RUN_PRIV_H
#define FM_STAGING_RUN_RUN_PRIV_H

#include "staging/run/run.h"

#define ORDERS_MAX 64		/* of the coordinator to its own member, within one event */
#define GIVER_BAD 4		/* offers of a peer: after so many bad ones it has to wait */
#define BLOCK 1024u		/* extents that a bit of seat.held is of */
#define BLOCKS (FM_RUN_EXTENTS_MAX / BLOCK)

static inline uint64_t bit(unsigned node)
{
	return UINT64_C(1) << node;
}

/* ---- a member ---- */

enum slot_use {
	SLOT_FREE,
	SLOT_READING,
	SLOT_RECEIVING,
	SLOT_HELD,			/* the bytes are there, and are what their CRC says */
};

struct slot {
	enum slot_use use;
	uint32_t extent;
	uint32_t crc;			/* of its bytes; of those that are to come */
	uint8_t from;			/* SLOT_RECEIVING: who sends it */
	bool is_fetch;			/* from its disk, by order */
	uint8_t giver;			/* who offered it; FM_RUN_NOBODY: it comes by order */
	bool is_writing;
	uint64_t write_ns;		/* since when */
	bool was_sent;			/* to one at least */
	bool is_in_line;		/* offered when what was read before it has been sent */
	uint8_t offers;			/* how often */
	uint8_t root, shape;		/* of the tree */
	uint64_t wants;			/* nodes that the tree is for */
	uint64_t offered;		/* those that may still ask for it */
	uint64_t sending;		/* those that it is sent to */
	uint64_t since_ns;		/* when it was begun; SLOT_HELD: last offered */
};

struct lease {
	bool is_used, is_revoked;
	uint32_t extent;
	int slot;			/* -1: it waits for one */
	uint8_t from;			/* FM_RUN_NOBODY: the source */
	bool has_crc;			/* only these bytes are to come */
	uint32_t crc;
	uint64_t nodes;
	uint8_t shape;
};

/* What came of the offers of a peer. Of those that began together `late` and `failed` count one. */
struct giver {
	uint8_t late;			/* that it let time out, since the last that came */
	uint64_t late_ns;		/* the last of them */
	uint8_t failed;			/* that did not come, whyever, since the last that came */
	uint64_t failed_ns;		/* the last of them that was counted */
	uint8_t wrong;			/* of which other bytes came than there should */
	uint64_t after_ns;		/* nothing that it offers is taken before */
	/* the last ones needed longer, that it offered, and from its disk: pace_of() */
	uint8_t pace, fetch_pace;
};

struct upload {
	bool is_used;
	uint8_t to;
	uint32_t extent;
};

struct member {
	enum fm_run_place place;
	int code;
	bool can_read;
	bool is_publishing;
	bool is_checking, is_to_check;	/* the source; once more, for next_check */
	uint32_t next_check;
	uint64_t *have;			/* bits */
	uint32_t *crc;			/* of those */
	uint8_t *giver_of;		/* who offered those; FM_RUN_NOBODY: they came by order */
	uint32_t have_count;
	struct giver giver[FM_RUN_NODES_MAX];
	struct slot slot[FM_RUN_SLOTS];
	struct lease lease[FM_RUN_LEASES];
	uint64_t slow;			/* nodes to which an extent takes long */
	struct upload upload[FM_RUN_UPLOADS_MAX];
	/* rounds of fetches in a row of which nothing came in time; when the last was counted */
	unsigned fetches_failed;
	uint64_t fetches_failed_ns;
	uint32_t join, order;
	uint32_t noted_order, noted_had; /* the last NOTED that told of a missing order, and when */
	uint64_t wanted;
	/* pulses since the JOIN whose answer has not come; answers to come until the coordinator
	 * has heard of the last request */
	unsigned unanswered, unheard;
	uint64_t pulse_ns;		/* the next */
	uint64_t heard_ns;		/* of the coordinator */
	uint64_t rejoin_ns;		/* not again before, for a COMMIT that does not fit */
	/* somebody says that it is to report again; it is to call its peers first; not before */
	bool is_to_join, is_to_call;
	uint64_t again_ns;
};

/* ---- the coordinator ---- */

struct seat_lease {
	bool is_used, is_revoked;
	bool is_carry;			/* from a node that has it, as far as is known */
	uint8_t server;			/* that node */
	bool is_read;			/* of the source, by order of this coordinator */
	uint32_t extent;
	uint64_t since_ns;
};

/* An extent that comes to a member. */
struct seat_coming {
	uint32_t extent;
	uint8_t from;			/* as in struct fm_run_coming */
	uint64_t since_ns;		/* what it took before is in fetched_ns */
};

/* A member, as the coordinator knows it. */
struct seat {
	bool is_here, is_whole;		/* is_whole: its report has come */
	uint32_t join, order;
	struct fm_run_state state;
	uint32_t have_count;
	uint64_t held[BLOCKS / 64];	/* blocks in which it has any, or had */
	uint64_t heard_ns;		/* also when it is not here any more */
	uint64_t page_ns;		/* the last page of its report, or its JOIN */
	struct seat_lease lease[FM_RUN_LEASES];
	struct seat_coming coming[FM_RUN_SLOTS];
	unsigned coming_count;
	uint64_t read_after_ns;
	unsigned reads_failed;
	bool is_late;			/* a lease took too long, and it has done nothing since */
	uint64_t avoid, avoid_until_ns;	/* servers that it could not fetch from */
	/* it is not asked again before; a node that was invited may be whole at once */
	uint64_t invite_after_ns, commit_after_ns;
	uint64_t fetch_after_ns;	/* since what it had was wrong */
	/* how long it had uploads of others, from each order on; lowered by plan.c for who is far
	 * ahead of others; also when it is not here any more */
	uint64_t fetched_ns;
	/* so many fetches at once less than there may be; when the last was late that counted */
	unsigned fewer;
	uint64_t fewer_ns;
	uint32_t next_fetch;
};

struct coordinator {
	bool is_on;
	int code;			/* not 0: it cannot be done */
	bool is_wanted;			/* somebody wanted it; began_ns is since then */
	uint64_t began_ns, progress_ns;
	struct seat seat[FM_RUN_NODES_MAX];
	uint16_t uploads[FM_RUN_NODES_MAX]; /* that others fetch from its disk */
	uint8_t failed_of[FM_RUN_NODES_MAX]; /* fetches from it, since the last one that came */
	uint64_t seen;			/* members that ever reported */
	uint8_t wrong_of[FM_RUN_NODES_MAX]; /* fetches from it that brought other bytes */
	uint8_t silent_of[FM_RUN_NODES_MAX]; /* that brought nothing, since the last that came */
	uint64_t distrusted;		/* nodes with too many of either */
	uint64_t *holders;		/* by extent: who has it on disk, as they say */
	uint64_t *doubted;		/* of those: from whom it did not come as they said */
	uint32_t *crc;			/* of those that somebody has, or that were read */
	bool *was_read;			/* crc is what was read, by order of this coordinator */
	uint32_t *not_before_ms;	/* no order about it before */
	/* leases that are not revoked, and members that it comes to */
	uint16_t *busy;
	/* leases that were revoked, and reads that gave wrong bytes */
	uint8_t *tries;
	uint32_t covered;		/* extents that somebody has */
	/* by part, of the parts and sinks that parts_crc is of: none below it is to be read */
	uint32_t next_read[FM_RUN_NODES_MAX];
	uint32_t parts_crc;
	unsigned part_count;
	uint32_t version;		/* one more whenever a CRC is new or gone */
	bool is_sealed;			/* the CRCs are the source's */
	bool is_torn;			/* of one extent the source gave two */
	uint32_t check_version;		/* CHECK is under way for it; 0: none */
	uint64_t check_after_ns;
	unsigned check_turn;
	unsigned revoked, forgotten, resynced, failed;
	uint64_t looked;		/* at extents of members that were forgotten */
};

struct fm_run {
	unsigned self, node_count;
	uint8_t rank[FM_RUN_NODES_MAX];
	uint32_t extent_count;
	unsigned uploads_max;
	uint32_t scan_max;
	uint32_t *expected;		/* NULL: not known */
	const struct fm_run_times *times;
	const struct fm_run_world *world;
	void *ctx;
	uint64_t now_ns, clock_ns;	/* the run's own time; what the clock said last */
	bool has_clock;
	bool is_over;
	bool is_woken;			/* by one that wants something, or told so by others */

	uint64_t up;			/* peers with a session */
	uint64_t known;			/* peers that are in the run, as they said */
	uint64_t heard;			/* peers that said anything */
	uint64_t called;		/* peers that may take part yet */
	uint64_t refused;		/* nodes that will not */
	uint64_t links[FM_RUN_NODES_MAX];	/* whom these reach */
	unsigned root;			/* the coordinator */
	bool is_to_turn;		/* there is another one, which has to wait */
	uint64_t turn_ns;		/* a `quiet` later for each that was taken */

	struct member member;
	struct coordinator coordinator;
	struct fm_run_msg order[ORDERS_MAX];	/* of the coordinator here to the member here */
	unsigned order_first, order_count;
};

/* run.c */
void fm_run_join_again(struct fm_run *run, bool is_calling);

/* rules.c */
unsigned fm_run_first(const struct fm_run *run);
int fm_run_hop(const struct fm_run *run, unsigned to);
uint64_t fm_run_elapsed(uint64_t last_ns, uint64_t now_ns);
bool fm_run_may_release(const struct fm_run *run, const struct slot *s, bool is_needed);
bool fm_run_is_being_written(const struct fm_run *run, const struct slot *s);
bool fm_run_is_late(const struct seat *seat);
bool fm_run_may_offer(const struct fm_run *run, unsigned peer);
bool fm_run_is_right(const struct fm_run *run, uint32_t extent, uint32_t crc);
bool fm_run_is_next_order(const struct fm_run *run, const struct fm_run_msg *msg);
bool fm_run_is_conflict(const struct coordinator *co, uint32_t extent, uint32_t crc);
bool fm_run_is_silent(const struct fm_run *run, const struct seat *seat);
bool fm_run_is_awaited(const struct fm_run *run, unsigned node);
bool fm_run_is_overdue(const struct fm_run *run, const struct seat_lease *l);
uint64_t fm_run_trusted(const struct coordinator *co, uint32_t extent);
bool fm_run_is_held(const struct coordinator *co, uint32_t extent, uint64_t near);
bool fm_run_is_under_way(const struct coordinator *co, uint32_t extent, uint64_t near);
/* Whether it sends less from its disk than it said that it can. */
bool fm_run_may_serve(const struct coordinator *co, unsigned node);
int fm_run_server(const struct fm_run *run, unsigned node, uint32_t extent);
bool fm_run_is_sealed(const struct coordinator *co);
bool fm_run_is_settled(const struct fm_run *run);
void fm_run_send(struct fm_run *run, unsigned to, struct fm_run_msg *msg);

/* slots.c */
int fm_run_slot_take(struct fm_run *run, bool is_lease);
void fm_run_slot_free(struct fm_run *run, struct slot *s);
void fm_run_slot_offer(struct fm_run *run, struct slot *s);
void fm_run_slots_offer(struct fm_run *run);
void fm_run_slot_settle(struct fm_run *run, struct slot *s);
struct slot *fm_run_slot_find(struct fm_run *run, enum slot_use use, uint32_t extent);
unsigned fm_run_slot_number(const struct fm_run *run, const struct slot *s);
unsigned fm_run_uploads(const struct fm_run *run);
void fm_run_get(struct fm_run *run, const struct fm_run_msg *msg);
void fm_run_slots_peer_lost(struct fm_run *run, unsigned peer);

/* member.c */
int fm_run_member_init(struct fm_run *run, const struct fm_run_params *params);
void fm_run_member_free(struct fm_run *run);
bool fm_run_has(const struct fm_run *run, uint32_t extent);
void fm_run_join(struct fm_run *run);
void fm_run_member_tell(struct fm_run *run, enum fm_run_msg_type type, uint32_t extent, int code);
void fm_run_member_take(struct fm_run *run, const struct fm_run_msg *msg);
void fm_run_member_tick(struct fm_run *run);
void fm_run_leases_start(struct fm_run *run);
void fm_run_coming_failed(struct fm_run *run, struct slot *s, int code);
void fm_run_sent_first(struct fm_run *run, const struct slot *s);
struct lease *fm_run_lease_of(struct fm_run *run, int slot);
void fm_run_lease_over(struct lease *l);

/* coordinator.c */
int fm_run_coordinator_init(struct fm_run *run);
void fm_run_coordinator_free(struct fm_run *run);
void fm_run_coordinator_begin(struct fm_run *run);
void fm_run_coordinator_take(struct fm_run *run, const struct fm_run_msg *msg);
void fm_run_order(struct fm_run *run, unsigned node, struct fm_run_msg *msg);
void fm_run_look_again(struct coordinator *co, uint32_t extent);
void fm_run_seat_forget(struct fm_run *run, unsigned node);
void fm_run_coming_add(struct fm_run *run, struct seat *seat, uint32_t extent, uint8_t from);
uint64_t fm_run_in_place(const struct coordinator *co, enum fm_run_place place);

/* plan.c */
void fm_run_plan(struct fm_run *run);
uint64_t fm_run_wanted(const struct coordinator *co);

#endif
