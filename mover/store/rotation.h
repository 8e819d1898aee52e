/* SPDX-License-Identifier: MIT */
/*
 * rotation - of what a link led to by turns the last N stay (put --latest NAME --keep-last N).
 *
 * A rule is a link. What it was led to by this is in its record (rotation_record.h), and only that
 * goes, the oldest first, never one that any link beside it leads to, or has the name of in its
 * text. What somebody has removed is none of the last N. Nothing goes by its name alone: it is
 * moved to where nobody else can change the name, and looked at there.
 *
 * Happy path: the new one is recorded; the oldest beyond N is in nobody's use; it goes into a stash
 * (tree/stash.h), which is synced; still nobody uses it; it is removed.
 * It stays, and the next rotation tries again, if a link is led to it meanwhile, if a file of it is
 * open at the first look (then it was never away) or at the second (then it gets its name back),
 * somebody reads a directory of it as a tree or has another lock on one (flock(2)), a transfer or a
 * group goes on in it, or something in it is nowhere else.
 * Where nobody can tell who has its files open, it stays in the stash for as long as a replaced
 * tree does, or until its room is needed.
 * A crash: it has its name, or is in a stash, which a sweep removes. A new one that was published
 * and not recorded yet stays for ever, until it is published again.
 * The disk is full, so that nothing can be recorded: first what may go goes.
 *
 * What a look cannot see: a directory that is open, or somebody's working directory; and what other
 * machines have open, of a file system that they share.
 */
#ifndef FM_STORE_ROTATION_H
#define FM_STORE_ROTATION_H

#include <stddef.h>
#include <stdint.h>

struct fm_entry;
struct fm_err;
struct fm_store_dir;

/*
 * The link of that checked path was led to `published`, a name beside it. gone: FM_ROTATED_MAX
 * entries, of which *count are filled with what was removed; what is beyond them goes at the next
 * rotation. 0; or an error with what stays, though it is beyond the last N, and why. Worker
 * threads.
 */
int fm_rotate(struct fm_store_dir *dir, const char *link, const char *published, uint32_t keep,
	      struct fm_entry *gone, size_t *count, struct fm_err *err);

#endif
