/* SPDX-License-Identifier: MIT */
/*
 * same_content A B - have two directories the same names, kinds, link targets and bytes? What is a
 * hole in both is not read: of a large sparse file diff -r reads all zeros. Prints the first
 * difference and exits 1; 2: something cannot be read.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (1 << 20)

static void differ(const char *what, const char *a)
{
	printf("%s: %s\n", a, what);
	exit(1);
}

/* The first byte from `at` on that is not in a hole; size: there is none. */
static off_t data_from(int fd, off_t at, off_t size)
{
	off_t next = lseek(fd, at, SEEK_DATA);

	if (next < 0 && errno != ENXIO)
		return at;	/* a file system without holes */
	return next < 0 ? size : next;
}

static void read_all(int fd, char *to, size_t length, off_t at, const char *name)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = pread(fd, to + done, length - done, at + (off_t)done);

		if (n <= 0)
			err(2, "%s", name);
		done += (size_t)n;
	}
}

static void compare_files(const char *a, const char *b, off_t size)
{
	static char left[BLOCK], right[BLOCK];
	int fa = open(a, O_RDONLY), fb = open(b, O_RDONLY);

	if (fa < 0 || fb < 0)
		err(2, "%s", fa < 0 ? a : b);
	for (off_t at = 0;;) {
		off_t in_a = data_from(fa, at, size), in_b = data_from(fb, at, size);
		size_t length;

		at = in_a < in_b ? in_a : in_b;
		if (at >= size)
			break;
		length = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
		read_all(fa, left, length, at, a);
		read_all(fb, right, length, at, b);
		if (memcmp(left, right, length) != 0)
			differ("other bytes", a);
		at += (off_t)length;
	}
	close(fa);
	close(fb);
}

static void compare_links(const char *a, const char *b)
{
	char to_a[PATH_MAX], to_b[PATH_MAX];
	ssize_t n = readlink(a, to_a, sizeof(to_a)), m = readlink(b, to_b, sizeof(to_b));

	if (n < 0 || n != m || memcmp(to_a, to_b, (size_t)n) != 0)
		differ("leads elsewhere", a);
}

static void compare(const char *a, const char *b);

static void compare_dirs(const char *a, const char *b)
{
	struct dirent **in_a, **in_b;
	int n = scandir(a, &in_a, NULL, alphasort), m = scandir(b, &in_b, NULL, alphasort);

	if (n < 0 || m < 0)
		err(2, "%s", n < 0 ? a : b);
	for (int i = 0; i < n || i < m; i++) {
		char next_a[PATH_MAX], next_b[PATH_MAX];

		if (i >= n || i >= m || strcmp(in_a[i]->d_name, in_b[i]->d_name) != 0)
			differ(i < n ? in_a[i]->d_name : in_b[i]->d_name, a);
		if (strcmp(in_a[i]->d_name, ".") == 0 || strcmp(in_a[i]->d_name, "..") == 0)
			continue;
		if (snprintf(next_a, sizeof(next_a), "%s/%s", a, in_a[i]->d_name) >= PATH_MAX ||
		    snprintf(next_b, sizeof(next_b), "%s/%s", b, in_b[i]->d_name) >= PATH_MAX)
			errx(2, "%s: too deep", a);
		compare(next_a, next_b);
	}
	for (int i = 0; i < n; i++)
		free(in_a[i]);
	for (int i = 0; i < m; i++)
		free(in_b[i]);
	free(in_a);
	free(in_b);
}

static void compare(const char *a, const char *b)
{
	struct stat sa, sb;

	if (lstat(a, &sa) < 0 || lstat(b, &sb) < 0)
		err(2, "%s or %s", a, b);
	if ((sa.st_mode & S_IFMT) != (sb.st_mode & S_IFMT))
		differ("another kind", a);
	if (S_ISDIR(sa.st_mode))
		compare_dirs(a, b);
	else if (S_ISLNK(sa.st_mode))
		compare_links(a, b);
	else if (S_ISREG(sa.st_mode) && sa.st_size != sb.st_size)
		differ("another size", a);
	else if (S_ISREG(sa.st_mode))
		compare_files(a, b, sa.st_size);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: same_content A B");
	compare(argv[1], argv[2]);
	return 0;
}
