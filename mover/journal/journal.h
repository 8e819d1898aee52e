/* SPDX-License-Identifier: MIT */
/*
 * journal - what of an unfinished transfer is at its destination for good: an append-only file
 * beside the partial one.
 *
 * fmove-journal(5) gives the format byte by byte. All integers are little-endian; every record
 * carries a CRC32C of itself. What cannot be read (a torn tail, another version, another machine)
 * is dropped, never trusted: fm_journal_open() then starts an empty one and says why.
 *
 * The rule of who appends: a range is appended only after a sync that covers its bytes (fdatasync
 * of the file, syncfs for a tree). With `is_synced` false (durability "memory") nothing is synced,
 * and the journal counts only as long as the kernel that wrote it runs (its boot id).
 *
 * Blocking; one thread at a time.
 */
#ifndef FM_JOURNAL_H
#define FM_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/ranges.h"

struct fm_err;
struct fm_journal;

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

/*
 * Take fd over (also on error), a regular file open for reading and writing: read what is in it,
 * cut a torn tail, and be ready to append. If it is of another source, version, kind, machine (or
 * boot, when it was not synced) it is emptied and *why (a static text, for people: "the source has
 * changed since") says so; else *why is NULL, and if the file was empty the journal is. After an
 * error *out is NULL. The header is written by the first append. That nobody else has the file open
 * for writing is the caller's to see to, as is a sync of the directory in which it was made.
 *
 * A synced journal that is opened with is_synced false becomes an unsynced one with the next
 * append, records and all; an unsynced one stays so.
 */
int fm_journal_open(int fd, const struct fm_journal_opts *opts, struct fm_journal **out,
		    const char **why, struct fm_err *err);

/* Closes the descriptor. NULL is allowed. */
void fm_journal_close(struct fm_journal *j);

/* Whether nothing was read or appended. */
bool fm_journal_is_empty(const struct fm_journal *j);

/* NULL: nothing known of it. Valid until the next append or find. A single file's path is "". */
const struct fm_journal_file *fm_journal_find(struct fm_journal *j, const char *path,
					      size_t path_len);

/*
 * Append count entries (0 is allowed), and fdatasync if it is a synced journal. An entry that says
 * another size, mtime or identity of its file than earlier ones begins the file anew: what was
 * there of it counts no more. One that lies in what is there already is left out, and so is one
 * beyond FM_JOURNAL_FILES_MAX, _RANGES_MAX or _PARTIAL_MAX.
 *
 * -EINVAL: an entry that is not as above, or overlaps in part what is there (its CRC could not be
 * told apart). -EFBIG: the journal would be larger than FM_JOURNAL_BYTES_MAX. -ENOMEM; or an error
 * of writing. After an error nothing of them counts: the journal is cut back, at the latest by the
 * next append.
 */
int fm_journal_append(struct fm_journal *j, const struct fm_journal_entry *entries, size_t count,
		      struct fm_err *err);

/*
 * What a journal's head says, and the bytes that its records say are there, without opening it for
 * use: for listing partial transfers. fd is open for reading, stays the caller's, and nothing is
 * changed. A journal that would not be trusted here (another machine; not synced and another boot)
 * has 0 bytes there. -EBADMSG: it is no journal, or another version's.
 */
int fm_journal_peek(int fd, struct fm_journal_opts *out, uint64_t *bytes_there);

#endif
