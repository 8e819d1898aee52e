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
#include <sys/types.h>

#include "mover/store/verify.h"
#include "mover/transport/transport.h"

struct fm_engine;
struct fm_err;
struct fm_job_result;
struct fm_json_writer;
struct fm_node_facts_answer;
struct fm_queue;
struct fm_queue_progress;
struct fm_request_result;
struct fm_tree_names;
struct fm_volumes_answer;

/* What every event begins and ends with. */
void fm_api_event_begin(struct fm_json_writer *w, char *buf, size_t cap, uint64_t id,
			const char *event);
int fm_api_event_end(struct fm_json_writer *w);

int fm_api_event_accepted(char *buf, size_t cap, uint64_t id, const char *job);
int fm_api_event_progress(char *buf, size_t cap, uint64_t id, const struct fm_queue_progress *p);

/* id NULL: the request had none that could be read. */
int fm_api_event_error(char *buf, size_t cap, const uint64_t *id, const struct fm_err *err);

/* Of a transfer; the result has an error. */
int fm_api_event_failed(char *buf, size_t cap, uint64_t id, const struct fm_job_result *r);

/* The ends of the operations; all of them are "done". */
int fm_api_event_done(char *buf, size_t cap, uint64_t id);
int fm_api_event_pong(char *buf, size_t cap, uint64_t id, const char *node);
int fm_api_event_buffer(char *buf, size_t cap, uint64_t id, uint64_t number);
int fm_api_event_detached(char *buf, size_t cap, uint64_t id, const char *job);
int fm_api_event_job(char *buf, size_t cap, uint64_t id, const struct fm_job_result *r);
int fm_api_event_stat(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_look(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_link(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
/* Why a group is not committed, and which members are missing. */
int fm_api_event_missing(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_groups(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_space(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_purged(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
int fm_api_event_list(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);

/* Those of uid behind `seq`, or of all if is_all; as many as fit. */
int fm_api_event_jobs(char *buf, size_t cap, uint64_t id, struct fm_queue *queue, uid_t uid,
		      bool is_all, uint64_t seq);

/* That one alone. -ENOENT, with a text. */
int fm_api_event_one_job(char *buf, size_t cap, uint64_t id, struct fm_queue *queue, uid_t uid,
			 const char *job, struct fm_err *err);

/* A put that is held is there but for its name (r: NULL); or what came of an attended get, which
 * its client names. */
int fm_api_event_prepared(char *buf, size_t cap, uint64_t id, const struct fm_job_result *r,
			  uint64_t sent);

/* Of a verification: how far it is, something it found (path: terminated), its end. */
int fm_api_event_verifying(char *buf, size_t cap, uint64_t id, const struct fm_verify_count *c);
int fm_api_event_finding(char *buf, size_t cap, uint64_t id, enum fm_finding_kind kind,
			 uint64_t offset, uint64_t length, const char *path);
int fm_api_event_verified(char *buf, size_t cap, uint64_t id, const struct fm_verify_count *c);

/* Of a tree: names that change. */
int fm_api_event_names(char *buf, size_t cap, uint64_t id, const struct fm_tree_names *page);

/* What one peer says of shared volumes. */
int fm_api_event_volumes(char *buf, size_t cap, uint64_t id, const struct fm_volumes_answer *a);

/* A piece of what one peer says of itself, or why it does not. */
int fm_api_event_facts(char *buf, size_t cap, uint64_t id, const struct fm_node_facts_answer *a);

/* queue, doors: NULL: there are none. */
int fm_api_event_status(char *buf, size_t cap, uint64_t id, struct fm_engine *engine,
			const struct fm_queue *queue, const struct fm_list *doors);

#endif
