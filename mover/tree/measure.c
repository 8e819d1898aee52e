/* SPDX-License-Identifier: MIT */
/* measure - see measure.h. */
#include "mover/tree/measure.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/tree/exclude.h"
#include "mover/tree/hardlinks.h"
#include "mover/tree/scan.h"

static uint64_t now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);	/* it exists */
	return (uint64_t)t.tv_sec * FM_NS_PER_S + (uint64_t)t.tv_nsec;
}

struct measuring {
	struct fm_hardlinks links;
	uint64_t met;			/* files of several names, so far */
};

/*
 * The bytes that this name of a file stands for: all of them at the first name that is met, 0 at
 * further names. If there are too many files to remember, each name counts its part, so the sum is
 * never too large.
 */
static uint64_t share_of(struct measuring *m, const struct stat *st, uint64_t bytes)
{
	const struct fm_hardlink_id id = { .dev = st->st_dev, .ino = st->st_ino };
	char name[24];
	size_t len;
	int ret;

	(void)snprintf(name, sizeof(name), "%" PRIx64, m->met++);	/* another one each time */
	if (fm_hardlinks_meet(&m->links, &id, name, &len, &ret))
		return 0;
	return ret == 0 ? bytes : bytes / st->st_nlink;
}

/*
 * The bytes of a file that certainly take room. Holes take none, and neither does a further name of
 * a file that was met before.
 */
static uint64_t bytes_of(struct measuring *m, const struct fm_scan_met *met)
{
	uint64_t bytes, blocks;
	struct stat st;

	if (met->type != DT_REG || fstatat(met->dir->fd, met->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_nlink < 1)
		return 0;
	blocks = (uint64_t)st.st_blocks * 512;
	bytes = (uint64_t)st.st_size < blocks ? (uint64_t)st.st_size : blocks;
	return st.st_nlink == 1 ? bytes : share_of(m, &st, bytes);
}

static bool is_over(const struct fm_measure_opts *o, uint64_t began_ns)
{
	return (o->limit_ns > 0 && now() - began_ns >= o->limit_ns) ||
	       (o->is_ended && o->is_ended(o->ctx));
}

static uint64_t sum(const struct fm_scan_opts *opts, const struct fm_measure_opts *o)
{
	struct fm_scan *scan = fm_scan_new(opts);
	struct measuring m = { .met = 0 };
	uint64_t bytes = 0, began_ns = now();
	struct fm_scan_met met;
	struct fm_err err;
	int ret = 0;

	while (scan && !is_over(o, began_ns) && (ret = fm_scan_next(scan, &met, &err)) > 0)
		bytes += bytes_of(&m, &met);
	fm_scan_free(scan);
	fm_hardlinks_free(&m.links);
	return ret >= 0 && bytes <= INT64_MAX ? bytes : 0;
}

uint64_t fm_measure(int root, const struct fm_measure_opts *o)
{
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fm_scan_opts opts = {.root = fd < 0 ? NULL : fm_scan_dir_new(fd, "", 0),
				    .skips = o->skips};
	struct fm_exclude exclude;
	struct fm_err err;
	uint64_t bytes = 0;

	if (opts.root && fm_exclude_init(&exclude, o->excludes, &err) == 0) {
		opts.exclude = &exclude;
		bytes = sum(&opts, o);
		fm_exclude_free(&exclude);
	}
	fm_scan_dir_put(opts.root);
	return bytes;
}
