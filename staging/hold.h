/* SPDX-License-Identifier: MIT */
/*
 * hold - a process that somebody's hold ends with, known so well that no other is taken for it.
 *
 * Its number alone is not enough: numbers are given again. While we run, a pidfd is that process
 * and no other. Over a restart of ours, number, time of its start and start of the machine are: no
 * two processes of one boot have number and start time in common.
 *
 * Reads /proc, which never waits for a disk. Any thread.
 */
#ifndef FM_STAGING_HOLD_H
#define FM_STAGING_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_err;

#define FM_HOLD_BOOT_LEN 16

struct fm_hold_process {
	pid_t pid;
	uint64_t start;			/* in ticks since the boot, as /proc/PID/stat has it */
	uint8_t boot[FM_HOLD_BOOT_LEN]; /* of this machine; zeros: unknown, the same as none */
};

/*
 * The process that has that number now: *pidfd is the caller's, *uid its real user. -ESRCH: there
 * is none, or it has ended. -EACCES: this service may not look at it (hidepid, ProtectProc=).
 */
int fm_hold_find(pid_t pid, struct fm_hold_process *out, uid_t *uid, int *pidfd,
		 struct fm_err *err);

/* Whether that one still lives: *pidfd, or -ESRCH. */
int fm_hold_find_again(const struct fm_hold_process *process, int *pidfd);

/* Whether it has ended. One whose first thread has ended and others have not, has not. */
bool fm_hold_is_over(int pidfd);

#endif
