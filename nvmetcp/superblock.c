/* SPDX-License-Identifier: MIT */
/*
 * superblock - the first 4 KiB of a device, and what they tell.
 *
 * Offsets are from the start of the superblock, names those of the file systems' own headers
 * (fs/ext4/ext4.h, fs/xfs/libxfs/xfs_format.h, fs/erofs/erofs_fs.h). ext4 and erofs are
 * little-endian, XFS is big-endian except for its checksum.
 */
#include "nvmetcp/superblock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/crc32c.h"

static unsigned le16(const uint8_t *p)
{
	return p[0] | (unsigned)p[1] << 8;
}

static uint32_t le32(const uint8_t *p)
{
	return le16(p) | (uint32_t)le16(p + 2) << 16;
}

static unsigned be16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)be16(p) << 16 | be16(p + 2);
}

static void put_type(struct fm_superblock *out, const char *type, enum fm_superblock_clean clean)
{
	assert(strlen(type) < sizeof(out->type));
	memcpy(out->type, type, strlen(type) + 1);
	out->clean = clean;
}

static void put_uuid(struct fm_superblock *out, const uint8_t *uuid)
{
	static const uint8_t none[16];
	char *to = out->uuid, *end = out->uuid + sizeof(out->uuid);

	if (memcmp(uuid, none, sizeof(none)) == 0)
		return;
	for (int i = 0; i < 16; i++)
		to += snprintf(to, (size_t)(end - to), "%s%02x",
			       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

/* At most len bytes, up to a NUL. */
static void put_label(struct fm_superblock *out, const uint8_t *label, size_t len)
{
	size_t i;

	for (i = 0; i < len && i < sizeof(out->label) - 1 && label[i] != 0; i++)
		out->label[i] = label[i] >= ' ' && label[i] <= '~' ? (char)label[i] : '?';
	out->label[i] = '\0';
}

/* ----------------------------------------------------------------------------- ext2, ext3, ext4 */

#define EXT_AT 1024
#define EXT_MAGIC 0xef53u
/* s_state: unmounted cleanly; without a journal it is 0 while mounted */
#define EXT_STATE_VALID 0x1u
#define EXT_STATE_ERROR 0x2u
#define EXT_STATE_ORPHANS 0x4u
#define EXT_COMPAT_JOURNAL 0x4u
#define EXT_INCOMPAT_RECOVER 0x4u	/* with a journal: it is mounted, or was not unmounted */
#define EXT_INCOMPAT_JOURNAL_DEV 0x8u
#define EXT_INCOMPAT_MMP 0x100u
#define EXT_INCOMPAT_EXT3 0x16u		/* filetype, recover, meta_bg: what ext3 knows */
#define EXT_RO_COMPAT_EXT3 0x7u		/* sparse_super, large_file, btree_dir */
#define EXT_RO_COMPAT_CHECKSUM 0x400u
#define EXT_RO_COMPAT_ORPHANS 0x10000u	/* the orphan file has some */

/* As blkid names them: ext3 is what ext3's driver would have mounted. */
static const char *ext_type(uint32_t compat, uint32_t incompat, uint32_t ro_compat)
{
	if (incompat & EXT_INCOMPAT_JOURNAL_DEV)
		return "jbd";
	if ((incompat & ~EXT_INCOMPAT_EXT3) || (ro_compat & ~EXT_RO_COMPAT_EXT3))
		return "ext4";
	return compat & EXT_COMPAT_JOURNAL ? "ext3" : "ext2";
}

/* ext4's CRC32C has no final inversion. */
static bool ext_checksum_is_wrong(const uint8_t *sb, uint32_t ro_compat)
{
	return (ro_compat & EXT_RO_COMPAT_CHECKSUM) && le32(sb + 0x3fc) != ~fm_crc32c(0, sb, 0x3fc);
}

static bool parse_ext(const uint8_t *bytes, struct fm_superblock *out)
{
	const uint8_t *sb = bytes + EXT_AT;
	uint32_t compat = le32(sb + 0x5c), incompat = le32(sb + 0x60), ro_compat = le32(sb + 0x64);
	unsigned state = le16(sb + 0x3a);
	bool is_clean;

	if (le16(sb + 0x38) != EXT_MAGIC)
		return false;
	/* s_rev_level 0, of 1993, has no features: what is there means nothing */
	if (le32(sb + 0x4c) == 0)
		compat = incompat = ro_compat = 0;
	is_clean = (state & EXT_STATE_VALID) && !(state & EXT_STATE_ORPHANS) &&
		   !(incompat & EXT_INCOMPAT_RECOVER) && !(ro_compat & EXT_RO_COMPAT_ORPHANS) &&
		   le32(sb + 0xe8) == 0 /* s_last_orphan */;
	put_type(out, ext_type(compat, incompat, ro_compat), is_clean ? FM_CLEAN : FM_UNCLEAN);
	put_uuid(out, sb + 0x68);
	put_label(out, sb + 0x78, 16);
	out->has_mmp = incompat & EXT_INCOMPAT_MMP;
	out->has_errors = (state & EXT_STATE_ERROR) || le32(sb + 0x194) != 0 /* s_error_count */ ||
			  ext_checksum_is_wrong(sb, ro_compat);
	return true;
}

/* ------------------------------------------------------------------------------------------ XFS */

#define XFS_INCOMPAT_NEEDSREPAIR 0x10u

/*
 * The checksum of XFS covers a whole sector, with zeros in its own place. A sector that is larger
 * than the bytes that were read is not checked.
 */
static bool xfs_checksum_is_wrong(const uint8_t *sb)
{
	static const uint8_t zeros[4];
	unsigned sector = be16(sb + 102);
	uint32_t crc;

	if (sector < 512 || sector > FM_SUPERBLOCK_BYTES)
		return false;
	crc = fm_crc32c(0, sb, 224);
	crc = fm_crc32c(crc, zeros, sizeof(zeros));
	return fm_crc32c(crc, sb + 228, sector - 228) != le32(sb + 224);
}

static bool parse_xfs(const uint8_t *sb, struct fm_superblock *out)
{
	if (memcmp(sb, "XFSB", 4) != 0)
		return false;
	put_type(out, "xfs", FM_CLEAN_UNKNOWN);
	put_uuid(out, sb + 32);
	put_label(out, sb + 108, 12);
	out->has_errors = sb[126] != 0;	/* sb_inprogress: mkfs has not come to its end */
	if ((be16(sb + 100) & 0xf) == 5)
		out->has_errors = out->has_errors || (be32(sb + 216) & XFS_INCOMPAT_NEEDSREPAIR) ||
				  xfs_checksum_is_wrong(sb);
	return true;
}

/* --------------------------------------------------------------------------------------- others */

static bool parse_erofs(const uint8_t *bytes, struct fm_superblock *out)
{
	const uint8_t *sb = bytes + 1024;

	if (le32(sb) != 0xe0f5e1e2)
		return false;
	put_type(out, "erofs", FM_CLEAN);	/* nobody can write to it */
	put_uuid(out, sb + 48);
	put_label(out, sb + 64, 16);
	return true;
}

static const struct {
	const char *type;
	size_t at;
	const char *magic;
	enum fm_superblock_clean clean;
} magics[] = {
	{ "squashfs", 0, "hsqs", FM_CLEAN },
	{ "crypto_LUKS", 0, "LUKS\xba\xbe", FM_CLEAN_UNKNOWN },
	{ "LVM2_member", 512, "LABELONE", FM_CLEAN_UNKNOWN },
	{ "swap", 4096 - 10, "SWAPSPACE2", FM_CLEAN_UNKNOWN },
	{ "gpt", 512, "EFI PART", FM_CLEAN_UNKNOWN },
};

static bool parse_magic(const uint8_t *bytes, struct fm_superblock *out)
{
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		if (memcmp(bytes + magics[i].at, magics[i].magic, strlen(magics[i].magic)) == 0) {
			put_type(out, magics[i].type, magics[i].clean);
			return true;
		}
	}
	return false;
}

/* FNV-1a. */
uint64_t fm_superblock_sum(const uint8_t bytes[static FM_SUPERBLOCK_BYTES])
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < FM_SUPERBLOCK_BYTES; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	return sum >> 1;
}

bool fm_superblock_knows(const char *type)
{
	static const char *const parsed[] = { "ext2", "ext3", "ext4", "jbd", "xfs", "erofs" };

	for (size_t i = 0; i < sizeof(parsed) / sizeof(parsed[0]); i++)
		if (strcmp(parsed[i], type) == 0)
			return true;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (strcmp(magics[i].type, type) == 0)
			return true;
	return false;
}

int fm_superblock_parse(const uint8_t *bytes, size_t len, struct fm_superblock *out)
{
	memset(out, 0, sizeof(*out));
	out->clean = FM_CLEAN_UNKNOWN;
	if (len < FM_SUPERBLOCK_BYTES)
		return -EINVAL;
	/*
	 * Formats whose superblock has a fixed place are tried first: an old partition table may
	 * still be in the first bytes.
	 */
	if (!parse_xfs(bytes, out) && !parse_ext(bytes, out) && !parse_erofs(bytes, out))
		(void)parse_magic(bytes, out);
	assert(!out->type[0] || fm_superblock_knows(out->type));
	return 0;
}
