/* SPDX-License-Identifier: MIT */
/* group_list - see group_list.h. */
#include "mover/store/group_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/store/group_commit.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"

struct listing {
	const char *after;
	struct fm_group_page *out;
	struct fm_group_dir g;
	struct fm_group_view view;
	struct fm_walk walk;
};

/* Keeps the view if it is among the first. If the page is full, the last one goes. */
static void keep_first(struct fm_group_page *out, const struct fm_group_view *view)
{
	size_t at = out->count;

	while (at > 0 && strcmp(out->group[at - 1].path, view->path) > 0)
		at--;
	if (out->count == FM_GROUP_PAGE_MAX) {
		out->is_more = true;
		if (at == out->count)
			return;
		out->count--;
	}
	memmove(&out->group[at + 1], &out->group[at], (out->count - at) * sizeof(out->group[0]));
	out->group[at] = *view;
	out->count++;
}

/* Fills in the view of a group whose directory has that path below the store. */
static int see(struct listing *l, const char *path, struct fm_err *err)
{
	const struct fm_group_record *r = &l->g.record;
	struct fm_group_view *v = &l->view;
	const char *slash = strrchr(path, '/');
	int ret = fm_group_dir_read(&l->g, err), len;
	char name[FM_GROUP_NAME_LEN + 1];

	if (ret < 0)
		return ret;
	fm_group_dir_name(r->name, name);
	if (!l->g.is_open || fm_group_dir_is_over(&l->g) || strcmp(name, l->g.name) != 0)
		return -ENOENT;
	*v = (struct fm_group_view){.uid = r->uid,
				    .begun_ns = r->begun_ns,
				    .expires_ns = r->expires_ns,
				    .may_replace = r->may_replace,
				    .expected = r->members};
	(void)snprintf(v->peer, sizeof(v->peer), "%s", r->peer);
	len = snprintf(v->path, sizeof(v->path), "%.*s%s", slash ? (int)(slash + 1 - path) : 0,
		       path, r->name);
	if (len < 0 || (size_t)len >= sizeof(v->path) || strcmp(v->path, l->after) <= 0)
		return -ENOENT;
	fm_group_coming(&l->g.key, (size_t)len + 1, &v->coming);
	return fm_group_look_members(&l->g, v, err);
}

/* One that goes meanwhile, or is none, is passed over. */
static void take(struct listing *l, const struct fm_walk_at *at)
{
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_err err;

	if (fm_walk_path(&l->walk, at, path, sizeof(path)) < 0 ||
	    fm_group_dir_open(at->dir, at->name, &l->g) < 0)
		return;
	if (see(l, path, &err) == 0)
		keep_first(l->out, &l->view);
	fm_group_dir_close(&l->g);
}

/* A directory that cannot be entered is passed over. */
static bool is_passed_over(int ret)
{
	return ret == -EACCES || ret == -EPERM || ret == -EOVERFLOW;
}

static int list(struct listing *l)
{
	struct fm_walk_at at;
	int ret;

	while ((ret = fm_walk_next(&l->walk, &at)) > 0 || is_passed_over(ret)) {
		if (ret < 0 || at.is_leaving || !at.is_dir || !fm_path_is_reserved(at.name))
			continue;
		if (fm_group_is_name(at.name))
			take(l, &at);
		fm_walk_skip(&l->walk);	/* in no transfer's directory is a group */
	}
	return ret;
}

int fm_group_list(struct fm_store_dir *dir, const char *after, struct fm_group_page *out,
		  struct fm_err *err)
{
	struct listing *l = fm_sys_alloc(sizeof(*l));
	int fd, ret;

	out->count = 0;
	out->is_more = false;
	if (!l)
		return fm_err_set(err, -ENOMEM, "look for groups: out of memory");
	l->after = after;
	l->out = out;
	ret = fd = fm_sys_open_beneath(dir->root, ".", O_RDONLY | O_DIRECTORY);
	if (fd >= 0)
		ret = fm_walk_start(&l->walk, fd);
	if (ret >= 0)
		ret = list(l);
	if (fd >= 0)
		fm_walk_end(&l->walk);
	free(l);
	return ret < 0 ? fm_err_sys(err, ret, "look for groups") : 0;
}
