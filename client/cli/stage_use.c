/* SPDX-License-Identifier: MIT */
/* stage_use - see stage_use.h. */
#include "client/cli/stage_use.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "client/cli/link_tree.h"
#include "client/cli/show.h"
#include "client/cli/stage_line.h"
#include "client/cli/warm.h"
#include "mover/base/err.h"

/* Exit status where the command cannot be run; its own is any else. */
enum { NOT_RUN = 126, NOT_FOUND = 127 };

static int link_it(struct fm_stage_use *u, const char *path, struct fm_err *err)
{
	uint64_t links;
	int ret = fm_link_tree(path, u->link, u->path, sizeof(u->path), &links, err);

	if (ret == 0)
		fm_say("%s: %llu link%s to %s", u->link, (unsigned long long)links,
		       links == 1 ? "" : "s", path);
	return ret;
}

struct warming {
	struct fm_stage_line line;
	const char *what;
};

static void warming(void *ctx, uint64_t bytes, uint64_t size)
{
	struct warming *w = ctx;

	fm_stage_line_show(&w->line, &(struct fm_stage_report){ .what = w->what,
								.phase = "reading into memory",
								.bytes = bytes,
								.size = size });
}

/* Reads the copy into memory. If it does not fit, nothing is read, which is no error. */
static int warm_it(struct fm_stage_use *u, const char *path, struct fm_err *err)
{
	struct warming w = { .what = u->what };
	const struct fm_warm_opts o = { .path = path, .follows_links = u->hf_home,
					.progress = isatty(STDERR_FILENO) ? warming : NULL,
					.ctx = &w };
	char bytes[FM_SHOW_MAX], room[FM_SHOW_MAX];
	struct fm_warmed warmed;
	int ret;

	ret = fm_warm(&o, &warmed, err);
	fm_stage_line_clear(&w.line);
	if (ret < 0)
		return ret;
	fm_show_bytes(warmed.bytes, bytes);
	if (warmed.fits)
		fm_say("--warm: %s read into memory", bytes);
	else
		fm_say("--warm: %s are more than the %s of memory that are free: none of it is "
		       "read", bytes, fm_show_bytes(warmed.room, room));
	u->is_warm = warmed.fits;
	return 0;
}

const char *fm_stage_use_option(const struct fm_stage_use *u)
{
	if (u->link)
		return "link";
	return u->has_warm ? "warm" : NULL;
}

int fm_stage_use(struct fm_stage_use *u, const char *path, struct fm_err *err)
{
	int ret = 0;

	(void)snprintf(u->path, sizeof(u->path), "%s", path);
	if (!path[0])
		return 0;
	if (u->link)
		ret = link_it(u, path, err);
	if (ret == 0 && u->has_warm)
		ret = warm_it(u, path, err);
	return ret;
}

/*
 * Sets FMOVE_STAGED, and for a copy of a hub HF_HOME. HF_HUB_CACHE wins over HF_HOME, so it is set
 * too: elsewhere it might lead to another hub.
 */
static int set_environment(const struct fm_stage_use *u)
{
	char hub[FMOVE_PATH_MAX + sizeof("/hub")];

	if (setenv("FMOVE_STAGED", u->path, 1) < 0)
		return -1;
	if (!u->hf_home)
		return 0;
	(void)snprintf(hub, sizeof(hub), "%s/hub", u->hf_home);
	return setenv("HF_HOME", u->hf_home, 1) < 0 ? -1 : setenv("HF_HUB_CACHE", hub, 1);
}

int fm_stage_run(const struct fm_stage_use *u)
{
	struct fm_err err;
	int code;

	if (fm_is_interrupted())	/* too late to end the waiting, not too late for this */
		return FM_EXIT_CANCELLED;
	fm_pipe_signal_restore();
	if (set_environment(u) == 0)
		(void)execvp(u->command[0], u->command);
	code = errno;
	fm_pipe_signal_ignore();
	(void)fm_err_sys(&err, -code, "%s", u->command[0]);
	(void)fm_fail("stage", &err);
	return code == ENOENT ? NOT_FOUND : NOT_RUN;	/* as of env(1) and the shell */
}
