/* SPDX-License-Identifier: MIT */
/* volumes_file - see volumes_file.h. */
#include "mover/services/volumes_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/json.h"
#include "mover/base/fault.h"

#define FILE_NAME "volumes.json"	/* fmove-nvmed(8) */

/* ---- the text ---- */

static int take_text(const struct fm_json *from, const char *key, size_t least, char *to,
		     size_t cap)
{
	const char *text;

	if (fm_json_text(fm_json_get(from, key), &text) < 0 || strlen(text) < least ||
	    strlen(text) >= cap)
		return -EINVAL;
	strcpy(to, text);
	return 0;
}

static int take_volume(const struct fm_json *from, struct fm_volume_said *v)
{
	if (take_text(from, "name", 1, v->name, sizeof(v->name)) < 0 || strchr(v->name, '/') ||
	    take_text(from, "subsystem", 1, v->subsystem, sizeof(v->subsystem)) < 0 ||
	    take_text(from, "wwid", 0, v->wwid, sizeof(v->wwid)) < 0 ||
	    take_text(from, "writer", 0, v->writer, sizeof(v->writer)) < 0 ||
	    strchr(v->writer, '/'))
		return -EINVAL;
	if (fm_json_bool(fm_json_get(from, "mounted"), &v->is_mounted) < 0 ||
	    fm_json_bool(fm_json_get(from, "read_write"), &v->is_read_write) < 0 ||
	    fm_json_bool(fm_json_get(from, "sealed"), &v->is_sealed) < 0)
		return -EINVAL;
	return fm_json_u64(fm_json_get(from, "epoch"), &v->epoch);
}

/* What is said of a volume that fmove-nvmed mounts, beside what peers are told. */
static int take_here(const struct fm_json *from, struct fm_volume_said *v)
{
	uint64_t device;

	if (!fm_json_get(from, "device"))
		return 0;
	if (fm_json_u64(fm_json_get(from, "device"), &device) < 0 ||
	    fm_json_u64(fm_json_get(from, "mounted_epoch"), &v->mounted_epoch) < 0 ||
	    take_text(from, "written_by", 0, v->written_by, sizeof(v->written_by)) < 0 ||
	    strchr(v->written_by, '/'))
		return -EINVAL;
	v->device = (dev_t)device;
	return 0;
}

int fm_volumes_parse(const char *text, size_t len, struct fm_volume_said **out, unsigned *count,
		     struct fm_err *err)
{
	const struct fm_json *list;
	struct fm_volume_said *volumes;
	struct fm_json *json;
	size_t n;
	int ret = fm_json_parse(text, len, &json, err);

	if (ret < 0)
		return ret;
	list = fm_json_get(json, "volumes");
	n = fm_json_count(list);
	volumes = FM_FAULT("volumes.parse") ? NULL : calloc(n + 1, sizeof(*volumes));
	if (!volumes)
		ret = fm_err_set(err, -ENOMEM, "no memory for what fmove-nvmed says");
	else if (!list || fm_json_type(list) != FM_JSON_ARRAY)
		ret = fm_err_set(err, -EINVAL, "no array \"volumes\"");
	else if (n > FM_VOLUMES_SAID_MAX)
		ret = fm_err_set(err, -E2BIG,
				 "fmove-nvmed there has more than %d volumes to tell of: "
				 "see fmove nvme status there",
				 FM_VOLUMES_SAID_MAX);
	for (size_t i = 0; ret == 0 && i < n; i++)
		if (take_volume(fm_json_at(list, i), &volumes[i]) < 0 ||
		    take_here(fm_json_at(list, i), &volumes[i]) < 0)
			ret = fm_err_set(err, -EINVAL, "volume %zu is not understood", i);
	fm_json_free(json);
	if (ret < 0) {
		free(volumes);
		return ret;
	}
	*out = volumes;
	*count = (unsigned)n;
	return 0;
}

/* ---- the file ---- */

static int read_all(int fd, char *text, size_t *len, struct fm_err *err)
{
	ssize_t got = 1;

	for (*len = 0; got > 0 && *len <= FM_VOLUMES_FILE_MAX; *len += got > 0 ? (size_t)got : 0)
		got = read(fd, text + *len, FM_VOLUMES_FILE_MAX + 1 - *len);
	if (got < 0)
		return fm_err_sys(err, -errno, "read what fmove-nvmed says");
	return *len > FM_VOLUMES_FILE_MAX
		       ? fm_err_set(err, -EFBIG, "what fmove-nvmed says is too long")
		       : 0;
}

static int read_anew(struct fm_volumes_file *file, int fd, struct fm_err *err)
{
	char *text = FM_FAULT("volumes.text") ? NULL : malloc(FM_VOLUMES_FILE_MAX + 1);
	struct fm_volume_said *volumes;
	unsigned count;
	size_t len = 0;
	int ret = text ? read_all(fd, text, &len, err)
		       : fm_err_set(err, -ENOMEM, "no memory for what fmove-nvmed says");

	if (ret == 0)
		ret = fm_volumes_parse(text, len, &volumes, &count, err);
	free(text);
	if (ret < 0)
		return ret;
	free(file->volumes);
	file->volumes = volumes;
	file->count = count;
	return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Reads the file again if it has changed, so peers may ask as often as they like. */
static int refresh(struct fm_volumes_file *file, struct fm_err *err)
{
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret = 0;
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return fm_err_set(err, -ENOENT, "fmove-nvmed does not run there");
	if (fd < 0)
		return fm_err_sys(err, -errno, "what fmove-nvmed says cannot be read there");
	if (fstat(fd, &st) < 0)
		ret = fm_err_sys(err, -errno, "what fmove-nvmed says cannot be read there");
	else if (!S_ISREG(st.st_mode))
		ret = fm_err_set(err, -EINVAL, "what fmove-nvmed says is no file there");
	else if (!file->volumes || !is_same(&st, &file->known))
		ret = read_anew(file, fd, err);
	if (ret == 0)
		file->known = st;
	close(fd);
	return ret;
}

static int read_volumes(void *ctx, struct fm_volume_said **out, unsigned *count, struct fm_err *err)
{
	struct fm_volumes_file *file = ctx;
	int ret = refresh(file, err);

	if (ret < 0)
		return ret;
	*out = calloc(file->count + 1, sizeof(**out));
	if (!*out)
		return fm_err_set(err, -ENOMEM, "no memory for what fmove-nvmed says");
	memcpy(*out, file->volumes, file->count * sizeof(**out));
	*count = file->count;
	return 0;
}

void fm_volumes_file_init(struct fm_volumes_file *file, const char *nvmed_socket)
{
	const char *slash = strrchr(nvmed_socket, '/');

	*file = (struct fm_volumes_file){ .table = { .read = read_volumes, .ctx = file } };
	/* A path that is too long is one that is not there. */
	(void)snprintf(file->path, sizeof(file->path), "%.*s/" FILE_NAME,
		       slash ? (int)(slash - nvmed_socket) : 0, nvmed_socket);
}

void fm_volumes_file_clear(struct fm_volumes_file *file)
{
	free(file->volumes);
	file->volumes = NULL;
}
