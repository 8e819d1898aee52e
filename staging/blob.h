/* SPDX-License-Identifier: MIT */
/*
 * blob - whether a blob of a Hugging Face hub cache is what its name says.
 *
 * A large file's name is the SHA-256 of its content (64 digits); that of another one is git's: the
 * SHA-1 of "blob ", the length, a byte that is zero, and the content (40 digits). Other names say
 * nothing.
 */
#ifndef FM_STAGE_BLOB_H
#define FM_STAGE_BLOB_H

#include <stdatomic.h>
#include <stdint.h>

struct fm_err;

/*
 * fd: a regular file, read from its start; nothing of it stays in the page cache for that. done
 * grows by what was read. 1: it is; 0: its name says nothing. -EBADMSG: it is not. -ECANCELED:
 * is_stopped.
 */
int fm_stage_blob_check(int fd, const char *name, const atomic_bool *is_stopped,
			_Atomic uint64_t *done, struct fm_err *err);

#endif
