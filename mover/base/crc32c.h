/* SPDX-License-Identifier: MIT */
/*
 * crc32c - CRC32C (Castagnoli, RFC 3720 appendix B.4) by ISA-L, and the algebra to combine parts in
 * any order.
 *
 * The value is the usual one: initial value and final xor of all ones, "123456789" gives
 * 0xe3069283.
 *
 * An accumulator collects parts of a file in any order, from any thread's own accumulator, and
 * yields the CRC32C of the whole; bytes that no part covers count as zeros (holes). It works
 * because a CRC is linear: a part contributes (crc(part) ^ crc(zeros)) multiplied by x^(8 * bytes
 * behind it), and contributions add by xor. The contribution is kept relative to offset 0
 * (multiplied by the inverse power), since the size may not be known yet.
 */
#ifndef FM_BASE_CRC32C_H
#define FM_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue crc over len bytes; start with 0. */
uint32_t fm_crc32c(uint32_t crc, const void *buf, size_t len);

/* The contribution of a part whose CRC32C is crc, at offset, len bytes long. Xor contributions
 * together. */
uint32_t fm_crc32c_part(uint32_t crc, uint64_t offset, uint64_t len);

/* The CRC32C of a file of size bytes from the xor of the contributions of its parts (0 if there are
 * none). */
uint32_t fm_crc32c_whole(uint32_t parts, uint64_t size);

#endif
