/* SPDX-License-Identifier: MIT */
/* links: fm_staging */
/*
 * test_cache_format - the files of a cache are what fmove-cache(5) says, and nothing else is one.
 *
 * The page is read: each of its rows (offset, length, field) must have an expected value here,
 * which must stand at that offset of what is written, and the rows must leave no byte of a file
 * out.
 */
#include <errno.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "staging/cache_format.h"
#include "tests/fm_test.h"

#define PAGE	 FM_SOURCE_DIR "/staging/fmove-cache.5"
#define FILE_MAX 6000
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char source[] = "rosa:data/imagenet";

static struct fm_cache_dataset dataset(void)
{
	struct fm_cache_dataset d = {.id = 0x0102030405060708,
				     .base = 0x1112131415161718,
				     .bytes = 0x2122232425262728,
				     .shared = 0x0132333435363738,
				     .files = 0x41424344,
				     .created_ns = 0x5152535455565758,
				     .extents = 0x61263,
				     .cost = 0x71727374,
				     .name = "imagenet",
				     .source = source};

	memset(d.listing.bytes, 0xaa, sizeof(d.listing.bytes));
	memset(d.version.bytes, 0xbb, sizeof(d.version.bytes));
	return d;
}

static const struct fm_cache_use use = {
	.id = 0x0102030405060708,
	.requested = {0x11, 0x12},
	.used = {0x21, 0x22},
	.verified = {0x31, 0x32},
	.boot = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
	.pin_count = 1,
	.pins = {0x01020304},
	.far_count = 2,
	.far = {{1000, "n2"}, {1001, "rosa"}},
};

static const struct fm_cache_hold_record hold = {
	.id = 0x0102030405060708,
	.number = 0x21,
	.uid = 1000,
	.since_ns = 0x31,
	.process = {.pid = 4711, .start = 0x41, .boot = {16, 15, 14}},
};

static const struct fm_cache_hold_record node_hold = {
	.id = 0x0102030405060708,
	.number = 0x22,
	.uid = 1000,
	.since_ns = 0x31,
	.node = "rosa",
	.theirs = 0x0102030405060708,
};

#define AA_8   0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa
#define ALL_AA AA_8, AA_8, AA_8, AA_8

static const struct fm_cache_afar_record afar = {
	.number = 0x23,
	.uid = 1000,
	.process = {.pid = 4711, .start = 0x41, .boot = {16, 15, 14}},
	.listing = {.bytes = {ALL_AA}},
	.count = 2,
	.node = {"n2", "rosa"},
};

static const uint8_t bits[] = {0xff, 0x01};

#define HOLD	  "A hold"
#define NODE_HOLD "A hold for another node"
#define AFAR	  "A hold on other nodes"

/* What the page's rows must be, kind by kind. Bytes are as they lie in the file. */
struct expected {
	const char *section;
	const char *field;
	const char *bytes;
	size_t len;
};

#define B(text) text, sizeof(text) - 1
#define AA8	"\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa"
#define BB8	"\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb"
#define Z7	"\0\0\0\0\0\0\0"

static const struct expected expected[] = {
	{".dataset", "id", B("\x08\x07\x06\x05\x04\x03\x02\x01")},
	{".dataset", "base", B("\x18\x17\x16\x15\x14\x13\x12\x11")},
	{".dataset", "bytes", B("\x28\x27\x26\x25\x24\x23\x22\x21")},
	{".dataset", "shared", B("\x38\x37\x36\x35\x34\x33\x32\x01")},
	{".dataset", "files", B("\x44\x43\x42\x41\0\0\0\0")},
	{".dataset", "created", B("\x58\x57\x56\x55\x54\x53\x52\x51")},
	{".dataset", "extents", B("\x63\x12\x06\0")},
	{".dataset", "cost", B("\x74\x73\x72\x71")},
	{".dataset", "listing", B(AA8 AA8 AA8 AA8)},
	{".dataset", "version", B(BB8 BB8 BB8 BB8)},
	{".dataset", "name_len", B("\x08\0")},
	{".dataset", "source_len", B("\x12\0")},
	{".dataset", "name", B("imagenetrosa:data/imagenet")},
	{".use", "id", B("\x08\x07\x06\x05\x04\x03\x02\x01")},
	{".use", "requested", B("\x11" Z7)},
	{".use", "requested_boot", B("\x12" Z7)},
	{".use", "used", B("\x21" Z7)},
	{".use", "used_boot", B("\x22" Z7)},
	{".use", "verified", B("\x31" Z7)},
	{".use", "verified_boot", B("\x32" Z7)},
	{".use", "boot", B("\1\2\3\4\5\6\7\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10")},
	{".use", "pins", B("\1\0\0\0")},
	{".use", "pin", B("\4\3\2\1")},
	{".use", "others", B("\2\0\0\0")},
	{".use", "other", B("\xe8\3\0\0\2n2\xe9\3\0\0\4rosa")},
	{".extents", "id", B("\x08\x07\x06\x05\x04\x03\x02\x01")},
	{".extents", "extents", B("\x09\0\0\0")},
	{".extents", "zero", B("\0\0\0\0")},
	{".extents", "bits", B("\xff\x01")},
	{HOLD, "id", B("\x08\x07\x06\x05\x04\x03\x02\x01")},
	{HOLD, "number", B("\x21" Z7)},
	{HOLD, "start", B("\x41" Z7)},
	{HOLD, "boot", B("\x10\x0f\x0e" Z7 "\0\0\0\0\0\0")},
	{HOLD, "uid", B("\xe8\x03\0\0")},
	{HOLD, "pid", B("\x67\x12\0\0")},
	{HOLD, "since", B("\x31" Z7)},
	{HOLD, "zero", B("\0\0\0\0")},
	{NODE_HOLD, "id", B("\x08\x07\x06\x05\x04\x03\x02\x01")},
	{NODE_HOLD, "number", B("\x22" Z7)},
	{NODE_HOLD, "theirs", B("\x08\x07\x06\x05\x04\x03\x02\x01")},
	{NODE_HOLD, "since", B("\x31" Z7)},
	{NODE_HOLD, "uid", B("\xe8\x03\0\0")},
	{NODE_HOLD, "node_len", B("\x04\0")},
	{NODE_HOLD, "zero", B("\0\0")},
	{NODE_HOLD, "node", B("rosa")},
	{AFAR, "number", B("\x23" Z7)},
	{AFAR, "start", B("\x41" Z7)},
	{AFAR, "boot", B("\x10\x0f\x0e" Z7 "\0\0\0\0\0\0")},
	{AFAR, "uid", B("\xe8\x03\0\0")},
	{AFAR, "pid", B("\x67\x12\0\0")},
	{AFAR, "listing", B(AA8 AA8 AA8 AA8)},
	{AFAR, "nodes", B("\x02\0")},
	{AFAR, "zero", B("\0\0")},
	{AFAR, "node", B("\x02n2\x04rosa")},
};

/* What is written of the samples. */
static size_t put(const char *section, uint8_t *out)
{
	struct fm_cache_dataset d = dataset();

	if (strcmp(section, "head") == 0)
		return fm_cache_put_head(out, FILE_MAX);
	if (strcmp(section, ".dataset") == 0)
		return fm_cache_put_dataset(&d, out, FILE_MAX);
	if (strcmp(section, ".use") == 0)
		return fm_cache_put_use(&use, out, FILE_MAX);
	if (strcmp(section, ".extents") == 0)
		return fm_cache_put_extents(use.id, 9, bits, out, FILE_MAX);
	if (strcmp(section, AFAR) == 0)
		return fm_cache_put_afar(&afar, out, FILE_MAX);
	return fm_cache_put_hold(strcmp(section, HOLD) == 0 ? &hold : &node_hold, out, FILE_MAX);
}

static const struct expected *expected_of(const char *section, const char *field)
{
	for (size_t i = 0; i < COUNT(expected); i++)
		if (strcmp(expected[i].section, section) == 0 &&
		    strcmp(expected[i].field, field) == 0)
			return &expected[i];
	return NULL;
}

/* One row, where the last one of its section ended; where it ends. 0: it is none. */
static size_t check_row(const char *section, const char *line, size_t at)
{
	uint8_t file[FILE_MAX];
	const struct expected *e;
	unsigned offset, len;
	char field[32];
	int has_len = sscanf(line, " %u %u %31s", &offset, &len, field) == 3;

	if (!has_len && sscanf(line, " %u %31[a-z]", &offset, field) != 2)
		return 0;
	e = expected_of(section, field);
	CU_ASSERT_EQUAL(offset, at);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	CU_ASSERT_TRUE(!has_len || len == e->len);
	CU_ASSERT_TRUE(put(section, file) >= offset + e->len);
	CU_ASSERT_EQUAL(memcmp(file + offset, e->bytes, e->len), 0);
	return offset + e->len;
}

static void test_page(void)
{
	static const char *const sections[] = {".dataset", ".use", ".extents",
					      HOLD,	  NODE_HOLD, AFAR};
	size_t at = 0, rows = 0;
	uint8_t file[FILE_MAX];
	char line[256], section[32] = "";
	FILE *page = fopen(PAGE, "re");

	CU_ASSERT_PTR_NOT_NULL_FATAL(page);
	while (fgets(line, sizeof(line), page)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, ".S", 2) == 0) {
			CU_ASSERT_TRUE(at == 0 || at + FM_CACHE_CRC_LEN == put(section, file));
			at = 0;
			section[0] = '\0';
			for (size_t i = 0; i < COUNT(sections); i++)
				if (strncmp(line, ".SS ", 4) == 0 &&
				    strcmp(line + 4, sections[i]) == 0) {
					snprintf(section, sizeof(section), "%s", sections[i]);
					at = FM_CACHE_FRAME_LEN;
				}
		} else if (section[0] && line[0] == ' ') {
			size_t end = check_row(section, line, at);

			rows += end > 0;
			at = end > 0 ? end : at;
		}
	}
	fclose(page);
	CU_ASSERT_EQUAL(rows, COUNT(expected));
}

/* The frame is as the page says, of all kinds. */
static void test_frame(void)
{
	static const char *const sections[] = {"head",	   ".dataset", ".use",
					      ".extents", HOLD,	       NODE_HOLD,
					      AFAR};

	for (size_t i = 0; i < COUNT(sections); i++) {
		uint8_t file[FILE_MAX];
		size_t len = put(sections[i], file);
		uint32_t crc = fm_crc32c(0, file, len - 4);

		CU_ASSERT_EQUAL(memcmp(file, "FMOVECCH\1\0", 10), 0);
		CU_ASSERT_EQUAL(file[10], i + 1);
		CU_ASSERT_EQUAL(file[11], 0);
		CU_ASSERT_EQUAL(file[12] | (size_t)file[13] << 8 | (size_t)file[14] << 16, len);
		CU_ASSERT_EQUAL(file[len - 4] | (uint32_t)file[len - 3] << 8 |
					(uint32_t)file[len - 2] << 16 |
					(uint32_t)file[len - 1] << 24,
				crc);
	}
}

/* The kind's own get; 0: it took it. */
static int get(size_t kind, const uint8_t *in, size_t len)
{
	struct fm_cache_dataset d = {.source = NULL};
	struct fm_cache_hold_record h;
	struct fm_cache_afar_record a;
	struct fm_cache_use u;
	uint8_t out[2];
	int ret;

	switch (kind) {
	case 0:
		return fm_cache_get_head(in, len);
	case 1:
		ret = fm_cache_get_dataset(in, len, &d);
		free(d.source);
		return ret;
	case 2:
		return fm_cache_get_use(in, len, &u);
	case 3:
		return fm_cache_get_extents(in, len, use.id, 9, out);
	case 6:
		return fm_cache_get_afar(in, len, &a);
	default:
		return fm_cache_get_hold(in, len, &h);
	}
}

/* One call reads both kinds of hold. */
static bool is_read_as(size_t kind, size_t section)
{
	return kind == section || (kind >= 4 && kind <= 5 && section >= 4 && section <= 5);
}

static void test_damage(void)
{
	static const char *const sections[] = {"head",	   ".dataset", ".use",
					      ".extents", HOLD,	       NODE_HOLD,
					      AFAR};

	for (size_t i = 0; i < COUNT(sections); i++) {
		uint8_t file[FILE_MAX];
		size_t len = put(sections[i], file);

		for (size_t kind = 0; kind < COUNT(sections); kind++)
			CU_ASSERT_EQUAL(get(kind, file, len), is_read_as(kind, i) ? 0 : -EBADMSG);
		for (size_t cut = 0; cut < len; cut++)
			CU_ASSERT_EQUAL(get(i, file, cut), -EBADMSG);
		for (size_t at = 0; at < len; at++) {
			file[at] ^= 0x10;
			CU_ASSERT_EQUAL(get(i, file, len), -EBADMSG);
			file[at] ^= 0x10;
		}
	}
}

static void set_crc(uint8_t *file, size_t len)
{
	uint32_t crc = fm_crc32c(0, file, len - 4);

	for (int i = 0; i < 4; i++)
		file[len - 4 + (size_t)i] = (uint8_t)(crc >> 8 * i);
}

/* With the CRC set right, as who edits a file would: value by value. */
static void test_bad_values(void)
{
	static const struct bad {
		size_t kind;
		size_t at;
		uint8_t value;
	} bad[] = {
		{0, 11, 1},    {0, 8, 2},     {1, 39, 0x80}, {1, 47, 0x7f},  {1, 55, 0x10},
		{1, 63, 0x80}, {1, 66, 0x20}, {1, 136, 9},   {1, 136, 0},    {1, 138, 0},
		{1, 140, '.'}, {1, 141, '/'}, {1, 142, 0},   {1, 143, '\n'}, {1, 150, 0},
		{2, 31, 0x80}, {2, 88, 2},    {2, 88, 65},   {2, 89, 1},     {3, 24, 8},
		{3, 28, 1},    {3, 33, 3},    {3, 16, 9},    {4, 63, 0x80},  {4, 71, 0x80},
		{4, 72, 1},    {4, 24, 0},    {5, 47, 0x80}, {5, 52, 3},     {5, 52, 0},
		{5, 53, 1},    {5, 54, 1},    {5, 56, 0},    {5, 57, '\n'},  {5, 24, 0},
		{2, 96, 0},    {2, 96, 1},    {2, 96, 3},    {2, 97, 1},     {2, 104, 0},
		{2, 104, 65},  {2, 105, 0},   {2, 105, '\n'},
		{6, 16, 0},    {6, 55, 0x80}, {6, 88, 0},    {6, 88, 3},     {6, 88, 64},
		{6, 90, 1},    {6, 92, 0},    {6, 92, 65},   {6, 93, 0},     {6, 97, '\n'},
	};
	static const char *const sections[] = {"head",	   ".dataset", ".use",
					      ".extents", HOLD,	       NODE_HOLD,
					      AFAR};

	for (size_t i = 0; i < COUNT(bad); i++) {
		uint8_t file[FILE_MAX];
		size_t len = put(sections[bad[i].kind], file);

		file[bad[i].at] = bad[i].value;
		set_crc(file, len);
		CU_ASSERT_EQUAL(get(bad[i].kind, file, len), -EBADMSG);
	}
}

static void test_there_and_back(void)
{
	struct fm_cache_dataset d = dataset(), back;
	struct fm_cache_hold_record h;
	struct fm_cache_afar_record a;
	struct fm_cache_use u;
	uint8_t file[FILE_MAX], out[2] = {0};
	size_t len = put(".dataset", file);

	CU_ASSERT_EQUAL_FATAL(fm_cache_get_dataset(file, len, &back), 0);
	CU_ASSERT_TRUE(back.id == d.id && back.base == d.base && back.bytes == d.bytes &&
		       back.shared == d.shared);
	CU_ASSERT_TRUE(back.files == d.files && back.created_ns == d.created_ns &&
		       back.extents == d.extents);
	CU_ASSERT_TRUE(back.cost == d.cost &&
		       memcmp(&back.listing, &d.listing, sizeof(d.listing)) == 0);
	CU_ASSERT_EQUAL(memcmp(&back.version, &d.version, sizeof(d.version)), 0);
	CU_ASSERT_STRING_EQUAL(back.name, d.name);
	CU_ASSERT_STRING_EQUAL(back.source, d.source);
	free(back.source);
	CU_ASSERT_EQUAL_FATAL(fm_cache_get_use(file, put(".use", file), &u), 0);
	CU_ASSERT_TRUE(u.used.wall_ns == 0x21 && u.verified.boot_ns == 0x32 &&
		       u.pins[0] == 0x01020304);
	CU_ASSERT_TRUE(u.far_count == 2 && u.far[0].uid == 1000 && u.far[1].uid == 1001);
	CU_ASSERT_STRING_EQUAL(u.far[1].node, "rosa");
	CU_ASSERT_EQUAL_FATAL(fm_cache_get_hold(file, put(HOLD, file), &h), 0);
	CU_ASSERT_TRUE(h.number == 0x21 && h.uid == 1000 && h.process.pid == 4711 &&
		       h.process.start == 0x41);
	CU_ASSERT_EQUAL_FATAL(fm_cache_get_hold(file, put(NODE_HOLD, file), &h), 0);
	CU_ASSERT_TRUE(h.number == 0x22 && h.uid == 1000 && h.theirs == node_hold.theirs);
	CU_ASSERT_STRING_EQUAL(h.node, "rosa");
	CU_ASSERT_EQUAL_FATAL(fm_cache_get_afar(file, put(AFAR, file), &a), 0);
	CU_ASSERT_TRUE(a.number == 0x23 && a.uid == 1000 && a.process.pid == 4711 && a.count == 2);
	CU_ASSERT_STRING_EQUAL(a.node[1], "rosa");
	CU_ASSERT_EQUAL_FATAL(fm_cache_get_extents(file, put(".extents", file), use.id, 9, out), 0);
	CU_ASSERT_EQUAL(memcmp(out, bits, 2), 0);
}

/* The longest of each fits what its buffers are made for. */
static void test_longest(void)
{
	static uint8_t file[FM_CACHE_FILE_MAX], all[FM_CACHE_EXTENTS_MAX / 8],
		back[FM_CACHE_EXTENTS_MAX / 8];
	static char long_source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_cache_dataset d = dataset(), d_back;
	size_t len;

	memset(all, 0xff, sizeof(all));
	len = fm_cache_put_extents(1, FM_CACHE_EXTENTS_MAX, all, file, sizeof(file));
	CU_ASSERT_EQUAL(len, sizeof(file));
	CU_ASSERT_EQUAL(fm_cache_get_extents(file, len, 1, FM_CACHE_EXTENTS_MAX, back), 0);
	CU_ASSERT_EQUAL(memcmp(all, back, sizeof(all)), 0);
	memset(long_source, 's', FM_CACHE_SOURCE_MAX);
	memset(d.name, 'n', FM_CACHE_NAME_MAX);
	d.source = long_source;
	len = fm_cache_put_dataset(&d, file, sizeof(file));
	CU_ASSERT_EQUAL_FATAL(fm_cache_get_dataset(file, len, &d_back), 0);
	CU_ASSERT_STRING_EQUAL(d_back.source, long_source);
	free(d_back.source);
}

static void test_names(void)
{
	static const char *const good[] = {"a", "imagenet-1k", "Meta Llama 3.1", "\xc3\xbc", "a.b"};
	static const char *const bad[] = {"",  ".",   "..",	 ".a",	"a/b",
					  "/", "a\n", "\x1b[0m", "\xff"};
	char longest[FM_CACHE_NAME_MAX + 2];

	for (size_t i = 0; i < COUNT(good); i++)
		CU_ASSERT_TRUE(fm_cache_is_name(good[i]));
	for (size_t i = 0; i < COUNT(bad); i++)
		CU_ASSERT_FALSE(fm_cache_is_name(bad[i]));
	memset(longest, 'x', sizeof(longest));
	longest[FM_CACHE_NAME_MAX] = '\0';
	CU_ASSERT_TRUE(fm_cache_is_name(longest));
	longest[FM_CACHE_NAME_MAX] = 'x';
	longest[FM_CACHE_NAME_MAX + 1] = '\0';
	CU_ASSERT_FALSE(fm_cache_is_name(longest));
}

static void test_keys(void)
{
	const struct fm_cache_key key = {.bytes = {0x01, 0xfe, 0x90}};
	char text[FM_CACHE_HEX_LEN + 1];

	fm_cache_key_print(&key, text);
	CU_ASSERT_EQUAL(strncmp(text, "01fe90000", 9), 0);
	CU_ASSERT_EQUAL(strspn(text, "0123456789abcdef"), FM_CACHE_HEX_LEN);
}

static const struct fm_test tests[] = {
	{"each field is where fmove-cache(5) says, and none is left out", test_page},
	{"each file has the frame", test_frame},
	{"a file that is cut or damaged anywhere is none", test_damage},
	{"a value that cannot be is refused", test_bad_values},
	{"what is written is read", test_there_and_back},
	{"the longest of each fits", test_longest},
	{"a dataset's name is one component that a terminal may see", test_names},
	{"a digest is 64 small digits", test_keys},
};

FM_TEST_MAIN("cache format", tests)
