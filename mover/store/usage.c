/* SPDX-License-Identifier: MIT */
/*
 * usage - how many bytes a store holds.
 */
#include "mover/store/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/store/group_record.h"
#include "mover/store/path.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"

#define RECOUNT_NS (10 * FM_NS_PER_S)

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/*
 * Of fmove's own files. One that is being written has its reservation; a journal is small, and its
 * transfer's. Of the records of groups there are as many as somebody begins.
 */
static bool is_counted(const struct fm_walk_at *at)
{
	if (strcmp(at->name, FM_GROUP_RECORD_NAME) == 0)
		return true;
	return fm_partial_parse(at->name, NULL) == FM_PARTIAL_FILE &&
	       fm_partial_is_busy(at->dir, at->name) <= 0;
}

/* Counts one name. */
static uint64_t count_entry(const struct fm_walk_at *at)
{
	struct stat st;

	if (at->is_dir || fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;	/* it went meanwhile */
	if (!S_ISREG(st.st_mode))
		return 0;
	if (fm_path_is_reserved(at->name) && !is_counted(at))
		return 0;
	return (uint64_t)st.st_size;
}

/* Sums up the tree. */
static int count_tree(struct fm_walk *walk, uint64_t *out)
{
	struct fm_walk_at at;
	uint64_t bytes = 0;
	unsigned entries;
	int ret = 1;

	for (entries = 0; entries < FM_USAGE_ENTRIES_MAX; entries++) {
		ret = fm_walk_next(walk, &at);
		if (ret <= 0)
			break;
		bytes += count_entry(&at);
	}
	*out = bytes;
	if (ret > 0)
		return -E2BIG;
	return ret;
}

static int usage_walk(int root, uint64_t *out)
{
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	int fd, ret;

	if (!walk)
		return -ENOMEM;
	fd = fm_sys_open_beneath(root, ".", O_RDONLY | O_DIRECTORY);
	ret = fd < 0 ? fd : fm_walk_start(walk, fd);
	if (ret == 0)
		ret = count_tree(walk, out);
	fm_walk_end(walk);
	free(walk);
	return ret;
}

int fm_usage_count(struct fm_usage *usage, int root, struct fm_err *err)
{
	uint64_t added = atomic_load(&usage->added), bytes = 0;
	int ret;

	if (usage->quota == 0)
		return 0;
	ret = usage_walk(root, &bytes);
	if (ret == -E2BIG)
		return fm_err_set(err, ret,
				  "more than %d names are too many to count for a quota; use the "
				  "file system's own",
				  FM_USAGE_ENTRIES_MAX);
	if (ret == -EOVERFLOW)
		return fm_err_set(err, ret,
				  "count the bytes there: directories nested deeper than %d",
				  FM_WALK_DEPTH_MAX);
	if (ret < 0)
		return fm_err_sys(err, ret, "count the bytes there");
	/* What came meanwhile may have been passed by, or be counted twice: the next count
	 * knows. */
	atomic_store(&usage->used, bytes + atomic_load(&usage->added) - added);
	atomic_store(&usage->counted_ns, now_ns());
	return 0;
}

static bool has_room(const struct fm_usage *usage, uint64_t reserved, uint64_t bytes)
{
	uint64_t used = atomic_load(&usage->used);

	return usage->quota == 0 || (used <= usage->quota && reserved <= usage->quota - used &&
				     bytes <= usage->quota - used - reserved);
}

int fm_usage_reserve(struct fm_usage *usage, uint64_t bytes)
{
	uint64_t reserved = atomic_load(&usage->reserved);

	do {
		if (!has_room(usage, reserved, bytes))
			return -EDQUOT;
	} while (!atomic_compare_exchange_weak(&usage->reserved, &reserved, reserved + bytes));
	return 0;
}

static int look(struct fm_usage *usage, uint64_t bytes)
{
	return has_room(usage, atomic_load(&usage->reserved), bytes) ? 0 : -EDQUOT;
}

/*
 * Takes bytes off, but not below zero: files that came behind the store's back may go through it.
 */
static void lower(_Atomic uint64_t *value, uint64_t bytes)
{
	uint64_t old = atomic_load(value);

	while (!atomic_compare_exchange_weak(value, &old, old > bytes ? old - bytes : 0))
		;
}

void fm_usage_unreserve(struct fm_usage *usage, uint64_t bytes)
{
	lower(&usage->reserved, bytes);
}

void fm_usage_add(struct fm_usage *usage, uint64_t bytes)
{
	if (usage->quota == 0)
		return;
	atomic_fetch_add(&usage->added, bytes);
	atomic_fetch_add(&usage->used, bytes);
}

void fm_usage_sub(struct fm_usage *usage, uint64_t bytes)
{
	if (usage->quota > 0)
		lower(&usage->used, bytes);
}

void fm_usage_promise(struct fm_usage *usage, uint64_t bytes)
{
	atomic_fetch_add(&usage->trees, bytes);
}

void fm_usage_break_promise(struct fm_usage *usage, uint64_t bytes)
{
	lower(&usage->trees, bytes);
	lower(&usage->reserved, bytes);
}

void fm_usage_keep_promise(struct fm_usage *usage, uint64_t bytes)
{
	fm_usage_add(usage, bytes);
	fm_usage_break_promise(usage, bytes);
}

/* Asks try(). If it refuses, the store is counted again first. */
static int ask(struct fm_usage *usage, int root, uint64_t bytes,
	       int (*try)(struct fm_usage *usage, uint64_t bytes), struct fm_err *err)
{
	int ret = try(usage, bytes);

	if (ret == -EDQUOT && now_ns() - atomic_load(&usage->counted_ns) > RECOUNT_NS) {
		ret = fm_usage_count(usage, root, err);
		if (ret < 0)
			return ret;
		ret = try(usage, bytes);
	}
	if (ret == 0)
		return 0;
	return fm_err_set(err, ret,
			  "over the store's quota: %llu bytes are needed, %llu of %llu are used, "
			  "%llu promised to running transfers",
			  (unsigned long long)bytes, (unsigned long long)atomic_load(&usage->used),
			  (unsigned long long)usage->quota,
			  (unsigned long long)atomic_load(&usage->reserved));
}

int fm_usage_ask(struct fm_usage *usage, int root, uint64_t bytes, struct fm_err *err)
{
	return ask(usage, root, bytes, fm_usage_reserve, err);
}

int fm_usage_check(struct fm_usage *usage, int root, uint64_t bytes, struct fm_err *err)
{
	return ask(usage, root, bytes, look, err);
}

int fm_usage_take(struct fm_usage *usage, int root, uint64_t bytes, struct fm_err *err)
{
	int ret = fm_usage_ask(usage, root, bytes, err);

	if (ret < 0)
		return ret;
	fm_usage_add(usage, bytes);
	fm_usage_unreserve(usage, bytes);
	return 0;
}
