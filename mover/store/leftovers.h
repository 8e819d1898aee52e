/* SPDX-License-Identifier: MIT */
/*
 * leftovers - what unfinished transfers take of a store, and that it goes when somebody says so.
 *
 * Nobody works on what goes: its lock says that. A worker; waits for the disk, and walks through
 * the whole store for each page.
 */
#ifndef FM_STORE_LEFTOVERS_H
#define FM_STORE_LEFTOVERS_H

#include <stdbool.h>

struct fm_err;
struct fm_space_page;
struct fm_store_dir;

/*
 * A page of them, each with its path and, as one more part of that, the name that it would have
 * got, if that is known: the first ones behind the path `after` ("": all), by the bytes of their
 * paths, which stay (is_dry), or any, which go. An error if one cannot go, and there is no other.
 */
int fm_leftovers_page(struct fm_store_dir *dir, const char *after, bool is_dry,
		      struct fm_space_page *out, struct fm_err *err);

#endif
