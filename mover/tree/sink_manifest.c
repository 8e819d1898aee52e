/* SPDX-License-Identifier: MIT */
/*
 * sink_manifest - the manifest of the tree that is being made (manifest.h).
 *
 * Each file is listed when it is finished, wherever it came from: a pack, a transfer of its own, an
 * earlier try, the version that is replaced. An entry that comes twice is listed twice. A tree of
 * more files than a manifest may have is published without one, as where the file system cannot
 * have one.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"


int fm_sink_begin_manifest(struct fm_sink *s)
{
	struct fm_manifest_key key;
	int fd, ret = s->opts.has_manifest ? fm_manifest_key(s->data, &key) : -EOPNOTSUPP;

	if (ret < 0)
		return ret == -EOPNOTSUPP ? 0 : ret;
	fd = fm_tsys_open(s->stage, FM_STAGED_MANIFEST, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ret = fd < 0 ? fd : fm_manifest_begin(&s->manifest, fd);
	s->has_manifest = ret == 0;
	return ret;
}

/* Several threads may find that out. 0, of -EFBIG. */
static int leave_out(struct fm_sink *s, int ret)
{
	if (ret != -EFBIG)
		return ret;
	if (!atomic_exchange(&s->is_manifest_full, true))
		(void)fm_tsys_truncate(s->manifest.fd, 0);	/* nobody needs it any more */
	return 0;
}

int fm_sink_list(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	struct fm_sink *s = call->s;
	int ret = 0;

	if (s->has_manifest && !atomic_load_explicit(&s->is_manifest_full, memory_order_relaxed))
		ret = leave_out(s, fm_manifest_add(&s->manifest, e));
	return ret < 0 ? fm_sink_fail(call->s, ret, "list", e->path, e->path_len, call->err) : 0;
}

int fm_sink_list_file(struct fm_sink_call *call, const struct fm_pack_entry *e, const uint32_t *crc)
{
	struct fm_pack_entry listed = *e;

	listed.flags = crc ? FM_PACK_HAS_CRC : 0;
	listed.crc = crc ? *crc : 0;
	return fm_sink_list(call, &listed);
}

/* 1: its head is written. 0: it is left out. */
static int end_manifest(struct fm_sink *s, const struct fm_manifest_key *key)
{
	int ret = 0;

	if (!atomic_load(&s->is_manifest_full))
		ret = leave_out(s, fm_manifest_end(&s->manifest, key, s->opts.name));
	return ret < 0 ? ret : !atomic_load(&s->is_manifest_full);
}

int fm_sink_place_manifest(struct fm_sink *s, struct fm_err *err)
{
	struct fm_manifest_key key;
	int ret = s->has_manifest ? fm_manifest_key(s->data, &key) : 0;

	if (!s->has_manifest)
		return 0;
	if (ret == 0)
		ret = end_manifest(s, &key);
	if (ret == 0) {
		fm_sink_note(s, "too many files for a manifest: fmove verify will not find which "
				"are missing");
		return 0;
	}
	if (ret > 0) {
		fm_manifest_name(&key, s->manifest_name);
		ret = fm_tsys_rename(s->stage, FM_STAGED_MANIFEST, s->opts.parent,
				     s->manifest_name, 0);
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
