/* SPDX-License-Identifier: MIT */
/* tally - see tally.h. The directories that are known and not yet looked through are a stack. */
#include "client/cli/tally.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "client/lib/fmove.h"

struct count {
	struct fm_tally sum;
	const char *dir;		/* that is looked through */
	char **waiting;			/* paths below the store */
	size_t waits, room;
	int ret;
	struct fmove_error *why;
};

static int fail(struct count *n, int code, const char *text)
{
	return n->ret = fm_found_wrong(n->why, code, text);
}

static int make_room(struct count *n)
{
	size_t room = n->room > 0 ? 2 * n->room : 64;
	char **waiting;

	if (n->waits < n->room)
		return 0;
	if (n->room == FM_TALLY_WAITING_MAX)
		return fail(n, -E2BIG, "too many directories to count what is in them");
	waiting = realloc(n->waiting, room * sizeof(*waiting));
	if (!waiting)
		return fail(n, -ENOMEM, "no memory for the names of directories");
	n->waiting = waiting;
	n->room = room;
	return 0;
}

/* Lets dir/name wait. */
static int wait_for(struct count *n, const char *dir, const char *name)
{
	size_t len = strlen(dir) + strlen(name) + 2;
	char *path;

	if (len > FMOVE_PATH_MAX + 1)
		return fail(n, -ENAMETOOLONG, "a path in it is too long to be named");
	if (make_room(n) < 0)
		return n->ret;
	path = malloc(len);
	if (!path)
		return fail(n, -ENOMEM, "no memory for the name of a directory");
	(void)snprintf(path, len, "%s%s%s", dir, dir[0] && name[0] ? "/" : "", name);
	n->waiting[n->waits++] = path;
	return 0;
}

static bool count_entry(void *ctx, const struct fmove_entry *e)
{
	struct count *n = ctx;

	if (fm_is_interrupted())
		return fail(n, -ECANCELED, "cancelled") == 0;
	if (e->type == FMOVE_DIRECTORY) {
		n->sum.dirs++;
		return wait_for(n, n->dir, e->name) == 0;
	}
	n->sum.files++;
	n->sum.bytes += e->size;
	return true;
}

/* Looks through one directory. */
static int look_through(struct count *n, struct fmove *c, const struct fmove_name *dir)
{
	struct fmove_error why;
	int ret = fmove_list(c, dir, "", count_entry, n, &why);

	if (n->ret < 0 || ret == 0 || ret == -ENOENT || ret == -ENOTDIR)
		return n->ret;
	*n->why = why;
	return n->ret = ret;
}

int fm_tally(struct fmove *c, const struct fmove_name *dir, struct fm_tally *out,
	     struct fmove_error *why)
{
	struct count n = {.why = why};
	struct fmove_name at = *dir;

	(void)wait_for(&n, dir->path, "");	/* n.ret has it */
	while (n.waits > 0 && n.ret == 0) {
		char *path = n.waiting[--n.waits];

		n.dir = at.path = path;
		(void)look_through(&n, c, &at);	/* n.ret has it */
		free(path);
	}
	while (n.waits > 0)
		free(n.waiting[--n.waits]);
	free(n.waiting);
	*out = n.sum;
	return n.ret;
}
