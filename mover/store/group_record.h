/* SPDX-License-Identifier: MIT */
/*
 * group_record - what a publication group's directory (group.h) says of it: a file of JSON, written
 * once, when the group is begun.
 *
 * Only this service's user can have written it, but it may be torn, or somebody may have given the
 * directory another name: every value is checked. A checksum behind it finds what a disk damaged;
 * records that an older service wrote have none. Any thread; the file's calls may block.
 */
#ifndef FM_STORE_GROUP_RECORD_H
#define FM_STORE_GROUP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/store/store.h"

struct fm_err;

#define FM_GROUP_RECORD_NAME ".fmove.record"
#define FM_GROUP_DIGEST_LEN 64		/* hexadecimal digits of a SHA-256 */
#define FM_GROUP_RECORD_MAX (256u << 10)

struct fm_group_record {
	/* of the ID, which is the secret of those who have it */
	char digest[FM_GROUP_DIGEST_LEN + 1];
	char name[FM_NAME_LEN_MAX + 1];	/* that it gets, one component */
	char peer[FM_GROUP_PEER_MAX + 1];	/* whose user began it; "": a local caller */
	uint32_t uid;
	/*
	 * Of the group's directory: the record counts in no other, such as a copy that an update
	 * of the directory above it made, where inodes say nothing.
	 */
	uint64_t dir_ino;
	uint64_t ino;			/* of the directory of its members ... */
	uint64_t origin;		/* ... see origin.h; 0: it is not known */
	int64_t begun_ns;		/* since 1970 */
	int64_t expires_ns;
	bool may_replace;
	/*
	 * Who began it writes down when a member comes without a sync: no note says that none did.
	 * Records of older services do not say so.
	 */
	bool has_notes;
	uint32_t members;		/* names that are expected; 0: not said */
	size_t expect_len;
	char expect[FM_GROUP_EXPECT_MAX + 1];	/* as in struct fm_group_ask */
};

void fm_group_digest(const uint8_t id[static FM_GROUP_ID_LEN],
		     char out[static FM_GROUP_DIGEST_LEN + 1]);

/* -EBADMSG: it is no record, with the reason. */
int fm_group_record_parse(const char *text, size_t len, struct fm_group_record *out,
			  struct fm_err *err);

/* The text of a record, whose length it returns; FM_GROUP_RECORD_MAX is enough. */
int fm_group_record_print(const struct fm_group_record *record, char *buf, size_t cap);

/* The file in the directory of a group. write: is_synced: it is on the disk when it returns 0. */
int fm_group_record_read(int dir, struct fm_group_record *out, struct fm_err *err);
int fm_group_record_write(int dir, const struct fm_group_record *record, bool is_synced);

#endif
