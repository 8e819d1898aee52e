/* SPDX-License-Identifier: MIT */
/*
 * A data connection that ends, over a connection of the test: what becomes of the chunks that it
 * had. links: fm_data
 */
#include "tests/fm_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/data/flow.h"
#include "mover/data/lane.h"
#include "mover/data/link.h"
#include "mover/data/registered.h"
#include "mover/data/rate.h"
#include "mover/data/slab.h"
#include "mover/store/buffer.h"
#include "mover/store/store.h"
#include "mover/tree/tree.h"
#include "mover/wire/wire.h"
#include "mover/data/xfer.h"

#define SLAB 65536u
#define CHUNK 16384u

/* Time goes on only where a test says so. */
static uint64_t moved_ns;

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return FM_NS_PER_S + moved_ns;
}

static const struct fm_clock test_clock = { clock_now, NULL };

/* ---- a connection ---- */

static struct fm_conn conn;
static const struct fm_conn_events *events;
static void *events_ctx;
static const struct fm_conn_info info = {
	.kind = FM_KIND_TCP, .local_addr = "10.0.0.1", .remote_addr = "10.0.0.2"};
static bool is_closing;
static struct fm_data_msg sent;		/* the last message to the peer ... */
static const void *sent_payload;	/* ... and where its payload lay ... */
static const struct fm_region *sent_region;	/* ... inside what */

static void conn_attach(struct fm_conn *c, struct fm_loop *loop, const struct fm_conn_events *ev,
			void *ctx)
{
	(void)c;
	(void)loop;
	events = ev;
	events_ctx = ctx;
}

static int conn_lend(struct fm_conn *c, void *memory, size_t len, bool is_rx, struct fm_region *out,
		     struct fm_err *err)
{
	(void)c;
	(void)len;
	(void)is_rx;
	(void)err;
	*out = (struct fm_region){ .memory = memory };
	return 0;
}

static void conn_take_back(struct fm_conn *c, struct fm_region *region)
{
	(void)c;
	(void)region;
}

static bool may_be_anywhere;		/* a payload may lie outside of what was lent */

static bool is_slow;			/* what is sent takes a while to leave */
static struct fm_send *leaving[8];
static unsigned leaving_count;

static void all_left(int res)
{
	for (unsigned i = 0; i < leaving_count; i++)
		leaving[i]->done(leaving[i], res);
	leaving_count = 0;
}

static void conn_send(struct fm_conn *c, struct fm_send *send)
{
	(void)c;
	CU_ASSERT_EQUAL(fm_data_decode(send->msg, &sent), 0);
	CU_ASSERT_TRUE(send->region || !send->payload || may_be_anywhere);
	sent_payload = send->payload;
	sent_region = send->region;
	if (is_slow && leaving_count < 8)
		leaving[leaving_count++] = send;
	else
		send->done(send, 0);
}

static unsigned diverts;

static void conn_divert(struct fm_conn *c)
{
	(void)c;
	diverts++;
}

static void conn_close(struct fm_conn *c)
{
	(void)c;
	is_closing = true;
}

static const struct fm_conn_info *conn_info(const struct fm_conn *c)
{
	(void)c;
	return &info;
}

static const struct fm_conn_ops conn_ops = {
	.attach = conn_attach,
	.lend = conn_lend,
	.take_back = conn_take_back,
	.divert = conn_divert,
	.send = conn_send,
	.close = conn_close,
	.info = conn_info,
};

/* ---- one that lends memory as a whole ---- */

static unsigned lends, lenders;

static int lender_lend(struct fm_lender *lender, const void *memory, size_t len,
		       struct fm_region *out, struct fm_err *err)
{
	(void)lender;
	(void)err;
	lends++;
	*out = (struct fm_region){ .memory = (void *)(uintptr_t)memory, .len = len };
	return 0;
}

static void lender_take_back(struct fm_lender *lender, struct fm_region *region)
{
	(void)lender;
	(void)region;
	lends--;
}

static void lender_put(struct fm_lender *lender)
{
	(void)lender;
	lenders--;
}

static const struct fm_lender_ops lender_ops = {
	.lend = lender_lend,
	.take_back = lender_take_back,
	.put = lender_put,
};

static struct fm_lender *conn_lender(struct fm_conn *c)
{
	static struct fm_lender lender = { &lender_ops };

	(void)c;
	lenders++;
	return &lender;
}

static const struct fm_conn_ops lending_ops = {
	.attach = conn_attach,
	.lend = conn_lend,
	.take_back = conn_take_back,
	.lender = conn_lender,
	.send = conn_send,
	.close = conn_close,
	.info = conn_info,
};

/* ---- files ---- */

/* Each read or write waits until the test ends it. */
struct file {
	struct fm_file file;
	struct fm_io *reading[4];
	unsigned count;
};

static void file_io(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct file *f = fm_container_of(file, struct file, file);

	(void)lane;
	if (f->count == 4)
		abort();
	f->reading[f->count++] = io;
}

static const struct fm_file_ops file_ops = { .read = file_io, .write = file_io };

static void end_io(struct file *f, int64_t res)
{
	struct fm_io *io = f->reading[0];

	memmove(&f->reading[0], &f->reading[1], --f->count * sizeof(io));
	io->res = res;
	io->done(io);
}

static void end_read(struct file *f)
{
	end_io(f, CHUNK);
}

/* ---- all of it ---- */

static struct world {
	struct fm_loop *loop;
	struct fm_slabs *slabs;
	struct fm_rate rate;
	struct fm_shared_rate shared;
	struct fm_link *link;
	struct fm_worker *worker;	/* with registered: of a connection that lends as a whole */
	struct fm_registered *registered;
	struct fm_lane lane;
	struct fm_flow *flow;
	struct file disk, pipe;
	struct fm_xfer *of_disk, *of_pipe;
	unsigned down, gone, notified, drained;
} w;

static _Alignas(4096) char memory[4 * SLAB];

static void spin(void)
{
	while (fm_loop_step(w.loop, 0))
		;
}

static void pass(uint64_t ns)
{
	for (uint64_t end_ns = moved_ns + ns; moved_ns < end_ns; moved_ns += FM_NS_PER_S / 4)
		spin();
	spin();
}

static void on_notify(struct fm_task *task)
{
	(void)task;
	w.notified++;
}

static void on_drained(struct fm_task *task)
{
	(void)task;
	w.drained++;
}

static void on_down(struct fm_flow *flow)
{
	(void)flow;
	w.down++;
}

static void on_gone(struct fm_flow *flow)
{
	w.gone++;
	fm_flow_free(flow);
}

static struct fm_xfer *source_that(struct file *f, uint64_t id, bool is_stream, bool may_stand)
{
	struct fm_xfer_opts o = {.id = id,
				 .is_source = true,
				 .file = &f->file,
				 .size = is_stream ? FM_SIZE_UNKNOWN : 2 * CHUNK,
				 .chunk_bytes = CHUNK,
				 .kinds = 1u << FM_KIND_TCP,
				 .control = w.loop,
				 .progressed = on_notify,
				 .drained = on_drained};
	struct fm_xfer *x;

	f->file = (struct fm_file){
		.ops = &file_ops, .is_stream = is_stream, .may_stand = may_stand
	};
	CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &x, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_link_add(w.link, x), 0);
	return x;
}

static struct fm_xfer *source(struct file *f, uint64_t id, bool is_stream)
{
	return source_that(f, id, is_stream, is_stream);
}

static struct fm_xfer *sink(struct file *f, uint64_t id, struct fm_tree *tree)
{
	struct fm_xfer_opts o = {.id = id,
				 .file = &f->file,
				 .size = tree ? FM_SIZE_UNKNOWN : 2 * CHUNK,
				 .chunk_bytes = CHUNK,
				 .kinds = 1u << FM_KIND_TCP,
				 .control = w.loop,
				 .progressed = on_notify,
				 .drained = on_notify};
	struct fm_xfer *x;

	f->file = (struct fm_file){ .ops = &file_ops, .tree = tree };
	CU_ASSERT_EQUAL_FATAL(fm_xfer_new(&o, &x, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_link_add(w.link, x), 0);
	return x;
}

/* The peer says that. */
static void say(const struct fm_data_msg *m)
{
	uint8_t msg[FM_DATA_MSG_SIZE];

	CU_ASSERT_EQUAL_FATAL(fm_data_encode(m, msg), 0);
	events->message(events_ctx, msg);
	spin();
}

static void make_registered(void)
{
	struct fm_registered_opts o;

	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &w.worker, NULL), 0);
	o = (struct fm_registered_opts){.loop = w.loop, .worker = w.worker, .bytes_max = 64 << 20};
	CU_ASSERT_EQUAL_FATAL(fm_registered_new(&o, &w.registered, NULL), 0);
}

/* A connection with two chunks of a file that are being read, and what a pipe gave. */
static void begin_with(const struct fm_conn_ops *ops)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &test_clock };
	struct fm_data_msg granted;

	memset(&w, 0, sizeof(w));
	is_closing = false;
	conn.ops = ops;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &w.loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_slabs_new(memory, sizeof(memory), SLAB, &w.slabs, NULL), 0);
	pthread_mutex_init(&w.shared.lock, NULL);
	w.shared.rate = &w.rate;
	CU_ASSERT_EQUAL_FATAL(fm_link_new(w.slabs, &w.shared, &w.link, NULL), 0);
	if (ops->lender)
		make_registered();
	w.link->registered = w.registered;
	fm_lane_init(&w.lane, 0, w.loop, NULL);
	w.lane.chunk_bytes = CHUNK;
	CU_ASSERT_EQUAL_FATAL(fm_flow_new(&(struct fm_flow_opts){.conn = &conn,
								 .lane = &w.lane,
								 .link = w.link,
								 .control = w.loop,
								 .down = on_down,
								 .gone = on_gone},
					  &w.flow, NULL),
			      0);
	w.of_pipe = source(&w.pipe, 1, true);
	spin();
	CU_ASSERT_EQUAL_FATAL(w.pipe.count, 1);
	end_read(&w.pipe);
	w.of_disk = source(&w.disk, 2, false);
	granted =
		fm_grant_msg(&(struct fm_grant){.slots = 4, .generation = 1, .slot_bytes = CHUNK});
	say(&granted);
	CU_ASSERT_EQUAL_FATAL(w.disk.count, 2);
}

static void begin(void)
{
	begin_with(&conn_ops);
}

static void end(void)
{
	if (!w.of_disk->is_removed)
		fm_link_remove(w.link, w.of_disk);
	fm_link_remove(w.link, w.of_pipe);
	for (; w.pipe.count > 0; end_read(&w.pipe))
		;
	spin();
	CU_ASSERT_EQUAL(w.drained, 2);
	fm_xfer_free(w.of_disk);
	fm_xfer_free(w.of_pipe);
	fm_lane_fini(&w.lane);
	fm_link_unref(w.link);
	fm_slabs_free(w.slabs);
	fm_registered_free(w.registered);
	fm_worker_free(w.worker);
	fm_loop_free(w.loop);
}

static void break_conn(void)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ENETDOWN, "its cable is cut");
	events->failed(events_ctx, &err);
	spin();
	CU_ASSERT_TRUE_FATAL(is_closing);
	CU_ASSERT_EQUAL(w.down, 0);
	events->closed(events_ctx);
	spin();
}

/* Whether another connection gets a chunk of it, with that number. */
static bool is_to_be_had(struct fm_xfer *of, uint64_t seq)
{
	const struct fm_claim ask = { .who = &w, .kind = FM_KIND_TCP, .now_ns = 1 };
	struct fm_chunk c;
	uint64_t again;
	struct fm_xfer *x = fm_link_claim(w.link, &ask, &c, &again);

	if (!x)
		return false;
	pthread_mutex_lock(&w.link->lock);
	fm_xfer_acked(x, &c, &info);
	pthread_mutex_unlock(&w.link->lock);
	fm_xfer_unref(x);
	return x == of && c.seq == seq;
}

/*
 * Goal: a disk that hangs holds what is read from it and nothing else of a connection that is gone:
 * the chunks of others go over another connection as soon as it has ended. Its own follow when
 * their reads end, each by itself, and then the connection is over.
 */
static void test_hung_disk(void)
{
	begin();
	break_conn();
	CU_ASSERT_EQUAL(w.down, 1);
	CU_ASSERT_TRUE(is_to_be_had(w.of_pipe, 0));
	CU_ASSERT_FALSE(is_to_be_had(w.of_disk, 0));
	w.notified = 0;
	end_read(&w.disk);
	spin();
	CU_ASSERT_EQUAL(w.notified, 1);		/* the others are to be woken */
	CU_ASSERT_EQUAL(w.gone, 0);
	CU_ASSERT_TRUE(is_to_be_had(w.of_disk, 0));
	CU_ASSERT_FALSE(is_to_be_had(w.of_disk, 1));
	end_read(&w.disk);
	spin();
	CU_ASSERT_EQUAL(w.gone, 1);
	CU_ASSERT_TRUE(is_to_be_had(w.of_disk, 1));
	CU_ASSERT_EQUAL(fm_slabs_free_count(w.slabs), 4);
	end();
}

/* Goal: what was acknowledged before the connection ended is not sent again, and a transfer that
 * was removed gets nothing back. */
static void test_acked_and_removed(void)
{
	begin();
	say(&(struct fm_data_msg){.type = FM_DATA_ACK,
				  .status = FM_ACK_WRITTEN,
				  .slot = 0,
				  .generation = 1,
				  .xfer = 1});
	fm_link_remove(w.link, w.of_disk);
	break_conn();
	CU_ASSERT_FALSE(is_to_be_had(w.of_pipe, 0));
	w.notified = 0;
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	CU_ASSERT_TRUE(w.gone == 1 && w.drained == 1 && w.notified == 0);
	end();
}

/*
 * Goal: a peer that was asked for its slots and says nothing any more, on a lane where nothing else
 * happens, loses its connection: else it kept that memory from everybody.
 */
static void test_slots_kept(void)
{
	struct fm_xfer *of_sink;
	struct file to = { 0 };

	begin();
	of_sink = sink(&to, 3, NULL);
	CU_ASSERT_EQUAL(fm_slabs_free_count(w.slabs), 3);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL(fm_slabs_free_count(w.slabs), 2);
	pass(20 * FM_NS_PER_S);
	CU_ASSERT_FALSE(is_closing);
	pass(20 * FM_NS_PER_S);
	CU_ASSERT_TRUE(is_closing);
	break_conn();
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	CU_ASSERT_EQUAL(fm_slabs_free_count(w.slabs), 4);
	fm_link_remove(w.link, of_sink);
	spin();
	fm_xfer_free(of_sink);
	end();
}

static void sink_end(struct fm_xfer *of_sink)
{
	break_conn();
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	fm_link_remove(w.link, of_sink);
	spin();
	fm_xfer_free(of_sink);
	end();
}

/*
 * Goal: a chunk that comes slowly is use of its slot: nobody is asked for that, or, where others
 * want for it, it may come to its end. With a byte now and then it may not.
 */
static void test_slots_kept_by_slow_chunk(void)
{
	struct fm_xfer *of_sink;
	struct file to = { 0 };

	begin();
	of_sink = sink(&to, 3, NULL);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	for (unsigned i = 0; i < 10; i++) {
		conn.came++;
		pass(FM_NS_PER_S);
	}
	CU_ASSERT_EQUAL(sent.type, FM_DATA_GRANT);
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent.type, FM_DATA_REVOKE);
	for (unsigned i = 0; i < 6; i++) {
		conn.came += FM_FLOW_MOVED_BYTES;
		pass(25 * FM_NS_PER_S);
	}
	CU_ASSERT_FALSE(is_closing);
	for (unsigned i = 0; i < 60 && !is_closing; i++) {
		conn.came++;
		pass(FM_NS_PER_S);
	}
	CU_ASSERT_TRUE(is_closing);
	sink_end(of_sink);
}

/* Goal: the same with a small chunk, of which a part counts; but not for ever. */
static void test_slots_kept_by_slow_small_chunk(void)
{
	struct fm_xfer *of_sink;
	struct file to = { 0 };

	begin();
	of_sink = sink(&to, 3, NULL);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(sent.type, FM_DATA_REVOKE);
	for (unsigned i = 0; i < 6; i++) {
		conn.came += CHUNK / 8;
		pass(25 * FM_NS_PER_S);
	}
	CU_ASSERT_FALSE(is_closing);
	for (unsigned i = 0; i < 10 && !is_closing; i++) {
		conn.came += CHUNK / 8;
		pass(25 * FM_NS_PER_S);
	}
	CU_ASSERT_TRUE(is_closing);
	sink_end(of_sink);
}

/* Chunks of a transfer that ended, which the peer has not answered. */
static void begin_orphans(struct fm_data_msg chunk[2])
{
	begin();
	is_slow = true;
	for (unsigned i = 0; i < 2; i++) {
		end_read(&w.disk);
		CU_ASSERT_TRUE_FATAL(sent.type == FM_DATA_CHUNK && sent.xfer == 2);
		chunk[i] = sent;
	}
	fm_link_remove(w.link, w.of_disk);
	fm_lane_wake(&w.lane);
	spin();
}

static void end_orphans(void)
{
	is_slow = false;
	CU_ASSERT_TRUE(is_closing);
	all_left(-ECANCELED);
	break_conn();
	end();
}

/*
 * Goal: what was sent for a transfer that ended may take long as a whole, over a slow network, as
 * long as the peer answers for one after the other.
 */
static void test_orphans_are_answered_slowly(void)
{
	struct fm_data_msg chunk[2];

	begin_orphans(chunk);
	all_left(0);
	pass(25 * FM_NS_PER_S);
	say(&(struct fm_data_msg){.type = FM_DATA_ACK,
				  .status = FM_ACK_DROPPED,
				  .slot = chunk[0].slot,
				  .generation = 1,
				  .seq = chunk[0].seq,
				  .xfer = 2});
	pass(25 * FM_NS_PER_S);
	CU_ASSERT_FALSE(is_closing);
	pass(10 * FM_NS_PER_S);
	end_orphans();
}

/* Goal: the same while a chunk leaves slowly, and no longer if hardly anything of it does. */
static void test_orphans_leave_slowly(void)
{
	struct fm_data_msg chunk[2];

	begin_orphans(chunk);
	for (unsigned i = 0; i < 6; i++) {
		pass(25 * FM_NS_PER_S);
		CU_ASSERT_FALSE(is_closing);
		conn.left += FM_FLOW_MOVED_BYTES;
	}
	for (unsigned i = 0; i < 60 && !is_closing; i++) {
		conn.left++;
		pass(FM_NS_PER_S);
	}
	end_orphans();
}

/*
 * Goal: what a pack says is not looked at where its peer can still write, but by who applies a copy
 * of it: that the CRC is another then is damage on the way, as with a file, and it comes again.
 */
static void test_pack_is_checked_by_its_writer(void)
{
	static struct fm_tree tree;
	struct fm_data_msg pack = {.type = FM_DATA_CHUNK, .xfer = 3, .seq = 5,
				   .offset = 5 * CHUNK, .length = 8, .data_crc = 1};
	struct fm_xfer *of_sink;
	struct file to = { 0 };
	struct fm_err err;

	begin();
	of_sink = sink(&to, 3, &tree);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	pack.generation = sent.generation;
	say(&pack);
	CU_ASSERT_EQUAL_FATAL(to.count, 1);
	CU_ASSERT_EQUAL(to.reading[0]->offset, 5);
	CU_ASSERT_TRUE(to.reading[0]->crc && *to.reading[0]->crc == 1);
	end_io(&to, -EBADMSG);
	spin();
	CU_ASSERT_TRUE(sent.type == FM_DATA_ACK && sent.seq == 5);
	CU_ASSERT_EQUAL(sent.status, FM_ACK_CORRUPT);
	CU_ASSERT_EQUAL(fm_link_error(of_sink, &err), 0);
	say(&pack);
	CU_ASSERT_EQUAL_FATAL(to.count, 1);
	end_io(&to, 8);
	spin();
	CU_ASSERT_TRUE(sent.type == FM_DATA_ACK && sent.status == FM_ACK_WRITTEN);
	break_conn();
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	fm_link_remove(w.link, of_sink);
	spin();
	fm_xfer_free(of_sink);
	end();
}

static bool may_come(const struct fm_data_msg *m, uint64_t remote, uint32_t len)
{
	uint8_t msg[FM_DATA_MSG_SIZE];

	CU_ASSERT_EQUAL_FATAL(fm_data_encode(m, msg), 0);
	return events->may_write(events_ctx, msg, remote, len);
}

/* Goal: over TCP, where that is known, a chunk brings its bytes: else its answer would tell the
 * peer what somebody else left in the slot. */
static void test_chunk_brings_its_bytes(void)
{
	static const uint8_t nothing[FM_DATA_MSG_SIZE];
	struct fm_data_msg chunk = {.type = FM_DATA_CHUNK, .xfer = 3, .length = 8};
	struct fm_data_msg ack = {.type = FM_DATA_ACK, .generation = 1};
	struct fm_xfer *of_sink;
	struct file to = { 0 };

	begin();
	of_sink = sink(&to, 3, NULL);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	chunk.generation = sent.generation;
	CU_ASSERT_TRUE(may_come(&chunk, 0, 8));
	CU_ASSERT_FALSE(may_come(&chunk, 0, 7));
	CU_ASSERT_FALSE(may_come(&chunk, 0, 0));
	CU_ASSERT_TRUE(may_come(&ack, 0, 0));
	CU_ASSERT_FALSE(may_come(&ack, 0, 8));
	/* what is no message at all is heard, and ends the connection by that */
	CU_ASSERT_TRUE(events->may_write(events_ctx, nothing, 0, 0));
	CU_ASSERT_FALSE(events->may_write(events_ctx, nothing, 0, 8));
	conn.looked = 0;
	say(&chunk);
	CU_ASSERT_EQUAL(conn.looked, 8);	/* the transport ends its turn by that */
	sink_end(of_sink);
}

/* Another session leaves something in the slab that is taken next. */
static void leave_in_slab(void)
{
	struct fm_slab_user other;
	int slab;

	fm_slab_user_init(&other);
	slab = fm_slabs_take(w.slabs, FM_SLAB_RX, &other, 0);
	CU_ASSERT_TRUE_FATAL(slab >= 0);
	memset(fm_slabs_at(w.slabs, slab), 's', SLAB);
	fm_slabs_put(w.slabs, FM_SLAB_RX, &other, slab, false);
}

/*
 * Goal: over RDMA nobody can tell what came with a chunk, so what another session left in a slab is
 * gone when it is lent: a chunk of it that brings nothing is zeros.
 */
static void test_lent_slab_is_cleared(void)
{
	static const char zeros[SLAB];
	struct fm_xfer *of_sink;
	struct file to = { 0 };

	begin();
	of_sink = sink(&to, 3, NULL);
	leave_in_slab();
	w.flow->kind = FM_KIND_RDMA;
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	CU_ASSERT_EQUAL(memcmp(w.flow->rx_lease.region.memory, zeros, SLAB), 0);
	w.flow->kind = FM_KIND_TCP;
	sink_end(of_sink);
}

/* Goal: nor does a peer see them that had the slab over TCP before, and wrote nothing there. */
static void test_lent_slab_is_cleared_after_tcp(void)
{
	static const char zeros[SLAB];
	struct fm_xfer *of_sink;
	struct file to = { 0 };

	begin();
	of_sink = sink(&to, 3, NULL);
	leave_in_slab();
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	CU_ASSERT_NOT_EQUAL(memcmp(w.flow->rx_lease.region.memory, zeros, SLAB), 0);
	pass(3 * FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_REVOKE);
	say(&(struct fm_data_msg){ .type = FM_DATA_RETURN, .generation = sent.generation });
	w.flow->kind = FM_KIND_RDMA;
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	CU_ASSERT_EQUAL(memcmp(w.flow->rx_lease.region.memory, zeros, SLAB), 0);
	w.flow->kind = FM_KIND_TCP;
	sink_end(of_sink);
}

/* ---- two connections of a session, which has one slab of each use ---- */

/* A connection of the test, as attached. */
struct attached {
	const struct fm_conn_events *events;
	void *ctx;
};

static struct pair {
	struct fm_conn conn;		/* the second; the first is conn, of w.flow */
	struct fm_flow *flow;
	struct attached first, second;
	struct fm_slab_user other[2];	/* per use: another session, ... */
	int slab[2];			/* ... which has the rest */
	struct fm_slab_user third;	/* a third session, ... */
	int third_use;			/* ... which wants one; -1: none is there */
} pair;

/* From now on the peer speaks over that one. */
static void over(const struct attached *a)
{
	events = a->events;
	events_ctx = a->ctx;
}

static void begin_pair(void)
{
	begin();
	memset(&pair, 0, sizeof(pair));
	fm_slab_user_init(&pair.third);
	pair.third_use = -1;
	for (unsigned use = 0; use < 2; use++) {
		fm_slab_user_init(&pair.other[use]);
		pair.slab[use] = fm_slabs_take(w.slabs, use, &pair.other[use], 0);
		CU_ASSERT_TRUE_FATAL(pair.slab[use] >= 0);
	}
	pair.first = (struct attached){ events, events_ctx };
	pair.conn.ops = &conn_ops;
	CU_ASSERT_EQUAL_FATAL(fm_flow_new(&(struct fm_flow_opts){.conn = &pair.conn,
								 .lane = &w.lane,
								 .link = w.link,
								 .control = w.loop,
								 .down = on_down,
								 .gone = on_gone},
					  &pair.flow, NULL),
			      0);
	spin();
	pair.second = (struct attached){ events, events_ctx };
}

/* Leaves the first, with nothing under way. */
static void end_pair(void)
{
	pair.flow->kind = FM_KIND_TCP;
	fm_flow_close(pair.flow);
	spin();
	pair.second.events->closed(pair.second.ctx);
	spin();
	CU_ASSERT_EQUAL(w.gone, 1);
	w.down = w.gone = 0;
	is_closing = false;
	if (pair.third_use >= 0)
		fm_slabs_unwant(w.slabs, (enum fm_slab_use)pair.third_use, &pair.third);
	for (unsigned use = 0; use < 2; use++)
		fm_slabs_put(w.slabs, use, &pair.other[use], pair.slab[use], false);
	over(&pair.first);
}

static void tick(void)
{
	moved_ns += 10 * FM_NS_PER_MS;
	if (pair.third_use >= 0)
		CU_ASSERT_EQUAL(fm_slabs_take(w.slabs, (enum fm_slab_use)pair.third_use,
					      &pair.third, fm_loop_now(w.loop)),
				-EAGAIN);
	spin();
}

/* The peer wrote all that it was sent: so many chunks. */
static unsigned ack_all(struct fm_flow *flow, const struct attached *a)
{
	unsigned count = 0;

	over(a);
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++) {
		if (!flow->tx[i].x || flow->tx[i].word != FM_TX_AWAITED)
			continue;
		say(&(struct fm_data_msg){.type = FM_DATA_ACK,
					  .status = FM_ACK_WRITTEN,
					  .slot = (uint16_t)i,
					  .generation = flow->grant.generation,
					  .xfer = flow->tx[i].x->o.id,
					  .seq = flow->tx[i].chunk.seq});
		count++;
	}
	return count;
}

/*
 * The peer has a chunk in a write that does not end, and goes on with its other slots while the
 * second connection wants some. Whether it is asked for its own.
 */
static bool is_revoked_beside_hung_write(void)
{
	struct fm_data_msg chunk = {.type = FM_DATA_CHUNK, .xfer = 3, .length = CHUNK};
	bool is_revoked = false;
	struct file to = { 0 };
	struct fm_xfer *of_sink = sink(&to, 3, NULL);

	w.lane.is_unchecked = true;
	over(&pair.first);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	chunk.generation = sent.generation;
	say(&chunk);
	CU_ASSERT_EQUAL_FATAL(to.count, 1);
	over(&pair.second);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	over(&pair.first);
	chunk.xfer = 99;	/* nobody's: it is dealt with at once */
	for (unsigned ms = 0; ms < 5000 && !is_revoked; ms += 10) {
		chunk.slot = (uint16_t)(1 + ms / 10 % 3);
		say(&chunk);
		tick();
		is_revoked = w.flow->is_revoking;
	}
	end_io(&to, CHUNK);
	end_pair();
	sink_end(of_sink);
	return is_revoked;
}

/*
 * Goal: a disk that hangs keeps one slot of a connection, and the others are used: asked for all of
 * them the peer could give back none, and would begin nothing more.
 */
static void test_hung_write_beside_who_waits(void)
{
	begin_pair();
	CU_ASSERT_FALSE(is_revoked_beside_hung_write());
	begin_pair();
	pair.third_use = FM_SLAB_RX;
	CU_ASSERT_FALSE(is_revoked_beside_hung_write());
}

/*
 * Goal: nor is the peer asked for them where nothing else came while the disk hung, whenever
 * somebody begins to wait, also if the write before it hung for longer.
 */
static void hung_write_alone(bool is_second, unsigned idle_s)
{
	struct fm_data_msg chunk = {.type = FM_DATA_CHUNK, .xfer = 3, .length = CHUNK};
	struct file to = { 0 };
	struct fm_xfer *of_sink;

	begin_pair();
	of_sink = sink(&to, 3, NULL);
	w.lane.is_unchecked = true;
	over(&pair.first);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	chunk.generation = sent.generation;
	say(&chunk);
	pass(is_second ? 100 * FM_NS_PER_S : 3 * FM_NS_PER_S);
	if (is_second) {
		end_io(&to, CHUNK);
		if (idle_s > 0) {
			pass(10 * FM_NS_PER_S);
			CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_REVOKE);
			say(&(struct fm_data_msg){ .type = FM_DATA_RETURN,
						   .generation = sent.generation });
			pass(idle_s * FM_NS_PER_S);
			say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
			CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
			chunk.generation = sent.generation;
		}
		chunk.seq = 1;
		chunk.offset = CHUNK;
		say(&chunk);
		pass(5 * FM_NS_PER_S);
	}
	CU_ASSERT_EQUAL_FATAL(to.count, 1);
	pair.third_use = FM_SLAB_RX;
	for (unsigned ms = 0; ms < 60000 && !w.flow->is_revoking; ms += 10)
		tick();
	CU_ASSERT_FALSE(w.flow->is_revoking);
	end_io(&to, CHUNK);
	for (unsigned ms = 0; ms < 200 && !w.flow->is_revoking; ms += 10)
		tick();
	CU_ASSERT_TRUE(w.flow->is_revoking);
	end_pair();
	sink_end(of_sink);
}

static void test_hung_write_alone(void)
{
	hung_write_alone(false, 0);
	hung_write_alone(true, 0);
	hung_write_alone(true, 3600);
}

/*
 * Goal: a disk that is slow does not hang: its slots go to who has none. So many writes are under
 * way, and one ends now and then. What comes in the other slots is dealt with at once.
 */
static void slow_writes_beside_who_waits(unsigned writes, unsigned seconds)
{
	struct fm_data_msg chunk = {.type = FM_DATA_CHUNK, .xfer = 3, .length = CHUNK};
	struct fm_data_msg quick = {.type = FM_DATA_CHUNK, .xfer = 99, .slot = 3, .length = CHUNK};
	struct file to = { 0 };
	struct fm_xfer *of_sink;

	begin_pair();
	of_sink = sink(&to, 3, NULL);
	fm_link_set_size(of_sink, 64 * CHUNK);
	w.lane.is_unchecked = true;
	over(&pair.first);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	chunk.generation = quick.generation = sent.generation;
	for (; chunk.seq < 12; chunk.seq++, chunk.offset += CHUNK) {
		chunk.slot = (uint16_t)(chunk.seq % writes);
		if (to.count == writes) {
			pass(seconds * FM_NS_PER_S);
			end_io(&to, CHUNK);
		}
		say(&chunk);
		for (unsigned i = 0; writes < 4 && i < 12; i++)
			say(&quick);
	}
	CU_ASSERT_EQUAL(to.count, writes);
	CU_ASSERT_FALSE(w.flow->is_revoking);
	pair.third_use = FM_SLAB_RX;
	for (unsigned ms = 0; ms < 1000 && !w.flow->is_revoking; ms += 10)
		tick();
	CU_ASSERT_TRUE(w.flow->is_revoking);
	while (to.count > 0)
		end_io(&to, CHUNK);
	end_pair();
	sink_end(of_sink);
}

static void test_slow_writes_beside_who_waits(void)
{
	slow_writes_beside_who_waits(4, 3);
	slow_writes_beside_who_waits(3, 3);
	slow_writes_beside_who_waits(4, 35);
}

/* Goal: nor where each write is that of another transfer, of which none has ended yet. */
static void test_slow_writes_of_many(void)
{
	enum { SINKS = 12 };
	struct fm_data_msg chunk = {.type = FM_DATA_CHUNK, .length = CHUNK};
	struct file to[SINKS] = { 0 };
	struct fm_xfer *of[SINKS];

	begin_pair();
	for (unsigned i = 0; i < SINKS; i++)
		of[i] = sink(&to[i], 3 + i, NULL);
	w.lane.is_unchecked = true;
	over(&pair.first);
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	chunk.generation = sent.generation;
	for (unsigned i = 0; i < SINKS; i++) {
		if (i >= 4) {
			pass(800 * FM_NS_PER_MS);
			end_io(&to[i - 4], CHUNK);
		}
		chunk.xfer = 3 + i;
		chunk.slot = (uint16_t)(i % 4);
		say(&chunk);
	}
	CU_ASSERT_FALSE(w.flow->is_revoking);
	pair.third_use = FM_SLAB_RX;
	for (unsigned ms = 0; ms < 200 && !w.flow->is_revoking; ms += 10)
		tick();
	CU_ASSERT_TRUE(w.flow->is_revoking);
	for (unsigned i = SINKS - 4; i < SINKS; i++)
		end_io(&to[i], CHUNK);
	end_pair();
	for (unsigned i = 1; i < SINKS; i++) {
		fm_link_remove(w.link, of[i]);
		spin();
		fm_xfer_free(of[i]);
	}
	sink_end(of[0]);
}

/*
 * A read that does not end, and a source in memory or a stream, while the second connection has
 * work that it alone may carry, and a third session wants the slab, or none (-1). How many chunks
 * of the source go in five seconds.
 */
static unsigned chunks_beside_hung_read(bool is_stream, int third_use)
{
	static char many[2048 * CHUNK];
	struct file endless = { 0 }, other = { 0 };
	struct fm_xfer *of_endless, *of_other;
	struct fm_data_msg granted =
		fm_grant_msg(&(struct fm_grant){.slots = 4, .generation = 1, .slot_bytes = CHUNK});
	unsigned count = 0;

	begin_pair();
	of_endless = is_stream ? NULL : source(&endless, 3, false);
	of_other = source(&other, 4, false);
	pair.third_use = third_use;
	may_be_anywhere = true;
	endless.file.memory = many;
	endless.file.is_instant = true;
	if (of_endless)
		fm_link_set_size(of_endless, sizeof(many));
	fm_link_set_kinds(of_other, 1u << FM_KIND_RDMA);
	pair.flow->kind = FM_KIND_RDMA;
	end_read(&w.disk);	/* the other one hangs */
	over(&pair.second);
	say(&granted);
	for (unsigned ms = 0; ms < 5000; ms += 10) {
		count += ack_all(w.flow, &pair.first);
		if (is_stream && w.pipe.count > 0)
			end_read(&w.pipe);
		tick();
	}
	CU_ASSERT_EQUAL(other.count, 0);	/* the slab is in use */
	if (of_endless)
		fm_link_remove(w.link, of_endless);
	fm_link_remove(w.link, of_other);
	(void)ack_all(w.flow, &pair.first);
	end_read(&w.disk);
	(void)ack_all(w.flow, &pair.first);
	end_pair();
	may_be_anywhere = false;
	break_conn();
	if (of_endless)
		fm_xfer_free(of_endless);
	fm_xfer_free(of_other);
	w.drained = 0;
	end();
	return count;
}

/* Goal: the same to send. */
static void test_hung_read_beside_who_waits(void)
{
	for (int is_stream = 0; is_stream <= 1; is_stream++) {
		CU_ASSERT_TRUE(chunks_beside_hung_read(is_stream, -1) > (is_stream ? 250 : 450));
		CU_ASSERT_TRUE(chunks_beside_hung_read(is_stream, FM_SLAB_TX) > 250);
	}
}

/* The oldest of the reads ends, and all that was read is written. */
static void read_one(struct file *f)
{
	end_read(f);
	spin();
	(void)ack_all(w.flow, &pair.first);
}

/* Goal: the slab of reads that are slow goes to who has none: four are under way, twelve seconds
 * each. */
static void test_slow_reads_beside_who_waits(void)
{
	struct file slow = { 0 };
	struct fm_xfer *of_slow;

	begin_pair();
	of_slow = source(&slow, 3, false);
	fm_link_set_size(of_slow, 64 * CHUNK);
	read_one(&w.disk);
	read_one(&w.disk);
	CU_ASSERT_EQUAL_FATAL(slow.count, 4);
	for (unsigned i = 0; i < 8; i++) {
		pass(3 * FM_NS_PER_S);
		read_one(&slow);
		CU_ASSERT_EQUAL(slow.count, 4);
	}
	pair.third_use = FM_SLAB_TX;
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned ms = 0; ms < 3000; ms += 10)
			tick();
		read_one(&slow);
	}
	CU_ASSERT_EQUAL_FATAL(slow.count, 0);
	CU_ASSERT_EQUAL(w.flow->tx_lease.slab, -1);
	end_pair();
	break_conn();
	fm_link_remove(w.link, of_slow);
	spin();
	fm_xfer_free(of_slow);
	w.drained--;
	end();
}

/* ---- what is read back ---- */

static struct file read_again;

/* A chunk came for a file that is read back, was written, and is being read again. */
static struct fm_xfer *begin_read_back(struct fm_data_msg *chunk)
{
	struct fm_xfer *x;

	begin();
	read_again = (struct file){ .count = 0 };
	x = sink(&read_again, 3, NULL);
	x->o.is_read_back = true;
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	*chunk = (struct fm_data_msg){.type = FM_DATA_CHUNK,
				      .xfer = 3,
				      .length = CHUNK,
				      .generation = sent.generation};
	memset(w.flow->rx_lease.region.memory, 7, CHUNK);
	chunk->data_crc = fm_crc32c(0, w.flow->rx_lease.region.memory, CHUNK);
	say(chunk);
	CU_ASSERT_EQUAL_FATAL(read_again.count, 1);
	end_io(&read_again, CHUNK);
	CU_ASSERT_EQUAL_FATAL(read_again.count, 1);
	return x;
}

static void give_back(int byte)
{
	memset(read_again.reading[0]->buf, byte, CHUNK);
	end_io(&read_again, CHUNK);
	spin();
}

/* Goal: what the disk gives back wrong comes again. */
static void test_read_back_comes_again(void)
{
	struct fm_data_msg chunk;
	struct fm_xfer *x = begin_read_back(&chunk);
	struct fm_moved moved;
	struct fm_err err;

	give_back(6);
	CU_ASSERT_TRUE(sent.type == FM_DATA_ACK && sent.status == FM_ACK_CORRUPT);
	CU_ASSERT_EQUAL(fm_link_error(x, &err), 0);
	memset(w.flow->rx_lease.region.memory, 7, CHUNK);
	say(&chunk);
	end_io(&read_again, CHUNK);
	give_back(7);
	CU_ASSERT_TRUE(sent.type == FM_DATA_ACK && sent.status == FM_ACK_WRITTEN);
	fm_link_moved(x, &moved);
	CU_ASSERT_TRUE(moved.bytes == CHUNK && moved.corrupt == 1);
	sink_end(x);
}

/* Goal: a disk that says it read, and gave back nothing, or not all, is not believed. */
static void test_read_back_of_nothing(void)
{
	struct fm_data_msg chunk;
	struct fm_xfer *x = begin_read_back(&chunk);
	struct fm_err err;

	end_io(&read_again, CHUNK);
	spin();
	CU_ASSERT_TRUE(sent.type == FM_DATA_ACK && sent.status == FM_ACK_CORRUPT);
	CU_ASSERT_EQUAL(fm_link_error(x, &err), 0);
	memset(w.flow->rx_lease.region.memory, 7, CHUNK);
	say(&chunk);
	end_io(&read_again, CHUNK);
	memset(read_again.reading[0]->buf, 7, CHUNK - 512);
	end_io(&read_again, CHUNK);
	spin();
	CU_ASSERT_TRUE(sent.type == FM_DATA_ACK && sent.status == FM_ACK_CORRUPT);
	sink_end(x);
}

/* Goal: where another copy of it counted before, nobody sends it again, and the file may be taken
 * for whole: so the transfer fails. */
static void test_read_back_after_it_counted(void)
{
	struct fm_data_msg chunk;
	struct fm_xfer *x = begin_read_back(&chunk);
	const struct fm_chunk other = {.len = CHUNK, .crc = chunk.data_crc};
	struct fm_err err;

	fm_link_written(x, &other, &info);
	give_back(6);
	CU_ASSERT_EQUAL(fm_link_error(x, &err), -EBADMSG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the disk gives back other bytes"));
	sink_end(x);
}

/* Goal: the same where the connection is gone, whose sender would have to hear of it. */
static void test_read_back_unheard(void)
{
	struct fm_data_msg chunk;
	struct fm_xfer *x = begin_read_back(&chunk);
	struct fm_err err;

	break_conn();
	give_back(6);
	CU_ASSERT_EQUAL(fm_link_error(x, &err), -EBADMSG);
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	fm_link_remove(w.link, x);
	spin();
	fm_xfer_free(x);
	end();
}

/* ---- what is in memory ---- */

static struct file lying;		/* a file whose bytes lie in memory */
static char lying_bytes[2 * CHUNK];

static struct fm_xfer *lying_source(void)
{
	struct fm_xfer *x;

	lying = (struct file){ .count = 0 };
	memset(lying_bytes, 7, sizeof(lying_bytes));
	x = source(&lying, 3, false);
	lying.file.memory = lying_bytes;
	lying.file.is_instant = true;
	return x;
}

/* Its connection is gone. */
static void lying_gone(struct fm_xfer *x)
{
	may_be_anywhere = false;
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	fm_link_remove(w.link, x);
	spin();
	fm_xfer_free(x);
	w.drained = 0;
	end();
}

static void lying_end(struct fm_xfer *x)
{
	break_conn();
	lying_gone(x);
}

static void say_damaged(void)
{
	say(&(struct fm_data_msg){.type = FM_DATA_ACK,
				  .status = FM_ACK_CORRUPT,
				  .slot = 3,
				  .generation = 1,
				  .xfer = 3});
}

static struct fm_xfer *begin_lying(void)
{
	struct fm_xfer *x;

	begin();
	may_be_anywhere = true;
	x = lying_source();
	fm_lane_wake(&w.lane);
	spin();
	CU_ASSERT_TRUE(sent.type == FM_DATA_CHUNK && sent.xfer == 3 && sent.slot == 3);
	CU_ASSERT_PTR_EQUAL(sent_payload, lying_bytes);
	CU_ASSERT_EQUAL(sent.data_crc, fm_crc32c(0, lying_bytes, CHUNK));
	return x;
}

/*
 * Goal: what lies in memory is sent from there over TCP, each time; what is damaged on its way for
 * ever ends its transfer, and nobody else's.
 */
static void test_memory_is_sent_from_where_it_lies(void)
{
	struct fm_xfer *x = begin_lying();
	struct fm_err err;

	for (unsigned i = 1; i < FM_XFER_CORRUPT_MAX; i++) {
		sent_payload = NULL;
		say_damaged();
		CU_ASSERT_PTR_EQUAL(sent_payload, lying_bytes);
		CU_ASSERT_EQUAL(sent.data_crc, fm_crc32c(0, lying_bytes, CHUNK));
		CU_ASSERT_EQUAL(fm_link_error(x, &err), 0);
	}
	say_damaged();
	CU_ASSERT_EQUAL(fm_link_error(x, &err), -EBADMSG);
	CU_ASSERT_EQUAL(lying.count, 0);
	CU_ASSERT_EQUAL(fm_link_error(w.of_disk, &err), 0);
	lying_end(x);
}

/*
 * Goal: memory that changed after its CRC was computed is not made good by a new one when the chunk
 * comes damaged: its transfer ends, and nobody else's.
 */
static void test_changed_memory_is_not_made_good(void)
{
	struct fm_xfer *x = begin_lying();
	struct fm_err err;

	lying_bytes[5]++;
	sent_payload = NULL;
	say_damaged();
	CU_ASSERT_PTR_NULL(sent_payload);
	CU_ASSERT_EQUAL(fm_link_error(x, &err), -ESTALE);
	CU_ASSERT_EQUAL(fm_link_error(w.of_disk, &err), 0);
	lying_end(x);
}

/* Goal: what arrived damaged of a transfer that ended is not sent again: a peer that says so each
 * time would keep its slot and its file. */
static void test_damaged_and_removed(void)
{
	struct fm_xfer *x = begin_lying();

	fm_link_remove(w.link, x);
	fm_lane_wake(&w.lane);
	spin();
	sent_payload = NULL;
	say_damaged();
	CU_ASSERT_PTR_NULL(sent_payload);
	CU_ASSERT_PTR_NULL(w.flow->tx[3].x);
	may_be_anywhere = false;
	break_conn();
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	fm_xfer_free(x);
	w.drained = 0;
	end();
}

/* Goal: nor when its connection ended, since some of it may have come. */
static void test_changed_memory_is_not_good_elsewhere(void)
{
	const struct fm_claim ask = { .who = &w, .kind = FM_KIND_TCP, .now_ns = 1 };
	struct fm_xfer *x = begin_lying(), *of;
	uint32_t crc = sent.data_crc;
	struct fm_chunk c;
	uint64_t again;

	break_conn();
	do {
		of = fm_link_claim(w.link, &ask, &c, &again);
		if (!of)
			break;
		fm_link_dropped(of);
		fm_xfer_unref(of);
	} while (of != x || c.seq != 0);
	CU_ASSERT_PTR_EQUAL(of, x);
	CU_ASSERT_TRUE(c.has_crc && c.crc == crc);
	lying_gone(x);
}

/* ---- what is sent again without a read ---- */

static void answer(uint64_t xfer, unsigned slot, enum fm_ack_status status)
{
	sent = (struct fm_data_msg){ .type = 0 };
	say(&(struct fm_data_msg){.type = FM_DATA_ACK,
				  .status = (uint8_t)status,
				  .slot = (uint16_t)slot,
				  .generation = 1,
				  .xfer = xfer});
}

static void damage(const void *at)
{
	((char *)(uintptr_t)at)[5]++;
}

static bool is_payload_as_said(void)
{
	return fm_crc32c(0, sent_payload, CHUNK) == sent.data_crc;
}

/*
 * Goal: bytes that our own memory changed are not made good by a new CRC: a chunk that is sent
 * again without a read has the one that it had, and the third time its transfer fails.
 */
static void test_keeps_its_crc(void)
{
	struct file served = { .count = 0 };
	struct fm_xfer *x;
	struct fm_err err;
	uint32_t crc;

	begin();
	x = source_that(&served, 3, false, true);
	fm_lane_wake(&w.lane);
	spin();
	while (served.count > 0)
		end_read(&served);
	fm_lane_wake(&w.lane);
	spin();
	CU_ASSERT_TRUE_FATAL(sent.type == FM_DATA_CHUNK && sent.xfer == 3 && sent.slot == 3);
	CU_ASSERT_TRUE(is_payload_as_said());
	crc = sent.data_crc;
	damage(sent_payload);
	answer(3, 3, FM_ACK_BUSY);
	pass(FM_NS_PER_S);
	CU_ASSERT_TRUE(sent.type == FM_DATA_CHUNK && sent.data_crc == crc);
	for (unsigned i = 1; i < FM_XFER_CORRUPT_MAX; i++) {
		answer(3, 3, FM_ACK_CORRUPT);
		CU_ASSERT_TRUE(sent.type == FM_DATA_CHUNK && sent.data_crc == crc);
		CU_ASSERT_FALSE(is_payload_as_said());
	}
	answer(3, 3, FM_ACK_CORRUPT);
	CU_ASSERT_EQUAL(fm_link_error(x, &err), -EBADMSG);
	lying_end(x);
}

/*
 * Goal: a stream's chunk is sent again as it was read, whatever became of the slot it was sent
 * from; its CRC is that of what was read, also over another connection.
 */
static void test_stream_comes_as_it_was_read(void)
{
	const struct fm_claim ask = { .who = &w, .kind = FM_KIND_TCP, .now_ns = 1 };
	struct fm_chunk c = { 0 };
	uint64_t again;
	uint32_t crc;

	begin();
	CU_ASSERT_TRUE_FATAL(sent.type == FM_DATA_CHUNK && sent.xfer == 1 && sent.slot == 0);
	crc = sent.data_crc;
	damage(sent_payload);
	answer(1, 0, FM_ACK_CORRUPT);
	CU_ASSERT_TRUE(sent.type == FM_DATA_CHUNK && sent.data_crc == crc);
	CU_ASSERT_TRUE(is_payload_as_said());
	damage(fm_beside_at(w.of_pipe, 0));
	answer(1, 0, FM_ACK_CORRUPT);
	CU_ASSERT_TRUE(sent.type == FM_DATA_CHUNK && sent.data_crc == crc);
	CU_ASSERT_FALSE(is_payload_as_said());
	break_conn();
	CU_ASSERT_PTR_EQUAL_FATAL(fm_link_claim(w.link, &ask, &c, &again), w.of_pipe);
	CU_ASSERT_TRUE(c.seq == 0 && c.has_crc && c.crc == crc);
	fm_link_acked(w.of_pipe, &c, &info);
	fm_xfer_unref(w.of_pipe);
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	end();
}

/* Goal: over RDMA, which sends from registered memory only, it goes through a slot like a file. */
static void test_memory_goes_through_a_slot_over_rdma(void)
{
	struct fm_xfer *x;

	begin();
	x = lying_source();
	fm_link_set_kinds(x, 1u << FM_KIND_RDMA);
	w.flow->kind = FM_KIND_RDMA;
	fm_lane_wake(&w.lane);
	spin();
	CU_ASSERT_EQUAL_FATAL(lying.count, 1);
	end_read(&lying);
	spin();
	CU_ASSERT_TRUE(sent.type == FM_DATA_CHUNK && sent.xfer == 3);
	CU_ASSERT_PTR_NOT_EQUAL(sent_payload, lying_bytes);
	w.flow->kind = FM_KIND_TCP;
	lying_end(x);
}

static struct fm_buffer *buffer(void)
{
	struct fm_buffer_opts o = { .fd = memfd_create("test", MFD_ALLOW_SEALING),
				    .bytes = sizeof(lying_bytes) };
	struct fm_buffer *b;

	CU_ASSERT_EQUAL_FATAL(write(o.fd, lying_bytes, sizeof(lying_bytes)), sizeof(lying_bytes));
	CU_ASSERT_EQUAL_FATAL(fcntl(o.fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
	CU_ASSERT_EQUAL_FATAL(fm_buffer_map(&o, &b, NULL), 0);
	close(o.fd);
	return b;
}

static void say_written(uint64_t seq)
{
	say(&(struct fm_data_msg){.type = FM_DATA_ACK,
				  .status = FM_ACK_WRITTEN,
				  .slot = 3,
				  .generation = 1,
				  .seq = seq,
				  .xfer = 3});
}

/*
 * Goal: a chunk of a buffer does not wait until the buffer is lent as a whole, and goes through a
 * slot; the next one goes from where it lies, also when it is sent again. What is lent ends with
 * the connection.
 */
static void test_buffer_is_sent_from_where_it_lies_over_rdma(void)
{
	struct fm_buffer *b;
	struct fm_moved moved;
	struct fm_xfer *x;

	begin_with(&lending_ops);
	x = lying_source();
	b = buffer();
	lying.file.buffer = b;
	lying.file.memory = fm_buffer_memory(b);
	fm_link_set_kinds(x, 1u << FM_KIND_RDMA);
	w.flow->kind = FM_KIND_RDMA;
	fm_lane_wake(&w.lane);
	spin();
	CU_ASSERT_EQUAL_FATAL(lying.count, 1);
	end_read(&lying);
	spin();
	CU_ASSERT_TRUE(sent.type == FM_DATA_CHUNK && sent.xfer == 3 && sent.seq == 0);
	CU_ASSERT_EQUAL(lends, 1);
	say_written(0);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_TRUE(sent.xfer == 3 && sent.seq == 1);
		CU_ASSERT_PTR_EQUAL(sent_payload, fm_buffer_memory(b) + CHUNK);
		CU_ASSERT_PTR_EQUAL_FATAL(sent_region->memory, fm_buffer_memory(b));
		sent_payload = NULL;
		say(&(struct fm_data_msg){.type = FM_DATA_ACK,
					  .status = FM_ACK_CORRUPT,
					  .slot = 3,
					  .generation = 1,
					  .seq = 1,
					  .xfer = 3});
	}
	say_written(1);
	fm_link_moved(x, &moved);
	CU_ASSERT_TRUE(moved.bytes == 2 * CHUNK && moved.direct == CHUNK);
	CU_ASSERT_EQUAL(lends, 1);
	w.flow->kind = FM_KIND_TCP;
	fm_buffer_unref(b);	/* before what it was registered with is freed */
	lying_end(x);
	CU_ASSERT_EQUAL(lends + lenders, 0);
}

/* ---- what comes to memory ---- */

static char place[2 * CHUNK];		/* of a sink, which has no room for the last byte */
static struct file placed;

/* A chunk of it, with the right CRC of bytes that are all `byte`. */
static struct fm_data_msg chunk_to_place(uint64_t seq, char byte)
{
	static char bytes[CHUNK];

	memset(bytes, byte, CHUNK);
	return (struct fm_data_msg){.type = FM_DATA_CHUNK,
				    .xfer = 3,
				    .seq = seq,
				    .offset = seq * CHUNK,
				    .length = CHUNK,
				    .generation = w.flow->rx_generation,
				    .data_crc = fm_crc32c(0, bytes, CHUNK)};
}

static void *ask_place(const struct fm_data_msg *m)
{
	uint8_t msg[FM_DATA_MSG_SIZE];

	CU_ASSERT_EQUAL_FATAL(fm_data_encode(m, msg), 0);
	return events->place(events_ctx, msg, m->length);
}

static struct fm_xfer *placed_sink(void)
{
	struct fm_xfer *x;

	diverts = 0;
	memset(place, 0, sizeof(place));
	placed = (struct file){ .count = 0 };
	x = sink(&placed, 3, NULL);
	placed.file.place = place;
	placed.file.room = sizeof(place) - 1;
	say(&(struct fm_data_msg){ .type = FM_DATA_WANT });
	CU_ASSERT_EQUAL_FATAL(sent.type, FM_DATA_GRANT);
	return x;
}

static void placed_end(struct fm_xfer *x)
{
	break_conn();
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	CU_ASSERT_EQUAL(w.gone, 1);
	if (!x->is_removed)
		fm_link_remove(w.link, x);
	spin();
	fm_xfer_free(x);
	end();
}

static enum fm_ack_status answer_to(const struct fm_data_msg *m)
{
	sent.type = 0;
	say(m);
	CU_ASSERT_TRUE(sent.type == FM_DATA_ACK && sent.seq == m->seq);
	return (enum fm_ack_status)sent.status;
}

static void fill_slot(char byte)
{
	memset(w.flow->rx_lease.region.memory, byte, CHUNK);
}

/*
 * Goal: what comes for memory is told its place there, is checked there, and comes there again if
 * it was damaged. What has no room goes through its slot.
 */
static void test_comes_to_its_place(void)
{
	struct fm_data_msg first, second;
	struct fm_moved moved;
	struct fm_xfer *x;

	begin();
	x = placed_sink();
	first = chunk_to_place(0, 7);
	second = chunk_to_place(1, 8);
	CU_ASSERT_PTR_EQUAL(ask_place(&first), place);
	memset(place, 6, CHUNK);
	CU_ASSERT_EQUAL(answer_to(&first), FM_ACK_CORRUPT);
	CU_ASSERT_PTR_EQUAL(ask_place(&first), place);
	memset(place, 7, CHUNK);
	CU_ASSERT_EQUAL(answer_to(&first), FM_ACK_WRITTEN);
	CU_ASSERT_PTR_NULL(ask_place(&second));
	fill_slot(8);
	say(&second);
	CU_ASSERT_EQUAL_FATAL(placed.count, 1);
	end_io(&placed, CHUNK);
	spin();
	CU_ASSERT_EQUAL(sent.status, FM_ACK_WRITTEN);
	CU_ASSERT_EQUAL(place[CHUNK], 0);
	fm_link_moved(x, &moved);
	CU_ASSERT_TRUE(moved.bytes == 2 * CHUNK && moved.direct == CHUNK && moved.corrupt == 1);
	placed_end(x);
}

/*
 * Goal: bytes that were found good, or are just coming, are not written over by a second copy of
 * their chunk, which may be damaged: it is kept in its slot, and dropped or asked for again.
 */
static void test_one_copy_at_a_time(void)
{
	struct fm_landing other = { .x = NULL };
	struct fm_chunk c = { .len = CHUNK };
	struct fm_data_msg first;
	struct fm_moved moved;
	struct fm_xfer *x;

	begin();
	x = placed_sink();
	first = chunk_to_place(0, 7);
	c.crc = first.data_crc;
	CU_ASSERT_EQUAL_FATAL(fm_link_land(x, &c, &other), 0);	/* another connection's */
	CU_ASSERT_PTR_NULL(ask_place(&first));
	fill_slot(7);
	CU_ASSERT_EQUAL(answer_to(&first), FM_ACK_BUSY);
	CU_ASSERT_EQUAL(place[0], 0);
	fm_link_land_not(&other);
	fill_slot(7);
	CU_ASSERT_EQUAL(answer_to(&first), FM_ACK_WRITTEN);	/* from its slot */
	CU_ASSERT_EQUAL(place[CHUNK - 1], 7);
	CU_ASSERT_PTR_NULL(ask_place(&first));
	fill_slot(6);
	CU_ASSERT_EQUAL(answer_to(&first), FM_ACK_WRITTEN);	/* long ago */
	CU_ASSERT_EQUAL(place[0], 7);
	fm_link_moved(x, &moved);
	CU_ASSERT_TRUE(moved.bytes == CHUNK && moved.resent == CHUNK);
	placed_end(x);
}

/* Goal: a transfer that was removed in the midst of a chunk is over at once, and nothing more of it
 * comes to its memory. */
static void test_removed_while_it_comes(void)
{
	struct fm_data_msg first;
	struct fm_xfer *x;
	unsigned told;

	begin();
	x = placed_sink();
	first = chunk_to_place(0, 7);
	CU_ASSERT_PTR_EQUAL(ask_place(&first), place);
	told = w.notified;
	CU_ASSERT_TRUE(fm_link_remove(w.link, x));
	fm_lane_wake(&w.lane);
	spin();
	CU_ASSERT_EQUAL(diverts, 1);
	CU_ASSERT_EQUAL(w.notified, told + 1);	/* drained */
	CU_ASSERT_EQUAL(answer_to(&first), FM_ACK_DROPPED);
	CU_ASSERT_EQUAL(place[0], 0);
	placed_end(x);
}

/*
 * Goal: a chunk of which a part came to the memory of a transfer that was removed is nobody's, also
 * where another transfer has its number by now: what lies in its slot are others' bytes.
 */
static void test_torn_chunk_is_nobodys(void)
{
	struct fm_data_msg first;
	struct fm_xfer *x, *again;
	struct file to = { 0 };

	begin();
	x = placed_sink();
	first = chunk_to_place(0, 7);
	CU_ASSERT_PTR_EQUAL(ask_place(&first), place);
	CU_ASSERT_TRUE(fm_link_remove(w.link, x));
	again = sink(&to, 3, NULL);
	fm_lane_wake(&w.lane);
	spin();
	fill_slot(7);
	CU_ASSERT_EQUAL(answer_to(&first), FM_ACK_DROPPED);
	CU_ASSERT_EQUAL_FATAL(to.count, 0);
	say(&first);			/* whole, this time */
	CU_ASSERT_EQUAL_FATAL(to.count, 1);
	end_io(&to, CHUNK);
	spin();
	CU_ASSERT_EQUAL(sent.status, FM_ACK_WRITTEN);
	fm_link_remove(w.link, again);
	placed_end(x);
	fm_xfer_free(again);
}

/* Goal: a chunk whose connection broke in the midst of it may come over another one. */
static void test_broken_while_it_comes(void)
{
	struct fm_landing other = { .x = NULL };
	struct fm_chunk c = { .len = CHUNK };
	struct fm_data_msg first;
	struct fm_xfer *x;

	begin();
	x = placed_sink();
	first = chunk_to_place(0, 7);
	CU_ASSERT_PTR_EQUAL(ask_place(&first), place);
	CU_ASSERT_EQUAL(fm_link_land(x, &c, &other), -EAGAIN);
	break_conn();
	CU_ASSERT_EQUAL_FATAL(fm_link_land(x, &c, &other), 0);
	fm_link_land_not(&other);
	end_read(&w.disk);
	end_read(&w.disk);
	spin();
	fm_link_remove(w.link, x);
	spin();
	fm_xfer_free(x);
	end();
}

static const struct fm_test tests[] = {
	{"a disk that hangs holds none but its own chunks of a connection that is gone",
	 test_hung_disk},
	{"what was acknowledged, or removed, does not come back when a connection ends",
	 test_acked_and_removed},
	{"slots that are not given back end their connection, though nothing happens there",
	 test_slots_kept},
	{"what is left of a transfer that ended may be answered slowly",
	 test_orphans_are_answered_slowly},
	{"what is left of a transfer that ended may leave slowly", test_orphans_leave_slowly},
	{"slots are not taken from a chunk that comes slowly", test_slots_kept_by_slow_chunk},
	{"slots are not taken from a small chunk that comes slowly",
	 test_slots_kept_by_slow_small_chunk},
	{"a pack is checked by who writes it, and comes again if it is damaged",
	 test_pack_is_checked_by_its_writer},
	{"a chunk without its bytes may not come over TCP", test_chunk_brings_its_bytes},
	{"what another session left in a slab is gone when it is lent over RDMA",
	 test_lent_slab_is_cleared},
	{"the same if it was lent over TCP in between", test_lent_slab_is_cleared_after_tcp},
	{"a write that hangs keeps no other slot from a peer while somebody waits",
	 test_hung_write_beside_who_waits},
	{"nor where nothing else came meanwhile", test_hung_write_alone},
	{"writes of a disk that is slow keep no slab from who has none",
	 test_slow_writes_beside_who_waits},
	{"nor do those of many transfers", test_slow_writes_of_many},
	{"a read that hangs keeps no other slot from a source while somebody waits",
	 test_hung_read_beside_who_waits},
	{"reads of a disk that is slow keep no slab from who has none",
	 test_slow_reads_beside_who_waits},
	{"what the disk gives back wrong comes again", test_read_back_comes_again},
	{"what it gives back of nothing is not believed", test_read_back_of_nothing},
	{"what it gives back wrong fails the transfer if another copy counted",
	 test_read_back_after_it_counted},
	{"what it gives back wrong fails the transfer if nobody hears of it",
	 test_read_back_unheard},
	{"what lies in memory is sent from there over TCP",
	 test_memory_is_sent_from_where_it_lies},
	{"memory that changed is not made good by a new CRC",
	 test_changed_memory_is_not_made_good},
	{"what arrived damaged of a transfer that ended is not sent again",
	 test_damaged_and_removed},
	{"memory that changed is not made good over another connection",
	 test_changed_memory_is_not_good_elsewhere},
	{"what is sent again without a read has the CRC that it had", test_keeps_its_crc},
	{"a stream is sent again as it was read", test_stream_comes_as_it_was_read},
	{"what lies in memory goes through a slot over RDMA",
	 test_memory_goes_through_a_slot_over_rdma},
	{"a buffer is sent from where it lies over RDMA, once it is lent as a whole",
	 test_buffer_is_sent_from_where_it_lies_over_rdma},
	{"what comes for memory comes to its place, and is checked there", test_comes_to_its_place},
	{"bytes that are good, or are coming, are not written over", test_one_copy_at_a_time},
	{"nothing comes to the memory of a transfer that was removed", test_removed_while_it_comes},
	{"a chunk of which a part came elsewhere is nobody's", test_torn_chunk_is_nobodys},
	{"a chunk that broke off may come over another connection", test_broken_while_it_comes},
};
FM_TEST_MAIN("flow", tests)
