/* SPDX-License-Identifier: MIT */
/*
 * file_source - a regular file that is read.
 *
 * The descriptor's position is used for nothing but searches, for holes and for data. The
 * description may be a caller's, too, who may hand it over twice at once, and to whom a position
 * behind the beginning means that a part was read before: each search puts it back.
 */
#include "mover/store/file_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/journal/written.h"
#include "mover/store/fileio.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"
#include "mover/tree/digest.h"

struct source {
	struct fm_file file;
	struct fm_fileio io;
	struct fm_file_source_opts opts;
	struct stat opened;		/* what it was when it was opened */
	struct fm_digest kept;		/* file.kept */
};

static struct source *source_of(struct fm_file *file)
{
	return fm_container_of(file, struct source, file);
}

static enum fm_node_type type_of(mode_t mode)
{
	if (S_ISREG(mode))
		return FM_NODE_FILE;
	if (S_ISDIR(mode))
		return FM_NODE_DIR;
	return S_ISLNK(mode) ? FM_NODE_LINK : FM_NODE_OTHER;
}

/*
 * Whether the file has a hole that can be found. Fewer blocks than bytes may also mean compression,
 * or a tiny file in its inode.
 */
static bool has_holes(const struct stat *st, int fd)
{
	off_t hole;

	if (!S_ISREG(st->st_mode) || (uint64_t)st->st_blocks * 512 >= (uint64_t)st->st_size)
		return false;
	if (fd < 0)
		return true;
	hole = lseek(fd, 0, SEEK_HOLE);
	if (hole > 0)
		(void)lseek(fd, 0, SEEK_SET);	/* cannot fail: it was searched */
	return hole < st->st_size;
}

void fm_attr_from_stat(const struct stat *st, int fd, struct fm_attr *out)
{
	*out = (struct fm_attr){
		.type = type_of(st->st_mode),
		.size = (uint64_t)st->st_size,
		.mode = (uint32_t)st->st_mode & 0777u,
		.mtime_ns = fm_time_ns(&st->st_mtim),
		.has_holes = has_holes(st, fd),
		.dev = st->st_dev,
		.ino = st->st_ino,
		.ctime_ns = fm_time_ns(&st->st_ctim),
	};
}

static void source_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	fm_fileio_read(&source_of(file)->io, lane, io);
}

static int source_next_data(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	struct source *s = source_of(file);
	uint64_t size = (uint64_t)s->opened.st_size;
	off_t data, hole;
	int ret;

	*from = *to = size;
	if (offset >= size)
		return 0;
	data = lseek(s->io.fd, (off_t)offset, SEEK_DATA);
	hole = data < 0 ? -1 : lseek(s->io.fd, data, SEEK_HOLE);
	ret = hole < 0 ? -errno : 0;
	if (s->opts.is_shared)
		(void)lseek(s->io.fd, 0, SEEK_SET);	/* cannot fail: it was searched */
	if (ret < 0)
		return ret == -ENXIO ? 0 : ret;		/* no data behind offset */
	/* A file that grew or shrank meanwhile is found by check_unchanged(); here it must only not
	 * confuse. */
	if ((uint64_t)data >= size)
		return 0;
	*from = fm_block_down((uint64_t)data);
	if (*from < offset)
		*from = offset;
	*to = fm_block_up((uint64_t)hole);
	if (*to > size)
		*to = size;
	return 0;
}

static int source_check_unchanged(struct fm_file *file, struct fm_err *err)
{
	struct source *s = source_of(file);
	struct stat now;
	int ret = fm_sys_fstat(s->io.fd, &now);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at the source again");
	if (!fm_is_written(s->io.fd, &s->opened, &now))
		return 0;
	return fm_err_set(
		err, -ESTALE,
		"the source changed while it was read (%lld bytes, now %lld); run it again",
		(long long)s->opened.st_size, (long long)now.st_size);
}

static void source_close(struct fm_file *file)
{
	struct source *s = source_of(file);

	if (s->opts.is_shared)
		fm_fileio_put_flags_back(&s->io);
	close(s->io.fd);
	if (s->opts.closed)
		s->opts.closed(s->opts.ctx);
	free(s);
}

static const struct fm_file_ops source_ops = {
	.read = source_read,
	.next_data = source_next_data,
	.check_unchanged = source_check_unchanged,
	.close = source_close,
};

/* Without a search for holes that are not there. */
static const struct fm_file_ops dense_source_ops = {
	.read = source_read,
	.check_unchanged = source_check_unchanged,
	.close = source_close,
};

static int take_digest(struct source *s, struct fm_err *err)
{
	int ret = fm_digest_of(s->io.fd, &s->opened, &s->kept);

	if (ret < 0 && ret != -EBADMSG)
		return fm_err_sys(err, ret, "read the digest that was kept with it");
	s->kept.is_damaged = ret == -EBADMSG;
	s->file.kept = ret != 0 ? &s->kept : NULL;
	return 0;
}

static int source_fill(struct source *s, int fd, struct fm_attr *attr, struct fm_err *err)
{
	int ret;

	ret = fm_fileio_init(&s->io, fd, false, s->opts.is_buffered, &s->file.note, err);
	if (ret < 0)
		return ret;
	if (s->opts.is_shared && s->opts.is_buffered)
		s->file.note = NULL;	/* nobody but us asked for that */
	ret = FM_FAULT("store.look")
		      ? -EIO
		      : fm_look_before_read(fd, s->io.has_write_lock,
					    s->io.is_direct ? 0 : UINT64_MAX, &s->opened);
	if (ret == -ESTALE)
		return fm_err_set(
			err, ret,
			"the source is being written to; run it again when nothing writes there");
	if (ret < 0)
		return fm_err_sys(err, ret, "look at the source");
	ret = s->opts.is_stored ? take_digest(s, err) : 0;
	if (ret < 0)
		return ret;
	fm_attr_from_stat(&s->opened, fd, attr);
	if (fm_time_is_cut(&s->opened.st_mtim))
		s->file.note = FM_TIME_CUT_NOTE;
	s->file.ops = attr->has_holes ? &source_ops : &dense_source_ops;
	s->file.has_other_flags = s->opts.is_shared && s->io.has_other_flags;
	s->file.is_direct = s->io.is_direct;
	s->file.is_instant = s->io.is_memory;
	s->file.may_stand = s->io.may_stand;
	return 0;
}

int fm_stored_source(int fd, bool is_buffered, struct fm_file **out, struct fm_attr *attr,
		     struct fm_err *err)
{
	const struct fm_file_source_opts opts = { .is_stored = true, .is_buffered = is_buffered };

	return fm_file_source_new(fd, &opts, out, attr, err);
}

int fm_file_source_new(int fd, const struct fm_file_source_opts *opts, struct fm_file **out,
		       struct fm_attr *attr, struct fm_err *err)
{
	struct source *s = fm_sys_alloc(sizeof(*s));
	int ret;

	if (!s) {
		close(fd);
		return fm_err_set(err, -ENOMEM, "allocate the source");
	}
	s->opts = *opts;
	ret = source_fill(s, fd, attr, err);
	if (ret < 0)
		goto free_source;
	*out = &s->file;
	return 0;

free_source:
	if (opts->is_shared)
		fm_fileio_put_flags_back(&s->io);
	close(fd);
	free(s);
	return ret;
}
