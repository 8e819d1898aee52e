/* SPDX-License-Identifier: MIT */
/*
 * small_sink - a small file that comes into a store: its bytes wait in memory of ours until all of
 * them are there and checked, then it is created, written, published and closed by one piece of
 * work.
 *
 * What create() would refuse is refused by prepare() or publish() instead, with the same words.
 */
#ifndef FM_STORE_SMALL_SINK_H
#define FM_STORE_SMALL_SINK_H

struct fm_create;
struct fm_file;
struct fm_store;
struct fm_who;

#define FM_SMALL_SINK_MAX (64u << 10)

/*
 * Any thread. NULL: it is not small, has holes, or whose it is has no memory left (of the budget's
 * share for what is waited for); then it is created as any other. `path`, and what `who` points to,
 * stay until it is closed.
 */
struct fm_file *fm_small_sink_new(struct fm_store *store, const char *path,
				  const struct fm_who *who, const struct fm_create *how);

#endif
