/* SPDX-License-Identifier: MIT */
/*
 * system_log - what systemd's journal of this node has in one field.
 *
 * libsystemd is loaded when a journal is opened, and not before: it brings five libraries more,
 * and nearly every start of fmove needs none of them.
 */
#ifndef FM_CLIENT_SYSTEM_LOG_H
#define FM_CLIENT_SYSTEM_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_err;
struct fm_system_log;

/* The entries of all units that have the field, "NAME=VALUE", from the oldest on. */
int fm_system_log_open(const char *field, struct fm_system_log **out, struct fm_err *err);
void fm_system_log_close(struct fm_system_log *j); /* NULL is allowed */

/* Whether there are files of a journal that this user may read. */
bool fm_system_log_has_files(const struct fm_system_log *j);

/* 1: the next entry is the one that is looked at, and came at *time_us since 1970. 0: there is
 * none, yet. -errno. */
int fm_system_log_next(struct fm_system_log *j, uint64_t *time_us);

/* The bytes of that entry's field, which are no text to be printed, until the next call; NULL:
 * none. */
const char *fm_system_log_field(struct fm_system_log *j, const char *name, size_t *len);

/* Readable when something is new; then fm_system_log_process(), and fm_system_log_next() again. */
int fm_system_log_fd(const struct fm_system_log *j);
int fm_system_log_process(struct fm_system_log *j); /* -errno */

#endif
