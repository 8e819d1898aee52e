/* SPDX-License-Identifier: MIT */
/*
 * made_dir - made in private, given away by descriptor.
 */
#include "mover/store/made_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/store/sys.h"
#include "mover/tree/staging.h"
#include "mover/tree/tsys.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

/*
 * Makes a name that no transfer goes on with. If a crash leaves something under it, a sweep removes
 * it.
 */
static void private_name(char out[FM_STAGING_NAME_LEN + 1])
{
	char digits[2 * sizeof(uint64_t) + 1];
	uint64_t random;

	fm_random_real.fill(fm_random_real.ctx, &random, sizeof(random));
	(void)snprintf(digits, sizeof(digits), "%016" PRIx64, random);	/* always fits */
	fm_staging_name(FM_STAGING_TREE, digits, out);
}

/* Opens a directory in which nobody else can change a name. It may not be the one that was made. */
static int open_private(int parent, const char *name)
{
	struct stat st;
	int fd = fm_sys_open_beneath(parent, name, DIR_FLAGS);
	int ret = fd < 0 ? fd : fm_sys_fstat(fd, &st);

	if (ret >= 0 && (st.st_uid != geteuid() || (st.st_mode & 0022) != 0))
		ret = -EPERM;
	if (ret >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret;
}

/*
 * Gives the directory away and takes it back, before anybody sees it, so that a service that may
 * not do this leaves nothing behind. It must be taken back, since only who may write to a directory
 * can move it.
 */
static int try_to_give(int fd, uid_t uid, gid_t gid)
{
	int ret = fm_sys_fchown(fd, uid, gid);

	return ret < 0 ? ret : fm_sys_fchown(fd, geteuid(), getegid());
}

static int place(int private, int fd, int parent, const char *name, uid_t uid, gid_t gid)
{
	int ret = try_to_give(fd, uid, gid);

	if (ret == 0)
		ret = fm_tsys_rename_free(private, FM_MADE_NAME, parent, name);
	return ret < 0 ? ret : fm_sys_fchown(fd, uid, gid);
}

static int make_inside(int private, int parent, const char *name, uid_t uid, gid_t gid)
{
	int ret = fm_sys_mkdirat(private, FM_MADE_NAME, 0777);
	int fd;

	if (ret < 0)
		return ret;
	fd = fm_sys_open_beneath(private, FM_MADE_NAME, DIR_FLAGS);
	ret = fd < 0 ? fd : place(private, fd, parent, name, uid, gid);
	if (fd >= 0)
		close(fd);
	if (ret < 0)
		/* it may have its name already */
		(void)unlinkat(private, FM_MADE_NAME, AT_REMOVEDIR);
	return ret;
}

int fm_made_private(int parent, char name[FM_STAGING_NAME_LEN + 1])
{
	int ret, fd;

	private_name(name);
	ret = fm_sys_mkdirat(parent, name, 0700);
	if (ret < 0)
		return ret;
	fd = open_private(parent, name);
	if (fd < 0)
		(void)unlinkat(parent, name, AT_REMOVEDIR);	/* what stays is swept */
	return fd;
}

int fm_made_dir(int parent, const char *name, uid_t uid, gid_t gid)
{
	char temp[FM_STAGING_NAME_LEN + 1];
	int private = fm_made_private(parent, temp), ret;

	if (private < 0)
		return private;
	ret = make_inside(private, parent, name, uid, gid);
	close(private);
	(void)unlinkat(parent, temp, AT_REMOVEDIR);	/* what stays is swept */
	return ret;
}

/* ---- what a crash left ---- */

static int is_other(void *ctx, int dir, const char *name)
{
	(void)ctx;
	(void)dir;
	return strcmp(name, FM_MADE_NAME) != 0 && strcmp(name, FM_MADE_RECORD) != 0;
}

static int remove_record(int private)
{
	struct stat st;
	int ret = fm_sys_fstatat(private, FM_MADE_RECORD, &st);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return -EPERM;
	return fm_sys_unlinkat(private, FM_MADE_RECORD, 0);
}

static int remove_made(int private)
{
	struct stat st;
	int ret = fm_sys_fstatat(private, FM_MADE_NAME, &st);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (S_ISLNK(st.st_mode))
		return fm_sys_unlinkat(private, FM_MADE_NAME, 0);
	ret = S_ISDIR(st.st_mode) ? fm_sys_unlinkat(private, FM_MADE_NAME, AT_REMOVEDIR) : -EPERM;
	return ret == -ENOTEMPTY || ret == -EEXIST ? -EPERM : ret;
}

int fm_made_sweep(int parent, const char *name)
{
	int private = open_private(parent, name), ret = private;

	if (private < 0)
		return ret;
	ret = fm_tsys_each_name(private, is_other, NULL);
	if (ret == 0)
		ret = remove_record(private);
	else if (ret > 0)
		ret = -EPERM;
	if (ret == 0)
		ret = remove_made(private);
	close(private);
	return ret < 0 ? ret : fm_sys_unlinkat(parent, name, AT_REMOVEDIR);
}
