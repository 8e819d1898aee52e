/* SPDX-License-Identifier: MIT */
/*
 * stage_holder - the process for which fmove stage holds what it staged.
 */
#ifndef FM_CLIENT_STAGE_HOLDER_H
#define FM_CLIENT_STAGE_HOLDER_H

#include <sys/types.h>

/* The number that --hold-pid names; -EINVAL: it is none. */
int fm_stage_holder_parse(const char *text, pid_t *out);

/* The process that runs us; 0: it cannot hold anything, which was said. */
pid_t fm_stage_holder(void);

#endif
