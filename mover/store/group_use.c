/* SPDX-License-Identifier: MIT */
/* group_use - see group_use.h. */
#include "mover/store/group_use.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/show.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

#define NAMED_MAX 4			/* members that an error names */

struct fm_group_use {
	struct fm_list at;
	struct fm_group_key key;
	bool is_alone;
	size_t group_len;		/* bytes of the path that are the group's */
	char path[];			/* of the member; "": it is none */
};

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct fm_list list;
} uses = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void init(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&uses.ended, &attr);
	pthread_condattr_destroy(&attr);
	fm_list_init(&uses.list);
}

static void lock(void)
{
	(void)pthread_once(&uses.once, init);
	pthread_mutex_lock(&uses.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&uses.lock);
}

static bool is_of(const struct fm_group_use *use, const struct fm_group_key *key)
{
	return use->key.dev == key->dev && use->key.ino == key->ino;
}

/* Counts the uses of a group, those that have it alone or the members. Under the lock. */
static unsigned count(const struct fm_group_key *key, bool is_alone)
{
	unsigned n = 0;

	fm_list_each(at, next, &uses.list) {
		const struct fm_group_use *use = fm_container_of(at, struct fm_group_use, at);

		n += is_of(use, key) && use->is_alone == is_alone;
	}
	return n;
}

static struct fm_group_use *use_new(const struct fm_group_key *key, const char *path,
				    bool is_alone)
{
	size_t len = strlen(path) + 1;
	struct fm_group_use *use = fm_sys_alloc(sizeof(*use) + len);

	if (!use)
		return NULL;
	use->key = *key;
	use->is_alone = is_alone;
	memcpy(use->path, path, len);
	return use;
}

static int refuse(struct fm_err *err)
{
	return fm_err_set(err, -EBUSY, "the group is being committed or ended just now");
}

int fm_group_hold(const struct fm_group_key *key, const char *path, size_t group_len,
		  struct fm_group_use **out, struct fm_err *err)
{
	struct fm_group_use *use = use_new(key, path, false);
	bool is_closed;

	if (!use)
		return fm_err_sys(err, -ENOMEM, "allocate the member");
	use->group_len = group_len;
	lock();
	is_closed = count(key, true) > 0;
	if (!is_closed)
		fm_list_append(&uses.list, &use->at);
	unlock();
	if (is_closed) {
		free(use);
		return refuse(err);
	}
	*out = use;
	return 0;
}

const char *fm_group_use_path(const struct fm_group_use *use, size_t *group_len)
{
	*group_len = use->group_len;
	return use->path;
}

static struct timespec in_ms(unsigned wait_ms)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += wait_ms / 1000;
	end.tv_nsec += (long)(wait_ms % 1000) * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	return end;
}

/*
 * Waits, under the lock, until the group has no uses of that kind, as count() has it. False: it
 * still has.
 */
static bool await_none(const struct fm_group_key *key, bool is_alone, const struct timespec *end)
{
	int ret = 0;

	while (count(key, is_alone) > 0 && ret == 0)
		ret = pthread_cond_timedwait(&uses.ended, &uses.lock, end);
	return count(key, is_alone) == 0;
}

/* Names the members that come, as many as a line takes. Under the lock. */
static int name_members(const struct fm_group_key *key, struct fm_err *err)
{
	unsigned n = count(key, false), named = 0;
	char list[FM_ERR_TEXT_MAX] = "";
	struct fm_path_shown shown;

	fm_list_each(at, next, &uses.list) {
		const struct fm_group_use *use = fm_container_of(at, struct fm_group_use, at);
		size_t len = strlen(list);

		if (is_of(use, key) && !use->is_alone && named++ < NAMED_MAX)
			(void)snprintf(list + len, sizeof(list) - len, "%s\"%s\"",
				       len > 0 ? ", " : "", fm_path_show(use->path, &shown));
	}
	return fm_err_set(err, -EBUSY, "%u of its members still come%s: %s%s", n,
			  n == 1 ? "s" : "", list, n > NAMED_MAX ? " and others" : "");
}

int fm_group_close(const struct fm_group_key *key, unsigned wait_ms, struct fm_group_use **out,
		   struct fm_err *err)
{
	struct fm_group_use *use = use_new(key, "", true);
	struct timespec end = in_ms(wait_ms);
	int ret = 0;

	if (!use)
		return fm_err_sys(err, -ENOMEM, "allocate what closes the group");
	lock();
	if (!await_none(key, true, &end))
		ret = refuse(err);
	else
		fm_list_append(&uses.list, &use->at);	/* no member begins from now on */
	if (ret == 0 && !await_none(key, false, &end)) {
		ret = name_members(key, err);
		fm_list_del(&use->at);
		pthread_cond_broadcast(&uses.ended);
	}
	unlock();
	if (ret < 0) {
		free(use);
		return ret;
	}
	*out = use;
	return 0;
}

void fm_group_names_add(struct fm_group_names *names, const char *name)
{
	size_t at = strlen(names->text), len = strlen(name);

	names->count++;
	if (strchr(name, '\n'))
		return;		/* it would be two */
	if (at + 1 + len <= FM_GROUP_NAMES_LEN)
		(void)snprintf(names->text + at, sizeof(names->text) - at, "%s%s",
			       at > 0 ? "\n" : "", name);
}

void fm_group_coming(const struct fm_group_key *key, size_t skip, struct fm_group_names *out)
{
	lock();
	fm_list_each(at, next, &uses.list) {
		const struct fm_group_use *use = fm_container_of(at, struct fm_group_use, at);

		if (is_of(use, key) && !use->is_alone && strlen(use->path) > skip)
			fm_group_names_add(out, use->path + skip);
	}
	unlock();
}

void fm_group_let_go(struct fm_group_use *use)
{
	if (!use)
		return;
	lock();
	fm_list_del(&use->at);
	pthread_cond_broadcast(&uses.ended);
	unlock();
	free(use);
}
