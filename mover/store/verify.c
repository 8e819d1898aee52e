/* SPDX-License-Identifier: MIT */
/*
 * verify - what is stored is read again and compared.
 *
 * Happy path: if what is asked for lies in a tree with a manifest, what that lists of it; then a
 * walk: of each directory that has a manifest what that lists, and of each file that no manifest
 * listed what its own digest says. Failure modes: a directory cannot be read: a finding, and the
 * walk goes on behind it. See verify_file.c and verify_listed.c, too.
 */
#include "mover/store/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/store/sys.h"
#include "mover/store/verify_priv.h"

void fm_verify_init(struct fm_verify *v)
{
	*v = (struct fm_verify){ .waiting = 0 };
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->taken, NULL);
	fm_list_init(&v->findings);
}

void fm_verify_destroy(struct fm_verify *v)
{
	struct fm_finding *f;

	while ((f = fm_verify_take(v)) != NULL)
		free(f);
	pthread_cond_destroy(&v->taken);
	pthread_mutex_destroy(&v->lock);
}

void fm_verify_stop(struct fm_verify *v)
{
	pthread_mutex_lock(&v->lock);
	v->is_stopped = true;
	pthread_cond_signal(&v->taken);
	pthread_mutex_unlock(&v->lock);
}

void fm_verify_look(struct fm_verify *v, struct fm_verify_count *out)
{
	pthread_mutex_lock(&v->lock);
	*out = v->count;
	pthread_mutex_unlock(&v->lock);
}

struct fm_finding *fm_verify_take(struct fm_verify *v)
{
	struct fm_finding *f = NULL;

	pthread_mutex_lock(&v->lock);
	if (!fm_list_is_empty(&v->findings)) {
		f = fm_container_of(fm_list_pop(&v->findings), struct fm_finding, at);
		v->waiting--;
		pthread_cond_signal(&v->taken);
	}
	pthread_mutex_unlock(&v->lock);
	return f;
}

bool fm_verify_is_stopped(struct fm_verify *v)
{
	bool is;

	pthread_mutex_lock(&v->lock);
	is = v->is_stopped;
	pthread_mutex_unlock(&v->lock);
	return is;
}

void fm_verify_add(struct fm_verify *v, uint64_t *counter, uint64_t by)
{
	pthread_mutex_lock(&v->lock);
	*counter += by;
	pthread_mutex_unlock(&v->lock);
}

static uint64_t *counter_of(struct fm_verify_count *c, enum fm_finding_kind kind)
{
	switch (kind) {
	case FM_FINDING_UNREADABLE:
		return &c->unreadable;
	case FM_FINDING_CHANGED:
		return &c->changed;
	case FM_FINDING_MISSING:
		return &c->missing;
	case FM_FINDING_SWAPPED:
		return &c->swapped;
	case FM_FINDING_CORRUPT:
		break;
	}
	return &c->corrupt;
}

int fm_verify_say(struct fm_verify_run *r, enum fm_finding_kind kind, uint64_t offset,
		  uint64_t length)
{
	struct fm_verify *v = r->v;
	size_t len = strlen(r->path);
	struct fm_finding *f = FM_FAULT("verify.finding") ? NULL : malloc(sizeof(*f) + len + 1);

	if (!f)
		return -ENOMEM;
	*f = (struct fm_finding){ .kind = kind, .offset = offset, .length = length };
	fm_list_init(&f->at);
	memcpy(f->path, r->path, len + 1);
	pthread_mutex_lock(&v->lock);
	while (v->waiting >= FM_VERIFY_FINDINGS_MAX && !v->is_stopped)
		pthread_cond_wait(&v->taken, &v->lock);
	fm_list_append(&v->findings, &f->at);
	v->waiting++;
	*counter_of(&v->count, kind) += 1;
	pthread_mutex_unlock(&v->lock);
	return 0;
}

/* ---- all of them ---- */

/* Sets the path of what the walk is at. */
static void set_path(struct fm_verify_run *r, const struct fm_walk_at *at)
{
	size_t len = (size_t)snprintf(r->path, sizeof(r->path), "%s", r->top);
	unsigned above = r->walk->depth - at->is_dir;	/* a directory is entered already */

	for (unsigned i = 1; i < above && len < sizeof(r->path); i++)
		len += (size_t)snprintf(r->path + len, sizeof(r->path) - len, "%s%s",
					len ? "/" : "", r->walk->levels[i].name);
	if (len < sizeof(r->path))
		/* cut: for people */
		(void)snprintf(r->path + len, sizeof(r->path) - len, "%s%s", len ? "/" : "",
			       at->name);
}

/* Checks a file of the walk. One that goes meanwhile is no finding. */
static int meet_file(struct fm_verify_run *r, int dir, const char *name)
{
	int ret = fm_verify_was_listed(r) ? 0 : fm_verify_file(r, dir, name, NULL);

	return ret == -ENOENT ? 0 : ret;
}

static int meet_entry(struct fm_verify_run *r, const struct fm_walk_at *at)
{
	int64_t ret;

	if (at->is_leaving)
		return 0;
	if (fm_path_is_reserved(at->name)) {
		if (at->is_dir)
			/* unfinished trees, and versions that were replaced */
			fm_walk_skip(r->walk);
		return 0;
	}
	set_path(r, at);
	ret = at->is_dir ? fm_verify_listed(r, at->dir, at->name, "")
			 : meet_file(r, at->dir, at->name);
	return ret < 0 ? (int)ret : 0;
}

/*
 * A directory that cannot be read. What is in it is not verified, which a finding tells, with a
 * slash at its path's end; others are.
 */
static int meet_closed(struct fm_verify_run *r, const struct fm_walk_at *at)
{
	size_t len;

	if (fm_path_is_reserved(at->name) || (!r->top[0] && fm_walk_is_lost_found(r->walk, at)))
		return 0;
	set_path(r, at);
	len = strlen(r->path);
	if (len + 1 < sizeof(r->path))
		memcpy(r->path + len, "/", 2);
	fm_verify_add(r->v, &r->v->count.files, 1);
	return fm_verify_say(r, FM_FINDING_UNREADABLE, 0, 0);
}

static int verify_tree(struct fm_verify_run *r, int dir)
{
	struct fm_walk_at at;
	int ret = fm_walk_start(r->walk, dir);

	while (ret == 0) {
		bool is_stopped = fm_verify_is_stopped(r->v);

		ret = is_stopped ? -ECANCELED : fm_walk_next(r->walk, &at);
		if (is_stopped || ret == 0)
			break;
		if (ret > 0)
			ret = meet_entry(r, &at);
		else if (fm_walk_goes_on(r->walk, ret))
			ret = meet_closed(r, &at);
	}
	fm_walk_end(r->walk);
	return ret;
}

/*
 * Verifies what has that name in dir, a file or a directory. The walk of a directory gets a
 * descriptor of its own.
 */
static int verify_there(struct fm_verify_run *r, int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int64_t ret;

	if (fd < 0 && errno != ENOTDIR)
		return -errno;
	if (fd < 0)
		return meet_file(r, dir, name);
	r->is_directory = true;
	ret = r->top[0] ? fm_verify_listed(r, dir, name, "") : 0;
	if (ret >= 0)
		return verify_tree(r, fd);
	close(fd);
	return (int)ret;
}

/*
 * Verifies something that may lie in a tree: the nearest directory above it with a manifest says
 * what should be there. Returns how much that lists.
 */
static int64_t verify_above(struct fm_verify_run *r)
{
	char path[FM_VERIFY_PATH_MAX];
	int64_t listed = 0;
	char *cut;

	(void)snprintf(path, sizeof(path), "%s", r->top);	/* fits: it was checked */
	while (listed == 0 && (cut = strrchr(path, '/')) != NULL) {
		const char *below = r->top + (cut - path) + 1;
		char *name;
		int parent;

		*cut = '\0';
		(void)snprintf(r->path, sizeof(r->path), "%s", path);
		name = strrchr(path, '/');
		if (name)
			*name = '\0';
		parent = fm_sys_open_beneath(r->root, name ? path : ".", O_PATH | O_DIRECTORY);
		if (name)
			*name = '/';
		if (parent < 0)
			continue;	/* said when what is asked for is opened */
		listed = fm_verify_listed(r, parent, name ? name + 1 : path, below);
		close(parent);
	}
	(void)snprintf(r->path, sizeof(r->path), "%s", r->top);
	return listed;
}

static int verify_any(struct fm_verify_run *r, struct fm_err *err)
{
	struct fm_path_parent parent = { .fd = -1, .name = "." };
	int64_t listed = verify_above(r);
	int ret = listed < 0 ? (int)listed : 0;

	if (ret < 0)
		return fm_path_fail(err, ret, "verify", r->top);
	if (r->top[0])
		ret = fm_path_open_parent(r->root, r->top, NULL, &parent, err);
	if (ret == 0)
		ret = verify_there(r, parent.fd >= 0 ? parent.fd : r->root, parent.name);
	if (parent.fd >= 0)
		close(parent.fd);
	if (ret == -ENOENT && listed > 0)
		return 0;	/* it was found missing */
	return ret < 0 ? fm_path_fail(err, ret, "verify", r->top) : 0;
}

int fm_verify_run(struct fm_verify *v, int root, const char *path, struct fm_err *err)
{
	struct fm_verify_run *r = fm_sys_alloc(sizeof(*r));
	int ret = -ENOMEM;

	if (r && fm_budget_take(FM_VERIFY_BUF_BYTES)) {
		r->v = v;
		r->root = root;
		r->top = path;
		r->walk = fm_sys_alloc(sizeof(*r->walk));
		r->buf = FM_FAULT("verify.buf") ? NULL
						: aligned_alloc(FM_BLOCK, FM_VERIFY_BUF_BYTES);
		ret = r->walk && r->buf ? verify_any(r, err)
					: fm_path_fail(err, ret, "verify", path);
		free(r->walk);
		free(r->buf);
		fm_verify_forget(r);
		fm_budget_give(FM_VERIFY_BUF_BYTES);
	} else {
		fm_path_fail(err, ret, "verify", path);
	}
	free(r);
	return ret;
}
