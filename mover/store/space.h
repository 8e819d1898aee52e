/* SPDX-License-Identifier: MIT */
/*
 * space - room on a file system: refused before the first byte where it cannot be, reserved where
 * it can.
 */
#ifndef FM_STORE_SPACE_H
#define FM_STORE_SPACE_H

#include <stdint.h>

struct fm_err;

/* -ENOSPC and the numbers if size bytes do not fit on the file system of fd (a file or directory
 * there). */
int fm_space_check(int fd, uint64_t size, struct fm_err *err);

/* *bytes: how much of a file of size bytes, without holes, has no room yet in fd, which may hold
 * some. */
int fm_space_missing(int fd, uint64_t size, uint64_t *bytes, struct fm_err *err);

/*
 * Reserve the room of an empty file of size bytes; its length becomes size rounded up to FM_BLOCK.
 * -ENOSPC, -EDQUOT, -EFBIG. 0 where the file system cannot reserve, and on those in memory, where
 * reserving would touch every page once more.
 */
int fm_space_reserve(int fd, uint64_t size, struct fm_err *err);

#endif
