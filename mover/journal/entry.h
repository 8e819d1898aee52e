/* SPDX-License-Identifier: MIT */
/* entry - what a journal holds: whose copy it is of, and which stretches of its files are there. */
#ifndef FM_JOURNAL_ENTRY_H
#define FM_JOURNAL_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/ranges.h"

#define FM_JOURNAL_VERSION 2
#define FM_JOURNAL_NODE_MAX 64
#define FM_JOURNAL_PATH_MAX 4095
#define FM_JOURNAL_NAME_MAX 255
#define FM_JOURNAL_FILES_MAX (2u << 20)		/* of a tree; what is beyond is sent again */
/* of one file, after merging; the rest is sent again */
#define FM_JOURNAL_RANGES_MAX 2048u
/* of one file, of what was written down; neighbours are put together beyond */
#define FM_JOURNAL_PIECES_MAX 2048u
/* who appends makes them no longer: what is damaged is sent again as a piece */
#define FM_JOURNAL_PIECE_BYTES (64u << 20)
/* files of which a part is there; others' parts are sent again */
#define FM_JOURNAL_PARTIAL_MAX 1024u
/* of the journal file: nothing is appended beyond */
#define FM_JOURNAL_BYTES_MAX (UINT64_C(1) << 30)

/*
 * Which source it is a copy of. Two sources are the same if all of it is equal: also who sends it,
 * since of a tree all of this, and the content, is the word of a process of that user.
 */
struct fm_identity {
	char node[FM_JOURNAL_NODE_MAX + 1];	/* where the source is; "": this node */
	uint32_t uid;				/* who sends it, as that node says */
	uint64_t dev;
	uint64_t ino;
	uint64_t size;				/* a tree's root: 0 */
	int64_t mtime_ns;			/* a tree's root: 0 */
	int64_t ctime_ns;			/* a tree's root: 0 */
};

bool fm_identity_is_same(const struct fm_identity *a, const struct fm_identity *b);

/*
 * 64 bits of all but the node and the user, for the entries of a tree. On the wire and on the disk:
 * fmove-journal(5) defines it. A source can choose its numbers so that two are equal; it spoils its
 * own user's copy by that.
 */
uint64_t fm_identity_hash(const struct fm_identity *id);

struct fm_journal_opts {
	bool is_tree;
	bool is_synced;
	struct fm_identity source;	/* its node: FM_JOURNAL_NODE_MAX bytes at most */
	/* Of a single file; a tree's may be 0. A journal that says otherwise is of another one, and
	 * of no use. */
	/* of the partial file: a name may have got another one since */
	uint64_t ino;
	char name[FM_JOURNAL_NAME_MAX + 1];	/* the final name; "": not said */
};

/*
 * One stretch of one file, on the disk. size is at most INT64_MAX, offset + len at most size; len
 * is 0 only if size is: an empty file has one stretch of no bytes.
 */
struct fm_journal_entry {
	/* in the tree, path_len bytes, none of them NUL; a single file's is empty */
	const char *path;
	size_t path_len;		/* 1 .. FM_JOURNAL_PATH_MAX; 0 for a single file */
	uint64_t size;			/* of the whole file */
	int64_t mtime_ns;
	uint64_t identity;		/* fm_identity_hash() of the file's source */
	uint64_t offset;
	uint64_t len;
	uint32_t crc;			/* fm_crc32c_part() contributions, xored */
};

/* A stretch of a file that was written, or is there. */
struct fm_written {
	uint64_t offset;
	uint64_t len;
	uint32_t crc;			/* contributions, xored */
};

/* What of one file is there. It may be of another content than the one at hand: compare size,
 * mtime_ns and identity. */
struct fm_journal_file {
	uint64_t size;
	int64_t mtime_ns;
	uint64_t identity;
	/* merged, the journal's; fm_ranges_bytes() == size: complete */
	struct fm_ranges ranges;
	uint32_t crc;			/* contributions of the ranges, xored */
	/* the ranges as they were written down: sorted, each with its own share */
	const struct fm_written *pieces;
	size_t count;
};

/* What of a file is there from an earlier try. */
struct fm_have {
	/* beginning and ending at multiples of 4096, or ending at the end */
	struct fm_ranges ranges;
	uint32_t crc;			/* their contributions to the CRC of the whole, xored */
	/* sink: the same, to be read again and compared piece by piece */
	struct fm_written *pieces;
	size_t count;
};

/* *have, which holds nothing before, becomes a copy. -ENOMEM: it holds nothing. */
int fm_have_copy(struct fm_have *have, const struct fm_journal_file *from);

/* It holds nothing then. */
void fm_have_free(struct fm_have *have);

#endif
