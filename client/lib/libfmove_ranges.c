/* SPDX-License-Identifier: MIT */
/*
 * libfmove_ranges - ranges of a stored file: into a descriptor, or into memory. See fmove.h.
 *
 * One request has at most FMOVE_RANGES_MAX of them, so many ranges are several requests, one after
 * the other. All of them must have read the same version of the file.
 */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/crc32c.h"

#define MEMORY_MAX (64u << 20)		/* bytes that wait to be copied to the caller's memory */

/* A call that may be several requests. */
struct doing {
	/* the caller's, and the result of those that are over, if one is: */
	struct fm_sized_call call;
	bool has_result;
	struct fmove_options o;			/* of the request that is next */
	uint64_t size;				/* of all; UINT64_MAX: not known */
	uint64_t said;				/* bytes that progress() told of */
	uint64_t begun_ms;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);	/* cannot fail with this clock */
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Adds what earlier requests brought. One that is just ending says 0 again: it is not passed on. */
static void progress(void *ctx, const struct fmove_progress *p)
{
	struct doing *d = ctx;
	struct fmove_progress all = *p;

	all.bytes += d->has_result ? d->call.result.bytes : 0;
	d->said = all.bytes > d->said ? all.bytes : d->said;
	all.bytes = d->said;
	all.size = d->size;
	d->call.opts.progress(d->call.opts.ctx, &all);
}

static void accepted(void *ctx, const char *job)
{
	const struct doing *d = ctx;

	if (!d->has_result)
		d->call.opts.accepted(d->call.opts.ctx, job);
}

static uint64_t sum_of(const struct fmove_range *ranges, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (ranges[i].length == FMOVE_TO_END ||
		    __builtin_add_overflow(sum, ranges[i].length, &sum))
			return UINT64_MAX;
	return sum;
}

static int begin(struct doing *d, const struct fmove_options *opts,
		 const struct fmove_range *ranges, size_t count, const struct fmove_result *result,
		 struct fmove_error *err)
{
	*d = (struct doing){.size = sum_of(ranges, count), .begun_ms = now_ms()};
	int ret = fm_sized_call_begin(&d->call, opts, result, err);

	if (ret < 0)
		return ret;
	d->o = d->call.opts;
	d->o.ctx = d;
	d->o.progress = d->o.progress ? progress : NULL;
	d->o.accepted = d->o.accepted ? accepted : NULL;
	return 0;
}

/* Leaves the next request what is left of the time for all of them. */
static int take_time(struct doing *d, struct fmove_error *err)
{
	uint64_t limit_ms = d->call.opts.timeout_ms, gone_ms = now_ms() - d->begun_ms;

	if (limit_ms == 0)
		return 0;
	if (gone_ms >= limit_ms)
		return fm_lib_fail(err, -ETIMEDOUT,
				   "not all ranges came within the time that was given");
	d->o.timeout_ms = limit_ms - gone_ms;
	return 0;
}

/* A sum of results, as if one request had done all of it. */
static int add_result(struct doing *d, const struct fmove_result *one, struct fmove_error *err)
{
	struct fmove_result *sum = &d->call.result, s = *one;

	if (!d->has_result) {
		*sum = s;
		d->has_result = true;
		return 0;
	}
	if (strcmp(sum->version, one->version) != 0)
		return fm_lib_fail(err, -ESTALE,
				   "the source changed while ranges of it were read; run it again");
	s.crc32c = fm_crc32c_whole(fm_crc32c_part(sum->crc32c, 0, sum->bytes) ^
					   fm_crc32c_part(one->crc32c, sum->bytes, one->bytes),
				   sum->bytes + one->bytes);
	s.bytes += sum->bytes;
	s.data_bytes += sum->data_bytes;
	s.seconds += sum->seconds;
	s.gb_per_s = s.seconds > 0 ? (double)s.bytes / 1e9 / s.seconds : 0;
	s.rdma_bytes += sum->rdma_bytes;
	s.tcp_bytes += sum->tcp_bytes;
	s.resent_bytes += sum->resent_bytes;
	s.direct_bytes += sum->direct_bytes;
	s.corrupt_chunks += sum->corrupt_chunks;
	s.is_checked &= sum->is_checked;
	s.is_durable &= sum->is_durable;
	*sum = s;
	return 0;
}

/* One request, of at most FMOVE_RANGES_MAX. */
static int get_some(struct fmove *c, struct doing *d, int fd, const struct fmove_name *name,
		    const struct fmove_range *ranges, size_t count, struct fmove_error *err)
{
	struct fmove_result one = {.struct_size = sizeof(one)};
	int ret = take_time(d, err);

	d->o.ranges = ranges;
	d->o.range_count = count;
	if (ret == 0)
		ret = fmove_get(c, fd, name, &d->o, &one, err);
	return ret < 0 ? ret : add_result(d, &one, err);
}

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

int fmove_get_ranges(struct fmove *c, int fd, const struct fmove_name *name,
		     const struct fmove_range *ranges, size_t count,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err)
{
	struct fmove_error own;
	struct doing d;
	size_t some;
	int ret;

	err = err ? err : &own;
	if (count == 0)
		return fm_lib_fail(err, -EINVAL, "there is no range to get");
	if (count > FMOVE_RANGES_MAX && is_regular(fd))
		return fm_lib_fail(err, -E2BIG,
				   "%zu ranges for one file: at most %u come into a file at once, "
				   "and any number into a pipe",
				   count, FMOVE_RANGES_MAX);
	ret = begin(&d, opts, ranges, count, result, err);
	for (size_t at = 0; at < count && ret == 0; at += some) {
		some = count - at < FMOVE_RANGES_MAX ? count - at : FMOVE_RANGES_MAX;
		ret = get_some(c, &d, fd, name, ranges + at, some, err);
	}
	return fm_sized_call_end(&d.call, ret, result);
}

/* ---- into memory ---- */

/* How far a call came, and the ranges of the request that is next. */
struct reading {
	const struct fmove_range *ranges;
	void *const *to;
	size_t count;
	size_t next;			/* of ranges */
	uint64_t skip;			/* bytes of that one that are there */
	int fd;				/* a file in memory, for one request after the other */
	size_t part_count;
	struct {
		void *to;
		uint64_t len;
	} part_to[FMOVE_RANGES_MAX];
	struct fmove_range part[FMOVE_RANGES_MAX];
};

/* Fills in the parts of the next request: as many ranges, or pieces of long ones, as it may
 * have. */
static void take_parts(struct reading *r)
{
	uint64_t left = MEMORY_MAX;

	r->part_count = 0;
	while (r->next < r->count && r->part_count < FMOVE_RANGES_MAX && left > 0) {
		const struct fmove_range *range = &r->ranges[r->next];
		uint64_t len = range->length - r->skip;

		len = len < left ? len : left;
		r->part[r->part_count] = (struct fmove_range){range->offset + r->skip, len};
		r->part_to[r->part_count].to = (char *)r->to[r->next] + r->skip;
		r->part_to[r->part_count++].len = len;
		left -= len;
		r->skip += len;
		if (r->skip < range->length)
			continue;
		r->next++;
		r->skip = 0;
	}
}

/* Copies what came to where the caller wants it. */
static int copy_parts(const struct reading *r, struct fmove_error *err)
{
	off_t at = 0;

	for (size_t i = 0; i < r->part_count; i++) {
		char *to = r->part_to[i].to;
		uint64_t left = r->part_to[i].len;

		while (left > 0) {
			ssize_t n = pread(r->fd, to, (size_t)left, at);

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return fm_lib_fail(err, n < 0 ? -errno : -EIO,
						   "read what came from memory");
			at += n;
			to += n;
			left -= (uint64_t)n;
		}
	}
	return 0;
}

static int read_parts(struct fmove *c, struct doing *d, struct reading *r,
		      const struct fmove_name *name, struct fmove_error *err)
{
	int ret;

	if (ftruncate(r->fd, 0) < 0)
		return fm_lib_fail(err, -errno, "empty the memory for ranges");
	ret = get_some(c, d, r->fd, name, r->part, r->part_count, err);
	return ret < 0 ? ret : copy_parts(r, err);
}

static int check_ranges(const struct fmove_range *ranges, size_t count, struct fmove_error *err)
{
	if (count == 0)
		return fm_lib_fail(err, -EINVAL, "there is no range to read");
	for (size_t i = 0; i < count; i++)
		if (ranges[i].length > (uint64_t)INT64_MAX ||
		    ranges[i].offset > (uint64_t)INT64_MAX - ranges[i].length)
			return fm_lib_fail(err, -EINVAL,
					   "range %zu: memory needs a length, and no file is so "
					   "long",
					   i + 1);
	return 0;
}

int fmove_read_ranges(struct fmove *c, const struct fmove_name *name,
		      const struct fmove_range *ranges, void *const *to, size_t count,
		      const struct fmove_options *opts, struct fmove_result *result,
		      struct fmove_error *err)
{
	struct fmove_error own;
	struct reading *r;
	struct doing d;
	int ret;

	err = err ? err : &own;
	ret = check_ranges(ranges, count, err);
	if (ret == 0)
		ret = begin(&d, opts, ranges, count, result, err);
	if (ret < 0)
		return ret;
	r = calloc(1, sizeof(*r));
	if (!r)
		return fm_lib_fail(err, -ENOMEM, "no memory for ranges");
	*r = (struct reading){.ranges = ranges, .to = to, .count = count};
	r->fd = memfd_create("fmove ranges", MFD_CLOEXEC);
	if (r->fd < 0)
		ret = fm_lib_fail(err, -errno, "memory for ranges");
	d.o.durability = FMOVE_MEMORY;
	d.o.journal_fd = 0;
	while (ret == 0 && r->next < count) {
		take_parts(r);
		ret = read_parts(c, &d, r, name, err);
	}
	if (r->fd >= 0)
		(void)close(r->fd);
	free(r);
	return fm_sized_call_end(&d.call, ret, result);
}
