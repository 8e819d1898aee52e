/* SPDX-License-Identifier: MIT */
/*
 * sink_scene - what the tests of a tree's sink share: a directory, packs made by hand, looking at
 * what came of them.
 */
#ifndef SINK_SCENE_H
#define SINK_SCENE_H

#include <CUnit/Basic.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/tree/digest.h"
#include "mover/tree/manifest.h"
#include "mover/tree/pack.h"
#include "mover/tree/staging.h"
#include "mover/tree/tree.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define ON_DISK "/var/tmp"
#define IN_MEMORY "/dev/shm"
#define PACK_LEN (1u << 20)
#define OURS ".fmove."
#define A_TIME INT64_C(1234567890123456789)

static const char *const bases[] = { ON_DISK, IN_MEMORY };
#define BASES (sizeof(bases) / sizeof(bases[0]))

static char dir[96];
static struct fm_tree *t;
static struct fm_err err;
static _Atomic int64_t used_bytes;
static _Atomic uint64_t new_bytes;	/* of those, what was not there before */
static uint64_t quota;

/* ---- directories ---- */

/* A path in the directory. Valid for the next three calls. */
static inline const char *at(const char *name)
{
	static char paths[4][4096 + 128];
	static unsigned calls;
	char *path = paths[calls++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static inline void scene_begin(const char *base)
{
	const char *other = getenv("FM_TEST_DIR");

	fm_err_clear(&err);
	used_bytes = 0;
	new_bytes = 0;
	quota = UINT64_MAX;
	snprintf(dir, sizeof(dir), "%s/fm-tree-XXXXXX", other ? other : base);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	CU_ASSERT_EQUAL(chmod(dir, 0755), 0);
}

/* What is published keeps its manifest, and nothing else leaves one, but where removing it failed:
 * then a sweep finds it. */
static bool may_leave_manifests;

static inline void check_manifests(void)
{
	DIR *d = may_leave_manifests ? NULL : opendir(dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (fm_manifest_is_name(entry->d_name))
			CU_ASSERT_FALSE(fm_manifest_is_orphan(dirfd(d), entry->d_name));
	if (d)
		closedir(d);
}

static inline void scene_end(void)
{
	check_manifests();
	remove_all(dir);
}

/* Names in a directory that begin so ("": all), without the manifests of trees. */
static inline unsigned names_in(const char *path, const char *prefix)
{
	DIR *d = opendir(path);
	const struct dirent *entry;
	unsigned count = 0;

	while (d && (entry = readdir(d)))
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			 !fm_manifest_is_name(entry->d_name) &&
			 strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	if (d)
		closedir(d);
	return count;
}

static inline unsigned fds_open(void)
{
	return names_in("/proc/self/fd", "");
}

/* The one name of ours of that kind, "" if there is none. */
static inline const char *ours(enum fm_staging_kind kind)
{
	static char name[256];
	DIR *d = opendir(dir);
	const struct dirent *entry;

	name[0] = '\0';
	while (d && (entry = readdir(d)))
		if (fm_staging_kind(entry->d_name) == kind)
			snprintf(name, sizeof(name), "%s", entry->d_name);
	if (d)
		closedir(d);
	return name;
}

/* What that one holds of a tree, "" if there is none. */
static inline const char *version_in(enum fm_staging_kind kind)
{
	static char path[300];
	const char *holder = ours(kind);

	snprintf(path, sizeof(path), "%s%s", holder, holder[0] ? "/tree" : "");
	return path;
}

/* ---- content ---- */

static inline void fill(void *buf, unsigned salt, uint64_t offset, size_t len)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((offset + i) * 31 + ((offset + i) >> 8) * 7 + salt * 101 + 1);
}

static inline uint32_t crc_of(unsigned salt, uint64_t size)
{
	uint8_t *buf = malloc(size + 1);
	uint32_t crc;

	fill(buf, salt, 0, size);
	crc = fm_crc32c(0, buf, size);
	free(buf);
	return crc;
}

static inline void write_file(const char *path, unsigned salt, size_t size, mode_t mode,
			      int64_t mtime_ns)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = mtime_ns / 1000000000, .tv_nsec = mtime_ns % 1000000000}};
	int fd = open(at(path), O_CREAT | O_WRONLY | O_EXCL, 0600);
	uint8_t *buf = malloc(size + 1);

	CU_ASSERT_TRUE(fd >= 0);
	fill(buf, salt, 0, size);
	CU_ASSERT_EQUAL(write(fd, buf, size), (ssize_t)size);
	free(buf);
	CU_ASSERT_EQUAL(fchmod(fd, mode), 0);
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	close(fd);
}

/* Whether the file below the directory has that content. */
static inline bool has_content(const char *path, unsigned salt, size_t size)
{
	uint8_t *got = malloc(size + 1), *want = malloc(size + 1);
	int fd = open(at(path), O_RDONLY | O_NOFOLLOW);
	bool is_same = false;

	if (fd >= 0) {
		fill(want, salt, 0, size);
		is_same = read(fd, got, size + 1) == (ssize_t)size && memcmp(got, want, size) == 0;
		close(fd);
	}
	free(got);
	free(want);
	return is_same;
}

static inline bool has_stat(const char *path, mode_t mode, int64_t mtime_ns)
{
	struct stat st;

	if (lstat(at(path), &st) < 0)
		return false;
	return (st.st_mode & 07777) == mode && st.st_mtim.tv_sec == mtime_ns / 1000000000 &&
	       st.st_mtim.tv_nsec == mtime_ns % 1000000000;
}

static inline ino_t ino_of(const char *path)
{
	struct stat st;

	return lstat(at(path), &st) < 0 ? 0 : st.st_ino;
}

static inline bool is_there(const char *path)
{
	return ino_of(path) != 0;
}

/* ---- packs ---- */

static struct fm_pack_writer pack;

static inline void pack_begin(unsigned flags)
{
	static uint64_t buf[PACK_LEN / 8];

	fm_pack_begin(&pack, buf, sizeof(buf), flags);
}

static inline void pack_add(struct fm_pack_entry e, const char *path, unsigned salt)
{
	uint8_t *data;

	e.path = path;
	e.path_len = strlen(path);
	data = fm_pack_add(&pack, &e);
	if (e.type != FM_PACK_FILE || (pack.flags & FM_PACK_OFFER))
		return;
	fill(data, salt, e.offset, e.data_len);
	fm_pack_set_crc(data, &e,
			fm_crc32c_part(fm_crc32c(0, data, e.data_len), e.offset, e.data_len));
}

/* What a source says of a file; salt stands for its content and its identity. */
static inline struct fm_pack_entry a_file(unsigned salt, uint64_t size)
{
	return (struct fm_pack_entry){.type = FM_PACK_FILE,
				      .mode = 0644,
				      .size = size,
				      .mtime_ns = A_TIME + salt,
				      .data_len = (uint32_t)size,
				      .identity = 1000 + salt};
}

static inline void add_file(const char *path, unsigned salt, uint64_t size)
{
	pack_add(a_file(salt, size), path, salt);
}

static inline void add_piece(const char *path, unsigned salt, uint64_t size, uint64_t offset,
			     uint32_t len)
{
	struct fm_pack_entry e = a_file(salt, size);

	e.offset = offset;
	e.data_len = len;
	pack_add(e, path, salt);
}

static inline void add_offer(const char *path, unsigned salt, uint64_t size)
{
	struct fm_pack_entry e = a_file(salt, size);

	e.data_len = 0;
	pack_add(e, path, salt);
}

static inline void add_dir(const char *path, uint32_t mode)
{
	pack_add((struct fm_pack_entry){.type = FM_PACK_DIR, .mode = mode, .mtime_ns = A_TIME + 50},
		 path, 0);
}

static inline void add_link(const char *path, const char *target)
{
	pack_add((struct fm_pack_entry){.type = FM_PACK_LINK,
					.mtime_ns = A_TIME + 60,
					.target = target,
					.target_len = strlen(target)},
		 path, 0);
}

static inline void add_hard(const char *path, const char *first)
{
	pack_add((struct fm_pack_entry){.type = FM_PACK_HARD,
					.target = first,
					.target_len = strlen(first)},
		 path, 0);
}

static inline void add_attr(const char *path, uint32_t mode, int64_t mtime_ns)
{
	pack_add((struct fm_pack_entry){.type = FM_PACK_ATTR, .mode = mode, .mtime_ns = mtime_ns},
		 path, 0);
}

static uint8_t bits[FM_TREE_OFFERS_MAX / 8];
static size_t bit_count;

static inline int apply(void)
{
	size_t len = fm_pack_end(&pack);

	return t->ops->apply(t, pack.buf, len, bits, &bit_count, &err);
}

static inline bool is_needed(size_t i)
{
	return bits[i / 8] >> i % 8 & 1;
}

/* ---- sinks ---- */

static inline void count_used(void *ctx, int64_t bytes)
{
	(void)ctx;
	used_bytes += bytes;
}

static inline int take_quota(void *ctx, uint64_t bytes, bool is_sent, struct fm_err *e)
{
	(void)ctx;
	if (bytes > quota || (uint64_t)used_bytes > quota - bytes)
		return fm_err_set(e, -EDQUOT, "over the quota of this test");
	used_bytes += (int64_t)bytes;
	new_bytes += is_sent ? bytes : 0;
	return 0;
}

static inline struct fm_tree_sink_opts options(void)
{
	return (struct fm_tree_sink_opts){.name = "tree",
					  .path = "s/tree",
					  .is_synced = true,
					  .has_digests = true,
					  .has_manifest = true,
					  .source = {.node = "n1", .dev = 7, .ino = 8},
					  .used = count_used,
					  .take = take_quota};
}

static inline struct fm_tree_sink_opts replacing(void)
{
	struct fm_tree_sink_opts opts = options();

	opts.may_replace = true;
	return opts;
}

static inline int sink_new(struct fm_tree_sink_opts opts)
{
	opts.parent = open(dir, O_RDONLY | O_DIRECTORY);
	return fm_tree_sink_new(&opts, &t, &err);
}

static inline int finish(void)
{
	int ret = t->ops->prepare(t, true, &err);

	return ret < 0 ? ret : t->ops->publish(t, true, &err);
}

static inline struct fm_tree_count counts(void)
{
	struct fm_tree_count n;

	t->ops->count(t, &n);
	return n;
}

#define OK(call) do { \
		int ok_ = (call); \
		if (ok_ != 0) \
			printf("%s: %d: %s\n", #call, ok_, err.text); \
		CU_ASSERT_EQUAL(ok_, 0); \
	} while (0)
#define MUST(call) do { \
		int ok_ = (call); \
		if (ok_ != 0) \
			printf("%s: %d: %s\n", #call, ok_, err.text); \
		CU_ASSERT_EQUAL_FATAL(ok_, 0); \
	} while (0)

/* A version of the tree: file "f" and "d/g" with that salt, and what the caller added to the
 * pack. */
static inline void put_version(struct fm_tree_sink_opts opts, unsigned salt)
{
	MUST(sink_new(opts));
	pack_begin(0);
	add_dir("", 0755);
	add_dir("d", 0755);
	add_file("f", salt, 5000);
	add_file("d/g", salt, 300);
	OK(apply());
	OK(finish());
	t->ops->close(t);
}

static inline bool is_version(const char *name, unsigned salt)
{
	char f[512], g[512];

	snprintf(f, sizeof(f), "%s/f", name);
	snprintf(g, sizeof(g), "%s/d/g", name);
	return has_content(f, salt, 5000) && has_content(g, salt, 300);
}

/* In each kind of file system. */
static inline void each_base(void (*run)(void))
{
	for (size_t i = 0; i < BASES; i++) {
		unsigned failures = CU_get_number_of_failures(), fds = fds_open();

		scene_begin(bases[i]);
		run();
		CU_ASSERT_EQUAL(fds_open(), fds);
		scene_end();
		if (CU_get_number_of_failures() > failures)
			printf("in: %s\n", bases[i]);
	}
}

static inline bool has_digest(const char *path, unsigned salt, size_t size)
{
	struct fm_digest digest;
	int fd = open(at(path), O_RDONLY);
	int ret = fm_digest_get(fd, &digest);

	close(fd);
	if (ret == -EOPNOTSUPP || ret == -ENODATA)
		/* there are none here */
		return fsetxattr(open(at(path), O_RDONLY), "user.probe", "", 0, 0) < 0;
	return ret == 0 && digest.crc == crc_of(salt, size) && digest.size == size &&
	       digest.mtime_ns == A_TIME + salt;
}

static inline struct fm_tree_large large_of(const char *path, unsigned salt, uint64_t size)
{
	struct fm_tree_large how = {.fd = -1,
				    .size = size,
				    .mode = 0440,
				    .mtime_ns = A_TIME + salt,
				    .id = {.dev = 1, .ino = salt, .size = size}};

	snprintf(how.path, sizeof(how.path), "%s", path);
	return how;
}

/* Write a stretch and say so. */
static inline void write_large(const struct fm_tree_large *how, int fd, unsigned salt,
			       uint64_t offset, size_t len)
{
	struct fm_journal_entry e = {.path = how->path,
				     .path_len = strlen(how->path),
				     .size = how->size,
				     .mtime_ns = how->mtime_ns,
				     .identity = fm_identity_hash(&how->id),
				     .offset = offset,
				     .len = len};
	uint8_t *buf = malloc(len);

	fill(buf, salt, offset, len);
	CU_ASSERT_EQUAL(pwrite(fd, buf, len, (off_t)offset), (ssize_t)len);
	e.crc = fm_crc32c_part(fm_crc32c(0, buf, len), offset, len);
	free(buf);
	OK(t->ops->wrote_large(t, &e, &err));
}

#endif
