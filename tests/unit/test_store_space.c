/* SPDX-License-Identifier: MIT */
/*
 * Room: quotas, full and read-only file systems, file systems that can do less. links: fm_store
 *
 * Small file systems are mounted in a mount namespace of our own, where root is available.
 */
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statfs.h>

#include "mover/base/fault.h"
#include "mover/store/usage.h"
#include "tests/unit/may_mount.h"
#include "tests/unit/store_scene.h"

/* ---------------------------------------------------------------------------------------- quota */

static void reopen(uint64_t quota)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .quota_bytes = quota};

	s->ops->free(s);
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
}

/* Goal: what is there, what runs and what comes count together; what goes gives room back. */
static void test_quota(void)
{
	struct fm_create how = { .size = 4000, .is_dense = true };
	struct fm_file *running;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL(put("old/f", 3000, 1, false), 0);
		reopen(10000);
		CU_ASSERT_EQUAL(put("a", 7001, 1, false), -EDQUOT);
		CU_ASSERT_STRING_EQUAL(err.text,
				       "store s: over the store's quota: 7001 bytes are needed, "
				       "3000 of 10000 are used, 0 promised to running transfers");
		CU_ASSERT_EQUAL(put("a", 7000, 1, false), 0);
		CU_ASSERT_EQUAL(put("b", 1, 1, false), -EDQUOT);
		CU_ASSERT_EQUAL(put("empty", 0, 1, false), 0);
		CU_ASSERT_EQUAL(s->ops->remove(s, "a", &a_peer, false, &err), 0);

		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "run", &root_user, &how, &running, &err),
				      0);
		CU_ASSERT_EQUAL(put("b", 3001, 1, false), -EDQUOT);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "4000 promised"));
		CU_ASSERT_EQUAL(put("b", 3000, 1, false), 0);
		running->ops->close(running);
		/* 3000 + 3000; replacing needs room for both until the old one is gone. */
		CU_ASSERT_EQUAL(put("b", 4001, 1, true), -EDQUOT);
		CU_ASSERT_EQUAL(put("b", 4000, 1, true), 0);
		CU_ASSERT_EQUAL(put("c", 3001, 1, false), -EDQUOT);
		CU_ASSERT_EQUAL(s->ops->remove(s, "old", &a_peer, true, &err), 0);
		CU_ASSERT_EQUAL(put("c", 6000, 1, false), 0);
		end();
	}
}

/* Goal: a stream meets the quota while it is written, and gives back what it took. */
static void test_quota_stream(void)
{
	struct put p = { .path = "f", .size = 4 * CHUNK, .is_stream = true };

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		reopen(3 * CHUNK);
		for (int i = 0; i < 3; i++)
			CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), -EDQUOT);
		p.size = 3 * CHUNK;
		CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), 0);
		CU_ASSERT_EQUAL(put("g", 1, 1, false), -EDQUOT);
		p.size = 4 * CHUNK;
		end();
	}
}

/* What a get does: the size is not known when the sink is made. */
static int promise(struct fm_file **file, bool is_resumable, uint64_t size)
{
	const struct fm_create how = { .size = FM_SIZE_UNKNOWN, .is_resumable = is_resumable };
	const struct fm_identity source = { .node = "n1", .ino = 5, .size = size, .ctime_ns = 6 };
	struct fm_have have = { 0 };
	char name[16];

	snprintf(name, sizeof(name), "f%llu", (unsigned long long)size);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, name, &a_peer, &how, file, &err), 0);
	return (*file)->ops->begin(*file, &source, &have, &err);
}

/*
 * Goal: a file counts as long as it says it is as soon as that is known, though most of it are
 * holes that nobody writes; so two at once do not both pass, and what they promised is given back
 * however they end. One whose length is known only at its end meets the quota there.
 */
static void test_quota_sparse(void)
{
	const struct fm_attr attr = { .type = FM_NODE_FILE, .mode = 0644 };
	const struct fm_create stream = { .size = FM_SIZE_UNKNOWN };
	struct fm_file *one, *two;

	for (size_t i = 0; i < 2 * BASES; i++) {
		begin(bases[i / 2], false);
		reopen(64 << 20);
		CU_ASSERT_EQUAL(promise(&one, i % 2, UINT64_C(1) << 40), -EDQUOT);
		CU_ASSERT_PTR_NOT_NULL(
			strstr(err.text, "over the store's quota: 1099511627776 bytes are needed"));
		one->ops->close(one);
		CU_ASSERT_EQUAL(promise(&one, i % 2, 40 << 20), 0);
		CU_ASSERT_EQUAL(promise(&two, i % 2, 30 << 20), -EDQUOT);
		two->ops->close(two);
		CU_ASSERT_EQUAL(promise(&two, i % 2, 24 << 20), 0);
		two->ops->discard(two);
		two->ops->close(two);
		CU_ASSERT_EQUAL(put("small", (24 << 20) + 1, 1, false), -EDQUOT);
		CU_ASSERT_EQUAL(one->ops->publish(one, 40 << 20, &attr, true, &err), 0);
		one->ops->close(one);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "end", &a_peer, &stream, &one, &err), 0);
		CU_ASSERT_EQUAL(one->ops->prepare(one, (24 << 20) + 1, &attr, true, &err), -EDQUOT);
		one->ops->discard(one);
		one->ops->close(one);
		CU_ASSERT_EQUAL(put("small", 24 << 20, 1, false), 0);
		end();
	}
}

/* What the log says while the directory is counted twice, as a user who may not read all of it. */
static const char *log_of_counts(struct fm_usage *usage)
{
	int file = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
	int root = open(dir, O_RDONLY | O_DIRECTORY);
	bool is_root = geteuid() == 0;
	static char text[1024];

	CU_ASSERT_TRUE_FATAL(file >= 0 && saved >= 0 && root >= 0);
	(void)dup2(file, STDERR_FILENO);
	if (is_root)
		CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(fm_usage_count(usage, root, &err), 0);
	if (is_root)
		CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	(void)dup2(saved, STDERR_FILENO);
	text[0] = text[sizeof(text) - 1] = '\0';
	(void)!pread(file, text, sizeof(text) - 1, 0);
	close(saved);
	close(file);
	close(root);
	return text;
}

/* Goal: what one user closes to others leaves a store with a quota open to all: the rest is
 * counted, and the log says once what is not. */
static void test_quota_passes_over(void)
{
	struct fm_usage usage = { .store = "s", .quota = 10000 };
	const char *text;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(chmod(dir, 0755), 0);
	CU_ASSERT_TRUE(put("a", 100, 1, false) == 0 && put("closed/f", 200, 1, false) == 0 &&
		       put("z/f", 400, 1, false) == 0);
	CU_ASSERT_TRUE(put("also/f", 800, 1, false) == 0 && chmod(at("also"), 0) == 0);
	CU_ASSERT_EQUAL(chmod(at("closed"), 0), 0);
	text = log_of_counts(&usage);
	CU_ASSERT_TRUE(chmod(at("closed"), 0755) == 0 && chmod(at("also"), 0755) == 0);
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 500);
	CU_ASSERT_EQUAL(atomic_load(&usage.passed_over), 2);
	CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(text, "store s: the quota leaves out what is in \""));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "and in 1 more directories"));
	CU_ASSERT_PTR_NULL(strstr(strstr(text, "store s:") + 1, "store s:"));
	end();
}

/* Goal: of the directory that an ext4 has at its top for fsck nobody is told; of another one of
 * that name people are. */
static void test_quota_lost_found(void)
{
	struct fm_usage usage = { .store = "s", .quota = 10000 };

	if (geteuid() > 0) {
		printf("SKIP: nobody else can be played\n");
		return;
	}
	begin(IN_MEMORY, false);
	CU_ASSERT_TRUE(chmod(dir, 0755) == 0 && mkdir(at("lost+found"), 0700) == 0);
	CU_ASSERT_EQUAL(put("a", 100, 1, false), 0);
	CU_ASSERT_STRING_EQUAL(log_of_counts(&usage), "");
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 100);
	CU_ASSERT_EQUAL(atomic_load(&usage.passed_over), 0);
	CU_ASSERT_EQUAL(chown(at("lost+found"), 1, 1), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(log_of_counts(&usage), "\"lost+found\""));
	end();
}

/* Goal: nesting deep frees no room: what lies there is counted, and where it is too deep for that
 * what was used stays used. */
static void test_quota_deep(void)
{
	struct fm_usage usage = { .store = "s", .quota = 10000 };
	char path[2 * 1300];
	int root;

	begin(IN_MEMORY, false);
	for (size_t i = 0; i < sizeof(path); i += 2)
		memcpy(path + i, "d/", 2);
	path[sizeof(path) - 1] = '\0';
	CU_ASSERT_TRUE(put(path, 300, 1, false) == 0 && put("a", 100, 1, false) == 0);
	root = open(dir, O_RDONLY | O_DIRECTORY);
	CU_ASSERT_EQUAL(fm_usage_count(&usage, root, &err), 0);
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 400);
	fm_fault_arm("store.walk_deep", 2);
	CU_ASSERT_EQUAL(fm_usage_count(&usage, root, &err), 0);
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 400);
	fm_fault_arm("store.walk_deep", 2);
	atomic_store(&usage.used, 0);
	CU_ASSERT_EQUAL(fm_usage_count(&usage, root, &err), 0);
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 100);
	CU_ASSERT_EQUAL(atomic_load(&usage.passed_over), 1);
	fm_fault_arm(NULL, 0);
	close(root);
	end();
}

/* Goal: a directory that cannot be read on is left, once; the store's own is none to leave. */
static void test_quota_unread(void)
{
	struct fm_usage usage = { .store = "s", .quota = 10000 };
	int root;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("d/f", 100, 1, false), 0);
	root = open(dir, O_RDONLY | O_DIRECTORY);
	fm_fault_arm("store.readdir", 2);
	CU_ASSERT_EQUAL(fm_usage_count(&usage, root, &err), 0);
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 0);
	CU_ASSERT_EQUAL(atomic_load(&usage.passed_over), 1);
	fm_fault_arm("store.readdir", 1);
	CU_ASSERT_EQUAL(fm_usage_count(&usage, root, &err), -EIO);
	fm_fault_arm(NULL, 0);
	close(root);
	end();
}

/* Goal: a store that cannot be counted again, and will not be, refuses for want of room, so that
 * what is kept aside is tried, and says why; who asks next does not wait for another count. */
static void test_quota_count_fails(void)
{
	struct fm_usage usage = { .store = "s", .quota = 10 };
	int root;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("a", 4, 1, false), 0);
	root = open(dir, O_RDONLY | O_DIRECTORY);
	atomic_store(&usage.used, 9);
	fm_fault_arm("store.readdir", 1);
	CU_ASSERT_EQUAL(fm_usage_ask(&usage, root, 5, &err), -EDQUOT);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "9 of 10 are used, 0 promised to running "
						"transfers; not counted again: "));
	CU_ASSERT_EQUAL(fm_usage_ask(&usage, root, 5, &err), -EDQUOT);
	CU_ASSERT_PTR_NULL(strstr(err.text, "not counted again"));
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 9);
	atomic_store(&usage.counted_ns, 0);
	CU_ASSERT_EQUAL(fm_usage_ask(&usage, root, 5, &err), 0);
	CU_ASSERT_EQUAL(atomic_load(&usage.used), 4);
	close(root);
	end();
}

/* Goal: where memory or descriptors lack for the count, the error says so; it is not the quota's,
 * for which versions that are kept would go. The next one counts. */
static void test_quota_count_lacks(void)
{
	static const struct {
		const char *point;
		int error;
	} lacks[] = {{"store.alloc", -ENOMEM}, {"store.opendir", -ENOMEM}, {"store.open", -EMFILE}};
	struct fm_usage usage = { .store = "s", .quota = 10 };
	int root;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("a", 4, 1, false), 0);
	root = open(dir, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		atomic_store(&usage.used, 9);
		atomic_store(&usage.counted_ns, 0);
		fm_fault_arm(lacks[i].point, 1);
		CU_ASSERT_EQUAL(fm_usage_check(&usage, root, 5, &err), lacks[i].error);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is not known just now, try again: "));
		CU_ASSERT_EQUAL(fm_usage_check(&usage, root, 5, &err), 0);
		CU_ASSERT_EQUAL(atomic_load(&usage.used), 4);
	}
	close(root);
	end();
}

/* ----------------------------------------------------------------------------------- full disks */

/* Goal: a size that cannot fit is refused before the first byte, with the numbers, and nothing is
 * left. */
static void test_impossible_size(void)
{
	struct fm_create how = { .size = UINT64_C(1) << 60, .is_dense = true };
	struct fm_file *file;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL(s->ops->create(s, "f", &root_user, &how, &file, &err), -ENOSPC);
		CU_ASSERT_PTR_NOT_NULL(
			strstr(err.text, "no space: 1152921504606846976 bytes are needed, "));
		how.size = UINT64_MAX - 1;
		CU_ASSERT_EQUAL(s->ops->create(s, "f", &root_user, &how, &file, &err), -EFBIG);
		how.size = UINT64_C(1) << 60;
		end();
	}
}

/*
 * A file system of a few MiB over the directory `name` of the scene. A loop device makes it one
 * with blocks and O_DIRECT.
 */
static bool mount_small(const char *name, bool is_disk)
{
	char command[512];

	CU_ASSERT_EQUAL(mkdir(at(name), 0755), 0);
	if (!is_disk)
		return mount("tmpfs", at(name), "tmpfs", 0, "size=4m") == 0;
	snprintf(command, sizeof(command),
		 "truncate -s 16M '%s' && mkfs.ext4 -q -F '%s' >&2 && mount -o loop '%s' '%s'",
		 at("image"), at("image"), at("image"), at(name));
	return system(command) == 0;
}

/*
 * Goal: a stream that fills the disk fails with ENOSPC and leaves it empty again; a dense file is
 * refused at once.
 */
static void test_full(void)
{
	struct put p = { .path = "m/f", .size = 64 * CHUNK, .is_stream = true };
	struct statfs before, after;

	if (!may_mount())
		return;
	for (int is_disk = 0; is_disk < 2; is_disk++) {
		begin(ON_DISK, false);
		if (!mount_small("m", is_disk)) {
			printf("SKIP: cannot mount a small %s\n",
			       is_disk ? "ext4 on a loop device" : "tmpfs");
			end();
			continue;
		}
		CU_ASSERT_EQUAL(put("m/old", 1000, 1, false), 0);
		CU_ASSERT_EQUAL(statfs(at("m"), &before), 0);
		CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), -ENOSPC);
		CU_ASSERT_EQUAL(put("m/g", 64 * CHUNK, 1, false), -ENOSPC);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "16777216 bytes are needed"));
		CU_ASSERT_EQUAL(dir_count(at("m"), PARTIALS), 0);
		CU_ASSERT_EQUAL(statfs(at("m"), &after), 0);
		CU_ASSERT_EQUAL(before.f_bfree, after.f_bfree);
		CU_ASSERT_EQUAL(store_verify(&l, s, "m/old", 1000, 1), 0);
		CU_ASSERT_EQUAL(umount(at("m")), 0);
		end();
	}
}

/* Goal: where there is room, and no inode for a directory or a file, that is said. */
static void test_no_inodes(void)
{
	if (!may_mount())
		return;
	begin(ON_DISK, false);
	if (mount("tmpfs", dir, "tmpfs", 0, "size=4m,nr_inodes=3") == 0) {
		reopen(0);
		CU_ASSERT_EQUAL(mkdir(at("a"), 0755), 0);
		CU_ASSERT_EQUAL(mkdir(at("b"), 0755), 0);
		CU_ASSERT_EQUAL(put("f", 1, 1, false), -ENOSPC);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "beside \"f\": no inodes left"));
		CU_ASSERT_EQUAL(put("c/f", 1, 1, false), -ENOSPC);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "of \"c/f\": no inodes left"));
		CU_ASSERT_EQUAL(umount2(dir, MNT_DETACH), 0);
	}
	end();
}

/* A get's sink on the small file system, a caller's or the store's, that learns its size. */
static int fetch(struct fm_file **file, bool is_callers, bool is_resumable, uint64_t size)
{
	const struct fm_create how = { .size = FM_SIZE_UNKNOWN, .is_resumable = is_resumable };
	const struct fm_identity source = { .node = "n1", .ino = 5, .size = size, .ctime_ns = 6 };
	struct fm_have have = { 0 };
	int ret, journal = -1, fd;

	if (is_callers && is_resumable)
		journal = open(at("m/c.journal"), O_CREAT | O_RDWR | O_TRUNC, 0600);
	if (is_callers) {
		fd = open(at("m/c"), O_CREAT | O_RDWR | O_TRUNC, 0600);
		ret = fm_caller_sink(fd, journal, &how, file, &err);
	} else {
		ret = s->ops->create(s, "m/f", &root_user, &how, file, &err);
	}
	CU_ASSERT_EQUAL_FATAL(ret, 0);
	if ((*file)->ops->begin)
		CU_ASSERT_EQUAL((*file)->ops->begin(*file, &source, &have, &err), 0);
	return (*file)->ops->make_room(*file, size, &err);
}

static uint64_t free_bytes(void)
{
	struct statfs fs;

	CU_ASSERT_EQUAL(statfs(at("m"), &fs), 0);
	return fs.f_bavail * (uint64_t)fs.f_bsize;
}

/*
 * Goal: a file whose size is known only when its source was found is refused then, with the
 * numbers, and leaves the file system as it was; one that fits is not, and in a store its room is
 * nobody else's from then on.
 */
static void check_fetched(bool is_disk)
{
	uint64_t before = free_bytes();
	struct fm_file *file, *other;
	char text[128];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(text, sizeof(text),
			 "no space: 67108864 bytes are needed, %llu are free; make room there",
			 (unsigned long long)free_bytes());
		CU_ASSERT_EQUAL(fetch(&file, i & 1, i & 2, 64 << 20), -ENOSPC);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, text));
		file->ops->close(file);
		CU_ASSERT_EQUAL(fetch(&file, i & 1, i & 2, before / 2), 0);
		file->ops->close(file);
	}
	CU_ASSERT_EQUAL(unlink(at("m/c")) | unlink(at("m/c.journal")), 0);
	CU_ASSERT_EQUAL(dir_count(at("m"), PARTIALS), 0);
	CU_ASSERT_EQUAL(free_bytes(), before);
	CU_ASSERT_EQUAL(fetch(&file, false, true, before / 3 * 2), 0);
	CU_ASSERT_EQUAL(fetch(&other, false, true, before / 3 * 2), is_disk ? -ENOSPC : 0);
	other->ops->close(other);
	file->ops->close(file);
}

static void test_fetched(void)
{
	if (!may_mount())
		return;
	for (int is_disk = 0; is_disk < 2; is_disk++) {
		begin(ON_DISK, false);
		if (mount_small("m", is_disk)) {
			check_fetched(is_disk);
			CU_ASSERT_EQUAL(umount(at("m")), 0);
		} else {
			printf("SKIP: cannot mount a small %s\n",
			       is_disk ? "ext4 on a loop device" : "tmpfs");
		}
		end();
	}
}

static void test_read_only(void)
{
	struct fm_attr attr;

	if (!may_mount())
		return;
	begin(ON_DISK, false);
	if (!mount_small("m", false)) {
		printf("SKIP: cannot mount a small tmpfs\n");
		end();
		return;
	}
	CU_ASSERT_EQUAL(put("m/old", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(mount("tmpfs", at("m"), "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
	CU_ASSERT_EQUAL(put("m/f", 1, 1, false), -EROFS);
	CU_ASSERT_STRING_EQUAL(err.text,
			       "store s: make a partial file beside \"m/f\": the file system is "
			       "mounted read-only");
	CU_ASSERT_EQUAL(put("m/new/f", 1, 1, false), -EROFS);
	CU_ASSERT_EQUAL(s->ops->mkdir(s, "m/d", &root_user, &err), -EROFS);
	CU_ASSERT_EQUAL(s->ops->remove(s, "m/old", &root_user, false, &err), -EROFS);
	CU_ASSERT_EQUAL(s->ops->stat(s, "m/old", &root_user, &attr, &err), 0);
	CU_ASSERT_EQUAL(umount(at("m")), 0);
	end();
}

/* -------------------------------------------------------------------------- lesser file systems */

/*
 * Goal: a file system without rename flags (NFS) or without statx's word on O_DIRECT (before
 * Linux 6.1) gets the same results. Method: the kernel's answer is replaced by that of such a
 * system.
 */
static void test_fallbacks(void)
{
#ifdef FM_FAULTS
	static const char *const points[] = { "store.rename_flags", "store.statx" };

	for (size_t i = 0; i < 2; i++) {
		for (int is_fleeting = 0; is_fleeting < 2; is_fleeting++) {
			struct put p = {
				.path = "f", .size = 4097, .salt = 1, .is_fleeting = is_fleeting};

			begin(ON_DISK, false);
			fm_fault_arm(points[i], 1);
			CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), 0);
			CU_ASSERT_TRUE(fm_fault_fired());
			fm_fault_arm(points[i], 1);
			CU_ASSERT_EQUAL(store_verify(&l, s, "f", 4097, 1), 0);
			p.salt = 2;
			fm_fault_arm(points[i], 1);
			CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), -EEXIST);
			p.may_replace = true;
			fm_fault_arm(points[i], 1);
			CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), 0);
			fm_fault_arm(NULL, 0);
			CU_ASSERT_EQUAL(store_verify(&l, s, "f", 4097, 2), 0);
			end();
		}
	}
#else
	printf("SKIP: built without fault points\n");
#endif
}

/* Goal: without rename flags, a name that was taken meanwhile is still not replaced. */
static void test_fallback_race(void)
{
#ifdef FM_FAULTS
	struct fm_create how = { .size = 0 };
	const struct fm_attr attr = { .mode = 0644 };
	struct fm_file *file;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
	CU_ASSERT_EQUAL(put("f", 5, 1, false), 0);
	fm_fault_arm("store.rename_flags", 1);
	CU_ASSERT_EQUAL(file->ops->publish(file, 0, &attr, true, &err), -EEXIST);
	fm_fault_arm(NULL, 0);
	file->ops->close(file);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", 5, 1), 0);
	end();
#else
	printf("SKIP: built without fault points\n");
#endif
}

static const struct fm_test tests[] = {
	{ "a quota counts what is there, what runs and what comes", test_quota },
	{ "a stream meets the quota while it is written", test_quota_stream },
	{ "what is promised counts, holes too", test_quota_sparse },
	{"a quota passes over what cannot be read", test_quota_passes_over},
	{"a quota does not tell of lost+found", test_quota_lost_found},
	{"a quota counts what is nested deep", test_quota_deep},
	{"a quota leaves a directory that cannot be read on", test_quota_unread},
	{"a quota that cannot be counted again refuses for want of room", test_quota_count_fails},
	{"a quota that cannot be counted just now refuses for that", test_quota_count_lacks},
	{ "a size that cannot fit is refused at once", test_impossible_size },
	{ "a full file system is left as it was", test_full },
	{"a file system without inodes is told from a full one", test_no_inodes},
	{ "a file that is fetched is refused when its size is known", test_fetched },
	{ "a read-only file system says so", test_read_only },
	{ "file systems that can do less give the same results", test_fallbacks },
	{ "without rename flags nothing is replaced by accident", test_fallback_race },
};
FM_TEST_MAIN("store space", tests)
