/* SPDX-License-Identifier: MIT */
/*
 * access - who may.
 */
#include "mover/store/access.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

/* For one entry of the user or group database: a group lists all its members. Address space until
 * it is used. */
#define NSS_BUF_LEN (1u << 20)
#define GROUPS_MAX 65536	/* the kernel's NGROUPS_MAX */

enum rule_kind { RULE_ANYBODY, RULE_ANY_PEER, RULE_PEER, RULE_USER, RULE_GROUP, RULE_NOBODY };

struct rule {
	enum rule_kind kind;
	char *name;		/* RULE_PEER, RULE_USER, RULE_GROUP */
	uid_t uid;		/* RULE_USER */
	gid_t gid;		/* RULE_GROUP */
};

struct fm_access {
	size_t count;
	bool has_groups;
	struct rule rules[];
};

/* ---------------------------------------------------------------------------- the user database */

/* Looks a user up. 0, -ENOENT, or the error of the look-up. */
static int find_user(const char *name, uid_t *out)
{
	struct passwd entry, *found = NULL;
	char *buf = fm_sys_alloc(NSS_BUF_LEN);
	int ret;

	if (!buf)
		return -ENOMEM;
	ret = -getpwnam_r(name, &entry, buf, NSS_BUF_LEN, &found);
	if (found)
		*out = found->pw_uid;
	free(buf);
	return found ? 0 : ret < 0 ? ret : -ENOENT;
}

static int find_group(const char *name, gid_t *out)
{
	struct group entry, *found = NULL;
	char *buf = fm_sys_alloc(NSS_BUF_LEN);
	int ret;

	if (!buf)
		return -ENOMEM;
	ret = -getgrnam_r(name, &entry, buf, NSS_BUF_LEN, &found);
	if (found)
		*out = found->gr_gid;
	free(buf);
	return found ? 0 : ret < 0 ? ret : -ENOENT;
}

/*
 * Finds the groups of uid, for groups[GROUPS_MAX], in the database and not in the process that
 * asks. Returns how many.
 */
static size_t find_groups_of(uid_t uid, gid_t gid, gid_t *groups)
{
	struct passwd entry, *found = NULL;
	char *buf = fm_sys_alloc(NSS_BUF_LEN);
	int count = GROUPS_MAX;

	groups[0] = gid;
	if (!buf)
		return 1;
	if (getpwuid_r(uid, &entry, buf, NSS_BUF_LEN, &found) != 0 || !found ||
	    getgrouplist(found->pw_name, gid, groups, &count) < 0)
		count = 1;
	free(buf);
	return (size_t)count;
}

const void *fm_access_user_database(void)
{
	static const char user_database;

	return &user_database;
}

/* -------------------------------------------------------------------------------------- parsing */

/* The text behind the prefix. NULL: there is none. */
static const char *behind(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(text, prefix, len) == 0 && text[len] ? text + len : NULL;
}

static int rule_find(const char *text, const char *kind, int ret, struct fm_err *err)
{
	if (ret == -ENOENT)
		return fm_err_set(err, -EINVAL, "rule \"%s\": this machine has no such %s", text,
				  kind);
	if (ret < 0)
		return fm_err_sys(err, ret, "rule \"%s\": look up the %s", text, kind);
	return 0;
}

static int rule_name(const char *text, const char *name, struct rule *out, struct fm_err *err)
{
	out->name = strdup(name);
	return out->name ? 0 : fm_err_set(err, -ENOMEM, "rule \"%s\": out of memory", text);
}

/* A user, or a group: the kind is set. */
static int rule_user(const char *text, const char *name, bool may_ask, struct rule *out,
		     struct fm_err *err)
{
	int ret;

	if (!may_ask) {
		out->kind = RULE_NOBODY;
		return 0;
	}
	ret = rule_name(text, name, out, err);
	if (ret < 0)
		return ret;
	if (out->kind == RULE_USER)
		return rule_find(text, "user", find_user(name, &out->uid), err);
	return rule_find(text, "group", find_group(name, &out->gid), err);
}

static int rule_parse(const char *text, bool may_ask, struct rule *out, struct fm_err *err)
{
	const char *name;

	if (strcmp(text, "*") == 0) {
		out->kind = RULE_ANYBODY;
		return 0;
	}
	if (strcmp(text, "peer:*") == 0) {
		out->kind = RULE_ANY_PEER;
		return 0;
	}
	name = behind(text, "peer:");
	if (name) {
		out->kind = RULE_PEER;
		return rule_name(text, name, out, err);
	}
	name = behind(text, "user:");
	out->kind = name ? RULE_USER : RULE_GROUP;
	if (!name)
		name = behind(text, "group:");
	if (name)
		return rule_user(text, name, may_ask, out, err);
	return fm_err_set(err, -EINVAL,
			  "rule \"%s\": expected \"*\", \"peer:NAME\", \"peer:*\", \"user:NAME\" "
			  "or \"group:NAME\"",
			  text);
}

static int access_new(const char *const *rules, bool may_ask, struct fm_access **out,
		      struct fm_err *err)
{
	struct fm_access *access;
	size_t count = 0;
	int ret = 0;

	while (rules && rules[count])
		count++;
	if (count > FM_ACCESS_RULES_MAX)
		return fm_err_set(err, -EINVAL, "%zu rules; at most %d are allowed (use groups)",
				  count, FM_ACCESS_RULES_MAX);
	access = fm_sys_alloc(sizeof(*access) + count * sizeof(access->rules[0]));
	if (!access)
		return fm_err_set(err, -ENOMEM, "allocate rules");
	for (; ret == 0 && access->count < count; access->count++) {
		ret = rule_parse(rules[access->count], may_ask, &access->rules[access->count],
				 err);
		access->has_groups |= access->rules[access->count].kind == RULE_GROUP;
	}
	if (ret < 0) {
		fm_access_free(access);
		return ret;
	}
	*out = access;
	return 0;
}

int fm_access_new(const char *const *rules, struct fm_access **out, struct fm_err *err)
{
	return access_new(rules, true, out, err);
}

int fm_access_new_at_once(const char *const *rules, struct fm_access **out, struct fm_err *err)
{
	return access_new(rules, false, out, err);
}

void fm_access_free(struct fm_access *access)
{
	if (!access)
		return;
	for (size_t i = 0; i < access->count; i++)
		free(access->rules[i].name);
	free(access);
}

/* ------------------------------------------------------------------------------------- matching */

static bool rule_has_peer(const struct rule *rule, const char *peer)
{
	return rule->kind == RULE_ANYBODY || rule->kind == RULE_ANY_PEER ||
	       (rule->kind == RULE_PEER && strcmp(rule->name, peer) == 0);
}

static bool rule_has_user(const struct rule *rule, const struct fm_who *who)
{
	return rule->kind == RULE_ANYBODY || (rule->kind == RULE_USER && rule->uid == who->uid) ||
	       (rule->kind == RULE_GROUP && rule->gid == who->gid);
}

static bool access_has_group(const struct fm_access *access, const gid_t *groups,
			     size_t groups_count)
{
	for (size_t i = 0; i < access->count; i++)
		for (size_t g = 0; access->rules[i].kind == RULE_GROUP && g < groups_count; g++)
			if (access->rules[i].gid == groups[g])
				return true;
	return false;
}

bool fm_access_allows(const struct fm_access *access, const struct fm_who *who)
{
	gid_t *groups;
	bool is_allowed;

	if (!who->peer && who->uid == 0)
		return true;
	for (size_t i = 0; i < access->count; i++)
		if (who->peer ? rule_has_peer(&access->rules[i], who->peer)
			      : rule_has_user(&access->rules[i], who))
			return true;
	if (who->peer || !access->has_groups)
		return false;
	groups = fm_sys_alloc(GROUPS_MAX * sizeof(*groups));
	if (!groups)
		return false;
	is_allowed = access_has_group(access, groups, find_groups_of(who->uid, who->gid, groups));
	free(groups);
	return is_allowed;
}

bool fm_access_asks_users(const struct fm_access *access)
{
	return access->has_groups;
}

bool fm_access_names_users(const char *const *rules)
{
	for (; rules && *rules; rules++)
		if (behind(*rules, "user:") || behind(*rules, "group:"))
			return true;
	return false;
}

const void *fm_access_may_await(const struct fm_store *store, const struct fm_who *who)
{
	if (who->peer || who->uid == 0 || !store->ops->asks_users)
		return NULL;
	return store->ops->asks_users((struct fm_store *)store) ? fm_access_user_database() : NULL;
}

int fm_access_check(const struct fm_access *access, const struct fm_who *who, const char *what,
		    struct fm_err *err)
{
	if (fm_access_allows(access, who))
		return 0;
	if (who->peer)
		return fm_err_rule(err,
				   "peer %s may not %s here; \"peer:%s\" in the store's %s list "
				   "would allow it",
				   who->peer, what, who->peer, what);
	return fm_err_rule(err,
			   "uid %u may not %s here; \"user:NAME\" or \"group:NAME\" in the store's "
			   "%s list would allow it",
			   (unsigned)who->uid, what, what);
}

/* ------------------------------------------------------------------------------------- telling */

void fm_access_users(const struct fm_access *access, fm_access_user *on, void *ctx)
{
	for (size_t i = 0; i < access->count; i++) {
		const struct rule *rule = &access->rules[i];

		if (rule->kind == RULE_ANYBODY)
			on(ctx, FM_ACCESS_ALL, 0, "");
		else if (rule->kind == RULE_USER)
			on(ctx, FM_ACCESS_USER, rule->uid, rule->name);
		else if (rule->kind == RULE_GROUP)
			on(ctx, FM_ACCESS_GROUP, rule->gid, rule->name);
	}
}

int fm_access_find_user(const char *name, uid_t *out)
{
	return find_user(name, out);
}

int fm_access_find_group(const char *name, gid_t *out)
{
	return find_group(name, out);
}
