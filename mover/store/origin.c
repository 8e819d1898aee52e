/* SPDX-License-Identifier: MIT */
/* origin - see origin.h. */
#include "mover/store/origin.h"

#include <errno.h>

#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "mover/journal/siphash.h"
#include "mover/store/sys.h"

#define FUSE_MAGIC 0x65735546ul		/* older systems' linux/magic.h lacks it */
#define OF_HANDLE (UINT64_C(1) << 63)	/* no file was made so late */

int fm_origin_find(int dir, const char *name, uint64_t *out)
{
	static const struct fm_sip key;
	uint8_t handle[FM_CALL_HANDLE_MAX];
	int64_t born_ns = 0;
	int ret = FM_FAULT("store.born") ? 0 : fm_call_born_at(dir, name, &born_ns);

	*out = (uint64_t)born_ns & ~OF_HANDLE;
	if (ret < 0 || born_ns != 0)
		return ret;
	ret = FM_FAULT("store.handle") ? -EOPNOTSUPP : fm_call_handle_at(dir, name, handle);
	if (ret > 0)
		*out = fm_siphash(&key, handle, (size_t)ret).low | OF_HANDLE;
	return ret < 0 ? ret : 0;
}

/*
 * FUSE, and virtiofs, make handles of a number that a mount gave an inode; once the inode was
 * forgotten it gets another one.
 */
static bool has_lasting_handles(int dir)
{
	struct statfs fs;

	return fm_sys_fstatfs(dir, &fs) == 0 && (unsigned long)fs.f_type != FUSE_MAGIC &&
	       !FM_FAULT("store.fuse");
}

int fm_origin_find_lasting(int dir, const char *name, uint64_t *out)
{
	int ret = fm_origin_find(dir, name, out);

	return ret == 0 && (*out & OF_HANDLE) && !has_lasting_handles(dir) ? -EOPNOTSUPP : ret;
}

bool fm_origin_is_alike(uint64_t one, uint64_t other)
{
	return !((one ^ other) & OF_HANDLE);
}
