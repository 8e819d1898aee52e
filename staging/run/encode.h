/* SPDX-License-Identifier: MIT */
/*
 * encode - a message of a run (message.h) as bytes, little-endian:
 *
 *   8 bytes    type from to hops node slot shape 0
 *   4 each     code join order extent crc number
 *   8          nodes
 *   JOIN, PULSE: the state behind it
 *     1 each   place can_read
 *     4 each   code order have_count
 *     8 each   up wanted
 *              a count, and 5 bytes for each lease (extent is_revoked); the same for what comes
 *              (extent from)
 *   a page
 *     4        first
 *     1        is_last
 *     32       bits
 *              4 bytes of CRC for each bit that is set
 *
 * What is decoded is hostile: every number that has a range is in it, or the message is refused.
 * Which extents and nodes there are only the run knows, and asks (run.c, is_sound).
 */
#ifndef FM_STAGING_RUN_ENCODE_H
#define FM_STAGING_RUN_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "staging/run/message.h"

/* of a page with all extents; a report is shorter */
#define FM_RUN_BYTES_MAX (40 + 4 + 1 + FM_RUN_PAGE / 8 + 4 * FM_RUN_PAGE)

/* How many bytes it took. */
size_t fm_run_encode(const struct fm_run_msg *msg, uint8_t buf[static FM_RUN_BYTES_MAX]);

/* -EBADMSG: too short, too long, or out of range. */
int fm_run_decode(const uint8_t *buf, size_t len, struct fm_run_msg *msg);

#endif
