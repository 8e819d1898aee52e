/* SPDX-License-Identifier: MIT */
/*
 * upkeep - what a node does for its stores by itself: when a store was opened, and every hour, what
 * interrupted transfers left in it for too long is swept. One store at a time, on a worker. Control
 * thread.
 */
#ifndef FM_UPKEEP_H
#define FM_UPKEEP_H

#include "mover/node/service.h"

extern const struct fm_service fm_upkeep_service;

#endif
