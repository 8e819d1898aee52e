/* SPDX-License-Identifier: MIT */
/*
 * caller_file - descriptors that a local caller opened, with the caller's rights, and passed.
 *
 * The daemon never opens anything for a caller: it would do so with its own rights. So O_DIRECT is
 * switched on in the description that was passed (fcntl), which is the caller's too; the flags are
 * put back at close, before the caller hears of the end.
 *
 * A sink that is a regular file is a temporary one beside the caller's target: the caller renames
 * it, or removes it. If a journal was passed with it, what was written is noted there, and what an
 * earlier try left is gone on with; an empty journal after a failure tells the caller that nothing
 * is.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/of_kernel.h"
#include "mover/store/caller_stream.h"
#include "mover/journal/reread.h"
#include "mover/store/file_source.h"
#include "mover/store/fileio.h"
#include "mover/store/may_stand.h"
#include "mover/store/resume.h"
#include "mover/store/seal.h"
#include "mover/store/snapshot.h"
#include "mover/store/space.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

/* ------------------------------------------------------------------------------ what was passed */

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

/*
 * Why a socket cannot be moved: a message longer than what is left of a chunk would be cut without
 * a word, and an empty one would look like the end.
 */
static const char *bad_socket(int fd)
{
	int type = 0, listens = 0;
	socklen_t len = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
		return "a socket of messages";
	len = sizeof(listens);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || listens)
		return "a socket that listens";
	return NULL;
}

/* Look at fd and refuse what cannot be used. access: O_RDONLY or O_WRONLY, what we need. */
static int caller_look(int fd, int access, struct stat *st, struct fm_err *err)
{
	const char *what = access == O_RDONLY ? "source" : "target";
	int flags = fcntl(fd, F_GETFL);
	int ret = flags < 0 ? -errno : fm_sys_fstat(fd, st);
	const char *bad;

	if (ret < 0)
		return fm_err_sys(err, ret, "look at the %s", what);
	/* once: the caller has the socket too */
	bad = S_ISSOCK(st->st_mode) ? bad_socket(fd) : NULL;
	if (bad)
		return fm_err_set(err, -EINVAL, "the %s is %s; a stream is needed", what, bad);
	if (kind_of(fd, st) == KIND_BAD)
		return fm_err_set(err, S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL,
				  "the %s is %s; a regular file, pipe, socket or terminal is "
				  "needed", what,
				  bad_kind(st));
	if ((flags & O_PATH) || ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != access))
		return fm_err_set(err, -EBADF, "the %s was not opened for %s", what,
				  access == O_RDONLY ? "reading" : "writing");
	if (fm_is_of_kernel(fd))
		return fm_err_set(err, -EINVAL,
				  "the %s is a file that the kernel makes up, as in /proc: fmoved "
				  "does not %s it for you; use %s",
				  what, access == O_RDONLY ? "read" : "write",
				  access == O_RDONLY ? "cat and a pipe" : "a pipe");
	if (access == O_WRONLY && S_ISREG(st->st_mode) && (flags & O_APPEND))
		return fm_err_set(err, -EINVAL,
				  "the target was opened for appending (>>): bytes would not land "
				  "where they belong; use > or a pipe");
	return 0;
}

/* -------------------------------------------------------------------------------------- sources */

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

/*
 * Whether a small file is read into memory before it is asked for. A file that may stand still is
 * not: nobody should wait for it so early.
 */
static bool is_for_snapshot(int fd, const struct stat *st)
{
	struct statfs fs;

	if (st->st_size <= 0 || st->st_size > FM_SNAPSHOT_MAX)
		return false;
	return fm_sys_fstatfs(fd, &fs) == 0 && !fm_fs_may_stand(&fs);
}

/*
 * Reads a small file through the page cache, since a direct read wants whole blocks. A file that
 * has grown meanwhile is no error.
 */
static int small_source(int fd, struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	const struct fm_file_source_opts opts = { .is_shared = true, .is_buffered = true };
	int ret = fm_file_source_new(fd, &opts, out, attr, err);

	if (ret < 0)
		return ret;
	if (attr->has_holes || attr->size == 0 || attr->size > FM_SNAPSHOT_MAX)
		return 0;
	return fm_snapshot_take(fd, attr->size, out, err);
}

static int caller_source(int fd, bool is_buffered, bool is_whole, struct fm_file **out,
			 struct fm_attr *attr, struct fm_err *err)
{
	const struct fm_file_source_opts opts = { .is_shared = true, .is_buffered = is_buffered };
	struct stat st;
	int ret = caller_look(fd, O_RDONLY, &st, err);

	if (ret < 0) {
		close(fd);
		return ret;
	}
	if (!S_ISREG(st.st_mode))
		return stream_source(fd, NULL, out, attr, err);
	/* Somebody read a part of it already, as in `(read line; fmove put - ...) < file`: the rest
	 * is meant. */
	if (!is_whole && lseek(fd, 0, SEEK_CUR) != 0)
		return stream_source(fd,
				     "in order and buffered: a part of the file was read before",
				     out, attr, err);
	if (is_for_snapshot(fd, &st))
		return small_source(fd, out, attr, err);
	return fm_file_source_new(fd, &opts, out, attr, err);
}

int fm_caller_source(int fd, struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	return caller_source(fd, false, false, out, attr, err);
}

int fm_caller_source_buffered(int fd, struct fm_file **out, struct fm_attr *attr,
			      struct fm_err *err)
{
	return caller_source(fd, true, false, out, attr, err);
}

int fm_caller_source_whole(int fd, bool is_buffered, struct fm_file **out, struct fm_attr *attr,
			   struct fm_err *err)
{
	return caller_source(fd, is_buffered, true, out, attr, err);
}

/* ---------------------------------------------------------------------------------------- sinks */

struct caller_sink {
	struct fm_file file;
	struct fm_fileio io;
	struct fm_resume resume;
	bool has_ended;		/* published, kept or discarded */
};

static struct caller_sink *sink_of(struct fm_file *file)
{
	return fm_container_of(file, struct caller_sink, file);
}

static void caller_sink_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	fm_fileio_write(&sink_of(file)->io, lane, io);
}

static int caller_sink_begin(struct fm_file *file, const struct fm_identity *source,
			     struct fm_have *have, struct fm_err *err)
{
	struct caller_sink *s = sink_of(file);
	int ret = fm_resume_begin(&s->resume, source, have, err);

	if (s->resume.note[0])
		file->resume_note = s->resume.note;
	if (ret < 0)
		fm_err_wrap(err, "go on with the target");
	return ret;
}

static int caller_sink_make_room(struct fm_file *file, uint64_t size, struct fm_err *err)
{
	struct fm_fileio *io = &sink_of(file)->io;
	uint64_t missing;
	int ret = fm_space_missing(io->fd, size, &missing, err);

	if (ret == 0)
		ret = fm_space_check(io->fd, missing, err);
	if (ret < 0)
		fm_err_wrap(err, "the target");
	else
		fm_fileio_expect(io, size);
	return ret;
}

static int caller_sink_reread(struct fm_file *file, uint64_t offset, uint64_t len, uint32_t *part)
{
	return fm_reread(sink_of(file)->io.fd, offset, len, part);
}

static int caller_sink_log(struct fm_file *file, const struct fm_written *written, size_t count,
			   struct fm_err *err)
{
	return fm_resume_log(&sink_of(file)->resume, written, count, err);
}

static int caller_sink_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			       bool is_durable, struct fm_err *err)
{
	struct caller_sink *s = sink_of(file);
	struct fm_seal seal = { .size = size, .attr = attr, .is_foreign = true,
				.sync = is_durable && !s->io.is_memory ? &file->sync : NULL };
	int ret;

	assert(!s->has_ended && attr);
	fm_fileio_end(&s->io);
	ret = fm_seal(s->io.fd, &seal, err);
	if (ret < 0)
		return ret;
	s->has_ended = true;
	if (ret > 0 && !file->note)
		file->note =
			"mode and time are left to the caller: the file is not the service's own";
	return 0;
}

/*
 * Frees the space of a file that is not kept, the journal first, so that nothing seems worth going
 * on with. The caller removes the two names.
 */
static void caller_sink_discard(struct fm_file *file)
{
	struct caller_sink *s = sink_of(file);

	if (s->resume.lock >= 0)
		(void)!ftruncate(s->resume.lock, 0);
	(void)!ftruncate(s->io.fd, 0);
	s->has_ended = true;
}

static void caller_sink_keep(struct fm_file *file)
{
	struct caller_sink *s = sink_of(file);

	if (fm_file_sync_error(file) == 0 && fm_resume_has_something(&s->resume))
		s->has_ended = true;
	else
		caller_sink_discard(file);
}

static void caller_sink_close(struct fm_file *file)
{
	struct caller_sink *s = sink_of(file);

	fm_fileio_end(&s->io);
	if (!s->has_ended)
		caller_sink_discard(file);
	fm_fileio_put_flags_back(&s->io);
	close(s->io.fd);
	fm_resume_end(&s->resume);
	if (s->resume.lock >= 0)
		close(s->resume.lock);
	free(s);
}

static const struct fm_file_ops caller_sink_ops = {
	.write = caller_sink_write,
	.make_room = caller_sink_make_room,
	.publish = caller_sink_publish,
	.discard = caller_sink_discard,
	.close = caller_sink_close,
};

static const struct fm_file_ops resumable_sink_ops = {
	.write = caller_sink_write,
	.begin = caller_sink_begin,
	.make_room = caller_sink_make_room,
	.reread = caller_sink_reread,
	.log = caller_sink_log,
	.publish = caller_sink_publish,
	.discard = caller_sink_discard,
	.keep = caller_sink_keep,
	.close = caller_sink_close,
};

static int caller_sink_prepare(struct caller_sink *s, int fd, const struct fm_create *how,
			       struct fm_err *err)
{
	int ret = fm_fileio_init(&s->io, fd, !s->file.has_partial, false, &s->file.note, err);

	s->file.has_other_flags = s->io.has_other_flags;
	s->file.is_direct = s->io.is_direct;
	s->file.is_instant = s->io.is_memory;
	s->file.may_stand = s->io.may_stand;
	s->resume.sync = how->is_synced && !s->io.is_memory ? &s->file.sync : NULL;
	if (ret < 0 || !s->file.has_fixed_size || !how->is_dense)
		return ret;
	if (!s->file.has_partial)
		ret = fm_space_check(fd, how->size, err);
	if (ret == 0 && !s->file.has_partial)
		ret = fm_space_reserve(fd, how->size, err);
	if (ret == 0)
		fm_fileio_expect(&s->io, how->size);
	return ret;
}

/* Closes a sink that is refused. What an earlier try left stays for a sink that is not. */
static void caller_sink_refuse(struct caller_sink *s)
{
	if (s->file.has_partial)
		s->has_ended = true;
	caller_sink_close(&s->file);
}

static int regular_sink(int fd, int journal, bool has_partial, const struct fm_create *how,
			struct fm_file **out, struct fm_err *err)
{
	struct caller_sink *s = fm_sys_alloc(sizeof(*s));
	int ret;

	if (!s) {
		close(fd);
		if (journal >= 0)
			close(journal);
		return fm_err_set(err, -ENOMEM, "allocate the sink");
	}
	s->io.fd = fd;
	s->resume = (struct fm_resume){
		.fd = fd, .lock = journal, .has_content = has_partial, .name = ""};
	s->file.ops = journal >= 0 ? &resumable_sink_ops : &caller_sink_ops;
	s->file.has_partial = has_partial;
	s->file.has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	ret = caller_sink_prepare(s, fd, how, err);
	if (ret < 0) {
		caller_sink_refuse(s);
		return ret;
	}
	*out = &s->file;
	return 0;
}

/* A sink for /dev/null, which needs no calls to the kernel, whatever the size. */
static int null_sink(int fd, const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	int ret = fm_null_sink(out, err);

	close(fd);
	if (ret == 0)
		(*out)->has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	return ret;
}

/* Opens the journal that belongs to fd. Its content is checked later, when the source is known. */
static int journal_look(int fd, int journal, uint64_t *size, struct fm_err *err)
{
	struct stat st;
	int flags = fcntl(journal, F_GETFL);
	int ret = flags < 0 ? -errno : fm_sys_fstat(journal, &st);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at the journal");
	if (!S_ISREG(st.st_mode) || (flags & O_PATH) || (flags & O_ACCMODE) != O_RDWR ||
	    (flags & O_APPEND) || fm_is_of_kernel(journal))
		return fm_err_set(err, -EINVAL,
				  "the journal is no regular file that was opened for reading and "
				  "writing anywhere in it");
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return fm_err_set(
			err, -EBADF,
			"with a journal, the target must be open for reading and writing");
	*size = (uint64_t)st.st_size;
	return 0;
}

/* Whether the sink holds something that may be there; *has_partial. */
static int content_look(int fd, int journal, const struct stat *st, bool *has_partial,
			struct fm_err *err)
{
	uint64_t journal_size = 0;
	int ret = journal >= 0 ? journal_look(fd, journal, &journal_size, err) : 0;

	*has_partial = st->st_size > 0 && journal_size > 0;
	if (ret < 0 || st->st_size == 0 || *has_partial)
		return ret;
	return fm_err_set(err, -EEXIST, "the target holds %lld bytes already; it must be empty",
			  (long long)st->st_size);
}

int fm_caller_sink(int fd, int journal, const struct fm_create *how, struct fm_file **out,
		   struct fm_err *err)
{
	bool has_partial = false;
	struct stat st;
	int ret = caller_look(fd, O_WRONLY, &st, err);

	if (ret == 0 && S_ISREG(st.st_mode))
		ret = content_look(fd, journal, &st, &has_partial, err);
	if (ret < 0)
		close(fd);
	if (journal >= 0 && (ret < 0 || !S_ISREG(st.st_mode)))
		close(journal);		/* what comes into a stream is nothing to go on with */
	if (ret < 0)
		return ret;
	switch (kind_of(fd, &st)) {
	case KIND_REGULAR:
		return regular_sink(fd, journal, has_partial, how, out, err);
	case KIND_NULL:
		return null_sink(fd, how, out, err);
	case KIND_STREAM:
	case KIND_BAD:
		break;
	}
	return fm_caller_stream_new(fd, true, NULL, out, err);
}
