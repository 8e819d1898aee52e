/* SPDX-License-Identifier: MIT */
/*
 * Buffers that are lent to connections as a whole: once for each session and device, beside the
 * transfers, under a limit, and gone with the buffer or the connections. links: fm_data
 */
#include "tests/fm_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/data/registered.h"
#include "mover/store/buffer.h"
#include "mover/store/store.h"
#include "mover/transport/transport.h"

#define BYTES 65536u
#define LONG_NS (20 * FM_NS_PER_S)

static uint64_t now_ns = FM_NS_PER_S;

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return now_ns;
}

static const struct fm_clock test_clock = { clock_now, NULL };

/* ---- devices ---- */

static pthread_t loop_thread;

struct device {
	struct fm_lender lender;
	atomic_uint refs;
	atomic_uint lends;		/* of its life */
	atomic_uint lent;		/* now */
	atomic_uint wrong;		/* what must not be, on whatever thread */
	atomic_uint on_loop;		/* taken back there */
	bool refuses;
	sem_t *until;			/* lending takes until then */
};

static int device_lend(struct fm_lender *lender, const void *memory, size_t len,
		       struct fm_region *out, struct fm_err *err)
{
	struct device *d = fm_container_of(lender, struct device, lender);

	/* It is mapped, whatever its owner did meanwhile. */
	d->wrong += ((const char *)memory)[len - 1] != 7;
	d->lends++;
	while (d->until && sem_wait(d->until) < 0)
		;	/* interrupted */
	if (d->refuses)
		return fm_err_set(err, -ENOMEM, "no memory that may be locked");
	d->lent++;
	*out = (struct fm_region){ .memory = (void *)(uintptr_t)memory, .len = len };
	return 0;
}

static void device_take_back(struct fm_lender *lender, struct fm_region *region)
{
	struct device *d = fm_container_of(lender, struct device, lender);

	(void)region;
	d->on_loop += pthread_equal(pthread_self(), loop_thread) != 0;
	d->wrong += d->lent == 0 || d->refs == 0;
	d->lent--;
}

static const char *device_name(const struct fm_lender *lender)
{
	(void)lender;
	return "device";
}

static void device_put(struct fm_lender *lender)
{
	struct device *d = fm_container_of(lender, struct device, lender);

	d->wrong += d->refs == 0;
	d->refs--;
}

static const struct fm_lender_ops device_ops = {
	.lend = device_lend,
	.take_back = device_take_back,
	.name = device_name,
	.put = device_put,
};

struct conn {
	struct fm_conn conn;
	struct device *device;
};

static struct fm_lender *conn_lender(struct fm_conn *conn)
{
	struct device *d = fm_container_of(conn, struct conn, conn)->device;

	d->refs++;
	return &d->lender;
}

static const struct fm_conn_ops conn_ops = { .lender = conn_lender };
static const struct fm_conn_ops tcp_ops = { .lender = NULL };

/* ---- all of it ---- */

static struct {
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_registered *registered;
	struct device a, b;
} w;

static void spin(void)
{
	while (fm_loop_step(w.loop, 0))
		;
}

static void begin_with(const struct fm_loop_opts *lo, unsigned threads, uint64_t bytes_max)
{
	struct fm_registered_opts o;

	memset(&w, 0, sizeof(w));
	loop_thread = pthread_self();
	w.a.lender.ops = w.b.lender.ops = &device_ops;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(lo, &w.loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(threads, &w.worker, NULL), 0);
	o = (struct fm_registered_opts){.loop = w.loop, .worker = w.worker, .bytes_max = bytes_max};
	CU_ASSERT_EQUAL_FATAL(fm_registered_new(&o, &w.registered, NULL), 0);
}

static void begin(uint64_t bytes_max)
{
	const struct fm_loop_opts simulated = { .is_simulated = true, .clock = &test_clock };

	begin_with(&simulated, 0, bytes_max);
}

/* As the daemon ends: what the worker has done is told to the loop behind its end. */
static void end(void)
{
	spin();
	fm_registered_stop(w.registered);
	fm_worker_free(w.worker);
	spin();
	CU_ASSERT_EQUAL(w.a.lent + w.b.lent + w.a.refs + w.b.refs + w.a.wrong + w.b.wrong, 0);
	fm_registered_free(w.registered);
	fm_loop_free(w.loop);
}

static struct fm_registered_place *join(struct device *device)
{
	struct conn c = { { .ops = &conn_ops }, device };
	struct fm_registered_place *place = fm_registered_join(w.registered, &c.conn);

	CU_ASSERT_PTR_NOT_NULL_FATAL(place);
	return place;
}

/* Any thread, which CUnit's assertions are not for. */
static struct fm_buffer *buffer_of(uid_t uid)
{
	struct fm_buffer_opts o = { .fd = memfd_create("test", MFD_ALLOW_SEALING),
				    .bytes = BYTES,
				    .uid = uid };
	struct fm_buffer *b;
	char sevens[BYTES];

	memset(sevens, 7, BYTES);
	if (write(o.fd, sevens, BYTES) != BYTES ||
	    fcntl(o.fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0 ||
	    fm_buffer_map(&o, &b, NULL) < 0)
		abort();
	close(o.fd);
	return b;
}

static struct fm_buffer *buffer(void)
{
	return buffer_of(0);
}

/* A put of it begins. */
static struct fm_file *source(struct fm_buffer *b)
{
	struct fm_file *file;
	struct fm_attr attr;

	if (fm_buffer_source(b, 4096, 100, &file, &attr, NULL) < 0)
		abort();
	return file;
}

static void close_file(struct fm_file *file)
{
	file->ops->close(file);
}

static const struct fm_region *find(struct fm_registered_place *place, const struct fm_file *file)
{
	return fm_registered_find(place, file, now_ns);
}

/* Goal: it is lent once, whole, whatever puts and connections there are; not before the worker did
 * it. Another device has it once more. */
static void test_lent_once(void)
{
	struct fm_registered_place *place, *same, *other;
	struct fm_buffer *b = buffer();
	struct fm_file *first = source(b), *second = source(b);
	const struct fm_region *r;

	begin(100 * BYTES);
	place = join(&w.a);
	same = join(&w.a);
	other = join(&w.b);
	CU_ASSERT_PTR_EQUAL(place, same);
	CU_ASSERT_PTR_NOT_EQUAL(place, other);
	CU_ASSERT_EQUAL(w.a.refs, 1);
	CU_ASSERT_PTR_NULL(find(place, first));
	CU_ASSERT_PTR_NULL(find(same, second));
	CU_ASSERT_EQUAL(w.a.lends, 0);
	spin();
	r = find(place, first);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	CU_ASSERT_PTR_EQUAL(r->memory, fm_buffer_memory(b));
	CU_ASSERT_EQUAL(r->len, BYTES);
	CU_ASSERT_PTR_EQUAL(find(same, second), r);
	CU_ASSERT_PTR_NULL(find(other, first));
	spin();
	CU_ASSERT_PTR_NOT_NULL(find(other, first));
	close_file(first);
	close_file(second);
	spin();
	CU_ASSERT_TRUE(w.a.lends == 1 && w.a.lent == 1 && w.b.lends == 1 && w.b.lent == 1);
	fm_buffer_unref(b);
	spin();
	CU_ASSERT_EQUAL(w.a.lent + w.b.lent, 0);
	fm_registered_leave(place);
	fm_registered_leave(same);
	fm_registered_leave(other);
	end();
}

/* Goal: given back by its owner in the midst of a put, it stays until the put has ended, and no
 * longer; also while it is being lent. */
static void test_freed_under_a_put(void)
{
	struct fm_registered_place *place;
	struct fm_buffer *b = buffer();
	struct fm_file *file = source(b);

	begin(100 * BYTES);
	place = join(&w.a);
	(void)find(place, file);
	fm_buffer_unref(b);
	spin();
	CU_ASSERT_PTR_NOT_NULL(find(place, file));
	close_file(file);
	spin();
	CU_ASSERT_TRUE(w.a.lends == 1 && w.a.lent == 0);

	b = buffer();
	file = source(b);
	(void)find(place, file);
	close_file(file);
	fm_buffer_unref(b);
	spin();
	CU_ASSERT_TRUE(w.a.lends == 2 && w.a.lent == 0);
	fm_registered_leave(place);
	end();
}

/* Goal: it ends with the last connection of its session on the device, also while it is being lent;
 * one that comes later has it lent anew. */
static void test_connections_end(void)
{
	struct fm_registered_place *place, *same;
	struct fm_buffer *b = buffer();
	struct fm_file *file = source(b);

	begin(100 * BYTES);
	place = join(&w.a);
	same = join(&w.a);
	(void)find(place, file);
	spin();
	fm_registered_leave(place);
	spin();
	CU_ASSERT_EQUAL(w.a.lent, 1);
	fm_registered_leave(same);
	spin();
	CU_ASSERT_EQUAL(w.a.lent + w.a.refs, 0);

	place = join(&w.a);
	CU_ASSERT_PTR_NULL(find(place, file));
	fm_registered_leave(place);
	spin();
	CU_ASSERT_TRUE(w.a.lends == 1 && w.a.lent == 0 && w.a.refs == 0);

	place = join(&w.a);
	(void)find(place, file);
	spin();
	CU_ASSERT_PTR_NOT_NULL(find(place, file));
	fm_registered_leave(place);
	close_file(file);
	fm_buffer_unref(b);
	end();
}

/* Goal: what the device refuses is copied, and is tried again after a while, not for each chunk. */
static void test_refused(void)
{
	struct fm_registered_place *place;
	struct fm_buffer *b = buffer();
	struct fm_file *file = source(b);

	begin(100 * BYTES);
	place = join(&w.a);
	w.a.refuses = true;
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_PTR_NULL(find(place, file));
		spin();
	}
	CU_ASSERT_EQUAL(w.a.lends, 1);
	now_ns += LONG_NS;
	w.a.refuses = false;
	CU_ASSERT_PTR_NULL(find(place, file));
	spin();
	CU_ASSERT_PTR_NOT_NULL(find(place, file));
	CU_ASSERT_EQUAL(w.a.lends, 2);
	fm_registered_leave(place);
	w.a.refuses = true;
	place = join(&w.a);
	(void)find(place, file);
	spin();
	close_file(file);
	fm_buffer_unref(b);	/* one that was refused goes, too */
	fm_registered_leave(place);
	end();
}

/* Goal: beyond the limit it is copied; what others give back can be had. (An eighth is root's, who
 * all of these belong to here.) */
static void test_limit(void)
{
	struct fm_registered_place *place;
	struct fm_buffer *b[6];
	struct fm_file *file[6];
	unsigned there = 0;

	begin(3 * BYTES);
	place = join(&w.a);
	for (unsigned i = 0; i < 6; i++) {
		b[i] = buffer();
		file[i] = source(b[i]);
		(void)find(place, file[i]);
		spin();
		there += find(place, file[i]) != NULL;
	}
	CU_ASSERT_TRUE(there >= 1 && there <= 3);
	CU_ASSERT_EQUAL(w.a.lent, there);
	CU_ASSERT_EQUAL(w.a.lends, there);
	CU_ASSERT_PTR_NULL(find(place, file[5]));
	for (unsigned i = 0; i < 5; i++) {
		close_file(file[i]);
		fm_buffer_unref(b[i]);
	}
	spin();
	CU_ASSERT_EQUAL(w.a.lent, 0);
	now_ns += LONG_NS;
	(void)find(place, file[5]);
	spin();
	CU_ASSERT_PTR_NOT_NULL(find(place, file[5]));
	close_file(file[5]);
	fm_buffer_unref(b[5]);
	fm_registered_leave(place);
	end();
}

/* Goal: four times what buffers may have, but half of what may be locked, at most. */
static void test_most(void)
{
	CU_ASSERT_EQUAL(fm_registered_bytes_max(UINT64_MAX, 1000), 4000);
	CU_ASSERT_EQUAL(fm_registered_bytes_max(8000, 1000), 4000);
	CU_ASSERT_EQUAL(fm_registered_bytes_max(7000, 1000), 3500);
	CU_ASSERT_EQUAL(fm_registered_bytes_max(0, 1000), 0);
	CU_ASSERT_EQUAL(fm_registered_bytes_max(UINT64_MAX, UINT64_MAX), UINT64_MAX / 2);
}

/* Goal: where nothing is lent as a whole, or the source is no buffer, there is nothing. */
static void test_nothing(void)
{
	struct conn tcp = { { .ops = &tcp_ops }, NULL };
	struct fm_file file = { .memory = "" };
	struct fm_registered_place *place;

	begin(BYTES);
	CU_ASSERT_PTR_NULL(fm_registered_join(NULL, &tcp.conn));
	CU_ASSERT_PTR_NULL(fm_registered_join(w.registered, &tcp.conn));
	CU_ASSERT_PTR_NULL(find(NULL, &file));
	fm_registered_leave(NULL);
	place = join(&w.a);
	CU_ASSERT_PTR_NULL(find(place, &file));
	spin();
	CU_ASSERT_EQUAL(w.a.lends, 0);
	fm_registered_leave(place);
	end();
}

/* ---- real threads ---- */

static const struct fm_loop_opts real = { .clock = NULL };

/* Whether that comes to be so many. */
static bool becomes(const atomic_uint *what, unsigned count)
{
	time_t until = time(NULL) + FM_TEST_HANG_S;

	while (*what != count && time(NULL) < until)
		(void)fm_loop_step(w.loop, FM_NS_PER_MS);
	return *what == count;
}

static void await_worker(unsigned waiting, unsigned running)
{
	time_t until = time(NULL) + FM_TEST_HANG_S;
	struct fm_worker_count count;

	do {
		(void)fm_loop_step(w.loop, FM_NS_PER_MS);
		fm_worker_count(w.worker, &count);
	} while ((count.waiting != waiting || count.running != running) && time(NULL) < until);
	CU_ASSERT_TRUE(count.waiting == waiting && count.running == running);
}

struct hanging {
	struct fm_work work;
	sem_t until;
};

static void hanging_run(struct fm_work *work)
{
	while (sem_wait(&fm_container_of(work, struct hanging, work)->until) < 0)
		;	/* interrupted */
}

static void hanging_done(struct fm_work *work)
{
	(void)work;
}

/*
 * Goal: calls of a user that hang keep no device: neither the one that a buffer of his is waiting
 * to be lent to, nor the one that another one is lent to. Method: as many as he may have at once
 * hang, then the connections end.
 */
static void test_users_threads_hang(void)
{
	static struct hanging hang = {
		.work = {.run = hanging_run, .done = hanging_done, .who = {.uid = 1000}}};
	struct fm_buffer *b = buffer_of(1000);
	struct fm_file *file = source(b);
	struct fm_registered_place *place, *other;

	CU_ASSERT_EQUAL(sem_init(&hang.until, 0, 0), 0);
	begin_with(&real, 2, 100 * BYTES);
	fm_worker_share(w.worker, 0);
	place = join(&w.a);
	other = join(&w.b);
	(void)find(place, file);
	CU_ASSERT_TRUE(becomes(&w.a.lent, 1));
	await_worker(0, 0);
	fm_worker_submit(w.worker, &hang.work, w.loop);
	await_worker(0, 1);
	CU_ASSERT_PTR_NULL(find(other, file));
	await_worker(1, 1);
	fm_registered_leave(other);
	fm_registered_leave(place);
	CU_ASSERT_TRUE(becomes(&w.b.refs, 0));
	CU_ASSERT_TRUE(becomes(&w.a.refs, 0));
	CU_ASSERT_EQUAL(w.b.lends, 0);
	sem_post(&hang.until);
	close_file(file);
	fm_buffer_unref(b);
	end();
	sem_destroy(&hang.until);
}

/* Begins to lend it, and ends all connections before that is done. */
static void leave_while_lending(struct fm_file *file)
{
	struct fm_registered_place *place = join(&w.a);
	unsigned before = w.a.lends;

	CU_ASSERT_PTR_NULL(find(place, file));
	CU_ASSERT_TRUE(becomes(&w.a.lends, before + 1));
	fm_registered_leave(place);
	sem_post(w.a.until);
}

/*
 * Goal: what came too late is taken back on the worker, however often a peer makes it so, since the
 * loop serves others; on the loop once the worker ends, from when on nothing is lent.
 */
static void test_gone_while_lending(void)
{
	struct fm_buffer *b = buffer();
	struct fm_file *file = source(b);
	struct fm_registered_place *place;
	sem_t until;

	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	begin_with(&real, 1, 100 * BYTES);
	w.a.until = &until;
	for (unsigned i = 0; i < 3; i++) {
		leave_while_lending(file);
		CU_ASSERT_TRUE(becomes(&w.a.refs, 0));
	}
	CU_ASSERT_TRUE(w.a.lends == 3 && w.a.lent == 0 && w.a.on_loop == 0);

	place = join(&w.b);
	(void)find(place, file);
	CU_ASSERT_TRUE(becomes(&w.b.lent, 1));
	await_worker(0, 0);
	spin();
	leave_while_lending(file);
	fm_registered_stop(w.registered);
	fm_registered_leave(place);
	place = join(&w.b);
	CU_ASSERT_PTR_NULL(find(place, file));
	spin();
	close_file(file);
	fm_buffer_unref(b);
	fm_registered_leave(place);
	end();
	CU_ASSERT_TRUE(w.a.lends == 4 && w.a.on_loop == 1);
	CU_ASSERT_TRUE(w.b.lends == 1 && w.b.on_loop == 1);
	sem_destroy(&until);
}

#define LANES 3
#define ROUNDS 200
#define SHARED 2	/* buffers of all lanes */

static struct fm_buffer *shared[SHARED];
static atomic_uint ended;

/* What a lane does: connections come and go under puts of buffers that come and go. */
static void *lane(void *ctx)
{
	struct conn c = { { .ops = &conn_ops }, ctx };

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct fm_registered_place *place = fm_registered_join(w.registered, &c.conn);
		struct fm_buffer *own = i % 2 ? buffer() : fm_buffer_ref(shared[i / 2 % SHARED]);
		struct fm_file *file = source(own);

		fm_buffer_unref(own);
		for (unsigned k = 0; k < i % 40; k++) {
			const struct fm_region *r = fm_registered_find(place, file, now_ns);

			if (r && ((const char *)r->memory)[BYTES - 1] != 7)
				w.a.wrong++;
			(void)usleep(k % 5 == 4 ? 10 : 0);
		}
		if (i % 3)
			close_file(file);
		fm_registered_leave(place);
		if (i % 3 == 0)
			close_file(file);
	}
	ended++;
	return NULL;
}

/* Goal: whatever happens at the same time, nothing is lent that is not mapped, and all comes back.
 * (The thread sanitizer sees the rest.) */
static void test_many_threads(void)
{
	pthread_t thread[LANES];

	begin_with(&real, 2, 8 * BYTES);
	for (unsigned i = 0; i < SHARED; i++)
		shared[i] = buffer();
	for (unsigned i = 0; i < LANES; i++)
		CU_ASSERT_EQUAL_FATAL(
			pthread_create(&thread[i], NULL, lane, i == 0 ? &w.b : &w.a), 0);
	while (ended < LANES)
		(void)fm_loop_step(w.loop, FM_NS_PER_MS);
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < SHARED; i++)
		fm_buffer_unref(shared[i]);
	end();
}

static const struct fm_test tests[] = {
	{"a buffer is lent once for a session's connections on a device", test_lent_once},
	{"a buffer given back under a put is lent until the put has ended", test_freed_under_a_put},
	{"a buffer is lent no longer than there are connections", test_connections_end},
	{"a buffer that a device refuses is copied, and tried again later", test_refused},
	{"buffers beyond the limit are copied", test_limit},
	{"how much is lent at most", test_most},
	{"what is no buffer, or needs no lending, is left alone", test_nothing},
	{"calls of a user that hang keep no device", test_users_threads_hang},
	{"what came too late is taken back on the worker", test_gone_while_lending},
	{"lanes, the worker and owners at the same time", test_many_threads},
};

FM_TEST_MAIN("registered", tests)
