/* SPDX-License-Identifier: MIT */
/* direct - see direct.h. */
#include "staging/direct.h"

#include <errno.h>
#include <fcntl.h>

#include "mover/base/block.h"
#include "mover/base/call.h"

/* Shorter ones are not worth a wait for the disk each. */
#define DIRECT_MIN (UINT64_C(64) << 10)

static size_t whole_blocks(const uint8_t *buf, size_t len, uint64_t offset)
{
	if (len < DIRECT_MIN || (uintptr_t)buf % FM_BLOCK != 0 || offset % FM_BLOCK != 0)
		return 0;
	return (size_t)fm_block_down(len);
}

int fm_stage_write_direct(int fd, const uint8_t *buf, size_t len, uint64_t offset)
{
	size_t whole = whole_blocks(buf, len, offset);
	int flags = whole > 0 ? fcntl(fd, F_GETFL) : -1, ret = -EINVAL;

	if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0) {
		ret = fm_call_write_all(fd, buf, whole, offset);
		(void)fcntl(fd, F_SETFL, flags); /* the rest is of no whole block */
	}
	if (ret == -EINVAL) /* no direct I/O here, or not with this memory */
		return fm_call_write_all(fd, buf, len, offset);
	return ret < 0 ? ret : fm_call_write_all(fd, buf + whole, len - whole, offset + whole);
}
