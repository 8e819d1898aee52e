/* SPDX-License-Identifier: MIT */
/*
 * proc_stat - a process as its line /proc/PID/stat has it, proc_pid_stat(5). Pure; any thread. Who
 * reads the file does it in his own way.
 */
#ifndef FM_BASE_PROC_STAT_H
#define FM_BASE_PROC_STAT_H

#include <stdint.h>
#include <sys/types.h>

#define FM_PROC_STAT_MAX 1024		/* room for the text, its end included */

struct fm_proc_stat {
	char name[64];			/* cut, if it is longer */
	char state;			/* 'Z', 'X': it has ended */
	pid_t parent;
	unsigned flags;
	/* of processors; sysconf(_SC_CLK_TCK) are a second */
	uint64_t user_ticks, system_ticks;
	uint64_t start_ticks;		/* since the boot */
};

/*
 * The name is between the first and the last parenthesis, and may have anything in it. -EBADMSG:
 * text is no such line, or cut before the start. It ends with a NUL.
 */
int fm_proc_stat_parse(const char *text, struct fm_proc_stat *out);

#endif
