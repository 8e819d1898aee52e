/* SPDX-License-Identifier: MIT */
/* compare - see compare.h. */
#include "staging/compare.h"

#include <errno.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/show.h"
#include "mover/tree/tree.h"
#include "staging/manifest.h"

/* The CRC of the file that the reader is at. */
static int crc_of_file(struct fm_stage_reader *r, uint64_t size, uint32_t *crc)
{
	uint64_t chunks = fm_stage_chunks(size);
	struct fm_stage_chunk c;
	uint32_t parts = 0;

	for (uint64_t n = 0; n < chunks; n++) {
		int ret = fm_stage_reader_chunk(r, &c);

		if (ret <= 0)
			return ret < 0 ? ret : -EBADMSG;
		parts ^= fm_crc32c_part(c.crc, n * FM_STAGE_CHUNK, fm_stage_chunk_len(size, n));
	}
	*crc = fm_crc32c_whole(parts, size);
	return 0;
}

static int fail_file(int code, const struct fm_stage_entry *e, struct fm_err *err)
{
	char path[FM_TREE_PATH_MAX + 1];
	struct fm_path_shown shown;

	memcpy(path, e->path, e->path_len);
	path[e->path_len] = '\0';
	fm_path_show(path, &shown);
	if (code == -EPROTO)
		return fm_err_set(err, code,
				  "the source does not say what is in \"%s\": is its fmoved as new "
				  "as this one (fmove doctor)?",
				  shown.text);
	return fm_err_set(err, code,
			  "\"%s\" has other bytes at the source than when it was staged, of the "
			  "same size and time",
			  shown.text);
}

static int compare_file(struct fm_stage_reader *r, const struct fm_stage_entry *e,
			fm_stage_crc_of *crc_of, void *ctx, struct fm_err *err)
{
	uint32_t wanted, crc;
	int ret = crc_of_file(r, e->size, &wanted);

	if (ret < 0)
		return fm_err_sys(err, ret, "read the manifest of what is here");
	if (!crc_of(ctx, e->path, e->path_len, &crc))
		return fail_file(-EPROTO, e, err);
	return crc == wanted ? 0 : fail_file(-EBADMSG, e, err);
}

int fm_stage_compare(int manifest, fm_stage_crc_of *crc_of, void *ctx, struct fm_err *err)
{
	struct fm_stage_reader *r = NULL;
	struct fm_stage_entry e;
	int ret = fm_stage_reader_new(manifest, &r);

	while (ret == 0 && (ret = fm_stage_reader_next(r, &e)) > 0) {
		ret = e.type == FM_STAGE_FILE ? compare_file(r, &e, crc_of, ctx, err) : 0;
		if (ret < 0) {
			fm_stage_reader_free(r);
			return ret;
		}
	}
	fm_stage_reader_free(r);
	return ret < 0 ? fm_err_sys(err, ret, "read the manifest of what is here") : 0;
}
