/* SPDX-License-Identifier: MIT */
/*
 * table - files in one array, in the order in which they came; chains through them from an array of
 * buckets.
 *
 * A change can be undone: the files that came since are the end of the array, of the others the
 * first change keeps a copy.
 */
#include "mover/journal/table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"

#define FILES_FIRST 4u
#define BUCKETS_FIRST 8u

/* What is there of a file, where there is more to say than that it is whole. */
struct parts {
	struct fm_ranges ranges;
	struct fm_written *pieces;	/* the same, as it came; sorted */
	uint32_t count;
	uint32_t cap;
};

struct fm_table_file {
	struct fm_sip hash;
	uint64_t size;
	int64_t mtime_ns;
	uint64_t identity;
	struct parts *parts;		/* NULL: complete, in one piece, or nothing is there */
	uint32_t crc;
	uint32_t is_complete : 1;
	uint32_t is_saved : 1;		/* there is an undo */
	uint32_t next : 30;		/* index + 1 of the next one in the bucket */
};

_Static_assert(sizeof(struct fm_table_file) <= 56, "there may be two million");
_Static_assert(FM_JOURNAL_FILES_MAX < 1u << 30, "an index fits");
_Static_assert(FM_JOURNAL_PIECES_MAX >= FM_JOURNAL_RANGES_MAX, "each range consists of pieces");

struct fm_table_undo {
	uint32_t index;
	struct fm_table_file old;
};

/* -------------------------------------------------------------------------------------- look-up */

static uint32_t *bucket_of(const struct fm_table *t, const struct fm_sip *hash)
{
	return &t->buckets[hash->low & (t->bucket_count - 1)];
}

static struct fm_table_file *find(const struct fm_table *t, const struct fm_sip *hash)
{
	uint32_t next = t->bucket_count ? *bucket_of(t, hash) : 0;

	while (next) {
		struct fm_table_file *f = &t->files[next - 1];

		if (f->hash.low == hash->low && f->hash.high == hash->high)
			return f;
		next = f->next;
	}
	return NULL;
}

static void link_file(struct fm_table *t, uint32_t index)
{
	uint32_t *bucket = bucket_of(t, &t->files[index].hash);

	t->files[index].next = *bucket & 0x3fffffff;
	*bucket = index + 1;
}

const struct fm_journal_file *fm_table_find(struct fm_table *t, const char *path, size_t path_len)
{
	struct fm_sip hash = fm_siphash(&t->key, path, path_len);
	const struct fm_table_file *f = find(t, &hash);

	if (!f)
		return NULL;
	t->found = (struct fm_journal_file){
		.size = f->size, .mtime_ns = f->mtime_ns, .identity = f->identity, .crc = f->crc};
	t->found_whole = (struct fm_range){ .offset = 0, .len = f->size };
	t->found_piece = (struct fm_written){ .offset = 0, .len = f->size, .crc = f->crc };
	if (f->parts) {
		t->found.ranges = f->parts->ranges;
		t->found.pieces = f->parts->pieces;
		t->found.count = f->parts->count;
	} else if (f->is_complete && f->size > 0) {
		t->found.ranges = (struct fm_ranges){ .at = &t->found_whole, .count = 1, .cap = 1 };
		t->found.pieces = &t->found_piece;
		t->found.count = 1;
	}
	return &t->found;
}

/* -------------------------------------------------------------------------------------- growing */

static void *grow(void *array, uint32_t cap, size_t len)
{
	return FM_FAULT("journal.alloc") ? NULL : fm_budget_realloc(array, cap * len);
}

static int grow_buckets(struct fm_table *t)
{
	uint32_t count = t->bucket_count ? 2 * t->bucket_count : BUCKETS_FIRST;
	uint32_t *buckets =
		FM_FAULT("journal.alloc") ? NULL : fm_budget_alloc(count * sizeof(*buckets));

	if (!buckets)
		return -ENOMEM;
	fm_budget_free(t->buckets);
	t->buckets = buckets;
	t->bucket_count = count;
	for (uint32_t i = 0; i < t->count; i++)
		link_file(t, i);
	return 0;
}

static int grow_files(struct fm_table *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : FILES_FIRST;
	struct fm_table_file *files = grow(t->files, cap, sizeof(*files));

	if (!files)
		return -ENOMEM;
	t->files = files;
	t->cap = cap;
	return 0;
}

/* A new file at the end of the array. */
static int add_file(struct fm_table *t, const struct fm_sip *hash, struct fm_table_file **out)
{
	int ret = 0;

	if (t->count == t->bucket_count)
		ret = grow_buckets(t);
	if (ret == 0 && t->count == t->cap)
		ret = grow_files(t);
	if (ret < 0)
		return ret;
	*out = &t->files[t->count];
	**out = (struct fm_table_file){ .hash = *hash };
	link_file(t, t->count++);
	return 0;
}

/* ----------------------------------------------------------------------------------------- undo */

void fm_table_begin(struct fm_table *t)
{
	assert(t->undo_count == 0);
	t->old_count = t->count;
	t->old_partial_count = t->partial_count;
	t->old_bytes = t->bytes;
}

static void free_parts(struct parts *p)
{
	if (!p)
		return;
	fm_ranges_free(&p->ranges);
	fm_budget_free(p->pieces);
	free(p);
}

static int copy_parts(const struct parts *from, struct parts **out)
{
	struct parts *copy = FM_FAULT("journal.alloc") ? NULL : calloc(1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	copy->pieces = grow(NULL, from->cap ? from->cap : FILES_FIRST, sizeof(*copy->pieces));
	if (!copy->pieces || fm_ranges_copy(&copy->ranges, &from->ranges) < 0) {
		free_parts(copy);
		return -ENOMEM;
	}
	memcpy(copy->pieces, from->pieces, from->count * sizeof(*copy->pieces));
	copy->count = from->count;
	copy->cap = from->cap ? from->cap : FILES_FIRST;
	*out = copy;
	return 0;
}

/* Before the first change of a file that was there before: the undo keeps its parts, the file gets
 * a copy. */
static int save(struct fm_table *t, struct fm_table_file *f)
{
	uint32_t index = (uint32_t)(f - t->files),
		 cap = t->undo_cap ? 2 * t->undo_cap : FILES_FIRST;
	struct parts *copy = NULL;
	int ret = 0;

	if (index >= t->old_count || f->is_saved)
		return 0;
	if (t->undo_count == t->undo_cap) {
		struct fm_table_undo *undos = grow(t->undos, cap, sizeof(*undos));

		if (!undos)
			return -ENOMEM;
		t->undos = undos;
		t->undo_cap = cap;
	}
	if (f->parts)
		ret = copy_parts(f->parts, &copy);
	if (ret < 0)
		return ret;
	t->undos[t->undo_count++] = (struct fm_table_undo){ .index = index, .old = *f };
	f->parts = copy;
	f->is_saved = true;
	return 0;
}

static void undos_free(struct fm_table *t)
{
	fm_budget_free(t->undos);
	t->undos = NULL;
	t->undo_count = t->undo_cap = 0;
}

void fm_table_commit(struct fm_table *t)
{
	for (uint32_t i = 0; i < t->undo_count; i++) {
		free_parts(t->undos[i].old.parts);
		t->files[t->undos[i].index].is_saved = false;
	}
	undos_free(t);
}

/* The last file of the array goes. */
static void drop_last(struct fm_table *t)
{
	struct fm_table_file *last = &t->files[t->count - 1];
	uint32_t *bucket = bucket_of(t, &last->hash);

	if (*bucket == t->count) {
		*bucket = last->next;
	} else {	/* growing turned the chain around */
		struct fm_table_file *f = &t->files[*bucket - 1];

		while (f->next != t->count)
			f = &t->files[f->next - 1];
		f->next = last->next;
	}
	free_parts(last->parts);
	t->count--;
}

void fm_table_rollback(struct fm_table *t)
{
	while (t->count > t->old_count)
		drop_last(t);
	for (uint32_t i = 0; i < t->undo_count; i++) {
		struct fm_table_file *f = &t->files[t->undos[i].index];
		uint32_t next = f->next;	/* the chain may have changed meanwhile */

		free_parts(f->parts);
		*f = t->undos[i].old;
		f->next = next & 0x3fffffff;
	}
	undos_free(t);
	t->partial_count = t->old_partial_count;
	t->bytes = t->old_bytes;
}

/* -------------------------------------------------------------------------------------- entries */

static bool is_same_content(const struct fm_table_file *f, const struct fm_journal_entry *e)
{
	return f->size == e->size && f->mtime_ns == e->mtime_ns && f->identity == e->identity;
}

static uint64_t bytes_of(const struct fm_table_file *f)
{
	if (f->is_complete)
		return f->size;
	return f->parts ? fm_ranges_bytes(&f->parts->ranges) : 0;
}

static void drop_parts(struct fm_table *t, struct fm_table_file *f)
{
	if (f->parts)
		t->partial_count--;
	free_parts(f->parts);
	f->parts = NULL;
}

/* What is there of the file is of another content: it starts anew with nothing. */
static void start_anew(struct fm_table *t, struct fm_table_file *f,
		       const struct fm_journal_entry *e)
{
	t->bytes -= bytes_of(f);
	drop_parts(t, f);
	f->is_complete = false;
	f->crc = 0;
	f->size = e->size;
	f->mtime_ns = e->mtime_ns;
	f->identity = e->identity;
}

static int get_parts(struct fm_table *t, struct fm_table_file *f)
{
	if (f->parts)
		return FM_TABLE_CHANGED;
	if (t->partial_count >= FM_JOURNAL_PARTIAL_MAX)
		return FM_TABLE_FULL;
	f->parts = FM_FAULT("journal.alloc") ? NULL : calloc(1, sizeof(*f->parts));
	if (!f->parts)
		return -ENOMEM;
	t->partial_count++;
	return FM_TABLE_CHANGED;
}

/* Of two neighbours that touch one is made: half as many can be told from each other, if damage is
 * looked for. */
static void join_pieces(struct parts *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		struct fm_written one = p->pieces[i];

		if (i + 1 < p->count && one.offset + one.len == p->pieces[i + 1].offset) {
			i++;
			one.len += p->pieces[i].len;
			one.crc ^= p->pieces[i].crc;
		}
		p->pieces[n++] = one;
	}
	p->count = n;
}

static int grow_pieces(struct parts *p)
{
	uint32_t cap = p->cap ? 2 * p->cap : FILES_FIRST;
	struct fm_written *pieces;

	if (p->count < p->cap)
		return 0;
	pieces = grow(p->pieces, cap, sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	p->pieces = pieces;
	p->cap = cap;
	return 0;
}

/* In its place; or, where there are too many, as part of the one that it touches. */
static void insert_piece(struct parts *p, const struct fm_journal_entry *e)
{
	uint32_t at = p->count;

	while (at > 0 && p->pieces[at - 1].offset > e->offset)
		at--;
	if (p->count < FM_JOURNAL_PIECES_MAX) {
		memmove(&p->pieces[at + 1], &p->pieces[at], (p->count++ - at) * sizeof(*p->pieces));
		p->pieces[at] =
			(struct fm_written){.offset = e->offset, .len = e->len, .crc = e->crc};
		return;
	}
	if (at > 0 && p->pieces[at - 1].offset + p->pieces[at - 1].len == e->offset)
		at--;
	else
		p->pieces[at].offset = e->offset;
	p->pieces[at].len += e->len;
	p->pieces[at].crc ^= e->crc;
}

/*
 * Enum fm_table_put, or -ENOMEM. If there are as many pieces as there may be, none of which touches
 * another, there are as many ranges too: one that can be added to these touches one of them.
 */
static int put_piece(struct parts *p, const struct fm_journal_entry *e)
{
	int ret;

	if (p->count == FM_JOURNAL_PIECES_MAX)
		join_pieces(p);
	ret = p->count == FM_JOURNAL_PIECES_MAX ? 0 : grow_pieces(p);
	if (ret == 0)
		ret = fm_ranges_add(&p->ranges, e->offset, e->len, FM_JOURNAL_RANGES_MAX);
	if (ret < 0)
		return ret == -ENOSPC ? FM_TABLE_FULL : ret;
	insert_piece(p, e);
	return FM_TABLE_CHANGED;
}

static void count_piece(struct fm_table *t, struct fm_table_file *f,
			const struct fm_journal_entry *e)
{
	t->bytes += e->len;
	f->crc ^= e->crc;
	f->is_complete = e->len == e->size || (f->parts && f->parts->ranges.at[0].len == f->size);
	/* There may be millions of a tree's. */
	if (f->is_complete && e->path_len > 0)
		drop_parts(t, f);
}

/* A piece of a file, of which nothing of the piece is there: enum fm_table_put, or -ENOMEM. */
static int add_piece(struct fm_table *t, struct fm_table_file *f, const struct fm_journal_entry *e)
{
	int ret = FM_TABLE_CHANGED;

	if (e->len < e->size) {
		ret = get_parts(t, f);
		if (ret == FM_TABLE_CHANGED)
			ret = put_piece(f->parts, e);
		if (ret != FM_TABLE_CHANGED)
			return ret;
	}
	count_piece(t, f, e);
	return FM_TABLE_CHANGED;
}

/* Whether a file that is not known yet can be: FM_TABLE_CHANGED or FM_TABLE_FULL. */
static int room_for(const struct fm_table *t, const struct fm_journal_entry *e)
{
	if (t->count >= FM_JOURNAL_FILES_MAX)
		return FM_TABLE_FULL;
	return e->len < e->size && t->partial_count >= FM_JOURNAL_PARTIAL_MAX ? FM_TABLE_FULL
									      : FM_TABLE_CHANGED;
}

static int put_known(struct fm_table *t, struct fm_table_file *f, const struct fm_journal_entry *e)
{
	static const struct fm_ranges nothing;
	const struct fm_ranges *there = f->parts ? &f->parts->ranges : &nothing;
	bool is_anew = !is_same_content(f, e);
	int ret;

	if (!is_anew &&
	    (f->is_complete || (e->len > 0 && fm_ranges_cover(there, e->offset, e->len))))
		return FM_TABLE_KNOWN;
	if (!is_anew && fm_ranges_overlap(there, e->offset, e->len))
		return -EINVAL;
	ret = save(t, f);
	if (ret < 0)
		return ret;
	if (is_anew)
		start_anew(t, f, e);
	ret = add_piece(t, f, e);
	/* That the old content is gone must be kept, even if there is no room for the new one's
	 * ranges. */
	return ret == FM_TABLE_FULL && is_anew ? FM_TABLE_CHANGED : ret;
}

int fm_table_put(struct fm_table *t, const struct fm_journal_entry *e)
{
	struct fm_sip hash = fm_siphash(&t->key, e->path, e->path_len);
	struct fm_table_file *f = find(t, &hash);
	int ret;

	if (f)
		return put_known(t, f, e);
	ret = room_for(t, e);
	if (ret != FM_TABLE_CHANGED)
		return ret;
	ret = add_file(t, &hash, &f);
	if (ret < 0)
		return ret;
	start_anew(t, f, e);
	return add_piece(t, f, e);
}

void fm_table_init(struct fm_table *t)
{
	*t = (struct fm_table){ 0 };
	fm_random_real.fill(fm_random_real.ctx, &t->key, sizeof(t->key));
}

void fm_table_free(struct fm_table *t)
{
	assert(t->undo_count == 0);
	for (uint32_t i = 0; i < t->count; i++)
		free_parts(t->files[i].parts);
	fm_budget_free(t->files);
	fm_budget_free(t->buckets);
	*t = (struct fm_table){ 0 };
}
