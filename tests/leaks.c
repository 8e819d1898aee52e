/* SPDX-License-Identifier: MIT */
/*
 * leaks - which ends of a program with the address sanitizer look for leaks. A look takes longer
 * than all else that a start of fmove does, and scripts start it thousands of times.
 *
 * With FM_LEAKS, a directory that any user may write to, it is the first end of each kind of
 * command, and every eighth after it. What each command of a kind leaks is found in each run of a
 * script; what only one of them does, such as a put onto a name that is taken, may be at an end
 * that does not look. Without FM_LEAKS, and with a fault that is armed, it is every end.
 */
#include <fcntl.h>
#include <sanitizer/lsan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define EVERY 8
#define CMDLINE_MAX 4096	/* of a longer one its beginning */

static int exit_status;

/* Called before the look: whoever is registered last comes first. */
static void keep_status(int status, void *unused)
{
	(void)unused;
	exit_status = status;
}

__attribute__((constructor)) static void watch_exit(void)
{
	(void)on_exit(keep_status, NULL);
}

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
	return hash;
}

/* A verb or an option, and hardly ever the name of something. */
static bool is_of_kind(const char *word)
{
	return word[strspn(word, "abcdefghijklmnopqrstuvwxyz-")] == '\0';
}

/* The exit status with the verb and options of the command line; 0: not known. */
static uint64_t kind(void)
{
	const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	uint64_t hash = mix(UINT64_C(14695981039346656037), (const char *)&exit_status,
			    sizeof(exit_status));
	char words[CMDLINE_MAX + 1];
	ssize_t len;

	if (fd < 0)
		return 0;
	len = read(fd, words, CMDLINE_MAX);
	(void)close(fd);
	if (len <= 0)
		return 0;
	words[len] = '\0';
	for (const char *w = words + strlen(words) + 1; w < words + len; w += strlen(w) + 1)
		if (is_of_kind(w))
			hash = mix(hash, w, strlen(w) + 1);
	return hash;
}

/* Counts this end; whether it is one that looks. So is one that cannot be counted. */
static bool is_turn(const char *dir)
{
	const uint64_t is = kind();
	char path[512];
	bool is_first;
	off_t count;
	int fd;

	if (is == 0 || snprintf(path, sizeof(path), "%s/%016llx", dir, (unsigned long long)is) >=
			       (int)sizeof(path))
		return true;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	is_first = fd >= 0;
	if (!is_first)
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		return true;
	/* Where the byte came to, so that of two at once each has a number of its own. */
	count = write(fd, ".", 1) == 1 ? lseek(fd, 0, SEEK_CUR) : 0;
	(void)close(fd);
	return is_first || count % EVERY == 0;
}

/* The sanitizer asks this at the end of a program. */
int __lsan_is_turned_off(void)
{
	const char *dir = getenv("FM_LEAKS");

	return dir && !getenv("FMOVE_FAULT") && !is_turn(dir);
}
