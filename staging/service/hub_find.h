/* SPDX-License-Identifier: MIT */
/*
 * hub_find - which node has a revision of a repository, in a store of hub layout.
 *
 * This node's stores are asked first, then the one that a user here has it from, then those of
 * all peers at once, each peer one store after the other: a list of KIND--ORG--NAME@REVISION names
 * the commit, and a store that is no hub has no such name. The first that has it whole is the
 * answer. One that says of a commit that it is another one is passed over. Control thread.
 */
#ifndef FM_STAGE_HUB_FIND_H
#define FM_STAGE_HUB_FIND_H

#include "mover/base/err.h"
#include "mover/base/hub_name.h"
#include "mover/node/engine.h"
#include "mover/store/store.h"
#include "mover/wire/wire.h"

struct fm_hub_found {
	struct fm_err err;		/* names who was asked, and what is wrong there */
	char node[FM_WIRE_NAME_MAX + 1], store[FM_WIRE_NAME_MAX + 1];
	char commit[FM_HUB_COMMIT_LEN + 1];
};

/*
 * done(ctx, ...) once, unless an error is returned; what it is told is valid during the call. from:
 * NODE:STORE, which is asked before all others, of another node before all of other nodes; "": none
 * is. The others are asked if that does not have it, or cannot be asked.
 */
int fm_hub_find(struct fm_engine *engine, const struct fm_hub_name *name, const struct fm_who *who,
		const char *from,
		void (*done)(void *ctx, const struct fm_hub_found *found), void *ctx,
		struct fm_err *err);

#endif
