/* SPDX-License-Identifier: MIT */
/*
 * openat2 - what QEMU's user mode lacks, for the programs that it runs: openat2(2), by which
 * fmove opens all that lies below a directory (mover/base/call.h).
 *
 * Loaded before the C library (LD_PRELOAD). It walks component by component, so somebody who
 * renames meanwhile could lead it out: it is for tests of everything but that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 40	/* the kernel's own limit */
#define TEXT_MAX (2 * PATH_MAX)

long syscall(long number, ...);

struct walk {
	const struct open_how *how;
	int at;			/* the directory that was reached */
	unsigned depth;		/* below the one that it began in */
	unsigned links;
	char left[TEXT_MAX];	/* what is still to be walked */
};

static int fail(int code)
{
	errno = code;
	return -1;
}

/* -1: its file system has none to tell. */
static int mount_of(int fd)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} of = { .handle.handle_bytes = MAX_HANDLE_SZ };
	int mount;

	return name_to_handle_at(fd, "", &of.handle, &mount, AT_EMPTY_PATH) == 0 ? mount : -1;
}

static bool is_elsewhere(const struct walk *w, int fd)
{
	struct stat here, there;

	return w->how->resolve & RESOLVE_NO_XDEV &&
	       (fstat(w->at, &here) < 0 || fstat(fd, &there) < 0 || here.st_dev != there.st_dev ||
		mount_of(w->at) != mount_of(fd));
}

/* Closes fd if it may not be had. */
static int checked(const struct walk *w, int fd)
{
	if (fd < 0 || !is_elsewhere(w, fd))
		return fd;
	close(fd);
	return fail(EXDEV);
}

static int follow(struct walk *w, const char *target)
{
	char left[TEXT_MAX];

	if (w->how->resolve & RESOLVE_NO_SYMLINKS || ++w->links > LINKS_MAX)
		return fail(ELOOP);
	if (target[0] == '/')
		return fail(EXDEV);
	if (snprintf(left, sizeof(left), "%s%s%s", target, w->left[0] ? "/" : "", w->left) >=
	    (int)sizeof(left))
		return fail(ENAMETOOLONG);
	memcpy(w->left, left, sizeof(left));
	return 0;
}

static int step_into(struct walk *w, const char *name)
{
	bool is_up = strcmp(name, "..") == 0;
	int next;

	if (is_up && w->depth == 0 && w->how->resolve & RESOLVE_BENEATH)
		return fail(EXDEV);
	next = checked(w, openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (next < 0)
		return -1;
	close(w->at);
	w->at = next;
	w->depth += is_up ? -1u : 1u;
	return 0;
}

static int open_last(struct walk *w, const char *name)
{
	int flags = (int)w->how->flags | O_NOFOLLOW;

	return checked(w, openat(w->at, name, flags, (mode_t)w->how->mode));
}

/* Takes one name of what is left. 0: on with the next; 1: *fd is what was asked for. */
static int step(struct walk *w, int *fd)
{
	char name[NAME_MAX + 2] = "", target[PATH_MAX] = "";
	size_t len = strcspn(w->left, "/"), gap = strspn(w->left + len, "/");
	bool is_last = w->left[len + gap] == '\0', is_link;

	if (len > NAME_MAX)
		return fail(ENAMETOOLONG);
	memcpy(name, w->left, len);
	memmove(w->left, w->left + len + gap, strlen(w->left + len + gap) + 1);
	if (len == 0 || strcmp(name, ".") == 0) {
		*fd = is_last ? open_last(w, ".") : -1;
		return is_last ? (*fd < 0 ? -1 : 1) : 0;
	}
	is_link = readlinkat(w->at, name, target, sizeof(target) - 1) > 0;
	if (is_link && !(is_last && w->how->flags & (O_NOFOLLOW | O_EXCL)))
		return follow(w, target);
	if (!is_last)
		return step_into(w, name);
	if (strcmp(name, "..") == 0 || gap > 0) {
		if (step_into(w, name) < 0)
			return -1;
		(void)snprintf(name, sizeof(name), ".");
	}
	*fd = open_last(w, name);
	return *fd < 0 ? -1 : 1;
}

static int emulate(int dir, const char *path, const struct open_how *how)
{
	struct walk w = { .how = how };
	int ret = 0, code, fd = -1;

	if (path[0] == '\0')
		return fail(ENOENT);
	if (path[0] == '/' && how->resolve & RESOLVE_BENEATH)
		return fail(EXDEV);
	if (snprintf(w.left, sizeof(w.left), "%s", path) >= PATH_MAX)
		return fail(ENAMETOOLONG);
	w.at = openat(path[0] == '/' ? AT_FDCWD : dir, path[0] == '/' ? "/" : ".",
		      O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w.at < 0)
		return -1;
	while (ret == 0)
		ret = step(&w, &fd);
	code = errno;
	close(w.at);
	errno = code;
	return ret < 0 ? -1 : fd;
}

/* What it starts are this machine's programs, for which this is nothing. */
__attribute__((constructor)) static void stay_alone(void)
{
	(void)unsetenv("LD_PRELOAD");
}

long syscall(long number, ...)
{
	static long (*next)(long number, ...);
	long arg[6];
	va_list list;

	va_start(list, number);
	for (unsigned i = 0; i < 6; i++)
		arg[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_openat2)
		return emulate((int)arg[0], (const char *)arg[1], (const struct open_how *)arg[2]);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	return next(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
