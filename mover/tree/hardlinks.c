/* SPDX-License-Identifier: MIT */
/*
 * hardlinks - files of several names, by inode.
 */
#include "mover/tree/hardlinks.h"

#include <errno.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/tree/tree.h"

#define BUCKETS (FM_TREE_HARDLINKS_MAX / 4)

struct fm_hardlink {
	struct fm_hardlink *next;	/* in its bucket */
	uint64_t dev;
	uint64_t ino;
	size_t path_len;
	char path[];			/* terminated */
};

static struct fm_hardlink **bucket_of(struct fm_hardlinks *h, uint64_t dev, uint64_t ino)
{
	/* Inode numbers are dense, and who makes a source can only slow down their own transfer. */
	return &h->buckets[((ino ^ dev << 7) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BUCKETS];
}

static int remember(struct fm_hardlinks *h, uint64_t dev, uint64_t ino, const char *path)
{
	size_t len = strlen(path);
	struct fm_hardlink **bucket = bucket_of(h, dev, ino), *link;

	if (h->count == FM_TREE_HARDLINKS_MAX || len > FM_TREE_HARDLINK_PATHS_MAX - h->paths_len)
		return -ENOSPC;
	link = FM_FAULT("hardlinks.alloc") ? NULL : fm_budget_alloc(sizeof(*link) + len + 1);
	if (!link)
		return -ENOMEM;
	*link = (struct fm_hardlink){ .next = *bucket, .dev = dev, .ino = ino, .path_len = len };
	memcpy(link->path, path, len + 1);
	*bucket = link;
	h->count++;
	h->paths_len += len;
	return 0;
}

const char *fm_hardlinks_meet(struct fm_hardlinks *h, uint64_t dev, uint64_t ino, const char *path,
			      size_t *first_len, int *ret)
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
	for (const struct fm_hardlink *at = *bucket_of(h, dev, ino); at; at = at->next) {
		if (at->dev != dev || at->ino != ino)
			continue;
		*first_len = at->path_len;
		return strcmp(at->path, path) == 0 ? NULL : at->path;
	}
	*ret = remember(h, dev, ino, path);
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
