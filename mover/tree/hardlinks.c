/* SPDX-License-Identifier: MIT */
/*
 * hardlinks - files of several names, by inode and by what else a further name has in common.
 */
#include "mover/tree/hardlinks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/tree/reading.h"
#include "mover/tree/tree.h"

#define BUCKETS (FM_TREE_HARDLINKS_MAX / 4)

struct fm_hardlink {
	struct fm_hardlink *next;	/* in its bucket */
	struct fm_hardlink_id id;
	size_t path_len;
	char path[];			/* terminated */
};

static int64_t born_ns(const struct stat *st, int dir, const char *name, int flags)
{
	struct statx stx;

	if (dir < 0 || statx(dir, name, flags, STATX_BTIME | STATX_INO, &stx) < 0 ||
	    !(stx.stx_mask & STATX_BTIME) || stx.stx_ino != st->st_ino)
		return 0;
	return stx.stx_btime.tv_sec * (int64_t)FM_NS_PER_S + stx.stx_btime.tv_nsec;
}

void fm_hardlinks_id(const struct stat *st, int dir, const char *name, int flags,
		     struct fm_hardlink_id *out)
{
	*out = (struct fm_hardlink_id){.dev = st->st_dev,
				       .ino = st->st_ino,
				       .size = (uint64_t)st->st_size,
				       .mtime_ns = fm_reading_mtime(st),
				       .born_ns = born_ns(st, dir, name, flags)};
}

static bool is_same(const struct fm_hardlink_id *a, const struct fm_hardlink_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns && a->born_ns == b->born_ns;
}

static struct fm_hardlink **bucket_of(struct fm_hardlinks *h, const struct fm_hardlink_id *id)
{
	uint64_t hash = (id->ino ^ id->dev << 7) * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	/* Inode numbers are dense, and who makes a source can only slow down their own transfer. */
	return &h->buckets[hash % BUCKETS];
}

static int remember(struct fm_hardlinks *h, const struct fm_hardlink_id *id, const char *path)
{
	size_t len = strlen(path);
	struct fm_hardlink **bucket = bucket_of(h, id), *link;

	if (h->count == FM_TREE_HARDLINKS_MAX || len > FM_TREE_HARDLINK_PATHS_MAX - h->paths_len)
		return -ENOSPC;
	link = FM_FAULT("hardlinks.alloc") ? NULL : fm_budget_alloc(sizeof(*link) + len + 1);
	if (!link)
		return -ENOMEM;
	*link = (struct fm_hardlink){ .next = *bucket, .id = *id, .path_len = len };
	memcpy(link->path, path, len + 1);
	*bucket = link;
	h->count++;
	h->paths_len += len;
	return 0;
}

const char *fm_hardlinks_meet(struct fm_hardlinks *h, const struct fm_hardlink_id *id,
			      const char *path, size_t *first_len, int *ret)
{
	*ret = 0;
	if (!h->buckets)
		h->buckets = FM_FAULT("hardlinks.table")
				     ? NULL
				     : fm_budget_alloc(BUCKETS * sizeof(struct fm_hardlink *));
	if (!h->buckets) {
		*ret = -ENOMEM;
		return NULL;
	}
	for (const struct fm_hardlink *at = *bucket_of(h, id); at; at = at->next) {
		if (!is_same(&at->id, id))
			continue;
		*first_len = at->path_len;
		return strcmp(at->path, path) == 0 ? NULL : at->path;
	}
	*ret = remember(h, id, path);
	return NULL;
}

void fm_hardlinks_free(struct fm_hardlinks *h)
{
	for (size_t i = 0; h->buckets && i < BUCKETS; i++)
		while (h->buckets[i]) {
			struct fm_hardlink *link = h->buckets[i];

			h->buckets[i] = link->next;
			fm_budget_free(link);
		}
	fm_budget_free(h->buckets);
	*h = (struct fm_hardlinks){ .buckets = NULL };
}
