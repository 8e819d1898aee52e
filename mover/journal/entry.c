/* SPDX-License-Identifier: MIT */
/* entry - see entry.h. */
#include "mover/journal/entry.h"

#include <errno.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/bytes.h"
#include "mover/base/fault.h"

bool fm_identity_is_same(const struct fm_identity *a, const struct fm_identity *b)
{
	return strcmp(a->node, b->node) == 0 && a->uid == b->uid && a->dev == b->dev &&
	       a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns;
}

/* The last step of SplitMix64: every bit of the result depends on every bit of x. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t fm_identity_hash(const struct fm_identity *id)
{
	const uint64_t numbers[] = {id->dev, id->ino, id->size, (uint64_t)id->mtime_ns,
				    (uint64_t)id->ctime_ns};
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		hash = mix(hash ^ numbers[i]);
	return hash;
}

int fm_have_copy(struct fm_have *have, const struct fm_journal_file *from)
{
	size_t bytes = from->count * sizeof(*from->pieces);

	*have = (struct fm_have){ .crc = from->crc };
	if (from->count == 0)
		return 0;
	have->pieces = FM_FAULT("journal.have") ? NULL : fm_budget_alloc(bytes);
	if (!have->pieces || fm_ranges_copy(&have->ranges, &from->ranges) < 0) {
		fm_have_free(have);
		return -ENOMEM;
	}
	memcpy(have->pieces, from->pieces, bytes);
	have->count = from->count;
	return 0;
}

void fm_have_free(struct fm_have *have)
{
	fm_ranges_free(&have->ranges);
	fm_budget_free(have->pieces);
	*have = (struct fm_have){ .crc = 0 };
}
