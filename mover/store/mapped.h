/* SPDX-License-Identifier: MIT */
/*
 * mapped - writes of many lanes side by side to one file of tmpfs, through mappings of it.
 *
 * The kernel lets one pwrite(2) into a file at a time, so a second lane gains little and a
 * sixteenth only burns processor time. Into a mapping lanes copy without waiting for each other. A
 * single thread is slower there than with pwrite(2), so few lanes take that.
 *
 * A file is mapped in windows, since a mapping costs page tables, and counts for who is killed when
 * memory runs out: one is made when its first byte is written, and goes when all of it is, or when
 * another needs its place. First its room is set aside, so that a full file system is an error
 * here. The copy is made by process_vm_writev(2): where somebody has cut the file, that fails,
 * while a plain copy would end the process with SIGBUS.
 *
 * Whatever cannot go this way is left to pwrite(2): a kernel or a filter that refuses a call, a
 * descriptor that was opened for writing only, a place that all windows are too far from.
 */
#ifndef FM_STORE_MAPPED_H
#define FM_STORE_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

struct fm_mapped;

/*
 * Large, since all lanes stand still while mappings of this process are made and undone, and small
 * enough to have some of them in each file that is written.
 */
#define FM_MAPPED_WINDOW (UINT64_C(64) << 20)

#define FM_MAPPED_LANES_MIN 8

/* For the start, before anything is written: how many lanes this process has. */
void fm_mapped_set_lanes(unsigned lanes);

/* Whether there are so many that mappings are faster. Any thread. */
bool fm_mapped_pays(void);

/*
 * For a file that will have that size and no holes; fd stays the caller's. window: bytes, whole
 * pages. NULL: it is not on tmpfs, or there is no memory.
 */
struct fm_mapped *fm_mapped_new(int fd, uint64_t size, uint64_t window);

/*
 * Any lane, at once. How many of the bytes it wrote, the first ones: the others are for pwrite(2),
 * which says what is wrong, if anything is. -ENOSPC and what else fallocate(2) says of room; -EIO:
 * somebody has cut the file.
 */
int64_t fm_mapped_write(struct fm_mapped *m, const void *buf, uint32_t len, uint64_t offset);

/* Nothing is being written. NULL is allowed. */
void fm_mapped_free(struct fm_mapped *m);

#endif
