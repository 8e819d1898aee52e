/* SPDX-License-Identifier: MIT */
/*
 * lent - what this node has READY, for nodes that mend their own copy of it.
 *
 * A store of the engine, which no configuration has and nobody lists: a node that holds a dataset
 * here reads ranges of its files as KEY/PATH; of a dataset that is one file, as KEY. KEY is that of
 * its listing, in lower-case hex, by which it is held, too: it is the same on all nodes. A version
 * is not, since a copy beside one of the same bytes has a version of its own. Other bytes with the
 * same names, sizes and times are told by the reader, from the CRC of each chunk. The hold says
 * that this node stages with that one, and that the rules of the source's store let it have the
 * dataset if that store is this node's (keeper.h; those of another node's are not known here), also
 * since the last reload, and that it stays meanwhile; who has none hears of no dataset. No local
 * caller may name the store, here or on the node that reads: the API refuses the names of hidden
 * stores.
 */
#ifndef FM_STAGE_LENT_H
#define FM_STAGE_LENT_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/store/store.h"

struct fm_cache;
struct fm_cache_key;
struct fm_err;

#define FM_LENT_STORE FM_STORE_INTERNAL_PREFIX ".lent"
#define FM_LENT_KEY_LEN 64u		/* characters */

/*
 * may(ctx, peer): whether this node stages with that one; from any thread. The store is the
 * engine's to free, and used no more when the cache goes.
 */
int fm_lent_new(struct fm_cache *cache, bool (*may)(void *ctx, const char *peer), void *ctx,
		struct fm_store **out, struct fm_err *err);

/* As in a path of that store. */
void fm_lent_key(const struct fm_cache_key *key, char out[static FM_LENT_KEY_LEN + 1]);

#endif
