/* SPDX-License-Identifier: MIT */
/*
 * sink_manifest - the manifest of the tree that is being made (manifest.h).
 *
 * Each file is listed when it is finished, wherever it came from: a pack, a transfer of its own, an
 * earlier try, the version that is replaced. An entry that comes twice is listed twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

#define MANIFEST "manifest"	/* in the staging directory */

int fm_sink_begin_manifest(struct fm_sink *s)
{
	struct fm_manifest_key key;
	int fd, ret = s->opts.has_manifest ? fm_manifest_key(s->data, &key) : -EOPNOTSUPP;

	if (ret < 0)
		return ret == -EOPNOTSUPP ? 0 : ret;
	fd = fm_tsys_open(s->stage, MANIFEST, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ret = fd < 0 ? fd : fm_manifest_begin(&s->manifest, fd);
	s->has_manifest = ret == 0;
	return ret;
}

int fm_sink_list(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	int ret = call->s->has_manifest ? fm_manifest_add(&call->s->manifest, e) : 0;

	return ret < 0 ? fm_sink_fail(call->s, ret, "list", e->path, e->path_len, call->err) : 0;
}

int fm_sink_list_file(struct fm_sink_call *call, const struct fm_pack_entry *e, const uint32_t *crc)
{
	struct fm_pack_entry listed = *e;

	listed.flags = crc ? FM_PACK_HAS_CRC : 0;
	listed.crc = crc ? *crc : 0;
	return fm_sink_list(call, &listed);
}

int fm_sink_place_manifest(struct fm_sink *s, struct fm_err *err)
{
	struct fm_manifest_key key;
	int ret = s->has_manifest ? fm_manifest_key(s->data, &key) : 0;

	if (!s->has_manifest)
		return 0;
	if (ret == 0)
		ret = fm_manifest_end(&s->manifest, &key, s->opts.name);
	if (ret == 0) {
		fm_manifest_name(&key, s->manifest_name);
		ret = fm_tsys_rename(s->stage, MANIFEST, s->opts.parent, s->manifest_name, 0);
	}
	if (ret < 0)
		return fm_sink_fail(s, ret, "write the manifest of", NULL, 0, err);
	s->is_manifest_placed = true;
	return 0;
}

void fm_sink_drop_manifest(struct fm_sink *s)
{
	if (s->is_manifest_placed)
		/* a sweep finds it, if not */
		(void)unlinkat(s->opts.parent, s->manifest_name, 0);
	s->is_manifest_placed = false;
}
