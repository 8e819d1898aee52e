/* SPDX-License-Identifier: MIT */
/* services - all that a node does with its peers, for whoever makes an engine. */
#ifndef FM_SERVICES_H
#define FM_SERVICES_H

struct fm_service;

extern const struct fm_service *const fm_services[];	/* NULL-terminated */

#endif
