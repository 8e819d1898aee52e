/* SPDX-License-Identifier: MIT */
/*
 * What a second reading of a source says, compared with a manifest and with a dataset that is here.
 * tests/cli/stage_content.sh has it with real sources.
 *
 * links: fm_staging_service
 */
#include <sys/mman.h>

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "staging/build.h"
#include "staging/compare.h"
#include "staging/manifest.h"
#include "staging/service/reread.h"
#include "tests/unit/cache_scene.h"

#define TEXT "what is in each of the files"

static char top[64];
static int root, manifest;
static struct fm_stage_totals totals;
static struct fm_err err;

static void put(const char *name, size_t len)
{
	int fd = openat(root, name, O_WRONLY | O_CREAT, 0640);

	CU_ASSERT_EQUAL(write(fd, TEXT, len), (ssize_t)len);
	(void)close(fd);
}

static void begin(unsigned files)
{
	struct fm_stage_build_opts opts = { .root = -1 };
	uint8_t version[FM_SHA256_LEN];
	char name[16];

	(void)snprintf(top, sizeof(top), "/tmp/fmove-test-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(top));
	opts.root = root = open(top, O_RDONLY | O_DIRECTORY);
	for (unsigned i = 0; i < files; i++) {
		(void)snprintf(name, sizeof(name), "f%02u", i);
		put(name, i % 20);
	}
	manifest = memfd_create("manifest", MFD_CLOEXEC);
	CU_ASSERT_EQUAL_FATAL(fm_stage_build(&opts, manifest, version, &totals, &err), 0);
}

static void end(void)
{
	(void)close(manifest);
	(void)close(root);
	remove_all(top);
}

/* "fNN" has the first NN % 20 bytes of the text; of `ctx`, a name, other ones are told, or none. */
struct said {
	const char *other, *none;
};

static bool crc_of(void *ctx, const char *path, size_t len, uint32_t *crc)
{
	const struct said *s = ctx;
	char name[16] = "";

	CU_ASSERT_FATAL(len < sizeof(name));
	memcpy(name, path, len);
	*crc = fm_crc32c(0, TEXT, (size_t)atoi(name + 1) % 20);
	*crc += strcmp(name, s->other) == 0;
	return strcmp(name, s->none) != 0;
}

static int compare(const char *other, const char *none)
{
	struct said s = { other, none };

	fm_err_clear(&err);
	return fm_stage_compare(manifest, crc_of, &s, &err);
}

/* Goal: the same is the same, another content is named, and so is what nobody told. */
static void test_compare(void)
{
	begin(60);
	CU_ASSERT_EQUAL(compare("", ""), 0);
	CU_ASSERT_EQUAL(compare("f37", ""), -EBADMSG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"f37\" has other bytes"));
	CU_ASSERT_EQUAL(compare("", "f05"), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "does not say what is in \"f05\""));
	end();
}

/* A failure of ours: told as what it is, never as one of the source or of the copy. */
static void check_failed(int ret)
{
	CU_ASSERT_TRUE(ret == -EIO || ret == -ENOMEM || ret == -EMFILE);
	CU_ASSERT_EQUAL(err.code, ret);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the manifest of what is here"));
	CU_ASSERT_PTR_NULL(strstr(err.text, "unstage"));
}

/* Goal: whichever call of a comparison fails. */
static void test_compare_fails(void)
{
	unsigned n = 0;
	bool has_fired = true;

	if (fm_test_lacks_faults())
		return;
	begin(60);
	while (has_fired && n < 1000) {
		int ret;

		fm_fault_arm(NULL, ++n);
		ret = compare("", "");
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		if (has_fired)
			check_failed(ret);
		else
			CU_ASSERT_EQUAL(ret, 0);
	}
	CU_ASSERT_FALSE(has_fired);
	CU_ASSERT_TRUE(n > 3);		/* memory, the file's size, its bytes */
	end();
}

static int next_descriptor(void)
{
	int fd = dup(root);

	(void)close(fd);
	return fd;
}

/* The manifest of `manifest` for a dataset of the scene. */
static void replace_manifest(struct scene *s, uint64_t id)
{
	char path[PATH_MAX], bytes[4096];
	ssize_t len = pread(manifest, bytes, sizeof(bytes), 0);
	int fd;

	CU_ASSERT_EQUAL(fm_cache_path(s->c, id, path, sizeof(path)), 0);
	strcpy(strrchr(path, '/') + 1, FM_CACHE_MANIFEST_NAME);
	CU_ASSERT_EQUAL(unlink(path), 0);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CU_ASSERT_EQUAL(write(fd, bytes, (size_t)len), len);
	(void)close(fd);
}

/*
 * Goal: what is here is compared with what was read again. A source that is another one by now,
 * other bytes, and a copy that went away are told apart. No failing call is taken for one of these,
 * or leaves a file open.
 */
static void test_reread(void)
{
	uint32_t crc = fm_crc32c(0, TEXT, 0);
	struct fm_stage_totals now;
	struct scene s;
	unsigned n = 0;
	bool has_fired = !fm_test_lacks_faults();
	int next;

	begin(1);
	scene_new(&s, "/dev/shm");
	scene_open(&s);
	const struct fm_stage_reread r = { s.c, scene_stage(&s, 1, MIB), &totals };
	replace_manifest(&s, r.id);
	now = totals;
	next = next_descriptor();
	CU_ASSERT_EQUAL(fm_stage_reread_file(&r, &now, crc, &err), 0);
	CU_ASSERT_EQUAL(fm_stage_reread_file(&r, &now, crc + 1, &err), -EBADMSG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "fmove unstage set1"));
	now.listing[0] ^= 1;
	CU_ASSERT_EQUAL(fm_stage_reread_file(&r, &now, crc, &err), -ESTALE);
	now = totals;
	while (has_fired && n < 1000) {
		int ret;

		fm_fault_arm(NULL, ++n);
		ret = fm_stage_reread_file(&r, &now, crc, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		if (has_fired)
			check_failed(ret);
	}
	CU_ASSERT_FALSE(has_fired);
	CU_ASSERT_EQUAL(next_descriptor(), next);
	const struct fm_stage_reread gone = { s.c, r.id + 1, &totals };
	CU_ASSERT_EQUAL(fm_stage_reread_file(&gone, &now, crc, &err), -ENOENT);
	scene_end(&s);
	end();
}

static const struct fm_test tests[] = {
	{ "the same, another content, none told", test_compare },
	{ "a comparison whose n-th call fails", test_compare_fails },
	{ "what is here, with what was read again", test_reread },
};
FM_TEST_MAIN("stage_compare", tests)
