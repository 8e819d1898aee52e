/* SPDX-License-Identifier: MIT */
/*
 * file - the system calls of a journal: all of the bytes or an error, -errno, EINTR tried again, a fault point before
 * each.
 */
#ifndef FM_JOURNAL_FILE_H
#define FM_JOURNAL_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of a regular file; -EINVAL: it is none. */
int fm_journal_file_size(int fd, uint64_t *size);

/* How many bytes there were, len at most: fewer only at the end of the file. */
int64_t fm_journal_file_read(int fd, void *buf, size_t len, uint64_t offset);

int fm_journal_file_write(int fd, const void *buf, size_t len, uint64_t offset);
int fm_journal_file_sync(int fd);
int fm_journal_file_cut(int fd, uint64_t size);

#endif
