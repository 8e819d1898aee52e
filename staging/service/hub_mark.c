/* SPDX-License-Identifier: MIT */
/* hub_mark - see hub_mark.h. */
#include "staging/service/hub_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "staging/service/hub_dir.h"

#define MARKS	"sources"
#define FORMAT	"fmove hub source 1\n"
#define SEVERAL "several"

static int open_mark(int marks, const char *repository)
{
	return fm_call(openat(marks, repository, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

void fm_hub_mark_read(int home, const char *repository, char from[static FM_HUB_MARK_MAX + 1])
{
	char text[sizeof(FORMAT) + FM_HUB_MARK_MAX + 2], *line = text + sizeof(FORMAT) - 1;
	int marks = fm_hub_dir_open(home, MARKS);
	int fd = marks < 0 ? marks : open_mark(marks, repository);
	int64_t len = fd < 0 ? fd : fm_call_read_all(fd, (uint8_t *)text, sizeof(text) - 1, 0);
	size_t name;

	if (fd >= 0)
		(void)close(fd);	/* only read */
	if (marks >= 0)
		(void)close(marks);	/* only read */
	from[0] = '\0';
	text[len > 0 ? len : 0] = '\0';
	if (strncmp(text, FORMAT, sizeof(FORMAT) - 1) != 0)
		return;
	name = strcspn(line, "\n");
	/* the whole file is these lines, and the second one is a store of a node */
	if (line + name + 1 != text + len || name > FM_HUB_MARK_MAX || !memchr(line, ':', name))
		return;
	(void)snprintf(from, FM_HUB_MARK_MAX + 1, "%.*s", (int)name, line);
}

static int write_new(int marks, const char *text)
{
	int fd, ret;

	fm_hub_dir_clear(marks);
	fd = fm_call(openat(marks, FM_HUB_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
	if (fd < 0)
		return fd;
	ret = FM_FAULT("hub.mark") ? -ENOSPC : fm_call_write_all(fd, text, strlen(text), 0);
	if (ret == 0)
		ret = fm_call(fsync(fd));
	(void)close(fd);	/* synced */
	return ret;
}

int fm_hub_mark_write(int home, const char *repository, const char *from)
{
	char text[sizeof(FORMAT) + FM_HUB_MARK_MAX + 2];
	int marks = fm_hub_dir_make(home, MARKS), ret;

	if (marks < 0)
		return marks;
	(void)snprintf(text, sizeof(text), FORMAT "%s\n", from[0] ? from : SEVERAL);
	ret = write_new(marks, text);
	if (ret == 0)
		ret = fm_hub_dir_name(marks, marks, repository);
	(void)close(marks);	/* synced */
	return ret;
}

static void drop_mark(int marks, const char *repository, void *ctx)
{
	const int *hub = ctx;
	struct stat st;

	if (fstatat(*hub, repository, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		(void)unlinkat(marks, repository, 0);
}

void fm_hub_mark_sweep(int home, int hub)
{
	fm_hub_dir_each(home, MARKS, drop_mark, &hub);
}
