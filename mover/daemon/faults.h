/* SPDX-License-Identifier: MIT */
/*
 * faults - what of its files and directories fmoved cannot use as configured (config/preflight.h),
 * said in the log: by --check, by a start and by a reload.
 */
#ifndef FM_FAULTS_H
#define FM_FAULTS_H

#include <stdint.h>

#include "mover/base/log.h"

struct fm_config;
struct fm_preflight_fault;

/* One line, with the command that mends it. */
void fm_fault_say(const struct fm_preflight_fault *fault, enum fm_log_level level);

/* Try all as who we are, and warn of what fails. It goes on: whatever works all the same is kept
 * from nobody. Waits for the disk. */
void fm_faults_warn(const struct fm_config *cfg);

/*
 * The same, waiting so long at most (within.h): what else is wrong than a directory whose file
 * system does not answer is said when it does. Once in a process.
 */
void fm_faults_warn_within(struct fm_config *cfg, uint64_t max_ns);

#endif
