/* SPDX-License-Identifier: MIT */
/*
 * listing - one page of a directory, sorted by bytes.
 *
 * A directory may have any number of entries and a page few: one pass over it keeps the smallest names behind
 * `after` in a heap of the page's size (largest on top), so memory is bounded by what the caller gave.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/store/file_source.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"

/* ------------------------------------------------------------------------------------- a heap of names */

static void entry_swap(struct fm_entry *a, struct fm_entry *b)
{
	struct fm_entry tmp = *a;

	*a = *b;
	*b = tmp;
}

static bool is_before(const struct fm_entry *a, const struct fm_entry *b)
{
	return strcmp(a->name, b->name) < 0;	/* compares as unsigned bytes */
}

static void heap_rise(struct fm_entry *heap, size_t at)
{
	while (at > 0 && is_before(&heap[(at - 1) / 2], &heap[at])) {
		entry_swap(&heap[(at - 1) / 2], &heap[at]);
		at = (at - 1) / 2;
	}
}

static void heap_sink(struct fm_entry *heap, size_t count)
{
	size_t at = 0, child;

	while ((child = 2 * at + 1) < count) {
		if (child + 1 < count && is_before(&heap[child], &heap[child + 1]))
			child++;
		if (!is_before(&heap[at], &heap[child]))
			return;
		entry_swap(&heap[at], &heap[child]);
		at = child;
	}
}

static void heap_sort(struct fm_entry *heap, size_t count)
{
	while (count > 1) {
		count--;
		entry_swap(&heap[0], &heap[count]);
		heap_sink(heap, count);
	}
}

/* Keep name if it is among the max smallest. */
static void heap_offer(struct fm_entry *heap, size_t *count, size_t max, const char *name)
{
	if (*count < max) {
		strcpy(heap[*count].name, name);
		heap_rise(heap, (*count)++);
	} else if (strcmp(name, heap[0].name) < 0) {
		strcpy(heap[0].name, name);
		heap_sink(heap, *count);
	}
}

/* ---------------------------------------------------------------------------------------------- passes */

static bool is_listed(const char *name, const char *after)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !fm_path_is_reserved(name) &&
	       strlen(name) <= FM_NAME_LEN_MAX && strcmp(name, after) > 0;
}

/* The first max names behind after, sorted, without their attributes. */
static int read_names(DIR *dir, const char *after, struct fm_entry *out, size_t max, size_t *count)
{
	const struct dirent *entry;

	*count = 0;
	rewinddir(dir);
	while (true) {
		errno = 0;
		entry = FM_FAULT("store.readdir") ? (errno = EIO, NULL) : readdir(dir);
		if (!entry)
			break;
		if (is_listed(entry->d_name, after))
			heap_offer(out, count, max, entry->d_name);
	}
	if (errno)
		return -errno;
	heap_sort(out, *count);
	return 0;
}

/* Attributes of the entries; those that went meanwhile are dropped. */
static int read_attrs(int fd, struct fm_entry *out, size_t *count)
{
	size_t kept = 0;
	struct stat st;
	int ret;

	for (size_t i = 0; i < *count; i++) {
		ret = fm_sys_fstatat(fd, out[i].name, &st);
		if (ret == -ENOENT)
			continue;
		if (ret < 0)
			return ret;
		if (kept != i)
			memcpy(out[kept].name, out[i].name, sizeof(out[i].name));
		fm_attr_from_stat(&st, -1, &out[kept].attr);
		kept++;
	}
	*count = kept;
	return 0;
}

/*
 * Pass after pass until the page is full or the directory at its end: a pass whose entries were all removed
 * meanwhile is no end.
 */
static int list_page(DIR *dir, const struct fm_list_opts *opts, struct fm_entry *out, size_t *count)
{
	char after[FM_NAME_LEN_MAX + 1];
	size_t total = 0, names, kept;
	int ret;

	strcpy(after, opts->after);
	do {
		ret = read_names(dir, after, out + total, opts->max - total, &names);
		if (ret < 0 || names == 0)
			break;
		strcpy(after, out[total + names - 1].name);
		kept = names;
		ret = read_attrs(dirfd(dir), out + total, &kept);
		if (ret < 0)
			break;
		names += total;
		total += kept;
	} while (names == opts->max && total < opts->max);
	*count = total;
	return ret;
}

int fm_listing(struct fm_store_dir *sd, const char *path, const struct fm_list_opts *opts,
	       struct fm_entry *out, size_t *count, struct fm_err *err)
{
	size_t listed = 0;
	DIR *dir;
	int fd, ret;

	assert(opts->after);
	if (strlen(opts->after) > FM_NAME_LEN_MAX)
		return fm_err_set(err, -EINVAL, "list: \"after\" is no name");
	fd = fm_path_open(sd->root, path, O_RDONLY | O_DIRECTORY, err);
	if (fd < 0)
		return fd;
	dir = FM_FAULT("store.opendir") ? NULL : fdopendir(fd);
	if (!dir) {
		close(fd);
		return fm_err_set(err, -ENOMEM, "list: out of memory");
	}
	ret = opts->max > 0 ? list_page(dir, opts, out, &listed) : 0;
	closedir(dir);
	if (ret < 0)
		return fm_path_fail(err, ret, "list", path);
	*count = listed;
	return 0;
}
