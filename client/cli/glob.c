/* SPDX-License-Identifier: MIT */
/* glob - see glob.h. A list of paths grows by a component of the pattern at a time. */
#include "client/cli/glob.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"

#define NO_MEMORY "no memory for the names that match"

/* One component of the pattern, and what has come of it. */
struct step {
	struct fmove *c;
	const struct fm_name *pattern;
	char component[FMOVE_PATH_MAX + 1];
	bool is_last;
	const char *prefix;		/* the directory that is looked through */
	struct fm_glob found;
	size_t room;			/* of found.paths */
	int ret;
	struct fmove_error *why;
};

bool fm_glob_is_pattern(const char *path)
{
	return path[strcspn(path, "*?[")] != '\0';
}

void fm_glob_free(struct fm_glob *g)
{
	for (size_t i = 0; i < g->count; i++)
		free(g->paths[i]);
	free(g->paths);
	free(g->entries);
	*g = (struct fm_glob){.count = 0};
}

static int more_room(struct step *s)
{
	size_t room = s->room > 0 ? 2 * s->room : 64;
	struct fmove_entry *entries = realloc(s->found.entries, room * sizeof(*entries));
	char **paths = realloc(s->found.paths, room * sizeof(*paths));

	if (entries)
		s->found.entries = entries;
	if (paths)
		s->found.paths = paths;
	if (!entries || !paths)
		return s->ret = fm_found_wrong(s->why, -ENOMEM, NO_MEMORY);
	s->room = room;
	return 0;
}

/* Adds prefix/name to what was found; entry: what it is. */
static int add(struct step *s, const char *name, const struct fmove_entry *entry)
{
	size_t len = strlen(s->prefix) + strlen(name) + 2;
	char text[64], *path;

	if (len > FMOVE_PATH_MAX + 1)
		return 0;	/* a path that cannot be named matches nothing */
	if (s->found.count == FM_GLOB_MAX) {
		(void)snprintf(text, sizeof(text), "more than %d names match", FM_GLOB_MAX);
		return s->ret = fm_found_wrong(s->why, -E2BIG, text);
	}
	if (s->found.count == s->room && more_room(s) < 0)
		return s->ret;
	path = malloc(len);
	if (!path)
		return s->ret = fm_found_wrong(s->why, -ENOMEM, NO_MEMORY);
	(void)snprintf(path, len, "%s%s%s", s->prefix, s->prefix[0] ? "/" : "", name);
	s->found.entries[s->found.count] = *entry;
	s->found.paths[s->found.count++] = path;
	return 0;
}

/* Whether the entry may be a directory. Where a link leads shows only when it is listed. */
static bool can_be_parent(const struct fmove_entry *e)
{
	return e->type == FMOVE_DIRECTORY || e->type == FMOVE_LINK;
}

static bool take_entry(void *ctx, const struct fmove_entry *e)
{
	struct step *s = ctx;

	if (fm_is_interrupted()) {
		s->ret = fm_found_wrong(s->why, -ECANCELED, "cancelled");
		return false;
	}
	if ((!s->is_last && !can_be_parent(e)) ||
	    fnmatch(s->component, e->name, FNM_PATHNAME | FNM_PERIOD) != 0)
		return true;
	return add(s, e->name, e) == 0;
}

static bool is_nothing_there(int ret)
{
	return ret == -ENOENT || ret == -ENOTDIR;
}

/* Finds all entries of a directory that match. */
static int look_through(struct step *s)
{
	const struct fmove_name dir = {s->pattern->node, s->pattern->store, s->prefix};
	struct fmove_error why;
	int ret = fmove_list(s->c, &dir, "", take_entry, s, &why);

	if (s->ret < 0 || ret == 0 || is_nothing_there(ret))
		return s->ret;
	*s->why = why;
	return ret;
}

/*
 * Takes a component without a pattern. In the middle it is looked into later; at the end it must
 * exist.
 */
static int take_name(struct step *s)
{
	struct fmove_name name = {s->pattern->node, s->pattern->store, NULL};
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;
	size_t before = s->found.count;
	int ret = add(s, s->component, &(struct fmove_entry){.type = FMOVE_OTHER});

	if (ret < 0 || !s->is_last || s->found.count == before)
		return ret;
	name.path = s->found.paths[before];
	ret = fmove_stat(s->c, &name, &entry, &why);
	if (ret == 0) {
		s->found.entries[before] = entry;
		return 0;
	}
	free(s->found.paths[--s->found.count]);
	if (is_nothing_there(ret))
		return 0;
	*s->why = why;
	return ret;
}

/* Finds the next component below each path of `from`, and puts it into s->found. */
static int take_step(struct step *s, const struct fm_glob *from)
{
	bool is_plain = s->component[strcspn(s->component, "*?[\\")] == '\0';
	int ret = 0;

	for (size_t i = 0; i < from->count && ret == 0; i++) {
		s->prefix = from->paths[i];
		ret = is_plain ? take_name(s) : look_through(s);
	}
	return ret;
}

int fm_glob_match(struct fmove *c, const struct fm_name *pattern, struct fm_glob *out,
		  struct fmove_error *why)
{
	struct step s = {.c = c, .pattern = pattern, .prefix = "", .why = why};
	struct fm_glob from = {.count = 0};
	const char *at = pattern->path;
	int ret;

	/* the store itself is where it begins */
	ret = add(&s, "", &(struct fmove_entry){.type = FMOVE_DIRECTORY});
	while (ret == 0 && *at) {
		size_t len = strcspn(at, "/");

		fm_glob_free(&from);
		from = s.found;
		s.found = (struct fm_glob){.count = 0};
		s.room = 0;
		(void)snprintf(s.component, sizeof(s.component), "%.*s", (int)len, at);
		at += len + (at[len] == '/');
		s.is_last = *at == '\0';
		ret = take_step(&s, &from);
	}
	fm_glob_free(&from);
	if (ret < 0)
		fm_glob_free(&s.found);
	*out = s.found;
	return ret;
}

int fm_glob_instead(struct fmove *c, const struct fm_name *pattern, int ret, struct fm_glob *out,
		    struct fmove_error *why)
{
	const struct fmove_name root = {pattern->node, pattern->store, ""};
	struct fmove_entry entry = {.struct_size = sizeof(entry)};

	if (!is_nothing_there(ret))
		return ret;
	ret = fm_glob_match(c, pattern, out, why);
	if (ret < 0 || out->count > 0)
		return ret;
	ret = fmove_stat(c, &root, &entry, why);	/* else a misspelt store matched nothing */
	return ret < 0 ? ret : fm_found_wrong(why, -ENOENT, "nothing there matches");
}
