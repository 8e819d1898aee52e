/* SPDX-License-Identifier: MIT */
/*
 * channel_serve - the caller's end of a channel: threads, one for each socket, that carry out with
 * a real tree what the daemon asks for.
 *
 * A thread reads an ask, does it, answers, until its socket ends; then the tree is stopped and the
 * other sockets are ended too, so that all of them come home soon. One more tells the daemon that
 * we live, until all of them have (channel_pulse.h).
 *
 * A child that is forked meanwhile has none of the threads, and copies of all descriptors. To shut
 * one down there, or to discard the tree, would do it to the parent; to hold them would hide the
 * parent's end from the daemon, and from who waits for the lock of a sink. So the child closes its
 * copies at once, and leaves all else alone.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/tree/channel.h"
#include "mover/tree/channel_io.h"
#include "mover/tree/channel_msg.h"
#include "mover/tree/channel_pulse.h"

#define LINES FM_CHANNEL_SOCKETS_MAX
/* taken by use only */
#define MEMORY_LEN ((size_t)FM_CHANNEL_PULSE_AT + sizeof(atomic_uint_fast64_t))

struct line {
	struct fm_channel *channel;
	int socket;
	uint8_t *pack;			/* its part of the memory */
	/* FM_CHANNEL_PACK_MAX: of what is to be applied; NULL: nothing was yet */
	uint8_t *copy;
	pthread_t thread;
	uint8_t in[FM_CHANNEL_ASK_MAX];
	uint8_t out[FM_CHANNEL_ANSWER_MAX];
	struct fm_tree_large larges[FM_CHANNEL_LARGES_MAX];	/* of the answer */
	struct fm_channel_ask ask;
};

struct fm_channel {
	struct fm_tree *tree;
	int fds[1 + LINES];		/* the memory, then the daemon's ends; -1: closed */
	uint8_t *memory;
	struct line *lines[LINES];
	unsigned lines_count;
	unsigned threads;
	struct fm_channel_pulse *pulse;
	atomic_uint_fast64_t serial;	/* of answers */
	atomic_bool is_begun;
	atomic_bool is_published;
	pthread_mutex_t lock;
	bool has_stash;
	struct fm_tree_large stash;	/* one that had no room in an answer */
	struct fm_list in_channels;
	bool is_forked;			/* we are a child */
};

/* ---- fork() ---- */

/* All of this process. fork() waits until no thread has the lock. */
static pthread_mutex_t channels_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fm_list channels = {&channels, &channels};

/* The number goes first: another thread may fork in between, and the descriptor may be somebody
 * else's by then. */
static void close_known(int *fd)
{
	int was = *fd;

	*fd = -1;
	if (was >= 0)
		(void)close(was);
}

/* The daemon has its own, or needs none. */
static void close_passed(struct fm_channel *c)
{
	for (unsigned i = 0; i < 1 + LINES; i++)
		close_known(&c->fds[i]);
}

static void before_fork(void)
{
	pthread_mutex_lock(&channels_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&channels_lock);
}

static void after_fork_in_child(void)
{
	fm_list_each(at, next, &channels) {
		struct fm_channel *c = fm_container_of(at, struct fm_channel, in_channels);

		c->is_forked = true;
		close_passed(c);
		for (unsigned i = 0; i < c->lines_count; i++)
			close_known(&c->lines[i]->socket);
		if (c->tree->ops->forked)
			c->tree->ops->forked(c->tree);
		fm_list_del(&c->in_channels);
	}
	after_fork();
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork,
			     after_fork_in_child);	/* without memory: not */
}

static void list_add(struct fm_channel *c)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, watch_forks);
	pthread_mutex_lock(&channels_lock);
	fm_list_append(&channels, &c->in_channels);
	pthread_mutex_unlock(&channels_lock);
}

static void list_remove(struct fm_channel *c)
{
	pthread_mutex_lock(&channels_lock);
	fm_list_del(&c->in_channels);
	pthread_mutex_unlock(&channels_lock);
}

/* ---- large files that were found ---- */

/* 1: the next one. 0: there is none. */
static int take_large(struct fm_channel *c, struct fm_tree_large *out)
{
	int ret = 1;

	pthread_mutex_lock(&c->lock);
	if (c->has_stash)
		*out = c->stash;
	else
		ret = c->tree->ops->next_large(c->tree, out);
	c->has_stash = false;
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* Whether there is one more; it stays. */
static bool has_large(struct fm_channel *c)
{
	bool has;

	pthread_mutex_lock(&c->lock);
	if (!c->has_stash)
		c->has_stash = c->tree->ops->next_large(c->tree, &c->stash) > 0;
	has = c->has_stash;
	pthread_mutex_unlock(&c->lock);
	return has;
}

/* As many as there is room for; returns how many came. */
static unsigned add_larges(struct line *l, struct fm_channel_answer *a, struct fm_channel_fds *fds)
{
	unsigned before = a->larges_count;

	while (a->larges_count < l->ask.larges &&
	       take_large(l->channel, &l->larges[a->larges_count])) {
		fds->at[fds->count++] = l->larges[a->larges_count].fd;
		a->larges_count++;
	}
	return a->larges_count - before;
}

/* ---- source ---- */

static int take_news(struct line *l, struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;
	int ret = 0;

	for (unsigned i = 0; i < l->ask.acks_count; i++)
		t->ops->acked(t, l->ask.acks[i]);
	for (unsigned i = 0; i < l->ask.needs_count && ret == 0; i++)
		ret = t->ops->need(t, l->ask.needs[i].seq, l->ask.needs[i].bits,
				   l->ask.needs[i].count, err);
	return ret;
}

static int64_t do_fill(struct line *l, struct fm_channel_answer *a, struct fm_channel_fds *fds,
		       struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;
	int64_t ret = take_news(l, err);

	if (ret < 0)
		return ret;
	a->larges = l->larges;
	(void)add_larges(l, a, fds);
	do {	/* room that is made here is used here */
		ret = t->ops->fill(t, l->ask.seq, l->pack, l->ask.len, err);
	} while (add_larges(l, a, fds) > 0 && ret == -EAGAIN);
	if ((ret == 0 || ret == -EAGAIN) && has_large(l->channel)) {
		a->flags |= FM_CHANNEL_MORE;
		ret = -EAGAIN;
	}
	if (ret < 0 && ret != -EAGAIN) {
		a->larges_count = 0;
		fm_channel_close_fds(fds);
	}
	return ret;
}

/* ---- sink ---- */

static int do_apply(struct line *l, struct fm_channel_answer *a, struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;
	size_t count = 0;
	int ret;

	if (!l->copy)
		l->copy = FM_FAULT("channel.pack") ? NULL : malloc(FM_CHANNEL_PACK_MAX);
	if (!l->copy)
		return fm_err_set(err, -ENOMEM, "no memory for a part of the tree");
	memcpy(l->copy, l->pack, l->ask.len);	/* the daemon can still write there */
	ret = t->ops->apply(t, l->copy, l->ask.len, a->need.bits, &count, err);
	a->need.count = ret == 0 ? (uint16_t)count : 0;
	return ret;
}

static int do_create_large(struct line *l, struct fm_channel_answer *a, struct fm_channel_fds *fds,
			   struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;
	int ret;

	ret = t->ops->create_large(t, &l->ask.large, &fds->at[0], &a->have, err);
	fds->count = ret == 0 ? 1 : 0;
	return ret;
}

static int do_seal_large(struct line *l, const struct fm_channel_fds *passed, struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;

	if (passed->count != 1)
		return fm_err_set(err, -EPROTO,
				  "a large file is complete, and it is not said which");
	return t->ops->seal_large(t, &l->ask.large, passed->at[0],
				  l->ask.has_digest ? &l->ask.digest : NULL, err);
}

static int do_publish(struct line *l, struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;
	int ret = t->ops->publish(t, (l->ask.flags & FM_CHANNEL_DURABLE) != 0, err);

	if (ret == 0)
		atomic_store(&l->channel->is_published, true);
	return ret;
}

/* ---- both ---- */

static int do_begin(struct line *l, struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;
	const struct fm_tree_begin how = {
		.is_offering = (l->ask.flags & FM_CHANNEL_OFFERING) != 0,
		.has_checksums = (l->ask.flags & FM_CHANNEL_CHECKSUMS) != 0,
		.has_owners = (l->ask.flags & FM_CHANNEL_OWNERS) != 0,
		.is_dry = (l->ask.flags & FM_CHANNEL_DRY) != 0,
		.source = l->ask.identity,
	};

	int ret = t->ops->begin ? t->ops->begin(t, &how, err) : 0;

	if (ret == 0)
		atomic_store(&l->channel->is_begun, true);
	return ret;
}

/* Whether an end of this kind is asked that: one that is not has no such function. */
static bool is_for(const struct fm_tree *t, enum fm_channel_op op)
{
	return op == FM_CHANNEL_BEGIN || t->is_source == (op == FM_CHANNEL_FILL);
}

static int64_t carry_out(struct line *l, struct fm_channel_answer *a,
			 const struct fm_channel_fds *passed, struct fm_channel_fds *fds,
			 struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;

	if (!is_for(t, l->ask.op))
		return fm_err_set(err, -EPROTO, "this end of a tree cannot do that");
	switch (l->ask.op) {
	case FM_CHANNEL_BEGIN:
		return do_begin(l, err);
	case FM_CHANNEL_FILL:
		return do_fill(l, a, fds, err);
	case FM_CHANNEL_APPLY:
		return do_apply(l, a, err);
	case FM_CHANNEL_CREATE_LARGE:
		return do_create_large(l, a, fds, err);
	case FM_CHANNEL_SEAL_LARGE:
		return do_seal_large(l, passed, err);
	case FM_CHANNEL_WROTE_LARGE:
		return t->ops->wrote_large(t, &l->ask.entry, err);
	case FM_CHANNEL_LOG:
		return t->ops->log(t, err);
	case FM_CHANNEL_PREPARE:
		return t->ops->prepare(t, (l->ask.flags & FM_CHANNEL_DURABLE) != 0, err);
	case FM_CHANNEL_PUBLISH:
		return do_publish(l, err);
	}
	abort();	/* the decoder knows no others */
}

/* Fills in the fields that every answer has. */
static void add_common(struct line *l, struct fm_channel_answer *a, const struct fm_err *err)
{
	struct fm_tree *t = l->channel->tree;
	const char *note = __atomic_load_n(&t->note, __ATOMIC_ACQUIRE);

	a->op = l->ask.op;
	a->tag = l->ask.tag;
	a->flags |= (t->is_partial ? FM_CHANNEL_PARTIAL : 0) |
		    (t->has_owners ? FM_CHANNEL_OWNERS : 0) |
		    (atomic_load(&t->sync_error) ? FM_CHANNEL_LOST : 0);
	a->serial = atomic_fetch_add(&l->channel->serial, 1) + 1;
	t->ops->count(t, &a->count);
	a->text = err->text;
	a->text_len = a->ret < 0 ? strlen(err->text) : 0;
	a->note = note ? note : "";
	a->note_len = strnlen(a->note, FM_CHANNEL_NOTE_MAX);
}

static int answer(struct line *l, const struct fm_channel_fds *passed)
{
	struct fm_channel_answer a = { .ret = 0 };
	struct fm_channel_fds fds = { .count = 0 };
	struct fm_err err = { 0 };
	size_t len;
	int ret;

	a.ret = carry_out(l, &a, passed, &fds, &err);
	add_common(l, &a, &err);
	len = fm_channel_put_answer(&a, l->out);
	ret = len > 0 ? fm_channel_send(l->socket, l->out, len, &fds) : -EINVAL;
	fm_have_free(&a.have);
	fm_channel_close_fds(&fds);
	return ret;
}

/* Ends the channel: every thread that serves a line returns. Any thread. */
static void quit(struct fm_channel *c)
{
	c->tree->ops->stop(c->tree);
	for (unsigned i = 0; i < c->lines_count; i++)
		(void)shutdown(c->lines[i]->socket, SHUT_RDWR);	/* one that has ended is as good */
}

static void *serve(void *arg)
{
	struct line *l = arg;
	struct fm_channel_fds passed;
	int n, ret = 0;

	while (ret == 0) {
		n = fm_channel_receive(l->socket, l->in, sizeof(l->in), &passed);
		if (n <= 0)
			break;
		ret = fm_channel_get_ask(l->in, (size_t)n, &l->ask);
		if (ret == 0)
			ret = answer(l, &passed);
		fm_channel_close_fds(&passed);
	}
	quit(l->channel);
	return NULL;
}

/* ---- making one ---- */

/* A descriptor is made and noted at once for fork(): a child closes all that are noted. */
static int make_memory(struct fm_channel *c, struct fm_err *err)
{
	pthread_mutex_lock(&channels_lock);
	c->fds[0] = FM_FAULT("channel.memory")
			    ? (errno = EMFILE, -1)
			    : memfd_create("fmove-tree", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	pthread_mutex_unlock(&channels_lock);
	if (c->fds[0] < 0 || ftruncate(c->fds[0], (off_t)MEMORY_LEN) < 0 ||
	    fcntl(c->fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return fm_err_sys(err, -errno, "make memory to share with fmoved");
	c->memory = FM_FAULT("channel.map") ? MAP_FAILED
					    : mmap(NULL, MEMORY_LEN, PROT_READ | PROT_WRITE,
						   MAP_SHARED, c->fds[0], 0);
	if (c->memory == MAP_FAILED) {
		c->memory = NULL;
		return fm_err_set(err, -ENOMEM, "map memory to share with fmoved");
	}
	return 0;
}

/* The same of a line's two. -errno. */
static int add_sockets(struct fm_channel *c, struct line *l)
{
	int pair[2], ret = 0;

	pthread_mutex_lock(&channels_lock);
	if (FM_FAULT("channel.socket"))
		ret = -EMFILE;
	else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		ret = -errno;
	if (ret == 0) {
		l->socket = pair[0];
		c->fds[1 + c->lines_count] = pair[1];
		c->lines[c->lines_count++] = l;
	}
	pthread_mutex_unlock(&channels_lock);
	return ret;
}

static int add_line(struct fm_channel *c, struct fm_err *err)
{
	struct line *l;
	int ret;

	l = FM_FAULT("channel.line") ? NULL : malloc(sizeof(*l));
	if (!l)
		return fm_err_set(err, -ENOMEM, "no memory for a channel");
	l->channel = c;
	l->pack = c->memory + (size_t)c->lines_count * FM_CHANNEL_PACK_MAX;
	l->copy = NULL;
	ret = add_sockets(c, l);
	if (ret == 0)
		return 0;
	free(l);
	return fm_err_sys(err, ret, "make sockets for a channel");
}

static int start_threads(struct fm_channel *c, struct fm_err *err)
{
	sigset_t all, saved;
	int ret = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	while (ret == 0 && c->threads < c->lines_count) {
		struct line *l = c->lines[c->threads];

		ret = FM_FAULT("channel.thread") ? EAGAIN
						 : pthread_create(&l->thread, NULL, serve, l);
		c->threads += ret == 0;
	}
	ret = ret == 0 ? fm_channel_pulse_new(
				 (atomic_uint_fast64_t *)(void *)(c->memory + FM_CHANNEL_PULSE_AT),
				 &c->pulse, err)
		       : fm_err_sys(err, -ret, "start a thread");
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return ret;
}

int fm_channel_new_of(struct fm_tree *tree, unsigned sockets, struct fm_channel **out,
		      struct fm_err *err)
{
	struct fm_channel *c = FM_FAULT("channel.alloc") ? NULL : calloc(1, sizeof(*c));
	int ret;

	assert(sockets >= FM_CHANNEL_SOCKETS_MIN && sockets <= LINES);
	if (!c)
		return fm_err_set(err, -ENOMEM, "no memory for a channel");
	c->tree = tree;
	for (unsigned i = 0; i < 1 + LINES; i++)
		c->fds[i] = -1;
	pthread_mutex_init(&c->lock, NULL);
	list_add(c);
	ret = make_memory(c, err);
	while (ret == 0 && c->lines_count < sockets)
		ret = add_line(c, err);
	if (ret == 0)
		ret = start_threads(c, err);
	if (ret < 0) {
		(void)fm_channel_free(c);
		return ret;
	}
	*out = c;
	return 0;
}

int fm_channel_new(struct fm_tree *tree, struct fm_channel **out, struct fm_err *err)
{
	return fm_channel_new_of(tree, LINES, out, err);
}

const int *fm_channel_to_pass(const struct fm_channel *c, unsigned *count)
{
	*count = 1 + c->lines_count;
	return c->fds;
}

void fm_channel_passed(struct fm_channel *c)
{
	close_passed(c);
}

/* All threads come home, and nothing is asked any more. */
static void end_threads(struct fm_channel *c)
{
	quit(c);
	for (unsigned i = 0; i < c->threads; i++)
		pthread_join(c->lines[i]->thread, NULL);
	fm_channel_pulse_free(c->pulse);
}

struct fm_channel_end fm_channel_free(struct fm_channel *c)
{
	struct fm_channel_end end = { .is_begun = false };

	if (!c)
		return end;
	if (c->is_forked)	/* what its threads had in memory stays as they left it */
		return (struct fm_channel_end){ .is_forked = true };
	end_threads(c);
	list_remove(c);
	close_passed(c);
	for (unsigned i = 0; i < c->lines_count; i++) {
		(void)close(c->lines[i]->socket);	/* what was to be said was said */
		free(c->lines[i]->copy);
		free(c->lines[i]);
	}
	if (c->memory)
		(void)munmap(c->memory, MEMORY_LEN);	/* it is mapped */
	if (c->has_stash)
		(void)close(c->stash.fd);		/* only read */
	pthread_mutex_destroy(&c->lock);
	end.is_begun = atomic_load(&c->is_begun);
	end.is_published = atomic_load(&c->is_published);
	free(c);
	return end;
}
