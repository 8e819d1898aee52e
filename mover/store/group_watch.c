/* SPDX-License-Identifier: MIT */
/* group_watch - see group_watch.h. */
#include "mover/store/group_watch.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/store/sys.h"
#include "mover/tree/tsys.h"

struct fm_group_watch {
	struct fm_list at;
	struct fm_group_watches *all;
	unsigned uses;
	dev_t dev;
	pthread_mutex_t lock;		/* of a sync and what came of it: */
	int fd;				/* -1: it has told of an error, and is in no list */
	int error;
};

void fm_group_watches_init(struct fm_group_watches *all)
{
	pthread_mutex_init(&all->lock, NULL);
	fm_list_init(&all->list);
	all->count = 0;
}

void fm_group_watches_free(struct fm_group_watches *all)
{
	assert(fm_list_is_empty(&all->list));
	pthread_mutex_destroy(&all->lock);
}

/* Under the lock: the last one of that file system, or NULL. */
static struct fm_group_watch *find_last(struct fm_group_watches *all, dev_t dev)
{
	struct fm_group_watch *last = NULL;

	fm_list_each(at, next, &all->list) {
		struct fm_group_watch *w = fm_container_of(at, struct fm_group_watch, at);

		if (w->dev == dev)
			last = w;
	}
	return last;
}

/* With the lock: one more use of a watch that is there, if no more are to be opened; or NULL. */
static struct fm_group_watch *share(struct fm_group_watches *all, dev_t dev)
{
	struct fm_group_watch *last =
		all->count >= FM_GROUP_WATCHES_MAX ? find_last(all, dev) : NULL;

	if (last)
		last->uses++;
	return last;
}

/* Without the lock: a file system that is silent keeps nobody but who asks. */
static int open_one(struct fm_group_watches *all, int dir, dev_t dev, struct fm_group_watch **out)
{
	struct fm_group_watch *w = fm_sys_alloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->fd = fm_tsys_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	if (w->fd < 0) {
		int ret = w->fd;

		free(w);
		return ret;
	}
	w->all = all;
	w->dev = dev;
	w->uses = 1;
	w->error = 0;
	pthread_mutex_init(&w->lock, NULL);
	*out = w;
	return 0;
}

/* It is in no list, and nobody's any more. */
static void end(struct fm_group_watch *w)
{
	if (w->fd >= 0)
		(void)close(w->fd);	/* nothing was written by it */
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int fm_group_watch_get(struct fm_group_watches *all, int dir, struct fm_group_watch **out)
{
	struct fm_group_watch *shared, *opened;
	struct stat st;
	int ret = fm_sys_fstat(dir, &st);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&all->lock);
	shared = share(all, st.st_dev);
	pthread_mutex_unlock(&all->lock);
	*out = shared;
	if (shared)
		return 0;
	ret = open_one(all, dir, st.st_dev, &opened);
	if (ret < 0)
		return ret;
	pthread_mutex_lock(&all->lock);
	shared = share(all, st.st_dev);		/* others may have opened theirs meanwhile */
	if (!shared) {
		fm_list_append(&all->list, &opened->at);
		all->count++;
	}
	pthread_mutex_unlock(&all->lock);
	*out = shared ? shared : opened;
	if (shared)
		end(opened);
	return 0;
}

struct fm_group_watch *fm_group_watch_again(struct fm_group_watch *w)
{
	pthread_mutex_lock(&w->all->lock);
	w->uses++;
	pthread_mutex_unlock(&w->all->lock);
	return w;
}

void fm_group_watch_put(struct fm_group_watch *w)
{
	struct fm_group_watches *all = w ? w->all : NULL;
	bool is_last;

	if (!w)
		return;
	pthread_mutex_lock(&all->lock);
	is_last = --w->uses == 0;
	if (is_last && w->fd >= 0) {
		fm_list_del(&w->at);
		all->count--;
	}
	pthread_mutex_unlock(&all->lock);
	if (is_last)
		end(w);
}

/*
 * Its error is for ever, so it has nothing more to hear, and those that are begun from now on do
 * not share it.
 */
static void retire(struct fm_group_watch *w)
{
	struct fm_group_watches *all = w->all;

	pthread_mutex_lock(&all->lock);
	fm_list_del(&w->at);
	all->count--;
	pthread_mutex_unlock(&all->lock);
	(void)close(w->fd);
	w->fd = -1;
}

int fm_group_watch_sync(struct fm_group_watch *w)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	if (w->error == 0) {
		w->error = fm_sys_syncfs(w->fd);
		if (w->error < 0)
			retire(w);
	}
	ret = w->error;
	pthread_mutex_unlock(&w->lock);
	return ret;
}
