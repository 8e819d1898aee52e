/* SPDX-License-Identifier: MIT */
/* The calls of a helper process that mount and unmount. What is done to the device is
 * helper_prepare.c's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/mount_options.h"
#include "nvmetcp/systemd.h"

/* Of ext4, XFS and f2fs alike, each of which has a name of its own for it. */
#define SHUT_DOWN _IOR('X', 125, uint32_t)
#define WRITE_NOTHING 2

struct order {
	const char *device, *point, *type, *options, *wwid;
	const struct fm_json *rdev;
};

static int explain_mount(const struct order *o, const char *name, int error, struct fm_err *err)
{
	const char *hint = "";

	if (error == -EINVAL)
		hint = " (not this file system, an option it does not know, or a damaged "
		       "superblock; `dmesg` says which)";
	else if (error == -ENODEV)
		hint = " (the kernel does not know this file system)";
	else if (error == -EBUSY)
		hint = " (in use here, or another node has it mounted, which multiple mount "
		       "protection tells; `dmesg` says which)";
	else if (error == -EROFS || error == -EACCES)
		hint = " (the device is read-only: mount it read-only)";
	return fm_err_set(err, error, "mount %s at %s as %s: %s%s", name, o->point, o->type,
			  fm_err_name(error), hint);
}

/* Whether there is no systemd to ask. The mount is then done without it. */
static bool is_no_systemd(int error)
{
	return error == -ENOENT || error == -EAGAIN;
}

/* Whether the unit mounts the same device in the same way as the request. */
static int check_unit(const struct order *o, const struct fm_systemd_mount *unit, dev_t dev,
		      struct fm_err *err)
{
	const char *lacking;
	struct stat st;
	int len;

	/* One that is not there yet is awaited by systemd, and looked at afterwards. */
	if (unit->what[0] == '/' && stat(unit->what, &st) == 0 && st.st_rdev != dev)
		return fm_err_set(
			err, -EINVAL,
			"%s is for %s, which is another device; `fmove nvme units` writes it anew",
			unit->name, unit->what);
	if (!fm_systemd_has_options(unit, o->options, &lacking, &len))
		return fm_err_set(err, -EINVAL,
				  "%s has other options than are wanted now (\"%.*s\"); if the "
				  "configuration has changed, "
				  "`fmove nvme units` writes it anew",
				  unit->name, len, lacking);
	return 0;
}

/*
 * Has systemd mount the device, if it has a unit that says the same. 0: done. 1: there is no unit,
 * it says something else, or systemd cannot be asked. If systemd is starting another such unit just
 * now, that is safe: the device was prepared, and the kernel mounts it there once.
 */
static int mount_by_unit(const struct order *o, dev_t dev, struct fm_json *answer,
			 struct fm_err *err)
{
	struct fm_systemd_mount unit;
	struct fm_systemd *systemd;
	int ret = fm_systemd_open(&systemd, err);

	if (ret < 0)
		return is_no_systemd(ret) ? 1 : ret;
	ret = fm_systemd_look(systemd, o->point, &unit, err) < 0 || !unit.has_file;
	if (ret == 0 && check_unit(o, &unit, dev, err) < 0) {
		ret = fm_helper_put(answer, "unit_unfit", fm_json_of_text(err->text), err);
		ret = ret < 0 ? ret : 1;
	}
	if (ret == 0)
		ret = fm_systemd_start(systemd, unit.name, err);
	fm_systemd_close(systemd);
	return ret;
}

/*
 * Mounts the device by its kernel name, which df and findmnt then show. While the device is open,
 * the kernel gives that name to no other. The mount is checked afterwards all the same.
 */
static int mount_and_check(const struct order *o, const struct fm_mount_options *mo, int device,
			   int point, const char *name, struct fm_json *answer, struct fm_err *err)
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
	ret = fm_helper_find_mounted(o->point, &is_mounted, &got, err);
	/* btrfs has device numbers of its own. */
	if (ret == 0 && got != want.st_rdev && strcmp(o->type, "btrfs") != 0)
		ret = fm_err_set(
			err, -ESTALE,
			"%s turned out to be device %u:%u when it was mounted: unmounted again",
			name, major(got), minor(got));
	if (ret < 0)
		(void)umount2(o->point, UMOUNT_NOFOLLOW);	/* err says what went wrong first */
	return ret;
}

/*
 * Whether the device is mounted at the point already. Its unit may have been faster: it may mount
 * as soon as the device is prepared.
 */
static int is_mounted_already(const struct order *o, int device, bool *out, struct fm_err *err)
{
	bool is_taken;
	struct stat st;
	dev_t dev;
	int ret;

	if (fstat(device, &st) < 0)
		return fm_err_sys(err, -errno, "look at %s", o->device);
	ret = fm_helper_find_mounted(o->point, &is_taken, &dev, err);
	*out = ret == 0 && is_taken && dev == st.st_rdev;
	return ret;
}

static int mount_device(const struct order *o, int device, struct fm_json *answer,
			struct fm_err *err)
{
	struct fm_mount_options mo;
	int point, ret = fm_mount_options_parse(o->options, &mo, err);
	bool is_there = false;
	char name[64];

	if (ret == 0)
		ret = fm_helper_device_name(device, name, err);
	if (ret == 0)
		ret = is_mounted_already(o, device, &is_there, err);
	if (ret < 0)
		return ret;
	if (!is_there) {
		point = fm_helper_open_free_point(o->point, err);
		if (point < 0)
			return point;
		ret = mount_and_check(o, &mo, device, point, name, answer, err);
		close(point);
	}
	return ret == 0 ? fm_helper_put(answer, "device", fm_json_of_text(name), err) : ret;
}

int fm_helper_mount(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	struct order o = { 0 };
	int device, ret;

	ret = fm_helper_unpack(request, err, "{s:s, s:o, s:s, s:s, s:s, s?s}", "device", &o.device,
			       "rdev", &o.rdev, "point", &o.point, "type", &o.type, "options",
			       &o.options, "wwid", &o.wwid);
	if (ret < 0)
		return ret;
	device = fm_helper_open_device(o.device, o.rdev, o.wwid, 0, err);
	if (device < 0)
		return device;
	ret = mount_device(&o, device, answer, err);
	close(device);
	return ret;
}

/* -------------------------------------------------------------------------------------- unmount */

struct farewell {
	const char *point, *device, *release_as;
	const struct fm_json *rdev;	/* of what is mounted: btrfs has a number of its own */
	const struct fm_json *device_rdev;
	dev_t dev;			/* of what is mounted */
	int force, lazy, sync, keep_unsynced, shutdown, read_write_device;
};

/* Whether something is mounted at the point, of the device that is asked for, if any is. */
static int find_asked(struct farewell *f, bool *is_mounted, struct fm_err *err)
{
	int want_major, want_minor, ret;

	ret = fm_helper_find_mounted(f->point, is_mounted, &f->dev, err);
	if (ret < 0 || !*is_mounted || !f->rdev)
		return ret;
	ret = fm_helper_unpack(f->rdev, err, "[i, i]", &want_major, &want_minor);
	if (ret == 0 && f->dev != makedev((unsigned)want_major, (unsigned)want_minor))
		ret = fm_err_set(err, -ESTALE,
				 "what is mounted at %s is device %u:%u, not %d:%d: left alone",
				 f->point, major(f->dev), minor(f->dev), want_major, want_minor);
	return ret;
}

/*
 * Shuts the file system down: what it has not written yet is lost, also in open files. The device
 * number is compared first, so that another file system that was mounted over it is left alone.
 */
static int shut_down(const struct farewell *f, struct fm_json *answer, struct fm_err *err)
{
	int error = 0, fd = open(f->point, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint32_t how = WRITE_NOTHING;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		error = -errno;
	else if (st.st_dev != f->dev)
		error = -ESTALE;
	else if (ioctl(fd, SHUT_DOWN, &how) < 0)
		error = errno == ENOTTY ? -EOPNOTSUPP : -errno;
	if (fd >= 0)
		close(fd);
	return error ? fm_helper_put(answer, "still_writes", fm_json_of_text(fm_err_name(error)),
				     err)
		     : fm_helper_put(answer, "shut_down", fm_json_of_bool(true), err);
}

/* Writes out what is dirty of the file system that has this directory; the descriptor is closed. It
 * tells also what could not be written before it was opened, unless somebody was told already. */
static int sync_and_close(int dir)
{
	int error = dir < 0 || syncfs(dir) < 0 ? -errno : 0;

	if (dir >= 0)
		close(dir);
	return error;
}

static int put_sync_error(int error, struct fm_json *answer, struct fm_err *err)
{
	return error ? fm_helper_put(answer, "sync_error", fm_json_of_text(fm_err_name(error)), err)
		     : 0;
}

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/*
 * Writes out what is dirty. An error is reported, and does not stop the unmount, which a person
 * asked for.
 */
static int sync_point(const char *point, struct fm_json *answer, struct fm_err *err)
{
	return put_sync_error(sync_and_close(open(point, DIRECTORY)), answer, err);
}

/*
 * Has systemd stop the mount unit, so that services that need the mount end first. 0: done. 1: no
 * unit has this mount.
 */
static int unmount_by_unit(const char *point, struct fm_err *err)
{
	struct fm_systemd_mount unit;
	struct fm_systemd *systemd;
	bool is_mounted = true;
	dev_t dev;
	int ret = fm_systemd_open(&systemd, err);

	if (ret < 0)
		return is_no_systemd(ret) ? 1 : ret;
	ret = fm_systemd_look(systemd, point, &unit, err) < 0 || !unit.has_file || !unit.is_active;
	if (ret == 0)
		ret = fm_systemd_stop(systemd, unit.name, err);
	fm_systemd_close(systemd);
	/* It does not say that a file is open there, which is the most likely. */
	if (ret == -EIO && fm_helper_find_mounted(point, &is_mounted, &dev, err) == 0)
		return is_mounted ? fm_err_set(err, -EBUSY,
					       "%s could not stop, probably in use: `fuser -vm %s` "
					       "shows by whom",
					       unit.name, point)
				  : 0;
	return ret;
}

/* What is mounted there now is looked at once more: what came before may have taken minutes. */
static int unmount_point(struct farewell *f, struct fm_err *err)
{
	bool is_mounted = false;
	int ret = find_asked(f, &is_mounted, err);

	if (ret < 0 || !is_mounted)
		return ret;
	if (umount2(f->point,
		    UMOUNT_NOFOLLOW | (f->force ? MNT_FORCE : 0) | (f->lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EBUSY)
		return fm_err_set(err, -EBUSY, "%s is in use: `fuser -vm %s` shows by whom",
				  f->point, f->point);
	return fm_err_sys(err, -errno, "unmount %s", f->point);
}

static int unmount(struct farewell *f, struct fm_json *answer, struct fm_err *err)
{
	int ret = f->shutdown			 ? shut_down(f, answer, err) :
		  f->sync && !f->keep_unsynced	 ? sync_point(f->point, answer, err) :
						   0;

	if (ret == 0 && !f->force && !f->lazy)
		ret = unmount_by_unit(f->point, err);
	else if (ret == 0)
		ret = 1;
	return ret == 1 ? unmount_point(f, err) : ret;
}

/*
 * A directory in a mount of the same file system that is in no tree: it keeps the file system, not
 * what is mounted at the point, which can be unmounted meanwhile.
 */
static int open_beside(const struct farewell *f)
{
	int tree = open_tree(AT_FDCWD, f->point,
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	int dir = tree < 0 ? -errno : openat(tree, ".", DIRECTORY);
	struct stat st;

	dir = dir < 0 && tree >= 0 ? -errno : dir;
	if (tree >= 0)
		close(tree);
	if (dir >= 0 && (fstat(dir, &st) < 0 || st.st_dev != f->dev)) {
		close(dir);
		return -ESTALE;
	}
	return dir;
}

static int sync_beside(int beside)
{
	return beside < 0 ? beside : sync_and_close(openat(beside, ".", DIRECTORY));
}

/*
 * Unmounts only what could be written out. An unmount writes what is dirty and tells nobody of an
 * error, after which the file system may look clean. So all is written first; and once more when
 * nobody can write any more, since the services that a unit stops may have written.
 */
static int unmount_written(struct farewell *f, struct fm_json *answer, struct fm_err *err)
{
	int ret, beside = open_beside(f), error = sync_beside(beside);

	ret = put_sync_error(error, answer, err);
	if (ret == 0 && error)
		ret = fm_err_set(err, error,
				 "%s is left mounted, since not all of it could be written: %s",
				 f->point, fm_err_name(error));
	if (ret == 0)
		ret = unmount(f, answer, err);
	if (ret == 0)
		ret = put_sync_error(sync_beside(beside), answer, err);
	if (beside >= 0)
		close(beside);
	return ret;
}

int fm_helper_unmount(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	struct farewell f = { 0 };
	struct fm_err why = { 0 };
	bool is_mounted = false;
	int ret;

	ret = fm_helper_unpack(request, err,
			       "{s:s, s?o, s?s, s?o, s?b, s?b, s?b, s?b, s?b, s?b, s?s}",
			       "point", &f.point, "rdev", &f.rdev, "device", &f.device,
			       "device_rdev", &f.device_rdev, "force", &f.force, "lazy", &f.lazy,
			       "sync", &f.sync, "keep_unsynced", &f.keep_unsynced, "shutdown",
			       &f.shutdown, "read_write_device", &f.read_write_device, "release_as",
			       &f.release_as);
	f.device_rdev = f.device_rdev ? f.device_rdev : f.rdev;
	if (ret == 0 && (f.read_write_device || f.release_as) && (!f.device || !f.device_rdev))
		ret = fm_err_set(err, -EINVAL,
				 "which device is to be made writable or released is not said");
	if (ret == 0 && f.shutdown && !f.rdev)
		ret = fm_err_set(err, -EINVAL, "which device is to be shut down is not said");
	if (ret == 0)
		ret = find_asked(&f, &is_mounted, err);
	if (ret == 0 && is_mounted)
		ret = f.sync && f.keep_unsynced ? unmount_written(&f, answer, err)
						: unmount(&f, answer, err);
	else if (ret == 0 && f.keep_unsynced)
		ret = fm_helper_put(answer, "not_mounted", fm_json_of_bool(true), err);
	if (ret == 0 && f.release_as &&
	    fm_helper_target_release(f.device, f.device_rdev, f.release_as, &why) < 0)
		ret = fm_helper_put(answer, "still_reserved", fm_json_of_text(why.text), err);
	if (ret == 0 && f.read_write_device &&
	    fm_helper_make_writable(f.device, f.device_rdev, &why) < 0)
		ret = fm_helper_put(answer, "still_read_only", fm_json_of_text(why.text), err);
	return ret;
}

/* ----------------------------------------------------------------------------- after an unmount */

/* A bus that is there and does not answer may be all that keeps us from seeing a mount begin. */
static int check_unit_rests(const char *point, struct fm_err *err)
{
	struct fm_systemd_mount unit;
	struct fm_systemd *systemd;
	int ret = fm_systemd_open(&systemd, err);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = fm_systemd_look(systemd, point, &unit, err);
	if (ret == 0 && unit.is_changing)
		ret = fm_err_set(err, -EBUSY,
				 "systemd is about to mount or unmount it: `systemctl status %s` "
				 "shows what that waits for",
				 unit.name);
	fm_systemd_close(systemd);
	return ret;
}

/*
 * Whether the device is gone. The kernel marks a device dead before it leaves /sys: nothing is
 * written to it any more, and it does not come back.
 */
static bool is_device_gone(dev_t dev, const char *wwid)
{
	struct fm_inv_namespace ns;
	char path[64];

	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	if (access(path, F_OK) < 0)
		return errno == ENOENT;
	/* Another namespace has this number now, so the device that was asked about is gone. */
	return wwid && fm_inventory_identify("", dev, &ns, NULL) == 0 && ns.wwid[0] &&
	       strcmp(ns.wwid, wwid) != 0;
}

static int check_free(const char *device, const struct fm_json *rdev, const char *wwid,
		      struct fm_err *err)
{
	int first, second, fd, ret = fm_helper_unpack(rdev, err, "[i, i]", &first, &second);
	dev_t dev;

	if (ret < 0)
		return ret;
	dev = makedev((unsigned)first, (unsigned)second);
	if (is_device_gone(dev, wwid))
		return 0;
	fd = fm_helper_open_device(device, rdev, NULL, O_EXCL, err);
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (is_device_gone(dev, wwid))
		return 0;
	return fd == -EBUSY ? fm_err_set(err, -EBUSY,
					 "%s is still being written out, or in use: by a file that "
					 "is open, or mounted in "
					 "another mount namespace (`lsof %s` and `lsns -t mnt` may "
					 "show where)",
					 device, device)
			    : fd;
}

int fm_helper_unused(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	const char *device = NULL, *wwid = NULL, *point = NULL;
	const struct fm_json *rdev = NULL;
	int ret = fm_helper_unpack(request, err, "{s?s, s?o, s?s, s?s}", "device", &device, "rdev",
				   &rdev, "wwid", &wwid, "unit_of", &point);

	(void)answer;
	if (ret == 0 && !device != !rdev)
		ret = fm_err_set(err, -EINVAL, "a device is named by its path and its number");
	/* In this order: a mount that systemd has done by now has the device. */
	if (ret == 0 && point)
		ret = check_unit_rests(point, err);
	return ret == 0 && device ? check_free(device, rdev, wwid, err) : ret;
}
