/* SPDX-License-Identifier: MIT */
/*
 * own_dirs - whether a store is apart from what its node keeps for itself: the one table of that,
 * and the one sentence that refuses. Who may write to a store must not write jobs in the name of
 * others, nor let peers in, nor be this node by another key, nor change what others are told is
 * READY; and the removal of the package takes some of these.
 *
 * As the paths are spelled, when a configuration is loaded; where they lead, when it is tried
 * (fmoved --check, fmove init) and when a store is opened (start, reload, a late mount). Any
 * thread.
 */
#ifndef FM_CONFIG_OWN_DIRS_H
#define FM_CONFIG_OWN_DIRS_H

#include <stdbool.h>

struct fm_config;
struct fm_config_store;
struct fm_err;
struct fm_dirway;

/* Whether path is dir or something in it, as far as the spelling tells. */
bool fm_own_dirs_spells_within(const char *path, const char *dir);

/* Asks no file system. -EINVAL: it is, holds, or lies in one of them. */
int fm_own_dirs_check_spelling(const struct fm_config *cfg, const struct fm_config_store *of,
			       struct fm_err *err);

/*
 * Where the paths lead now, or would if what is missing of them were made. -EPERM, with the same
 * words: it is, holds, or lies in one of them. May hang as their file systems do, but for that of
 * the cache, which is not asked: its path counts as it is spelled.
 */
int fm_own_dirs_try(const struct fm_config *cfg, const struct fm_config_store *of,
		    struct fm_err *err);

/*
 * The same of a store that was just opened at way. -EAGAIN: its path has led elsewhere since;
 * -errno: it cannot be looked at any more.
 */
int fm_own_dirs_check(const struct fm_config *cfg, const struct fm_config_store *of,
		      const struct fm_dirway *way, struct fm_err *err);

#endif
