/* SPDX-License-Identifier: MIT */
/* found - fmove join --find: what answered on the links of this machine, for people and as JSON. */
#ifndef FM_CLIENT_FOUND_H
#define FM_CLIENT_FOUND_H

#include <stdbool.h>

/* is_any_port: also where there is no RDMA. Returns the exit status. */
int fm_found(bool is_any_port, bool is_json);

#endif
