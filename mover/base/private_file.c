/* SPDX-License-Identifier: MIT */
/* private_file - see private_file.h. */
#include "mover/base/private_file.h"

#include <errno.h>
#include <sys/stat.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

int fm_private_file_check(int fd, const char *path, uid_t owner, struct fm_err *err)
{
	struct stat st;

	if ((FM_FAULT("private_file.stat") ? (errno = EIO, -1) : fstat(fd, &st)) < 0)
		return fm_err_sys(err, -errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return fm_err_set(err, -EINVAL, "%s: not a regular file", path);
	if (st.st_uid != 0 && st.st_uid != owner)
		return fm_err_set(err, -EACCES,
				  "%s: belongs to user %u, who can change it; it must be of root "
				  "or of user %u",
				  path, (unsigned)st.st_uid, (unsigned)owner);
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return fm_err_set(err, -EACCES,
				  "%s: others may use it (mode %04o); run: chmod 0400 %s", path,
				  (unsigned)st.st_mode & 07777, path);
	return 0;
}
