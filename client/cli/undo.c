/* SPDX-License-Identifier: MIT */
/* undo - see undo.h. */
#include "client/cli/undo.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/files.h"
#include "mover/base/err.h"

struct fm_undo_step {
	struct fm_undo_step *before;
	bool is_dir;
	char path[];
};

static int push(struct fm_undo *undo, const char *path, bool is_dir, struct fm_err *err)
{
	struct fm_undo_step *step = malloc(sizeof(*step) + strlen(path) + 1);

	if (!step)
		return fm_err_set(err, -ENOMEM, "out of memory");
	*step = (struct fm_undo_step){.before = undo->last, .is_dir = is_dir};
	strcpy(step->path, path);
	undo->last = step;
	return 0;
}

/* Notes each part of the path that does not exist yet, parents first. */
static int push_missing(struct fm_undo *undo, const char *path, struct fm_err *err)
{
	char part[PATH_MAX];
	int ret = 0;

	for (const char *slash = path; ret == 0 && slash;) {
		slash = strchr(slash + 1, '/');
		if (slash && !slash[1])
			slash = NULL;
		(void)snprintf(part, sizeof(part), "%.*s",
			       slash ? (int)(slash - path) : (int)strlen(path), path);
		if (access(part, F_OK) < 0 && errno == ENOENT)
			ret = push(undo, part, true, err);
	}
	return ret;
}

int fm_undo_dir_make(struct fm_undo *undo, const char *path, mode_t mode, struct fm_err *err)
{
	int ret;

	assert(path[0]);
	if (strlen(path) >= PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", path);
	ret = push_missing(undo, path, err);
	return ret < 0 ? ret : fm_dir_make(path, mode, err);
}

int fm_undo_file(struct fm_undo *undo, const char *path, struct fm_err *err)
{
	return push(undo, path, false, err);
}

void fm_undo_all(struct fm_undo *undo)
{
	for (struct fm_undo_step *step = undo->last; step; step = step->before)
		/* one that has something in it by now stays, as does what was never made */
		(void)(step->is_dir ? rmdir(step->path) : unlink(step->path));
	fm_undo_forget(undo);
}

void fm_undo_forget(struct fm_undo *undo)
{
	while (undo->last) {
		struct fm_undo_step *step = undo->last;

		undo->last = step->before;
		free(step);
	}
}
