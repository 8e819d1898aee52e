/* SPDX-License-Identifier: MIT */
/*
 * links: fm_wire
 *
 * test_wire_data - the 64-byte messages of data connections: their golden bytes, and that nothing
 * but those is accepted.
 *
 * The golden bytes were written down from wire.h, not printed by the encoder.
 */
#include <errno.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "mover/wire/wire.h"
#include "tests/fm_test.h"

static unsigned nibble(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static size_t from_hex(const char *hex, uint8_t *out)
{
	size_t len = 0;

	for (; *hex; hex++) {
		if (*hex == ' ')
			continue;
		out[len++] = (uint8_t)(nibble(hex[0]) << 4 | nibble(hex[1]));
		hex++;
	}
	return len;
}

struct data_golden {
	struct fm_data_msg msg;
	const char *hex;
};

static const struct data_golden data_goldens[] = {
	{{.type = FM_DATA_GRANT,
	  .slot = 16,
	  .generation = 2,
	  .xfer = UINT64_C(0x7f0000001000),
	  .length = 1u << 20,
	  .data_crc = 0xabcd},
	 "01 00 1000 02000000 00100000007f0000 0000000000000000 0000000000000000 00001000 "
	 "cdab0000 0000000000000000000000000000000000000000 24c0f32e"},
	{{.type = FM_DATA_CHUNK,
	  .slot = 15,
	  .generation = 2,
	  .xfer = 3,
	  .seq = 4,
	  .offset = 0x500000,
	  .length = 13,
	  .data_crc = 0xe3069283},
	 "02 00 0f00 02000000 0300000000000000 0400000000000000 0000500000000000 0d000000 "
	 "839206e3 0000000000000000000000000000000000000000 4d1acb83"},
	{{.type = FM_DATA_ACK,
	  .status = FM_ACK_CORRUPT,
	  .slot = 15,
	  .generation = 2,
	  .xfer = 3,
	  .seq = 4},
	 "03 01 0f00 02000000 0300000000000000 0400000000000000 0000000000000000 00000000 "
	 "00000000 0000000000000000000000000000000000000000 21fd8619"},
	{{.type = FM_DATA_REVOKE, .generation = 2},
	 "04 00 0000 02000000 0000000000000000 0000000000000000 0000000000000000 00000000 "
	 "00000000 0000000000000000000000000000000000000000 ad2f70b0"},
	{{.type = FM_DATA_RETURN, .generation = UINT32_MAX},
	 "05 00 0000 ffffffff 0000000000000000 0000000000000000 0000000000000000 00000000 "
	 "00000000 0000000000000000000000000000000000000000 96730a16"},
	{{.type = FM_DATA_WANT},
	 "06 00 0000 00000000 0000000000000000 0000000000000000 0000000000000000 00000000 "
	 "00000000 0000000000000000000000000000000000000000 1aaa7e62"},
};

#define DATA_GOLDENS (sizeof(data_goldens) / sizeof(data_goldens[0]))

static bool is_same_data(const struct fm_data_msg *a, const struct fm_data_msg *b)
{
	return a->type == b->type && a->status == b->status && a->slot == b->slot &&
	       a->generation == b->generation && a->xfer == b->xfer && a->seq == b->seq &&
	       a->offset == b->offset && a->length == b->length && a->data_crc == b->data_crc;
}

static void test_data_golden(void)
{
	for (size_t i = 0; i < DATA_GOLDENS; i++) {
		const struct data_golden *g = &data_goldens[i];
		uint8_t bytes[FM_DATA_MSG_SIZE * 2], out[FM_DATA_MSG_SIZE];
		struct fm_data_msg m;

		CU_ASSERT_EQUAL_FATAL(from_hex(g->hex, bytes), FM_DATA_MSG_SIZE);
		fm_data_encode(&g->msg, out);
		CU_ASSERT_EQUAL(memcmp(out, bytes, FM_DATA_MSG_SIZE), 0);
		memset(&m, 0xee, sizeof(m));
		CU_ASSERT_EQUAL(fm_data_decode(bytes, &m), 0);
		CU_ASSERT_TRUE(is_same_data(&m, &g->msg));
	}
	CU_ASSERT_EQUAL(DATA_GOLDENS, (size_t)FM_DATA_WANT);
}

/* One bit anywhere is noticed. */
static void test_data_crc(void)
{
	for (size_t i = 0; i < DATA_GOLDENS; i++) {
		for (unsigned bit = 0; bit < FM_DATA_MSG_SIZE * 8; bit++) {
			uint8_t bytes[FM_DATA_MSG_SIZE * 2];
			struct fm_data_msg m;

			(void)from_hex(data_goldens[i].hex, bytes);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			CU_ASSERT_EQUAL(fm_data_decode(bytes, &m), -EILSEQ);
		}
	}
}

/* Spoiled, but with a CRC that is right: what a hostile peer sends. */
static const struct spoiled_data {
	unsigned type;
	size_t at;
	const char *hex;
	int want;
} spoiled_data[] = {
	{ FM_DATA_GRANT, 0, "00", -EPROTO },
	{ FM_DATA_GRANT, 0, "07", -EPROTO },
	{ FM_DATA_GRANT, 0, "ff", -EPROTO },
	{ FM_DATA_GRANT, 1, "01", -ERANGE },
	{ FM_DATA_GRANT, 2, "0000", -ERANGE },
	{ FM_DATA_GRANT, 2, "4000", 0 },
	{ FM_DATA_GRANT, 2, "4100", -ERANGE },
	{ FM_DATA_GRANT, 4, "00000000", -ERANGE },
	/* the slots would run over the end of all addresses */
	{ FM_DATA_GRANT, 8, "0000ffffffffffff", -ERANGE },
	{ FM_DATA_GRANT, 16, "01", -ERANGE },
	{ FM_DATA_GRANT, 24, "01", -ERANGE },
	{ FM_DATA_GRANT, 32, "00000000", -ERANGE },
	{ FM_DATA_GRANT, 32, "00080000", -ERANGE },
	{ FM_DATA_GRANT, 32, "00100000", 0 },
	{ FM_DATA_GRANT, 32, "00180000", -ERANGE },
	{ FM_DATA_GRANT, 32, "00000004", 0 },
	{ FM_DATA_GRANT, 32, "00100004", -ERANGE },
	{ FM_DATA_GRANT, 40, "01", -ERANGE },
	{ FM_DATA_GRANT, 44, "01", -ERANGE },
	{ FM_DATA_CHUNK, 1, "01", -ERANGE },
	{ FM_DATA_CHUNK, 2, "3f00", 0 },
	{ FM_DATA_CHUNK, 2, "4000", -ERANGE },
	{ FM_DATA_CHUNK, 4, "00000000", -ERANGE },
	{ FM_DATA_CHUNK, 24, "f2ffffffffffff7f", 0 },
	{ FM_DATA_CHUNK, 24, "f3ffffffffffff7f", -ERANGE },
	{ FM_DATA_CHUNK, 24, "ffffffffffffffff", -ERANGE },
	{ FM_DATA_CHUNK, 32, "00000000", -ERANGE },
	{ FM_DATA_CHUNK, 32, "00000004", 0 },
	{ FM_DATA_CHUNK, 32, "01000004", -ERANGE },
	{ FM_DATA_CHUNK, 40, "01", -ERANGE },
	{ FM_DATA_CHUNK, 59, "80", -ERANGE },
	{ FM_DATA_ACK, 1, "02", 0 },
	{ FM_DATA_ACK, 1, "03", 0 },
	{ FM_DATA_ACK, 1, "04", -ERANGE },
	{ FM_DATA_ACK, 2, "4000", -ERANGE },
	{ FM_DATA_ACK, 4, "00000000", -ERANGE },
	{ FM_DATA_ACK, 24, "01", -ERANGE },
	{ FM_DATA_ACK, 32, "01", -ERANGE },
	{ FM_DATA_ACK, 36, "01", -ERANGE },
	{ FM_DATA_ACK, 40, "01", -ERANGE },
	{ FM_DATA_ACK, 52, "01", -ERANGE },
	{ FM_DATA_REVOKE, 1, "01", -ERANGE },
	{ FM_DATA_REVOKE, 2, "01", -ERANGE },
	{ FM_DATA_REVOKE, 4, "00000000", -ERANGE },
	{ FM_DATA_REVOKE, 8, "01", -ERANGE },
	{ FM_DATA_REVOKE, 16, "01", -ERANGE },
	{ FM_DATA_REVOKE, 24, "01", -ERANGE },
	{ FM_DATA_RETURN, 32, "01", -ERANGE },
	{ FM_DATA_RETURN, 36, "01", -ERANGE },
	{ FM_DATA_RETURN, 40, "01", -ERANGE },
	{ FM_DATA_RETURN, 4, "00000000", -ERANGE },
	{ FM_DATA_WANT, 4, "01", -ERANGE },
	{ FM_DATA_WANT, 8, "01", -ERANGE },
	{ FM_DATA_WANT, 44, "01", -ERANGE },
};

static void seal(uint8_t bytes[FM_DATA_MSG_SIZE])
{
	uint32_t crc = fm_crc32c(0, bytes, 60);

	for (unsigned i = 0; i < 4; i++)
		bytes[60 + i] = (uint8_t)(crc >> (8 * i));
}

static void test_data_ranges(void)
{
	for (size_t i = 0; i < sizeof(spoiled_data) / sizeof(spoiled_data[0]); i++) {
		const struct spoiled_data *s = &spoiled_data[i];
		uint8_t bytes[FM_DATA_MSG_SIZE * 2];
		struct fm_data_msg m;
		int ret;

		(void)from_hex(data_goldens[s->type - 1].hex, bytes);
		(void)from_hex(s->hex, bytes + s->at);
		seal(bytes);
		ret = fm_data_decode(bytes, &m);
		CU_ASSERT_EQUAL(ret, s->want);
		if (ret != s->want)
			printf("\ndata type %u at %zu = %s: %d\n", s->type, s->at, s->hex, ret);
	}
}

static uint64_t random_state = 1;

static uint32_t random_u32(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 32);
}

static void test_data_random(void)
{
	for (unsigned i = 0; i < 300000; i++) {
		uint8_t bytes[FM_DATA_MSG_SIZE * 2], out[FM_DATA_MSG_SIZE];
		struct fm_data_msg m;

		(void)from_hex(data_goldens[random_u32() % DATA_GOLDENS].hex, bytes);
		for (unsigned n = random_u32() % 4; n > 0; n--)
			bytes[random_u32() % 60] = (uint8_t)random_u32();
		if (random_u32() % 4)
			seal(bytes);
		if (fm_data_decode(bytes, &m) != 0)
			continue;
		CU_ASSERT_EQUAL(fm_data_encode(&m, out), 0);
		CU_ASSERT_EQUAL(memcmp(out, bytes, FM_DATA_MSG_SIZE), 0);
	}
}

static void test_data_refused(void)
{
	struct fm_data_msg m = { .type = FM_DATA_CHUNK, .generation = 1, .length = 1 };
	uint8_t out[FM_DATA_MSG_SIZE];

	CU_ASSERT_EQUAL(fm_data_encode(&m, out), 0);
	m.slot = FM_WIRE_SLOTS_MAX;
	CU_ASSERT_EQUAL(fm_data_encode(&m, out), -EINVAL);
	m = (struct fm_data_msg){ .type = FM_DATA_CHUNK, .generation = 1 };
	CU_ASSERT_EQUAL(fm_data_encode(&m, out), -EINVAL);
	m = (struct fm_data_msg){ .type = 77, .generation = 1 };
	CU_ASSERT_EQUAL(fm_data_encode(&m, out), -EINVAL);
}

static const struct fm_test tests[] = {
	{ "every data message has its golden bytes, both ways", test_data_golden },
	{ "one wrong bit of a data message is noticed", test_data_crc },
	{ "every range and zero of every data message is checked", test_data_ranges },
	{ "what no decoder takes is not encoded", test_data_refused },
	{ "random data messages are refused or mean exactly themselves", test_data_random },
};

FM_TEST_MAIN("wire_data", tests)
