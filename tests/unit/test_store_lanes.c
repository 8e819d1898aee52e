/* SPDX-License-Identifier: MIT */
/*
 * One file, several lanes at once, as the engine has it. Meant for the thread sanitizer too.
 * links: fm_store
 */
#include <pthread.h>

#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/ranges.h"
#include "mover/store/ranged_file.h"
#include "mover/tree/digest.h"
#include "tests/unit/store_scene.h"

enum { LANES = 4, CHUNKS = 41, IN_FLIGHT = 3, PIECE = 64 << 10 };
#define SIZE ((uint64_t)CHUNKS * CHUNK - 4095)		/* an odd tail */
#define PIECES ((CHUNKS - 1) * (CHUNK / PIECE))

struct worker {
	struct lane lane;
	unsigned char *memory;
	struct fm_file *file;
	bool is_write;
	bool is_reversed;	/* its pieces are, the last of the stored file first */
	unsigned chunks;
	unsigned index;
	unsigned failures;
};

struct slot {
	struct waited w;
	unsigned char *buf;
	uint64_t offset;
	uint32_t len;
};

static void slot_start(struct worker *wk, struct slot *slot, unsigned chunk)
{
	slot->offset = (uint64_t)chunk * CHUNK;
	slot->len = SIZE - slot->offset < CHUNK ? (uint32_t)(SIZE - slot->offset) : CHUNK;
	slot->w = (struct waited){ .io = { .done = waited_done, .buf = slot->buf, .len = slot->len,
					   .offset = slot->offset } };
	if (wk->is_write) {
		fm_null_fill(slot->buf, slot->offset, slot->len);
		wk->file->ops->write(wk->file, &wk->lane.io, &slot->w.io);
	} else {
		wk->file->ops->read(wk->file, &wk->lane.io, &slot->w.io);
	}
}

static void fill_reversed(unsigned char *want, uint64_t offset, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += PIECE)
		fm_null_fill(want + at, (PIECES - 1 - (offset + at) / PIECE) * PIECE, PIECE);
}

static bool slot_is_good(const struct worker *wk, struct slot *slot, unsigned char *want)
{
	if (slot->w.calls != 1 || slot->w.io.res != slot->len)
		return false;
	if (wk->is_reversed)
		fill_reversed(want, slot->offset, slot->len);
	else
		fm_null_fill(want, slot->offset, slot->len);
	return wk->is_write || memcmp(slot->buf, want, slot->len) == 0;
}

/* CUnit is not made for threads: failures are counted, and asserted on by the main one. */
static void *lane_thread(void *arg)
{
	struct worker *wk = arg;
	struct slot slots[IN_FLIGHT] = { 0 };
	unsigned chunk = wk->index;

	for (unsigned i = 0; i < IN_FLIGHT; i++)
		slots[i].buf = wk->memory + i * CHUNK;
	while (chunk < wk->chunks) {
		unsigned used = 0;

		for (; used < IN_FLIGHT && chunk < wk->chunks; used++, chunk += LANES)
			slot_start(wk, &slots[used], chunk);
		for (unsigned i = 0; i < used; i++) {
			while (slots[i].w.calls == 0)
				fm_loop_step(wk->lane.loop, 100000000);
			wk->failures +=
				!slot_is_good(wk, &slots[i], wk->memory + IN_FLIGHT * CHUNK);
		}
	}
	return NULL;
}

/*
 * Lanes are opened and closed here: a ring that is mapped where another thread's was would look
 * like a race to the sanitizer.
 */
static void run_lanes(struct fm_file *file, bool is_write, bool is_reversed)
{
	struct worker workers[LANES] = { 0 };
	pthread_t ids[LANES];

	for (unsigned i = 0; i < LANES; i++) {
		workers[i].file = file;
		workers[i].is_write = is_write;
		workers[i].is_reversed = is_reversed;
		workers[i].chunks = is_reversed ? CHUNKS - 1 : CHUNKS;
		workers[i].index = i;
		workers[i].memory = aligned_alloc(65536, (IN_FLIGHT + 1) * CHUNK);
		lane_open(&workers[i].lane, false);
	}
	for (unsigned i = 0; i < LANES; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&ids[i], NULL, lane_thread, &workers[i]), 0);
	for (unsigned i = 0; i < LANES; i++) {
		CU_ASSERT_EQUAL(pthread_join(ids[i], NULL), 0);
		CU_ASSERT_EQUAL(workers[i].failures, 0);
	}
	for (unsigned i = 0; i < LANES; i++) {
		lane_close(&workers[i].lane);
		free(workers[i].memory);
	}
}

/* Keeps with "f" the digest of the whole of it, where the file system keeps any. */
static void keep_digest(void)
{
	unsigned char *whole = malloc(SIZE);
	struct fm_digest d = {.size = SIZE};
	int fd = open(at("f"), O_RDWR);
	struct stat st;

	CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
	fm_null_fill(whole, 0, SIZE);
	d.crc = fm_crc32c(0, whole, SIZE);
	free(whole);
	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	d.mtime_ns = fm_time_ns(&st.st_mtim);
	(void)fm_digest_set(fd, &d);
	close(fd);
}

/* Reads the pieces of "f" as ranges, and compares them with the digest that is kept with it. */
static void read_reversed(void)
{
	static struct fm_range ranges[PIECES];
	uint64_t offset, length;
	struct fm_file *file;
	struct fm_attr attr;
	int fd, ret;

	keep_digest();
	fd = s->ops->open_fd(s, "f", &a_peer, &err);
	for (size_t i = 0; i < PIECES; i++)
		ranges[i] = (struct fm_range){(PIECES - 1 - i) * PIECE, PIECE};
	CU_ASSERT_EQUAL_FATAL(fm_ranged_file_new(fd, ranges, PIECES, true, &file, &attr, &err), 0);
	run_lanes(file, false, true);
	do
		ret = fm_ranged_file_check(file, &err);
	while (ret > 0);
	CU_ASSERT_EQUAL(ret, 0);
	CU_ASSERT_FALSE(fm_ranged_file_damage(file, &offset, &length));
	file->ops->close(file);
}

/* Goal: what several lanes write is what several lanes read, with a quota that all of them take
 * from. */
static void test_lanes(void)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .quota_bytes = SIZE + 100};
	const struct fm_attr written = { .mode = 0644 };
	struct fm_attr attr;
	struct fm_file *file;

	for (size_t n = 0; n < 2 * BASES; n++) {
		struct fm_create how = { .size = n % 2 ? SIZE : FM_SIZE_UNKNOWN };

		begin(bases[n / 2], false);
		s->ops->free(s);
		CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &a_peer, &how, &file, &err), 0);
		run_lanes(file, true, false);
		CU_ASSERT_EQUAL(file->ops->publish(file, SIZE, &written, true, &err), 0);
		file->ops->close(file);
		CU_ASSERT_EQUAL(put("g", 101, 1, false), -EDQUOT);
		CU_ASSERT_EQUAL(put("g", 100, 1, false), 0);
		CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "f", &a_peer, &file, &attr, &err), 0);
		CU_ASSERT_EQUAL(attr.size, SIZE);
		run_lanes(file, false, false);
		file->ops->close(file);
		read_reversed();
		end();
	}
}

/* Goal: of many that put one name at once without leave, one wins and the others are told; the file
 * is whole. */
static void *put_thread(void *arg)
{
	const struct fm_attr written = { .mode = 0644 };
	struct fm_create how = { .size = 0 };
	struct fm_file *file;
	int *result = arg;

	*result = s->ops->create(s, "name", &a_peer, &how, &file, NULL);
	if (*result < 0)
		return NULL;
	*result = file->ops->publish(file, 0, &written, false, NULL);
	file->ops->close(file);
	return NULL;
}

static void test_one_name(void)
{
	enum { PUTS = 16 };
	pthread_t ids[PUTS];
	int results[PUTS];

	for (size_t b = 0; b < BASES; b++) {
		unsigned won = 0, told = 0;

		begin(bases[b], false);
		for (unsigned i = 0; i < PUTS; i++)
			CU_ASSERT_EQUAL_FATAL(
				pthread_create(&ids[i], NULL, put_thread, &results[i]), 0);
		for (unsigned i = 0; i < PUTS; i++) {
			CU_ASSERT_EQUAL(pthread_join(ids[i], NULL), 0);
			won += results[i] == 0;
			told += results[i] == -EEXIST;
		}
		CU_ASSERT_EQUAL(won, 1);
		CU_ASSERT_EQUAL(told, PUTS - 1);
		end();
	}
}

static const struct fm_test tests[] = {
	{ "several lanes write and read one file", test_lanes },
	{ "of many puts of one name one wins", test_one_name },
};
FM_TEST_MAIN("store lanes", tests)
