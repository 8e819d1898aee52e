/* SPDX-License-Identifier: MIT */
/* df_dir - fmove df DIR: what gets left in a directory of the caller's, and the room there. */
#include "client/cli/df.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/cli/ask.h"
#include "client/lib/former.h"
#include "client/cli/show.h"
#include "mover/tree/unfinished.h"
#include "mover/base/json.h"
#include "mover/base/err.h"

struct in_dir {
	uint64_t size, free;		/* of the file system, for this user */
	uint64_t aside, asides;		/* bytes; directories */
	uint64_t unfinished, transfers;
};

static bool add_unfinished(void *ctx, int parent, const struct fm_unfinished *u)
{
	struct in_dir *in = ctx;

	(void)parent;
	in->unfinished += u->bytes;
	in->transfers++;
	return true;
}

static int look(int fd, struct in_dir *in, struct fm_err *err)
{
	struct statvfs fs;
	int ret;

	if (fstatvfs(fd, &fs) < 0)
		return fm_err_sys(err, -errno, "ask for the free space");
	in->size = fs.f_blocks * fs.f_frsize;
	in->free = fs.f_bavail * fs.f_frsize;
	ret = fm_former_sum(fd, &in->asides, &in->aside, err);
	return ret < 0 ? ret : fm_unfinished_each(fd, add_unfinished, in, err);
}

static void print_json(const char *path, const struct in_dir *in)
{
	struct fm_rows rows;
	struct fm_json_writer *w;

	fm_rows_begin(&rows, "directories");
	w = fm_rows_next(&rows);
	fm_jw_name(w, "path", path, strlen(path));
	fm_jw_u64(w, "size", in->size);
	fm_jw_u64(w, "free", in->free);
	fm_jw_u64(w, "aside", in->aside);
	fm_jw_u64(w, "aside_trees", in->asides);
	fm_jw_u64(w, "unfinished", in->unfinished);
	fm_jw_u64(w, "unfinished_transfers", in->transfers);
	fm_jw_object_end(w);
	fm_rows_end(&rows, FM_EXIT_DONE);
}

static void print_text(const struct in_dir *in)
{
	char free[FM_SHOW_MAX], of[FM_SHOW_MAX], aside[FM_SHOW_MAX], unfinished[FM_SHOW_MAX];

	(void)printf("%10s %10s %12s %12s\n", "free", "of", "kept aside", "unfinished");
	(void)printf("%10s %10s %12s %12s", fm_show_bytes(in->free, free),
		     fm_show_bytes(in->size, of), fm_show_bytes(in->aside, aside),
		     fm_show_bytes(in->unfinished, unfinished));
	if (in->asides > 0)
		(void)printf("; aside: %" PRIu64 " %s (fmove purge)", in->asides,
			     fm_show_directories(in->asides));
	if (in->transfers > 0)
		(void)printf("; unfinished: %" PRIu64 " (fmove purge --unfinished)", in->transfers);
	(void)printf("\n");
}

int fm_df_dir(const char *path, bool is_json)
{
	int ret, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct in_dir in = { .size = 0 };
	struct fm_err err;

	if (fd < 0) {
		(void)fm_err_sys(&err, -errno, "%s", path);
		return fm_fail("df", &err);
	}
	ret = look(fd, &in, &err);
	(void)close(fd);	/* only read */
	if (ret < 0) {
		fm_err_wrap(&err, "%s", path);
		return fm_fail("df", &err);
	}
	if (is_json)
		print_json(path, &in);
	else
		print_text(&in);
	return fm_stdout_end("df", FM_EXIT_DONE);
}
