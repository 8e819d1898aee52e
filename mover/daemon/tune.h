/* SPDX-License-Identifier: MIT */
/*
 * tune - lanes, connections and slabs for this machine: what it has is read, mover/node/tuning.h
 * chooses. Once, at the start: a machine, a control group or a rail that changes later changes
 * nothing here.
 */
#ifndef FM_DAEMON_TUNE_H
#define FM_DAEMON_TUNE_H

#include "mover/node/tuning.h"

struct fm_config;

struct fm_tune {
	struct fm_tuning is;
	char text[FM_TUNING_TEXT_MAX];	/* what was chosen and why, one line */
};

void fm_tune(const struct fm_config *cfg, struct fm_tune *out);

#endif
