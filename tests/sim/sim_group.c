/* SPDX-License-Identifier: MIT */
/*
 * sim_group - publication groups of a simulated disk. A member has the name that it will get,
 * behind PLACE; the commit takes that away from all of them at once, which is the rename of a real
 * one. A node may die on either side of it, and a power cut before its sync takes it back, or not.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim_tree_priv.h"

#define PLACE ".group/"

struct sim_group {
	struct sim_group *next;
	char *path;
	uint8_t id[FM_GROUP_ID_LEN];
	enum { OPEN, COMMITTED, GONE } state;
	bool is_unsynced;		/* the begin, the commit */
	unsigned coming;		/* members that are open */
};

const char *sim_group_name(const char *path)
{
	size_t len = strlen(PLACE);

	return strncmp(path, PLACE, len) == 0 ? path + len : path;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

/* Of the group that has the path, or that the path is in; NULL: there is none. */
static struct sim_group *find(const struct sim_node *n, const char *path)
{
	for (struct sim_group *g = n->groups; g; g = g->next)
		if (g->state != GONE && (strcmp(g->path, path) == 0 || is_below(path, g->path)))
			return g;
	return NULL;
}

static char *place_of(struct sim_node *n, const char *path)
{
	size_t len = strlen(path);
	char *place = sim_alloc(n->sim, strlen(PLACE) + len + 1);

	memcpy(place, PLACE, strlen(PLACE));
	memcpy(place + strlen(PLACE), path, len + 1);
	return place;
}

/* ---- members ---- */

/* All names of a disk: what the callback returns they are called from then on; NULL: it goes. */
static void rename_all(struct sim_node *n, const struct sim_group *g,
		       char *(*rename)(struct sim_node *n, const struct sim_group *g, char *path))
{
	sim_store_rename(n, g, rename);
	sim_tree_rename(n, g, rename);
}

static char *publish(struct sim_node *n, const struct sim_group *g, char *path)
{
	char *name = path + (sim_group_name(path) - path);

	(void)n;
	return is_below(name, g->path) ? name : path;
}

static char *take_back(struct sim_node *n, const struct sim_group *g, char *path)
{
	return is_below(path, g->path) ? place_of(n, path) : path;
}

static char *drop(struct sim_node *n, const struct sim_group *g, char *path)
{
	const char *name = sim_group_name(path);

	(void)n;
	return name != path && is_below(name, g->path) ? NULL : path;
}

struct sim_blob *sim_group_member(struct sim_node *n, const char *path)
{
	return sim_disk_find(n, place_of(n, path));
}

struct sim_tree *sim_group_tree(struct sim_node *n, const char *path)
{
	return sim_disk_find_tree(n, place_of(n, path));
}

static bool is_there(struct sim_node *n, const char *path)
{
	return sim_group_member(n, path) || sim_group_tree(n, path);
}

int sim_group_enter(struct sim_node *n, const char *path, const uint8_t id[FM_GROUP_ID_LEN],
		    const char **place, struct sim_group **out, struct fm_err *err)
{
	struct sim_group *g = find(n, path);

	if (!g || g->state != OPEN)
		return fm_err_set(err, -ENOENT, "%s: no open group", path);
	if (memcmp(g->id, id, FM_GROUP_ID_LEN) != 0)
		return fm_err_set(err, -EPERM, "%s: the ID is another group's", path);
	*place = place_of(n, path);
	g->coming++;
	*out = g;
	return 0;
}

void sim_group_let_go(struct sim_group *g)
{
	if (g)
		g->coming--;
}

/* ---- what is asked of one ---- */

static int begin(struct sim_node *n, const char *path, const struct fm_group_ask *ask,
		 struct fm_err *err)
{
	struct sim_group *g = find(n, path);

	if (g)
		return memcmp(g->id, ask->id, sizeof(g->id)) == 0
			       ? 0
			       : fm_err_set(err, -EEXIST, "%s: another group has it", path);
	if (sim_crash_point(n))
		return fm_err_set(err, -EIO, "its node died");
	g = sim_alloc(n->sim, sizeof(*g));
	g->path = sim_tree_copy(n->sim, path, strlen(path));
	memcpy(g->id, ask->id, sizeof(g->id));
	g->next = n->groups;
	n->groups = g;
	g->is_unsynced = true;
	if (sim_crash_point(n))
		return fm_err_set(err, -EIO, "its node died");
	g->is_unsynced = false;
	return 0;
}

/* The names expected, one a line, below the group. */
static int look_for_all(struct sim_node *n, const struct sim_group *g,
			const struct fm_group_ask *ask, struct fm_err *err)
{
	const char *at = ask->expect, *end = at + ask->expect_len;
	struct fm_group_names missing = { .count = 0 };
	char path[64];

	while (at && at < end) {
		const char *line = memchr(at, '\n', (size_t)(end - at));
		size_t len = line ? (size_t)(line - at) : (size_t)(end - at);

		(void)snprintf(path, sizeof(path), "%s/%.*s", g->path, (int)len, at);
		missing.count += !is_there(n, path);
		at += len + 1;
	}
	if (ask->missing)
		*ask->missing = missing;
	return missing.count == 0 ? 0 : fm_err_set(err, -ENODATA, "%s: %u are missing", g->path,
						   missing.count);
}

static int commit(struct sim_node *n, struct sim_group *g, const struct fm_group_ask *ask,
		  struct fm_err *err)
{
	int ret;

	if (g->state == COMMITTED)
		return 0;
	if (g->coming > 0)
		return fm_err_set(err, -EBUSY, "%s: %u still come", g->path, g->coming);
	ret = look_for_all(n, g, ask, err);
	if (ret < 0)
		return ret;
	if (sim_crash_point(n))
		return fm_err_set(err, -EIO, "its node died before the rename");
	rename_all(n, g, publish);
	g->state = COMMITTED;
	g->is_unsynced = true;
	sim_trace(n->sim, "%s: group %s is published", n->name, g->path);
	if (sim_crash_point(n))
		return fm_err_set(err, -EIO, "its node died before the sync");
	g->is_unsynced = false;
	return 0;
}

static int discard(struct sim_node *n, struct sim_group *g, struct fm_err *err)
{
	if (g->state == COMMITTED)
		return fm_err_set(err, -EEXIST, "%s: it was committed", g->path);
	if (g->coming > 0)
		return fm_err_set(err, -EBUSY, "%s: %u still come", g->path, g->coming);
	if (sim_crash_point(n))
		return fm_err_set(err, -EIO, "its node died");
	rename_all(n, g, drop);
	g->state = GONE;
	return 0;
}

int sim_group_do(struct sim_node *n, const char *path, const struct fm_group_ask *ask,
		 struct fm_err *err)
{
	struct sim_group *g = find(n, path);

	if (ask->op == FM_GROUP_BEGIN)
		return begin(n, path, ask, err);
	if (!g)
		return fm_err_set(err, -ENOENT, "%s: no group", path);
	if (memcmp(g->id, ask->id, sizeof(g->id)) != 0)
		return fm_err_set(err, -EPERM, "%s: the ID is another group's", path);
	return ask->op == FM_GROUP_COMMIT ? commit(n, g, ask, err) : discard(n, g, err);
}

/* ---- crashes ---- */

void sim_groups_die(struct sim_node *n)
{
	for (struct sim_group *g = n->groups; g; g = g->next) {
		bool is_lost = g->is_unsynced && n->death == SIM_POWER_CUT && sim_one_in(n->sim, 2);

		if (is_lost && g->state == COMMITTED) {
			rename_all(n, g, take_back);
			g->state = OPEN;
		} else if (is_lost) {
			g->state = GONE;
		}
		g->is_unsynced = false;
	}
}
