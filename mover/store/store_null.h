/* SPDX-License-Identifier: MIT */
/*
 * store_null - a store for measuring: sources are sizes, sinks forget.
 */
#ifndef FM_STORE_STORE_NULL_H
#define FM_STORE_STORE_NULL_H

struct fm_err;
struct fm_store;
struct fm_store_opts;

/* Called by fm_store_open(), which checked the name. */
int fm_store_null_open(const struct fm_store_opts *opts, struct fm_store **out, struct fm_err *err);

#endif
