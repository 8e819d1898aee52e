/* SPDX-License-Identifier: MIT */
/*
 * mkfs_scene - real file systems in a file, made by the real tools, for the tests of the
 * superblock.
 */
#ifndef FM_MKFS_SCENE_H
#define FM_MKFS_SCENE_H

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvmetcp/superblock.h"
#include "tests/fm_test.h"

static char image[] = "/tmp/fmove-mkfs-XXXXXX";

/* A shell command, silent, with the tools' directories in the path. */
static inline int shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline int shell(const char *fmt, ...)
{
	char command[512], what[400];
	va_list args;
	int status;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	snprintf(command, sizeof(command), "PATH=$PATH:/usr/sbin:/sbin; { %s; } >/dev/null 2>&1",
		 what);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Skip all of it without one of the tools. */
static inline void need(const char *tool)
{
	char why[128];

	snprintf(why, sizeof(why), "%s is not installed", tool);
	if (shell("command -v %s", tool) != 0)
		fm_test_skip(why);
}

static inline void image_make(off_t size)
{
	int fd;

	strcpy(strrchr(image, '-'), "-XXXXXX");
	fd = mkstemp(image);
	if (fd < 0 || ftruncate(fd, size) < 0) {
		perror(image);
		abort();
	}
	close(fd);
}

/* One byte of it, turned round. */
static inline void image_damage(off_t at)
{
	int fd = open(image, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	CU_ASSERT_EQUAL(pread(fd, &byte, 1, at), 1);
	byte = (uint8_t)~byte;
	CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static inline struct fm_superblock image_superblock(void)
{
	static uint8_t bytes[FM_SUPERBLOCK_BYTES];
	int fd = open(image, O_RDONLY | O_CLOEXEC);
	struct fm_superblock sb = { 0 };

	CU_ASSERT_EQUAL(pread(fd, bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
	close(fd);
	CU_ASSERT_EQUAL(fm_superblock_parse(bytes, sizeof(bytes), &sb), 0);
	return sb;
}

#endif
