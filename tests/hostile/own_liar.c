/* SPDX-License-Identifier: MIT */
/*
 * own_liar LISTED COPIED models--ORG--NAME@COMMIT [wait] - a caller who asks for a revision of his
 * own hub cache, as fmove stage hf: does, and serves the directory LISTED while it is listed,
 * COPIED while it is copied. Neither is looked at first. LISTED "-": he says that it is forbidden.
 * wait: what is small has come when he says "copying", and when his standard input ends, he says
 * that the rest cannot be read. 0: it was taken; 1: it was not, and why is said.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/libfmove_request.h"
#include "mover/base/err.h"
#include "mover/tree/channel.h"
#include "mover/tree/tree.h"

#define CHANNELS 2u
#define SOCKETS 3u
#define FDS (CHANNELS * (1 + SOCKETS))

static struct fm_tree *trees[CHANNELS];
static struct fm_channel *channels[CHANNELS];
static int passed[FDS];

static void fail(const char *what)
{
	(void)fprintf(stderr, "own_liar: %s\n", what);
	exit(1);
}

static int64_t forbid(struct fm_tree *t, uint64_t seq, void *buf, size_t len, struct fm_err *err)
{
	(void)t;
	(void)seq;
	(void)buf;
	(void)len;
	return fm_err_set(err, -EACCES, "forbidden");
}

static int64_t (*fill_first)(struct fm_tree *t, uint64_t seq, void *buf, size_t len,
			     struct fm_err *err);

static int64_t fill_and_wait(struct fm_tree *t, uint64_t seq, void *buf, size_t len,
			     struct fm_err *err)
{
	if (seq == 0)
		return fill_first(t, seq, buf, len, err);
	(void)puts("copying");
	(void)fflush(stdout);
	(void)getchar();
	return fm_err_set(err, -EIO, "it cannot be read");
}

/* It does all as before, but is read by this. */
static void fill_by(struct fm_tree *t, struct fm_tree_ops *ops,
		    int64_t (*fill)(struct fm_tree *t, uint64_t seq, void *buf, size_t len,
				    struct fm_err *err))
{
	*ops = *t->ops;
	ops->fill = fill;
	t->ops = ops;
}

static void serve(unsigned i, const char *name, bool does_wait)
{
	static struct fm_tree_ops ops[CHANNELS];
	bool is_forbidden = strcmp(name, "-") == 0;
	const char *directory = is_forbidden ? "." : name;
	const struct fm_tree_source_opts opts = {
		.root = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
	};
	struct fm_err err;
	unsigned count;

	if (opts.root < 0)
		fail(directory);
	if (fm_tree_source_new(&opts, &trees[i], &err) < 0)
		fail(err.text);
	fill_first = trees[i]->ops->fill;
	if (is_forbidden || does_wait)
		fill_by(trees[i], &ops[i], is_forbidden ? forbid : fill_and_wait);
	if (fm_channel_new_of(trees[i], SOCKETS, &channels[i], &err) < 0)
		fail(err.text);
	memcpy(passed + (size_t)i * (1 + SOCKETS), fm_channel_to_pass(channels[i], &count),
	       (1 + SOCKETS) * sizeof(*passed));
}

static void were_passed(void *ctx)
{
	(void)ctx;
	for (unsigned i = 0; i < CHANNELS; i++)
		fm_channel_passed(channels[i]);
}

static int ask(struct fmove *c, const char *path)
{
	const struct fm_lib_parcel with = { .fds = passed, .count = FDS, .passed = were_passed };
	struct fm_lib_waiting waiting = { .is_cancellable = false };
	struct fm_lib_request req;
	struct fmove_error err;
	struct fm_json *done;
	int ret;

	fm_lib_begin(c, &req, "stage_own");
	fm_jw_name(&req.json, "path", path, strlen(path));
	fm_jw_name(&req.json, "to", "main", strlen("main"));
	ret = fm_lib_run(&req, &with, &waiting, &done, &err);
	if (ret == 0)
		fm_json_free(done);
	else
		(void)fprintf(stderr, "own_liar: %s\n", err.text);
	return ret;
}

int main(int argc, char **argv)
{
	struct fmove_error err;
	struct fmove *c;
	int ret;

	if (argc < 4)
		fail("own_liar LISTED COPIED models--ORG--NAME@COMMIT [wait]");
	if (fmove_connect(getenv("FMOVE_SOCKET"), &c, &err) < 0)
		fail(err.text);
	serve(0, argv[1], false);
	serve(1, argv[2], argc > 4);
	ret = ask(c, argv[3]);
	for (unsigned i = 0; i < CHANNELS; i++) {
		(void)fm_channel_free(channels[i]);
		trees[i]->ops->close(trees[i]);
	}
	fmove_close(c);
	return ret < 0;
}
