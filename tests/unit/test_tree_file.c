/* SPDX-License-Identifier: MIT */
/* A tree as a file, over a tree that does what the test says. links: fm_store */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/node/engine.h"
#include "mover/services/transfer/transfer.h"
#include "mover/store/done_list.h"
#include "mover/store/store.h"
#include "mover/store/tree_file.h"
#include "tests/fm_test.h"

#define LEN 4096u

/* What the tree answers, and what it was asked. */
static struct {
	int64_t res;
	const char *text;
	size_t offers;
	atomic_ulong called_on;
	atomic_uint fills, applies, acks, begins, prepares, publishes, keeps, discards, stops,
		closes;
	atomic_uint_fast64_t seq;
	bool is_rewritten;		/* the peer writes to the slot while the pack is applied */
	atomic_uint at_once, at_once_max;	/* applies */
	atomic_bool is_held;		/* an apply does not end */
} tree_is;

static struct fm_tree tree;
static struct fm_loop *loop;
static struct fm_done_list done_list;
static struct fm_lane_io lane;
static struct fm_file *file;
static unsigned told, closed, dones;
static _Alignas(4096) uint8_t buf[LEN];
static uint8_t sent[LEN];		/* what was in it */

static int64_t tree_fill(struct fm_tree *t, uint64_t seq, void *to, size_t len, struct fm_err *err)
{
	CU_ASSERT_PTR_EQUAL(t, &tree);
	CU_ASSERT_EQUAL(len, LEN);
	tree_is.called_on = (unsigned long)pthread_self();
	tree_is.seq = seq;
	tree_is.fills++;
	if (tree_is.res > 0 && tree_is.res <= (int64_t)len)
		memset(to, 7, (size_t)tree_is.res);
	if (tree_is.text)
		(void)fm_err_set(err, (int)tree_is.res, "%s", tree_is.text);
	return tree_is.res;
}

static int tree_apply(struct fm_tree *t, const void *pack, size_t len, uint8_t *bits, size_t *count,
		      struct fm_err *err)
{
	unsigned now = ++tree_is.at_once;

	CU_ASSERT_PTR_EQUAL(t, &tree);
	if (now > tree_is.at_once_max)
		tree_is.at_once_max = now;
	if (tree_is.is_rewritten) {
		memset(buf, 0xee, LEN);
		CU_ASSERT_EQUAL(memcmp(pack, sent, len), 0);
	}
	tree_is.applies++;
	sched_yield();		/* more of them at once, if there can be */
	while (tree_is.is_held)
		(void)usleep(1000);
	tree_is.at_once--;
	*count = tree_is.offers;
	if (tree_is.offers > 0)
		bits[0] = 5;
	if (tree_is.text)
		(void)fm_err_set(err, (int)tree_is.res, "%s", tree_is.text);
	return (int)tree_is.res;
}

static void tree_acked(struct fm_tree *t, uint64_t seq)
{
	(void)t;
	tree_is.acks++;
	tree_is.seq = seq;
}

static int tree_begin(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err)
{
	(void)err;
	CU_ASSERT_STRING_EQUAL(how->source.node, "n1");
	t->is_partial = true;
	t->note = "a note";
	tree_is.begins++;
	return 0;
}

static int tree_log(struct fm_tree *t, struct fm_err *err)
{
	(void)t;
	return fm_err_set(err, -EROFS, "a read-only disk");
}

static int tree_prepare(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	(void)t;
	(void)err;
	CU_ASSERT_TRUE(is_durable);
	tree_is.prepares++;
	return 0;
}

static int tree_publish(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	(void)t;
	(void)err;
	CU_ASSERT_TRUE(is_durable && tree_is.prepares == 1);
	tree_is.publishes++;
	return 0;
}

static void tree_keep(struct fm_tree *t)
{
	(void)t;
	tree_is.keeps++;
}

static void tree_discard(struct fm_tree *t)
{
	(void)t;
	tree_is.discards++;
}

static void tree_stop(struct fm_tree *t)
{
	(void)t;
	tree_is.stops++;
}

static void tree_close(struct fm_tree *t)
{
	(void)t;
	tree_is.closes++;
}

static const struct fm_tree_ops tree_ops = {
	.begin = tree_begin,
	.fill = tree_fill,
	.acked = tree_acked,
	.apply = tree_apply,
	.log = tree_log,
	.prepare = tree_prepare,
	.publish = tree_publish,
	.keep = tree_keep,
	.discard = tree_discard,
	.stop = tree_stop,
	.close = tree_close,
};

static void on_told(void *ctx)
{
	CU_ASSERT_PTR_EQUAL(ctx, &told);
	told++;
}

static void on_closed(void *ctx)
{
	CU_ASSERT_PTR_EQUAL(ctx, &closed);
	CU_ASSERT_EQUAL(tree_is.closes, 1);
	closed++;
}

static void io_done(struct fm_io *io)
{
	(void)io;
	dones++;
}

static void begin(bool is_source, unsigned threads)
{
	const struct fm_tree_file_opts o = {
		.tree = &tree, .threads = threads, .closed = on_closed, .ctx = &closed};

	memset(&tree_is, 0, sizeof(tree_is));
	tree = (struct fm_tree){ .ops = &tree_ops, .is_source = is_source };
	told = closed = dones = 0;
	CU_ASSERT_EQUAL_FATAL(
		fm_loop_new(&(struct fm_loop_opts){.is_simulated = threads == 0}, &loop, NULL), 0);
	fm_done_list_init(&done_list, loop);
	lane = (struct fm_lane_io){ .loop = loop, .done = &done_list };
	CU_ASSERT_EQUAL_FATAL(fm_tree_file_new(&o, &file, NULL), 0);
	CU_ASSERT_PTR_EQUAL(file->tree, &tree);
	fm_tree_file_listen(file, loop, on_told, &told);
}

static void end(void)
{
	while (fm_loop_step(loop, 0))
		;
	file->ops->close(file);
	CU_ASSERT_EQUAL(closed, 1);
	fm_loop_free(loop);
}

/* The loop is both the lane's and the control thread's. */
static void wait_for(const unsigned *what, unsigned count)
{
	while (*what < count)
		(void)fm_loop_step(loop, FM_NS_PER_S);
}

static int64_t read_one(uint64_t seq)
{
	struct fm_io io = { .done = io_done, .buf = buf, .len = LEN, .offset = seq };
	unsigned want = dones + 1;

	file->ops->read(file, &lane, &io);
	CU_ASSERT_EQUAL(dones, want - 1);	/* never from inside the call */
	wait_for(&dones, want);
	return io.res;
}

static int64_t write_one(uint64_t seq, uint32_t len)
{
	struct fm_io io = { .done = io_done, .buf = buf, .len = len, .offset = seq };
	unsigned want = dones + 1;

	file->ops->write(file, &lane, &io);
	wait_for(&dones, want);
	return io.res;
}

static void read_with(unsigned threads)
{
	begin(true, threads);
	tree_is.res = 100;
	CU_ASSERT_EQUAL(read_one(41), 100);
	CU_ASSERT_EQUAL(tree_is.seq, 41);
	CU_ASSERT_EQUAL(buf[99], 7);
	CU_ASSERT_EQUAL(tree_is.called_on != (unsigned long)pthread_self(), threads > 0);
	wait_for(&told, 1);
	tree_is.res = -EAGAIN;
	CU_ASSERT_EQUAL(read_one(42), -EAGAIN);
	tree_is.res = 0;
	CU_ASSERT_EQUAL(read_one(43), 0);
	file->ops->acked(file, 41);
	CU_ASSERT_EQUAL(tree_is.seq, 41);
	CU_ASSERT_EQUAL(tree_is.acks, 1);
	end();
}

static void test_read(void)
{
	read_with(2);
}

static void test_read_simulated(void)
{
	read_with(0);
}

static void test_first_error(void)
{
	struct fm_err why = { 0 };

	begin(true, 2);
	file->ops->why(file, &why);
	CU_ASSERT_EQUAL(why.code, 0);
	tree_is.res = -EACCES;
	tree_is.text = "\"a/b\" may not be read";
	CU_ASSERT_EQUAL(read_one(0), -EACCES);
	tree_is.res = -EIO;
	tree_is.text = "another one";
	CU_ASSERT_EQUAL(read_one(1), -EIO);
	file->ops->why(file, &why);
	CU_ASSERT_EQUAL(why.code, -EACCES);
	CU_ASSERT_STRING_EQUAL(why.text, "\"a/b\" may not be read");
	end();
}

/* Codes that mean something else to the lanes, and lengths that cannot be. */
static void test_odd_results(void)
{
	struct fm_err why = { 0 };

	begin(true, 2);
	tree_is.res = -ECANCELED;
	CU_ASSERT_EQUAL(read_one(0), -EIO);
	file->ops->why(file, &why);
	CU_ASSERT_EQUAL(why.code, -EIO);
	tree_is.res = LEN + 1;
	CU_ASSERT_EQUAL(read_one(1), -EIO);
	end();
	begin(false, 2);
	tree_is.res = -EAGAIN;
	CU_ASSERT_EQUAL(write_one(0, 64), -EIO);
	tree_is.res = -EBADMSG;		/* as a damaged file system says */
	CU_ASSERT_EQUAL(write_one(0, 64), -EIO);
	tree_is.res = 0;
	tree_is.offers = FM_TREE_OFFERS_MAX + 1;
	CU_ASSERT_EQUAL(write_one(1, 64), -EIO);
	end();
}

static void answer_with(unsigned threads)
{
	struct fm_io io = { .done = io_done, .buf = buf, .len = 64, .offset = 9 };
	struct fm_tree_answer a;

	begin(false, threads);
	CU_ASSERT_EQUAL(write_one(8, 72), 72);
	CU_ASSERT_FALSE(fm_tree_file_pop_answer(file, &a));
	tree_is.offers = 3;
	file->ops->write(file, &lane, &io);
	wait_for(&told, 1);
	for (unsigned i = 0; i < 10; i++)
		(void)fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(dones, 1);
	CU_ASSERT_TRUE(fm_tree_file_pop_answer(file, &a));
	CU_ASSERT_EQUAL(a.seq, 9);
	CU_ASSERT_EQUAL(a.count, 3);
	CU_ASSERT_EQUAL(a.bits[0], 5);
	CU_ASSERT_EQUAL(a.bits[1], 0);
	CU_ASSERT_FALSE(fm_tree_file_pop_answer(file, &a));
	wait_for(&dones, 2);
	CU_ASSERT_EQUAL(io.res, 64);
	end();
}

static void test_answer(void)
{
	answer_with(2);
}

static void test_answer_simulated(void)
{
	answer_with(0);
}

/* Whatever happens to the slot meanwhile: the tree gets what was there once, and that is what the
 * CRC is of. */
static void test_copy(void)
{
	struct fm_io io = { .done = io_done, .buf = buf, .len = LEN };
	uint32_t crc;

	begin(false, 2);
	for (unsigned i = 0; i < LEN; i++)
		sent[i] = (uint8_t)(i * 7);
	crc = fm_crc32c(0, sent, LEN);
	io.crc = &crc;
	memcpy(buf, sent, LEN);
	tree_is.is_rewritten = true;
	file->ops->write(file, &lane, &io);
	wait_for(&dones, 1);
	CU_ASSERT_EQUAL(io.res, LEN);
	file->ops->write(file, &lane, &io);	/* as it is now */
	wait_for(&dones, 2);
	CU_ASSERT_EQUAL(io.res, -EBADMSG);
	CU_ASSERT_EQUAL(tree_is.applies, 1);
	end();
}

/* Where there is memory for one copy, packs are applied one after the other. */
static void test_copies_wait(void)
{
	static struct fm_io io[32];

	begin(false, 4);
	fm_budget_set((fm_budget_used() + LEN + LEN / 2) * 8 / 7 + 8);
	for (unsigned i = 0; i < 32; i++) {
		io[i] = (struct fm_io){ .done = io_done, .buf = buf, .len = LEN, .offset = i };
		file->ops->write(file, &lane, &io[i]);
	}
	wait_for(&dones, 32);
	for (unsigned i = 0; i < 32; i++)
		CU_ASSERT_EQUAL(io[i].res, LEN);
	CU_ASSERT_EQUAL(tree_is.at_once_max, 1);
	fm_budget_set(UINT64_MAX);
	end();
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
}

/*
 * Goal: where there is memory for a small copy and none for a large one, all packs that waited for
 * the small one's end. The sleep only gives them time to begin to wait: without it they end, too.
 */
static void test_copies_do_not_wait_for_nobody(void)
{
	static struct fm_io io[4];
	uint64_t ended;

	begin(false, 4);
	fm_budget_set((fm_budget_used() + LEN / 2) * 8 / 7 + 8);
	tree_is.is_held = true;
	for (unsigned i = 0; i < 4; i++) {
		io[i] = (struct fm_io){
			.done = io_done, .buf = buf, .len = i == 0 ? 64 : LEN, .offset = i};
		file->ops->write(file, &lane, &io[i]);
		while (tree_is.at_once == 0)
			(void)usleep(1000);
	}
	(void)usleep(20000);
	CU_ASSERT_EQUAL(fm_tree_file_calls(file, &ended), 4);
	tree_is.is_held = false;
	wait_for(&dones, 4);
	CU_ASSERT_EQUAL(io[0].res, 64);
	for (unsigned i = 1; i < 4; i++)
		CU_ASSERT_EQUAL(io[i].res, -ENOMEM);
	fm_budget_set(UINT64_MAX);
	end();
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
}

static void test_stop(void)
{
	struct fm_io io = { .done = io_done, .buf = buf, .len = 64 };
	struct fm_tree_answer a;

	begin(false, 2);
	tree_is.offers = 1;
	file->ops->write(file, &lane, &io);
	wait_for(&told, 1);
	fm_tree_file_stop(file);
	CU_ASSERT_EQUAL(tree_is.stops, 1);
	CU_ASSERT_FALSE(fm_tree_file_pop_answer(file, &a));
	wait_for(&dones, 1);
	CU_ASSERT_EQUAL(write_one(1, 64), -ECANCELED);
	CU_ASSERT_EQUAL(tree_is.applies, 1);
	file->ops->keep(file);
	CU_ASSERT_EQUAL(tree_is.keeps, 1);
	end();
}

/* An answer that comes when nobody takes answers any more does not hold its write up. */
static void test_stop_first(void)
{
	struct fm_io io = { .done = io_done, .buf = buf, .len = 64 };

	begin(false, 0);
	tree_is.offers = 1;
	file->ops->write(file, &lane, &io);
	fm_tree_file_stop(file);
	wait_for(&dones, 1);
	CU_ASSERT_EQUAL(io.res, -ECANCELED);
	end();
}

static void test_worker_calls(void)
{
	const struct fm_identity source = { .node = "n1" };
	struct fm_have have = { .crc = 0 };
	struct fm_attr attr = { .type = FM_NODE_DIR };
	struct fm_err err = { 0 };

	begin(false, 1);
	CU_ASSERT_EQUAL(file->ops->begin(file, &source, &have, &err), 0);
	CU_ASSERT_EQUAL(tree_is.begins, 1);
	CU_ASSERT_STRING_EQUAL(file->note, "a note");
	CU_ASSERT_EQUAL(file->ops->log(file, NULL, 0, &err), -EROFS);
	CU_ASSERT_STRING_EQUAL(err.text, "a read-only disk");
	CU_ASSERT_EQUAL(file->ops->publish(file, 0, &attr, true, &err), 0);
	CU_ASSERT_EQUAL(tree_is.publishes, 1);
	end();
	begin(false, 1);
	CU_ASSERT_EQUAL(file->ops->prepare(file, 0, &attr, true, &err), 0);
	CU_ASSERT_EQUAL(file->ops->publish(file, 0, &attr, true, &err), 0);
	CU_ASSERT_EQUAL(tree_is.prepares, 1);
	end();
	begin(false, 1);
	file->ops->discard(file);
	CU_ASSERT_EQUAL(tree_is.discards, 1);
	end();
}

static void test_many(void)
{
	static struct fm_io io[64];
	static _Alignas(4096) uint8_t bufs[64][LEN];

	begin(true, 4);
	tree_is.res = 1;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 64; i++) {
			io[i] = (struct fm_io){
				.done = io_done, .buf = bufs[i], .len = LEN, .offset = i};
			file->ops->read(file, &lane, &io[i]);
		}
		wait_for(&dones, (round + 1) * 64);
	}
	CU_ASSERT_EQUAL(tree_is.fills, 20 * 64);
	end();
}

/*
 * Goal: a tree for which others leave no memory now is refused as such, and what an earlier try has
 * brought stays for the next one; what is new, or goes out, leaves nothing.
 */
static void test_full(void)
{
	const struct fm_tree_file_opts o = {
		.tree = &tree, .threads = 2, .who = fm_share_name("n1")};
	/* of the 2 MiB that trees may have; 256 KiB are root's */
	const uint64_t most = 3 << 19;
	struct fm_share_held others = { 0 };
	struct fm_err err;

	fm_budget_set(4 << 20);
	CU_ASSERT_TRUE_FATAL(fm_budget_take_waiting(fm_share_name("n2"), most, &others));
	for (unsigned i = 0; i < 4; i++) {
		const bool is_source = i & 1, is_partial = i & 2;

		memset(&tree_is, 0, sizeof(tree_is));
		tree = (struct fm_tree){
			.ops = &tree_ops, .is_source = is_source, .is_partial = is_partial};
		CU_ASSERT_EQUAL(fm_tree_file_new(&o, &file, &err), -EBUSY);
		CU_ASSERT_TRUE(err.is_full);
		CU_ASSERT_EQUAL(tree_is.keeps, is_partial && !is_source);
		CU_ASSERT_EQUAL(tree_is.closes, 1);
	}
	fm_budget_give_waiting(most, &others);
	fm_budget_set(UINT64_MAX);
}

/*
 * Goal: as many directories as there are places for those of one peer can be had, on a machine of
 * many processors too, with the memory that there is by default.
 */
static void test_places_have_memory(void)
{
	static struct fm_tree trees[FM_TREES_PEERS_MAX / 2];
	const size_t count = sizeof(trees) / sizeof(trees[0]);
	struct fm_file *files[sizeof(trees) / sizeof(trees[0])] = { NULL };
	struct fm_tree_file_opts o = { .threads = 16, .who = fm_share_name("n1") };
	struct fm_err err;

	fm_budget_set(256u << 20);	/* what memory.total leaves beside the arena */
	for (size_t i = 0; i < count; i++) {
		trees[i] = (struct fm_tree){ .ops = &tree_ops };
		o.tree = &trees[i];
		CU_ASSERT_EQUAL(fm_tree_file_new(&o, &files[i], &err), 0);
	}
	for (size_t i = 0; i < count; i++)
		if (files[i])
			files[i]->ops->close(files[i]);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(UINT64_MAX);
}

#ifdef FM_FAULTS
static void test_no_copy(void)
{
	struct fm_err why = { 0 };

	begin(false, 2);
	fm_fault_arm("tree_file.copy", 1);
	CU_ASSERT_EQUAL(write_one(0, 64), -ENOMEM);
	fm_fault_arm(NULL, 0);
	file->ops->why(file, &why);
	CU_ASSERT_EQUAL(why.code, -ENOMEM);
	CU_ASSERT_EQUAL(write_one(0, 64), 64);
	end();
}

/* The tree is closed in any case; who made it is not told then. */
static void test_no_memory(void)
{
	const struct fm_tree_file_opts o = {
		.tree = &tree, .threads = 2, .closed = on_closed, .ctx = &closed};
	unsigned n = 1;

	for (;; n++) {
		struct fm_err err = { 0 };
		int ret;

		memset(&tree_is, 0, sizeof(tree_is));
		closed = 0;
		tree = (struct fm_tree){ .ops = &tree_ops, .is_source = true };
		fm_fault_arm(NULL, n);
		ret = fm_tree_file_new(&o, &file, &err);
		fm_fault_arm(NULL, 0);
		if (ret == 0)
			break;
		CU_ASSERT_TRUE(err.text[0]);
		CU_ASSERT_EQUAL(tree_is.closes, 1);
		CU_ASSERT_EQUAL(closed, 0);
	}
	CU_ASSERT_TRUE(n > 3);
	file->ops->close(file);
	CU_ASSERT_EQUAL(closed, 1);
}
#endif

static const struct fm_test tests[] = {
	{"a read is a pack of the tree, made by a thread of its own", test_read},
	{"the same without threads", test_read_simulated},
	{"the text of the first error is kept", test_first_error},
	{"codes and lengths that a tree may not return become errors", test_odd_results},
	{"a pack that offers ends when its answer was taken", test_answer},
	{"the same without threads", test_answer_simulated},
	{"a pack is a copy, whose CRC it is that counts", test_copy},
	{"without memory for another copy packs wait for one", test_copies_wait},
	{"no pack waits for a copy that nobody has", test_copies_do_not_wait_for_nobody},
	{"a tree that is refused for want of memory keeps what an earlier try brought", test_full},
	{"stop ends what waits and begins nothing more", test_stop},
	{"what was begun before a stop ends cancelled", test_stop_first},
	{"begin, log, prepare, publish and discard are the tree's", test_worker_calls},
	{"many packs at once", test_many},
	{"places for directories of a peer have memory, with many processors too",
	 test_places_have_memory},
#ifdef FM_FAULTS
	{"without memory for a single copy the pack is an error", test_no_copy},
	{"a file that cannot be made closes the tree", test_no_memory},
#endif
};
FM_TEST_MAIN("tree_file", tests)
