/* SPDX-License-Identifier: MIT */
/*
 * reread - what an earlier try left of a file is read again, before it is taken for what its
 * journal says.
 */
#ifndef FM_JOURNAL_REREAD_H
#define FM_JOURNAL_REREAD_H

#include <stdint.h>

/*
 * Worker. Read len bytes at offset, a multiple of 4096, of the regular file fd: from the disk if it
 * has O_DIRECT, else what the page cache holds of it is dropped first, as far as that can be.
 * *part: its contribution to the CRC of the whole. -ENOMEM: nothing can be said. Other errors: it
 * cannot be read, or is not there.
 */
int fm_reread(int fd, uint64_t offset, uint64_t len, uint32_t *part);

#endif
