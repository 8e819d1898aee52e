/* SPDX-License-Identifier: MIT */
/*
 * page - how large the kernel's pages of memory are.
 *
 * 4 KiB on x86-64; 4, 16 or 64 KiB on arm64, as its kernel was built. What lies on the disk and on
 * the wire has a grid of its own (block.h), which may be finer.
 */
#ifndef FM_BASE_PAGE_H
#define FM_BASE_PAGE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a page: a power of two. FM_PAGE_BYTES says another one, for tests (CMakeLists.txt). */
size_t fm_page_bytes(void);

/* Bytes of what mmap(2) takes for MAP_HUGETLB alone: 2 MiB on x86-64, up to 512 MiB on arm64. 0:
 * this kernel has none, or does not say. */
uint64_t fm_page_huge_bytes(void);

/*
 * Advice to the kernel: of this stretch of fd nothing needs to stay in memory, and what is read
 * next comes from the disk. posix_fadvise(2) keeps a page that is partly outside; here it goes as
 * well, since the kernel drops only what is on the disk already.
 */
void fm_page_drop(int fd, uint64_t offset, uint64_t len);

#endif
