/* SPDX-License-Identifier: MIT */
/* mending_opts - see mending_opts.h. */
#include "staging/service/mending_opts.h"

#include <errno.h>
#include <fcntl.h>

#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "staging/service/stager.h"

int fm_mending_file(struct fm_stager *stager, uint64_t size, struct fm_err *err)
{
	const char *directory = fm_stager_config(stager)->cache.directory;
	struct fm_cache *cache = fm_stager_cache(stager);
	int fd = fm_cache_make_room(cache, size, err);

	if (fd < 0)
		return fd;
	fd = FM_FAULT("mend.file") ? -EMFILE
				   : fm_call(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
	return fd < 0 ? fm_cache_no_file(cache, fd, err) : fd;
}
