/* SPDX-License-Identifier: MIT */
/*
 * full - see full.h.
 *
 * fmove-full lies where fmove itself does (in a build directory, or copied together), or where both
 * were installed. No variable says where. What lies there is taken if it belongs to root or to
 * whom fmove belongs, and not everybody may write to it: in a directory like /tmp, beside a copy of
 * fmove, somebody else may have put a program of that name. It is opened once, looked at and
 * started as that, so that it cannot be another one in between.
 */
#include "client/cli/full.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cmd.h"

#define NAME "fmove-full"
#define FRONT "FMOVE_FRONT" /* the version of the fmove that became fmove-full */

static char **command_line;

void fm_full_begin(char **argv)
{
	const char *front = getenv(FRONT);

	command_line = argv;
	/* ps, pgrep and killall know both by one name; if not, nothing else depends on it. */
	(void)prctl(PR_SET_NAME, "fmove");
	if (front && strcmp(front, FM_VERSION) != 0)
		exit(fm_fail_text(-EINVAL,
				  "fmove is of version %s and " NAME " of %s: install both again",
				  front, FM_VERSION));
	(void)unsetenv(FRONT);
}

static bool is_trusted(int fd, const struct stat *own)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & S_IWOTH) &&
	       (st.st_uid == 0 || st.st_uid == own->st_uid);
}

/* Becomes that file. Returns only if that is not possible, with errno. */
static void become(const char *path, const struct stat *own)
{
	int fd = open(path, O_PATH | O_CLOEXEC), code = EPERM;

	if (fd < 0)
		return;
	if (is_trusted(fd, own)) {
		(void)execveat(fd, "", command_line, environ, AT_EMPTY_PATH);
		code = errno;
	}
	(void)close(fd);
	errno = code;
}

/* The first that is there tells why it cannot be started; the last if none is. */
static int cannot(const char *verb, const char *path, int code)
{
	return fm_fail_text(-code, "%s: start %s: %s", verb, path,
			    code == EPERM ? "it belongs to somebody else, or all may write to it"
					  : strerror(code));
}

int fm_cmd_full(int argc, char **argv)
{
	static const char *const from_own[] = {NAME, FM_LIBEXEC_FROM_BIN "/" NAME};
	const char *verb = argv[0] ? argv[0] : "overview", *installed = FM_LIBEXEC_DIR "/" NAME;
	char own[PATH_MAX / 2] = "", path[PATH_MAX], found[PATH_MAX] = "";
	struct stat st = {.st_uid = 0};
	char *end;
	int code = 0;

	(void)argc;
	(void)setenv(FRONT, FM_VERSION, 1);
	/* Cut if it is longer, and then there is no such file; nor is there without /proc. */
	(void)!readlink("/proc/self/exe", own, sizeof(own) - 1);
	(void)stat("/proc/self/exe", &st);
	end = strrchr(own, '/');
	for (size_t i = 0; end && i < sizeof(from_own) / sizeof(from_own[0]); i++) {
		(void)snprintf(path, sizeof(path), "%.*s/%s", (int)(end - own), own, from_own[i]);
		become(path, &st);
		if (errno != ENOENT && errno != ENOTDIR && !found[0]) {
			code = errno;
			(void)snprintf(found, sizeof(found), "%s", path);
		}
	}
	become(installed, &st);
	return found[0] && errno == ENOENT ? cannot(verb, found, code)
					   : cannot(verb, installed, errno);
}
