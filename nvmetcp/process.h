/* SPDX-License-Identifier: MIT */
/*
 * process - which process that was, also after the one that started it has gone. A number is given
 * again; a number and the moment of its start are not, within one boot. Any thread.
 */
#ifndef FM_NVMETCP_PROCESS_H
#define FM_NVMETCP_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_err;

struct fm_process {
	pid_t pid;
	uint64_t start;			/* clock ticks since the boot */
};

/* One that runs. root: what stands before /proc, "" but in tests. -errno. */
int fm_process_read(const char *root, pid_t pid, struct fm_process *out, struct fm_err *err);

/* False: it has ended, so no call of it is under way in the kernel any more. What cannot be read
 * may live. */
bool fm_process_may_live(const char *root, const struct fm_process *process);

/* Whether there may be a process of that name and of our user that is no child of `parent`. What
 * cannot be read may be one. */
bool fm_process_may_stray(const char *root, const char *name, pid_t parent);

#endif
