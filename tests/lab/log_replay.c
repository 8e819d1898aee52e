/* SPDX-License-Identifier: MIT */
/*
 * log_replay - what a disk would hold if its power had gone at some moment of a dm-log-writes log.
 *
 *   log_replay LOG                       list the marks: the number of the entry, the mark
 *   log_replay LOG TARGET mark NAME      make TARGET what the disk was at that mark
 *   log_replay LOG TARGET entry NUMBER   ... when that many entries had been written
 *
 * TARGET is a block device at least as large as the logged one; it is zeroed first, so that nothing
 * of an earlier replay can stand in for a write that is missing. Zeros for where nothing was
 * written yet, as a new file system's journal has them, are there then, and not written again.
 *
 * What was written but not flushed before a mark is not in the log before it: the kernel logs a
 * write when a later flush has completed, as if the disk kept nothing that it need not keep.
 *
 * The format is that of Documentation/admin-guide/device-mapper/log-writes.rst in the kernel's
 * sources: blocks of the logged device's sector size; first the super block, then an entry block
 * before each write's data. All numbers are little-endian.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LOG_MAGIC UINT64_C(0x6a736677736872)
#define LOG_VERSION 1

enum { FLAG_FLUSH = 1, FLAG_FUA = 2, FLAG_DISCARD = 4, FLAG_MARK = 8 };

#define SECTOR_MIN 512
#define SECTOR_MAX 4096
#define ENTRY_BYTES_MAX (64u << 20)	/* of one write; the kernel's are far smaller */
#define COPY_BYTES (1u << 20)

struct super {
	uint64_t magic;
	uint64_t version;
	uint64_t entries;
	uint32_t sector_size;
} __attribute__((packed));

struct entry {
	uint64_t sector;
	uint64_t sectors;
	uint64_t flags;
	uint64_t data_len;		/* of a mark's text, which follows in the same block */
} __attribute__((packed));

struct log {
	int fd;
	const char *path;
	uint64_t entries;
	uint32_t sector_size;
	uint64_t at;			/* byte offset of the next entry */
	uint64_t number;		/* of the next entry, from 0 */
};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)fprintf(stderr, "log_replay: ");
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void read_at(const struct log *log, void *buf, size_t len, uint64_t offset)
{
	ssize_t n = pread(log->fd, buf, len, (off_t)offset);

	if (n != (ssize_t)len)
		die("%s: %zu bytes at %" PRIu64 ": %s", log->path, len, offset,
		    n < 0 ? strerror(errno) : "the log ends there");
}

static void log_open(struct log *log, const char *path)
{
	struct super super;

	log->path = path;
	log->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (log->fd < 0)
		die("%s: %s", path, strerror(errno));
	/* The kernel wrote below the page cache. */
	(void)ioctl(log->fd, BLKFLSBUF, 0);
	read_at(log, &super, sizeof(super), 0);
	if (le64toh(super.magic) != LOG_MAGIC)
		die("%s: this is no log of dm-log-writes", path);
	if (le64toh(super.version) != LOG_VERSION)
		die("%s: version %" PRIu64 " is not known", path, le64toh(super.version));
	log->entries = le64toh(super.entries);
	log->sector_size = le32toh(super.sector_size);
	if (log->sector_size < SECTOR_MIN || log->sector_size > SECTOR_MAX)
		die("%s: sectors of %" PRIu32 " bytes", path, log->sector_size);
	log->at = log->sector_size;
}

/* The next entry with its mark, which is "" if it is none; *data is the offset of its data in the
 * log. */
static bool log_next(struct log *log, struct entry *out, char mark[SECTOR_MAX], uint64_t *data)
{
	char block[SECTOR_MAX];
	struct entry raw;
	bool has_data;

	if (log->number >= log->entries)
		return false;
	read_at(log, block, log->sector_size, log->at);
	memcpy(&raw, block, sizeof(raw));
	*out = (struct entry){ le64toh(raw.sector), le64toh(raw.sectors), le64toh(raw.flags),
			       le64toh(raw.data_len) };
	mark[0] = '\0';
	if ((out->flags & FLAG_MARK) != 0) {
		if (out->data_len > log->sector_size - sizeof(raw))
			die("%s: entry %" PRIu64 ": a mark of %" PRIu64 " bytes", log->path,
			    log->number, out->data_len);
		memcpy(mark, block + sizeof(raw), out->data_len);
		mark[out->data_len] = '\0';
	}
	has_data = (out->flags & FLAG_DISCARD) == 0;
	if (has_data && out->sectors > ENTRY_BYTES_MAX / log->sector_size)
		die("%s: entry %" PRIu64 ": a write of %" PRIu64 " sectors", log->path, log->number,
		    out->sectors);
	*data = log->at + log->sector_size;
	log->at = *data + (has_data ? out->sectors * log->sector_size : 0);
	log->number++;
	return true;
}

static void list_marks(struct log *log)
{
	char mark[SECTOR_MAX];
	struct entry entry;
	uint64_t data;

	while (log_next(log, &entry, mark, &data))
		if (mark[0] != '\0')
			(void)printf("%" PRIu64 " %s\n", log->number, mark);
	(void)printf("%" PRIu64 "\n", log->entries);
}

/* ---- replaying ---- */

/* Which MiB of the target something was written to, a bit each. */
static uint8_t *written;
static uint64_t target_bytes;

static int target_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_EXCL);
	uint64_t range[2] = { 0, 0 };

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	if (ioctl(fd, BLKGETSIZE64, &range[1]) < 0 || ioctl(fd, BLKZEROOUT, range) < 0)
		die("%s: zeroing it: %s", path, strerror(errno));
	target_bytes = range[1];
	written = calloc(target_bytes / COPY_BYTES / 8 + 1, 1);
	if (written == NULL)
		die("no memory");
	return fd;
}

/* Whether something was written there. */
static bool is_touched(uint64_t from, uint64_t len)
{
	if (len == 0)
		return false;
	if (from + len > target_bytes)
		return true;		/* nobody can say */
	for (uint64_t i = from / COPY_BYTES; i <= (from + len - 1) / COPY_BYTES; i++)
		if ((written[i / 8] & 1u << i % 8) != 0)
			return true;
	return false;
}

/* Whether it is zeros, for where nothing was written yet. If not, something is there now. */
static bool is_there(const uint8_t *buf, uint64_t to, size_t len)
{
	bool is_zero = buf[0] == 0 && memcmp(buf, buf + 1, len - 1) == 0;

	if (to + len > target_bytes)
		return false;
	if (is_zero && !is_touched(to, len))
		return true;
	for (uint64_t i = to / COPY_BYTES; i <= (to + len - 1) / COPY_BYTES; i++)
		written[i / 8] |= (uint8_t)(1u << i % 8);
	return false;
}

static void copy(const struct log *log, int target, uint64_t from, uint64_t to, uint64_t len)
{
	static uint8_t buf[COPY_BYTES];

	while (len > 0) {
		size_t part = len < sizeof(buf) ? (size_t)len : sizeof(buf);

		read_at(log, buf, part, from);
		if (!is_there(buf, to, part) &&
		    pwrite(target, buf, part, (off_t)to) != (ssize_t)part)
			die("the target, at %" PRIu64 ": %s", to, strerror(errno));
		from += part;
		to += part;
		len -= part;
	}
}

static void apply(const struct log *log, int target, const struct entry *entry, uint64_t data)
{
	uint64_t range[2] = { entry->sector * log->sector_size, entry->sectors * log->sector_size };

	if ((entry->flags & FLAG_DISCARD) == 0)
		copy(log, target, data, range[0], range[1]);
	else if (is_touched(range[0], range[1]))
		/* what it leaves there is nobody's to rely on; where nothing was are zeros */
		(void)ioctl(target, BLKDISCARD, range);
}

/* Up to the mark, or until `entries` were applied. */
static void replay(struct log *log, int target, const char *until, uint64_t entries)
{
	char mark[SECTOR_MAX];
	struct entry entry;
	uint64_t data;

	while (log->number < entries && log_next(log, &entry, mark, &data)) {
		apply(log, target, &entry, data);
		if (until != NULL && strcmp(mark, until) == 0)
			return;
	}
	if (until != NULL)
		die("%s: no mark \"%s\" among %" PRIu64 " entries", log->path, until, log->entries);
	if (log->number < entries)
		die("%s: only %" PRIu64 " entries", log->path, log->entries);
}

int main(int argc, char **argv)
{
	struct log log = { .fd = -1 };
	bool is_mark = argc == 5 && strcmp(argv[3], "mark") == 0,
	     is_entry = argc == 5 && strcmp(argv[3], "entry") == 0;
	int target;

	if (argc != 2 && !is_mark && !is_entry) {
		(void)fprintf(stderr,
			      "usage: log_replay LOG [TARGET mark NAME | TARGET entry NUMBER]\n");
		return 2;
	}
	log_open(&log, argv[1]);
	if (argc == 2) {
		list_marks(&log);
		return 0;
	}
	target = target_open(argv[2]);
	replay(&log, target, is_mark ? argv[4] : NULL,
	       is_entry ? strtoull(argv[4], NULL, 10) : UINT64_MAX);
	if (fsync(target) < 0)
		die("%s: %s", argv[2], strerror(errno));
	return 0;
}
