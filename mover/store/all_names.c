/* SPDX-License-Identifier: MIT */
/* all_names - see all_names.h. */
#include "mover/store/all_names.h"

#include <stdint.h>

#include "mover/base/budget.h"

#define CAP_FIRST 256u

struct fm_all_names_file {
	dev_t dev;
	ino_t ino;
	nlink_t left;		/* names that were not met */
	bool is_used;
};

static struct fm_all_names_file *slot_of(struct fm_all_names_file *slots, size_t cap, dev_t dev,
					 ino_t ino)
{
	size_t at = (size_t)(((uint64_t)ino * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)dev) >> 20) &
		    (cap - 1);

	while (slots[at].is_used && (slots[at].ino != ino || slots[at].dev != dev))
		at = (at + 1) & (cap - 1);
	return &slots[at];
}

/* Makes room for one more. */
static bool grow(struct fm_all_names *n)
{
	size_t cap = n->cap ? 2 * n->cap : CAP_FIRST;
	struct fm_all_names_file *slots;

	if (2 * (n->count + 1) <= n->cap)
		return true;
	slots = fm_budget_alloc(cap * sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < n->cap; i++)
		if (n->slots[i].is_used)
			*slot_of(slots, cap, n->slots[i].dev, n->slots[i].ino) = n->slots[i];
	fm_budget_free(n->slots);
	n->slots = slots;
	n->cap = cap;
	return true;
}

static struct fm_all_names_file *find(struct fm_all_names *n, const struct stat *st)
{
	struct fm_all_names_file *f =
		n->cap ? slot_of(n->slots, n->cap, st->st_dev, st->st_ino) : NULL;

	if (f && f->is_used)
		return f;
	if (n->count == FM_ALL_NAMES_MAX || !grow(n))
		return NULL;
	f = slot_of(n->slots, n->cap, st->st_dev, st->st_ino);
	*f = (struct fm_all_names_file){ st->st_dev, st->st_ino, st->st_nlink, true };
	n->count++;
	return f;
}

bool fm_all_names_meet(struct fm_all_names *n, const struct stat *st)
{
	struct fm_all_names_file *f;

	if (st->st_nlink <= 1)
		return true;
	f = find(n, st);
	return f && f->left > 0 && --f->left == 0;
}

void fm_all_names_free(struct fm_all_names *n)
{
	fm_budget_free(n->slots);
	*n = (struct fm_all_names){ .count = 0 };
}
