/* SPDX-License-Identifier: MIT */
/* served - see served.h. */
#include "staging/service/served.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/list.h"
#include "mover/base/worker.h"
#include "mover/tree/channel.h"
#include "mover/tree/tree.h"

_Static_assert(FM_SERVED_READ == FM_CHANNEL_PACK_MAX, "a pack fits into the memory for a read");

enum what { BEGIN, FILL, READ, STAT, CLOSE };

struct fm_served {
	struct fm_tree tree;		/* what is read here */
	struct fm_tree *there;		/* what the caller serves; the holder's */
	struct fm_holder *holder;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned refs;
	bool is_cancelled;
	bool is_busy;			/* work is there, or its done() still to come */
	uint8_t *buf;			/* FM_SERVED_READ, from the first call that needs it on */
	/* One call, which reads and writes nothing but this: who waits for it may be gone. */
	struct fm_work work;
	enum what what;
	struct fm_tree_begin how;
	uint64_t number;		/* of a pack; where to read */
	size_t len;
	int fd;
	struct stat st;
	struct fm_err err;
	int64_t ret;
};

/* ---- there ---- */

static void *get_buf(struct fm_served *s)
{
	if (!s->buf)
		s->buf = FM_FAULT("served.buf") ? NULL : fm_budget_alloc(FM_SERVED_READ);
	return s->buf;
}

static int64_t fill_there(struct fm_served *s)
{
	if (!get_buf(s))
		return fm_err_set(&s->err, -ENOMEM, "no memory to read what the caller serves");
	return s->there->ops->fill(s->there, s->number, s->buf, s->len, &s->err);
}

static void run(struct fm_work *work)
{
	struct fm_served *s = fm_container_of(work, struct fm_served, work);

	fm_err_clear(&s->err);
	switch (s->what) {
	case BEGIN:
		s->ret = s->there->ops->begin(s->there, &s->how, &s->err);
		break;
	case FILL:
		s->ret = fill_there(s);
		break;
	case READ:
		s->ret = get_buf(s) ? fm_call_read_all(s->fd, s->buf, s->len, s->number) : -ENOMEM;
		break;
	case STAT:
		s->ret = fm_call(fstat(s->fd, &s->st));
		break;
	case CLOSE:
		s->there->ops->close(s->there);
		break;
	}
}

static void submit(struct fm_served *s, enum what what);

static void free_served(struct fm_served *s)
{
	fm_budget_free(s->buf);
	fm_holder_put(s->holder);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Control thread. A call that nobody awaits any more may be the last thing that s was kept for. */
static void done(struct fm_work *work)
{
	struct fm_served *s = fm_container_of(work, struct fm_served, work);
	bool is_left;

	if (s->what == CLOSE) {
		free_served(s);
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->is_busy = false;
	is_left = s->refs == 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (is_left)
		submit(s, CLOSE);
}

static void submit(struct fm_served *s, enum what what)
{
	s->what = what;
	s->work = (struct fm_work){ .run = run, .done = done };
	fm_holder_work(s->holder, &s->work);
}

/* ---- here ---- */

/* The arguments are set. The result of the call, or -ECANCELED. */
static int64_t call(struct fm_served *s, enum what what, struct fm_err *err)
{
	int64_t ret = -ECANCELED;
	bool is_ours;

	pthread_mutex_lock(&s->lock);
	is_ours = !s->is_cancelled && !s->is_busy;
	if (is_ours) {
		s->is_busy = true;
		submit(s, what);
	}
	while (s->is_busy && !s->is_cancelled)
		pthread_cond_wait(&s->changed, &s->lock);
	if (is_ours && !s->is_busy)
		ret = s->ret;
	pthread_mutex_unlock(&s->lock);
	if (ret == -ECANCELED)
		return err ? fm_err_set(err, -ECANCELED, "no longer waited for") : -ECANCELED;
	if (ret < 0 && err)
		*err = s->err;
	return ret;
}

static struct fm_served *served_of(struct fm_tree *t)
{
	return fm_container_of(t, struct fm_served, tree);
}

/* A call that was given up still has its arguments: they are the next one's if there is none. */
static bool is_free(struct fm_served *s)
{
	bool is;

	pthread_mutex_lock(&s->lock);
	is = !s->is_cancelled && !s->is_busy;
	pthread_mutex_unlock(&s->lock);
	return is;
}

static int begin(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err)
{
	struct fm_served *s = served_of(t);

	if (is_free(s))
		s->how = *how;
	return (int)call(s, BEGIN, err);
}

static int64_t fill(struct fm_tree *t, uint64_t seq, void *buf, size_t len, struct fm_err *err)
{
	struct fm_served *s = served_of(t);
	int64_t n;

	if (is_free(s)) {
		s->number = seq;
		s->len = len < FM_SERVED_READ ? len : FM_SERVED_READ;
	}
	n = call(s, FILL, err);
	if (n > 0)
		memcpy(buf, s->buf, (size_t)n);
	return n;
}

static void acked(struct fm_tree *t, uint64_t seq)
{
	struct fm_tree *there = served_of(t)->there;

	there->ops->acked(there, seq);
}

static int need(struct fm_tree *t, uint64_t seq, const uint8_t *bits, size_t count,
		struct fm_err *err)
{
	struct fm_tree *there = served_of(t)->there;

	return there->ops->need(there, seq, bits, count, err);
}

static int next_large(struct fm_tree *t, struct fm_tree_large *out)
{
	struct fm_tree *there = served_of(t)->there;

	return there->ops->next_large(there, out);
}

int64_t fm_served_read(struct fm_served *s, int fd, uint64_t at, size_t len, const uint8_t **out)
{
	int64_t n;

	assert(len <= FM_SERVED_READ);
	if (is_free(s)) {
		s->fd = fd;
		s->number = at;
		s->len = len;
	}
	n = call(s, READ, NULL);
	*out = s->buf;
	return n;
}

int fm_served_stat(struct fm_served *s, int fd, struct stat *out)
{
	int ret;

	if (is_free(s))
		s->fd = fd;
	ret = (int)call(s, STAT, NULL);
	if (ret == 0)
		*out = s->st;
	return ret;
}

void fm_served_drop(struct fm_served *s, int fd)
{
	fm_holder_close(s->holder, &fd, 1);
}

/* ---- the whole ---- */

const void *fm_served_may_await(const struct fm_served *s)
{
	return s->holder;
}

struct fm_tree *fm_served_tree(struct fm_served *s)
{
	return &s->tree;
}

void fm_served_cancel(struct fm_served *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	if (!s->is_cancelled)
		s->there->ops->stop(s->there);
	s->is_cancelled = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

struct fm_served *fm_served_ref(struct fm_served *s)
{
	if (!s)
		return NULL;
	pthread_mutex_lock(&s->lock);
	s->refs++;
	pthread_mutex_unlock(&s->lock);
	return s;
}

void fm_served_put(struct fm_served *s)
{
	bool is_last;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->refs--;
	is_last = s->refs == 0 && !s->is_busy;
	pthread_mutex_unlock(&s->lock);
	if (is_last)
		submit(s, CLOSE);
}

int fm_served_new(struct fm_holder *holder, const int *fds, unsigned count, struct fm_served **out,
		  struct fm_err *err)
{
	static const struct fm_tree_ops ops = { .begin = begin, .fill = fill, .acked = acked,
						.need = need, .next_large = next_large };
	const struct fm_tree_remote_opts remote = { .is_source = true, .fds = fds, .count = count,
						    .holder = holder };
	struct fm_tree *there;
	struct fm_served *s;
	int ret = fm_tree_remote_new(&remote, &there, err);

	if (ret < 0)
		return ret;
	there->is_callers = true;
	s = FM_FAULT("served.new") ? NULL : calloc(1, sizeof(*s));
	if (!s) {
		there->ops->close(there);
		return fm_err_set(err, -ENOMEM, "no memory to read what the caller serves");
	}
	s->tree = (struct fm_tree){ .ops = &ops, .is_source = true };
	s->there = there;
	s->holder = fm_holder_ref(holder);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->refs = 1;
	*out = s;
	return 0;
}
