/* SPDX-License-Identifier: MIT */
/*
 * seal - the last things done to a written file.
 *
 * The order matters: writing moves the mtime, a digest is set by who may write to the file, and a
 * process that gave it away may no longer set its mode.
 */
#include "mover/store/seal.h"

#include <errno.h>

#include "mover/base/err.h"
#include "mover/store/store.h"
#include "mover/store/sync.h"
#include "mover/store/sys.h"
#include "mover/tree/digest.h"

#define MODE_MASK 0777u		/* set-id bits and the sticky bit never travel */

/* Sets mode and mtime. 1: the file is not ours to set them. */
static int seal_attr(int fd, const struct fm_seal *seal, struct fm_err *err)
{
	mode_t mode = seal->attr->mode & MODE_MASK;
	int ret = fm_sys_fchmod(fd, seal->is_for_group ? fm_mode_for_group(mode) : mode);

	if (ret == 0)
		ret = fm_sys_set_mtime(fd, seal->attr->mtime_ns);
	if (ret == -EPERM && seal->is_foreign)
		return 1;
	return ret < 0 ? fm_err_sys(err, ret, "set mode and time") : 0;
}

/*
 * Keeps the digest with the file, so that it can be read again and compared later. Many file
 * systems keep none, which is no error.
 */
static void seal_digest(int fd, const struct fm_seal *seal)
{
	if (seal->attr->digest && !seal->is_foreign)
		(void)fm_digest_set(fd, seal->attr->digest);
}

static int seal_owner(int fd, const struct fm_seal *seal, struct fm_err *err)
{
	int ret = seal->has_owner ? fm_sys_fchown(fd, seal->uid, seal->gid) : 0;

	if (ret == 0)
		return 0;
	return fm_err_sys(err, ret,
			  "give the file to uid %u, gid %u (the service needs CAP_CHOWN for owner "
			  "= \"caller\")",
			  seal->uid, seal->gid);
}

int fm_seal(int fd, const struct fm_seal *seal, struct fm_err *err)
{
	int ret = fm_sys_ftruncate(fd, seal->size);
	int attr_ret;

	if (ret < 0)
		return fm_err_sys(err, ret, "set the size to %llu bytes",
				  (unsigned long long)seal->size);
	ret = seal->sync ? fm_sync_data(seal->sync, fd) : 0;
	if (ret < 0)
		return fm_err_sys(err, ret, "sync the data");
	seal_digest(fd, seal);
	attr_ret = seal_attr(fd, seal, err);
	if (attr_ret < 0)
		return attr_ret;
	ret = seal_owner(fd, seal, err);
	if (ret < 0)
		return ret;
	ret = seal->sync ? fm_sync_file(seal->sync, fd) : 0;
	if (ret < 0)
		return fm_err_sys(err, ret, "sync mode and time");
	return attr_ret;
}
