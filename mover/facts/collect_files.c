/* SPDX-License-Identifier: MIT */
/* collect_files - small files of the kernel below a root, as facts. See collect_priv.h. */
#include "mover/facts/collect_priv.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"

__attribute__((format(printf, 3, 0)))
static int path_of(const struct fm_collect *c, char out[static PATH_MAX], const char *fmt,
		   va_list list)
{
	size_t at = strlen(c->root);
	int n;

	if (at >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(out, c->root, at);
	n = vsnprintf(out + at, PATH_MAX - at, fmt, list);
	return n < 0 || (size_t)n >= PATH_MAX - at ? -ENAMETOOLONG : 0;
}

int fm_collect_path(const struct fm_collect *c, char out[static PATH_MAX], const char *fmt, ...)
{
	va_list list;
	int ret;

	va_start(list, fmt);
	ret = path_of(c, out, fmt, list);
	va_end(list);
	return ret;
}

/*
 * At most cap - 1 bytes, terminated. Never waits for a writer: what is opened may be no file of the
 * kernel's.
 */
static int file_begin(const char *path, char *out, size_t cap, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret = 0;
	struct stat st;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		ret = -EINVAL;
	for (*len = 0; ret == 0 && n != 0 && *len<cap - 1; *len += n> 0 ? (size_t)n : 0) {
		n = read(fd, out + *len, cap - 1 - *len);
		if (n < 0 && errno != EINTR)
			ret = -errno;
	}
	(void)close(fd); /* it was read only */
	out[*len] = '\0';
	return ret;
}

static int line_of(const char *path, char out[static FM_COLLECT_LINE_MAX])
{
	size_t len;
	int ret = file_begin(path, out, FM_COLLECT_LINE_MAX, &len);

	while (ret == 0 && len > 0 && isspace((unsigned char)out[len - 1]))
		out[--len] = '\0';
	return ret;
}

int fm_collect_line(const struct fm_collect *c, char out[static FM_COLLECT_LINE_MAX],
		    const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list list;
	int ret;

	va_start(list, fmt);
	ret = path_of(c, path, fmt, list);
	va_end(list);
	return ret < 0 ? ret : line_of(path, out);
}

int fm_collect_file(const struct fm_collect *c, char **out, const char *fmt, ...)
{
	char path[PATH_MAX], *text;
	size_t len;
	va_list list;
	int ret;

	va_start(list, fmt);
	ret = path_of(c, path, fmt, list);
	va_end(list);
	if (ret < 0)
		return ret;
	text = malloc(FM_COLLECT_FILE_MAX + 1);
	if (!text)
		return -ENOMEM;
	ret = file_begin(path, text, FM_COLLECT_FILE_MAX + 1, &len);
	if (ret == 0 && len == FM_COLLECT_FILE_MAX)
		ret = -E2BIG;
	if (ret < 0)
		free(text);
	else
		*out = text;
	return ret;
}

/* ---- facts ---- */

void fm_collect_failed(struct fm_fact *fact, int code, const char *path)
{
	fm_fact_unknown(fact, "%s: %s", path, fm_err_name(code));
}

void fm_collect_text(const struct fm_collect *c, struct fm_fact *fact, enum fm_fact_kind kind,
		     const char *fmt, ...)
{
	char path[PATH_MAX] = "", line[FM_COLLECT_LINE_MAX];
	va_list list;
	int ret;

	va_start(list, fmt);
	ret = path_of(c, path, fmt, list);
	va_end(list);
	if (ret == 0)
		ret = line_of(path, line);
	if (ret < 0)
		fm_collect_failed(fact, ret, path);
	else if (line[0] == '\0')
		fm_fact_unknown(fact, "%s: is empty", path);
	else
		fm_fact_text(fact, kind, line);
}

void fm_collect_number(const struct fm_collect *c, struct fm_fact *fact, const char *fmt, ...)
{
	char path[PATH_MAX] = "", line[FM_COLLECT_LINE_MAX], *end;
	va_list list;
	int64_t n;
	int ret;

	va_start(list, fmt);
	ret = path_of(c, path, fmt, list);
	va_end(list);
	if (ret == 0)
		ret = line_of(path, line);
	if (ret < 0) {
		fm_collect_failed(fact, ret, path);
		return;
	}
	errno = 0;
	n = strtoll(line, &end, 10);
	/* The kernel says -1 for "none" and "not known". */
	if (end == line || errno || n < 0)
		fm_fact_unknown(fact, "%s: says %s", path, line);
	else
		fm_fact_number(fact, (uint64_t)n);
}

void fm_collect_link(const struct fm_collect *c, struct fm_fact *fact, const char *fmt, ...)
{
	char path[PATH_MAX] = "", target[PATH_MAX];
	va_list list;
	ssize_t n;
	int ret;

	va_start(list, fmt);
	ret = path_of(c, path, fmt, list);
	va_end(list);
	n = ret == 0 ? readlink(path, target, sizeof(target) - 1) : -1;
	if (n < 0) {
		fm_collect_failed(fact, ret < 0 ? ret : -errno, path);
		return;
	}
	target[n] = '\0';
	fm_fact_text(fact, FM_FACT_NAME, strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
}

/* ---- directories ---- */

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int fm_collect_names(const struct fm_collect *c, struct dirent ***out, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list list;
	int ret;

	*out = NULL;
	va_start(list, fmt);
	ret = path_of(c, path, fmt, list);
	va_end(list);
	if (ret < 0)
		return ret;
	ret = scandir(path, out, is_shown, versionsort);
	if (ret < 0)
		return -errno;
	for (; ret > (int)FM_COLLECT_NAMES_MAX; ret--)
		free((*out)[ret - 1]);
	return ret;
}

void fm_collect_names_free(struct dirent **names, int count)
{
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

void fm_collect_list_read(struct fm_fact *read, int code, const char *path)
{
	if (code < 0 && code != -ENOENT)
		fm_collect_failed(read, code, path);
	else
		fm_fact_number(read, 1);
}
