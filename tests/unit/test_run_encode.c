/* SPDX-License-Identifier: MIT */
/*
 * Messages of a staging run arrive as they were sent, and nothing else is taken for one: each type
 * there and back, golden bytes, every length that is too short, one byte more, each number that has
 * a range beyond it. links: fm_staging_run
 */
#include <errno.h>
#include <string.h>

#include "staging/run/encode.h"
#include "tests/fm_test.h"

static uint8_t buf[FM_RUN_BYTES_MAX + 1];

static struct fm_run_msg make(unsigned type)
{
	struct fm_run_msg m = {.type = (uint8_t)type, .from = 1, .to = 2, .hops = 1, .node = 0xff,
			       .slot = 7, .shape = 5, .code = -5, .join = 6, .order = 7,
			       .extent = 8, .crc = 9, .number = 10, .nodes = UINT64_C(1) << 63};

	if (type == FM_RUN_JOIN || type == FM_RUN_PULSE)
		m.state = (struct fm_run_state){.place = FM_RUN_SINK, .can_read = true,
						.uploads = 16, .code = -28, .order = 3,
						.have_count = 4, .up = 5, .wanted = 6,
						.lease_count = 2, .lease = {{1, false}, {2, true}},
						.coming_count = 1, .coming = {{3, 4}}};
	if (type == FM_RUN_PAGE_OF) {
		m.page = (struct fm_run_page){.first = 256, .is_last = true, .bits = {0x81}};
		m.page.crc[0] = 11;
		m.page.crc[7] = 12;
	}
	return m;
}

static void test_each_type(void)
{
	for (unsigned type = 0; type < FM_RUN_MSG_TYPES; type++) {
		struct fm_run_msg m = make(type), got;
		size_t len = fm_run_encode(&m, buf);

		CU_ASSERT_EQUAL(fm_run_decode(buf, len, &got), 0);
		CU_ASSERT_EQUAL(memcmp(&m, &got, sizeof(m)), 0);
		for (size_t cut = 0; cut < len; cut++)
			CU_ASSERT_EQUAL(fm_run_decode(buf, cut, &got), -EBADMSG);
		buf[len] = 0;
		CU_ASSERT_EQUAL(fm_run_decode(buf, len + 1, &got), -EBADMSG);
	}
}

static void test_golden(void)
{
	static const uint8_t want[] = {FM_RUN_HAVE, 1, 2, 1, 0xff, 7, 5, 0, 0xfb, 0xff, 0xff, 0xff,
				       6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0,
				       0, 0, 0, 0, 0, 0, 0, 0x80};
	struct fm_run_msg m = make(FM_RUN_HAVE);

	CU_ASSERT_EQUAL_FATAL(fm_run_encode(&m, buf), sizeof(want));
	CU_ASSERT_EQUAL(memcmp(buf, want, sizeof(want)), 0);
}

/* The largest page is what the buffer was made for. */
static void test_full_page(void)
{
	struct fm_run_msg m = make(FM_RUN_PAGE_OF);

	memset(m.page.bits, 0xff, sizeof(m.page.bits));
	CU_ASSERT_EQUAL(fm_run_encode(&m, buf), FM_RUN_BYTES_MAX);
}

static void refused(unsigned type, size_t at, uint8_t value)
{
	struct fm_run_msg m = make(type), got;
	size_t len = fm_run_encode(&m, buf);

	CU_ASSERT_TRUE_FATAL(at < len && buf[at] != value);
	buf[at] = value;
	CU_ASSERT_EQUAL(fm_run_decode(buf, len, &got), -EBADMSG);
}

static void test_ranges(void)
{
	refused(FM_RUN_HAVE, 0, FM_RUN_MSG_TYPES);
	refused(FM_RUN_HAVE, 1, FM_RUN_NODES_MAX);
	refused(FM_RUN_HAVE, 2, FM_RUN_NODES_MAX);
	refused(FM_RUN_HAVE, 3, 2);		/* nodes between */
	refused(FM_RUN_HAVE, 5, FM_RUN_SLOTS);
	refused(FM_RUN_HAVE, 7, 1);		/* zero */
	refused(FM_RUN_PULSE, 40, FM_RUN_PLACES);
	refused(FM_RUN_PULSE, 41, 2);		/* can_read */
	refused(FM_RUN_PULSE, 42, 0);		/* uploads */
	refused(FM_RUN_PULSE, 42, FM_RUN_UPLOADS_MAX + 1);
	refused(FM_RUN_PULSE, 71, FM_RUN_LEASES + 1);
	refused(FM_RUN_PULSE, 76, 2);		/* is_revoked */
	refused(FM_RUN_PULSE, 82, FM_RUN_SLOTS + 1);
	refused(FM_RUN_PAGE_OF, 40, 1);		/* no multiple of a page */
	refused(FM_RUN_PAGE_OF, 44, 2);		/* is_last */
}

static const struct fm_test tests[] = {
	{"each type there and back", test_each_type},
	{"golden bytes", test_golden},
	{"a full page", test_full_page},
	{"what cannot be is refused", test_ranges},
};

FM_TEST_MAIN("run_encode", tests)
