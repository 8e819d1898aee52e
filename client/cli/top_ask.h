/* SPDX-License-Identifier: MIT */
/*
 * top_ask - who asks the daemons for fmove top: a thread for each question, so that one that gets
 * no answer holds up no other, and nobody who looks.
 *
 * The threads are never waited for: one may hang in its question. They end with the process. Of all
 * this there is one in a process.
 */
#ifndef FM_CLIENT_TOP_ASK_H
#define FM_CLIENT_TOP_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/top_frame.h"

struct fm_err;
struct fmove;

/* Asks from now on, c too, which nobody else uses or closes any more. */
int fm_top_ask_start(struct fmove *c, uint64_t every_ns, struct fm_err *err);

/* Readable when an answer came since fm_top_ask_lock(). */
int fm_top_ask_fd(void);

/* What is known, and may be read until the unlock. Nothing waits in between. */
const struct fm_top_state *fm_top_ask_lock(void);
void fm_top_ask_unlock(void);

/* Whether each question had an answer, and rates are known. */
bool fm_top_ask_has_all(const struct fm_top_state *state);

#endif
