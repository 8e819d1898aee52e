/* SPDX-License-Identifier: MIT */
/*
 * Whether a device is free, against the kernel. links: fm_nvmetcp
 *
 * Goal:   what peers are told rests on this: as long as a file system may write to a device, the
 *         helper's call "unused" says so, although no mount is in the table any more; and no
 *         longer.
 * Method: ext4 on a loop device, in a mount namespace of our own: unmounted, unmounted lazily with
 * a file open, and mounted in another mount namespace only. fm_mounts_read() shows that the table
 * says nothing of it. What cannot be written: an image in a tmpfs that is full. This program's
 * syncfs() comes before the C library's, so that a test can do something at that moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/superblock.h"
#include "tests/fm_test.h"
#include "tests/unit/may_mount.h"

#define FREE_S 20			/* for the kernel to let go of what nobody has any more */
#define LOST (1 << 16)

static char dir[64], point[80], device[64];
static int image = -1, loop = -1;
static dev_t dev;
static int (*at_sync)(void);		/* NULL, or 0: as ever; -1: errno is the answer */
static unsigned syncs;

int syncfs(int fd)
{
	syncs++;
	return at_sync && at_sync() < 0 ? -1 : (int)syscall(SYS_syncfs, fd);
}

/* The call's answer for a device by this name and number. */
static int unused(const char *path, dev_t number)
{
	struct fm_json *request = fm_json_pack("{s:s, s:[i, i]}", "device", path, "rdev",
					       (int)major(number), (int)minor(number));
	struct fm_json *answer = fm_json_object();
	struct fm_err err = { 0 };
	int ret = fm_helper_unused(request, answer, &err);

	CU_ASSERT_TRUE(ret == 0 || err.text[0]);
	fm_json_free(request);
	fm_json_free(answer);
	return ret;
}

static bool is_in_table(void)
{
	struct fm_mounts mounts;
	struct fm_err err;
	bool is_there;

	CU_ASSERT_EQUAL_FATAL(fm_mounts_read("", &mounts, &err), 0);
	is_there = fm_mounts_of(&mounts, dev, NULL);
	fm_mounts_free(&mounts);
	return is_there;
}

static void mount_it(unsigned long flags)
{
	CU_ASSERT_EQUAL_FATAL(mount(device, point, "ext4", flags, NULL), 0);
	CU_ASSERT_TRUE(is_in_table());
	CU_ASSERT_EQUAL(unused(device, dev), -EBUSY);
}

/* The last one to have it may be gone a moment before the kernel has let go. */
static void becomes_free(void)
{
	int ret = unused(device, dev);

	for (unsigned i = 0; i < FREE_S * 100 && ret == -EBUSY; i++) {
		usleep(10000);
		ret = unused(device, dev);
	}
	CU_ASSERT_EQUAL(ret, 0);
}

static int open_file(int flags)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/file", point);
	fd = open(path, flags | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	return fd;
}

static void test_unmounted(void)
{
	CU_ASSERT_EQUAL(unused(device, dev), 0);
	mount_it(0);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	becomes_free();
}

/* As `umount -l` does, and the lazy unmount of `fmove nvme down --force`. What is written then
 * still comes to the device. */
static void test_lazily(void)
{
	static const char text[] = "written after it was out of the table of mounts";
	char back[sizeof(text)] = "";
	int fd;

	mount_it(0);
	fd = open_file(O_RDWR | O_CREAT);
	CU_ASSERT_EQUAL_FATAL(umount2(point, MNT_DETACH), 0);
	CU_ASSERT_FALSE(is_in_table());
	CU_ASSERT_EQUAL(unused(device, dev), -EBUSY);
	CU_ASSERT_EQUAL(write(fd, text, sizeof(text)), (ssize_t)sizeof(text));
	CU_ASSERT_EQUAL(fsync(fd), 0);
	CU_ASSERT_EQUAL(unused(device, dev), -EBUSY);
	close(fd);
	becomes_free();
	mount_it(0);
	fd = open_file(O_RDONLY);
	CU_ASSERT_EQUAL(read(fd, back, sizeof(back)), (ssize_t)sizeof(back));
	CU_ASSERT_STRING_EQUAL(back, text);
	close(fd);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	becomes_free();
}

static void test_lazily_read_only(void)
{
	int fd;

	mount_it(MS_RDONLY);
	fd = open_file(O_RDONLY);
	CU_ASSERT_EQUAL_FATAL(umount2(point, MNT_DETACH), 0);
	CU_ASSERT_FALSE(is_in_table());
	CU_ASSERT_EQUAL(unused(device, dev), -EBUSY);
	close(fd);
	becomes_free();
}

/* A container that was started while it was mounted. */
static void test_other_namespace(void)
{
	int go[2], ready[2];
	char byte = 0;
	pid_t child;

	mount_it(0);
	CU_ASSERT_EQUAL_FATAL(pipe(go) + pipe(ready), 0);
	child = fork();
	if (child == 0) {
		close(go[1]);
		byte = unshare(CLONE_NEWNS) == 0;
		(void)!write(ready[1], &byte, 1);
		(void)!read(go[0], &byte, 1);
		_exit(0);
	}
	close(go[0]);
	CU_ASSERT_TRUE_FATAL(read(ready[0], &byte, 1) == 1 && byte == 1);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	CU_ASSERT_FALSE(is_in_table());
	CU_ASSERT_EQUAL(unused(device, dev), -EBUSY);
	close(go[1]);
	CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
	becomes_free();
	close(ready[0]);
	close(ready[1]);
}

/* The call's answer, into the caller's hands. */
static int unmount_with(const char *where, struct fm_json *how, struct fm_json **answer)
{
	struct fm_err err = { 0 };
	int ret;

	fm_json_set(how, "point", fm_json_of_text(where));
	*answer = fm_json_object();
	ret = fm_helper_unmount(how, *answer, &err);
	fm_json_free(how);
	return ret;
}

static struct fm_json *shut_down(dev_t number)
{
	return fm_json_pack("{s:[i, i], s:b}", "rdev", (int)major(number), (int)minor(number),
			    "shutdown", 1);
}

static off_t bytes_written(void)
{
	char path[96], line[256] = "";
	unsigned long long sectors = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", major(dev), minor(dev));
	f = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof(line), f));
	fclose(f);
	CU_ASSERT_EQUAL(sscanf(line, "%*u %*u %*u %*u %*u %*u %llu", &sectors), 1);
	return (off_t)sectors * 512;
}

/* Another host has written to it: nothing of what is here goes over that, though a file is open,
 * and nothing of another file system that is asked about by mistake. */
static void test_shut_down(void)
{
	static const char text[1 << 16] = "what the other host must not find";
	struct fm_json *answer;
	off_t before;
	int fd;

	mount_it(0);
	fd = open_file(O_RDWR | O_CREAT | O_TRUNC);
	CU_ASSERT_EQUAL(unmount_with(point, shut_down(dev + 1), &answer), -ESTALE);
	fm_json_free(answer);
	CU_ASSERT_EQUAL(write(fd, text, sizeof(text)), (ssize_t)sizeof(text));
	CU_ASSERT_EQUAL(fsync(fd), 0);
	CU_ASSERT_EQUAL(pwrite(fd, text, sizeof(text), sizeof(text)), (ssize_t)sizeof(text));
	CU_ASSERT_EQUAL(unmount_with(point, shut_down(dev), &answer), -EBUSY);
	CU_ASSERT_TRUE(fm_json_is_true(fm_json_get(answer, "shut_down")));
	fm_json_free(answer);
	before = bytes_written();
	CU_ASSERT_TRUE(write(fd, text, sizeof(text)) < 0);
	CU_ASSERT_TRUE(fsync(fd) < 0);
	close(fd);
	CU_ASSERT_EQUAL(unmount_with(point, shut_down(dev), &answer), 0);
	fm_json_free(answer);
	becomes_free();
	/* ext4 writes its superblock all the same. */
	CU_ASSERT_TRUE(bytes_written() - before <= 8192);
	mount_it(0);
	fd = open_file(O_RDONLY);
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_END), (off_t)sizeof(text));
	close(fd);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	becomes_free();
}

/* ---- unmounted only if all is written ---- */

static struct fm_json *written(void)
{
	return fm_json_pack("{s:[i, i], s:b, s:b}", "rdev", (int)major(dev), (int)minor(dev),
			    "sync", 1, "keep_unsynced", 1);
}

static void write_file(size_t len)
{
	char *bytes = calloc(1, len);
	int fd = open_file(O_RDWR | O_CREAT);

	CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
	memset(bytes, 'x', len);
	CU_ASSERT_EQUAL(write(fd, bytes, len), (ssize_t)len);
	close(fd);
	free(bytes);
}

static void test_written(void)
{
	struct fm_json *answer;
	int fd;

	mount_it(0);
	write_file(1 << 16);
	fd = open_file(O_RDONLY);
	syncs = 0;
	CU_ASSERT_EQUAL(unmount_with(point, written(), &answer), -EBUSY);
	CU_ASSERT_EQUAL(syncs, 1);
	fm_json_free(answer);
	close(fd);
	CU_ASSERT_TRUE(is_in_table());
	syncs = 0;
	CU_ASSERT_EQUAL(unmount_with(point, written(), &answer), 0);
	CU_ASSERT_EQUAL(syncs, 2);
	CU_ASSERT_EQUAL(fm_json_member_count(answer), 0);
	fm_json_free(answer);
	CU_ASSERT_FALSE(is_in_table());
	becomes_free();
	/* Who has unmounted it was told of no error. */
	CU_ASSERT_EQUAL(unmount_with(point, written(), &answer), 0);
	CU_ASSERT_TRUE(fm_json_is_true(fm_json_get(answer, "not_mounted")));
	fm_json_free(answer);
}

static int fail_second(void)
{
	errno = EIO;
	return syncs == 2 ? -1 : 0;
}

/* A service that its unit has stopped has written still. */
static void test_late_error(void)
{
	struct fm_json *answer;

	mount_it(0);
	syncs = 0;
	at_sync = fail_second;
	CU_ASSERT_EQUAL(unmount_with(point, written(), &answer), 0);
	at_sync = NULL;
	CU_ASSERT_STRING_EQUAL(fm_json_as_text(fm_json_get(answer, "sync_error")),
			       "Input/output error");
	fm_json_free(answer);
	CU_ASSERT_FALSE(is_in_table());
	becomes_free();
}

static int cover(void)
{
	return mount("none", point, "tmpfs", 0, NULL);
}

/* While much is written, something else is mounted there: that is left alone. */
static void test_covered(void)
{
	struct fm_json *answer, *how = fm_json_pack("{s:[i, i], s:b, s:b}", "rdev", (int)major(dev),
						    (int)minor(dev), "sync", 1, "lazy", 1);
	struct stat st;

	mount_it(0);
	at_sync = cover;
	CU_ASSERT_EQUAL(unmount_with(point, how, &answer), -ESTALE);
	at_sync = NULL;
	fm_json_free(answer);
	CU_ASSERT_EQUAL_FATAL(stat(point, &st), 0);
	CU_ASSERT_NOT_EQUAL(st.st_dev, dev);
	CU_ASSERT_EQUAL(umount(point), 0);
	CU_ASSERT_TRUE(is_in_table());
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	becomes_free();
}

static bool make_loop(void);

static bool is_clean(void)
{
	uint8_t bytes[FM_SUPERBLOCK_BYTES];
	struct fm_superblock sb;

	CU_ASSERT_EQUAL_FATAL(pread(image, bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
	CU_ASSERT_EQUAL(fm_superblock_parse(bytes, sizeof(bytes), &sb), 0);
	return sb.clean == FM_CLEAN && !sb.has_errors;
}

static uint64_t start_sum(void)
{
	uint8_t bytes[FM_SUPERBLOCK_BYTES];

	CU_ASSERT_EQUAL_FATAL(pread(image, bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
	return fm_superblock_sum(bytes);
}

/* What the writer of a sealed volume knows it by: another one after each mount that writes, though
 * nothing was written, and after none of a reader. */
static void test_start_tells(void)
{
	uint64_t before = start_sum();

	CU_ASSERT_EQUAL_FATAL(mount(device, point, "ext4", MS_RDONLY, "noload"), 0);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	becomes_free();
	CU_ASSERT_EQUAL(start_sum(), before);
	mount_it(0);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	becomes_free();
	CU_ASSERT_NOT_EQUAL(start_sum(), before);
}

/* What there is room for in the tmpfs is the file system's own already. */
static void fill(const char *path)
{
	static const char zeros[1 << 16];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t got;

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	do
		got = write(fd, zeros, sizeof(zeros));
	while (got > 0);
	CU_ASSERT_EQUAL(errno, ENOSPC);
	close(fd);
}

/*
 * The image has no memory for what is in the file from now on: it can be written there no more. A
 * loop device takes a write that is cut short for a whole one, so blocks are as large as pages.
 */
static void take_room(void)
{
	char path[96];
	int block = 0, size = 0, fd = open_file(O_RDONLY);

	CU_ASSERT_EQUAL(fsync(fd), 0);
	CU_ASSERT_EQUAL_FATAL(ioctl(fd, FIBMAP, &block), 0);
	CU_ASSERT_EQUAL_FATAL(ioctl(fd, FIGETBSZ, &size), 0);
	CU_ASSERT_TRUE_FATAL(block > 0);
	close(fd);
	CU_ASSERT_EQUAL_FATAL(fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					(off_t)block * size, LOST), 0);
	snprintf(path, sizeof(path), "%s/filler", dir);
	fill(path);
}

/* Goal: that the kernel loses what was written is an error, and it stays mounted. Method: its
 * unmount alone leaves a file system that looks clean. */
static void test_lost(void)
{
	int image_before = image, loop_before = loop;
	dev_t dev_before = dev;
	char device_before[sizeof(device)], path[96], command[256];
	struct fm_json *answer;

	memcpy(device_before, device, sizeof(device));
	CU_ASSERT_EQUAL_FATAL(mount("none", dir, "tmpfs", 0, "size=20m"), 0);
	CU_ASSERT_EQUAL_FATAL(mkdir(point, 0700), 0);
	snprintf(path, sizeof(path), "%s/image", dir);
	image = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(image >= 0 && ftruncate(image, 16 << 20) == 0);
	snprintf(command, sizeof(command),
		 "PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q -F -b 4096 "
		 "-E nodiscard %s >/dev/null 2>&1", path);
	CU_ASSERT_EQUAL_FATAL(system(command), 0);
	CU_ASSERT_EQUAL_FATAL(fallocate(image, 0, 0, 16 << 20), 0);
	CU_ASSERT_TRUE_FATAL(make_loop());
	mount_it(0);
	write_file(LOST);
	take_room();
	write_file(LOST);
	CU_ASSERT_TRUE(unmount_with(point, written(), &answer) < 0);
	CU_ASSERT_TRUE(fm_json_as_text(fm_json_get(answer, "sync_error"))[0]);
	fm_json_free(answer);
	CU_ASSERT_TRUE(is_in_table());
	write_file(LOST);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	CU_ASSERT_TRUE(is_clean());
	(void)ioctl(loop, LOOP_CLR_FD);
	close(loop);
	close(image);
	CU_ASSERT_EQUAL(umount(dir), 0);
	image = image_before;
	loop = loop_before;
	dev = dev_before;
	memcpy(device, device_before, sizeof(device));
}

/* What cannot do that says so, and is unmounted. */
static void test_no_shutdown(void)
{
	struct fm_json *answer;
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(mount("none", point, "tmpfs", 0, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(stat(point, &st), 0);
	CU_ASSERT_EQUAL(unmount_with(point, shut_down(st.st_dev), &answer), 0);
	CU_ASSERT_STRING_EQUAL(fm_json_as_text(fm_json_get(answer, "still_writes")),
			       "Operation not supported");
	fm_json_free(answer);
	CU_ASSERT_EQUAL(unmount_with(point, fm_json_pack("{s:b}", "shutdown", 1), &answer),
			-EINVAL);
	fm_json_free(answer);
}

/* A number that the kernel has no more is nobody's; a name that is missing, or another's, says
 * nothing of a number that is there. */
static void test_gone(void)
{
	CU_ASSERT_EQUAL(unused("/dev/fmove-no-such-device", makedev(7, 1000000)), 0);
	CU_ASSERT_EQUAL(unused(device, makedev(7, 1000000)), 0);
	CU_ASSERT_EQUAL(unused("/dev/fmove-no-such-device", dev), -ENOENT);
	CU_ASSERT_EQUAL(unused("/dev/null", dev), -ENOTBLK);
	mount_it(0);
	CU_ASSERT_EQUAL(unused("/dev/fmove-no-such-device", dev), -ENOENT);
	CU_ASSERT_EQUAL_FATAL(umount(point), 0);
	becomes_free();
}

/* ---- the device ---- */

static bool make_loop(void)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC),
	    number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	struct stat st;

	if (control >= 0)
		close(control);
	if (number < 0)
		return false;
	snprintf(device, sizeof(device), "/dev/loop%d", number);
	loop = open(device, O_RDWR | O_CLOEXEC);
	if (loop < 0 || ioctl(loop, LOOP_SET_FD, image) < 0 || fstat(loop, &st) < 0)
		return false;
	dev = st.st_rdev;
	return true;
}

static const char *make_device(void)
{
	char path[80], command[192];

	snprintf(dir, sizeof(dir), "/tmp/fmove-unused-XXXXXX");
	if (!mkdtemp(dir))
		return "no directory can be made";
	snprintf(path, sizeof(path), "%s/image", dir);
	snprintf(point, sizeof(point), "%s/point", dir);
	image = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (image < 0 || ftruncate(image, 16 << 20) < 0 || mkdir(point, 0700) < 0)
		return "no file of 16 MiB can be made";
	snprintf(command, sizeof(command),
		 "PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q -F %s >/dev/null 2>&1", path);
	if (system(command) != 0)
		return "no mkfs.ext4";
	if (!make_loop())
		return "no loop device is to be had";
	if (mount(device, point, "ext4", 0, NULL) < 0 || umount(point) < 0)
		return "this kernel mounts no ext4 here";
	return NULL;
}

static void remove_device(void)
{
	char path[80];

	(void)umount2(point, MNT_DETACH);
	if (loop >= 0)
		(void)ioctl(loop, LOOP_CLR_FD);
	snprintf(path, sizeof(path), "%s/image", dir);
	(void)unlink(path);
	(void)rmdir(point);
	(void)rmdir(dir);
}

static const struct fm_test tests[] = {
	{ "unmounted", test_unmounted },
	{ "unmounted lazily, with a file open to be written", test_lazily },
	{ "unmounted lazily, with a file open to be read", test_lazily_read_only },
	{ "mounted in another mount namespace only", test_other_namespace },
	{ "gone, or by another name", test_gone },
	{ "shut down, with a file open and more to be written", test_shut_down },
	{ "shut down, where the file system cannot do that", test_no_shutdown },
	{ "unmounted when all is written", test_written },
	{ "written when nobody could write any more, with an error", test_late_error },
	{ "something else is mounted there by then", test_covered },
	{ "what cannot be written stays mounted", test_lost },
	{ "a mount that writes changes the first bytes, one that reads none", test_start_tells },
};

int main(void)
{
	const char *lacking;
	int ret;

	if (!may_mount())
		return 77;
	lacking = make_device();
	if (lacking) {
		remove_device();
		fm_test_skip(lacking);
	}
	ret = fm_test_main("unused devices and the kernel", tests,
			   sizeof(tests) / sizeof(tests[0]));
	remove_device();
	return ret;
}
