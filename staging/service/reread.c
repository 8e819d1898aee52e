/* SPDX-License-Identifier: MIT */
/* reread - see reread.h. */
#include "staging/service/reread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/store/store.h"
#include "staging/cache.h"
#include "staging/compare.h"
#include "staging/manifest.h"
#include "staging/offered.h"

static int fail_gone(struct fm_err *err)
{
	return fm_err_set(err, -ENOENT, "the copy was removed meanwhile; run it again");
}

/* Opens the manifest, which is beside the data: DIRECTORY/ready/VERSION/NAME. */
static int open_manifest(struct fm_cache *cache, uint64_t id, struct fm_err *err)
{
	char path[FM_PATH_LEN_MAX + sizeof(FM_CACHE_MANIFEST_NAME)];
	int fd;

	if (fm_cache_path(cache, id, path, sizeof(path)) < 0)
		return fail_gone(err);
	strcpy(strrchr(path, '/') + 1, FM_CACHE_MANIFEST_NAME);
	fd = FM_FAULT("stage.reread") ? -EMFILE
				      : fm_call(open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
	return fd < 0 ? fm_err_sys(err, fd, "open the manifest of what is here") : fd;
}

int fm_stage_reread_version(struct fm_cache *cache, uint64_t id, struct fm_cache_key *out,
			    struct fm_err *err)
{
	int fd = open_manifest(cache, id, err), ret;
	struct fm_stage_totals totals;

	if (fd < 0)
		return fd;
	ret = fm_stage_manifest_check(fd, out->bytes, &totals);
	(void)close(fd);	/* only read */
	return ret < 0 ? fm_err_sys(err, ret, "read the manifest of what is here") : 0;
}

int fm_stage_reread_totals(struct fm_cache *cache, uint64_t id, struct fm_stage_totals *out,
			   struct fm_err *err)
{
	int fd = open_manifest(cache, id, err), ret;
	struct fm_stage_reader *r;

	if (fd < 0)
		return fd;
	ret = fm_stage_reader_new(fd, &r);
	if (ret == 0) {
		*out = *fm_stage_reader_totals(r);
		fm_stage_reader_free(r);
	}
	(void)close(fd);	/* only read */
	return ret < 0 ? fm_err_sys(err, ret, "read the manifest of what is here") : 0;
}

static int compare(const struct fm_stage_reread *r, const struct fm_stage_totals *now,
		   fm_stage_crc_of *crc_of, void *ctx, struct fm_err *err)
{
	struct fm_cache_info info;
	int manifest, ret;

	if (memcmp(now->listing, r->totals->listing, sizeof(now->listing)) != 0)
		return fm_err_set(err, -ESTALE,
				  "the source changed while it was compared; run it again when "
				  "nothing writes there");
	if (!fm_cache_look(r->cache, r->id, &info))
		return fail_gone(err);
	manifest = open_manifest(r->cache, r->id, err);
	if (manifest < 0)
		return manifest;
	ret = fm_stage_compare(manifest, crc_of, ctx, err);
	(void)close(manifest);	/* only read */
	if (ret == -EBADMSG) {
		struct fm_err why = *err;

		(void)fm_err_set(err, ret,
				 "%.300s: if the source is right, fmove unstage %s, and stage it "
				 "again; if not, the copy that is here has what it had",
				 why.text, info.name);
	}
	return ret;
}

static bool crc_offered(void *ctx, const char *path, size_t len, uint32_t *crc)
{
	return fm_stage_offered_crc(ctx, path, len, crc);
}

int fm_stage_reread_tree(const struct fm_stage_reread *r, struct fm_stage_offered *o,
			 struct fm_err *err)
{
	struct fm_stage_totals now;
	int ret = fm_stage_offered_end(o, &now, err);

	return ret < 0 ? ret : compare(r, &now, crc_offered, o, err);
}

static bool crc_of_file(void *ctx, const char *path, size_t len, uint32_t *crc)
{
	(void)path;	/* there is one */
	(void)len;
	*crc = *(const uint32_t *)ctx;
	return true;
}

int fm_stage_reread_file(const struct fm_stage_reread *r, const struct fm_stage_totals *now,
			 uint32_t crc, struct fm_err *err)
{
	return compare(r, now, crc_of_file, &crc, err);
}
