/* SPDX-License-Identifier: MIT */
/* buffer - see buffer.h. */
#include "mover/store/buffer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/worker.h"
#include "mover/store/done_list.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22	/* Linux 5.14; older C libraries do not name them */
#define MADV_POPULATE_WRITE 23
#endif

struct fm_buffer {
	atomic_uint refs;
	char *memory;
	uint64_t bytes;
	bool can_write;
	struct fm_holder *holder;	/* a reference */
	struct fm_share_held held;	/* the loop's */
	struct fm_work work;		/* unmaps it */
	uid_t uid;
	struct fm_buffer_kept kept;
};

/* ---- the memory ---- */

/*
 * Looks at what was passed. A file that is no memory file is told by its lack of seals, before
 * anything is asked of its file system.
 */
static int look(const struct fm_buffer_opts *o, int *seals, struct fm_err *err)
{
	const int needed = F_SEAL_GROW | F_SEAL_SHRINK;
	struct stat st;
	int ret;

	*seals = fcntl(o->fd, F_GET_SEALS);
	if (*seals < 0)
		return fm_err_set(err, -EINVAL,
				  "a buffer is a memory file (memfd_create), and this is none");
	if ((*seals & needed) != needed)
		return fm_err_set(err, -EINVAL,
				  "a buffer must be sealed against growing and shrinking");
	ret = fm_sys_fstat(o->fd, &st);
	if (ret < 0)
		return fm_err_sys(err, ret, "look at the buffer");
	if (o->bytes == 0 || (uint64_t)st.st_size != o->bytes)
		return fm_err_set(err, -EINVAL, "the buffer has %lld bytes, and not %llu",
				  (long long)st.st_size, (unsigned long long)o->bytes);
	return 0;
}

static int map(struct fm_buffer *b, int fd, int seals, struct fm_err *err)
{
	int access;
	void *p;

	b->can_write = !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
	access = b->can_write ? PROT_READ | PROT_WRITE : PROT_READ;
	p = FM_FAULT("buffer.map") ? (errno = ENOMEM, MAP_FAILED) :
				     mmap(NULL, b->bytes, access, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return fm_err_sys(err, -errno, "map the buffer");
	b->memory = p;
	/* Advice: other people's data belongs into no core dump. */
	(void)madvise(p, b->bytes, MADV_DONTDUMP);
	return 0;
}

/*
 * Makes sure that all of it stays: who could still write to the file, but for what is mapped, could
 * cut holes into it. Pages that are not there yet would be made, and counted, as ours. To touch
 * each by such a call gives an error where a fault would end us, and keeps pages from being taken
 * back by an allocation that fails.
 */
static int settle(struct fm_buffer *b, int fd, struct fm_err *err)
{
	int how = b->can_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	struct stat st;
	int ret;

	if (b->can_write && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0)
		return fm_err_set(err, -EINVAL,
				  "the buffer cannot be sealed against new writers (%s): it must "
				  "be open for writing, and take further seals",
				  fm_err_name(errno));
	ret = fm_sys_fstat(fd, &st);
	if (ret < 0)
		return fm_err_sys(err, ret, "look at the buffer");
	if ((uint64_t)st.st_blocks * 512 < b->bytes)
		return fm_err_set(err, -EINVAL,
				  "a part of the buffer is not allocated: fallocate it, or write "
				  "to each of its pages");
	ret = FM_FAULT("buffer.touch") ? -ENOMEM : fm_call(madvise(b->memory, b->bytes, how));
	if (ret == -EINVAL)
		return fm_err_set(err, -EOPNOTSUPP, "buffers need Linux 5.14 or newer");
	return ret < 0 ? fm_err_sys(err, ret, "touch the buffer") : 0;
}

static void unmap_run(struct fm_work *work)
{
	struct fm_buffer *b = fm_container_of(work, struct fm_buffer, work);

	if (b->memory)
		munmap(b->memory, b->bytes);
	b->memory = NULL;
}

static void unmap_done(struct fm_work *work)
{
	struct fm_buffer *b = fm_container_of(work, struct fm_buffer, work);

	fm_share_give_all(&b->held);
	fm_holder_put(b->holder);
	free(b);
}

int fm_buffer_map(const struct fm_buffer_opts *o, struct fm_buffer **out, struct fm_err *err)
{
	struct fm_buffer *b;
	int seals, ret = look(o, &seals, err);

	if (ret < 0)
		return ret;
	b = fm_sys_alloc(sizeof(*b));
	if (!b)
		return fm_err_set(err, -ENOMEM, "allocate a buffer");
	atomic_init(&b->refs, 1);
	b->bytes = o->bytes;
	b->uid = o->uid;
	fm_list_init(&b->kept.list);
	b->work.run = unmap_run;
	b->work.done = unmap_done;
	ret = map(b, o->fd, seals, err);
	if (ret == 0)
		ret = settle(b, o->fd, err);
	if (ret < 0) {
		unmap_run(&b->work);
		free(b);
		return ret;
	}
	b->holder = fm_holder_ref(o->holder);
	*out = b;
	return 0;
}

void fm_buffer_charge(struct fm_buffer *b, const struct fm_share_held *held)
{
	assert(!b->held.share);
	b->held = *held;
}

struct fm_buffer *fm_buffer_ref(struct fm_buffer *b)
{
	atomic_fetch_add(&b->refs, 1);
	return b;
}

/* The pages may be freed with it, which takes a while: no thread of the loops does that. */
void fm_buffer_unref(struct fm_buffer *b)
{
	if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
		return;
	if (b->kept.over)
		b->kept.over(&b->kept);
	if (b->holder) {
		fm_holder_work(b->holder, &b->work);
		return;
	}
	unmap_run(&b->work);
	unmap_done(&b->work);
}

uint64_t fm_buffer_bytes(const struct fm_buffer *b)
{
	return b->bytes;
}

const char *fm_buffer_memory(const struct fm_buffer *b)
{
	return b->memory;
}

uid_t fm_buffer_uid(const struct fm_buffer *b)
{
	return b->uid;
}

struct fm_buffer_kept *fm_buffer_kept(struct fm_buffer *b)
{
	return &b->kept;
}

/* ---- files ---- */

struct buffer_file {
	struct fm_file file;
	struct fm_buffer *buffer;	/* a reference */
	char *at;
	uint64_t len;
};

static struct buffer_file *file_of(struct fm_file *file)
{
	return fm_container_of(file, struct buffer_file, file);
}

/* Where the bytes go over RDMA, whose regions are slots, and where they are not sent from here. */
static void buffer_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	const struct buffer_file *f = file_of(file);
	uint64_t left = io->offset < f->len ? f->len - io->offset : 0;
	size_t len = io->len < left ? io->len : (size_t)left;

	memcpy(io->buf, f->at + (f->len - left), len);
	fm_done_list_add(lane->done, io, (int64_t)len);
}

/* What has no room is dropped: a chunk may come before the size of the file, and only the two
 * sizes together say what is wrong. Such a file is not published. */
static void buffer_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	(void)file;
	fm_done_list_add(lane->done, io, (int64_t)io->len);
}

static int buffer_check_size(const struct fm_file *file, uint64_t size, struct fm_err *err)
{
	const struct buffer_file *f = fm_container_of(file, struct buffer_file, file);

	if (size <= f->len)
		return 0;
	return fm_err_set(err, -EFBIG, "the file has %llu bytes, the part of the buffer %llu",
			  (unsigned long long)size, (unsigned long long)f->len);
}

static int buffer_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			  bool is_durable, struct fm_err *err)
{
	(void)attr;
	(void)is_durable;
	return buffer_check_size(file, size, err);
}

static void buffer_discard(struct fm_file *file)
{
	(void)file;	/* what came is the caller's, and nothing to use */
}

static void buffer_close(struct fm_file *file)
{
	fm_buffer_unref(file_of(file)->buffer);
	free(file_of(file));
}

static const struct fm_file_ops source_ops = {
	.read = buffer_read,
	.close = buffer_close,
};

static const struct fm_file_ops sink_ops = {
	.write = buffer_write,
	.check_size = buffer_check_size,
	.publish = buffer_publish,
	.discard = buffer_discard,
	.close = buffer_close,
};

static int file_new(struct fm_buffer *b, uint64_t offset, uint64_t len, struct buffer_file **out,
		    struct fm_err *err)
{
	struct buffer_file *f;

	if (offset > b->bytes || len > b->bytes - offset)
		return fm_err_set(err, -EINVAL,
				  "%llu bytes from %llu on are not all in a buffer of %llu",
				  (unsigned long long)len, (unsigned long long)offset,
				  (unsigned long long)b->bytes);
	f = fm_sys_alloc(sizeof(*f));
	if (!f)
		return fm_err_set(err, -ENOMEM, "allocate a file of a buffer");
	f->buffer = fm_buffer_ref(b);
	f->at = b->memory + offset;
	f->len = len;
	f->file.is_instant = true;
	f->file.is_ours = true;
	*out = f;
	return 0;
}

int fm_buffer_source(struct fm_buffer *b, uint64_t offset, uint64_t len, struct fm_file **out,
		     struct fm_attr *attr, struct fm_err *err)
{
	struct buffer_file *f;
	int ret = file_new(b, offset, len, &f, err);

	if (ret < 0)
		return ret;
	f->file.ops = &source_ops;
	f->file.memory = f->at;
	f->file.buffer = b;
	*attr = (struct fm_attr){
		.type = FM_NODE_FILE,
		.size = len,
		.mode = 0644,
		.mtime_ns = (int64_t)time(NULL) * (int64_t)FM_NS_PER_S,
	};
	*out = &f->file;
	return 0;
}

int fm_buffer_sink(struct fm_buffer *b, uint64_t offset, uint64_t len, struct fm_file **out,
		   struct fm_err *err)
{
	struct buffer_file *f;
	int ret;

	if (!b->can_write)
		return fm_err_set(err, -EROFS,
				  "the buffer was sealed against writing before it came: nothing "
				  "can be received into it");
	ret = file_new(b, offset, len, &f, err);
	if (ret < 0)
		return ret;
	f->file.ops = &sink_ops;
	f->file.place = f->at;
	f->file.room = len;
	*out = &f->file;
	return 0;
}
