/* SPDX-License-Identifier: MIT */
/*
 * ranged_file - ranges of a stored file as one source.
 *
 * A chunk of it is gathered: each piece of a range is one read of the file below, straight into the
 * chunk's buffer. Reads go through the page cache, since neither offsets nor buffers are aligned.
 * On a disk up to FLYING_MAX reads of a chunk are under way at once.
 *
 * Of each block of the kept digest that one range covers, the CRC32C is collected while it is read.
 * A block that was not read exactly once (a part came from an earlier try, or was sent twice) is
 * read again at the end.
 */
#include "mover/store/ranged_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/ranges.h"
#include "mover/journal/siphash.h"
#include "mover/store/done_list.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"
#include "mover/tree/digest.h"

#define FLYING_MAX 16u
#define AGAIN_BYTES (1u << 20)		/* of one read of a block that is read again */
/* read again in one call at most: a worker serves others, too */
#define CHECK_BYTES (64u << 20)
#define NO_PIECE UINT32_MAX

/* A range of the file below, and where it is in ours. Neighbours are one piece. */
struct piece {
	uint64_t offset;
	uint64_t len;			/* > 0 */
	uint64_t start;
};

/* A block of the kept digest. */
struct block {
	/* the piece whose reads count; NO_PIECE: none has all of it */
	uint32_t owner;
	bool is_touched;
	_Atomic uint32_t part;		/* what of it was read contributes so much to the CRC */
	_Atomic uint64_t bytes;		/* that were read */
	_Atomic uint64_t edges;		/* where the reads of it began and ended: edge() of each */
};

struct ranged {
	struct fm_file file;
	struct fm_file *below;
	int fd;				/* of below, which closes it */
	uint64_t size;			/* of ours ... */
	uint64_t size_below;		/* ... and of the file below */
	bool is_verified;
	/* blocks that were checked; of the next one so much was read again, with that part */
	size_t checked;
	uint64_t again_len;
	uint32_t again_part;
	bool is_damaged;
	uint64_t damage_offset;
	uint64_t damage_len;
	bool has_blocks;		/* the digest has them; else it is one block */
	uint64_t block_bytes;
	size_t block_count;
	struct block block[FM_DIGEST_BLOCKS_MAX];
	size_t count;
	struct piece piece[];
};

static struct ranged *ranged_of(const struct fm_file *file)
{
	return fm_container_of(file, struct ranged, file);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ------------------------------------------------------------------------------ the kept digest */

/* Where the block b ends in the file below. */
static uint64_t block_end(const struct ranged *r, size_t b)
{
	return least((b + 1) * r->block_bytes, r->size_below);
}

/* A number for a place in the file below, which no sum of others is by chance. */
static uint64_t edge(uint64_t offset)
{
	static const struct fm_sip key = {.low = 1};

	return fm_siphash(&key, &offset, sizeof(offset)).low;
}

/* Collects the CRC32C of what was read for a piece: len bytes at offset of the file below. */
static void collect(struct ranged *r, size_t piece, uint64_t offset, const char *at, uint64_t len)
{
	while (r->block_count > 0 && len > 0) {
		size_t b = (size_t)(offset / r->block_bytes);
		uint64_t n = least(len, block_end(r, b) - offset);
		uint32_t crc;

		if (r->block[b].owner == piece) {
			crc = fm_crc32c(0, at, (size_t)n);
			atomic_fetch_xor(&r->block[b].part, fm_crc32c_part(crc, offset, n));
			atomic_fetch_add(&r->block[b].bytes, n);
			atomic_fetch_xor(&r->block[b].edges, edge(offset) ^ edge(offset + n));
		}
		offset += n;
		at += n;
		len -= n;
	}
}

static void own_blocks(struct ranged *r, size_t i)
{
	const struct piece *p = &r->piece[i];
	size_t last = (size_t)((p->offset + p->len - 1) / r->block_bytes);

	for (size_t b = (size_t)(p->offset / r->block_bytes); b <= last; b++) {
		r->block[b].is_touched = true;
		if (r->block[b].owner == NO_PIECE && p->offset <= b * r->block_bytes &&
		    p->offset + p->len >= block_end(r, b))
			r->block[b].owner = (uint32_t)i;
	}
}

/* A digest without blocks is one of the whole file. */
static void take_digest(struct ranged *r)
{
	const struct fm_digest *kept = r->below->kept;
	uint64_t bytes = fm_digest_block_bytes(r->size_below);

	if (!kept || kept->is_damaged || r->size_below == 0)
		return;
	r->has_blocks = kept->blocks == (r->size_below - 1) / bytes + 1;
	r->block_count = r->has_blocks ? kept->blocks : 1;
	r->block_bytes = r->has_blocks ? bytes : r->size_below;
	for (size_t b = 0; b < r->block_count; b++)
		r->block[b].owner = NO_PIECE;
	for (size_t i = 0; i < r->count; i++)
		own_blocks(r, i);
}

static bool is_as_kept(const struct ranged *r, size_t b, uint32_t part)
{
	const struct fm_digest *kept = r->below->kept;

	return r->has_blocks ? part == kept->block[b]
			     : fm_crc32c_whole(part, r->size_below) == kept->crc;
}

/*
 * Whether what was collected of a block says nothing of it. That as many bytes were read as it has
 * does not say that each was: one half can have been read twice, where a cable went, and the other
 * come with an earlier try. Each edge within the block that is left by one read and met by the next
 * cancels itself, and so does all of a read that is made twice: only who read each byte an odd
 * number of times is left with the two ends.
 */
static bool is_read_again(const struct ranged *r, size_t b, uint64_t len)
{
	uint64_t begin = b * r->block_bytes;

	return r->block[b].owner == NO_PIECE || atomic_load(&r->block[b].bytes) != len ||
	       atomic_load(&r->block[b].edges) != (edge(begin) ^ edge(begin + len));
}

/*
 * Goes on reading a block once more, up to *left bytes. 0: it was read to its end, or the file
 * ends before that. 1: not yet.
 */
static int read_again(struct ranged *r, uint64_t at, uint64_t end, uint64_t *left)
{
	char *buf = fm_sys_alloc(AGAIN_BYTES);
	ssize_t n = 1;

	if (!buf)
		return -ENOMEM;
	for (at += r->again_len; at < end && *left > 0 && n > 0; at += (uint64_t)n) {
		size_t len = (size_t)least(least(AGAIN_BYTES, end - at), *left);

		do
			n = pread(r->fd, buf, len, (off_t)at);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			break;
		r->again_part ^= fm_crc32c_part(fm_crc32c(0, buf, (size_t)n), at, (uint64_t)n);
		r->again_len += (uint64_t)n;
		*left -= (uint64_t)n;
	}
	free(buf);
	if (n < 0)
		return -errno;
	return n > 0 && at < end;
}

static int check_block(struct ranged *r, size_t b, uint64_t *left)
{
	uint64_t begin = b * r->block_bytes, len = block_end(r, b) - begin;
	uint32_t part = atomic_load(&r->block[b].part);
	int ret;

	if (!r->block[b].is_touched || (r->block[b].owner == NO_PIECE && !r->is_verified))
		return 0;
	if (is_read_again(r, b, len)) {
		ret = read_again(r, begin, begin + len, left);
		if (ret != 0)
			return ret;
		part = r->again_part;
		r->again_part = 0;
		r->again_len = 0;
	}
	if (is_as_kept(r, b, part) || r->is_damaged)
		return 0;
	r->is_damaged = true;
	r->damage_offset = begin;
	r->damage_len = len;
	return 0;
}

int fm_ranged_file_check(struct fm_file *file, struct fm_err *err)
{
	struct ranged *r = ranged_of(file);
	uint64_t left = CHECK_BYTES;
	int ret = 0;

	while (r->checked < r->block_count && left > 0 && ret == 0) {
		ret = check_block(r, r->checked, &left);
		r->checked += ret == 0;
	}
	if (ret < 0)
		return fm_err_sys(err, ret, "read the blocks of the ranges again");
	return r->checked < r->block_count;
}

static int ranged_check_unchanged(struct fm_file *file, struct fm_err *err)
{
	struct ranged *r = ranged_of(file);

	return r->below->ops->check_unchanged(r->below, err);
}

bool fm_ranged_file_damage(const struct fm_file *file, uint64_t *offset, uint64_t *length)
{
	const struct ranged *r = ranged_of(file);

	*offset = r->damage_offset;
	*length = r->damage_len;
	return r->is_damaged;
}

/* -------------------------------------------------------------------------------------- reading */

/* The piece that has the byte at `at` of ours. */
static size_t find_piece(const struct ranged *r, uint64_t at)
{
	size_t low = 0, high = r->count;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (r->piece[mid].start <= at)
			low = mid;
		else
			high = mid;
	}
	return low;
}

struct gather;

struct part {
	struct fm_io io;
	struct gather *gather;
	size_t piece;
};

/* The reads of one chunk. */
struct gather {
	struct ranged *ranged;
	const struct fm_lane_io *lane;
	struct fm_io *io;
	uint64_t at;			/* of ours: what is read next ... */
	uint64_t end;			/* ... and where the chunk ends */
	size_t piece;			/* that `at` is in */
	unsigned flying;
	int64_t res;
	struct part part[FLYING_MAX];
};

/* The next read of the gather: sets where from, where to, and how much. */
static void next_part(struct gather *g, struct part *p)
{
	const struct piece *piece = &g->ranged->piece[g->piece];
	uint64_t skip = g->at - piece->start;

	p->gather = g;
	p->piece = g->piece;
	p->io.buf = (char *)g->io->buf + (g->at - g->io->offset);
	p->io.offset = piece->offset + skip;
	p->io.len = (uint32_t)least(piece->len - skip, g->end - g->at);
	g->at += p->io.len;
	if (p->io.len == piece->len - skip)
		g->piece++;
}

/* A short read is that of a file which was cut: what came counts for nothing. */
static void part_ended(struct part *p, int64_t res)
{
	struct gather *g = p->gather;

	if (res == (int64_t)p->io.len)
		collect(g->ranged, p->piece, p->io.offset, p->io.buf, p->io.len);
	else if (g->res > 0)
		g->res = res < 0 ? res : 0;
}

static void fly(struct part *p)
{
	struct gather *g = p->gather;

	g->flying++;
	g->ranged->below->ops->read(g->ranged->below, g->lane, &p->io);
}

static void part_done(struct fm_io *io)
{
	struct part *p = fm_container_of(io, struct part, io);
	struct gather *g = p->gather;

	g->flying--;
	part_ended(p, io->res);
	if (g->res > 0 && g->at < g->end) {
		next_part(g, p);
		fly(p);
	}
	if (g->flying > 0)
		return;
	io = g->io;
	io->res = g->res;
	free(g);
	io->done(io);
}

/* A disk: several reads at once. */
static void gather_start(struct gather *g)
{
	for (unsigned i = 0; i < FLYING_MAX && g->at < g->end; i++) {
		g->part[i].io.done = part_done;
		next_part(g, &g->part[i]);
		fly(&g->part[i]);
	}
}

static int64_t read_part(int fd, const struct fm_io *io)
{
	uint32_t got = 0;
	ssize_t n = 1;

	while (got < io->len && n > 0) {
		n = pread(fd, (char *)io->buf + got, io->len - got, (off_t)(io->offset + got));
		got += n > 0 ? (uint32_t)n : 0;
		if (n < 0 && errno == EINTR)
			n = 1;
	}
	return n < 0 ? -errno : (int64_t)got;
}

/* Memory: within the call. */
static void gather_now(struct gather *g)
{
	struct part *p = &g->part[0];

	while (g->at < g->end && g->res > 0) {
		next_part(g, p);
		part_ended(p, read_part(g->ranged->fd, &p->io));
	}
	fm_done_list_add(g->lane->done, g->io, g->res);
	free(g);
}

static void ranged_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct ranged *r = ranged_of(file);
	struct gather *g = fm_sys_alloc(sizeof(*g));

	assert(io->len > 0 && io->offset < r->size);
	if (!g) {
		fm_done_list_add(lane->done, io, -ENOMEM);
		return;
	}
	g->ranged = r;
	g->lane = lane;
	g->io = io;
	g->at = io->offset;
	g->end = io->offset + least(io->len, r->size - io->offset);
	g->res = (int64_t)(g->end - g->at);
	g->piece = find_piece(r, g->at);
	if (r->file.is_instant || !lane->ring)
		gather_now(g);
	else
		gather_start(g);
}

static void ranged_close(struct fm_file *file)
{
	struct ranged *r = ranged_of(file);

	r->below->ops->close(r->below);
	fm_budget_free(r);
}

static const struct fm_file_ops ranged_ops = {
	.read = ranged_read,
	.check_unchanged = ranged_check_unchanged,
	.close = ranged_close,
};

/* --------------------------------------------------------------------------------------- making */

static int add_piece(struct ranged *r, size_t i, const struct fm_range *range, struct fm_err *err)
{
	struct piece *last = r->count > 0 ? &r->piece[r->count - 1] : NULL;
	uint64_t len = range->len;

	if (len == FM_RANGE_TO_END && range->offset <= r->size_below)
		len = r->size_below - range->offset;
	if (range->offset > r->size_below)
		return fm_err_set(err, -EINVAL,
				  "range %zu begins at byte %" PRIu64
				  ", past the end of the file, which has %" PRIu64 " bytes",
				  i + 1, range->offset, r->size_below);
	if (len > r->size_below - range->offset)
		return fm_err_set(err, -EINVAL,
				  "range %zu (%" PRIu64 " bytes from %" PRIu64
				  " on) ends past the end of the file, which has %" PRIu64 " bytes",
				  i + 1, len, range->offset, r->size_below);
	if (len > FM_SIZE_LIMIT - r->size)
		return fm_err_set(err, -EINVAL,
				  "the ranges have more than %" PRIu64 " bytes together",
				  FM_SIZE_LIMIT);
	if (len == 0)
		return 0;
	if (last && last->offset + last->len == range->offset)
		last->len += len;
	else
		r->piece[r->count++] =
			(struct piece){.offset = range->offset, .len = len, .start = r->size};
	r->size += len;
	return 0;
}

/* What tells these ranges of this file from others: nobody goes on with an earlier try of those. */
static uint64_t identity(const struct ranged *r, uint64_t dev)
{
	const struct fm_sip key = {.low = dev, .high = r->count};

	return fm_siphash(&key, r->piece, r->count * sizeof(r->piece[0])).low;
}

static int take_ranges(struct ranged *r, const struct fm_range *ranges, size_t count,
		       struct fm_attr *attr, struct fm_err *err)
{
	int ret = 0;

	r->size_below = attr->size;
	for (size_t i = 0; i < count && ret == 0; i++)
		ret = add_piece(r, i, &ranges[i], err);
	if (ret < 0)
		return ret;
	take_digest(r);
	attr->size = r->size;
	attr->has_holes = false;
	attr->dev = identity(r, attr->dev);
	return 0;
}

int fm_ranged_file_new(int fd, const struct fm_range *ranges, size_t count, bool is_verified,
		       struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	struct ranged *r;
	int ret;

	assert(count > 0 && count <= FM_RANGED_MAX);
	r = FM_FAULT("store.ranged") ? NULL
				     : fm_budget_alloc(sizeof(*r) + count * sizeof(r->piece[0]));
	if (!r) {
		close(fd);
		return fm_err_set(err, -ENOMEM, "allocate the ranges");
	}
	ret = fm_stored_source(fd, true, &r->below, attr, err);
	if (ret < 0)
		goto free_ranged;
	r->fd = fd;
	r->is_verified = is_verified;
	r->file.ops = &ranged_ops;
	r->file.is_instant = r->below->is_instant;
	r->file.may_stand = r->below->may_stand;
	r->file.kept = r->below->kept && r->below->kept->is_damaged ? r->below->kept : NULL;
	ret = take_ranges(r, ranges, count, attr, err);
	if (ret < 0)
		goto close_below;
	if (count > 1)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);	/* a hint */
	*out = &r->file;
	return 0;

close_below:
	r->below->ops->close(r->below);
free_ranged:
	fm_budget_free(r);
	return ret;
}
