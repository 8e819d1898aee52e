/* SPDX-License-Identifier: MIT */
/*
 * origin - tells a file or directory from what had its inode's number before it: some file systems
 * give such a number again at once.
 *
 * Any thread; may wait for the file system.
 */
#ifndef FM_STORE_ORIGIN_H
#define FM_STORE_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When it was made. Where that is not told (NFS, a tmpfs of Linux 5), a hash of its file handle.
 * Never 0. -EOPNOTSUPP: it has neither. Errors of statx(2) and name_to_handle_at(2).
 */
int fm_origin_find(int dir, const char *name, uint64_t *out);

/*
 * The same, if it is that as long as the file is there: -EOPNOTSUPP where there are only handles,
 * and those of an unchanged file change. For who would take it for another one then; who leaves
 * alone what is another one needs no more than the above.
 */
int fm_origin_find_lasting(int dir, const char *name, uint64_t *out);

/*
 * Whether two origins say the same thing of a file. If not nobody knows whether they are of one, as
 * once a newer kernel tells when it was made.
 */
bool fm_origin_is_alike(uint64_t one, uint64_t other);

#endif
