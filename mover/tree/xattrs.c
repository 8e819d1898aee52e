/* SPDX-License-Identifier: MIT */
/*
 * xattrs - the extended attributes of a file that is read.
 */
#include "mover/tree/xattrs.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "mover/base/fault.h"
#include "mover/tree/pack.h"
#include "mover/tree/xattr_rules.h"

static int add_one(struct fm_xattrs *x, int fd, const char *name)
{
	uint8_t value[FM_TREE_XATTRS_MAX];	/* as large as the kernel takes one */
	struct fm_pack_xattr one = { .name = name, .name_len = strlen(name), .value = value };
	size_t len;
	ssize_t n;

	if (!fm_xattr_may_travel(one.name, one.name_len))
		return 0;
	n = FM_FAULT("xattrs.get") ? (errno = EIO, -1) : fgetxattr(fd, name, value, sizeof(value));
	if (n < 0)
		return errno == ENODATA ? 0 : -errno;	/* removed meanwhile */
	if (n > UINT16_MAX)
		return -E2BIG;
	one.value_len = (size_t)n;
	len = fm_pack_put_xattr(x->packed + x->len, sizeof(x->packed) - x->len, &one);
	x->len += len;
	return len > 0 ? 0 : -E2BIG;
}

int fm_xattrs_read(struct fm_xattrs *x, int fd)
{
	ssize_t len = FM_FAULT("xattrs.list") ? (errno = EIO, -1)
					      : flistxattr(fd, x->names, sizeof(x->names));
	int ret = 0;

	x->len = 0;
	if (len < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (ssize_t at = 0; ret == 0 && at < len; at += (ssize_t)strlen(x->names + at) + 1)
		ret = add_one(x, fd, x->names + at);
	return ret;
}
