/* SPDX-License-Identifier: MIT */
/*
 * sysfs - reading what the kernel says of itself, and telling it.
 */
#include "nvmetcp/sysfs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

#define NAMES_FIRST 8u

/*
 * Errors of this process, not of the object. After one of them nothing is known about the object:
 * it may well be there.
 */
static bool is_ours(int code)
{
	return code == -ENOMEM || code == -EMFILE || code == -ENFILE;
}

static int open_at(int fd, const char *path, int flags)
{
	int got;

	if (FM_FAULT("sysfs.open"))
		return -EMFILE;
	if (FM_FAULT("sysfs.gone"))
		return -ENOENT;
	/* O_NONBLOCK: for the tree of a test; /sys has nothing that waits to be opened. */
	got = openat(fd, path, flags | O_CLOEXEC | O_NONBLOCK);
	return got < 0 ? -errno : got;
}

int fm_sysfs_root(const char *root, struct fm_sysfs_dir *out, struct fm_err *err)
{
	char path[PATH_MAX];
	int fd;

	assert(root && out);
	if ((size_t)snprintf(path, sizeof(path), "%s/sys", strcmp(root, "/") == 0 ? "" : root) >=
	    sizeof(path))
		return fm_err_sys(err, -ENAMETOOLONG, "open sys/ below \"%.64s...\"", root);
	fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fm_err_sys(err, fd, "open %s", path);
	*out = (struct fm_sysfs_dir){ .fd = fd };
	return 0;
}

int fm_sysfs_open(const struct fm_sysfs_dir *at, const char *path, struct fm_sysfs_dir *out)
{
	int fd = open_at(at->fd, path, O_RDONLY | O_DIRECTORY);

	if (fd == -ENODEV || fd == -ENXIO || fd == -ENOTDIR)
		return -ENOENT;
	if (fd < 0)
		return fd;
	*out = (struct fm_sysfs_dir){ .fd = fd };
	return 0;
}

void fm_sysfs_close(struct fm_sysfs_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
}

/* ----------------------------------------------------------------------------------- attributes */

/*
 * Reads an attribute, at most FM_SYSFS_TEXT_MAX bytes, and returns how many. One read is enough,
 * because the kernel makes the text at offset 0. An idle supervisor does little else than this.
 */
static ssize_t read_attr(int dir, const char *attr, char buf[static FM_SYSFS_TEXT_MAX + 1])
{
	int fd = open_at(dir, attr, O_RDONLY);
	ssize_t got;

	if (fd < 0)
		return fd;
	do {
		got = FM_FAULT("sysfs.read") ? (errno = ENODEV, -1)
					     : read(fd, buf, FM_SYSFS_TEXT_MAX + 1);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		got = -errno;
	close(fd);
	return got > FM_SYSFS_TEXT_MAX ? -EMSGSIZE : got;
}

/* "(efault)", "(einval)", "(null)": what the kernel prints for a pointer that leads nowhere. */
static bool is_no_text(const char *text)
{
	return strcmp(text, "(efault)") == 0 || strcmp(text, "(einval)") == 0 ||
	       strcmp(text, "(null)") == 0;
}

/* Without what pads its end; how many bytes, at most FM_SYSFS_TEXT_MAX; 0: not there. */
static size_t read_text(struct fm_sysfs_dir *dir, const char *attr,
			char buf[static FM_SYSFS_TEXT_MAX + 1])
{
	ssize_t len = dir->error < 0 ? dir->error : read_attr(dir->fd, attr, buf);

	if (len < 0 && is_ours((int)len))
		dir->error = (int)len;
	while (len > 0 && (buf[len - 1] == '\n' || buf[len - 1] == ' ' || buf[len - 1] == '\0'))
		len--;
	return len > 0 ? (size_t)len : 0;
}

/* False, and "": empty, too long, or no text. */
static bool copy_text(const char *from, size_t len, char *out, size_t size)
{
	assert(size > 0);
	out[0] = '\0';
	if (len == 0 || len >= size)
		return false;
	for (size_t i = 0; i < len; i++)
		out[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? '?' : from[i];
	out[len] = '\0';
	if (is_no_text(out))
		out[0] = '\0';
	return out[0] != '\0';
}

bool fm_sysfs_text(struct fm_sysfs_dir *dir, const char *attr, char *out, size_t size)
{
	char buf[FM_SYSFS_TEXT_MAX + 1];

	return copy_text(buf, read_text(dir, attr, buf), out, size);
}

static void take_variable(const char *line, size_t len, const struct fm_sysfs_variable *to)
{
	size_t key_len = strlen(to->key);

	if (len > key_len && memcmp(line, to->key, key_len) == 0 && line[key_len] == '=')
		(void)copy_text(line + key_len + 1, len - key_len - 1, to->value, to->size);
}

void fm_sysfs_variables(struct fm_sysfs_dir *dir, const struct fm_sysfs_variable *wanted,
			unsigned count)
{
	char buf[FM_SYSFS_TEXT_MAX + 1], *rest = buf, *line;

	buf[read_text(dir, "uevent", buf)] = '\0';
	for (unsigned i = 0; i < count; i++)
		wanted[i].value[0] = '\0';
	while ((line = strsep(&rest, "\n")) != NULL)
		for (unsigned i = 0; i < count; i++)
			take_variable(line, strlen(line), &wanted[i]);
}

bool fm_sysfs_u64(struct fm_sysfs_dir *dir, const char *attr, uint64_t *out)
{
	char text[24], *end;
	unsigned long long value;

	*out = 0;
	if (!fm_sysfs_text(dir, attr, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0')
		return false;
	*out = value;
	return true;
}

int fm_sysfs_write(const struct fm_sysfs_dir *at, const char *path, const char *value)
{
	int ret = 0, fd = open_at(at->fd, path, O_WRONLY);

	if (fd < 0)
		return fd;
	if (FM_FAULT("sysfs.write"))
		ret = -EIO;
	else if (write(fd, value, strlen(value)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int fm_sysfs_target_name(const struct fm_sysfs_dir *at, const char *path,
			 char out[FM_SYSFS_NAME_MAX])
{
	char target[PATH_MAX];
	ssize_t len =
		FM_FAULT("sysfs.gone") ? -1 : readlinkat(at->fd, path, target, sizeof(target) - 1);
	const char *name;

	if (len < 0)
		return -ENOENT;
	target[len] = '\0';
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	if (strlen(name) >= FM_SYSFS_NAME_MAX)
		return -ENOENT;
	memcpy(out, name, strlen(name) + 1);
	return 0;
}

/* ------------------------------------------------------------------------------------- children */

static int add_name(struct fm_sysfs_names *names, unsigned *room, const char *name)
{
	unsigned want = *room ? *room * 2 : NAMES_FIRST;
	void *grown;

	if (names->count == *room) {
		grown = FM_FAULT("sysfs.names")
				? NULL
				: realloc(names->name, want * sizeof(names->name[0]));
		if (!grown)
			return -ENOMEM;
		names->name = grown;
		*room = want;
	}
	memcpy(names->name[names->count++], name, strlen(name) + 1);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(a, b);
}

/* Takes over the stream. */
static int list_stream(DIR *stream, bool (*wanted)(const char *name), unsigned max,
		       struct fm_sysfs_names *out)
{
	struct dirent *entry;
	unsigned room = 0;
	int ret = 0;

	while (ret == 0 && !out->is_cut) {
		errno = 0;
		entry = FM_FAULT("sysfs.list") ? (errno = ENOMEM, NULL) : readdir(stream);
		if (!entry) {
			ret = -errno;
			break;
		}
		if (strlen(entry->d_name) >= FM_SYSFS_NAME_MAX || !wanted(entry->d_name))
			continue;
		if (out->count == max)
			out->is_cut = true;
		else
			ret = add_name(out, &room, entry->d_name);
	}
	closedir(stream);
	return ret;
}

int fm_sysfs_list(const struct fm_sysfs_dir *dir, bool (*wanted)(const char *name), unsigned max,
		  struct fm_sysfs_names *out)
{
	int fd, ret;
	DIR *stream;

	*out = (struct fm_sysfs_names){ 0 };
	/* Opened anew: the position is of the open file, and a directory may be listed more than
	 * once. */
	fd = open_at(dir->fd, ".", O_DIRECTORY);
	if (fd < 0)
		return fd == -ENODEV ? -ENOENT : fd;
	stream = FM_FAULT("sysfs.stream") ? NULL : fdopendir(fd);
	if (!stream) {
		close(fd);
		return -ENOMEM;
	}
	ret = list_stream(stream, wanted, max, out);
	if (ret < 0)
		fm_sysfs_names_free(out);
	else if (out->count > 1)
		qsort(out->name, out->count, sizeof(out->name[0]), compare_names);
	return ret;
}

void fm_sysfs_names_free(struct fm_sysfs_names *names)
{
	free(names->name);
	*names = (struct fm_sysfs_names){ 0 };
}
