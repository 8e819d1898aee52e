/* SPDX-License-Identifier: MIT */
/*
 * What a tree was when it was published, in a file beside it. links: fm_tree
 *
 * In the current directory (the build's), since what is in memory may not tell when a directory was
 * made.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/tree/manifest.h"
#include "mover/tree/tsys.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define ENTRIES 3000u

static char top[] = "test_manifest.XXXXXX";
static int dir;
static struct fm_manifest_key key;
static char name[FM_MANIFEST_NAME_LEN + 1];

static struct fm_pack_entry entry(char *path, unsigned i)
{
	(void)snprintf(path, 64, "d%u/file-%u", i / 100, i);
	switch (i % 5) {
	case 3:
		return (struct fm_pack_entry){.type = FM_PACK_HARD,
					      .path = path,
					      .path_len = strlen(path),
					      .target = "a/b",
					      .target_len = 3};
	case 4:
		return (struct fm_pack_entry){.type = FM_PACK_LINK,
					      .path = path,
					      .path_len = strlen(path),
					      .target = "../x",
					      .target_len = 4};
	default:
		return (struct fm_pack_entry){.type = FM_PACK_FILE,
					      .path = path,
					      .path_len = strlen(path),
					      .size = i,
					      .mtime_ns = 5 + i,
					      .flags = i % 5 ? FM_PACK_HAS_CRC : 0,
					      .crc = i % 5 ? ~i : 0,
					      .mode = 0644,
					      .uid = 7};
	}
}

/* The manifest of `count` entries, at its name. */
static void write_manifest(unsigned count)
{
	struct fm_manifest m;
	char path[64];

	CU_ASSERT_EQUAL_FATAL(
		fm_manifest_begin(&m, openat(dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600)), 0);
	for (unsigned i = 0; i < count; i++) {
		struct fm_pack_entry e = entry(path, i);

		CU_ASSERT_EQUAL(fm_manifest_add(&m, &e), 0);
	}
	CU_ASSERT_EQUAL(fm_manifest_end(&m, &key, "tree"), 0);
	fm_manifest_close(&m);
}

static bool is_entry(const struct fm_pack_entry *e, unsigned i)
{
	char path[64];
	struct fm_pack_entry want = entry(path, i);

	return e->type == want.type && e->path_len == want.path_len &&
	       memcmp(e->path, path, e->path_len) == 0 && e->size == want.size &&
	       e->mtime_ns == want.mtime_ns && e->flags == want.flags && e->crc == want.crc &&
	       e->target_len == want.target_len &&
	       memcmp(e->target, want.target ? want.target : "", e->target_len) == 0 &&
	       e->mode == 0 && e->uid == 0;
}

/* How many entries are read, all as they were; or the error. */
static int64_t read_manifest(void)
{
	struct fm_manifest_reader m;
	struct fm_pack_entry e;
	int64_t count = 0;
	int ret = fm_manifest_open(&m, dir, &key);

	if (ret < 0)
		return ret;
	while ((ret = fm_manifest_next(&m, &e)) > 0)
		CU_ASSERT_TRUE(is_entry(&e, (unsigned)count++));
	fm_manifest_free(&m);
	return ret < 0 ? ret : count;
}

static void test_round_trip(void)
{
	static const unsigned counts[] = { 0, 1, 2, ENTRIES };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		write_manifest(counts[i]);
		CU_ASSERT_EQUAL(read_manifest(), counts[i]);
	}
}

/* No byte can be another without that being said. */
static void test_damage(void)
{
	struct stat st;
	int fd;

	write_manifest(7);
	fd = openat(dir, name, O_RDWR);
	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	for (off_t at = 0; at < st.st_size; at++) {
		uint8_t byte;

		CU_ASSERT_EQUAL(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, at), 1);
		CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
		byte ^= 0x10;
		CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, at), 1);
	}
	CU_ASSERT_EQUAL(read_manifest(), 7);
	for (off_t len = st.st_size - 1; len >= 0; len--) {
		CU_ASSERT_EQUAL(ftruncate(fd, len), 0);
		CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
	}
	close(fd);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
	CU_ASSERT_EQUAL(read_manifest(), -ENOENT);
}

/* Goal: what has the name of a manifest and is none is not "there is none", which would hide that
 * files are missing. Method: one thing after the other in its place. */
static void test_something_else(void)
{
	struct fm_manifest_key own = key;

	CU_ASSERT_EQUAL(symlinkat("/etc/passwd", dir, name), 0);
	CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
	CU_ASSERT_EQUAL(mkfifoat(dir, name, 0600), 0);
	CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
	CU_ASSERT_EQUAL(mkdirat(dir, name, 0700), 0);
	CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
	CU_ASSERT_EQUAL(unlinkat(dir, name, AT_REMOVEDIR), 0);
	key.birth_ns++;		/* that of another tree, under this one's name */
	write_manifest(7);
	key = own;
	CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
	CU_ASSERT_EQUAL(read_manifest(), -ENOENT);
}

/* It belongs to the directory, not to its name. */
static void test_whose(void)
{
	struct fm_manifest_key other;

	write_manifest(7);
	CU_ASSERT_TRUE(fm_manifest_is_name(name));
	CU_ASSERT_FALSE(fm_manifest_is_orphan(dir, name));
	CU_ASSERT_EQUAL(renameat(dir, "tree", dir, "renamed"), 0);
	CU_ASSERT_EQUAL(fm_manifest_key_at(dir, "renamed", &other), 0);
	CU_ASSERT_TRUE(other.ino == key.ino && other.birth_ns == key.birth_ns);
	CU_ASSERT_FALSE(fm_manifest_is_orphan(dir, name));
	CU_ASSERT_EQUAL(mkdirat(dir, "tree", 0755), 0);		/* another one with its name */
	CU_ASSERT_FALSE(fm_manifest_is_orphan(dir, name));
	CU_ASSERT_EQUAL(unlinkat(dir, "renamed", AT_REMOVEDIR), 0);
	CU_ASSERT_TRUE(fm_manifest_is_orphan(dir, name));
	other = key;
	other.birth_ns++;
	key = other;
	CU_ASSERT_EQUAL(read_manifest(), -ENOENT);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
	CU_ASSERT_FALSE(fm_manifest_is_orphan(dir, name));	/* it went meanwhile */
}

static void damage_head(void)
{
	int fd = openat(dir, name, O_WRONLY);

	CU_ASSERT_EQUAL(pwrite(fd, "x", 1, 0), 1);
	close(fd);
}

/* That it is damaged is to be told as long as there is a tree. */
static void test_damaged_whose(void)
{
	CU_ASSERT_EQUAL(fm_manifest_key_at(dir, "tree", &key), 0);
	fm_manifest_name(&key, name);
	write_manifest(7);
	damage_head();
	CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
	CU_ASSERT_FALSE(fm_manifest_is_orphan(dir, name));
	CU_ASSERT_EQUAL(renameat(dir, "tree", dir, "renamed"), 0);
	CU_ASSERT_FALSE(fm_manifest_is_orphan(dir, name));
	CU_ASSERT_EQUAL(renameat(dir, "renamed", dir, "tree"), 0);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
	key.birth_ns++;
	fm_manifest_name(&key, name);
	close(openat(dir, name, O_CREAT | O_WRONLY, 0600));
	CU_ASSERT_TRUE(fm_manifest_is_orphan(dir, name));	/* of no use to anybody */
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
}

static void test_names(void)
{
	static const char *const bad[] = {"",
					  ".fmove.0123456789abcdef.tree",
					  ".fmove.0123456789abcdeg.manifest",
					  "a.manifest",
					  ".fmove.0123456789abcdef.manifesu",
					  ".fmove.0123456789abcdef.manifest2"};

	CU_ASSERT_TRUE(fm_manifest_is_name(".fmove.0123456789abcdef.manifest"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_FALSE(fm_manifest_is_name(bad[i]));
}

/* Goal: there is an end to it, whoever sends the same again and again. */
static void test_too_long(void)
{
	struct fm_manifest m;
	char path[64];
	struct fm_pack_entry e = entry(path, 1);
	int ret = 0;

	CU_ASSERT_EQUAL_FATAL(
		fm_manifest_begin(&m, openat(dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600)), 0);
	m.bytes = FM_MANIFEST_BYTES_MAX - FM_MANIFEST_PACK_MAX;
	for (unsigned i = 0; ret == 0 && i < FM_MANIFEST_PACK_MAX; i++)
		ret = fm_manifest_add(&m, &e);
	CU_ASSERT_EQUAL(ret, -EFBIG);
	CU_ASSERT_TRUE(m.bytes <= FM_MANIFEST_BYTES_MAX);
	fm_manifest_close(&m);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
}

static void test_full_disk(void)
{
	struct fm_manifest m;
	char path[64];
	struct fm_pack_entry e = entry(path, 1);

	if (fm_test_lacks_faults())
		return;
	for (unsigned n = 1; n <= 2; n++) {
		CU_ASSERT_EQUAL_FATAL(
			fm_manifest_begin(&m, openat(dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600)),
			0);
		CU_ASSERT_EQUAL(fm_manifest_add(&m, &e), 0);
		fm_fault_arm("tree.write", n);
		CU_ASSERT_TRUE(fm_manifest_end(&m, &key, "tree") < 0);
		fm_fault_arm(NULL, 0);
		fm_manifest_close(&m);
	}
	CU_ASSERT_EQUAL(read_manifest(), -EBADMSG);
	CU_ASSERT_EQUAL(unlinkat(dir, name, 0), 0);
}

static const struct fm_test tests[] = {
	{ "what was listed is read again", test_round_trip },
	{ "damage is told, wherever it is", test_damage },
	{ "there is an end to it", test_too_long },
	{ "a disk that is full is told", test_full_disk },
	{ "only the names of manifests are those", test_names },
	{"what is no manifest is not taken for none", test_something_else},
	{ "it belongs to one directory, whatever that is called", test_whose },
	{ "a damaged one stays with its tree", test_damaged_whose },
};

int main(void)
{
	int ret;

	if (!mkdtemp(top) || (dir = open(top, O_RDONLY | O_DIRECTORY)) < 0 ||
	    mkdirat(dir, "tree", 0755) < 0)
		return 1;
	if (fm_manifest_key_at(dir, "tree", &key) < 0) {
		remove_all(top);
		fm_test_skip("the file system does not tell when a directory was made");
	}
	fm_manifest_name(&key, name);
	ret = fm_test_main("manifest", tests, sizeof(tests) / sizeof(tests[0]));
	remove_all(top);
	return ret;
}
