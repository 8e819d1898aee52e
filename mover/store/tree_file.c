/* SPDX-License-Identifier: MIT */
/*
 * tree_file - see tree_file.h.
 *
 * A read: an op from the pool -> a thread fills the buffer -> io->done() on its lane -> the control
 * thread is told, since large files may have been found on the way. A write: the same with apply,
 * of a copy; but an op with an answer waits in `answers` until the control thread has taken that,
 * and is ended on its lane by a task then.
 * Failure: the first error's text is kept for why(); everything that ends behind it has an error of
 * its own. stop() makes the tree's calls end, and drops the answers, so nothing waits for a control
 * thread that has nothing to say any more.
 */
#include "mover/store/tree_file.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/cores.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/base/worker.h"
#include "mover/store/done_list.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"
#include "mover/tree/pack.h"

#define THREADS_MIN 4		/* on few cores they wait for the disk, not for each other */
#define THREADS_MAX 16
/* a directory leaves room for so many with as many threads, itself included */
#define LIKE_IT 8
/* of the budget: its stack, and the buffers of the call that it is in, but the copy */
#define THREAD_BYTES (256u << 10)

struct tree_file;

struct op {
	struct fm_list link;		/* in the pool, or in answers */
	struct tree_file *file;
	struct fm_work work;
	struct fm_task end;		/* of a write whose answer was taken */
	struct fm_loop *loop;		/* the lane's */
	struct fm_io *io;
	bool is_write;
	int64_t res;
	struct fm_tree_answer answer;
};

/* Where a thread has a pack of its own. */
struct copy {
	struct fm_list link;		/* in the list of those that no thread uses */
	size_t cap;
	bool is_of_all;			/* out of all memory, not out of what trees may have */
	_Alignas(max_align_t) uint8_t at[];
};

struct tree_file {
	struct fm_file file;
	struct fm_tree_file_opts o;
	char peer[65];			/* o.who's */
	struct fm_share_held memory;	/* its threads and copies */
	struct fm_worker *worker;
	struct fm_loop *control;	/* NULL: nobody listens yet */
	void (*happened)(void *ctx);
	void *ctx;
	struct fm_task told;
	pthread_mutex_t lock;		/* of what follows */
	struct fm_list pool;		/* ops that are not in use */
	struct fm_list answers;		/* ops with an answer that was not taken */
	struct fm_list copies;		/* that no thread uses */
	unsigned copies_used;
	pthread_cond_t copy_put;
	struct fm_err err;		/* the first */
	bool is_stopped;
	unsigned calls;			/* ops submitted and not run yet */
	uint64_t calls_ended;
	/* Worker calls, one after the other: */
	bool is_prepared;
};

static struct tree_file *file_of(struct fm_file *file)
{
	return fm_container_of(file, struct tree_file, file);
}

static const struct fm_tree_ops *ops_of(const struct tree_file *f)
{
	return f->o.tree->ops;
}

unsigned fm_tree_file_threads(void)
{
	struct fm_cores cores;

	fm_cores_read(&cores);
	return cores.usable < THREADS_MIN   ? THREADS_MIN
	       : cores.usable > THREADS_MAX ? THREADS_MAX
					    : cores.usable;
}

/* ----------------------------------------------------------------------------------- operations */

static struct op *op_take(struct tree_file *f)
{
	struct fm_list *at;

	pthread_mutex_lock(&f->lock);
	at = fm_list_pop(&f->pool);
	pthread_mutex_unlock(&f->lock);
	return at ? fm_container_of(at, struct op, link) : fm_sys_alloc(sizeof(struct op));
}

static void op_put(struct op *op)
{
	struct tree_file *f = op->file;

	pthread_mutex_lock(&f->lock);
	fm_list_append(&f->pool, &op->link);
	pthread_mutex_unlock(&f->lock);
}

/*
 * Ends an operation, on its lane. The file may be gone when this returns, so the op goes back
 * first.
 */
static void op_end(struct op *op)
{
	struct fm_io *io = op->io;

	io->res = op->res;
	op_put(op);
	io->done(io);
}

static void op_end_run(struct fm_task *task)
{
	op_end(fm_container_of(task, struct op, end));
}

static void tell_control(struct tree_file *f)
{
	fm_loop_post(f->control, &f->told);
}

static void keep_error(struct tree_file *f, const struct fm_err *err)
{
	pthread_mutex_lock(&f->lock);
	if (!f->err.code && !f->is_stopped)
		f->err = *err;
	pthread_mutex_unlock(&f->lock);
}

static bool is_stopped(struct tree_file *f)
{
	bool is;

	pthread_mutex_lock(&f->lock);
	is = f->is_stopped;
	pthread_mutex_unlock(&f->lock);
	return is;
}

/* ------------------------------------------------------------------------------ copies of packs */

static bool memory_take(struct tree_file *f, uint64_t bytes)
{
	return fm_budget_take_waiting(f->o.who, bytes, &f->memory);
}

/* Frees a copy. The caller has the lock. */
static void copy_free(struct tree_file *f, struct copy *c)
{
	const size_t bytes = sizeof(*c) + c->cap;

	if (c->is_of_all)
		fm_budget_give(bytes);
	else
		fm_budget_give_waiting(bytes, &f->memory);
	free(c);
}

/*
 * Makes a copy of a pack's size. The caller has the lock. The only copy of a tree comes out of all
 * memory, further ones out of the share of its owner, so that no tree keeps another from going on.
 */
static struct copy *copy_new(struct tree_file *f, size_t cap, bool is_only)
{
	const size_t bytes = sizeof(struct copy) + cap;
	struct copy *c;

	if (!(is_only ? fm_budget_take(bytes) : memory_take(f, bytes)))
		return NULL;
	c = FM_FAULT("tree_file.copy") ? NULL : malloc(bytes);
	if (!c) {
		if (is_only)
			fm_budget_give(bytes);
		else
			fm_budget_give_waiting(bytes, &f->memory);
		return NULL;
	}
	fm_list_init(&c->link);
	c->cap = cap;
	c->is_of_all = is_only;
	return c;
}

/* Gets a copy that no thread uses, or makes one. The caller has the lock. NULL: no memory. */
static struct copy *copy_get(struct tree_file *f, size_t len)
{
	struct fm_list *at;

	while ((at = fm_list_pop(&f->copies))) {
		struct copy *c = fm_container_of(at, struct copy, link);

		if (c->cap >= len)
			return c;
		copy_free(f, c);
	}
	return copy_new(f, len, f->copies_used == 0);
}

/*
 * Gets a copy. If there is no memory, it waits for one that another thread of this tree uses. NULL:
 * there is none.
 */
static struct copy *copy_take(struct tree_file *f, size_t len)
{
	struct copy *c;

	pthread_mutex_lock(&f->lock);
	while (!(c = copy_get(f, len)) && f->copies_used > 0)
		pthread_cond_wait(&f->copy_put, &f->lock);
	f->copies_used += c != NULL;
	if (!c)
		/* nobody has one: the others would wait for ever */
		pthread_cond_broadcast(&f->copy_put);
	pthread_mutex_unlock(&f->lock);
	return c;
}

static void copy_put(struct tree_file *f, struct copy *c)
{
	pthread_mutex_lock(&f->lock);
	fm_list_append(&f->copies, &c->link);
	f->copies_used--;
	pthread_cond_signal(&f->copy_put);
	pthread_mutex_unlock(&f->lock);
}

static void free_copies(struct tree_file *f)
{
	struct fm_list *at;

	while ((at = fm_list_pop(&f->copies)))
		copy_free(f, fm_container_of(at, struct copy, link));
}

/* ----------------------------------------------------------------------------- reads and writes */

/* The result of a call of the tree, whose owner may say its error in another way. */
static int told(const struct tree_file *f, int ret, struct fm_err *err)
{
	if (ret < 0 && f->o.failed)
		f->o.failed(f->o.ctx, err);
	return ret;
}

/*
 * Makes an error complete: with a text, and with no code that means something else to the lanes.
 * -EBADMSG of a write would mean a damaged pack.
 */
static int64_t failed(struct op *op, int64_t code, struct fm_err *err, const char *what)
{
	struct tree_file *f = op->file;

	if (is_stopped(f))
		return -ECANCELED;
	if (code >= 0 || code == -ECANCELED || code == -EAGAIN ||
	    (code == -EBADMSG && op->is_write))
		code = -EIO;
	if (!err->code)
		(void)fm_err_sys(err, (int)code, "%s", what);
	err->code = (int)code;
	told(f, (int)code, err);
	keep_error(f, err);
	return code;
}

static int64_t fill(struct op *op, struct fm_err *err)
{
	struct tree_file *f = op->file;
	int64_t res = ops_of(f)->fill(f->o.tree, op->io->offset, op->io->buf, op->io->len, err);

	if (res == -EAGAIN || (res >= 0 && res <= (int64_t)op->io->len))
		return res;
	return failed(op, res, err, "read the tree");
}

/* Counts what the answer asks for. The tree has looked at every entry before. */
static void count_wanted(const void *pack, size_t len, struct fm_tree_answer *a)
{
	struct fm_pack_reader r;
	struct fm_pack_entry e;

	if (a->count == 0 || fm_pack_open(&r, pack, len) < 0)
		return;
	for (size_t i = 0; i < a->count && fm_pack_next(&r, &e) > 0; i++) {
		if (!(a->bits[i / 8] & 1u << i % 8))
			continue;
		a->wanted_files++;
		a->wanted_bytes += e.size;
	}
}

static int64_t apply_copy(struct op *op, const void *pack, struct fm_err *err)
{
	struct tree_file *f = op->file;
	size_t len = op->io->len;
	int ret;

	memset(&op->answer, 0, sizeof(op->answer));
	op->answer.seq = op->io->offset;
	ret = ops_of(f)->apply(f->o.tree, pack, len, op->answer.bits, &op->answer.count, err);
	if (ret == 0 && op->answer.count <= FM_TREE_OFFERS_MAX) {
		count_wanted(pack, len, &op->answer);
		return (int64_t)len;
	}
	op->answer.count = 0;
	return failed(op, ret, err, "write the tree");
}

static int64_t apply(struct op *op, struct fm_err *err)
{
	struct tree_file *f = op->file;
	const struct fm_io *io = op->io;
	struct copy *c = copy_take(f, io->len);
	int64_t res;

	if (!c)
		return failed(op, -ENOMEM, err, "copy a pack of the tree");
	memcpy(c->at, io->buf, io->len);
	if (io->crc && fm_crc32c(0, c->at, io->len) != *io->crc)
		res = -EBADMSG;
	else
		res = apply_copy(op, c->at, err);
	copy_put(f, c);
	return res;
}

static void op_run(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct fm_err err = { 0 };

	if (is_stopped(op->file))
		op->res = -ECANCELED;
	else
		op->res = op->is_write ? apply(op, &err) : fill(op, &err);
	pthread_mutex_lock(&op->file->lock);
	op->file->calls--;
	op->file->calls_ended++;
	pthread_mutex_unlock(&op->file->lock);
}

/* Whether the operation has an answer that somebody will take. Then it waits for that. */
static bool op_waits(struct op *op)
{
	struct tree_file *f = op->file;
	bool waits;

	if (!op->is_write || op->answer.count == 0)
		return false;
	pthread_mutex_lock(&f->lock);
	waits = !f->is_stopped;
	if (waits)
		fm_list_append(&f->answers, &op->link);
	pthread_mutex_unlock(&f->lock);
	return waits;
}

/* The operation is over; called on its lane. */
static void op_done(struct fm_work *work)
{
	struct op *op = fm_container_of(work, struct op, work);
	struct tree_file *f = op->file;

	if (op_waits(op)) {
		tell_control(f);
		return;
	}
	if (!op->is_write)
		tell_control(f);
	op_end(op);
}

static void op_start(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io,
		     bool is_write)
{
	struct tree_file *f = file_of(file);
	struct op *op = op_take(f);
	struct fm_err err = { 0 };

	assert(f->control && f->o.tree->is_source == !is_write);
	if (!op) {
		(void)fm_err_sys(&err, -ENOMEM, "move a part of the tree");
		keep_error(f, &err);
		fm_done_list_add(lane->done, io, -ENOMEM);
		return;
	}
	fm_list_init(&op->link);
	op->file = f;
	op->loop = lane->loop;
	op->io = io;
	op->is_write = is_write;
	op->answer.count = 0;
	op->end.run = op_end_run;
	op->work.run = op_run;
	op->work.done = op_done;
	pthread_mutex_lock(&f->lock);
	f->calls++;
	pthread_mutex_unlock(&f->lock);
	fm_worker_submit(f->worker, &op->work, lane->loop);
}

static void tree_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	op_start(file, lane, io, false);
}

static void tree_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	op_start(file, lane, io, true);
}

static void tree_acked(struct fm_file *file, uint64_t seq)
{
	struct tree_file *f = file_of(file);

	ops_of(f)->acked(f->o.tree, seq);
}

static void tree_why(struct fm_file *file, struct fm_err *err)
{
	struct tree_file *f = file_of(file);

	pthread_mutex_lock(&f->lock);
	if (f->err.code)
		*err = f->err;
	pthread_mutex_unlock(&f->lock);
}

/* --------------------------------------------------------------------------- the control thread */

static void told_run(struct fm_task *task)
{
	struct tree_file *f = fm_container_of(task, struct tree_file, told);

	f->happened(f->ctx);
}

void fm_tree_file_listen(struct fm_file *file, struct fm_loop *control, void (*happened)(void *ctx),
			 void *ctx)
{
	struct tree_file *f = file_of(file);

	assert(file->tree && !f->control);
	f->control = control;
	f->happened = happened;
	f->ctx = ctx;
	f->told.run = told_run;
}

struct fm_worker *fm_tree_file_worker(struct fm_file *file)
{
	return file_of(file)->worker;
}

unsigned fm_tree_file_calls(struct fm_file *file, uint64_t *ended)
{
	struct tree_file *f = file_of(file);
	unsigned calls;

	pthread_mutex_lock(&f->lock);
	calls = f->calls;
	*ended = f->calls_ended;
	pthread_mutex_unlock(&f->lock);
	return calls;
}

bool fm_tree_file_pop_answer(struct fm_file *file, struct fm_tree_answer *out)
{
	struct tree_file *f = file_of(file);
	struct fm_list *at;
	struct op *op;

	pthread_mutex_lock(&f->lock);
	at = fm_list_pop(&f->answers);
	pthread_mutex_unlock(&f->lock);
	if (!at)
		return false;
	op = fm_container_of(at, struct op, link);
	*out = op->answer;
	fm_loop_post(op->loop, &op->end);
	return true;
}

void fm_tree_file_stop(struct fm_file *file)
{
	struct tree_file *f = file_of(file);
	struct fm_tree_answer answer;

	pthread_mutex_lock(&f->lock);
	f->is_stopped = true;
	pthread_mutex_unlock(&f->lock);
	ops_of(f)->stop(f->o.tree);
	while (fm_tree_file_pop_answer(file, &answer))
		;	/* nobody wants them any more; their writes end */
}

/* -------------------------------------------------------------------------- the engine's worker */

int fm_tree_file_begin(struct fm_file *file, const struct fm_tree_begin *how, struct fm_err *err)
{
	struct tree_file *f = file_of(file);

	return ops_of(f)->begin ? told(f, ops_of(f)->begin(f->o.tree, how, err), err) : 0;
}

static int tree_begin(struct fm_file *file, const struct fm_identity *source, struct fm_have *have,
		      struct fm_err *err)
{
	const struct fm_tree_begin how = { .source = *source };
	int ret = fm_tree_file_begin(file, &how, err);

	(void)have;	/* what is there of each file it says by its answers */
	file->note = file->tree->note;
	return ret;
}

static int tree_log(struct fm_file *file, const struct fm_written *written, size_t count,
		    struct fm_err *err)
{
	struct tree_file *f = file_of(file);

	assert(count == 0);
	(void)written;
	return told(f, ops_of(f)->log(f->o.tree, err), err);
}

static int tree_prepare(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct tree_file *f = file_of(file);
	int ret = told(f, ops_of(f)->prepare(f->o.tree, is_durable, err), err);

	(void)size;
	(void)attr;
	f->is_prepared = ret == 0;
	file->note = file->tree->note;
	return ret;
}

static int tree_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct tree_file *f = file_of(file);
	int ret = f->is_prepared ? 0 : tree_prepare(file, size, attr, is_durable, err);

	if (ret == 0)
		ret = told(f, ops_of(f)->publish(f->o.tree, is_durable, err), err);
	file->note = file->tree->note;
	return ret;
}

static void tree_discard(struct fm_file *file)
{
	ops_of(file_of(file))->discard(file->tree);
}

static void tree_keep(struct fm_file *file)
{
	ops_of(file_of(file))->keep(file->tree);
}

static void free_pool(struct tree_file *f)
{
	struct fm_list *at;

	while ((at = fm_list_pop(&f->pool)))
		free(fm_container_of(at, struct op, link));
}

/* The memory that the threads count for in the budget. A tree of the simulator has none. */
static uint64_t threads_bytes(const struct tree_file *f)
{
	return f->o.threads * (uint64_t)THREAD_BYTES;
}

/*
 * Takes the memory of the threads, of fewer where it is short: on a machine with many processors a
 * few directories would take all of it.
 */
static bool take_threads(struct tree_file *f)
{
	while (f->o.threads > THREADS_MIN &&
	       !fm_budget_may_waiting(f->o.who, LIKE_IT * threads_bytes(f)))
		f->o.threads = f->o.threads / 2 > THREADS_MIN ? f->o.threads / 2 : THREADS_MIN;
	return f->o.threads == 0 || memory_take(f, threads_bytes(f));
}

static void give_threads(struct tree_file *f)
{
	fm_budget_give_waiting(threads_bytes(f), &f->memory);
}

static void take_who(struct tree_file *f, const struct fm_tree_file_opts *opts)
{
	f->o = *opts;
	if (opts->who.name) {
		(void)snprintf(f->peer, sizeof(f->peer), "%s", opts->who.name);
		f->o.who.name = f->peer;
	}
}

static void tree_close(struct fm_file *file)
{
	struct tree_file *f = file_of(file);

	assert(fm_list_is_empty(&f->answers) && !f->told.is_posted);
	fm_worker_free(f->worker);
	ops_of(f)->close(f->o.tree);
	if (f->o.closed)
		f->o.closed(f->o.ctx);
	free_pool(f);
	free_copies(f);
	pthread_cond_destroy(&f->copy_put);
	pthread_mutex_destroy(&f->lock);
	give_threads(f);
	free(f);
}

static const struct fm_file_ops source_ops = {
	.read = tree_read,
	.acked = tree_acked,
	.why = tree_why,
	.close = tree_close,
};

static const struct fm_file_ops sink_ops = {
	.write = tree_write,
	.why = tree_why,
	.begin = tree_begin,
	.log = tree_log,
	.prepare = tree_prepare,
	.publish = tree_publish,
	.discard = tree_discard,
	.keep = tree_keep,
	.close = tree_close,
};

/* Frees a tree that is refused. What an earlier try left stays for one that is not. */
static void refuse(struct fm_tree *tree)
{
	if (!tree->is_source && tree->is_partial)
		tree->ops->keep(tree);
	tree->ops->close(tree);
}

int fm_tree_file_new(const struct fm_tree_file_opts *opts, struct fm_file **out, struct fm_err *err)
{
	struct tree_file *f = FM_FAULT("tree_file.new") ? NULL : calloc(1, sizeof(*f));
	struct fm_tree *tree = opts->tree;
	bool has_threads, could;
	int ret;

	if (f)
		take_who(f, opts);
	has_threads = f && take_threads(f);
	if (!has_threads) {
		could = f && fm_budget_could_waiting(f->o.who, threads_bytes(f));
		refuse(tree);
		free(f);
		return could ? fm_err_full(err, "all memory for directories is taken, or too much "
						"of it by others of yours")
			     : fm_err_set(err, -ENOMEM, "no memory for a directory");
	}
	ret = fm_worker_new(f->o.threads, &f->worker, err);
	if (ret < 0) {
		refuse(tree);
		give_threads(f);
		free(f);
		return ret;
	}
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->copy_put, NULL);
	fm_list_init(&f->copies);
	fm_list_init(&f->pool);
	fm_list_init(&f->answers);
	f->file.ops = tree->is_source ? &source_ops : &sink_ops;
	f->file.tree = tree;
	f->file.may_stand = tree->is_callers;
	f->file.note = tree->note;
	*out = &f->file;
	return 0;
}
