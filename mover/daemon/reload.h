/* SPDX-License-Identifier: MIT */
/*
 * reload - SIGHUP: read the configuration again and take over what can be taken over while running.
 *
 * Peers, stores, rate limit, log level and address are taken over; for the rest the log names what
 * needs a restart. A configuration with a mistake, or a store that cannot be opened, changes
 * nothing. Control loop only; reading and opening happen on a worker's thread.
 */
#ifndef FM_DAEMON_RELOAD_H
#define FM_DAEMON_RELOAD_H

struct fm_err;
struct fm_fmoved;
struct fm_reload;

int fm_reload_new(struct fm_fmoved *fmoved, struct fm_reload **out, struct fm_err *err);

/* Begin, or once more when the one under way has ended. */
void fm_reload_start(struct fm_reload *reload);

/* None under way: the worker has ended and its posts have run. NULL is allowed. */
void fm_reload_free(struct fm_reload *reload);

#endif
