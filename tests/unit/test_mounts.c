/* SPDX-License-Identifier: MIT */
/*
 * The table of mounts, from texts. links: fm_nvmetcp
 */
#include "tests/unit/sysfs_tree.h"

#include <stdlib.h>
#include <sys/sysmacros.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "nvmetcp/mounts.h"

#define ROOT_LINE "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"

static struct fm_err err;

static int parse_code(const char *text, struct fm_mounts *out)
{
	fm_err_clear(&err);
	return fm_mounts_parse(text, strlen(text), out, &err);
}

static struct fm_mounts parsed(const char *text)
{
	struct fm_mounts mounts;

	CU_ASSERT_EQUAL_FATAL(parse_code(text, &mounts), 0);
	return mounts;
}

/* The source of what is seen at the point, or "". */
static const char *source_at(const struct fm_mounts *mounts, const char *point)
{
	const struct fm_mount *m = fm_mounts_at(mounts, point);

	return m ? m->source : "";
}

static void test_fields(void)
{
	struct fm_mounts mounts = parsed(
		ROOT_LINE
		"23 22 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 master:2 "
		"propagate_from:3 - sysfs sysfs rw\n"
		"24 22 259:1 /sub\\040dir /srv/a\\040b\\011c\\012d\\134e ro,noatime - ext4 "
		"/dev/nvme1n1\\043x rw,noload\n"
		/* no newline */
		"25 22 259:1048575 / /srv/x rw unbindable - fuse.sshfs host:/a ro,user_id=0");
	const struct fm_mount *m = mounts.mounts;

	CU_ASSERT_EQUAL_FATAL(mounts.count, 4);
	CU_ASSERT_EQUAL(m[0].id, 22);
	CU_ASSERT_EQUAL(m[0].parent, 1);
	CU_ASSERT_EQUAL(m[0].dev, makedev(8, 1));
	CU_ASSERT_STRING_EQUAL(m[0].options, "rw,relatime,rw,errors=remount-ro");
	CU_ASSERT_FALSE(m[0].is_read_only);	/* "remount-ro" is another word */
	CU_ASSERT_STRING_EQUAL(m[1].fs_type, "sysfs");
	CU_ASSERT_STRING_EQUAL(m[2].root, "/sub dir");
	CU_ASSERT_STRING_EQUAL(m[2].point, "/srv/a b\tc\nd\\e");
	CU_ASSERT_STRING_EQUAL(m[2].source, "/dev/nvme1n1#x");
	CU_ASSERT_STRING_EQUAL(m[2].options, "ro,noatime,rw,noload");
	CU_ASSERT_TRUE(m[2].is_read_only);
	CU_ASSERT_EQUAL(m[3].dev, makedev(259, 1048575));
	CU_ASSERT_STRING_EQUAL(m[3].fs_type, "fuse.sshfs");
	CU_ASSERT_TRUE(m[3].is_read_only);
	fm_mounts_free(&mounts);
	CU_ASSERT_EQUAL(mounts.count, 0);
	fm_mounts_free(&mounts);
}

/* mount -t tmpfs "" /x: two blanks, an empty word. */
static void test_empty_source(void)
{
	struct fm_mounts mounts = parsed(ROOT_LINE "30 22 0:40 / /x rw - tmpfs  rw,size=1k\n");

	CU_ASSERT_STRING_EQUAL(mounts.mounts[1].source, "");
	CU_ASSERT_STRING_EQUAL(mounts.mounts[1].options, "rw,rw,size=1k");
	fm_mounts_free(&mounts);
	mounts = parsed("");
	CU_ASSERT_EQUAL(mounts.count, 0);
	CU_ASSERT_PTR_NULL(fm_mounts_at(&mounts, "/"));
	CU_ASSERT_PTR_NULL(fm_mounts_of(&mounts, makedev(8, 1), NULL));
	fm_mounts_free(&mounts);
}

/* A backslash that begins no escape, or one for a NUL, stays what it is. */
static void test_escapes(void)
{
	struct fm_mounts mounts =
		parsed("30 22 0:40 / /a\\b\\04\\048\\000\\777\\1 rw - tmpfs \\134040 rw\n");

	CU_ASSERT_STRING_EQUAL(mounts.mounts[0].point, "/a\\b\\04\\048\\000\\777\\1");
	CU_ASSERT_STRING_EQUAL(mounts.mounts[0].source, "\\040");
	fm_mounts_free(&mounts);
}

static void test_bad(void)
{
	static const char *const bad[] = {
		"\n",
		"x\n",
		"22",
		"22 1",
		"22 1 8:1 / / rw\n",
		"22 1 8:1 / / rw shared:1\n",
		"22 1 8:1 / / rw - \n",
		"22 1 8:1 / / rw - ext4\n",
		"22 1 8:1 / / rw - ext4 /dev/sda1\n",
		"22 1 8:1 / / rw - ext4 /dev/sda1 rw x\n",
		"x 1 8:1 / / rw - ext4 s rw\n",
		"22 -1 8:1 / / rw - ext4 s rw\n",
		"22 1 8 / / rw - ext4 s rw\n",
		"22 1 8: / / rw - ext4 s rw\n",
		"22 1 8:1: / / rw - ext4 s rw\n",
		"22 1 :1 / / rw - ext4 s rw\n",
		"22 1 8:1 /  rw - ext4 s rw\n",
		"22 1 8:1 / rel rw - ext4 s rw\n",
		"22 1 8:1 / / rw -  s rw\n",
		"22 99999999999999999999 8:1 / / rw - ext4 s rw\n",
		" 22 1 8:1 / / rw - ext4 s rw\n",
	};
	struct fm_mounts mounts;
	char text[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(parse_code(bad[i], &mounts), -EINVAL);
		CU_ASSERT_PTR_NULL(mounts.mounts);
		CU_ASSERT_EQUAL(mounts.count, 0);
		snprintf(text, sizeof(text), ROOT_LINE "%s", bad[i]);
		CU_ASSERT_EQUAL(parse_code(text, &mounts), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "line 2"));
	}
	CU_ASSERT_EQUAL(fm_mounts_parse("22 1 8:1 / /\0 rw - ext4 s rw\n", 29, &mounts, &err),
			-EINVAL);
}

/* An overlay's options have no limit but a page per mount; a point can be PATH_MAX bytes, each
 * escaped. */
static void test_long_lines(void)
{
	size_t room = 1u << 20, len;
	char *text = malloc(room);
	struct fm_mounts mounts;

	len = (size_t)snprintf(text, room, ROOT_LINE "23 22 0:9 / /");
	for (int i = 0; i < 4095; i++)
		len += (size_t)snprintf(text + len, room - len, "\\040");
	len += (size_t)snprintf(text + len, room - len, " rw - overlay overlay rw,lowerdir=");
	memset(text + len, 'x', room - len - 1);
	memcpy(text + room - 6, ",ro\n", 5);
	mounts = parsed(text);
	CU_ASSERT_EQUAL(mounts.count, 2);
	CU_ASSERT_EQUAL(strlen(mounts.mounts[1].point), 4096);
	CU_ASSERT_TRUE(strlen(mounts.mounts[1].options) > room - 20000);
	CU_ASSERT_TRUE(mounts.mounts[1].is_read_only);
	fm_mounts_free(&mounts);
	free(text);
}

static void test_limits(void)
{
	static const char line[] = "30 22 0:40 / /x rw - tmpfs x rw\n";
	size_t size = sizeof(line) - 1, len = size * (FM_MOUNTS_MAX + 1);
	char *text = malloc(FM_MOUNTS_BYTES_MAX + 1);
	struct fm_mounts mounts;

	for (size_t i = 0; i <= FM_MOUNTS_MAX; i++)
		memcpy(text + i * size, line, size);
	CU_ASSERT_EQUAL(fm_mounts_parse(text, len - size, &mounts, &err), 0);
	CU_ASSERT_EQUAL(mounts.count, FM_MOUNTS_MAX);
	fm_mounts_free(&mounts);
	CU_ASSERT_EQUAL(fm_mounts_parse(text, len, &mounts, &err), -E2BIG);
	memset(text, 'x', FM_MOUNTS_BYTES_MAX + 1);
	CU_ASSERT_EQUAL(fm_mounts_parse(text, FM_MOUNTS_BYTES_MAX + 1, &mounts, &err), -E2BIG);
	free(text);
}

static void test_stacked(void)
{
	struct fm_mounts mounts = parsed(ROOT_LINE "30 22 0:40 / /mnt rw - tmpfs first rw\n"
						   "31 30 0:41 / /mnt rw - tmpfs second rw\n"
						   "32 22 0:42 / /mnt2 rw - tmpfs other rw\n");

	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/mnt"), "second");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/mnt2"), "other");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/"), "/dev/sda1");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/mnt/x"), "");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/mn"), "");
	fm_mounts_free(&mounts);
}

/* mount --beneath (6.5): later in the table, and not on top. */
static void test_beneath(void)
{
	struct fm_mounts mounts = parsed(ROOT_LINE "30 32 0:40 / /mnt rw - tmpfs top rw\n"
						   "32 22 0:42 / /mnt rw - tmpfs beneath rw\n");

	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/mnt"), "top");
	fm_mounts_free(&mounts);
}

/* What lies below a directory that was mounted over is mounted still, but nobody sees it. */
static void test_hidden(void)
{
	struct fm_mounts mounts = parsed(ROOT_LINE "30 22 0:40 / /srv/data rw - tmpfs hidden rw\n"
						   "31 22 0:41 / /srv rw - tmpfs cover rw\n");
	const struct fm_mount *m;

	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/srv"), "cover");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/srv/data"), "");
	m = fm_mounts_of(&mounts, makedev(0, 40), NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	CU_ASSERT_STRING_EQUAL(m->source, "hidden");
	fm_mounts_free(&mounts);
	mounts = parsed(ROOT_LINE "30 22 0:40 / /srv/data rw - tmpfs hidden rw\n"
				  "31 22 0:41 / /srv rw - tmpfs cover rw\n"
				  "32 31 0:43 / /srv/data rw - tmpfs seen rw\n");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/srv/data"), "seen");
	fm_mounts_free(&mounts);
}

/* In a chroot the mount at "/" may not be listed, and parents are none of the table's. */
static void test_chroot(void)
{
	struct fm_mounts mounts =
		parsed("40 35 0:40 / /proc rw - proc proc rw\n41 35 0:41 / /srv rw - tmpfs srv rw\n"
		       "42 41 0:42 / /srv/a rw - tmpfs a rw\n");

	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/proc"), "proc");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/srv/a"), "a");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/"), "");
	fm_mounts_free(&mounts);
}

static void test_circle(void)
{
	struct fm_mounts mounts =
		parsed("22 1 8:1 / / rw - ext4 root rw\n22 22 8:1 / / rw - ext4 again rw\n"
		       "1 22 8:1 / / rw - ext4 first rw\n");

	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/"), "");
	fm_mounts_free(&mounts);
	/* its own parent, as old kernels have it */
	mounts = parsed("1 1 0:2 / / rw - rootfs own rw\n");
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/"), "own");
	fm_mounts_free(&mounts);
}

/* btrfs has a number of its own, and says its device; FUSE says what any user likes. */
static void test_device(void)
{
	struct fm_mounts mounts =
		parsed(ROOT_LINE "30 22 259:1 / /a rw - ext4 /dev/disk/by-label/x rw\n"
				 "31 22 0:41 /@ /b rw - btrfs /dev/nvme1n1 rw\n"
				 "32 22 0:42 / /c rw - fuse.x /dev/nvme1n1 rw\n"
				 "33 22 0:43 / /d rw - fuse /dev/nvme1n1 rw\n"
				 "34 22 259:2 / /e rw - fuseblk /dev/nvme1n1 rw\n"
				 "35 22 0:44 / /f rw - btrfs /dev/nvme1n12 rw\n");
	static const bool is[] = { false, true, true, false, false, false, false };

	CU_ASSERT_STRING_EQUAL(fm_mount_device(&mounts.mounts[2]), "nvme1n1");
	CU_ASSERT_STRING_EQUAL(fm_mount_device(&mounts.mounts[3]), "");
	CU_ASSERT_STRING_EQUAL(fm_mount_device(&mounts.mounts[4]), "");
	CU_ASSERT_STRING_EQUAL(fm_mount_device(&mounts.mounts[5]), "nvme1n1");
	for (size_t i = 0; i < mounts.count; i++)
		CU_ASSERT_EQUAL(fm_mount_is_of(&mounts.mounts[i], makedev(259, 1), "nvme1n1"),
				is[i]);
	CU_ASSERT_FALSE(fm_mount_is_of(&mounts.mounts[2], 0, ""));
	fm_mounts_free(&mounts);
}

/* A volume that is bound to further places is mounted there as well. */
static void test_bind(void)
{
	struct fm_mounts mounts =
		parsed(ROOT_LINE "30 22 259:1 / /srv/data rw - ext4 /dev/nvme1n1 rw\n"
				 "31 22 0:41 / /tmp rw - tmpfs tmp rw\n"
				 "32 22 259:1 /sub /home/x ro - ext4 "
				 "/dev/nvme1n1 rw\n");
	const struct fm_mount *m = fm_mounts_of(&mounts, makedev(259, 1), NULL);

	CU_ASSERT_PTR_EQUAL(m, &mounts.mounts[1]);
	CU_ASSERT_STRING_EQUAL(m->root, "/");
	m = fm_mounts_of(&mounts, makedev(259, 1), m);
	CU_ASSERT_PTR_EQUAL(m, &mounts.mounts[3]);
	CU_ASSERT_STRING_EQUAL(m->root, "/sub");
	CU_ASSERT_TRUE(m->is_read_only);
	CU_ASSERT_PTR_NULL(fm_mounts_of(&mounts, makedev(259, 1), m));
	CU_ASSERT_PTR_NULL(fm_mounts_of(&mounts, makedev(259, 9), NULL));
	fm_mounts_free(&mounts);
}

static void test_file(void)
{
	struct fm_mounts mounts;
	char line[64];
	char *text;
	size_t len = 0;

	tree_make();
	CU_ASSERT_EQUAL(fm_mounts_read(tree_root, &mounts, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "mountinfo"));
	tree_attr("proc/self", "mountinfo", "what?");
	CU_ASSERT_EQUAL(fm_mounts_read(tree_root, &mounts, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "mountinfo: line 1"));
	text = malloc(1u << 20);	/* more than is read at once */
	for (int i = 0; i < 8000; i++) {
		snprintf(line, sizeof(line), "%d 1 0:40 / /x%d rw - tmpfs x%d rw\n", i + 2, i, i);
		memcpy(text + len, line, strlen(line));
		len += strlen(line);
	}
	tree_put_bytes("proc/self/mountinfo", text, len);
	CU_ASSERT_EQUAL_FATAL(fm_mounts_read(tree_root, &mounts, &err), 0);
	CU_ASSERT_EQUAL(mounts.count, 8000);
	CU_ASSERT_STRING_EQUAL(source_at(&mounts, "/x7999"), "x7999");
	fm_mounts_free(&mounts);
	free(text);
	tree_free();
}

static bool fail_read(unsigned n)
{
	struct fm_mounts mounts;
	bool has_fired;
	int ret;

	fm_err_clear(&err);
	fm_fault_arm(NULL, n);
	ret = fm_mounts_read(tree_root, &mounts, &err);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	if (ret < 0) {
		CU_ASSERT_EQUAL(ret, err.code);
		CU_ASSERT_TRUE(strlen(err.text) > 10);
		CU_ASSERT_PTR_NULL(mounts.mounts);
		CU_ASSERT_EQUAL(mounts.count, 0);
	} else {
		CU_ASSERT_EQUAL(mounts.count, 1);
	}
	fm_mounts_free(&mounts);
	return has_fired;
}

static void test_each_failure(void)
{
	unsigned n = 1;

	tree_make();
	tree_put_bytes("proc/self/mountinfo", ROOT_LINE, sizeof(ROOT_LINE) - 1);
	while (n < 100 && fail_read(n))
		n++;
#ifdef FM_FAULTS
	CU_ASSERT_TRUE(n > 3);
#endif
	CU_ASSERT_TRUE(n < 100);
	tree_free();
}

static const struct fm_test tests[] = {
	{ "every field", test_fields },
	{ "a source may be empty, and so may the table", test_empty_source },
	{ "what is no escape stays as it is", test_escapes },
	{ "what is no table is refused with its line", test_bad },
	{ "very long lines", test_long_lines },
	{ "limits", test_limits },
	{ "of two at one point the upper one is seen", test_stacked },
	{ "one that was put beneath another is not seen", test_beneath },
	{ "one below a directory that was covered is not seen", test_hidden },
	{ "without a mount at the root", test_chroot },
	{ "mounts in a circle are none", test_circle },
	{ "which device it is of", test_device },
	{ "all places of a device", test_bind },
	{ "read from a file, however long", test_file },
	{ "whatever fails is one error", test_each_failure },
};

FM_TEST_MAIN("mounts", tests)
