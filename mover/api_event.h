/* SPDX-License-Identifier: MIT */
/*
 * api_event - the messages of the daemon to a client of the local API, as text. fmove-api(7)
 * describes each.
 *
 * Each fills buf and returns the length, or -EMSGSIZE. Loop thread.
 */
#ifndef FM_API_EVENT_H
#define FM_API_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_engine;
struct fm_err;
struct fm_job_progress;
struct fm_job_result;
struct fm_request_result;

int fm_api_event_accepted(char *buf, size_t cap, uint64_t id);
int fm_api_event_progress(char *buf, size_t cap, uint64_t id, const struct fm_job_progress *p);

/* id NULL: the request had none that could be read. */
int fm_api_event_error(char *buf, size_t cap, const uint64_t *id, const struct fm_err *err);

/* The ends of the operations; all of them are "done". */
int fm_api_event_done(char *buf, size_t cap, uint64_t id);
int fm_api_event_pong(char *buf, size_t cap, uint64_t id);
int fm_api_event_job(char *buf, size_t cap, uint64_t id, const struct fm_job_result *r);
int fm_api_event_stat(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_list(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_status(char *buf, size_t cap, uint64_t id, struct fm_engine *engine);

#endif
