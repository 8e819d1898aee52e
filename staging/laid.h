/* SPDX-License-Identifier: MIT */
/*
 * laid - a dataset on the disk, extent by extent: laid out from its manifest or the draft of one
 * (offered.h), filled in any order, finished; and the bytes of an extent, from such a directory or
 * from the source.
 *
 * The bytes of an extent are those of its files, one behind the other. Its CRC is the CRC32C of
 * them. manifest: a descriptor that several threads may use at once. root: of the directory. All of
 * it waits for the disk. One thread at a time for each extent.
 */
#ifndef FM_STAGE_LAID_H
#define FM_STAGE_LAID_H

#include "staging/manifest.h"

#define FM_STAGE_EXTENT_BYTES_MAX (2u * FM_STAGE_EXTENT)

/*
 * buf has `len` bytes, and that has to be what the manifest says of the extent: -EBADMSG, and
 * nothing is read or written. A buffer may be older than what is known of the extent's size.
 */

/*
 * Into buf; crc: of them. -ESTALE: of the source, a file is not what was
 * listed. The source is read without the page cache where the file system can do that, through
 * chunk (chunk.h); several threads read a pack, as many as there is memory for its files' chunks.
 * file: what a dataset of one file is called there, below root; NULL: of a directory.
 */
int fm_stage_extent_read_source(int manifest, int root, const char *file, uint32_t n, uint8_t *buf,
				size_t len, uint8_t *chunk, uint32_t *crc);
int fm_stage_extent_read(int manifest, int root, uint32_t n, uint8_t *buf, size_t len);

/*
 * Past the page cache, or let go from there when it is on the disk, but for files of less than
 * 1 MiB. Zeros become holes where the file system has any. Not synced. crc: of the extent, and the
 * draft gets the CRCs of its chunks, so that nobody has to read it from the disk for a manifest.
 * NULL: the manifest is one, and is only read.
 */
int fm_stage_extent_write(int manifest, int root, uint32_t n, const uint8_t *buf, size_t len,
			  uint32_t *crc);

/* Only what write() does to the draft: of an extent that is on the disk already. */
int fm_stage_extent_fill(int draft, uint32_t n, const uint8_t *buf, size_t len, uint32_t *crc);

/* The CRC of each extent, from the CRCs of a manifest's chunks. */
int fm_stage_extent_crcs(int manifest, uint32_t count, uint32_t *out);

/*
 * The same for the draft of a newer version, from an older one's manifest. known: bits of the
 * extents of which all files are unchanged: the same path, size and time. The CRC of another one
 * says nothing.
 */
int fm_stage_extent_crcs_of_older(int draft, int older, uint32_t count, uint32_t *out,
				  uint64_t *known);

/*
 * Directories; what is there stays. A file is made when the first of its extents is written.
 */
int fm_stage_lay_begin(int manifest, int root);

/*
 * Empty files, links, times and permissions; then each file and link is looked at. -ESTALE: the
 * file system has not kept its size or time. What is synced of files of less than 1 MiB leaves the
 * page cache. Twice is fine.
 */
int fm_stage_lay_end(int manifest, int root);

#endif
