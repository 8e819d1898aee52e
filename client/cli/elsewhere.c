/* SPDX-License-Identifier: MIT */
/*
 * elsewhere - see elsewhere.h.
 *
 * fmove-full lies where fmove itself does (in a build directory, or copied together), or where both
 * were installed. Nothing that a caller can set says where: no variable, and no directory but those
 * of who could as well replace fmove.
 */
#include "client/cli/elsewhere.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client/cli/cmd.h"

#define NAME "fmove-full"

static char **command_line;

void fm_elsewhere_begin(char **argv)
{
	command_line = argv;
	/* ps, pgrep and killall know both by one name; if not, nothing else depends on it. */
	(void)prctl(PR_SET_NAME, "fmove");
}

/* Becomes DIRECTORY/more. Returns only if that is not possible. */
static void become(const char *directory, const char *more)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", directory, more) < (int)sizeof(path))
		(void)execv(path, command_line);
	else
		errno = ENAMETOOLONG;
}

int fm_cmd_elsewhere(int argc, char **argv)
{
	char own[PATH_MAX] = "";	/* cut if it is longer, and then there is no such file */
	char *end;

	(void)argc;
	(void)!readlink("/proc/self/exe", own, sizeof(own) - 1);
	end = strrchr(own, '/');
	if (end) {
		*end = '\0';
		become(own, NAME);
		if (errno == ENOENT)
			become(own, FM_LIBEXEC_FROM_BIN "/" NAME);
	} else {
		errno = ENOENT;
	}
	if (errno == ENOENT)	/* no /proc, or fmove was copied away from where it was installed */
		become(FM_LIBEXEC_DIR, NAME);
	return fm_fail_text(-errno, "%s: start " FM_LIBEXEC_DIR "/" NAME ": %s",
			    argv[0] ? argv[0] : "overview", strerror(errno));
}
