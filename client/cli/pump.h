/* SPDX-License-Identifier: MIT */
/*
 * pump - a thread that carries bytes between a pipe and a descriptor which is not handed to the
 * daemon: a terminal, a device, a file that is open somewhere in its middle or for appending. At
 * most one runs; fm_interrupt_start() comes first.
 */
#ifndef FM_CLIENT_PUMP_H
#define FM_CLIENT_PUMP_H

struct fm_err;

struct fm_pump;

/*
 * Everything from fd; *out is the pipe to read it from, the caller's. After an error in reading the
 * pipe does not end: fm_pump_cancel_fd() tells of it.
 */
int fm_pump_from(int fd, struct fm_pump **out_pump, int *out, struct fm_err *err);

/*
 * Everything into fd; *out is the pipe to write it to, the caller's. After an error in writing the
 * pipe is broken.
 */
int fm_pump_to(int fd, struct fm_pump **out_pump, int *out, struct fm_err *err);

/*
 * fm_pump_from only: readable after a signal (interrupt.h) or an error in reading this. The pump's.
 */
int fm_pump_cancel_fd(const struct fm_pump *pump);

/* The error of reading or writing so far, 0 if none. */
int fm_pump_error(struct fm_pump *pump);

/*
 * fm_pump_to only, its pipe closed by all who had it: wait until everything is written. 0 or
 * -errno.
 */
int fm_pump_finish(struct fm_pump *pump);

/*
 * Instead, and whoever has its pipe: nothing is written any more when this returns. For a file,
 * where no write waits for somebody else.
 */
void fm_pump_stop(struct fm_pump *pump);

#endif
