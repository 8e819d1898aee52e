/* SPDX-License-Identifier: MIT */
/*
 * fuzz_cache - any bytes as each of the files in which a cache keeps its state.
 *
 * As they are, and with length and CRC set right, since no fuzzer guesses those. What is taken is
 * written again, and must be the same bytes: then nothing was read that the file does not say.
 *
 * links: fm_staging
 */
#include <stdlib.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/base/crc32c.h"
#include "staging/cache_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t again[FM_CACHE_FILE_MAX];

static void check_same(const uint8_t *data, size_t size, size_t len)
{
	if (len != size || memcmp(data, again, len) != 0)
		abort();
}

static void try_dataset(const uint8_t *data, size_t size)
{
	struct fm_cache_dataset d;

	if (fm_cache_get_dataset(data, size, &d) < 0)
		return;
	check_same(data, size, fm_cache_put_dataset(&d, again, sizeof(again)));
	free(d.source);
}

/* Of the number that the file says, and of one that it does not. */
static void try_extents(const uint8_t *data, size_t size)
{
	static uint8_t bits[FM_CACHE_EXTENTS_MAX / 8];
	struct fm_reader r = {.at = data, .end = data + size};
	uint64_t id;
	uint32_t extents;

	(void)fm_cache_get_extents(data, size, 7, 12, bits);
	(void)fm_get_span(&r, FM_CACHE_FRAME_LEN);
	id = fm_get_le64(&r);
	extents = fm_get_le32(&r);
	if (extents > FM_CACHE_EXTENTS_MAX ||
	    fm_cache_get_extents(data, size, id, extents, bits) < 0)
		return;
	check_same(data, size, fm_cache_put_extents(id, extents, bits, again, sizeof(again)));
}

static void try_bytes(const uint8_t *data, size_t size)
{
	struct fm_cache_hold_record hold;
	static struct fm_cache_afar_record afar;
	struct fm_cache_use use;

	if (fm_cache_get_head(data, size) == 0)
		check_same(data, size, fm_cache_put_head(again, sizeof(again)));
	if (fm_cache_get_use(data, size, &use) == 0)
		check_same(data, size, fm_cache_put_use(&use, again, sizeof(again)));
	if (fm_cache_get_hold(data, size, &hold) == 0)
		check_same(data, size, fm_cache_put_hold(&hold, again, sizeof(again)));
	if (fm_cache_get_afar(data, size, &afar) == 0)
		check_same(data, size, fm_cache_put_afar(&afar, again, sizeof(again)));
	try_dataset(data, size);
	try_extents(data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t mended[FM_CACHE_FILE_MAX];
	struct fm_writer w = {.at = mended + 12, .end = mended + 16};

	if (size > sizeof(mended))
		return 0;
	try_bytes(data, size);
	if (size < FM_CACHE_HEAD_LEN)
		return 0;
	memcpy(mended, data, size);
	fm_put_le32(&w, (uint32_t)size);
	w = (struct fm_writer){.at = mended + size - 4, .end = mended + size};
	fm_put_le32(&w, fm_crc32c(0, mended, size - 4));
	try_bytes(mended, size);
	return 0;
}
