/* SPDX-License-Identifier: MIT */
/*
 * ranged_file - ranges of a stored file, one after the other, as one source of as many bytes.
 *
 * Chunks, resends and resume know nothing of ranges. Ranges may overlap and have any order and
 * length. A hole reads as zeros.
 */
#ifndef FM_STORE_RANGED_FILE_H
#define FM_STORE_RANGED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_attr;
struct fm_err;
struct fm_file;
struct fm_range;

#define FM_RANGED_MAX 1024u		/* of one file: FM_WIRE_GET_RANGES_MAX */
#define FM_RANGE_TO_END UINT64_MAX	/* as a length: up to the end of the file */

/*
 * fd, an open regular file, is taken over, also on error; the ranges are copied. *attr is that of
 * the file, but for its size, and for `dev`, which tells these ranges from all others. is_verified:
 * blocks that are covered in part are compared with the kept digest, too. -EINVAL: a range lies
 * past the end; err says which.
 */
int fm_ranged_file_new(int fd, const struct fm_range *ranges, size_t count, bool is_verified,
		       struct fm_file **out, struct fm_attr *attr, struct fm_err *err);

/*
 * Worker, when all of it was read. Compares blocks with the kept digest, and reads some again for
 * that, but no more in one call than takes a moment. 1: call it again. 0: all were compared; then
 * check_unchanged() says what that is worth.
 */
int fm_ranged_file_check(struct fm_file *file, struct fm_err *err);

/*
 * After that. Whether a block that was read is not what the kept digest says: the
 * first one, by its place in the stored file.
 */
bool fm_ranged_file_damage(const struct fm_file *file, uint64_t *offset, uint64_t *length);

#endif
