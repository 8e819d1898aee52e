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
#define ASKED	"asked here\n"
#define TEXT_MAX (sizeof(FORMAT ASKED) + FM_HUB_MARK_MAX + 1)

static int open_mark(int marks, const char *repository)
{
	return fm_call(openat(marks, repository, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

/* What stands in its place is no mark. */
static bool is_bad(int code)
{
	return code == -ELOOP || code == -ENOTDIR || code == -EISDIR;
}

/* The text, terminated: its length. */
static int64_t read_mark(int home, const char *repository, char *text, size_t max)
{
	int marks = fm_hub_dir_open(home, MARKS);
	int fd = marks < 0 ? marks : open_mark(marks, repository);
	int64_t len = fd;

	if (fd >= 0)
		len = FM_FAULT("hub.mark_read") ? -EIO
						: fm_call_read_all(fd, (uint8_t *)text, max, 0);
	if (fd >= 0)
		(void)close(fd);	/* only read */
	if (marks >= 0)
		(void)close(marks);	/* only read */
	text[len > 0 ? len : 0] = '\0';
	return len;
}

int fm_hub_mark_read(int home, const char *repository, char from[static FM_HUB_MARK_MAX + 1],
		     bool *is_asked)
{
	char text[TEXT_MAX + 1], *line = text + sizeof(FORMAT) - 1;
	int64_t len = read_mark(home, repository, text, sizeof(text) - 1);
	size_t name;

	from[0] = '\0';
	*is_asked = false;
	if (len < 0)
		return is_bad((int)len) ? 0 : (int)len;
	if (strncmp(text, FORMAT, sizeof(FORMAT) - 1) != 0)
		return 0;
	name = strcspn(line, "\n");
	*is_asked = line[name] && strcmp(line + name + 1, ASKED) == 0;
	len -= *is_asked ? (int64_t)strlen(ASKED) : 0;
	/* the whole file is these lines, and the second one is a store of a node */
	if (line + name + 1 != text + len || name > FM_HUB_MARK_MAX || !memchr(line, ':', name)) {
		*is_asked = false;
		return 0;
	}
	(void)snprintf(from, FM_HUB_MARK_MAX + 1, "%.*s", (int)name, line);
	return 0;
}

int fm_hub_mark_write(int home, const char *repository, const char *from, bool is_asked)
{
	char text[TEXT_MAX + 1];
	int marks = fm_hub_dir_make(home, MARKS), ret;

	if (marks < 0)
		return marks;
	(void)snprintf(text, sizeof(text), FORMAT "%s\n%s", from[0] ? from : SEVERAL,
		       from[0] && is_asked ? ASKED : "");
	ret = fm_hub_dir_write(marks, text, 0644, FM_HUB_NOBODY);
	if (ret == 0)
		ret = fm_hub_dir_name(marks, marks, repository);
	(void)close(marks);	/* synced */
	return ret;
}

int fm_hub_mark_sync(int home)
{
	int marks = fm_hub_dir_open(home, MARKS), ret = marks;

	if (marks >= 0) {
		ret = fm_call(fsync(marks));
		(void)close(marks);	/* synced */
	}
	return ret == -ENOENT || is_bad(ret) ? 0 : ret;
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
