/* SPDX-License-Identifier: MIT */
/* room - see room.h. */
#include "mover/store/room.h"

#include <errno.h>

#include "mover/base/err.h"
#include "mover/store/space.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"

#define AHEAD_BYTES (1u << 20)	/* what a file takes beside its content, and a little */

/*
 * How many of these bytes the file system of fd has no room for. 0: it has room, or does not tell.
 */
static uint64_t missing_on_disk(int fd, uint64_t bytes)
{
	struct statfs fs;
	uint64_t block, free;

	if (fm_sys_fstatfs(fd, &fs) < 0)
		return 0;
	block = (uint64_t)(fs.f_frsize > 0 ? fs.f_frsize : fs.f_bsize);
	free = fs.f_bavail * block;
	return bytes > free ? bytes - free : 0;
}

static uint64_t missing_in_quota(const struct fm_usage *u, uint64_t bytes)
{
	uint64_t gone = atomic_load(&u->used) + atomic_load(&u->reserved);
	uint64_t free = gone < u->quota ? u->quota - gone : 0;

	return u->quota > 0 && bytes > free ? bytes - free : 0;
}

/* What is asked for; where it was refused all that is kept aside could be too little, and then none
 * of it goes. */
struct wish {
	struct fm_store_dir *dir;
	int fd;				/* on its file system; -1: of the quota */
	uint64_t bytes;
	bool heeds_promises;		/* what trees were promised is in its way */
	bool is_within_reach;		/* looked at once */
};

/*
 * After a refusal for want of room: whether something was removed, so that asking again makes
 * sense.
 */
static bool has_made_room(struct wish *w, int ret)
{
	uint64_t missing;

	if (ret != -ENOSPC && ret != -EDQUOT)
		return false;
	/* Costs nobody anything yet, so it goes before what lies on the disk. */
	if (w->heeds_promises && fm_promises_lapse(w->dir) > 0)
		return true;
	missing = w->fd >= 0 ? missing_on_disk(w->fd, w->bytes)
			     : missing_in_quota(&w->dir->usage, w->bytes);
	if (!w->is_within_reach)
		w->is_within_reach = fm_aside_reaches(w->dir, w->fd, missing);
	return w->is_within_reach && fm_aside_drop_oldest(w->dir, w->fd) > 0;
}

int fm_room_ask(struct fm_store_dir *dir, uint64_t bytes, struct fm_err *err)
{
	struct wish w = { .dir = dir, .fd = -1, .bytes = bytes, .heeds_promises = true };
	int ret;

	do
		ret = fm_usage_ask(&dir->usage, dir->root, bytes, err);
	while (has_made_room(&w, ret));
	return ret;
}

int fm_room_take(struct fm_store_dir *dir, uint64_t bytes, struct fm_err *err)
{
	struct wish w = { .dir = dir, .fd = -1, .bytes = bytes, .heeds_promises = true };
	int ret;

	do
		ret = fm_usage_take(&dir->usage, dir->root, bytes, err);
	while (has_made_room(&w, ret));
	return ret;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t less(uint64_t bytes, uint64_t gone)
{
	return gone < bytes ? bytes - gone : 0;
}

/* Asks the file system for its room. One that has no limit, or tells none, counts as unlimited. */
static int look_at_disk(int fd, struct fm_store_space *out, struct fm_err *err)
{
	struct statfs fs;
	uint64_t block;
	int ret = fm_sys_fstatfs(fd, &fs);

	if (ret < 0)
		return fm_err_sys(err, ret, "ask for the free space");
	block = (uint64_t)(fs.f_frsize > 0 ? fs.f_frsize : fs.f_bsize);
	if (fs.f_blocks == 0 || block == 0) {
		out->size = out->free = UINT64_MAX;
		return 0;
	}
	out->size = fs.f_blocks * block;
	out->free = fs.f_bavail * block;
	out->used = (fs.f_blocks - fs.f_bfree) * block;
	return 0;
}

/* What nobody was promised, of so many free bytes and of the quota. */
static uint64_t left_of(const struct fm_usage *u, uint64_t free)
{
	uint64_t left = free == UINT64_MAX ? free : less(free, atomic_load(&u->trees));

	if (u->quota == 0)
		return left;
	return at_most(left, less(u->quota, atomic_load(&u->used) + atomic_load(&u->reserved)));
}

struct room {
	uint64_t free;
	uint64_t promised;	/* of that */
};

/* Whether these bytes fit beside what trees were promised. -ENOSPC, without a text: they do not. */
static int look_for(struct fm_store_dir *dir, int fd, uint64_t bytes, struct room *out,
		    struct fm_err *err)
{
	struct fm_store_space s = { 0 };
	int ret = look_at_disk(fd, &s, err);

	*out = (struct room){ .free = s.free, .promised = atomic_load(&dir->usage.trees) };
	if (ret < 0 || s.free == UINT64_MAX ||
	    (out->promised <= s.free && bytes <= s.free - out->promised))
		return ret;
	return -ENOSPC;
}

/* The same as look_for(), but removes what may go until they fit. */
static int make_room_for(struct fm_store_dir *dir, int fd, uint64_t bytes, struct room *out,
			 struct fm_err *err)
{
	struct wish w = { .dir = dir, .fd = fd, .heeds_promises = true };
	int ret;

	do {
		ret = look_for(dir, fd, bytes, out, err);
		w.bytes = out->promised < UINT64_MAX - bytes ? bytes + out->promised : UINT64_MAX;
	} while (has_made_room(&w, ret));
	return ret;
}

static int refuse(uint64_t bytes, const struct room *room, struct fm_err *err)
{
	if (room->promised == 0)
		return fm_err_set(err, -ENOSPC,
				  "no space: %llu bytes are needed, %llu are free; make room there",
				  (unsigned long long)bytes, (unsigned long long)room->free);
	return fm_err_set(err, -ENOSPC,
			  "no space: %llu bytes are needed, %llu are free, of which %llu are "
			  "promised to directories that come just now; make room there, or wait "
			  "for them",
			  (unsigned long long)bytes, (unsigned long long)room->free,
			  (unsigned long long)room->promised);
}

int fm_room_check(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err)
{
	struct room room;
	int ret = make_room_for(dir, fd, bytes, &room, err);

	return ret == -ENOSPC ? refuse(bytes, &room, err) : ret;
}

int fm_room_reserve(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err)
{
	struct wish w = { .dir = dir, .fd = fd, .bytes = bytes };
	struct room room;
	uint64_t missing;
	int ret;

	do
		ret = fm_space_reserve(fd, bytes, err);
	while (has_made_room(&w, ret));
	/* Between the look and this a tree may have been promised what is gone now. */
	if (ret < 0 || atomic_load(&dir->usage.trees) == 0)
		return ret;
	/* Where the file system cannot set any aside. */
	ret = fm_space_missing(fd, bytes, &missing, err);
	if (ret == 0)
		ret = make_room_for(dir, fd, missing, &room, err);
	if (ret != -ENOSPC)
		return ret;
	room.free += bytes - missing;
	return refuse(bytes, &room, err);
}

/* Whether the quota has room for these bytes, after removing what may go. It reserves nothing. */
static int check_quota(struct fm_store_dir *dir, uint64_t bytes, struct fm_err *err)
{
	struct wish w = { .dir = dir, .fd = -1, .bytes = bytes, .heeds_promises = true };
	int ret;

	do
		ret = fm_usage_check(&dir->usage, dir->root, bytes, err);
	while (has_made_room(&w, ret));
	return ret;
}

int fm_room_for_tree(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err)
{
	struct room room;
	int ret = make_room_for(dir, fd, bytes, &room, err);

	if (ret == -ENOSPC)
		return fm_err_set(err, ret,
				  "no space for the directory: its files take %llu bytes at least, "
				  "%llu are free, of which %llu are promised to others; "
				  "fmove df shows what stores have, fmove purge removes what they "
				  "keep aside",
				  (unsigned long long)bytes, (unsigned long long)room.free,
				  (unsigned long long)room.promised);
	return ret < 0 ? ret : check_quota(dir, bytes, err);
}

uint64_t fm_room_promise_more(struct fm_store_dir *dir, int fd, uint64_t held, uint64_t rest)
{
	struct fm_store_space s = { 0 };
	uint64_t left, more = rest;
	struct fm_err err;

	if (look_at_disk(fd, &s, &err) < 0)
		return 0;	/* whatever is wrong, who writes hears of it */
	left = left_of(&dir->usage, s.free);
	if (left != UINT64_MAX)
		/* With what it holds, half of what is not the others'. */
		more = at_most(rest, less(left, held) / 2);
	if (more == 0 || fm_usage_reserve(&dir->usage, more) < 0)
		return 0;
	fm_usage_promise(&dir->usage, more);
	return more;
}

int fm_room_go_on(struct fm_store_dir *dir, int fd, uint64_t bytes, struct fm_err *err)
{
	struct room room;
	int ret = make_room_for(dir, fd, bytes, &room, err);

	if (ret != -ENOSPC)
		return ret;
	return fm_err_set(err, ret,
			  "no space for the rest of the directory: there was when it began, and "
			  "others took it meanwhile: the next file takes %llu bytes, %llu are "
			  "free, of which %llu are promised to others; make room (fmove df, fmove "
			  "purge) and run the same again",
			  (unsigned long long)bytes, (unsigned long long)room.free,
			  (unsigned long long)room.promised);
}

void fm_room_ahead(struct fm_store_dir *dir, uint64_t bytes)
{
	struct wish w = { .dir = dir, .fd = dir->root, .bytes = bytes };

	while (has_made_room(&w, fm_space_check(dir->root, bytes + AHEAD_BYTES, NULL)))
		;
}

uint64_t fm_room_left(struct fm_store_dir *dir, int fd)
{
	struct fm_store_space s = { 0 };
	struct fm_err err;

	if (look_at_disk(fd, &s, &err) < 0)
		return UINT64_MAX;	/* whatever is wrong, who writes hears of it */
	return left_of(&dir->usage, s.free);
}

int fm_room_look(struct fm_store_dir *dir, struct fm_store_space *out, struct fm_err *err)
{
	const struct fm_usage *u = &dir->usage;
	uint64_t gone;
	int ret;

	*out = (struct fm_store_space){ .quota = u->quota, .promised = atomic_load(&u->reserved) };
	ret = look_at_disk(dir->root, out, err);
	if (ret < 0)
		return ret;
	if (u->quota > 0) {
		out->used = atomic_load(&u->used);
		gone = out->used + out->promised;
		out->free = at_most(out->free, gone < u->quota ? u->quota - gone : 0);
	}
	out->is_counting = !fm_aside_sum(dir, &out->aside, &out->trees);
	return 0;
}
