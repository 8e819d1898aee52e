/* SPDX-License-Identifier: MIT */
/*
 * cache_mount - whether the directory that is open is still what its path leads to.
 *
 * A file system that is mounted there, or above it, after the start hides it, as with nofail at
 * boot: what is staged then lies beneath the mount point, and the paths that are told lead into
 * another file system. One that shows the same directory there hides nothing. The kernel's table of
 * mounts says so; the file systems are not asked, since one that was just mounted may never answer.
 *
 * While the path leads to the mount that it led to, at the same point of it, it leads to the same
 * directory, however that is called elsewhere: what a mount is of (mount --bind) may be renamed.
 * Only of another mount it is asked whether that shows the same directory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/mount_of.h"
#include "staging/cache_priv.h"

/* Its path as the kernel has it: no part of that is a link. */
void fm_cache_mount_note(struct fm_cache *c)
{
	char name[32], path[FM_MOUNT_PLACE_MAX];
	ssize_t len;
	unsigned mount = fm_mount_of_fd(c->root);

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", c->root);
	len = readlink(name, path, sizeof(path) - 1);
	if (len <= 0 || path[0] != '/')
		return;
	path[len] = '\0';
	c->real = strdup(path);
	if (c->real && fm_mount_place(c->real, path, sizeof(path)))
		c->place = strdup(path);
	if (c->real && fm_mount_look(c->real, &c->mount_len) == mount)
		c->mount = mount;
}

/* Its mount has that number as long as the directory is open. */
static bool is_mounted_as_before(const struct fm_cache *c)
{
	size_t len;

	return c->mount > 0 && fm_mount_look(c->real, &len) == c->mount && len == c->mount_len;
}

int fm_cache_mount_check(const struct fm_cache *c, struct fm_err *err)
{
	char now[FM_MOUNT_PLACE_MAX];

	if (!c->place || is_mounted_as_before(c) ||
	    !fm_mount_place(c->real, now, sizeof(now)) || strcmp(now, c->place) == 0)
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
