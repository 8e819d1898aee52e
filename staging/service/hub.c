/* SPDX-License-Identifier: MIT */
/* hub - see hub.h. */
#include "staging/service/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/store/hub.h"
#include "staging/blob.h"
#include "staging/cache.h"
#include "staging/service/hub_dir.h"
#include "staging/service/hub_ref.h"
#include "staging/sha256.h"

#define HOME "hf"
#define HUB "hub"
#define SNAPSHOTS "snapshots"
#define COPIES ".copies" /* beside it: COMMIT.VERSION, other datasets that have the same */
#define SNAPSHOT_MAX (sizeof(SNAPSHOTS "/") + FM_HUB_COMMIT_LEN)
#define COPY_MAX (FM_HUB_COMMIT_LEN + 1 + FM_SHA256_HEX + 1)
#define READY "../../../../ready/"	/* from snapshots, blobs and trees */
#define FROM_ROOT (sizeof("../../../../") - 1) /* behind it a link says what is below the root */
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct fm_hub {
	struct fm_cache *cache;
	pthread_mutex_t lock;		/* of all that is in the hub's directory */
	int root;			/* the cache's directory */
	bool is_swept;			/* once since the start */
	char home[FM_PATH_LEN_MAX + 1];
};

/* ---- directories ---- */

static int make_repository(const struct fm_hub *h, const char *name)
{
	int fd = fm_hub_dir_make(h->root, HOME);

	if (fd >= 0)
		fd = fm_hub_dir_enter(fd, HUB);
	return fd < 0 ? fd : fm_hub_dir_enter(fd, name);
}

/* ---- what appears ---- */

static bool is_link_to(int dir, const char *name, const char *target)
{
	char now[FM_PATH_LEN_MAX + 1];
	ssize_t len = readlinkat(dir, name, now, sizeof(now));

	return len > 0 && (size_t)len == strlen(target) && memcmp(now, target, (size_t)len) == 0;
}

static int new_link(int repository, const char *target)
{
	fm_hub_dir_clear(repository);
	return FM_FAULT("hub.symlink") ? -ENOSPC
				       : fm_call_symlinkat(target, repository, FM_HUB_NEW);
}

static int make_link(int repository, const char *in, const char *name, const char *target)
{
	int dir = fm_hub_dir_make(repository, in), ret = 0;

	if (dir < 0)
		return dir;
	if (!is_link_to(dir, name, target)) {
		ret = new_link(repository, target);
		if (ret == 0)
			ret = fm_hub_dir_name(repository, dir, name);
	}
	(void)close(dir);	/* synced */
	return ret;
}

/* ---- blobs ---- */

struct blobs {
	int repository;
	int dir;		/* the repository's blobs */
	const char *from;	/* READY...: the repository in the dataset */
	bool is_new;		/* a name was made, and is not synced */
	int ret;
};

/*
 * Makes the link of a blob. A link that leads to that blob in another dataset stays: where the name
 * is a hash, both have the same bytes. Who follows a snapshot gets to its own dataset's.
 */
static void make_blob(int dir, const char *name, void *ctx)
{
	char target[FM_PATH_LEN_MAX + 1];
	struct blobs *b = ctx;
	struct stat st;
	int len;

	(void)dir;
	if (b->ret < 0 || fstatat(b->dir, name, &st, 0) == 0)
		return;
	len = snprintf(target, sizeof(target), "%s/blobs/%s", b->from, name);
	b->ret = len < 0 || (size_t)len >= sizeof(target) ? -ENAMETOOLONG
							  : new_link(b->repository, target);
	if (b->ret == 0)
		b->ret = fm_call_renameat(b->repository, FM_HUB_NEW, b->dir, name, 0);
	b->is_new |= b->ret == 0;
}

/*
 * Makes the blobs of the repository. A file of a snapshot links to ../../blobs/HASH. A program that
 * opens it gets to the dataset's blob, but huggingface_hub also makes the path by name, when it
 * lists or removes: that path is in the hub.
 */
static int make_blobs(const struct fm_hub *h, int repository, const char *from)
{
	struct blobs b = { .repository = repository, .dir = fm_hub_dir_make(repository, "blobs"),
			   .from = from };
	char path[FM_PATH_LEN_MAX + 1];
	int len = snprintf(path, sizeof(path), "%s/blobs", from + FROM_ROOT);

	if (b.dir < 0)
		return b.dir;
	if (len < 0 || (size_t)len >= sizeof(path))
		b.ret = -ENAMETOOLONG;
	else
		fm_hub_dir_each(h->root, path, make_blob, &b);
	if (b.ret == 0 && b.is_new)
		b.ret = fm_call(fsync(b.dir));
	(void)close(b.dir);	/* synced */
	return b.ret;
}

/* ---- a snapshot ---- */

/* Makes the link in/name to the same name in the dataset `from`, READY... */
static int make_same(int repository, const char *from, const char *in, const char *name)
{
	char target[FM_PATH_LEN_MAX + 1];
	int len = snprintf(target, sizeof(target), "%s/%s/%s", from, in, name);

	return len < 0 || (size_t)len >= sizeof(target) ? -ENAMETOOLONG
							: make_link(repository, in, name, target);
}

/* Makes a link to the list of what the snapshot should have. Not every dataset has one. */
static int make_list(const struct fm_hub *h, int repository, const char *from, const char *commit)
{
	char path[FM_PATH_LEN_MAX + 1], list[FM_HUB_COMMIT_LEN + 8];
	struct stat st;
	int len;

	(void)snprintf(list, sizeof(list), "%.*s.json", FM_HUB_COMMIT_LEN, commit);
	len = snprintf(path, sizeof(path), "%s/trees/%s", from + FROM_ROOT, list);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	return fstatat(h->root, path, &st, 0) == 0 ? make_same(repository, from, "trees", list)
						   : 0;
}

/* ---- the same commit, of several datasets ---- */

/* The version of the dataset that a link of a repository leads to. False: it is no link of ours. */
static bool version_of(int dir, const char *name, struct fm_cache_key *out)
{
	char target[FM_PATH_LEN_MAX + 1];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);
	const char *hex = target + sizeof(READY) - 1;

	if (len < (ssize_t)(sizeof(READY) - 1 + FM_SHA256_HEX) ||
	    memcmp(target, READY, sizeof(READY) - 1) != 0)
		return false;
	for (size_t i = 0; i < sizeof(out->bytes); i++) {
		unsigned byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return false;
		out->bytes[i] = (uint8_t)byte;
	}
	return true;
}

static int open_dataset(const struct fm_hub *h, const struct fm_cache_info *info)
{
	char version[FM_SHA256_HEX + 1], path[FM_PATH_LEN_MAX + 1];
	int len;

	fm_sha256_hex(info->version.bytes, version);
	len = snprintf(path, sizeof(path), "%s%s/%s", READY + FROM_ROOT, version, info->name);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	return fm_call_open_below(h->root, path, DIR_FLAGS, 0, 0);
}

/* Whether two datasets have one commit of a repository, with the same names of blobs. */
static bool is_same(const struct fm_hub *h, const struct fm_cache_info *info,
		    const struct fm_cache_info *other, const struct fm_hub_name *name)
{
	int fd = open_dataset(h, info), other_fd = open_dataset(h, other);
	struct fm_hub_view *v = NULL, *w = NULL;
	struct fm_err err;
	bool is_it = fd >= 0 && other_fd >= 0 &&
		     fm_hub_view(fd, name->dir, name->revision, &v, &err) == 0 &&
		     fm_hub_view(other_fd, name->dir, name->revision, &w, &err) == 0 &&
		     fm_hub_view_is_same(fd, v, other_fd, w);

	fm_hub_view_free(v);
	fm_hub_view_free(w);
	if (fd >= 0)
		(void)close(fd);	/* only read */
	if (other_fd >= 0)
		(void)close(other_fd);
	return is_it;
}

/*
 * Notes a further dataset that has what snapshots/COMMIT leads to, for the day when that one goes:
 * it is READY, so it may be held.
 */
static int note_copy(int repository, const char *commit, const struct fm_cache_key *version,
		     const char *target)
{
	char name[COPY_MAX], hex[FM_SHA256_HEX + 1];

	fm_sha256_hex(version->bytes, hex);
	(void)snprintf(name, sizeof(name), "%.*s.%s", FM_HUB_COMMIT_LEN, commit, hex);
	return make_link(repository, COPIES, name, target);
}

/* Notes what the snapshot leads to now. */
static int note_shown(int repository, const char *commit)
{
	char path[SNAPSHOT_MAX], target[FM_PATH_LEN_MAX + 1];
	struct fm_cache_key version;
	ssize_t len;

	(void)snprintf(path, sizeof(path), SNAPSHOTS "/%.*s", FM_HUB_COMMIT_LEN, commit);
	len = readlinkat(repository, path, target, sizeof(target) - 1);
	if (len < 0 || !version_of(repository, path, &version))
		return -EINVAL;
	target[len] = '\0';
	return note_copy(repository, commit, &version, target);
}

static bool is_copy_of(const char *name, const char *commit)
{
	return strncmp(name, commit, FM_HUB_COMMIT_LEN) == 0 && name[FM_HUB_COMMIT_LEN] == '.';
}

static void forget_copy(int dir, const char *name, void *ctx)
{
	if (is_copy_of(name, ctx))
		(void)unlinkat(dir, name, 0);
}

/* What is shown: a revision of a READY dataset. */
struct show {
	const struct fm_cache_info *info;
	const struct fm_hub_source *source;	/* of it */
	const char *revision;
};

/* What is in it, or "", as the hub leads there: READY... */
static int target_of(const struct show *s, const char *in, const char *name,
		     char out[static FM_PATH_LEN_MAX + 1])
{
	char version[FM_SHA256_HEX + 1];
	int len;

	fm_sha256_hex(s->info->version.bytes, version);
	len = snprintf(out, FM_PATH_LEN_MAX + 1, READY "%s/%s/%s%s%s", version, s->info->name,
		       s->source->name.dir, in, name);
	return len < 0 || len > FM_PATH_LEN_MAX ? -ENAMETOOLONG : 0;
}

/*
 * The snapshot is about to be led to this dataset: the one that it leads to now is noted, if it has
 * the same. If not, those that are noted do not have it either.
 */
static int keep_copy(const struct fm_hub *h, int repository, const struct show *s)
{
	char path[SNAPSHOT_MAX], commit[FM_HUB_COMMIT_LEN + 1];
	struct fm_cache_key version;
	struct fm_cache_info info;

	(void)snprintf(commit, sizeof(commit), "%.*s", FM_HUB_COMMIT_LEN, s->source->name.revision);
	(void)snprintf(path, sizeof(path), SNAPSHOTS "/%s", commit);
	if (!version_of(repository, path, &version) ||
	    memcmp(&version, &s->info->version, sizeof(version)) == 0 ||
	    !fm_cache_look(h->cache, fm_cache_find_version(h->cache, &version), &info))
		return 0;
	if (!is_same(h, s->info, &info, &s->source->name)) {
		fm_hub_dir_each(repository, COPIES, forget_copy, commit);
		return 0;
	}
	return note_shown(repository, commit);
}

/* The names of the dataset appear, but for the ref. */
static int show_data(const struct fm_hub *h, int repository, const struct show *s)
{
	const char *commit = s->source->name.revision;
	char from[FM_PATH_LEN_MAX + 1];
	int ret = target_of(s, "", "", from);

	if (ret == 0)
		ret = keep_copy(h, repository, s);
	if (ret == 0)
		ret = make_blobs(h, repository, from);
	if (ret == 0)
		ret = make_list(h, repository, from, commit);
	return ret < 0 ? ret : make_same(repository, from, SNAPSHOTS, commit);
}

/* The names are there, of another dataset that has the same: they stay, and this one is noted. */
static int show_copy(int repository, const struct show *s)
{
	const char *commit = s->source->name.revision;
	char target[FM_PATH_LEN_MAX + 1];
	int ret = target_of(s, "/" SNAPSHOTS "/", commit, target);

	return ret < 0 ? ret : note_copy(repository, commit, &s->info->version, target);
}

/* ---- what another node may change ---- */

static bool is_of_store(const char *source, const struct fm_hub_source *of)
{
	struct fm_hub_source other;

	return fm_hub_source_parse(source, &other) == 0 && strcmp(other.node, of->node) == 0 &&
	       strcmp(other.store, of->store) == 0;
}

static bool is_own(const char *source, const void *ctx)
{
	return is_of_store(source, ctx);
}

static int refuse(const struct show *s, const char *whose, struct fm_err *err)
{
	return fm_err_set(err, -EEXIST,
			  "%s of %s is from %.300s there, and stays, since another node asks for "
			  "it: fmove unstage that one there, or stage it there",
			  s->revision, s->source->name.dir, whose);
}

/* Whether a commit is in the hub, but for links to a dataset that went just now. */
static bool is_shown(const struct fm_hub *h, int repository, const char *commit,
		     struct fm_cache_info *info)
{
	char path[SNAPSHOT_MAX];
	struct fm_cache_key version;
	struct stat st;

	*info = (struct fm_cache_info){ .source = "somebody's own" };
	(void)snprintf(path, sizeof(path), SNAPSHOTS "/%.*s", FM_HUB_COMMIT_LEN, commit);
	if (fstatat(repository, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return !version_of(repository, path, &version) ||
	       fm_cache_look(h->cache, fm_cache_find_version(h->cache, &version), info);
}

struct others {
	const struct fm_hub *h;
	const struct show *s;
	bool are_there;
};

static void find_other(int dir, const char *name, void *ctx)
{
	struct others *o = ctx;
	struct fm_cache_key version;
	struct fm_cache_info info;

	if (is_copy_of(name, o->s->source->name.revision) && version_of(dir, name, &version) &&
	    fm_cache_look(o->h->cache, fm_cache_find_version(o->h->cache, &version), &info))
		o->are_there |= !is_of_store(info.source, o->s->source);
}

/* Whether other stores' datasets have what the commit leads to now. */
static bool have_others(const struct fm_hub *h, int repository, const struct show *s)
{
	struct others o = { .h = h, .s = s };

	fm_hub_dir_each(repository, COPIES, find_other, &o);
	return o.are_there;
}

/*
 * Whether the commit may be led to this dataset. It may be there, of another store: is_there, if
 * that is the same.
 */
static int check_snapshot(const struct fm_hub *h, int repository, const struct show *s,
			  bool *is_there, struct fm_err *err)
{
	struct fm_cache_info now;

	*is_there = false;
	if (!is_shown(h, repository, s->source->name.revision, &now) ||
	    (is_of_store(now.source, s->source) && !have_others(h, repository, s) &&
	     !fm_hub_ref_is_others(repository, s->source->name.revision, is_own, s->source)))
		return 0;
	*is_there = now.id && is_same(h, s->info, &now, &s->source->name);
	return *is_there ? 0 : refuse(s, now.source, err);
}

/*
 * Whether the ref may be led to this commit. Whose it is does not depend on what its commit leads
 * to: two may have the same.
 */
static int check_ref(const struct fm_hub *h, int repository, const struct show *s,
		     struct fm_err *err)
{
	char now[FM_HUB_COMMIT_LEN + 1], whose[FM_CACHE_SOURCE_MAX + 1];
	const char *commit = s->source->name.revision;
	struct fm_cache_info info;

	if (strcmp(s->revision, commit) == 0)
		return 0;
	if (fm_hub_ref_look(repository, s->revision, now, whose, sizeof(whose)) &&
	    strcmp(now, commit) != 0 && is_shown(h, repository, now, &info) &&
	    !is_of_store(whose, s->source))
		return refuse(s, whose[0] ? whose : "somebody's own", err);
	return fm_hub_ref_check(repository, s->revision, commit, err);
}

static int show_in(const struct fm_hub *h, int repository, const struct show *s,
		   bool is_for_another, struct fm_err *err)
{
	const char *commit = s->source->name.revision;
	bool is_there = false;
	int ret = 0;

	if (is_for_another)
		ret = check_snapshot(h, repository, s, &is_there, err);
	if (is_for_another && ret == 0)
		ret = check_ref(h, repository, s, err);
	if (ret < 0)
		return ret;
	ret = is_there ? show_copy(repository, s) : show_data(h, repository, s);
	if (ret == 0 && strcmp(s->revision, commit) != 0)
		ret = fm_hub_ref_make(repository, s->revision, commit, s->info->source,
				      is_for_another);
	return ret < 0 ? fm_err_sys(err, ret, "make %s of %s in %s/" HUB, s->revision,
				    s->source->name.dir, h->home)
		       : 0;
}

static int show(const struct fm_hub *h, const struct show *s, bool is_for_another,
		struct fm_err *err)
{
	const char *dir = s->source->name.dir;
	int repository = make_repository(h, dir), ret;

	if (repository < 0)
		return fm_err_sys(err, repository, "make %s in %s/" HUB, dir, h->home);
	ret = show_in(h, repository, s, is_for_another, err);
	(void)close(repository);	/* what was made in it is synced */
	return ret;
}

int fm_hub_show(struct fm_hub *h, uint64_t id, const char *revision, bool is_for_another,
		char *path, size_t max, struct fm_err *err)
{
	struct fm_hub_source source;
	struct fm_cache_info info;
	const struct show s = { .info = &info, .source = &source, .revision = revision };
	int len, ret;

	if (!fm_cache_look(h->cache, id, &info) || info.state != FM_CACHE_READY)
		return fm_err_set(err, -ENOENT, "it was removed meanwhile; run it again");
	if (!fm_hub_is_revision(revision) || fm_hub_source_parse(info.source, &source) < 0)
		return fm_err_set(err, -EINVAL, "%.300s is no commit of a repository", info.source);
	/* huggingface_hub looks for a ref before it looks for a commit */
	if (!fm_hub_can_be(revision, source.name.revision))
		return fm_err_set(err, -EINVAL, "%.300s is not the commit %s", info.source,
				  revision);
	pthread_mutex_lock(&h->lock);
	ret = show(h, &s, is_for_another, err);
	pthread_mutex_unlock(&h->lock);
	if (ret < 0)
		return ret;
	len = snprintf(path, max, "%s/" HUB "/%s/snapshots/%s", h->home, source.name.dir,
		       source.name.revision);
	if (len < 0 || (size_t)len >= max)
		return fm_err_set(err, -ENAMETOOLONG, "its path is too long");
	return 0;
}

/* ---- what goes ---- */

/*
 * Whether a snapshot or blob leads to a dataset that is here. What is no link of ours is left
 * alone: it counts as here.
 */
static bool is_there(const struct fm_hub *h, int dir, const char *name)
{
	struct fm_cache_key version;

	return !version_of(dir, name, &version) ||
	       fm_cache_find_version(h->cache, &version) != 0;
}

/*
 * The repository, READY..., of the dataset that a snapshot leads to. False: it is no link of ours.
 */
static bool repository_of(int dir, const char *name, char out[static FM_PATH_LEN_MAX + 1])
{
	ssize_t len = readlinkat(dir, name, out, FM_PATH_LEN_MAX);
	char *end;

	out[len > 0 ? len : 0] = '\0';
	end = strstr(out, "/" SNAPSHOTS "/");
	if (!end || memcmp(out, READY, sizeof(READY) - 1) != 0)
		return false;
	*end = '\0';
	return true;
}

struct sweep {
	const struct fm_hub *h;
	int repository;
	bool is_less; /* a snapshot went, or another copy of one */
};

static void drop_copy(int dir, const char *name, void *ctx)
{
	struct sweep *s = ctx;

	if (is_there(s->h, dir, name))
		return;
	s->is_less = true;	/* names of blobs may lead to it */
	(void)unlinkat(dir, name, 0);
}

/* Whether a snapshot or copy leads to a dataset that somebody holds or pins: it does not go. */
static bool is_needed(const struct fm_hub *h, int dir, const char *name)
{
	struct fm_cache_key version;
	struct fm_cache_info info;

	return version_of(dir, name, &version) &&
	       fm_cache_look(h->cache, fm_cache_find_version(h->cache, &version), &info) &&
	       info.holds + info.pins > 0;
}

/* A copy that is noted, of those whose datasets are here: one that is needed, if there is one. */
struct copy {
	const struct fm_hub *h;
	const char *commit;
	char name[COPY_MAX];	/* "": there is none */
	bool is_needed;
};

static void find_copy(int dir, const char *name, void *ctx)
{
	struct copy *c = ctx;

	if (!is_copy_of(name, c->commit) || strlen(name) >= sizeof(c->name) || c->is_needed)
		return;
	strcpy(c->name, name);
	c->is_needed = is_needed(c->h, dir, name);
}

static int take_copy(const struct sweep *s, int copies, const char *copy, int snapshots,
		     const char *commit)
{
	char from[FM_PATH_LEN_MAX + 1];
	int ret = repository_of(copies, copy, from)
			  ? make_list(s->h, s->repository, from, commit)
			  : -EINVAL;

	if (ret == 0)
		ret = fm_call_renameat(copies, copy, snapshots, commit, 0);
	return ret < 0 ? ret : fm_call(fsync(snapshots));
}

/*
 * Leads a snapshot to another dataset that has the same: if its own is gone to any, else to one
 * that somebody needs, before its own goes. False: there is none. If it cannot be done now, the
 * next sweep tries it again.
 */
static bool lead_to_copy(const struct sweep *s, int snapshots, const char *commit, bool is_gone)
{
	struct copy c = { .h = s->h, .commit = commit };
	int copies, ret;

	fm_hub_dir_each(s->repository, COPIES, find_copy, &c);
	if (!c.name[0] || !(is_gone || c.is_needed))
		return false;
	copies = fm_hub_dir_open(s->repository, COPIES);
	ret = copies < 0 ? copies : is_gone ? 0 : note_shown(s->repository, commit);
	if (ret == 0)
		ret = take_copy(s, copies, c.name, snapshots, commit);
	if (copies >= 0)
		(void)close(copies);	/* a name that comes back leads to the same */
	if (ret < 0)
		fm_log_warn("%s/" HUB ": snapshots/%s cannot be led to another copy: %s",
			    s->h->home, commit, fm_err_name(ret));
	return true;
}

static void look_at_snapshot(int dir, const char *name, void *ctx)
{
	struct sweep *s = ctx;
	char list[FM_NAME_LEN_MAX + 8];

	if (!fm_hub_is_commit(name))
		return;
	if (is_there(s->h, dir, name)) {
		if (!is_needed(s->h, dir, name))
			(void)lead_to_copy(s, dir, name, false);
		return;
	}
	s->is_less = true;
	if (lead_to_copy(s, dir, name, true))
		return;
	fm_hub_ref_drop(s->repository, name);
	(void)snprintf(list, sizeof(list), "trees/%s.json", name);
	(void)unlinkat(s->repository, list, 0);
	if (unlinkat(dir, name, 0) < 0)
		fm_log_warn("%s/" HUB ": snapshots/%s of a dataset that is gone cannot be removed: "
			    "%s",
			    s->h->home, name, fm_err_name(errno));
}

static void drop_blob(int dir, const char *name, void *ctx)
{
	const struct sweep *s = ctx;

	if (!is_there(s->h, dir, name))
		(void)unlinkat(dir, name, 0);
}

/*
 * Makes the blobs of this snapshot again: one that was removed with another dataset may be in this
 * one too.
 */
static void make_blobs_again(int dir, const char *name, void *ctx)
{
	char from[FM_PATH_LEN_MAX + 1];
	const struct sweep *s = ctx;
	int ret;

	if (!repository_of(dir, name, from))
		return;
	ret = make_blobs(s->h, s->repository, from);
	if (ret < 0)
		fm_log_warn("%s/" HUB ": the blobs of snapshots/%s cannot be named: %s",
			    s->h->home, name, fm_err_name(ret));
}

/* Removes what leads to datasets that are gone. A repository without snapshots goes. */
static void sweep_repository(int hub, const char *name, void *ctx)
{
	static const char *const parts[] = { COPIES, "blobs", "trees", "refs", NULL };
	struct sweep s = { .h = ctx, .repository = fm_hub_dir_open(hub, name) };

	if (s.repository < 0)
		return;
	fm_hub_dir_each(s.repository, COPIES, drop_copy, &s);
	fm_hub_dir_each(s.repository, SNAPSHOTS, look_at_snapshot, &s);
	if (s.is_less || !s.h->is_swept) {
		fm_hub_dir_each(s.repository, "blobs", drop_blob, &s);
		fm_hub_dir_each(s.repository, SNAPSHOTS, make_blobs_again, &s);
	}
	if (unlinkat(s.repository, SNAPSHOTS, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		fm_hub_dir_clear(s.repository);
		for (const char *const *p = parts; *p; p++)
			(void)unlinkat(s.repository, *p, AT_REMOVEDIR);
		(void)unlinkat(hub, name, AT_REMOVEDIR);	/* unless there is more in it */
	}
	(void)close(s.repository);	/* only read */
}

void fm_hub_sweep(struct fm_hub *h)
{
	int home;

	pthread_mutex_lock(&h->lock);
	home = fm_hub_dir_open(h->root, HOME);
	if (home >= 0) {
		fm_hub_dir_each(home, HUB, sweep_repository, h);
		(void)close(home);	/* only read */
	}
	h->is_swept = true;
	pthread_mutex_unlock(&h->lock);
}

/* ---- sources ---- */

void fm_hub_source(const char *node, const char *store, const char *path, char *out, size_t size)
{
	(void)snprintf(out, size, FM_HUB_SOURCE "%s:%s/%s", node, store, path);
}

/* Takes a name that ends with the divider. */
static int take_name(const char **at, char divider, char out[static FM_WIRE_NAME_MAX + 1])
{
	const char *end = strchr(*at, divider);
	size_t len = end ? (size_t)(end - *at) : 0;

	if (!fm_wire_is_good_name(*at, len))
		return -EINVAL;
	(void)snprintf(out, FM_WIRE_NAME_MAX + 1, "%.*s", (int)len, *at);
	*at = end + 1;
	return 0;
}

int fm_hub_source_parse(const char *source, struct fm_hub_source *out)
{
	const char *at = source + strlen(FM_HUB_SOURCE);

	if (strncmp(source, FM_HUB_SOURCE, strlen(FM_HUB_SOURCE)) != 0 ||
	    take_name(&at, ':', out->node) < 0 || take_name(&at, '/', out->store) < 0 ||
	    fm_hub_path_parse(at, &out->name) < 0 || !fm_hub_is_commit(out->name.revision))
		return -EINVAL;
	return 0;
}

/* ---- what came ---- */

static int verify_blob(int data, const char *path, const atomic_bool *is_stopped,
		       _Atomic uint64_t *done, struct fm_err *err)
{
	int fd = fm_call_open_below(data, path, O_RDONLY, 0, 0), ret;

	if (fd < 0)
		return fm_err_sys(err, fd, "open %s", path);
	ret = fm_stage_blob_check(fd, strrchr(path, '/') + 1, is_stopped, done, err);
	(void)close(fd);	/* only read */
	return ret < 0 ? ret : 0;
}

int fm_hub_verify(int data, const char *path, const atomic_bool *is_stopped,
		  _Atomic uint64_t *done, struct fm_err *err)
{
	struct fm_hub_name name;
	struct fm_hub_view *v;
	const char *blob;
	size_t at = 0;
	int ret = fm_hub_path_parse(path, &name);

	if (ret < 0)
		return fm_err_set(err, ret, "it is no revision of a repository");
	ret = fm_hub_view(data, name.dir, name.revision, &v, err);
	if (ret < 0)
		return ret;
	while (ret == 0 && (blob = fm_hub_view_blob(v, &at)))
		ret = verify_blob(data, blob, is_stopped, done, err);
	fm_hub_view_free(v);
	return ret;
}

/* ---- the whole ---- */

int fm_hub_new(struct fm_cache *cache, const char *directory, struct fm_hub **out,
	       struct fm_err *err)
{
	struct fm_hub *h = FM_FAULT("hub.alloc") ? NULL : calloc(1, sizeof(*h));

	if (!h)
		return fm_err_sys(err, -ENOMEM, "open the hub");
	h->cache = cache;
	(void)snprintf(h->home, sizeof(h->home), "%s/" HOME, directory);
	h->root = fm_call(open(directory, DIR_FLAGS & ~O_NOFOLLOW));
	if (h->root < 0) {
		int ret = fm_err_sys(err, h->root, "directory %s", directory);

		free(h);
		return ret;
	}
	pthread_mutex_init(&h->lock, NULL);
	*out = h;
	return 0;
}

void fm_hub_free(struct fm_hub *h)
{
	if (!h)
		return;
	(void)close(h->root);	/* only read */
	pthread_mutex_destroy(&h->lock);
	free(h);
}

const char *fm_hub_home(const struct fm_hub *h)
{
	return h->home;
}
