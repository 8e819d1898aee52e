/* SPDX-License-Identifier: MIT */
/* disk - see disk.h. */
#include "client/bench/disk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/interrupt.h"
#include "mover/base/block.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"

#define STEP_NS (100 * FM_NS_PER_MS) /* a signal is seen that soon */

struct slot {
	struct fm_io io;
	struct fm_disk *disk;
	uint64_t began_ns;
};

struct fm_disk {
	struct fm_disk_opts o;
	struct fm_loop *loop;
	struct fm_ring *ring;
	uint8_t *memory;
	struct slot slots[FM_DISK_DEPTH_MAX];
	/* Of the run: */
	bool is_write, is_once;
	uint64_t next, bytes, began_ns, end_ns, last_ns;
	unsigned busy;
	int ret;
	struct fm_histogram *h; /* NULL: nobody wants them */
};

static uint64_t now(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* ---- what is in a block ---- */

static void stamp(uint8_t *buf, uint64_t offset, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += FM_BLOCK)
		memcpy(buf + at, &(uint64_t){offset + at}, sizeof(uint64_t));
}

/* The first and the last page: those between came with them. */
static bool is_stamped(const uint8_t *buf, uint64_t offset, uint32_t len)
{
	uint64_t first, last;

	memcpy(&first, buf, sizeof(first));
	memcpy(&last, buf + len - FM_BLOCK, sizeof(last));
	return first == offset && last == offset + len - FM_BLOCK;
}

/* ---- one block after the other ---- */

static bool has_more(const struct fm_disk *d)
{
	if (d->ret < 0)
		return false;
	return d->is_once ? d->next < d->o.size : now() < d->end_ns;
}

static void start(struct slot *s)
{
	struct fm_disk *d = s->disk;

	if (d->next >= d->o.size)
		d->next = 0;
	s->io.offset = d->next;
	d->next += d->o.block_bytes;
	d->busy++;
	if (d->is_write)
		stamp(s->io.buf, s->io.offset, s->io.len);
	s->began_ns = now();
	if (d->is_write)
		fm_ring_write(d->ring, &s->io);
	else
		fm_ring_read(d->ring, &s->io);
}

static void done(struct fm_io *io)
{
	struct slot *s = fm_container_of(io, struct slot, io);
	struct fm_disk *d = s->disk;

	d->busy--;
	d->last_ns = now();
	if (io->res < 0)
		d->ret = (int)io->res;
	else if ((uint64_t)io->res != io->len)
		d->ret = -EIO; /* the file became shorter */
	else if (!d->is_write && !d->o.is_foreign && !is_stamped(io->buf, io->offset, io->len))
		d->ret = -EBADMSG;
	else
		d->bytes += io->len;
	if (d->h && io->res >= 0)
		fm_histogram_add(d->h, d->last_ns - s->began_ns);
	if (has_more(d))
		start(s);
}

static int loop(struct fm_disk *d, struct fm_err *err)
{
	d->next = d->bytes = 0;
	d->ret = 0;
	d->began_ns = d->last_ns = now();
	/* a run has one block for each slot, however late it begins */
	for (unsigned i = 0; i < d->o.depth && (!d->is_once || has_more(d)); i++)
		start(&d->slots[i]);
	while (d->busy > 0) {
		if (fm_is_interrupted() && d->ret == 0)
			d->ret = -ECANCELED;
		(void)fm_loop_step(d->loop, STEP_NS); /* whatever ran, busy tells */
	}
	if (d->ret == 0)
		return 0;
	if (d->ret == -EBADMSG)
		return fm_err_set(err, d->ret, "what was read is not what was written");
	return fm_err_sys(err, d->ret, d->is_write ? "write" : "read");
}

int fm_disk_fill(struct fm_disk *d, struct fm_err *err)
{
	d->is_write = d->is_once = true;
	d->h = NULL;
	return loop(d, err);
}

int fm_disk_run(struct fm_disk *d, bool is_write, double seconds, struct fm_bench_repeat *out,
		struct fm_histogram *h, struct fm_err *err)
{
	int ret;

	d->is_write = is_write;
	d->is_once = false;
	d->h = h;
	d->end_ns = now() + (uint64_t)(seconds * 1e9);
	ret = loop(d, err);
	out->bytes = d->bytes;
	out->seconds = (double)(d->last_ns - d->began_ns) / 1e9;
	return ret;
}

/* ---- making one ---- */

static int take_memory(struct fm_disk *d)
{
	size_t len = (size_t)d->o.depth * d->o.block_bytes;
	void *memory;

	if (posix_memalign(&memory, FM_BLOCK, len) != 0)
		return -ENOMEM;
	d->memory = memory;
	/* nothing that compresses */
	fm_random_real.fill(fm_random_real.ctx, d->memory, len);
	for (unsigned i = 0; i < d->o.depth; i++) {
		d->slots[i].disk = d;
		d->slots[i].io = (struct fm_io){
			.done = done,
			.fd = d->o.fd,
			.buf = d->memory + (size_t)i * d->o.block_bytes,
			.len = d->o.block_bytes,
		};
	}
	return 0;
}

int fm_disk_new(const struct fm_disk_opts *opts, struct fm_disk **out, struct fm_err *err)
{
	struct fm_disk *d = calloc(1, sizeof(*d));
	struct fm_ring_opts ring = {.depth = opts->depth};
	int ret;

	assert(opts->depth > 0 && opts->depth <= FM_DISK_DEPTH_MAX);
	assert(opts->block_bytes % FM_BLOCK == 0 && opts->size % opts->block_bytes == 0);
	if (!d)
		return fm_err_set(err, -ENOMEM, "no memory for blocks");
	d->o = *opts;
	ret = take_memory(d);
	if (ret < 0) {
		(void)fm_err_set(err, ret, "no memory for blocks");
	} else {
		ring.memory = d->memory;
		ring.memory_len = (size_t)opts->depth * opts->block_bytes;
		ret = fm_loop_new(&(const struct fm_loop_opts){.clock = NULL}, &d->loop, err);
	}
	if (ret == 0)
		ret = fm_ring_new(d->loop, &ring, &d->ring, err);
	if (ret < 0) {
		fm_disk_free(d);
		return ret;
	}
	*out = d;
	return 0;
}

void fm_disk_free(struct fm_disk *d)
{
	if (!d)
		return;
	fm_ring_free(d->ring);
	fm_loop_free(d->loop);
	free(d->memory);
	free(d);
}
