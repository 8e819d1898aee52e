/* SPDX-License-Identifier: MIT */
/*
 * fault - places where a failure can be made to happen, by name or by number.
 *
 * `if (FM_FAULT("arena.map")) return -ENOMEM;` stands before the real call. In builds without
 * FM_FAULTS (release) it is the constant false. A test arms one fault: the n-th point reached in
 * the process, or the n-th time a named point is reached. FMOVE_FAULT in the environment does the
 * same for a whole program: "17" or "store.write:3"; with "store.write:3+2" the point is not
 * failed, but takes two seconds. Any thread.
 */
#ifndef FM_BASE_FAULT_H
#define FM_BASE_FAULT_H

#include <stdbool.h>

#ifdef FM_FAULTS
#define FM_FAULT(name) fm_fault_hit(name)
#else
#define FM_FAULT(name) false
#endif

/* Fail the n-th point (1 is the next) whose name is `name` (NULL: any). n = 0 disarms. Resets the
 * counts. */
void fm_fault_arm(const char *name, unsigned n);

/* Whether the armed fault has happened since it was armed. */
bool fm_fault_fired(void);

/* Points reached since the last arming. */
unsigned fm_fault_count(void);

/* Arm from FMOVE_FAULT, if it is set. Ends the process with a message if it is not of the form
 * above. */
void fm_fault_arm_from_env(void);

/*
 * reached(ctx, name) before each point, in its thread, whether it fails or not: a test does then
 * what another process could do between two calls. Set while nothing else runs; NULL: no more.
 */
void fm_fault_watch(void (*reached)(void *ctx, const char *name), void *ctx);

bool fm_fault_hit(const char *name);

#endif
