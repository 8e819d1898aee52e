/* SPDX-License-Identifier: MIT */
/*
 * cache_ready - a dataset that is all there becomes READY, and who may read it.
 *
 * In this order: what is in it is made read-only; all is synced; .dataset gets the version, .use
 * the request, both synced; the directory is renamed to `ready`; `ready` and `partial` are synced.
 * Nothing but the rename makes it READY, and it comes after the sync of all that it stands for. A
 * crash or power cut before it leaves a partial dataset with all its extents, which is READY as
 * soon as it is asked for; after it, a READY one, unless the disk did not have the rename yet: then
 * a partial one.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/err.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

/* ---- read-only ---- */

static int seal_file(void *ctx, int dir, const char *name, const struct stat *st)
{
	mode_t mode = st->st_mode & 0100 ? 0555 : 0444;
	int fd, ret;

	(void)ctx;
	/* Hard links of another version have it already: their inode is left alone. */
	if ((st->st_mode & 07777) == mode)
		return 0;
	fd = fm_cache_sys_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	ret = fm_cache_sys_chmod(fd, mode);
	(void)close(fd); /* what was written to it is synced later */
	return ret;
}

static int seal_dir(void *ctx, int fd)
{
	(void)ctx;
	return fm_cache_sys_chmod(fd, 0555);
}

static int seal(struct fm_cache_fetch *f)
{
	const struct fm_cache_visitor visitor = {.file = seal_file, .dir = seal_dir};
	struct stat st;
	int ret = fm_cache_sys_fstatat(f->dir, FM_CACHE_MANIFEST_NAME, &st);

	if (ret == 0 && !S_ISREG(st.st_mode))
		ret = -EINVAL;
	return ret == 0 ? fm_cache_walk(f->dir, f->e->set.name, &visitor) : ret;
}

/* ---- READY ---- */

/* Refuses a version that another dataset has already. Under the lock. */
static int check_version(struct fm_cache *c, const struct fm_cache_key *version, struct fm_err *err)
{
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (e->place == FM_CACHE_PARTIAL || e->is_going ||
		    memcmp(&e->set.version, version, sizeof(*version)) != 0)
			continue;
		if (e->state == FM_CACHE_EVICTING)
			return fm_cache_may_use(e, err);
		return fm_err_set(err, -EEXIST, "this version of %s is staged here already",
				  e->set.name);
	}
	return 0;
}

static int check_ready(struct fm_cache_fetch *f, const struct fm_cache_key *version,
		       struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&f->c->lock);
	if (f->missing > 0 || f->e->place != FM_CACHE_PARTIAL)
		ret = fm_err_set(err, -EINVAL, "%s is not all there: %u extents are missing",
				 f->e->set.name, f->missing);
	else
		ret = check_version(f->c, version, err);
	if (ret == 0) {
		f->e->set.version = *version;
		f->e->use.requested = fm_cache_now(f->c);
	}
	pthread_mutex_unlock(&f->c->lock);
	return ret;
}

/* Brings to the disk all that READY stands for, before the rename. */
static int prepare(struct fm_cache_fetch *f)
{
	int ret = seal(f);

	if (ret < 0)
		return ret;
	ret = fm_cache_sys_syncfs(f->dir);
	if (ret < 0) {
		f->is_broken = true;
		(void)unlinkat(f->dir, FM_CACHE_EXTENTS_NAME, 0); /* as in a save */
		return ret;
	}
	ret = fm_cache_dataset_write(f->dir, &f->e->set);
	return ret == 0 ? fm_cache_use_save(f->c, f->e->set.id, true) : ret;
}

static int sync_places(struct fm_cache *c)
{
	int ret = fm_cache_sys_fsync(c->dirs[FM_CACHE_IN_READY]);

	return ret == 0 ? fm_cache_sys_fsync(c->dirs[FM_CACHE_PARTIAL]) : ret;
}

/* If the disk does not say that it has the rename, it is undone: READY is for good. */
static int rename_ready(struct fm_cache_fetch *f)
{
	char partial[FM_CACHE_HEX_LEN + 1], ready[FM_CACHE_HEX_LEN + 1];
	int *dirs = f->c->dirs, ret;

	fm_cache_key_print(&f->e->set.listing, partial);
	fm_cache_key_print(&f->e->set.version, ready);
	ret = fm_cache_sys_rename(dirs[FM_CACHE_PARTIAL], partial, dirs[FM_CACHE_IN_READY], ready,
				  RENAME_NOREPLACE);
	if (ret < 0)
		return ret;
	ret = sync_places(f->c);
	if (ret < 0 && fm_call_renameat(dirs[FM_CACHE_IN_READY], ready, dirs[FM_CACHE_PARTIAL],
					partial, RENAME_NOREPLACE) == 0)
		return ret;
	pthread_mutex_lock(&f->c->lock);
	f->e->place = FM_CACHE_IN_READY;
	f->e->state = FM_CACHE_READY;
	f->e->extents_done = f->e->set.extents;
	pthread_mutex_unlock(&f->c->lock);
	return ret;
}

static int publish(struct fm_cache_fetch *f)
{
	int ret;

	pthread_mutex_lock(&f->c->places);
	ret = rename_ready(f);
	pthread_mutex_unlock(&f->c->places);
	return ret;
}

int fm_cache_fetch_ready(struct fm_cache_fetch *f, const struct fm_cache_key *version,
			 struct fm_err *err)
{
	int ret = fm_cache_fetch_begin(f, err);

	if (ret < 0)
		return ret;
	ret = check_ready(f, version, err);
	if (ret == 0) {
		ret = prepare(f);
		if (ret == 0)
			ret = publish(f);
		if (ret < 0)
			(void)fm_err_making(err, ret, f->c->root, "cache %.200s: make %s ready",
					    f->c->directory, f->e->set.name);
	}
	if (ret == 0) {
		/* Of no use any more; if they stay, they do no harm. */
		(void)unlinkat(f->dir, FM_CACHE_SCRATCH_NAME, 0);
		(void)unlinkat(f->dir, FM_CACHE_EXTENTS_NAME, 0);
	}
	fm_cache_fetch_end(f);
	return ret;
}

/* ---- who may read ---- */

/*
 * What system.posix_acl_access holds: the version, then tag, permissions, ID of each entry. Linux
 * gives no header for it; acl(5) describes the entries.
 */
#define ACL_NAME      "system.posix_acl_access"
#define ACL_VERSION   2u
#define ACL_ENTRY_LEN 8u
#define ACL_MAX	      (4u + (4u + FM_CACHE_WHO_MAX) * ACL_ENTRY_LEN)
#define ACL_NO_ID     UINT32_MAX
#define MAY_ALL	      7u
#define MAY_READ      5u

enum acl_tag {
	ACL_OWNER = 1,
	ACL_USER = 2,
	ACL_GROUP_OWNER = 4,
	ACL_MASK = 16,
	ACL_OTHER = 32
};

static void put_acl(struct fm_writer *w, enum acl_tag tag, unsigned may, uint32_t id)
{
	fm_put_le16(w, (uint16_t)tag);
	fm_put_le16(w, (uint16_t)may);
	fm_put_le32(w, id);
}

/* In ascending order, each once, as the kernel wants them. */
static void put_users(struct fm_writer *w, const uid_t *users, size_t count)
{
	uint64_t after = 0; /* one more than the last one */

	for (;;) {
		uint64_t least = UINT64_MAX;

		for (size_t i = 0; i < count; i++)
			if (users[i] >= after && users[i] < least)
				least = users[i];
		if (least == UINT64_MAX)
			return;
		put_acl(w, ACL_USER, MAY_READ, (uint32_t)least);
		after = least + 1;
	}
}

static size_t make_acl(const uid_t *users, size_t count, uint8_t *out)
{
	struct fm_writer w = {.at = out, .end = out + ACL_MAX};

	_Static_assert(sizeof(uid_t) == 4, "IDs of the kernel");
	fm_put_le32(&w, ACL_VERSION);
	put_acl(&w, ACL_OWNER, MAY_ALL, ACL_NO_ID);
	put_users(&w, users, count);
	put_acl(&w, ACL_GROUP_OWNER, 0, ACL_NO_ID);
	put_acl(&w, ACL_MASK, MAY_READ, ACL_NO_ID);
	put_acl(&w, ACL_OTHER, 0, ACL_NO_ID);
	assert(!w.failed);
	return (size_t)(w.at - out);
}

static int set_acl(int dir, const uid_t *users, size_t count)
{
	uint8_t acl[ACL_MAX];
	int ret;

	if (count > 0)
		return fm_cache_sys_set_xattr(dir, ACL_NAME, acl, make_acl(users, count, acl));
	/* First nobody, so that the mode of the list that goes opens nothing. */
	ret = fm_cache_sys_chmod(dir, 0700);
	return ret == 0 ? fm_cache_sys_remove_xattr(dir, ACL_NAME) : ret;
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

/* Those whom the list names one by one; a directory without a list names nobody. */
static int read_users(int dir, uid_t users[static FM_CACHE_WHO_MAX], size_t *count)
{
	uint8_t acl[ACL_MAX];
	int64_t len = fm_cache_sys_get_xattr(dir, ACL_NAME, acl, sizeof(acl));
	struct fm_reader r = {.at = acl, .end = acl + (len > 0 ? len : 0)};

	*count = 0;
	if (len < 0)
		return len == -ENODATA || len == -EOPNOTSUPP ? 0 : (int)len;
	(void)fm_get_le32(&r);
	while (fm_reader_left(&r) >= ACL_ENTRY_LEN && *count < FM_CACHE_WHO_MAX) {
		unsigned tag = fm_get_le16(&r);

		(void)fm_get_le16(&r);
		users[*count] = fm_get_le32(&r);
		*count += tag == ACL_USER;
	}
	return 0;
}

static bool has_user(const uid_t *users, size_t count, uid_t uid)
{
	for (size_t i = 0; i < count; i++)
		if (users[i] == uid)
			return true;
	return false;
}

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
	size_t count, most = is_of_node ? FM_CACHE_WHO_MAX / 2 : FM_CACHE_WHO_MAX;
	uid_t users[FM_CACHE_WHO_MAX];
	int ret = read_users(dir, users, &count);

	if (ret < 0 || has_user(users, count, uid))
		return ret;
	if (count >= most)
		ret = drop_one(c, id, is_of_node, users, &count);
	if (ret < 0)
		return ret;
	users[count++] = uid;
	return set_acl(dir, users, count);
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

static int drop_users(int dir, const uid_t *refused, size_t count)
{
	uid_t users[FM_CACHE_WHO_MAX], left[FM_CACHE_WHO_MAX];
	size_t had, kept = 0;
	int ret = read_users(dir, users, &had);

	for (size_t i = 0; ret == 0 && i < had; i++)
		if (!has_user(refused, count, users[i]))
			left[kept++] = users[i];
	return ret == 0 && kept < had ? set_acl(dir, left, kept) : ret;
}

/* 1: one was allowed while others were asked about, and perhaps he was one of them: once more. */
static int try_only(struct fm_cache *c, uint64_t id, int dir, bool (*may)(void *ctx, uid_t uid),
		    void *ctx)
{
	uid_t users[FM_CACHE_WHO_MAX], refused[FM_CACHE_WHO_MAX];
	unsigned allowed = count_allowed(c, id, false);
	size_t had, count = 0;
	int ret = read_users(dir, users, &had);

	for (size_t i = 0; ret == 0 && i < had; i++)
		if (!may(ctx, users[i]))
			refused[count++] = users[i];
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

int fm_cache_is_user(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	uid_t users[FM_CACHE_WHO_MAX];
	size_t count = 0;
	int ret, dir = open_entry(c, id, err);

	if (dir < 0)
		return dir;
	ret = read_users(dir, users, &count);
	(void)close(dir); /* only read */
	if (ret < 0)
		return fm_err_sys(err, ret, "cache %.200s: who may read it", c->directory);
	return has_user(users, count, uid);
}

int fm_cache_is_allowed(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	int ret = fm_cache_is_user(c, id, uid, err);

	return ret < 0 ? ret : uid == 0 || ret;
}
