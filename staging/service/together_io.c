/* SPDX-License-Identifier: MIT */
/*
 * together_io - what a run asks for, done: extents are read, sent, received, written, and the
 * dataset is laid out. See together.h.
 *
 * The run's calls only note an op; the loop's task starts it, a worker or a job does it, and its
 * end is told to the run, if it is still the same one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/bytes.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/services/target.h"
#include "mover/services/transfer/transfer.h"
#include "mover/tree/remove.h"
#include "mover/tree/staging.h"
#include "staging/cache_file.h"
#include "staging/chunk.h"
#include "staging/laid.h"
#include "staging/offered.h"
#include "staging/service/local.h"
#include "staging/service/older.h"
#include "staging/service/rights.h"
#include "staging/service/stager.h"
#include "staging/service/together_priv.h"

#define BESIDE (FM_STAGE_LEFT + (2u << 20))	/* memory that a node has to have for the rest */
#define FOLDED_UPPER ".CASE"	/* in a fetch's directory, for a moment */
#define FOLDED_LOWER ".case"
#define SCRATCH_LEN 8u		/* of an extent: its CRC, and 1 if it is there */

enum op_kind { OP_READ, OP_WRITE, OP_FORGET, OP_UPLOAD, OP_CHECK, OP_PUBLISH };

struct op {
	struct fm_list at;
	struct fm_together *t;
	enum op_kind kind;
	unsigned generation;
	bool is_cancelled;
	struct fm_work work;
	struct fm_memory_ask ask;
	bool is_waiting;		/* for memory */
	unsigned slot, to, to_slot;
	bool is_from_disk;
	uint32_t extent, crc, number;
	struct fm_landed *b;
	struct fm_job *job;
	int code;
};

bool fm_together_is_busy(const struct fm_together *t)
{
	return t->ops > t->at_source;
}

static bool is_at_source(enum op_kind kind)
{
	return kind == OP_READ || kind == OP_CHECK;
}

static bool is_current(const struct op *op)
{
	const struct fm_together *t = op->t;

	return !op->is_cancelled && t->core && !t->is_over && op->generation == t->generation;
}

static void op_free(struct op *op)
{
	struct fm_together *t = op->t;

	fm_list_del(&op->at);
	fm_landed_put(op->b);
	t->at_source -= is_at_source(op->kind);
	fm_memory_let_go(&t->all->memory, &op->ask);
	free(op);
	t->ops--;
	fm_together_wake(t);
}

static struct op *op_new(struct fm_together *t, enum op_kind kind, uint32_t extent)
{
	struct op *op = FM_FAULT("stage.op") ? NULL : calloc(1, sizeof(*op));

	fm_together_wake(t);
	if (!op) {
		t->is_broken = true;
		return NULL;
	}
	op->t = t;
	op->kind = kind;
	op->generation = t->generation;
	op->extent = extent;
	fm_list_append(&t->starting, &op->at);
	t->ops++;
	t->at_source += is_at_source(kind);
	return op;
}

static void submit_awaiting(struct fm_together *t, struct fm_work *work,
			    void (*run)(struct fm_work *w), void (*done)(struct fm_work *w),
			    const void *may_await, enum fm_work_length length)
{
	*work = (struct fm_work){ .run = run, .done = done, .user = t->uid,
				  .job = fm_together_job(t), .may_await = may_await,
				  .length = length,
				  .who = t->asker[0] ? fm_share_name(t->asker)
						     : fm_share_user(t->uid) };
	fm_worker_submit(t->all->o.worker, work, t->all->o.loop);
}

static void submit(struct fm_together *t, struct fm_work *work, void (*run)(struct fm_work *w),
		   void (*done)(struct fm_work *w))
{
	submit_awaiting(t, work, run, done, NULL, FM_WORK_BRIEF);
}

/* The same of what goes to the source, if that is a store of this node. */
static void submit_at_source(struct fm_together *t, struct fm_work *work,
			     void (*run)(struct fm_work *w), void (*done)(struct fm_work *w),
			     enum fm_work_length length)
{
	submit_awaiting(t, work, run, done, t->store ? fm_store_may_await(t->store->store) : NULL,
			length);
}

static uint32_t size_of(const struct fm_together *t, uint32_t extent)
{
	return t->sizes ? t->sizes[extent] : 0;
}

/* ---- reading the source ---- */

/* What the dataset's only file is called in the directory that t->root is. */
static const char *file_at_source(const struct fm_together *t)
{
	const char *slash = strrchr(t->about.path, '/');

	if (!t->about.is_file)
		return NULL;
	return slash ? slash + 1 : t->about.path;
}

static void read_run(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct fm_together *t = op->t;

	uint8_t *chunk = fm_stage_chunk_buf_of_taken();

	op->b = fm_landed_of_taken(op->ask.bytes - FM_STAGE_CHUNK);
	if (!op->b || !chunk || FM_FAULT("stage.read_extent")) {
		fm_stage_chunk_buf_free(chunk);
		op->code = -ENOMEM;
		return;
	}
	op->code = fm_stage_extent_read_source(t->draft, t->root, file_at_source(t), op->extent,
					       op->b->at, op->b->len, chunk, &op->crc);
	fm_stage_chunk_buf_free(chunk);
	atomic_fetch_add(&t->all->read, op->b->len);
}

static void read_done(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct fm_together *t = op->t;

	if (op->b)
		t->peer[t->self].read += op->b->len;
	if (op->code < 0)
		fm_together_log(t, FM_LOG_WARN, "extent %u of %.300s cannot be read here: %s",
				op->extent, t->source, fm_err_name(op->code));
	if (is_current(op)) {
		if (op->code == 0) {
			t->slot[op->slot].b = op->b;
			t->slot[op->slot].extent = op->extent;
			t->slot[op->slot].crc = op->crc;
			op->b = NULL;
		}
		fm_run_read_done(t->core, op->slot, op->crc, op->code);
	}
	op_free(op);
}

static void world_read(void *ctx, unsigned slot, uint32_t extent)
{
	struct op *op = op_new(ctx, OP_READ, extent);

	if (op)
		op->slot = slot;
}

/* ---- writing ---- */

static int write_scratch(const struct fm_together *t, uint32_t extent, uint32_t crc, bool is_there)
{
	uint8_t bytes[SCRATCH_LEN];
	struct fm_writer w = { bytes, bytes + sizeof(bytes), false };

	fm_put_le32(&w, crc);
	fm_put_le32(&w, is_there);
	return fm_call_write_all(t->scratch, bytes, sizeof(bytes),
				 (uint64_t)extent * SCRATCH_LEN);
}

/*
 * The manifest of a dataset that was READY is nobody's to write to. What came before this node knew
 * the manifest may have another size than the extent: -EBADMSG.
 */
static int lay_extent(struct fm_together *t, uint32_t extent, const struct fm_landed *b,
		      uint32_t *crc)
{
	int ret = fm_stage_extent_write(t->draft, t->disk, extent, b->at, b->len,
					t->is_manifest ? NULL : crc);

	if (t->is_manifest)
		*crc = fm_crc32c(0, b->at, b->len);
	return ret == 0 ? write_scratch(t, extent, *crc, true) : ret;
}

static void write_one(struct op *op)
{
	struct fm_together *t = op->t;
	uint32_t said = op->crc;

	if (op->kind == OP_FORGET) {
		op->code = write_scratch(t, op->extent, 0, false);
		return;
	}
	op->code = lay_extent(t, op->extent, op->b, &op->crc);
	if (op->code == 0 && op->crc != said)	/* memory has changed since it came */
		op->code = -EBADMSG;
	if (op->code < 0)
		return;
	atomic_fetch_add(&t->laid, op->b->len);
	fm_cache_fetch_wrote(t->fetch, t->laid, 0);
	fm_cache_fetch_mark(t->fetch, op->extent);
}

/* Writes all extents that came meanwhile. */
static void write_run(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, write_work);

	fm_list_each(at, next, &t->batch)
		write_one(fm_container_of(at, struct op, at));
}

/* Syncs once for all that were written meanwhile, while others are written. */
static void save_run(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, save_work);
	struct fm_err err;	/* the run's own words follow */
	int ret = fm_cache_fetch_save(t->fetch, &err);

	fm_list_each(at, next, &t->saving) {
		struct op *op = fm_container_of(at, struct op, at);

		op->code = op->code < 0 ? op->code : ret;
	}
}

static void tell_written(struct op *op)
{
	struct fm_together *t = op->t;
	struct fm_err err;

	if (op->kind == OP_FORGET || !is_current(op))
		return;
	if (op->code < 0) {
		(void)fm_err_sys(&err, op->code, "write %s into the cache of %s", t->about.name,
				 t->all->o.node);
		fm_together_fail_here(t, &err);
	} else {
		t->have[op->extent / 64] |= UINT64_C(1) << (op->extent % 64);
		t->crc[op->extent] = op->crc;
		t->peer[t->self].done += op->b->len;
	}
	fm_run_written(t->core, op->slot, op->code);
}

static void save_done(struct fm_work *work);

static void move_all(struct fm_list *from, struct fm_list *to)
{
	struct fm_list *at;

	while ((at = fm_list_pop(from)))
		fm_list_append(to, at);
}

static void start_save(struct fm_together *t)
{
	if (!fm_list_is_empty(&t->saving) || fm_list_is_empty(&t->written))
		return;
	move_all(&t->written, &t->saving);
	t->ops++;
	submit(t, &t->save_work, save_run, save_done);
}

static void save_done(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, save_work);
	struct fm_list *at;

	while ((at = fm_list_pop(&t->saving))) {
		struct op *op = fm_container_of(at, struct op, at);

		fm_list_init(&op->at);
		tell_written(op);
		op_free(op);
	}
	t->ops--;
	start_save(t);
	fm_together_wake(t);
}

static void write_done(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, write_work);

	move_all(&t->batch, &t->written);
	t->ops--;
	start_save(t);
	fm_together_wake(t);
}

static void start_writes(struct fm_together *t)
{
	if (!fm_list_is_empty(&t->batch))	/* these are being written */
		return;
	fm_list_each(at, next, &t->starting) {
		struct op *op = fm_container_of(at, struct op, at);

		if (op->kind != OP_WRITE && op->kind != OP_FORGET)
			continue;
		fm_list_del(&op->at);
		fm_list_append(&t->batch, &op->at);
	}
	if (fm_list_is_empty(&t->batch))
		return;
	t->ops++;
	submit(t, &t->write_work, write_run, write_done);
}

static void world_write(void *ctx, unsigned slot, uint32_t extent)
{
	struct fm_together *t = ctx;
	struct op *op = op_new(t, OP_WRITE, extent);

	if (!op)
		return;
	op->slot = slot;
	op->crc = t->slot[slot].crc;
	op->b = fm_landed_get(t->slot[slot].b);
}

static void world_forget(void *ctx, uint32_t extent)
{
	struct fm_together *t = ctx;

	t->have[extent / 64] &= ~(UINT64_C(1) << (extent % 64));
	t->peer[t->self].done -= size_of(t, extent);
	(void)op_new(t, OP_FORGET, extent);
}

/* ---- sending ---- */

static void say_none(const struct op *op)
{
	struct fm_together *t = op->t;
	const struct fm_run_msg none = { .type = FM_RUN_NONE, .from = (uint8_t)t->self,
					 .to = (uint8_t)op->to, .extent = op->extent,
					 .slot = (uint8_t)op->to_slot };

	if (!t->is_over)
		fm_together_queue(t, op->to, &none);
}

/*
 * Ends an upload. The receiver is told that the extent does not come, whether or not it cancelled.
 */
static void upload_end(struct op *op, int code)
{
	struct fm_together *t = op->t;

	if (code < 0)
		say_none(op);
	if (is_current(op))
		fm_run_sent(t->core, op->to, op->extent, code);
	op_free(op);
}

static void put_done(void *ctx, const struct fm_job_result *result)
{
	struct op *op = ctx;

	op->job = NULL;
	upload_end(op, result->code);
}

static void put(struct op *op)
{
	static const struct fm_job_events events = { .done = put_done };
	struct fm_together *t = op->t;
	char path[FM_LANDING_PATH_MAX];
	struct fm_job_opts o = { .is_put = true, .node = t->about.node[op->to],
				 .store = FM_LANDING_STORE, .path = path,
				 .durability = FM_DURABILITY_MEMORY };
	struct fm_err err;
	int ret;

	fm_landing_path(t->run, op->to_slot, op->extent, path);
	o.path_len = strlen(path);
	ret = fm_landed_source(op->b, &o.file, &o.attr, &err);
	if (ret == 0)
		ret = fm_job_start(t->all->o.engine, &o, &events, op, &op->job, &err);
	if (ret < 0)
		upload_end(op, ret);
}

/* An operation ends that waited for memory, and reads nothing any more. */
static void end_without(struct op *op)
{
	struct fm_together *t = op->t;

	op->is_waiting = false;
	if (op->kind == OP_UPLOAD) {
		upload_end(op, -ECANCELED);
		return;
	}
	if (is_current(op))
		fm_run_read_done(t->core, op->slot, 0, -ENOMEM);
	op_free(op);
}

static int read_disk(const struct op *op)
{
	const struct fm_together *t = op->t;

	if (FM_FAULT("stage.upload"))
		return -EIO;
	if (FM_FAULT("stage.upload_files"))
		return -EMFILE;
	return fm_stage_extent_read(t->draft, t->disk, op->extent, op->b->at, op->b->len);
}

static void upload_run(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);

	op->b = fm_landed_of_taken(op->ask.bytes);
	if (!op->b) {
		op->code = -ENOMEM;
		return;
	}
	op->code = read_disk(op);
	op->crc ^= FM_FAULT("stage.upload_old");	/* as if it came again meanwhile */
	if (op->code == 0 && fm_crc32c(0, op->b->at, op->b->len) != op->crc)
		op->code = -EBADMSG;
}

/* Whether that says something of the disk, and not of what this node lacks just now. */
static bool is_damage(int code)
{
	return code < 0 && code != -ENOMEM && code != -EMFILE && code != -ENFILE;
}

/* How what is READY here is called: a copy that was here already may have another source's name. */
static const char *name_here(const struct fm_together *t)
{
	const char *path = t->peer[t->self].path;
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : t->about.name;
}

/*
 * What others have may be right, and what is here is not. A node that has the whole says so to
 * whoever waits, since it is READY all the same; one that is about to have it does not get it.
 */
static void note_damaged(struct fm_together *t, uint32_t extent, int code)
{
	struct fm_err note;

	if (t->is_ready) {
		(void)fm_err_set(&note, code,
				 "extent %u of %.200s is damaged on the disk of %s (%s): \"fmove "
				 "datasets check %.200s\" there mends it",
				 extent, t->source, t->all->o.node, fm_err_name(code),
				 name_here(t));
		fm_together_warn(t, &note);
		return;
	}
	if (t->is_publishing)
		t->is_spoilt = true;
	fm_together_log(t, FM_LOG_WARN,
			"extent %u of %.300s cannot be read from the disk of the cache (%s): %s",
			extent, t->source, fm_err_name(code),
			t->is_publishing ? "it is not to become ready" : "it comes again");
}

/*
 * Whether it was thrown away since the upload was asked for, and may have come again: an upload
 * waits for memory, and for a thread. Then what was read says nothing of the disk.
 */
static bool is_another_by_now(const struct op *op)
{
	const struct fm_together *t = op->t;

	return t->crc[op->extent] != op->crc ||
	       !(t->have[op->extent / 64] >> (op->extent % 64) & 1);
}

static void upload_read(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct fm_together *t = op->t;
	bool is_bad = is_damage(op->code);

	if (is_current(op) && is_another_by_now(op)) {
		upload_end(op, -ECANCELED);
		return;
	}
	if (op->code == 0 && is_current(op)) {
		put(op);
		return;
	}
	if (is_bad && is_current(op)) {
		note_damaged(t, op->extent, op->code);
		t->have[op->extent / 64] &= ~(UINT64_C(1) << (op->extent % 64));
		say_none(op);
		fm_run_disk_bad(t->core, op->extent);
		op_free(op);
		return;
	}
	upload_end(op, op->code < 0 ? op->code : -ECANCELED);
}

static void world_upload(void *ctx, unsigned to, uint32_t extent, int slot, unsigned to_slot)
{
	struct fm_together *t = ctx;
	struct op *op = op_new(t, OP_UPLOAD, extent);

	if (!op)
		return;
	op->to = to;
	op->to_slot = to_slot;
	op->is_from_disk = slot < 0;
	op->crc = t->crc[extent];
	if (slot >= 0)
		op->b = fm_landed_get(t->slot[slot].b);
}

/* What no thread has yet is not to wait for one: a run that is over tells nobody so before its
 * operations have ended. */
static void take_back(struct op *op)
{
	if (is_at_source(op->kind) && fm_worker_cancel(op->t->all->o.worker, &op->work) &&
	    op->kind == OP_READ)
		fm_budget_give(op->ask.bytes);
}

/* Cancels an operation. It may end within this call, and is freed then. */
static void cancel(struct op *op)
{
	struct fm_together *t = op->t;

	op->is_cancelled = true;
	take_back(op);
	if (op->is_waiting) {
		fm_memory_withdraw(&t->all->memory, &t->turn, &op->ask);
		end_without(op);
	} else if (op->job)
		fm_job_cancel(op->job, -ECANCELED, false, "it is not wanted any more");
}

static void world_cancel_upload(void *ctx, unsigned to, uint32_t extent, int slot)
{
	struct fm_together *t = ctx;
	struct fm_list *const lists[] = { &t->starting, &t->running };

	for (unsigned i = 0; i < 2; i++)
		fm_list_each(at, next, lists[i]) {
			struct op *op = fm_container_of(at, struct op, at);

			if (op->kind != OP_UPLOAD || op->to != to || op->extent != extent ||
			    op->is_from_disk != (slot < 0) || op->is_cancelled)
				continue;
			cancel(op);
			return;
		}
}

void fm_together_cancel_ops(struct fm_together *t, int to)
{
	struct fm_list *const lists[] = { &t->starting, &t->running };

	for (unsigned i = 0; i < 2; i++)
		fm_list_each(at, next, lists[i]) {
			struct op *op = fm_container_of(at, struct op, at);

			if (to < 0 || (op->kind == OP_UPLOAD && (int)op->to == to))
				cancel(op);
		}
}

/* ---- receiving ---- */

static void received(void *ctx, struct fm_landed *b, uint32_t crc, int code)
{
	struct fm_together_slot *s = ctx;
	struct fm_together *t = s->owner;
	unsigned slot = (unsigned)(s - t->slot);

	s->place = NULL;
	if (t->is_over || !t->core)
		return;
	if (code == 0) {
		s->b = fm_landed_get(b);
		s->crc = crc;
	}
	if (code == -EBADMSG)
		fm_together_log(t, FM_LOG_WARN, "extent %u of %.300s came damaged: it comes again",
				s->extent, t->source);
	fm_run_received(t->core, slot, crc, code);
	fm_together_wake(t);
}

static void expect(struct fm_together *t, const struct fm_run_msg *msg)
{
	struct fm_together_slot *s = &t->slot[msg->slot];
	const struct fm_landing_opts o = {
		.run = t->run, .slot = msg->slot, .extent = msg->extent,
		.from = t->about.node[msg->to], .bytes = size_of(t, msg->extent),
		.bytes_max = FM_STAGE_EXTENT_BYTES_MAX, .ended = received, .ctx = s,
	};

	s->owner = t;
	s->extent = msg->extent;
	s->place = fm_landing_expect(t->all->landing, &o);
	t->is_broken |= !s->place;
}

static void drop_slot(struct fm_together *t, unsigned slot)
{
	struct fm_together_slot *s = &t->slot[slot];

	if (s->place)
		fm_landing_drop(s->place);
	fm_landed_put(s->b);
	*s = (struct fm_together_slot){ .b = NULL };
}

static void world_cancel_receive(void *ctx, unsigned slot)
{
	struct fm_together_slot *s = &((struct fm_together *)ctx)->slot[slot];

	if (s->place)
		fm_landing_drop(s->place);
	s->place = NULL;
}

static void world_release(void *ctx, unsigned slot)
{
	drop_slot(ctx, slot);
}

/* The bytes in a slot of an extent that is not on the disk yet. */
static uint64_t bytes_in(const struct fm_together *t, const struct fm_together_slot *s)
{
	uint64_t came = s->b ? s->b->len : s->place ? fm_landing_came(s->place) : 0;

	if (t->have[s->extent / 64] >> (s->extent % 64) & 1)
		return 0;
	return came < size_of(t, s->extent) ? came : size_of(t, s->extent);
}

uint64_t fm_together_done(const struct fm_together *t)
{
	uint64_t bytes = t->is_taking ? atomic_load(&t->laid) : t->peer[t->self].done;

	for (unsigned i = 0; t->sink && i < FM_RUN_SLOTS; i++)
		bytes += bytes_in(t, &t->slot[i]);
	return bytes < t->about.bytes ? bytes : t->about.bytes;
}

static void world_send(void *ctx, unsigned hop, const struct fm_run_msg *msg)
{
	struct fm_together *t = ctx;

	if (msg->type == FM_RUN_GET && msg->from == t->self)
		expect(t, msg);
	fm_together_queue(t, hop, msg);
}

/* ---- looking at the source again ---- */

static struct fm_who who_asks(const struct fm_together *t)
{
	return (struct fm_who){ t->asker[0] ? t->asker : NULL, t->uid, t->gid };
}

static struct fm_stage_local local_of(const struct fm_together *t)
{
	return (struct fm_stage_local){
		.store = t->store->store, .path = t->about.path,
		.who = who_asks(t),
		.is_stopped = &t->all->is_stopping,
	};
}

static int list_dir(const struct fm_stage_local *l, int draft, struct fm_stage_totals *totals,
		    struct fm_err *err)
{
	struct fm_stage_offered *o;
	int ret = fm_stage_offered_new(FM_STAGE_OFFERED_MAX, &o, err);

	if (ret < 0)
		return ret;
	ret = fm_stage_local_list(l, o, err);
	if (ret == 0)
		ret = fm_stage_offered_draft(o, draft, totals, err);
	fm_stage_offered_free(o);
	return ret;
}

static int list_source(struct fm_together *t, int draft, struct fm_stage_totals *totals,
		       struct fm_err *err)
{
	const struct fm_stage_local l = local_of(t);
	int ret = t->about.is_file
			  ? fm_stage_local_list_file(&l, t->about.name, draft, totals, err)
			  : list_dir(&l, draft, totals, err);

	if (ret == 0 && memcmp(totals->listing, t->about.listing, FM_SHA256_LEN) != 0)
		ret = fm_err_set(err, -ESTALE,
				 "%.200s changed; run it again when nothing writes there",
				 t->source);
	return ret;
}

/*
 * Whether what is READY here is the source for ever: it has the seal of this node's store in its
 * name.
 */
static bool is_by_seal(const struct fm_together *t)
{
	return t->is_ready && t->about.shared[0] && t->store->store->is_sealed;
}

static void check_run(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct fm_stage_totals totals;
	struct fm_err err;

	op->code = is_by_seal(op->t) ? 0 : list_source(op->t, -1, &totals, &err);
}

static void check_done(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);

	if (is_current(op))
		fm_run_checked(op->t->core, op->number, op->code);
	op_free(op);
}

static const void *users_to_await(const struct fm_together *t)
{
	const struct fm_who who = who_asks(t);

	return fm_stage_rights_to_look_up(t->store ? t->store->store : NULL, &who);
}

static void look_up(struct fm_together *t)
{
	const struct fm_who who = who_asks(t);

	(void)fm_stage_rights_may_read(t->store->store, &who);	/* what lists it says so */
}

/*
 * Brief, though it lists: all that a run fetched hangs on it, and in time, while another listing of
 * the same node may take hours.
 */
static void submit_check(struct op *op)
{
	submit_at_source(op->t, &op->work, check_run, check_done, FM_WORK_BRIEF);
}

static void check_look_up(struct fm_work *work)
{
	look_up(fm_container_of(work, struct op, work)->t);
}

static void check_looked_up(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);

	if (is_current(op))
		submit_check(op);
	else
		op_free(op);
}

static void start_check(struct op *op)
{
	const void *users = users_to_await(op->t);

	if (users)
		submit_awaiting(op->t, &op->work, check_look_up, check_looked_up, users,
				FM_WORK_BRIEF);
	else
		submit_check(op);
}

static void world_check_source(void *ctx, uint32_t number)
{
	struct op *op = op_new(ctx, OP_CHECK, 0);

	if (op)
		op->number = number;
}

/* ---- all is there ---- */

/* Whether what has the file's name already is the file that was laid out, and nothing else. */
static int check_named(const struct fm_together *t, int dir)
{
	struct stat laid, named;
	int ret = fm_call_fstatat(t->disk, t->about.name, &laid);

	if (ret == 0)
		ret = fm_call_fstatat(dir, t->about.name, &named);
	if (ret == 0 && (laid.st_dev != named.st_dev || laid.st_ino != named.st_ino))
		ret = -EEXIST;
	return ret;
}

/*
 * A dataset of one file: it gets its name beside the directory that it was laid out in. Whoever
 * reads what is here finds it at each moment: by t->disk, which is the directory above from then
 * on. The other one is removed before the dataset gets READY (run.c).
 */
static int name_file(const struct fm_together *t, int dir)
{
	int ret = fm_call_linkat(t->disk, t->about.name, dir, t->about.name);

	if (ret == -EEXIST)	/* of a try that failed, perhaps */
		ret = check_named(t, dir);
	if (ret < 0)
		return ret;
	ret = FM_FAULT("stage.named") ? -EIO : fm_call(dup3(dir, t->disk, O_CLOEXEC));
	return ret < 0 ? ret : 0;
}

static void publish_run(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct fm_together *t = op->t;
	int dir = fm_cache_fetch_dir(t->fetch);

	op->code = FM_FAULT("stage.lay_end") ? -EBADMSG : fm_stage_lay_end(t->draft, t->disk);
	if (op->code == 0 && t->about.is_file)
		op->code = name_file(t, dir);
	else if (op->code == 0)
		op->code = fm_call_renameat(dir, FM_TOGETHER_LAID, dir, t->about.name, 0);
}

bool fm_together_is_spoilt(struct fm_together *t)
{
	if (FM_FAULT("stage.spoilt"))
		t->is_spoilt = true;
	return t->is_spoilt;
}

/* Why what came is not handed over. */
static void say_unpublished(const struct fm_together *t, int code, struct fm_err *err)
{
	if (code == -EBADMSG && t->is_spoilt)
		(void)fm_err_set(err, code,
				 "what came of %.200s is damaged on the disk of the cache: that is "
				 "thrown away; run it again",
				 t->source);
	else if (code == -EBADMSG)
		(void)fm_err_set(err, code,
				 "the draft of the manifest of %.200s is damaged on the disk of "
				 "%s: run it again",
				 t->source, t->all->o.node);
	else if (code == -ESTALE)
		(void)fm_err_set(err, code,
				 "the file system of the cache does not keep all sizes and times "
				 "of %s: put staging.directory on another one",
				 t->about.name);
	else
		(void)fm_err_sys(err, code < 0 ? code : -ECANCELED, "finish %s", t->about.name);
}

static void publish_done(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct fm_together *t = op->t;
	struct fm_together_sink *sink = t->sink;
	struct fm_err err;
	int code = op->code;

	op_free(op);
	if (code == 0 && fm_together_is_spoilt(t))
		code = -EBADMSG;
	if (code == 0 && !t->is_over) {
		sink->publish(sink);
		return;
	}
	say_unpublished(t, code, &err);
	fm_together_published(t, NULL, &err);
	sink->ended(sink, &err);
}

static void world_publish(void *ctx)
{
	struct fm_together *t = ctx;

	t->is_spoilt = t->is_other = false;
	t->is_publishing = op_new(t, OP_PUBLISH, 0);
}

int fm_together_manifest(const struct fm_together *t)
{
	return t->is_manifest ? -1 : t->draft;
}

/* It was found damaged behind the last look of whoever made it READY. */
static void warn_spoilt(struct fm_together *t)
{
	struct fm_err note;

	(void)fm_err_set(&note, -EBADMSG,
			 "%.200s was found damaged on the disk of %s just when it became ready: "
			 "\"fmove datasets check %.200s\" there mends it",
			 t->source, t->all->o.node, name_here(t));
	fm_together_warn(t, &note);
}

/* As name_file(): whoever reads what is here finds it at each moment. */
int fm_together_is_other(struct fm_together *t, int dir)
{
	int ret = fm_call(dup3(dir, t->disk, O_CLOEXEC));

	t->is_other = ret >= 0;
	return ret < 0 ? ret : 0;
}

void fm_together_published(struct fm_together *t, const char *path, const struct fm_err *err)
{
	struct fm_together_peer *me = &t->peer[t->self];

	t->is_publishing = false;
	t->fetch = NULL;
	t->sink = NULL;		/* it goes on by itself */
	if (err->code == 0) {
		t->is_ready = true;
		me->place = FM_RUN_READY;
		free(me->path);
		me->path = strdup(path);
		fm_together_log(t, FM_LOG_INFO, "%.300s is ready here: %s", t->source, path);
		if (fm_together_is_spoilt(t) && !t->is_other)	/* else that is thrown away */
			warn_spoilt(t);
	} else {
		fm_together_fail_here(t, err);
	}
	if (t->core && !t->is_over)
		fm_run_published(t->core, err->code);
	fm_together_wake(t);
}

/* ---- the rest of what a run asks for ---- */

static void world_invited(void *ctx)
{
	struct fm_together *t = ctx;

	if (t->sink)		/* it is about to take it */
		return;
	if (!t->is_invited)
		t->invited_ns = fm_loop_now(t->all->o.loop);
	t->is_invited = true;
	fm_together_wake(t);
}

static int why(struct fm_together *t, int code)
{
	const char *source = t->about.shared[0] ? t->source : t->about.node[t->about.source];

	if (t->peer[t->self].code == code && t->peer[t->self].text)
		return fm_err_set(&t->err, code, "%s", t->peer[t->self].text);
	if (code == -ESTALE)
		return fm_err_set(&t->err, code,
				  "%.200s changed while it was read; run it again when nothing "
				  "writes there",
				  t->source);
	if (code == -ETIMEDOUT)
		return fm_err_set(&t->err, code,
				  "nothing came from %s, or from who has it: fmove status says "
				  "whether they are connected",
				  source);
	return fm_err_sys(&t->err, code, "stage %.200s", t->source);
}

static void world_end(void *ctx, int code, uint64_t missing)
{
	struct fm_together *t = ctx;

	t->is_ended = true;
	t->missing = missing;
	if (code < 0)
		(void)why(t, code);
	fm_together_wake(t);
}

static const struct fm_run_world world = {
	.send = world_send,
	.read = world_read,
	.write = world_write,
	.upload = world_upload,
	.cancel_upload = world_cancel_upload,
	.cancel_receive = world_cancel_receive,
	.release = world_release,
	.forget = world_forget,
	.check_source = world_check_source,
	.invited = world_invited,
	.publish = world_publish,
	.end = world_end,
};

/* ---- starting what was noted ---- */

/* There is memory for what an operation reads, if that is still wanted. */
static void given(struct fm_memory_ask *ask)
{
	struct op *op = fm_container_of(ask, struct op, ask);
	bool is_wanted = is_current(op) &&
			 (op->kind == OP_UPLOAD || fm_run_wants_read(op->t->core, op->slot));

	if (!is_wanted) {
		fm_budget_give(ask->bytes);
		end_without(op);
		return;
	}
	op->is_waiting = false;
	if (op->kind == OP_UPLOAD)
		submit(op->t, &op->work, upload_run, upload_read);
	else
		submit_at_source(op->t, &op->work, read_run, read_done, FM_WORK_BRIEF);
}

/* For the extent; what is read from the source passes a chunk. */
static void ask_memory(struct op *op)
{
	size_t chunk = op->kind == OP_READ ? FM_STAGE_CHUNK : 0;

	op->ask = (struct fm_memory_ask){ .bytes = size_of(op->t, op->extent) + chunk,
					  .given = given };
	if (op->kind == OP_UPLOAD)
		op->ask.peer = op->t->about.node[op->to];
	op->is_waiting = true;
	fm_memory_ask(&op->t->all->memory, &op->t->turn, &op->ask);
}

static void start(struct op *op)
{
	if (op->kind == OP_READ)
		ask_memory(op);
	else if (op->kind == OP_CHECK)
		start_check(op);
	else if (op->kind == OP_PUBLISH)
		submit(op->t, &op->work, publish_run, publish_done);
	else if (op->is_cancelled)
		upload_end(op, -ECANCELED);
	else if (op->is_from_disk)
		ask_memory(op);
	else
		put(op);
}

void fm_together_start_ops(struct fm_together *t)
{
	struct fm_err err;

	start_writes(t);
	fm_list_each(at, next, &t->starting) {
		struct op *op = fm_container_of(at, struct op, at);

		if (op->kind == OP_WRITE || op->kind == OP_FORGET)
			continue;
		fm_list_del(&op->at);
		fm_list_append(&t->running, &op->at);
		start(op);
	}
	fm_together_check_invited(t);
	if (t->is_broken) {
		(void)fm_err_set(&err, -ENOMEM, "no memory to stage %s", t->about.name);
		fm_together_over(t, &err);
	}
}

/*
 * Drops the core of a run: nothing of the run is wanted any more. Operations under way end by
 * themselves.
 */
void fm_together_drop_core(struct fm_together *t)
{
	if (t->is_over && t->is_looking)
		(void)fm_worker_cancel(t->all->o.worker, &t->work);
	fm_together_cancel_ops(t, -1);
	fm_list_each(at, next, &t->starting) {
		struct op *op = fm_container_of(at, struct op, at);

		if (op->kind == OP_PUBLISH)
			t->is_publishing = false;
		op_free(op);
	}
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		drop_slot(t, i);
	fm_run_free(t->core);
	t->core = NULL;
	t->generation++;
}

void fm_together_close_io(struct fm_together *t)
{
	const int fds[] = { t->draft, t->next_draft, t->root, t->disk, t->scratch };

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);	/* what was written is synced */
	if (t->store)
		fm_engine_store_put(t->store);
	free(t->sizes);
}

/* ---- a run, with what is here ---- */

_Static_assert(FM_STAGE_UPLOADS_MAX == FM_RUN_UPLOADS_MAX, "any number that is configured");

static int new_core(struct fm_together *t, enum fm_run_place place)
{
	struct fm_run_params p = {
		.self = t->self, .node_count = t->about.count, .rank = t->rank, .up = t->in,
		.extent_count = t->about.extents, .can_read = t->root >= 0,
		.uploads = t->all->o.uploads, .place = place, .have = t->have, .crc = t->crc,
		.times = &t->all->times,
	};
	struct fm_engine *e = t->all->o.engine;
	int ret;

	e->env.random->fill(e->env.random->ctx, &p.join, sizeof(p.join));
	ret = fm_run_new(&p, &world, t, &t->core);
	if (ret == 0)
		fm_together_tell_called(t);
	return ret;
}

/*
 * Refuses a dataset with an extent that can never fit into memory: the run would wait for it for
 * ever. This node can fetch the dataset alone.
 */
static int check_memory(struct fm_together *t, const uint32_t *sizes)
{
	uint64_t most = fm_budget_most(), beside = FM_STAGE_CHUNK + BESIDE, largest = 0;

	for (uint32_t n = 0; n < t->about.extents; n++)
		largest = sizes[n] > largest ? sizes[n] : largest;
	if (largest + beside <= most)
		return 0;
	return fm_err_set(&t->work_err, -EOPNOTSUPP,
			  "a part of %s with %llu MiB does not fit into what memory.total leaves "
			  "on %s: raise it in its fmove.conf by %llu MiB",
			  t->about.name, (unsigned long long)(largest >> 20), t->all->o.node,
			  (unsigned long long)((largest + beside - most) * 8 / 7 >> 20) + 1);
}

static int fill_sizes(struct fm_together *t)
{
	uint32_t *sizes = calloc(t->about.extents, sizeof(*sizes));
	struct fm_stage_reader *r = NULL;
	int ret = sizes ? fm_stage_reader_new(t->draft, &r) : -ENOMEM;

	if (ret == 0 && (fm_stage_reader_totals(r)->extents != t->about.extents ||
			 fm_stage_reader_totals(r)->is_file != t->about.is_file))
		ret = -EBADMSG;
	for (uint32_t n = 0; ret == 0 && n < t->about.extents; n++) {
		struct fm_stage_extent x;

		ret = fm_stage_reader_extent(r, n, &x);
		sizes[n] = (uint32_t)x.bytes;
	}
	fm_stage_reader_free(r);
	if (ret == 0)
		ret = check_memory(t, sizes);
	if (ret < 0)
		free(sizes);
	else
		t->sizes = sizes;
	return ret;
}

/*
 * Opens the manifest and reads its extents' CRCs. A draft that exists is kept: others may be
 * reading it, and it names the same extents.
 */
static int open_manifest(struct fm_together *t, const char *path)
{
	/* A pipe that somebody put in its place must not keep us. */
	int fd = fm_call(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	int ret = fd < 0 ? fd : fm_stage_extent_crcs(fd, t->about.extents, t->crc);

	if (ret == 0 && t->draft < 0) {
		t->draft = fd;
		t->is_manifest = true;
	} else if (fd >= 0)
		(void)close(fd);	/* only read */
	return ret;
}

static int open_held(struct fm_together *t, const char *data)
{
	char path[FM_PATH_LEN_MAX + 64];
	int above = (int)(strrchr(data, '/') - data), ret;

	if (t->disk >= 0)
		(void)close(t->disk);	/* of a try that failed */
	(void)snprintf(path, sizeof(path), "%.*s", t->about.is_file ? above : FM_PATH_LEN_MAX,
		       data);
	t->disk = FM_FAULT("stage.ready") ? -EMFILE
					  : fm_call(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (t->disk < 0)
		return t->disk;
	(void)snprintf(path, sizeof(path), "%.*s/%s", above, data, FM_CACHE_MANIFEST_NAME);
	ret = open_manifest(t, path);
	if (ret < 0)
		return ret;
	memset(t->have, 0xff, (t->about.extents + 63) / 64 * sizeof(*t->have));
	free(t->work_path);
	t->work_path = strdup(data);	/* without memory it is not said */
	return 0;
}

/*
 * The dataset is READY here: opens it and holds it, to serve it to others. After an error nothing
 * is held.
 */
static int open_ready(struct fm_together *t, uint64_t id)
{
	const struct fm_cache_holder nobody = { .uid = 0 };
	struct fm_cache *c = t->all->o.cache;
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_err err;
	int ret = fm_cache_path(c, id, path, sizeof(path));

	if (ret == 0)
		ret = fm_cache_hold(c, id, &nobody, &t->hold, &err);
	if (ret < 0)
		return ret;
	ret = open_held(t, path);
	if (ret == 0)
		return 0;
	fm_cache_release(c, t->hold);
	t->hold = 0;
	return ret;
}

/*
 * Lists the source at this node, and compares it with the listing of the run. Without a draft of
 * the manifest, the listing becomes one.
 */
static int list_here(struct fm_together *t)
{
	struct fm_stage_totals totals;
	int draft = t->draft, ret;

	if (draft >= 0)
		return list_source(t, -1, &totals, &t->work_err);
	draft = fm_call(open(t->all->o.directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
	if (draft < 0)
		return fm_cache_no_file(t->all->o.cache, draft, &t->work_err);
	ret = list_source(t, draft, &totals, &t->work_err);
	if (ret < 0)
		(void)close(draft);
	else
		t->draft = draft;
	return ret;
}

/* Takes over the path that the worker has found, to be told to others from now on. */
static void take_path(struct fm_together *t)
{
	if (!t->work_path)
		return;
	free(t->peer[t->self].path);
	t->peer[t->self].path = t->work_path;
	t->work_path = NULL;
}

static int open_source(struct fm_together *t)
{
	const struct fm_stage_local l = local_of(t);
	struct fm_store *s = t->store->store;
	const char *name;
	int ret = 0;

	if (!s->ops->open_dir)
		return fm_err_set(
			&t->work_err, -EOPNOTSUPP,
			"store %s has no directories: stage from a store that has a directory",
			s->name);
	if (!t->is_listed && !is_by_seal(t))
		ret = list_here(t);
	if (ret == 0 && t->about.is_file)
		t->root = fm_stage_local_open_parent(&l, &name, &t->work_err);
	else if (ret == 0)
		t->root = s->ops->open_dir(s, t->about.path, &l.who, &t->work_err);
	return ret < 0 ? ret : t->root < 0 ? t->root : 0;
}

/*
 * This node does not read its shared store, because of an error. Other nodes read it, so nothing
 * ends; the error is noted.
 */
static void do_without(struct fm_together *t, int code)
{
	const char *self = t->all->o.node;

	if (fm_together_is_another(code))
		(void)fm_err_set(&t->note, code,
				 "%s sees something else in %.200s than %s does, and reads none of "
				 "it: its store \"%s\" is stale, or is not what is shared",
				 self, t->source, t->about.node[t->about.source],
				 t->store->store->name);
	else
		(void)fm_err_set(&t->note, code, "%s reads nothing of %.200s: %s", self, t->source,
				 t->work_err.text);
	fm_err_clear(&t->work_err);
}

static void look_run(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, work);
	struct fm_cache *c = t->all->o.cache;
	uint64_t id = FM_FAULT("stage.look") ? 0 : fm_cache_find_listing(c, &t->key);
	struct fm_cache_info info;
	int ret;

	if (id && fm_cache_look(c, id, &info) && info.state == FM_CACHE_READY)
		t->is_ready = open_ready(t, id) == 0;
	if (t->store)
		ret = open_source(t);
	else	/* of a volume that is away nobody knows who may read it: that stays an error */
		ret = t->lacks_volume ? 0 : t->work_err.code;
	if (t->is_ready && !t->about.shared[0] && fm_together_is_closed(ret)) {
		fm_err_clear(&t->work_err);	/* what is here was asked for */
		ret = 0;
	} else if (ret < 0 && t->about.shared[0]) {
		do_without(t, ret);
		ret = 0;
	}
	if (ret == 0 && t->draft >= 0 && !t->sizes)
		ret = fill_sizes(t);
	/*
	 * A node that gives nothing goes on without an error: it hears how the run goes on others,
	 * and fails only when it is to take the dataset.
	 */
	if (ret == -EOPNOTSUPP && t->disk < 0 && !t->store) {
		fm_err_clear(&t->work_err);
		ret = 0;
	}
	if (ret < 0 && t->work_err.code == 0)
		(void)fm_err_sys(&t->work_err, ret, "look at %s", t->about.name);
}

static void end_look(struct fm_together *t)
{
	t->ops--;
	t->is_looking = false;
	if (t->draft < 0) {
		t->draft = t->next_draft;
		t->next_draft = -1;
	}
	if (t->note.code)
		fm_together_warn(t, &t->note);
}

static void look_done(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, work);

	end_look(t);
	take_path(t);
	if (t->is_over) {
		fm_together_wake(t);
		return;
	}
	if (t->work_err.code == 0 && new_core(t, t->is_ready ? FM_RUN_READY : FM_RUN_PASSIVE) < 0)
		(void)fm_err_set(&t->work_err, -ENOMEM, "no memory to stage %s", t->about.name);
	if (t->work_err.code < 0) {
		fm_together_tell_rules(t);
		fm_together_fail_here(t, &t->work_err);
		fm_together_over(t, &t->work_err);
		return;
	}
	if (t->is_ready) {
		fm_together_log(t, FM_LOG_INFO, "%s is here already", t->source);
		t->peer[t->self].done = t->about.bytes;
	}
	fm_together_begin(t);
	if (t->fetch)
		fm_together_take(t, t->sink, t->fetch);
	else if (t->is_found)
		fm_together_found(t);
}

/* Also of a store that is silent: others that have it may be read, by its rules, too. */
static uint64_t who_may_read(const struct fm_together *t, struct fm_store *s)
{
	uint64_t nodes = UINT64_C(1) << t->self;

	for (unsigned n = 0; n < t->about.count; n++)
		if (s->ops->lets_peer && s->ops->lets_peer(s, t->about.node[n]))
			nodes |= UINT64_C(1) << n;
	return nodes;
}

struct fm_store_ref *fm_togethers_store(const struct fm_togethers *all,
					const struct fm_stage_about *a)
{
	if (a->shared[0])
		return fm_engine_store_shared(all->o.engine, a->shared);
	if (strcmp(a->node[a->source], all->o.node) != 0)
		return NULL;
	return fm_engine_store_get(all->o.engine, a->store, strlen(a->store));
}

struct fm_store_ref *fm_togethers_rules(const struct fm_togethers *all,
					const struct fm_stage_about *a)
{
	if (a->shared[0])
		return fm_engine_store_shared_rules(all->o.engine, a->shared);
	if (strcmp(a->node[a->source], all->o.node) != 0)
		return NULL;
	return fm_engine_store_rules(all->o.engine, a->store, strlen(a->store));
}

bool fm_togethers_lack_rules(const struct fm_togethers *all, const struct fm_stage_about *a)
{
	struct fm_store_ref *ref = fm_togethers_rules(all, a);

	if (ref)
		fm_engine_store_put(ref);
	return !ref && !a->shared[0] && strcmp(a->node[a->source], all->o.node) == 0;
}

bool fm_togethers_lack_volume(const struct fm_togethers *all, const struct fm_stage_about *a)
{
	return fm_togethers_lack_rules(all, a) &&
	       fm_engine_volume_of(all->o.engine, a->store, strlen(a->store));
}

static void look_look_up(struct fm_work *work)
{
	look_up(fm_container_of(work, struct fm_together, work));
}

/* It is listed, unless who asked here has done so, and opened. */
static void submit_look(struct fm_together *t)
{
	submit_at_source(t, &t->work, look_run, look_done,
			 t->is_listed ? FM_WORK_BRIEF : FM_WORK_LISTS);
}

static void look_looked_up(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, work);

	if (t->is_over)
		look_done(work);
	else
		submit_look(t);
}

static void start_look(struct fm_together *t)
{
	const void *users = users_to_await(t);

	if (users)
		submit_awaiting(t, &t->work, look_look_up, look_looked_up, users, FM_WORK_BRIEF);
	else
		submit_look(t);
}

void fm_together_look_here(struct fm_together *t, const char *asker)
{
	struct fm_store_ref *rules = fm_togethers_rules(t->all, &t->about);

	(void)snprintf(t->asker, sizeof(t->asker), "%s", asker ? asker : "");
	t->store = fm_togethers_store(t->all, &t->about);
	t->lacks_rules = fm_togethers_lack_rules(t->all, &t->about);
	t->lacks_volume = fm_togethers_lack_volume(t->all, &t->about);
	if (rules) {
		t->peer[t->self].may_read = who_may_read(t, rules->store);
		fm_engine_store_put(rules);
	} else if (t->lacks_rules) {
		t->peer[t->self].may_read = UINT64_C(1) << t->self;
	}
	if (!t->store && !t->about.shared[0] && t->self == t->about.source)
		(void)fm_target_store(t->all->o.engine, t->about.store, strlen(t->about.store),
				      &t->store, &t->work_err);
	t->is_looking = true;
	t->ops++;
	start_look(t);
}

/* ---- this node wants it ---- */

/* Removes what an earlier fetch without other nodes has left. */
static int remove_ours(void *ctx, const char *name)
{
	return fm_staging_is_ours(name) ? fm_tree_remove(*(int *)ctx, name, NULL) : 0;
}

/* Whether the extent came, and its CRC then. */
static bool read_scratch(int scratch, uint32_t extent, uint32_t *crc)
{
	uint8_t bytes[SCRATCH_LEN];
	struct fm_reader r = { bytes, bytes + sizeof(bytes), false };

	if (fm_call_read_all(scratch, bytes, sizeof(bytes), (uint64_t)extent * SCRATCH_LEN) !=
	    SCRATCH_LEN)
		return false;
	*crc = fm_get_le32(&r);
	return fm_get_le32(&r) == 1;
}

/* Whether an extent is still on the disk as an earlier run wrote it down, with its CRC. */
static bool read_again(struct fm_together *t, uint32_t extent, uint32_t *crc)
{
	struct fm_landed *b;
	uint32_t is_there;
	int ret;

	if (!read_scratch(t->scratch, extent, crc))
		return false;
	b = fm_landed_new(t->sizes[extent]);
	ret = b ? fm_stage_extent_read(t->draft, t->disk, extent, b->at, b->len) : -ENOMEM;
	if (ret == 0 && t->is_manifest)
		is_there = fm_crc32c(0, b->at, b->len);
	else if (ret == 0)	/* of other bytes, too: then it comes again, and so does this */
		ret = fm_stage_extent_fill(t->draft, extent, b->at, b->len, &is_there);
	fm_landed_put(b);
	return ret == 0 && is_there == *crc;
}

/* A dataset may have two names that differ in case only. Nothing would show that one was lost. */
static int check_case(struct fm_together *t, int dir)
{
	struct stat st;
	int ret = fm_call_mkdirat(dir, FOLDED_UPPER, 0700);

	if (ret < 0 && ret != -EEXIST)
		return ret;
	ret = FM_FAULT("stage.folded") ? 0 : fm_call_fstatat(dir, FOLDED_LOWER, &st);
	(void)unlinkat(dir, FOLDED_UPPER, AT_REMOVEDIR);
	if (ret != 0)
		return ret == -ENOENT ? 0 : ret;
	return fm_err_set(&t->work_err, -EOPNOTSUPP,
			  "the cache takes names that differ in case for one: put "
			  "staging.directory where chattr +F was not used");
}

static int lay(struct fm_together *t)
{
	int dir = fm_cache_fetch_dir(t->fetch), ret = 0;

	if (t->draft < 0)
		return -EBADMSG;
	if (!t->sizes)
		ret = fill_sizes(t);
	if (ret == 0)
		ret = fm_cache_names(dir, remove_ours, &dir);
	if (ret == 0)
		ret = fm_tree_remove(dir, FM_STAGE_TAKEN, NULL);
	if (ret == 0)
		ret = check_case(t, dir);
	if (ret == 0)
		ret = fm_call_mkdirat(dir, FM_TOGETHER_LAID, 0700);
	if (ret < 0 && ret != -EEXIST)
		return ret;
	t->disk = fm_call_open_below(dir, FM_TOGETHER_LAID, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
				     0, 0);
	if (t->disk < 0)
		return t->disk;
	t->scratch = fm_call_open_below(dir, FM_CACHE_SCRATCH_NAME, O_RDWR | O_CREAT | O_NOFOLLOW,
					0600, 0);
	return t->scratch < 0 ? t->scratch : fm_stage_lay_begin(t->draft, t->disk);
}

static void note_laid(struct fm_together *t, uint32_t extent, uint32_t crc)
{
	t->crc[extent] = crc;
	t->have[extent / 64] |= UINT64_C(1) << (extent % 64);
	atomic_fetch_add(&t->laid, t->sizes[extent]);
}

/* Copies one extent. Without memory it comes with the rest, as one does that is damaged. */
static int copy_older(struct fm_together *t, const struct fm_older_extents *o, uint32_t extent)
{
	struct fm_landed *b = fm_landed_new(t->sizes[extent]);
	uint32_t crc;
	int ret = 0;

	if (!b || !fm_older_extents_read(o, extent, b->at, b->len, &crc)) {
		fm_landed_put(b);
		return 0;
	}
	ret = lay_extent(t, extent, b, &crc);
	fm_landed_put(b);
	if (ret < 0)
		return ret;
	note_laid(t, extent, crc);
	fm_cache_fetch_wrote(t->fetch, t->laid, 0);
	fm_cache_fetch_mark(t->fetch, extent);
	return 0;
}

/* What did not change since the version that is here: nobody has to send it. */
static int take_older(struct fm_together *t)
{
	struct fm_older_extents *o = fm_older_extents_open(t->all->o.cache, t->source, t->draft,
							   t->about.extents);
	bool is_any = false;
	int ret = 0;

	for (uint32_t n = 0; o && ret == 0 && n < t->about.extents && !t->all->is_stopping; n++) {
		if (t->have[n / 64] >> (n % 64) & 1 || !fm_older_extents_has(o, n))
			continue;
		ret = copy_older(t, o, n);
		is_any = true;
	}
	fm_older_extents_close(o);
	return ret == 0 && is_any ? fm_cache_fetch_save(t->fetch, &t->work_err) : ret;
}

static void take_run(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, work);
	int ret = lay(t);

	for (uint32_t n = 0; ret == 0 && n < t->about.extents && !t->all->is_stopping; n++) {
		uint32_t crc;

		if (fm_cache_fetch_has(t->fetch, n) && read_again(t, n, &crc))
			note_laid(t, n, crc);
	}
	if (ret == 0)
		ret = take_older(t);
	if (ret < 0 && t->work_err.code == 0)
		(void)fm_err_sys(&t->work_err, ret, "lay %s out in the cache of %s",
				 t->about.name, t->all->o.node);
	if (ret == 0)
		fm_cache_fetch_wrote(t->fetch, t->laid, 0);
}

/*
 * A passive node becomes a sink. For the other nodes it is as if a node that was out had begun
 * anew; any other one goes on with what it reads for them.
 */
static void become_sink(struct fm_together *t)
{
	struct fm_run_show show;

	fm_run_show(t->core, &show);
	if (show.place == FM_RUN_PASSIVE) {
		fm_run_want(t->core, t->have, t->crc);
		return;
	}
	fm_together_drop_core(t);
	if (new_core(t, FM_RUN_SINK) < 0) {
		t->is_broken = true;
		return;
	}
	fm_run_request(t->core, t->wanted);
}

static void take_done(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, work);
	struct fm_together_sink *sink = t->sink;

	t->ops--;
	t->is_taking = false;
	t->peer[t->self].done = atomic_load(&t->laid);
	fm_together_wake(t);
	if (t->is_over)
		return;
	if (t->work_err.code == 0) {
		become_sink(t);
		return;
	}
	t->sink = NULL;
	t->fetch = NULL;
	fm_together_refuse(t, &t->work_err);
	sink->ended(sink, &t->work_err);
}

void fm_together_take(struct fm_together *t, struct fm_together_sink *sink,
		      struct fm_cache_fetch *fetch)
{
	t->sink = sink;
	t->fetch = fetch;
	t->is_ready = false;	/* it was, perhaps: an end without errors is none for this sink */
	t->peer[t->self].place = FM_RUN_PASSIVE;
	if (t->is_looking || t->is_over) {	/* afterwards; or it is told the end */
		fm_together_wake(t);
		return;
	}
	if (t->disk >= 0) {	/* of what was here, and is gone: once nobody reads it any more */
		fm_together_drop_core(t);
		t->is_anew = true;
		fm_together_wake(t);
		return;
	}
	fm_together_tell_wanted(t);
	t->is_taking = true;
	t->ops++;
	fm_err_clear(&t->work_err);
	submit(t, &t->work, take_run, take_done);
}

static void forget_disk(struct fm_together *t)
{
	struct fm_together_peer *me = &t->peer[t->self];

	(void)close(t->disk);	/* what was written is synced, or gone */
	if (t->scratch >= 0)
		(void)close(t->scratch);
	t->disk = t->scratch = -1;
	if (t->hold)
		fm_cache_release(t->all->o.cache, t->hold);
	t->hold = 0;
	memset(t->have, 0, (t->about.extents + 63) / 64 * sizeof(*t->have));
	atomic_store(&t->laid, 0);
	me->done = 0;
	free(me->path);
	me->path = NULL;
}

void fm_together_take_anew(struct fm_together *t)
{
	if (!t->is_anew || fm_together_is_busy(t))
		return;
	t->is_anew = false;
	forget_disk(t);
	t->is_broken |= new_core(t, FM_RUN_PASSIVE) < 0;
	if (t->core) {
		fm_together_begin(t);
		fm_together_take(t, t->sink, t->fetch);
	}
}

int fm_together_agrees(int dir, int manifest, uint32_t extents)
{
	int scratch = fm_call_open_below(dir, FM_CACHE_SCRATCH_NAME, O_RDONLY | O_NOFOLLOW, 0, 0);
	uint32_t *crc = scratch < 0 ? NULL : calloc(extents + 1, sizeof(*crc)), noted;
	int ret = scratch < 0 ? scratch : crc ? 0 : -ENOMEM;

	if (ret == 0)
		ret = fm_stage_extent_crcs(manifest, extents, crc);
	for (uint32_t n = 0; ret == 0 && n < extents; n++)
		if (read_scratch(scratch, n, &noted) && noted != crc[n])
			ret = -EBADMSG;
	if (scratch >= 0)
		(void)close(scratch);	/* only read */
	free(crc);
	return ret == -ENOENT ? 0 : ret;
}

/* ---- it is here by itself ---- */

static void found_run(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, work);
	uint64_t id = fm_cache_find_listing(t->all->o.cache, &t->key);

	t->is_ready = id && open_ready(t, id) == 0 && (t->sizes || fill_sizes(t) == 0);
}

static void found_done(struct fm_work *work)
{
	struct fm_together *t = fm_container_of(work, struct fm_together, work);
	struct fm_err err;

	t->ops--;
	t->is_looking = false;
	take_path(t);
	fm_together_wake(t);
	if (t->is_over)
		return;
	if (!t->is_ready && t->fetch) {	/* it went, and somebody fetches it again */
		fm_together_take(t, t->sink, t->fetch);
		return;
	}
	if (!t->is_ready) {
		(void)fm_err_set(&err, -ENOENT, "%s was removed meanwhile; run it again",
				 t->about.name);
		fm_together_refuse(t, &err);
		return;
	}
	fm_together_drop_core(t);
	t->peer[t->self].done = t->about.bytes;
	t->is_broken |= new_core(t, FM_RUN_READY) < 0;
	if (t->core && t->wanted)
		fm_run_request(t->core, t->wanted);
}

void fm_together_found(struct fm_together *t)
{
	t->is_found = t->is_looking;	/* looked at before it was there, perhaps: then again */
	if (t->is_over || t->is_ready || t->is_looking || t->is_taking || t->sink)
		return;
	t->is_looking = true;
	t->ops++;
	submit(t, &t->work, found_run, found_done);
}
