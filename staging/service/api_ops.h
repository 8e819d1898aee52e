/* SPDX-License-Identifier: MIT */
/*
 * api_ops - the operations of the local API that have a file of their own; api.c has the others,
 * and the list of all.
 */
#ifndef FM_STAGE_API_OPS_H
#define FM_STAGE_API_OPS_H

struct fm_api_op;

extern const struct fm_api_op fm_stage_op_locate;	/* api_locate.c */

#endif
