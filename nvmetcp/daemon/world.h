/* SPDX-License-Identifier: MIT */
/*
 * world - this machine as the supervisor sees it: the kernel's files, helper processes, a directory
 * of state. What is done on the loop's own thread reads and writes the kernel's memory and the
 * local disk, never a volume.
 */
#ifndef FM_NVMETCP_DAEMON_WORLD_H
#define FM_NVMETCP_DAEMON_WORLD_H

#include <limits.h>

#include "mover/base/boot.h"
#include "nvmetcp/supervisor.h"

struct fm_err;
struct fm_fmoved;
struct fm_helpers;

struct fm_world {
	struct fm_supervisor_world table;
	struct fm_helpers *helpers;
	struct fm_fmoved *fmoved;
	char directory[PATH_MAX];	/* of state; "": none, and nothing survives the process */
	/* why the one that is configured is not used: what must be durable is an error; "": it is
	 * used, or none is */
	char broken[512];
	char boot[FM_BOOT_ID_LEN + 1];	/* "": not known */
};

/*
 * helpers and fmoved are borrowed. directory: NULL for none; copied, since the configuration that
 * it is from is another after a reload. broken: why there is none although one is configured; NULL:
 * none is wanted. Then nothing is read, and nothing can be saved: an fmove-nvmed that has a
 * directory again would read there what was true before this one, which mounted since.
 */
void fm_world_init(struct fm_world *world, struct fm_helpers *helpers, struct fm_fmoved *fmoved,
		   const char *directory, const char *broken);

#endif
