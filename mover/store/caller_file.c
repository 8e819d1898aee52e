/* SPDX-License-Identifier: MIT */
/*
 * caller_file - descriptors that a local caller opened, with the caller's rights, and passed.
 *
 * The daemon never opens anything for a caller: it would do so with its own rights. So O_DIRECT is switched on
 * in the description that was passed (fcntl), which is the caller's too; the flags are put back at close. The
 * CLI opens a description for nothing else, so nobody notices.
 *
 * A sink that is a regular file is a temporary one beside the caller's target: the caller renames it, or
 * removes it.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/store/caller_stream.h"
#include "mover/store/file_source.h"
#include "mover/store/fileio.h"
#include "mover/store/seal.h"
#include "mover/store/space.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

/* ------------------------------------------------------------------------------------- what was passed */

enum kind { KIND_REGULAR, KIND_STREAM, KIND_NULL, KIND_BAD };

static bool is_dev_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

static enum kind kind_of(int fd, const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return KIND_REGULAR;
	if (S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode))
		return KIND_STREAM;
	if (is_dev_null(st))
		return KIND_NULL;
	return S_ISCHR(st->st_mode) && isatty(fd) ? KIND_STREAM : KIND_BAD;
}

static const char *bad_kind(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return "a directory";
	if (S_ISBLK(st->st_mode))
		return "a block device";
	if (S_ISCHR(st->st_mode))
		return "a device";
	return "neither file nor stream";
}

/* Look at fd and refuse what cannot be used. access: O_RDONLY or O_WRONLY, what we need. */
static int caller_look(int fd, int access, struct stat *st, struct fm_err *err)
{
	const char *what = access == O_RDONLY ? "source" : "target";
	int flags = fcntl(fd, F_GETFL);
	int ret = flags < 0 ? -errno : fm_sys_fstat(fd, st);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at the %s", what);
	if (kind_of(fd, st) == KIND_BAD)
		return fm_err_set(err, S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL,
				  "the %s is %s; a regular file, pipe, socket or terminal is needed", what,
				  bad_kind(st));
	if ((flags & O_PATH) || ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != access))
		return fm_err_set(err, -EBADF, "the %s was not opened for %s", what,
				  access == O_RDONLY ? "reading" : "writing");
	if (access == O_WRONLY && S_ISREG(st->st_mode) && (flags & O_APPEND))
		return fm_err_set(err, -EINVAL,
				  "the target was opened for appending (>>): bytes would not land where they belong; "
				  "use > or a pipe");
	return 0;
}

/* --------------------------------------------------------------------------------------------- sources */

static void stream_attr(struct fm_attr *out)
{
	*out = (struct fm_attr){
		.type = FM_NODE_FILE,
		.size = FM_SIZE_UNKNOWN,
		.mode = 0644,
		.mtime_ns = (int64_t)time(NULL) * (int64_t)FM_NS_PER_S,
	};
}

static int stream_source(int fd, const char *note, struct fm_file **out, struct fm_attr *attr,
			 struct fm_err *err)
{
	int ret = fm_caller_stream_new(fd, false, note, out, err);

	if (ret == 0)
		stream_attr(attr);
	return ret;
}

int fm_caller_source(int fd, struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	const struct fm_file_source_opts opts = { .is_shared = true };
	struct stat st;
	int ret = caller_look(fd, O_RDONLY, &st, err);

	if (ret < 0) {
		close(fd);
		return ret;
	}
	if (!S_ISREG(st.st_mode))
		return stream_source(fd, NULL, out, attr, err);
	/* Somebody read a part of it already, as in `(read line; fmove put - ...) < file`: the rest is meant. */
	if (lseek(fd, 0, SEEK_CUR) != 0)
		return stream_source(fd, "in order and buffered: a part of the file was read before", out, attr, err);
	return fm_file_source_new(fd, &opts, out, attr, err);
}

/* ----------------------------------------------------------------------------------------------- sinks */

struct caller_sink {
	struct fm_file file;
	struct fm_fileio io;
	int flags;		/* of the description, before we changed them */
	bool has_ended;		/* published or discarded */
};

static struct caller_sink *sink_of(struct fm_file *file)
{
	return fm_container_of(file, struct caller_sink, file);
}

static void caller_sink_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	fm_fileio_write(&sink_of(file)->io, lane, io);
}

static int caller_sink_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr, bool is_durable,
			       struct fm_err *err)
{
	struct caller_sink *s = sink_of(file);
	struct fm_seal seal = { .size = size, .attr = attr, .is_foreign = true,
				.is_synced = is_durable && !s->io.is_memory };
	int ret;

	assert(!s->has_ended && attr);
	ret = fm_seal(s->io.fd, &seal, err);
	if (ret < 0)
		return ret;
	s->has_ended = true;
	if (ret > 0 && !file->note)
		file->note = "mode and time are left to the caller: the file is not the service's own";
	return 0;
}

static void caller_sink_discard(struct fm_file *file)
{
	struct caller_sink *s = sink_of(file);

	(void)!ftruncate(s->io.fd, 0);	/* the caller removes it; this only frees the space at once */
	s->has_ended = true;
}

static void caller_sink_close(struct fm_file *file)
{
	struct caller_sink *s = sink_of(file);

	if (!s->has_ended)
		caller_sink_discard(file);
	(void)fcntl(s->io.fd, F_SETFL, s->flags);	/* nothing can be done if not */
	close(s->io.fd);
	free(s);
}

static const struct fm_file_ops caller_sink_ops = {
	.write = caller_sink_write,
	.publish = caller_sink_publish,
	.discard = caller_sink_discard,
	.close = caller_sink_close,
};

static int caller_sink_prepare(struct caller_sink *s, int fd, const struct fm_create *how, struct fm_err *err)
{
	int ret = fm_fileio_init(&s->io, fd, true, false, &s->file.note, err);

	s->file.is_direct = s->io.is_direct;
	s->file.is_instant = s->io.is_memory;
	if (ret < 0 || !s->file.has_fixed_size || !how->is_dense)
		return ret;
	ret = fm_space_check(fd, how->size, err);
	if (ret < 0)
		return ret;
	return fm_space_reserve(fd, how->size, err);
}

static int regular_sink(int fd, const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	struct caller_sink *s = fm_sys_alloc(sizeof(*s));
	int ret;

	if (!s) {
		close(fd);
		return fm_err_set(err, -ENOMEM, "allocate the sink");
	}
	s->io.fd = fd;
	s->file.ops = &caller_sink_ops;
	s->file.has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	s->flags = fcntl(fd, F_GETFL);
	ret = caller_sink_prepare(s, fd, how, err);
	if (ret < 0) {
		caller_sink_close(&s->file);
		return ret;
	}
	*out = &s->file;
	return 0;
}

/* Whatever the size: writes to /dev/null need no kernel. */
static int null_sink(int fd, const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	int ret = fm_null_sink(out, err);

	close(fd);
	if (ret == 0)
		(*out)->has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	return ret;
}

int fm_caller_sink(int fd, const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	struct stat st;
	int ret = caller_look(fd, O_WRONLY, &st, err);

	if (ret == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
		ret = fm_err_set(err, -EEXIST, "the target holds %lld bytes already; it must be empty",
				 (long long)st.st_size);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	switch (kind_of(fd, &st)) {
	case KIND_REGULAR:
		return regular_sink(fd, how, out, err);
	case KIND_NULL:
		return null_sink(fd, how, out, err);
	case KIND_STREAM:
	case KIND_BAD:
		break;
	}
	return fm_caller_stream_new(fd, true, NULL, out, err);
}
