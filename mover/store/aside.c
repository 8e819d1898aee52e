/* SPDX-License-Identifier: MIT */
/* aside - see aside.h. */
#include "mover/store/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/store/all_names.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/stash.h"
#include "mover/tree/staging.h"
#include "mover/tree/wanted.h"

#define PAGE_NS_MAX (10 * FM_NS_PER_S)
#define AWAIT_S_MAX 5			/* that the first look through the store is waited for */
#define KNOWN_NS_MIN FM_NS_PER_S
#define KNOWN_TIMES 60u
#define FOREIGN (-EMEDIUMTYPE)	/* no system call of ours says this */

struct entry {
	struct fm_list at;
	int64_t since_ns;		/* its ctime, since 1970 */
	dev_t dev;
	uint64_t known_until_ns;	/* what follows; 0: never looked at */
	uint64_t bytes;
	bool is_gone;
	/* it has the name, and is no stash: nobody but a person removes it */
	bool is_foreign;
	struct fm_share_held held;	/* a place */
	char path[];
};

#define PLACES "places for what is kept aside"

/* Where one is: its directory, open, and its name there. */
struct place {
	int dir;
	const char *name;
	int64_t since_ns;
	dev_t dev;
	bool is_foreign;
	uid_t owner;				/* of what it holds */
	char held[FM_STAGING_FINAL_MAX + 1];	/* the name that it had; "": not known */
};

static void entry_free(struct entry *e)
{
	fm_share_give_all(&e->held);
	fm_budget_free(e);
}

void fm_aside_init(struct fm_aside_index *index)
{
	static const struct fm_share_limits places = {.what = PLACES,
						      .total = FM_ASIDE_MAX,
						      .root = FM_ASIDE_ROOT,
						      .times = 7};
	static const struct fm_share_limits foreign = {
		.what = PLACES, .total = FM_ASIDE_FOREIGN_MAX, .times = 1};
	struct timespec now;
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&index->looked, &attr);
	pthread_condattr_destroy(&attr);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	index->opened_ns = fm_time_ns(&now);
	pthread_mutex_init(&index->lock, NULL);
	pthread_mutex_init(&index->removing, NULL);
	pthread_mutex_init(&index->looking, NULL);
	fm_list_init(&index->entries);
	fm_share_init(&index->places, &places);
	fm_share_init(&index->foreign, &foreign);
}

void fm_aside_free(struct fm_aside_index *index)
{
	struct fm_list *at;

	while ((at = fm_list_pop(&index->entries)))
		entry_free(fm_container_of(at, struct entry, at));
	pthread_mutex_destroy(&index->lock);
	pthread_mutex_destroy(&index->removing);
	pthread_mutex_destroy(&index->looking);
	pthread_cond_destroy(&index->looked);
}

/* ---- one of them ---- */

/* Who owns what the stash holds. If it is gone by now, the service's own user. */
static uid_t owner_of(const struct place *p)
{
	int stash = openat(p->dir, p->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uid_t owner = geteuid();
	struct stat st;

	if (stash >= 0 && fm_sys_fstatat(stash, p->held, &st) == 0)
		owner = st.st_uid;
	if (stash >= 0)
		close(stash);
	return owner;
}

/*
 * Looks at a path and opens the directory that it is in, which the caller closes. Of an error,
 * is_no_more() tells whether the stash is gone.
 */
static int place_of(const struct fm_store_dir *dir, const char *path, struct place *out)
{
	char parent[FM_PATH_LEN_MAX + 1];
	const char *slash = strrchr(path, '/');
	struct stat st;
	int ret;

	(void)snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
		       slash ? path : ".");
	out->name = slash ? slash + 1 : path;
	out->dir = fm_sys_open_beneath(dir->root, parent, O_RDONLY | O_DIRECTORY);
	if (out->dir < 0)
		return out->dir;
	ret = fm_sys_fstatat(out->dir, out->name, &st);
	if (ret == 0 && (!S_ISDIR(st.st_mode) || fm_staging_kind(out->name) != FM_STAGING_OLD))
		ret = -ENOENT;
	if (ret == 0)
		ret = fm_stash_look(out->dir, out->name, out->held);
	if (ret >= 0) {
		out->is_foreign = ret == 0;
		out->owner = out->held[0] ? owner_of(out) : st.st_uid;
		out->dev = st.st_dev;
		out->since_ns = fm_time_ns(&st.st_ctim);
		return 0;
	}
	close(out->dir);
	return ret;
}

/* Whether an error means that the stash is gone, or that something else has its path by now. */
static bool is_no_more(int ret)
{
	return ret == -ENOENT || ret == -ENOTDIR || ret == -ELOOP || ret == -EXDEV ||
	       ret == -EAGAIN;
}

/*
 * The bytes that a name frees when it goes. A file that has another name elsewhere, for instance in
 * the version that replaced it, frees nothing. If all its names go, it frees all of it.
 */
static uint64_t bytes_of(const struct fm_walk_at *at, struct fm_all_names *met)
{
	struct stat st;

	if (at->is_leaving || fm_sys_fstatat(at->dir, at->name, &st) < 0 ||
	    (!at->is_dir && !fm_all_names_meet(met, &st)))
		return 0;
	return (uint64_t)st.st_blocks * 512;
}

/*
 * At least as much as removing the entry can give back to a quota, which counts names and holes, or
 * to a file system.
 */
static uint64_t most_of(const struct fm_walk_at *at, struct fm_all_names *met)
{
	uint64_t blocks;
	struct stat st;

	(void)met;
	if (at->is_leaving || fm_sys_fstatat(at->dir, at->name, &st) < 0)
		return 0;
	blocks = (uint64_t)st.st_blocks * 512;
	return S_ISREG(st.st_mode) && (uint64_t)st.st_size > blocks ? (uint64_t)st.st_size : blocks;
}

/*
 * Sums up the entries of a stash, as far as it can be read. met: the files of other stashes that
 * were counted before.
 */
static uint64_t sum_of(const struct place *p,
		       uint64_t (*count)(const struct fm_walk_at *at, struct fm_all_names *met),
		       struct fm_all_names *met)
{
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	struct fm_walk_at at;
	uint64_t bytes = 0;
	int fd, ret;

	if (!walk)
		return 0;
	fd = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fm_walk_start(walk, fd) == 0) {
		do {
			ret = fm_walk_next(walk, &at);
			bytes += ret > 0 ? count(&at, met) : 0;
		} while (ret > 0 || fm_walk_goes_on(walk, ret));
	}
	if (fd >= 0)
		fm_walk_end(walk);
	free(walk);
	return bytes;
}

/* The bytes that removing this stash alone would free. */
static uint64_t bytes_in(const struct place *p)
{
	struct fm_all_names met = { .count = 0 };
	uint64_t bytes = sum_of(p, bytes_of, &met);

	fm_all_names_free(&met);
	return bytes;
}

static void freed(void *ctx, int64_t bytes)
{
	fm_usage_sub(&((struct fm_store_dir *)ctx)->usage, bytes < 0 ? (uint64_t)-bytes : 0);
}

static int remove_at(struct fm_store_dir *dir, const struct place *p)
{
	const struct fm_tree_freed told = { .used = freed, .ctx = dir };

	return fm_stash_remove_unwanted(p->dir, p->name, &told);
}

/* ---- the index ---- */

static struct entry *find(const struct fm_aside_index *index, const char *path)
{
	fm_list_each(at, next, &index->entries) {
		struct entry *e = fm_container_of(at, struct entry, at);

		if (strcmp(e->path, path) == 0)
			return e;
	}
	return NULL;
}

static void forget(struct fm_aside_index *index, const char *path)
{
	struct entry *e;

	pthread_mutex_lock(&index->lock);
	e = find(index, path);
	if (e) {
		fm_list_del(&e->at);
		entry_free(e);
	}
	pthread_mutex_unlock(&index->lock);
}

/* Puts the entry before the first one that is younger. */
static void insert(struct fm_aside_index *index, struct entry *e)
{
	struct fm_list *before = &index->entries;

	fm_list_each(at, next, &index->entries) {
		const struct entry *other = fm_container_of(at, struct entry, at);

		if (other->since_ns > e->since_ns ||
		    (other->since_ns == e->since_ns && strcmp(other->path, e->path) > 0)) {
			before = at;
			break;
		}
	}
	fm_list_append(before, &e->at);
}

/* Makes an entry. NULL: its owner has no place left, or there is no memory. */
static struct entry *entry_new(struct fm_aside_index *index, const struct place *p,
			       const char *path)
{
	struct fm_share *share = p->is_foreign ? &index->foreign : &index->places;
	size_t len = strlen(path) + 1;
	struct entry *e = fm_budget_alloc(sizeof(*e) + len);
	struct fm_err unsaid;

	if (!e)
		return NULL;
	e->held = (struct fm_share_held){ 0 };
	if (fm_share_take(share, fm_share_user(p->owner), 1, &e->held, &unsaid) < 0) {
		fm_budget_free(e);
		return NULL;
	}
	e->since_ns = p->since_ns;
	e->dev = p->dev;
	e->known_until_ns = e->bytes = 0;
	e->is_gone = false;
	e->is_foreign = p->is_foreign;
	memcpy(e->path, path, len);
	return e;
}

void fm_aside_add(struct fm_store_dir *dir, const char *path)
{
	struct fm_aside_index *index = &dir->aside;
	struct entry *e;
	struct place p;

	if (strlen(path) > FM_PATH_LEN_MAX || place_of(dir, path, &p) < 0)
		return;
	close(p.dir);
	pthread_mutex_lock(&index->lock);
	e = find(index, path) ? NULL : entry_new(index, &p, path);
	if (e)
		insert(index, e);
	pthread_mutex_unlock(&index->lock);
}

void fm_aside_looked(struct fm_store_dir *dir, bool is_complete)
{
	pthread_mutex_lock(&dir->aside.lock);
	dir->aside.is_looked = true;
	dir->aside.is_complete = dir->aside.is_complete || is_complete;
	pthread_cond_broadcast(&dir->aside.looked);
	pthread_mutex_unlock(&dir->aside.lock);
}

static bool is_set(struct fm_aside_index *index, const bool *what)
{
	bool is;

	pthread_mutex_lock(&index->lock);
	is = *what;
	pthread_mutex_unlock(&index->lock);
	return is;
}

/*
 * Waits until the daemon has looked through the store after its start, so that the first who asks
 * need not ask twice. Not for long, since he has a worker meanwhile. Whether all is known then.
 */
static bool await_look(struct fm_aside_index *index)
{
	struct timespec end;
	int ret = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += AWAIT_S_MAX;
	while (!is_set(index, &index->is_looked) && ret == 0 && !FM_FAULT("aside.await")) {
		pthread_mutex_lock(&index->lock);
		if (!index->is_looked)
			ret = pthread_cond_timedwait(&index->looked, &index->lock, &end);
		pthread_mutex_unlock(&index->lock);
	}
	return is_set(index, &index->is_complete);
}

/*
 * Finds the path of the first entry behind `after` ("" is before all), on the file system *dev or
 * on any (NULL). Behind an entry that was removed nothing is found.
 */
static bool next_path(struct fm_aside_index *index, const char *after, const dev_t *dev,
		      char out[static FM_PATH_LEN_MAX + 1])
{
	bool is_behind = after[0] == '\0', is_found = false;

	pthread_mutex_lock(&index->lock);
	fm_list_each(at, next, &index->entries) {
		const struct entry *e = fm_container_of(at, struct entry, at);

		if (is_behind && (!dev || e->dev == *dev)) {
			(void)snprintf(out, FM_PATH_LEN_MAX + 1, "%s", e->path);
			is_found = true;
			break;
		}
		is_behind |= strcmp(e->path, after) == 0;
	}
	pthread_mutex_unlock(&index->lock);
	return is_found;
}

/* ---- from outside ---- */

/* Tells the path of the stash, followed by the name that its content had, if it is known. */
static void tell_path(const struct place *p, const char *path, struct fm_aside *out)
{
	bool is_told = p->held[0] && strlen(path) + 1 + strlen(p->held) <= FM_PATH_LEN_MAX;

	(void)snprintf(out->path, sizeof(out->path), "%s%s%s", path, is_told ? "/" : "",
		       is_told ? p->held : "");
}

/*
 * Cuts off the name that tell_path() added. What is beneath a replaced directory is never listed by
 * itself.
 */
static void untell_path(const char *told, char out[static FM_PATH_LEN_MAX + 1])
{
	char *last, *before;

	(void)snprintf(out, FM_PATH_LEN_MAX + 1, "%s", told);
	last = strrchr(out, '/');
	if (!last)
		return;
	*last = '\0';
	before = strrchr(out, '/');
	if (fm_staging_kind(before ? before + 1 : out) == FM_STAGING_NONE)
		*last = '/';
}

/* Removes a stash and forgets it. 1: removed; 0: it was gone; FOREIGN: it is not ours. */
static int remove_path(struct fm_store_dir *dir, const char *path, struct fm_aside *out)
{
	struct place p;
	int ret = place_of(dir, path, &p);

	if (ret == 0 && p.is_foreign) {
		close(p.dir);
		return FOREIGN;
	}
	if (ret == 0) {
		out->bytes = bytes_in(&p);
		out->since_ns = p.since_ns;
		tell_path(&p, path, out);
		ret = remove_at(dir, &p);
		close(p.dir);
		ret = ret == 0 ? 1 : ret == -ENOENT || ret == -EAGAIN ? 0 : ret;
	} else if (is_no_more(ret)) {
		ret = 0;
	}
	if (ret >= 0)
		forget(&dir->aside, path);
	return ret;
}

bool fm_aside_reaches(struct fm_store_dir *dir, int fd, uint64_t bytes)
{
	char path[FM_PATH_LEN_MAX + 1] = "";
	uint64_t most = 0, one;
	struct place p;
	struct stat st;

	if (fd >= 0 && fm_sys_fstat(fd, &st) < 0)
		return false;
	while (most < bytes && next_path(&dir->aside, path, fd >= 0 ? &st.st_dev : NULL, path)) {
		if (place_of(dir, path, &p) < 0)
			continue;
		one = p.is_foreign ? 0 : sum_of(&p, most_of, NULL);
		most = one < UINT64_MAX - most ? most + one : UINT64_MAX;
		close(p.dir);
	}
	return most >= bytes;
}

int fm_aside_drop_oldest(struct fm_store_dir *dir, int fd)
{
	char path[FM_PATH_LEN_MAX + 1] = "";
	struct fm_aside gone;
	struct stat st;
	int ret = 0;

	if (fd >= 0 && fm_sys_fstat(fd, &st) < 0)
		return 0;
	pthread_mutex_lock(&dir->aside.removing);
	/* What cannot be removed now (somebody works on it, a disk that fails) is passed over. */
	while (ret <= 0 &&
	       next_path(&dir->aside, ret < 0 ? path : "", fd >= 0 ? &st.st_dev : NULL, path))
		ret = remove_path(dir, path, &gone);
	pthread_mutex_unlock(&dir->aside.removing);
	if (ret > 0)
		fm_log_info("store %s: removed %s to make room: %llu bytes that a replaced "
			    "directory still had",
			    dir->store.name, path, (unsigned long long)gone.bytes);
	return ret > 0;
}

/* Finds the first entry whose size is not known, or was found too long ago. */
static bool next_unknown(struct fm_aside_index *index, uint64_t now_ns,
			 char out[static FM_PATH_LEN_MAX + 1])
{
	bool is_found = false;

	pthread_mutex_lock(&index->lock);
	fm_list_each(at, next, &index->entries) {
		const struct entry *e = fm_container_of(at, struct entry, at);

		if (e->known_until_ns <= now_ns) {
			(void)snprintf(out, FM_PATH_LEN_MAX + 1, "%s", e->path);
			is_found = true;
			break;
		}
	}
	pthread_mutex_unlock(&index->lock);
	return is_found;
}

static uint64_t until(uint64_t began_ns)
{
	uint64_t now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);

	return now_ns + KNOWN_NS_MIN + KNOWN_TIMES * (now_ns - began_ns);
}

/*
 * Finds out again how much a stash holds. Anybody may ask, and it costs a walk, so the result
 * counts for longer the longer the walk took. met: files that other stashes have too; NULL: this
 * one is measured alone.
 */
static void look_again(struct fm_store_dir *dir, const char *path, struct fm_all_names *met)
{
	uint64_t began_ns = fm_clock_real.now_ns(fm_clock_real.ctx), bytes = 0;
	struct entry *e;
	struct place p;
	bool is_there = place_of(dir, path, &p) == 0;

	if (is_there) {
		bytes = met ? sum_of(&p, bytes_of, met) : bytes_in(&p);
		close(p.dir);
	}
	pthread_mutex_lock(&dir->aside.lock);
	e = find(&dir->aside, path);
	if (e) {
		e->bytes = bytes;
		e->is_gone = !is_there;		/* whoever removes forgets it */
		e->known_until_ns = until(began_ns);
	}
	pthread_mutex_unlock(&dir->aside.lock);
}

/*
 * Measures all stashes together: a file that several of them share is freed when all go, though not
 * when one goes. A stash that comes while this result is valid is measured alone, so that each
 * replacement costs one walk and not one of everything.
 */
static void look_at_all(struct fm_store_dir *dir)
{
	uint64_t began_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	char path[FM_PATH_LEN_MAX + 1] = "";
	struct fm_all_names met = { .count = 0 };

	while (next_path(&dir->aside, path, NULL, path))
		look_again(dir, path, &met);
	fm_all_names_free(&met);
	dir->aside.all_until_ns = until(began_ns);
	pthread_mutex_lock(&dir->aside.lock);
	fm_list_each(at, next, &dir->aside.entries) {
		struct entry *e = fm_container_of(at, struct entry, at);

		if (e->known_until_ns > 0)
			e->known_until_ns = dir->aside.all_until_ns;
	}
	pthread_mutex_unlock(&dir->aside.lock);
}

static bool add_up(struct fm_aside_index *index, uint64_t *bytes, uint32_t *count)
{
	bool is_known = true;

	*bytes = *count = 0;
	pthread_mutex_lock(&index->lock);
	fm_list_each(at, next, &index->entries) {
		const struct entry *e = fm_container_of(at, struct entry, at);

		*bytes += e->is_gone ? 0 : e->bytes;
		*count += !e->is_gone;
		is_known &= e->known_until_ns > 0;
	}
	pthread_mutex_unlock(&index->lock);
	return is_known;
}

bool fm_aside_sum(struct fm_store_dir *dir, uint64_t *bytes, uint32_t *count)
{
	uint64_t now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	char path[FM_PATH_LEN_MAX + 1];
	/* before: what is found meanwhile may be passed by */
	bool is_known = is_set(&dir->aside, &dir->aside.is_complete);

	if (pthread_mutex_trylock(&dir->aside.looking) == 0) {
		if (dir->aside.all_until_ns <= now_ns)
			look_at_all(dir);
		while (next_unknown(&dir->aside, now_ns, path))
			look_again(dir, path, NULL);
		pthread_mutex_unlock(&dir->aside.looking);
	}
	return add_up(&dir->aside, bytes, count) && is_known;
}

/* Tells what remove_path() would do, without doing it. */
static int look_at(struct fm_store_dir *dir, const char *path, struct fm_aside *out)
{
	struct place p;
	int wanted, ret = place_of(dir, path, &p);

	if (ret < 0)
		return is_no_more(ret) ? 0 : ret;
	if (p.is_foreign) {
		close(p.dir);
		return FOREIGN;
	}
	wanted = fm_stash_wanted(p.dir, p.name);
	out->bytes = wanted == FM_WANTED_NOTHING ? bytes_in(&p) : 0;
	out->since_ns = p.since_ns;
	tell_path(&p, path, out);
	close(p.dir);
	return wanted == FM_WANTED_NOTHING ? 1 : wanted < 0 ? wanted : -EBUSY;
}

int fm_aside_page(struct fm_store_dir *dir, const char *after, bool is_dry,
		  struct fm_space_page *out, struct fm_err *err)
{
	char path[FM_PATH_LEN_MAX + 1], behind[FM_PATH_LEN_MAX + 1];
	int ret, failed = 0;
	/* before: what is found meanwhile may be passed by */
	bool is_known = await_look(&dir->aside);
	uint64_t end_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + PAGE_NS_MAX;

	untell_path(is_dry ? after : "", behind);
	out->count = 0;
	out->is_more = false;
	pthread_mutex_lock(&dir->aside.removing);
	while (next_path(&dir->aside, behind, NULL, path)) {
		struct fm_aside *a = &out->aside[out->count];

		out->is_more = out->count == FM_SPACE_ASIDE_MAX ||
			       fm_clock_real.now_ns(fm_clock_real.ctx) > end_ns;
		if (out->is_more)
			break;
		ret = is_dry ? look_at(dir, path, a) : remove_path(dir, path, a);
		if (ret == FOREIGN)
			failed = fm_err_set(err, -EBUSY,
					    "\"%s\" stays: an earlier version of fmove put it "
					    "there, or somebody "
					    "gave it that name; look through it, and remove it by "
					    "hand",
					    path);
		else if (ret == -EBUSY)
			failed = fm_err_set(err, ret, "\"%s\" stays: " FM_STAGING_WANTED, path);
		else if (ret < 0)
			failed = fm_err_sys(err, ret, "remove \"%s\", which is kept aside", path);
		if (ret < 0 || is_dry)
			/* it is there still */
			(void)snprintf(behind, sizeof(behind), "%s", path);
		out->count += ret > 0;
	}
	pthread_mutex_unlock(&dir->aside.removing);
	if (failed == 0 && !out->is_more && !is_known)
		failed = fm_err_set(err, -EBUSY,
				    "not all of it was looked through since the daemon was "
				    "started, so more may be "
				    "kept aside; run it again, or look in the node's log for a "
				    "directory that cannot be read");
	/* what failed is said by the page that has nothing else to say */
	out->is_more = (out->is_more || failed < 0) && out->count > 0;
	return out->count > 0 ? 0 : failed;
}
