/* SPDX-License-Identifier: MIT */
/*
 * full - see full.h.
 *
 * fmove-full lies where fmove itself does (in a build directory, or copied together), or where both
 * were installed. No variable says where. It is taken if it and the directories in which its name
 * is looked up belong to root, to whom fmove belongs or to who calls it, and not all may make names
 * there: in one like /tmp, beside a copy of fmove, somebody else may have put a program of that
 * name, or led it to another one. A group that may write is trusted. It is opened once, looked at
 * and started as that, so that it cannot be another one in between.
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
#include "client/cli/interrupt.h"

#define NAME "fmove-full"
#define FRONT "FMOVE_FRONT" /* version and build of the fmove that became fmove-full */

static char **command_line;

/* "0.1.0 0123456789abcdef" */
static const char *own_build(void)
{
	static char text[64];

	(void)snprintf(text, sizeof(text), "%s %s", FM_VERSION, fm_build_id);	/* fits */
	return text;
}

static int refuse(const char *front)
{
	const size_t len = strcspn(front, " ");

	if (len != strlen(FM_VERSION) || memcmp(front, FM_VERSION, len) != 0)
		return fm_fail_text(-EINVAL,
				    "fmove is of version %.*s and " NAME
				    " of %s: install both again",
				    (int)len, front, FM_VERSION);
	return fm_fail_text(-EINVAL,
			    "fmove and " NAME " are of two builds of version %s (%s, %s): install "
			    "both again",
			    FM_VERSION, front[len] ? front + len + 1 : "one that does not say",
			    fm_build_id);
}

int fm_full_begin(char **argv)
{
	const char *front = getenv(FRONT);

	command_line = argv;
	/* ps, pgrep and killall know both by one name; if not, nothing else depends on it. */
	(void)prctl(PR_SET_NAME, "fmove");
	if (front && strcmp(front, own_build()) != 0)
		return refuse(front);
	(void)unsetenv(FRONT);
	return FM_EXIT_DONE;
}

#define UNTRUSTED (-1) /* no errno */

/*
 * Belongs to root, to whom fmove belongs or to who calls it, and not all may write to it: of a
 * directory, also those who may make names there but not remove those of others.
 */
static bool is_trusted(int fd, const struct stat *own, mode_t type)
{
	mode_t others = type == S_IFDIR ? S_IWOTH | S_ISVTX : S_IWOTH;
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && !(st.st_mode & others) &&
	       (st.st_uid == 0 || st.st_uid == own->st_uid || st.st_uid == geteuid());
}

/*
 * What is opened is started. A script, or a program for another processor, is started by another
 * one, which has to find the descriptor open.
 */
static int start(int fd)
{
	int code;

	fm_pipe_signal_restore();	/* what it starts in turn has it as whoever started us */
	(void)execveat(fd, "", command_line, environ, AT_EMPTY_PATH);
	if (errno == ENOENT && fcntl(fd, F_SETFD, 0) == 0)
		(void)execveat(fd, "", command_line, environ, AT_EMPTY_PATH);
	code = errno == ENOENT ? ENOEXEC : errno;
	fm_pipe_signal_ignore();
	return code;
}

/*
 * Opens what leads there from a directory, part by part. Where others could have made a part's name
 * it is as if there were none. A descriptor, or -1 with errno.
 */
static int open_below(const char *from, const char *path, const struct stat *own)
{
	char parts[PATH_MAX], *rest = parts, *part;
	int dir = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC), next, code;

	(void)snprintf(parts, sizeof(parts), "%s", path);
	while (dir >= 0 && (part = strsep(&rest, "/"))) {
		bool is_name = part[0] != '.';

		next = is_name && !is_trusted(dir, own, S_IFDIR)
			       ? (errno = ENOENT, -1)
			       : openat(dir, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
		code = errno;
		(void)close(dir);
		errno = code;
		dir = next;
	}
	return dir;
}

/* Becomes fmove-full of that directory, and closes it. Returns only if that cannot be: why. */
static int become(int dir, const struct stat *own)
{
	int code, fd;

	if (dir < 0)
		return errno;
	fd = openat(dir, NAME, O_PATH | O_CLOEXEC);
	if (fd < 0)
		code = errno;
	else if (!is_trusted(dir, own, S_IFDIR) || !is_trusted(fd, own, S_IFREG))
		code = UNTRUSTED;
	else
		code = start(fd);
	if (fd >= 0)
		(void)close(fd);
	(void)close(dir);
	return code;
}

/* What can be done; "": what goes by the error alone is said with it (next_step.h). */
static const char *mend(int code)
{
	switch (code) {
	case ENOENT:
	case ENOEXEC:
		return "; fmove is not installed whole: install its package again, or make install";
	case EACCES:
		return "; the modes there forbid it (namei -l)";
	default:
		return "";
	}
}

static int cannot(const char *verb, const char *directory, int code)
{
	if (code == UNTRUSTED)
		return fm_fail_text(-EPERM,
				    "%s: start %s/" NAME ": it or its directory belongs to "
				    "somebody else, or all may write there; make both root's, and "
				    "writable by nobody else (chown root, chmod go-w)",
				    verb, directory);
	return fm_fail_text(-code, "%s: start %s/" NAME ": %s%s", verb, directory, strerror(code),
			    mend(code));
}

int fm_cmd_full(int argc, char **argv)
{
	static const char *const from_own[] = {".", FM_LIBEXEC_FROM_BIN};
	const char *verb = argv[0] ? argv[0] : "overview";
	char own[PATH_MAX / 2] = "", found[PATH_MAX] = "";
	struct stat st = {.st_uid = 0};
	int code, first = 0;
	char *end;

	(void)argc;
	(void)setenv(FRONT, own_build(), 1);
	/* Cut if it is longer, and then there is no such file; nor is there without /proc. */
	(void)!readlink("/proc/self/exe", own, sizeof(own) - 1);
	(void)stat("/proc/self/exe", &st);
	end = strrchr(own, '/');
	if (end)
		*end = '\0';
	for (size_t i = 0; end && i < sizeof(from_own) / sizeof(from_own[0]); i++) {
		code = become(open_below(own[0] ? own : "/", from_own[i], &st), &st);
		if (code != ENOENT && code != ENOTDIR && !found[0]) {
			first = code;
			(void)snprintf(found, sizeof(found), "%s/%s", own, from_own[i]);
		}
	}
	code = become(open(FM_LIBEXEC_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC), &st);
	/* The first that is there tells why it cannot be started; the last if none is. */
	return found[0] && code == ENOENT ? cannot(verb, found, first)
					  : cannot(verb, FM_LIBEXEC_DIR, code);
}
