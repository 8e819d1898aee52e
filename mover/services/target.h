/* SPDX-License-Identifier: MIT */
/*
 * target - the node and the store that a caller named: what is said of those that are not there, in
 * the words of one place. Control thread.
 */
#ifndef FM_TARGET_H
#define FM_TARGET_H

#include <stddef.h>

struct fm_engine;
struct fm_err;
struct fm_peer;
struct fm_store_ref;

/* -ENOENT: no such peer is configured. */
int fm_target_peer(struct fm_engine *e, const char *node, struct fm_peer **out, struct fm_err *err);

/* -EINVAL: no store can have that name. */
int fm_target_check_store(const char *store, struct fm_err *err);

/*
 * What every request checks first: -EHOSTDOWN: fmoved is stopping; node (NULL: this one) and store
 * (NULL: none is needed) as above.
 */
int fm_target_check(struct fm_engine *e, const char *node, const char *store, struct fm_err *err);

/*
 * For fm_engine_store_put(). -ENOENT: this node has no such store. -EAGAIN: its volume is not
 * mounted just now.
 */
int fm_target_store(struct fm_engine *e, const char *store, size_t len, struct fm_store_ref **out,
		    struct fm_err *err);

#endif
