/* SPDX-License-Identifier: MIT */
/*
 * misuse - a program that calls libfmove with what it should not, for tests: misuse FILE
 *
 * FILE is an ordinary file, and n2:s/there is one. Each line printed is a call whose answer was not
 * the right one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/fmove.h"

static struct fmove *c;
static struct fmove_error err;
static struct fmove_result result = {.struct_size = sizeof(result)};
static const struct fmove_name there = { "n2", "s", "there" }, no_store = { "n2", NULL, "x" },
			       no_path = { "n2", "s", NULL };
static int failures;

static void check(const char *call, int ret, int want)
{
	if (ret == want && (want == 0 || (err.code == want && err.text[0])))
		return;
	printf("%s: %d (%s) instead of %d\n", call, ret, err.text, want);
	failures++;
}

#define CHECK(call, want) (memset(&err, 0, sizeof(err)), check(#call, call, want))

static void check_descriptors(void)
{
	char job[FMOVE_JOB_MAX];

	CHECK(fmove_put(c, -1, &there, NULL, &result, &err), -EBADF);
	CHECK(fmove_get(c, -1, &there, NULL, &result, &err), -EBADF);
	CHECK(fmove_put_detached(c, -1, &there, NULL, job, &err), -EBADF);
	CHECK(fmove_put_tree(c, -1, &there, NULL, NULL, &result, &err), -EBADF);
	CHECK(fmove_put(c, 999, &there, NULL, &result, &err), -EBADF);
}

static void check_names(int fd)
{
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_rotated rotated = {.struct_size = sizeof(rotated)};

	CHECK(fmove_stat(c, &no_store, &entry, &err), -EINVAL);
	CHECK(fmove_stat(c, &no_path, &entry, &err), -EINVAL);
	CHECK(fmove_remove(c, &no_path, true, &err), -EINVAL);
	CHECK(fmove_move(c, &no_path, "x", true, &err), -EINVAL);
	CHECK(fmove_move(c, &there, NULL, true, &err), -EINVAL);
	CHECK(fmove_move(c, &there, "", true, &err), -EINVAL);
	CHECK(fmove_symlink(c, NULL, &there, true, &err), -EINVAL);
	CHECK(fmove_rotate(c, NULL, &there, 1, &rotated, &err), -EINVAL);
	CHECK(fmove_rotate(c, "here", &there, 0, &rotated, &err), -EINVAL);
	CHECK(fmove_rotate(c, "here", &there, 1001, &rotated, &err), -EINVAL);
	CHECK(fmove_rotate(c, "d/here", &there, 1, &rotated, &err), -EINVAL);
	CHECK(fmove_lead(c, NULL, &there, 0, &rotated, &err), -EINVAL);
	CHECK(fmove_lead(c, "d/here", &there, 0, &rotated, &err), -EINVAL);
	CHECK(fmove_put(c, fd, &no_path, NULL, &result, &err), -EINVAL);
	CHECK(fmove_put_store(c, &no_path, &there, NULL, &result, &err), -EINVAL);
	CHECK(fmove_get_store(c, &there, &no_store, NULL, &result, &err), -EINVAL);
}

static void check_options(int fd)
{
	const struct fmove_options transport = {
		.struct_size = sizeof(transport), .transport = 77};
	const struct fmove_options durability = {
		.struct_size = sizeof(durability), .durability = 3};
	const struct fmove_options priority = { .struct_size = sizeof(priority), .priority = 12 };
	const struct fmove_options held = { .struct_size = sizeof(held), .hold_fd = fd };
	const struct fmove_options attended = {
		.struct_size = sizeof(attended), .is_attended = true, .file = "/file"};

	CHECK(fmove_put(c, fd, &there, &transport, &result, &err), -EINVAL);
	CHECK(fmove_put(c, fd, &there, &durability, &result, &err), -EINVAL);
	CHECK(fmove_put(c, fd, &there, &priority, &result, &err), -EINVAL);
	CHECK(fmove_put(c, fd, &there, &held, &result, &err), -EINVAL);
	CHECK(fmove_get(c, fd, &there, &attended, &result, &err), -EINVAL);
}

static void is_about(const char *node, const char *store, const char *path)
{
	if (strcmp(err.node, node) == 0 && strcmp(err.store, store) == 0 &&
	    strcmp(err.path, path) == 0)
		return;
	printf("the error is about %s:%s/%s instead of %s:%s/%s\n", err.node, err.store, err.path,
	       node, store, path);
	failures++;
}

/* An error says what it is about. */
static void check_about(int fd)
{
	static const struct fmove_name missing = {"n2", "s", "mis/sing"}, nobody = {"n9", "s", "x"};
	struct fmove_entry entry = {.struct_size = sizeof(entry)};

	CHECK(fmove_stat(c, &missing, &entry, &err), -ENOENT);
	is_about("n2", "s", "mis/sing");
	CHECK(fmove_put(c, fd, &there, NULL, &result, &err), -EEXIST);
	is_about("n2", "s", "there");
	CHECK(fmove_put_tree(c, fd, &nobody, NULL, NULL, &result, &err), -ENOTDIR);
	is_about("n9", "s", "x");
	CHECK(fmove_unpin(c, "nothing", &err), -EOPNOTSUPP);
	is_about("", "", "");
}

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0 || fmove_connect(NULL, &c, &err) < 0) {
		printf("misuse: %s\n", err.text);
		return 2;
	}
	check_descriptors();
	check_names(fd);
	check_options(fd);
	check_about(fd);
	/* the connection is as good as before */
	CHECK(fmove_put(c, fd, &(struct fmove_name){ "n2", "s", "here" }, NULL, &result, &err), 0);
	fmove_close(c);
	return failures > 0;
}
