/* SPDX-License-Identifier: MIT */
/*
 * table - what a journal says of each file, in memory.
 *
 * A file that is complete costs 56 bytes and a bucket (4 to 8 bytes), whatever the length of its
 * path: of the path there is a hash of 128 bits under a key that nobody else knows. So no peer can
 * choose paths that fall into one bucket, or that are taken for each other. Ranges, and the pieces
 * of which they consist, are kept only for files of which a part is there, and for a single file.
 *
 * Changes are made between fm_table_begin() and fm_table_commit(), or undone by
 * fm_table_rollback(). Not thread-safe.
 */
#ifndef FM_JOURNAL_TABLE_H
#define FM_JOURNAL_TABLE_H

#include "mover/journal/entry.h"
#include "mover/journal/siphash.h"

struct fm_table_file;
struct fm_table_undo;

struct fm_table {
	struct fm_sip key;
	struct fm_table_file *files;
	uint32_t count;
	uint32_t cap;
	uint32_t *buckets;		/* index + 1 of the first file of each; 0: none */
	uint32_t bucket_count;		/* 0 or a power of two */
	uint32_t partial_count;		/* files with ranges */
	uint64_t bytes;			/* there, of all files */
	/* Since fm_table_begin(). */
	uint32_t old_count;
	uint32_t old_partial_count;
	uint64_t old_bytes;
	struct fm_table_undo *undos;	/* files that were there before and are changed */
	uint32_t undo_count;
	uint32_t undo_cap;
	/* What fm_table_find() returned last. */
	struct fm_journal_file found;
	struct fm_range found_whole;
	struct fm_written found_piece;
};

enum fm_table_put {
	FM_TABLE_CHANGED,	/* it belongs into the journal */
	FM_TABLE_KNOWN,		/* all of it is there already */
	FM_TABLE_FULL,		/* beyond a limit: it is not kept, and will be sent again */
};

void fm_table_init(struct fm_table *t);
void fm_table_free(struct fm_table *t);

void fm_table_begin(struct fm_table *t);

/*
 * A good entry: enum fm_table_put; or -EINVAL: it overlaps in part what is there, nothing is
 * changed; or -ENOMEM: then nothing but fm_table_rollback() may follow.
 */
int fm_table_put(struct fm_table *t, const struct fm_journal_entry *entry);

void fm_table_commit(struct fm_table *t);
void fm_table_rollback(struct fm_table *t);

/* As fm_journal_find(): valid until the next call. */
const struct fm_journal_file *fm_table_find(struct fm_table *t, const char *path, size_t path_len);

#endif
