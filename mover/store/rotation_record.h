/* SPDX-License-Identifier: MIT */
/*
 * rotation_record - what a link led to by turns (rotation.h), the oldest first: the file
 * .fmove.<16 hex>.rotation beside the link; the digits are a hash of the link's name.
 *
 * What is meant is told by inode and origin, too: what got such a name otherwise is not it, though
 * the inode's number may have been given again; and a copy of the record, made with the directory
 * around it, says nothing. The file counts if only this service's user can have written it and
 * its checksum is right; every value is checked all the same. If it does not count, what it named
 * stays for ever.
 *
 * Worker threads.
 */
#ifndef FM_STORE_ROTATION_RECORD_H
#define FM_STORE_ROTATION_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/store/store.h"

#define FM_ROTATION_ENTRIES_MAX 1024u
#define FM_ROTATION_RECORD_MAX (320u << 10)

struct fm_rotation_entry {
	uint64_t ino;
	uint64_t origin;		/* when it was made, or a hash of its handle; never 0 */
	char name[FM_NAME_LEN_MAX + 1];
};

struct fm_rotation_record {
	char link[FM_NAME_LEN_MAX + 1];
	unsigned count;
	struct fm_rotation_entry entry[FM_ROTATION_ENTRIES_MAX];
};

/* -EBADMSG: it is none, or damaged. */
int fm_rotation_record_parse(const char *text, size_t size, struct fm_rotation_record *out);

/* Its text, whose length it returns. */
size_t fm_rotation_record_print(const struct fm_rotation_record *record,
				char out[static FM_ROTATION_RECORD_MAX]);

/*
 * The record of a link in the directory; of one that has none, or none that counts, count is 0.
 * -EBADMSG: it is damaged; count is 0, too.
 */
int fm_rotation_record_read(int dir, const char *link, struct fm_rotation_record *out);

/*
 * Replaces it by one rename. Its content is on the disk before, so a power cut leaves the old one
 * or this. is_synced: it is there for good when this returns 0.
 */
int fm_rotation_record_write(int dir, const struct fm_rotation_record *record, bool is_synced);

/* One more is the youngest, wherever it was. The oldest is forgotten if there are too many. */
void fm_rotation_record_add(struct fm_rotation_record *record,
			    const struct fm_rotation_entry *entry);

void fm_rotation_record_drop(struct fm_rotation_record *record, unsigned i);

#endif
