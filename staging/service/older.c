/* SPDX-License-Identifier: MIT */
/* older - see older.h. */
#include "staging/service/older.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/store/store.h"
#include "mover/tree/tree.h"
#include "staging/cache.h"
#include "staging/laid.h"
#include "staging/manifest.h"
#include "staging/service/hub.h"

#define NEWEST 4u	/* versions that are looked at */

/* ---- which ones ---- */

/* Of a hub's repository each commit is a source of its own, and has blobs of the others. */
static bool is_of(const char *other, const char *source)
{
	bool is_hub = strncmp(source, FM_HUB_SOURCE, strlen(FM_HUB_SOURCE)) == 0;
	const char *commit = is_hub ? strrchr(source, '@') : NULL;

	return commit ? strncmp(other, source, (size_t)(commit - source) + 1) == 0
		      : strcmp(other, source) == 0;
}

static bool is_one(struct fm_cache *c, uint64_t id, const char *source, struct fm_cache_info *out)
{
	return fm_cache_look(c, id, out) && out->state == FM_CACHE_READY &&
	       is_of(out->source, source);
}

/* ---- the files of a manifest ---- */

struct files {
	struct fm_stage_reader *r;
	bool has_crcs;			/* else it is a draft */
	char path[FM_TREE_PATH_MAX + 1];
	uint32_t *crcs;			/* of the file that was read last */
	size_t room;
	int ret;			/* of what ended it */
};

static int add_crc(struct files *f, size_t n, uint32_t crc)
{
	if (n == f->room) {
		size_t room = n > 0 ? 2 * n : 16;
		uint32_t *more = realloc(f->crcs, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		f->crcs = more;
		f->room = room;
	}
	f->crcs[n] = crc;
	return 0;
}

static int read_crcs(struct files *f, struct fm_cache_file *out)
{
	struct fm_stage_chunk c;
	size_t n = 0;
	int ret;

	while ((ret = fm_stage_reader_chunk(f->r, &c)) > 0) {
		ret = add_crc(f, n++, c.crc);
		if (ret < 0)
			return ret;
	}
	out->crcs = f->crcs;
	out->crc_count = n;
	return ret;
}

/* One without bytes is made sooner than taken. */
static bool next_file(void *ctx, struct fm_cache_file *out)
{
	struct files *f = ctx;
	struct fm_stage_entry e;

	do
		f->ret = fm_stage_reader_next(f->r, &e);
	while (f->ret > 0 && (e.type != FM_STAGE_FILE || e.size == 0));
	if (f->ret <= 0)
		return false;
	memcpy(f->path, e.path, e.path_len);
	f->path[e.path_len] = '\0';
	*out = (struct fm_cache_file){
		.path = f->path, .size = e.size, .mtime_ns = e.mtime_ns, .mode = e.mode };
	f->ret = f->has_crcs ? read_crcs(f, out) : 0;
	return f->ret == 0;
}

static void close_files(struct files *f)
{
	fm_stage_reader_free(f->r);
	free(f->crcs);
}

/* ---- which one has most of it ---- */

static int open_manifest(struct fm_cache *c, uint64_t id)
{
	char path[FM_PATH_LEN_MAX + 64];
	int ret = fm_cache_path(c, id, path, FM_PATH_LEN_MAX + 1);

	if (ret < 0)
		return ret;
	strcpy(strrchr(path, '/') + 1, FM_CACHE_MANIFEST_NAME);
	return fm_call(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

static bool is_before(const struct fm_cache_file *a, const struct fm_cache_file *b)
{
	return fm_stage_path_compare(a->path, strlen(a->path), b->path, strlen(b->path)) < 0;
}

/* The bytes of files that both have. */
static uint64_t count_common(struct files *had, struct files *wanted)
{
	struct fm_cache_file old, new;
	bool has_old = next_file(had, &old);
	uint64_t bytes = 0;

	while (next_file(wanted, &new)) {
		while (has_old && is_before(&old, &new))
			has_old = next_file(had, &old);
		if (has_old && strcmp(old.path, new.path) == 0 && old.size == new.size &&
		    old.mtime_ns == new.mtime_ns)
			bytes += new.size;
	}
	return bytes;
}

static uint64_t common_bytes(struct fm_cache *c, uint64_t id, int draft)
{
	struct files had = { .has_crcs = false }, wanted = { .has_crcs = false };
	int manifest = open_manifest(c, id);
	uint64_t bytes = 0;

	if (manifest < 0)
		return 0;
	if (fm_stage_reader_new(manifest, &had.r) == 0 &&
	    fm_stage_reader_new(draft, &wanted.r) == 0)
		bytes = count_common(&had, &wanted);
	close_files(&had);
	close_files(&wanted);
	(void)close(manifest);	/* only read */
	return bytes;
}

/* The newest READY ones of that source, newest first. Without memory there are none. */
static unsigned list_newest(struct fm_cache *c, const char *source, uint64_t out[NEWEST + 1])
{
	uint64_t *ids = FM_FAULT("stage.older")
				? NULL
				: malloc(FM_CACHE_DATASETS_MAX * sizeof(*ids));
	size_t count = ids ? fm_cache_list(c, ids, FM_CACHE_DATASETS_MAX) : 0;
	int64_t created[NEWEST + 1];
	struct fm_cache_info info;
	unsigned n = 0, at;

	for (size_t i = 0; i < count; i++) {
		if (!is_one(c, ids[i], source, &info))
			continue;
		for (at = n; at > 0 && created[at - 1] < info.created_ns; at--) {
			created[at] = created[at - 1];
			out[at] = out[at - 1];
		}
		created[at] = info.created_ns;
		out[at] = ids[i];
		n += n < NEWEST;	/* the oldest of one too many is forgotten */
	}
	free(ids);
	return n;
}

/* The one that has most of the new version; 0: there is none. */
static uint64_t find(struct fm_cache *c, const char *source, int draft)
{
	uint64_t newest[NEWEST + 1], id = 0, most = 0, bytes;
	unsigned count = list_newest(c, source, newest);

	if (count == 1)
		return newest[0];
	for (unsigned n = 0; n < count; n++) {
		bytes = common_bytes(c, newest[n], draft);
		if (bytes <= most)
			continue;
		most = bytes;
		id = newest[n];
	}
	return id;
}

/* ---- taking ---- */

/* What is not taken comes with the rest. */
static void leave(void *ctx, const struct fm_cache_file *file)
{
	(void)ctx;
	(void)file;
}

static int take(struct fm_stage_older *o, uint64_t id, int manifest, struct fm_cache_fetch *f,
		struct fm_err *err)
{
	struct files had = { .has_crcs = true }, wanted = { .has_crcs = false };
	struct fm_cache_reuse reuse = { .old = id, .had = { next_file, &had },
					.wanted = { next_file, &wanted }, .missing = leave,
					.into = FM_STAGE_TAKEN, .is_stopped = o->is_stopped,
					.bytes_done = o->bytes_done };
	int ret = fm_stage_reader_new(manifest, &had.r);

	if (ret == 0)
		ret = fm_stage_reader_new(o->draft, &wanted.r);
	if (ret < 0)
		(void)fm_err_sys(err, ret, "read the manifest of an older version");
	else
		ret = fm_cache_fetch_reuse(f, &reuse, err);
	if (ret == 0 && wanted.ret < 0)
		ret = fm_err_sys(err, wanted.ret, "read the draft of a manifest");
	close_files(&had);
	close_files(&wanted);
	o->bytes = reuse.cloned_bytes + reuse.linked_bytes;
	o->linked = reuse.linked_bytes;
	return ret;
}

int fm_stage_older_take(struct fm_stage_older *o, struct fm_cache_fetch *f, struct fm_err *err)
{
	uint64_t id = find(o->cache, o->source, o->draft);
	int manifest = id ? open_manifest(o->cache, id) : -ENOENT, ret;

	o->bytes = o->linked = 0;
	if (manifest < 0)
		return 0;	/* it went, or cannot be read: all is fetched */
	ret = take(o, id, manifest, f, err);
	(void)close(manifest);	/* only read */
	return ret < 0 ? ret : 1;
}

/* ---- by extents ---- */

struct fm_older_extents {
	struct fm_cache *cache;
	uint64_t hold;
	int draft;			/* the caller's */
	int root;			/* of the older version */
	uint32_t *crc;
	uint64_t *known;
};

static int open_data(struct fm_cache *c, uint64_t id)
{
	char path[FM_PATH_LEN_MAX + 1];
	int ret = fm_cache_path(c, id, path, sizeof(path));

	return ret < 0 ? ret : fm_call(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int open_extents(struct fm_older_extents *o, uint64_t id, uint32_t count)
{
	const struct fm_cache_holder nobody = { .uid = 0 };
	struct fm_err err;
	int manifest, ret = fm_cache_hold(o->cache, id, &nobody, &o->hold, &err);

	if (ret < 0)
		return ret;
	manifest = open_manifest(o->cache, id);
	o->root = manifest < 0 ? manifest : open_data(o->cache, id);
	o->crc = calloc(count, sizeof(*o->crc));
	o->known = calloc((count + 63) / 64, sizeof(*o->known));
	if (o->root < 0 || !o->crc || !o->known)
		ret = -ENOENT;
	else
		ret = fm_stage_extent_crcs_of_older(o->draft, manifest, count, o->crc, o->known);
	if (manifest >= 0)
		(void)close(manifest);	/* only read */
	return ret;
}

struct fm_older_extents *fm_older_extents_open(struct fm_cache *cache, const char *source,
					       int draft, uint32_t count)
{
	uint64_t id = find(cache, source, draft);
	struct fm_older_extents *o = id && !FM_FAULT("stage.older_extents")
					     ? calloc(1, sizeof(*o)) : NULL;

	if (!o)
		return NULL;
	o->cache = cache;
	o->draft = draft;
	o->root = -1;
	if (open_extents(o, id, count) == 0)
		return o;
	fm_older_extents_close(o);
	return NULL;
}

bool fm_older_extents_has(const struct fm_older_extents *o, uint32_t n)
{
	return o->known[n / 64] >> (n % 64) & 1;
}

bool fm_older_extents_read(const struct fm_older_extents *o, uint32_t n, uint8_t *buf, size_t len,
			   uint32_t *crc)
{
	*crc = o->crc[n];
	return fm_stage_extent_read(o->draft, o->root, n, buf, len) == 0 &&
	       fm_crc32c(0, buf, len) == *crc;
}

void fm_older_extents_close(struct fm_older_extents *o)
{
	if (!o)
		return;
	if (o->root >= 0)
		(void)close(o->root);	/* only read */
	if (o->hold)
		fm_cache_release(o->cache, o->hold);
	free(o->crc);
	free(o->known);
	free(o);
}
