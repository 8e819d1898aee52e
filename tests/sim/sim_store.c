/* SPDX-License-Identifier: MIT */
/*
 * sim_store - simulated disks: files in memory whose reads and writes take their time, come back in
 * any order and sometimes fail.
 *
 * Memory is looked at as late as the contract in store.h allows: a read fills its buffer, a write
 * empties it, when it completes. So a slot that is used again too early shows as damaged content. A
 * sink's content is seen by others only once it is published.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "tests/sim/sim_tree_priv.h"

#define BLOCK 4096u
#define RANGES_MAX 2048
#define PIECE 65536u		/* what a journal writes down at once */
#define JOURNAL_BEHIND_NS (5 * FM_NS_PER_S)	/* twice the most that is seen */

struct sim_entry {
	struct sim_entry *next;
	char *path;
	struct sim_blob *blob;		/* NULL: removed */
	enum {
		SYNCED,
		NAME_UNSYNCED,		/* a power cut may bring back what was there before ... */
		UNSYNCED,		/* ... or tear what is there now */
	} sync;
	struct sim_blob *before;	/* unless it is SYNCED */
	bool is_lost;			/* that did happen */
};

/* What is there of a file that has not its name yet, as its journal says; the rest of its bytes is
 * torn. */
struct sim_partial {
	struct sim_partial *next;
	char *path;			/* NULL: a caller's */
	struct fm_identity source;
	struct sim_blob blob;
	struct fm_ranges logged;
	struct fm_ranges written;	/* where the torn bytes are; elsewhere there are zeros */
	bool is_synced;			/* a power cut leaves it as it is */
	bool is_used;			/* a transfer goes on with it */
};

struct sim_store {
	struct fm_store store;
	struct sim_node *node;
	unsigned files;			/* not closed */
	bool is_freed;
};

static const struct fm_file_ops resumable_ops;

struct sim_file {
	struct fm_file file;
	struct fm_list open_at;		/* sim_node.open_files */
	struct sim_node *node;
	struct sim_store *store;	/* NULL: a caller's */
	char *path;
	struct sim_blob *blob;
	struct sim_blob **result;	/* a caller's sink */
	struct fm_list ios;		/* struct disk_io */
	uint64_t stream_at;
	uint64_t end;			/* sink: behind the last byte written */
	uint64_t size;			/* sink: said when it was created */
	bool is_sink;
	bool may_replace;
	bool never_ends;
	uint64_t stops_at;
	bool is_changed;		/* source: somebody writes to it */
	bool is_published, is_discarded, has_failed, is_closed;
	bool is_dead;			/* its node died: what is done to it is done to nothing */
	struct sim_group *group;	/* it becomes a member of; NULL: of none */
	/* a caller's memory: he was told that it is his again, and it was this */
	bool is_told;
	uint32_t told_crc;
	struct sim_partial *partial;	/* sink that can be gone on with later */
	bool is_synced;			/* what is logged is on the disk for good */
	bool has_begun;
	bool has_room;			/* asked for */
	bool has_come;			/* something was written */
	struct fm_ranges have;		/* was there from an earlier try, undamaged */
	struct fm_ranges damaged;	/* was there, and has to come again */
	bool may_resend;		/* a read of what was there failed */
	struct fm_ranges logged;	/* that too, and what was logged since */
	struct fm_ranges written;
	/* when the first write came that nobody has asked the journal for; 0: none */
	uint64_t unlogged_ns;
};

struct disk_io {
	struct fm_list at;
	struct sim_file *file;
	struct fm_io *io;
	struct fm_loop *loop;
	uint64_t offset;
	bool is_write;
	bool is_waiting;		/* for ever, until cancelled */
};

static struct sim *sim_of(const struct sim_file *f)
{
	return f->node->sim;
}

static struct sim_disk_world *world_of(const struct sim_node *n)
{
	return sim_disk_world(n->sim);
}

static struct sim_file *file_of(struct fm_file *file)
{
	struct sim_file *f = fm_container_of(file, struct sim_file, file);

	assert(!f->is_closed);
	return f;
}

/* ---- content ---- */

static void blob_reserve(struct sim *s, struct sim_blob *b, uint64_t cap)
{
	uint8_t *bytes;

	if (cap <= b->cap)
		return;
	cap = cap < 2 * b->cap ? 2 * b->cap : cap;
	bytes = sim_alloc(s, (size_t)cap);
	if (b->cap > 0)
		memcpy(bytes, b->bytes, (size_t)b->cap);
	b->bytes = bytes;
	b->cap = cap;
}

struct sim_blob *sim_blob_new(struct sim *s, uint64_t tag, uint64_t size, unsigned holes)
{
	struct sim_blob *b = sim_alloc(s, sizeof(*b));
	uint64_t blocks = (size + BLOCK - 1) / BLOCK;

	blob_reserve(s, b, size + 1);
	b->size = size;
	b->is_data = holes ? sim_alloc(s, (size_t)blocks + 1) : NULL;
	sim_fill(b->bytes, size, tag);
	for (uint64_t i = 0; b->is_data && i < blocks; i++) {
		uint64_t at = i * BLOCK;

		b->is_data[i] = sim_one_in(s, holes);
		if (!b->is_data[i])
			memset(b->bytes + at, 0, (size_t)(size - at < BLOCK ? size - at : BLOCK));
	}
	b->attr = (struct fm_attr){.type = FM_NODE_FILE,
				   .size = size,
				   .mode = 0640,
				   .mtime_ns = (int64_t)tag,
				   .has_holes = holes > 0,
				   .dev = 1,
				   .ino = tag | 1,
				   .ctime_ns = 1};
	b->crc = sim_crc32c(b->bytes, size);
	return b;
}

bool sim_blob_is_same(const struct sim_blob *a, const struct sim_blob *b)
{
	return a->size == b->size && memcmp(a->bytes, b->bytes, (size_t)a->size) == 0;
}

bool sim_is_suspect(const char *path)
{
	return path[0] == 'h' || path[0] == 'u';
}

/* ---- reads and writes ---- */

static int64_t finish_read(struct disk_io *d)
{
	struct sim_file *f = d->file;
	struct sim *s = sim_of(f);
	/* A sink is read back: what was written so far. */
	uint64_t size = f->is_sink ? f->end : f->blob->size,
		 left = d->offset < size ? size - d->offset : 0;
	uint32_t n = d->io->len < left ? d->io->len : (uint32_t)left;

	if (sim_one_in(s, sim_faults(s)->read_eio) || FM_FAULT("sim.read")) {
		sim_fired(s, SIM_FIRED_IO);
		return -EIO;
	}
	if (f->is_changed && sim_one_in(s, 4))
		n /= 2;			/* it was cut */
	memset(d->io->buf, 0xee, d->io->len);
	if (n > 0)
		memcpy(d->io->buf, f->blob->bytes + d->offset, n);
	if (f->is_changed && n > 0)
		*(uint8_t *)d->io->buf ^= 0xff;
	if (f->file.is_stream)
		f->stream_at += n;
	return n;
}

static void add_range(struct sim_file *f, struct fm_ranges *r, uint64_t offset, uint64_t len)
{
	if (fm_ranges_add(r, offset, len, RANGES_MAX) < 0 &&
	    fm_ranges_add(r, offset, len, RANGES_MAX) < 0)
		sim_fail(sim_of(f), "no memory for ranges");
}

/* Found damaged since, or written again because its sender was not told that it came: it needs no
 * second entry. */
static bool is_in_journal(const struct sim_file *f, uint64_t offset, uint64_t len)
{
	return fm_ranges_overlap(&f->damaged, offset, len) ||
	       fm_ranges_cover(&f->logged, offset, len);
}

/* The journal is at most a second behind (FM_JOB_LOG_NS): then come the engine's tick and what a
 * worker takes for what it is at. Nobody keeps a journal for who breaks the protocol. */
static void check_journal(struct sim_file *f)
{
	uint64_t now_ns = sim_now(sim_of(f));

	if (f->unlogged_ns == 0)
		f->unlogged_ns = now_ns;
	else if (now_ns - f->unlogged_ns > JOURNAL_BEHIND_NS && !sim_is_suspect(f->path))
		sim_fail(sim_of(f), "what came of %s more than 5 s ago is not in its journal",
			 f->path);
}

static int64_t finish_write(struct disk_io *d)
{
	struct sim_file *f = d->file;
	struct sim *s = sim_of(f);
	uint64_t end = d->offset + d->io->len, space = sim_faults(s)->space_bytes;

	if (sim_one_in(s, sim_faults(s)->write_eio) || FM_FAULT("sim.write")) {
		sim_fired(s, SIM_FIRED_IO);
		return -EIO;
	}
	if (space > 0 && end > space) {
		sim_fired(s, SIM_FIRED_SPACE);
		return -ENOSPC;
	}
	blob_reserve(s, f->blob, end);
	memcpy(f->blob->bytes + d->offset, d->io->buf, d->io->len);
	f->end = end > f->end ? end : f->end;
	if (f->partial) {
		add_range(f, &f->written, d->offset, d->io->len);
		if (!is_in_journal(f, d->offset, d->io->len))
			check_journal(f);
	}
	if (f->file.is_stream)
		f->stream_at = end;
	return d->io->len;
}

static void io_end(struct disk_io *d, int64_t res)
{
	fm_list_del(&d->at);
	world_of(d->file->node)->ios--;
	d->io->res = res;
	d->io->done(d->io);
}

static void io_finish(void *ctx)
{
	struct disk_io *d = ctx;

	assert(!d->file->is_closed);
	io_end(d, d->is_write ? finish_write(d) : finish_read(d));
}

static void io_cancelled(void *ctx)
{
	io_end(ctx, -ECANCELED);
}

static void check_overlap(const struct sim_file *f, uint64_t offset, uint64_t len)
{
	fm_list_each(at, next, &((struct sim_file *)f)->ios) {
		const struct disk_io *d = fm_container_of(at, struct disk_io, at);

		if (offset < d->offset + d->io->len && d->offset < offset + len)
			world_of(f->node)->overlaps++;
	}
}

static struct disk_io *io_new(struct sim_file *f, const struct fm_lane_io *lane, struct fm_io *io,
			      bool is_write)
{
	struct sim *s = sim_of(f);
	struct disk_io *d = sim_alloc(s, sizeof(*d));

	assert(sim_running(s) == lane->loop && !lane->ring);
	assert(io->len > 0 && io->done && (uintptr_t)io->buf % BLOCK == 0 &&
	       (f->is_sink || !is_write));
	assert(!f->is_published && !f->is_discarded);
	d->file = f;
	d->io = io;
	d->loop = lane->loop;
	d->is_write = is_write;
	d->offset = f->file.is_stream ? f->stream_at : io->offset;
	if (f->file.is_stream)
		assert(io->offset == FM_IO_STREAM && fm_list_is_empty(&f->ios));
	else
		assert(io->offset % BLOCK == 0);
	if (is_write)
		check_overlap(f, d->offset, io->len);
	fm_list_append(&f->ios, &d->at);
	world_of(f->node)->ios++;
	return d;
}

static void io_start(struct disk_io *d)
{
	struct sim *s = sim_of(d->file);

	(void)sim_after(s, d->loop, sim_latency(s, sim_opts(s)->disk_ns), io_finish, d);
}

static void file_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct sim_file *f = file_of(file);
	struct disk_io *d = io_new(f, lane, io, false);

	d->is_waiting =
		f->never_ends && (!f->file.is_stream || d->offset + io->len > f->blob->size);
	if (!d->is_waiting)
		io_start(d);
}

static void file_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct sim_file *f = file_of(file);
	struct disk_io *d = io_new(f, lane, io, true);
	uint32_t tail = (BLOCK - io->len % BLOCK) % BLOCK;

	if (!f->file.is_stream) {
		assert(!f->file.has_fixed_size || io->offset + io->len <= f->size);
		f->has_come = true;
		if (fm_ranges_overlap(&f->have, io->offset, io->len) && !f->may_resend &&
		    !sim_is_suspect(f->path))
			sim_fail(sim_of(f), "what was there of %s was sent again", f->path);
		/* the padding that is the file's to write */
		memset((uint8_t *)io->buf + io->len, 0, tail);
	}
	d->is_waiting = f->never_ends && d->offset + io->len > f->stops_at;
	if (!d->is_waiting)
		io_start(d);
}

static void file_cancel(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct sim_file *f = file_of(file);

	fm_list_each(at, next, &f->ios) {
		struct disk_io *d = fm_container_of(at, struct disk_io, at);

		if (d->io != io || !d->is_waiting)
			continue;
		assert(d->loop == lane->loop);
		d->is_waiting = false;
		(void)sim_after(sim_of(f), d->loop, 0, io_cancelled, d);
	}
}

/* ---- the slow calls: on the worker, which in here is the control loop ---- */

static void check_worker(const struct sim_node *n)
{
	const struct fm_loop *running = sim_running(n->sim);

	assert(!running || running == n->control);
}

static int file_next_data(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	const struct sim_file *f = file_of(file);
	const struct sim_blob *b = f->blob;
	uint64_t blocks = (b->size + BLOCK - 1) / BLOCK, i = offset / BLOCK;

	while (i < blocks && !b->is_data[i])
		i++;
	*from = i * BLOCK;
	while (i < blocks && b->is_data[i])
		i++;
	*to = i * BLOCK < b->size ? i * BLOCK : b->size;
	if (*from < offset)
		*from = offset;
	if (*from > b->size)
		*from = b->size;
	return 0;
}

static int file_check_unchanged(struct fm_file *file, struct fm_err *err)
{
	struct sim_file *f = file_of(file);

	check_worker(f->node);
	return f->is_changed ? fm_err_set(err, -ESTALE, "the source changed while it was read") : 0;
}

static struct sim_entry *find_entry(const struct sim_node *n, const char *path)
{
	for (struct sim_entry *e = n->entries; e; e = e->next)
		if (strcmp(e->path, path) == 0)
			return e;
	return NULL;
}

static void forget_partial(struct sim_file *f);
static void place(struct sim_file *f, bool is_durable);

/*
 * A sync fails: what it covered is not on the disk, and reads of it may say so. The kernel tells
 * that once; who asks again hears that all is well, so nobody may.
 */
static int lose_sync(struct sim_file *f, const char *what, struct fm_err *err)
{
	sim_fired(sim_of(f), SIM_FIRED_IO);
	for (size_t i = 0; i < f->written.count; i++)
		for (uint64_t at = f->written.at[i].offset;
		     at < f->written.at[i].offset + f->written.at[i].len; at += BLOCK)
			if (!fm_ranges_overlap(&f->logged, at, BLOCK) && f->blob->cap >= at + BLOCK)
				memset(f->blob->bytes + at, 0xa5, BLOCK);
	return fm_err_set(err, fm_sync_note(&f->file.sync, -EIO), "%s: simulated I/O error", what);
}

static void check_lost(struct sim_file *f, const char *what)
{
	if (fm_file_sync_error(&f->file) < 0)
		sim_fail(sim_of(f), "%s is %s after a sync of it failed", f->path, what);
}

/* A worker's, and as if no time passed. */
static int file_write_now(struct fm_file *file, void *buf, uint32_t len)
{
	struct sim_file *f = file_of(file);
	struct fm_io io = { .buf = buf, .len = len };
	struct disk_io d = { .file = f, .io = &io };
	int64_t res;

	check_worker(f->node);
	assert(f->is_sink && (uintptr_t)buf % BLOCK == 0 && fm_list_is_empty(&f->ios));
	assert(!f->is_published && !f->is_discarded);
	res = finish_write(&d);
	return res < 0 ? (int)res : 0;
}

static int file_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct sim_file *f = file_of(file);
	struct sim *s = sim_of(f);

	check_worker(f->node);
	assert(f->is_sink && fm_list_is_empty(&f->ios) && !f->is_published && !f->is_discarded &&
	       !f->has_failed);
	assert(f->end <= size && (!f->file.has_fixed_size || size == f->size));
	check_lost(f, "published");
	f->has_failed = true;
	if (sim_crash_point(f->node))
		return fm_err_set(err, -EIO, "its node died before the rename");
	if (sim_one_in(s, sim_faults(s)->publish_fails) || FM_FAULT("sim.publish"))
		return lose_sync(f, "sync", err);
	if (f->store && !f->may_replace && sim_disk_find(f->node, f->path))
		return fm_err_set(err, -EEXIST, "%s exists", f->path);
	f->has_failed = false;
	f->is_published = true;
	forget_partial(f);
	blob_reserve(s, f->blob, size + 1);
	f->blob->size = size;
	f->blob->attr = *attr;
	f->blob->attr.size = size;
	f->blob->crc = sim_crc32c(f->blob->bytes, size);
	sim_trace(s, "%s: published %s, %llu bytes%s", f->node->name, f->path,
		  (unsigned long long)size, is_durable ? "" : ", not synced");
	if (f->store)
		place(f, is_durable);
	else
		*f->result = f->blob;
	return 0;
}

static void file_discard(struct fm_file *file)
{
	struct sim_file *f = file_of(file);

	check_worker(f->node);
	assert(f->is_sink && fm_list_is_empty(&f->ios) && !f->is_published && !f->is_discarded);
	f->is_discarded = true;
	if (f->is_dead)
		return;
	world_of(f->node)->dropped += fm_ranges_bytes(&f->logged);
	forget_partial(f);
}

/* ---- going on later ---- */

static uint32_t parts_of(const struct sim_blob *b, uint64_t offset, uint64_t len)
{
	return fm_crc32c_part(fm_crc32c(0, b->bytes + offset, (size_t)len), offset, len);
}

static void copy_ranges(struct sim_file *f, struct fm_ranges *to, const struct fm_ranges *from)
{
	fm_ranges_free(to);
	/* A fault point hits once; here it is the simulator's own memory. */
	if (fm_ranges_copy(to, from) < 0 && fm_ranges_copy(to, from) < 0)
		sim_fail(sim_of(f), "no memory for ranges");
}

/* Somebody wrote to it, or the disk rotted, while nobody had it open: the journal says what it
 * was. */
static void maybe_rot(struct sim_file *f, const struct fm_written *piece)
{
	struct sim *s = sim_of(f);

	if (!sim_one_in(s, sim_faults(s)->kept_flips)) {
		add_range(f, &f->have, piece->offset, piece->len);
		add_range(f, &f->logged, piece->offset, piece->len);
		return;
	}
	sim_fired(s, SIM_FIRED_ROT);
	add_range(f, &f->damaged, piece->offset, piece->len);
	f->blob->bytes[piece->offset + sim_below(s, piece->len)] ^=
		(uint8_t)(1u << sim_below(s, 8));
	sim_trace(s, "%s: %s rots at %llu", f->node->name, f->path,
		  (unsigned long long)piece->offset);
}

/* Pieces as journals have them. */
static int say_pieces(struct sim_file *f, const struct fm_ranges *logged, struct fm_have *have)
{
	size_t max = (size_t)(fm_ranges_bytes(logged) / PIECE) + 2 * logged->count;

	have->pieces = FM_FAULT("sim.have") ? NULL : fm_budget_alloc(max * sizeof(*have->pieces));
	if (!have->pieces)
		return -ENOMEM;
	for (size_t i = 0; i < logged->count; i++)
		for (uint64_t at = logged->at[i].offset, end = at + logged->at[i].len; at < end;) {
			uint64_t next =
				at - at % PIECE + PIECE < end ? at - at % PIECE + PIECE : end;
			struct fm_written *w = &have->pieces[have->count++];

			*w = (struct fm_written){.offset = at,
						 .len = next - at,
						 .crc = parts_of(f->blob, at, next - at)};
			have->crc ^= w->crc;
			at = next;
		}
	return 0;
}

/* It is asked before anything comes: what came already would be counted once more. */
static int file_make_room(struct fm_file *file, uint64_t size, struct fm_err *err)
{
	struct sim_file *f = file_of(file);
	struct sim *s = sim_of(f);
	uint64_t space = sim_faults(s)->space_bytes;

	check_worker(f->node);
	assert(!f->has_room && !f->is_published && !f->is_discarded && size != FM_SIZE_UNKNOWN);
	if (f->has_come)
		sim_fail(s, "the room for %s was looked at when some of it had come", f->path);
	f->has_room = true;
	if (f->is_dead)
		return fm_err_set(err, -EIO, "its node died");
	if (space == 0 || size <= space)
		return 0;
	sim_fired(s, SIM_FIRED_SPACE);
	return fm_err_set(err, -ENOSPC, "no space: %llu bytes are needed, %llu are free",
			  (unsigned long long)size, (unsigned long long)space);
}

static int file_begin(struct fm_file *file, const struct fm_identity *source, struct fm_have *have,
		      struct fm_err *err)
{
	struct sim_file *f = file_of(file);
	struct sim_partial *p = f->partial;

	check_worker(f->node);
	assert(p && !f->has_begun && !f->is_published && !f->is_discarded);
	if (f->is_dead)
		return fm_err_set(err, -EIO, "its node died");
	if (sim_one_in(sim_of(f), sim_faults(sim_of(f))->create_fails) || FM_FAULT("sim.begin")) {
		sim_fired(sim_of(f), SIM_FIRED_IO);
		return fm_err_set(err, -EIO, "read the journal: simulated I/O error");
	}
	f->has_begun = true;
	if (!fm_identity_is_same(&p->source, source)) {
		fm_ranges_free(&p->logged);
		fm_ranges_free(&p->written);
	}
	p->source = *source;
	if (p->logged.count == 0)
		return 0;
	copy_ranges(f, &f->written, &p->written);
	copy_ranges(f, &have->ranges, &p->logged);
	blob_reserve(sim_of(f), f->blob, p->blob.size);
	memcpy(f->blob->bytes, p->blob.bytes, (size_t)p->blob.size);
	if (say_pieces(f, &p->logged, have) < 0)
		return fm_err_set(err, -ENOMEM, "no memory for what is there");
	for (size_t i = 0; i < have->count; i++)
		maybe_rot(f, &have->pieces[i]);
	world_of(f->node)->resumed += fm_ranges_bytes(&have->ranges);
	return 0;
}

static int file_reread(struct fm_file *file, uint64_t offset, uint64_t len, uint32_t *part)
{
	struct sim_file *f = file_of(file);

	check_worker(f->node);
	assert(f->has_begun && len > 0 && !f->is_published && !f->is_discarded);
	if (FM_FAULT("sim.reread")) {
		f->may_resend = true;
		return -EIO;
	}
	*part = parts_of(f->blob, offset, len);
	return 0;
}

static int file_log(struct fm_file *file, const struct fm_written *written, size_t count,
		    struct fm_err *err)
{
	struct sim_file *f = file_of(file);

	check_worker(f->node);
	assert(f->has_begun && count > 0 && !f->is_published && !f->is_discarded);
	check_lost(f, "logged");
	f->unlogged_ns = 0;
	if (sim_one_in(sim_of(f), 4 * sim_faults(sim_of(f))->publish_fails) || FM_FAULT("sim.log"))
		return lose_sync(f, "sync, for the journal", err);
	for (size_t i = 0; i < count; i++) {
		bool is_there =
			written[i].offset + written[i].len <= f->end &&
			parts_of(f->blob, written[i].offset, written[i].len) == written[i].crc;

		if (!is_there && !sim_is_suspect(f->path))
			sim_fail(sim_of(f), "what is to be logged of %s is not what is there",
				 f->path);
	}
	if (sim_crash_point(f->node))
		return fm_err_set(err, -EIO, "its node died before the journal was written");
	for (size_t i = 0; i < count; i++)
		add_range(f, &f->logged, written[i].offset, written[i].len);
	(void)sim_crash_point(f->node);		/* it will hear of nothing any more */
	return 0;
}

static void forget_partial(struct sim_file *f)
{
	if (f->partial && f->partial->is_used) {
		fm_ranges_free(&f->partial->logged);
		fm_ranges_free(&f->partial->written);
		f->partial->is_used = false;
	}
}

/* As after a crash: what was not logged is torn. */
static void leave_partial(struct sim_file *f)
{
	struct sim_partial *p = f->partial;

	p->is_used = false;
	if (!f->has_begun)
		return;
	copy_ranges(f, &p->logged, &f->logged);
	copy_ranges(f, &p->written, &f->written);
	p->is_synced = f->is_synced;
	p->blob.size = f->blob->cap;
	p->blob.bytes = sim_alloc(sim_of(f), (size_t)f->blob->cap + 1);
	for (size_t i = 0; i < f->written.count; i++)
		memset(p->blob.bytes + f->written.at[i].offset, 0xa5, (size_t)f->written.at[i].len);
	for (size_t i = 0; i < p->logged.count; i++)
		memcpy(p->blob.bytes + p->logged.at[i].offset,
		       f->blob->bytes + p->logged.at[i].offset, (size_t)p->logged.at[i].len);
}

static void file_keep(struct fm_file *file)
{
	struct sim_file *f = file_of(file);

	check_worker(f->node);
	assert(f->partial && fm_list_is_empty(&f->ios) && !f->is_published && !f->is_discarded);
	check_lost(f, "kept");
	f->is_discarded = true;
	if (!f->is_dead)
		leave_partial(f);
}

static struct sim_partial *partial_new(struct sim *s, const char *path)
{
	struct sim_partial *p = sim_alloc(s, sizeof(*p));

	p->path = sim_alloc(s, strlen(path) + 1);
	memcpy(p->path, path, strlen(path) + 1);
	return p;
}

/* What an earlier try left, if nobody goes on with it now; else a new one. */
static struct sim_partial *partial_for(struct sim_node *n, const char *path)
{
	struct sim_partial *p = n->partials;

	while (p && (p->is_used || strcmp(p->path, path) != 0))
		p = p->next;
	if (!p) {
		p = partial_new(n->sim, path);
		p->next = n->partials;
		n->partials = p;
	}
	return p;
}

static void go_on_with(struct sim_file *f, struct sim_partial *p, bool is_synced)
{
	f->partial = p;
	/* What was not synced by the try before is not by the next one's journal either. */
	f->is_synced = is_synced && (p->is_synced || p->logged.count == 0);
	p->is_used = true;
	f->file.has_partial = p->logged.count > 0;
	f->file.ops = &resumable_ops;
}

void sim_store_free(struct sim_node *n)
{
	for (struct sim_partial *p = n->partials; p; p = p->next) {
		fm_ranges_free(&p->logged);
		fm_ranges_free(&p->written);
	}
}

static void file_close(struct fm_file *file)
{
	struct sim_file *f = file_of(file);

	check_worker(f->node);
	assert(fm_list_is_empty(&f->ios));
	assert(!f->has_failed || f->is_discarded);
	if (f->is_told && sim_crc32c(f->blob->bytes, f->file.room) != f->told_crc)
		sim_fail(sim_of(f), "something came to memory of a caller whose get had ended");
	f->is_closed = true;
	fm_list_del(&f->open_at);
	if (!f->is_dead)
		forget_partial(f);
	fm_ranges_free(&f->have);
	fm_ranges_free(&f->damaged);
	fm_ranges_free(&f->logged);
	fm_ranges_free(&f->written);
	world_of(f->node)->files--;
	sim_group_let_go(f->group);
	if (f->store)
		f->store->files--;
}

static const struct fm_file_ops plain_ops = {
	.read = file_read,
	.write = file_write,
	.write_now = file_write_now,
	.cancel = file_cancel,
	.check_unchanged = file_check_unchanged,
	.make_room = file_make_room,
	.publish = file_publish,
	.discard = file_discard,
	.close = file_close,
};

static const struct fm_file_ops resumable_ops = {
	.write = file_write,
	.cancel = file_cancel,
	.begin = file_begin,
	.make_room = file_make_room,
	.reread = file_reread,
	.log = file_log,
	.publish = file_publish,
	.discard = file_discard,
	.keep = file_keep,
	.close = file_close,
};

static const struct fm_file_ops holes_ops = {
	.read = file_read,
	.cancel = file_cancel,
	.next_data = file_next_data,
	.check_unchanged = file_check_unchanged,
	.close = file_close,
};

static const struct fm_file_ops stream_ops = {
	.read = file_read,
	.write = file_write,
	.cancel = file_cancel,
	.publish = file_publish,
	.discard = file_discard,
	.close = file_close,
};

static struct sim_file *file_new(struct sim_node *n, const char *path, struct sim_blob *blob,
				 bool is_sink)
{
	struct sim_file *f = sim_alloc(n->sim, sizeof(*f));

	f->node = n;
	f->path = sim_alloc(n->sim, strlen(path) + 1);
	memcpy(f->path, path, strlen(path) + 1);
	f->blob = is_sink ? sim_alloc(n->sim, sizeof(*f->blob)) : blob;
	f->is_sink = is_sink;
	f->file.ops = blob && blob->is_data ? &holes_ops : &plain_ops;
	f->file.is_direct = true;
	fm_list_init(&f->ios);
	fm_list_append(&n->open_files, &f->open_at);
	world_of(n)->files++;
	return f;
}

static void maybe_change(struct sim_file *f)
{
	struct sim *s = sim_of(f);

	f->is_changed = sim_one_in(s, sim_faults(s)->source_changes);
	if (!f->is_changed)
		return;
	sim_fired(s, SIM_FIRED_CHANGE);
	f->blob->attr.ctime_ns++;	/* as who opens it later will see */
}

struct fm_file *sim_caller_source(struct sim_node *n, struct sim_blob *blob,
				  const struct sim_caller_opts *o)
{
	struct sim_file *f = file_new(n, "(caller's source)", blob, false);

	f->file.may_stand = o->may_stand;
	f->never_ends = o->never_ends;
	if (o->is_stream) {
		f->file.ops = &stream_ops;
		f->file.is_stream = true;
	} else {
		maybe_change(f);
	}
	return &f->file;
}

struct fm_file *sim_caller_sink(struct sim_node *n, const struct sim_caller_opts *o,
				struct sim_blob **result)
{
	struct sim_file *f = file_new(n, "(caller's sink)", NULL, true);

	f->size = FM_SIZE_UNKNOWN;
	f->result = result;
	f->file.may_stand = o->may_stand;
	f->never_ends = o->never_ends;
	f->stops_at = o->stops_at;
	if (o->is_stream) {
		f->file.ops = &stream_ops;
		f->file.is_stream = true;
	} else if (o->partial_path) {
		go_on_with(f, partial_for(n, o->partial_path), o->is_synced);
	} else if (o->room > 0) {
		blob_reserve(n->sim, f->blob, o->room + 1);
		f->file.place = (char *)f->blob->bytes;
		f->file.room = o->room;
	}
	return &f->file;
}

void sim_caller_told(struct fm_file *file)
{
	struct sim_file *f = fm_container_of(file, struct sim_file, file);

	if (!file->place || f->is_closed)
		return;
	f->is_told = true;
	f->told_crc = sim_crc32c(f->blob->bytes, file->room);
}

/* ---- the store ---- */

static struct sim_entry *entry_of(struct sim_node *n, const char *path)
{
	struct sim_entry *e = find_entry(n, path);

	if (!e) {
		e = sim_alloc(n->sim, sizeof(*e));
		e->path = sim_alloc(n->sim, strlen(path) + 1);
		memcpy(e->path, path, strlen(path) + 1);
		e->next = n->entries;
		n->entries = e;
	}
	return e;
}

void sim_disk_add(struct sim_node *n, const char *path, struct sim_blob *blob)
{
	entry_of(n, path)->blob = blob;
}

/* The rename, and then the sync of the directory, if somebody waits for it. */
static void place(struct sim_file *f, bool is_durable)
{
	struct sim_entry *e = entry_of(f->node, f->path);

	if (e->sync == SYNCED)
		e->before = e->blob;
	e->sync = is_durable ? NAME_UNSYNCED : UNSYNCED;
	e->is_lost = false;
	e->blob = f->blob;
	if (!sim_crash_point(f->node) && is_durable)
		e->sync = SYNCED;
}

struct sim_blob *sim_disk_find(struct sim_node *n, const char *path)
{
	const struct sim_entry *e = find_entry(n, path);

	return e ? e->blob : NULL;
}

void sim_store_rename(struct sim_node *n, const struct sim_group *g,
		      char *(*rename)(struct sim_node *n, const struct sim_group *g, char *path))
{
	for (struct sim_entry *e = n->entries; e; e = e->next) {
		char *path = rename(n, g, e->path);

		if (path)
			e->path = path;
		else
			e->blob = NULL;
	}
}

void sim_disk_each(struct sim_node *n,
		   void (*visit)(void *ctx, const char *path, struct sim_blob *blob), void *ctx)
{
	for (struct sim_entry *e = n->entries; e; e = e->next)
		if (e->blob)
			visit(ctx, e->path, e->blob);
}

static struct sim_store *store_of(struct fm_store *store)
{
	struct sim_store *st = fm_container_of(store, struct sim_store, store);

	check_worker(st->node);
	assert(!st->is_freed);
	return st;
}

/* Peers are named to the store; only the engine knows which session asked. */
static int enter(struct sim_store *st, const struct fm_who *who, struct fm_err *err)
{
	struct sim *s = st->node->sim;

	assert(!who->peer || (who->peer[0] == 'n' && strcmp(who->peer, st->node->name) != 0));
	if (st->node->death)
		return fm_err_set(err, -EIO, "its node died");
	if (!sim_one_in(s, sim_faults(s)->create_fails) && !FM_FAULT("sim.store"))
		return 0;
	sim_fired(s, SIM_FIRED_IO);
	return fm_err_set(err, -EIO, "simulated I/O error");
}

static int store_open_source(struct fm_store *store, const char *path, const struct fm_who *who,
			     struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	struct sim_store *st = store_of(store);
	struct sim_blob *blob = sim_disk_find(st->node, path);
	struct sim_file *f;

	if (enter(st, who, err) < 0)
		return -EIO;
	if (!blob)
		return fm_err_set(err, -ENOENT, "%s: no such file", path);
	f = file_new(st->node, path, blob, false);
	f->store = st;
	st->files++;
	*attr = blob->attr;
	maybe_change(f);
	*out = &f->file;
	return 0;
}

/* What comes may be a member of a group: *path is where it comes, then. */
static int join(struct sim_store *st, const char **path, const uint8_t *id, struct sim_group **out,
		struct fm_err *err)
{
	*out = NULL;
	return id ? sim_group_enter(st->node, *path, id, path, out, err) : 0;
}

static int store_create(struct fm_store *store, const char *path, const struct fm_who *who,
			const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	struct sim_store *st = store_of(store);
	struct sim_group *group;
	struct sim_file *f;
	int ret;

	if (enter(st, who, err) < 0)
		return -EIO;
	if (path[0] == '\0')
		return fm_err_set(err, -EISDIR, "the store itself is a directory");
	ret = join(st, &path, how->group, &group, err);
	if (ret < 0)
		return ret;
	if (!how->may_replace && sim_disk_find(st->node, path)) {
		sim_group_let_go(group);
		return fm_err_set(err, -EEXIST, "%s exists", path);
	}
	f = file_new(st->node, path, NULL, true);
	f->group = group;
	f->store = st;
	st->files++;
	f->may_replace = how->may_replace;
	f->size = how->size;
	f->file.has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	if (how->is_resumable)
		go_on_with(f, partial_for(st->node, path), how->is_synced);
	*out = &f->file;
	return 0;
}

static void tree_closed(void *ctx)
{
	struct sim_store *st = ctx;

	st->files--;
}

/* A tree that comes. */
struct coming {
	struct sim_store *store;
	struct sim_group *group;
};

static void came(void *ctx)
{
	struct coming *c = ctx;

	sim_group_let_go(c->group);
	tree_closed(c->store);
}

static int store_open_tree(struct fm_store *store, const char *path, const struct fm_who *who,
			   const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
			   struct fm_err *err)
{
	struct sim_store *st = store_of(store);
	struct sim_tree *tree = sim_disk_find_tree(st->node, path);

	if (enter(st, who, err) < 0)
		return -EIO;
	if (!tree)
		return fm_err_set(err, -ENOENT, "%s: no such directory", path);
	*attr = (struct fm_attr){
		.type = FM_NODE_DIR, .size = FM_SIZE_UNKNOWN, .dev = 1, .ino = tree->ino};
	*out = sim_tree_source_file(st->node, tree, excludes, tree_closed, st);
	if (!*out)
		return fm_err_set(err, -ENOMEM, "no memory for the tree");
	st->files++;
	return 0;
}

static int store_create_tree(struct fm_store *store, const char *path, const struct fm_who *who,
			     const struct fm_create_tree *how, struct fm_file **out,
			     struct fm_err *err)
{
	struct sim_store *st = store_of(store);
	struct coming *c;
	int ret;

	if (enter(st, who, err) < 0)
		return -EIO;
	if (path[0] == '\0')
		return fm_err_set(err, -EISDIR, "the store itself is not replaced");
	c = sim_alloc(st->node->sim, sizeof(*c));
	c->store = st;
	ret = join(st, &path, how->group, &c->group, err);
	if (ret < 0)
		return ret;
	if (!how->may_replace && !how->is_update && !how->is_dry &&
	    sim_disk_find_tree(st->node, path)) {
		sim_group_let_go(c->group);
		return fm_err_set(err, -EEXIST, "%s exists", path);
	}
	st->files++;		/* an error closes it */
	*out = sim_tree_sink_file(st->node, path, false, how, came, c);
	if (*out)
		return 0;
	return fm_err_set(err, -EIO, "no memory for the tree, or no journal");
}

static int store_stat(struct fm_store *store, const char *path, const struct fm_who *who,
		      struct fm_attr *attr, struct fm_err *err)
{
	struct sim_store *st = store_of(store);
	struct sim_blob *blob = sim_disk_find(st->node, path);

	if (enter(st, who, err) < 0)
		return -EIO;
	if (!blob)
		return fm_err_set(err, -ENOENT, "%s: no such file", path);
	*attr = blob->attr;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct fm_entry *)a)->name, ((const struct fm_entry *)b)->name);
}

/* All names, wherever they are: directories are not simulated. */
static int store_list(struct fm_store *store, const char *path, const struct fm_who *who,
		      const struct fm_list_opts *o, struct fm_entry *out, size_t *count,
		      struct fm_err *err)
{
	struct sim_store *st = store_of(store);
	struct fm_entry *all;
	size_t total = 0, n = 0;

	(void)path;
	if (enter(st, who, err) < 0)
		return -EIO;
	for (struct sim_entry *e = st->node->entries; e; e = e->next)
		total += e->blob && strcmp(e->path, o->after) > 0;
	all = sim_alloc(st->node->sim, (total + 1) * sizeof(*all));
	for (struct sim_entry *e = st->node->entries; e; e = e->next) {
		if (!e->blob || strcmp(e->path, o->after) <= 0)
			continue;
		(void)snprintf(all[n].name, sizeof(all[n].name), "%s", e->path);
		all[n++].attr = e->blob->attr;
	}
	qsort(all, n, sizeof(*all), by_name);
	*count = n < o->max ? n : o->max;
	memcpy(out, all, *count * sizeof(*all));
	return 0;
}

static int store_remove(struct fm_store *store, const char *path, const struct fm_who *who,
			bool is_recursive, struct fm_err *err)
{
	struct sim_store *st = store_of(store);
	struct sim_entry *e = find_entry(st->node, path);

	(void)is_recursive;
	if (enter(st, who, err) < 0)
		return -EIO;
	if (!e || !e->blob)
		return fm_err_set(err, -ENOENT, "%s: no such file", path);
	e->blob = NULL;
	return 0;
}

static int store_mkdir(struct fm_store *store, const char *path, const struct fm_who *who,
		       struct fm_err *err)
{
	struct sim_store *st = store_of(store);

	if (enter(st, who, err) < 0)
		return -EIO;
	return sim_disk_find(st->node, path) ? fm_err_set(err, -EEXIST, "%s exists", path) : 0;
}

static int store_group(struct fm_store *store, const char *path, const struct fm_who *who,
		       const struct fm_group_ask *ask, struct fm_err *err)
{
	struct sim_store *st = store_of(store);

	if (enter(st, who, err) < 0)
		return -EIO;
	return sim_group_do(st->node, path, ask, err);
}

static void store_free(struct fm_store *store)
{
	struct sim_store *st = store_of(store);

	assert(st->files == 0);
	st->is_freed = true;
	world_of(st->node)->stores--;
}

static const struct fm_store_ops store_ops = {
	.open_source = store_open_source,
	.create = store_create,
	.open_tree = store_open_tree,
	.create_tree = store_create_tree,
	.stat = store_stat,
	.list = store_list,
	.remove = store_remove,
	.mkdir = store_mkdir,
	.group = store_group,
	.free = store_free,
};

struct fm_store *sim_store_new(struct sim_node *n, const char *name)
{
	struct sim_store *st = sim_alloc(n->sim, sizeof(*st));

	st->store.ops = &store_ops;
	st->store.is_durable = true;
	/* No random number: seeds stay what they are. */
	st->store.takes_small = sim_seed(n->sim) % 2 == 0;
	(void)snprintf(st->store.name, sizeof(st->store.name), "%s", name);
	st->node = n;
	world_of(n)->stores++;
	return &st->store;
}

/* ---- crashes ---- */

static void tear(struct sim *s, struct sim_entry *e)
{
	struct sim_blob *torn = sim_alloc(s, sizeof(*torn));

	*torn = *e->blob;
	torn->bytes = sim_alloc(s, (size_t)torn->cap + 1);
	torn->is_torn = true;
	memset(torn->bytes, 0xa5, (size_t)torn->size);
	memcpy(torn->bytes, e->blob->bytes, (size_t)sim_below(s, torn->size + 1));
	e->blob = torn;
}

/* All that there is of it is there, or nothing, or a part. */
static void lose_unsynced(struct sim *s, struct sim_entry *e)
{
	bool is_kept = e->sync == SYNCED || sim_one_in(s, 2);

	if (!is_kept && e->sync == UNSYNCED && e->blob && sim_one_in(s, 2))
		tear(s, e);
	else if (!is_kept)
		e->blob = e->before;
	e->is_lost |= !is_kept;
	e->sync = SYNCED;
}

static void file_die(struct sim_file *f)
{
	if (f->partial && !f->is_published && !f->is_discarded) {
		fm_list_each(at, next, &f->ios) {
			const struct disk_io *d = fm_container_of(at, struct disk_io, at);

			blob_reserve(sim_of(f), f->blob, d->offset + d->io->len);
			add_range(f, &f->written, d->offset, d->io->len);	/* begun, so torn */
		}
		leave_partial(f);
	}
	f->is_dead = true;
}

void sim_store_die(struct sim_node *n)
{
	fm_list_each(at, next, &n->open_files)
		file_die(fm_container_of(at, struct sim_file, open_at));
	if (n->death != SIM_POWER_CUT)
		return;
	for (struct sim_partial *p = n->partials; p; p = p->next)
		if (!p->is_synced)	/* the journal names the boot that it is good for */
			fm_ranges_free(&p->logged);
	for (struct sim_entry *e = n->entries; e; e = e->next)
		lose_unsynced(n->sim, e);
}

bool sim_disk_has_lost(const struct sim_node *n, const char *path, bool is_callers)
{
	const struct sim_entry *e = find_entry(n, path);

	return (e && !is_callers && e->is_lost) || sim_tree_is_lost(n, path, is_callers);
}

void sim_disk_counts(struct sim *s, struct sim_disk_counts *out)
{
	const struct sim_disk_world *w = sim_disk_world(s);

	*out = (struct sim_disk_counts){.files = w->files,
					.ios = w->ios,
					.overlaps = w->overlaps,
					.stores = w->stores,
					.resumed = w->resumed,
					.dropped = w->dropped};
}
