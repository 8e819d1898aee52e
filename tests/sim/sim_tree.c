/* SPDX-License-Identifier: MIT */
/*
 * sim_tree - what a simulated directory holds, where it is. The ends are in sim_tree_source.c and
 * sim_tree_sink.c.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_tree_priv.h"

#define ENTRIES_MAX 128
#define LARGE_CHUNKS 3u			/* files of more chunks are large */

struct sim_dir {
	struct sim_dir *next;
	char *path;
	bool is_callers;
	struct sim_tree *tree;
	bool is_unsynced;		/* a power cut may bring back what was there before */
	struct sim_tree *before;
	bool is_lost;			/* that did happen */
};

char *sim_tree_copy(struct sim *s, const char *text, size_t len)
{
	char *copy = sim_alloc(s, len + 1);

	memcpy(copy, text, len);
	return copy;
}

/* ---- content ---- */

static struct sim_tree_entry *add(struct sim *s, struct sim_tree *t, enum fm_pack_type type,
				  const char *path)
{
	struct sim_tree_entry *e = &t->entries[t->count++];

	if (t->count > ENTRIES_MAX)
		abort();
	*e = (struct sim_tree_entry){
		.type = type, .path = sim_tree_copy(s, path, strlen(path)), .mode = 0755};
	return e;
}

static void count(struct sim_tree *t)
{
	t->files = t->dirs = t->links = t->hards = t->larges = 0;
	t->bytes = 0;
	for (size_t i = 0; i < t->count; i++) {
		const struct sim_tree_entry *e = &t->entries[i];

		t->files += e->type == FM_PACK_FILE;
		t->dirs += e->type == FM_PACK_DIR && e->path[0];
		t->links += e->type == FM_PACK_LINK;
		t->hards += e->type == FM_PACK_HARD;
		t->larges += e->is_large;
		t->bytes += e->type == FM_PACK_FILE ? e->blob->size : 0;
	}
}

static struct sim_tree *tree_new(struct sim *s, uint64_t ino)
{
	struct sim_tree *t = sim_alloc(s, sizeof(*t));

	t->ino = ino;
	t->entries = sim_alloc(s, ENTRIES_MAX * sizeof(*t->entries));
	return t;
}

static void add_file(struct sim *s, struct sim_tree *t, const char *path, uint64_t tag,
		     uint32_t chunk)
{
	struct sim_tree_entry *e = add(s, t, FM_PACK_FILE, path);
	const uint64_t sizes[] = { 0, 1, 511, 4096, chunk - 1, chunk, chunk + 1 };
	uint64_t which = sim_below(s, 12),
		 size = which < 7 ? sizes[which] : sim_below(s, 2 * chunk);

	e->is_large = sim_one_in(s, 8);
	if (e->is_large)
		size = LARGE_CHUNKS * chunk + sim_below(s, 8 * chunk);
	e->blob = sim_blob_new(s, tag, size, e->is_large && sim_one_in(s, 3) ? 2 : 0);
}

static void add_dir(struct sim *s, struct sim_tree *t, const char *path, uint64_t tag)
{
	struct sim_tree_entry *e = add(s, t, FM_PACK_DIR, path);

	e->mode = 0700 | (uint32_t)(tag % 64);
	e->mtime_ns = (int64_t)(tag >> 2);
}

/* A link of some kind, to the file that was made last. */
static void add_link(struct sim *s, struct sim_tree *t, const char *path, const char *to,
		     uint64_t tag)
{
	struct sim_tree_entry *e = add(s, t, sim_one_in(s, 2) ? FM_PACK_LINK : FM_PACK_HARD, path);

	e->target = sim_tree_copy(s, to, strlen(to));
	e->mtime_ns = e->type == FM_PACK_LINK ? (int64_t)(tag >> 3) : 0;
}

struct sim_tree *sim_tree_new(struct sim *s, uint64_t tag, unsigned files, uint32_t chunk)
{
	struct sim_tree *t = tree_new(s, tag | 1);
	char dir[64] = "", path[128], last[128] = "", parent[64];

	add_dir(s, t, "", tag);
	for (unsigned i = 0; i < files; i++) {
		if (sim_one_in(s, 4)) {
			memcpy(parent, dir, sizeof(parent));
			(void)snprintf(dir, sizeof(dir), "%.20sd%u/",
				       sim_one_in(s, 2) && strlen(parent) < 20 ? parent : "", i);
			(void)snprintf(path, sizeof(path), "%.*s", (int)strlen(dir) - 1, dir);
			add_dir(s, t, path, tag + i);
		}
		(void)snprintf(path, sizeof(path), "%s%c%u", dir, "fgx"[sim_below(s, 3)], i);
		if (last[0] && sim_one_in(s, 5)) {
			add_link(s, t, path, last, tag + i);
			continue;
		}
		add_file(s, t, path, tag + 1000 * i, chunk);
		memcpy(last, path, sizeof(last));
	}
	count(t);
	return t;
}

struct sim_tree *sim_tree_changed(struct sim *s, const struct sim_tree *like, uint64_t tag,
				  uint32_t chunk)
{
	struct sim_tree *t = tree_new(s, tag | 1);
	char path[32];

	for (size_t i = 0; i < like->count; i++) {
		const struct sim_tree_entry *e = &like->entries[i];

		if (e->type == FM_PACK_FILE && sim_one_in(s, 4))
			add_file(s, t, e->path, tag + i, chunk);
		else
			t->entries[t->count++] = *e;
	}
	(void)snprintf(path, sizeof(path), "new%llu", (unsigned long long)(tag % 1000));
	add_file(s, t, path, tag, chunk);
	count(t);
	return t;
}

static bool is_in(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static bool matches(const char *pattern, const char *path)
{
	const char *name = strrchr(path, '/');

	return path[0] && fnmatch(pattern, name ? name + 1 : path, 0) == 0;
}

/* A hard link whose first name is left out is none any more. */
static bool is_left_out(const struct sim_tree *t, const struct sim_tree_entry *e,
			const char *pattern)
{
	for (size_t i = 0; i < t->count; i++) {
		const char *path = t->entries[i].path;

		if (!matches(pattern, path))
			continue;
		if (is_in(e->path, path) || (e->type == FM_PACK_HARD && is_in(e->target, path)))
			return true;
	}
	return false;
}

struct sim_tree *sim_tree_without(struct sim *s, const struct sim_tree *of, const char *pattern)
{
	struct sim_tree *t = tree_new(s, of->ino);

	for (size_t i = 0; i < of->count; i++)
		if (!is_left_out(of, &of->entries[i], pattern))
			t->entries[t->count++] = of->entries[i];
	count(t);
	return t;
}

/* ---- comparing ---- */

static const struct sim_tree_entry *find(const struct sim_tree *t, const char *path)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->entries[i].path, path) == 0)
			return &t->entries[i];
	return NULL;
}

static bool is_same_entry(const struct sim_tree_entry *a, const struct sim_tree_entry *b)
{
	if (!b || a->type != b->type)
		return false;
	switch (a->type) {
	case FM_PACK_FILE:
		return sim_blob_is_same(a->blob, b->blob) &&
		       a->blob->attr.mode == b->blob->attr.mode &&
		       a->blob->attr.mtime_ns == b->blob->attr.mtime_ns;
	case FM_PACK_DIR:
		return a->mode == b->mode && a->mtime_ns == b->mtime_ns;
	default:
		return strcmp(a->target, b->target) == 0 && a->mtime_ns == b->mtime_ns;
	}
}

bool sim_tree_is_same(const struct sim_tree *a, const struct sim_tree *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!is_same_entry(&a->entries[i], find(b, a->entries[i].path)))
			return false;
	return true;
}

struct sim_tree *sim_tree_of_entries(struct sim *s, size_t entries)
{
	struct sim_tree *t = sim_alloc(s, sizeof(*t));

	t->entries = sim_alloc(s, (entries + 1) * sizeof(*t->entries));
	return t;
}

struct sim_tree *sim_tree_merged(struct sim *s, const struct sim_tree *t,
				 const struct sim_tree *old)
{
	struct sim_tree *merged = sim_tree_of_entries(s, t->count + (old ? old->count : 0));

	memcpy(merged->entries, t->entries, t->count * sizeof(*t->entries));
	merged->count = t->count;
	merged->ino = t->ino;
	for (size_t i = 0; old && i < old->count; i++)
		if (!find(t, old->entries[i].path))
			merged->entries[merged->count++] = old->entries[i];
	count(merged);
	return merged;
}

void sim_tree_count(struct sim_tree *t)
{
	count(t);
}

/* ---- where it is ---- */

static struct sim_dir *find_dir(const struct sim_node *n, const char *path, bool is_callers)
{
	for (struct sim_dir *d = n->dirs; d; d = d->next)
		if (d->is_callers == is_callers && strcmp(d->path, path) == 0)
			return d;
	return NULL;
}

void sim_tree_place(struct sim_node *n, const char *path, bool is_callers, struct sim_tree *tree,
		    bool is_durable)
{
	struct sim_dir *d = find_dir(n, path, is_callers);

	if (!d) {
		d = sim_alloc(n->sim, sizeof(*d));
		d->path = sim_tree_copy(n->sim, path, strlen(path));
		d->is_callers = is_callers;
		d->next = n->dirs;
		n->dirs = d;
	}
	if (!d->is_unsynced)
		d->before = d->tree;
	d->is_unsynced = true;
	d->is_lost = false;
	d->tree = tree;
	if (!sim_crash_point(n) && is_durable)
		d->is_unsynced = false;
}

void sim_tree_rename(struct sim_node *n, const struct sim_group *g,
		     char *(*rename)(struct sim_node *n, const struct sim_group *g, char *path))
{
	for (struct sim_dir *d = n->dirs; d; d = d->next) {
		char *path = d->is_callers ? d->path : rename(n, g, d->path);

		if (path)
			d->path = path;
		else
			d->tree = NULL;
	}
}

void sim_trees_die(struct sim_node *n)
{
	for (struct sim_dir *d = n->dirs; d && n->death == SIM_POWER_CUT; d = d->next) {
		if (d->is_unsynced && sim_one_in(n->sim, 2)) {
			d->is_lost = true;
			d->tree = d->before;
		}
		d->is_unsynced = false;
	}
}

bool sim_tree_is_lost(const struct sim_node *n, const char *path, bool is_callers)
{
	const struct sim_dir *d = find_dir(n, path, is_callers);

	return d && d->is_lost;
}

struct sim_tree *sim_tree_at(struct sim_node *n, const char *path, bool is_callers)
{
	struct sim_dir *d = find_dir(n, path, is_callers);

	return d ? d->tree : NULL;
}

void sim_disk_add_tree(struct sim_node *n, const char *path, struct sim_tree *tree)
{
	sim_tree_place(n, path, false, tree, true);
}

struct sim_tree *sim_disk_find_tree(struct sim_node *n, const char *path)
{
	return sim_tree_at(n, path, false);
}

struct sim_tree *sim_caller_tree(struct sim_node *n, const char *path)
{
	return sim_tree_at(n, path, true);
}

void sim_disk_each_tree(struct sim_node *n,
			void (*visit)(void *ctx, const char *path, struct sim_tree *tree),
			void *ctx)
{
	for (struct sim_dir *d = n->dirs; d; d = d->next)
		if (!d->is_callers && d->tree)
			visit(ctx, d->path, d->tree);
}
