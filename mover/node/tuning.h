/* SPDX-License-Identifier: MIT */
/*
 * tuning - how many lanes, connections and slabs suit a machine. A pure function: facts about the
 * machine come in, numbers and the reasons for them come out. A value that the configuration sets
 * is taken as it is.
 *
 * The rules, and why:
 * - A lane for each processor, 2 to 16. With one for every two, processors were idle for a third of
 *   the time (bench/FIGURES.md, scale).
 * - A TCP connection for each lane, divided among the rails, 2 to 16 a rail: one lane serves a
 *   connection, so fewer leave lanes idle. Fewer too where the arena has no slab for each, or where
 *   those to all peers would take more than an eighth of the budget of memory.
 * - Slabs of 4 to 8 MiB, so that the connections to two peers have one each for either direction.
 *   Less leaves a disk without work, more gains nothing (bench/FIGURES.md, scale).
 * - Queue pairs such that their slabs are 32 MiB a rail: a disk that pauses for a moment must not
 *   stop the rail. At most two a lane, 2 to 8.
 * - Chunks of 1 MiB, less only where the arena is too small for 4 slabs of 4 chunks in either
 *   direction.
 * - Over a link of known speed no more than one TCP connection for each 5 Gb/s, or 4.
 * So two processors and the default arena get 2 lanes, 2 connections, 4 queue pairs and slabs of 8
 * MiB.
 */
#ifndef FM_TUNING_H
#define FM_TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "mover/base/cores.h"
#include "mover/transport/transport.h"

#define FM_TUNING_TEXT_MAX 400

struct fm_machine {
	struct fm_cores cores;
	uint64_t arena_bytes;		/* at least 1 MiB */
	uint64_t budget_bytes;		/* what memory.total leaves (base/budget.h) */
	unsigned rails;			/* 0: not known, which is taken for 1 */
	unsigned peers;
};

/* Numbers that are chosen, or set. The limits are those of struct fm_engine_opts. */
struct fm_tuning {
	unsigned lanes;
	unsigned tcp_conns;		/* a rail */
	unsigned rdma_conns;		/* a rail */
	uint32_t chunk_bytes;
	uint32_t slab_bytes;
};

/* Each by its name in struct fm_tuning: a few static words. lanes is NULL where the processors are
 * the reason. */
struct fm_tuning_why {
	const char *lanes, *tcp_conns, *rdma_conns, *chunk, *slab;
};

/*
 * Put a number wherever *t has 0, and the reason for each into *why. Numbers that are set must fit
 * each other and the arena, as fm_config_check() sees to; those that are chosen then do too.
 */
void fm_tuning_choose(const struct fm_machine *m, struct fm_tuning *t, struct fm_tuning_why *why);

/* All of them with their reasons, in one line. */
void fm_tuning_print(const struct fm_machine *m, const struct fm_tuning *t,
		     const struct fm_tuning_why *why, char text[static FM_TUNING_TEXT_MAX]);

/* How many of `most` TCP connections a link of that speed is given; 0: the speed is not known. */
unsigned fm_tuning_link_conns(unsigned most, uint32_t link_mbps);

/*
 * How many rails these addresses of ours make: ports by name, without those that are much slower
 * than the fastest; at least 1.
 */
unsigned fm_tuning_rails(const struct fm_addr *addr, size_t count);

/*
 * A port with less than this share of the fastest one's speed carries no TCP beside it: it would
 * carry the last chunks late.
 */
#define FM_SLOWEST_SHARE 4

#endif
