/* SPDX-License-Identifier: MIT */
/* offered - see offered.h. */
#include "staging/offered.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/show.h"
#include "mover/tree/pack.h"

#define BLOCK_BYTES (1u << 20)
#define NAMES_FIRST 1024u

/* One name of a listing. Its texts lie in a block and are not terminated. */
struct name {
	const char *path, *target;
	uint64_t size;
	int64_t mtime_ns;
	/* of a file's name: where, in order, the group's first one is */
	uint32_t group;
	uint16_t path_len, target_len;
	uint16_t mode;
	uint8_t type;			/* enum fm_stage_type */
	bool has_crc;			/* of its content: */
	uint32_t crc;
};

struct block {
	struct block *next;
	size_t used;
	char bytes[BLOCK_BYTES - 16];
};

struct fm_stage_offered {
	struct fm_tree tree;
	pthread_mutex_t lock;		/* of all below */
	unsigned refs;
	uint64_t bytes_max, bytes;	/* of memory */
	struct block *blocks;
	struct name *names;
	size_t count, cap;
	struct fm_tree_count found;
	bool is_stopped;
};

static int refuse(struct fm_err *err)
{
	return fm_err_set(err, -EPROTO,
			  "the source sends what was not asked for: is its fmoved as new as this "
			  "one (fmove doctor)?");
}

/* ---- memory ---- */

static bool take(struct fm_stage_offered *o, uint64_t bytes)
{
	if (bytes > o->bytes_max - o->bytes)
		return false;
	o->bytes += bytes;
	return true;
}

static int more_names(struct fm_stage_offered *o)
{
	size_t cap = o->cap ? 2 * o->cap : NAMES_FIRST;
	struct name *more;

	if (o->count < o->cap)
		return 0;
	if (!take(o, (cap - o->cap) * sizeof(*more)))
		return -EFBIG;
	more = FM_FAULT("stage.offered") ? NULL
					 : fm_budget_realloc(o->names, cap * sizeof(*more));
	if (!more)
		return -ENOMEM;
	o->names = more;
	o->cap = cap;
	return 0;
}

static int more_bytes(struct fm_stage_offered *o, size_t len)
{
	struct block *b = o->blocks;

	if (b && sizeof(b->bytes) - b->used >= len)
		return 0;
	if (!take(o, sizeof(*b)))
		return -EFBIG;
	b = FM_FAULT("stage.offered") ? NULL : fm_budget_realloc(NULL, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->next = o->blocks;
	b->used = 0;
	o->blocks = b;
	return 0;
}

static const char *keep(struct block *b, const char *text, size_t len)
{
	char *at = b->bytes + b->used;

	if (len > 0)
		memcpy(at, text, len);
	b->used += len;
	return at;
}

/* ---- one pack ---- */

static enum fm_stage_type type_of(enum fm_pack_type type)
{
	switch (type) {
	case FM_PACK_FILE:
		return FM_STAGE_FILE;
	case FM_PACK_DIR:
		return FM_STAGE_DIR;
	case FM_PACK_LINK:
		return FM_STAGE_LINK;
	case FM_PACK_HARD:
		return FM_STAGE_HARD;
	case FM_PACK_ATTR:
		break;
	}
	return (enum fm_stage_type)0;
}

static void count(struct fm_tree_count *c, const struct fm_pack_entry *e)
{
	c->files += e->type == FM_PACK_FILE;
	c->dirs += e->type == FM_PACK_DIR;
	c->links += e->type == FM_PACK_LINK;
	c->hard_links += e->type == FM_PACK_HARD;
	c->bytes += e->size;
}

static int note(struct fm_stage_offered *o, const struct fm_pack_entry *e)
{
	bool is_dir = e->type == FM_PACK_DIR;
	struct name *n;
	int ret;

	if (e->type == FM_PACK_ATTR || e->path_len == 0)	/* the root is no name in it */
		return 0;
	ret = more_names(o);
	if (ret == 0)
		ret = more_bytes(o, e->path_len + e->target_len);
	if (ret < 0)
		return ret;
	n = &o->names[o->count++];
	*n = (struct name){ .type = (uint8_t)type_of(e->type), .size = e->size,
			    .mtime_ns = is_dir ? 0 : e->mtime_ns, .mode = e->mode & 01777,
			    .path_len = (uint16_t)e->path_len,
			    .target_len = (uint16_t)e->target_len };
	n->has_crc = e->type == FM_PACK_FILE && (e->flags & FM_PACK_HAS_CRC);
	n->crc = n->has_crc ? e->crc : 0;
	if (e->type == FM_PACK_LINK)
		n->mode = 0;
	n->path = keep(o->blocks, e->path, e->path_len);
	n->target = keep(o->blocks, e->target, e->target_len);
	count(&o->found, e);
	return 0;
}

/* ret: -EFBIG, its names would take more than one dataset's may; or there is no memory for them. */
static int too_many(const struct fm_stage_offered *o, const struct fm_pack_entry *e, int ret,
		    struct fm_err *err)
{
	struct fm_path_shown shown;
	char path[FM_TREE_PATH_MAX + 1];

	memcpy(path, e->path, e->path_len);
	path[e->path_len] = '\0';
	if (ret != -EFBIG)
		return fm_err_set(
			err, ret,
			"there is no memory for the names behind \"%s\": raise memory.total in "
			"fmove.conf, or stage its directories, each by itself",
			fm_path_show(path, &shown));
	return fm_err_set(err, ret,
			  "the names up to \"%s\" take more than %llu MiB of memory: it is too "
			  "large for one dataset: stage its directories, each by itself",
			  fm_path_show(path, &shown), (unsigned long long)(o->bytes_max >> 20));
}

static int note_all(struct fm_stage_offered *o, struct fm_pack_reader *r, struct fm_err *err)
{
	struct fm_pack_entry e;
	int ret;

	while ((ret = fm_pack_next(r, &e)) > 0) {
		if (e.type == FM_PACK_FILE && !(r->flags & FM_PACK_OFFER))
			return refuse(err);
		if (o->is_stopped)
			return fm_err_sys(err, -ECANCELED, "note what the source has");
		ret = note(o, &e);
		if (ret < 0)
			return too_many(o, &e, ret, err);
	}
	return ret == 0 ? 0 : refuse(err);
}

static struct fm_stage_offered *offered_of(struct fm_tree *t)
{
	return fm_container_of(t, struct fm_stage_offered, tree);
}

/* Takes a pack of offers, and asks for none of its files. */
static int apply(struct fm_tree *t, const void *pack, size_t len, uint8_t *bits, size_t *answered,
		 struct fm_err *err)
{
	struct fm_stage_offered *o = offered_of(t);
	struct fm_pack_reader r;
	int ret;

	memset(bits, 0, FM_TREE_OFFERS_MAX / 8);
	if (fm_pack_open(&r, pack, len) < 0)
		return refuse(err);
	*answered = r.flags & FM_PACK_OFFER ? r.count : 0;
	pthread_mutex_lock(&o->lock);
	ret = note_all(o, &r, err);
	pthread_mutex_unlock(&o->lock);
	return ret;
}

/* ---- the rest of a tree's end ---- */

static int no_large(struct fm_tree *t, const struct fm_tree_large *how, int *fd,
		    struct fm_have *have, struct fm_err *err)
{
	(void)t;
	(void)how;
	(void)fd;
	(void)have;
	return refuse(err);
}

static int no_wrote(struct fm_tree *t, const struct fm_journal_entry *entry, struct fm_err *err)
{
	(void)t;
	(void)entry;
	return refuse(err);
}

static int no_seal(struct fm_tree *t, const struct fm_tree_large *how, int fd,
		   const struct fm_digest *digest, struct fm_err *err)
{
	(void)t;
	(void)how;
	(void)fd;
	(void)digest;
	return refuse(err);
}

static int nothing_to_log(struct fm_tree *t, struct fm_err *err)
{
	(void)t;
	(void)err;
	return 0;
}

static int nothing_to_publish(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	(void)t;
	(void)is_durable;
	(void)err;
	return 0;
}

static void nothing_to_leave(struct fm_tree *t)
{
	(void)t;
}

static void say_count(struct fm_tree *t, struct fm_tree_count *out)
{
	struct fm_stage_offered *o = offered_of(t);

	pthread_mutex_lock(&o->lock);
	*out = o->found;
	pthread_mutex_unlock(&o->lock);
}

static void stop(struct fm_tree *t)
{
	struct fm_stage_offered *o = offered_of(t);

	pthread_mutex_lock(&o->lock);
	o->is_stopped = true;
	pthread_mutex_unlock(&o->lock);
}

static void close_tree(struct fm_tree *t)
{
	fm_stage_offered_free(offered_of(t));
}

static const struct fm_tree_ops offered_ops = {
	.apply = apply,
	.create_large = no_large,
	.wrote_large = no_wrote,
	.seal_large = no_seal,
	.log = nothing_to_log,
	.prepare = nothing_to_publish,
	.publish = nothing_to_publish,
	.keep = nothing_to_leave,
	.discard = nothing_to_leave,
	.count = say_count,
	.stop = stop,
	.close = close_tree,
};

int fm_stage_offered_new(uint64_t bytes_max, struct fm_stage_offered **out, struct fm_err *err)
{
	struct fm_stage_offered *o = FM_FAULT("stage.alloc") ? NULL : fm_budget_alloc(sizeof(*o));

	if (!o)
		return fm_err_sys(err, -ENOMEM, "begin a listing");
	o->bytes_max = bytes_max;
	o->refs = 1;
	o->tree.ops = &offered_ops;
	pthread_mutex_init(&o->lock, NULL);
	*out = o;
	return 0;
}

struct fm_tree *fm_stage_offered_tree(struct fm_stage_offered *o)
{
	assert(o->refs == 1);
	o->refs++;
	return &o->tree;
}

void fm_stage_offered_free(struct fm_stage_offered *o)
{
	unsigned left;

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	left = --o->refs;
	pthread_mutex_unlock(&o->lock);
	if (left > 0)
		return;
	while (o->blocks) {
		struct block *b = o->blocks;

		o->blocks = b->next;
		fm_budget_free(b);
	}
	fm_budget_free(o->names);
	pthread_mutex_destroy(&o->lock);
	fm_budget_free(o);
}

/* ---- canonical order ---- */

static int compare(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return fm_stage_path_compare(x->path, x->path_len, y->path, y->path_len);
}

static bool is_same(const struct name *a, const struct name *b)
{
	return a->type == b->type && a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->mode == b->mode && a->has_crc == b->has_crc && a->crc == b->crc &&
	       a->target_len == b->target_len &&
	       memcmp(a->target, b->target, a->target_len) == 0;
}

static int fail_changed(const struct name *n, struct fm_err *err)
{
	char path[FM_TREE_PATH_MAX + 1];
	struct fm_path_shown shown;

	memcpy(path, n->path, n->path_len);
	path[n->path_len] = '\0';
	return fm_err_set(err, -ESTALE,
			  "\"%s\" changed while the source was walked; run it again when "
			  "nothing writes there",
			  fm_path_show(path, &shown));
}

/* Packs that came twice said the same, so what they named is there twice. */
static int sort(struct fm_stage_offered *o, struct fm_err *err)
{
	size_t left = 0;

	if (o->count > 0)
		qsort(o->names, o->count, sizeof(*o->names), compare);
	for (size_t i = 0; i < o->count; i++) {
		if (left > 0 && compare(&o->names[left - 1], &o->names[i]) == 0) {
			if (!is_same(&o->names[left - 1], &o->names[i]))
				return fail_changed(&o->names[i], err);
			continue;
		}
		o->names[left++] = o->names[i];
	}
	o->count = left;
	return 0;
}

static struct name *find(struct fm_stage_offered *o, const char *path, size_t len)
{
	const struct name key = { .path = path, .path_len = (uint16_t)len };

	return o->count > 0 ? bsearch(&key, o->names, o->count, sizeof(key), compare) : NULL;
}

/* The file of which n is a further name; NULL: there is none. */
static struct name *file_of(struct fm_stage_offered *o, const struct name *n)
{
	struct name *file = find(o, n->target, n->target_len);

	return file && file->type == FM_STAGE_FILE ? file : NULL;
}

/* group: of each file its own place, or that of an earlier one of its further names. */
static int find_groups(struct fm_stage_offered *o, struct fm_err *err)
{
	for (size_t i = 0; i < o->count; i++)
		o->names[i].group = (uint32_t)i;
	for (size_t i = 0; i < o->count; i++) {
		struct name *file;

		if (o->names[i].type != FM_STAGE_HARD)
			continue;
		file = file_of(o, &o->names[i]);
		if (!file)
			return fail_changed(&o->names[i], err);
		if (file->group > i)
			file->group = (uint32_t)i;
	}
	return 0;
}

/* The entry of the manifest for name number i. */
static struct fm_stage_entry entry_of(struct fm_stage_offered *o, size_t i)
{
	const struct name *n = &o->names[i];
	const struct name *file = n->type == FM_STAGE_HARD ? file_of(o, n) : n;
	struct fm_stage_entry e = { .type = (enum fm_stage_type)file->type, .mode = file->mode,
				    .size = file->size, .mtime_ns = file->mtime_ns,
				    .path = n->path, .path_len = n->path_len,
				    .target = n->target, .target_len = n->target_len };

	if (file->type != FM_STAGE_FILE)
		return e;
	if (file->group == i) {
		e.target_len = 0;
		return e;
	}
	return (struct fm_stage_entry){ .type = FM_STAGE_HARD, .path = n->path,
					.path_len = n->path_len,
					.target = o->names[file->group].path,
					.target_len = o->names[file->group].path_len };
}

static int list(struct fm_stage_offered *o, struct fm_stage_writer *w, bool is_draft,
		struct fm_err *err)
{
	const struct fm_stage_chunk unknown = { .crc = 0 };

	for (size_t i = 0; i < o->count; i++) {
		struct fm_stage_entry e = entry_of(o, i);
		int ret = fm_stage_writer_entry(w, &e);

		for (uint64_t n = 0; is_draft && ret == 0 && n < fm_stage_chunks(e.size); n++)
			ret = fm_stage_writer_chunk(w, &unknown);
		if (ret == -EINVAL)	/* its directory was not offered */
			return fail_changed(&o->names[i], err);
		if (ret < 0)
			return fm_err_sys(err, ret, "list what the source has");
	}
	return 0;
}

int fm_stage_offered_draft(struct fm_stage_offered *o, int fd, struct fm_stage_totals *totals,
			   struct fm_err *err)
{
	uint8_t none[FM_SHA256_LEN];
	struct fm_stage_writer *w = NULL;
	int ret;

	pthread_mutex_lock(&o->lock);
	ret = sort(o, err);
	if (ret == 0)
		ret = find_groups(o, err);
	if (ret == 0) {
		ret = fm_stage_writer_new(fd, false, &w);
		if (ret < 0)
			(void)fm_err_sys(err, ret, "begin a listing");
	}
	if (ret == 0)
		ret = list(o, w, fd >= 0, err);
	if (ret == 0) {
		ret = fm_stage_writer_end(w, none, totals);
		if (ret < 0)
			(void)fm_err_sys(err, ret, "end a listing");
	}
	fm_stage_writer_free(w);
	pthread_mutex_unlock(&o->lock);
	return ret;
}

int fm_stage_offered_end(struct fm_stage_offered *o, struct fm_stage_totals *totals,
			 struct fm_err *err)
{
	return fm_stage_offered_draft(o, -1, totals, err);
}

bool fm_stage_offered_crc(struct fm_stage_offered *o, const char *path, size_t len, uint32_t *crc)
{
	const struct name *n;

	pthread_mutex_lock(&o->lock);
	n = find(o, path, len);
	if (n && n->type == FM_STAGE_HARD)
		n = file_of(o, n);
	pthread_mutex_unlock(&o->lock);
	if (!n || !n->has_crc)
		return false;
	*crc = n->crc;
	return true;
}
