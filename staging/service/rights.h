/* SPDX-License-Identifier: MIT */
/*
 * rights - who may still read a copy, after rules were changed.
 *
 * Who stages a source may read its copy, since its store let him read the source then. Where the
 * store is this node's, its rules are asked again: at each request for the dataset and when the
 * daemon starts. Those of another node are not asked about who staged it: a right lasts as long
 * as its user holds or pins the dataset, and his next request, which that node lists the source for
 * or not, renews or ends it. A source that no store here has any more is one whose rules are not
 * known. Of a store that is configured and not open (its file system does not answer, its volume is
 * not mounted) nobody can be asked now: all keep their rights until it is open, and then it is.
 *
 * Whom the rules of a store of this node name may read the copies of what is in it, too, though
 * they staged nothing: when rules are asked, and after a reload.
 */
#ifndef FM_STAGE_RIGHTS_H
#define FM_STAGE_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/store/store.h"

struct fm_cache;
struct fm_cache_readers;
struct fm_engine;
struct fm_err;
struct fm_stage_everybody;
struct fm_stage_pass;
struct fm_store_ref;

/* store: this node's, that the source is in; NULL: its rules are not known. Worker. */
int fm_stage_rights_agree(struct fm_cache *cache, uint64_t id, struct fm_store *store,
			  struct fm_err *err);

/*
 * Whether that is a store's refusal of who asked: only this takes a right to read a copy away, or
 * keeps one from being given. A node whose key is not known any more, a directory that the service
 * itself may not open, a store that is kept apart, and all that is away say nothing of a user.
 */
bool fm_stage_rights_is_refusal(const struct fm_err *err);

/* Whom a rule for everybody means: those who may use the socket of this node, and so could stage
 * it themselves. */
struct fm_stage_everybody {
	bool is_all;			/* really all */
	bool has_group;			/* or this one */
	gid_t group;
};

/*
 * Those whom a rule means, as one more reader; there is room for him. id: of a user or group; of
 * everybody it is not looked at.
 */
void fm_stage_rights_add_reader(const struct fm_stage_everybody *everybody,
				enum fm_access_kind kind, uint32_t id, struct fm_cache_readers *r);

/*
 * The list of a READY dataset names those whom the store's rules let read; store NULL: nobody. What
 * the file system does not take is said in the log, once, and then the list names nobody. False: it
 * is as it was, and this is to be called again. Worker.
 */
bool fm_stage_rights_name(struct fm_cache *cache, uint64_t id, struct fm_store *store,
			  const struct fm_stage_everybody *everybody);
/* The same of numbers that are known. */
bool fm_stage_rights_list(struct fm_cache *cache, uint64_t id,
			  const struct fm_cache_readers *readers);

/* Whether a source is in a store of another node, that all call by that node's name. */
bool fm_stage_rights_is_far(const char *node, const char *source);

/*
 * The store of this node that a source is in, with a reference, though it may be silent: its rules
 * for peers it has then, too. NULL: there is none, or it is on a volume that is not mounted.
 * Control thread.
 */
struct fm_store_ref *fm_stage_rights_store(struct fm_engine *engine, const char *node,
					   const char *source);

/*
 * Whether the store that a source is in may be one of this node that is not open now. So may the
 * one of a shared source be while its volume, or one that was never seen, is away. Control thread.
 */
bool fm_stage_rights_wait(struct fm_engine *engine, const char *node, const char *source);

/* Whether the user database of this node has that user. Worker. */
bool fm_stage_rights_is_user(uid_t uid);

/* What such look-ups may wait for without end: for fm_work. */
const void *fm_stage_rights_may_await(void);

/* The same of what asks the rules of that store, which may need no look-ups: NULL. store may be
 * NULL. */
const void *fm_stage_rights_may_await_of(const struct fm_store *store);

/*
 * The user database, if the rules of that store ask it about `who` and nothing else of the store
 * may be waited for without end. What takes long there looks him up first, apart, since the user
 * database has few threads (worker.h). NULL: there is nothing to look up so; also without a store.
 */
const void *fm_stage_rights_to_look_up(const struct fm_store *store, const struct fm_who *who);

/* Whether the rules of that store let the user read. Its file system is not asked. Worker. */
bool fm_stage_rights_may_read(struct fm_store *store, const struct fm_who *who);

/* The same of a user of whom only the number is known: with the groups that this node gives him. */
bool fm_stage_rights_may_read_as(struct fm_store *store, uid_t uid);

/*
 * The store refuses this user now, so the user may read no copy of that source any more. Worker.
 * is_far: it is another node's. That goes by this node, not by users, and so for all whom its rules
 * name.
 */
void fm_stage_rights_end(struct fm_cache *cache, const char *source, uid_t uid, bool is_far);

/*
 * The same for all that is there when the daemon starts; and whenever stores came or went, for all
 * that is in a store of this node. What is in one that was removed is for nobody any more whom its
 * rules named. Each is asked about until that went well: one whose store is not open, or that is
 * being evicted, by a later round; and so is one whose list could not be changed.
 *
 * Zeroed, with the first four set, which outlive it. A round: look() finds those that can be asked
 * about now, run() asks (a worker, while nothing else is called), asked() forgets them. All but
 * run() for the control thread.
 */
struct fm_stage_rights {
	struct fm_cache *cache;
	struct fm_engine *engine;
	const char *node;		/* our name */
	const struct fm_stage_everybody *everybody;
	bool has_agreed;		/* all that were there at the start, or are gone */
	uint64_t store_changes;		/* of the engine, that a pass was begun for */
	struct fm_stage_pass *first, *again;	/* what is left of each; NULL: nothing */
};

void fm_stage_rights_look(struct fm_stage_rights *rights);
void fm_stage_rights_run(struct fm_stage_rights *rights);
void fm_stage_rights_asked(struct fm_stage_rights *rights);
/* While no run() is under way; one whose asked() never came is forgotten here. */
void fm_stage_rights_free(struct fm_stage_rights *rights);

#endif
