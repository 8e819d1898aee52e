/* SPDX-License-Identifier: MIT */
/*
 * compare - whether the files of a source have the content that a manifest says, by the CRC32C of
 * each.
 *
 * That is as sure as a CRC32C is, and says nothing of the copy on the disk: check.h does. Worker
 * threads; waits for the disk.
 */
#ifndef FM_STAGE_COMPARE_H
#define FM_STAGE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_err;

/* The CRC32C of the source's file of that path below the dataset. False: nobody knows it. */
typedef bool fm_stage_crc_of(void *ctx, const char *path, size_t len, uint32_t *crc);

/*
 * manifest: open for reading; of a source with the listing of what crc_of() knows. -EBADMSG: a
 * file's content is another one, which err names, or the manifest is damaged. -EPROTO: a file's
 * CRC32C is not known.
 */
int fm_stage_compare(int manifest, fm_stage_crc_of *crc_of, void *ctx, struct fm_err *err);

#endif
