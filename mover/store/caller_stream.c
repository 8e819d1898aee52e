/* SPDX-License-Identifier: MIT */
/*
 * caller_stream - bytes in order.
 *
 * The ring gets an operation of our own, since the caller's names an offset in the file and the
 * ring must be told that there is none.
 */
#include "mover/store/caller_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/store/done_list.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

struct stream {
	struct fm_file file;
	int fd;
	uint64_t offset;	/* bytes moved so far */
	struct fm_io io;
	struct fm_io *asked;	/* NULL: none under way */
};

static struct stream *stream_of(struct fm_file *file)
{
	return fm_container_of(file, struct stream, file);
}

static void stream_io_done(struct fm_io *io)
{
	struct stream *s = fm_container_of(io, struct stream, io);
	struct fm_io *asked = s->asked;

	s->asked = NULL;
	if (io->res > 0)
		s->offset += (uint64_t)io->res;
	asked->res = io->res;
	asked->done(asked);	/* the stream may be gone from here on */
}

/* Takes the I/O if it is the next one of the stream; refuses it otherwise. */
static bool stream_begin(struct stream *s, const struct fm_lane_io *lane, struct fm_io *io)
{
	assert(io->len > 0);
	if (s->asked || (io->offset != FM_IO_STREAM && io->offset != s->offset)) {
		fm_done_list_add(lane->done, io, -ESPIPE);
		return false;
	}
	s->asked = io;
	s->io = (struct fm_io){ .done = stream_io_done, .fd = s->fd, .buf = io->buf, .len = io->len,
				.offset = FM_IO_STREAM };
	return true;
}

static void stream_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct stream *s = stream_of(file);

	if (stream_begin(s, lane, io))
		fm_ring_read(lane->ring, &s->io);
}

static void stream_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct stream *s = stream_of(file);

	if (stream_begin(s, lane, io))
		fm_ring_write(lane->ring, &s->io);
}

static void stream_cancel(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct stream *s = stream_of(file);

	if (s->asked == io)
		fm_ring_cancel(lane->ring, &s->io);
}

/* Checks that the whole stream was written. The reader has it already. */
static int stream_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			  bool is_durable, struct fm_err *err)
{
	struct stream *s = stream_of(file);

	(void)attr;
	(void)is_durable;
	assert(!s->asked);
	if (s->offset == size)
		return 0;
	return fm_err_set(err, -EIO, "%llu bytes of %llu went into the stream",
			  (unsigned long long)s->offset, (unsigned long long)size);
}

static void stream_discard(struct fm_file *file)
{
	(void)file;	/* what was written cannot be taken back */
}

static void stream_close(struct fm_file *file)
{
	struct stream *s = stream_of(file);

	assert(!s->asked);
	close(s->fd);
	free(s);
}

static const struct fm_file_ops stream_source_ops = {
	.read = stream_read,
	.cancel = stream_cancel,
	.close = stream_close,
};

static const struct fm_file_ops stream_sink_ops = {
	.write = stream_write,
	.cancel = stream_cancel,
	.publish = stream_publish,
	.discard = stream_discard,
	.close = stream_close,
};

int fm_caller_stream_new(int fd, bool is_sink, const char *note, struct fm_file **out,
			 struct fm_err *err)
{
	struct stream *s = fm_sys_alloc(sizeof(*s));

	if (!s) {
		close(fd);
		return fm_err_set(err, -ENOMEM, "allocate the stream");
	}
	s->fd = fd;
	s->file.ops = is_sink ? &stream_sink_ops : &stream_source_ops;
	s->file.is_stream = true;
	s->file.may_stand = true;
	s->file.note = note;
	*out = &s->file;
	return 0;
}
