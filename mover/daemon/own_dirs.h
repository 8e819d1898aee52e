/* SPDX-License-Identifier: MIT */
/* own_dirs - whether a store is apart from what this node keeps for itself, wherever links lead. */
#ifndef FM_DAEMON_OWN_DIRS_H
#define FM_DAEMON_OWN_DIRS_H

struct fm_config;
struct fm_config_store;
struct fm_err;
struct fm_dirway;

/*
 * Of a store that was just opened at way. A configuration is checked by how its paths are spelled
 * (config/check.c); here by where they lead now. -EPERM: it is, holds, or lies in one of these
 * directories, such as that of the node's key; -EAGAIN: its path has led elsewhere since. May hang
 * as their file systems do, but for that of the cache, which is not asked.
 */
int fm_own_dirs_check(const struct fm_config *cfg, const struct fm_config_store *of,
		      const struct fm_dirway *way, struct fm_err *err);

#endif
