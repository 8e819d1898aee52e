/* SPDX-License-Identifier: MIT */
/*
 * usage - how many bytes a store holds.
 */
#include "mover/store/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/show.h"
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

/* What a count came to. */
struct sum {
	uint64_t bytes;
	unsigned passed_over;		/* directories */
	bool is_cut;			/* some of them are nested too deep, or were moved */
	int why;			/* of the first, and its path: */
	char first[FM_PATH_LEN_MAX + 1];
};

static void pass_over(struct sum *sum, const struct fm_walk *walk, const struct fm_walk_at *at,
		      int why)
{
	if (fm_walk_is_lost_found(walk, at))
		return;
	sum->is_cut = sum->is_cut || why == -EOVERFLOW || walk->is_cut;
	if (sum->passed_over++ > 0)
		return;
	sum->why = why;
	if (fm_walk_path(walk, at, sum->first, sizeof(sum->first)) < 0)
		(void)snprintf(sum->first, sizeof(sum->first), "%s", at->name);
}

/* Sums up the tree. */
static int count_tree(struct fm_walk *walk, struct sum *out)
{
	struct fm_walk_at at;
	int ret = 1;

	for (unsigned entries = 0; entries < FM_USAGE_ENTRIES_MAX; entries++) {
		ret = fm_walk_next(walk, &at);
		if (ret > 0)
			out->bytes += count_entry(&at);
		else if (fm_walk_goes_on(walk, ret))
			pass_over(out, walk, &at, ret);
		else
			return ret;
	}
	return -E2BIG;
}

static int usage_walk(int root, struct sum *out)
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

/* Says what is not counted, unless it said so before. */
static void tell(struct fm_usage *usage, const struct sum *sum)
{
	struct fm_path_shown shown;
	unsigned before = atomic_exchange(&usage->passed_over, sum->passed_over);
	const char *why = sum->why == -EOVERFLOW ? "nested too deep" : fm_err_name(sum->why);

	if (sum->passed_over == before || sum->passed_over == 0)
		return;
	fm_log_warn("store %s: the quota leaves out what is in \"%s\", which cannot be read (%s), "
		    "and in %u more directories",
		    usage->store, fm_path_show(sum->first, &shown), why, sum->passed_over - 1);
}

/*
 * Whoever writes to a store can nest what lies in it too deep to be counted. What was used stays
 * used then, so that nobody gets more than the quota by that.
 */
static void set_used(struct fm_usage *usage, const struct sum *sum, uint64_t meanwhile)
{
	uint64_t now = sum->bytes + meanwhile, old = atomic_load(&usage->used);

	while (!(sum->is_cut && old > now) &&
	       !atomic_compare_exchange_weak(&usage->used, &old, now))
		;
}

int fm_usage_count(struct fm_usage *usage, int root, struct fm_err *err)
{
	uint64_t added = atomic_load(&usage->added);
	struct sum sum = { .bytes = 0 };
	int ret;

	if (usage->quota == 0)
		return 0;
	ret = usage_walk(root, &sum);
	/* Also if it failed for what stays so: who asks next need not wait for that again. */
	if (!fm_walk_is_lack(ret))
		atomic_store(&usage->counted_ns, now_ns());
	if (ret == -E2BIG)
		return fm_err_set(err, ret,
				  "more than %d names are too many to count for a quota; use the "
				  "file system's own",
				  FM_USAGE_ENTRIES_MAX);
	if (ret < 0)
		return fm_err_sys(err, ret, "count the bytes there");
	/* What came meanwhile may have been passed by, or be counted twice: the next count
	 * knows. */
	set_used(usage, &sum, atomic_load(&usage->added) - added);
	tell(usage, &sum);
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

static int refuse(const struct fm_usage *usage, uint64_t bytes, const struct fm_err *why,
		  struct fm_err *err)
{
	return fm_err_set(err, -EDQUOT,
			  "over the store's quota: %llu bytes are needed, %llu of %llu are used, "
			  "%llu promised to running transfers%s%s",
			  (unsigned long long)bytes, (unsigned long long)atomic_load(&usage->used),
			  (unsigned long long)usage->quota,
			  (unsigned long long)atomic_load(&usage->reserved),
			  why->code < 0 ? "; not counted again: " : "", why->text);
}

/*
 * Asks try(). If it refuses, the store is counted again first. Where that is not possible just now,
 * nobody knows whether the quota is the reason, and -EDQUOT would have versions removed that are
 * kept.
 */
static int ask(struct fm_usage *usage, int root, uint64_t bytes,
	       int (*try)(struct fm_usage *usage, uint64_t bytes), struct fm_err *err)
{
	int ret = try(usage, bytes), counted = 0;
	struct fm_err why = { 0 };

	if (ret == -EDQUOT && now_ns() - atomic_load(&usage->counted_ns) > RECOUNT_NS) {
		counted = fm_usage_count(usage, root, &why);
		if (counted == 0)
			ret = try(usage, bytes);
	}
	if (ret == 0)
		return 0;
	if (fm_walk_is_lack(counted))
		return fm_err_set(err, counted,
				  "whether %llu bytes more are within the store's quota is not "
				  "known just now, try again: %s",
				  (unsigned long long)bytes, why.text);
	return refuse(usage, bytes, &why, err);
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
