/* SPDX-License-Identifier: MIT */
/*
 * written - whether a file that is open has been written to since it was looked at.
 */
#ifndef FM_JOURNAL_WRITTEN_H
#define FM_JOURNAL_WRITTEN_H

#include <stdbool.h>

struct stat;

/*
 * Whether the content of fd's file may be another than when `before` was taken; `now` is a later look. That there are
 * more names or fewer, or that it was put aside under a partial file's name, is no change of the content. Any thread;
 * takes up to 50 ms if it may have been written to, else no time.
 */
bool fm_is_written(int fd, const struct stat *before, const struct stat *now);

#endif
