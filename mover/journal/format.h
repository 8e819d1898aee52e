/* SPDX-License-Identifier: MIT */
/*
 * format - a journal's head and records as bytes. fmove-journal(5) is the specification.
 *
 * Nothing here reads or writes a file. What a get function accepts is in its range, and put again
 * gives the same bytes.
 */
#ifndef FM_JOURNAL_FORMAT_H
#define FM_JOURNAL_FORMAT_H

#include "mover/journal/host.h"
#include "mover/journal/entry.h"

#define FM_JOURNAL_HEAD_LEN 432u
#define FM_JOURNAL_RECORD_LEN 56u	/* without its path */
#define FM_JOURNAL_RECORD_MAX (FM_JOURNAL_RECORD_LEN + FM_JOURNAL_PATH_MAX + 1u)

struct fm_journal_head {
	bool is_tree;
	bool is_synced;
	struct fm_journal_host host;
	/* the CRC of each record goes on from it: another journal's do not fit */
	uint32_t salt;
	struct fm_identity source;
	uint64_t ino;
	char name[FM_JOURNAL_NAME_MAX + 1];
};

void fm_journal_head_put(const struct fm_journal_head *head, uint8_t out[FM_JOURNAL_HEAD_LEN]);

/* len bytes from the beginning of the file. 0; -EBADMSG: damaged, or no journal; -EPROTONOSUPPORT:
 * another version. */
int fm_journal_head_get(const uint8_t *in, size_t len, struct fm_journal_head *head);

/* Whether a journal of that kind may have the entry: its path, its ranges. */
bool fm_journal_entry_is_good(const struct fm_journal_entry *entry, bool is_tree);

/* Bytes of a record with a path of path_len bytes: a multiple of 8. */
size_t fm_journal_record_len(size_t path_len);

/* Put a good entry: fm_journal_record_len() bytes. */
void fm_journal_record_put(const struct fm_journal_entry *entry, uint32_t salt, uint8_t *out);

/*
 * The record that len bytes begin with: its bytes; entry->path points into them. 0: not all of it
 * is there. -EBADMSG: no record of this journal.
 */
int fm_journal_record_get(const uint8_t *in, size_t len, const struct fm_journal_head *head,
			  struct fm_journal_entry *entry);

#endif
