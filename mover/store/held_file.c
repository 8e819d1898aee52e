/* SPDX-License-Identifier: MIT */
/*
 * held_file - see held_file.h.
 *
 * A read: a task for the holder's lane -> the file behind reads as on any lane -> a task back to
 * the lane that asked -> done().
 */
#include "mover/store/held_file.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/worker.h"
#include "mover/store/done_list.h"
#include "mover/store/store.h"
#include "mover/store/sync.h"
#include "mover/store/sys.h"
#include "mover/tree/tree.h"

struct looking {
	struct fm_work work;
	struct fm_file *inner;
	struct fm_holder *holder;
	uint64_t offset;
	void (*done)(void *ctx, int ret, uint64_t from, uint64_t to);
	void *ctx;
};

struct held {
	struct fm_file file;
	struct fm_file_ops ops;		/* those that the file behind has */
	struct fm_file *inner;
};

struct op {
	struct fm_task start, back, give_up;
	struct fm_file *inner;
	struct fm_io io;
	struct fm_io *asked;
	struct fm_loop *lane;		/* that asked */
	struct fm_loop *there;
	struct fm_holder *holder;
	unsigned index;
	struct fm_lane_io at;		/* the holder's lane */
	struct fm_done_list done;
	bool is_write;
	bool is_given_up;
	bool is_over;			/* the holder's lane's */
	atomic_uint refs;
};

static struct held *held_of(struct fm_file *file)
{
	return fm_container_of(file, struct held, file);
}

/* ---- reading and writing ---- */

static void op_unref(struct op *op)
{
	if (atomic_fetch_sub(&op->refs, 1) == 1)
		free(op);
}

/* The I/O is back at the lane that asked. The file may be gone when this returns. */
static void op_back(struct fm_task *task)
{
	struct op *op = fm_container_of(task, struct op, back);
	struct fm_io *asked = op->asked;

	asked->res = op->io.res;
	asked->held = NULL;
	op_unref(op);
	asked->done(asked);
}

static void op_done(struct fm_io *io)
{
	struct op *op = fm_container_of(io, struct op, io);

	op->is_over = true;
	fm_loop_post(op->lane, &op->back);
}

static void op_start(struct fm_task *task)
{
	struct op *op = fm_container_of(task, struct op, start);
	const struct fm_file_ops *ops = op->inner->ops;

	fm_done_list_init(&op->done, op->there);
	op->at = (struct fm_lane_io){.loop = op->there,
				     .ring = fm_holder_ring(op->holder, op->index),
				     .done = &op->done};
	(op->is_write ? ops->write : ops->read)(op->inner, &op->at, &op->io);
}

static void op_give_up(struct fm_task *task)
{
	struct op *op = fm_container_of(task, struct op, give_up);

	if (!op->is_over)
		op->inner->ops->cancel(op->inner, &op->at, &op->io);
	op_unref(op);
}

static void submit(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io,
		   bool is_write)
{
	struct op *op = fm_sys_alloc(sizeof(*op));

	if (!op) {
		fm_done_list_add(lane->done, io, -ENOMEM);
		return;
	}
	op->inner = held_of(file)->inner;
	op->holder = file->holder;
	op->asked = io;
	op->lane = lane->loop;
	op->index = lane->index;
	op->there = fm_holder_loop(file->holder, lane->index);
	op->is_write = is_write;
	op->io = (struct fm_io){.done = op_done,
				.fd = io->fd,
				.buf = io->buf,
				.len = io->len,
				.offset = io->offset};
	op->start.run = op_start;
	op->back.run = op_back;
	op->give_up.run = op_give_up;
	atomic_init(&op->refs, 1);
	io->held = op;
	fm_loop_post(op->there, &op->start);
}

static void held_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	submit(file, lane, io, false);
}

static void held_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	submit(file, lane, io, true);
}

/* Cancels an I/O in the holder. If it ends at the same time, there is nothing left to cancel. */
static void held_cancel(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct op *op = io->held;

	(void)file;
	(void)lane;
	if (!op || op->is_given_up)
		return;
	op->is_given_up = true;
	atomic_fetch_add(&op->refs, 1);
	fm_loop_post(op->there, &op->give_up);
}

/* ---- where its data is ---- */

static void look_run(struct fm_work *work)
{
	struct looking *l = fm_container_of(work, struct looking, work);
	uint64_t from = l->offset, to = l->offset;
	int ret = l->inner->ops->next_data(l->inner, l->offset, &from, &to);

	l->done(l->ctx, ret, from, to);
}

static void look_done(struct fm_work *work)
{
	struct looking *l = fm_container_of(work, struct looking, work);

	fm_holder_put(l->holder);
	free(l);
}

void fm_held_file_look(struct fm_file *file, uint64_t offset,
		       void (*done)(void *ctx, int ret, uint64_t from, uint64_t to), void *ctx)
{
	struct looking *l = fm_sys_alloc(sizeof(*l));

	if (!l) {
		done(ctx, -ENOMEM, offset, offset);
		return;
	}
	*l = (struct looking){ .work = { .run = look_run, .done = look_done },
			       .inner = held_of(file)->inner,
			       .holder = fm_holder_ref(file->holder),
			       .offset = offset,
			       .done = done,
			       .ctx = ctx };
	fm_holder_work(l->holder, &l->work);
}

/*
 * Never called: who has such a file must not wait on his own thread, and uses fm_held_file_look().
 */
static int held_next_data(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to)
{
	(void)file;
	*from = *to = offset;
	assert(false && "fm_held_file_look() is for that");
	return -EDEADLK;
}

/* ---- on the holder's worker ---- */

/* Copies the notes and sync errors of the held file, which may change with every call. */
static int said(struct held *h, int ret)
{
	h->file.note = h->inner->note;
	h->file.resume_note = h->inner->resume_note;
	(void)fm_sync_note(&h->file.sync, fm_file_sync_error(h->inner));
	return ret;
}

static int held_check_unchanged(struct fm_file *file, struct fm_err *err)
{
	struct held *h = held_of(file);

	return said(h, h->inner->ops->check_unchanged(h->inner, err));
}

static void held_acked(struct fm_file *file, uint64_t offset)
{
	struct held *h = held_of(file);

	h->inner->ops->acked(h->inner, offset);
}

static void held_why(struct fm_file *file, struct fm_err *err)
{
	struct held *h = held_of(file);

	h->inner->ops->why(h->inner, err);
}

static int held_begin(struct fm_file *file, const struct fm_identity *source, struct fm_have *have,
		      struct fm_err *err)
{
	struct held *h = held_of(file);

	return said(h, h->inner->ops->begin(h->inner, source, have, err));
}

static int held_make_room(struct fm_file *file, uint64_t size, struct fm_err *err)
{
	struct held *h = held_of(file);

	return said(h, h->inner->ops->make_room(h->inner, size, err));
}

static int held_reread(struct fm_file *file, uint64_t offset, uint64_t len, uint32_t *part)
{
	struct held *h = held_of(file);

	/* beside log(), which says what is new */
	return h->inner->ops->reread(h->inner, offset, len, part);
}

static int held_log(struct fm_file *file, const struct fm_written *written, size_t count,
		    struct fm_err *err)
{
	struct held *h = held_of(file);

	return said(h, h->inner->ops->log(h->inner, written, count, err));
}

static int held_prepare(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct held *h = held_of(file);

	return said(h, h->inner->ops->prepare(h->inner, size, attr, is_durable, err));
}

static int held_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct held *h = held_of(file);

	return said(h, h->inner->ops->publish(h->inner, size, attr, is_durable, err));
}

static void held_discard(struct fm_file *file)
{
	struct held *h = held_of(file);

	h->inner->ops->discard(h->inner);
}

static void held_keep(struct fm_file *file)
{
	struct held *h = held_of(file);

	h->inner->ops->keep(h->inner);
}

static void held_close(struct fm_file *file)
{
	struct held *h = held_of(file);

	h->inner->ops->close(h->inner);
	free(h);
}

static void fill_ops(struct fm_file_ops *out, const struct fm_file_ops *of)
{
	*out = (struct fm_file_ops){
		.read = of->read ? held_read : NULL,
		.write = of->write ? held_write : NULL,
		.cancel = of->cancel ? held_cancel : NULL,
		.next_data = of->next_data ? held_next_data : NULL,
		.check_unchanged = of->check_unchanged ? held_check_unchanged : NULL,
		.acked = of->acked ? held_acked : NULL,
		.why = of->why ? held_why : NULL,
		.begin = of->begin ? held_begin : NULL,
		.make_room = of->make_room ? held_make_room : NULL,
		.reread = of->reread ? held_reread : NULL,
		.log = of->log ? held_log : NULL,
		.prepare = of->prepare ? held_prepare : NULL,
		.publish = of->publish ? held_publish : NULL,
		.discard = of->discard ? held_discard : NULL,
		.keep = of->keep ? held_keep : NULL,
		.close = held_close,
	};
}

int fm_held_file_new(struct fm_holder *holder, struct fm_file **file, struct fm_err *err)
{
	struct fm_file *inner = *file;
	struct held *h;

	if (!holder || inner->is_ours)
		return 0;
	h = fm_sys_alloc(sizeof(*h));
	if (!h || !fm_holder_loop(holder, 0)) {
		free(h);
		inner->ops->close(inner);
		return fm_err_set(err, -ENOMEM, "allocate the file");
	}
	h->inner = inner;
	h->file = *inner;
	fill_ops(&h->ops, inner->ops);
	h->file.ops = &h->ops;
	h->file.giving_up = NULL;
	if (fm_file_set_holder(&h->file, holder, err) < 0) {
		held_close(&h->file);
		return err->code;
	}
	*file = &h->file;
	return 0;
}

/* ---- the end ---- */

/* Made with the file, so that giving it up cannot fail. */
struct fm_giving_up {
	struct fm_work work;
	struct fm_file *file;
	struct fm_holder *holder;
	bool is_kept;
};

int fm_file_set_holder(struct fm_file *file, struct fm_holder *holder, struct fm_err *err)
{
	if (!holder)
		return 0;
	file->giving_up = fm_sys_alloc(sizeof(*file->giving_up));
	if (!file->giving_up)
		return fm_err_set(err, -ENOMEM, "allocate the file");
	file->holder = fm_holder_ref(holder);
	return 0;
}

int fm_file_sync_error(const struct fm_file *file)
{
	return file->tree ? atomic_load(&file->tree->sync_error) : fm_sync_error(&file->sync);
}

void fm_file_close(struct fm_file *file)
{
	struct fm_giving_up *g = file->giving_up;
	struct fm_holder *holder = file->holder;

	file->ops->close(file);
	fm_holder_put(holder);
	free(g);
}

static void give_up_run(struct fm_work *work)
{
	struct fm_giving_up *g = fm_container_of(work, struct fm_giving_up, work);
	struct fm_file *file = g->file;

	if (g->is_kept && file->ops->keep)
		file->ops->keep(file);
	file->ops->close(file);
}

static void give_up_done(struct fm_work *work)
{
	struct fm_giving_up *g = fm_container_of(work, struct fm_giving_up, work);

	fm_holder_put(g->holder);
	free(g);
}

void fm_file_give_up(struct fm_file *file, bool is_kept)
{
	struct fm_giving_up *g = file->giving_up;

	if (!g) {
		if (is_kept && file->ops->keep)
			file->ops->keep(file);
		file->ops->close(file);
		return;
	}
	*g = (struct fm_giving_up){ .work = { .run = give_up_run, .done = give_up_done },
				    .file = file,
				    .holder = file->holder,
				    .is_kept = is_kept };
	fm_holder_work(g->holder, &g->work);
}
