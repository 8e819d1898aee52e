/* SPDX-License-Identifier: MIT */
/*
 * message - what the nodes of a run say to each other. One struct for all of them; which members
 * a type uses stands beside it.
 * encode.h has them as bytes. Nodes are numbers: their places in the order that all
 * configurations agree on.
 *
 * A message goes from `from` to `to`: reports and orders over one node between them at most, LINKS
 * and what is between members over none. Extents, their CRCs and pages are checked by who takes it:
 * a message that says what cannot be is dropped.
 */
#ifndef FM_STAGING_RUN_MESSAGE_H
#define FM_STAGING_RUN_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#define FM_RUN_NODES_MAX 64		/* a set of nodes is a uint64_t */
#define FM_RUN_EXTENTS_MAX (1U << 20)	/* 16 TiB in extents of 16 MiB */
#define FM_RUN_LEASES 2			/* extents that a node reads from the source at once */
#define FM_RUN_SLOTS 8			/* extents in a node's memory */
/* extents that a member fetches from peers' disks at once */
#define FM_RUN_FETCHES 4
/* Extents that a member sends from its disk at once; the configuration says how many. */
#define FM_RUN_UPLOADS_MAX 16
#define FM_RUN_FANOUT 15		/* nodes that one node sends an extent to from memory */
#define FM_RUN_SCAN 1024		/* extents that one decision of the coordinator looks at */
#define FM_RUN_PAGE 256			/* extents that one page of a report covers */

enum fm_run_msg_type {
	/*
	 * To peers, when it changes: this node is in the run, and reaches `nodes`. code 1:
	 * somebody wants something; pass it on.
	 */
	FM_RUN_LINKS,

	/* To the coordinator. `join` is the sender's, one more each time that it begins anew. */
	FM_RUN_JOIN,			/* state: a new report begins; its pages follow */
	FM_RUN_PAGE_OF,			/* page: what it has on its disk */
	/* state, each second: what it is at, and the last order it had */
	FM_RUN_PULSE,
	FM_RUN_HAVE,			/* extent, crc: is on its disk now */
	FM_RUN_LOST,			/* extent: no more */
	/*
	 * extent, crc: a member that keeps nothing has sent it to one that does; the lease is over
	 */
	FM_RUN_SENT,
	/*
	 * extent, code: -ESTALE the source changed, -EBADMSG not the bytes it must have, others:
	 * storage
	 */
	FM_RUN_READ_FAILED,
	/*
	 * extent, node: from whom; code: -EBADMSG other bytes than crc says, -ETIMEDOUT nothing
	 * came, -EBUSY refused, others: nothing was asked
	 */
	FM_RUN_FETCH_FAILED,
	/* number, code: 0 the source is what it was, -ESTALE it is not, others: storage */
	FM_RUN_CHECKED,

	/* From the coordinator: orders. `join` is the receiver's, `order` one more each time. */
	FM_RUN_LEASE,			/* extent, nodes, shape: read it, send it to these */
	/* extent, node, nodes, shape: the same, but from that node's memory or disk; if number is
	 * 1, bytes of this crc only */
	FM_RUN_CARRY,
	FM_RUN_REVOKE,			/* extent: another one reads it */
	FM_RUN_FETCH,			/* extent, node, crc: from its disk; these bytes only */
	/* extent, crc: unless it has this CRC it is not the source's */
	FM_RUN_DISCARD,
	FM_RUN_CHECK,			/* number: look whether the source changed */
	FM_RUN_INVITE,			/* a request names this node */
	/* crc, of the CRCs of all extents: it is whole, and the source's */
	FM_RUN_COMMIT,
	/*
	 * code, nodes: it is over; these were asked for and do not have it. number, crc: the lower
	 * and the upper half of the set of those that have it
	 */
	FM_RUN_END,
	/* no order: the coordinator and the member disagree about what the member has. Join anew */
	FM_RUN_RESYNC,
	FM_RUN_NOTED,			/* order: no order, the pulse came; the last one given */

	/* Between members. */
	/* extent, crc, node (who read it), nodes, shape: it is in my memory */
	FM_RUN_OFFER,
	FM_RUN_PASS,			/* extent: not now, or not at all */
	FM_RUN_GET,			/* extent, slot: send it there */
	FM_RUN_NONE,			/* extent, slot: cannot, or not now */

	FM_RUN_MSG_TYPES
};

enum fm_run_place {
	FM_RUN_PASSIVE,			/* takes part, keeps nothing */
	FM_RUN_SINK,			/* wants the dataset on its disk */
	FM_RUN_READY,			/* has it */
	FM_RUN_OUT,			/* dropped out, `code` says why; keeps nothing */
	FM_RUN_PLACES
};

/* An extent that comes to a member. */
struct fm_run_coming {
	uint32_t extent;
	/* whose disk it is fetched from; FM_RUN_NOBODY: it was offered */
	uint8_t from;
};

#define FM_RUN_NOBODY 0xff

struct fm_run_held {
	uint32_t extent;
	bool is_revoked;		/* the read goes on, since a read cannot be taken back */
};

/* What a member is at. */
struct fm_run_state {
	uint8_t place;			/* enum fm_run_place */
	bool can_read;
	/* extents that it sends from its disk at once, 1 to FM_RUN_UPLOADS_MAX */
	uint8_t uploads;
	int32_t code;			/* FM_RUN_OUT: why */
	uint32_t order;			/* the last it had */
	uint32_t have_count;
	uint64_t up;			/* its peers */
	uint64_t wanted;		/* nodes that requests made here name */
	uint8_t lease_count;
	struct fm_run_held lease[FM_RUN_LEASES];
	uint8_t coming_count;
	struct fm_run_coming coming[FM_RUN_SLOTS];
};

struct fm_run_page {
	uint32_t first;			/* a multiple of FM_RUN_PAGE */
	bool is_last;
	uint8_t bits[FM_RUN_PAGE / 8];
	uint32_t crc[FM_RUN_PAGE];	/* of those that are there */
};

struct fm_run_msg {
	uint8_t type;			/* enum fm_run_msg_type */
	uint8_t from, to;
	uint8_t hops;			/* nodes it went over: 0 or 1 */
	uint8_t node;
	uint8_t slot;
	uint8_t shape;			/* of the tree (tree.h) */
	int32_t code;
	uint32_t join, order;
	uint32_t extent;
	uint32_t crc;
	uint32_t number;
	uint64_t nodes;
	union {
		struct fm_run_state state;
		struct fm_run_page page;
	};
};

/* Of END: who has it. */
static inline void fm_run_msg_set_ready(struct fm_run_msg *msg, uint64_t nodes)
{
	msg->number = (uint32_t)nodes;
	msg->crc = (uint32_t)(nodes >> 32);
}

static inline uint64_t fm_run_msg_ready(const struct fm_run_msg *msg)
{
	return msg->number | (uint64_t)msg->crc << 32;
}

#endif
