/* SPDX-License-Identifier: MIT */
/* hub_dir - see hub_dir.h. */
#include "staging/service/hub_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "staging/cache_file.h"

#define UID_NAME "user.fmove_uid"
#define UID_LEN 10	/* digits */
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int fm_hub_dir_open(int parent, const char *name)
{
	return fm_call_open_below(parent, name, DIR_FLAGS, 0, RESOLVE_NO_SYMLINKS);
}

/* Everybody may look into it, whatever the umask is. */
int fm_hub_dir_make(int parent, const char *name)
{
	int ret = FM_FAULT("hub.mkdir") ? -ENOSPC : fm_call_mkdirat(parent, name, 0755), fd;

	if (ret < 0 && ret != -EEXIST)
		return ret;
	fd = fm_hub_dir_open(parent, name);
	if (fd < 0 || ret == -EEXIST)
		return fd;
	ret = fm_call(fchmod(fd, 0755));
	if (ret == 0)
		ret = fm_call(fsync(parent));
	if (ret < 0)
		(void)close(fd);	/* only made */
	return ret < 0 ? ret : fd;
}

int fm_hub_dir_enter(int parent, const char *name)
{
	int fd = fm_hub_dir_make(parent, name);

	(void)close(parent);	/* what was made in it is synced */
	return fd;
}

void fm_hub_dir_clear(int repository)
{
	(void)unlinkat(repository, FM_HUB_NEW, 0);
}

/* A file system without attributes says of none for whom it is. */
static int note_uid(int fd, uid_t uid)
{
	char text[UID_LEN + 1];
	int len = snprintf(text, sizeof(text), "%u", (unsigned)uid), ret;

	ret = uid == FM_HUB_NOBODY ? 0 : fm_call(fsetxattr(fd, UID_NAME, text, (size_t)len, 0));
	return ret == -EOPNOTSUPP ? 0 : ret;
}

uid_t fm_hub_dir_uid(int dir, const char *name)
{
	int fd = fm_call(openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	char text[UID_LEN + 1], *end = text;
	ssize_t len = fd < 0 ? -1 : fgetxattr(fd, UID_NAME, text, UID_LEN);
	unsigned long uid = FM_HUB_NOBODY;

	if (len > 0) {
		text[len] = '\0';
		uid = strtoul(text, &end, 10);
	}
	if (fd >= 0)
		(void)close(fd);	/* only read */
	return end == text || *end ? FM_HUB_NOBODY : (uid_t)uid;
}

int fm_hub_dir_write(int repository, const char *text, mode_t mode, uid_t uid)
{
	int fd, ret;

	fm_hub_dir_clear(repository);
	fd = fm_call(openat(repository, FM_HUB_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
	if (fd < 0)
		return fd;
	ret = FM_FAULT("hub.write") ? -ENOSPC : fm_call_write_all(fd, text, strlen(text), 0);
	if (ret == 0)
		ret = note_uid(fd, uid);	/* while it may be written */
	if (ret == 0)
		ret = fm_call(fchmod(fd, mode));
	if (ret == 0)
		ret = fm_call(fsync(fd));
	(void)close(fd);	/* synced */
	return ret;
}

int fm_hub_dir_name(int repository, int dir, const char *name)
{
	int ret = FM_FAULT("hub.rename") ? -EIO
					 : fm_call_renameat(repository, FM_HUB_NEW, dir, name, 0);

	return ret < 0 ? ret : fm_call(fsync(dir));
}

struct each {
	int dir;
	void (*fn)(int dir, const char *name, void *ctx);
	void *ctx;
};

static int call_each(void *ctx, const char *name)
{
	const struct each *e = ctx;

	e->fn(e->dir, name, e->ctx);
	return 0;
}

void fm_hub_dir_each(int parent, const char *name,
		     void (*fn)(int dir, const char *name, void *ctx), void *ctx)
{
	struct each e = { .dir = fm_hub_dir_open(parent, name), .fn = fn, .ctx = ctx };

	if (e.dir < 0)
		return;
	(void)fm_cache_names(e.dir, call_each, &e);	/* what stays is looked at the next time */
	(void)close(e.dir);	/* only read */
}
