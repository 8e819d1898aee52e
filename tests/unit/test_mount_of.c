/* SPDX-License-Identifier: MIT */
/* Which mount a path is on. links: fm_base */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/mount_of.h"
#include "tests/fm_test.h"

static const char mounts[] = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
			     "30 22 0:40 / /srv/data rw - nfs4 host:/x rw\n"
			     "31 22 0:41 / /srv/data\\040two rw - nfs4 host:/y rw\n"
			     "no mount\n"
			     "33 30 0:42 / /srv/data ro - fuse x rw\n"
			     "34 33 0:43 / /srv/data/in ro - fuse x rw\n";

/* The cache is a mount of its own; then something was mounted above it, and it once more there. */
static const char above[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			    "40 22 8:2 / /data/cache rw - ext4 /dev/sdb rw\n"
			    "41 22 8:3 /in\\040it /data rw - ext4 /dev/sdc rw\n";
static const char again[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			    "40 22 8:1 /data/cache /data/cache rw - ext4 /dev/sda1 rw\n"
			    "41 40 8:1 /data/cache /data/cache rw - ext4 /dev/sda1 rw\n"
			    "42 22 8:1 / / rw - ext4 /dev/sda1 rw\n";

/* Names that read as more words or lines, and options with blanks: each line is one mount. */
static const char nasty[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			    "23 22 0:50 /a\\012b "
			    "/n\\01299\\04022\\0400:9\\040/\\040/c rw - x x rw\n"
			    "24 22 0:51 / /w rw - 9p C:\\134 rw;path=C:\\P F;x\n"
			    "99999999999 22 0:52 / /w rw - x x rw\n"
			    "25 24 0:53 / /w/i\\134n rw";
/* All that is mounted of one server is one file system, and each directory of it is called "/". */
static const char exports[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			      "40 22 0:40 / /a rw shared:7 master:2 - nfs4 host:/a rw,addr=x\n"
			      "41 22 0:40 / /b rw - nfs4 host:/b rw\n"
			      "42 22 0:40 / /again rw - nfs4 host:/a rw\n"
			      "43 22 0:41 /d\\040\\055\\040e /\\040-\\040x rw - tmpfs\n";

static size_t len;	/* of the mount point that was found last */

static unsigned at(const char *text, const char *path)
{
	return fm_mount_in(text, strlen(text), path, &len);
}

static void test_found(void)
{
	CU_ASSERT_EQUAL(at(mounts, "/"), 22);
	CU_ASSERT_EQUAL(len, 1);
	CU_ASSERT_EQUAL(at(mounts, "/srv"), 22);
	CU_ASSERT_EQUAL(at(mounts, "/srv/data2"), 22);
	CU_ASSERT_EQUAL(at(mounts, "/srv/data/x"), 33);	/* it hides the other */
	CU_ASSERT_EQUAL(at(mounts, "/srv/data"), 33);
	CU_ASSERT_EQUAL(at(mounts, "/srv/data/in/x"), 34);
	CU_ASSERT_EQUAL(at(mounts, "/srv/data two/x"), 31);
	CU_ASSERT_EQUAL(len, strlen("/srv/data two"));
	CU_ASSERT_TRUE(fm_mount_of("/proc/self") > 0);
	CU_ASSERT_NOT_EQUAL(fm_mount_of("/proc/self"), fm_mount_of("/"));
	CU_ASSERT_EQUAL(fm_mount_len("/proc/self"), strlen("/proc"));
	CU_ASSERT_EQUAL(fm_mount_look("/proc/self", &len), fm_mount_of("/proc/self"));
	CU_ASSERT_EQUAL(len, strlen("/proc"));
}

static void test_open(void)
{
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(fm_mount_of_fd(fd), fm_mount_of("/proc/self"));
	close(fd);
	CU_ASSERT_EQUAL(fm_mount_of_fd(fd), 0);
}

static void test_above(void)
{
	CU_ASSERT_EQUAL(at(above, "/data/cache"), 41);
	CU_ASSERT_EQUAL(len, strlen("/data"));
	CU_ASSERT_EQUAL(at(again, "/data/cache"), 41);
	CU_ASSERT_EQUAL(at(again, "/data/other"), 22);	/* not what is on the root itself */
	/* behind chroot(2), whose own mount is not in the table */
	CU_ASSERT_EQUAL(at("40 22 8:2 / /data/cache rw - x x x\n", "/data/cache/x"), 40);
	/* one that is its own parent ends it, too */
	CU_ASSERT_EQUAL(at("1 1 0:2 / / rw - rootfs rootfs rw\n", "/data"), 1);
}

static bool is_at(const char *text, const char *path, const char *place)
{
	char out[64];

	return fm_mount_place_in(text, strlen(text), path, out, sizeof(out)) &&
	       strcmp(out, place) == 0;
}

static void test_place(void)
{
	char out[64];

	CU_ASSERT_TRUE(is_at(mounts, "/data/cache", "8:1  /data/cache"));
	CU_ASSERT_TRUE(is_at(again, "/data/cache", "8:1  /data/cache"));
	CU_ASSERT_TRUE(is_at(above, "/data/cache", "8:3  /in it/cache"));
	CU_ASSERT_FALSE(is_at(mounts, "null:", ""));
	CU_ASSERT_TRUE(fm_mount_place("/proc/self", out, sizeof(out)));
	CU_ASSERT_PTR_NOT_NULL(strstr(out, " /self"));
	CU_ASSERT_FALSE(fm_mount_place("/proc/self", out, 8));
}

static void test_nasty(void)
{
	CU_ASSERT_EQUAL(at(nasty, "/c"), 22);
	CU_ASSERT_EQUAL(at(nasty, "/n"), 22);
	CU_ASSERT_EQUAL(at(nasty, "/n\n99 22 0:9 / /c/x"), 23);
	CU_ASSERT_TRUE(is_at(nasty, "/n\n99 22 0:9 / /c/x", "0:50 x /a\nb/x"));
	CU_ASSERT_EQUAL(at(nasty, "/w/x"), 24);
	CU_ASSERT_EQUAL(at(nasty, "/w/i\\n/x"), 25);
}

static void test_place_on_a_server(void)
{
	CU_ASSERT_TRUE(is_at(exports, "/a/cache", "0:40 host:/a /cache"));
	CU_ASSERT_TRUE(is_at(exports, "/b/cache", "0:40 host:/b /cache"));
	CU_ASSERT_TRUE(is_at(exports, "/again/cache", "0:40 host:/a /cache"));
	/* a line without what was mounted */
	CU_ASSERT_TRUE(is_at(exports, "/ - x/cache", "0:41  /d - e/cache"));
}

static void test_not_found(void)
{
	CU_ASSERT_EQUAL(at(mounts, "null:"), 0);
	CU_ASSERT_EQUAL(len, 0);
	CU_ASSERT_EQUAL(at("\n", "/"), 0);
	CU_ASSERT_EQUAL(at("34 22 0:4 / /cut\n", "/cu"), 0);
}

static const struct fm_test tests[] = {
	{"the longest one, and the last", test_found},
	{"what is mounted above hides it", test_above},
	{"of a file that is open", test_open},
	{"which directory that is", test_place},
	{"what a line holds is in that line", test_nasty},
	{"which of two that a server exports", test_place_on_a_server},
	{"none", test_not_found},
};

FM_TEST_MAIN("mount_of", tests)
