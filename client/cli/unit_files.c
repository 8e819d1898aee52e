/* SPDX-License-Identifier: MIT */
/* unit_files - see unit_files.h. */
#include "client/cli/unit_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/units.h"
#include "mover/base/err.h"

/* bytes; ours are below: two paths of 4095 bytes, each perhaps doubled */
#define TEXT_MAX (32u << 10)

/*
 * Reads a file, at most TEXT_MAX - 1 bytes, and terminates the text. -EEXIST: it is no plain file.
 */
static int read_text(int dir, const char *name, char out[static TEXT_MAX])
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	size_t len = 0;
	ssize_t got = 1;
	int ret = 0;

	if (fd < 0)
		return errno == ELOOP ? -EEXIST : -errno;
	if (fstat(fd, &st) < 0)
		ret = -errno;
	else if (!S_ISREG(st.st_mode))
		ret = -EEXIST;
	while (ret == 0 && got > 0 && len < TEXT_MAX - 1) {
		got = read(fd, out + len, TEXT_MAX - 1 - len);
		if (got < 0 && errno != EINTR)
			ret = -errno;
		else
			len += got > 0 ? (size_t)got : 0;
		if (got < 0)
			got = 1;	/* interrupted: once more, or ret ends it */
	}
	(void)close(fd);	/* only read */
	out[len] = '\0';
	return ret;
}

int fm_unit_file_look(int dir, const char *name, const char *text, struct fm_err *err)
{
	char there[TEXT_MAX];
	int ret = read_text(dir, name, there);

	if (ret == -ENOENT)
		return 0;
	if (ret < 0 && ret != -EEXIST)
		return fm_err_sys(err, ret, "read %s", name);
	if (ret < 0 || strncmp(there, FM_UNIT_MARK, strlen(FM_UNIT_MARK)) != 0)
		return fm_err_set(err, -EEXIST,
				  "%s: there is one already that fmove did not write; remove it "
				  "first, or keep it",
				  name);
	return text && strcmp(there, text) == 0 ? 2 : 1;
}

int fm_unit_files_each(int dir, int (*each)(void *ctx, const char *name), void *ctx,
		       struct fm_err *err)
{
	/* "." and not dup(): that would share the position. */
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	int ret = 0;

	if (!list) {
		ret = -errno;
		if (fd >= 0)
			(void)close(fd);	/* unused */
		return fm_err_sys(err, ret, "list the directory");
	}
	while (ret == 0 && (errno = 0, entry = readdir(list)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (len < 6 || strcmp(entry->d_name + len - 6, ".mount") != 0)
			continue;
		ret = fm_unit_file_look(dir, entry->d_name, NULL, err);
		if (ret > 0)
			ret = each(ctx, entry->d_name);
		else if (ret == -EEXIST)
			ret = 0;
	}
	if (ret == 0 && !entry && errno)
		ret = fm_err_sys(err, -errno, "list the directory");
	(void)closedir(list);	/* only read */
	return ret;
}
