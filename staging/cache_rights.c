/* SPDX-License-Identifier: MIT */
/*
 * cache_rights - who may read a dataset: the ACL of its directory, and nothing beside it, says so.
 *
 * There are two kinds of entries. Who staged it has one of his own, which says r-x: he may also
 * pin, see and remove it, and has a place of FM_CACHE_WHO_MAX. Whom the rules of its source's store
 * name has one that says rwx, of which the mask leaves r-x: so they are told apart, over a restart
 * too. Who is both has the first kind only, since he loses it only when somebody asks the rules
 * again, which gives him the second one.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/err.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

/* ---- the list ---- */

/*
 * What system.posix_acl_access holds: the version, then tag, permissions, ID of each entry. Linux
 * gives no header for it; acl(5) describes the entries.
 */
#define ACL_NAME      "system.posix_acl_access"
#define ACL_VERSION   2u
#define ACL_ENTRY_LEN 8u
#define ACL_MAX	      (4u + (5u + FM_CACHE_WHO_MAX + FM_CACHE_READERS_MAX) * ACL_ENTRY_LEN)
#define ACL_NO_ID     UINT32_MAX
#define MAY_ALL	      7u
#define MAY_READ      5u

enum acl_tag {
	ACL_OWNER = 1,
	ACL_USER = 2,
	ACL_GROUP_OWNER = 4,
	ACL_GROUP = 8,
	ACL_MASK = 16,
	ACL_OTHER = 32
};

/* Who may read it. */
struct list {
	uid_t users[FM_CACHE_WHO_MAX];	/* who staged it */
	size_t count;
	struct fm_cache_readers by_rule;
};

static void put_acl(struct fm_writer *w, enum acl_tag tag, unsigned may, uint32_t id)
{
	fm_put_le16(w, (uint16_t)tag);
	fm_put_le16(w, (uint16_t)may);
	fm_put_le32(w, id);
}

static bool has_user(const uid_t *users, size_t count, uid_t uid)
{
	for (size_t i = 0; i < count; i++)
		if (users[i] == uid)
			return true;
	return false;
}

/* In ascending order, each once, as the kernel wants them. */
static void put_users(struct fm_writer *w, const struct list *l)
{
	const struct fm_cache_readers *r = &l->by_rule;
	uint64_t after = 0; /* one more than the last one */

	for (;;) {
		uint64_t least = UINT64_MAX;

		for (size_t i = 0; i < l->count; i++)
			if (l->users[i] >= after && l->users[i] < least)
				least = l->users[i];
		for (size_t i = 0; i < r->user_count; i++)
			if (r->users[i] >= after && r->users[i] < least)
				least = r->users[i];
		if (least == UINT64_MAX)
			return;
		put_acl(w, ACL_USER,
			has_user(l->users, l->count, (uid_t)least) ? MAY_READ : MAY_ALL,
			(uint32_t)least);
		after = least + 1;
	}
}

static void put_groups(struct fm_writer *w, const struct fm_cache_readers *r)
{
	uint64_t after = 0;

	for (;;) {
		uint64_t least = UINT64_MAX;

		for (size_t i = 0; i < r->group_count; i++)
			if (r->groups[i] >= after && r->groups[i] < least)
				least = r->groups[i];
		if (least == UINT64_MAX)
			return;
		put_acl(w, ACL_GROUP, MAY_ALL, (uint32_t)least);
		after = least + 1;
	}
}

/* Where all may read, the directory's own group is not left out: its entry comes before theirs. */
static size_t make_acl(const struct list *l, uint8_t *out)
{
	struct fm_writer w = {.at = out, .end = out + ACL_MAX};
	unsigned others = l->by_rule.is_all ? MAY_READ : 0;

	_Static_assert(sizeof(uid_t) == 4 && sizeof(gid_t) == 4, "IDs of the kernel");
	fm_put_le32(&w, ACL_VERSION);
	put_acl(&w, ACL_OWNER, MAY_ALL, ACL_NO_ID);
	put_users(&w, l);
	put_acl(&w, ACL_GROUP_OWNER, others, ACL_NO_ID);
	put_groups(&w, &l->by_rule);
	put_acl(&w, ACL_MASK, MAY_READ, ACL_NO_ID);
	put_acl(&w, ACL_OTHER, others, ACL_NO_ID);
	assert(!w.failed);
	return (size_t)(w.at - out);
}

static bool is_nobody(const struct list *l)
{
	const struct fm_cache_readers *r = &l->by_rule;

	return l->count == 0 && !r->is_all && r->user_count == 0 && r->group_count == 0;
}

static int set_list(int dir, const struct list *l)
{
	uint8_t acl[ACL_MAX];
	int ret;

	if (!is_nobody(l))
		return fm_cache_sys_set_xattr(dir, ACL_NAME, acl, make_acl(l, acl));
	/* First nobody, so that the mode of the list that goes opens nothing. */
	ret = fm_cache_sys_chmod(dir, 0700);
	return ret == 0 ? fm_cache_sys_remove_xattr(dir, ACL_NAME) : ret;
}

/* What is not ours to have written, or too much, is left out. */
static void take_entry(struct list *l, unsigned tag, unsigned may, uint32_t id)
{
	struct fm_cache_readers *r = &l->by_rule;
	bool is_by_rule = may == MAY_ALL, has_room;

	has_room = r->user_count + r->group_count < FM_CACHE_READERS_MAX;
	if (tag == ACL_USER && !is_by_rule && l->count < FM_CACHE_WHO_MAX)
		l->users[l->count++] = id;
	else if (tag == ACL_USER && is_by_rule && has_room)
		r->users[r->user_count++] = id;
	else if (tag == ACL_GROUP && has_room)
		r->groups[r->group_count++] = id;
	else if (tag == ACL_OTHER)
		r->is_all = may & MAY_READ;
}

/* A directory without a list names nobody. */
static int read_list(int dir, struct list *l)
{
	uint8_t acl[ACL_MAX];
	int64_t len = fm_cache_sys_get_xattr(dir, ACL_NAME, acl, sizeof(acl));
	struct fm_reader r = {.at = acl, .end = acl + (len > 0 ? len : 0)};

	memset(l, 0, sizeof(*l));
	if (len < 0)
		return len == -ENODATA || len == -EOPNOTSUPP ? 0 : (int)len;
	(void)fm_get_le32(&r);
	while (fm_reader_left(&r) >= ACL_ENTRY_LEN) {
		unsigned tag = fm_get_le16(&r), may = fm_get_le16(&r);

		take_entry(l, tag, may, fm_get_le32(&r));
	}
	return 0;
}

static int open_entry(struct fm_cache *c, uint64_t id, struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&c->lock);
	ret = fm_cache_may_use(fm_cache_entry_of(c, id), err);
	pthread_mutex_unlock(&c->lock);
	if (ret < 0)
		return ret;
	ret = fm_cache_entry_open(c, id);
	return ret < 0 ? fm_err_sys(err, ret, "cache %.200s: open it", c->directory) : ret;
}

/* ---- one more, one less ---- */

/* The place of the first one who does not hold or pin it, is_any: nor another node for him. */
static size_t find_idle(const struct fm_cache_entry *e, const uid_t *users, size_t count,
			bool is_any)
{
	size_t i = 0;

	while (i < count && fm_cache_is_charged(e, users[i], is_any))
		i++;
	return i;
}

/* Takes one out of the list, who needs it least. -EBUSY: all who may go need it. */
static int drop_one(struct fm_cache *c, uint64_t id, bool is_of_node, uid_t *users, size_t *count)
{
	const struct fm_cache_entry *e;
	size_t i = 0;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e)
		i = find_idle(e, users, *count, true);
	if (e && i == *count && !is_of_node)
		i = find_idle(e, users, *count, false);
	pthread_mutex_unlock(&c->lock);
	if (i == *count)
		return -EBUSY;
	users[i] = users[--*count];
	return 0;
}

/*
 * A node may name any users. So those that one names get a new place while half of them are free,
 * and then nobody's who needs his; a user of this node gets also that of one who needs his for
 * another node only.
 */
static int add_user(struct fm_cache *c, uint64_t id, int dir, uid_t uid, bool is_of_node)
{
	size_t most = is_of_node ? FM_CACHE_WHO_MAX / 2 : FM_CACHE_WHO_MAX;
	struct list l;
	int ret = read_list(dir, &l);

	if (ret < 0 || has_user(l.users, l.count, uid))
		return ret;
	if (l.count >= most)
		ret = drop_one(c, id, is_of_node, l.users, &l.count);
	if (ret < 0)
		return ret;
	l.users[l.count++] = uid;
	return set_list(dir, &l);
}

/* How often a user was allowed, and once more. */
static unsigned count_allowed(struct fm_cache *c, uint64_t id, bool is_one_more)
{
	struct fm_cache_entry *e;
	unsigned count = 0;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e)
		count = e->allowed += is_one_more;
	pthread_mutex_unlock(&c->lock);
	return count;
}

static int cannot_add(const struct fm_cache *c, int ret, struct fm_err *err)
{
	if (ret == -EBUSY)
		return fm_err_full(err, "cache %.200s: all who may read it hold or pin it, and no "
				   "more than %d users can be named: end a job, or unpin it",
				   c->directory, FM_CACHE_WHO_MAX);
	return fm_err_sys(err, ret, "cache %.200s: say who may read it", c->directory);
}

/* Under `use`, so that of two who are allowed at once both are. */
int fm_cache_allow_user(struct fm_cache *c, uint64_t id, uid_t uid, bool is_of_node,
			struct fm_err *err)
{
	int ret, dir;

	pthread_mutex_lock(&c->use);
	ret = dir = open_entry(c, id, err);
	if (dir >= 0) {
		ret = add_user(c, id, dir, uid, is_of_node);
		(void)count_allowed(c, id, true);
		(void)close(dir); /* only its list was changed */
		if (ret < 0)
			(void)cannot_add(c, ret, err);
	}
	pthread_mutex_unlock(&c->use);
	return ret;
}

int fm_cache_allow_dir(int dir, uid_t uid)
{
	const struct list l = { .users = { uid }, .count = 1 };

	return set_list(dir, &l);
}

static int drop_users(int dir, const uid_t *refused, size_t count)
{
	struct list l;
	size_t had, kept = 0;
	int ret = read_list(dir, &l);

	had = l.count;
	for (size_t i = 0; ret == 0 && i < had; i++)
		if (!has_user(refused, count, l.users[i]))
			l.users[kept++] = l.users[i];
	l.count = kept;
	return ret == 0 && kept < had ? set_list(dir, &l) : ret;
}

/* 1: one was allowed while others were asked about, and perhaps he was one of them: once more. */
static int try_only(struct fm_cache *c, uint64_t id, int dir, bool (*may)(void *ctx, uid_t uid),
		    void *ctx)
{
	uid_t refused[FM_CACHE_WHO_MAX];
	unsigned allowed = count_allowed(c, id, false);
	struct list l;
	size_t count = 0;
	int ret = read_list(dir, &l);

	for (size_t i = 0; ret == 0 && i < l.count; i++)
		if (!may(ctx, l.users[i]))
			refused[count++] = l.users[i];
	if (count == 0)
		return ret;
	pthread_mutex_lock(&c->use);
	ret = count_allowed(c, id, false) == allowed ? drop_users(dir, refused, count) : 1;
	pthread_mutex_unlock(&c->use);
	return ret;
}

int fm_cache_allow_only(struct fm_cache *c, uint64_t id, bool (*may)(void *ctx, uid_t uid),
			void *ctx, struct fm_err *err)
{
	int ret, dir = open_entry(c, id, err);

	if (dir < 0)
		return dir;
	do
		ret = try_only(c, id, dir, may, ctx);
	while (ret == 1);
	(void)close(dir); /* only its list was changed */
	return ret < 0 ? fm_err_sys(err, ret, "cache %.200s: say who may read it", c->directory)
		       : 0;
}

/* ---- whom rules name ---- */

/*
 * A partial one is for those who wait for it; the rules are asked when it is READY. One that is
 * being evicted may stay, with the list that it has.
 */
static bool is_ready(struct fm_cache *c, uint64_t id, bool *is_evicting)
{
	const struct fm_cache_entry *e;
	bool is;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	is = e && e->place == FM_CACHE_IN_READY;
	*is_evicting = e && e->state == FM_CACHE_EVICTING;
	pthread_mutex_unlock(&c->lock);
	return is;
}

/* What fails at each request is told once, and again when it did not fail meanwhile. */
static int told(struct fm_cache *c, uint64_t id, int ret)
{
	struct fm_cache_entry *e;
	bool is_again;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	is_again = e && e->is_list_refused && ret < 0;
	if (e)
		e->is_list_refused = ret < 0;
	pthread_mutex_unlock(&c->lock);
	return is_again ? 1 : ret;
}

/* Writes nothing if the list says it already: this is called at each request. */
static int change_list(int dir, struct list *l, const struct fm_cache_readers *readers)
{
	uint8_t before[ACL_MAX], after[ACL_MAX];
	size_t len = make_acl(l, before);

	l->by_rule = *readers;
	return make_acl(l, after) == len && memcmp(before, after, len) == 0 ? 0 : set_list(dir, l);
}

/* Where they cannot be named, nobody is who was named before: that list is the shorter one. */
static int name_readers(int dir, const struct fm_cache_readers *readers, bool *is_stale)
{
	static const struct fm_cache_readers nobody;
	struct list l;
	int ret = read_list(dir, &l);

	if (ret < 0)
		return ret;
	ret = change_list(dir, &l, readers);
	*is_stale = ret < 0 && (read_list(dir, &l) < 0 || change_list(dir, &l, &nobody) < 0);
	return ret;
}

int fm_cache_allow_readers(struct fm_cache *c, uint64_t id, const struct fm_cache_readers *readers,
			   bool *is_stale, struct fm_err *err)
{
	bool is_old;
	int ret, dir;

	assert(readers->user_count + readers->group_count <= FM_CACHE_READERS_MAX);
	if (!is_stale)
		is_stale = &is_old;
	if (!is_ready(c, id, is_stale))
		return 0;
	*is_stale = true;
	pthread_mutex_lock(&c->use);
	ret = dir = open_entry(c, id, err);
	if (dir == -ENOENT) {	/* somebody removed it by hand: there is nothing to read */
		*is_stale = false;
		ret = 0;
	} else if (dir < 0) {
		ret = told(c, id, dir);
	} else {
		ret = told(c, id, name_readers(dir, readers, is_stale));
		(void)close(dir); /* only its list was changed */
		if (ret < 0)
			(void)fm_err_sys(err, ret, "cache %.200s: name those in its list whom the "
					 "rules of its source let read", c->directory);
	}
	pthread_mutex_unlock(&c->use);
	return ret;
}

/* ---- who staged it ---- */

int fm_cache_is_user(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	struct list l;
	int ret, dir = open_entry(c, id, err);

	if (dir < 0)
		return dir;
	ret = read_list(dir, &l);
	(void)close(dir); /* only read */
	if (ret < 0)
		return fm_err_sys(err, ret, "cache %.200s: who may read it", c->directory);
	return has_user(l.users, l.count, uid);
}

int fm_cache_has_staged(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	int ret = fm_cache_is_user(c, id, uid, err);

	return ret < 0 ? ret : uid == 0 || ret;
}
