/* SPDX-License-Identifier: MIT */
/*
 * The table of mounts against the kernel's own word. links: fm_nvmetcp
 *
 * Goal:   what fm_mounts_at() says is seen at a point is what a program gets there, however it was
 *         mounted.
 * Method: a mount namespace of our own, real mounts in it (bound, stacked, moved, hidden, with
 * blanks in their names); statx() of the point says which mount it really is.
 */
#include "tests/unit/sysfs_tree.h"

#include <sched.h>
#include <sys/mount.h>

#include "mover/base/err.h"
#include "nvmetcp/mounts.h"

static struct fm_err err;
static char base[PATH_MAX];	/* of the test, without symbolic links in it */

/* A directory of the test. */
static const char *at(const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 4];

	tree_must(snprintf(p, PATH_MAX, "%s/%s", base, name) < PATH_MAX, name);
	return p;
}

static void mount_tmpfs(const char *source, const char *name, const char *options)
{
	tree_must(mount(source, at(name), "tmpfs", 0, options) == 0, name);
}

static struct fm_mounts mounts_now(void)
{
	struct fm_mounts mounts;

	CU_ASSERT_EQUAL_FATAL(fm_mounts_read("", &mounts, &err), 0);
	return mounts;
}

/* The mount that a program gets there, if it begins there; -1 if it does not. */
static int id_seen(const char *path)
{
	struct statx st;

	tree_must(statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_MNT_ID, &st) == 0, path);
	if (!(st.stx_mask & STATX_MNT_ID) || !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return -1;
	return (int)st.stx_mnt_id;
}

static void check_point(const char *path)
{
	struct fm_mounts mounts = mounts_now();
	const struct fm_mount *m = fm_mounts_at(&mounts, path);

	CU_ASSERT_EQUAL(m ? m->id : -1, id_seen(path));
	fm_mounts_free(&mounts);
}

static void test_all_there(void)
{
	struct fm_mounts mounts = mounts_now();

	CU_ASSERT_TRUE(mounts.count > 0);
	/* Tests beside this one have file systems that answer nobody. */
	for (size_t i = 0; i < mounts.count; i++)
		if (strncmp(mounts.mounts[i].fs_type, "fuse", 4) != 0 &&
		    access(mounts.mounts[i].point, F_OK) == 0)
			check_point(mounts.mounts[i].point);
	fm_mounts_free(&mounts);
	check_point("/");
	check_point("/etc");
}

static void test_names(void)
{
	struct fm_mounts mounts;
	const struct fm_mount *m;

	tree_must(mkdir(at("a b\tc\nd\\e#f"), 0755) == 0, "mkdir");
	mount_tmpfs("source #1", "a b\tc\nd\\e#f", "size=64k");
	check_point(at("a b\tc\nd\\e#f"));
	mounts = mounts_now();
	m = fm_mounts_at(&mounts, at("a b\tc\nd\\e#f"));
	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	CU_ASSERT_STRING_EQUAL(m->source, "source #1");
	CU_ASSERT_STRING_EQUAL(m->fs_type, "tmpfs");
	CU_ASSERT_STRING_EQUAL(m->root, "/");
	CU_ASSERT_FALSE(m->is_read_only);
	CU_ASSERT_PTR_NOT_NULL(strstr(m->options, "size=64k"));
	fm_mounts_free(&mounts);
	tree_must(umount(at("a b\tc\nd\\e#f")) == 0, "umount");
	check_point(at("a b\tc\nd\\e#f"));
}

static void test_stacked_and_moved(void)
{
	tree_must(mkdir(at("x"), 0755) == 0 && mkdir(at("y"), 0755) == 0, "mkdir");
	mount_tmpfs("one", "x", NULL);
	mount_tmpfs("two", "y", NULL);
	check_point(at("x"));
	mount_tmpfs("three", "x", NULL);
	check_point(at("x"));
	/* older than the one it lies on */
	tree_must(mount(at("y"), at("x"), NULL, MS_MOVE, NULL) == 0, "move");
	check_point(at("x"));
	check_point(at("y"));
	for (int i = 0; i < 3; i++) {
		tree_must(umount(at("x")) == 0, "umount");
		check_point(at("x"));
	}
}

static void test_bound_and_hidden(void)
{
	struct fm_mounts mounts;
	const struct fm_mount *m;

	tree_must(mkdir(at("v"), 0755) == 0 && mkdir(at("v/in"), 0755) == 0 &&
			  mkdir(at("w"), 0755) == 0,
		  "mkdir");
	mount_tmpfs("in", "v/in", NULL);
	tree_must(mkdir(at("v/in/sub"), 0755) == 0, "mkdir");
	tree_must(mount(at("v/in/sub"), at("w"), NULL, MS_BIND, NULL) == 0, "bind");
	tree_must(mount(NULL, at("w"), NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0,
		  "read-only");
	check_point(at("v/in"));
	check_point(at("w"));
	mounts = mounts_now();
	m = fm_mounts_at(&mounts, at("w"));
	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	CU_ASSERT_STRING_EQUAL(m->root, "/sub");
	CU_ASSERT_TRUE(m->is_read_only);
	CU_ASSERT_EQUAL(m->dev, fm_mounts_at(&mounts, at("v/in"))->dev);
	fm_mounts_free(&mounts);
	mount_tmpfs("cover", "v", NULL);
	tree_must(mkdir(at("v/in"), 0755) == 0, "mkdir");
	check_point(at("v"));
	check_point(at("v/in"));	/* a directory of the cover */
	mount_tmpfs("new", "v/in", NULL);
	check_point(at("v/in"));
}

static const struct fm_test tests[] = {
	{ "every mount of this machine is seen, or not", test_all_there },
	{ "any bytes in a name", test_names },
	{ "stacked, moved, taken away one by one", test_stacked_and_moved },
	{ "bound elsewhere, covered", test_bound_and_hidden },
};

static bool write_line(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool is_done = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line);

	if (fd >= 0)
		close(fd);
	return is_done;
}

/* Not as root: a user namespace, in which this user is root, as a file system mounted there wants
 * one who owns files. */
static bool enter_user_namespace(void)
{
	char uid[32], gid[32];

	snprintf(uid, sizeof(uid), "0 %u 1", geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1", getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_line("/proc/self/setgroups", "deny") &&
	       write_line("/proc/self/uid_map", uid) && write_line("/proc/self/gid_map", gid);
}

int main(void)
{
	int ret;

	if (unshare(CLONE_NEWNS) < 0 && !enter_user_namespace())
		fm_test_skip("no mount namespace of one's own is allowed here");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fm_test_skip("mounts cannot be made private here");
	tree_make();
	if (mount("base", tree_root, "tmpfs", 0, NULL) < 0) {
		tree_free();
		fm_test_skip("nothing may be mounted here");
	}
	tree_must(realpath(tree_root, base) != NULL, tree_root);
	ret = fm_test_main("mounts and the kernel", tests, sizeof(tests) / sizeof(tests[0]));
	tree_must(umount2(tree_root, MNT_DETACH) == 0, "umount");
	tree_free();
	return ret;
}
