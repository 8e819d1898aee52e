/* SPDX-License-Identifier: MIT */
/* The kernel's table of mounts: its lines, and reading it. links: fm_base */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mover/base/mountinfo.h"
#include "tests/fm_test.h"

static struct fm_mountinfo is;
static struct fm_mountinfo_more more;
static char text_of[256];

static const char *word(struct fm_mountinfo_word of)
{
	CU_ASSERT_TRUE_FATAL(fm_mountinfo_string(of, text_of, sizeof(text_of)));
	return text_of;
}

static bool parse(const char *line)
{
	return fm_mountinfo_parse(line, strlen(line), &is);
}

static void test_line(void)
{
	CU_ASSERT_TRUE_FATAL(parse("36 35 259:3 /sub /mnt/a\\040b rw,noatime master:1 shared:2 - "
				   "ext4 /dev/nvme0n1p1 rw,errors=continue"));
	CU_ASSERT_EQUAL(is.id, 36);
	CU_ASSERT_EQUAL(is.parent, 35);
	CU_ASSERT_EQUAL(is.device, makedev(259, 3));
	CU_ASSERT_STRING_EQUAL(word(is.root), "/sub");
	CU_ASSERT_STRING_EQUAL(word(is.point), "/mnt/a b");
	CU_ASSERT_TRUE_FATAL(fm_mountinfo_more(&is, &more));
	CU_ASSERT_STRING_EQUAL(word(more.options), "rw,noatime");
	CU_ASSERT_STRING_EQUAL(word(more.type), "ext4");
	CU_ASSERT_STRING_EQUAL(word(more.source), "/dev/nvme0n1p1");
	CU_ASSERT_STRING_EQUAL(word(more.fs_options), "rw,errors=continue");
}

/* What users may name a directory or a file system, and what 9p writes of itself. */
static void test_nasty_lines(void)
{
	/* a name as the rest of a line, and as a line of its own */
	CU_ASSERT_TRUE_FATAL(parse("36 35 0:9 / /a\\040-\\040ext4\\040/dev/sda rw - tmpfs x rw"));
	CU_ASSERT_STRING_EQUAL(word(is.point), "/a - ext4 /dev/sda");
	CU_ASSERT_TRUE(fm_mountinfo_more(&is, &more));
	CU_ASSERT_STRING_EQUAL(word(more.type), "tmpfs");
	CU_ASSERT_TRUE_FATAL(parse("36 35 0:9 /r\\012 /a\\01222\\0401\\0408:1 rw - tmpfs  rw"));
	CU_ASSERT_STRING_EQUAL(word(is.root), "/r\n");
	CU_ASSERT_STRING_EQUAL(word(is.point), "/a\n22 1 8:1");
	CU_ASSERT_TRUE(fm_mountinfo_more(&is, &more));
	CU_ASSERT_EQUAL(more.source.len, 0);
	CU_ASSERT_TRUE_FATAL(parse("36 35 0:9 / /d/\\134040\\043\\011 rw - 9p C: "
				   "a;path=C:\\P F\\"));
	CU_ASSERT_STRING_EQUAL(word(is.point), "/d/\\040#\t");
	CU_ASSERT_TRUE(fm_mountinfo_more(&is, &more));
	CU_ASSERT_STRING_EQUAL(word(more.fs_options), "a;path=C:\\P F\\");
	/* no escapes */
	CU_ASSERT_TRUE_FATAL(parse("36 35 0:9 / /\\000\\777\\08\\1 rw - x x x"));
	CU_ASSERT_STRING_EQUAL(word(is.point), "/\\000\\777\\08\\1");
}

static void test_no_lines(void)
{
	static const char *const bad[] = {
		"",			    "x",
		"22 1 8:1 / /",		    "22 1 8:1 / rel rw",
		"22 1 8:1 /  rw",	    "22 -1 8:1 / / rw",
		"22 1 8 / / rw",	    "22 1 8:1: / / rw",
		"22 99999999999 8:1 / / r", " 22 1 8:1 / / rw",
		"2147483648 1 8:1 / / rw",  "22\t1 8:1 / / rw",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_FALSE(parse(bad[i]));
	CU_ASSERT_FALSE(fm_mountinfo_parse("22 1 8:1 / /\0 rw", 16, &is));
	CU_ASSERT_TRUE_FATAL(parse("22 1 8:1 / / rw shared:1"));	/* as far as it is needed */
	CU_ASSERT_FALSE(fm_mountinfo_more(&is, &more));
	CU_ASSERT_TRUE_FATAL(parse("22 1 8:1 / / rw - ext4 x"));
	CU_ASSERT_FALSE(fm_mountinfo_more(&is, &more));
	CU_ASSERT_TRUE_FATAL(parse("22 1 8:1 / / rw -  x rw"));
	CU_ASSERT_FALSE(fm_mountinfo_more(&is, &more));
}

static void test_all_lines(void)
{
	static const char text[] = "22 1 8:1 / / rw - x x x\nno line\n\n23 22 8:2 / /a rw - x x x\n"
				   "24 22 8:3 / /no/newline rw";
	const char *at = text, *end = text + strlen(text);

	CU_ASSERT_TRUE(fm_mountinfo_next(&at, end, &is) && is.id == 22);
	CU_ASSERT_TRUE(fm_mountinfo_next(&at, end, &is) && is.id == 23);
	CU_ASSERT_TRUE(fm_mountinfo_next(&at, end, &is) && is.id == 24);
	CU_ASSERT_FALSE(fm_mountinfo_next(&at, end, &is));
	CU_ASSERT_FALSE(fm_mountinfo_next(&at, end, &is));
}

static void test_room(void)
{
	struct fm_mountinfo_word of = { "/a\\040b", 7 };
	char out[5] = "";

	CU_ASSERT_FALSE(fm_mountinfo_string(of, out, 0));
	CU_ASSERT_FALSE(fm_mountinfo_string(of, out, 4));
	CU_ASSERT_TRUE(fm_mountinfo_string(of, out, 5));
	CU_ASSERT_STRING_EQUAL(out, "/a b");
}

/* ---- reading ---- */

static char file[] = "/tmp/fm-mountinfo.XXXXXX";

/* A file of a few lines, then as long as that, with zeros. */
static void make(off_t len)
{
	static const char text[] = "22 1 8:1 / / rw - x x x\n";
	int fd;

	(void)strcpy(file + strlen(file) - 6, "XXXXXX");
	fd = mkstemp(file);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(write(fd, text, sizeof(text) - 1), (ssize_t)sizeof(text) - 1);
	if (len > 0)
		CU_ASSERT_EQUAL(ftruncate(fd, len), 0);
	close(fd);
}

static int read_code(const char *path, size_t *len)
{
	char *text;
	int ret = fm_mountinfo_read(path, &text, len);

	free(text);
	return ret;
}

static void test_limit(void)
{
	size_t len;

	make(FM_MOUNTINFO_BYTES_MAX);
	CU_ASSERT_EQUAL(read_code(file, &len), 0);
	CU_ASSERT_EQUAL(len, FM_MOUNTINFO_BYTES_MAX);
	CU_ASSERT_EQUAL(truncate(file, FM_MOUNTINFO_BYTES_MAX + 1), 0);
	CU_ASSERT_EQUAL(read_code(file, &len), -E2BIG);
	CU_ASSERT_EQUAL(unlink(file), 0);
	CU_ASSERT_EQUAL(read_code(file, &len), -ENOENT);
	CU_ASSERT_EQUAL(read_code(FM_MOUNTINFO, &len), 0);
	CU_ASSERT_TRUE(len > 0);
}

/* So often something is mounted while it is read. */
static unsigned reads, changes;

static bool has_changed(int fd)
{
	(void)fd;
	return reads++ < changes;
}

static void test_changes(void)
{
	static const char lines[] = "22 1 8:1 / / rw - x x x\n";
	char *text;
	size_t len;
	int fd;

	make(0);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	reads = 0;
	changes = 3;
	CU_ASSERT_EQUAL(fm_mountinfo_read_fd(fd, has_changed, &text, &len), 0);
	CU_ASSERT_EQUAL(reads, 4);
	CU_ASSERT_TRUE(len == strlen(lines) && memcmp(text, lines, len) == 0);
	free(text);
	reads = 0;
	changes = 1000;		/* it ends all the same, with what was read last */
	CU_ASSERT_EQUAL(fm_mountinfo_read_fd(fd, has_changed, &text, &len), -EAGAIN);
	CU_ASSERT_TRUE(reads > 1 && reads < changes);
	CU_ASSERT_TRUE(len == strlen(lines) && memcmp(text, lines, len) == 0);
	free(text);
	close(fd);
	CU_ASSERT_EQUAL(unlink(file), 0);
}

static void test_errors(void)
{
	size_t len;

	CU_ASSERT_EQUAL(read_code("/tmp", &len), -EISDIR);
	CU_ASSERT_EQUAL(read_code("/none/such", &len), -ENOENT);
}

static const struct fm_test tests[] = {
	{ "a line", test_line },
	{ "lines with anything in them", test_nasty_lines },
	{ "what is no line", test_no_lines },
	{ "line by line", test_all_lines },
	{ "no more than there is room for", test_room },
	{ "no more than is allowed", test_limit },
	{ "as it was at one moment", test_changes },
	{ "what cannot be read", test_errors },
};

FM_TEST_MAIN("mountinfo", tests)
