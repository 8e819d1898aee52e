/* SPDX-License-Identifier: MIT */
/*
 * access - who may: a list of rules out of the configuration, and the question whether a caller is
 * in it.
 *
 *   "*"          everybody, here and on peers
 *   "peer:*"     whoever asks on a peer of this node       "peer:NAME"   on this one
 *   "user:NAME"  that user of this machine                 "group:NAME"  its members, by first or
 *                other groups
 *
 * A peer's request is matched by the first three only: its uid is the peer's word. Root of this
 * machine is always allowed. User and group names are looked up once, memberships at each question
 * (NSS: may block, worker threads only).
 */
#ifndef FM_STORE_ACCESS_H
#define FM_STORE_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "mover/store/store.h"

struct fm_access;
struct fm_err;
struct fm_who;

#define FM_ACCESS_RULES_MAX 256

/*
 * rules: NULL-terminated and copied; NULL: none. -EINVAL names the rule that is malformed or names
 * nobody; -ENOMEM.
 */
int fm_access_new(const char *const *rules, struct fm_access **out, struct fm_err *err);

/* The same without the user database, which may never answer: rules about users and groups match
 * nobody. */
int fm_access_new_at_once(const char *const *rules, struct fm_access **out, struct fm_err *err);

/* Whether fm_access_new() asks the user database for these. At once. */
bool fm_access_names_users(const char *const *rules);

void fm_access_free(struct fm_access *access);

bool fm_access_allows(const struct fm_access *access, const struct fm_who *who);

/* Whether that needs the user database: some rule is about a group. */
bool fm_access_asks_users(const struct fm_access *access);

/*
 * What asking that store's rules about `who` may wait for without end, for struct fm_work: the user
 * database, where rules name groups and `who` is a user of this machine other than root. NULL:
 * nothing. At once.
 */
const void *fm_access_may_await(const struct fm_store *store, const struct fm_who *who);

/* The user database, as one of the things that may be waited for. */
const void *fm_access_user_database(void);

/* 0, or -EACCES (fm_err_rule()) and a text that says who may not do what ("read", "write") and how
 * that is changed. A user is told by his number: to look his name up may take for ever. */
int fm_access_check(const struct fm_access *access, const struct fm_who *who, const char *what,
		    struct fm_err *err);

/* ---- what the rules say of users, apart from peers ---- */

/* on() for each rule that is about users, in the order of the list, with the ID that its name had
 * when the list was made. At once. */
void fm_access_users(const struct fm_access *access, fm_access_user *on, void *ctx);

/* Looks a name up on this machine. 0, -ENOENT, or what the look-up said. May block: a worker. */
int fm_access_find_user(const char *name, uid_t *out);
int fm_access_find_group(const char *name, gid_t *out);

#endif
