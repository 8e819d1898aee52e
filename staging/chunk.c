/* SPDX-License-Identifier: MIT */
/* chunk - see chunk.h. */
#include "staging/chunk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/tree/reading.h"

static int open_direct(int dir, const char *name, bool is_path, struct fm_reading **out)
{
	int ret = fm_reading_open(dir, name, is_path, out), flags;

	if (ret < 0)
		return ret;
	flags = fcntl((*out)->fd, F_GETFL);
	if (flags >= 0)
		/* where there is none: as it is */
		(void)fcntl((*out)->fd, F_SETFL, flags | O_DIRECT);
	return 0;
}

int fm_stage_chunk_open(int dir, const char *name, struct fm_reading **out)
{
	return open_direct(dir, name, false, out);
}

int fm_stage_chunk_open_path(int dir, const char *path, struct fm_reading **out)
{
	return open_direct(dir, path, true, out);
}

uint8_t *fm_stage_chunk_buf_of_taken(void)
{
	uint8_t *buf = FM_FAULT("stage.buf") ? NULL : aligned_alloc(FM_BLOCK, FM_STAGE_CHUNK);

	if (!buf)
		fm_budget_give(FM_STAGE_CHUNK);
	return buf;
}

uint8_t *fm_stage_chunk_buf_new(void)
{
	return fm_budget_take(FM_STAGE_CHUNK) ? fm_stage_chunk_buf_of_taken() : NULL;
}

void fm_stage_chunk_buf_free(uint8_t *buf)
{
	if (!buf)
		return;
	free(buf);
	fm_budget_give(FM_STAGE_CHUNK);
}

bool fm_stage_some_for(struct fm_stage_some *some, size_t len)
{
	size_t whole = fm_block_up(len);
	uint8_t *at;

	if (whole <= some->len)
		return true;
	if (!fm_budget_take_leaving(whole, FM_STAGE_LEFT))
		return false;
	at = FM_FAULT("stage.buf") ? NULL : aligned_alloc(FM_BLOCK, whole);
	if (!at) {
		fm_budget_give(whole);
		return false;
	}
	fm_stage_some_free(some);
	*some = (struct fm_stage_some){ .at = at, .len = whole };
	return true;
}

void fm_stage_some_free(struct fm_stage_some *some)
{
	if (!some->at)
		return;
	free(some->at);
	fm_budget_give(some->len);
	*some = (struct fm_stage_some){ 0 };
}

bool fm_stage_is_zero(const uint8_t *at, size_t len)
{
	return at[0] == 0 && memcmp(at, at + 1, len - 1) == 0;
}

static uint64_t zeros_of(const uint8_t *buf, uint32_t len)
{
	uint64_t zeros = 0;

	for (uint32_t at = 0; at < len; at += FM_STAGE_GRANULE) {
		uint32_t n = len - at < FM_STAGE_GRANULE ? len - at : FM_STAGE_GRANULE;

		if (fm_stage_is_zero(buf + at, n))
			zeros |= UINT64_C(1) << (at / FM_STAGE_GRANULE);
	}
	return zeros;
}

struct fm_stage_chunk fm_stage_chunk_of(const uint8_t *buf, uint32_t len)
{
	return (struct fm_stage_chunk){ .crc = fm_crc32c(0, buf, len),
					.zeros = zeros_of(buf, len) };
}

/*
 * Whether the file has no data in this range, so that it reads as zeros. False where the file
 * system cannot tell.
 */
static bool is_hole(const struct fm_reading *r, uint64_t offset, uint32_t len)
{
	off_t data;

	if (!fm_reading_may_have_holes(&r->st))
		return false;
	data = lseek(r->fd, (off_t)offset, SEEK_DATA);
	return data < 0 ? errno == ENXIO : (uint64_t)data >= offset + len;
}

/*
 * Exactly len bytes at offset. It is asked for whole blocks, as O_DIRECT wants them, and reads on
 * only from a whole one; for no more, since what is asked for behind the end is filled with zeros,
 * which takes longer than to read a small file. -ESTALE: there are fewer.
 */
static int read_bytes(int fd, uint8_t *buf, uint32_t len, uint64_t offset)
{
	uint32_t done = 0, whole = (uint32_t)fm_block_up(len);

	while (done < len) {
		int64_t n = FM_FAULT("stage.read_data")
				    ? -EIO
				    : fm_call_read_direct(fd, buf + done, whole - done,
							  offset + done);

		if (n > 0 && done + (uint32_t)n < len)
			n -= n % FM_BLOCK;
		if (n <= 0)
			return n < 0 ? (int)n : -ESTALE;
		done += (uint32_t)n;
	}
	return 0;
}

int fm_stage_chunk_read(const struct fm_reading *r, uint64_t n, uint8_t *buf,
			struct fm_stage_chunk *out)
{
	uint32_t len = fm_stage_chunk_len((uint64_t)r->st.st_size, n);
	uint64_t offset = n * FM_STAGE_CHUNK;
	int ret = 0;

	if (is_hole(r, offset, len))
		memset(buf, 0, len);
	else
		ret = read_bytes(r->fd, buf, len, offset);
	if (ret < 0)
		return ret;
	*out = fm_stage_chunk_of(buf, len);
	return 0;
}
