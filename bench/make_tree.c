/* SPDX-License-Identifier: MIT */
/*
 * make_tree - a directory of many files for measuring: COUNT files of SIZE bytes on average (half
 * to one and a half times SIZE; exactly SIZE with "=", which may be 0), a thousand to a
 * directory, filled with numbers that no file system can compress.
 *
 * usage: make_tree DIRECTORY COUNT [=]SIZE
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PER_DIRECTORY 1000u
#define SIZE_MAX_BYTES (64u << 20)

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void die(const char *what)
{
	(void)fprintf(stderr, "make_tree: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void make_file(const char *path, const uint64_t *content, size_t len)
{
	const char *at = (const char *)content;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0)
		die(path);
	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n <= 0)
			die(path);
		at += n;
		len -= (size_t)n;
	}
	if (close(fd) < 0)
		die(path);
}

int main(int argc, char **argv)
{
	unsigned long count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	int is_exact = argc == 4 && argv[3][0] == '=';
	unsigned long size = argc == 4 ? strtoul(argv[3] + is_exact, NULL, 10) : 0;
	char path[4096];
	uint64_t *content;

	if (count == 0 || (size == 0 && !is_exact) || size > SIZE_MAX_BYTES) {
		(void)fprintf(stderr, "usage: make_tree DIRECTORY COUNT [=]SIZE\n");
		return 2;
	}
	content = malloc(2 * size + 8);
	if (!content)
		die("memory");
	for (size_t i = 0; i < (2 * size + 8) / 8; i++)
		content[i] = next_random();
	if (mkdir(argv[1], 0755) < 0 && errno != EEXIST)
		die(argv[1]);
	for (unsigned long i = 0; i < count; i++) {
		(void)snprintf(path, sizeof(path), "%s/%05lu", argv[1], i / PER_DIRECTORY);
		if (i % PER_DIRECTORY == 0 && mkdir(path, 0755) < 0 && errno != EEXIST)
			die(path);
		(void)snprintf(path, sizeof(path), "%s/%05lu/%08lu", argv[1], i / PER_DIRECTORY, i);
		content[0] = i;		/* no two are the same */
		make_file(path, content, is_exact ? size : size / 2 + next_random() % (size + 1));
	}
	free(content);
	return 0;
}
