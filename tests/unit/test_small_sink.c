/* SPDX-License-Identifier: MIT */
/*
 * A small file that comes into a store. links: fm_store
 */
#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/store/held_file.h"
#include "mover/store/small_sink.h"
#include "tests/unit/store_scene.h"

#define POINTS_MAX 60

static const struct fm_attr written = {
	.type = FM_NODE_FILE,
	.mode = 0640,
	.mtime_ns = 5 * NS_PER_S + 7,
};

static struct fm_file *sink(const char *path, uint64_t size, bool may_replace)
{
	const struct fm_create how = {
		.size = size,
		.is_dense = true,
		.may_replace = may_replace,
		.is_synced = true,
	};

	return fm_small_sink_new(s, path, &root_user, &how);
}

static struct fm_file *filled(const char *path, uint64_t size, uint64_t salt, bool may_replace)
{
	struct put p = { .size = size, .salt = salt };
	struct fm_file *file = sink(path, size, may_replace);

	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	CU_ASSERT_EQUAL(put_bytes(&l, file, &p), 0);
	return file;
}

/* As a job does it. */
static int publish(struct fm_file *file, uint64_t size)
{
	int ret = file->ops->publish(file, size, &written, true, &err);

	if (ret < 0)
		file->ops->discard(file);
	fm_file_close(file);
	return ret;
}

/*
 * Goal: every length comes into the store, on a disk as a direct file too, and nothing of it is
 * seen before it is published.
 */
static void test_lengths(void)
{
	static const uint32_t sizes[] = {
		0, 1, 4095, 4096, 4097, FM_SMALL_SINK_MAX - 1, FM_SMALL_SINK_MAX,
	};

	for (size_t n = 0; n < BASES * sizeof(sizes) / sizeof(sizes[0]); n++) {
		uint32_t size = sizes[n / BASES];
		struct fm_file *file;

		begin(bases[n % BASES], false);
		file = filled("d/f", size, n, false);
		CU_ASSERT_TRUE(file->is_ours);
		CU_ASSERT_EQUAL(access(at("d"), F_OK), -1);
		CU_ASSERT_EQUAL(publish(file, size), 0);
		CU_ASSERT_EQUAL(store_verify(&l, s, "d/f", size, n), 0);
		end();
	}
}

/*
 * Goal: what is larger, has holes or is of unknown length is created at once, as is everything in a
 * store that cannot do it.
 */
static void test_others(void)
{
	struct fm_create how = { .size = 4096 };

	begin(ON_DISK, false);
	CU_ASSERT_PTR_NULL(fm_small_sink_new(s, "f", &root_user, &how));
	CU_ASSERT_PTR_NULL(sink("f", FM_SMALL_SINK_MAX + 1, false));
	CU_ASSERT_PTR_NULL(sink("f", FM_SIZE_UNKNOWN, false));
	s->takes_small = false;
	CU_ASSERT_PTR_NULL(sink("f", 4096, false));
	end();
}

/*
 * Goal: a peer that begins many of them and sends nothing has its share of the memory and leaves
 * the rest; all of it comes back.
 */
static void test_memory(void)
{
	const struct fm_who other = { .peer = "other" };
	const struct fm_create how = { .size = FM_SMALL_SINK_MAX, .is_dense = true };
	struct fm_file *files[64], *file;
	unsigned n = 0;

	begin(ON_DISK, false);
	fm_budget_set(4 << 20);
	while (n < 64 && (file = fm_small_sink_new(s, "f", &a_peer, &how)))
		files[n++] = file;
	CU_ASSERT_TRUE(n >= 8 && n < 24);
	file = fm_small_sink_new(s, "f", &other, &how);
	CU_ASSERT_PTR_NOT_NULL(file);
	if (file)
		fm_file_close(file);
	while (n > 0)
		fm_file_close(files[--n]);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(UINT64_MAX);
	end();
}

/* Goal: what create() refuses is refused at the end, and what was there before is as it was. */
static void test_refused(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 5000, 1, false), 0);
	CU_ASSERT_EQUAL(publish(filled("f", 4096, 2, false), 4096), -EEXIST);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", 5000, 1), 0);
	CU_ASSERT_EQUAL(publish(filled("../f", 4096, 2, true), 4096), put("../f", 4096, 2, true));
	CU_ASSERT_TRUE(err.code < 0);
	CU_ASSERT_EQUAL(publish(filled("f", 4096, 2, true), 4096), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", 4096, 2), 0);
	end();
}

/* Goal: a chunk that does not belong there changes nothing and is an error. */
static void test_beyond(void)
{
	struct fm_file *file;

	begin(ON_DISK, false);
	file = filled("f", 5000, 1, false);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 4096), -EFBIG);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 1, FM_SIZE_LIMIT - 1), -EFBIG);
	CU_ASSERT_EQUAL(publish(file, 5000), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", 5000, 1), 0);
	end();
}

/* Goal: one that is held is prepared first; then it is published, or leaves nothing. */
static void test_prepared(void)
{
	for (int is_over = 0; is_over < 2; is_over++) {
		struct fm_file *file;

		begin(ON_DISK, false);
		file = filled("f", 4097, 1, false);
		CU_ASSERT_EQUAL(file->ops->prepare(file, 4097, &written, true, &err), 0);
		CU_ASSERT_FALSE(file->is_ours);
		CU_ASSERT_EQUAL(access(at("f"), F_OK), -1);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 1);
		if (is_over) {
			file->ops->discard(file);
			fm_file_close(file);
		} else {
			CU_ASSERT_EQUAL(publish(file, 4097), 0);
		}
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", 4097, 1), is_over ? -ENOENT : 0);
		end();
	}
}

/* Goal: whatever fails, the name has the old content or the new, and nothing is left over. */
static void test_each_failure(void)
{
	bool has_fired = true;
	unsigned n;

	for (n = 1; has_fired && n < POINTS_MAX; n++) {
		struct fm_file *file;
		unsigned fds;
		int ret;

		begin(ON_DISK, true);
		CU_ASSERT_EQUAL(put("f", 5000, 1, false), 0);
		file = filled("f", 4097, 2, true);
		fds = fds_open();
		fm_fault_arm(NULL, n);
		ret = publish(file, 4097);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(fds_open(), fds);
		CU_ASSERT_TRUE(ret == 0 || (has_fired && strlen(err.text) > 10 && ret == err.code));
		if (ret == 0)
			CU_ASSERT_EQUAL(store_verify(&l, s, "f", 4097, 2), 0);
		if (ret < 0)
			CU_ASSERT_EQUAL(store_verify(&l, s, "f", 5000, 1), 0);
		end();
	}
	CU_ASSERT_FALSE(has_fired);
	CU_ASSERT_TRUE(n > 15);
}

/* Goal: that a sync failed is known of the file itself, so that nothing of it counts. */
static void test_sync(void)
{
	struct fm_file *file;

	begin(ON_DISK, false);
	file = filled("f", 4096, 1, false);
	fm_fault_arm("store.fdatasync", 1);
	CU_ASSERT_TRUE(file->ops->publish(file, 4096, &written, true, &err) < 0);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(fm_file_sync_error(file), -EIO);
	file->ops->discard(file);
	fm_file_close(file);
	CU_ASSERT_EQUAL(access(at("f"), F_OK), -1);
	end();
}

static const struct fm_test tests[] = {
	{ "every length comes", test_lengths },
	{ "what is not small is created at once", test_others },
	{ "a peer has its share of the memory", test_memory },
	{ "what is refused is refused at the end", test_refused },
	{ "a chunk beyond the end is an error", test_beyond },
	{ "one that is held is prepared first", test_prepared },
#ifdef FM_FAULTS
	{ "whatever fails, nothing is left and nothing is lost", test_each_failure },
	{ "a failed sync is told", test_sync },
#endif
};
FM_TEST_MAIN("small sink", tests)
