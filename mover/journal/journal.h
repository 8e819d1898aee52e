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

#include "mover/journal/entry.h"

struct fm_err;
struct fm_journal;

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

/*
 * Whether the file is empty, or has nothing but zeros where a journal's head would be: one to which
 * nothing was appended yet, or what a power cut left of one. fd as for fm_journal_peek().
 */
bool fm_journal_is_blank(int fd);

#endif
