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
	int fd;
	pthread_mutex_t lock;		/* of a sync and what came of it */
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

/* Under the lock. */
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
	fm_list_append(&all->list, &w->at);
	all->count++;
	*out = w;
	return 0;
}

int fm_group_watch_get(struct fm_group_watches *all, int dir, struct fm_group_watch **out)
{
	struct fm_group_watch *last = NULL;
	struct stat st;
	int ret = fm_sys_fstat(dir, &st);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&all->lock);
	if (all->count >= FM_GROUP_WATCHES_MAX)
		last = find_last(all, st.st_dev);
	if (last) {
		last->uses++;
		*out = last;
	} else {
		ret = open_one(all, dir, st.st_dev, out);
	}
	pthread_mutex_unlock(&all->lock);
	return ret;
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
	if (is_last) {
		fm_list_del(&w->at);
		all->count--;
	}
	pthread_mutex_unlock(&all->lock);
	if (!is_last)
		return;
	(void)close(w->fd);	/* nothing was written by it */
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int fm_group_watch_sync(struct fm_group_watch *w)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	if (w->error == 0)
		w->error = fm_sys_syncfs(w->fd);
	ret = w->error;
	pthread_mutex_unlock(&w->lock);
	return ret;
}
