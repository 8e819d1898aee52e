/* SPDX-License-Identifier: MIT */
/* entries - see entries.h. */
#include "config/entries.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "mover/base/fault.h"

size_t fm_config_entry_name_len(const char *file_name)
{
	static const char end[] = ".conf";
	size_t len = strlen(file_name);

	if (file_name[0] == '.' || len < sizeof(end))
		return 0;
	len -= sizeof(end) - 1;
	return strcmp(file_name + len, end) == 0 ? len : 0;
}

int fm_config_entries_add(struct fm_config_entries *e, const char *name, size_t len)
{
	char **names = FM_FAULT("config.alloc")
			       ? NULL
			       : reallocarray(e->names, e->count + 1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	e->names = names;
	e->names[e->count] = strndup(name, len);
	if (!e->names[e->count])
		return -ENOMEM;
	e->count++;
	return 0;
}

static int add_directory(struct fm_config_entries *e, DIR *dir)
{
	for (;;) {
		const struct dirent *file;
		size_t len;
		int ret;

		errno = 0;
		file = FM_FAULT("config.readdir") ? (errno = EIO, NULL) : readdir(dir);
		if (!file)
			return -errno;
		len = fm_config_entry_name_len(file->d_name);
		ret = len > 0 ? fm_config_entries_add(e, file->d_name, len) : 0;
		if (ret < 0)
			return ret;
	}
}

/* Without the directory there are no files in it; but not where the whole place is gone, such as a
 * file system that is not mounted. */
static int read_directory(struct fm_config_entries *e, const char *file, const char *path)
{
	DIR *dir = opendir(path);
	int ret;

	if (!dir)
		return errno == ENOENT && access(file, F_OK) == 0 ? 0 : -errno;
	ret = add_directory(e, dir);
	closedir(dir);
	return ret;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void fm_config_entries_read(const char *file, struct fm_config_entries *out)
{
	const char *slash = strrchr(file, '/');
	char *path;

	*out = (struct fm_config_entries){ 0 };
	out->is_file_known = fm_config_entries_of_file(file, out) == 0;
	if (asprintf(&path, "%.*s" FM_CONFIG_PEERS_DIR, slash ? (int)(slash + 1 - file) : 0,
		     file) < 0)
		return;
	out->is_directory_known = read_directory(out, file, path) == 0;
	free(path);
	if (out->count > 0)
		qsort(out->names, out->count, sizeof(*out->names), compare);
}

static bool was_in_file(const struct fm_config *was, const char *name)
{
	for (unsigned i = 0; i < was->peer_count; i++)
		if (strcmp(was->peers[i].name, name) == 0)
			return strcmp(was->peers[i].file, was->file) == 0;
	return false;
}

bool fm_config_entries_lack(const struct fm_config_entries *e, const struct fm_config *was,
			    const char *name)
{
	if (!e->is_directory_known || (!e->is_file_known && was_in_file(was, name)))
		return false;
	return e->count == 0 ||
	       !bsearch(&name, e->names, e->count, sizeof(*e->names), compare);
}

void fm_config_entries_free(struct fm_config_entries *e)
{
	for (size_t i = 0; i < e->count; i++)
		free(e->names[i]);
	free(e->names);
	*e = (struct fm_config_entries){ 0 };
}
