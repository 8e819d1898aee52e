/* SPDX-License-Identifier: MIT */
/*
 * fuzz_journal - any bytes as a journal file: opened, asked, appended to, opened again.
 *
 * The machine, the source and the salt are those of the corpus. Each input is tried as it is, and
 * with the CRCs of its head and records set right, since no fuzzer guesses them. What a journal
 * says must hold together (ranges sorted, within the file), the file must be cut to what counts,
 * and opening it again must say the same.
 *
 * links: fm_journal
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/crc32c.h"
#include "mover/journal/format.h"
#include "mover/journal/journal_priv.h"

#define INPUT_MAX (1u << 16)
#define RECORDS_MAX 1024u
#define HEAD FM_JOURNAL_HEAD_LEN
#define SALT 0x9abcdef0

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fm_journal_env here = {
	.host =
		{
			.machine = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
				    0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f},
			.boot = {0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a,
				 0x2b, 0x2c, 0x2d, 0x2e, 0x2f},
		},
	.salt = SALT,
	.bytes_max = INPUT_MAX + FM_JOURNAL_RECORD_MAX + HEAD,
};

static const struct fm_journal_opts opts = {
	.is_tree = true,
	.is_synced = true,
	.source = { .node = "node7", .dev = 0x801, .ino = UINT64_C(0x1122334455667788) },
	.name = "checkpoint-7",
};

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_file(const struct fm_journal_file *f)
{
	uint64_t end = 0;

	check(f->size <= INT64_MAX);
	for (size_t i = 0; i < f->ranges.count; i++) {
		const struct fm_range *range = &f->ranges.at[i];

		check(range->len > 0 && (i == 0 || range->offset > end));
		check(range->offset <= f->size && range->len <= f->size - range->offset);
		end = range->offset + range->len;
	}
}

/* What the journal says of one path, mixed into one number. */
static uint64_t fingerprint(struct fm_journal *j, const char *path, size_t len)
{
	const struct fm_journal_file *f = fm_journal_find(j, path, len);
	uint64_t sum = 1;

	if (!f)
		return 0;
	check_file(f);
	sum = sum * 31 + f->size;
	sum = sum * 31 + (uint64_t)f->mtime_ns;
	sum = sum * 31 + f->identity;
	sum = sum * 31 + f->crc;
	for (size_t i = 0; i < f->ranges.count; i++)
		sum = (sum * 31 + f->ranges.at[i].offset) * 31 + f->ranges.at[i].len;
	return sum;
}

/* Of all the paths that the good bytes of the file name. */
static uint64_t fingerprint_all(struct fm_journal *j, const uint8_t *bytes, size_t len)
{
	struct fm_journal_head head;
	struct fm_journal_entry e;
	uint64_t sum = 0;
	int took;

	if (fm_journal_head_get(bytes, len, &head) < 0)
		return 0;
	for (size_t at = HEAD; (took = fm_journal_record_get(bytes + at, len - at, &head, &e)) > 0;
	     at += (size_t)took)
		sum = sum * 31 + fingerprint(j, e.path, e.path_len);
	return sum;
}

static struct fm_journal *open_it(int fd, const char **why)
{
	struct fm_journal *j;

	check(fm_journal_open_as(fcntl(fd, F_DUPFD_CLOEXEC, 0), &opts, &here, &j, why, NULL) == 0);
	return j;
}

/* One more piece, of a file that it may know; whether that was taken. */
static int append_something(struct fm_journal *j, const uint8_t *bytes, size_t len)
{
	struct fm_journal_entry e = {.path = "a",
				     .path_len = 1,
				     .size = 10,
				     .mtime_ns = 1,
				     .identity = 2,
				     .offset = len % 10,
				     .len = 1,
				     .crc = 3};
	int ret;

	if (len > HEAD + FM_JOURNAL_RECORD_LEN + 8)
		e.path = (const char *)bytes + HEAD + FM_JOURNAL_RECORD_LEN;
	ret = fm_journal_append(j, &e, 1, NULL);
	check(ret == 0 || ret == -EINVAL);
	if (ret == 0 && fm_journal_find(j, e.path, 1))	/* else it was left out */
		check(fm_journal_find(j, e.path, 1)->size == e.size);
	return ret;
}

static void try_bytes(const uint8_t *data, size_t size)
{
	static uint8_t good[INPUT_MAX + FM_JOURNAL_RECORD_MAX + HEAD];
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct fm_journal_opts peeked;
	struct fm_journal *j;
	const char *why;
	uint64_t there = 0, sum;
	struct stat st;
	int ret;

	check(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	ret = fm_journal_peek_as(fd, &here.host, &peeked, &there);
	check(ret == 0 || ret == -EBADMSG);
	j = open_it(fd, &why);
	check(fstat(fd, &st) == 0 && (size_t)st.st_size <= size);
	check(pread(fd, good, sizeof(good), 0) == st.st_size);
	check(memcmp(good, data, (size_t)st.st_size) == 0);
	check(!why || (st.st_size == 0 && fm_journal_is_empty(j)));
	check(why || ret == 0 || size == 0);
	sum = fingerprint_all(j, good, (size_t)st.st_size);
	if (append_something(j, data, size) == 0) {
		check(fstat(fd, &st) == 0);
		check(pread(fd, good, sizeof(good), 0) == st.st_size);
		sum = fingerprint_all(j, good, (size_t)st.st_size);
	}
	fm_journal_close(j);
	j = open_it(fd, &why);
	check(!why && fingerprint_all(j, good, (size_t)st.st_size) == sum);
	fm_journal_close(j);
	close(fd);
}

static void put_crc(uint8_t *at, uint32_t crc)
{
	struct fm_writer w = { .at = at, .end = at + 4 };

	fm_put_le32(&w, crc);
}

/* Set right what CRCs there would be, as far as the lengths of the records lead. */
static void mend(uint8_t *bytes, size_t size)
{
	size_t at = HEAD, len;

	if (size < HEAD)
		return;
	put_crc(bytes + HEAD - 8, SALT);
	put_crc(bytes + HEAD - 4, fm_crc32c(0, bytes, HEAD - 4));
	for (unsigned i = 0; i < RECORDS_MAX && size - at >= FM_JOURNAL_RECORD_LEN;
	     i++, at += len) {
		len = fm_journal_record_len(bytes[at + 6] | (size_t)bytes[at + 7] << 8);
		if (len > size - at)
			return;
		put_crc(bytes + at, fm_crc32c(SALT, bytes + at + 4, len - 4));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t mended[INPUT_MAX];

	if (size > INPUT_MAX)
		return 0;
	try_bytes(data, size);
	memcpy(mended, data, size);
	mend(mended, size);
	try_bytes(mended, size);
	return 0;
}
