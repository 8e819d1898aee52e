/* SPDX-License-Identifier: MIT */
/*
 * upkeep - what a node does for its stores by itself: when a store was opened, and every hour, what
 * interrupted transfers left in it for too long is swept, on a worker. Of the stores on a device
 * one at a time, and no more than eight devices at once, four of which may never answer: one that
 * does not holds up no other. Control thread.
 */
#ifndef FM_UPKEEP_H
#define FM_UPKEEP_H

#include "mover/node/service.h"

extern const struct fm_service fm_upkeep_service;

#endif
