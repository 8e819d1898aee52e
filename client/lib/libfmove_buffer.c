/* SPDX-License-Identifier: MIT */
/*
 * libfmove_buffer - memory that goes to a peer, or is filled by one: pages that the daemon maps, or
 * the caller's own. See fmove.h.
 *
 * A buffer is a memory file. The daemon keeps it as long as a connection that the buffer has for
 * itself, and calls it by a number, which any connection may name. A daemon that was started again
 * knows no number of before: the buffer is shown to it once more, sealed by then, so nothing can be
 * received into it without a copy.
 */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/tries.h"
#include "mover/base/err.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older C libraries do not name it */
#endif

#define HUGE_LEAST ((size_t)8 << 20)
#define SHOWN_MAX 8 /* so often a buffer is shown to daemons that do not know it, within a call */
#define SHOWN_LOOK_US 1000u

struct fmove_buffer {
	struct fmove *own;
	atomic_uint_fast64_t number; /* as the daemon calls it */
	/*
	 * 1 + fm_forks() of the process in which a thread shows it: it has `own` alone. 0: none.
	 * No lock, which a child that is forked meanwhile would find taken for ever.
	 */
	atomic_uint shown_by;
	int fd;
	char *memory;
	size_t bytes; /* of the file */
};

/* ---- pages ---- */

/* Of that memory file, all of them there: what is missing then is told here, and does not end the
 * caller when it is touched. unit: of which its size is a multiple. */
static int pages_map(struct fmove_buffer *b, size_t bytes, size_t unit)
{
	void *p;

	if (bytes > SIZE_MAX / 4)
		return -ENOMEM;
	b->bytes = (bytes + unit - 1) / unit * unit;
	if (ftruncate(b->fd, (off_t)b->bytes) < 0)
		return -errno;
	p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	b->memory = p;
	(void)madvise(p, b->bytes, MADV_HUGEPAGE); /* advice */
	return madvise(p, b->bytes, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
}

/* The size of huge pages is told by the file: 0: it cannot be had. */
static size_t unit_of(const struct fmove_buffer *b, bool is_huge)
{
	struct stat st;

	if (!is_huge)
		return 1;
	return fstat(b->fd, &st) < 0 ? 0 : (size_t)st.st_blksize;
}

static void pages_unmap(struct fmove_buffer *b)
{
	if (b->memory)
		(void)munmap(b->memory, b->bytes);
	if (b->fd >= 0)
		(void)close(b->fd);
	b->memory = NULL;
	b->fd = -1;
}

static int pages_try(struct fmove_buffer *b, size_t bytes, bool is_huge)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	size_t unit;
	int ret;

	b->fd = memfd_create("fmove buffer", is_huge ? flags | MFD_HUGETLB : flags);
	if (b->fd < 0)
		return -errno;
	unit = unit_of(b, is_huge);
	ret = unit > 0 ? pages_map(b, bytes, unit) : -EIO;
	if (ret == 0 && fcntl(b->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		ret = -errno;
	if (ret < 0)
		pages_unmap(b);
	return ret;
}

/* may_be_huge: of reserved huge pages, if there are enough. For less than a few they are a waste.
 */
static int pages_new(size_t bytes, bool may_be_huge, struct fmove_buffer **out,
		     struct fmove_error *err)
{
	struct fmove_buffer *b = calloc(1, sizeof(*b));
	int ret = -ENOMEM;

	if (!b)
		return fm_lib_fail(err, -ENOMEM, "no memory for a buffer");
	if (may_be_huge && bytes >= HUGE_LEAST)
		ret = pages_try(b, bytes, true);
	if (ret < 0)
		ret = pages_try(b, bytes, false);
	if (ret < 0) {
		fmove_buffer_free(b);
		return fm_lib_fail(err, ret, "make a buffer of %zu bytes: %s", bytes,
				   fm_err_name(ret));
	}
	*out = b;
	return 0;
}

/* ---- the daemon's word for it ---- */

static int show(struct fmove_buffer *b, struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_json *done;
	uint64_t number;
	int ret;

	fm_lib_begin(b->own, &req, "buffer");
	fm_jw_u64(&req.json, "bytes", b->bytes);
	ret = fm_lib_run_with(&req, b->fd, &done, err);
	if (ret < 0)
		return ret;
	ret = fm_json_u64(fm_json_get(done, "buffer"), &number);
	fm_json_free(done);
	if (ret < 0)
		return fm_lib_fail(err, -EPROTO, "fmoved gave the buffer no number");
	atomic_store(&b->number, number);
	return 0;
}

/* Whether this thread is to show it; false: another one has. */
static bool take_showing(struct fmove_buffer *b, uint64_t unknown)
{
	const unsigned we = 1 + fm_forks();

	for (;;) {
		unsigned by = atomic_load(&b->shown_by);

		if (by == we)
			(void)usleep(SHOWN_LOOK_US);
		else if (atomic_compare_exchange_strong(&b->shown_by, &by, we))
			break;	/* it was nobody, or one of another process, who is not here */
	}
	if (atomic_load(&b->number) == unknown)
		return true;
	atomic_store(&b->shown_by, 0);
	return false;
}

/* Shows it once more, unless another thread did so after that number was found to be unknown. */
static int show_again(struct fmove_buffer *b, uint64_t unknown, struct fmove_error *err)
{
	int ret;

	if (!take_showing(b, unknown))
		return 0;
	fmove_disconnect(b->own);
	ret = show(b, err);
	atomic_store(&b->shown_by, 0);
	return ret;
}

/* For the first time, over a connection of its own. */
static int show_first(struct fmove *c, struct fmove_buffer *b, struct fmove_error *err)
{
	int ret = fmove_connect(c->connections.address.sun_path, &b->own, err);

	return ret < 0 ? ret : show(b, err);
}

int fmove_buffer_alloc(struct fmove *c, size_t bytes, struct fmove_buffer **out,
		       struct fmove_error *err)
{
	struct fmove_buffer *b;
	int ret;

	if (bytes == 0)
		return fm_lib_fail(err, -EINVAL, "a buffer of no bytes");
	ret = pages_new(bytes, true, &b, err);
	if (ret < 0)
		return ret;
	ret = show_first(c, b, err);
	if (ret < 0) {
		fmove_buffer_free(b);
		return ret;
	}
	*out = b;
	return 0;
}

void fmove_buffer_free(struct fmove_buffer *b)
{
	if (!b)
		return;
	fmove_close(b->own);
	pages_unmap(b);
	free(b);
}

void *fmove_buffer_memory(const struct fmove_buffer *b)
{
	return b->memory;
}

/* ---- transfers of buffers ---- */

typedef void begin_fn(struct fmove *c, struct fm_lib_request *req, const struct fmove_name *name,
		      const struct fmove_options *opts);

static void part_add(struct fm_json_writer *w, uint64_t number, const struct fmove_part *part)
{
	fm_jw_array(w, "buffer");
	fm_jw_u64(w, NULL, number);
	fm_jw_u64(w, NULL, part->offset);
	fm_jw_u64(w, NULL, part->length);
	fm_jw_array_end(w);
}

/* One try, of a buffer that the daemon knows, or is shown. */
static int transfer_once(struct fmove *c, begin_fn *begin, const struct fmove_part *part,
			 const struct fmove_name *name, const struct fmove_options *opts,
			 struct fmove_result *result, struct fmove_error *err)
{
	for (unsigned shown = 0;; shown++) {
		uint64_t number = atomic_load(&part->buffer->number);
		struct fm_lib_request req;
		int ret;

		begin(c, &req, name, opts);
		part_add(&req.json, number, part);
		ret = fm_lib_transfer_do(&req, -1, opts, result, err);
		if (ret != -EBADF || shown == SHOWN_MAX)
			return ret;
		ret = show_again(part->buffer, number, err);
		if (ret < 0)
			return ret;
	}
}

/* The daemon does not try it again by itself: it has nothing of the buffer when this is over. */
static int transfer(struct fmove *c, begin_fn *begin, const struct fmove_part *part,
		    const struct fmove_name *name, const struct fmove_options *opts,
		    struct fmove_result *result, struct fmove_error *err)
{
	struct fmove_error own;
	struct fm_sized_call call;
	struct fm_tries tries;
	int ret = fm_sized_call_begin(&call, opts, result, err);

	if (ret < 0)
		return ret;
	err = err ? err : &own;
	fm_tries_begin(&tries, &call.opts);
	do {
		ret = transfer_once(c, begin, part, name, &tries.opts, &call.result, err);
	} while (ret < 0 && fm_tries_again(&tries, c, err));
	return fm_sized_call_end(&call, ret < 0 ? err->code : ret, result);
}

int fmove_put_buffer(struct fmove *c, const struct fmove_part *from, const struct fmove_name *name,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err)
{
	return transfer(c, fm_lib_put_begin, from, name, opts, result, err);
}

int fmove_get_buffer(struct fmove *c, const struct fmove_part *to, const struct fmove_name *name,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err)
{
	struct fmove_buffer *b = to->buffer;
	int ret = transfer(c, fm_lib_get_begin, to, name, opts, result, err);

	if (ret != -EROFS || to->offset > b->bytes || to->length > b->bytes - to->offset)
		return ret;
	return fmove_get_memory(c, b->memory + to->offset, to->length, name, opts, result, err);
}

/* ---- plain memory ---- */

static int put_nothing(struct fmove *c, const struct fmove_name *name,
		       const struct fmove_options *opts, struct fmove_result *result,
		       struct fmove_error *err)
{
	int fd = memfd_create("fmove put", MFD_CLOEXEC), ret;

	if (fd < 0)
		return fm_lib_fail(err, -errno, "make an empty file: %s", fm_err_name(-errno));
	ret = fmove_put(c, fd, name, opts, result, err);
	(void)close(fd);
	return ret;
}

/* The daemon may have no room for another buffer: then it reads the same memory as a file. */
int fmove_put_memory(struct fmove *c, const void *from, size_t length,
		     const struct fmove_name *name, const struct fmove_options *opts,
		     struct fmove_result *result, struct fmove_error *err)
{
	struct fmove_part part = {.length = length};
	struct fm_sized_call call;
	struct fmove_error why;
	int ret;

	if (length == 0)
		return put_nothing(c, name, opts, result, err);
	ret = fm_sized_call_begin(&call, opts, result, err);
	if (ret == 0)
		ret = pages_new(length, false, &part.buffer, err);
	if (ret < 0)
		return ret;
	memcpy(part.buffer->memory, from, length);
	if (show_first(c, part.buffer, &why) == 0)
		ret = fmove_put_buffer(c, &part, name, &call.opts, &call.result, err);
	else
		ret = fmove_put(c, part.buffer->fd, name, &call.opts, &call.result, err);
	fmove_buffer_free(part.buffer);
	return fm_sized_call_end(&call, ret, result);
}

/* Copies what came. */
static int copy_out(int fd, char *to, size_t length, struct fmove_error *err)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = pread(fd, to + at, length - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fm_lib_fail(err, n < 0 ? -errno : -EIO,
					   "read what came from memory");
		at += (size_t)n;
	}
	return 0;
}

int fmove_get_memory(struct fmove *c, void *to, size_t length, const struct fmove_name *name,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err)
{
	struct fm_sized_call call;
	int fd, ret = fm_sized_call_begin(&call, opts, result, err);

	if (ret < 0)
		return ret;
	fd = memfd_create("fmove get", MFD_CLOEXEC);
	if (fd < 0)
		return fm_lib_fail(err, -errno, "memory for what comes: %s", fm_err_name(-errno));
	ret = fm_lib_get_at_most(c, fd, length > 0 ? length : 1, name, &call.opts, &call.result,
				 err);
	if (ret == 0 && call.result.bytes > length)	/* into none, 1 */
		ret = fm_lib_fail(err, -EFBIG, "%llu bytes came for memory of %zu",
				  (unsigned long long)call.result.bytes, length);
	if (ret == 0)
		ret = copy_out(fd, to, (size_t)call.result.bytes, err);
	(void)close(fd);
	return fm_sized_call_end(&call, ret, result);
}
