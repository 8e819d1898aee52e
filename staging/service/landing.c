/* SPDX-License-Identifier: MIT */
/* landing - see landing.h. Places are made and dropped on the loop, found and written by others. */
#include "staging/service/landing.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/store/done_list.h"
#include "staging/chunk.h"

#define HUGE_PAGE (2u << 20)

struct fm_landing {
	struct fm_store store;
	struct fm_engine *engine;
	pthread_mutex_t lock;		/* of the list, and of is_taken, is_dropped */
	struct fm_list places;		/* those that are awaited */
	unsigned count;			/* loop: that are not freed */
};

struct fm_landing_place {
	struct fm_list at;
	struct fm_landing *landing;
	char path[FM_LANDING_PATH_MAX];
	char from[FM_WIRE_NAME_MAX + 1];
	uint64_t bytes, bytes_max;
	bool is_taken;			/* a put has begun */
	bool is_dropped;
	void (*ended)(void *ctx, struct fm_landed *b, uint32_t crc, int code);
	void *ctx;
	_Atomic uint64_t came;		/* bytes, what came twice twice */
	/* The put's, then what is told: */
	struct fm_landed *landed;
	uint32_t crc;
	int code;
	struct fm_task task;
};

/* ---- memory ---- */

/*
 * For direct I/O; in huge pages, as far as it fills them: an extent is new memory each time, and
 * 4,096 small pages of it take longer than its CRC.
 */
static uint8_t *memory_of(size_t len)
{
	size_t huge = len / HUGE_PAGE * HUGE_PAGE;
	/* The standard wants a multiple; what is too much is never touched. */
	uint8_t *at = huge > 0 ? aligned_alloc(HUGE_PAGE, len == huge ? len : huge + HUGE_PAGE)
			       : aligned_alloc(FM_BLOCK, fm_block_up(len));

	if (at && huge > 0)
		(void)madvise(at, huge, MADV_HUGEPAGE); /* advice */
	if (at && huge > 0 && huge < len) /* a whole one would be more than was taken */
		(void)madvise(at + huge, HUGE_PAGE, MADV_NOHUGEPAGE);
	return at;
}

struct fm_landed *fm_landed_of_taken(size_t len)
{
	struct fm_landed *b = FM_FAULT("stage.landed") ? NULL : calloc(1, sizeof(*b));

	if (b)
		b->at = memory_of(len);
	if (!b || !b->at) {
		free(b);
		fm_budget_give(len);
		return NULL;
	}
	b->len = len;
	atomic_init(&b->refs, 1);
	return b;
}

struct fm_landed *fm_landed_new(size_t len)
{
	return fm_budget_take_leaving(len, FM_STAGE_LEFT) ? fm_landed_of_taken(len) : NULL;
}

struct fm_landed *fm_landed_get(struct fm_landed *b)
{
	atomic_fetch_add(&b->refs, 1);
	return b;
}

void fm_landed_put(struct fm_landed *b)
{
	if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
		return;
	fm_budget_give(b->len);
	free(b->at);
	free(b);
}

/* ---- the files ---- */

struct file {
	struct fm_file file;
	struct fm_landed *b;
	struct fm_landing_place *place;	/* a sink's */
};

static struct file *file_of(struct fm_file *f)
{
	return fm_container_of(f, struct file, file);
}

static void source_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	const struct fm_landed *b = file_of(file)->b;
	size_t left = io->offset < b->len ? b->len - io->offset : 0;
	size_t len = io->len < left ? io->len : left;

	if (len > 0)
		memcpy(io->buf, b->at + io->offset, len);
	fm_done_list_add(lane->done, io, (int64_t)len);
}

static void source_close(struct fm_file *file)
{
	fm_landed_put(file_of(file)->b);
	free(file_of(file));
}

static bool is_dropped(struct fm_landing_place *p)
{
	bool is;

	pthread_mutex_lock(&p->landing->lock);
	is = p->is_dropped;
	pthread_mutex_unlock(&p->landing->lock);
	return is;
}

static void sink_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct file *f = file_of(file);
	int64_t res = io->len;

	if (is_dropped(f->place))
		res = -ECANCELED;
	else if (io->offset > f->b->len || io->len > f->b->len - io->offset)
		res = -EFBIG;
	else
		memcpy(f->b->at + io->offset, io->buf, io->len);
	if (res >= 0)
		atomic_fetch_add(&f->place->came, io->len);
	fm_done_list_add(lane->done, io, res);
}

static int sink_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct file *f = file_of(file);

	(void)attr;
	(void)is_durable;
	if (size != f->b->len)
		return fm_err_set(err, -EBADMSG, "an extent of another size");
	if (is_dropped(f->place))
		return fm_err_set(err, -ECANCELED, "the extent is not wanted any more");
	f->place->crc = fm_crc32c(0, f->b->at, f->b->len);
	f->place->code = 0;
	return 0;
}

static void sink_discard(struct fm_file *file)
{
	(void)file;	/* close() tells */
}

static void tell(struct fm_landing_place *p)
{
	fm_loop_post(p->landing->engine->env.loop, &p->task);
}

static void sink_close(struct fm_file *file)
{
	struct file *f = file_of(file);

	f->place->landed = f->b;
	tell(f->place);
	free(f);
}

static const struct fm_file_ops source_ops = { .read = source_read, .close = source_close };
static const struct fm_file_ops sink_ops = { .write = sink_write, .publish = sink_publish,
					     .discard = sink_discard, .close = sink_close };

static struct file *file_new(const struct fm_file_ops *ops, struct fm_landed *b)
{
	struct file *f = FM_FAULT("stage.landing") ? NULL : calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->file.ops = ops;
	f->file.is_instant = true;
	f->file.is_ours = true;
	f->b = b;
	return f;
}

int fm_landed_source(struct fm_landed *b, struct fm_file **out, struct fm_attr *attr,
		     struct fm_err *err)
{
	struct file *f = file_new(&source_ops, b);

	if (!f)
		return fm_err_set(err, -ENOMEM, "no memory to send an extent");
	(void)fm_landed_get(b);
	*attr = (struct fm_attr){ .type = FM_NODE_FILE, .size = b->len, .mode = 0600 };
	*out = &f->file;
	return 0;
}

/* ---- the store ---- */

static struct fm_landing *landing_of(struct fm_store *s)
{
	return fm_container_of(s, struct fm_landing, store);
}

/* Finds the place that was prepared for a put, and gives it to this put alone. */
static struct fm_landing_place *take(struct fm_landing *l, const char *path,
				     const struct fm_who *who, uint64_t size)
{
	struct fm_landing_place *found = NULL;

	pthread_mutex_lock(&l->lock);
	fm_list_each(at, next, &l->places) {
		struct fm_landing_place *p = fm_container_of(at, struct fm_landing_place, at);

		if (strcmp(p->path, path) != 0 || !who->peer || strcmp(p->from, who->peer) != 0 ||
		    p->is_taken || size == 0 || size > p->bytes_max ||
		    (p->bytes > 0 && size != p->bytes))
			continue;
		p->is_taken = true;
		found = p;
	}
	pthread_mutex_unlock(&l->lock);
	return found;
}

static int create(struct fm_store *s, const char *path, const struct fm_who *who,
		  const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	struct fm_landing_place *p = take(landing_of(s), path, who, how->size);
	struct fm_landed *b;
	struct file *f;

	if (!p)
		return fm_err_set(err, -ENOENT, "nobody awaits that extent");
	b = fm_landed_new((size_t)how->size);
	f = b ? file_new(&sink_ops, b) : NULL;
	if (!f) {
		fm_landed_put(b);
		p->code = -ENOMEM;
		tell(p);
		return fm_err_set(err, -ENOMEM, "no memory for an extent");
	}
	f->place = p;
	f->file.has_fixed_size = true;
	*out = &f->file;
	return 0;
}

static int refuse(struct fm_err *err)
{
	return fm_err_set(err, -EACCES, "it is for extents only");
}

static int no_source(struct fm_store *s, const char *path, const struct fm_who *who,
		     struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)out, (void)attr;
	return refuse(err);
}

static int no_stat(struct fm_store *s, const char *path, const struct fm_who *who,
		   struct fm_attr *attr, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)attr;
	return refuse(err);
}

static int no_list(struct fm_store *s, const char *path, const struct fm_who *who,
		   const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
		   struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)opts, (void)out, (void)count;
	return refuse(err);
}

static int no_remove(struct fm_store *s, const char *path, const struct fm_who *who,
		     bool is_recursive, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)is_recursive;
	return refuse(err);
}

static int no_space(struct fm_store *s, const struct fm_who *who, struct fm_store_space *out,
		    struct fm_err *err)
{
	(void)s, (void)who, (void)out;
	return refuse(err);
}

static int no_mkdir(struct fm_store *s, const char *path, const struct fm_who *who,
		    struct fm_err *err)
{
	(void)s, (void)path, (void)who;
	return refuse(err);
}

static void free_store(struct fm_store *s)
{
	struct fm_landing *l = landing_of(s);

	pthread_mutex_destroy(&l->lock);
	free(l);
}

static const struct fm_store_ops landing_ops = {
	.open_source = no_source, .create = create, .stat = no_stat, .list = no_list,
	.remove = no_remove, .space = no_space, .mkdir = no_mkdir, .free = free_store,
};

/* ---- places ---- */

int fm_landing_new(struct fm_engine *engine, struct fm_landing **out, struct fm_err *err)
{
	struct fm_landing *l = FM_FAULT("stage.landing") ? NULL : calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return fm_err_set(err, -ENOMEM, "allocate the place where extents come");
	l->engine = engine;
	l->store.ops = &landing_ops;
	l->store.is_hidden = true;
	(void)snprintf(l->store.name, sizeof(l->store.name), "%s", FM_LANDING_STORE);
	pthread_mutex_init(&l->lock, NULL);
	fm_list_init(&l->places);
	ret = fm_engine_set_store(engine, &l->store, err);
	if (ret == 0)
		*out = l;
	return ret;
}

void fm_landing_path(const uint8_t *run, unsigned slot, uint32_t extent,
		     char out[static FM_LANDING_PATH_MAX])
{
	size_t n = 0;

	for (unsigned i = 0; i < FM_WIRE_STAGE_RUN_LEN; i++, n += 2)
		(void)snprintf(out + n, FM_LANDING_PATH_MAX - n, "%02x", run[i]);
	(void)snprintf(out + n, FM_LANDING_PATH_MAX - n, "/%u/%u", slot, extent);
}

static void unlist(struct fm_landing_place *p)
{
	pthread_mutex_lock(&p->landing->lock);
	fm_list_del(&p->at);
	p->is_dropped = true;
	pthread_mutex_unlock(&p->landing->lock);
}

static void free_place(struct fm_landing_place *p)
{
	struct fm_engine *engine = p->landing->engine;

	p->landing->count--;
	fm_landed_put(p->landed);
	free(p);
	fm_engine_check_stopped(engine);
}

static void told(struct fm_task *task)
{
	struct fm_landing_place *p = fm_container_of(task, struct fm_landing_place, task);
	bool is_awaited = !p->is_dropped;	/* this thread alone sets it */

	if (is_awaited) {
		unlist(p);
		p->ended(p->ctx, p->landed, p->crc, p->code);
	}
	free_place(p);
}

struct fm_landing_place *fm_landing_expect(struct fm_landing *l, const struct fm_landing_opts *o)
{
	struct fm_landing_place *p = FM_FAULT("stage.landing") ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->landing = l;
	fm_landing_path(o->run, o->slot, o->extent, p->path);
	(void)snprintf(p->from, sizeof(p->from), "%s", o->from);
	p->bytes = o->bytes;
	p->bytes_max = o->bytes_max;
	p->ended = o->ended;
	p->ctx = o->ctx;
	p->code = -EIO;		/* as long as it was not published */
	p->task.run = told;
	l->count++;
	pthread_mutex_lock(&l->lock);
	fm_list_append(&l->places, &p->at);
	pthread_mutex_unlock(&l->lock);
	return p;
}

uint64_t fm_landing_came(const struct fm_landing_place *p)
{
	return atomic_load(&p->came);
}

void fm_landing_drop(struct fm_landing_place *p)
{
	unlist(p);
	if (!p->is_taken)	/* out of the list nobody takes it */
		free_place(p);
}

unsigned fm_landing_count(const struct fm_landing *l)
{
	return l->count;
}
