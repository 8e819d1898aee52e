/* SPDX-License-Identifier: MIT */
/*
 * What a helper process has the target of a volume do for it, where the target can: keep the
 * namespace for the host that writes to it, and keep what is sealed from everybody.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/reservation.h"
#include "nvmetcp/write_protect.h"

#define WRITABLE_MS 10000		/* until the kernel has heard of it */
#define WRITABLE_STEP_MS 50

/* ---- write protection ---- */

/* A target tells the kernel that a namespace has changed, but not every target does. */
static int rescan(int device, struct fm_err *err)
{
	struct fm_inventory *inv;
	struct stat st;
	int ret;

	if (fstat(device, &st) < 0)
		return fm_err_sys(err, -errno, "look at the device");
	ret = fm_inventory_read("", &inv, err);
	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < inv->namespace_count; i++)
		for (unsigned p = 0;
		     inv->namespaces[i].dev == st.st_rdev && p < inv->namespaces[i].path_count; p++)
			fm_connection_rescan(
				"", inv->controllers[inv->namespaces[i].path[p].controller].name);
	fm_inventory_free(inv);
	return 0;
}

static int await_writable(int device, struct fm_err *err)
{
	int is_ro = 1;

	for (int waited_ms = 0; waited_ms < WRITABLE_MS; waited_ms += WRITABLE_STEP_MS) {
		if (ioctl(device, BLKROGET, &is_ro) < 0)
			return fm_err_sys(err, -errno, "look at the device");
		if (!is_ro)
			return 0;
		(void)poll(NULL, 0, WRITABLE_STEP_MS);
	}
	return fm_err_set(err, -EROFS,
			  "the target protects it no more, and the kernel has it read-only all the "
			  "same; disconnect it "
			  "and connect it again (fmove nvme down, up)");
}

static int unprotect(int device, struct fm_err *err)
{
	int ret = fm_write_protect_set(device, false, err);

	if (ret <= 0)
		return ret;
	ret = rescan(device, err);
	return ret < 0 ? ret : await_writable(device, err);
}

/* The device is read-only here in any case, so what the target will not do hinders nothing. */
static int protect(int device, struct fm_json *answer, struct fm_err *err)
{
	struct fm_err why = { 0 };
	int ret = fm_write_protect_set(device, true, &why);

	if (ret < 0)
		return fm_helper_put(answer, "unprotected", fm_json_of_text(why.text), err);
	return fm_helper_put(answer, "write_protected", fm_json_of_bool(ret), err);
}

/* ---- reservation ---- */

static int reserve(int device, const char *host_id, struct fm_json *answer, struct fm_err *err)
{
	uint64_t key;
	int ret = fm_reservation_key(host_id, &key, err);

	if (ret == 0)
		ret = fm_reservation_take(device, key, err);
	return ret < 0 ? ret : fm_helper_put(answer, "reserved", fm_json_of_bool(ret), err);
}

int fm_helper_target_release(const char *path, const struct fm_json *rdev, const char *host_id,
			     struct fm_err *err)
{
	uint64_t key;
	int device, ret = fm_reservation_key(host_id, &key, err);

	if (ret < 0)
		return ret;
	/* Not below the feet of somebody who still writes. */
	device = fm_helper_open_device(path, rdev, NULL, O_EXCL, err);
	if (device < 0)
		return device;
	ret = fm_reservation_release(device, key, err);
	close(device);
	return ret;
}

int fm_helper_target_prepare(int device, const struct fm_json *target, struct fm_json *answer,
			     struct fm_err *err)
{
	const char *host_id = NULL;
	int is_protected = -1, ret;

	if (!target)
		return 0;
	ret = fm_helper_unpack(target, err, "{s?s, s?b}", "reserve_as", &host_id, "write_protect",
			       &is_protected);
	if (ret == 0 && is_protected == 0)
		ret = unprotect(device, err);
	if (ret == 0 && is_protected == 1)
		ret = protect(device, answer, err);
	if (ret == 0 && host_id)
		ret = reserve(device, host_id, answer, err);
	return ret;
}

/* Until now its target alone may have made it read-only here. */
static int set_read_only(int device, const char *path, struct fm_err *err)
{
	int is_ro = 1;

	return ioctl(device, BLKROSET, &is_ro) < 0
		       ? fm_err_sys(err, -errno, "set %s read-only", path)
		       : 0;
}

static int put_missed(int device, const char *host_id, struct fm_json *answer, struct fm_err *err)
{
	uint64_t key;
	int ret = fm_reservation_key(host_id, &key, err);

	if (ret == 0)
		ret = fm_reservation_is_missed(device, key, host_id, err);
	return ret > 0 ? fm_helper_put(answer, "missed", fm_json_of_bool(true), err) : ret;
}

/* Asked before this host makes itself known again, and answered whatever fails afterwards: a target
 * that restarts once more has forgotten it. */
int fm_helper_target_keep(int device, const struct fm_json *target, struct fm_json *answer,
			  struct fm_err *err)
{
	const char *host_id = fm_json_as_text(fm_json_get(target, "reserve_as"));
	int ret = host_id ? put_missed(device, host_id, answer, err) : 0;

	return ret < 0 ? ret : fm_helper_target_prepare(device, target, answer, err);
}

int fm_helper_keep(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	const char *path, *wwid = NULL;
	const struct fm_json *rdev, *target;
	int device, ret = fm_helper_unpack(request, err, "{s:s, s:o, s:o, s?s}", "device", &path,
					   "rdev", &rdev, "target", &target, "wwid", &wwid);

	if (ret < 0)
		return ret;
	device = fm_helper_open_device(path, rdev, wwid, 0, err);
	if (device < 0)
		return device;
	if (fm_json_is_true(fm_json_get(target, "write_protect")))
		ret = set_read_only(device, path, err);
	if (ret == 0)
		ret = fm_helper_target_keep(device, target, answer, err);
	close(device);
	return ret;
}
