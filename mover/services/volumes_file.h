/* SPDX-License-Identifier: MIT */
/*
 * volumes_file - what fmove-nvmed of this node says of its volumes, from the file that it keeps
 * beside its socket. Nothing is asked of it: fmoved runs without its rights, and that file holds
 * nothing but what peers may know.
 */
#ifndef FM_VOLUMES_FILE_H
#define FM_VOLUMES_FILE_H

#include <limits.h>
#include <sys/stat.h>

#include "mover/services/volumes.h"

#define FM_VOLUMES_FILE_MAX (1u << 20)	/* bytes */

struct fm_volumes_file {
	struct fm_volumes_here table;
	char path[PATH_MAX];
	/* of what was read last: it is replaced whole, so nothing else can be in it */
	struct stat known;
	struct fm_volume_said *volumes;	/* ... and what that was; NULL: nothing was read yet */
	unsigned count;
};

/* nvmed_socket: as configured. Loop thread. */
void fm_volumes_file_init(struct fm_volumes_file *file, const char *nvmed_socket);
void fm_volumes_file_clear(struct fm_volumes_file *file);

/*
 * The text of such a file; *out is malloc()ed, at least one long. -EINVAL: it is not one, -ENOMEM.
 */
int fm_volumes_parse(const char *text, size_t len, struct fm_volume_said **out, unsigned *count,
		     struct fm_err *err);

#endif
