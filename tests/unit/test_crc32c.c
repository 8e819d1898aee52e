/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mover/base/crc32c.h"
#include "tests/fm_test.h"

static uint64_t seed = 1;

static uint32_t roll(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((seed >> 33) % below);
}

static void fill(uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)roll(256);
}

/* The definition, bit by bit. */
static uint32_t crc_by_bits(const uint8_t *buf, size_t len)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < len; i++) {
		crc ^= buf[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static void test_vectors(void)
{
	uint8_t buf[32];

	CU_ASSERT_EQUAL(fm_crc32c(0, "", 0), 0);
	CU_ASSERT_EQUAL(fm_crc32c(0, "123456789", 9), 0xe3069283);
	memset(buf, 0, sizeof(buf));
	CU_ASSERT_EQUAL(fm_crc32c(0, buf, sizeof(buf)), 0x8a9136aa);
	memset(buf, 0xff, sizeof(buf));
	CU_ASSERT_EQUAL(fm_crc32c(0, buf, sizeof(buf)), 0x62a8ab43);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)i;
	CU_ASSERT_EQUAL(fm_crc32c(0, buf, sizeof(buf)), 0x46dd794e);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(31 - i);
	CU_ASSERT_EQUAL(fm_crc32c(0, buf, sizeof(buf)), 0x113fdb5c);
}

static void test_definition(void)
{
	uint8_t buf[5000];

	fill(buf, sizeof(buf));
	for (int i = 0; i < 200; i++) {
		size_t at = roll(64), len = roll(sizeof(buf) - 64), split = roll((uint32_t)len + 1);
		uint32_t crc = crc_by_bits(buf + at, len);

		CU_ASSERT_EQUAL(fm_crc32c(0, buf + at, len), crc);
		CU_ASSERT_EQUAL(
			fm_crc32c(fm_crc32c(0, buf + at, split), buf + at + split, len - split),
			crc);
	}
}

/* The CRC32C of so many bytes of zeros: of a file that no part covers. */
static uint32_t zeros_crc(uint64_t len)
{
	return fm_crc32c_whole(0, len);
}

/* The CRC32C of A followed by B: that of A, moved by the length of B, and that of B. */
static uint32_t combine(uint32_t a, uint32_t b, uint64_t len_b)
{
	return ~fm_crc32c_whole(~a, len_b) ^ b;
}

static void test_combine(void)
{
	uint8_t buf[3000];

	fill(buf, sizeof(buf));
	for (int i = 0; i < 200; i++) {
		size_t len = roll(sizeof(buf)), split = roll((uint32_t)len + 1);
		uint32_t a = fm_crc32c(0, buf, split), b = fm_crc32c(0, buf + split, len - split);

		CU_ASSERT_EQUAL(combine(a, b, len - split), fm_crc32c(0, buf, len));
	}
}

static void test_zeros(void)
{
	static const uint8_t zeros[4096];

	for (size_t len = 0; len <= sizeof(zeros); len += len < 300 ? 1 : 97)
		CU_ASSERT_EQUAL(zeros_crc(len), fm_crc32c(0, zeros, len));
}

/*
 * An emulated processor takes seconds for each: what cuts a long buffer, and what x is, are the
 * same on all. tests/arm64/run asks for none in its sample.
 */
static bool may_take_gigabytes(void)
{
	return !getenv("FM_TEST_NO_GIGABYTES");
}

/* More than ISA-L takes in one call. The pages are never touched: all of them are the one page of
 * zeros. */
static void test_long(void)
{
	size_t len = ((size_t)1 << 31) + 12345;
	void *buf;

	if (!may_take_gigabytes())
		return;
	buf = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CU_ASSERT_PTR_NOT_EQUAL_FATAL(buf, MAP_FAILED);
	CU_ASSERT_EQUAL(fm_crc32c(0, buf, len), zeros_crc(len));
	munmap(buf, len);
}

/* x has the order 2^31 - 1, here seen from outside: after so many bytes of zeros the CRC is where
 * it began. */
static void test_order_of_x(void)
{
	static const uint8_t zeros[1 << 20];
	const uint64_t order = (UINT64_C(1) << 31) - 1;
	uint32_t crc = 0;

	for (uint64_t left = may_take_gigabytes() ? order : 0; left > 0;) {
		size_t step = left < sizeof(zeros) ? (size_t)left : sizeof(zeros);

		crc = fm_crc32c(crc, zeros, step);
		left -= step;
	}
	CU_ASSERT_EQUAL(crc, 0);
	CU_ASSERT_EQUAL(zeros_crc(order), 0);
	CU_ASSERT_EQUAL(zeros_crc(3 * order + 77), zeros_crc(77));
}

struct piece {
	size_t at, len;
};

/* Cut size bytes into at most max pieces. Returns how many. */
static unsigned cut(size_t size, struct piece *pieces, unsigned max)
{
	unsigned n = 0;

	for (size_t at = 0; at < size; n++) {
		size_t left = size - at;
		size_t len = n == max - 1 ? left : 1 + roll((uint32_t)(left < 900 ? left : 900));

		pieces[n] = (struct piece){ at, len };
		at += len;
	}
	return n;
}

static void shuffle(struct piece *pieces, unsigned n)
{
	for (unsigned i = n; i > 1; i--) {
		unsigned j = roll(i);
		struct piece p = pieces[j];

		pieces[j] = pieces[i - 1];
		pieces[i - 1] = p;
	}
}

/* Goal: any split, in any order, with some pieces missing, gives the CRC of the file with zeros in
 * the holes. */
static void test_parts(void)
{
	static uint8_t buf[20000];
	struct piece pieces[40];

	for (int round = 0; round < 300; round++) {
		size_t size = roll(sizeof(buf));
		unsigned n = cut(size, pieces, 40);
		uint32_t parts = 0;

		fill(buf, size);
		shuffle(pieces, n);
		for (unsigned i = 0; i < n; i++) {
			struct piece p = pieces[i];

			if (roll(4) == 0)
				memset(buf + p.at, 0, p.len);
			else
				parts ^= fm_crc32c_part(fm_crc32c(0, buf + p.at, p.len), p.at,
							p.len);
		}
		CU_ASSERT_EQUAL(fm_crc32c_whole(parts, size), fm_crc32c(0, buf, size));
	}
}

static void test_no_parts(void)
{
	static const uint8_t zeros[123456];

	CU_ASSERT_EQUAL(fm_crc32c_whole(0, 0), 0);
	CU_ASSERT_EQUAL(fm_crc32c_whole(0, sizeof(zeros)), fm_crc32c(0, zeros, sizeof(zeros)));
	CU_ASSERT_EQUAL(fm_crc32c_part(0, 4096, 0), 0);
}

/* A sparse file of almost 2^63 bytes, computed in two ways. */
static void test_far(void)
{
	const uint64_t size = INT64_MAX, at = size - 1000;
	uint32_t crc = fm_crc32c(0, "123456789", 9), whole;

	whole = combine(zeros_crc(at), crc, 9);
	whole = combine(whole, zeros_crc(size - at - 9), size - at - 9);
	CU_ASSERT_EQUAL(fm_crc32c_whole(fm_crc32c_part(crc, at, 9), size), whole);
	CU_ASSERT_EQUAL(fm_crc32c_whole(fm_crc32c_part(zeros_crc(at), 0, at), at), zeros_crc(at));
}

static const struct fm_test tests[] = {
	{"the vectors of RFC 3720 come out", test_vectors},
	{"any data, aligned or not, in one piece or two, agrees with the definition",
	 test_definition},
	{"the CRCs of two halves give that of the whole", test_combine},
	{"the CRC of zeros needs no zeros", test_zeros},
	{"a buffer of more than two gigabytes is taken whole", test_long},
	{"exponents repeat after 2^31 - 1", test_order_of_x},
	{"parts in any order, with holes, give the CRC of the file", test_parts},
	{"a file without parts is all zeros", test_no_parts},
	{"offsets up to the largest file are exact", test_far},
};
FM_TEST_MAIN("crc32c", tests)
