/* SPDX-License-Identifier: MIT */
/*
 * siphash - SipHash-2-4 with a result of 128 bits: a hash that nobody who lacks the key can find
 * collisions for.
 *
 * Any thread.
 */
#ifndef FM_JOURNAL_SIPHASH_H
#define FM_JOURNAL_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct fm_sip {
	uint64_t low;	/* the first 8 bytes of the result, read as little-endian */
	uint64_t high;
};

struct fm_sip fm_siphash(const struct fm_sip *key, const void *data, size_t len);

#endif
