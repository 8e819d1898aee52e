/* SPDX-License-Identifier: MIT */
/*
 * journal_fixture - what the tests of the journal share: a file in memory, a machine that is always
 * the same, entries in one line.
 */
#ifndef JOURNAL_FIXTURE_H
#define JOURNAL_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/journal/format.h"
#include "mover/journal/journal.h"
#include "mover/journal/journal_priv.h"
#include "tests/fm_test.h"

#define NEVER_KNOWN UINT64_MAX

static const struct fm_journal_env here = {
	.host =
		{
			.machine = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
				    0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f},
			.boot = {0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a,
				 0x2b, 0x2c, 0x2d, 0x2e, 0x2f},
		},
	.salt = 0x9abcdef0,
	.bytes_max = FM_JOURNAL_BYTES_MAX,
};

static const struct fm_journal_opts tree_opts = {
	.is_tree = true,
	.is_synced = true,
	.source = {.node = "node7", .uid = 1000, .dev = 0x801, .ino = UINT64_C(0x1122334455667788)},
	.name = "checkpoint-7",
};

static const struct fm_journal_opts file_opts = {
	.source = { .node = "", .dev = 1, .ino = 2, .size = 1000, .mtime_ns = 3, .ctime_ns = -4 },
	.ino = UINT64_C(0x0a0b0c0d0e0f1011),
	.name = "a.bin",
};

static struct fm_err err;
static const char *why;		/* of the last open */

/* A file in memory that holds the bytes. */
static inline int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(pwrite(fd, bytes, len, 0), (ssize_t)len);
	return fd;
}

static inline uint64_t file_len(int fd)
{
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	return (uint64_t)st.st_size;
}

static inline bool file_is(int fd, const void *bytes, size_t len)
{
	static uint8_t got[1u << 16];

	return file_len(fd) == len && len <= sizeof(got) &&
	       pread(fd, got, len, 0) == (ssize_t)len && memcmp(got, bytes, len) == 0;
}

/* The descriptor stays open here: the journal gets another one of the same file. */
static inline int try_open_env(int fd, const struct fm_journal_opts *opts,
			       const struct fm_journal_env *env, struct fm_journal **out)
{
	fm_err_clear(&err);
	return fm_journal_open_as(fcntl(fd, F_DUPFD_CLOEXEC, 0), opts, env, out, &why, &err);
}

static inline struct fm_journal *open_env(int fd, const struct fm_journal_opts *opts,
					  const struct fm_journal_env *env)
{
	struct fm_journal *j;

	CU_ASSERT_EQUAL_FATAL(try_open_env(fd, opts, env, &j), 0);
	return j;
}

static inline struct fm_journal *open_journal(int fd, const struct fm_journal_opts *opts)
{
	return open_env(fd, opts, &here);
}

/* A piece of a file whose size tells its content: mtime and identity are made from it. */
static inline struct fm_journal_entry piece(const char *path, uint64_t size, uint64_t offset,
					    uint64_t len, uint32_t crc)
{
	return (struct fm_journal_entry){ .path = path,
					  .path_len = strlen(path),
					  .size = size,
					  .mtime_ns = (int64_t)size * 3,
					  .identity = size ^ 0x5555,
					  .offset = offset,
					  .len = len,
					  .crc = crc };
}

static inline int append_one(struct fm_journal *j, struct fm_journal_entry e)
{
	fm_err_clear(&err);
	return fm_journal_append(j, &e, 1, &err);
}

/* Bytes there of a path; NEVER_KNOWN: nothing was ever said of it. */
static inline uint64_t bytes_there(struct fm_journal *j, const char *path)
{
	const struct fm_journal_file *f = fm_journal_find(j, path, strlen(path));

	return f ? fm_ranges_bytes(&f->ranges) : NEVER_KNOWN;
}

static inline uint32_t crc_there(struct fm_journal *j, const char *path)
{
	const struct fm_journal_file *f = fm_journal_find(j, path, strlen(path));

	return f ? f->crc : 0;
}

#endif
