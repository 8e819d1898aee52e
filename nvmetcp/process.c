/* SPDX-License-Identifier: MIT */
/* process - see process.h. */
#include "nvmetcp/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/proc_stat.h"

#define STAT_MAX FM_PROC_STAT_MAX	/* the user stands near the top of "status" */

static int read_file(const char *root, pid_t pid, const char *name, char text[static STAT_MAX])
{
	char path[PATH_MAX];
	ssize_t got;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/proc/%d/%s", root, (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, STAT_MAX - 1);
	got = got < 0 ? -errno : got;
	close(fd);
	text[got < 0 ? 0 : got] = '\0';
	return got < 0 ? (int)got : 0;
}

static int read_stat(const char *root, pid_t pid, struct fm_proc_stat *out)
{
	char text[STAT_MAX];
	int ret = read_file(root, pid, "stat", text);

	return ret < 0 ? ret : fm_proc_stat_parse(text, out);
}

/*
 * Whether the process may be a helper of ours: its real user id, which is that of whoever started
 * it, decides. The owner of its files in /proc and its effective user id prove nothing: they are
 * root's for a process that allows no dumps and for a set-user-ID program, and every user can have
 * either, with any name.
 */
static bool may_be_ours(const char *root, pid_t pid)
{
	char text[STAT_MAX], *line;
	unsigned user;

	if (read_file(root, pid, "status", text) < 0)
		return true;
	line = strstr(text, "\nUid:");
	return !line || sscanf(line, "\nUid: %u", &user) != 1 || user == getuid();
}

/* A zombie is in no call any more; it waits for whoever inherited it. */
static bool has_ended(const struct fm_proc_stat *is)
{
	return is->state == 'Z' || is->state == 'X';
}

int fm_process_read(const char *root, pid_t pid, struct fm_process *out, struct fm_err *err)
{
	struct fm_proc_stat is;
	int ret = read_stat(root, pid, &is);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at process %d in /proc", (int)pid);
	*out = (struct fm_process){ .pid = pid, .start = is.start_ticks };
	return 0;
}

bool fm_process_may_live(const char *root, const struct fm_process *process)
{
	struct fm_proc_stat is;
	int ret = read_stat(root, process->pid, &is);

	if (ret == -ENOENT || ret == -ESRCH)
		return false;
	return ret < 0 || (is.start_ticks == process->start && !has_ended(&is));
}

static bool may_be_stray(const char *root, pid_t pid, const char *name, pid_t parent)
{
	struct fm_proc_stat is;
	int ret = read_stat(root, pid, &is);

	if (ret == -ENOENT || ret == -ESRCH)
		return false;
	return ret < 0 || (strcmp(is.name, name) == 0 && is.parent != parent && !has_ended(&is) &&
			   may_be_ours(root, pid));
}

bool fm_process_may_stray(const char *root, const char *name, pid_t parent)
{
	const struct dirent *entry;
	char path[PATH_MAX];
	bool is_there = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/proc", root);
	dir = opendir(path);
	if (!dir)
		return true;
	for (errno = 0; !is_there && (entry = readdir(dir)); errno = 0)
		is_there = isdigit((unsigned char)entry->d_name[0]) &&
			   may_be_stray(root, (pid_t)atoi(entry->d_name), name, parent);
	is_there = is_there || errno != 0;
	closedir(dir);
	return is_there;
}
