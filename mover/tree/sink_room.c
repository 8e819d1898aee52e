/* SPDX-License-Identifier: MIT */
/*
 * sink_room - a tree for which there is no room is refused before anything of it is made. What
 * others take while the tree comes is not foreseen: who writes then hears of it.
 */
#include <errno.h>

#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

/*
 * Checks the free space of the file system. The store frees room for a known size, but not for a
 * guess.
 */
static int check_disk(const struct fm_sink *s, uint64_t bytes, bool is_guess, struct fm_err *err)
{
	uint64_t free_bytes;
	int fd = s->opts.parent, ret = fm_tsys_free_bytes(fd, &free_bytes);

	if (ret == 0 && bytes > free_bytes && !is_guess && s->opts.make_room) {
		s->opts.make_room(s->opts.ctx, fd, bytes);
		ret = fm_tsys_free_bytes(fd, &free_bytes);
	}
	if (ret < 0)
		return fm_err_sys(err, ret, "ask for the free space");
	if (bytes <= free_bytes)
		return 0;
	return fm_err_set(err, -ENOSPC,
			  "no space for the directory: its files take %llu bytes at least, %llu "
			  "are free; make room there",
			  (unsigned long long)bytes, (unsigned long long)free_bytes);
}

/*
 * Checks whether the rest of the tree has room. The bytes of an earlier try need no room: they are
 * used, or removed.
 */
static int check(struct fm_sink *s, uint64_t bytes, bool is_guess, struct fm_err *err)
{
	struct fm_staging_info earlier;
	uint64_t there = 0;
	int ret;

	if (bytes == 0 || s->opts.is_dry)
		return 0;
	if (fm_staging_peek(s->opts.parent, s->tree_name, &earlier) == 0 && earlier.has_journal)
		there = earlier.bytes_there;
	if (bytes <= there)
		return 0;
	bytes -= there;
	ret = s->opts.promise ? s->opts.promise(s->opts.ctx, s->opts.parent, bytes, err)
			      : check_disk(s, bytes, is_guess, err);
	s->had_room = ret == 0;
	return ret;
}

/*
 * Whether the store has room for the whole tree. An update may take less, so replaced versions are
 * not removed for it, and nothing is promised.
 */
static bool has_room_for_whole(const struct fm_sink *s, uint64_t whole)
{
	return s->opts.is_dry || whole <= s->opts.room(s->opts.ctx, s->opts.parent);
}

int fm_sink_check_room(struct fm_sink *s, uint64_t whole, struct fm_err *err)
{
	bool is_said = s->bytes > 0 || s->opts.is_measured;
	bool is_most = s->opts.is_update && !is_said;
	int ret;

	if (is_most && s->opts.promise) {
		s->tree.is_unmeasured = whole > 0 && !has_room_for_whole(s, whole);
		return s->tree.is_unmeasured
			       ? fm_err_set(
					 err, -ENOSPC,
					 "no space for the whole directory, which takes %llu bytes",
					 (unsigned long long)whole)
			       : 0;
	}
	ret = check(s, is_said ? s->bytes : whole, is_most, err);
	s->tree.is_unmeasured = is_most && ret == -ENOSPC;
	return ret == 0 && s->opts.is_look ? fm_err_set(err, -ECANCELED, "there is room for it")
					   : ret;
}
