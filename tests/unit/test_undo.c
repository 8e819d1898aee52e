/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a command has made goes again, and nothing else, wherever the names on the way lead by
 * then: who owns a directory can lead its name elsewhere while root works in it. Method: real
 * directories, one of which is made a link to another in between.
 * links: fm_cli
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/undo.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

static char top[64];
static struct fm_err err;

static const char *below(const char *path)
{
	static char whole[4][192];
	static unsigned turn;
	char *one = whole[turn++ % 4];

	(void)snprintf(one, sizeof(whole[0]), "%s/%s", top, path);
	return one;
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(below(path), &st) == 0;
}

static void put(const char *path)
{
	int fd = open(below(path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CU_ASSERT_FATAL(fd >= 0);
	(void)close(fd);
}

/* Makes top/there/n/peers.d, and a file in n as root would make it: by its path. */
static void make(struct fm_undo *undo)
{
	int dir, fd;

	CU_ASSERT_EQUAL_FATAL(fm_undo_dir_make(undo, below("there/n"), 0755, &dir, &err), 0);
	CU_ASSERT_FATAL(dir >= 0);
	CU_ASSERT_EQUAL_FATAL(fm_undo_dir_make(undo, below("there/n/peers.d"), 0755, &fd, &err), 0);
	(void)close(fd);
	CU_ASSERT_EQUAL_FATAL(fm_undo_file(undo, dir, "node.key", &err), 0);
	put("there/n/node.key");
	fm_undo_made(undo);
	(void)close(dir);
}

static void begin(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/fm-undo.XXXXXX");
	CU_ASSERT_FATAL(mkdtemp(top) != NULL);
	CU_ASSERT_EQUAL(mkdir(below("there"), 0755), 0);
}

/* Another directory, with the same names in it, in the place of n. */
static void lead_elsewhere(void)
{
	CU_ASSERT_EQUAL(mkdir(below("other"), 0755), 0);
	CU_ASSERT_EQUAL(mkdir(below("other/peers.d"), 0755), 0);
	put("other/node.key");
	CU_ASSERT_EQUAL(rename(below("there/n"), below("there/away")), 0);
	CU_ASSERT_EQUAL(symlink("../other", below("there/n")), 0);
}

static void test_what_was_made_goes(void)
{
	struct fm_undo undo = { 0 };

	begin();
	make(&undo);
	fm_undo_all(&undo);
	CU_ASSERT(!is_there("there/n"));
	CU_ASSERT(is_there("there"));
	remove_all(top);
}

static void test_what_is_elsewhere_stays(void)
{
	struct fm_undo undo = { 0 };

	begin();
	make(&undo);
	lead_elsewhere();
	fm_undo_all(&undo);
	CU_ASSERT(is_there("other/node.key"));
	CU_ASSERT(is_there("other/peers.d"));
	CU_ASSERT(is_there("there/n"));
	/* what was made went where it is by now; the directory has another name, and stays */
	CU_ASSERT(!is_there("there/away/node.key"));
	CU_ASSERT(!is_there("there/away/peers.d"));
	remove_all(top);
}

/* Of the name that was made, another one's by now. */
static void test_what_another_one_made_stays(void)
{
	struct fm_undo undo = { 0 };

	begin();
	make(&undo);
	CU_ASSERT_EQUAL(rename(below("there/n/node.key"), below("there/key")), 0);
	put("there/n/node.key");
	fm_undo_all(&undo);
	CU_ASSERT(is_there("there/n/node.key"));
	CU_ASSERT(is_there("there/key"));
	remove_all(top);
}

/* The path led elsewhere before the file was made. */
static void test_what_came_to_be_elsewhere_stays(void)
{
	struct fm_undo undo = { 0 };
	int dir;

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_undo_dir_make(&undo, below("there/n"), 0755, &dir, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_undo_file(&undo, dir, "fmove.conf", &err), 0);
	lead_elsewhere();
	put("there/n/fmove.conf");
	fm_undo_made(&undo);
	fm_undo_all(&undo);
	CU_ASSERT(is_there("other/fmove.conf"));
	(void)close(dir);
	remove_all(top);
}

static const struct fm_test tests[] = {
	{"what was made goes", test_what_was_made_goes},
	{"what is elsewhere stays", test_what_is_elsewhere_stays},
	{"what another one made stays", test_what_another_one_made_stays},
	{"what came to be elsewhere stays", test_what_came_to_be_elsewhere_stays},
};

FM_TEST_MAIN("undo", tests)
