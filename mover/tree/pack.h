/* SPDX-License-Identifier: MIT */
/*
 * pack - what a chunk of a tree holds: entries, each complete in itself. This header is the
 * specification; fmove-wire(7) says the same for readers.
 *
 * All integers are little-endian. A reader treats every byte as hostile.
 *
 *   off len field
 *     0   4 magic     "FPAK"
 *     4   2 version   1
 *     6   2 flags     FM_PACK_OFFER: files are offered, not sent
 *     8   4 count     entries, 1 ..; FM_TREE_OFFERS_MAX at most in an offering pack
 *    12   4 bytes     of the whole pack; a multiple of 8
 *    16   - entries, one behind the other, each a multiple of 8 bytes:
 *
 *     0   2 type      enum fm_pack_type
 *     2   2 flags     FILE in an offering pack: FM_PACK_HAS_CRC, FM_PACK_IS_LARGE; in another one
 *                     FM_PACK_IS_CORRUPT; else 0
 *     4   4 mode      FILE, DIR, ATTR: permission bits 0777, and the sticky bit; never set-id bits;
 *                     else 0
 *     8   8 size      FILE: of the whole file, INT64_MAX at most; else 0
 *    16   8 mtime_ns  since 1970; HARD: 0
 *    24   4 uid       HARD: 0. 0 too where the source does not send owners
 *    28   4 gid       the same
 *    32   8 offset    FILE: of this piece; else 0
 *    40   4 data_len  FILE: bytes of this piece, 0 in an offer; else 0. A file of 0 bytes has one
 *                     piece of 0 bytes
 *    44   4 crc       FILE: fm_crc32c_part() of the piece at its offset; offer with HAS_CRC: CRC32C
 *                     of the whole file; else 0
 *    48   8 identity  FILE: fm_identity_hash() of the source; else 0
 *    56   2 path_len  1 .. 4095; DIR: 0 is the tree's root itself
 *    58   2 target_len   LINK: what it points to, 1 .. 4095, no NUL; HARD: path of the first name;
 *                        else 0
 *    60   4 xattr_len    FILE, DIR, ATTR: FM_TREE_XATTRS_MAX at most; else 0
 *    64   - path, target, xattrs, zeros up to a multiple of 8, data, zeros up to a multiple of 8
 *
 * Paths are below the tree's root: no empty, "." or ".." component, no NUL, no leading or trailing
 * slash, components of at most 255 bytes. xattrs: one behind the other, name_len (2), value_len
 * (2), name, value; names are "user.*" (but not "user.fmove.*", which each end keeps for itself),
 * "system.posix_acl_access" and "system.posix_acl_default" only.
 *
 * A file of several pieces has the same mode, time, owner, identity and xattrs in each of them. An
 * offering pack holds FILE entries without data (data_len and offset 0) that say everything else
 * (xattrs of a large file are only in its ATTR entry), and beside them any DIR, LINK, HARD and ATTR
 * entries, complete, as in other packs. ATTR and HARD entries may come before the file of which
 * they tell, and before its offer.
 */
#ifndef FM_TREE_PACK_H
#define FM_TREE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_PACK_MAGIC UINT32_C(0x4b415046)
#define FM_PACK_VERSION 1
#define FM_PACK_HEAD 16u
#define FM_PACK_ENTRY_HEAD 64u

#define FM_PACK_OFFER 1u	/* flag of a pack */
#define FM_PACK_HAS_CRC 1u	/* flags of an entry: offer: crc is the CRC32C of the content ... */
#define FM_PACK_IS_LARGE 2u	/* ... the file travels by itself if it is needed */
/* in another pack: the source knows that the file is corrupt; no digest is kept with it */
#define FM_PACK_IS_CORRUPT 4u

enum fm_pack_type {
	FM_PACK_FILE = 1,	/* a piece of a regular file; its offer */
	FM_PACK_DIR = 2,
	FM_PACK_LINK = 3,	/* a symbolic link */
	FM_PACK_HARD = 4,	/* a further name of a file that another entry brings */
	FM_PACK_ATTR = 5,	/* mode, time, owner, xattrs of a large file */
};

struct fm_pack_entry {
	enum fm_pack_type type;
	unsigned flags;
	uint32_t mode;
	uint64_t size;
	int64_t mtime_ns;
	uint32_t uid;
	uint32_t gid;
	uint64_t offset;
	uint32_t data_len;
	uint32_t crc;
	uint64_t identity;
	const char *path;		/* path_len bytes, not terminated */
	size_t path_len;
	const char *target;
	size_t target_len;
	const uint8_t *xattrs;
	size_t xattr_len;
	const uint8_t *data;
};

/* ---- writing ---- */

struct fm_pack_writer {
	uint8_t *buf;		/* 8-aligned */
	size_t cap;
	size_t len;
	uint32_t count;
	unsigned flags;
};

/* Begins a pack in buf. Nothing is written before the first fm_pack_add(), and never beyond cap. */
void fm_pack_begin(struct fm_pack_writer *w, void *buf, size_t cap, unsigned flags);

/* How many bytes of data an entry with these lengths could still carry; negative: not even none. */
int64_t fm_pack_room(const struct fm_pack_writer *w, size_t path_len, size_t target_len,
		     size_t xattr_len);

/*
 * Put the entry behind the others. Returns where its data_len bytes of data go: e->data is not
 * used, so that a file can be read into place. NULL: it does not fit, or is none that a reader
 * would take (a file system may say anything of its files). crc may be set later by
 * fm_pack_set_crc(), the data cut shorter never.
 */
uint8_t *fm_pack_add(struct fm_pack_writer *w, const struct fm_pack_entry *e);
void fm_pack_set_crc(uint8_t *data_of_add, const struct fm_pack_entry *e, uint32_t crc);
void fm_pack_set_corrupt(uint8_t *data_of_add, const struct fm_pack_entry *e);

/* Undo the last fm_pack_add(), whose start was w->len before it. */
void fm_pack_cut(struct fm_pack_writer *w, size_t len_before);

/* Its bytes; 0: no entries. */
size_t fm_pack_end(struct fm_pack_writer *w);

/* ---- reading ---- */

struct fm_pack_reader {
	const uint8_t *buf;
	size_t len;
	size_t at;
	uint32_t left;
	unsigned flags;
	uint32_t count;
	bool is_outline;
};

/* -EBADMSG: no pack, or another version, or not as long as it says. */
int fm_pack_open(struct fm_pack_reader *r, const void *buf, size_t len);

/* 1: the next entry, checked (it points into the buffer). 0: no more. -EBADMSG. */
int fm_pack_next(struct fm_pack_reader *r, struct fm_pack_entry *e);

/* Whether the bytes may be a path below a root, as above. */
bool fm_pack_is_good_path(const char *path, size_t len);

/* ---- outlines: a pack without the bytes of its files, for the source that can read them again;
 * never sent ---- */

/* Bytes of the outline of a pack that fm_pack_end() made; 0: it is none. */
size_t fm_pack_outline_len(const void *pack, size_t len);

/* Write it at out (8-aligned), out_len bytes as that said. False: it is another pack by now. */
bool fm_pack_outline(const void *pack, size_t len, void *out, size_t out_len);

/* Read it with fm_pack_next(): entries as in the pack, data is NULL whatever data_len says. */
int fm_pack_open_outline(struct fm_pack_reader *r, const void *outline, size_t len);

/* ---- extended attributes ---- */

/* Whether a pack may have an extended attribute of that name; which do travel is told by
 * xattr_rules.h. */
bool fm_pack_is_good_xattr(const char *name, size_t len);

struct fm_pack_xattr {
	const char *name;	/* name_len bytes, not terminated; no NUL among them */
	size_t name_len;	/* 255 at most */
	const uint8_t *value;
	size_t value_len;
};

/*
 * 1: the attribute at *at of the entry's (start with 0), which then is behind it. 0: no more.
 * -EBADMSG: never of an entry of fm_pack_next().
 */
int fm_pack_next_xattr(const struct fm_pack_entry *e, size_t *at, struct fm_pack_xattr *out);

/* Write one at buf; its bytes, or 0: it does not fit into room. Lengths up to 255 and 65535. */
size_t fm_pack_put_xattr(uint8_t *buf, size_t room, const struct fm_pack_xattr *x);

#endif
