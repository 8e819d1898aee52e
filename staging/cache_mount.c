/* SPDX-License-Identifier: MIT */
/*
 * cache_mount - whether the directory that is open is still what its path leads to.
 *
 * A file system that is mounted there, or above it, after the start hides it, as with nofail at
 * boot: what is staged then lies beneath the mount point, and the paths that are told lead into
 * another file system. One that shows the same directory there hides nothing. The kernel's table of
 * mounts says so; the file systems are not asked, since one that was just mounted may never answer.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/mount_of.h"
#include "staging/cache_priv.h"

#define PLACE_MAX (2 * PATH_MAX)	/* what is mounted may lie as deep as where it is */

/* Its path as the kernel has it: no part of that is a link. */
void fm_cache_mount_note(struct fm_cache *c)
{
	char name[32], path[PLACE_MAX];
	ssize_t len;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", c->root);
	len = readlink(name, path, sizeof(path) - 1);
	if (len <= 0 || path[0] != '/')
		return;
	path[len] = '\0';
	c->real = strdup(path);
	if (c->real && fm_mount_place(c->real, path, sizeof(path)))
		c->place = strdup(path);
}

int fm_cache_mount_check(const struct fm_cache *c, struct fm_err *err)
{
	char now[PLACE_MAX];

	if (!c->place || !fm_mount_place(c->real, now, sizeof(now)) || strcmp(now, c->place) == 0)
		return 0;
	return fm_err_set(err, -ENODEV,
			  "cache %.200s: since fmoved was started a file system was mounted there "
			  "or above it, or the one that was is not any more, so that path does "
			  "not lead to what is staged: restart fmoved, or undo that",
			  c->directory);
}

void fm_cache_mount_look(struct fm_cache *c)
{
	struct fm_err err;
	bool is_hidden = fm_cache_mount_check(c, &err) < 0;

	if (atomic_exchange(&c->is_hidden, is_hidden) == is_hidden)
		return;
	if (is_hidden)
		fm_log_error("%s; until then nothing is staged", err.text);
	else
		fm_log_info("cache %s: its path leads to what is staged again", c->directory);
}
