/* SPDX-License-Identifier: MIT */
/* links: fm_queue fm_config */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "config/check.h"
#include "config/config.h"
#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/node/engine.h"
#include "mover/services/transfer/job.h"
#include "mover/data/lane.h"
#include "mover/data/link.h"
#include "mover/queue/queue.h"
#include "mover/store/store.h"
#include "mover/transport/transport.h"
#include "mover/tree/tree.h"
#include "mover/wire/wire.h"
#include "mover/data/xfer.h"

#define SLAB 65536u
#define CHUNK 4096u * 4

static const struct fm_conn_info by_tcp = { .kind = FM_KIND_TCP, .encryption = FM_TLS };
static const struct fm_conn_info by_rdma = { .kind = FM_KIND_RDMA };
static char memory[8 * SLAB];
static uint8_t content[10 * CHUNK];

/* A file with data in [0, 5000) and [5 * 4096, 6 * 4096 + 10) and a hole to the end. */
static int holey_next(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	(void)file;
	if (offset < 5000)
		*from = offset, *to = 5000;
	else if (offset < 6 * 4096 + 10)
		*from = offset > 5 * 4096 ? offset : 5 * 4096, *to = 6 * 4096 + 10;
	else
		*from = *to = 20 * 4096;
	return 0;
}

static const struct fm_file_ops plain_ops;
static const struct fm_file_ops holey_ops = { .next_data = holey_next };
static const struct fm_file_ops pack_ops;
static struct fm_tree tree;

struct world {
	struct fm_loop *loop;
	struct fm_slabs *slabs;
	struct fm_rate rate;
	struct fm_shared_rate shared;
	struct fm_link *link;
	struct fm_file file;
	struct fm_xfer *x;
};

static unsigned notified, drained;

static void on_notify(struct fm_task *task)
{
	(void)task;
	notified++;
}

static void on_drained(struct fm_task *task)
{
	(void)task;
	drained++;
}

/* A pipe: what is written waits until the test takes it. */
static struct fm_io *writing;

static void stream_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	(void)file;
	(void)lane;
	CU_ASSERT_PTR_NULL(writing);	/* one at a time */
	writing = io;
}

static void stream_cancel(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	(void)file;
	(void)lane;
	CU_ASSERT_PTR_EQUAL(writing, io);
	writing = NULL;
	io->res = -ECANCELED;
	io->done(io);
}

/* A file that does not answer: any number of writes wait until the test ends them. */
static struct fm_io *standing[FM_BESIDE_CHUNKS_MAX];

static void standing_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	(void)file;
	(void)lane;
	CU_ASSERT_PTR_NULL(standing[io->offset / (CHUNK) % FM_BESIDE_CHUNKS_MAX]);
	standing[io->offset / (CHUNK) % FM_BESIDE_CHUNKS_MAX] = io;
}

static const struct fm_file_ops standing_ops = { .write = standing_write };

/* The same, and what is written to it is read back: those wait in the same places. */
static const struct fm_file_ops read_back_ops = { .write = standing_write, .read = standing_write };

static const struct fm_file_ops stream_ops = { .write = stream_write, .cancel = stream_cancel };

static void world_new(struct world *w, bool is_source, uint64_t size, const struct fm_file_ops *ops)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &fm_clock_real };
	struct fm_xfer_opts o = {.id = 7,
				 .is_source = is_source,
				 .file = &w->file,
				 .size = size,
				 .chunk_bytes = CHUNK,
				 .kinds = 1u << FM_KIND_TCP,
				 .is_read_back = ops == &read_back_ops,
				 .progressed = on_notify,
				 .drained = on_drained};

	memset(w, 0, sizeof(*w));
	notified = drained = 0;
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 7 + i / 255);
	w->file.ops = ops;
	w->file.is_stream = ops == &stream_ops;
	w->file.may_stand = ops == &standing_ops || ops == &stream_ops || ops == &read_back_ops;
	w->file.tree = ops == &pack_ops ? &tree : NULL;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &w->loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_slabs_new(memory, sizeof(memory), SLAB, &w->slabs, NULL), 0);
	pthread_mutex_init(&w->shared.lock, NULL);
	w->shared.rate = &w->rate;
	CU_ASSERT_EQUAL_FATAL(fm_link_new(w->slabs, &w->shared, &w->link, NULL), 0);
	o.control = w->loop;
	CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &w->x, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_link_add(w->link, w->x), 0);
}

static void spin(struct world *w)
{
	while (fm_loop_step(w->loop, 0))
		;
}

static void world_free(struct world *w)
{
	if (!w->x->is_removed)
		fm_link_remove(w->link, w->x);
	spin(w);
	CU_ASSERT_EQUAL(drained, 1);
	fm_xfer_free(w->x);
	fm_link_unref(w->link);
	fm_slabs_free(w->slabs);
	fm_loop_free(w->loop);
}

/* What a journal or a caller says is there goes into READY as it is. */
static void test_bad_have(void)
{
	struct fm_have have = { .crc = 7 };
	struct world w;

	world_new(&w, false, 100000, &plain_ops);
	CU_ASSERT_EQUAL(fm_xfer_set_have(w.x, &have), -EPROTO);		/* a CRC of no bytes */
	/* ends in the middle of a block */
	CU_ASSERT_EQUAL(fm_ranges_add(&have.ranges, 4096, 100, 10), 0);
	CU_ASSERT_EQUAL(fm_xfer_set_have(w.x, &have), -EPROTO);
	fm_ranges_free(&have.ranges);
	for (uint64_t i = 0; i <= FM_WIRE_RANGES_MAX; i++)
		CU_ASSERT_EQUAL(
			fm_ranges_add(&have.ranges, 2 * i * 4096, 4096, FM_WIRE_RANGES_MAX + 1), 0);
	w.x->o.size = UINT64_C(1) << 40;
	/* more than READY can say */
	CU_ASSERT_EQUAL(fm_xfer_set_have(w.x, &have), -EPROTO);
	fm_ranges_free(&have.ranges);
	world_free(&w);
}

static unsigned held;

static unsigned held_by(const void *who, const struct fm_xfer *x)
{
	(void)who;
	(void)x;
	return held;
}

static bool has_work(struct world *w, const void *who)
{
	return fm_link_has_work(w->link, &(struct fm_claim){.who = who, .kind = FM_KIND_TCP});
}

static bool claim(struct world *w, const void *who, struct fm_chunk *c)
{
	const struct fm_claim ask = {.who = who, .kind = FM_KIND_TCP, .now_ns = 1, .held = held_by};
	uint64_t again;
	struct fm_xfer *x = fm_link_claim(w->link, &ask, c, &again);

	if (!x)
		return false;
	CU_ASSERT_PTR_EQUAL(x, w->x);
	c->crc = fm_crc32c(0, content + c->offset, c->len);
	return true;
}

static void acked(struct world *w, const struct fm_chunk *c)
{
	pthread_mutex_lock(&w->link->lock);
	fm_xfer_acked(w->x, c, &by_tcp);
	pthread_mutex_unlock(&w->link->lock);
	fm_xfer_unref(w->x);
}

/* A file of a tree has the tree's rate; both are over, and the tree is freed first. */
static void test_read_behind_the_tree(void)
{
	struct fm_xfer_opts o = { .id = 8, .is_source = true, .chunk_bytes = CHUNK,
				  .progressed = on_notify, .drained = on_drained };
	struct fm_xfer *of_tree;
	struct fm_chunk c;
	struct world w;

	world_new(&w, true, CHUNK, &plain_ops);
	o.file = &w.file;
	o.control = w.loop;
	CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &of_tree, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_link_add(w.link, of_tree), 0);
	w.x->o.rate_of = of_tree;
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &c));
	fm_link_remove(w.link, w.x);
	fm_link_remove(w.link, of_tree);
	spin(&w);
	CU_ASSERT_EQUAL_FATAL(drained, 1);
	fm_xfer_free(of_tree);
	CU_ASSERT_FALSE(fm_link_read(w.x, &c, CHUNK));
	fm_xfer_unref(w.x);
	spin(&w);
	CU_ASSERT_EQUAL(drained, 2);
	fm_xfer_free(w.x);
	fm_link_unref(w.link);
	fm_slabs_free(w.slabs);
	fm_loop_free(w.loop);
}

static void test_in_order_and_whole(void)
{
	uint64_t size = 5 * CHUNK + 13, at = 0;
	struct fm_chunk c[16];
	struct world w;
	unsigned n = 0;

	world_new(&w, true, size, &plain_ops);
	while (claim(&w, &w, &c[n])) {
		CU_ASSERT_EQUAL(c[n].seq, n);
		CU_ASSERT_EQUAL(c[n].offset, at);
		at += c[n++].len;
	}
	CU_ASSERT_EQUAL(at, size);
	CU_ASSERT_EQUAL(n, 6);
	while (n-- > 0)		/* acknowledged in any order */
		acked(&w, &c[n]);
	spin(&w);
	CU_ASSERT_EQUAL(notified, 1);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	CU_ASSERT_EQUAL(fm_xfer_crc(w.x, size), fm_crc32c(0, content, size));
	world_free(&w);
}

static void lose(struct world *w, const struct fm_chunk *chunk)
{
	pthread_mutex_lock(&w->link->lock);
	fm_xfer_lost(w->x, chunk);
	pthread_mutex_unlock(&w->link->lock);
	fm_xfer_unref(w->x);
}

static const struct fm_conn_info ways[] = {
	{.local = "mlx5_0", .local_addr = "10.0.0.1", .remote_addr = "10.0.0.2"},
	{.local = "mlx5_1", .local_addr = "10.0.1.1", .remote_addr = "10.0.1.2"},
	{.local = "mlx5_0", .local_addr = "10.0.2.1", .remote_addr = "10.0.2.2"},
	{.local = "mlx5_1", .local_addr = "10.0.1.1", .remote_addr = "10.0.3.2"},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool claim_by(struct world *w, size_t way, struct fm_chunk *c)
{
	const struct fm_claim ask = {
		.who = &ways[way], .kind = FM_KIND_TCP, .info = &ways[way], .now_ns = 1};
	uint64_t again;
	bool is_there = fm_link_has_work(w->link, &ask);
	bool is_claimed = fm_link_claim(w->link, &ask, c, &again) != NULL;

	CU_ASSERT_EQUAL(is_there, is_claimed);
	if (is_claimed)
		c->crc = fm_crc32c(0, content + c->offset, c->len);
	return is_claimed;
}

/* Goal: what one device, one address or one rail alone may carry no other connection gets a chunk
 * of, nor one that was lost. */
static void test_only_these(void)
{
	const struct {
		struct fm_only only;
		bool may[WAYS];
	} rows[] = {{{.device = ""}, {true, true, true, true}},
		    {{.device = "mlx5_0"}, {true, false, true, false}},
		    {{.way = {{.local = "10.0.1.1"}}, .way_count = 1}, {false, true, false, true}},
		    {{.device = "mlx5_1", .way = {{.remote = "10.0.3.2"}}, .way_count = 1},
		     {false, false, false, true}},
		    {{.way = {{"10.0.0.1", "10.0.0.2"}, {"10.0.3.1", ""}}, .way_count = 2},
		     {true, false, false, false}},
		    {{.device = "mlx5_0", .way = {{.local = "10.0.1.1"}}, .way_count = 1},
		     {false, false, false, false}},
		    {{.device = "mlx5"}, {false, false, false, false}}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fm_chunk c;
		struct world w;

		world_new(&w, true, WAYS * CHUNK, &plain_ops);
		w.x->o.only = rows[i].only;
		for (size_t way = 0; way < WAYS; way++) {
			CU_ASSERT_EQUAL(claim_by(&w, way, &c), rows[i].may[way]);
			if (!rows[i].may[way])
				continue;
			lose(&w, &c);
			for (size_t other = 0; other < WAYS; other++)
				if (!rows[i].may[other])
					CU_ASSERT_FALSE(claim_by(&w, other, &c));
			CU_ASSERT_TRUE_FATAL(claim_by(&w, way, &c));
			acked(&w, &c);
		}
		spin(&w);
		world_free(&w);
	}
}

/* Goal: so many connections carry it as were asked for, the first that come; the place of one that
 * is gone is another's. */
static void test_so_many(void)
{
	struct fm_chunk c[4];
	struct fm_moved moved;
	struct world w;

	world_new(&w, true, 16 * CHUNK, &plain_ops);
	w.x->o.only.conns = 2;
	CU_ASSERT_TRUE_FATAL(claim_by(&w, 3, &c[0]));
	CU_ASSERT_TRUE_FATAL(claim_by(&w, 0, &c[1]));
	CU_ASSERT_FALSE(claim_by(&w, 1, &c[2]));
	CU_ASSERT_TRUE_FATAL(claim_by(&w, 3, &c[2]));
	lose(&w, &c[0]);
	lose(&w, &c[2]);
	CU_ASSERT_FALSE(claim_by(&w, 1, &c[2]));
	fm_link_unbind(w.link, &ways[3]);
	CU_ASSERT_TRUE_FATAL(claim_by(&w, 1, &c[0]));
	CU_ASSERT_FALSE(claim_by(&w, 2, &c[2]));
	CU_ASSERT_TRUE_FATAL(claim_by(&w, 0, &c[2]));
	fm_link_moved(w.x, &moved);
	CU_ASSERT_EQUAL(moved.carriers, 3);
	for (unsigned i = 0; i < 3; i++)
		acked(&w, &c[i]);
	spin(&w);
	world_free(&w);
}

/* Goal: a sink that asked for a number of connections counts those that brought something, be they
 * more than that. */
static void test_so_many_came(void)
{
	struct fm_chunk c = {.len = CHUNK};
	struct fm_moved moved;
	struct world w;

	world_new(&w, false, 4 * CHUNK, &plain_ops);
	w.x->o.only.conns = 1;
	for (c.seq = 0; c.seq < 4; c.seq++) {
		c.offset = c.seq * CHUNK;
		fm_xfer_written(w.x, &c, &ways[c.seq % 2]);
	}
	fm_link_moved(w.x, &moved);
	CU_ASSERT_EQUAL(moved.bytes, 4 * CHUNK);
	CU_ASSERT_EQUAL(moved.carriers, 2);
	world_free(&w);
}

/* Goal: an address that names no interface is meant at any, and none that only begins like it. */
static void test_only_address(void)
{
	const struct fm_conn_info at_eth0 = {.local_addr = "fe80::1%eth0"},
				  longer = {.local_addr = "fe80::12%eth0"};
	const struct fm_only any = {.way = {{.local = "fe80::1"}}, .way_count = 1};
	const struct fm_only other = {.way = {{.local = "fe80::1%eth1"}}, .way_count = 1};

	CU_ASSERT_TRUE(fm_only_takes(&any, &at_eth0));
	CU_ASSERT_FALSE(fm_only_takes(&any, &longer));
	CU_ASSERT_FALSE(fm_only_takes(&other, &at_eth0));
}

/* Goal: an error names what was asked for. */
static void test_only_text(void)
{
	const struct fm_only all = {"mlx5_0", {{"10.0.0.1", "10.0.0.2"}}, 1, 2};
	const struct fm_only one = {.conns = 1};
	const struct fm_only two = {.way = {{"a", "b"}, {"c", "d"}}, .way_count = 2};
	char text[FM_ERR_TEXT_MAX], small[16];

	CU_ASSERT_STRING_EQUAL(fm_only_text(&all, text, sizeof(text)),
			       "2 connections of mlx5_0 from 10.0.0.1 to 10.0.0.2");
	CU_ASSERT_STRING_EQUAL(fm_only_text(&two, text, sizeof(text)),
			       "connections from a to b or from c to d");
	CU_ASSERT_STRING_EQUAL(fm_only_text(&one, text, sizeof(text)), "1 connection");
	CU_ASSERT_STRING_EQUAL(fm_only_text(&all, small, sizeof(small)), "2 connections o");
}

static void test_lost_comes_again(void)
{
	struct fm_chunk a, b, again;
	struct world w;

	world_new(&w, true, 2 * CHUNK, &plain_ops);
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &a) && claim(&w, &w, &b));
	acked(&w, &b);
	pthread_mutex_lock(&w.link->lock);
	fm_xfer_lost(w.x, &a);
	pthread_mutex_unlock(&w.link->lock);
	fm_xfer_unref(w.x);
	CU_ASSERT_FALSE(fm_xfer_is_sent(w.x));
	CU_ASSERT_TRUE_FATAL(claim(&w, NULL, &again));
	CU_ASSERT_EQUAL(again.seq, a.seq);
	CU_ASSERT_EQUAL(again.offset, a.offset);
	acked(&w, &again);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	CU_ASSERT_EQUAL(w.x->resent_bytes, CHUNK);
	CU_ASSERT_EQUAL(w.x->data_bytes, 2 * CHUNK);
	world_free(&w);
}

/* The same, as a file that is [size] long says it. */
static uint64_t holey_size;

static int holey_to_end(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	int ret = holey_next(file, offset, from, to);

	if (*from == *to)
		*from = *to = holey_size;
	return ret;
}

/* Goal: a hole that reaches to the end stays one, also where the size is in the midst of a
 * block. */
static void test_hole_at_the_end(void)
{
	static const struct fm_file_ops ops = { .next_data = holey_to_end };
	struct fm_chunk c;
	struct world w;
	uint64_t last = 0;

	holey_size = 19 * 4096 + 1;
	world_new(&w, true, holey_size, &ops);
	memset(content + 8192, 0, 3 * 4096);
	memset(content + 7 * 4096, 0, 13 * 4096);
	while (claim(&w, &w, &c)) {
		last = c.offset + c.len;
		acked(&w, &c);
	}
	CU_ASSERT_EQUAL(last, 7 * 4096);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	world_free(&w);
}

static void test_holes_are_skipped(void)
{
	struct fm_chunk c;
	struct world w;
	uint64_t bytes = 0;

	world_new(&w, true, 20 * 4096, &holey_ops);
	memset(content + 8192, 0, 3 * 4096);
	memset(content + 7 * 4096, 0, 13 * 4096);
	while (claim(&w, &w, &c)) {
		CU_ASSERT_EQUAL(c.offset % 4096, 0);
		CU_ASSERT_TRUE(c.offset < 8192 || c.offset >= 5 * 4096);
		bytes += c.len;
		acked(&w, &c);
	}
	CU_ASSERT_EQUAL(bytes, 2 * 4096 + 2 * 4096);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	world_free(&w);
}

/* Goal: what was there and is damaged comes like the rest; nothing is finished before all of it was
 * read again. */
static void test_damaged_comes_again(void)
{
	uint64_t from[8];
	struct fm_have have = { .crc = 0 };
	struct fm_chunk c;
	struct world w;
	unsigned n = 0;

	world_new(&w, true, 6 * CHUNK, &plain_ops);
	CU_ASSERT_EQUAL(fm_ranges_add(&have.ranges, CHUNK, 3 * CHUNK, 9), 0);
	/* what was kept is not what there was */
	have.crc = fm_crc32c_part(fm_crc32c(0, content + CHUNK, CHUNK), CHUNK, CHUNK) ^ 0x1234;
	CU_ASSERT_EQUAL(fm_xfer_set_have(w.x, &have), 0);
	CU_ASSERT_EQUAL(fm_xfer_take_back(w.x, 0, CHUNK, 0), -EPROTO);
	CU_ASSERT_EQUAL(fm_xfer_take_back(w.x, 3 * CHUNK, 2 * CHUNK, 0), -EPROTO);
	CU_ASSERT_EQUAL(fm_xfer_take_back(w.x, 2 * CHUNK + 1, 4096, 0), -EPROTO);
	CU_ASSERT_EQUAL(fm_xfer_take_back(w.x, 2 * CHUNK, 4095, 0), -EPROTO);
	CU_ASSERT_TRUE(claim(&w, &w, &c) && c.offset == 0);
	acked(&w, &c);
	CU_ASSERT_EQUAL(fm_xfer_take_back(w.x, 2 * CHUNK, 2 * CHUNK, 0x1234), 0);
	CU_ASSERT_EQUAL(fm_xfer_take_back(w.x, 2 * CHUNK, CHUNK, 0), -EPROTO);
	for (; claim(&w, &w, &c) && n < 8; n++) {
		from[n] = c.offset;
		CU_ASSERT_EQUAL(c.len, CHUNK);
		acked(&w, &c);
	}
	CU_ASSERT_EQUAL_FATAL(n, 4);
	CU_ASSERT_TRUE(from[0] == 2 * CHUNK && from[1] == 3 * CHUNK && from[2] == 4 * CHUNK &&
		       from[3] == 5 * CHUNK);
	CU_ASSERT_FALSE(fm_xfer_is_sent(w.x));
	fm_xfer_reread(w.x, 3 * CHUNK, true);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	CU_ASSERT_EQUAL(fm_xfer_take_back(w.x, CHUNK, CHUNK, 0), -EPROTO);
	CU_ASSERT_EQUAL(fm_xfer_crc(w.x, 6 * CHUNK), fm_crc32c(0, content, 6 * CHUNK));
	CU_ASSERT_TRUE(w.x->data_bytes == 6 * CHUNK && w.x->have_bytes == CHUNK &&
		       w.x->damaged_bytes == 2 * CHUNK);
	fm_have_free(&have);
	world_free(&w);
}

/* Goal: whatever a peer says of a chunk, nothing is written outside the file and no memory is used
 * without bound. */
static void test_hostile_chunks(void)
{
	static const struct fm_chunk bad[] = {
		{ .seq = 0, .offset = 0, .len = 0 },
		{ .seq = 0, .offset = 0, .len = CHUNK + 1 },
		{ .seq = 0, .offset = 1, .len = 10 },
		{ .seq = 0, .offset = 3 * CHUNK, .len = 1 },
		{ .seq = 0, .offset = 2 * CHUNK, .len = CHUNK + 1 },
		{ .seq = 0, .offset = 0, .len = CHUNK - 1 },
		{ .seq = 0, .offset = 2 * CHUNK, .len = 4097 },
		{ .seq = 0, .offset = INT64_MAX - 10, .len = CHUNK },
		{ .seq = 0, .offset = UINT64_MAX - 4095, .len = CHUNK },
		{ .seq = UINT64_MAX, .offset = 0, .len = CHUNK },
		{ .seq = 1000, .offset = 0, .len = CHUNK },
	};
	struct world w;

	world_new(&w, false, 3 * CHUNK, &plain_ops);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &bad[i]), -ERANGE);
	CU_ASSERT_EQUAL(
		fm_xfer_accept(w.x,
			       &(struct fm_chunk){.seq = 2, .offset = 2 * CHUNK, .len = CHUNK}),
		0);
	world_free(&w);
	world_new(&w, false, FM_SIZE_UNKNOWN, &plain_ops);
	CU_ASSERT_EQUAL(
		fm_xfer_accept(w.x,
			       &(struct fm_chunk){.seq = FM_XFER_SEQ_AHEAD, .offset = 0, .len = 1}),
		-ERANGE);
	CU_ASSERT_EQUAL(
		fm_xfer_accept(w.x, &(struct fm_chunk){.seq = 9, .offset = CHUNK, .len = 1}), 0);
	world_free(&w);
}

/* Goal: what has more chunks than can be remembered fails with what is to be done about that, and
 * no reproach of the peer. */
static void test_too_many_chunks(void)
{
	struct fm_chunk c = {.seq = FM_XFER_CHUNKS_MAX - 1, .len = CHUNK};
	struct fm_err err;
	struct world w;

	world_new(&w, false, FM_SIZE_UNKNOWN, &plain_ops);
	w.x->chunks = FM_XFER_CHUNKS_MAX - 1;
	CU_ASSERT_EQUAL(fm_link_accept(w.x, &c), 0);
	c.seq++;
	CU_ASSERT_EQUAL(fm_link_accept(w.x, &c), -ENOMEM);
	CU_ASSERT_EQUAL(fm_link_error(w.x, &err), -ENOMEM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "mover.chunk"));
	world_free(&w);
}

/* Goal: only a file's last chunk ends elsewhere than at a block, whether its size is known or the
 * chunk itself says it. */
static void test_only_the_end_is_odd(void)
{
	const struct fm_chunk last = { .seq = 2, .offset = 2 * CHUNK, .len = 100 };
	const struct fm_chunk inside = { .seq = 1, .offset = CHUNK, .len = 100 };
	const struct fm_chunk behind = { .seq = 3, .offset = 3 * CHUNK, .len = CHUNK };
	const struct fm_chunk whole = { .seq = 1, .offset = CHUNK, .len = CHUNK };
	struct world w;

	world_new(&w, false, 2 * CHUNK + 100, &plain_ops);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &inside), -ERANGE);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &last), 0);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &last), 0);	/* sent again */
	world_free(&w);
	world_new(&w, false, FM_SIZE_UNKNOWN, &plain_ops);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &last), 0);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &last), 0);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &inside), -ERANGE);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &behind), -ERANGE);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &whole), 0);
	w.x->o.size = 4 * CHUNK;	/* so it was no end */
	fm_xfer_written(w.x, &last, &by_tcp);
	CU_ASSERT_EQUAL(w.x->err.code, -EPROTO);
	world_free(&w);
}

/* Goal: a chunk may overtake the word of how long the file is; if that says less, the transfer
 * fails and nothing else. */
static void test_a_chunk_behind_the_end_that_is_said_later(void)
{
	const struct fm_chunk beyond = { .seq = 0, .offset = UINT64_C(100) << 40, .len = CHUNK };
	const struct fm_chunk within = { .seq = 1, .offset = 0, .len = 10 };
	struct world w;

	world_new(&w, false, FM_SIZE_UNKNOWN, &plain_ops);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &beyond), 0);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &within), 0);
	w.x->o.size = 10;
	fm_xfer_written(w.x, &within, &by_tcp);
	CU_ASSERT_EQUAL(w.x->err.code, 0);
	fm_xfer_written(w.x, &beyond, &by_tcp);
	CU_ASSERT_EQUAL(w.x->err.code, -EPROTO);
	CU_ASSERT_EQUAL(w.x->data_bytes, 10);
	world_free(&w);
}

static void test_repetition_counts_once(void)
{
	struct fm_chunk c = { .seq = 1, .offset = CHUNK, .len = CHUNK };
	struct world w;

	world_new(&w, false, 2 * CHUNK, &plain_ops);
	c.crc = fm_crc32c(0, content + CHUNK, CHUNK);
	for (int i = 0; i < 3; i++)
		fm_xfer_written(w.x, &c, &by_tcp);
	CU_ASSERT_EQUAL(w.x->chunks, 1);
	CU_ASSERT_EQUAL(w.x->data_bytes, CHUNK);
	c = (struct fm_chunk){ .seq = 0, .len = CHUNK, .crc = fm_crc32c(0, content, CHUNK) };
	fm_xfer_written(w.x, &c, &by_tcp);
	CU_ASSERT_EQUAL(fm_xfer_crc(w.x, 2 * CHUNK), fm_crc32c(0, content, 2 * CHUNK));
	world_free(&w);
}

/* Goal: a map of chunks that the budget has no room for ends its transfer. */
static void test_no_room_for_the_map_of_chunks(void)
{
	const struct fm_chunk c = { .seq = 0, .len = 10 };
	struct world w;

	for (unsigned has_room = 0; has_room < 2; has_room++) {
		world_new(&w, false, FM_SIZE_UNKNOWN, &plain_ops);
		fm_budget_set(fm_budget_used() + (has_room ? 131072 : 65535));	/* it takes 65536 */
		CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &c), 0);
		fm_xfer_written(w.x, &c, &by_tcp);
		CU_ASSERT_EQUAL(w.x->err.code, has_room ? 0 : -ENOMEM);
		CU_ASSERT_TRUE(has_room || (strstr(w.x->err.text, "memory.total") &&
					    strstr(w.x->err.text, "mover.chunk")));
		CU_ASSERT_EQUAL(w.x->chunks, has_room);
		fm_budget_set(UINT64_MAX);
		world_free(&w);
		CU_ASSERT_EQUAL(fm_budget_used(), 0);
	}
}

/* Goal: what each kind of connection carried is known, whatever came twice. */
static void test_what_each_kind_carried(void)
{
	struct fm_chunk a = {.seq = 0, .len = CHUNK}, b = {.seq = 1, .offset = CHUNK, .len = 10};
	struct world w;

	world_new(&w, false, CHUNK + 10, &plain_ops);
	fm_xfer_written(w.x, &a, &by_rdma);
	fm_xfer_written(w.x, &a, &by_tcp);
	fm_xfer_written(w.x, &b, &by_tcp);
	CU_ASSERT_EQUAL(w.x->kind_bytes[FM_KIND_RDMA], CHUNK);
	CU_ASSERT_EQUAL(w.x->kind_bytes[FM_KIND_TCP], 10);
	world_free(&w);
}

static struct fm_beside_place *begin_fill(struct world *w, const void *who)
{
	const struct fm_claim ask = { .who = who, .kind = FM_KIND_TCP };
	uint64_t again_ns;

	return fm_link_fill(w->link, &ask, NULL, &again_ns);
}

static void end_fill(struct world *w, const struct fm_beside_place *place, int64_t res)
{
	pthread_mutex_lock(&w->link->lock);
	fm_xfer_filled(w->x, (unsigned)(place - w->x->beside.place), res);
	pthread_mutex_unlock(&w->link->lock);
	fm_xfer_unref(w->x);
}

static void fill(struct world *w, const void *who, int64_t res)
{
	struct fm_beside_place *got = begin_fill(w, who);

	CU_ASSERT_PTR_NOT_NULL_FATAL(got);
	CU_ASSERT_PTR_NULL(begin_fill(w, who));	/* one read at a time */
	end_fill(w, got, res);
}

static void copied(struct world *w, const struct fm_chunk *chunk)
{
	pthread_mutex_lock(&w->link->lock);
	fm_xfer_copied(w->x, chunk->place);
	pthread_mutex_unlock(&w->link->lock);
}

/* A chunk that is not sent after all: its claim is over, but not the reference of who claimed. */
static bool arrives(struct world *w, struct fm_chunk *c, int64_t res)
{
	bool is_there = fm_link_read(w->x, c, res);

	if (!is_there)
		fm_xfer_unref(w->x);
	return is_there;
}

/*
 * Goal: a pack counts as what it turned out to be when it was read, and one that is not there, or
 * not yet, as nothing: for the rates, for what is under way, for the size of the whole.
 */
static void test_packs(void)
{
	struct fm_whole whole;
	struct fm_chunk c, d;
	struct world w;

	world_new(&w, true, FM_SIZE_UNKNOWN, &pack_ops);
	fm_rate_set(&w.x->rate, CHUNK);	/* one a second */
	fm_rate_set(&w.rate, CHUNK);
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &c));
	CU_ASSERT_EQUAL(c.len, CHUNK);
	CU_ASSERT_FALSE(claim(&w, &w, &d));
	CU_ASSERT_TRUE(arrives(&w, &c, 8));
	CU_ASSERT_EQUAL(c.len, 8);
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &d));
	CU_ASSERT_FALSE(arrives(&w, &d, -EAGAIN));
	CU_ASSERT_FALSE(claim(&w, &w, &d));
	fm_link_feed(w.x);
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &d));
	CU_ASSERT_EQUAL(d.seq, 1);	/* the same number */
	CU_ASSERT_FALSE(arrives(&w, &d, 0));
	CU_ASSERT_FALSE(claim(&w, &w, &d));
	CU_ASSERT_FALSE(fm_link_is_sent(w.x));
	acked(&w, &c);
	CU_ASSERT_TRUE(fm_link_is_sent(w.x));
	fm_link_sent_whole(w.x, &whole);
	CU_ASSERT_EQUAL(whole.chunks, 1);
	CU_ASSERT_EQUAL(whole.size, CHUNK);
	world_free(&w);
}

/* Goal: a stream's chunk is there to be claimed when it was read, not before; the next is read
 * while it is sent; all over one connection. */
static void test_stream(void)
{
	struct fm_chunk c, last, none;
	struct world w;
	int one, two;

	world_new(&w, true, FM_SIZE_UNKNOWN, &stream_ops);
	CU_ASSERT_FALSE(claim(&w, &one, &none));
	CU_ASSERT_FALSE(has_work(&w, &one));
	fill(&w, &two, CHUNK);
	CU_ASSERT_TRUE_FATAL(claim(&w, &one, &c));		/* whoever has room first */
	CU_ASSERT_PTR_NULL(begin_fill(&w, &two));
	copied(&w, &c);
	fill(&w, &one, 100);
	CU_ASSERT_FALSE(claim(&w, &two, &none));
	CU_ASSERT_TRUE_FATAL(claim(&w, &one, &last));
	copied(&w, &last);
	CU_ASSERT_TRUE(last.offset == CHUNK && last.len == 100);
	CU_ASSERT_PTR_NULL(begin_fill(&w, &one));	/* a short one was the last */
	acked(&w, &c);
	CU_ASSERT_FALSE(fm_xfer_is_sent(w.x));
	acked(&w, &last);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	CU_ASSERT_EQUAL(w.x->chunks, 2);
	world_free(&w);
}

/*
 * Goal: what a connection took along of a stream is sent again over another one, from the memory
 * that it was read into, in order and with its numbers; what the stream gives next comes behind it.
 * As much is kept as there are places for.
 */
static void test_lost_stream(void)
{
	struct fm_chunk c[FM_BESIDE_STREAM_CHUNKS_MAX], again;
	unsigned count = FM_BESIDE_STREAM_CHUNKS_MAX;
	struct world w;
	int one, two;

	world_new(&w, true, FM_SIZE_UNKNOWN, &stream_ops);
	CU_ASSERT_EQUAL_FATAL(w.x->beside.count, count);
	for (unsigned i = 0; i < count; i++) {
		fill(&w, &one, CHUNK);
		CU_ASSERT_TRUE_FATAL(claim(&w, &one, &c[i]) && c[i].seq == i);
		memset(fm_beside_at(w.x, c[i].place), (int)i, CHUNK);
		copied(&w, &c[i]);
	}
	CU_ASSERT_PTR_NULL(begin_fill(&w, &one));	/* nothing of it may be forgotten yet */
	acked(&w, &c[1]);
	c[2].corrupt_count = 2;
	for (unsigned i = count; i-- > 0;)
		if (i != 1)
			lose(&w, &c[i]);
	CU_ASSERT_FALSE(claim(&w, &two, &again));	/* it is not through with them */
	fm_link_unbind(w.link, &one);
	CU_ASSERT_FALSE(fm_xfer_is_sent(w.x));
	for (unsigned i = 0; i < count; i++) {
		if (i == 1)
			continue;
		CU_ASSERT_TRUE_FATAL(claim(&w, &two, &again));
		CU_ASSERT_TRUE(again.seq == i && again.offset == i * CHUNK && again.len == CHUNK);
		CU_ASSERT_EQUAL(*(char *)fm_beside_at(w.x, again.place), (char)i);
		CU_ASSERT_EQUAL(again.corrupt_count, i == 2 ? 2 : 0);
		CU_ASSERT_FALSE(claim(&w, &one, &again));
		copied(&w, &again);
		acked(&w, &again);
	}
	fill(&w, &two, 100);
	CU_ASSERT_TRUE_FATAL(claim(&w, &two, &again) && again.seq == count &&
			     again.offset == count * CHUNK);
	acked(&w, &again);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x) && w.x->chunks == count + 1);
	CU_ASSERT_EQUAL(w.x->resent_bytes, (count - 1) * CHUNK);
	world_free(&w);
}

/*
 * Goal: a stream that is silent when its connection is lost goes on when it says something: all
 * lanes hear of it then, as whoever saw to the read is gone, though another may have its address.
 */
static void test_stream_read_outlives_its_connection(void)
{
	struct fm_beside_place *reading;
	struct fm_chunk c;
	struct world w;
	int one;

	world_new(&w, true, FM_SIZE_UNKNOWN, &stream_ops);
	fill(&w, &one, CHUNK);
	CU_ASSERT_TRUE_FATAL(claim(&w, &one, &c));
	CU_ASSERT_PTR_NOT_NULL_FATAL(reading = begin_fill(&w, &one));
	lose(&w, &c);
	fm_link_unbind(w.link, &one);
	CU_ASSERT_TRUE_FATAL(claim(&w, &one, &c));
	notified = 0;
	pthread_mutex_lock(&w.link->lock);
	fm_fill_ended(reading, 100);
	pthread_mutex_unlock(&w.link->lock);
	spin(&w);
	CU_ASSERT_EQUAL(notified, 1);
	fm_xfer_unref(w.x);
	acked(&w, &c);
	CU_ASSERT_TRUE_FATAL(claim(&w, &one, &c) && c.seq == 1 && c.len == 100);
	acked(&w, &c);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	world_free(&w);
}

/* Goal: what was lost of a file that goes into a stream comes again over another connection, within
 * what the sink has room for. */
static void test_lost_ordered(void)
{
	struct fm_chunk c[2], again;
	struct world w;
	int one, two;

	world_new(&w, true, 3 * CHUNK, &plain_ops);
	w.x->o.is_ordered = w.x->o.is_windowed = true;
	w.x->o.window = 2;
	CU_ASSERT_TRUE_FATAL(claim(&w, &one, &c[0]) && claim(&w, &one, &c[1]));
	CU_ASSERT_FALSE(claim(&w, &two, &again));
	lose(&w, &c[1]);
	lose(&w, &c[0]);
	fm_link_unbind(w.link, &one);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_TRUE_FATAL(claim(&w, &two, &again) && again.seq == i);
		acked(&w, &again);
	}
	CU_ASSERT_FALSE(claim(&w, &two, &again));
	w.x->o.window = 3;
	CU_ASSERT_TRUE_FATAL(claim(&w, &two, &again) && again.seq == 2);
	acked(&w, &again);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	world_free(&w);
}

/* Goal: a stream leaves a kind of connection that was given up for it, when nothing of it is under
 * way there any more. */
static void test_stream_leaves_a_kind(void)
{
	const struct fm_claim rdma = { .who = &rdma, .kind = FM_KIND_RDMA, .now_ns = 1 };
	struct fm_chunk c, next;
	struct world w;
	uint64_t again_ns;

	world_new(&w, true, FM_SIZE_UNKNOWN, &stream_ops);
	fill(&w, &w, CHUNK);
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &c));
	fill(&w, &w, 100);
	w.x->o.kinds = 1u << FM_KIND_RDMA;
	CU_ASSERT_FALSE(claim(&w, &w, &next));
	CU_ASSERT_PTR_NULL(fm_link_claim(w.link, &rdma, &next, &again_ns));
	spin(&w);
	notified = 0;
	acked(&w, &c);
	spin(&w);
	CU_ASSERT_EQUAL(notified, 1);	/* the others are to be woken */
	CU_ASSERT_PTR_NOT_NULL_FATAL(fm_link_claim(w.link, &rdma, &next, &again_ns));
	CU_ASSERT_EQUAL(next.seq, 1);
	acked(&w, &next);
	world_free(&w);
}

/* Goal: a stream whose length is a whole number of chunks, or 0, ends; one that cannot be read
 * fails. */
static void test_stream_ends(void)
{
	struct world w;

	world_new(&w, true, FM_SIZE_UNKNOWN, &stream_ops);
	fill(&w, &w, 0);
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	world_free(&w);

	world_new(&w, true, FM_SIZE_UNKNOWN, &stream_ops);
	fill(&w, &w, -EIO);
	CU_ASSERT_EQUAL(w.x->err.code, -EIO);
	world_free(&w);
}

/* Goal: with two connections the first does not take all of a short file at once; alone it may. */
static void test_share(void)
{
	struct fm_chunk c[20];
	struct world w;
	unsigned n = 0;

	world_new(&w, true, 10 * CHUNK, &plain_ops);
	atomic_store(&w.link->flows[FM_KIND_TCP], 2);
	for (held = 0; claim(&w, &w, &c[n]); held++)
		n++;
	CU_ASSERT_EQUAL(n, 2);
	held = 0;		/* another connection */
	CU_ASSERT_TRUE(claim(&w, &n, &c[n]));
	n++;
	atomic_store(&w.link->flows[FM_KIND_TCP], 1);
	for (held = 5; claim(&w, &w, &c[n]); held++)
		n++;
	CU_ASSERT_EQUAL(n, 10);
	held = 0;
	while (n-- > 0)
		acked(&w, &c[n]);
	world_free(&w);
}

static struct world *looked_at;
static unsigned looks, told_to_wait;

/* While the file is asked: the lock is free, and another connection is told to come again. */
static int look_beside(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	const struct fm_claim other = {
		.who = &looks, .kind = FM_KIND_TCP, .now_ns = 1, .held = held_by};
	struct fm_chunk c;
	uint64_t again;

	looks++;
	if (pthread_mutex_trylock(&looked_at->link->lock) != 0)
		return -EDEADLK;
	pthread_mutex_unlock(&looked_at->link->lock);
	told_to_wait += !fm_link_claim(looked_at->link, &other, &c, &again) &&
			again > other.now_ns && again < FM_NS_PER_S;
	return holey_next(file, offset, from, to);
}

/* Goal: a disk that takes its time to say where data is lets no other lane of the session wait for
 * it. */
static void test_looking_for_data_beside_others(void)
{
	static const struct fm_file_ops ops = { .next_data = look_beside };
	struct fm_chunk c[8];
	unsigned n = 0;
	struct world w;

	world_new(&w, true, 20 * 4096, &ops);
	looked_at = &w;
	looks = told_to_wait = held = 0;
	while (n < 8 && claim(&w, &w, &c[n]))
		n++;
	CU_ASSERT_EQUAL(n, 2);
	CU_ASSERT_EQUAL(w.x->err.code, 0);
	CU_ASSERT_TRUE(looks > 0);
	CU_ASSERT_EQUAL(told_to_wait, looks);
	while (n-- > 0)
		acked(&w, &c[n]);
	world_free(&w);
}

static int look_and_remove(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	(void)file;
	*from = offset;
	*to = offset + 4096;
	fm_link_remove(looked_at->link, looked_at->x);
	return 0;
}

static int look_in_vain(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	(void)file;
	(void)offset;
	(void)from;
	(void)to;
	return -EIO;
}

/* Goal: a transfer may end, or fail, while its file is asked. */
static void test_ending_while_looking_for_data(void)
{
	static const struct fm_file_ops removing = {.next_data = look_and_remove},
					failing = {.next_data = look_in_vain};
	struct fm_chunk c;
	struct world w;

	world_new(&w, true, 20 * 4096, &failing);
	CU_ASSERT_FALSE(claim(&w, &w, &c));
	CU_ASSERT_EQUAL(w.x->err.code, -EIO);
	world_free(&w);

	world_new(&w, true, 20 * 4096, &removing);
	looked_at = &w;
	CU_ASSERT_FALSE(claim(&w, &w, &c));
	spin(&w);
	CU_ASSERT_EQUAL(drained, 1);
	fm_xfer_free(w.x);
	fm_link_unref(w.link);
	fm_slabs_free(w.slabs);
	fm_loop_free(w.loop);
}

/* Goal: of two transfers each has its turn, the one with four times the weight four times as many
 * chunks. */
static void test_weights(void)
{
	struct fm_xfer_opts o = {.id = 8,
				 .is_source = true,
				 .size = 400 * CHUNK,
				 .chunk_bytes = CHUNK,
				 .weight = FM_WEIGHT_HIGH,
				 .kinds = 1u << FM_KIND_TCP,
				 .progressed = on_notify,
				 .drained = on_drained};
	unsigned of_heavy = 0, in_a_row = 0, longest = 0;
	const struct fm_claim ask = {.who = &o, .kind = FM_KIND_TCP, .now_ns = 1, .held = held_by};
	struct fm_xfer *heavy, *x;
	struct fm_chunk c;
	struct world w;
	uint64_t again;

	world_new(&w, true, 400 * CHUNK, &plain_ops);
	o.file = &w.file;
	o.control = w.loop;
	CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &heavy, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_link_add(w.link, heavy), 0);
	held = 0;
	for (unsigned i = 0; i < 100; i++) {
		x = fm_link_claim(w.link, &ask, &c, &again);
		CU_ASSERT_PTR_NOT_NULL_FATAL(x);
		of_heavy += x == heavy;
		in_a_row = x == heavy ? in_a_row + 1 : 0;
		longest = in_a_row > longest ? in_a_row : longest;
		fm_xfer_unref(x);
	}
	CU_ASSERT_EQUAL(of_heavy, 80);
	CU_ASSERT_EQUAL(longest, FM_WEIGHT_HIGH);
	fm_link_remove(w.link, heavy);
	spin(&w);
	CU_ASSERT_EQUAL(drained, 1);
	drained = 0;
	fm_xfer_free(heavy);
	world_free(&w);
}

static void test_removed_is_not_found(void)
{
	struct fm_xfer *x;
	struct world w;

	world_new(&w, false, CHUNK, &plain_ops);
	x = fm_link_find_sink(w.link, 7);
	CU_ASSERT_PTR_EQUAL_FATAL(x, w.x);
	CU_ASSERT_PTR_NULL(fm_link_find_sink(w.link, 8));
	fm_link_remove(w.link, w.x);
	CU_ASSERT_PTR_NULL(fm_link_find_sink(w.link, 7));
	spin(&w);
	CU_ASSERT_EQUAL(drained, 0);	/* a lane still writes */
	fm_xfer_unref(x);
	spin(&w);
	CU_ASSERT_EQUAL(drained, 1);
	fm_xfer_free(w.x);
	fm_link_unref(w.link);
	fm_slabs_free(w.slabs);
	fm_loop_free(w.loop);
}

static void fail_each(struct fm_xfer_opts *o)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &fm_clock_real };
	struct fm_err err = { 0 };
	struct fm_xfer *x;
	unsigned n;

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &o->control, NULL), 0);
	for (n = 1; n < 10; n++) {
		fm_fault_arm(NULL, n);
		if (fm_xfer_new(o, &x, &err) == 0)
			break;
		CU_ASSERT_TRUE(fm_fault_fired());
		/* no place in the budget's share is EBUSY */
		CU_ASSERT_TRUE((err.code == -ENOMEM || err.code == -EBUSY) && err.text[0]);
	}
	fm_fault_arm(NULL, 0);
#ifdef FM_FAULTS
	CU_ASSERT_TRUE(n > 2);
#endif
	x->is_removed = true;
	fm_xfer_unref(x);
	while (fm_loop_step(o->control, 0))
		;
	fm_xfer_free(x);
	fm_loop_free(o->control);
}

static void test_no_memory(void)
{
	struct fm_file stream = { .ops = &stream_ops, .is_stream = true, .may_stand = true };
	struct fm_xfer_opts sink = {.id = 1,
				    .size = FM_SIZE_UNKNOWN,
				    .chunk_bytes = CHUNK,
				    .progressed = on_notify,
				    .drained = on_drained};
	struct fm_xfer_opts source = sink;

	fail_each(&sink);
	source.is_source = true;
	source.file = &stream;
	fail_each(&source);
	sink.file = &stream;
	fail_each(&sink);
}

/*
 * Goal: one user's pipes do not take all memory from another's; whoever is refused hears it at
 * once, and what is given back can be had again. (What waited for it would hold up the other end of
 * its pipe.)
 */
static void share_memory(bool is_source)
{
	struct fm_file stream = { .ops = &stream_ops, .is_stream = true, .may_stand = true };
	struct fm_xfer_opts o = {.is_source = is_source,
				 .file = &stream,
				 .size = FM_SIZE_UNKNOWN,
				 .chunk_bytes = CHUNK,
				 .who = fm_share_user(1),
				 .progressed = on_notify,
				 .drained = on_drained};
	struct fm_err err = { 0 };
	struct fm_xfer *x[64], *other;
	unsigned n;

	fm_budget_set(64 * (uint64_t)CHUNK);
	for (n = 0; n < 64 && fm_xfer_new(&o, &x[n], &err) == 0; n++)
		;
	CU_ASSERT_TRUE(n > 10 && n < 32 && err.code == -EBUSY);
	CU_ASSERT_EQUAL(x[n - 1]->beside.count, 1);	/* smaller ones rather than fewer */
	o.who = fm_share_user(2);
	CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &other, &err), 0);
	fm_xfer_abandon(other);
	o.who = fm_share_user(1);
	fm_xfer_abandon(x[--n]);
	CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &x[n], &err), 0);
	for (n++; n > 0; n--)
		fm_xfer_abandon(x[n - 1]);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(UINT64_MAX);
}

static void test_streams_share_memory(void)
{
	share_memory(true);
	share_memory(false);
}

/* What a daemon sets whose configuration says nothing of memory. */
static uint64_t default_budget(void)
{
	static const char text[] = "node = { name = \"n1\"; };";
	struct fm_config *cfg;
	uint64_t bytes;

	CU_ASSERT_EQUAL_FATAL(fm_config_load_string(text, sizeof(text) - 1, "f.conf", &cfg, NULL),
			      0);
	bytes = cfg->memory.total_bytes - cfg->memory.arena_bytes - FM_CONFIG_OVERHEAD_BYTES;
	fm_config_free(cfg);
	return bytes;
}

/* How many transfers one user may have that begin at once, as those of pipes do. */
static unsigned places_of_one(struct fm_share *places, struct fm_share_held *place,
			      struct fm_share_id who)
{
	unsigned n = 0;

	while (n < FM_QUEUE_PROMPT_MAX && fm_share_take(places, who, 1, &place[n], NULL) == 0)
		n++;
	return n;
}

/*
 * Goal: with the memory that a daemon has by itself, one user has as many pipes as the manual
 * promises, and others begin theirs meanwhile.
 */
static void test_memory_for_all_places(void)
{
	struct fm_share places;
	struct fm_share_held place[FM_QUEUE_PROMPT_MAX] = { { 0 } };
	struct fm_file stream = { .ops = &stream_ops, .is_stream = true, .may_stand = true };
	struct fm_xfer_opts o = {.file = &stream,
				 .size = FM_SIZE_UNKNOWN,
				 .chunk_bytes = FM_JOB_BESIDE_CHUNK_MAX,
				 .who = fm_share_user(1),
				 .progressed = on_notify,
				 .drained = on_drained};
	struct fm_xfer *x[FM_QUEUE_PROMPT_MAX + 2];
	struct fm_err err = { 0 };
	unsigned n, made = 0;

	fm_share_init(&places, &(struct fm_share_limits){"places", FM_QUEUE_PROMPT_MAX,
							 FM_QUEUE_PROMPT_ROOT, 0, 7});
	n = places_of_one(&places, place, o.who);
	CU_ASSERT_EQUAL(n, 56);		/* client/man/fmove.1, LIMITS */
	fm_budget_set(default_budget());
	for (; made < n; made++) {
		o.is_source = made % 2;
		if (fm_xfer_new(&o, &x[made], &err) < 0)
			break;
	}
	CU_ASSERT_EQUAL(made, n);
	for (unsigned uid = 0; uid <= 2; uid += 2) {
		o.who = fm_share_user(uid);
		CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &x[made++], &err), 0);
	}
	while (made > 0)
		fm_xfer_abandon(x[--made]);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(UINT64_MAX);
	while (n > 0)
		fm_share_give_all(&place[--n]);
}

/* ---- a stream at the far end ---- */

static int come(struct world *w, struct fm_lane *lane, uint64_t seq, uint64_t offset, uint32_t len)
{
	struct fm_chunk c = {.seq = seq,
			     .offset = offset,
			     .len = len,
			     .crc = fm_crc32c(0, content + offset % CHUNK, len)};
	int ret = fm_xfer_accept(w->x, &c);
	struct fm_beside_place *place;

	if (ret < 0)
		return ret;
	memcpy(fm_drain_place(w->x, seq), content + offset % CHUNK, len);
	(void)fm_xfer_came(w->x, &c, &by_tcp);
	place = fm_drain_filled(w->x, seq, true, lane);
	if (place)
		fm_link_start(place);
	return 0;
}

/* The reader takes what is being written: res bytes of it, or an error. */
static void take(int64_t res)
{
	struct fm_io *io = writing;

	CU_ASSERT_PTR_NOT_NULL_FATAL(io);
	writing = NULL;
	io->res = res;
	io->done(io);
}

/*
 * Goal: what comes for a pipe that nobody reads has its place, no more may come than there are
 * places, and it is written in order whatever the order was in which it came.
 */
static void test_drain(void)
{
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	struct world w;
	struct fm_xfer *d;

	world_new(&w, false, FM_SIZE_UNKNOWN, &stream_ops);
	lane.io.loop = w.loop;
	d = w.x;
	CU_ASSERT_EQUAL(d->beside.count, FM_BESIDE_STREAM_CHUNKS_MAX);
	/* nobody was told that it may */
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), -ERANGE);
	CU_ASSERT_EQUAL(fm_drain_open(d), d->beside.count);
	CU_ASSERT_EQUAL(fm_drain_open(d), 0);
	CU_ASSERT_EQUAL(come(&w, &lane, 1, CHUNK, CHUNK), 0);
	CU_ASSERT_PTR_NULL(writing);
	CU_ASSERT_EQUAL(come(&w, &lane, 1, CHUNK, CHUNK), -EALREADY);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), 0);
	CU_ASSERT_TRUE_FATAL(writing && writing->len == CHUNK &&
			     memcmp(writing->buf, content, CHUNK) == 0);
	/* it is being written, once */
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), -EALREADY);
	CU_ASSERT_EQUAL(come(&w, &lane, 2, 2 * CHUNK, CHUNK), 0);
	CU_ASSERT_EQUAL(come(&w, &lane, 3, 3 * CHUNK, 100), 0);
	CU_ASSERT_EQUAL(come(&w, &lane, 4, 4 * CHUNK, CHUNK), -ERANGE);
	take(CHUNK);
	CU_ASSERT_EQUAL(fm_drain_open(d), 0);	/* not for each */
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), -EALREADY);	/* written */
	take(CHUNK);
	CU_ASSERT_EQUAL(fm_drain_open(d), 2 + d->beside.count);
	CU_ASSERT_EQUAL(fm_drain_end(d), 0);
	CU_ASSERT_EQUAL(come(&w, &lane, 4, 3 * CHUNK + 100, CHUNK), -EPROTO);	/* FINISH came */
	/* what it says now counts no more */
	CU_ASSERT_EQUAL(come(&w, &lane, 2, 5, 7), -EALREADY);
	take(CHUNK);
	CU_ASSERT_FALSE(fm_drain_is_empty(d));
	notified = 0;
	CU_ASSERT_EQUAL(writing->len, 100);
	take(100);
	spin(&w);
	CU_ASSERT_TRUE(fm_drain_is_empty(d) && notified == 1 && !writing && !w.x->err.code);
	world_free(&w);
}

/* Goal: a source that lies about what there is of a stream does not get it taken for the whole; nor
 * does what arrived damaged count. */
static void test_hostile_stream(void)
{
	const struct fm_chunk first = { .seq = 0, .offset = 0, .len = CHUNK };
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	struct world w;

	world_new(&w, false, FM_SIZE_UNKNOWN, &stream_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &first), 0);
	/* two at once in one place */
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &first), -EAGAIN);
	CU_ASSERT_PTR_NULL(fm_drain_filled(w.x, 0, false, &lane));	/* it arrived damaged */
	CU_ASSERT_EQUAL(come(&w, &lane, 2, 2 * CHUNK, CHUNK), 0);
	CU_ASSERT_EQUAL(fm_drain_end(w.x), -EPROTO);		/* some are missing before it */
	world_free(&w);

	world_new(&w, false, FM_SIZE_UNKNOWN, &stream_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &first), 0);
	CU_ASSERT_EQUAL(fm_drain_end(w.x), -EPROTO);		/* it is still being copied */
	CU_ASSERT_PTR_NULL(fm_drain_filled(w.x, 0, false, &lane));
	world_free(&w);

	world_new(&w, false, FM_SIZE_UNKNOWN, &stream_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	/* a hole cannot be written into a pipe */
	CU_ASSERT_EQUAL(come(&w, &lane, 0, CHUNK, CHUNK), 0);
	CU_ASSERT_TRUE(w.x->err.code == -EPROTO && !writing);
	world_free(&w);
}

/* Goal: a reader that goes away, and a transfer that ends while nobody reads, leave nothing under
 * way. */
static void test_drain_ends(void)
{
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	struct world w;

	world_new(&w, false, FM_SIZE_UNKNOWN, &stream_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), 0);
	CU_ASSERT_EQUAL(come(&w, &lane, 1, CHUNK, CHUNK), 0);
	take(-EPIPE);
	CU_ASSERT_TRUE(w.x->err.code == -EPIPE && !writing);
	CU_ASSERT_EQUAL(come(&w, &lane, 2, 2 * CHUNK, CHUNK), -ECANCELED);
	world_free(&w);

	world_new(&w, false, FM_SIZE_UNKNOWN, &stream_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), 0);
	CU_ASSERT_PTR_NOT_NULL(writing);
	world_free(&w);			/* removed: the write is cancelled */
	CU_ASSERT_PTR_NULL(writing);
}

static void take_standing(uint64_t seq)
{
	struct fm_io *io = standing[seq % FM_BESIDE_CHUNKS_MAX];

	CU_ASSERT_PTR_NOT_NULL_FATAL(io);
	standing[seq % FM_BESIDE_CHUNKS_MAX] = NULL;
	io->res = io->len;
	io->done(io);
}

/*
 * Goal: a file that may stand still has a place for all that may come; it is written as it comes,
 * and how far the source may go follows what is written. What comes again counts once.
 */
static void test_standing_sink(void)
{
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	unsigned count;
	struct world w;

	world_new(&w, false, 100 * CHUNK, &standing_ops);
	lane.io.loop = w.loop;
	count = w.x->beside.count;
	CU_ASSERT_EQUAL_FATAL(count, FM_BESIDE_CHUNKS_MAX);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), -ERANGE);
	CU_ASSERT_EQUAL(fm_drain_open(w.x), count);
	for (unsigned i = count; i-- > 0;)
		CU_ASSERT_EQUAL(come(&w, &lane, i, i * CHUNK, CHUNK), 0);
	CU_ASSERT_EQUAL(w.x->chunks, count);
	CU_ASSERT_EQUAL(come(&w, &lane, 3, 3 * CHUNK, CHUNK), -EALREADY);
	CU_ASSERT_EQUAL(come(&w, &lane, count, count * CHUNK, CHUNK), -ERANGE);
	for (unsigned i = count - 1; i > 0; i--)
		take_standing(i);
	CU_ASSERT_EQUAL(fm_drain_open(w.x), 0);		/* the first of them stands */
	CU_ASSERT_FALSE(fm_drain_is_empty(w.x));
	take_standing(0);
	CU_ASSERT_TRUE(fm_drain_is_empty(w.x));
	CU_ASSERT_EQUAL(fm_drain_open(w.x), 2 * count);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), -EALREADY);
	CU_ASSERT_EQUAL(w.x->chunks, count);
	CU_ASSERT_EQUAL(come(&w, &lane, count, count * CHUNK, CHUNK), 0);
	CU_ASSERT_EQUAL(fm_drain_end(w.x), 0);
	take_standing(count);
	CU_ASSERT_FALSE(w.x->err.code);
	world_free(&w);
}

/* What is read back: these bytes. */
static void give_back(uint64_t seq, const uint8_t *bytes)
{
	struct fm_io *io = standing[seq % FM_BESIDE_CHUNKS_MAX];

	CU_ASSERT_PTR_NOT_NULL_FATAL(io);
	memcpy(io->buf, bytes, CHUNK);
	take_standing(seq);
}

/*
 * Goal: what is read back counts when it is what was written, and is written again from here when
 * it is not, but not for ever.
 */
static void test_read_back_beside(void)
{
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	static const uint8_t wrong[CHUNK];
	struct world w;

	world_new(&w, false, 100 * CHUNK, &read_back_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), 0);
	take_standing(0);
	CU_ASSERT_FALSE(fm_drain_is_empty(w.x));
	give_back(0, wrong);
	CU_ASSERT_EQUAL(memcmp(standing[0]->buf, content, CHUNK), 0);	/* written again */
	take_standing(0);
	give_back(0, content);
	CU_ASSERT_TRUE(fm_drain_is_empty(w.x) && w.x->corrupt_chunks == 1 && !w.x->err.code);
	CU_ASSERT_EQUAL(come(&w, &lane, 1, CHUNK, CHUNK), 0);
	for (unsigned i = 0; i < FM_XFER_CORRUPT_MAX; i++) {
		take_standing(1);
		give_back(1, wrong);
	}
	CU_ASSERT_EQUAL(w.x->err.code, -EBADMSG);
	CU_ASSERT_PTR_NULL(standing[1]);
	world_free(&w);
}

/* Goal: where a disk says that it read and gives nothing, what was there before is not believed,
 * however like it is. */
static void test_read_back_of_nothing(void)
{
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	struct world w;
	unsigned next;

	world_new(&w, false, 100 * CHUNK, &read_back_ops);
	lane.io.loop = w.loop;
	next = w.x->beside.count;	/* its place is the first one's, and so are its bytes */
	(void)fm_drain_open(w.x);
	for (unsigned i = 0; i < next; i++) {
		CU_ASSERT_EQUAL(come(&w, &lane, i, i * CHUNK, CHUNK), 0);
		take_standing(i);
		give_back(i, content);
	}
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(come(&w, &lane, next, next * CHUNK, CHUNK), 0);
	take_standing(next);
	take_standing(next);
	CU_ASSERT_EQUAL(w.x->corrupt_chunks, 1);
	take_standing(next);		/* it is written again */
	give_back(next, content);
	CU_ASSERT_TRUE(fm_drain_is_empty(w.x) && !w.x->err.code);
	world_free(&w);
}

/* Goal: of a transfer that was removed nothing is begun that nobody would give up. */
static void test_removed_before_it_is_read_back(void)
{
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	struct world w;

	world_new(&w, false, 100 * CHUNK, &read_back_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), 0);
	fm_link_remove(w.link, w.x);
	take_standing(0);
	CU_ASSERT_PTR_NULL(standing[0]);
	world_free(&w);
}

/*
 * Goal: a chunk that comes over one connection while its first copy is taken from another one is
 * asked for again, as that copy may be damaged, and nothing is held against the peer.
 */
static void test_twice_at_once(void)
{
	const struct fm_chunk first = { .len = CHUNK };
	struct fm_lane lane = { .chunk_bytes = CHUNK };
	struct world w;

	world_new(&w, false, 100 * CHUNK, &standing_ops);
	lane.io.loop = w.loop;
	(void)fm_drain_open(w.x);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &first), 0);
	CU_ASSERT_EQUAL(fm_xfer_accept(w.x, &first), -EAGAIN);
	CU_ASSERT_PTR_NULL(fm_drain_filled(w.x, 0, false, &lane));
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), 0);
	CU_ASSERT_EQUAL(come(&w, &lane, 0, 0, CHUNK), -EALREADY);
	take_standing(0);
	CU_ASSERT_EQUAL(w.x->corrupt_chunks, 0);
	CU_ASSERT_FALSE(w.x->err.code);
	world_free(&w);
}

/*
 * Goal: of a file that may stand still nothing is claimed but what was read, in whatever order that
 * was, and no more is read than there is memory for.
 */
static void test_standing_source(void)
{
	struct fm_beside_place *at[FM_BESIDE_CHUNKS_MAX + 1];
	unsigned count = FM_BESIDE_CHUNKS_MAX;
	struct fm_chunk c, last;
	struct world w;

	world_new(&w, true, (count + 1) * CHUNK, &standing_ops);
	for (unsigned i = 0; i < count; i++)
		CU_ASSERT_PTR_NOT_NULL_FATAL(at[i] = begin_fill(&w, &w));
	CU_ASSERT_PTR_NULL(begin_fill(&w, &w));
	CU_ASSERT_FALSE(claim(&w, &w, &c));
	CU_ASSERT_FALSE(has_work(&w, &w));
	end_fill(&w, at[2], CHUNK);
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &c) && c.seq == 2 && c.offset == 2 * CHUNK);
	CU_ASSERT_FALSE(claim(&w, &w, &last));
	copied(&w, &c);
	acked(&w, &c);
	CU_ASSERT_PTR_NOT_NULL_FATAL(at[count] = begin_fill(&w, &w));
	CU_ASSERT_PTR_NULL(begin_fill(&w, &w));		/* that was the last of it */
	end_fill(&w, at[count], CHUNK);
	CU_ASSERT_TRUE_FATAL(claim(&w, &w, &last) && last.seq == count);
	copied(&w, &last);
	acked(&w, &last);
	for (unsigned i = 0; i < count; i++) {
		CU_ASSERT_FALSE(fm_xfer_is_sent(w.x));
		if (i == 2)
			continue;
		end_fill(&w, at[i], CHUNK);
		CU_ASSERT_TRUE_FATAL(claim(&w, &w, &c) && c.seq == i);
		copied(&w, &c);
		acked(&w, &c);
	}
	CU_ASSERT_TRUE(fm_xfer_is_sent(w.x));
	world_free(&w);

	world_new(&w, true, 2 * CHUNK, &standing_ops);
	CU_ASSERT_PTR_NOT_NULL_FATAL(at[0] = begin_fill(&w, &w));
	end_fill(&w, at[0], 100);
	CU_ASSERT_EQUAL(w.x->err.code, -ESTALE);	/* it was cut while it was read */
	world_free(&w);
}

/* Goal: a source goes as far as it was told, and not at all before that. */
static void test_window(void)
{
	struct fm_chunk c;
	struct world w;

	world_new(&w, true, 5 * CHUNK, &plain_ops);
	w.x->o.is_ordered = w.x->o.is_windowed = true;
	CU_ASSERT_FALSE(claim(&w, &w, &c));
	CU_ASSERT_FALSE(has_work(&w, &w));
	w.x->o.window = 2;
	CU_ASSERT_TRUE(has_work(&w, &w));
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_TRUE_FATAL(claim(&w, &w, &c) && c.seq == i);
		acked(&w, &c);
	}
	CU_ASSERT_FALSE(claim(&w, &w, &c));
	CU_ASSERT_FALSE(has_work(&w, &w));
	w.x->o.window = FM_WIRE_SIZE_MAX;
	for (unsigned i = 2; i < 5; i++) {
		CU_ASSERT_TRUE_FATAL(claim(&w, &w, &c) && c.seq == i);
		acked(&w, &c);
	}
	CU_ASSERT_FALSE(claim(&w, &w, &c));
	world_free(&w);
}

static const struct fm_test tests[] = {
	{"what is said to be there and cannot be is refused", test_bad_have},
	{"chunks come in order and cover the file, and acknowledged in any order give its CRC32C",
	 test_in_order_and_whole},
	{"a file of a tree that is read behind the tree's end does not touch the tree's rate",
	 test_read_behind_the_tree},
	{"what one device or rail alone may carry no other connection gets", test_only_these},
	{"so many connections carry it as were asked for", test_so_many},
	{"connections that brought something are counted", test_so_many_came},
	{"an address without its interface", test_only_address},
	{"an error names what was asked for", test_only_text},
	{"a chunk that was lost comes again with its number, and counts once",
	 test_lost_comes_again},
	{"holes are not sent, blocks around them are", test_holes_are_skipped},
	{"a hole at the end is not sent", test_hole_at_the_end},
	{"what was there and is damaged comes again", test_damaged_comes_again},
	{"where data is, is looked for without the lock", test_looking_for_data_beside_others},
	{"a transfer may end while its data is looked for", test_ending_while_looking_for_data},
	{"a chunk that does not belong in the file is refused, whatever its numbers",
	 test_hostile_chunks},
	{"more chunks than can be remembered fail with what is to be done", test_too_many_chunks},
	{"only a file's last chunk ends elsewhere than at a block", test_only_the_end_is_odd},
	{"a chunk behind an end that is said later fails the transfer",
	 test_a_chunk_behind_the_end_that_is_said_later},
	{"a chunk that came three times counts once, in the CRC too", test_repetition_counts_once},
	{"no room for the map of chunks ends the transfer", test_no_room_for_the_map_of_chunks},
	{"what each kind of connection carried is known", test_what_each_kind_carried},
	{"a pack counts as what it turned out to be when it was read", test_packs},
	{"a stream's chunk is read before it is claimed; all go over one connection", test_stream},
	{"a stream's chunks go over another connection when theirs is lost", test_lost_stream},
	{"a stream that is silent when its connection is lost goes on later",
	 test_stream_read_outlives_its_connection},
	{"a file's chunks for a stream go over another connection when theirs is lost",
	 test_lost_ordered},
	{"a stream leaves a kind of connection that it may not use any more",
	 test_stream_leaves_a_kind},
	{"a stream ends with nothing, or cannot be read", test_stream_ends},
	{"what a stream does not take at once waits in its place, and no more comes", test_drain},
	{"what comes for a stream and cannot be the whole of it fails", test_hostile_stream},
	{"what is read back beside the slots is right, or written again", test_read_back_beside},
	{"what is read back of nothing is written again", test_read_back_of_nothing},
	{"what was removed is not read back any more", test_removed_before_it_is_read_back},
	{"a stream that breaks, or is given up, leaves no write under way", test_drain_ends},
	{"what comes for a file that stands still waits in its place, and no more comes",
	 test_standing_sink},
	{"a chunk that comes twice at once is asked for again", test_twice_at_once},
	{"of a source that may stand still only what was read is claimed", test_standing_source},
	{"a stream is sent as far as it was asked for", test_window},
	{"of a short file no connection takes more than its share while there are others",
	 test_share},
	{"transfers take turns, by their weight", test_weights},
	{"a transfer that was removed is found no more and drains when the last lane lets go",
	 test_removed_is_not_found},
	{"each failure of making a transfer gives one error and leaks nothing", test_no_memory},
	{"of the memory for pipes each user has a share", test_streams_share_memory},
	{"the memory that a daemon has by itself is enough for all pipes that one user may have",
	 test_memory_for_all_places},
};
FM_TEST_MAIN("xfer", tests)
