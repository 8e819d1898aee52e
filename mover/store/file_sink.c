/* SPDX-License-Identifier: MIT */
/*
 * file_sink - a file that comes into a directory store.
 *
 * Happy path: the target may be written (else nothing is begun), the room is there, a partial file is made
 * beside the target and takes the writes; publish: size, data, mode, owner, time to the disk, then the final
 * name, then the directory to the disk.
 * Failure modes: a write fails: the engine sees it in io->res and discards. publish fails: the final name is as
 * it was, discard follows. The process dies: the partial file is removed by a later start, when it is a day
 * old.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/log.h"
#include "mover/store/done_list.h"
#include "mover/store/fileio.h"
#include "mover/store/place.h"
#include "mover/store/seal.h"
#include "mover/store/space.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"

#define TEMP_TRIES_MAX 8

enum sink_state { SINK_OPEN, SINK_PUBLISHED, SINK_DISCARDED };

struct sink {
	struct fm_file file;
	struct fm_fileio io;
	struct fm_store_dir *dir;
	enum sink_state state;
	struct fm_path_parent parent;
	char *path;
	char temp[FM_PATH_PARTIAL_LEN + 1];
	bool may_replace;
	struct fm_path_make owner;
	uint64_t size;			/* or FM_SIZE_UNKNOWN */
	_Atomic uint64_t reserved;	/* of the quota; the whole size if it is known, else what was written so far */
};

static struct sink *sink_of(struct fm_file *file)
{
	return fm_container_of(file, struct sink, file);
}

/* --------------------------------------------------------------------------------------------- writing */

/*
 * Reserve quota up to end for a sink whose size is not known. Whoever moves `reserved` up asks for the bytes
 * between.
 */
static int sink_grow(struct sink *s, uint64_t end)
{
	uint64_t old = atomic_load(&s->reserved);
	int ret;

	do {
		if (end <= old)
			return 0;
	} while (!atomic_compare_exchange_weak(&s->reserved, &old, end));
	ret = fm_usage_reserve(&s->dir->usage, end - old);
	/* What was not granted must not be given back by release(): other lanes may have moved it on meanwhile. */
	if (ret < 0)
		atomic_fetch_sub(&s->reserved, end - old);
	return ret;
}

static void sink_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct sink *s = sink_of(file);
	uint64_t end = io->offset + io->len;
	int ret = 0;

	assert(s->state == SINK_OPEN);
	if (end < io->offset || end > FM_SIZE_LIMIT || (file->has_fixed_size && end > s->size))
		ret = -EFBIG;
	else if (!file->has_fixed_size && s->dir->usage.quota > 0)
		ret = sink_grow(s, end);
	if (ret < 0)
		fm_done_list_add(lane->done, io, ret);
	else
		fm_fileio_write(&s->io, lane, io);
}

/* ---------------------------------------------------------------------------------------------- ending */

static struct fm_place sink_place(const struct sink *s, bool is_durable)
{
	return (struct fm_place){
		.dir = s->parent.fd,
		.temp = s->temp,
		.name = s->parent.name,
		.path = s->path,
		.may_replace = s->may_replace,
		.is_synced = is_durable && !s->io.is_memory,
	};
}

static void sink_release_quota(struct sink *s)
{
	fm_usage_unreserve(&s->dir->usage, atomic_exchange(&s->reserved, 0));
}

static int sink_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr, bool is_durable,
			struct fm_err *err)
{
	struct sink *s = sink_of(file);
	struct fm_place place = sink_place(s, is_durable);
	struct fm_seal seal = { .size = size, .attr = attr, .is_synced = place.is_synced,
				.has_owner = s->owner.has_owner, .uid = s->owner.uid, .gid = s->owner.gid };
	struct fm_path_shown shown;
	uint64_t old_bytes = 0;
	int ret;

	assert(s->state == SINK_OPEN && attr);
	ret = fm_seal(s->io.fd, &seal, err);
	if (ret < 0) {
		fm_err_wrap(err, "store %s: write \"%s\"", s->dir->store.name, fm_path_show(s->path, &shown));
		return ret;
	}
	if (place.is_synced)
		ret = fm_path_sync_made(s->dir->root, s->path, &s->parent, err);
	if (ret == 0)
		ret = fm_place(&place, &old_bytes, err);
	if (ret < 0) {
		fm_err_wrap(err, "store %s", s->dir->store.name);
		return ret;
	}
	s->state = SINK_PUBLISHED;
	fm_usage_add(&s->dir->usage, size);
	fm_usage_sub(&s->dir->usage, old_bytes);
	sink_release_quota(s);
	return 0;
}

static void sink_discard(struct fm_file *file)
{
	struct sink *s = sink_of(file);

	assert(s->state == SINK_OPEN);
	/* ENOENT: somebody removed the directory, partial file and all. */
	if (unlinkat(s->parent.fd, s->temp, 0) < 0 && errno != ENOENT)
		fm_log_warn("store %s: cannot remove the partial file %s of \"%s\": %s", s->dir->store.name,
			    s->temp, s->path, fm_err_name(errno));
	s->state = SINK_DISCARDED;
	sink_release_quota(s);
}

static void sink_free(struct sink *s)
{
	if (s->io.fd >= 0)
		close(s->io.fd);
	if (s->parent.fd >= 0)
		close(s->parent.fd);
	fm_store_dir_put(s->dir);
	free(s->path);
	free(s);
}

static void sink_close(struct fm_file *file)
{
	struct sink *s = sink_of(file);

	if (s->state == SINK_OPEN)
		sink_discard(file);
	sink_free(s);
}

static const struct fm_file_ops sink_ops = {
	.write = sink_write,
	.publish = sink_publish,
	.discard = sink_discard,
	.close = sink_close,
};

/* ------------------------------------------------------------------------------------------- beginning */

static struct sink *sink_alloc(struct fm_store_dir *dir, const char *path)
{
	struct sink *s = fm_sys_alloc(sizeof(*s));
	size_t path_len = strlen(path);

	if (!s)
		return NULL;
	s->path = fm_sys_alloc(path_len + 1);
	if (!s->path) {
		free(s);
		return NULL;
	}
	memcpy(s->path, path, path_len);
	s->file.ops = &sink_ops;
	s->parent.fd = -1;
	s->io.fd = -1;
	s->dir = dir;
	fm_store_dir_get(dir);
	return s;
}

/* Everything that can be refused before a partial file exists. */
static int sink_ask(struct sink *s, const struct fm_create *how, struct fm_err *err)
{
	struct fm_place place = sink_place(s, false);
	uint64_t old_bytes;
	int ret = fm_place_check(&place, &old_bytes, err);

	if (ret < 0 || !s->file.has_fixed_size)
		return ret;
	if (how->size > FM_SIZE_LIMIT)
		return fm_err_set(err, -EFBIG, "%llu bytes are more than any file can have",
				  (unsigned long long)how->size);
	if (how->is_dense)
		ret = fm_space_check(s->parent.fd, how->size, err);
	if (ret == 0)
		ret = fm_usage_ask(&s->dir->usage, s->dir->root, how->size, err);
	if (ret == 0)
		atomic_store(&s->reserved, how->size);
	return ret;
}

/* Makes the partial file, under a name nobody can guess. */
static int sink_make_temp(struct sink *s, struct fm_err *err)
{
	uint64_t random;
	int fd = -EEXIST;

	for (int i = 0; i < TEMP_TRIES_MAX && fd == -EEXIST; i++) {
		fm_random_real.fill(fm_random_real.ctx, &random, sizeof(random));
		fm_path_partial(random, s->temp);
		fd = fm_sys_create(s->parent.fd, s->temp);
	}
	if (fd < 0)
		return fm_path_fail(err, fd, "make a partial file beside", s->path);
	s->io.fd = fd;
	return 0;
}

/*
 * Whether the file can be given away, found out before the first byte and not after the last. Then it is taken
 * back: who has only CAP_CHOWN could not set the mode of another's file.
 */
static int sink_try_owner(struct sink *s, struct fm_err *err)
{
	int ret;

	if (!s->owner.has_owner)
		return 0;
	ret = fm_sys_fchown(s->io.fd, s->owner.uid, s->owner.gid);
	if (ret == 0)
		ret = fm_sys_fchown(s->io.fd, geteuid(), getegid());
	if (ret == 0)
		return 0;
	return fm_err_sys(err, ret,
			  "give a file to uid %u, gid %u (the service needs CAP_CHOWN for owner = \"caller\")",
			  s->owner.uid, s->owner.gid);
}

static int sink_prepare_temp(struct sink *s, const struct fm_create *how, struct fm_err *err)
{
	int ret = fm_fileio_init(&s->io, s->io.fd, true, s->dir->is_buffered, &s->file.note, err);

	s->file.is_direct = s->io.is_direct;
	s->file.is_instant = s->io.is_memory;
	if (ret == 0)
		ret = sink_try_owner(s, err);
	if (ret == 0 && how->is_dense && s->file.has_fixed_size)
		ret = fm_space_reserve(s->io.fd, how->size, err);
	return ret;
}

int fm_file_sink_new(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		     const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	struct sink *s = sink_alloc(dir, path);
	int ret;

	if (!s)
		return fm_err_set(err, -ENOMEM, "allocate the sink");
	s->size = how->size;
	s->file.has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	s->may_replace = how->may_replace || dir->may_replace;
	s->owner = fm_store_dir_make(dir, who);
	ret = fm_path_open_parent(dir->root, s->path, &s->owner, &s->parent, err);
	if (ret == 0)
		ret = sink_ask(s, how, err);
	if (ret < 0)
		goto free_sink;
	ret = sink_make_temp(s, err);
	if (ret < 0)
		goto free_sink;
	ret = sink_prepare_temp(s, how, err);
	if (ret < 0)
		goto discard_temp;
	*out = &s->file;
	return 0;

discard_temp:
	sink_discard(&s->file);
free_sink:
	sink_release_quota(s);
	sink_free(s);
	return ret;
}
