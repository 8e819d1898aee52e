/* SPDX-License-Identifier: MIT */
/*
 * manifest - what a tree was when it was published: each name, and the digest of what was under it.
 * With it fmove verify finds files that are missing, and files that have one another's names.
 *
 * It lies beside the tree, under the name that fm_manifest_name() makes of the directory's inode
 * number and time of birth: so it belongs to that directory, whatever that is called, and to no
 * other one that gets its name. It is no part of the tree: nobody who lists, copies or compares the
 * tree meets it. A file system that does not tell when a directory was made has no manifests.
 *
 * The file, all integers little-endian:
 *
 *   off len field
 *     0   8 magic     "FMOVEMAN"
 *     8   4 version   1
 *    12   4 crc       CRC32C of the other bytes of the head
 *    16   8 ino       of the directory ...
 *    24   8 birth_ns  ... and when it was made
 *    32   8 entries
 *    40   8 bytes     of the whole file
 *    48   2 name_len  1 .. 255
 *    50 255 name      that it was published under, zeros behind: where it is looked for first
 *   305   7 zero
 *   312   - blocks, each: 4 len (of the pack), 4 crc (CRC32C of the pack), then a pack (pack.h)
 *         that offers: FILE entries
 *           (size, mtime_ns and, with FM_PACK_HAS_CRC, the CRC32C), HARD and LINK entries; in no
 * order. An entry may come twice, with the same contents.
 *
 * It is written as files are finished, in the staging directory, and moved to its name before the
 * tree gets its own.
 */
#ifndef FM_TREE_MANIFEST_H
#define FM_TREE_MANIFEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/tree/pack.h"

#define FM_MANIFEST_NAME_LEN 32		/* ".fmove.<16 hex>.manifest", without the NUL */
#define FM_MANIFEST_HEAD 312u
/* of one pack: room for the longest entry, and for a thousand usual ones */
#define FM_MANIFEST_PACK_MAX (128u << 10)
#define FM_MANIFEST_FINAL_MAX 255
/* of all packs: some 30 million files of usual names */
#define FM_MANIFEST_BYTES_MAX (UINT64_C(4) << 30)

/* Which directory it is. */
struct fm_manifest_key {
	uint64_t ino;
	int64_t birth_ns;
};

/* -EOPNOTSUPP: this file system does not tell. */
int fm_manifest_key(int fd, struct fm_manifest_key *out);
int fm_manifest_key_at(int dir, const char *name, struct fm_manifest_key *out);

void fm_manifest_name(const struct fm_manifest_key *key, char out[FM_MANIFEST_NAME_LEN + 1]);
bool fm_manifest_is_name(const char *name);

/* ---- writing ---- */

struct fm_manifest {
	pthread_mutex_t lock;
	int fd;
	/* the pack that is not in the file yet, behind the head of its block */
	uint8_t *buf;
	struct fm_pack_writer w;
	uint64_t bytes;
	uint64_t entries;
};

/* fd: an empty file, open for reading and writing; taken over, also on error. */
int fm_manifest_begin(struct fm_manifest *m, int fd);

/* FILE (an offer: without data), HARD or LINK; owners, modes and attributes are left out. Any
 * thread. -EFBIG: that would be more than FM_MANIFEST_BYTES_MAX, or than a file may have there. */
int fm_manifest_add(struct fm_manifest *m, const struct fm_pack_entry *e);

/* All were added: the rest is written, and the head. name: the tree's. -EFBIG: as above. */
int fm_manifest_end(struct fm_manifest *m, const struct fm_manifest_key *key, const char *name);

void fm_manifest_close(struct fm_manifest *m);

/* ---- reading ---- */

struct fm_manifest_reader {
	int fd;
	uint8_t *buf;
	struct fm_pack_reader r;
	uint64_t at;			/* of the next block */
	uint64_t bytes;
	uint64_t entries;		/* that are still to come */
	struct fm_manifest_key key;
	char name[FM_MANIFEST_FINAL_MAX + 1];
};

/*
 * Begins to read the manifest in fd, which is taken over, also after an error. -EBADMSG: it is no
 * manifest, or damaged.
 */
int fm_manifest_read(struct fm_manifest_reader *m, int fd);

/*
 * The manifest of the directory with that key, in the directory beside which it is. -ENOENT: there
 * is none. -EBADMSG: as fm_manifest_read(), or what has its name is something else: nobody but us
 * makes that name, so what the directory had is not known any more, which is damage.
 */
int fm_manifest_open(struct fm_manifest_reader *m, int parent, const struct fm_manifest_key *key);

/* 1: the next entry, which points into a buffer until the next call. 0: that were all. -EBADMSG:
 * damaged. */
int fm_manifest_next(struct fm_manifest_reader *m, struct fm_pack_entry *e);

void fm_manifest_free(struct fm_manifest_reader *m);

/* ---- the end of one ---- */

/* The directory with that key goes, or went: if it had a manifest, that does too. Best effort: a
 * sweep finds what stays. */
void fm_manifest_remove(int parent, const struct fm_manifest_key *key);

/* Whether no directory beside it is the one of that manifest any more. */
bool fm_manifest_is_orphan(int parent, const char *manifest);

#endif
