/* SPDX-License-Identifier: MIT */
/*
 * written - whether a file that is open has been written to since it was looked at.
 */
#ifndef FM_JOURNAL_WRITTEN_H
#define FM_JOURNAL_WRITTEN_H

#include <stdbool.h>

struct stat;

/*
 * Whether the content of fd's file may be another than when `before` was taken; `now` is a later look. A name that
 * came, went or moved since is no change of the content. Any thread; does not wait for the disk.
 */
bool fm_is_written(int fd, const struct stat *before, const struct stat *now);

#endif
