/* SPDX-License-Identifier: MIT */
/* links: fm_data */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/data/slab.h"

#define SLAB 65536u
static char memory[24 * SLAB];

/* A session alone, which wants for nothing. */
static struct fm_slab_user some[2];		/* per use */

static int take(struct fm_slabs *s, enum fm_slab_use use)
{
	int slab = fm_slabs_take(s, use, &some[use], 0);

	if (slab < 0)
		fm_slabs_unwant(s, use, &some[use]);
	return slab;
}

static void put(struct fm_slabs *s, enum fm_slab_use use, int slab)
{
	fm_slabs_put(s, use, &some[use], slab, false);
}

static struct fm_slabs *slabs_of(unsigned count)
{
	struct fm_slabs *s = NULL;

	CU_ASSERT_EQUAL_FATAL(fm_slabs_new(memory, (size_t)count * SLAB, SLAB, &s, NULL), 0);
	fm_slab_user_init(&some[FM_SLAB_TX]);
	fm_slab_user_init(&some[FM_SLAB_RX]);
	return s;
}

static void test_too_small(void)
{
	struct fm_slabs *s;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_slabs_new(memory, SLAB, SLAB, &s, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "two slabs"));
}

static void test_too_many(void)
{
	struct fm_slabs *s;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_slabs_new(memory, (FM_SLABS_MAX + UINT64_C(1)) * SLAB, SLAB, &s, &err),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "more than 1048576 slabs of 65536"));
}

/* Goal: no use can take what the other needs to make progress. */
static void test_halves(void)
{
	struct fm_slabs *s = slabs_of(5);
	int tx[5], n = 0;

	while ((tx[n] = take(s, FM_SLAB_TX)) >= 0)
		n++;
	CU_ASSERT_EQUAL(n, 2);
	CU_ASSERT_EQUAL(tx[n], -EAGAIN);
	for (int i = 0; i < 3; i++)
		CU_ASSERT_TRUE(take(s, FM_SLAB_RX) >= 0);
	CU_ASSERT_EQUAL(take(s, FM_SLAB_RX), -EAGAIN);
	CU_ASSERT_EQUAL(fm_slabs_free_count(s), 0);
	for (int i = 0; i < 2; i++)
		put(s, FM_SLAB_TX, tx[i]);
	CU_ASSERT_EQUAL(take(s, FM_SLAB_RX), -EAGAIN);
	for (int i = 0; i < 5; i++)
		if (i != tx[0] && i != tx[1])
			put(s, FM_SLAB_RX, i);
	CU_ASSERT_EQUAL(fm_slabs_free_count(s), 5);
	fm_slabs_free(s);
}

static void test_disjoint(void)
{
	struct fm_slabs *s = slabs_of(8);
	int a = take(s, FM_SLAB_TX), b = take(s, FM_SLAB_RX);
	char *at_a = fm_slabs_at(s, a), *at_b = fm_slabs_at(s, b);

	CU_ASSERT_NOT_EQUAL(a, b);
	CU_ASSERT_EQUAL((size_t)(at_a - memory) % SLAB, 0);
	CU_ASSERT_TRUE(at_a + SLAB <= at_b || at_b + SLAB <= at_a);
	put(s, FM_SLAB_TX, a);
	CU_ASSERT_EQUAL(take(s, FM_SLAB_TX), a);	/* the warm one first */
	put(s, FM_SLAB_TX, a);
	put(s, FM_SLAB_RX, b);
	fm_slabs_free(s);
}

#define MAX 16u

/* Sessions with many connections each, all of which want a slab that sends, again and again. */
struct session {
	struct fm_slab_user user;
	int slab[MAX];
	bool is_giving[MAX];
	bool stands_still;		/* what it was asked for never comes */
};

static void session_init(struct session *x)
{
	memset(x, 0, sizeof(*x));
	fm_slab_user_init(&x->user);
	for (unsigned i = 0; i < MAX; i++)
		x->slab[i] = -1;
}

static void session_give(struct fm_slabs *s, struct session *x, unsigned i)
{
	fm_slabs_put(s, FM_SLAB_TX, &x->user, x->slab[i], x->is_giving[i]);
	x->slab[i] = -1;
	x->is_giving[i] = false;
}

/* Each connection that has none tries to have one; each that has one looks whether to give it, and
 * does a while later. */
static void session_step(struct fm_slabs *s, struct session *x, uint64_t now_ns)
{
	for (unsigned i = 0; i < MAX; i++)
		if (x->slab[i] >= 0 && x->is_giving[i] && !x->stands_still)
			session_give(s, x, i);
	for (unsigned i = 0; i < MAX; i++)
		if (x->slab[i] < 0)
			x->slab[i] = fm_slabs_take(s, FM_SLAB_TX, &x->user, now_ns);
		else
			(void)fm_slabs_ask_back(s, FM_SLAB_TX, &x->user, &x->is_giving[i], now_ns);
}

static void steps(struct fm_slabs *s, struct session *x, unsigned count, uint64_t from_ms,
		  uint64_t to_ms)
{
	for (uint64_t ms = from_ms; ms < to_ms; ms++)
		for (unsigned i = 0; i < count; i++)
			session_step(s, &x[i], ms * FM_NS_PER_MS);
}

static void end(struct fm_slabs *s, struct session *x, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		for (unsigned c = 0; c < MAX; c++)
			if (x[i].slab[c] >= 0)
				session_give(s, &x[i], c);
		fm_slabs_unwant(s, FM_SLAB_TX, &x[i].user);
		CU_ASSERT_EQUAL(x[i].user.giving, 0);
	}
	fm_slabs_free(s);
}

static void test_shares(void)
{
	struct fm_slabs *s = slabs_of(24);
	struct session x[5];

	for (unsigned i = 0; i < 5; i++)
		session_init(&x[i]);
	steps(s, x, 1, 0, 10);
	CU_ASSERT_EQUAL(x[0].user.held, 12);	/* all that send */
	steps(s, x, 2, 10, 30);
	CU_ASSERT_EQUAL(x[0].user.held, 6);
	CU_ASSERT_EQUAL(x[1].user.held, 6);
	steps(s, x, 3, 30, 60);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(x[i].user.held, 4);
	steps(s, x, 5, 60, 100);
	for (unsigned i = 0; i < 5; i++)
		/* what is left of 12 is anybody's */
		CU_ASSERT_TRUE(x[i].user.held >= 2 && x[i].user.held <= 4);
	end(s, x, 5);
}

/*
 * Goal: where there are more sessions than slabs, each has one again and again, for about as long
 * as the others, and none for only a moment.
 */
static void test_turns(unsigned count)
{
	struct fm_slabs *s = slabs_of(8);
	struct session x[MAX];
	unsigned had_ms[MAX] = { 0 }, times[MAX] = { 0 }, all_ms = 0;

	for (unsigned i = 0; i < count; i++)
		session_init(&x[i]);
	for (uint64_t ms = 0; ms < 5000; ms++) {
		for (unsigned i = 0; i < count; i++) {
			bool had = x[i].user.held > 0;

			session_step(s, &x[i], ms * FM_NS_PER_MS);
			had_ms[i] += x[i].user.held > 0;
			times[i] += !had && x[i].user.held > 0;
			all_ms += x[i].user.held;
		}
	}
	CU_ASSERT_TRUE(all_ms > 9 * 4 * 500);	/* of 4 slabs */
	for (unsigned i = 0; i < count; i++) {
		CU_ASSERT_TRUE_FATAL(times[i] > 1);
		CU_ASSERT_TRUE(had_ms[i] / times[i] >= 80);
		CU_ASSERT_TRUE(had_ms[i] * count > all_ms / 4 * 3);
	}
	end(s, x, count);
}

static void test_one_too_many(void)
{
	test_turns(5);
}

static void test_far_too_many(void)
{
	test_turns(MAX);
}

/* Goal: a session that has something else to do than to take its turn holds up nobody, nor does one
 * whose slab stands still. */
static void test_turns_go_on(void)
{
	struct fm_slabs *s = slabs_of(4);
	unsigned still = 0, away = 0;
	bool had[5] = { false };
	struct session x[5];

	for (unsigned i = 0; i < 5; i++)
		session_init(&x[i]);
	steps(s, x, 5, 0, 1000);
	for (unsigned i = 0; i < 5; i++)
		*(x[i].user.held > 0 ? &still : &away) = i;
	x[still].stands_still = true;
	for (uint64_t ms = 1000; ms < 4000; ms++) {
		for (unsigned i = 0; i < 5; i++) {
			if (i != away)
				session_step(s, &x[i], ms * FM_NS_PER_MS);
			had[i] |= ms > 1500 && x[i].user.held > 0;
		}
	}
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(had[i], i != away);
	end(s, x, 5);
}

/* Goal: nothing is asked for where there is enough, nor more than is above the share. */
static void test_asks_no_more(void)
{
	struct fm_slabs *s = slabs_of(8);
	struct fm_slab_user a, b;
	bool is_giving[4] = { false };
	int slab[4];

	fm_slab_user_init(&a);
	fm_slab_user_init(&b);
	for (unsigned i = 0; i < 3; i++)
		slab[i] = fm_slabs_take(s, FM_SLAB_TX, &a, 0);
	CU_ASSERT_FALSE(fm_slabs_ask_back(s, FM_SLAB_TX, &a, &is_giving[0], 1));
	slab[3] = fm_slabs_take(s, FM_SLAB_TX, &a, 0);
	CU_ASSERT_EQUAL(fm_slabs_take(s, FM_SLAB_TX, &b, 0), -EAGAIN);
	CU_ASSERT_TRUE(fm_slabs_is_wanted(s, FM_SLAB_TX));
	CU_ASSERT_FALSE(fm_slabs_is_wanted(s, FM_SLAB_RX));
	for (unsigned i = 0; i < 4; i++)
		(void)fm_slabs_ask_back(s, FM_SLAB_TX, &a, &is_giving[i], 1);
	CU_ASSERT_EQUAL(a.giving, 2);
	CU_ASSERT_TRUE(is_giving[0] && is_giving[1] && !is_giving[2] && !is_giving[3]);
	fm_slabs_unwant(s, FM_SLAB_TX, &b);	/* its transfer ended: they are kept */
	CU_ASSERT_FALSE(fm_slabs_is_wanted(s, FM_SLAB_TX));
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_FALSE(fm_slabs_ask_back(s, FM_SLAB_TX, &a, &is_giving[i], 2));
	CU_ASSERT_EQUAL(a.giving, 0);
	for (unsigned i = 0; i < 4; i++)
		fm_slabs_put(s, FM_SLAB_TX, &a, slab[i], is_giving[i]);
	fm_slabs_free(s);
}

/* Goal: slabs with something in them that stands still do not stand for those that could be
 * given. */
static void test_standing_still(void)
{
	struct fm_slabs *s = slabs_of(8);
	struct session x[2];

	session_init(&x[0]);
	session_init(&x[1]);
	steps(s, x, 1, 0, 10);
	x[0].stands_still = true;
	steps(s, x, 2, 10, 20);
	CU_ASSERT_EQUAL(x[0].user.giving, 2);
	CU_ASSERT_EQUAL(x[1].user.held, 0);
	steps(s, x, 2, 20, 500);
	CU_ASSERT_EQUAL(x[0].user.giving, 4);
	x[0].stands_still = false;
	steps(s, x, 2, 500, 900);
	CU_ASSERT_EQUAL(x[0].user.held, 2);
	CU_ASSERT_EQUAL(x[1].user.held, 2);
	end(s, x, 2);
}

static bool is_zero(const char *at)
{
	return at[0] == 0 && memcmp(at, at + 1, SLAB - 1) == 0;
}

static void fill(struct fm_slabs *s, int slab)
{
	memset(fm_slabs_at(s, slab), 's', SLAB);
}

/*
 * Goal: what another session, or the same one for sending, left in a slab is gone when it is
 * cleared, and what the same session received there costs nothing: it is not touched.
 */
static void test_clear(void)
{
	struct fm_slab_user other;
	struct fm_slabs *s;
	int slab;

	memset(memory, 0, sizeof(memory));
	s = slabs_of(2);
	fm_slab_user_init(&other);
	slab = take(s, FM_SLAB_TX);
	fill(s, slab);
	put(s, FM_SLAB_TX, slab);
	CU_ASSERT_EQUAL_FATAL(fm_slabs_take(s, FM_SLAB_RX, &other, 0), slab);
	fm_slabs_clear(s, &other, slab);
	CU_ASSERT_TRUE(is_zero(fm_slabs_at(s, slab)));
	fill(s, slab);
	fm_slabs_put(s, FM_SLAB_RX, &other, slab, false);
	CU_ASSERT_EQUAL_FATAL(fm_slabs_take(s, FM_SLAB_RX, &other, 0), slab);
	fm_slabs_clear(s, &other, slab);
	CU_ASSERT_FALSE(is_zero(fm_slabs_at(s, slab)));
	fm_slabs_put(s, FM_SLAB_RX, &other, slab, false);
	CU_ASSERT_EQUAL_FATAL(take(s, FM_SLAB_RX), slab);
	fm_slabs_clear(s, &some[FM_SLAB_RX], slab);
	CU_ASSERT_TRUE(is_zero(fm_slabs_at(s, slab)));
	put(s, FM_SLAB_RX, slab);
	fm_slabs_free(s);
}

/*
 * Goal: a session does not make another one's bytes its own by having the slab in between without
 * clearing it, as over TCP.
 */
static void test_clear_what_was_only_held(void)
{
	struct fm_slab_user other;
	struct fm_slabs *s;
	int slab;

	memset(memory, 0, sizeof(memory));
	s = slabs_of(2);
	fm_slab_user_init(&other);
	slab = fm_slabs_take(s, FM_SLAB_RX, &other, 0);
	fill(s, slab);
	fm_slabs_put(s, FM_SLAB_RX, &other, slab, false);
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL_FATAL(take(s, FM_SLAB_RX), slab);
		put(s, FM_SLAB_RX, slab);
	}
	CU_ASSERT_EQUAL_FATAL(take(s, FM_SLAB_RX), slab);
	fm_slabs_clear(s, &some[FM_SLAB_RX], slab);
	CU_ASSERT_TRUE(is_zero(fm_slabs_at(s, slab)));
	fill(s, slab);
	put(s, FM_SLAB_RX, slab);
	CU_ASSERT_EQUAL_FATAL(take(s, FM_SLAB_RX), slab);
	fm_slabs_clear(s, &some[FM_SLAB_RX], slab);
	CU_ASSERT_FALSE(is_zero(fm_slabs_at(s, slab)));		/* its own now */
	put(s, FM_SLAB_RX, slab);
	fm_slabs_free(s);
}

/* Goal: a session gets the slabs again that it had, whoever gave one back after it. */
static void test_own_again(void)
{
	struct fm_slab_user other;
	struct fm_slabs *s = slabs_of(12);
	int own[3], others[3];

	fm_slab_user_init(&other);
	for (int i = 0; i < 3; i++) {
		own[i] = take(s, FM_SLAB_RX);
		others[i] = fm_slabs_take(s, FM_SLAB_RX, &other, 0);
	}
	for (int i = 0; i < 3; i++) {
		put(s, FM_SLAB_RX, own[i]);
		fm_slabs_put(s, FM_SLAB_RX, &other, others[i], false);
	}
	for (int i = 3; i-- > 0;)
		CU_ASSERT_EQUAL(take(s, FM_SLAB_RX), own[i]);
	for (int i = 3; i-- > 0;)
		CU_ASSERT_EQUAL(fm_slabs_take(s, FM_SLAB_RX, &other, 0), others[i]);
	for (int i = 0; i < 3; i++) {
		put(s, FM_SLAB_RX, own[i]);
		fm_slabs_put(s, FM_SLAB_RX, &other, others[i], false);
	}
	fm_slabs_free(s);
}

static const struct fm_test tests[] = {
	{"an arena that does not hold two slabs is refused with the numbers", test_too_small},
	{"an arena of too many slabs is refused with the numbers", test_too_many},
	{"sending and receiving each get at most their half, and get it whatever the other does",
	 test_halves},
	{"two leases never overlap, and the last slab given back is taken first", test_disjoint},
	{"what others left in a slab is cleared, and not what its session received there",
	 test_clear},
	{"what others left is cleared though a session had the slab since",
	 test_clear_what_was_only_held},
	{"a session gets the slabs again that it had", test_own_again},
	{"sessions come to have equal shares, whoever came first", test_shares},
	{"with one session more than slabs each has its turn", test_one_too_many},
	{"with many sessions more than slabs each has its turn", test_far_too_many},
	{"who is away, or stands still, holds up no other's turn", test_turns_go_on},
	{"no more is asked back than is above the share, and only while somebody wants for his",
	 test_asks_no_more},
	{"what stands still is not waited for: the rest is asked back", test_standing_still},
};
FM_TEST_MAIN("slab", tests)
