/* SPDX-License-Identifier: MIT */
/*
 * manifest - what a dataset is: its names in canonical order, the CRC32C of each chunk of each
 * file, and how it is cut into extents. fmove-manifest(5) is the specification of its bytes.
 *
 * The bytes are binary, and there is one way only to write a dataset down: their SHA-256 is the
 * name of its version, so two nodes that hold the same data must write the same bytes. Names need
 * no quoting, numbers have one form, and both ends hold one path at a time, however many there are.
 * The writer writes from front to back and never goes back. The reader reads a file, from any
 * extent.
 *
 * Nothing in it depends on the file system or on the clock of the node that writes it: no inode
 * numbers, no times of directories, and a hole is what has only zeros (FM_STAGE_GRANULE), however
 * the file system keeps it. Whether two files are the same is as sure as size, time and CRC32C are.
 *
 * One thread at a time for each writer and reader.
 */
#ifndef FM_STAGE_MANIFEST_H
#define FM_STAGE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "staging/extent.h"
#include "staging/sha256.h"

/* bytes that have a CRC; the last chunk of a file has the rest */
#define FM_STAGE_CHUNK (4u << 20)
#define FM_STAGE_GRANULE (64u << 10)	/* of a chunk: 64 of them, a bit each */
#define FM_STAGE_ENTRIES_MAX (UINT64_C(1) << 27)
#define FM_STAGE_EXTENTS_MAX (1u << 20)
#define FM_STAGE_BYTES_MAX (UINT64_C(1) << 56)	/* of all files */

_Static_assert(FM_STAGE_CHUNK / FM_STAGE_GRANULE == 64, "the granules of a chunk fit a mask");
_Static_assert(FM_STAGE_EXTENT % FM_STAGE_CHUNK == 0, "a chunk is of one extent");

enum fm_stage_type {
	FM_STAGE_DIR = 1,
	FM_STAGE_FILE = 2,
	FM_STAGE_LINK = 3,	/* symbolic */
	FM_STAGE_HARD = 4,	/* a further name of a file whose first one came before */
};

struct fm_stage_entry {
	enum fm_stage_type type;
	uint16_t mode;		/* DIR, FILE: permissions and the sticky bit; else 0 */
	uint64_t size;		/* FILE; else 0 */
	int64_t mtime_ns;	/* FILE, LINK: since 1970; else 0 */
	const char *path;	/* below the dataset, not terminated */
	size_t path_len;
	const char *target;	/* LINK: what it says; HARD: the first name; not terminated */
	size_t target_len;
};

struct fm_stage_chunk {
	uint32_t crc;		/* CRC32C */
	uint64_t zeros;		/* bit n: granule n is there, and has only zeros */
};

/* What is said of the whole. */
struct fm_stage_totals {
	bool is_file;		/* the dataset is one file, not a tree with one file in it */
	uint64_t entries;
	uint64_t files;
	uint64_t bytes;		/* of the files */
	uint32_t extents;
	uint8_t listing[FM_SHA256_LEN];	/* the listing digest */
};

/*
 * The canonical order: as strcmp() of the names one below the other, so '/' comes before every
 * other byte. < 0: a comes first.
 */
int fm_stage_path_compare(const char *a, size_t a_len, const char *b, size_t b_len);

/* How many chunks a file of that size has, and how long number n of them is. */
uint64_t fm_stage_chunks(uint64_t size);
uint32_t fm_stage_chunk_len(uint64_t size, uint64_t n);

/* ---- the listing digest ---- */

/*
 * SHA-256 over type, path, size, mtime and target of each entry, in canonical order: what is known
 * of a source without reading its files. An entry counts as the head of its record does, with mode
 * 0.
 */
void fm_stage_listing_add(struct fm_sha256 *s, const struct fm_stage_entry *e);

/* ---- writing ---- */

struct fm_stage_writer;

/*
 * fd: an empty file, open for writing; borrowed until free. -1: a listing, for its totals: nothing
 * is written, no chunks are taken, and there is no version.
 */
int fm_stage_writer_new(int fd, bool is_file, struct fm_stage_writer **out);

/*
 * The next entry. -EINVAL: it is not what the reader would take (order, path, what its type has
 * not).
 * -EFBIG: over a limit. Behind a FILE its chunks follow, all of them.
 */
int fm_stage_writer_entry(struct fm_stage_writer *w, const struct fm_stage_entry *e);
int fm_stage_writer_chunk(struct fm_stage_writer *w, const struct fm_stage_chunk *c);

/* There are no more. version, totals: of what was written. Not synced. */
int fm_stage_writer_end(struct fm_stage_writer *w, uint8_t version[FM_SHA256_LEN],
			struct fm_stage_totals *totals);
void fm_stage_writer_free(struct fm_stage_writer *w);	/* NULL is allowed */

/*
 * Chunk n of a file whose chunks begin there, into a draft (offered.h) that is open for writing:
 * with all of them it is the manifest. Others may read the draft meanwhile.
 */
int fm_stage_draft_fill(int draft, uint64_t chunks_at, uint64_t n, const struct fm_stage_chunk *c);

/* ---- reading ---- */

struct fm_stage_reader;

/*
 * fd: open for reading; borrowed until free. -EBADMSG: no manifest, or one that was not finished.
 */
int fm_stage_reader_new(int fd, struct fm_stage_reader **out);
const struct fm_stage_totals *fm_stage_reader_totals(const struct fm_stage_reader *r);

/*
 * 1: the next entry, whose texts are good until the next call; chunks of the one before that were
 * not taken are passed over. 0: these were all, and every number of the manifest adds up. -EBADMSG.
 */
int fm_stage_reader_next(struct fm_stage_reader *r, struct fm_stage_entry *e);

/* 1: the next chunk of the FILE that next() brought. 0: there are no more. -EBADMSG. */
int fm_stage_reader_chunk(struct fm_stage_reader *r, struct fm_stage_chunk *c);

/* Where in the file the chunks begin of the FILE that next() brought: before one is taken. */
uint64_t fm_stage_reader_chunks_at(const struct fm_stage_reader *r);

/* Extent n as the index has it. */
int fm_stage_reader_extent(struct fm_stage_reader *r, uint32_t n, struct fm_stage_extent *out);

/*
 * Go to the first entry of an extent: next() goes on from there, and does not add up at the end. Of
 * a manifest that fm_stage_manifest_check() found good.
 */
void fm_stage_reader_seek(struct fm_stage_reader *r, const struct fm_stage_extent *e);
void fm_stage_reader_free(struct fm_stage_reader *r);	/* NULL is allowed */

/*
 * All of it is read and checked. version: the SHA-256 of its bytes. -EBADMSG. Whoever has it from
 * outside, or from a disk, compares the version with the one that was wanted.
 */
int fm_stage_manifest_check(int fd, uint8_t version[FM_SHA256_LEN],
			    struct fm_stage_totals *totals);

#endif
