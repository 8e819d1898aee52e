/* SPDX-License-Identifier: MIT */
/*
 * api_buffer - memory that clients passed, to send from it and to receive into it
 * (store/buffer.h). See api_op.h for its operations.
 *
 * Happy path: the size is counted against the user's share of memory.buffers -> the holder of the
 * user maps the descriptor -> it has a number that nobody can guess -> transfers of the same user,
 * on any connection, name it -> it is given back, or the connection that passed it ends -> the last
 * transfer of it has ended -> it is unmapped, and the share is free. Loop thread.
 */
#ifndef FM_API_BUFFER_H
#define FM_API_BUFFER_H

#include <stdint.h>

struct fm_api_owner;
struct fm_api_request;
struct fm_api_task;
struct fm_api_tasks;
struct fm_attr;
struct fm_err;
struct fm_file;

/* Places of buffers: one that is small counts as a place, too. */
#define FM_API_BUFFERS_MAX 1024u

/* bytes_max: of all clients together. */
void fm_api_buffers_init(struct fm_api_tasks *tasks, uint64_t bytes_max);

/* The part of a buffer that the request names, as the source of a put (*attr) or the sink of a get.
 * -EBADF: this user has no such buffer. */
int fm_api_buffer_file(const struct fm_api_task *task, const struct fm_api_request *ask,
		       struct fm_file **out, struct fm_attr *attr, struct fm_err *err);

/* The client is gone. */
void fm_api_buffers_drop(struct fm_api_owner *owner);

#endif
