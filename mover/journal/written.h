/* SPDX-License-Identifier: MIT */
/*
 * written - whether a file that is open has been written to since it was looked at.
 *
 * fm_look_before_read(), the reads, fm_is_written(): what was read is one state of the file,
 * whoever wrote and however, where the file system keeps the time of stores through a mapping.
 * tmpfs does not: there only write(2) is told.
 */
#ifndef FM_JOURNAL_WRITTEN_H
#define FM_JOURNAL_WRITTEN_H

#include <stdbool.h>
#include <stdint.h>

struct stat;
struct statfs;

/* Whether a write(2) holds a lock there for which a search for data waits. */
bool fm_write_holds_lock(const struct statfs *fs);

/*
 * Look at fd's file before it is read. From then on whatever is written to it moves its ctime: what
 * was stored through a mapping until now is written back, which makes the next store a fault that
 * the file system notes (of up to cached_max bytes; a direct read does that by itself, for what it
 * reads); a ctime is not taken that a write in the same tick of the clock would leave as it is; and
 * a write(2) that is under way is waited for, where the file system has a lock for that, if
 * `waits`: else that is a call for nothing (fm_write_holds_lock()). It moves fd's position if the
 * file begins with a hole, and puts it back to the beginning.
 * 0; -ESTALE: it is being written to, again and again; or an error of fstat(2) or
 * sync_file_range(2). Any thread; waits for the disk, for others' writes, and up to two ticks.
 */
int fm_look_before_read(int fd, bool waits, uint64_t cached_max, struct stat *out);

/*
 * Whether the content of fd's file may be another than when `before` was taken; `now` is a later
 * look. That there are more names or fewer, or that it was put aside under a partial file's name,
 * is no change of the content. Any thread; takes up to 50 ms if it may have been written to, else
 * no time.
 */
bool fm_is_written(int fd, const struct stat *before, const struct stat *now);

#endif
