/* SPDX-License-Identifier: MIT */
/* Which mounts lead to a directory, and what lies beneath one that is no more. links: fm_base */
#include "tests/fm_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/dirway.h"
#include "mover/base/mount_of.h"

static const char mounts[] = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
			     "30 22 0:40 / /srv rw shared:2 - nfs4 host:/x rw\n"
			     "31 30 0:41 / /srv rw - tmpfs none rw\n"
			     "32 99 0:42 / /lost rw - tmpfs none rw\n"
			     "33 34 0:43 / /a rw - tmpfs none rw\n"
			     "34 33 0:44 / /b rw - tmpfs none rw\n"
			     "35 22 8:1 /data /bound rw - ext4 /dev/sda1 rw\n"
			     "no line\n";
/* the ID of one that is gone is another one's; what is bound has another name */
static const char later[] = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,sync\n"
			    "30 22 0:40 / /srv rw - nfs4 host:/x rw\n"
			    "31 22 0:45 / /mnt rw - tmpfs none rw\n"
			    "35 22 8:1 /data2 /bound rw - ext4 /dev/sda1 rw\n";

static struct fm_dirway in(const char *of, unsigned id)
{
	struct fm_dirway way = { 0 };

	fm_dirway_mount_in(of, strlen(of), id, &way);
	return way;
}

static bool lists(const char *of, uint64_t mount)
{
	return fm_dirway_lists(of, strlen(of), mount);
}

static void test_depth(void)
{
	CU_ASSERT_EQUAL(in(mounts, 22).depth, 1);
	CU_ASSERT_EQUAL(in(mounts, 30).depth, 2);
	CU_ASSERT_EQUAL(in(mounts, 31).depth, 3);
	CU_ASSERT_EQUAL(in(mounts, 32).depth, 1);
	CU_ASSERT_TRUE(in(mounts, 33).depth > 0);	/* it ends */
	CU_ASSERT_EQUAL(in(mounts, 7).depth, 0);
	CU_ASSERT_EQUAL(in(mounts, 7).mount, 0);
}

static void test_which(void)
{
	CU_ASSERT_TRUE(lists(mounts, in(mounts, 31).mount));
	CU_ASSERT_TRUE(lists(later, in(mounts, 22).mount));
	CU_ASSERT_TRUE(lists(later, in(mounts, 30).mount));
	CU_ASSERT_FALSE(lists(later, in(mounts, 31).mount));
	CU_ASSERT_TRUE(lists(later, in(mounts, 35).mount));
	CU_ASSERT_NOT_EQUAL(in(mounts, 30).mount, in(mounts, 31).mount);
}

static void test_here(void)
{
	char dir[] = "/tmp/fm-dirway.XXXXXX", name[64], link[64];
	struct fm_dirway at, other, was;
	int fd;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	(void)snprintf(name, sizeof(name), "%s/d", dir);
	(void)snprintf(link, sizeof(link), "%s/l", dir);
	CU_ASSERT_EQUAL_FATAL(mkdir(name, 0700), 0);
	CU_ASSERT_EQUAL_FATAL(symlink("d", link), 0);
	fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(fm_dirway_of(fd, &at), 0);
	CU_ASSERT_EQUAL(fm_dirway_at(link, &other), 0);
	CU_ASSERT_TRUE(fm_dirway_is_same(&at, &other));
	CU_ASSERT_TRUE(at.mount != 0 && at.depth > 0);
	CU_ASSERT_EQUAL(at.mount_id, fm_mount_of(name));
	CU_ASSERT_FALSE(fm_dirway_is_unmounted(&at));
	CU_ASSERT_EQUAL(fm_dirway_at(dir, &other), 0);
	CU_ASSERT_FALSE(fm_dirway_is_same(&at, &other));
	/* as if it had been on a mount that is gone, or another one before this was mounted */
	was = at;
	was.mount ^= 1;
	was.device ^= 1;
	CU_ASSERT_TRUE(fm_dirway_is_unmounted(&was));
	CU_ASSERT_FALSE(fm_dirway_is_beneath(&at, &was));
	CU_ASSERT_TRUE(fm_dirway_is_mounted_over(name, &at, &was));
	CU_ASSERT_FALSE(fm_dirway_is_mounted_over(link, &at, &was));
	was.depth++;
	CU_ASSERT_TRUE(fm_dirway_is_beneath(&at, &was));
	CU_ASSERT_FALSE(fm_dirway_is_mounted_over(name, &at, &was));
	was.depth--;
	/* others may rename it */
	CU_ASSERT_EQUAL(chmod(dir, 0770), 0);
	CU_ASSERT_FALSE(fm_dirway_is_mounted_over(name, &at, &was));
	CU_ASSERT_EQUAL(chmod(dir, 01777), 0);
	CU_ASSERT_FALSE(fm_dirway_is_mounted_over(name, &at, &was));
	close(fd);
	CU_ASSERT_EQUAL(unlink(link), 0);
	CU_ASSERT_EQUAL(rmdir(name), 0);
	CU_ASSERT_EQUAL(fm_dirway_at(name, &other), -ENOENT);
	CU_ASSERT_FALSE(fm_dirway_is_same(&other, &other));
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

static const struct fm_test tests[] = {
	{"how many mounts lead there", test_depth},
	{"a mount is that one alone", test_which},
	{"where a path leads here", test_here},
};

FM_TEST_MAIN("dirway", tests)
