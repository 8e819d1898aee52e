/* SPDX-License-Identifier: MIT */
/*
 * The listing of a source, from what its end of a tree offers, is that of its directory.
 * links: fm_staging
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/pack.h"
#include "staging/build.h"
#include "staging/compare.h"
#include "staging/offered.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define PACK_LEN (64u << 10)
#define FILES 1000u
#define LARGE (40 << 20)	/* several chunks, and extents of which the last is not whole */

static char top[64];
static int root;
static struct fm_err err;
static uint8_t pack[PACK_LEN] __attribute__((aligned(8)));

static void begin(void)
{
	snprintf(top, sizeof(top), "/tmp/fmove-test-XXXXXX");
	if (!mkdtemp(top))
		abort();
	root = open(top, O_RDONLY | O_DIRECTORY);
}

static void end(void)
{
	close(root);
	remove_all(top);
}

static void write_file(const char *name, off_t size)
{
	int fd = openat(root, name, O_WRONLY | O_CREAT, 0640);

	CU_ASSERT_EQUAL(ftruncate(fd, size), 0);
	CU_ASSERT_TRUE(size == 0 || pwrite(fd, "x", 1, size - 1) == 1);
	close(fd);
}

/* Names of one file in several directories, so that it is met first under any of them. */
static void link_around(unsigned i)
{
	char from[64], to[64];

	(void)snprintf(from, sizeof(from), "d%u/f%u", i % 10, i);
	(void)snprintf(to, sizeof(to), "d%u/also-%u", (i * 7 + 3) % 10, i);
	CU_ASSERT_EQUAL(linkat(root, from, root, to, 0), 0);
	(void)snprintf(to, sizeof(to), "%u", i);
	CU_ASSERT_EQUAL(linkat(root, from, root, to, 0), 0);
}

static void make_tree(void)
{
	char name[64];

	for (unsigned i = 0; i < 10; i++) {
		(void)snprintf(name, sizeof(name), "d%u", i);
		CU_ASSERT_EQUAL(mkdirat(root, name, 0755), 0);
	}
	for (unsigned i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "d%u/f%u", i % 10, i);
		write_file(name, i % 5 * 1000);
		if (i % 50 == 0)
			link_around(i);
	}
	write_file("large", LARGE);
	CU_ASSERT_EQUAL(linkat(root, "large", root, "d9/large", 0), 0);
	CU_ASSERT_EQUAL(symlinkat("nowhere", root, "link"), 0);
	CU_ASSERT_EQUAL(symlinkat("large", root, "d0-link"), 0);
	write_file(".fmove.0123456789abcdef.part", 5);
}

static bool is_fmoves(const char *name)
{
	return strncmp(name, ".fmove.", 7) == 0;
}

static struct fm_stage_offered *offered_of(uint64_t bytes_max)
{
	struct fm_stage_offered *o = NULL;

	CU_ASSERT_EQUAL_FATAL(fm_stage_offered_new(bytes_max, &o, &err), 0);
	return o;
}

/* All that the source offers; every third pack comes twice. */
static int pump(struct fm_tree *source, struct fm_tree *sink)
{
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	int64_t len;
	int ret = 0;

	for (uint64_t seq = 0; ret == 0; seq++) {
		size_t count = 0;

		len = source->ops->fill(source, seq, pack, sizeof(pack), &err);
		if (len <= 0)
			return (int)len;
		for (unsigned i = 0; ret == 0 && i < (seq % 3 ? 1 : 2); i++)
			ret = sink->ops->apply(sink, pack, (size_t)len, bits, &count, &err);
		if (ret == 0 && count > 0)
			ret = source->ops->need(source, seq, bits, count, &err);
		if (ret == 0)
			source->ops->acked(source, seq);
	}
	return ret;
}

static int list_offered(uint64_t bytes_max, struct fm_stage_totals *t)
{
	struct fm_tree_source_opts opts = { .root = open(top, O_RDONLY | O_DIRECTORY),
					    .is_dry = true, .skips = is_fmoves };
	struct fm_stage_offered *o;
	struct fm_tree *source = NULL, *sink;
	int ret = fm_tree_source_new(&opts, &source, &err);

	if (ret < 0)
		return ret;
	ret = fm_stage_offered_new(bytes_max, &o, &err);
	if (ret == 0) {
		sink = fm_stage_offered_tree(o);
		ret = pump(source, sink);
		sink->ops->close(sink);
		if (ret == 0)
			ret = fm_stage_offered_end(o, t, &err);
		fm_stage_offered_free(o);
	}
	source->ops->close(source);
	return ret;
}

static int list_walked(struct fm_stage_totals *t)
{
	const struct fm_stage_build_opts opts = { .root = root };
	uint8_t version[FM_SHA256_LEN];
	int fd = memfd_create("walked", MFD_CLOEXEC);
	int ret = fm_stage_build(&opts, fd, version, t, &err);

	close(fd);
	return ret;
}

static void test_same(void)
{
	struct fm_stage_totals offered, walked;

	begin();
	CU_ASSERT_EQUAL(list_offered(FM_STAGE_OFFERED_MAX, &offered), 0);
	CU_ASSERT_EQUAL(list_walked(&walked), 0);
	CU_ASSERT_EQUAL(memcmp(&offered, &walked, sizeof(walked)), 0);
	make_tree();
	CU_ASSERT_EQUAL(list_offered(FM_STAGE_OFFERED_MAX, &offered), 0);
	CU_ASSERT_EQUAL(list_walked(&walked), 0);
	CU_ASSERT_EQUAL(walked.files, FILES + 1);
	CU_ASSERT_EQUAL(memcmp(&offered, &walked, sizeof(walked)), 0);
	/* And no longer, as soon as a time is another. */
	CU_ASSERT_EQUAL(futimens(openat(root, "d1/f1", O_RDONLY), NULL), 0);
	CU_ASSERT_EQUAL(list_offered(FM_STAGE_OFFERED_MAX, &offered), 0);
	CU_ASSERT_NOT_EQUAL(memcmp(&offered, &walked, sizeof(walked)), 0);
	end();
}

static void test_limit(void)
{
	struct fm_stage_totals t;

	begin();
	make_tree();
	CU_ASSERT_EQUAL(list_offered(1 << 20, &t), -EFBIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "more than 1 MiB of memory"));
	end();
}

/* ---- its content ---- */

static bool crc_of(void *ctx, const char *path, size_t len, uint32_t *crc)
{
	return fm_stage_offered_crc(ctx, path, len, crc);
}

/* What the source offers, with CRC32Cs or without, against that manifest. */
static int compare_offered(int manifest, bool has_checksums)
{
	struct fm_tree_source_opts opts = { .root = open(top, O_RDONLY | O_DIRECTORY),
					    .is_dry = true, .has_checksums = has_checksums,
					    .skips = is_fmoves };
	struct fm_stage_offered *o = offered_of(FM_STAGE_OFFERED_MAX);
	struct fm_tree *source = NULL, *sink = fm_stage_offered_tree(o);
	struct fm_stage_totals t;
	int ret;

	CU_ASSERT_EQUAL_FATAL(fm_tree_source_new(&opts, &source, &err), 0);
	CU_ASSERT_EQUAL(pump(source, sink), 0);
	sink->ops->close(sink);
	source->ops->close(source);
	CU_ASSERT_EQUAL(fm_stage_offered_end(o, &t, &err), 0);
	ret = fm_stage_compare(manifest, crc_of, o, &err);
	fm_stage_offered_free(o);
	return ret;
}

/* Another byte, and the time as it was. */
static void spoil(const char *name, off_t offset)
{
	int fd = openat(root, name, O_RDWR);
	struct stat st;
	uint8_t byte;

	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL(pread(fd, &byte, 1, offset), 1);
	byte ^= 4;
	CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, offset), 1);
	CU_ASSERT_EQUAL(futimens(fd, (struct timespec[]){ st.st_atim, st.st_mtim }), 0);
	close(fd);
}

/* A small file, a large one in its last chunk, and one by a further name of it. */
static void test_content(void)
{
	static const struct {
		const char *name, *told;
		off_t offset;
	} files[] = { { "d1/f1", "\"d1/f1\"", 3 },
		      { "large", "\"d9/large\"", LARGE - 1 },
		      { "d0/f50", "\"50\"", 0 } };
	struct fm_stage_build_opts o = { .root = -1 };
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;
	int manifest;

	begin();
	make_tree();
	write_file("d0/f50", 10);
	o.root = root;
	manifest = openat(root, ".fmove.0123456789abcdef.part", O_RDWR | O_TRUNC);
	CU_ASSERT_EQUAL(fm_stage_build(&o, manifest, version, &t, &err), 0);
	CU_ASSERT_EQUAL(compare_offered(manifest, true), 0);
	CU_ASSERT_EQUAL(compare_offered(manifest, false), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "does not say what is in"));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		spoil(files[i].name, files[i].offset);
		CU_ASSERT_EQUAL(compare_offered(manifest, true), -EBADMSG);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, files[i].told));
		spoil(files[i].name, files[i].offset);
		CU_ASSERT_EQUAL(compare_offered(manifest, true), 0);
	}
	CU_ASSERT_EQUAL(ftruncate(manifest, 100), 0);
	CU_ASSERT_EQUAL(compare_offered(manifest, true), -EBADMSG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "read the manifest"));
	close(manifest);
	end();
}

/* ---- what a source may say ---- */

static struct fm_pack_entry entry(enum fm_pack_type type, const char *path, const char *target)
{
	return (struct fm_pack_entry){ .type = type, .path = path, .path_len = strlen(path),
				       .target = target, .target_len = strlen(target) };
}

static int apply(struct fm_stage_offered *o, unsigned flags, const struct fm_pack_entry *e,
		 size_t n)
{
	struct fm_tree *t = fm_stage_offered_tree(o);
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	struct fm_pack_writer w;
	size_t count;
	int ret;

	fm_pack_begin(&w, pack, sizeof(pack), flags);
	for (size_t i = 0; i < n; i++)
		CU_ASSERT_PTR_NOT_NULL(fm_pack_add(&w, &e[i]));
	ret = t->ops->apply(t, pack, fm_pack_end(&w), bits, &count, &err);
	t->ops->close(t);
	return ret;
}

/* Offered together: the listing's end. */
static int end_of(const struct fm_pack_entry *e, size_t n)
{
	struct fm_stage_offered *o = offered_of(FM_STAGE_OFFERED_MAX);
	struct fm_stage_totals t;
	int ret;

	CU_ASSERT_EQUAL(apply(o, FM_PACK_OFFER, e, n), 0);
	ret = fm_stage_offered_end(o, &t, &err);
	fm_stage_offered_free(o);
	return ret;
}

static void test_lies(void)
{
	struct fm_stage_offered *o = offered_of(FM_STAGE_OFFERED_MAX);
	struct fm_pack_entry e[3] = { entry(FM_PACK_DIR, "d", ""), entry(FM_PACK_FILE, "d/f", ""),
				      entry(FM_PACK_HARD, "d/g", "d/f") };

	CU_ASSERT_EQUAL(apply(o, 0, e, 2), -EPROTO);
	fm_stage_offered_free(o);
	CU_ASSERT_EQUAL(end_of(e, 3), 0);
	CU_ASSERT_EQUAL(end_of(e + 1, 2), -ESTALE);		/* "d" is missing */
	e[1] = entry(FM_PACK_LINK, "d/f", "x");
	CU_ASSERT_EQUAL(end_of(e, 3), -ESTALE);			/* a further name of a link */
	e[1] = entry(FM_PACK_FILE, "d/g", "");
	CU_ASSERT_EQUAL(end_of(e, 3), -ESTALE);			/* "d/g" is two things */
	e[2] = entry(FM_PACK_FILE, "d/g", "");
	CU_ASSERT_EQUAL(end_of(e, 3), 0);			/* the same twice */
	e[2].size = 7;
	CU_ASSERT_EQUAL(end_of(e, 3), -ESTALE);
	e[2] = entry(FM_PACK_FILE, "d/h", "");
	e[2].size = INT64_MAX;
	CU_ASSERT_EQUAL(end_of(e, 3), -EFBIG);
}

/* A tree that is stopped notes nothing more; a file that comes is not taken. */
static void test_other_calls(void)
{
	struct fm_stage_offered *o = offered_of(FM_STAGE_OFFERED_MAX);
	struct fm_tree *t = fm_stage_offered_tree(o);
	const struct fm_pack_entry e = entry(FM_PACK_FILE, "f", "");
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	struct fm_tree_count n;
	struct fm_pack_writer w;
	size_t count, len;

	fm_pack_begin(&w, pack, sizeof(pack), FM_PACK_OFFER);
	CU_ASSERT_PTR_NOT_NULL(fm_pack_add(&w, &e));
	len = fm_pack_end(&w);
	CU_ASSERT_EQUAL(t->ops->apply(t, pack, len, bits, &count, &err), 0);
	t->ops->count(t, &n);
	CU_ASSERT_EQUAL(n.files, 1);
	CU_ASSERT_EQUAL(t->ops->create_large(t, NULL, NULL, NULL, &err), -EPROTO);
	t->ops->stop(t);
	CU_ASSERT_EQUAL(t->ops->apply(t, pack, len, bits, &count, &err), -ECANCELED);
	fm_stage_offered_free(o);	/* the maker goes first */
	t->ops->close(t);
}

/* The threads of a tree apply packs beside each other, and ask how far it is. */
#define THREADS 4u

struct applying {
	pthread_t thread;
	struct fm_tree *tree;
	unsigned number;
	int ret;
};

static void *apply_many(void *arg)
{
	struct applying *a = arg;
	uint8_t buf[4096] __attribute__((aligned(8))), bits[FM_TREE_OFFERS_MAX / 8];
	struct fm_tree_count n;

	for (unsigned i = 0; a->ret == 0 && i < 500; i++) {
		char path[64];
		struct fm_pack_entry e;
		struct fm_pack_writer w;
		size_t count;

		(void)snprintf(path, sizeof(path), "%u-%u", a->number, i);
		e = entry(FM_PACK_FILE, path, "");
		fm_pack_begin(&w, buf, sizeof(buf), FM_PACK_OFFER);
		(void)fm_pack_add(&w, &e);
		a->ret = a->tree->ops->apply(a->tree, buf, fm_pack_end(&w), bits, &count, NULL);
		a->tree->ops->count(a->tree, &n);
	}
	return NULL;
}

static void test_threads(void)
{
	struct fm_stage_offered *o = offered_of(FM_STAGE_OFFERED_MAX);
	struct fm_tree *t = fm_stage_offered_tree(o);
	struct applying all[THREADS];
	struct fm_stage_totals totals;

	for (unsigned i = 0; i < THREADS; i++) {
		all[i] = (struct applying){ .tree = t, .number = i };
		CU_ASSERT_EQUAL_FATAL(pthread_create(&all[i].thread, NULL, apply_many, &all[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(all[i].thread, NULL);
		CU_ASSERT_EQUAL(all[i].ret, 0);
	}
	t->ops->close(t);
	CU_ASSERT_EQUAL(fm_stage_offered_end(o, &totals, &err), 0);
	CU_ASSERT_EQUAL(totals.files, THREADS * 500);
	fm_stage_offered_free(o);
}

static void test_nth_failure(void)
{
	bool has_fired = true;
	struct fm_stage_totals t, want;
	unsigned n;

	if (fm_test_lacks_faults())
		return;
	begin();
	make_tree();
	CU_ASSERT_EQUAL(list_walked(&want), 0);
	for (n = 1; has_fired; n++) {
		int ret;

		fm_fault_arm("stage.offered", n);
		ret = list_offered(FM_STAGE_OFFERED_MAX, &t);
		has_fired = fm_fault_fired();
		CU_ASSERT_EQUAL(ret, has_fired ? -ENOMEM : 0);
		CU_ASSERT(!has_fired || strstr(err.text, "raise memory.total"));
	}
	CU_ASSERT_TRUE(n > 3);
	for (n = 1, has_fired = true; has_fired; n++) {
		fm_fault_arm("stage.sha256", n);
		CU_ASSERT_EQUAL(list_offered(FM_STAGE_OFFERED_MAX, &t) < 0, n <= 2);
		has_fired = fm_fault_fired();
	}
	fm_fault_arm("stage.alloc", 1);
	CU_ASSERT_EQUAL(list_offered(FM_STAGE_OFFERED_MAX, &t), -ENOMEM);
	fm_fault_arm("stage.alloc", 2);
	CU_ASSERT_EQUAL(list_offered(FM_STAGE_OFFERED_MAX, &t), -ENOMEM);
	fm_fault_arm(NULL, 0);
	end();
}

static const struct fm_test tests[] = {
	{ "what is offered is listed as what is walked", test_same },
	{ "the names take so much memory at most", test_limit },
	{ "files are compared by their content", test_content },
	{ "what cannot be is told", test_lies },
	{ "nothing is taken", test_other_calls },
	{ "several threads apply packs", test_threads },
	{ "every call may fail", test_nth_failure },
};

FM_TEST_MAIN("stage_offered", tests)
