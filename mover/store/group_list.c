/* SPDX-License-Identifier: MIT */
/* group_list - see group_list.h. */
#include "mover/store/group_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/store/group_commit.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"

#define KEPT_NS (60 * FM_NS_PER_S)

/* What a walk found behind `from`. */
struct fm_group_paths {
	char from[FM_PATH_LEN_MAX + 1];
	uint64_t walked_ns;
	char *path[FM_GROUP_PATHS_MAX];	/* in order */
	size_t count;
	bool is_cut;			/* there were more, behind the last one */
};

struct listing {
	struct fm_store_dir *sd;
	const char *after;
	struct fm_group_page *out;
	struct fm_group_dir g;
	struct fm_group_paths *paths;
	struct fm_walk walk;
};

/* ---- one group ---- */

/* Reads what an open directory says. -ENOENT: it is of no group that goes on. */
static int read_open(struct fm_group_dir *g)
{
	char name[FM_GROUP_NAME_LEN + 1];
	struct fm_err unsaid;
	int ret = fm_group_dir_read(g, &unsaid);

	if (ret < 0)
		return ret;
	fm_group_dir_name(g->record.name, name);
	return g->is_open && !fm_group_dir_is_over(g) && strcmp(name, g->name) == 0 ? 0 : -ENOENT;
}

static int view(const struct fm_group_dir *g, const char *path, struct fm_group_view *v)
{
	const struct fm_group_record *r = &g->record;
	struct fm_err unsaid;

	*v = (struct fm_group_view){.uid = r->uid,
				    .begun_ns = r->begun_ns,
				    .expires_ns = r->expires_ns,
				    .may_replace = r->may_replace,
				    .expected = r->members};
	(void)snprintf(v->peer, sizeof(v->peer), "%s", r->peer);
	(void)snprintf(v->path, sizeof(v->path), "%s", path);	/* fits: it was found */
	fm_group_coming(&g->key, strlen(path) + 1, &v->coming);
	return fm_group_look_members(g, v, &unsaid);
}

/* Tells of the group that has the path. One that went meanwhile is passed over. */
static void tell(struct listing *l, const char *path)
{
	char name[FM_GROUP_NAME_LEN + 1];
	struct fm_path_parent parent;
	struct fm_err unsaid;
	int ret;

	if (fm_path_open_parent(l->sd->root, path, NULL, &parent, &unsaid) < 0)
		return;
	fm_group_dir_name(parent.name, name);
	ret = fm_group_dir_open(parent.fd, name, &l->g);
	close(parent.fd);
	if (ret < 0)
		return;
	if (read_open(&l->g) == 0 && view(&l->g, path, &l->out->group[l->out->count]) == 0)
		l->out->count++;
	fm_group_dir_close(&l->g);
}

/* ---- the walk ---- */

static void free_paths(struct fm_group_paths *p)
{
	while (p && p->count > 0)
		free(p->path[--p->count]);
	free(p);
}

/* Keeps a path if it is among the first. If there is no more room, the last one goes. */
static int keep_first(struct fm_group_paths *p, const char *path)
{
	size_t at = p->count, size = strlen(path) + 1;
	char *copy;

	while (at > 0 && strcmp(p->path[at - 1], path) > 0)
		at--;
	if (p->count == FM_GROUP_PATHS_MAX) {
		p->is_cut = true;
		if (at == p->count)
			return 0;
		free(p->path[--p->count]);
	}
	copy = fm_sys_alloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, path, size);
	memmove(&p->path[at + 1], &p->path[at], (p->count - at) * sizeof(p->path[0]));
	p->path[at] = copy;
	p->count++;
	return 0;
}

/* Takes the path of a group whose directory was met. What is none is passed over. */
static int take(struct listing *l, const struct fm_walk_at *at)
{
	char dir[FM_PATH_LEN_MAX + 1], path[FM_PATH_LEN_MAX + 1];
	const char *slash;
	int ret, len;

	if (fm_walk_path(&l->walk, at, dir, sizeof(dir)) < 0 ||
	    fm_group_dir_open(at->dir, at->name, &l->g) < 0)
		return 0;
	ret = read_open(&l->g);
	fm_group_dir_close(&l->g);
	if (ret < 0)
		return ret == -ENOMEM ? ret : 0;
	slash = strrchr(dir, '/');
	len = snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash + 1 - dir) : 0, dir,
		       l->g.record.name);
	if (len < 0 || (size_t)len >= sizeof(path) || strcmp(path, l->paths->from) <= 0)
		return 0;
	return keep_first(l->paths, path);
}

static int take_all(struct listing *l)
{
	struct fm_walk_at at;
	int ret;

	while ((ret = fm_walk_next(&l->walk, &at)) > 0 || fm_walk_goes_on(&l->walk, ret)) {
		if (ret < 0 || at.is_leaving || !at.is_dir || !fm_path_is_reserved(at.name))
			continue;
		ret = fm_group_is_name(at.name) ? take(l, &at) : 0;
		if (ret < 0)
			return ret;
		fm_walk_skip(&l->walk);	/* in no transfer's directory is a group */
	}
	return ret;
}

static int walk(struct listing *l, const char *from)
{
	int fd, ret;

	l->paths = fm_sys_alloc(sizeof(*l->paths));
	if (!l->paths)
		return -ENOMEM;
	l->paths->count = 0;
	l->paths->is_cut = false;
	l->paths->walked_ns = fm_clock_real.now_ns(NULL);
	(void)snprintf(l->paths->from, sizeof(l->paths->from), "%s", from);
	ret = fd = fm_sys_open_beneath(l->sd->root, ".", O_RDONLY | O_DIRECTORY);
	if (fd >= 0)
		ret = fm_walk_start(&l->walk, fd);
	if (ret >= 0)
		ret = take_all(l);
	if (fd >= 0)
		fm_walk_end(&l->walk);
	return ret;
}

/* ---- pages ---- */

static bool is_of_use(const struct fm_group_paths *p, const char *after)
{
	return p && fm_clock_real.now_ns(NULL) - p->walked_ns < KEPT_NS &&
	       strcmp(p->from, after) <= 0 &&
	       (!p->is_cut || strcmp(after, p->path[p->count - 1]) < 0);
}

/*
 * What an earlier page left, if the page behind `after` can be told from it. The first page of a
 * list cannot: it says what there is now. Who takes it has it alone.
 */
static struct fm_group_paths *take_found(struct fm_store_dir *dir, const char *after)
{
	struct fm_group_paths *p = after[0] ? atomic_exchange(&dir->groups_found, NULL) : NULL;

	if (is_of_use(p, after))
		return p;
	free_paths(p);
	return NULL;
}

static void tell_page(struct listing *l)
{
	const struct fm_group_paths *p = l->paths;
	size_t i = 0;

	while (i < p->count && strcmp(p->path[i], l->after) <= 0)
		i++;
	for (; i < p->count && l->out->count < FM_GROUP_PAGE_MAX; i++)
		tell(l, p->path[i]);
	l->out->is_more = i < p->count || p->is_cut;
}

/* All groups that were found may have ended meanwhile, while there are others behind them. */
static int go_on(struct listing *l)
{
	struct fm_group_paths *p;
	int ret = 0;

	while (ret == 0 && l->out->count == 0 && l->out->is_more) {
		p = l->paths;
		ret = walk(l, p->path[p->count - 1]);
		free_paths(p);
		if (ret == 0)
			tell_page(l);
	}
	return ret;
}

int fm_group_list(struct fm_store_dir *dir, const char *after, struct fm_group_page *out,
		  struct fm_err *err)
{
	struct listing *l = fm_sys_alloc(sizeof(*l));
	int ret = 0;

	out->count = 0;
	out->is_more = false;
	if (!l)
		return fm_err_set(err, -ENOMEM, "look for groups: out of memory");
	l->sd = dir;
	l->after = after;
	l->out = out;
	l->paths = take_found(dir, after);
	if (!l->paths)
		ret = walk(l, after);
	if (ret == 0) {
		tell_page(l);
		ret = go_on(l);
	}
	if (ret == 0 && out->is_more)
		l->paths = atomic_exchange(&dir->groups_found, l->paths);
	free_paths(l->paths);
	free(l);
	return ret < 0 ? fm_err_sys(err, ret, "look for groups") : 0;
}

void fm_group_list_end(struct fm_store_dir *dir)
{
	free_paths(atomic_exchange(&dir->groups_found, NULL));
}
