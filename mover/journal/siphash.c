/* SPDX-License-Identifier: MIT */
/*
 * siphash - SipHash-2-4, 128 bits, as its paper (Aumasson and Bernstein, 2012) and its authors'
 * later addition say.
 */
#include "mover/journal/siphash.h"

#define ROUNDS_WORD 2	/* after each word of the message */
#define ROUNDS_END 4	/* before each half of the result */

struct state {
	uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static void rounds(struct state *s, unsigned count)
{
	while (count-- > 0) {
		s->v0 += s->v1;
		s->v1 = rotate(s->v1, 13) ^ s->v0;
		s->v0 = rotate(s->v0, 32);
		s->v2 += s->v3;
		s->v3 = rotate(s->v3, 16) ^ s->v2;
		s->v0 += s->v3;
		s->v3 = rotate(s->v3, 21) ^ s->v0;
		s->v2 += s->v1;
		s->v1 = rotate(s->v1, 17) ^ s->v2;
		s->v2 = rotate(s->v2, 32);
	}
}

static void take_word(struct state *s, uint64_t word)
{
	s->v3 ^= word;
	rounds(s, ROUNDS_WORD);
	s->v0 ^= word;
}

/* Up to 8 bytes as a little-endian number. */
static uint64_t word_of(const uint8_t *at, size_t len)
{
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++)
		word |= (uint64_t)at[i] << (8 * i);
	return word;
}

struct fm_sip fm_siphash(const struct fm_sip *key, const void *data, size_t len)
{
	const uint8_t *at = data;
	struct state s = {
		.v0 = key->low ^ UINT64_C(0x736f6d6570736575),
		/* 0xee: a result of 128 bits */
		.v1 = key->high ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
		.v2 = key->low ^ UINT64_C(0x6c7967656e657261),
		.v3 = key->high ^ UINT64_C(0x7465646279746573),
	};
	struct fm_sip hash;
	size_t left = len;

	for (; left >= 8; left -= 8, at += 8)
		take_word(&s, word_of(at, 8));
	take_word(&s, word_of(at, left) | (uint64_t)len << 56);
	s.v2 ^= 0xee;
	rounds(&s, ROUNDS_END);
	hash.low = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
	s.v1 ^= 0xdd;
	rounds(&s, ROUNDS_END);
	hash.high = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
	return hash;
}
