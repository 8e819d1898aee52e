/* SPDX-License-Identifier: MIT */
/*
 * links: fm_store
 *
 * test_verify - what is stored is read again and compared with the digests: well, damaged, changed
 * on purpose, without a digest.
 */
#include <pthread.h>
#include <sys/xattr.h>

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/store/verify.h"
#include "mover/tree/digest.h"
#include "tests/unit/store_fixture.h"

#define BIG (9u << 20)		/* three blocks */

static char top[] = ON_DISK "/fm-verify-XXXXXX";
static uint8_t content[BIG];

static bool has_xattrs(void)
{
	char probe[64];
	int fd;
	bool is;

	(void)snprintf(probe, sizeof(probe), "%s/probe", top);
	fd = open(probe, O_CREAT | O_RDWR, 0600);
	is = fd >= 0 && fsetxattr(fd, "user.x", "y", 1, 0) == 0;
	if (fd >= 0)
		close(fd);
	unlink(probe);
	return is;
}

/* A file with what a sink would keep of it. */
static void make(const char *name, size_t len)
{
	uint64_t block_bytes = fm_digest_block_bytes(len);
	struct fm_digest d = { .crc = fm_crc32c(0, content, len), .size = len };
	char path[128];
	struct stat st;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	CU_ASSERT_EQUAL_FATAL(write(fd, content, len), (ssize_t)len);
	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	d.mtime_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
	for (uint64_t at = 0; len > block_bytes && at < len; at += block_bytes) {
		uint64_t n = len - at < block_bytes ? len - at : block_bytes;

		d.block[d.blocks++] = fm_crc32c_part(fm_crc32c(0, content + at, n), at, n);
	}
	CU_ASSERT_EQUAL(fm_digest_set(fd, &d), 0);
	close(fd);
}

/* One bit, and the time as it was: what a disk would do. */
static void flip(const char *name, off_t at)
{
	struct timespec times[2];
	char path[128];
	struct stat st;
	uint8_t byte;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_RDWR);
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL(pread(fd, &byte, 1, at), 1);
	byte ^= 4;
	CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, at), 1);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	close(fd);
}

static int run(struct fm_verify *v, const char *name, struct fm_err *err)
{
	int dir = open(top, O_RDONLY | O_DIRECTORY);
	int ret;

	fm_verify_init(v);
	ret = fm_verify_run(v, dir, name, err);
	close(dir);
	return ret;
}

static void test_well(void)
{
	struct fm_verify v;
	struct fm_err err;

	make("well", 12345);
	make("empty", 0);
	make("big", BIG);
	CU_ASSERT_EQUAL(run(&v, "", &err), 0);
	CU_ASSERT_EQUAL(v.count.files, 3);
	CU_ASSERT_EQUAL(v.count.unlisted, 3);
	CU_ASSERT_EQUAL(v.count.bytes, BIG + 12345);
	CU_ASSERT_EQUAL(v.count.corrupt + v.count.unreadable + v.count.changed + v.count.without,
			0);
	CU_ASSERT_PTR_NULL(fm_verify_take(&v));
	fm_verify_destroy(&v);
}

/* Goal: unfinished trees, and versions that were replaced, are nobody's files yet or any more. */
static void test_ours(void)
{
	static const char *const dirs[] = {
		".fmove.0123456789abcdef.tree", ".fmove.0123456789abcdef.tree/data",
		".fmove.0123456789abcdef.old", "below", "below/.fmove.0123456789abcdef.new"};
	char path[128];
	struct fm_verify v;
	struct fm_err err;

	for (size_t i = 0; i < 5; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", top, dirs[i]);
		CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
		(void)snprintf(path, sizeof(path), "%s/file", dirs[i]);
		make(path, 100);
	}
	CU_ASSERT_EQUAL(run(&v, "", &err), 0);
	CU_ASSERT_EQUAL(v.count.files, 3 + 1);	/* those of test_well, and below/file */
	CU_ASSERT_EQUAL(v.count.corrupt + v.count.unreadable + v.count.changed + v.count.without,
			0);
	fm_verify_destroy(&v);
	for (size_t i = 5; i > 0; i--) {
		(void)snprintf(path, sizeof(path), "%s/%s/file", top, dirs[i - 1]);
		CU_ASSERT_EQUAL(unlink(path), 0);
		(void)snprintf(path, sizeof(path), "%s/%s", top, dirs[i - 1]);
		CU_ASSERT_EQUAL(rmdir(path), 0);
	}
}

static void test_damaged(void)
{
	struct fm_finding *f;
	struct fm_verify v;
	struct fm_err err;

	make("big", BIG);
	flip("big", (5 << 20) + 17);
	flip("big", BIG - 1);
	CU_ASSERT_EQUAL(run(&v, "big", &err), 0);
	CU_ASSERT_EQUAL(v.count.corrupt, 1);
	f = fm_verify_take(&v);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(f->kind, FM_FINDING_CORRUPT);
	CU_ASSERT_EQUAL(f->offset, 4u << 20);
	CU_ASSERT_EQUAL(f->length, BIG - (4u << 20));	/* two blocks, the last one shorter */
	CU_ASSERT_STRING_EQUAL(f->path, "big");
	free(f);
	fm_verify_destroy(&v);
	make("big", BIG);
}

/* The only finding. */
static void check_changed(struct fm_verify *v, const char *path, uint64_t offset, uint64_t length)
{
	struct fm_finding *f = fm_verify_take(v);

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(f->kind, FM_FINDING_CHANGED);
	CU_ASSERT_STRING_EQUAL(f->path, path);
	CU_ASSERT_EQUAL(f->offset, offset);
	CU_ASSERT_EQUAL(f->length, length);
	free(f);
	CU_ASSERT_PTR_NULL(fm_verify_take(v));
}

/* Goal: what was cut off, or written to, is told, with the place; what got another time only is as
 * it came. */
static void test_cut(void)
{
	char path[128];
	struct fm_verify v;
	struct fm_err err;

	(void)snprintf(path, sizeof(path), "%s/big", top);
	CU_ASSERT_EQUAL(truncate(path, 5 << 20), 0);
	CU_ASSERT_EQUAL(run(&v, "big", &err), 0);
	CU_ASSERT_EQUAL(v.count.changed, 1);
	check_changed(&v, "big", 4u << 20, BIG - (4u << 20));
	fm_verify_destroy(&v);
	make("big", BIG);
	flip("big", (8 << 20) + 5);
	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, NULL, 0), 0);
	CU_ASSERT_EQUAL(run(&v, "big", &err), 0);
	check_changed(&v, "big", 8u << 20, 1u << 20);
	fm_verify_destroy(&v);
	make("big", BIG);
	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, NULL, 0), 0);
	CU_ASSERT_EQUAL(run(&v, "big", &err), 0);
	CU_ASSERT_PTR_NULL(fm_verify_take(&v));
	CU_ASSERT_EQUAL(v.count.changed + v.count.without + v.count.corrupt, 0);
	fm_verify_destroy(&v);
	make("big", BIG);
}

static void test_changed_and_without(void)
{
	char path[128], line[] = "more";
	struct fm_verify v;
	struct fm_err err;
	int fd;

	make("changed", 100);
	(void)snprintf(path, sizeof(path), "%s/changed", top);
	fd = open(path, O_WRONLY | O_APPEND);
	CU_ASSERT_EQUAL(write(fd, line, 4), 4);
	close(fd);
	(void)snprintf(path, sizeof(path), "%s/without", top);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	(void)snprintf(path, sizeof(path), "%s/.fmove.0123.part", top);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	(void)snprintf(path, sizeof(path), "%s/link", top);
	CU_ASSERT_EQUAL(symlink("/etc/passwd", path), 0);
	CU_ASSERT_EQUAL(run(&v, "", &err), 0);
	CU_ASSERT_EQUAL(v.count.changed, 1);
	CU_ASSERT_EQUAL(v.count.without, 1);
	CU_ASSERT_EQUAL(v.count.files, 5);	/* well, empty, big, changed, without */
	check_changed(&v, "changed", 100, 4);
	fm_verify_destroy(&v);
	CU_ASSERT_EQUAL(run(&v, "link", &err), 0);
	CU_ASSERT_EQUAL(v.count.files, 0);
	fm_verify_destroy(&v);
	CU_ASSERT_EQUAL(run(&v, "nowhere", &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nowhere"));
	fm_verify_destroy(&v);
}

static void set_digest(const char *name, const uint8_t *bytes, size_t len)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	CU_ASSERT_EQUAL(setxattr(path, FM_DIGEST_NAME, bytes, len, 0), 0);
}

/* Goal: a digest that is none says nothing of the file, and nothing of others. A later version's is
 * no damage. */
static void test_damaged_digest(void)
{
	/* version, blocks, zero, crc, size: of no file */
	static const uint8_t endless[24] = { 1, [8] = 0, [15] = 0x80 }, later[24] = { 2 };
	struct fm_finding *f;
	struct fm_verify v;
	struct fm_err err;
	char path[128];

	make("digest", 100);
	make("digest2", 100);
	set_digest("digest", endless, 10);
	set_digest("digest2", endless, sizeof(endless));
	CU_ASSERT_EQUAL(run(&v, "", &err), 0);
	CU_ASSERT_EQUAL(v.count.corrupt, 2);
	for (unsigned i = 0; i < 2; i++) {
		f = fm_verify_take(&v);
		while (f && strncmp(f->path, "digest", 6) != 0) {
			free(f);
			f = fm_verify_take(&v);
		}
		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		CU_ASSERT_TRUE(f->kind == FM_FINDING_CORRUPT && f->offset + f->length == 0);
		free(f);
	}
	fm_verify_destroy(&v);
	set_digest("digest", later, sizeof(later));
	CU_ASSERT_EQUAL(run(&v, "digest", &err), 0);
	CU_ASSERT_EQUAL(v.count.corrupt, 0);
	CU_ASSERT_EQUAL(v.count.without, 1);
	fm_verify_destroy(&v);
	(void)snprintf(path, sizeof(path), "%s/digest", top);
	CU_ASSERT_EQUAL(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/digest2", top);
	CU_ASSERT_EQUAL(unlink(path), 0);
}

struct meanwhile {
	struct fm_verify v;
	bool is_cut;			/* else written to */
};

/* As soon as some of it was read: the end is written to, or goes. */
static void *change_meanwhile(void *arg)
{
	struct meanwhile *m = arg;
	struct fm_verify_count count;
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/big", top);
	fd = open(path, O_WRONLY);
	do {
		fm_verify_look(&m->v, &count);
	} while (count.bytes == 0);
	CU_ASSERT_EQUAL(m->is_cut ? ftruncate(fd, BIG - 100) : pwrite(fd, "another", 7, BIG - 7),
			m->is_cut ? 0 : 7);
	close(fd);
	return NULL;
}

/* Goal: what is written to while it is read is changed, no damage. (If it was read to its end
 * before, it is well.) */
static void test_changed_meanwhile(void)
{
	struct meanwhile m = { .is_cut = false };
	int dir = open(top, O_RDONLY | O_DIRECTORY);
	struct fm_err err;
	pthread_t thread;

	for (unsigned i = 0; i < 20; i++) {
		make("big", BIG);
		fm_verify_init(&m.v);
		m.is_cut = i % 2;
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, change_meanwhile, &m), 0);
		CU_ASSERT_EQUAL(fm_verify_run(&m.v, dir, "big", &err), 0);
		CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
		CU_ASSERT_EQUAL(m.v.count.corrupt + m.v.count.unreadable, 0);
		CU_ASSERT_TRUE(m.v.count.changed <= 1);
		fm_verify_destroy(&m.v);
	}
	close(dir);
	make("big", BIG);
}

static void test_unreadable(void)
{
#ifdef FM_FAULTS
	struct fm_finding *f;
	struct fm_verify v;
	struct fm_err err;

	fm_fault_arm("verify.read", 2);		/* the second buffer */
	CU_ASSERT_EQUAL(run(&v, "big", &err), 0);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(v.count.unreadable, 1);
	f = fm_verify_take(&v);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(f->kind, FM_FINDING_UNREADABLE);
	CU_ASSERT_EQUAL(f->offset, 4u << 20);
	CU_ASSERT_EQUAL(f->length, 4u << 20);	/* each piece of it can be read now */
	free(f);
	fm_verify_destroy(&v);
#else
	printf("SKIP: built without fault points\n");
#endif
}

/* Goal: what went meanwhile, or cannot be opened for a reason of ours, is no finding. */
static void test_not_opened(void)
{
#ifdef FM_FAULTS
	struct fm_verify v;
	struct fm_err err;

	fm_fault_arm("verify.gone", 1);
	CU_ASSERT_EQUAL(run(&v, "big", &err), 0);
	CU_ASSERT_EQUAL(v.count.files + v.count.unreadable, 0);
	CU_ASSERT_PTR_NULL(fm_verify_take(&v));
	fm_verify_destroy(&v);
	fm_fault_arm("verify.open", 1);
	CU_ASSERT_EQUAL(run(&v, "big", &err), -EMFILE);
	CU_ASSERT_EQUAL(v.count.files + v.count.unreadable, 0);
	CU_ASSERT_PTR_NULL(fm_verify_take(&v));
	fm_verify_destroy(&v);
	fm_fault_arm(NULL, 0);
#else
	printf("SKIP: built without fault points\n");
#endif
}

/* Goal: a directory that cannot be read is a finding, and what is beside it is verified. */
static void test_closed(void)
{
	bool is_root = geteuid() == 0;
	char path[128];
	struct fm_finding *f;
	struct fm_verify v;
	struct fm_err err;
	int fd = open(top, O_RDONLY | O_DIRECTORY);

	CU_ASSERT_TRUE(mkdirat(fd, "dir", 0755) == 0 && mkdirat(fd, "dir/closed", 0755) == 0 &&
		       mkdirat(fd, "dir/open", 0755) == 0);
	make("dir/closed/f", 100);
	make("dir/f", 100);
	make("dir/open/f", 100);
	CU_ASSERT_EQUAL(fchmodat(fd, "dir/closed", 0, 0), 0);
	CU_ASSERT_TRUE(fchmod(fd, 0755) == 0 && fchmodat(fd, "dir/f", 0644, 0) == 0 &&
		       fchmodat(fd, "dir/open/f", 0644, 0) == 0);
	if (is_root)
		CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	CU_ASSERT_EQUAL(run(&v, "dir", &err), 0);
	if (is_root)
		CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	CU_ASSERT_TRUE(v.count.files == 3 && v.count.bytes == 200 && v.count.unreadable == 1);
	f = fm_verify_take(&v);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(f->kind == FM_FINDING_UNREADABLE && f->offset == 0 && f->length == 0);
	CU_ASSERT_STRING_EQUAL(f->path, "dir/closed/");
	free(f);
	fm_verify_destroy(&v);
	(void)snprintf(path, sizeof(path), "%s/dir", top);
	CU_ASSERT_EQUAL(fchmodat(fd, "dir/closed", 0755, 0), 0);
	close(fd);
	dir_remove(path);
}

/* Goal: the directory that an ext4 has at its top for fsck is no finding there; one below is. */
static void test_lost_found(void)
{
	int up = open(top, O_RDONLY | O_DIRECTORY), fd;
	char path[128];
	struct fm_finding *f;
	struct fm_verify v;
	struct fm_err err;

	if (geteuid() > 0) {
		close(up);
		printf("SKIP: nobody else can be played\n");
		return;
	}
	CU_ASSERT_TRUE(fchmod(up, 0755) == 0 && mkdirat(up, "ext4", 0755) == 0);
	fd = openat(up, "ext4", O_RDONLY | O_DIRECTORY);
	CU_ASSERT_TRUE(mkdirat(fd, "lost+found", 0700) == 0 && mkdirat(fd, "d", 0755) == 0 &&
		       mkdirat(fd, "d/lost+found", 0700) == 0);
	CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	fm_verify_init(&v);
	CU_ASSERT_EQUAL(fm_verify_run(&v, fd, "", &err), 0);
	CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	CU_ASSERT_EQUAL(v.count.unreadable, 1);
	f = fm_verify_take(&v);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_STRING_EQUAL(f->path, "d/lost+found/");
	free(f);
	fm_verify_destroy(&v);
	close(fd);
	close(up);
	(void)snprintf(path, sizeof(path), "%s/ext4", top);
	dir_remove(path);
}

static void *stop_soon(void *arg)
{
	fm_verify_stop(arg);
	return NULL;
}

static void test_stopped(void)
{
	struct fm_verify v;
	struct fm_err err;
	pthread_t thread;
	int dir = open(top, O_RDONLY | O_DIRECTORY);

	fm_verify_init(&v);
	CU_ASSERT_EQUAL(pthread_create(&thread, NULL, stop_soon, &v), 0);
	CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
	CU_ASSERT_EQUAL(fm_verify_run(&v, dir, "", &err), -ECANCELED);
	close(dir);
	fm_verify_destroy(&v);
}

static const struct fm_test tests[] = {
	{"what is well is found well", test_well},
	{"what is fmove's own is not looked at", test_ours},
	{"a flipped bit is found, and in which block", test_damaged},
	{"what was cut off or written to is told, and where", test_cut},
	{"what was changed on purpose, and what has no digest, is told apart",
	 test_changed_and_without},
	{"a digest that is damaged is a finding, a later version's is none", test_damaged_digest},
	{"what is changed while it is read is no damage", test_changed_meanwhile},
	{"what cannot be read is a finding", test_unreadable},
	{"a directory that cannot be read is a finding, and no end", test_closed},
	{"lost+found of a store is none", test_lost_found},
	{"what is not opened is no finding", test_not_opened},
	{"it can be stopped", test_stopped},
};

int main(void)
{
	char command[128];
	uint32_t x = 1;
	int ret;

	for (size_t i = 0; i < sizeof(content); i++) {
		x = x * 1664525 + 1013904223;
		content[i] = (uint8_t)(x >> 24);
	}
	if (!mkdtemp(top))
		return 1;
	(void)snprintf(command, sizeof(command), "rm -rf %s", top);
	if (!has_xattrs()) {
		ret = system(command);	/* that it stays does no harm */
		fm_test_skip(ON_DISK " keeps no extended attributes");
	}
	ret = fm_test_main("verify", tests, sizeof(tests) / sizeof(tests[0]));
	return system(command) == 0 ? ret : 1;
}
