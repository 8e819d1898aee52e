/* SPDX-License-Identifier: MIT */
/* api_rows - the operations that have a file of their own, for the list in api_ops.c. */
#ifndef FM_API_ROWS_H
#define FM_API_ROWS_H

#include "mover/api/api_op.h"

/* api_transfer.c */
extern const struct fm_api_op fm_api_put, fm_api_get, fm_api_wait;
/* api_store.c */
extern const struct fm_api_op fm_api_stat, fm_api_look, fm_api_list, fm_api_remove;
extern const struct fm_api_op fm_api_mkdir;
extern const struct fm_api_op fm_api_move, fm_api_link;
extern const struct fm_api_op fm_api_group_begin, fm_api_group_commit, fm_api_group_discard;
extern const struct fm_api_op fm_api_group_list;
extern const struct fm_api_op fm_api_space, fm_api_purge;
/* api_buffer.c */
extern const struct fm_api_op fm_api_buffer, fm_api_buffer_free;
/* A file of the same name each. */
extern const struct fm_api_op fm_api_jobs, fm_api_status, fm_api_verify, fm_api_volumes,
	fm_api_facts;

#endif
