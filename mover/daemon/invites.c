/* SPDX-License-Identifier: MIT */
/*
 * invites - see invites.h.
 *
 * Happy path: look (on the worker: watch the directories, then read them, so that nothing is missed
 * in between) - tell the join - an event of inotify - look again. Failure: what cannot be watched
 * or read is looked at again a second later, and joins are not taken meanwhile.
 */
#include "mover/daemon/invites.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "config/config.h"
#include "config/files.h"
#include "config/invite.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/join/join.h"

#define AGAIN_NS FM_NS_PER_S
#define EVENTS                                                                                     \
	(IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MOVE_SELF |     \
	 IN_DELETE_SELF | IN_ONLYDIR)

struct fm_invites {
	struct fm_invites_opts o;
	char *dir;
	struct fm_watch watch;		/* of inotify; fd -1: there is none */
	struct fm_timer again;
	struct fm_work work;
	bool is_looking;
	bool is_due;			/* something happened while it looked */
	bool is_stopped;
	/* The worker's, until it is done. */
	int watched[2];			/* the two directories, by inotify's numbers; -1: not */
	bool is_watched;
	int left_s;
	struct fm_err err;
};

static void look(struct fm_invites *i);

/* Watches what has that name now, and no more what had it before. */
static int watch(const struct fm_invites *i, const char *path, int *was)
{
	int is = inotify_add_watch(i->watch.fd, path, EVENTS);

	if (*was >= 0 && is != *was)
		(void)inotify_rm_watch(i->watch.fd, *was);	/* it may be gone by itself */
	*was = is;
	return is < 0 ? -errno : 0;
}

/* A directory of invitations that is not there yet is made in the other one, which says so. */
static bool watch_dirs(struct fm_invites *i)
{
	char path[PATH_MAX];
	int ret;

	if (i->watch.fd < 0 || watch(i, i->dir, &i->watched[0]) < 0)
		return false;
	if (fm_path_join(i->dir, FM_CONFIG_INVITES_DIR, path, NULL) < 0)
		return false;
	ret = watch(i, path, &i->watched[1]);
	return ret == 0 || ret == -ENOENT;
}

static void look_run(struct fm_work *work)
{
	struct fm_invites *i = fm_container_of(work, struct fm_invites, work);

	i->is_watched = watch_dirs(i);
	i->left_s = fm_invite_left(i->dir, &i->err);
}

static void look_done(struct fm_work *work)
{
	struct fm_invites *i = fm_container_of(work, struct fm_invites, work);
	uint64_t now_ns = fm_loop_now(i->o.loop);

	i->is_looking = false;
	if (i->is_stopped)
		return;
	fm_join_open(i->o.join, i->left_s > 0 ? now_ns + (uint64_t)i->left_s * FM_NS_PER_S : 0);
	if (!i->is_watched || i->left_s < 0)
		fm_timer_set(i->o.loop, &i->again, now_ns + AGAIN_NS);
	if (i->is_due)
		look(i);
}

static void look(struct fm_invites *i)
{
	i->is_due = i->is_looking;
	if (i->is_looking || i->is_stopped)
		return;		/* stopped: the worker may be gone already */
	i->is_looking = true;
	i->work = (struct fm_work){ .run = look_run, .done = look_done };
	fm_worker_submit(i->o.worker, &i->work, i->o.loop);
}

static void again_fire(struct fm_timer *timer)
{
	look(fm_container_of(timer, struct fm_invites, again));
}

static void events_ready(struct fm_watch *watch, uint32_t events)
{
	char buf[4096];

	(void)events;
	while (read(watch->fd, buf, sizeof(buf)) > 0)
		;	/* what it was does not matter */
	look(fm_container_of(watch, struct fm_invites, watch));
}

int fm_invites_new(const struct fm_invites_opts *opts, struct fm_invites **out, struct fm_err *err)
{
	struct fm_invites *i = FM_FAULT("invites.new") ? NULL : calloc(1, sizeof(*i));

	if (!i)
		return fm_err_set(err, -ENOMEM, "no memory for invitations");
	i->o = *opts;
	i->watched[0] = i->watched[1] = -1;
	i->dir = strdup(opts->dir);
	i->again.fire = again_fire;
	i->watch = (struct fm_watch){ .ready = events_ready, .events = EPOLLIN };
	i->watch.fd = FM_FAULT("invites.inotify") ? -1 : inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (i->watch.fd >= 0 && fm_watch_add(opts->loop, &i->watch, NULL) < 0) {
		(void)close(i->watch.fd);
		i->watch.fd = -1;
	}
	if (i->watch.fd < 0)
		fm_log_info("invitations are looked for every second: no inotify");
	if (!i->dir) {
		fm_invites_free(i);
		return fm_err_set(err, -ENOMEM, "no memory for invitations");
	}
	look(i);
	*out = i;
	return 0;
}

void fm_invites_look(struct fm_invites *i)
{
	if (i)
		look(i);
}

void fm_invites_stop(struct fm_invites *i)
{
	if (!i)
		return;
	i->is_stopped = true;
	fm_timer_clear(i->o.loop, &i->again);
}

void fm_invites_free(struct fm_invites *i)
{
	if (!i)
		return;
	fm_timer_clear(i->o.loop, &i->again);
	if (i->watch.fd >= 0) {
		fm_watch_del(i->o.loop, &i->watch);
		(void)close(i->watch.fd);
	}
	free(i->dir);
	free(i);
}
