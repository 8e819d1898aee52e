/* SPDX-License-Identifier: MIT */
/* lead - see lead.h. */
#include "mover/store/lead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/component.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/store/group_dir.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/tree/tsys.h"

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return fm_time_ns(&now);
}

/* When the group was published that the name is of; 0: it is not known. */
static int64_t published_ns(int parent, const char *name, struct fm_group_dir *g)
{
	char group[FM_GROUP_NAME_LEN + 1];
	struct fm_err unsaid;
	struct stat st;
	int64_t ns = 0;

	fm_group_dir_name(name, group);
	if (fm_group_dir_open(parent, group, g) < 0)
		return 0;
	if (fm_group_dir_read(g, &unsaid) == 0 && !g->is_open &&
	    fm_group_dir_is_at(g, parent, name) == 1 && fm_sys_fstat(g->fd, &st) == 0)
		ns = fm_time_ns(&st.st_mtim);
	fm_group_dir_close(g);
	return ns;
}

/* Whether the link leads to another name beside it, which was published later. */
static bool leads_to_later(const struct fm_path_parent *parent, const char *published,
			   char old[static FM_NAME_LEN_MAX + 1], struct fm_group_dir *g)
{
	ssize_t len = readlinkat(parent->fd, parent->name, old, FM_NAME_LEN_MAX + 1);
	struct stat link, there;
	int64_t mine_ns, there_ns;

	if (len <= 0 || len > FM_NAME_LEN_MAX)
		return false;
	old[len] = '\0';
	if (!fm_is_component(old) || strcmp(old, published) == 0 ||
	    fm_sys_fstatat(parent->fd, old, &there) < 0 ||
	    fm_sys_fstatat(parent->fd, parent->name, &link) < 0)
		return false;
	mine_ns = published_ns(parent->fd, published, g);
	there_ns = published_ns(parent->fd, old, g);
	if (there_ns == 0 && fm_time_ns(&link.st_mtim) <= now_ns())
		there_ns = fm_time_ns(&link.st_mtim);
	return mine_ns > 0 && there_ns > mine_ns;
}

static bool leads_to(const struct fm_path_parent *parent, const char *published)
{
	char old[FM_NAME_LEN_MAX + 1];
	ssize_t len = readlinkat(parent->fd, parent->name, old, sizeof(old));

	return len > 0 && (size_t)len == strlen(published) &&
	       memcmp(old, published, (size_t)len) == 0;
}

static int sync_now(int dir)
{
	return fm_sys_syncfs(dir) < 0 ? -EIO : 0;
}

/*
 * Its members were on the disk before they had their names, so what could not be written is
 * somebody else's (group_commit.c). What the commit has renamed need not be there yet.
 */
static int sync_rename(const struct fm_store_dir *sd, const struct fm_path_parent *parent,
		       const char *published, const struct fm_group_dir *g, int why)
{
	int ret = fm_tsys_fsync(parent->fd);
	struct fm_path_shown shown;

	if (ret == 0)
		ret = fm_tsys_fsync(g->fd);
	if (ret < 0)
		return -EIO;
	fm_log_warn("store %s: a link is led to \"%s\", though something on its file system could "
		    "not be written: %s; what is there was on the disk before",
		    sd->store.name, fm_path_show(published, &shown), fm_err_name(why));
	return 0;
}

/*
 * Syncs what the group's members wrote, whoever has heard of an error since it was begun. A sync
 * that failed is for ever: the kernel takes what could not be written for clean, so that is written
 * down. After a start of the machine only a link that leads there says that a sync was made.
 */
static int sync_group(struct fm_store_dir *sd, const struct fm_path_parent *parent,
		      const char *published, struct fm_group_dir *g)
{
	struct fm_err unsaid;
	bool is_watched;
	int ret = fm_group_dir_read(g, &unsaid);

	if (ret < 0)
		return ret;
	ret = fm_group_dir_is_at(g, parent->fd, published);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;	/* so there is nothing to lead to */
	if (g->is_open || ret == 0)
		return sync_now(parent->fd);	/* it is of no group that is known */
	if (g->is_lost || (g->is_stale && !leads_to(parent, published)))
		return -EIO;
	ret = fm_group_count_sync(&sd->groups, &g->key, g->fd, &is_watched);
	if (ret == 0)
		return 0;
	if (g->is_synced)
		return sync_rename(sd, parent, published, g, ret);
	fm_group_dir_lose(g, published, ret);
	return -EIO;
}

/* The commit in a store that is not durable has synced nothing. */
static int sync_published(struct fm_store_dir *sd, const struct fm_path_parent *parent,
			  const char *published, struct fm_group_dir *g, struct fm_err *err)
{
	char group[FM_GROUP_NAME_LEN + 1];
	struct fm_path_shown shown;
	int ret;

	if (sd->store.is_durable)
		return 0;
	fm_group_dir_name(published, group);
	ret = fm_group_dir_open(parent->fd, group, g);
	if (ret == -ENOENT || ret == -EPERM) {
		ret = sync_now(parent->fd);
	} else if (ret == 0) {
		ret = sync_group(sd, parent, published, g);
		fm_group_dir_close(g);
	}
	if (ret == -EIO || ret == -EBADMSG)
		return fm_err_set(err, -EIO,
				  "not all of \"%s\" is known to be on the disk: remove it, and "
				  "put it again",
				  fm_path_show(published, &shown));
	return ret < 0 ? fm_path_fail(err, ret, "look at the group of", published) : 0;
}

/* Looks and leads, beside nobody else who does. */
static int lead(struct fm_store_dir *sd, const char *link, const struct fm_path_parent *parent,
		const char *published, const struct fm_who *who, struct fm_group_dir *g,
		struct fm_err *err)
{
	char old[FM_NAME_LEN_MAX + 1];
	struct fm_path_shown shown, to;
	struct stat st;
	int ret;

	pthread_mutex_lock(&sd->rotating);
	ret = fm_sys_fstatat(parent->fd, published, &st);	/* a rotation may have it now */
	if (ret < 0)
		ret = fm_path_fail(err, ret, "lead a link to", published);
	else if (leads_to_later(parent, published, old, g))
		ret = fm_err_set(err, -ESTALE, "\"%s\" leads to \"%s\", which was published later",
				 fm_path_show(link, &shown), fm_path_show(old, &to));
	else
		ret = fm_symlink(sd, link, published, who, true, err);
	pthread_mutex_unlock(&sd->rotating);
	return ret;
}

int fm_lead(struct fm_store_dir *sd, const char *link, const char *published,
	    const struct fm_who *who, struct fm_err *err)
{
	struct fm_path_parent parent;
	struct fm_group_dir *g;
	int ret;

	if (!link[0] || !fm_is_component(published))
		return fm_err_set(err, -EINVAL, "what a link is led to lies beside it");
	ret = fm_path_open_parent(sd->root, link, NULL, &parent, err);
	if (ret < 0)
		return ret;
	g = fm_sys_alloc(sizeof(*g));
	ret = g ? sync_published(sd, &parent, published, g, err)
		: fm_err_sys(err, -ENOMEM, "allocate the look at the groups");
	if (ret == 0)
		ret = lead(sd, link, &parent, published, who, g, err);
	free(g);
	close(parent.fd);
	return ret;
}

/* ---- the order ---- */

struct newest {
	const char *but;
	int64_t ns;
};

static int meet(void *ctx, int dir, const char *name)
{
	struct newest *n = ctx;
	struct stat st;

	if (fm_group_is_name(name) && strcmp(name, n->but) != 0 &&
	    fm_sys_fstatat(dir, name, &st) == 0 && fm_time_ns(&st.st_mtim) > n->ns)
		n->ns = fm_time_ns(&st.st_mtim);
	return 0;
}

void fm_lead_note_order(struct fm_store_dir *sd, const struct fm_path_parent *parent,
			const struct fm_group_dir *g)
{
	struct newest n = {.but = g->name, .ns = INT64_MIN};
	struct stat st;
	int ret;

	pthread_mutex_lock(&sd->rotating);	/* another one may be published beside it */
	ret = fm_tsys_each_name(parent->fd, meet, &n);
	if (ret == 0)
		ret = fm_sys_fstat(g->fd, &st);
	/* A second, since some file systems keep no less. */
	if (ret == 0 && fm_time_ns(&st.st_mtim) <= n.ns)
		ret = fm_sys_set_mtime(g->fd, n.ns + (int64_t)FM_NS_PER_S);
	pthread_mutex_unlock(&sd->rotating);
	if (ret < 0)
		fm_log_warn("store %s: cannot note that the group \"%s\" is the latest one: %s",
			    sd->store.name, g->record.name, fm_err_name(ret));
}
