/* SPDX-License-Identifier: MIT */
/*
 * sim_bytes - what the simulator does with every byte of every file: content made from a number,
 * and its CRC.
 *
 * A seed spends more time here than anywhere else in the simulator, so this file alone is compiled
 * with optimisation and without sanitizers (CMakeLists.txt). Who calls asserts what it hands in;
 * nothing here decides anything.
 */
#include <string.h>

#include "tests/sim/sim_priv.h"

#define CRC32C_POLYNOMIAL UINT32_C(0x82f63b78)
#define LANES 8				/* bytes that are made or looked at at once */

/* Knuth's MMIX generator; a byte is the uppermost one of each state. */
#define FACTOR UINT64_C(6364136223846793005)
#define SUMMAND UINT64_C(1442695040888963407)

static uint32_t crc_table[LANES][256];	/* [k][b]: what b does, k bytes before the end */

static uint32_t crc32c_step(uint32_t crc)
{
	for (unsigned bit = 0; bit < 8; bit++)
		crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
	return crc;
}

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++)
		crc_table[0][i] = crc32c_step(i);
	for (unsigned k = 1; k < LANES; k++)
		for (uint32_t i = 0; i < 256; i++)
			crc_table[k][i] =
				crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

/* Eight at once: the first four meet the CRC so far, and no table look-up waits for another one. */
static uint32_t crc32c_lanes(uint32_t crc, const uint8_t *at)
{
	return crc_table[7][at[0] ^ (crc & 0xff)] ^ crc_table[6][at[1] ^ (crc >> 8 & 0xff)] ^
	       crc_table[5][at[2] ^ (crc >> 16 & 0xff)] ^ crc_table[4][at[3] ^ crc >> 24] ^
	       crc_table[3][at[4]] ^ crc_table[2][at[5]] ^ crc_table[1][at[6]] ^
	       crc_table[0][at[7]];
}

uint32_t sim_crc32c(const uint8_t *at, uint64_t len)
{
	uint32_t crc = UINT32_MAX;

	if (!crc_table[0][1])
		make_table();
	for (; len >= LANES; len -= LANES, at += LANES)
		crc = crc32c_lanes(crc, at);
	while (len-- > 0)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *at++) & 0xff];
	return ~crc;
}

/* Each lane makes every eighth byte, so that no multiplication waits for the one before it. */
void sim_fill(uint8_t *at, uint64_t len, uint64_t tag)
{
	uint64_t state[LANES], factor = 1, summand = 0,
			       last = tag * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (unsigned k = 0; k < LANES; k++) {
		last = state[k] = last * FACTOR + SUMMAND;
		summand = summand * FACTOR + SUMMAND;
		factor *= FACTOR;
	}
	for (; len >= LANES; len -= LANES, at += LANES)
		for (unsigned k = 0; k < LANES; k++) {
			at[k] = (uint8_t)(state[k] >> 56);
			state[k] = state[k] * factor + summand;
		}
	for (unsigned k = 0; k < len; k++)
		at[k] = (uint8_t)(state[k] >> 56);
}
