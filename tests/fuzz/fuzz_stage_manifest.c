/* SPDX-License-Identifier: MIT */
/*
 * fuzz_stage_manifest - any bytes as the manifest of a dataset: refused, or entries that keep every
 * promise of staging/manifest.h, and of which the writer makes the same bytes again. The listing
 * digest is made good, so that what is behind it is reached.
 *
 * links: fm_staging
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "staging/manifest.h"

#define LISTING_AT 40	/* before the end */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static int file_of(const void *buf, size_t size)
{
	int fd = memfd_create("manifest", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, buf, size) == (ssize_t)size);
	return fd;
}

static void check_entry(const struct fm_stage_entry *e)
{
	check(e->path_len > 0 && e->path[0] != '/' && !memchr(e->path, '\0', e->path_len));
	check(!memmem(e->path, e->path_len, "//", 2) && !memmem(e->path, e->path_len, "/../", 4));
	check(e->path_len < 3 || memcmp(e->path, "../", 3) != 0);
	check((e->mode & ~01777) == 0);
	check((e->target_len > 0) == (e->type == FM_STAGE_LINK || e->type == FM_STAGE_HARD));
}

/* What is read goes to w, which must take it. 0: all of it. */
static int copy(struct fm_stage_reader *r, struct fm_stage_writer *w)
{
	struct fm_stage_entry e;
	struct fm_stage_chunk c;
	int ret;

	while ((ret = fm_stage_reader_next(r, &e)) > 0) {
		check_entry(&e);
		check(fm_stage_writer_entry(w, &e) == 0);
		while ((ret = fm_stage_reader_chunk(r, &c)) > 0)
			check(fm_stage_writer_chunk(w, &c) == 0);
		if (ret < 0)
			break;
	}
	check(ret == 0 || ret == -EBADMSG);
	return ret;
}

/* There is one way only to write it down. */
static void read_all(const uint8_t *buf, size_t size)
{
	uint8_t read[FM_SHA256_LEN], written[FM_SHA256_LEN];
	struct fm_stage_totals t;
	struct fm_stage_reader *r;
	struct fm_stage_writer *w;
	int fd = file_of(buf, size), copied = file_of("", 0);
	int ret = fm_stage_reader_new(fd, &r);

	check(ret == 0 || ret == -EBADMSG);
	if (ret == 0) {
		check(fm_stage_writer_new(copied, fm_stage_reader_totals(r)->is_file, &w) == 0);
		ret = copy(r, w);
		if (ret == 0) {
			check(fm_stage_writer_end(w, written, &t) == 0);
			check(fm_stage_manifest_check(fd, read, &t) == 0);
			check(memcmp(read, written, sizeof(read)) == 0);
		}
		fm_stage_writer_free(w);
		fm_stage_reader_free(r);
	}
	close(copied);
	close(fd);
}

/* The digest of the entries, as far as there are any. */
static void mend(uint8_t *buf, size_t size)
{
	struct fm_stage_reader *r;
	struct fm_stage_entry e;
	struct fm_sha256 *s = fm_sha256_new();
	int fd = file_of(buf, size);

	check(s != NULL);
	if (fm_stage_reader_new(fd, &r) == 0) {
		while (fm_stage_reader_next(r, &e) > 0)
			fm_stage_listing_add(s, &e);
		fm_sha256_end(s, buf + size - LISTING_AT);
		fm_stage_reader_free(r);
	}
	fm_sha256_free(s);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *buf = malloc(size ? size : 1);

	check(buf != NULL);
	memcpy(buf, data, size);
	read_all(buf, size);
	mend(buf, size);
	read_all(buf, size);
	free(buf);
	return 0;
}
