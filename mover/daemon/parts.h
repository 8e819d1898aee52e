/* SPDX-License-Identifier: MIT */
/*
 * parts - the services and the operations of the local API of all folders, each in one list. Once,
 * at the start.
 */
#ifndef FM_PARTS_H
#define FM_PARTS_H

struct fm_api_op;
struct fm_service;

const struct fm_service *const *fm_parts_services(void);	/* NULL-terminated, both */
const struct fm_api_op *const *fm_parts_ops(void);

#endif
