/* SPDX-License-Identifier: MIT */
/* sync - see sync.h. */
#include "mover/store/sync.h"

#include <errno.h>

#include "mover/store/sys.h"

int fm_sync_error(const struct fm_sync *s)
{
	return atomic_load(&s->error);
}

int fm_sync_note(struct fm_sync *s, int ret)
{
	int first = 0;

	if (ret < 0)
		(void)atomic_compare_exchange_strong(&s->error, &first, ret);
	return fm_sync_error(s);
}

int fm_sync_data(struct fm_sync *s, int fd)
{
	int ret = fm_sync_error(s);

	return ret < 0 ? ret : fm_sync_note(s, fm_sys_fdatasync(fd));
}

int fm_sync_file(struct fm_sync *s, int fd)
{
	int ret = fm_sync_error(s);

	return ret < 0 ? ret : fm_sync_note(s, fm_sys_fsync(fd));
}

int fm_sync_dir(struct fm_sync *s, int fd)
{
	int ret = fm_sync_error(s);

	if (ret == 0)
		ret = fm_sys_fsync(fd);
	return fm_sync_note(s, ret == -EINVAL ? 0 : ret);
}
