/* SPDX-License-Identifier: MIT */
/* private_file - whether a file with a key or a secret may be used. Any thread. */
#ifndef FM_BASE_PRIVATE_FILE_H
#define FM_BASE_PRIVATE_FILE_H

#include <sys/types.h>

struct fm_err;

/*
 * 0 if the open file is a regular one of root or of owner that nobody else may use. Else -EINVAL,
 * -EACCES or another error, with the path and what mends it.
 */
int fm_private_file_check(int fd, const char *path, uid_t owner, struct fm_err *err);

#endif
