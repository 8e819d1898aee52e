/* SPDX-License-Identifier: MIT */
/* extent - see extent.h. */
#include "staging/extent.h"

int fm_stage_cut_end(struct fm_stage_cut *c, fm_stage_cut_emit *emit, void *ctx)
{
	const struct fm_stage_extent pack = c->open;

	c->open = (struct fm_stage_extent){ .files = 0 };
	return pack.files > 0 ? emit(ctx, &pack) : 0;
}

static int cut_large(uint64_t entry_at, uint64_t size, fm_stage_cut_emit *emit, void *ctx)
{
	struct fm_stage_extent e = { .entry_at = entry_at, .bytes = FM_STAGE_EXTENT, .files = 1 };
	int ret = 0;

	for (; ret == 0 && size - e.offset >= 2 * (uint64_t)FM_STAGE_EXTENT; e.offset += e.bytes)
		ret = emit(ctx, &e);
	e.bytes = size - e.offset;
	return ret < 0 ? ret : emit(ctx, &e);
}

int fm_stage_cut_file(struct fm_stage_cut *c, uint64_t entry_at, uint64_t size,
		      fm_stage_cut_emit *emit, void *ctx)
{
	bool is_large = size >= FM_STAGE_EXTENT;
	int ret = 0;

	if (size == 0)
		return 0;
	if (is_large || c->open.bytes + size > FM_STAGE_EXTENT ||
	    c->open.files == FM_STAGE_PACK_FILES)
		ret = fm_stage_cut_end(c, emit, ctx);
	if (ret < 0 || is_large)
		return ret < 0 ? ret : cut_large(entry_at, size, emit, ctx);
	if (c->open.files == 0)
		c->open.entry_at = entry_at;
	c->open.bytes += size;
	c->open.files++;
	return 0;
}
