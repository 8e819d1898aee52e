/* SPDX-License-Identifier: MIT */
/*
 * cache_load - a cache's directory when a daemon starts: made, locked, and what is in it.
 *
 * Nothing is done for each file of a dataset, so that five million of them take no longer than one.
 * What is whole in `evicting` goes back first: whoever renamed it there had removed nothing yet.
 *
 * A directory of a dataset without its mark is not ours. It is left alone, whatever its name is. An
 * empty one is from between mkdir and mark, and goes. One with its mark and a damaged .dataset has
 * nobody who could know what it is: it goes, unless somebody has a file of it open.
 *
 * What the disk cannot read (EIO, EUCLEAN) of one dataset or hold costs that one, and not the
 * cache: it stays where it is, unused, since the next start may read it.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/plain.h"
#include "mover/journal/host.h"
#include "mover/tree/remove.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"
#include "staging/key.h"
#include "staging/manifest.h"

int fm_cache_no_file(const struct fm_cache *c, int code, struct fm_err *err)
{
	if (code != -ENOENT)
		return fm_err_making(err, code, c->root, "cache %.200s: make a file", c->directory);
	return fm_err_set(err, code,
			  "cache %.200s: its directory is not there any more: restart fmoved, "
			  "which makes it again",
			  c->directory);
}

static const char *const places[] = {"partial", "ready", "evicting", "gone", "holds", "afar"};

_Static_assert(sizeof(places) / sizeof(places[0]) == FM_CACHE_PLACES, "each place has a name");

#define MARK_MAX 32

/* ---- the directory ---- */

static int is_stranger(void *ctx, const char *name)
{
	(void)ctx;
	/* What mkfs leaves, what we lock, and a head that was being written when we were ended. */
	return strcmp(name, "lost+found") != 0 && strcmp(name, ".new." FM_CACHE_HEAD_NAME) != 0 &&
	       strcmp(name, FM_CACHE_LOCK_NAME) != 0;
}

static void warn_of_memory(const struct fm_cache *c)
{
	struct statfs fs;

	if (fstatfs(c->root, &fs) == 0 &&
	    (fs.f_type == TMPFS_MAGIC || (unsigned long)fs.f_type == RAMFS_MAGIC))
		fm_log_warn("cache %s lies in memory (tmpfs): what is staged takes memory that "
			    "training could have, and is gone when the machine starts anew; "
			    "staging.directory should be on a local disk",
			    c->directory);
}

static int open_root(struct fm_cache *c, struct fm_err *err)
{
	struct stat st;
	int ret;

	if (FM_FAULT("cache.mkdir") || (mkdir(c->directory, 0711) < 0 && errno != EEXIST))
		return fm_err_sys(err, errno ? -errno : -ENOSPC,
				  "make the directory, as root can (install -d -o %u -m 711 "
				  "%.200s)",
				  (unsigned)geteuid(), c->directory);
	c->root =
		FM_FAULT("cache.open")
			? -EMFILE
			: fm_call(open(c->directory, FM_CACHE_DIR_FLAGS | O_NOFOLLOW | O_CLOEXEC));
	if (c->root < 0)
		return fm_err_sys(err, c->root, "open the directory");
	ret = fm_cache_sys_fstat(c->root, &st);
	if (ret == 0 && !fm_cache_is_ours(&st))
		ret = fm_err_set(
			err, -EPERM,
			"it must belong to user %u, as this service does, and nobody else may "
			"write to it",
			(unsigned)geteuid());
	else if (ret < 0)
		(void)fm_err_sys(err, ret, "look at the directory");
	if (ret == 0)
		c->device = st.st_dev;
	return ret;
}

static bool is_missing(const struct fm_cache *c, const char *name)
{
	struct stat st;

	return fm_call_fstatat(c->root, name, &st) == -ENOENT;
}

/* Before anything is made in it: nothing is, if it is somebody's own. */
static int check_is_ours(struct fm_cache *c, struct fm_err *err)
{
	int ret = is_missing(c, FM_CACHE_HEAD_NAME) ? fm_cache_names(c->root, is_stranger, NULL)
						    : 0;

	if (ret == 1 && is_missing(c, FM_CACHE_HEAD_NAME))	/* nobody made it meanwhile */
		return fm_err_set(err, -EBADMSG,
				  "it is not empty, and no cache: name an empty directory");
	return ret < 0 ? fm_err_sys(err, ret, "look what is in it") : 0;
}

static int lock_file(int fd, struct fm_err *err)
{
	struct stat st;
	int ret = fm_cache_sys_fstat(fd, &st);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at " FM_CACHE_LOCK_NAME);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return fm_err_set(err, -EPERM,
				  FM_CACHE_LOCK_NAME " in it must be a file of user %u that nobody "
				  "else may open (mode 0600): remove what is there",
				  (unsigned)geteuid());
	ret = FM_FAULT("cache.flock") ? -ENOLCK : fm_call(flock(fd, LOCK_EX | LOCK_NB));
	if (ret == -EWOULDBLOCK)
		return fm_err_set(
			err, -EBUSY,
			"another daemon uses it: give each a staging.directory of its own");
	return ret < 0 ? fm_err_sys(err, ret, "lock the file " FM_CACHE_LOCK_NAME) : 0;
}

/*
 * On a local file system flock(2) does what it should, and the lock ends with us, however we end.
 * It is that of a file that nobody else can open: whoever may look at a directory can lock it, and
 * every user may look at this one. The file stays, also when we end. Returns its descriptor.
 */
static int open_lock(struct fm_cache *c, struct fm_err *err)
{
	int fd = fm_cache_sys_open(c->root, FM_CACHE_LOCK_NAME, O_RDWR | O_CREAT | O_NONBLOCK,
				   0600);
	int ret;

	if (fd < 0)
		return fm_err_sys(err, fd, "open the file " FM_CACHE_LOCK_NAME);
	ret = lock_file(fd, err);
	if (ret == 0)
		return fd;
	(void)close(fd);	/* nothing was written to it */
	return ret;
}

/*
 * Versions before that file locked the directory, and none of them is to start beside us. Of such a
 * lock nobody knows whose it is: it is not believed, and said.
 */
static int lock_root(struct fm_cache *c, struct fm_err *err)
{
	c->locked = open_lock(c, err);
	if (c->locked < 0)
		return c->locked;
	if (fm_call(flock(c->root, LOCK_EX | LOCK_NB)) == -EWOULDBLOCK)
		fm_log_warn("cache %s: somebody has the directory locked (\"fuser -v\" names him): "
			    "if it is a fmoved of an older version, it must not run beside this "
			    "one; else it does not matter",
			    c->directory);
	return 0;
}

static int write_head(struct fm_cache *c)
{
	uint8_t bytes[FM_CACHE_HEAD_LEN];

	return fm_cache_file_write(c->root, FM_CACHE_HEAD_NAME, bytes,
				   fm_cache_put_head(bytes, sizeof(bytes)), FM_CACHE_SYNC_ALL);
}

/*
 * Writes the head first, so that a directory that has anything else of a cache but the lock also
 * has its head.
 */
static int make_head(struct fm_cache *c, struct fm_err *err)
{
	int ret = write_head(c);

	return ret < 0 ? fm_err_sys(err, ret, "make a cache of it") : 0;
}

static int check_head(struct fm_cache *c, struct fm_err *err)
{
	uint8_t *bytes;
	size_t len;
	int ret = fm_cache_file_read(c->root, FM_CACHE_HEAD_NAME, FM_CACHE_HEAD_LEN, &bytes, &len);

	if (ret == -ENOENT)
		return make_head(c, err);
	if (ret == 0) {
		ret = fm_cache_get_head(bytes, len);
		fm_budget_free(bytes);
	}
	if (ret == -EBADMSG)
		return fm_err_set(err, ret,
				  "what is called \"head\" in it is not what a cache of this "
				  "version of fmove has there: name another directory");
	return ret < 0 ? fm_err_sys(err, ret, "read its head") : 0;
}

/* Opens a directory of the cache, and makes it if it is missing. Returns its descriptor. */
static int open_place(struct fm_cache *c, int place, struct fm_err *err)
{
	/* A path that somebody was told leads through `ready`. */
	int ret = fm_cache_sys_mkdir(c->root, places[place],
				     place == FM_CACHE_IN_READY ? 0711 : 0700), fd;
	struct stat st;

	if (ret < 0 && ret != -EEXIST)
		return fm_err_sys(err, ret, "make %s", places[place]);
	fd = fm_cache_sys_open(c->root, places[place], FM_CACHE_DIR_FLAGS, 0);
	if (fd < 0)
		return fm_err_sys(err, fd, "open %s", places[place]);
	ret = fm_cache_sys_fstat(fd, &st);
	if (ret < 0)
		(void)fm_err_sys(err, ret, "look at %s", places[place]);
	else if (!fm_cache_is_ours(&st))
		ret = fm_err_set(err, -EPERM,
				 "%s in it must belong to user %u, as this service does, and "
				 "nobody else may write to it",
				 places[place], (unsigned)geteuid());
	if (ret == 0)
		return fd;
	(void)close(fd); /* only looked at */
	return ret;
}

/* ---- made again ---- */

/* A lock without a name keeps nobody away. */
static int renew_lock(struct fm_cache *c, struct fm_err *err)
{
	int fd = open_lock(c, err);

	if (fd < 0)
		return fd;
	(void)close(c->locked);	/* nothing was written to it */
	c->locked = fd;
	return 0;
}

/*
 * Opens a place of the cache anew. The descriptor keeps its number, so threads that use it just now
 * need not know.
 */
static int renew_place(struct fm_cache *c, int place, struct fm_err *err)
{
	int fd = open_place(c, place, err), ret;

	if (fd < 0)
		return fd;
	ret = fm_call(dup3(fd, c->dirs[place], O_CLOEXEC));
	(void)close(fd); /* there is another one of it */
	return ret < 0 ? fm_err_sys(err, ret, "open %s", places[place]) : 0;
}

static int renew(struct fm_cache *c, struct fm_err *err)
{
	int ret = is_missing(c, FM_CACHE_LOCK_NAME) ? renew_lock(c, err) : 0;

	if (ret < 0)
		return ret;
	ret = is_missing(c, FM_CACHE_HEAD_NAME) ? write_head(c) : 0;
	if (ret < 0)
		(void)fm_err_sys(err, ret, "make its head again");
	for (int i = 0; i < FM_CACHE_PLACES && ret == 0; i++) {
		if (!is_missing(c, places[i]))
			continue;
		ret = renew_place(c, i, err);
		if (ret == 0)
			fm_log_warn("cache %s: %s is made again: somebody removed it", c->directory,
				    places[i]);
	}
	return ret;
}

int fm_cache_renew(struct fm_cache *c, struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&c->places);
	ret = renew(c, err);
	pthread_mutex_unlock(&c->places);
	/* Nothing can be made in a directory that has no name any more. */
	if (ret == -ENOENT)
		return fm_cache_no_file(c, ret, err);
	if (ret < 0)
		fm_err_wrap(err, "cache %.200s", c->directory);
	return ret;
}

/* ---- a dataset's directory ---- */

struct found {
	struct fm_cache *c;
	enum fm_cache_place place;
	const char *name;
	int fd;
	uint64_t ino;
	bool has_any;
	bool is_marked;
};

static int look_for_mark(void *ctx, const char *name)
{
	struct found *f = ctx;
	char mark[MARK_MAX];

	(void)snprintf(mark, sizeof(mark), FM_CACHE_MARK_FORM, f->ino);
	f->has_any = true;
	f->is_marked |= strcmp(name, mark) == 0;
	return 0;
}

/* A damaged file system has other errors than a damaged disk. */
static bool is_unreadable(int ret)
{
	return fm_cache_is_unreadable(ret) || ret == -EBADMSG;
}

static void say_damaged(const struct found *f, const char *what, const char *so)
{
	char shown[128];

	fm_log_warn("cache %s: %s/%s: %s; %s", f->c->directory, places[f->place],
		    fm_plain(f->name, strlen(f->name), shown, sizeof(shown)), what, so);
}

static void say_unreadable(const struct found *f, int ret)
{
	char what[128];

	f->c->has_unread = true;
	(void)snprintf(what, sizeof(what), "the disk cannot read it (%s)", fm_err_name(ret));
	say_damaged(f, what,
		    "it stays, unused: look at the disk, and restart fmoved, or remove it");
}

/* Away with it, unless it is used. */
static int give_up(const struct found *f)
{
	char gone[FM_CACHE_ENTRY_NAME_MAX];
	int ret = fm_cache_is_open(f->c->dirs[f->place], f->name);

	if (ret != 0) {
		say_damaged(f, "what it is cannot be read, and it is in use or cannot be looked at",
			    "it stays, unused");
		return 0;
	}
	(void)snprintf(gone, sizeof(gone), "%016" PRIx64, f->ino);
	say_damaged(f, "what it is cannot be read", "it counts as absent, and is removed");
	return fm_cache_sys_rename(f->c->dirs[f->place], f->name, f->c->dirs[FM_CACHE_GONE], gone,
				   RENAME_NOREPLACE);
}

static int read_state(const struct found *f, const char *name, uint8_t **bytes, size_t *len)
{
	return fm_cache_file_read(f->fd, name, FM_CACHE_FILE_MAX, bytes, len);
}

static bool read_totals(const struct found *f, struct fm_stage_totals *out)
{
	int fd = fm_call(openat(f->fd, FM_CACHE_MANIFEST_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
	struct fm_stage_reader *r;
	int ret = fd < 0 ? fd : fm_stage_reader_new(fd, &r);

	if (ret == 0) {
		*out = *fm_stage_reader_totals(r);
		fm_stage_reader_free(r);
	}
	if (fd >= 0)
		(void)close(fd); /* only read */
	return ret == 0;
}

/*
 * Caches have single files that came while a file and a directory of just that file were known by
 * one key. Such a file would be the answer for the directory, and never be found for itself: each
 * request would fetch it, and throw that away, as its version is here. So its key is set right.
 * Without its manifest, which says that it is a file, nothing changes.
 */
static void renew_listing(const struct found *f, struct fm_cache_dataset *set)
{
	struct fm_stage_totals totals;
	struct fm_cache_key key;
	struct stat st;

	if (fm_call_fstatat(f->fd, set->name, &st) < 0 || !S_ISREG(st.st_mode) ||
	    !read_totals(f, &totals) || !totals.is_file ||
	    fm_stage_key(set->source, totals.listing, false, &key) < 0 ||
	    memcmp(&key, &set->listing, sizeof(key)) != 0)
		return;
	if (fm_stage_key(set->source, totals.listing, true, &key) == 0)
		set->listing = key;
}

static int read_dataset(const struct found *f, struct fm_cache_dataset *set)
{
	const struct fm_cache_key *key =
		f->place == FM_CACHE_PARTIAL ? &set->listing : &set->version;
	char name[FM_CACHE_HEX_LEN + 1];
	uint8_t *bytes;
	size_t len;
	int ret = read_state(f, FM_CACHE_DATASET_NAME, &bytes, &len);

	if (ret < 0)
		return ret == -ENOENT ? -EBADMSG : ret;
	ret = fm_cache_get_dataset(bytes, len, set);
	fm_budget_free(bytes);
	if (ret < 0)
		return ret;
	fm_cache_key_print(key, name);
	if (strcmp(name, f->name) != 0 || fm_cache_entry_of(f->c, set->id)) {
		free(set->source);
		return -EBADMSG;
	}
	if (f->place != FM_CACHE_PARTIAL)
		renew_listing(f, set);
	return 0;
}

/* Without it, or with a damaged one, it counts as asked for just now: whoever did may be about to
 * read it. */
static int read_use(const struct found *f, struct fm_cache_entry *e)
{
	struct fm_cache_use use;
	uint8_t *bytes;
	size_t len;
	int ret = read_state(f, FM_CACHE_USE_NAME, &bytes, &len);

	if (ret == 0) {
		ret = fm_cache_get_use(bytes, len, &use);
		fm_budget_free(bytes);
	}
	if (ret == 0 && use.id == e->set.id) {
		e->use = use;
		if (!fm_journal_host_is_same(use.boot, f->c->boot))
			e->use.requested.boot_ns = e->use.used.boot_ns = e->use.verified.boot_ns =
				0;
		return 0;
	}
	e->use.requested = e->use.used = fm_cache_now(f->c);
	if (ret == 0 || ret == -EBADMSG)
		say_damaged(f, "who uses it cannot be read",
			    "it counts as asked for now, and as pinned by nobody");
	return ret == -EBADMSG || ret == -ENOENT ? 0 : ret;
}

static unsigned count_bits(const uint8_t *bits, unsigned extents)
{
	unsigned count = 0;

	for (unsigned i = 0; i < extents; i++)
		count += bits[i / 8] >> i % 8 & 1;
	return count;
}

/*
 * Reads how much of a partial dataset is there. A fetch that goes on reads the extents themselves
 * again.
 */
static int read_extents(const struct found *f, struct fm_cache_entry *e)
{
	uint8_t *bytes, *bits;
	size_t len;
	int ret = read_state(f, FM_CACHE_EXTENTS_NAME, &bytes, &len);

	if (ret == 0) {
		bits = fm_cache_alloc(fm_cache_bits_len(e->set.extents) + 1);
		ret = bits ? fm_cache_get_extents(bytes, len, e->set.id, e->set.extents, bits)
			   : -ENOMEM;
		if (ret == 0) {
			e->extents_done = count_bits(bits, e->set.extents);
			e->state = FM_CACHE_FETCHING;
		}
		fm_budget_free(bits);
		fm_budget_free(bytes);
	}
	if (ret == -EBADMSG)
		say_damaged(f, "which extents are there cannot be read", "all are fetched again");
	return ret == -EBADMSG || ret == -ENOENT ? 0 : ret;
}

/* One that could not be read at an earlier start had no place, and others may have all by now. */
static int leave_out(const struct found *f)
{
	char what[64];

	f->c->has_unread = true;
	(void)snprintf(what, sizeof(what), "more than %d are there", FM_CACHE_DATASETS_MAX);
	say_damaged(f, what, "it stays, unused: unstage another one, and restart fmoved");
	return 0;
}

static int take_entry(const struct found *f, struct fm_cache_dataset *set)
{
	bool has_place = f->c->count < FM_CACHE_DATASETS_MAX;
	struct fm_cache_entry *e = has_place ? fm_cache_entry_new(f->c, set) : NULL;
	int ret;

	if (!e) {
		free(set->source);
		return has_place ? -ENOMEM : leave_out(f);
	}
	e->ino = f->ino;
	e->place = f->place;
	ret = read_use(f, e);
	if (f->place == FM_CACHE_PARTIAL)
		e->use.used = fm_cache_now(f->c); /* what fetched it may have ended just now */
	if (ret == 0 && f->place == FM_CACHE_PARTIAL)
		ret = read_extents(f, e);
	if (ret < 0) {
		fm_cache_entry_free(f->c, e);
		return ret;
	}
	if (f->place != FM_CACHE_PARTIAL) {
		e->state = FM_CACHE_READY;
		e->extents_done = e->set.extents;
	}
	return 0;
}

static int look_into(struct found *f)
{
	struct fm_cache_dataset set;
	struct stat st;
	int ret = fm_cache_sys_fstat(f->fd, &st);

	f->ino = st.st_ino;
	if (ret == 0)
		ret = fm_cache_names(f->fd, look_for_mark, f);
	if (ret < 0)
		return ret;
	if (!f->has_any && fm_cache_is_ours(&st))
		return fm_cache_sys_unlink(f->c->dirs[f->place], f->name, AT_REMOVEDIR);
	if (!f->is_marked || st.st_uid != geteuid()) {
		say_damaged(f, "fmove did not make it", "it stays, unused");
		return 0;
	}
	ret = read_dataset(f, &set);
	if (ret == -EBADMSG)
		return give_up(f);
	return ret < 0 ? ret : take_entry(f, &set);
}

static int load_dataset(void *ctx, const char *name)
{
	struct found *f = ctx;
	struct found one = {.c = f->c, .place = f->place, .name = name};
	int ret;

	one.fd = fm_cache_sys_open(f->c->dirs[f->place], name, FM_CACHE_DIR_FLAGS, 0);
	if (one.fd == -ENOTDIR || one.fd == -ELOOP || one.fd == -EXDEV || one.fd == -EACCES) {
		say_damaged(&one, "fmove did not make it", "it stays, unused");
		return 0;
	}
	ret = one.fd < 0 ? one.fd : look_into(&one);
	if (one.fd >= 0)
		(void)close(one.fd); /* only read */
	if (!is_unreadable(ret))
		return ret;
	say_unreadable(&one, ret);
	return 0;
}

static int bring_back(void *ctx, const char *name)
{
	struct found *f = ctx;
	int ret = fm_cache_sys_rename(f->c->dirs[FM_CACHE_IN_EVICTING], name,
				      f->c->dirs[FM_CACHE_IN_READY], name, RENAME_NOREPLACE);

	if (ret == -EEXIST)
		say_damaged(f, "there is another one in ready", "it stays, unused");
	return ret == -EEXIST ? 0 : ret;
}

static int load_hold(void *ctx, const char *name)
{
	struct found *f = ctx;

	return fm_cache_hold_load(f->c, name);
}

/* What is READY has places first: what has none then is only to be fetched again. */
static int load_all(struct fm_cache *c)
{
	static const enum fm_cache_place order[] = {FM_CACHE_IN_READY, FM_CACHE_PARTIAL};
	struct found f = {.c = c, .place = FM_CACHE_IN_EVICTING, .name = ""};
	int ret = fm_cache_names(c->dirs[f.place], bring_back, &f);

	for (size_t i = 0; ret == 0 && i < sizeof(order) / sizeof(order[0]); i++) {
		f.place = order[i];
		ret = fm_cache_names(c->dirs[f.place], load_dataset, &f);
	}
	return ret == 0 ? fm_cache_names(c->dirs[FM_CACHE_HOLDS], load_hold, &f) : ret;
}

int fm_cache_load(struct fm_cache *c, struct fm_err *err)
{
	struct fm_journal_host host;
	int ret;

	c->root = c->locked = -1;
	for (int i = 0; i < FM_CACHE_PLACES; i++)
		c->dirs[i] = -1;
	ret = fm_journal_host_here(&host);
	if (ret < 0)
		return fm_err_sys(err, ret, "which boot this is");
	memcpy(c->boot, host.boot, sizeof(c->boot));
	ret = open_root(c, err);
	if (ret == 0)
		fm_cache_mount_note(c);
	if (ret == 0)
		ret = check_is_ours(c, err);
	if (ret == 0)
		ret = lock_root(c, err);
	if (ret == 0)
		warn_of_memory(c);
	if (ret == 0)
		ret = check_head(c, err);
	for (int i = 0; ret == 0 && i < FM_CACHE_PLACES; i++) {
		c->dirs[i] = open_place(c, i, err);
		ret = c->dirs[i] < 0 ? c->dirs[i] : 0;
	}
	if (ret == 0 && (ret = load_all(c)) < 0)
		(void)fm_err_sys(err, ret, "read what is in it");
	if (ret == 0)
		return 0;
	for (int i = 0; i < FM_CACHE_PLACES; i++)
		if (c->dirs[i] >= 0)
			(void)close(c->dirs[i]); /* only read */
	if (c->locked >= 0)
		(void)close(c->locked); /* nothing was written to it */
	if (c->root >= 0)
		(void)close(c->root);
	return ret;
}

/* ---- what goes ---- */

static void forget_gone(struct fm_cache *c, uint64_t ino)
{
	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (e->place == FM_CACHE_GONE && e->ino == ino && !e->is_busy)
			fm_cache_entry_free(c, e);
	}
	pthread_mutex_unlock(&c->lock);
}

/* 0: nothing of ours is called so. */
static uint64_t ino_of(const char *name)
{
	uint64_t ino = strtoull(name, NULL, 16);
	char canonical[FM_CACHE_ENTRY_NAME_MAX];

	(void)snprintf(canonical, sizeof(canonical), "%016" PRIx64, ino);
	return strcmp(canonical, name) == 0 ? ino : 0;
}

static int is_ours(void *ctx, const char *name)
{
	(void)ctx;
	return ino_of(name) != 0;
}

/* The name is the mark: what has another inode was put there by somebody else. */
static int remove_gone(void *ctx, const char *name)
{
	struct fm_cache *c = ctx;
	uint64_t ino = ino_of(name);
	int ret;

	if (ino == 0)
		return 0;
	ret = fm_tree_remove_known(c->dirs[FM_CACHE_GONE], name, ino, NULL);
	if (ret == 0)
		forget_gone(c, ino);
	else if (ret != -ESTALE)
		fm_log_warn("cache %s: gone/%s cannot be removed yet: %s", c->directory, name,
			    fm_err_name(ret));
	return 0;
}

/*
 * That they are in `gone`, and nowhere else, must be on the disk before the first file goes
 * (cache_evict.c). Who renamed them there may have been killed before that, or been told of an
 * error.
 */
static int sync_gone(struct fm_cache *c)
{
	static const enum fm_cache_place from[] = {FM_CACHE_GONE, FM_CACHE_IN_EVICTING,
						   FM_CACHE_IN_READY, FM_CACHE_PARTIAL};
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < sizeof(from) / sizeof(from[0]); i++)
		ret = fm_cache_sys_fsync(c->dirs[from[i]]);
	return ret;
}

/* What cannot be read, or synced, now is by the next upkeep. */
void fm_cache_clear_gone(struct fm_cache *c)
{
	if (fm_cache_names(c->dirs[FM_CACHE_GONE], is_ours, NULL) == 1 && sync_gone(c) == 0)
		(void)fm_cache_names(c->dirs[FM_CACHE_GONE], remove_gone, c);
}
