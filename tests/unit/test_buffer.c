/* SPDX-License-Identifier: MIT */
/*
 * Memory of a caller that is mapped: what is taken, what is refused, what is read there and
 * written, and that nobody can take it away. links: fm_store
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/store/buffer.h"
#include "tests/unit/store_scene.h"

#define BYTES (1u << 20)
#define NEEDED (F_SEAL_GROW | F_SEAL_SHRINK)

static int memory_file(int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CU_ASSERT_EQUAL_FATAL(ftruncate(fd, BYTES), 0);
	CU_ASSERT_EQUAL_FATAL(fallocate(fd, 0, 0, BYTES), 0);
	if (seals)
		CU_ASSERT_EQUAL_FATAL(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int map(int fd, uint64_t bytes, struct fm_buffer **out)
{
	const struct fm_buffer_opts o = { .fd = fd, .bytes = bytes };

	fm_err_clear(&err);
	return fm_buffer_map(&o, out, &err);
}

/* Whether one of them is mapped here. */
static bool is_mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool is = false;

	while (f && fgets(line, sizeof(line), f))
		is |= strstr(line, "memfd:test") != NULL;
	if (f)
		(void)fclose(f);
	return is;
}

static void refuses(int fd, uint64_t bytes, const char *why)
{
	struct fm_buffer *b;

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(map(fd, bytes, &b), -EINVAL);
	CU_ASSERT_TRUE(strstr(err.text, why) != NULL);
	close(fd);
}

/* Goal: only a memory file that cannot change its size, and is all there, is mapped. */
static void test_refused(void)
{
	int ends[2], fd;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	refuses(ends[0], BYTES, "memory file");
	refuses(ends[1], BYTES, "memory file");
	refuses(socket(AF_UNIX, SOCK_STREAM, 0), BYTES, "memory file");
	refuses(open("/dev/zero", O_RDWR), BYTES, "memory file");
	refuses(open(at("f"), O_CREAT | O_RDWR, 0600), BYTES, "");
	refuses(open(at("."), O_RDONLY), BYTES, "");
	refuses(open(at("f"), O_PATH), BYTES, "memory file");
	refuses(memory_file(0), BYTES, "growing and shrinking");
	refuses(memory_file(F_SEAL_SHRINK), BYTES, "growing and shrinking");
	refuses(memory_file(F_SEAL_GROW), BYTES, "growing and shrinking");
	refuses(memory_file(NEEDED | F_SEAL_SEAL), BYTES, "further seals");
	refuses(memory_file(NEEDED), BYTES - 4096, "has 1048576 bytes");
	refuses(memory_file(NEEDED), BYTES + 4096, "has 1048576 bytes");
	refuses(memory_file(NEEDED), 0, "bytes");
	fd = memory_file(NEEDED);
	CU_ASSERT_EQUAL_FATAL(
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096), 0);
	refuses(fd, BYTES, "not allocated");
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CU_ASSERT_EQUAL_FATAL(fcntl(fd, F_ADD_SEALS, NEEDED), 0);
	refuses(fd, BYTES, "has 0 bytes");
	end();
}

/* Goal: what a caller has lent stays, whatever he does to the file. */
static void test_nobody_takes_it_away(void)
{
	int fd = memory_file(NEEDED);
	struct fm_buffer *b;
	char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(map(fd, BYTES, &b), 0);
	CU_ASSERT_EQUAL(ftruncate(fd, 0), -1);
	CU_ASSERT_EQUAL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BYTES), -1);
	CU_ASSERT_EQUAL(madvise(own, BYTES, MADV_REMOVE), -1);
	own[5] = 'x';	/* it is his, as before */
	CU_ASSERT_EQUAL(fm_buffer_bytes(b), BYTES);
	fm_buffer_unref(b);
	munmap(own, BYTES);
	close(fd);
	end();
}

/* Goal: a part is a source of its bytes, which lie there, too, and goes on when the buffer was
 * given back. */
static void test_source(void)
{
	int fd = memory_file(NEEDED);
	struct fm_buffer *b;
	struct fm_file *file;
	struct fm_attr attr;
	char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	begin(ON_DISK, false);
	pattern((unsigned char *)own, 3, 0, BYTES);
	CU_ASSERT_EQUAL_FATAL(map(fd, BYTES, &b), 0);
	CU_ASSERT_EQUAL(fm_buffer_source(b, BYTES + 1, 0, &file, &attr, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_buffer_source(b, 1, BYTES, &file, &attr, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_buffer_source(b, 5, UINT64_MAX, &file, &attr, &err), -EINVAL);
	CU_ASSERT_EQUAL_FATAL(fm_buffer_source(b, 5, 100000, &file, &attr, &err), 0);
	fm_buffer_unref(b);
	close(fd);
	CU_ASSERT_EQUAL(attr.size, 100000);
	CU_ASSERT_EQUAL(memcmp(file->memory, own + 5, 100000), 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 65536, 65536), 100000 - 65536);
	CU_ASSERT_EQUAL(memcmp(buffer(), own + 5 + 65536, 100000 - 65536), 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 65536, 131072), 0);
	file->ops->close(file);
	munmap(own, BYTES);
	end();
}

/* Goal: what is received comes into its part, and into nothing else. */
static void test_sink(void)
{
	int fd = memory_file(NEEDED);
	struct fm_buffer *b;
	struct fm_file *file;
	char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(map(fd, BYTES, &b), 0);
	CU_ASSERT_EQUAL_FATAL(fm_buffer_sink(b, 5, 5000, &file, &err), 0);
	CU_ASSERT_EQUAL_FATAL(file->room, 5000);
	memset(file->place, 7, file->room);
	memset(buffer(), 8, 8192);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 905, 4096), 905);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 1, UINT64_C(1) << 60), 1);
	CU_ASSERT_TRUE(own[4] == 0 && own[5] == 7 && own[5004] == 7 && own[5005] == 0);
	CU_ASSERT_EQUAL(file->ops->publish(file, 5000, NULL, true, &err), 0);
	CU_ASSERT_EQUAL(file->ops->check_size(file, 5000, &err), 0);
	CU_ASSERT_EQUAL(file->ops->check_size(file, 5001, &err), -EFBIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "5001 bytes, the part of the buffer 5000"));
	CU_ASSERT_EQUAL(file->ops->publish(file, 5001, NULL, true, &err), -EFBIG);
	file->ops->close(file);
	fm_buffer_unref(b);
	/* As it is sealed now it comes again: to be read only. */
	CU_ASSERT_EQUAL_FATAL(map(fd, BYTES, &b), 0);
	CU_ASSERT_EQUAL(fm_buffer_sink(b, 5, 5000, &file, &err), -EROFS);
	fm_buffer_unref(b);
	munmap(own, BYTES);
	close(fd);
	end();
}

/* Goal: each fault is one error, and leaves nothing. A fresh file each time: it is sealed then. */
static void test_faults(void)
{
	bool has_fired = true;
	unsigned n = 0;

	begin(ON_DISK, false);
	while (has_fired && ++n < 100) {
		int fd = memory_file(NEEDED), ret, mapped;
		struct fm_buffer *b;
		struct fm_file *file;

		fm_fault_arm(NULL, n);
		mapped = ret = map(fd, BYTES, &b);
		if (mapped == 0)
			ret = fm_buffer_sink(b, 0, 1, &file, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret < 0, has_fired);
		if (ret == 0)
			file->ops->close(file);
		if (mapped == 0)
			fm_buffer_unref(b);
		close(fd);
		CU_ASSERT_FALSE(is_mapped());
	}
	CU_ASSERT_TRUE(n > 5 && n < 100);
	end();
}

static const struct fm_test tests[] = {
	{"what is no memory file as it should be is refused", test_refused},
	{"nobody takes away what was lent", test_nobody_takes_it_away},
	{"a part is a source, also when the buffer was given back", test_source},
	{"a part is a sink, and nothing comes beside it", test_sink},
	{"each fault is one error", test_faults},
};
FM_TEST_MAIN("buffer", tests)
