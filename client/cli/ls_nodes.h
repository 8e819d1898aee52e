/* SPDX-License-Identifier: MIT */
/*
 * ls_nodes - fmove ls without a directory: the nodes, and the stores of one.
 */
#ifndef FM_CLIENT_LS_NODES_H
#define FM_CLIENT_LS_NODES_H

#include <stdbool.h>

struct fm_ls_nodes {
	bool is_json;
	bool is_long;
	bool is_null;		/* names only, a zero byte behind each */
};

/* Both return the exit status. text: "NODE:", as it was typed. */
int fm_ls_nodes(const struct fm_ls_nodes *how);
int fm_ls_stores(const char *text, const struct fm_ls_nodes *how);

#endif
