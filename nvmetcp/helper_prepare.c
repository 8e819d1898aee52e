/* SPDX-License-Identifier: MIT */
/*
 * What a helper process does before a mount, and takes back after one: the mount point is looked
 * at, and the device is made as the mount wants it while nobody else can have it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/show.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/mounts.h"

/* ------------------------------------------------------------------------------------ the point */

/* As the kernel's table of mounts writes it, so that it can be found there. */
static int check_point(const char *point, struct fm_err *err)
{
	size_t len = strlen(point);

	if (point[0] != '/' || len < 2 || point[len - 1] == '/' || strstr(point, "//"))
		return fm_err_set(
			err, -EINVAL,
			"mount point \"%s\" is not an absolute path without a slash too many",
			point);
	for (const char *at = strstr(point, "/."); at; at = strstr(at + 2, "/.")) {
		size_t rest = strcspn(at + 1, "/");

		if (rest == 1 || (rest == 2 && at[2] == '.'))
			return fm_err_set(err, -EINVAL,
					  "mount point %s has \".\" or \"..\" in its path", point);
	}
	return 0;
}

int fm_helper_find_mounted(const char *point, bool *is_mounted, dev_t *dev, struct fm_err *err)
{
	const struct fm_mount *mount;
	struct fm_mounts mounts;
	int ret = check_point(point, err);

	if (ret == 0)
		ret = fm_mounts_read("", &mounts, err);
	if (ret < 0)
		return ret;
	mount = fm_mounts_at(&mounts, point);
	*is_mounted = mount;
	*dev = mount ? mount->dev : 0;
	fm_mounts_free(&mounts);
	return 0;
}

/* The directory at the end of a path without a symbolic link in it. */
static int open_point(const char *point, struct fm_err *err)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, point, &how, sizeof(how));

	if (fd >= 0)
		return fd;
	if (errno == ELOOP)
		return fm_err_set(
			err, -ELOOP,
			"mount point %s has a symbolic link in its path: name the real directory",
			point);
	return fm_err_sys(err, -errno, "mount point %s", point);
}

static int check_empty(int fd, const char *point, struct fm_err *err)
{
	int ret = 0, copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (!dir) {
		ret = fm_err_sys(err, -errno, "look into %s", point);
		if (copy >= 0)
			close(copy);
		return ret;
	}
	errno = 0;
	while (ret == 0 && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			ret = fm_err_set(err, -ENOTEMPTY,
					 "mount point %s is not empty (there is \"%s\"): a mount "
					 "would hide that",
					 point, e->d_name);
	if (ret == 0 && errno != 0)
		ret = fm_err_sys(err, -errno, "look into %s", point);
	closedir(dir);
	return ret;
}

int fm_helper_open_free_point(const char *point, struct fm_err *err)
{
	bool is_taken = false;
	dev_t dev;
	int fd, ret = fm_helper_find_mounted(point, &is_taken, &dev, err);

	if (ret == 0 && is_taken)
		ret = fm_err_set(err, -EBUSY,
				 "something is mounted at %s already: findmnt shows what; unmount "
				 "it, or name another mount point",
				 point);
	if (ret < 0)
		return ret;
	fd = open_point(point, err);
	if (fd < 0)
		return fd;
	ret = check_empty(fd, point, err);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

/* ----------------------------------------------------------------------------------- the device */

/* The guard has looked before; meanwhile somebody may have mounted it by hand. */
static int check_unmounted(dev_t dev, const char *name, struct fm_err *err)
{
	const struct fm_mount *mine;
	struct fm_mounts mounts;
	struct fm_path_shown point;
	int ret = fm_mounts_read("", &mounts, err);

	if (ret < 0)
		return ret;
	mine = fm_mounts_of(&mounts, dev, NULL);
	/* btrfs has device numbers of its own. */
	for (size_t i = 0; !mine && i < mounts.count; i++)
		if (strcmp(mounts.mounts[i].fs_type, "btrfs") == 0 &&
		    strcmp(mounts.mounts[i].source, name) == 0)
			mine = &mounts.mounts[i];
	if (mine)
		ret = fm_err_set(err, -EBUSY, "%s is mounted already, at %s", name,
				 fm_path_show(mine->point, &point));
	fm_mounts_free(&mounts);
	return ret;
}

/*
 * A descriptor beside which nobody can mount the device, neither here nor in another mount
 * namespace, nor take it for RAID or a volume group; -EBUSY if somebody has. To be closed before it
 * is mounted.
 */
static int claim_device(int device, const char *name, struct fm_err *err)
{
	struct stat st;
	char path[64];
	int fd, ret;

	if (fstat(device, &st) < 0)
		return fm_err_sys(err, -errno, "look at %s", name);
	ret = check_unmounted(st.st_rdev, name, err);
	if (ret < 0)
		return ret;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", device);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_DIRECT | O_EXCL);
	if (fd < 0)
		return fm_err_sys(err, -errno, "have %s for ourselves", name);
	return fd;
}

/* *was: whether the device was read-only before. After an error it still is as it was. */
static int set_read_only(int device, const char *name, int is_ro, int *was, struct fm_err *err)
{
	if (ioctl(device, BLKROGET, was) < 0)
		return fm_err_sys(err, -errno, "look at %s", name);
	*was = *was != 0;
	if (*was != is_ro && ioctl(device, BLKROSET, &is_ro) < 0)
		return fm_err_sys(err, -errno, "set %s %s", name, is_ro ? "read-only" : "writable");
	return 0;
}

/*
 * Empties the page cache of a device. It stays filled as long as anybody has the device open, and
 * is old if another node has written since. A reader would see a mixture, and a writer would write
 * old blocks back.
 */
static int drop_cache(int device, const char *name, struct fm_err *err)
{
	return ioctl(device, BLKFLSBUF, 0) < 0
		       ? fm_err_sys(err, -errno, "drop what the page cache has of %s", name)
		       : 0;
}

struct order {
	const char *device, *point, *wwid;
	const struct fm_json *rdev, *target;
	int read_only_device;		/* -1: leave it as it is */
	int is_xfs;
};

/*
 * Checks that the device is writable. The read-only flag of this node is off, but the target may
 * protect it.
 */
static int check_writable(int device, const char *name, struct fm_err *err)
{
	int is_ro;

	if (ioctl(device, BLKROGET, &is_ro) < 0)
		return fm_err_sys(err, -errno, "look at %s", name);
	return is_ro ? fm_err_set(err, -EROFS,
				  "%s is read-only: the target protects it, and not because of us "
				  "(nvme get-feature -f 0x84 %s)",
				  name, name)
		     : 0;
}

/*
 * Reads the superblock again. Now nobody else on this machine can have the device, and the target
 * was asked. What was read before may have changed since.
 */
static int put_contents(const struct order *o, int claim, int device, struct fm_json *answer,
			struct fm_err *err)
{
	int ret = fm_helper_put_start(claim, answer, err);

	return ret == 0 && o->is_xfs ? fm_helper_put_xfs_state(device, answer, err) : ret;
}

/* *was: read-only before. */
static int prepare_device(const struct order *o, int device, int *was, struct fm_json *answer,
			  struct fm_err *err)
{
	int ret = 0, claim = claim_device(device, o->device, err);

	if (claim < 0)
		return claim;
	*was = o->read_only_device;
	if (o->read_only_device >= 0)
		ret = set_read_only(device, o->device, o->read_only_device, was, err);
	if (ret == 0)
		ret = drop_cache(device, o->device, err);
	if (ret == 0)
		ret = fm_helper_target_prepare(device, o->target, answer, err);
	if (ret == 0 && o->read_only_device == 0)
		ret = check_writable(device, o->device, err);
	if (ret == 0)
		ret = put_contents(o, claim, device, answer, err);
	if (ret < 0 && *was != o->read_only_device)
		(void)ioctl(device, BLKROSET, was);	/* err says what went wrong first */
	close(claim);
	return ret;
}

int fm_helper_prepare(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	struct order o = { .read_only_device = -1 };
	int device, point, was = -1, ret;

	ret = fm_helper_unpack(request, err, "{s:s, s:o, s:s, s?s, s?b, s?b, s?o}", "device",
			       &o.device, "rdev", &o.rdev, "point", &o.point, "wwid", &o.wwid,
			       "read_only_device", &o.read_only_device, "xfs", &o.is_xfs, "target",
			       &o.target);
	if (ret < 0)
		return ret;
	point = fm_helper_open_free_point(o.point, err);
	if (point < 0)
		return point;
	close(point);
	device = fm_helper_open_device(o.device, o.rdev, o.wwid, 0, err);
	if (device < 0)
		return device;
	ret = prepare_device(&o, device, &was, answer, err);
	close(device);
	return ret == 0 ? fm_helper_put(answer, "set_read_only",
					fm_json_of_bool(o.read_only_device == 1 && was == 0), err)
			: ret;
}

int fm_helper_make_writable(const char *path, const struct fm_json *rdev, struct fm_err *err)
{
	int was, claim, ret, device = fm_helper_open_device(path, rdev, NULL, 0, err);

	if (device < 0)
		return device;
	claim = ret = claim_device(device, path, err);
	if (claim >= 0) {
		ret = set_read_only(device, path, 0, &was, err);
		close(claim);
	}
	close(device);
	return ret;
}

int fm_helper_restore(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	const char *path, *release_as = NULL;
	int is_writable = 0, ret;
	const struct fm_json *rdev;

	(void)answer;
	ret = fm_helper_unpack(request, err, "{s:s, s:o, s?b, s?s}", "device", &path, "rdev", &rdev,
			       "read_write_device", &is_writable, "release_as", &release_as);
	if (ret == 0 && release_as)
		ret = fm_helper_target_release(path, rdev, release_as, err);
	return ret == 0 && is_writable ? fm_helper_make_writable(path, rdev, err) : ret;
}
