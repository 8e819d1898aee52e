/* SPDX-License-Identifier: MIT */
/*
 * stage_run: the pure parts of a staging run, and what a run makes of messages that cannot be.
 * tests/sim_stage has the rest.
 *
 * links: fm_staging_run
 */
#include <errno.h>
#include <string.h>

#include "mover/base/env.h"
#include "staging/run/rank.h"
#include "staging/run/run.h"
#include "staging/run/run_priv.h"
#include "staging/run/tree.h"
#include "tests/fm_test.h"

/* ---- rank ---- */

static void name_all(char names[][16], const char **name, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		snprintf(names[i], 16, "node%u", i);
		name[i] = names[i];
	}
}

/* Goal: ranks are an order of all nodes, readers first, and another digest has another first. */
static void test_rank(void)
{
	char names[64][16];
	const char *name[64];
	uint8_t digest[FM_RUN_DIGEST] = {0}, rank[64];
	uint64_t readers = 0xf0, seen, firsts = 0;

	name_all(names, name, 64);
	for (unsigned d = 0; d < 200; d++) {
		digest[0] = (uint8_t)d;
		fm_run_rank(digest, name, 64, readers, rank);
		seen = 0;
		for (unsigned n = 0; n < 64; n++) {
			seen |= bit(rank[n]);
			CU_ASSERT_EQUAL(rank[n] < 4, (readers >> n & 1) != 0);
			if (rank[n] == 0)
				firsts |= bit(n);
		}
		CU_ASSERT_EQUAL(seen, UINT64_MAX);
	}
	CU_ASSERT_EQUAL(firsts, readers);
}

/* Goal: a node that goes moves only the runs that it coordinated. */
static void test_rank_node_gone(void)
{
	char names[16][16];
	const char *name[16];
	uint8_t digest[FM_RUN_DIGEST] = {0}, rank[16], fewer[16];

	name_all(names, name, 16);
	for (unsigned d = 0; d < 100; d++) {
		unsigned first = 0;

		digest[3] = (uint8_t)d;
		fm_run_rank(digest, name, 16, 0xffff, rank);
		fm_run_rank(digest, name, 15, 0x7fff, fewer);
		while (rank[first] != 0)
			first++;
		if (first < 15)
			CU_ASSERT_EQUAL(fewer[first], 0);
	}
}

/* ---- tree ---- */

/* Everybody who wants it gets it once, nobody from more than one, and nobody sends to more than
 * FM_RUN_FANOUT. */
static void check_tree(unsigned root, uint64_t wants, uint32_t extent, uint8_t shape)
{
	uint64_t got = bit(root), before = 0;

	while (got != before) {
		before = got;
		for (unsigned n = 0; n < 64; n++) {
			uint64_t below = before & bit(n)
						 ? fm_run_tree_below(n, root, wants, extent, shape)
						 : 0;

			CU_ASSERT_TRUE(__builtin_popcountll(below) <= FM_RUN_FANOUT);
			CU_ASSERT_EQUAL(below & ~wants, 0);
			CU_ASSERT_EQUAL(below & bit(root), 0);
			got |= below;
		}
	}
	CU_ASSERT_EQUAL(got, wants | bit(root));
}

static unsigned senders_to(unsigned node, unsigned root, uint64_t wants, uint32_t extent,
			   uint8_t shape)
{
	unsigned count = 0;

	for (unsigned n = 0; n < 64; n++)
		count += (fm_run_tree_below(n, root, wants, extent, shape) & bit(node)) != 0;
	return count;
}

/* Goal: from 0 to 64 nodes, whoever reads, whatever the shape. */
static void test_tree(void)
{
	static const uint64_t sets[] = {0,
					1,
					3,
					0xff,
					0xffff,
					0x1ffff,
					UINT64_MAX,
					0xaaaaaaaaaaaaaaaaU,
					0x8000000000000001U};

	for (unsigned i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		for (uint32_t extent = 0; extent < 70; extent++) {
			check_tree(extent % 64, sets[i], extent, FM_RUN_TREE_DIRECT);
			check_tree(5, sets[i], extent, 0);
			check_tree(5, sets[i], extent, 3 * FM_RUN_TREE_TURN);
		}
		for (unsigned n = 0; n < 64; n++)
			CU_ASSERT_EQUAL(senders_to(n, 5, sets[i], 9, 0),
					n != 5 && (sets[i] & bit(n)));
	}
}

/* Goal: with one reader, it sends each extent once, and the others carry the same. */
static void test_tree_balance(void)
{
	unsigned sent[8] = {0};

	for (uint32_t extent = 0; extent < 70; extent++)
		for (unsigned n = 0; n < 8; n++)
			sent[n] += (unsigned)__builtin_popcountll(
				fm_run_tree_below(n, 0, 0xff, extent, 0));
	CU_ASSERT_EQUAL(sent[0], 70);
	for (unsigned n = 1; n < 8; n++)
		CU_ASSERT_EQUAL(sent[n], 60);
}

/* ---- time ---- */

/* Goal: a clock that is set back says nothing, one that jumps forward says a second. */
static void test_elapsed(void)
{
	CU_ASSERT_EQUAL(fm_run_elapsed(10, 15), 5);
	CU_ASSERT_EQUAL(fm_run_elapsed(FM_NS_PER_S, 0), 0);
	CU_ASSERT_EQUAL(fm_run_elapsed(0, 3600 * FM_NS_PER_S), FM_NS_PER_S);
}

/* ---- a run alone ---- */

static unsigned sent, ended, written, receives_cancelled, asked_read, asked_check;
static uint32_t last_check;
static int end_code;
static unsigned sent_of[FM_RUN_MSG_TYPES]; /* by type, and to whom the last one of it went */
static unsigned last_hop[FM_RUN_MSG_TYPES];
static struct fm_run_msg last[FM_RUN_MSG_TYPES];

static void world_send(void *ctx, unsigned hop, const struct fm_run_msg *msg)
{
	(void)ctx;
	sent++;
	sent_of[msg->type]++;
	last_hop[msg->type] = hop;
	last[msg->type] = *msg;
}

static void world_slot_extent(void *ctx, unsigned slot, uint32_t extent)
{
	(void)ctx;
	(void)slot;
	(void)extent;
}

static void world_read(void *ctx, unsigned slot, uint32_t extent)
{
	world_slot_extent(ctx, slot, extent);
	asked_read++;
}

static void world_check(void *ctx, uint32_t number)
{
	world_slot_extent(ctx, 0, number);
	asked_check++;
	last_check = number;
}

static void world_write(void *ctx, unsigned slot, uint32_t extent)
{
	world_slot_extent(ctx, slot, extent);
	written++;
}

static void world_upload(void *ctx, unsigned to, uint32_t extent, int slot, unsigned to_slot)
{
	(void)to;
	(void)slot;
	world_slot_extent(ctx, to_slot, extent);
}

static void world_cancel_upload(void *ctx, unsigned to, uint32_t extent, int slot)
{
	(void)slot;
	world_slot_extent(ctx, to, extent);
}

static void world_slot(void *ctx, unsigned slot)
{
	world_slot_extent(ctx, slot, 0);
}

static void world_cancel_receive(void *ctx, unsigned slot)
{
	world_slot(ctx, slot);
	receives_cancelled++;
}

static void world_number(void *ctx, uint32_t number)
{
	world_slot_extent(ctx, 0, number);
}

static void world_plain(void *ctx)
{
	(void)ctx;
}

static void world_end(void *ctx, int code, uint64_t missing)
{
	(void)ctx;
	(void)missing;
	end_code = code;
	ended++;
}

static const struct fm_run_world world = {
	.send = world_send,
	.read = world_read,
	.write = world_write,
	.upload = world_upload,
	.cancel_upload = world_cancel_upload,
	.cancel_receive = world_cancel_receive,
	.release = world_slot,
	.forget = world_number,
	.check_source = world_check,
	.invited = world_plain,
	.publish = world_plain,
	.end = world_end,
};

static const uint8_t rank4[4] = {0, 1, 2, 3};

static struct fm_run_params params(void)
{
	return (struct fm_run_params){.self = 0,
				      .node_count = 4,
				      .rank = rank4,
				      .up = 0xe,
				      .extent_count = 300,
				      .can_read = true,
				      .uploads = 4,
				      .place = FM_RUN_SINK};
}

/* Goal: what is beyond a limit is refused when a run begins. */
static void test_params(void)
{
	struct fm_run_params p = params();
	struct fm_run *run;

	p.extent_count = FM_RUN_EXTENTS_MAX + 1;
	CU_ASSERT_EQUAL(fm_run_new(&p, &world, NULL, &run), -EINVAL);
	p = params();
	p.node_count = 65;
	CU_ASSERT_EQUAL(fm_run_new(&p, &world, NULL, &run), -EINVAL);
	p = params();
	p.self = 4;
	CU_ASSERT_EQUAL(fm_run_new(&p, &world, NULL, &run), -EINVAL);
	p = params();
	p.uploads = FM_RUN_UPLOADS_MAX + 1;
	CU_ASSERT_EQUAL(fm_run_new(&p, &world, NULL, &run), -EINVAL);
	p = params();
	p.place = FM_RUN_READY; /* without CRCs */
	CU_ASSERT_EQUAL(fm_run_new(&p, &world, NULL, &run), -EINVAL);
}

static uint32_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (uint32_t)(*state >> 33);
}

/* A message of any type with any bytes, most of whose numbers are nearly possible. */
static struct fm_run_msg random_message(uint64_t *state)
{
	struct fm_run_msg msg;

	for (unsigned k = 0; k < sizeof(msg); k++)
		((uint8_t *)&msg)[k] = (uint8_t)next_random(state);
	msg.type = (uint8_t)(next_random(state) % (FM_RUN_MSG_TYPES + 1));
	msg.from = (uint8_t)(1 + next_random(state) % 3);
	msg.to = (uint8_t)(next_random(state) % 8 ? 0 : msg.to);
	msg.hops = (uint8_t)(next_random(state) % 8 ? 0 : msg.hops);
	msg.join = next_random(state) % 4;
	msg.slot = (uint8_t)(next_random(state) % 10);
	msg.node = (uint8_t)(next_random(state) % 66);
	msg.extent = next_random(state) % 310;
	return msg;
}

/* A bool that is neither is undefined in C; a decoder makes none. */
static void random_state(struct fm_run_state *st, uint64_t *state)
{
	st->can_read = next_random(state) % 2;
	st->place = (uint8_t)(next_random(state) % (FM_RUN_PLACES + 1));
	st->have_count = next_random(state) % 2;
	st->uploads = (uint8_t)(next_random(state) % (FM_RUN_UPLOADS_MAX + 2));
	st->lease_count = (uint8_t)(next_random(state) % (FM_RUN_LEASES + 2));
	st->coming_count = (uint8_t)(next_random(state) % (FM_RUN_SLOTS + 2));
	for (unsigned k = 0; k < FM_RUN_SLOTS; k++)
		st->coming[k].extent %= 310;
	for (unsigned k = 0; k < FM_RUN_LEASES; k++)
		st->lease[k] =
			(struct fm_run_held){next_random(state) % 310, next_random(state) % 2};
}

static void random_page(struct fm_run_page *page, uint64_t *state)
{
	page->first = next_random(state) % 4 * (FM_RUN_PAGE / 2);
	page->is_last = next_random(state) % 2;
}

/*
 * Goal: a peer may say anything. Method: messages of every type to a coordinator that is a member
 * too, under the sanitizers; slots and leases stay within their limits.
 */
static void test_hostile(void)
{
	struct fm_run_params p = params();
	struct fm_run *run = NULL;
	struct fm_run_show show;
	uint64_t state = 7;

	for (unsigned i = 0; i < 10000; i++) {
		struct fm_run_msg msg = random_message(&state);

		if (!run)
			CU_ASSERT_EQUAL_FATAL(fm_run_new(&p, &world, NULL, &run), 0);
		if (msg.type == FM_RUN_JOIN || msg.type == FM_RUN_PULSE)
			random_state(&msg.state, &state);
		else if (msg.type == FM_RUN_PAGE_OF)
			random_page(&msg.page, &state);
		fm_run_message(run, next_random(&state) % 8 ? msg.from : 9, &msg);
		fm_run_tick(run, i * (FM_NS_PER_S / 20));
		fm_run_show(run, &show);
		CU_ASSERT_TRUE_FATAL(show.slots_used <= FM_RUN_SLOTS &&
				     show.leases <= FM_RUN_LEASES && show.uploads <= 4);
		if (ended > 0) {
			fm_run_free(run);
			run = NULL;
			ended = 0;
		}
	}
	CU_ASSERT_TRUE(sent > 0);
	fm_run_free(run);
}

/* ---- what got lost, with nothing behind it that would tell ---- */

/* Node 0 coordinates. */
static struct fm_run *run_of(unsigned self, enum fm_run_place place, uint64_t up)
{
	struct fm_run_params p = params();
	struct fm_run *run;

	p.self = self;
	p.place = place;
	p.up = up;
	CU_ASSERT_EQUAL_FATAL(fm_run_new(&p, &world, NULL, &run), 0);
	memset(sent_of, 0, sizeof(sent_of));
	written = receives_cancelled = ended = asked_read = asked_check = 0;
	return run;
}

/* Goal: the coordinator asks again for a report of which only the beginning came. */
static void test_lost_page(void)
{
	struct fm_run *run = run_of(0, FM_RUN_SINK, 0xe);
	struct fm_run_msg msg = {.type = FM_RUN_JOIN, .from = 1, .to = 0, .join = 5};

	msg.state = (struct fm_run_state){.place = FM_RUN_SINK, .uploads = 4};
	fm_run_message(run, 1, &msg);
	msg.type = FM_RUN_PULSE;
	fm_run_message(run, 1, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_RESYNC], 0); /* it may be late */
	for (unsigned i = 1; i < 5; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	fm_run_message(run, 1, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_RESYNC], 1);
	CU_ASSERT_EQUAL(last_hop[FM_RUN_RESYNC], 1);
	fm_run_free(run);
}

/* Goal: a member whose last order did not come reports anew, when the coordinator notes its pulse.
 */
static void test_lost_order(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct fm_run_msg msg = {.type = FM_RUN_NOTED, .from = 0, .to = 1};

	msg.join = run->member.join;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 0);
	msg.order = 1;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 0); /* it may be late */
	fm_run_message(run, 0, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 1);
	fm_run_free(run);
}

/* Goal: an order is taken in its turn only; another one's, or a former report's, not at all. */
static void test_order_out_of_turn(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct fm_run_msg msg = {.type = FM_RUN_LEASE, .from = 0, .to = 1, .order = 1};

	msg.join = run->member.join - 1;
	fm_run_message(run, 0, &msg);
	msg.join = run->member.join;
	msg.from = 2;
	fm_run_message(run, 2, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 0);
	msg.from = 0;
	msg.order = 2;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_FALSE(run->member.lease[0].is_used);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 1);
	msg.join = run->member.join;
	msg.order = 1;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_TRUE(run->member.lease[0].is_used);
	fm_run_free(run);
}

/* Goal: what was read for a sink that is no peer goes to a peer that became one since. */
static void test_lease_for_who_is_away(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 1 << 2);
	struct fm_run_msg links = {.type = FM_RUN_LINKS, .from = 2, .to = 1, .nodes = 3};
	struct fm_run_msg lease = {.type = FM_RUN_LEASE, .from = 0, .to = 1, .hops = 1,
				   .order = 1, .extent = 7, .nodes = 1 << 3};
	struct slot *s;

	fm_run_message(run, 2, &links);
	lease.join = run->member.join;
	fm_run_message(run, 2, &lease);
	s = fm_run_slot_find(run, SLOT_READING, 7);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	fm_run_read_done(run, fm_run_slot_number(run, s), 99, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 1);
	CU_ASSERT_EQUAL(last_hop[FM_RUN_OFFER], 2);
	fm_run_free(run);
}

/* An order of node 0 to the member here, in its turn. */
static void order(struct fm_run *run, enum fm_run_msg_type type, uint32_t extent, uint64_t nodes)
{
	struct fm_run_msg msg = {.type = (uint8_t)type, .from = 0, .to = (uint8_t)run->self,
				 .join = run->member.join, .order = run->member.order + 1,
				 .extent = extent, .nodes = nodes, .node = 2};

	fm_run_message(run, 0, &msg);
}

/* The slot of what the member here read by order, for these nodes. */
static struct slot *read_for(struct fm_run *run, uint32_t extent, uint64_t nodes)
{
	struct slot *s;

	order(run, FM_RUN_LEASE, extent, nodes);
	s = fm_run_slot_find(run, SLOT_READING, extent);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	fm_run_read_done(run, fm_run_slot_number(run, s), 99, 0);
	return s;
}

/* Goal: who becomes a sink while it reads for others writes what it holds. */
static void test_want_while_reading(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);
	struct slot *s = read_for(run, 7, 1 << 2);

	CU_ASSERT_EQUAL(written, 0);
	fm_run_want(run, NULL, NULL);
	CU_ASSERT_EQUAL(written, 1);
	fm_run_written(run, fm_run_slot_number(run, s), 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_HAVE], 1);
	CU_ASSERT_FALSE(run->member.lease[0].is_used);
	fm_run_free(run);
}

/* Goal: what is on its disk when it becomes a sink is reported, and not read again. */
static void test_want_what_is_there(void)
{
	static const uint64_t have[] = {1 << 7, 0, 0, 0, 0};
	static const uint32_t crc[300] = {[7] = 77};
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);
	struct slot *s = read_for(run, 8, 1 << 2);
	unsigned reports = sent_of[FM_RUN_JOIN];

	fm_run_want(run, have, crc);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], reports + 1);
	CU_ASSERT_EQUAL(run->member.have_count, 1);
	CU_ASSERT_EQUAL(run->member.crc[7], 77);
	CU_ASSERT_EQUAL(s->use, SLOT_HELD);	/* it goes on with what it holds */
	CU_ASSERT_EQUAL(written, 1);
	order(run, FM_RUN_LEASE, 7, 1 << 2);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_HAVE], 1);
	fm_run_free(run);
}

/* What a member says to the coordinator here: all extents but one, or none. */
static void report(struct fm_run *run, unsigned node, struct fm_run_state state, uint32_t crc,
		   uint32_t without)
{
	unsigned via = run->up & bit(node) ? node : 1;
	struct fm_run_msg msg = {.type = FM_RUN_JOIN, .from = (uint8_t)node, .join = 5,
				 .hops = via != node, .state = state};

	msg.state.uploads = state.uploads ? state.uploads : 4;
	fm_run_message(run, via, &msg);
	memset(&msg.page, 0, sizeof(msg.page));
	msg.type = FM_RUN_PAGE_OF;
	for (uint32_t first = 0; first < 300; first += FM_RUN_PAGE) {
		msg.page.first = first;
		msg.page.is_last = first > 0;
		for (uint32_t i = 0; i < FM_RUN_PAGE; i++) {
			bool has = state.have_count > 0 && first + i != without;

			msg.page.bits[i / 8] &= (uint8_t)~(1U << i % 8);
			msg.page.bits[i / 8] |= (uint8_t)(has << i % 8);
			msg.page.crc[i] = crc;
		}
		fm_run_message(run, via, &msg);
	}
}

/*
 * Goal: what a READY member lost goes over it all the same. Method: 3, a sink, is peer of 1 only,
 * which lost extent 7; 2 has it, and is peer of 1.
 */
static void test_ready_that_lost(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 1 << 1);

	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.place = FM_RUN_READY, .up = 0xd, .have_count = 299},
	       9, 7);
	report(run, 2, (struct fm_run_state){.place = FM_RUN_READY, .up = 2, .have_count = 300},
	       9, 300);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 2}, 0, 0);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CARRY], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].to, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].extent, 7);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].node, 2);
	fm_run_free(run);
}

/*
 * Goal: what one of several parts loses comes to it again, though the others have it. Method: 2 and
 * 3, sinks, reach 1 only; both have all, and 3 loses extent 7.
 */
static void test_part_that_lost(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 1 << 1);
	struct fm_run_state sink = {.place = FM_RUN_SINK, .up = 1 << 1, .have_count = 300};
	struct fm_run_msg lost = {.type = FM_RUN_LOST, .from = 3, .join = 5, .hops = 1,
				  .extent = 7};

	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.up = 0xd}, 0, 0);
	report(run, 2, sink, 9, 300);
	report(run, 3, sink, 9, 300);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CARRY], 0);
	fm_run_message(run, 1, &lost);
	fm_run_tick(run, 2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CARRY], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].extent, 7);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].node, 2);
	fm_run_free(run);
}

/*
 * Goal: who has an extent is not told to read it, which it would answer at once and be told again.
 * Method: 3, a reader, is peer of 1, which does not know it; 2, a sink, reaches 1 only.
 */
static void test_no_lease_for_who_has_it(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 1 << 1);

	run->member.can_read = false;
	fm_run_join(run);
	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.up = 1 << 2}, 0, 0);
	report(run, 2, (struct fm_run_state){.place = FM_RUN_SINK, .up = 1 << 1}, 0, 0);
	report(run, 3,
	       (struct fm_run_state){
		       .place = FM_RUN_READY, .up = 1 << 1, .have_count = 300, .can_read = true},
	       9, 300);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_LEASE], 0);
	fm_run_free(run);
}

/*
 * Goal: what fills a reader's leases goes to those who want it, though an extent before it waits
 * for one of them. Method: 2, the reader, has 7 and 8 for 3, a sink; both reach 1 only.
 */
static void test_carry_before_reads(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 1 << 1);

	run->member.can_read = false;
	fm_run_join(run);
	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.up = 0xd}, 0, 0);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 1 << 1}, 0, 0);
	report(run, 2,
	       (struct fm_run_state){
		       .up = 1 << 1,
		       .can_read = true,
		       .lease_count = 2,
		       .lease = {{.extent = 7}, {.extent = 8}}},
	       0, 0);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CARRY], 2);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].to, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].extent, 8);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].node, 2);
	fm_run_free(run);
}

/*
 * Goal: who says that it has an extent, and gave other bytes of it or of others, passes nothing on:
 * it would take none. Method: 3, a sink, reaches 1 and 2 only. 1 is READY, but its disk is damaged;
 * 0 reads.
 */
static void check_carry_past(bool is_of_others)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0x6);
	struct fm_run_msg failed = {.type = FM_RUN_FETCH_FAILED, .from = 3, .join = 5, .hops = 1,
				    .extent = 7, .node = 1, .code = -EBADMSG, .crc = 9};

	fm_run_join(run);
	fm_run_tick(run, 0);
	if (is_of_others)
		run->coordinator.distrusted = bit(1);
	report(run, 1, (struct fm_run_state){.place = FM_RUN_READY, .up = 0x9, .have_count = 300},
	       9, 300);
	report(run, 2, (struct fm_run_state){.up = 0x9}, 0, 0);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x6, .have_count = 299},
	       9, 7);
	fm_run_tick(run, FM_NS_PER_S);
	if (!is_of_others) {
		CU_ASSERT_EQUAL(last[FM_RUN_FETCH].extent, 7);
		CU_ASSERT_EQUAL(last[FM_RUN_FETCH].node, 1);
		fm_run_message(run, 2, &failed);
	}
	for (unsigned s = 2; s < 5; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_TRUE(asked_read > 0);
	CU_ASSERT_TRUE(sent_of[FM_RUN_CARRY] > 0);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].to, 2);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].extent, 7);
	/* what is read comes by way of 2 */
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH], is_of_others ? 0 : 1);
	fm_run_free(run);
}

static void test_carry_past_who_has_it(void)
{
	check_carry_past(false);
	check_carry_past(true);
}

/*
 * Goal: what is read, but does not come to a sink from there, is fetched again from one who gave
 * other bytes: they may have been damaged on their way. Method: 3, the sink, reaches 1 only, which
 * is READY and takes nothing of what 0 reads.
 */
static void test_fetch_past_who_has_it(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 1 << 1);
	struct fm_run_msg failed = {.type = FM_RUN_FETCH_FAILED, .from = 3, .join = 5, .hops = 1,
				    .extent = 7, .node = 1, .code = -EBADMSG, .crc = 9};

	fm_run_join(run);
	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.place = FM_RUN_READY, .up = 0x9, .have_count = 300},
	       9, 300);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x2, .have_count = 299},
	       9, 7);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH], 1);
	fm_run_message(run, 1, &failed);
	CU_ASSERT_EQUAL(fm_run_trusted(&run->coordinator, 7), 0);
	for (unsigned s = 2; s < 6; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_TRUE(asked_read > 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CARRY], 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH], 2);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].extent, 7);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].node, 1);
	fm_run_free(run);
}

/* A pulse of a member that has had all orders of the coordinator here. */
static void pulse(struct fm_run *run, unsigned node, struct fm_run_state state)
{
	unsigned via = run->up & bit(node) ? node : 1;
	struct fm_run_msg msg = {.type = FM_RUN_PULSE, .from = (uint8_t)node, .join = 5,
				 .hops = via != node, .state = state};

	msg.state.uploads = state.uploads ? state.uploads : 4;
	msg.state.order = run->coordinator.seat[node].order;
	fm_run_message(run, via, &msg);
}

/*
 * Goal: who cannot carry an extent may read it. Method: 2, a sink, reads 7 and 8 and does not come
 * to an end; 3, a sink, reaches 1 only, which can read, and hears each second that 2 does not have
 * 7.
 */
static void test_carry_of_what_hangs(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 1 << 1);
	struct fm_run_msg failed = {.type = FM_RUN_READ_FAILED, .from = 1, .join = 5,
				    .extent = 7, .code = -EBUSY};
	struct fm_run_state reader = {.up = 0xd, .can_read = true}, sink, hung;
	unsigned carries = 0;

	sink = (struct fm_run_state){.place = FM_RUN_SINK, .up = 1 << 1, .have_count = 299};
	hung = sink;
	hung.can_read = true;
	hung.lease_count = 2;
	hung.lease[0].extent = 7;
	hung.lease[1] = (struct fm_run_held){.extent = 8, .is_revoked = true};
	run->member.can_read = false;
	fm_run_join(run);
	fm_run_tick(run, 0);
	report(run, 1, reader, 0, 0);
	report(run, 2, hung, 9, 7);
	report(run, 3, sink, 9, 7);
	for (unsigned s = 1; s < 25; s++) {
		fm_run_tick(run, s * FM_NS_PER_S);
		if (sent_of[FM_RUN_CARRY] > carries)
			fm_run_message(run, 1, &failed);
		carries = sent_of[FM_RUN_CARRY];
		pulse(run, 1, reader);
		pulse(run, 2, hung);
		pulse(run, 3, sink);
		hung.lease[0].is_revoked = sent_of[FM_RUN_REVOKE] > 0;
	}
	CU_ASSERT_TRUE(carries > 1);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_REVOKE], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_REVOKE].to, 2);
	CU_ASSERT_TRUE(sent_of[FM_RUN_LEASE] > 0);
	CU_ASSERT_EQUAL(last[FM_RUN_LEASE].to, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_LEASE].extent, 7);
	fm_run_free(run);
}

/*
 * Goal: who carries what those behind it got elsewhere does not keep it. Method: 1 carries 7 for 3,
 * which has it from another one then. 0, a sink, lacks it, but 1 does not reach it.
 */
static void test_carry_needless(void)
{
	struct fm_run *run = run_of(0, FM_RUN_SINK, 1 << 1);
	struct fm_run_state sink = {.place = FM_RUN_SINK, .up = 1 << 1, .have_count = 299};
	struct fm_run_state ready = {.place = FM_RUN_READY, .up = 1 << 1, .have_count = 300};
	struct fm_run_state carrier = {.up = 0xc, .lease_count = 1, .lease = {{.extent = 7}}};
	struct fm_run_msg have = {.type = FM_RUN_HAVE, .from = 3, .join = 5, .hops = 1,
				  .extent = 7, .crc = 9};

	run->member.can_read = false;
	fm_run_join(run);
	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.up = 0xc}, 0, 0);
	report(run, 2, ready, 9, 300);
	report(run, 3, sink, 9, 7);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CARRY], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].to, 1);
	for (unsigned s = 2; s < 10; s++) {
		fm_run_tick(run, s * FM_NS_PER_S);
		if (s < 5)
			CU_ASSERT_EQUAL(sent_of[FM_RUN_REVOKE], 0);
		pulse(run, 1, carrier);
		pulse(run, 2, ready);
		pulse(run, 3, sink);
		if (s == 4)
			fm_run_message(run, 1, &have);
		sink.have_count = s < 4 ? 299 : 300;
		carrier.lease_count = sent_of[FM_RUN_REVOKE] == 0;
	}
	CU_ASSERT_EQUAL(sent_of[FM_RUN_REVOKE], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_REVOKE].to, 1);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CARRY], 1);
	CU_ASSERT_EQUAL(run->coordinator.revoked, 0);
	fm_run_free(run);
}

/* What the sink 3 says of an extent that the coordinator here told it to fetch. */
static void tell_fetched(struct fm_run *run, enum fm_run_msg_type type, uint32_t extent,
			 unsigned server)
{
	struct fm_run_msg msg = {.type = (uint8_t)type, .from = 3, .join = 5, .extent = extent,
				 .crc = 9, .node = (uint8_t)server};

	fm_run_message(run, 3, &msg);
}

/*
 * Goal: nobody is to send more from its disk at once than it says, whatever the coordinator may.
 * Method: 1 and 2 have all of it; 3 fetches four at once.
 */
static void test_server_has_room(void)
{
	struct fm_run *run = run_of(0, FM_RUN_SINK, 0xe);
	struct fm_run_state ready = {.place = FM_RUN_READY, .up = 0xf, .have_count = 300};

	fm_run_tick(run, 0);
	ready.uploads = 1;
	report(run, 1, ready, 9, 300);
	ready.uploads = 2;
	report(run, 2, ready, 9, 300);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 7}, 0, 0);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(run->coordinator.uploads[1], 1);
	CU_ASSERT_EQUAL(run->coordinator.uploads[2], 2);
	CU_ASSERT_EQUAL(fm_run_server(run, 3, 200), -1);
	fm_run_free(run);
}

/*
 * Goal: who sends nothing since it is slow is asked last. Method: 1 and 2 have all of it; a fetch
 * of 3 from one of them fails, another one from the same comes.
 */
static void test_slow_server_is_last(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0xe);
	struct fm_run_state ready = {.place = FM_RUN_READY, .up = 0xf, .have_count = 300};
	unsigned slow, other;

	fm_run_tick(run, 0);
	report(run, 1, ready, 9, 300);
	report(run, 2, ready, 9, 300);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 7}, 0, 0);
	fm_run_tick(run, FM_NS_PER_S);
	slow = last[FM_RUN_FETCH].node;
	other = 3 - slow;
	tell_fetched(run, FM_RUN_FETCH_FAILED, last[FM_RUN_FETCH].extent, slow);
	for (unsigned s = 2; s < 5; s++)	/* it is not avoided any more */
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_TRUE(run->coordinator.uploads[slow] < run->coordinator.uploads[other]);
	CU_ASSERT_EQUAL(fm_run_server(run, 3, 200), (int)other);
	for (unsigned i = 0; i < FM_RUN_FETCHES; i++) {
		const struct seat_coming *c = &run->coordinator.seat[3].coming[i];

		if (c->from != slow)
			continue;
		tell_fetched(run, FM_RUN_HAVE, c->extent, slow);
		break;
	}
	CU_ASSERT_EQUAL(run->coordinator.failed_of[slow], 0);
	fm_run_free(run);
}

/*
 * Goal: who takes long for each extent does not keep the only upload of a node from who is quick.
 * Method: 1 has all and sends one at a time; 2 takes 5 s for what it fetches, reports anew, and 3
 * takes one; then both lack more.
 */
static void test_fetches_in_turn(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0xe);
	struct fm_run_state st = {.place = FM_RUN_SINK,
				  .up = 0x3,
				  .coming_count = 1,
				  .coming = {{.extent = 0, .from = 1}}};
	struct fm_run_msg have = {.type = FM_RUN_HAVE, .from = 2, .join = 5, .crc = 9};

	fm_run_tick(run, 0);
	report(run, 1,
	       (struct fm_run_state){
		       .place = FM_RUN_READY, .up = 0xd, .have_count = 300, .uploads = 1},
	       9, 300);
	report(run, 2, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x3}, 0, 0);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x3}, 0, 0);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, 2);
	for (unsigned i = 2; i < 6; i++) {
		fm_run_tick(run, i * FM_NS_PER_S);
		pulse(run, 2, st);
	}
	pulse(run, 3, st);
	report(run, 2, st, 0, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH], 1);
	pulse(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x3});
	fm_run_message(run, 2, &have);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH], 2);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, 3);
	have.from = 3;
	fm_run_message(run, 3, &have);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, 3);
	fm_run_free(run);
}

/*
 * Goal: the same of one that takes nothing, since it holds the extent and its disk does not answer.
 * Method: no pulse of 2 names what it was ordered to fetch; 3 fetched before.
 */
static void test_fetches_of_who_takes_none(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0xe);
	struct fm_run_state st = {.place = FM_RUN_SINK, .up = 0x3};

	fm_run_tick(run, 0);
	report(run, 1,
	       (struct fm_run_state){
		       .place = FM_RUN_READY, .up = 0xd, .have_count = 300, .uploads = 1},
	       9, 300);
	report(run, 2, st, 0, 0);
	report(run, 3, st, 0, 0);
	run->coordinator.seat[3].fetched_ns = 3 * FM_NS_PER_S;
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, 2);
	for (unsigned i = 2; i < 6 && last[FM_RUN_FETCH].to == 2; i++) {
		fm_run_tick(run, i * FM_NS_PER_S);
		pulse(run, 3, st);
		pulse(run, 2, st);
	}
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, 3);
	fm_run_free(run);
}

/* Node 2 lacks everything, and 1 sends so many extents at a time; 2 is ordered as many. */
static struct fm_run *run_with_uploads(uint8_t uploads)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0xe);

	fm_run_tick(run, 0);
	report(run, 1,
	       (struct fm_run_state){
		       .place = FM_RUN_READY, .up = 0xd, .have_count = 300, .uploads = uploads},
	       9, 300);
	report(run, 2, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x3}, 0, 0);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, 2);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH], uploads);
	return run;
}

/* The node has what it was ordered to fetch last. */
static void fetched(struct fm_run *run, unsigned node)
{
	struct fm_run_msg have = {.type = FM_RUN_HAVE, .from = (uint8_t)node, .join = 5, .crc = 9,
				  .extent = last[FM_RUN_FETCH].extent};

	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, node);
	fm_run_message(run, node, &have);
}

/* A pulse of one that fetches what it was ordered. */
static void pulse_of_fetch(struct fm_run *run, unsigned node)
{
	const struct seat *seat = &run->coordinator.seat[node];
	struct fm_run_state st = {.place = FM_RUN_SINK,
				  .up = 0x3,
				  .have_count = seat->have_count,
				  .coming_count = (uint8_t)seat->coming_count};

	for (unsigned i = 0; i < seat->coming_count; i++)
		st.coming[i] =
			(struct fm_run_coming){seat->coming[i].extent, seat->coming[i].from};
	pulse(run, node, st);
}

/*
 * Goal: the coordinator's clock says how long a fetch takes, not the pulses of who fetches. Method:
 * 2 takes 3 s and sends no pulse that counts, 3 takes 1 s and says so each time that it is asked.
 */
static void test_fetches_by_clock(void)
{
	struct fm_run *run = run_with_uploads(1);

	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x3}, 0, 0);
	for (unsigned i = 2; i < 5; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	fetched(run, 2);
	for (unsigned i = 0; i < 8; i++)
		pulse_of_fetch(run, 3);
	fm_run_tick(run, 5 * FM_NS_PER_S);
	fetched(run, 3);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH].to, 3);
	fm_run_free(run);
}

/*
 * Goal: who comes late does not have the only upload of a node for as long as the others had it.
 * Method: 2 needs 20 s for each extent, for an hour; then 3 comes, which needs as long.
 */
static void test_fetches_of_who_comes_late(void)
{
	struct fm_run *run = run_with_uploads(1);
	unsigned count[2] = {0, 0};

	for (unsigned s = 2; s < 4200; s++) {
		unsigned node = last[FM_RUN_FETCH].to;

		fm_run_tick(run, s * FM_NS_PER_S);
		if (s == 3600)
			report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x3}, 0,
			       0);
		if (s % 20 == 0)
			fetched(run, node);
		count[node - 2] += s > 3600 && s % 20 == 0;
		pulse(run, 1, run->coordinator.seat[1].state);
		pulse_of_fetch(run, 2);
		if (s >= 3600)
			pulse_of_fetch(run, 3);
	}
	CU_ASSERT_TRUE(count[0] >= 8);
	CU_ASSERT_TRUE(count[1] >= 8);
	fm_run_free(run);
}

/* Each second it says that as much comes to it as may be, from itself. */
static void pulse_of_liar(struct fm_run *run, unsigned node)
{
	struct fm_run_state st = {
		.place = FM_RUN_SINK, .up = 0x3, .coming_count = FM_RUN_SLOTS};

	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		st.coming[i] = (struct fm_run_coming){i, (uint8_t)node};
	pulse(run, node, st);
}

/*
 * Goal: a sink that says that much comes to it leaves the order of the others as it is. Method: 1
 * sends one extent at a time, 2 needs 20 s for each, 3 a second, and 4 says each second that 8 come
 * to it. 2 and 3 have the upload as long, so 3 gets many more.
 */
static void test_fetches_beside_liar(void)
{
	static const uint8_t rank5[5] = {0, 1, 2, 3, 4};
	const struct fm_run_state sink = {.place = FM_RUN_SINK, .up = 0x3};
	struct fm_run_params p = params();
	unsigned count[2] = {0, 0}, since = 0;
	struct fm_run *run;

	p.node_count = 5;
	p.rank = rank5;
	p.up = 0x1e;
	p.place = FM_RUN_PASSIVE;
	CU_ASSERT_EQUAL_FATAL(fm_run_new(&p, &world, NULL, &run), 0);
	fm_run_tick(run, 0);
	report(run, 1,
	       (struct fm_run_state){
		       .place = FM_RUN_READY, .up = 0x1d, .have_count = 300, .uploads = 1},
	       9, 300);
	for (unsigned n = 2; n < 5; n++)
		report(run, n, sink, 0, 0);
	pulse_of_liar(run, 4);
	for (unsigned s = 1; s < 400; s++) {
		unsigned node;

		fm_run_tick(run, s * FM_NS_PER_S);
		node = last[FM_RUN_FETCH].to;
		pulse(run, 1, run->coordinator.seat[1].state);
		pulse_of_fetch(run, 2);
		pulse_of_fetch(run, 3);
		pulse_of_liar(run, 4);
		since++;
		if (node == 3 || since == 20) {
			fetched(run, node);
			count[node - 2] += s > 100;
			since = 0;
		}
	}
	CU_ASSERT_TRUE(count[0] > 2);
	CU_ASSERT_TRUE(count[1] > 100);
	fm_run_free(run);
}

/* What 2 fetches is late, each a moment after the other, and it is ordered something else. Returns
 * how much at once. */
static unsigned ordered_after_late(struct fm_run *run, unsigned *s)
{
	const struct seat *seat = &run->coordinator.seat[2];
	unsigned count = seat->coming_count;

	for (unsigned until = *s + 30; *s < until;) {
		fm_run_tick(run, ++*s * FM_NS_PER_S);
		pulse(run, 1, run->coordinator.seat[1].state);
		pulse_of_fetch(run, 2);
		if (*s >= until - 10 && count > 0) {
			struct fm_run_msg late = {.type = FM_RUN_FETCH_FAILED,
						  .from = 2,
						  .join = 5,
						  .node = 1,
						  .crc = 9,
						  .extent = seat->coming[0].extent,
						  .code = -ETIMEDOUT};

			fm_run_message(run, 2, &late);
			count--;
		}
	}
	return seat->coming_count;
}

/*
 * Goal: of several at once that are late fewer are tried the next time, since they may take the
 * wire from each other, and more again when they come.
 */
static void test_fetches_fewer(void)
{
	struct fm_run *run = run_with_uploads(4);
	unsigned s = 1;

	run->member.can_read = false;	/* nothing is read instead */
	fm_run_tick(run, ++s * FM_NS_PER_S);
	CU_ASSERT_EQUAL(ordered_after_late(run, &s), 2);
	CU_ASSERT_EQUAL(ordered_after_late(run, &s), 1);
	CU_ASSERT_EQUAL(ordered_after_late(run, &s), 1);
	for (unsigned at_once = 2; at_once <= 4; at_once++) {
		fetched(run, 2);
		CU_ASSERT_EQUAL(run->coordinator.seat[2].coming_count, at_once);
	}
	fetched(run, 2);
	CU_ASSERT_EQUAL(run->coordinator.seat[2].coming_count, 4);
	fm_run_free(run);
}

/*
 * Goal: what is read as soon as the extents before it have come is not fetched from one who is not
 * believed. Method: 0 reads, and 2, READY, gave nothing; 3, a sink, is a part of its own. 0 looks
 * at three extents of each at once, which are on their way as those two say.
 */
static void test_fetch_of_what_is_behind(void)
{
	struct fm_run *run = run_of(0, FM_RUN_SINK, 0x6);
	struct fm_run_state st = {.place = FM_RUN_READY,
				  .up = 0x1,
				  .have_count = 300,
				  .coming_count = 3,
				  .coming = {{0, FM_RUN_NOBODY},
					     {1, FM_RUN_NOBODY},
					     {2, FM_RUN_NOBODY}}};
	struct fm_run_state far = st;

	run->scan_max = 3;
	fm_run_tick(run, 0);
	run->coordinator.distrusted = bit(2);
	report(run, 1, (struct fm_run_state){.up = 0x9}, 0, 0);
	far.place = FM_RUN_SINK;
	far.up = 0x2;
	far.have_count = 0;
	report(run, 3, far, 0, 0);
	report(run, 2, st, 9, 300);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(run->coordinator.part_count, 2);
	CU_ASSERT_EQUAL(asked_read, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH] + sent_of[FM_RUN_GET], 0);
	st.coming_count = 2;
	pulse(run, 2, st);
	CU_ASSERT_TRUE(asked_read > 0);
	fm_run_free(run);
}

/*
 * Goal: an event ends, whatever the member here answers to the coordinator here. Method: it is
 * publishing when a READY member turns up that has other bytes: told to discard what it has, it
 * does not; told to fetch it, it says that it has it.
 */
static void test_event_ends(void)
{
	uint64_t have[5] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct fm_run_params p = params();
	uint32_t crc[300];
	struct fm_run *run;

	p.have = have;
	p.crc = crc;
	for (unsigned e = 0; e < 300; e++)
		crc[e] = 9 - (e == 7);
	CU_ASSERT_EQUAL_FATAL(fm_run_new(&p, &world, NULL, &run), 0);
	fm_run_tick(run, 0);
	fm_run_tick(run, FM_NS_PER_S);
	run->member.is_publishing = true;
	report(run, 1, (struct fm_run_state){.place = FM_RUN_READY, .up = 1, .have_count = 300}, 9,
	       300);
	CU_ASSERT_EQUAL(run->member.have_count, 300);
	fm_run_free(run);
}

static int end_beside_two_contents(enum fm_run_place place)
{
	struct fm_run *run = run_of(0, place, 0xe);
	struct fm_run_state ready = {.place = FM_RUN_READY, .up = 0xf, .have_count = 300};

	fm_run_tick(run, 0);
	report(run, 1, ready, 9, 300);
	report(run, 2, ready, 10, 300);
	for (unsigned i = 1; i < 9; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ended, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_END].code, end_code);
	fm_run_free(run);
	ended = 0;
	return end_code;
}

/* Goal: where two members are READY with different bytes, nobody else gets either; and a run in
 * which nobody wants it ends as if nothing were. */
static void test_two_contents(void)
{
	CU_ASSERT_EQUAL(end_beside_two_contents(FM_RUN_SINK), -EBADMSG);
	CU_ASSERT_EQUAL(end_beside_two_contents(FM_RUN_PASSIVE), 0);
}

/*
 * What becomes of a run in which 1, READY with 9, is believed no more, and 0 reads 8 instead.
 * was_read: that the 9 was read in this run, too.
 */
static int end_beside_read(bool was_read)
{
	struct fm_run *run = run_of(0, FM_RUN_SINK, 0xe);
	struct slot *s;
	unsigned slot;

	ended = 0;
	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.place = FM_RUN_READY, .up = 0xf, .have_count = 300},
	       9, 300);
	run->coordinator.was_read[0] = was_read;
	run->coordinator.distrusted = bit(1);
	for (unsigned i = 1; i < 4; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	s = fm_run_slot_find(run, SLOT_READING, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	slot = fm_run_slot_number(run, s);
	fm_run_read_done(run, slot, 8, 0);
	fm_run_written(run, slot, 0);
	CU_ASSERT_EQUAL(run->coordinator.crc[0], was_read ? 9 : 8);
	fm_run_free(run);
	return ended ? end_code : 0;
}

/* Goal: where one is READY with what was read in this run, and another read gives other bytes,
 * nobody gets either, though that one is not believed; what it only says of itself keeps nobody. */
static void test_two_contents_read(void)
{
	CU_ASSERT_EQUAL(end_beside_read(true), -EBADMSG);
	CU_ASSERT_EQUAL(end_beside_read(false), 0);
}

static void say_have(struct fm_run *run, unsigned node, uint32_t crc)
{
	struct fm_run_msg msg = {.type = FM_RUN_HAVE, .from = (uint8_t)node, .join = 5,
				 .extent = 7, .crc = crc};

	fm_run_message(run, node, &msg);
}

/* Goal: who is READY and has other bytes each time is believed no more. Method: 1 is, and what 2
 * has of the extent goes each time, until then. */
static void test_ready_that_changes(void)
{
	struct fm_run *run = run_of(0, FM_RUN_SINK, 0xe);
	struct fm_run_state ready = {.place = FM_RUN_READY, .up = 0xf};
	struct fm_run_msg lost = {.type = FM_RUN_LOST, .from = 1, .join = 5, .extent = 7};

	fm_run_tick(run, 0);
	report(run, 1, ready, 0, 300);
	report(run, 2, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0xf, .have_count = 300}, 9,
	       300);
	for (uint32_t i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(run->coordinator.distrusted & bit(1), 0);
		say_have(run, 1, 100 + i);
		fm_run_message(run, 1, &lost);
		say_have(run, 2, 9);
	}
	CU_ASSERT_TRUE((run->coordinator.distrusted & bit(1)) != 0);
	say_have(run, 1, 200);
	CU_ASSERT_EQUAL(run->coordinator.crc[7], 9);
	CU_ASSERT_EQUAL(run->coordinator.holders[7], bit(2));
	fm_run_free(run);
}

/* Goal: the lease of a carrier is taken back when all who want the extent got it elsewhere. */
static void test_lease_needless(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0xe);
	struct fm_run_show show;

	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.place = FM_RUN_SINK, .up = 1, .have_count = 299}, 9,
	       8);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_REVOKE], 0);
	report(run, 2,
	       (struct fm_run_state){
		       .up = 1, .lease_count = 2, .lease = {{.extent = 7}, {.extent = 8}}},
	       0, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_REVOKE], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_REVOKE].to, 2);
	CU_ASSERT_EQUAL(last[FM_RUN_REVOKE].extent, 7);
	fm_run_show(run, &show);
	CU_ASSERT_EQUAL(show.revoked, 0); /* nothing was too slow */
	fm_run_free(run);
}

/* Goal: what comes to be carried does not come any more once its lease is taken back. */
static void test_carry_revoked(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);
	struct fm_run_show show;

	order(run, FM_RUN_CARRY, 7, 1 << 3);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_GET], 1);
	order(run, FM_RUN_REVOKE, 7, 0);
	CU_ASSERT_EQUAL(receives_cancelled, 1);
	fm_run_show(run, &show);
	CU_ASSERT_EQUAL(show.leases, 0);
	CU_ASSERT_EQUAL(show.slots_used, 0);
	fm_run_free(run);
}

/* Goal: who waits for memory to read does not read what another one was ordered to read since. */
static void test_wait_revoked(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);
	struct slot *s;

	order(run, FM_RUN_LEASE, 7, 1 << 3);
	s = fm_run_slot_find(run, SLOT_READING, 7);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT_TRUE(fm_run_wants_read(run, fm_run_slot_number(run, s)));
	order(run, FM_RUN_REVOKE, 7, 0);
	CU_ASSERT_FALSE(fm_run_wants_read(run, fm_run_slot_number(run, s)));
	fm_run_read_done(run, fm_run_slot_number(run, s), 0, -ENOMEM);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_READ_FAILED], 1);
	CU_ASSERT_FALSE(run->member.lease[0].is_used);
	CU_ASSERT_EQUAL(s->use, SLOT_FREE);
	fm_run_free(run);
}

static void know(struct fm_run *run, unsigned peer)
{
	struct fm_run_msg msg = {.type = FM_RUN_LINKS, .from = (uint8_t)peer,
				 .to = (uint8_t)run->self, .nodes = run->up};

	fm_run_message(run, peer, &msg);
}

static void say(struct fm_run *run, unsigned from, enum fm_run_msg_type type, uint32_t extent)
{
	struct fm_run_msg msg = {.type = (uint8_t)type, .from = (uint8_t)from,
				 .to = (uint8_t)run->self, .extent = extent};

	fm_run_message(run, from, &msg);
}

/* Goal: a node sends so many extents from its disk at once as it is told, refuses the next one, and
 * sends it when one of them is through. */
static void test_upload_slots(void)
{
	uint64_t have[(300 + 63) / 64] = {0x7f};
	uint32_t crc[300] = {0};
	struct fm_run_params p = params();
	struct fm_run *run;

	for (p.uploads = 1; p.uploads <= 3; p.uploads++) {
		p.self = 1;
		p.up = 0xd;
		p.have = have;
		p.crc = crc;
		CU_ASSERT_EQUAL_FATAL(fm_run_new(&p, &world, NULL, &run), 0);
		memset(sent_of, 0, sizeof(sent_of));
		fm_run_tick(run, 0);
		know(run, 2);
		for (unsigned e = 0; e < p.uploads; e++)
			say(run, 2, FM_RUN_GET, e);
		CU_ASSERT_EQUAL(sent_of[FM_RUN_NONE], 0);
		say(run, 2, FM_RUN_GET, 6);
		CU_ASSERT_EQUAL(sent_of[FM_RUN_NONE], 1);
		fm_run_sent(run, 2, 0, 0);
		say(run, 2, FM_RUN_GET, 6);
		CU_ASSERT_EQUAL(sent_of[FM_RUN_NONE], 1);
		fm_run_free(run);
	}
}

/* Goal: what those it was read for do not take is offered to all, since another one may want it. */
static void test_offer_to_all(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);

	fm_run_tick(run, 0);
	know(run, 0);
	know(run, 2);
	know(run, 3);
	(void)read_for(run, 7, 1 << 2);
	say(run, 2, FM_RUN_PASS, 7);
	fm_run_tick(run, FM_NS_PER_S);
	say(run, 2, FM_RUN_PASS, 7);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 2);
	fm_run_tick(run, 2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 5);
	CU_ASSERT_EQUAL(last_hop[FM_RUN_OFFER], 3);
	fm_run_free(run);
}

/* Goal: what a sink has read for itself alone before it dropped out is offered to who has become
 * one since, though that one told its links before this node began anew. */
static void test_offer_of_dropped(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0x5);
	struct slot *s;

	fm_run_tick(run, 0);
	say(run, 2, FM_RUN_PASS, 9);
	s = read_for(run, 7, 1 << 1);
	fm_run_written(run, fm_run_slot_number(run, s), -EIO);
	for (unsigned i = 1; i < 5; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_TRUE(sent_of[FM_RUN_OFFER] > 0);
	CU_ASSERT_EQUAL(last_hop[FM_RUN_OFFER], 2);
	fm_run_free(run);
}

/* Goal: a sink that reads and sent an extent to one who is slow to take it, and fetched by another
 * meanwhile, offers it to the next; and keeps no slot for that for ever. */
static void test_offer_beside_slow(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct slot *s;

	fm_run_tick(run, 0);
	know(run, 0);
	know(run, 2);
	know(run, 3);
	s = read_for(run, 6, 0xd);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 1);
	CU_ASSERT_EQUAL(last_hop[FM_RUN_OFFER], 0);
	say(run, 0, FM_RUN_GET, 6);
	say(run, 2, FM_RUN_GET, 6);
	fm_run_sent(run, 2, 6, 0);
	fm_run_written(run, fm_run_slot_number(run, s), 0);
	for (unsigned i = 1; i < 5; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 1);
	fm_run_tick(run, 5 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 2);
	for (unsigned i = 6; i < 15; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 4); /* 2 and 3: all but who takes it */
	CU_ASSERT_FALSE(fm_run_may_release(run, s, true));
	for (unsigned i = 15; i < 20; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 4);
	CU_ASSERT_TRUE(fm_run_may_release(run, s, true));
	fm_run_free(run);
}

/* Goal: what a sink read and the first in turn does not take goes to others from the disk when it
 * is written; if the disk does not answer, from memory. */
static void test_offer_beside_own_disk(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);

	fm_run_tick(run, 0);
	know(run, 0);
	know(run, 2);
	know(run, 3);
	(void)read_for(run, 6, 0xd);
	CU_ASSERT_EQUAL(written, 1);
	say(run, 0, FM_RUN_PASS, 6);
	for (unsigned i = 1; i < 5; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 1);
	fm_run_tick(run, 5 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 2);
	CU_ASSERT_EQUAL(last_hop[FM_RUN_OFFER], 2);
	fm_run_free(run);
}

/* Goal: who reports over a node that ends its run, and begins another one, reports all anew: what
 * was on its way over it is lost. */
static void test_report_over_who_begins_anew(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 1 << 2);
	struct fm_run_msg links = {.type = FM_RUN_LINKS, .from = 2, .to = 1, .nodes = 3};

	fm_run_message(run, 2, &links);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_JOIN].to, 0);
	fm_run_peer_lost(run, 2);
	fm_run_peer_up(run, 2);
	fm_run_message(run, 2, &links);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 2);
	CU_ASSERT_EQUAL(last[FM_RUN_JOIN].to, 0);
	CU_ASSERT_EQUAL(last[FM_RUN_PAGE_OF].to, 0);
	CU_ASSERT_EQUAL(last[FM_RUN_PAGE_OF].join, last[FM_RUN_JOIN].join);
	CU_ASSERT_TRUE(last[FM_RUN_PAGE_OF].page.is_last);
	fm_run_free(run);
}

/* Goal: who reads for others sends one extent after the other; beside one that takes long, and to
 * one to which the last took long, it sends at once. */
static void test_one_after_the_other(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);

	fm_run_tick(run, 0);
	know(run, 0);
	know(run, 2);
	know(run, 3);
	(void)read_for(run, 6, 1 << 2);
	(void)read_for(run, 7, 1 << 2);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 1);
	say(run, 2, FM_RUN_GET, 6);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 1);
	fm_run_sent(run, 2, 6, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 2);
	CU_ASSERT_EQUAL(last[FM_RUN_OFFER].extent, 7);
	(void)read_for(run, 8, 1 << 2);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 2);
	say(run, 2, FM_RUN_GET, 7);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 3); /* 7 takes long */
	fm_run_sent(run, 2, 7, 0);
	(void)read_for(run, 9, 1 << 2);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 4); /* and so may 8 */
	fm_run_free(run);
}

/* Goal: a new coordinator waits for those who may have something, and no longer than they need. */
static void test_settled(void)
{
	struct fm_run *run = run_of(0, FM_RUN_SINK, 0x6);
	struct fm_run_msg msg = {.type = FM_RUN_JOIN, .to = 0, .join = 5};

	fm_run_tick(run, 0);
	for (uint8_t n = 1; n < 3; n++) {
		CU_ASSERT_EQUAL(asked_read, 0);
		know(run, n);
		msg.from = n;
		msg.type = FM_RUN_JOIN;
		msg.state = (struct fm_run_state){.uploads = 4};
		fm_run_message(run, n, &msg);
		CU_ASSERT_EQUAL(asked_read, 0);
		msg.type = FM_RUN_PAGE_OF;
		msg.page.is_last = false;
		for (msg.page.first = 0; msg.page.first < 300; msg.page.first += FM_RUN_PAGE) {
			msg.page.is_last = msg.page.first + FM_RUN_PAGE >= 300;
			fm_run_message(run, n, &msg);
		}
	}
	CU_ASSERT_TRUE(asked_read > 0);
	fm_run_free(run);
	run = run_of(0, FM_RUN_SINK, 0x6);
	fm_run_tick(run, 0);
	know(run, 1);
	fm_run_tick(run, FM_NS_PER_S - 1);
	CU_ASSERT_EQUAL(asked_read, 0);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_TRUE(asked_read > 0); /* who does not answer is not waited for */
	fm_run_free(run);
}

/*
 * Goal: the time that others have to report begins when somebody wants it, not when a late word
 * made this run. Method: 1 comes when the time that began with the run is nearly over; 2 has not
 * reported yet.
 */
static void test_settled_since_wanted(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0x6);

	fm_run_tick(run, 0);
	fm_run_tick(run, FM_NS_PER_S / 10 * 9);
	know(run, 1);
	know(run, 2);
	report(run, 1, (struct fm_run_state){.place = FM_RUN_SINK, .up = 0x5}, 0, 0);
	fm_run_tick(run, FM_NS_PER_S / 10 * 18);
	CU_ASSERT_EQUAL(asked_read, 0);
	fm_run_tick(run, FM_NS_PER_S / 10 * 20);
	CU_ASSERT_TRUE(asked_read > 0);
	fm_run_free(run);
}

/*
 * Goal: the same where the coordinator goes on, since it was asked for something in the moment in
 * which all had it. Method: 1 has it and hears of the end, and has not reported anew yet.
 */
static void test_settled_anew(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0x2);
	struct fm_run_state st = {.place = FM_RUN_SINK, .up = 0x1, .have_count = 300};

	fm_run_tick(run, 0);
	know(run, 1);
	report(run, 1, st, 9, 300);
	fm_run_tick(run, 2 * FM_NS_PER_S);
	fm_run_request(run, 1);
	st.place = FM_RUN_READY;
	pulse(run, 1, st);
	CU_ASSERT_EQUAL_FATAL(sent_of[FM_RUN_END], 1);
	CU_ASSERT_EQUAL_FATAL(ended, 0);
	fm_run_want(run, NULL, NULL);
	fm_run_tick(run, 2 * FM_NS_PER_S + FM_NS_PER_S / 2);
	CU_ASSERT_EQUAL(asked_read, 0);
	report(run, 1, st, 9, 300);
	CU_ASSERT_EQUAL(asked_read, 0);
	CU_ASSERT_TRUE(sent_of[FM_RUN_GET] > 0);
	fm_run_free(run);
}

/* Goal: a coordinator that is wrong makes nobody read a source that he does not have. */
static void test_orders_without_source(void)
{
	struct fm_run_params p = params();
	struct fm_run_msg msg = {.type = FM_RUN_CHECK, .from = 0, .to = 1, .number = 7};
	struct fm_run *run;

	p.self = 1;
	p.up = 0xd;
	p.can_read = false;
	CU_ASSERT_EQUAL_FATAL(fm_run_new(&p, &world, NULL, &run), 0);
	asked_read = asked_check = 0;
	msg.join = run->member.join;
	msg.order = 1;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_EQUAL(asked_check, 0);
	CU_ASSERT_EQUAL(last[FM_RUN_CHECKED].number, 7);
	CU_ASSERT_EQUAL(last[FM_RUN_CHECKED].code, -EOPNOTSUPP);
	msg.type = FM_RUN_LEASE;
	msg.order = 2;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_EQUAL(asked_read, 0);
	CU_ASSERT_EQUAL(last[FM_RUN_READ_FAILED].code, -EOPNOTSUPP);
	fm_run_free(run);
}

/* Goal: the source is listed once at a time, however often that is ordered, and then for the last
 * one. */
static void test_checks_at_once(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct fm_run_msg msg = {.type = FM_RUN_CHECK, .from = 0, .to = 1};

	msg.join = run->member.join;
	for (unsigned i = 1; i <= 100; i++) {
		msg.order = msg.number = i;
		fm_run_message(run, 0, &msg);
	}
	CU_ASSERT_EQUAL(asked_check, 1);
	fm_run_checked(run, 1, 0);
	CU_ASSERT_EQUAL(asked_check, 2);
	CU_ASSERT_EQUAL(last_check, 100);
	fm_run_checked(run, 100, 0);
	CU_ASSERT_EQUAL(asked_check, 2);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_CHECKED], 2);
	fm_run_free(run);
}

/*
 * Goal: a request that crosses the coordinator's end is made again. Method: the answer to a pulse
 * from before the request comes behind it, then the end.
 */
static void test_request_crosses_end(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);
	struct fm_run_msg msg = {.type = FM_RUN_NOTED, .from = 0, .to = 1};

	fm_run_request(run, 1 << 1);
	msg.join = run->member.join;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 0);
	memset(sent_of, 0, sizeof(sent_of));
	msg.type = FM_RUN_END;
	msg.order = 1;
	fm_run_message(run, 0, &msg);
	CU_ASSERT_EQUAL(ended, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 1);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_LINKS], 3);
	CU_ASSERT_EQUAL(last[FM_RUN_LINKS].code, 1);
	fm_run_free(run);
}

/*
 * Goal: the same of a node that has it, and asks for others. Method: it is asked after the pulse
 * whose answer comes next, or before it.
 */
static void test_request_behind_pulse(void)
{
	struct fm_run_msg msg = {.from = 0, .to = 1};

	for (unsigned is_heard = 0; is_heard < 2; is_heard++) {
		struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);

		run->member.place = FM_RUN_READY;
		if (is_heard)
			fm_run_request(run, 1 << 2);
		for (unsigned s = 1; s < 9 && sent_of[FM_RUN_PULSE] == 0; s++)
			fm_run_tick(run, s * FM_NS_PER_S);
		CU_ASSERT_EQUAL(sent_of[FM_RUN_PULSE], 1);
		if (!is_heard)
			fm_run_request(run, 1 << 2);
		msg.join = run->member.join;
		msg.type = FM_RUN_NOTED;
		msg.order = 0;
		fm_run_message(run, 0, &msg);
		memset(sent_of, 0, sizeof(sent_of));
		msg.type = FM_RUN_END;
		msg.order = 1;
		fm_run_message(run, 0, &msg);
		CU_ASSERT_EQUAL(ended, is_heard);
		CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], !is_heard);
		fm_run_free(run);
	}
}

/*
 * Goal: two nodes ask at once for what all have: one run is enough. Method: this node has it, and
 * is asked for others after its last pulse; the end that crosses that says who has it: all that are
 * asked for, or not.
 */
static void test_request_for_what_all_have(void)
{
	for (unsigned have_all = 0; have_all < 2; have_all++) {
		struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);
		struct fm_run_msg msg = {.type = FM_RUN_END, .from = 0, .to = 1, .order = 1};

		run->member.place = FM_RUN_READY;
		fm_run_request(run, 1 << 1 | 1 << 2);
		memset(sent_of, 0, sizeof(sent_of));
		msg.join = run->member.join;
		fm_run_msg_set_ready(&msg, have_all ? 0x8000000000000007 : 0x3);
		fm_run_message(run, 0, &msg);
		CU_ASSERT_EQUAL(ended, have_all);
		CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], !have_all);
		fm_run_free(run);
	}
}

/* ---- who was asked for, and is no member ---- */

/* Node 0 coordinates, has it, and wants it for 3, too. */
static struct fm_run *asking_for_3(uint64_t up)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, up);

	run->member.place = FM_RUN_READY;
	fm_run_request(run, 1 << 3);
	fm_run_tick(run, 0);
	return run;
}

static void become_sink(struct fm_run *run)
{
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 1}, 0, 0);
}

/* The second in which the run ends; 0: not within a thousand. */
static unsigned end_of(struct fm_run *run)
{
	unsigned s = 0;

	while (!ended && s < 1000)
		fm_run_tick(run, ++s * FM_NS_PER_S);
	fm_run_free(run);
	return ended ? s : 0;
}

/*
 * Goal: how long one is waited for depends on what is known of it. Method: it was never there; it
 * was a sink, and its session is lost; its session is there, and it says nothing; it has a session
 * and has not said yet whether it takes part; it has refused.
 */
static void test_waits_for_who_is_missing(void)
{
	struct fm_run *run;

	CU_ASSERT_EQUAL(end_of(asking_for_3(0)), 6);
	run = asking_for_3(1 << 3);
	become_sink(run);
	fm_run_peer_lost(run, 3);
	CU_ASSERT_EQUAL(end_of(run), 30);
	CU_ASSERT_EQUAL(end_of(asking_for_3(1 << 3)), 300);
	run = asking_for_3(0);
	fm_run_called(run, 1 << 3, 0);
	CU_ASSERT_EQUAL(end_of(run), 300);
	run = asking_for_3(0);
	fm_run_called(run, 0, 1 << 3);
	CU_ASSERT_EQUAL(end_of(run), 1);
}

/*
 * Goal: what is there at once takes no time. Method: no time passes. 3 has all, has not looked yet
 * and is invited; then it wants to have it, as 2 has; it is told to publish, and when it has, the
 * run is over.
 */
static void test_there_at_once(void)
{
	struct fm_run_state ready = {
		.place = FM_RUN_READY, .uploads = 4, .up = 1, .have_count = 300};
	struct fm_run_state passive = {.place = FM_RUN_PASSIVE, .up = 1, .have_count = 300};
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 0xc);
	struct fm_run_msg pulse = {.type = FM_RUN_PULSE, .from = 3, .join = 5, .state = ready};

	fm_run_request(run, 1 << 3);
	fm_run_tick(run, FM_NS_PER_S); /* of a clock that began earlier */
	know(run, 2);
	know(run, 3);
	report(run, 2, ready, 9, 300);
	report(run, 3, passive, 9, 300);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_INVITE], 1);
	pulse.state.place = FM_RUN_SINK;
	pulse.state.order = last[FM_RUN_INVITE].order;
	fm_run_message(run, 3, &pulse);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_COMMIT], 1);
	CU_ASSERT_EQUAL(ended, 0);
	pulse.state.place = FM_RUN_READY;
	pulse.state.order = last[FM_RUN_COMMIT].order;
	fm_run_message(run, 3, &pulse);
	CU_ASSERT_EQUAL(ended, 1);
	CU_ASSERT_EQUAL(end_code, 0);
	fm_run_free(run);
}

/* Goal: a sink that says nothing for a while, though its session is there, is not given up. */
static void test_silent_sink(void)
{
	struct fm_run *run = asking_for_3(1 << 3);

	become_sink(run);
	for (unsigned s = 1; s < 20; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_EQUAL(run->coordinator.forgotten, 1);
	CU_ASSERT_EQUAL(ended, 0);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_READY, .up = 1, .have_count = 300}, 0,
	       300);
	CU_ASSERT_EQUAL(ended, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_END].nodes, 0);
	CU_ASSERT_EQUAL(fm_run_msg_ready(&last[FM_RUN_END]), 1 << 0 | 1 << 3);
	fm_run_free(run);
}

/* ---- what is offered, and what is carried ---- */

/* A peer offers an extent and says that its bytes are 5; whether they are asked for. */
static bool is_taken_of(struct fm_run *run, unsigned from, uint32_t extent)
{
	struct fm_run_msg offer = {.type = FM_RUN_OFFER, .from = (uint8_t)from, .to = 1,
				   .node = (uint8_t)from, .extent = extent, .crc = 5};
	unsigned asked = sent_of[FM_RUN_GET];

	fm_run_message(run, from, &offer);
	return sent_of[FM_RUN_GET] > asked;
}

static bool is_taken(struct fm_run *run, uint32_t extent)
{
	return is_taken_of(run, 2, extent);
}

static void receive(struct fm_run *run, uint32_t extent, uint32_t crc, int code)
{
	struct slot *s = fm_run_slot_find(run, SLOT_RECEIVING, extent);

	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	fm_run_received(run, fm_run_slot_number(run, s), crc, code);
}

/*
 * Goal: nobody speaks for a peer to another one. Method: 3 says that it passes on what 2 said: an
 * offer, that it has no extent for 1, what it reaches; and has 1 pass on an offer to 2.
 */
static void test_word_of_another(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct fm_run_msg msg = {.type = FM_RUN_OFFER, .from = 2, .to = 1, .hops = 1, .node = 2,
				 .nodes = 0xf, .extent = 7, .crc = 5};

	fm_run_tick(run, 0);
	fm_run_message(run, 3, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_GET], 0);
	CU_ASSERT_TRUE(is_taken(run, 7));
	msg.type = FM_RUN_NONE;
	msg.slot = last[FM_RUN_GET].slot;
	fm_run_message(run, 3, &msg);
	CU_ASSERT_PTR_NOT_NULL(fm_run_slot_find(run, SLOT_RECEIVING, 7));
	msg.type = FM_RUN_LINKS;
	fm_run_message(run, 3, &msg);
	CU_ASSERT_FALSE(run->known & bit(2));
	msg = (struct fm_run_msg){.type = FM_RUN_OFFER, .from = 3, .to = 2, .node = 3};
	fm_run_message(run, 3, &msg);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 0);
	fm_run_free(run);
}

/* Goal: other bytes than were offered are not taken, and whose offers are wrong has to wait. */
static void test_offer_of_other_bytes(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);

	fm_run_tick(run, 0);
	for (uint32_t e = 0; e < 4; e++) {
		CU_ASSERT_TRUE(is_taken(run, e));
		receive(run, e, 6, 0);
	}
	CU_ASSERT_EQUAL(written, 0);
	CU_ASSERT_FALSE(is_taken(run, 4));
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_TRUE(is_taken(run, 4));
	receive(run, 4, 5, -EBADMSG);
	fm_run_tick(run, 2 * FM_NS_PER_S);
	CU_ASSERT_FALSE(is_taken(run, 4)); /* longer each time */
	fm_run_tick(run, 3 * FM_NS_PER_S);
	CU_ASSERT_TRUE(is_taken(run, 4));
	receive(run, 4, 5, 0);
	CU_ASSERT_EQUAL(written, 1);
	fm_run_free(run);
}

/* Goal: what came as it was offered, and is not right, counts as well. */
static void test_offer_discarded(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct slot *s;

	fm_run_tick(run, 0);
	for (uint32_t e = 0; e < 4; e++) {
		CU_ASSERT_TRUE(is_taken(run, e));
		receive(run, e, 5, 0);
		s = fm_run_slot_find(run, SLOT_HELD, e);
		CU_ASSERT_PTR_NOT_NULL_FATAL(s);
		fm_run_written(run, fm_run_slot_number(run, s), 0);
		order(run, FM_RUN_DISCARD, e, 0);
		CU_ASSERT_FALSE(fm_run_has(run, e));
	}
	CU_ASSERT_FALSE(is_taken(run, 4));
	fm_run_free(run);
}

/* Goal: who offers and sends nothing has all slots once, and then one now and then. */
static void test_offer_of_nothing(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	unsigned taken = 0, s;

	fm_run_tick(run, 0);
	for (uint32_t e = 0; e < 20; e++)
		taken += is_taken(run, e);
	CU_ASSERT_EQUAL(taken, FM_RUN_SLOTS - FM_RUN_LEASES);
	for (s = 1; receives_cancelled < taken && s < 100; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_TRUE(s > 20 && s <= 22);
	CU_ASSERT_FALSE(is_taken(run, 20));
	for (; s < 42; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_TRUE(is_taken(run, 20));
	for (; receives_cancelled == taken && s < 100; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	for (; s < 104; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_TRUE(is_taken(run, 20));
	CU_ASSERT_FALSE(is_taken(run, 21)); /* beside that */
	fm_run_free(run);
}

/* 2 says that it cannot send what it offered. */
static void refuse(struct fm_run *run, uint32_t extent)
{
	struct slot *s = fm_run_slot_find(run, SLOT_RECEIVING, extent);
	struct fm_run_msg none = {.type = FM_RUN_NONE, .from = 2, .to = 1, .extent = extent};

	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	none.slot = (uint8_t)fm_run_slot_number(run, s);
	fm_run_message(run, 2, &none);
}

/* Of one whose last four offers came to nothing: it has to wait for a second, gives one at a time
 * then, of which nobody thinks that it comes, until one of them does. */
static void check_waits(struct fm_run *run, unsigned at_s)
{
	CU_ASSERT_FALSE(is_taken(run, 10));
	fm_run_tick(run, (at_s + 1) * FM_NS_PER_S);
	CU_ASSERT_TRUE(is_taken(run, 10));
	CU_ASSERT_FALSE(is_taken(run, 11));
	fm_run_tick(run, (at_s + 2) * FM_NS_PER_S);
	CU_ASSERT_EQUAL(last[FM_RUN_PULSE].state.coming_count, 0);
	receive(run, 10, 5, 0);
	CU_ASSERT_TRUE(is_taken(run, 11));
	CU_ASSERT_TRUE(is_taken(run, 12));
	fm_run_free(run);
}

/* Goal: who offers what it refuses then does not go on so. What it refuses at once, since it is
 * busy, counts once. */
static void test_offer_refused(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	unsigned s;

	for (s = 0; s < 4; s++) {
		fm_run_tick(run, s * FM_NS_PER_S);
		for (uint32_t e = 0; e < 3; e++)
			CU_ASSERT_TRUE(is_taken(run, e));
		fm_run_tick(run, s * FM_NS_PER_S + FM_NS_PER_S / 10);
		for (uint32_t e = 0; e < 3; e++)
			refuse(run, e);
	}
	fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_FALSE(is_taken(run, 10));
	check_waits(run, s);
}

/* Goal: the same of one whose session is lost each time when it was to send. */
static void test_offer_of_coming_and_going(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);

	for (unsigned s = 0; s < 4; s++) {
		fm_run_tick(run, s * FM_NS_PER_S);
		CU_ASSERT_TRUE(is_taken(run, 0));
		CU_ASSERT_TRUE(is_taken(run, 1));
		fm_run_peer_lost(run, 2);
		fm_run_peer_up(run, 2);
	}
	check_waits(run, 3);
}

/* Goal: who refuses only when others have waited let them wait for nothing. */
static void test_refused_late(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);

	fm_run_tick(run, 0);
	CU_ASSERT_TRUE(is_taken(run, 0));
	order(run, FM_RUN_FETCH, 1, 0);
	for (unsigned s = 1; s < 20; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	refuse(run, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH_FAILED].code, -ETIMEDOUT);
	refuse(run, 0);
	for (unsigned s = 20; s < 39; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_FALSE(is_taken(run, 0));
	fm_run_tick(run, 39 * FM_NS_PER_S);
	CU_ASSERT_TRUE(is_taken(run, 0));
	order(run, FM_RUN_FETCH, 1, 0);
	refuse(run, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH_FAILED].code, -EBUSY);
	fm_run_free(run);
}

/*
 * Goal: what one offers of whom nothing came in time keeps the same of nobody else out. Method: 2
 * let one time out and offers another one, which 3 offers then.
 */
static void test_offer_beside_late(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	unsigned s = 1;

	fm_run_tick(run, 0);
	CU_ASSERT_TRUE(is_taken(run, 0));
	while (receives_cancelled == 0 && s < 100)
		fm_run_tick(run, s++ * FM_NS_PER_S);
	for (unsigned until = s + 20; s < until; s++)
		fm_run_tick(run, s * FM_NS_PER_S);
	CU_ASSERT_TRUE(is_taken(run, 1));
	CU_ASSERT_FALSE(is_taken(run, 1));
	CU_ASSERT_EQUAL(receives_cancelled, 1);
	CU_ASSERT_TRUE(is_taken_of(run, 3, 1));
	CU_ASSERT_EQUAL(receives_cancelled, 2);
	CU_ASSERT_EQUAL(last_hop[FM_RUN_GET], 3);
	CU_ASSERT_FALSE(is_taken(run, 1));
	receive(run, 1, 5, 0);
	CU_ASSERT_EQUAL(written, 1);
	fm_run_free(run);
}

/* Ticks each second from s on, until something that came is cancelled, 200 s at most. */
static unsigned seconds_until_cancelled(struct fm_run *run, unsigned *s)
{
	unsigned from = *s, before = receives_cancelled;

	while (receives_cancelled == before && *s < from + 200)
		fm_run_tick(run, ++*s * FM_NS_PER_S);
	return *s - from;
}

static void tick_for(struct fm_run *run, unsigned *s, unsigned seconds)
{
	for (unsigned until = *s + seconds; *s < until;)
		fm_run_tick(run, ++*s * FM_NS_PER_S);
}

/*
 * Goal: on a slow wire an extent that comes after a time-out teaches how long the next ones may
 * take; quick ones take that back. Offers of 2 first, then what is fetched from a disk.
 */
static void test_pace_of_slow(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	unsigned s = 0;

	fm_run_tick(run, 0);
	CU_ASSERT_TRUE(is_taken(run, 0));
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 21);
	tick_for(run, &s, 20);
	for (uint32_t extent = 1; extent < 4; extent++) {
		CU_ASSERT_TRUE(is_taken(run, extent));
		tick_for(run, &s, 26);
		receive(run, extent, 5, 0);
	}
	CU_ASSERT_EQUAL(receives_cancelled, 1);
	CU_ASSERT_EQUAL(written, 3);
	CU_ASSERT_TRUE(is_taken(run, 4));
	receive(run, 4, 5, 0);
	CU_ASSERT_TRUE(is_taken(run, 5));
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 21);
	order(run, FM_RUN_FETCH, 10, 0);
	tick_for(run, &s, 18);
	receive(run, 10, 0, 0);
	order(run, FM_RUN_FETCH, 11, 0);
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 41);
	order(run, FM_RUN_FETCH, 12, 0);
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 81);
	fm_run_free(run);
}

/* Goal: of fetches that began together, and of which nothing comes, one counts for how long the
 * next one is waited for. */
static void test_pace_of_silent(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	unsigned s = 0;

	fm_run_tick(run, 0);
	for (uint32_t extent = 0; extent < 4; extent++)
		order(run, FM_RUN_FETCH, extent, 0);
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 21);
	CU_ASSERT_EQUAL(receives_cancelled, 4);
	order(run, FM_RUN_FETCH, 4, 0);
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 41);
	order(run, FM_RUN_FETCH, 5, 0);
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 81);
	fm_run_free(run);
}

/* Goal: who is slower with each extent is waited for four times as long at most. */
static void test_pace_has_a_limit(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	unsigned s = 0;

	fm_run_tick(run, 0);
	for (uint32_t extent = 0; extent < 4; extent++) {
		CU_ASSERT_TRUE(is_taken(run, extent));
		tick_for(run, &s, 18 << (extent < 2 ? extent : 2));
		receive(run, extent, 5, 0);
	}
	CU_ASSERT_EQUAL(receives_cancelled, 0);
	CU_ASSERT_TRUE(is_taken(run, 4));
	CU_ASSERT_EQUAL(seconds_until_cancelled(run, &s), 81);
	fm_run_free(run);
}

/* Goal: who carries an extent takes no other bytes than its holder said, and tells of them. */
static void test_carry_of_other_bytes(void)
{
	struct fm_run *run = run_of(1, FM_RUN_PASSIVE, 0xd);
	struct fm_run_msg carry = {.type = FM_RUN_CARRY, .from = 0, .to = 1, .order = 1, .node = 2,
				   .extent = 7, .number = 1, .crc = 9, .nodes = 1 << 3};

	carry.join = run->member.join;
	fm_run_tick(run, 0);
	fm_run_message(run, 0, &carry);
	receive(run, 7, 8, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 0);
	CU_ASSERT_EQUAL(last[FM_RUN_READ_FAILED].code, -EBADMSG);
	CU_ASSERT_EQUAL(last[FM_RUN_READ_FAILED].crc, 9);
	carry.order = 2;
	fm_run_message(run, 0, &carry);
	receive(run, 7, 9, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_OFFER], 1);
	fm_run_free(run);
}

/* A run in which 2, READY, has 7, and 3, a sink, gets it over 1 only; nobody can read it. */
static struct fm_run *carried_to_3(void)
{
	struct fm_run *run = run_of(0, FM_RUN_PASSIVE, 1 << 1);

	run->member.can_read = false;
	fm_run_join(run);
	fm_run_tick(run, 0);
	report(run, 1, (struct fm_run_state){.up = 0xd}, 0, 0);
	report(run, 2,
	       (struct fm_run_state){.place = FM_RUN_READY, .up = 1 << 1, .have_count = 300}, 9,
	       300);
	report(run, 3, (struct fm_run_state){.place = FM_RUN_SINK, .up = 1 << 1, .have_count = 299},
	       9, 7);
	return run;
}

/*
 * Goal: of a holder whose bytes were others on their way to a carrier the extent is carried no
 * more.
 */
static void test_carry_from_liar(void)
{
	struct fm_run *run = carried_to_3();
	struct fm_run_msg failed = {.type = FM_RUN_READ_FAILED, .from = 1, .join = 5, .extent = 7,
				    .code = -EBADMSG, .crc = 9};

	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].node, 2);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].number, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].crc, 9);
	fm_run_message(run, 1, &failed);
	CU_ASSERT_EQUAL(fm_run_trusted(&run->coordinator, 7), 0);
	CU_ASSERT_EQUAL(run->coordinator.wrong_of[2], 1);
	CU_ASSERT_EQUAL(run->coordinator.tries[7], 0); /* it says nothing of the source */
	fm_run_message(run, 1, &failed);	/* of nothing that it was to carry */
	CU_ASSERT_EQUAL(run->coordinator.wrong_of[2], 1);
	fm_run_free(run);
}

/* A second goes by; all that matter here are there. */
static void second(struct fm_run *run, unsigned at_s)
{
	fm_run_tick(run, at_s * FM_NS_PER_S);
	for (unsigned n = 1; n < 4; n++)
		run->coordinator.seat[n].heard_ns = run->now_ns;
}

/*
 * Goal: a holder that is slow at first is believed again when it has sent. Method: 1 says four
 * times that nothing came from it, and is told to carry 7 from there all the same, since nobody can
 * read it; then it came: 1 has sent it on, or has it on its own disk.
 */
static void check_believed_again(enum fm_run_msg_type came)
{
	struct fm_run *run = carried_to_3();
	struct fm_run_msg said = {.type = FM_RUN_READ_FAILED, .from = 1, .join = 5, .extent = 7,
				  .code = -ETIMEDOUT, .crc = 9};
	unsigned carries = 0;

	for (unsigned s = 1; s < 12; s++) {
		second(run, s);
		if (sent_of[FM_RUN_CARRY] > carries && carries < 4)
			fm_run_message(run, 1, &said);
		carries = sent_of[FM_RUN_CARRY];
	}
	CU_ASSERT_EQUAL(carries, 5);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].node, 2);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].number, 1);
	CU_ASSERT_EQUAL(last[FM_RUN_CARRY].crc, 9);
	CU_ASSERT_EQUAL(fm_run_trusted(&run->coordinator, 7), 0);
	CU_ASSERT_EQUAL(run->coordinator.distrusted, bit(2));
	said.type = (uint8_t)came;
	fm_run_message(run, 1, &said);
	CU_ASSERT_EQUAL(fm_run_trusted(&run->coordinator, 7) & bit(2), bit(2));
	CU_ASSERT_EQUAL(run->coordinator.distrusted, 0);
	CU_ASSERT_EQUAL(run->coordinator.silent_of[2], 0);
	fm_run_free(run);
}

static void test_carry_from_slow(void)
{
	check_believed_again(FM_RUN_SENT);
	check_believed_again(FM_RUN_HAVE);
}

/*
 * Goal: what is lost while it is made READY is not written any more, as nobody would look at it.
 * Method: a sink that has all commits, finds extent 7 bad, and is told to fetch it, and offered it.
 */
static void test_lost_while_publishing(void)
{
	struct fm_run_msg offer = {.type = FM_RUN_OFFER, .from = 2, .to = 1, .extent = 7,
				   .crc = 9, .node = 2, .nodes = bit(1)};
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct member *m = &run->member;
	struct slot *s;

	memset(m->have, 0xff, 5 * sizeof(*m->have));
	m->have_count = 300;
	s = &m->slot[0];
	*s = (struct slot){.use = SLOT_HELD, .extent = 7, .giver = FM_RUN_NOBODY, .offered = 4};
	m->is_publishing = true;
	fm_run_disk_bad(run, 7);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_LOST], 1);
	order(run, FM_RUN_FETCH, 7, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_GET], 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_FETCH_FAILED], 1);
	CU_ASSERT_EQUAL(last[FM_RUN_FETCH_FAILED].code, -EAGAIN);
	fm_run_message(run, 2, &offer);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_PASS], 1);
	order(run, FM_RUN_LEASE, 7, bit(2));
	s = fm_run_slot_find(run, SLOT_READING, 7);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	fm_run_read_done(run, fm_run_slot_number(run, s), 9, 0);
	CU_ASSERT_EQUAL(s->use, SLOT_HELD);
	CU_ASSERT_EQUAL(written, 0);
	fm_run_published(run, -EBADMSG);
	CU_ASSERT_EQUAL(m->place, FM_RUN_OUT);
	CU_ASSERT_EQUAL(m->code, -EBADMSG);
	fm_run_free(run);
}

/* ---- one peer that says the same again and again ---- */

static struct fm_run *run_of_extents(unsigned self, uint32_t extents)
{
	struct fm_run_params p = params();
	struct fm_run *run;

	p.self = self;
	p.extent_count = extents;
	p.place = FM_RUN_PASSIVE;
	p.up &= ~bit(self);
	p.up |= bit(0) & ~bit(self);
	CU_ASSERT_EQUAL_FATAL(fm_run_new(&p, &world, NULL, &run), 0);
	memset(sent_of, 0, sizeof(sent_of));
	ended = 0;
	return run;
}

/*
 * Goal: who reports anew all the time costs the coordinator no more than what it says it has.
 * Method: reports of nothing, and of one extent at the end, of a run of 2^20; extents that are
 * looked at are counted.
 */
static void test_reports_without_end(void)
{
	struct fm_run *run = run_of_extents(0, FM_RUN_EXTENTS_MAX);
	struct fm_run_msg join = {.type = FM_RUN_JOIN, .from = 1, .to = 0,
				  .state = {.place = FM_RUN_SINK, .uploads = 4}};
	static struct fm_run_msg have;

	have = (struct fm_run_msg){.type = FM_RUN_PAGE_OF, .from = 1, .to = 0, .page.bits[31] = 128,
				   .page.first = FM_RUN_EXTENTS_MAX - FM_RUN_PAGE};
	for (unsigned i = 0; i < 1000; i++, join.join++)
		fm_run_message(run, 1, &join);
	CU_ASSERT_EQUAL(run->coordinator.looked, 0);
	for (unsigned i = 0; i < 1000; i++, join.join++) {
		fm_run_message(run, 1, &join);
		have.join = join.join;
		fm_run_message(run, 1, &have);
		CU_ASSERT_EQUAL(run->coordinator.seat[1].have_count, 1);
	}
	CU_ASSERT_EQUAL(run->coordinator.looked, 999 * BLOCK);
	fm_run_message(run, 1, &join);
	CU_ASSERT_EQUAL(run->coordinator.seat[1].have_count, 0);
	CU_ASSERT_EQUAL(run->coordinator.holders[FM_RUN_EXTENTS_MAX - 1], 0);
	fm_run_free(run);
}

/*
 * Goal: a coordinator that asks for a report all the time gets one in each `quiet`, and does not
 * lose one that is due. Method: RESYNC, orders out of their turn and ENDs, 1,000 of each.
 */
static void test_asked_without_end(void)
{
	struct fm_run *run = run_of(1, FM_RUN_SINK, 0xd);
	struct fm_run_msg msg = {.from = 0, .to = 1};

	fm_run_tick(run, 0);
	for (unsigned i = 0; i < 3000; i++) {
		msg.type = (uint8_t)(i % 3 == 0 ? FM_RUN_RESYNC
						: i % 3 == 1 ? FM_RUN_REVOKE : FM_RUN_END);
		msg.join = run->member.join;
		msg.order = run->member.order + (i % 3 == 1 ? 2 : 1);
		fm_run_message(run, 0, &msg);
	}
	CU_ASSERT_EQUAL(ended, 0);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 1);
	CU_ASSERT_TRUE(sent_of[FM_RUN_LINKS] <= 6);
	fm_run_tick(run, FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 1);
	fm_run_tick(run, 2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 2);
	CU_ASSERT_TRUE(sent_of[FM_RUN_LINKS] > 0);	/* one of them was an END */
	for (unsigned i = 3; i < 9; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent_of[FM_RUN_JOIN], 2);
	fm_run_free(run);
}

/*
 * Goal: a peer that reaches the first node, and does not, and does, changes who coordinates as
 * often as it says so only for a while; then the last word counts, a little later.
 */
static void test_links_without_end(void)
{
	struct fm_run *run = run_of_extents(1, 300);
	struct fm_run_msg links = {.type = FM_RUN_LINKS, .from = 2, .to = 1};

	fm_run_tick(run, 0);
	fm_run_peer_lost(run, 0);
	CU_ASSERT_TRUE(run->coordinator.is_on);
	for (unsigned i = 0; i < 1001; i++) {
		links.nodes = i % 2 ? bit(1) : bit(1) | bit(0);
		fm_run_message(run, 2, &links);
	}
	CU_ASSERT_TRUE(sent_of[FM_RUN_JOIN] <= 20);
	for (unsigned i = 1; i < 5; i++)
		fm_run_tick(run, i * FM_NS_PER_S);
	CU_ASSERT_EQUAL(run->root, 0);
	CU_ASSERT_FALSE(run->coordinator.is_on);
	fm_run_free(run);
}

static const struct fm_test tests[] = {
	{"what is lost while it is made READY", test_lost_while_publishing},
	{"who reports anew without end", test_reports_without_end},
	{"who is asked to, without end", test_asked_without_end},
	{"who reaches the first one, and does not, without end", test_links_without_end},
	{"a node sends as many extents from its disk at once as it is told", test_upload_slots},
	{"rank: an order, readers first", test_rank},
	{"rank: a node that goes", test_rank_node_gone},
	{"tree: everybody once", test_tree},
	{"tree: even", test_tree_balance},
	{"time", test_elapsed},
	{"limits", test_params},
	{"messages that cannot be", test_hostile},
	{"lost: the rest of a report", test_lost_page},
	{"lost: the last order", test_lost_order},
	{"an order out of its turn", test_order_out_of_turn},
	{"a lease for who is away", test_lease_for_who_is_away},
	{"a reader that becomes a sink", test_want_while_reading},
	{"one that has some of it already", test_want_what_is_there},
	{"what one says for another", test_word_of_another},
	{"other bytes than were offered", test_offer_of_other_bytes},
	{"offered bytes that are discarded", test_offer_discarded},
	{"offers of which nothing comes", test_offer_of_nothing},
	{"offers that are refused", test_offer_refused},
	{"offers of one who comes and goes", test_offer_of_coming_and_going},
	{"what is refused late", test_refused_late},
	{"an offer beside one of whom nothing comes", test_offer_beside_late},
	{"a wire on which extents take long", test_pace_of_slow},
	{"how long several that are silent are waited for", test_pace_of_silent},
	{"a peer that takes longer each time", test_pace_has_a_limit},
	{"other bytes than are to be carried", test_carry_of_other_bytes},
	{"who has other bytes to carry", test_carry_from_liar},
	{"who is slow with what is to be carried", test_carry_from_slow},
	{"a READY member that lost an extent", test_ready_that_lost},
	{"what one of several parts loses comes again", test_part_that_lost},
	{"no lease for who has it", test_no_lease_for_who_has_it},
	{"an event ends", test_event_ends},
	{"two contents of one extent", test_two_contents},
	{"two contents, both read", test_two_contents_read},
	{"a lease that nobody needs", test_lease_needless},
	{"a carry that is revoked", test_carry_revoked},
	{"a read that waits and is revoked", test_wait_revoked},
	{"a carry goes before reads", test_carry_before_reads},
	{"a carry past one that says that it has it", test_carry_past_who_has_it},
	{"what is read, and cannot come to a sink, is fetched from who is not believed",
	 test_fetch_past_who_has_it},
	{"a carry of what hangs", test_carry_of_what_hangs},
	{"who is READY with other bytes each time", test_ready_that_changes},
	{"a carry that nobody needs", test_carry_needless},
	{"a server has room", test_server_has_room},
	{"a slow server is last", test_slow_server_is_last},
	{"who is slow has not all uploads of one", test_fetches_in_turn},
	{"nor has who takes nothing", test_fetches_of_who_takes_none},
	{"nor has who tells little of it", test_fetches_by_clock},
	{"nor has who comes late", test_fetches_of_who_comes_late},
	{"nor anybody, whatever another one says", test_fetches_beside_liar},
	{"fewer at once where several are late", test_fetches_fewer},
	{"a fetch of what is read soon", test_fetch_of_what_is_behind},
	{"an offer to all", test_offer_to_all},
	{"an offer of one who dropped out", test_offer_of_dropped},
	{"an offer beside one who is slow", test_offer_beside_slow},
	{"an offer beside a disk of its own that hangs", test_offer_beside_own_disk},
	{"a report over a node that begins anew", test_report_over_who_begins_anew},
	{"one extent after the other", test_one_after_the_other},
	{"reads when all have reported", test_settled},
	{"a coordinator waits since somebody wants it", test_settled_since_wanted},
	{"the same where it goes on", test_settled_anew},
	{"orders for who has no source", test_orders_without_source},
	{"checks at once", test_checks_at_once},
	{"a request that crosses the end", test_request_crosses_end},
	{"a request behind the pulse whose answer comes", test_request_behind_pulse},
	{"a request for what all have ends with the run that is", test_request_for_what_all_have},
	{"who is missing is waited for", test_waits_for_who_is_missing},
	{"what is there at once takes no time", test_there_at_once},
	{"a sink that is silent", test_silent_sink},
};

FM_TEST_MAIN("stage_run", tests)
