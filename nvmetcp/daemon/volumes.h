/* SPDX-License-Identifier: MIT */
/*
 * volumes - the volumes of a configuration as the supervisor wants them: struct fm_volume,
 * addresses taken apart.
 *
 * What is made is plain data, never changed, and borrows its strings from the configuration, which
 * must outlive it. Any thread.
 */
#ifndef FM_NVMETCP_DAEMON_VOLUMES_H
#define FM_NVMETCP_DAEMON_VOLUMES_H

#include "nvmetcp/volume.h"

struct fm_config;
struct fm_err;

struct fm_volumes {
	struct fm_volume *volume;	/* in the order of the configuration */
	unsigned count;
	struct fm_volumes_address *text;	/* what their addresses point into */
};

/* -ENOMEM, and *out is empty then. */
int fm_volumes_make(const struct fm_config *cfg, struct fm_volumes *out, struct fm_err *err);

/* Frees what it holds and empties it. A zeroed one is allowed. */
void fm_volumes_clear(struct fm_volumes *volumes);

#endif
