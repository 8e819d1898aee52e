/* SPDX-License-Identifier: MIT */
#include "mover/tree/measure.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/tree/exclude.h"
#include "mover/tree/scan.h"

static uint64_t now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);	/* it exists */
	return (uint64_t)t.tv_sec * FM_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* What of a file takes room for sure: holes do not, and a name of a file that has others does only once. */
static uint64_t bytes_of(const struct fm_scan_met *met)
{
	uint64_t bytes, blocks;
	struct stat st;

	if (met->type != DT_REG || fstatat(met->dir->fd, met->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink < 1)
		return 0;
	blocks = (uint64_t)st.st_blocks * 512;
	bytes = (uint64_t)st.st_size < blocks ? (uint64_t)st.st_size : blocks;
	return bytes / st.st_nlink;
}

static uint64_t sum(const struct fm_scan_opts *opts, uint64_t limit_ns)
{
	struct fm_scan *scan = fm_scan_new(opts);
	uint64_t bytes = 0, began_ns = now();
	struct fm_scan_met met;
	struct fm_err err;
	int ret = 0;

	while (scan && (limit_ns == 0 || now() - began_ns < limit_ns) && (ret = fm_scan_next(scan, &met, &err)) > 0)
		bytes += bytes_of(&met);
	fm_scan_free(scan);
	return ret >= 0 && bytes <= INT64_MAX ? bytes : 0;
}

uint64_t fm_measure(int root, const char *const *excludes, const char *skip_prefix, uint64_t limit_ns)
{
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fm_scan_opts opts = { .root = fd < 0 ? NULL : fm_scan_dir_new(fd, "", 0), .skip_prefix = skip_prefix };
	struct fm_exclude exclude;
	struct fm_err err;
	uint64_t bytes = 0;

	if (opts.root && fm_exclude_init(&exclude, excludes, &err) == 0) {
		opts.exclude = &exclude;
		bytes = sum(&opts, limit_ns);
		fm_exclude_free(&exclude);
	}
	fm_scan_dir_put(opts.root);
	return bytes;
}
