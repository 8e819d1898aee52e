/* SPDX-License-Identifier: MIT */
/*
 * outbox: what waits for room in a session.
 *
 * links: fm_staging_service
 */
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "staging/run/encode.h"
#include "staging/service/outbox.h"
#include "tests/fm_test.h"

static uint8_t body[FM_RUN_BYTES_MAX];

struct heard {
	uint64_t full;			/* nodes without room */
	unsigned count[FM_RUN_NODES_MAX];
	uint8_t last[FM_RUN_NODES_MAX];
	bool is_in_order;
};

static bool has_room(void *ctx, unsigned node)
{
	return !(((struct heard *)ctx)->full >> node & 1);
}

static void say(void *ctx, unsigned node, const uint8_t *at, size_t len)
{
	struct heard *h = ctx;

	h->is_in_order = h->is_in_order && len == 1 && *at == h->last[node] + 1;
	h->last[node] = *at;
	h->count[node]++;
}

static void flush(struct fm_outbox *box, struct heard *h)
{
	const struct fm_outbox_way way = { .has_room = has_room, .say = say, .ctx = h };

	h->is_in_order = true;
	fm_outbox_flush(box, &way);
}

/* Goal: who does not read holds up nobody else, and hears all in order when he does. */
static void test_order(void)
{
	struct heard h = { .full = 1u << 3 };
	struct fm_outbox box;

	fm_outbox_init(&box);
	for (uint8_t i = 1; i <= 9; i++)
		for (unsigned node = 2; node <= 4; node++)
			CU_ASSERT_TRUE(fm_outbox_add(&box, node, &i, 1));
	flush(&box, &h);
	CU_ASSERT_TRUE(h.is_in_order && h.count[2] == 9 && h.count[3] == 0 && h.count[4] == 9);
	h.full = 0;
	flush(&box, &h);
	CU_ASSERT_TRUE(h.is_in_order && h.count[3] == 9);
	CU_ASSERT_TRUE(fm_list_is_empty(&box.waiting));
	fm_outbox_clear(&box);
}

/* Goal: a peer that makes us speak and does not listen takes its part of the memory and no more. A
 * report of the largest dataset has room. */
static void test_bound(void)
{
	uint64_t before = fm_budget_used();
	struct fm_outbox box;
	unsigned taken = 0;

	fm_outbox_init(&box);
	for (unsigned i = 0; i < 100000; i++)
		taken += fm_outbox_add(&box, 63, body, sizeof(body));
	CU_ASSERT_TRUE(taken > FM_RUN_EXTENTS_MAX / FM_RUN_PAGE);
	/* and a word for each of where it is from */
	CU_ASSERT_TRUE(fm_budget_used() - before <= FM_OUTBOX_NODE_MAX + taken * 64);
	CU_ASSERT_TRUE(fm_outbox_add(&box, 62, body, sizeof(body)));
	fm_outbox_clear(&box);
	CU_ASSERT_EQUAL(fm_budget_used(), before);
	CU_ASSERT_TRUE(fm_outbox_add(&box, 63, body, sizeof(body)));
	fm_outbox_clear(&box);
}

static const struct fm_test tests[] = {
	{ "in order, whoever does not read", test_order },
	{ "a peer has its part of the memory", test_bound },
};

FM_TEST_MAIN("outbox", tests)
