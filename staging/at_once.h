/* SPDX-License-Identifier: MIT */
/*
 * at_once - a few threads for small files, each of which waits for the disk: one behind the other
 * they take as many waits as there are files.
 */
#ifndef FM_STAGE_AT_ONCE_H
#define FM_STAGE_AT_ONCE_H

#define FM_STAGE_AT_ONCE 16u

/*
 * Call work(ctx, n) for each n below count, which is FM_STAGE_AT_ONCE at most, in a thread for each
 * of them; 0 in this one. Returns when all have returned. Where the system gives fewer threads some
 * n are left out, 0 never.
 */
void fm_stage_at_once(unsigned count, void (*work)(void *ctx, unsigned n), void *ctx);

#endif
