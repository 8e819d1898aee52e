/* SPDX-License-Identifier: MIT */
/* reread - see reread.h. */
#include "mover/journal/reread.h"

#include <errno.h>
#include <stdlib.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/base/page.h"

#define BUF_BYTES (4u << 20)

static size_t buf_bytes(uint64_t len)
{
	return len < BUF_BYTES ? (size_t)fm_block_up(len) : BUF_BYTES;
}

/* Whole blocks, which direct reads want; what is behind `left` does not count. */
static int64_t read_some(int fd, void *buf, uint64_t offset, uint64_t left)
{
	size_t len = buf_bytes(left);
	int64_t n;

	if (FM_FAULT("journal.reread"))
		return -EIO;
	n = fm_call_read_direct(fd, buf, len, offset);
	if (n < 0)
		return n;
	if ((uint64_t)n >= left)
		return (int64_t)left;
	n -= n % FM_BLOCK;	/* a short read must not leave the grid of blocks */
	return n > 0 ? n : -ENODATA;
}

static int crc_of(int fd, void *buf, uint64_t offset, uint64_t len, uint32_t *crc)
{
	*crc = 0;
	for (uint64_t at = 0; at < len;) {
		int64_t n = read_some(fd, buf, offset + at, len - at);

		if (n < 0)
			return (int)n;
		*crc = fm_crc32c(*crc, buf, (size_t)n);
		at += (uint64_t)n;
	}
	return 0;
}

int fm_reread(int fd, uint64_t offset, uint64_t len, uint32_t *part)
{
	size_t bytes = buf_bytes(len);
	uint32_t crc;
	void *buf;
	int ret = -ENOMEM;

	if (!fm_budget_take(bytes))
		return ret;
	buf = FM_FAULT("journal.reread_buf") ? NULL : aligned_alloc(FM_BLOCK, bytes);
	if (buf) {
		fm_page_drop(fd, offset, len);
		ret = crc_of(fd, buf, offset, len, &crc);
	}
	if (ret == 0)
		*part = fm_crc32c_part(crc, offset, len);
	free(buf);
	fm_budget_give(bytes);
	return ret;
}
