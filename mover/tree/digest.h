/* SPDX-License-Identifier: MIT */
/*
 * digest - the CRC32C of a file as it arrived, kept with it, so that fmove verify can compare
 * later.
 *
 * In the extended attribute "user.fmove.crc32c", all integers little-endian:
 *
 *   off len field
 *     0   1 version  1
 *     1   1 blocks   n: 0 .. FM_DIGEST_BLOCKS_MAX
 *     2   2 zero
 *     4   4 crc      CRC32C of the whole
 *     8   8 size
 *    16   8 mtime_ns
 *    24 4*n block    of each block of fm_digest_block_bytes(size) bytes its contribution to the CRC
 *                    of the whole (base/crc32c.h), so that damage can be said with a place; none:
 *                    not known, or one block
 *
 * A file whose size or mtime is another now was changed on purpose: the digest is stale, not wrong.
 */
#ifndef FM_TREE_DIGEST_H
#define FM_TREE_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

struct stat;

#define FM_DIGEST_NAME "user.fmove.crc32c"
#define FM_DIGEST_DAMAGED \
	"the checksum that was kept with it is damaged, so that nobody knows whether this is " \
	"what was put there"
#define FM_DIGEST_BLOCKS_MAX 64
#define FM_DIGEST_BLOCK_MIN (4u << 20)	/* a file up to this is one block */

struct fm_digest {
	uint32_t crc;
	bool is_damaged;	/* what was kept is, so nothing else here counts, or equals it */
	uint64_t size;
	int64_t mtime_ns;
	unsigned blocks;
	uint32_t block[FM_DIGEST_BLOCKS_MAX];
};

/*
 * Bytes of a block of a file of that size: a power of two from FM_DIGEST_BLOCK_MIN on, so that
 * there are at most FM_DIGEST_BLOCKS_MAX.
 */
uint64_t fm_digest_block_bytes(uint64_t size);

/*
 * fd is a regular file, open for writing; the kernel asks for the right to write to the file now,
 * so set the digest before a mode without it. One that is there is replaced. 0; -EOPNOTSUPP: this
 * file system keeps none; or another error of fsetxattr(2).
 */
int fm_digest_set(int fd, const struct fm_digest *digest);

/*
 * fd is open for reading. 0; -ENODATA: none kept; -EOPNOTSUPP: none that we know, such as a later
 * version; -EBADMSG: what is kept is damaged; or another error of fgetxattr(2). After an error
 * *digest is as it was. Whoever may write to the file may have written the digest, so its numbers
 * are those that a file can have: its blocks fit its size.
 */
int fm_digest_get(int fd, struct fm_digest *digest);

/*
 * Reads the digest that is kept with a file; *st is what the file is now. 1: *digest is valid. 0:
 * none was kept, or the file was written to since (its size or time differs). -EBADMSG: it is
 * damaged, so that nobody knows what was put there; another error: nobody can tell now.
 */
int fm_digest_of(int fd, const struct stat *st, struct fm_digest *digest);

/*
 * Where two digests of the same length differ: the first run of blocks that do, or the whole file
 * if one has no blocks.
 */
void fm_digest_difference(const struct fm_digest *a, const struct fm_digest *b, uint64_t *offset,
			  uint64_t *length);

#endif
