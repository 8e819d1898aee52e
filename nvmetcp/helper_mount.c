/* SPDX-License-Identifier: MIT */
/* The calls of a helper process that mount and unmount. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/show.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/mount_options.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/systemd.h"

/* As the kernel's table of mounts writes it, so that it can be found there. */
static int check_point(const char *point, struct fm_err *err)
{
	size_t len = strlen(point);

	if (point[0] != '/' || len < 2 || point[len - 1] == '/' || strstr(point, "//"))
		return fm_err_set(err, -EINVAL, "mount point \"%s\" is not an absolute path without a slash too many", point);
	for (const char *at = strstr(point, "/."); at; at = strstr(at + 2, "/.")) {
		size_t rest = strcspn(at + 1, "/");

		if (rest == 1 || (rest == 2 && at[2] == '.'))
			return fm_err_set(err, -EINVAL, "mount point %s has \".\" or \"..\" in its path", point);
	}
	return 0;
}

/* From the table of mounts: what is mounted may be dead, and then its own root answers EIO, or nothing. */
static int find_mounted(const char *point, bool *is_mounted, dev_t *dev, struct fm_err *err)
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
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, point, &how, sizeof(how));

	if (fd >= 0)
		return fd;
	if (errno == ELOOP)
		return fm_err_set(err, -ELOOP, "mount point %s has a symbolic link in its path: name the real directory", point);
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
			ret = fm_err_set(err, -ENOTEMPTY, "mount point %s is not empty (there is \"%s\"): a mount would hide that", point,
					 e->d_name);
	if (ret == 0 && errno != 0)
		ret = fm_err_sys(err, -errno, "look into %s", point);
	closedir(dir);
	return ret;
}

static int open_free_point(const char *point, struct fm_err *err)
{
	bool is_taken = false;
	dev_t dev;
	int fd, ret = find_mounted(point, &is_taken, &dev, err);

	if (ret == 0 && is_taken)
		ret = fm_err_set(err, -EBUSY, "something is mounted at %s already", point);
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

struct order {
	const char *device, *point, *type, *options, *wwid;
	json_t *rdev;
	int read_only_device;	/* -1: leave it as it is */
};

static int explain_mount(const struct order *o, const char *name, int error, struct fm_err *err)
{
	const char *hint = "";

	if (error == -EINVAL)
		hint = " (not this file system, an option it does not know, or a damaged superblock; `dmesg` says which)";
	else if (error == -ENODEV)
		hint = " (the kernel does not know this file system)";
	else if (error == -EBUSY)
		hint = " (the device is in use, or mounted elsewhere with other options)";
	else if (error == -EROFS || error == -EACCES)
		hint = " (the device is read-only: mount it read-only)";
	return fm_err_set(err, error, "mount %s at %s as %s: %s%s", name, o->point, o->type, fm_err_name(error), hint);
}

/* Whether a unit would mount what is to be mounted as it is to be. */
static int check_unit(const struct order *o, const struct fm_systemd_mount *unit, dev_t dev, struct fm_err *err)
{
	const char *lacking;
	struct stat st;
	int len;

	/* One that is not there yet is awaited by systemd, and looked at afterwards. */
	if (unit->what[0] == '/' && stat(unit->what, &st) == 0 && st.st_rdev != dev)
		return fm_err_set(err, -EINVAL, "%s is for %s, which is another device; `fmove nvme units` writes it anew", unit->name,
				  unit->what);
	if (!fm_systemd_has_options(unit, o->options, &lacking, &len))
		return fm_err_set(err, -EINVAL, "%s has other options than are wanted now (\"%.*s\"); if the configuration has changed, "
				  "`fmove nvme units` writes it anew", unit->name, len, lacking);
	return 0;
}

/*
 * Where a unit says that and how, systemd mounts. 0: done; 1: there is none, or it says something else, or nobody can be asked. Should
 * systemd be starting such a one at this moment, the device is as it was prepared, and the kernel mounts it there once.
 */
static int mount_by_unit(const struct order *o, dev_t dev, json_t *answer, struct fm_err *err)
{
	struct fm_systemd_mount unit;
	struct fm_systemd *systemd;
	int ret = fm_systemd_open(&systemd, err);

	if (ret < 0)
		return ret == -ENOENT ? 1 : ret;
	ret = fm_systemd_look(systemd, o->point, &unit, err) < 0 || !unit.has_file;
	if (ret == 0 && check_unit(o, &unit, dev, err) < 0) {
		ret = fm_helper_put(answer, "unit_unfit", json_string(err->text), err);
		ret = ret < 0 ? ret : 1;
	}
	if (ret == 0)
		ret = fm_systemd_start(systemd, unit.name, err);
	fm_systemd_close(systemd);
	return ret;
}

/*
 * By the device's own name and not by /proc/self/fd/N, which df and findmnt would show for ever: while it is open the kernel
 * gives that name to nobody else. What was mounted is looked at nevertheless.
 */
static int mount_and_check(const struct order *o, const struct fm_mount_options *mo, int device, int point, const char *name,
			   json_t *answer, struct fm_err *err)
{
	struct stat want;
	char target[64];
	bool is_mounted;
	dev_t got;
	int ret;

	if (fstat(device, &want) < 0)
		return fm_err_sys(err, -errno, "look at %s", name);
	ret = mount_by_unit(o, want.st_rdev, answer, err);
	if (ret < 0)
		return ret;
	(void)snprintf(target, sizeof(target), "/proc/self/fd/%d", point);
	if (ret == 1 && mount(name, target, o->type, mo->flags, mo->data[0] ? mo->data : NULL) < 0)
		return explain_mount(o, name, -errno, err);
	ret = find_mounted(o->point, &is_mounted, &got, err);
	/* btrfs has device numbers of its own. */
	if (ret == 0 && got != want.st_rdev && strcmp(o->type, "btrfs") != 0)
		ret = fm_err_set(err, -ESTALE, "%s turned out to be device %u:%u when it was mounted: unmounted again", name, major(got),
				 minor(got));
	if (ret < 0)
		(void)umount2(o->point, UMOUNT_NOFOLLOW);	/* err says what went wrong first */
	return ret;
}

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
		if (strcmp(mounts.mounts[i].fs_type, "btrfs") == 0 && strcmp(mounts.mounts[i].source, name) == 0)
			mine = &mounts.mounts[i];
	if (mine)
		ret = fm_err_set(err, -EBUSY, "%s is mounted already, at %s", name, fm_path_show(mine->point, &point));
	fm_mounts_free(&mounts);
	return ret;
}

/*
 * A descriptor beside which nobody can mount the device, neither here nor in another mount namespace, nor take it for RAID
 * or a volume group; -EBUSY if somebody has. To be closed before it is mounted.
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
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_EXCL);
	if (fd < 0)
		return fm_err_sys(err, -errno, "have %s for ourselves", name);
	return fd;
}

/* *was: what it was before, which is what it is after an error. */
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
 * The device as the mount wants it. Of what the page cache has a reader must see nothing: it stays there as long as anybody
 * has the device open, and may be of another generation. *was: read-only before; only set if 0.
 */
static int prepare_device(const struct order *o, bool is_reader, int device, const char *name, int *was, struct fm_err *err)
{
	int ret = 0, claim = claim_device(device, name, err);

	if (claim < 0)
		return claim;
	*was = o->read_only_device;
	if (o->read_only_device >= 0)
		ret = set_read_only(device, name, o->read_only_device, was, err);
	if (ret == 0 && is_reader && ioctl(device, BLKFLSBUF, 0) < 0) {
		ret = fm_err_sys(err, -errno, "drop what the page cache has of %s", name);
		if (*was != o->read_only_device)
			(void)ioctl(device, BLKROSET, was);
	}
	close(claim);
	return ret;
}

static int mount_device(const struct order *o, int device, json_t *answer, struct fm_err *err)
{
	struct fm_mount_options mo;
	int point, was = -1, ret = fm_mount_options_parse(o->options, &mo, err);
	char name[64];

	if (ret < 0)
		return ret;
	ret = fm_helper_device_name(device, name, err);
	if (ret < 0)
		return ret;
	point = open_free_point(o->point, err);
	if (point < 0)
		return point;
	ret = prepare_device(o, mo.flags & MS_RDONLY, device, name, &was, err);
	if (ret == 0) {
		ret = mount_and_check(o, &mo, device, point, name, answer, err);
		if (ret < 0 && was != o->read_only_device)
			(void)ioctl(device, BLKROSET, &was);	/* err says what went wrong first */
	}
	close(point);
	if (ret == 0)
		ret = fm_helper_put(answer, "device", json_string(name), err);
	return ret == 0 ? fm_helper_put(answer, "set_read_only", json_boolean(o->read_only_device == 1 && was == 0), err) : ret;
}

int fm_helper_mount(json_t *request, json_t *answer, struct fm_err *err)
{
	struct order o = { .read_only_device = -1 };
	int device, ret;

	ret = fm_helper_unpack(request, err, "{s:s, s:o, s:s, s:s, s:s, s?b, s?s}", "device", &o.device, "rdev", &o.rdev, "point", &o.point,
			       "type", &o.type, "options", &o.options, "read_only_device", &o.read_only_device, "wwid", &o.wwid);
	if (ret < 0)
		return ret;
	device = fm_helper_open_device(o.device, o.rdev, o.wwid, 0, err);
	if (device < 0)
		return device;
	ret = mount_device(&o, device, answer, err);
	close(device);
	return ret;
}

/* ------------------------------------------------------------------------------------------------------- unmount */

/* Whether something is mounted at the point, of that device (NULL: of any). */
static int find_asked(const char *point, json_t *rdev, bool *is_mounted, struct fm_err *err)
{
	int want_major, want_minor, ret;
	dev_t dev;

	ret = find_mounted(point, is_mounted, &dev, err);
	if (ret < 0 || !*is_mounted || !rdev)
		return ret;
	ret = fm_helper_unpack(rdev, err, "[i, i]", &want_major, &want_minor);
	if (ret == 0 && dev != makedev((unsigned)want_major, (unsigned)want_minor))
		ret = fm_err_set(err, -ESTALE, "what is mounted at %s is device %u:%u, not %d:%d: left alone", point, major(dev),
				 minor(dev), want_major, want_minor);
	return ret;
}

struct farewell {
	const char *point, *device;
	json_t *rdev;
	int force, lazy, sync, read_write_device;
};

/* What cannot be written is said, and hinders nothing: it is unmounted by order. */
static int sync_point(const char *point, json_t *answer, struct fm_err *err)
{
	int error = 0, fd = open(point, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || syncfs(fd) < 0)
		error = -errno;
	if (fd >= 0)
		close(fd);
	return error ? fm_helper_put(answer, "sync_error", json_string(fm_err_name(error)), err) : 0;
}

/* So what needs the mount ends before it, as its unit says. 0: done; 1: it is no unit's. */
static int unmount_by_unit(const char *point, struct fm_err *err)
{
	struct fm_systemd_mount unit;
	struct fm_systemd *systemd;
	bool is_mounted = true;
	dev_t dev;
	int ret = fm_systemd_open(&systemd, err);

	if (ret < 0)
		return ret == -ENOENT ? 1 : ret;
	ret = fm_systemd_look(systemd, point, &unit, err) < 0 || !unit.has_file || !unit.is_active;
	if (ret == 0)
		ret = fm_systemd_stop(systemd, unit.name, err);
	fm_systemd_close(systemd);
	/* It does not say that a file is open there, which is the most likely. */
	if (ret == -EIO && find_mounted(point, &is_mounted, &dev, err) == 0)
		return is_mounted ? fm_err_set(err, -EBUSY, "%s could not stop, probably in use: `fuser -vm %s` shows by whom", unit.name,
					       point) : 0;
	return ret;
}

static int unmount(const struct farewell *f, json_t *answer, struct fm_err *err)
{
	int ret = f->sync ? sync_point(f->point, answer, err) : 0;

	if (ret == 0 && !f->force && !f->lazy)
		ret = unmount_by_unit(f->point, err);
	else if (ret == 0)
		ret = 1;
	if (ret <= 0)
		return ret;
	if (umount2(f->point, UMOUNT_NOFOLLOW | (f->force ? MNT_FORCE : 0) | (f->lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EBUSY)
		return fm_err_set(err, -EBUSY, "%s is in use: `fuser -vm %s` shows by whom", f->point, f->point);
	return fm_err_sys(err, -errno, "unmount %s", f->point);
}

/* Not below the feet of somebody who still has it. The target's own protection is another thing, which stays. */
static int make_writable(const struct farewell *f, struct fm_err *err)
{
	int was, claim, ret, device = fm_helper_open_device(f->device, f->rdev, NULL, 0, err);

	if (device < 0)
		return device;
	claim = ret = claim_device(device, f->device, err);
	if (claim >= 0) {
		ret = set_read_only(device, f->device, 0, &was, err);
		close(claim);
	}
	close(device);
	return ret;
}

int fm_helper_unmount(json_t *request, json_t *answer, struct fm_err *err)
{
	struct farewell f = { 0 };
	struct fm_err why = { 0 };
	bool is_mounted = false;
	int ret;

	ret = fm_helper_unpack(request, err, "{s:s, s?o, s?s, s?b, s?b, s?b, s?b}", "point", &f.point, "rdev", &f.rdev, "device",
			       &f.device, "force", &f.force, "lazy", &f.lazy, "sync", &f.sync, "read_write_device",
			       &f.read_write_device);
	if (ret == 0 && f.read_write_device && (!f.device || !f.rdev))
		ret = fm_err_set(err, -EINVAL, "which device is to be made writable is not said");
	if (ret == 0)
		ret = find_asked(f.point, f.rdev, &is_mounted, err);
	if (ret == 0 && is_mounted)
		ret = unmount(&f, answer, err);
	if (ret < 0 || !f.read_write_device)
		return ret;
	if (make_writable(&f, &why) < 0)
		return fm_helper_put(answer, "still_read_only", json_string(why.text), err);
	return 0;
}
