/* SPDX-License-Identifier: MIT */
/*
 * rights - who may still read a copy, after rules were changed.
 *
 * Who stages a source may read its copy, since its store let him read the source then. Where the
 * store is this node's, its rules are asked again: at each request for the dataset and when the
 * daemon starts. The rules of another node are not known here: there a right lasts as long as its
 * user holds or pins the dataset, and his next request, which that node lists the source for or
 * not, renews or ends it. A source that no store here has any more is one whose rules are not
 * known. Of a store that is configured and not open (its file system does not answer, its volume is
 * not mounted) nobody can be asked now: all keep their rights until it is open, and then it is.
 */
#ifndef FM_STAGE_RIGHTS_H
#define FM_STAGE_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_cache;
struct fm_engine;
struct fm_err;
struct fm_stage_rights;
struct fm_store;
struct fm_store_ref;

/* store: this node's, that the source is in; NULL: its rules are not known. Worker. */
int fm_stage_rights_agree(struct fm_cache *cache, uint64_t id, struct fm_store *store,
			  struct fm_err *err);

/*
 * The store of this node that a source is in, with a reference, though it may be silent: its rules
 * for peers it has then, too. NULL: there is none, or it is on a volume that is not mounted.
 * Control thread.
 */
struct fm_store_ref *fm_stage_rights_store(struct fm_engine *engine, const char *node,
					   const char *source);

/*
 * Whether the store that a source is in may be one of this node that is not open now. So may the
 * one of any shared source be while a volume is not mounted. Control thread.
 */
bool fm_stage_rights_wait(struct fm_engine *engine, const char *node, const char *source);

/* Whether the user database of this node has that user. Worker. */
bool fm_stage_rights_is_user(uid_t uid);

/* The store refuses this user now, so the user may read no copy of that source any more. Worker. */
void fm_stage_rights_end(struct fm_cache *cache, const char *source, uid_t uid);

/*
 * The same for all that is there when the daemon starts, each once: look() finds those whose store
 * can be asked now, or is none of this node's, run() asks (a worker, while nothing else is called),
 * asked() forgets them. are_over(): none is left. All but run() for the control thread. NULL: there
 * was no memory, and it is said; all but are_over() take it.
 */
struct fm_stage_rights *fm_stage_rights_new(struct fm_cache *cache, struct fm_engine *engine,
					    const char *node);
void fm_stage_rights_look(struct fm_stage_rights *rights);
void fm_stage_rights_run(struct fm_stage_rights *rights);
void fm_stage_rights_asked(struct fm_stage_rights *rights);
bool fm_stage_rights_are_over(const struct fm_stage_rights *rights);
void fm_stage_rights_free(struct fm_stage_rights *rights);

#endif
