/* SPDX-License-Identifier: MIT */
/*
 * superblock - what file system is on a device, and whether mounting it read-only would write to
 * it.
 *
 * ext2 to ext4 and XFS are taken apart, because a rule depends on what they say; others are named
 * by their magic if it is in the first 4 KiB (that of btrfs is not), and what nobody knows is "".
 * The bytes are a stranger's: nothing in them is trusted. Any thread.
 */
#ifndef FM_NVMETCP_SUPERBLOCK_H
#define FM_NVMETCP_SUPERBLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* from the start of the device: what fm_superblock_parse() wants */
#define FM_SUPERBLOCK_BYTES 4096u

/* Whether something must be written (a log replayed) before what is there can be read as it is. */
enum fm_superblock_clean {
	FM_CLEAN,
	FM_UNCLEAN,
	/* XFS: its superblock does not say, xfs_logprint does; and what nobody knows */
	FM_CLEAN_UNKNOWN,
};

struct fm_superblock {
	/*
	 * "ext4", "ext3", "ext2", "xfs", "squashfs", "erofs"; no file system: "jbd" (a journal of
	 * its own), "LVM2_member", "crypto_LUKS", "swap", "gpt" (a partition table); "". See
	 * fm_superblock_knows().
	 */
	char type[16];
	/* of the file system, lower case with hyphens; "" if it has none */
	char uuid[37];
	char label[17];			/* printable ASCII, else '?'; a longer one is cut */
	bool has_mmp;			/* ext4: multiple mount protection */
	/* it says of itself that it is damaged, or its checksum does */
	bool has_errors;
	enum fm_superblock_clean clean;
};

/* -EINVAL if there are fewer bytes. What nobody knows has type "" and is no error. */
int fm_superblock_parse(const uint8_t *bytes, size_t len, struct fm_superblock *out);

/*
 * A sum of those bytes, at most INT64_MAX: another one after each mount that writes. It is no
 * CRC32C, since ext4 and XFS have that of their superblock in it: with it that of all of them is
 * always the same.
 */
uint64_t fm_superblock_sum(const uint8_t bytes[static FM_SUPERBLOCK_BYTES]);

/* Whether it is one of these types: where that is on a device, the device is told to have it. */
bool fm_superblock_knows(const char *type);

#endif
