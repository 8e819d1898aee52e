/* SPDX-License-Identifier: MIT */
/*
 * crc32c - CRC32C of data by ISA-L; combining by arithmetic on polynomials over GF(2).
 *
 * A message M of n bytes has the CRC32C  M x^32 + I x^(8n) + F  modulo P, where P is the Castagnoli
 *                                        polynomial and I
 * and F are all ones. So crc(M) ^ crc(n zero bytes) = M x^32 is linear in M, and everything in here
 * is multiplication by powers of x.
 *
 * P is (x + 1) times a primitive polynomial of degree 31. Modulo the first x is 1; modulo the
 * second its order divides 2^31 - 1, which is prime. So x^(2^31 - 1) = 1 modulo P: exponents count
 * modulo 2^31 - 1, and x^-e is x^(2^31 - 1 - e).
 *
 * Polynomials are kept in the reflected order of the CRC: bit 31 is the coefficient of x^0, bit 0
 * that of x^31.
 */
#include "mover/base/crc32c.h"

#include <isa-l/crc.h>
#include <pthread.h>
#include <stdbool.h>

#define POLY UINT32_C(0x82f63b78)	/* P without x^32 */
#define POLY_ONE UINT32_C(0x80000000)
#define ONES UINT32_C(0xffffffff)
#define ORDER ((UINT64_C(1) << 31) - 1)

#define DATA_STEP_MAX (1u << 30)	/* ISA-L takes an int */

/* power_table[0][i][b] is x^(b * 256^i), power_table[1] the same of x^-1: x^e is the product of one
 * entry for each byte of e. */
#define POWER_BYTES 4
static uint32_t power_table[2][POWER_BYTES][256];
static uint32_t reduce_table[256];	/* b x^8, b of the powers x^24 to x^31: a byte */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static uint32_t times_x(uint32_t a)
{
	return (a >> 1) ^ (POLY & (0 - (a & 1)));
}

/* By four bits of a at a time, then what is beyond x^31 goes by a table: four times as fast as bit
 * by bit. */
static uint32_t poly_mul(uint32_t a, uint32_t b)
{
	uint64_t part[16], product = 0;	/* bit 63 is x^0 */
	uint32_t beyond;

	part[0] = 0;
	part[8] = (uint64_t)b << 32;	/* a nibble's highest bit is its lowest power */
	part[4] = part[8] >> 1;
	part[2] = part[8] >> 2;
	part[1] = part[8] >> 3;
	for (unsigned i = 2; i < 16; i *= 2)
		for (unsigned k = 1; k < i; k++)
			part[i + k] = part[i] ^ part[k];
	for (unsigned i = 0; i < 8; i++)
		product = (product >> 4) ^ part[a >> (4 * i) & 15];
	beyond = (uint32_t)product;
	for (unsigned i = 0; i < 4; i++)
		beyond = (beyond >> 8) ^ reduce_table[beyond & 255];
	return (uint32_t)(product >> 32) ^ beyond;
}

static void power_table_fill(uint32_t table[POWER_BYTES][256], uint32_t step)
{
	for (unsigned i = 0; i < POWER_BYTES; i++) {
		table[i][0] = POLY_ONE;
		for (unsigned b = 1; b < 256; b++)
			table[i][b] = poly_mul(table[i][b - 1], step);
		step = poly_mul(table[i][255], step);	/* x^(256^(i + 1)) */
	}
}

static void tables_fill(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		reduce_table[b] = b;
		for (unsigned i = 0; i < 8; i++)
			reduce_table[b] = times_x(reduce_table[b]);
	}
	power_table_fill(power_table[0], times_x(POLY_ONE));
	/* x^-1: P without its last term, over x */
	power_table_fill(power_table[1], (POLY << 1) | 1);
}

/* poly x^e, or poly x^-e. The lengths of small files have few bytes, and so have their
 * exponents. */
static uint32_t times_power(uint32_t poly, uint64_t e, bool is_inverse)
{
	(void)pthread_once(&tables_once, tables_fill);	/* cannot fail with these arguments */
	for (unsigned i = 0; i < POWER_BYTES; i++) {
		unsigned b = (unsigned)(e >> (8 * i)) & 255;

		if (b)
			poly = poly_mul(poly, power_table[is_inverse][i][b]);
	}
	return poly;
}

/* The exponent that shifting by len bytes stands for, 0 .. ORDER - 1. */
static uint64_t exponent(uint64_t len)
{
	return len % ORDER * 8 % ORDER;
}

static uint32_t shift(uint32_t poly, uint64_t len)
{
	return times_power(poly, exponent(len), false);
}

uint32_t fm_crc32c(uint32_t crc, const void *buf, size_t len)
{
	/* ISA-L's prototype lacks the const. */
	unsigned char *at = (unsigned char *)(uintptr_t)buf;

	/* ISA-L neither inverts what it is given nor what it returns. */
	crc = ~crc;
	while (len > 0) {
		size_t step = len < DATA_STEP_MAX ? len : DATA_STEP_MAX;

		crc = crc32_iscsi(at, (int)step, crc);
		at += step;
		len -= step;
	}
	return ~crc;
}

/*
 * (crc ^ zeros) x^-8(offset + len), in which zeros is I x^(8 len) + F: the first term of those
 * loses its len, and F goes with the CRC.
 */
uint32_t fm_crc32c_part(uint32_t crc, uint64_t offset, uint64_t len)
{
	uint64_t end = (exponent(offset) + exponent(len)) % ORDER;

	return times_power(crc ^ ONES, end, true) ^ times_power(ONES, exponent(offset), true);
}

/* The same turned around. */
uint32_t fm_crc32c_whole(uint32_t parts, uint64_t size)
{
	return shift(parts ^ ONES, size) ^ ONES;
}
