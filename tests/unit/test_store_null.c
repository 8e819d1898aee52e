/* SPDX-License-Identifier: MIT */
/*
 * The null store. links: fm_store
 */
#include <time.h>

#include "mover/base/cpu_time.h"
#include "tests/unit/store_fixture.h"

static struct fm_store *null_open(void)
{
	return store_open("null:");
}

static void test_sizes(void)
{
	static const struct {
		const char *path;
		int ret;
		uint64_t size;
	} cases[] = {
		{ "0", 0, 0 },
		{ "1000000", 0, 1000000 },
		{ "3KiB", 0, 3072 },
		{ "5MiB", 0, 5 << 20 },
		{ "64GiB", 0, UINT64_C(64) << 30 },
		{ "untouched/2TiB", 0, UINT64_C(2) << 40 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "9223372036854775808", -ENOENT, 0 },
		{ "8388608TiB", -ENOENT, 0 },
		{ "99999999999999999999", -ENOENT, 0 },
		{ "64GB", -ENOENT, 0 },
		{ "-1", -ENOENT, 0 },
		{ "file", -ENOENT, 0 },
		{ "untouched", -ENOENT, 0 },
		{ "../1", -EXDEV, 0 },
	};
	struct fm_store *s = null_open();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_err err = { 0 };
		struct fm_attr attr = { 0 };
		struct fm_file *file = NULL;

		CU_ASSERT_EQUAL(s->ops->stat(s, cases[i].path, &a_peer, &attr, &err), cases[i].ret);
		CU_ASSERT_EQUAL(attr.size, cases[i].size);
		CU_ASSERT_EQUAL(s->ops->open_source(s, cases[i].path, &a_peer, &file, &attr, &err),
				cases[i].ret);
		CU_ASSERT_EQUAL(attr.size, cases[i].size);
		if (file)
			file->ops->close(file);
	}
	s->ops->free(s);
}

/* Goal: bytes are a function of the offset only, are not zeros, and stop at the size. */
static void test_source(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	struct fm_err err = { 0 };
	struct lane l;
	unsigned char *buf = buffer();

	lane_open(&l, false);
	CU_ASSERT_EQUAL_FATAL(fm_null_source(100003, &file, &attr, &err), 0);
	CU_ASSERT_TRUE(file->is_instant);	/* few chunks of it are under way at once */
	CU_ASSERT_EQUAL(attr.size, 100003);
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 65536, 0), 65536);
	CU_ASSERT_TRUE(is_pattern(buf, 0, 0, 65536));
	CU_ASSERT_NOT_EQUAL(buf[0] | buf[1] | buf[2], 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 65536, 65536), 100003 - 65536);
	CU_ASSERT_TRUE(is_pattern(buf, 0, 65536, 100003 - 65536));
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 65536, 131072), 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 13, 4096), 13);
	CU_ASSERT_TRUE(is_pattern(buf, 0, 4096, 13));
	file->ops->close(file);

	memset(buf, 0x5a, 4096);
	CU_ASSERT_EQUAL_FATAL(fm_null_source_untouched(5000, &file, &attr, &err), 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 4096, 0), 4096);
	CU_ASSERT_EQUAL(buf[0], 0x5a);
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 4096, 4096), 904);
	file->ops->close(file);
	lane_close(&l);
}

/* Goal: what processors did can be read as a file, by who may read. */
static void test_cpu(void)
{
	static struct fm_cpu_time t;
	struct fm_store *s = null_open();
	struct fm_err err = { 0 };
	struct fm_file *file;
	struct fm_attr attr;
	struct lane l;
	unsigned char *buf = buffer();

	lane_open(&l, false);
	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "cpu", &a_peer, &file, &attr, &err), 0);
	CU_ASSERT_TRUE(attr.size > 0 && attr.size < 65536);
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 65536, 0), (int64_t)attr.size);
	CU_ASSERT_EQUAL(fm_cpu_time_parse((const char *)buf, (size_t)attr.size, &t), 0);
	CU_ASSERT_TRUE(t.cores > 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buf, 4096, attr.size), 0);
	file->ops->close(file);
	s->ops->free(s);
	lane_close(&l);
}

static void test_sink(void)
{
	struct fm_store *s = null_open();
	struct fm_err err = { 0 };
	struct lane l;

	lane_open(&l, false);
	CU_ASSERT_EQUAL(
		store_put(&l, s, &(struct put){.path = "any/name", .size = 3 * CHUNK + 13}, &err),
		0);
	CU_ASSERT_EQUAL(store_put(&l, s, &(struct put){.path = "a/../b", .size = 1}, &err), -EXDEV);
	CU_ASSERT_EQUAL(store_put(&l, s, &(struct put){ .path = "", .size = 1 }, &err), -EISDIR);
	CU_ASSERT_EQUAL(s->ops->remove(s, "any/name", &a_peer, false, &err), -ENOENT);
	CU_ASSERT_EQUAL(s->ops->mkdir(s, "any", &a_peer, &err), 0);
	s->ops->free(s);
	lane_close(&l);
}

/* Goal: operations that end at once come back in order, in a later pass, whatever done() starts. */
static struct fm_done_list *chain_lane;
static struct fm_file *chain_file;
static unsigned chain_calls;
static bool is_in_done;

static void chain_done(struct fm_io *io)
{
	const struct fm_lane_io lane = { .loop = chain_lane->loop, .done = chain_lane };

	CU_ASSERT_FALSE(is_in_done);
	is_in_done = true;
	CU_ASSERT_EQUAL(io->res, 4096);
	if (++chain_calls < 1000)
		chain_file->ops->write(chain_file, &lane, io);
	is_in_done = false;
}

static void test_done_never_nests(void)
{
	struct fm_io ios[3];
	struct fm_err err = { 0 };
	struct lane l;

	lane_open(&l, false);
	chain_lane = &l.done;
	CU_ASSERT_EQUAL_FATAL(fm_null_sink(&chain_file, &err), 0);
	for (unsigned i = 0; i < 3; i++) {
		ios[i] = (struct fm_io){ .done = chain_done, .buf = buffer(), .len = 4096 };
		chain_file->ops->write(chain_file, &l.io, &ios[i]);
	}
	CU_ASSERT_EQUAL(chain_calls, 0);
	while (chain_calls < 1002 && fm_loop_step(l.loop, 1000000))
		;
	CU_ASSERT_EQUAL(chain_calls, 1002);
	chain_file->ops->close(chain_file);
	lane_close(&l);
}

static const struct fm_test tests[] = {
	{ "a path is a size", test_sizes },
	{ "a source makes bytes from the offset", test_source },
	{ "what processors did is a file", test_cpu },
	{ "a sink forgets", test_sink },
	{ "done() never nests", test_done_never_nests },
};
FM_TEST_MAIN("store null", tests)
