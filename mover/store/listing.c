/* SPDX-License-Identifier: MIT */
/*
 * listing - one page of a directory, or of the unfinished transfers into it, sorted by bytes.
 *
 * A directory may have any number of entries and a page few: one pass over it keeps the smallest
 * names behind `after` in a heap of the page's size (largest on top), so memory is bounded by what
 * the caller gave.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/journal/partial.h"
#include "mover/store/file_source.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/tree/staging.h"

/* ------------------------------------------------------------------------------ a heap of names */

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

/* Keep the entry if it is among the max smallest. */
static void heap_offer(struct fm_entry *heap, size_t *count, size_t max,
		       const struct fm_entry *entry)
{
	if (*count < max) {
		heap[*count] = *entry;
		heap_rise(heap, (*count)++);
	} else if (is_before(entry, &heap[0])) {
		heap[0] = *entry;
		heap_sink(heap, *count);
	}
}

/* --------------------------------------------------------------------------------------- passes */

static bool is_listed(const char *name, const char *after)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !fm_path_is_reserved(name) &&
	       strlen(name) <= FM_NAME_LEN_MAX && strcmp(name, after) > 0;
}

/* What one name of a directory is listed as; false: not at all. */
typedef bool (*entry_of)(int dir, const char *name, const char *after, struct fm_entry *out);

/* Makes an entry of a name. Attributes are read later, and only for entries that are listed. */
static bool entry_by_name(int dir, const char *name, const char *after, struct fm_entry *out)
{
	(void)dir;
	if (!is_listed(name, after))
		return false;
	strcpy(out->name, name);
	return true;
}

/* Reads the first max entries behind `after`, sorted. */
static int read_entries(DIR *dir, entry_of look, const char *after, struct fm_entry *out,
			size_t max, size_t *count)
{
	struct fm_entry entry = { .name = "" };
	const struct dirent *found;

	*count = 0;
	rewinddir(dir);
	while (true) {
		errno = 0;
		found = FM_FAULT("store.readdir") ? (errno = EIO, NULL) : readdir(dir);
		if (!found)
			break;
		if (look(dirfd(dir), found->d_name, after, &entry))
			heap_offer(out, count, max, &entry);
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
 * Pass after pass until the page is full or the directory at its end: a pass whose entries were all
 * removed meanwhile is no end.
 */
static int list_page(DIR *dir, const struct fm_list_opts *opts, struct fm_entry *out, size_t *count)
{
	char after[FM_NAME_LEN_MAX + 1];
	size_t total = 0, names, kept;
	int ret;

	strcpy(after, opts->after);
	do {
		ret = read_entries(dir, entry_by_name, after, out + total, opts->max - total,
				   &names);
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

/* ----------------------------------------------------------------------------------- unfinished */

/* Makes an entry of a journal and the partial file that belongs to it. */
static bool file_entry(int dir, const char *name, uint64_t hash, struct fm_entry *out)
{
	char partial[FM_PARTIAL_NAME_MAX + 1];
	struct fm_journal_opts head;
	struct stat st, journal;
	uint64_t bytes;
	int fd, ret;

	fm_partial_name(hash, FM_PARTIAL_FILE, partial);
	if (fstatat(dir, partial, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	ret = fstat(fd, &journal) < 0 ? -errno : fm_journal_peek(fd, &head, &bytes);
	close(fd);
	if (ret < 0 || head.is_tree || head.ino != st.st_ino)
		return false;
	*out = (struct fm_entry){.attr = {.type = FM_NODE_FILE, .size = bytes},
				 .whole = head.source.size};
	out->attr.mtime_ns = fm_time_ns(&journal.st_mtim);
	strcpy(out->name, head.name);
	return bytes <= FM_SIZE_LIMIT && out->whole <= FM_SIZE_LIMIT;
}

static bool tree_entry(int dir, const char *name, struct fm_entry *out)
{
	struct fm_staging_info info;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fm_staging_peek(dir, name, &info) < 0)
		return false;
	*out = (struct fm_entry){ .attr = { .type = FM_NODE_DIR }, .whole = FM_SIZE_UNKNOWN };
	out->attr.size = info.has_journal ? info.bytes_there : 0;
	out->attr.mtime_ns = fm_time_ns(&st.st_ctim);
	strcpy(out->name, info.journal.name);
	return out->attr.size <= FM_SIZE_LIMIT;
}

/*
 * Makes an entry of an unfinished transfer, under the name that it would get. Anybody may have
 * written that into the journal, so it is checked as a peer's name is.
 */
static bool entry_of_partial(int dir, const char *name, const char *after, struct fm_entry *out)
{
	uint64_t hash;
	bool is_one;

	if (fm_staging_kind(name) == FM_STAGING_TREE)
		is_one = tree_entry(dir, name, out);
	else if (fm_partial_parse(name, &hash) == FM_PARTIAL_JOURNAL)
		is_one = file_entry(dir, name, hash, out);
	else
		return false;
	return is_one && out->name[0] && !strchr(out->name, '/') && is_listed(out->name, after);
}

static int partials_page(DIR *dir, const struct fm_list_opts *opts, struct fm_entry *out,
			 size_t *count)
{
	return read_entries(dir, entry_of_partial, opts->after, out, opts->max, count);
}

/* ----------------------------------------------------------------------------------------- both */

typedef int (*page_of)(DIR *dir, const struct fm_list_opts *opts, struct fm_entry *out,
		       size_t *count);

static int list_dir(struct fm_store_dir *sd, const char *path, page_of read_page,
		    const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
		    struct fm_err *err)
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
	ret = opts->max > 0 ? read_page(dir, opts, out, &listed) : 0;
	closedir(dir);
	if (ret < 0)
		return fm_path_fail(err, ret, "list", path);
	*count = listed;
	return 0;
}

int fm_listing(struct fm_store_dir *sd, const char *path, const struct fm_list_opts *opts,
	       struct fm_entry *out, size_t *count, struct fm_err *err)
{
	return list_dir(sd, path, list_page, opts, out, count, err);
}

int fm_listing_partials(struct fm_store_dir *sd, const char *path, const struct fm_list_opts *opts,
			struct fm_entry *out, size_t *count, struct fm_err *err)
{
	return list_dir(sd, path, partials_page, opts, out, count, err);
}
