/* SPDX-License-Identifier: MIT */
/*
 * large_file - see large_file.h.
 */
#include "mover/store/large_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/journal/reread.h"
#include "mover/store/done_list.h"
#include "mover/store/fileio.h"
#include "mover/store/space.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

struct large {
	struct fm_file file;
	struct fm_fileio io;
	struct fm_tree *tree;
	struct fm_tree_large how;
};

static struct large *large_of(struct fm_file *file)
{
	return fm_container_of(file, struct large, file);
}

static void large_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	fm_fileio_read(&large_of(file)->io, lane, io);
}

static void large_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct large *l = large_of(file);

	if (io->offset > l->how.size || io->len > l->how.size - io->offset)
		fm_done_list_add(lane->done, io, -EFBIG);
	else
		fm_fileio_write(&l->io, lane, io);
}

static int large_reread(struct fm_file *file, uint64_t offset, uint64_t len, uint32_t *part)
{
	return fm_reread(large_of(file)->io.fd, offset, len, part);
}

/* Notes what was written. It is not on the disk yet: the tree's own log() syncs it. */
static int large_log(struct fm_file *file, const struct fm_written *written, size_t count,
		     struct fm_err *err)
{
	struct large *l = large_of(file);
	struct fm_journal_entry e = { .path = l->how.path,
				      .path_len = strlen(l->how.path),
				      .size = l->how.size,
				      .mtime_ns = l->how.mtime_ns,
				      .identity = fm_identity_hash(&l->how.id) };
	int ret = 0;

	for (size_t i = 0; i < count && ret == 0; i++) {
		e.offset = written[i].offset;
		e.len = written[i].len;
		e.crc = written[i].crc;
		ret = l->tree->ops->wrote_large(l->tree, &e, err);
	}
	return ret;
}

/*
 * Gives the file its size: what a direct write put behind the end is cut off, a hole at the end is
 * made.
 */
static int large_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			 bool is_durable, struct fm_err *err)
{
	struct large *l = large_of(file);
	int ret;

	(void)is_durable;
	if (size != l->how.size)
		return fm_err_set(err, -EPROTO,
				  "its size is not the one that it was announced with");
	fm_fileio_end(&l->io);
	ret = fm_sys_ftruncate(l->io.fd, size);
	if (ret < 0)
		return fm_err_sys(err, ret, "set the size");
	return l->tree->ops->seal_large(l->tree, &l->how, l->io.fd, attr->digest, err);
}

static void large_leave(struct fm_file *file)
{
	(void)file;	/* it is the tree's: kept or discarded with it */
}

static void large_close(struct fm_file *file)
{
	struct large *l = large_of(file);

	fm_fileio_end(&l->io);
	close(l->io.fd);
	free(l);
}

static const struct fm_file_ops large_ops = {
	.read = large_read,	/* to compare what was written */
	.write = large_write,
	.reread = large_reread,
	.log = large_log,
	.publish = large_publish,
	.discard = large_leave,
	.keep = large_leave,
	.close = large_close,
};

/*
 * Prepares the file for writing. Only an empty one may be tried with O_DIRECT and given its room: a
 * try would change one that is partly there.
 */
static int large_prepare(struct large *l, bool is_empty, struct fm_err *err)
{
	int fd = l->io.fd, ret;
	struct stat st;

	ret = fm_sys_fstat(fd, &st);
	if (ret < 0)
		return fm_err_sys(err, ret, "look at the file");
	if (!S_ISREG(st.st_mode))
		return fm_err_set(err, -EINVAL, "what was made for it is no regular file");
	ret = fm_fileio_init(&l->io, fd, is_empty, false, &l->file.note, err);
	l->io.fd = fd;
	l->file.is_direct = l->io.is_direct;
	l->file.is_instant = l->io.is_memory;
	l->file.may_stand = l->io.may_stand;
	if (ret == 0 && is_empty && !l->how.has_holes)
		ret = fm_space_reserve(fd, l->how.size, err);
	if (ret == 0 && !l->how.has_holes)
		fm_fileio_expect(&l->io, l->how.size);
	return ret;
}

int fm_large_file_new(struct fm_tree *tree, const struct fm_tree_large *how, struct fm_file **out,
		      struct fm_have *have, struct fm_err *err)
{
	struct large *l = fm_sys_alloc(sizeof(*l));
	int ret;

	if (!l)
		return fm_err_sys(err, -ENOMEM, "allocate the file");
	l->file.ops = &large_ops;
	l->file.has_fixed_size = true;
	l->tree = tree;
	l->how = *how;
	l->io.fd = -1;
	ret = tree->ops->create_large(tree, how, &l->io.fd, have, err);
	if (ret < 0) {
		free(l);
		return ret;
	}
	ret = large_prepare(l, have->ranges.count == 0, err);
	if (ret < 0) {
		large_close(&l->file);
		return ret;
	}
	*out = &l->file;
	return 0;
}
