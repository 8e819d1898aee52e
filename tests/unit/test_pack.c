/* SPDX-License-Identifier: MIT */
/*
 * Packs: what is written is read, and no other byte is taken. links: fm_tree
 */
#include <errno.h>
#include <string.h>

#include "mover/tree/pack.h"
#include "mover/tree/tree.h"
#include "tests/fm_test.h"

#define CAP (256u << 10)

static uint8_t buf[CAP] __attribute__((aligned(8)));
static uint8_t copy[CAP] __attribute__((aligned(8)));

static struct fm_pack_entry file_entry(const char *path, uint32_t data_len)
{
	return (struct fm_pack_entry){
		.type = FM_PACK_FILE,
		.mode = 0640,
		.size = data_len,
		.mtime_ns = -5,
		.uid = 7,
		.gid = 8,
		.data_len = data_len,
		.identity = 9,
		.path = path,
		.path_len = strlen(path),
	};
}

static struct fm_pack_entry entry(enum fm_pack_type type, const char *path, const char *target)
{
	return (struct fm_pack_entry){
		.type = type,
		.path = path,
		.path_len = strlen(path),
		.target = target,
		.target_len = strlen(target),
	};
}

static size_t xattrs_of(uint8_t *at, size_t room)
{
	const struct fm_pack_xattr one = {
		.name = "user.a", .name_len = 6, .value = (const uint8_t *)"xyz", .value_len = 3};
	const struct fm_pack_xattr two = { .name = "user.bbbb", .name_len = 9, .value_len = 0 };
	size_t len = fm_pack_put_xattr(at, room, &one);

	CU_ASSERT_EQUAL(len, 4 + 6 + 3);
	return len + fm_pack_put_xattr(at + len, room - len, &two);
}

/* One of each type; returns the pack's bytes in buf. */
static size_t make_one_of_each(void)
{
	struct fm_pack_writer w;
	struct fm_pack_entry e;
	uint8_t xattrs[64];

	fm_pack_begin(&w, buf, CAP, 0);
	e = entry(FM_PACK_DIR, "", "");
	e.mode = 01755;
	e.mtime_ns = 3;
	fm_pack_add(&w, &e);
	e = file_entry("d/f", 5);
	e.size = 11;
	e.offset = 6;
	e.xattrs = xattrs;
	e.xattr_len = xattrs_of(xattrs, sizeof(xattrs));
	memcpy(fm_pack_add(&w, &e), "hello", 5);
	e = entry(FM_PACK_LINK, "d/l", "../somewhere/else");
	e.mtime_ns = INT64_MIN;
	fm_pack_add(&w, &e);
	e = entry(FM_PACK_HARD, "h", "d/f");
	fm_pack_add(&w, &e);
	e = entry(FM_PACK_ATTR, "big", "");
	e.mode = 0600;
	fm_pack_add(&w, &e);
	e = file_entry("\xff\n", 0);	/* names are bytes */
	fm_pack_add(&w, &e);
	return fm_pack_end(&w);
}

static int read_all(const void *pack, size_t len)
{
	struct fm_pack_reader r;
	struct fm_pack_entry e;
	int ret = fm_pack_open(&r, pack, len);

	if (ret < 0)
		return ret;
	do {
		ret = fm_pack_next(&r, &e);
	} while (ret > 0);
	return ret;
}

static bool is_text(const void *at, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(at, text, len) == 0;
}

static void test_round_trip(void)
{
	struct fm_pack_reader r;
	struct fm_pack_entry e;
	size_t len = make_one_of_each();

	CU_ASSERT_EQUAL(fm_pack_open(&r, buf, len), 0);
	CU_ASSERT_EQUAL(r.count, 6);
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	CU_ASSERT_TRUE(e.type == FM_PACK_DIR && e.path_len == 0 && e.mode == 01755 &&
		       e.mtime_ns == 3);
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	CU_ASSERT_TRUE(e.type == FM_PACK_FILE && e.size == 11 && e.offset == 6 && e.identity == 9 &&
		       e.mtime_ns == -5);
	CU_ASSERT_TRUE(e.uid == 7 && e.gid == 8 && is_text(e.path, e.path_len, "d/f"));
	CU_ASSERT_TRUE(is_text(e.data, e.data_len, "hello"));
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	CU_ASSERT_TRUE(e.type == FM_PACK_LINK && e.mtime_ns == INT64_MIN);
	CU_ASSERT_TRUE(is_text(e.target, e.target_len, "../somewhere/else"));
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	CU_ASSERT_TRUE(e.type == FM_PACK_HARD && is_text(e.path, e.path_len, "h"));
	CU_ASSERT_TRUE(is_text(e.target, e.target_len, "d/f"));
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	CU_ASSERT_TRUE(e.type == FM_PACK_ATTR && e.mode == 0600 &&
		       is_text(e.path, e.path_len, "big"));
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	CU_ASSERT_TRUE(e.type == FM_PACK_FILE && e.size == 0 && e.data_len == 0 &&
		       is_text(e.path, e.path_len, "\xff\n"));
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 0);
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 0);
}

/* Whatever a file system says of its files: an entry that no reader takes is not written. */
static void test_not_added(void)
{
	struct fm_pack_writer w;
	struct fm_pack_entry e = file_entry("f", 0);
	size_t len;

	fm_pack_begin(&w, buf, sizeof(buf), 0);
	CU_ASSERT_PTR_NOT_NULL(fm_pack_add(&w, &e));
	len = w.len;
	e = file_entry("../f", 0);
	CU_ASSERT_PTR_NULL(fm_pack_add(&w, &e));
	e = file_entry("f", 0);
	e.size = UINT64_MAX;
	CU_ASSERT_PTR_NULL(fm_pack_add(&w, &e));
	e = entry(FM_PACK_LINK, "l", "");
	CU_ASSERT_PTR_NULL(fm_pack_add(&w, &e));
	e = file_entry("f", sizeof(buf));
	CU_ASSERT_PTR_NULL(fm_pack_add(&w, &e));
	CU_ASSERT_TRUE(w.len == len && w.count == 1);
	len = fm_pack_end(&w);
	CU_ASSERT_EQUAL(read_all(buf, len), 0);
	CU_ASSERT_TRUE(fm_pack_outline_len(buf, len) > 0);
	CU_ASSERT_EQUAL(fm_pack_outline_len(buf, len - 8), 0);
}

/* The format is for good: these bytes may only change with FM_PACK_VERSION. */
static void test_golden_bytes(void)
{
	static const uint8_t golden[] = {
		'F', 'P', 'A', 'K', 1, 0, 0, 0, 1, 0, 0, 0, 96, 0, 0, 0,
		1, 0, 0, 0, 0xa0, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
		0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 8, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0x44, 0x33, 0x22, 0x11,
		9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
		'd', '/', 'f', 0, 0, 0, 0, 0, 'h', 'e', 'l', 'l', 'o', 0, 0, 0,
	};
	struct fm_pack_entry e = file_entry("d/f", 5);
	struct fm_pack_writer w;
	uint8_t *data;

	memset(buf, 0xee, sizeof(golden));
	fm_pack_begin(&w, buf, CAP, 0);
	data = fm_pack_add(&w, &e);
	memcpy(data, "hello", 5);
	fm_pack_set_crc(data, &e, 0x11223344);
	CU_ASSERT_EQUAL(fm_pack_end(&w), sizeof(golden));
	CU_ASSERT_EQUAL(memcmp(buf, golden, sizeof(golden)), 0);
}

static void test_room_is_exact(void)
{
	for (size_t cap = 128; cap < 400; cap++) {
		struct fm_pack_entry e = file_entry("some/path", 0);
		struct fm_pack_writer w;
		int64_t room;

		memset(buf, 0xee, sizeof(buf));
		fm_pack_begin(&w, buf, cap, 0);
		room = fm_pack_room(&w, e.path_len, 0, 0);
		CU_ASSERT_TRUE(room > 0 && room <= (int64_t)cap);
		e.size = e.data_len = (uint32_t)room;
		memset(fm_pack_add(&w, &e), 'x', e.data_len);
		CU_ASSERT_TRUE(fm_pack_room(&w, 1, 0, 0) < 0);
		CU_ASSERT_EQUAL(fm_pack_end(&w), cap - cap % 8);
		CU_ASSERT_EQUAL(buf[cap], 0xee);
		CU_ASSERT_EQUAL(read_all(buf, cap - cap % 8), 0);
	}
}

static void test_cut_takes_the_last_back(void)
{
	struct fm_pack_entry e = file_entry("a", 1);
	struct fm_pack_writer w;
	size_t before;

	fm_pack_begin(&w, buf, CAP, 0);
	CU_ASSERT_EQUAL(fm_pack_end(&w), 0);
	before = w.len;
	fm_pack_add(&w, &e);
	fm_pack_cut(&w, before);
	CU_ASSERT_EQUAL(fm_pack_end(&w), 0);
	*fm_pack_add(&w, &e) = 'x';
	before = w.len;
	fm_pack_add(&w, &e);
	fm_pack_cut(&w, before);
	CU_ASSERT_EQUAL(fm_pack_end(&w), before);
	CU_ASSERT_EQUAL(read_all(buf, before), 0);
}

static void test_paths(void)
{
	static const char *const good[] = {"a", "a/b", "...",  "a/..b/.c", "\x01",
					   " ", "\\",  "a\nb", "\xc3\x28"};
	static const char *const bad[] = {"",	 "/",	"/a",	 "a/",	 "a//b", ".",	  "..",
					  "./a", "a/.", "a/./b", "../a", "a/..", "a/../b"};
	char path[5000];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CU_ASSERT_TRUE(fm_pack_is_good_path(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_FALSE(fm_pack_is_good_path(bad[i], strlen(bad[i])));
	CU_ASSERT_FALSE(fm_pack_is_good_path("a\0b", 3));
	memset(path, 'x', sizeof(path));
	CU_ASSERT_TRUE(fm_pack_is_good_path(path, 255));
	CU_ASSERT_FALSE(fm_pack_is_good_path(path, 256));
	for (size_t i = 1; i < sizeof(path); i += 2)
		path[i] = '/';
	CU_ASSERT_TRUE(fm_pack_is_good_path(path, 4095));
	CU_ASSERT_FALSE(fm_pack_is_good_path(path, 4097));
}

static void test_xattr_names(void)
{
	static const char *const good[] = {"user.x", "system.posix_acl_access",
					   "system.posix_acl_default", "user.fmov"};
	static const char *const bad[] = {"",
					  "user.",
					  "user",
					  "trusted.",
					  "trusted.SGI_ACL_FILE",
					  "security.selinux",
					  "security.capability",
					  "system.posix_acl_",
					  "system.nfs4_acl",
					  "user.fmove.crc32c",
					  "User.x",
					  "btrfs.compression"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CU_ASSERT_TRUE(fm_pack_is_good_xattr(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_FALSE(fm_pack_is_good_xattr(bad[i], strlen(bad[i])));
	CU_ASSERT_FALSE(fm_pack_is_good_xattr("user.a\0b", 8));
}

static void test_xattrs_are_read_back(void)
{
	uint8_t packed[64];
	struct fm_pack_entry e = {.xattrs = packed, .xattr_len = xattrs_of(packed, sizeof(packed))};
	struct fm_pack_xattr x;
	size_t at = 0;

	CU_ASSERT_EQUAL(fm_pack_next_xattr(&e, &at, &x), 1);
	CU_ASSERT_TRUE(is_text(x.name, x.name_len, "user.a") &&
		       is_text(x.value, x.value_len, "xyz"));
	CU_ASSERT_EQUAL(fm_pack_next_xattr(&e, &at, &x), 1);
	CU_ASSERT_TRUE(is_text(x.name, x.name_len, "user.bbbb") && x.value_len == 0);
	CU_ASSERT_EQUAL(fm_pack_next_xattr(&e, &at, &x), 0);
	CU_ASSERT_EQUAL(at, e.xattr_len);
	e.xattr_len--;
	at = 4 + 6 + 3;
	CU_ASSERT_EQUAL(fm_pack_next_xattr(&e, &at, &x), -EBADMSG);
	x = (struct fm_pack_xattr){ .name = "user.bbbb", .name_len = 9 };
	CU_ASSERT_EQUAL(fm_pack_put_xattr(packed, 4 + 9, &x), 4 + 9);
	CU_ASSERT_EQUAL(fm_pack_put_xattr(packed, 4 + 8, &x), 0);
}

/* Where entry n of the pack in buf begins. */
static size_t entry_at(size_t len, unsigned n)
{
	struct fm_pack_reader r;
	struct fm_pack_entry e;

	CU_ASSERT_EQUAL(fm_pack_open(&r, buf, len), 0);
	for (unsigned i = 0; i < n; i++)
		CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	return r.at;
}

static void test_wrong_fields_are_refused(void)
{
	enum { HEAD = -1, DIR_, FILE_, LINK, HARD, ATTR, EMPTY };
	static const struct {
		int entry;
		size_t at;
		uint8_t value;
	} wrongs[] = {
		{HEAD, 0, 'f'},
		{HEAD, 4, 2},
		{HEAD, 5, 1},
		{HEAD, 6, 2},
		{HEAD, 7, 1},
		{HEAD, 8, 0},
		{HEAD, 8, 5},
		{HEAD, 8, 7},
		{HEAD, 11, 1},
		{HEAD, 12, 1},
		{HEAD, 15, 1},
		{DIR_, 0, 0},
		{DIR_, 0, 6},
		{DIR_, 1, 1},
		{DIR_, 0, FM_PACK_HARD},
		{DIR_, 0, FM_PACK_LINK},
		{DIR_, 0, FM_PACK_ATTR},
		{DIR_, 0, FM_PACK_FILE},
		{DIR_, 2, 1},
		{DIR_, 5, 4},
		{DIR_, 5, 8},
		{DIR_, 7, 1},
		{DIR_, 8, 1},
		{DIR_, 32, 1},
		{DIR_, 40, 1},
		{DIR_, 44, 1},
		{DIR_, 48, 1},
		{DIR_, 58, 1},
		{FILE_, 2, 1},
		{FILE_, 2, 2},
		{FILE_, 2, 8},
		{FILE_, 8, 10},
		{FILE_, 15, 0x80},
		{FILE_, 32, 7},
		{FILE_, 39, 0x80},
		{FILE_, 40, 0},
		{FILE_, 40, 6},
		{FILE_, 43, 1},
		{FILE_, 56, 0},
		{FILE_, 56, 2},
		{FILE_, 57, 0x40},
		{FILE_, 58, 1},
		{FILE_, 60, 3},
		{FILE_, 62, 1},
		{FILE_, 63, 0xff},
		{FILE_, 64, '/'},
		{FILE_, 64, 0},
		{FILE_, 66, '/'},
		{FILE_, 67, 5},
		{FILE_, 69, 200},
		{FILE_, 71, 'U'},
		{FILE_, 72, 0},
		{LINK, 4, 1},
		{LINK, 8, 1},
		{LINK, 40, 1},
		{LINK, 58, 0},
		{LINK, 60, 1},
		{LINK, 67, 0},
		{LINK, 84, 1},
		{HARD, 4, 1},
		{HARD, 16, 1},
		{HARD, 24, 1},
		{HARD, 28, 1},
		{HARD, 48, 1},
		{HARD, 58, 0},
		{HARD, 65, '/'},
		{HARD, 64, '.'},
		{HARD, 71, 1},
		{ATTR, 8, 1},
		{ATTR, 5, 8},
		{ATTR, 48, 1},
		{ATTR, 58, 1},
		{ATTR, 56, 0},
		{EMPTY, 8, 1},
		{EMPTY, 32, 1},
		{EMPTY, 44, 1},
		{EMPTY, 71, 1},
	};
	size_t len = make_one_of_each();

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		size_t at =
			wrongs[i].at +
			(wrongs[i].entry == HEAD ? 0 : entry_at(len, (unsigned)wrongs[i].entry));

		memcpy(copy, buf, len);
		CU_ASSERT_NOT_EQUAL(copy[at], wrongs[i].value);
		copy[at] = wrongs[i].value;
		if (read_all(copy, len) != -EBADMSG)
			printf("taken: entry %d, byte %zu = %u\n", wrongs[i].entry, wrongs[i].at,
			       wrongs[i].value);
		CU_ASSERT_EQUAL(read_all(copy, len), -EBADMSG);
	}
}

static void test_other_lengths_are_refused(void)
{
	size_t len = make_one_of_each();

	memset(buf + len, 0, 64);
	for (size_t n = 0; n < len + 64; n++)
		CU_ASSERT_EQUAL(read_all(buf, n), n == len ? 0 : -EBADMSG);
}

/* A forged bit makes another good entry or is refused; nothing is read outside. */
static void test_each_bit_may_flip(void)
{
	size_t len = make_one_of_each();
	unsigned taken = 0;

	for (size_t bit = 0; bit < len * 8; bit++) {
		uint8_t *tight = malloc(len);
		int ret;

		memcpy(tight, buf, len);
		tight[bit / 8] = (uint8_t)(tight[bit / 8] ^ 1u << bit % 8);
		ret = read_all(tight, len);
		CU_ASSERT_TRUE(ret == 0 || ret == -EBADMSG);
		taken += ret == 0;
		free(tight);
	}
	CU_ASSERT_TRUE(taken > 500 && taken < len * 8 * 3 / 4);
}

static void test_offers(void)
{
	struct fm_pack_entry e = file_entry("big", 0);
	struct fm_pack_writer w;
	size_t len;

	fm_pack_begin(&w, buf, CAP, FM_PACK_OFFER);
	e.size = UINT64_C(1) << 40;
	e.flags = FM_PACK_HAS_CRC | FM_PACK_IS_LARGE;
	e.crc = 5;
	while (fm_pack_room(&w, e.path_len, 0, 0) >= 0)
		fm_pack_add(&w, &e);
	CU_ASSERT_EQUAL(w.count, FM_TREE_OFFERS_MAX);
	len = fm_pack_end(&w);
	CU_ASSERT_EQUAL(read_all(buf, len), 0);
	buf[8]++;	/* one entry more */
	memset(buf + len, 0, 72);
	CU_ASSERT_EQUAL(read_all(buf, len), -EBADMSG);
	buf[8]--;
	buf[6] = 0;	/* no offer */
	CU_ASSERT_EQUAL(read_all(buf, len), -EBADMSG);
	buf[6] = FM_PACK_OFFER;
	buf[16 + 2] = FM_PACK_IS_LARGE;	/* no CRC, but there is one */
	CU_ASSERT_EQUAL(read_all(buf, len), -EBADMSG);
	buf[16 + 2] = FM_PACK_HAS_CRC;
	CU_ASSERT_EQUAL(read_all(buf, len), 0);
	buf[16 + 32] = 1;	/* an offset */
	CU_ASSERT_EQUAL(read_all(buf, len), -EBADMSG);
}

/* Set behind the entry that it is a flag of; an offer has none. */
static void test_corrupt(void)
{
	struct fm_pack_entry e = file_entry("rotten", 9);
	struct fm_pack_writer w;
	struct fm_pack_reader r;
	uint8_t *data;
	size_t len;

	fm_pack_begin(&w, buf, CAP, 0);
	data = fm_pack_add(&w, &e);
	memset(data, 'r', 9);
	fm_pack_set_corrupt(data, &e);
	len = fm_pack_end(&w);
	CU_ASSERT_EQUAL(fm_pack_open(&r, buf, len), 0);
	CU_ASSERT_EQUAL(fm_pack_next(&r, &e), 1);
	CU_ASSERT_EQUAL(e.flags, FM_PACK_IS_CORRUPT);
	buf[16 + 2] |= FM_PACK_IS_LARGE;
	CU_ASSERT_EQUAL(read_all(buf, len), -EBADMSG);
}

static void test_outline(void)
{
	struct fm_pack_reader full, r;
	struct fm_pack_entry a, b;
	size_t len = make_one_of_each(), outline_len = fm_pack_outline_len(buf, len);
	int ret;

	CU_ASSERT_EQUAL(outline_len, len - 8);	/* five bytes of data */
	fm_pack_outline(buf, len, copy, outline_len);
	CU_ASSERT_EQUAL(fm_pack_open_outline(&r, copy, outline_len), 0);
	CU_ASSERT_EQUAL(fm_pack_open(&full, buf, len), 0);
	do {
		ret = fm_pack_next(&full, &a);
		CU_ASSERT_EQUAL(fm_pack_next(&r, &b), ret);
		if (ret <= 0)
			break;
		CU_ASSERT_TRUE(a.type == b.type && a.size == b.size && a.data_len == b.data_len &&
			       a.crc == b.crc && a.offset == b.offset && a.path_len == b.path_len &&
			       memcmp(a.path, b.path, a.path_len) == 0);
		CU_ASSERT_PTR_NULL(b.data);
	} while (true);
}

static const struct fm_test tests[] = {
	{ "an entry that no reader takes is not written", test_not_added },
	{ "what is written is read", test_round_trip },
	{ "the bytes are those of the specification", test_golden_bytes },
	{ "the room it tells is the room there is", test_room_is_exact },
	{ "cut takes the last entry back", test_cut_takes_the_last_back },
	{ "paths stay below the root", test_paths },
	{ "only known attributes travel", test_xattr_names },
	{ "attributes are read back", test_xattrs_are_read_back },
	{ "every wrong field is refused", test_wrong_fields_are_refused },
	{ "every other length is refused", test_other_lengths_are_refused },
	{ "any bit may flip", test_each_bit_may_flip },
	{ "offers hold what offers may hold", test_offers },
	{ "a piece of a file that is corrupt says so", test_corrupt },
	{ "an outline is the pack without its data", test_outline },
};

FM_TEST_MAIN("pack", tests)
