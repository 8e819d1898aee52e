/* SPDX-License-Identifier: MIT */
/*
 * crc32c - CRC32C of data by ISA-L; combining by arithmetic on polynomials over GF(2).
 *
 * A message M of n bytes has the CRC32C  M x^32 + I x^(8n) + F  modulo P, where P is the Castagnoli polynomial and I
 * and F are all ones. So crc(M) ^ crc(n zero bytes) = M x^32 is linear in M, and everything in here is multiplication
 * by powers of x.
 *
 * P is (x + 1) times a primitive polynomial of degree 31. Modulo the first x is 1; modulo the second its order
 * divides 2^31 - 1, which is prime. So x^(2^31 - 1) = 1 modulo P: exponents count modulo 2^31 - 1, and x^-e is
 * x^(2^31 - 1 - e).
 *
 * Polynomials are kept in the reflected order of the CRC: bit 31 is the coefficient of x^0, bit 0 that of x^31.
 */
#include "mover/base/crc32c.h"

#include <isa-l/crc.h>
#include <pthread.h>

#define POLY UINT32_C(0x82f63b78)	/* P without x^32 */
#define POLY_ONE UINT32_C(0x80000000)
#define ONES UINT32_C(0xffffffff)
#define ORDER ((UINT64_C(1) << 31) - 1)

#define DATA_STEP_MAX (1u << 30)	/* ISA-L takes an int */

/* power_table[i][b] is x^(b * 256^i): x^e is the product of one entry for each byte of e, three multiplications. */
#define POWER_BYTES 4
static uint32_t power_table[POWER_BYTES][256];
static pthread_once_t power_once = PTHREAD_ONCE_INIT;

static uint32_t poly_mul(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (unsigned i = 0; i < 32; i++) {
		product ^= b & (0 - (a >> 31));
		a <<= 1;
		b = (b >> 1) ^ (POLY & (0 - (b & 1)));	/* times x */
	}
	return product;
}

static void power_table_fill(void)
{
	uint32_t step = POLY_ONE >> 1;	/* x^(256^i), beginning with x */

	for (unsigned i = 0; i < POWER_BYTES; i++) {
		power_table[i][0] = POLY_ONE;
		for (unsigned b = 1; b < 256; b++)
			power_table[i][b] = poly_mul(power_table[i][b - 1], step);
		step = poly_mul(power_table[i][255], step);
	}
}

static uint32_t poly_power(uint64_t e)
{
	uint32_t power;

	(void)pthread_once(&power_once, power_table_fill);	/* cannot fail with these arguments */
	power = power_table[0][e & 255];
	for (unsigned i = 1; i < POWER_BYTES; i++)
		power = poly_mul(power, power_table[i][(e >> (8 * i)) & 255]);
	return power;
}

/* The exponent that shifting by len bytes stands for, 0 .. ORDER - 1. */
static uint64_t exponent(uint64_t len)
{
	return len % ORDER * 8 % ORDER;
}

static uint32_t shift(uint32_t poly, uint64_t len)
{
	return poly_mul(poly, poly_power(exponent(len)));
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

uint32_t fm_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	/* I and F being equal, the terms that do not belong cancel out. */
	return shift(crc_a, len_b) ^ crc_b;
}

uint32_t fm_crc32c_zeros(uint64_t len)
{
	return shift(ONES, len) ^ ONES;
}

/* All parts of a file but the last have one length: remembering it halves the cost of a part. */
static uint32_t zeros_remembered(uint64_t len)
{
	static _Thread_local uint64_t known_len;
	static _Thread_local uint32_t known;	/* of no bytes: 0 */

	if (len != known_len) {
		known = fm_crc32c_zeros(len);
		known_len = len;
	}
	return known;
}

uint32_t fm_crc32c_part(uint32_t crc, uint64_t offset, uint64_t len)
{
	uint64_t end = (exponent(offset) + exponent(len)) % ORDER;

	return poly_mul(crc ^ zeros_remembered(len), poly_power(ORDER - end));
}

uint32_t fm_crc32c_whole(uint32_t parts, uint64_t size)
{
	return shift(parts, size) ^ fm_crc32c_zeros(size);
}
