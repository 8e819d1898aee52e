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
#include "staging/cache_file.h"
#include "staging/sha256.h"

#define HOME "hf"
#define HUB "hub"
#define NEW ".new"			/* in a repository's directory: what gets its name next */
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

static int open_dir(int parent, const char *name)
{
	return fm_call(openat(parent, name, DIR_FLAGS));
}

/* Makes a directory, if it does not exist, that everybody may look into, whatever the umask is. */
static int make_dir(int parent, const char *name)
{
	int ret = FM_FAULT("hub.mkdir") ? -ENOSPC : fm_call_mkdirat(parent, name, 0755), fd;

	if (ret < 0 && ret != -EEXIST)
		return ret;
	fd = open_dir(parent, name);
	if (fd < 0 || ret == -EEXIST)
		return fd;
	ret = fm_call(fchmod(fd, 0755));
	if (ret == 0)
		ret = fm_call(fsync(parent));
	if (ret < 0)
		(void)close(fd);	/* only made */
	return ret < 0 ? ret : fd;
}

static int make_dir_and_close(int parent, const char *name)
{
	int fd = make_dir(parent, name);

	(void)close(parent);	/* what was made in it is synced */
	return fd;
}

static int make_repository(const struct fm_hub *h, const char *name)
{
	int fd = make_dir(h->root, HOME);

	if (fd >= 0)
		fd = make_dir_and_close(fd, HUB);
	return fd < 0 ? fd : make_dir_and_close(fd, name);
}

/* ---- what appears ---- */

/* Gives the entry NEW of the repository's directory its name, and syncs the name. */
static int give_name(int repository, int dir, const char *name)
{
	int ret = FM_FAULT("hub.rename") ? -EIO
					 : fm_call_renameat(repository, NEW, dir, name, 0);

	return ret < 0 ? ret : fm_call(fsync(dir));
}

static bool is_link_to(int dir, const char *name, const char *target)
{
	char now[FM_PATH_LEN_MAX + 1];
	ssize_t len = readlinkat(dir, name, now, sizeof(now));

	return len > 0 && (size_t)len == strlen(target) && memcmp(now, target, (size_t)len) == 0;
}

static int new_link(int repository, const char *target)
{
	(void)unlinkat(repository, NEW, 0);	/* a crash left it */
	return FM_FAULT("hub.symlink") ? -ENOSPC : fm_call_symlinkat(target, repository, NEW);
}

static int make_link(int repository, const char *in, const char *name, const char *target)
{
	int dir = make_dir(repository, in), ret = 0;

	if (dir < 0)
		return dir;
	if (!is_link_to(dir, name, target)) {
		ret = new_link(repository, target);
		if (ret == 0)
			ret = give_name(repository, dir, name);
	}
	(void)close(dir);	/* synced */
	return ret;
}

static int write_ref(int repository, int dir, const char *name, const char *commit)
{
	char now[FM_HUB_COMMIT_LEN + 1];
	int fd, ret;

	if (fm_hub_ref_read(dir, name, now) == 0 && strcmp(now, commit) == 0)
		return 0;
	(void)unlinkat(repository, NEW, 0);	/* a crash left it */
	fd = fm_call(openat(repository, NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
	if (fd < 0)
		return fd;
	ret = FM_FAULT("hub.ref") ? -ENOSPC : fm_call_write_all(fd, commit, strlen(commit), 0);
	if (ret == 0)
		ret = fm_call(fchmod(fd, 0644));
	if (ret == 0)
		ret = fm_call(fsync(fd));
	(void)close(fd);	/* synced */
	return ret < 0 ? ret : give_name(repository, dir, name);
}

/* Makes refs/REVISION. For "pr/1" it makes the directory pr too. */
static int make_ref(int repository, const char *revision, const char *commit)
{
	char part[FM_HUB_REVISION_MAX + 1];
	int dir = make_dir(repository, "refs"), ret;
	const char *slash;

	while (dir >= 0 && (slash = strchr(revision, '/'))) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - revision), revision);
		dir = make_dir_and_close(dir, part);
		revision = slash + 1;
	}
	if (dir < 0)
		return dir;
	ret = write_ref(repository, dir, revision, commit);
	(void)close(dir);	/* synced */
	return ret;
}

/* ---- directories, one name after the other ---- */

struct each {
	int dir;
	void (*fn)(int dir, const char *name, void *ctx);
	void *ctx;
};

static int call_each(void *ctx, const char *name)
{
	const struct each *e = ctx;

	e->fn(e->dir, name, e->ctx);
	return 0;
}

/* Calls fn for each entry of the directory. fn may remove the entry. */
static void for_each_in(int parent, const char *name,
			void (*fn)(int dir, const char *name, void *ctx), void *ctx)
{
	struct each e = { .dir = open_dir(parent, name), .fn = fn, .ctx = ctx };

	if (e.dir < 0)
		return;
	(void)fm_cache_names(e.dir, call_each, &e);	/* what stays is looked at the next time */
	(void)close(e.dir);	/* only read */
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
 * Makes the link of a blob. A link that leads to that blob in another dataset stays: both have the
 * same bytes.
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
		b->ret = fm_call_renameat(b->repository, NEW, b->dir, name, 0);
	b->is_new |= b->ret == 0;
}

/*
 * Makes the blobs of the repository. A file of a snapshot links to ../../blobs/HASH. A program that
 * opens it gets to the dataset's blob, but huggingface_hub also makes the path by name, when it
 * lists or removes: that path is in the hub.
 */
static int make_blobs(const struct fm_hub *h, int repository, const char *from)
{
	struct blobs b = { .repository = repository, .dir = make_dir(repository, "blobs"),
			   .from = from };
	char path[FM_PATH_LEN_MAX + 1];
	int len = snprintf(path, sizeof(path), "%s/blobs", from + FROM_ROOT);

	if (b.dir < 0)
		return b.dir;
	if (len < 0 || (size_t)len >= sizeof(path))
		b.ret = -ENAMETOOLONG;
	else
		for_each_in(h->root, path, make_blob, &b);
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

	(void)snprintf(list, sizeof(list), "%s.json", commit);
	len = snprintf(path, sizeof(path), "%s/trees/%s", from + FROM_ROOT, list);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	return fstatat(h->root, path, &st, 0) == 0 ? make_same(repository, from, "trees", list)
						   : 0;
}

static int show_in(const struct fm_hub *h, int repository, const char *data,
		   const struct fm_hub_name *name, const char *commit)
{
	char from[FM_PATH_LEN_MAX + 1];
	int ret;

	(void)snprintf(from, sizeof(from), READY "%s/%s", data, name->dir);
	ret = make_blobs(h, repository, from);
	if (ret == 0)
		ret = make_list(h, repository, from, commit);
	if (ret == 0)
		ret = make_same(repository, from, "snapshots", commit);
	if (ret == 0 && strcmp(name->revision, commit) != 0)
		ret = make_ref(repository, name->revision, commit);
	return ret;
}

int fm_hub_show(struct fm_hub *h, uint64_t id, const struct fm_hub_name *name, const char *commit,
		char *path, size_t max, struct fm_err *err)
{
	char version[FM_SHA256_HEX + 1], data[FM_SHA256_HEX + FM_CACHE_NAME_MAX + 2];
	struct fm_cache_info info;
	int repository, len, ret;

	if (!fm_cache_look(h->cache, id, &info) || info.state != FM_CACHE_READY)
		return fm_err_set(err, -ENOENT, "%s was removed meanwhile; run it again",
				  name->dir);
	fm_sha256_hex(info.version.bytes, version);
	(void)snprintf(data, sizeof(data), "%s/%s", version, info.name);
	pthread_mutex_lock(&h->lock);
	repository = make_repository(h, name->dir);
	ret = repository < 0 ? repository : show_in(h, repository, data, name, commit);
	if (repository >= 0)
		(void)close(repository);	/* what was made in it is synced */
	pthread_mutex_unlock(&h->lock);
	if (ret < 0)
		return fm_err_sys(err, ret, "make %s of %s in %s/" HUB, name->revision, name->dir,
				  h->home);
	len = snprintf(path, max, "%s/" HUB "/%s/snapshots/%s", h->home, name->dir, commit);
	if (len < 0 || (size_t)len >= max)
		return fm_err_set(err, -ENAMETOOLONG, "its path is too long");
	return 0;
}

/* ---- what goes ---- */

/* Removes a ref if it names the commit ctx, and its directory if that is empty then. */
static void drop_ref(int dir, const char *name, void *ctx)
{
	char commit[FM_HUB_COMMIT_LEN + 1];

	if (fm_hub_ref_read(dir, name, commit) == 0 && strcmp(commit, ctx) == 0) {
		(void)unlinkat(dir, name, 0);
		return;
	}
	for_each_in(dir, name, drop_ref, ctx);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/*
 * Whether a snapshot or blob leads to a dataset that is here. What is no link of ours is left
 * alone: it counts as here.
 */
static bool is_there(const struct fm_hub *h, int dir, const char *name)
{
	char target[FM_PATH_LEN_MAX + 1];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);
	const char *hex = target + sizeof(READY) - 1;
	struct fm_cache_key version;

	if (len < (ssize_t)(sizeof(READY) - 1 + FM_SHA256_HEX) ||
	    memcmp(target, READY, sizeof(READY) - 1) != 0)
		return true;
	for (size_t i = 0; i < sizeof(version.bytes); i++) {
		unsigned byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return true;
		version.bytes[i] = (uint8_t)byte;
	}
	return fm_cache_find_version(h->cache, &version) != 0;
}

struct sweep {
	const struct fm_hub *h;
	int repository;
	bool is_less; /* a snapshot went */
};

static void drop_snapshot(int dir, const char *name, void *ctx)
{
	struct sweep *s = ctx;
	char list[FM_NAME_LEN_MAX + 8], commit[FM_HUB_COMMIT_LEN + 1];

	if (!fm_hub_is_commit(name) || is_there(s->h, dir, name))
		return;
	s->is_less = true;
	strcpy(commit, name);
	for_each_in(s->repository, "refs", drop_ref, commit);
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
	char from[FM_PATH_LEN_MAX + 1], *end;
	const struct sweep *s = ctx;
	ssize_t len = readlinkat(dir, name, from, sizeof(from) - 1);
	int ret;

	from[len > 0 ? len : 0] = '\0';
	end = strstr(from, "/snapshots/");
	if (!end || memcmp(from, READY, sizeof(READY) - 1) != 0)
		return;
	*end = '\0';
	ret = make_blobs(s->h, s->repository, from);
	if (ret < 0)
		fm_log_warn("%s/" HUB ": the blobs of snapshots/%s cannot be named: %s",
			    s->h->home, name, fm_err_name(ret));
}

/* Removes what leads to datasets that are gone. A repository without snapshots goes. */
static void sweep_repository(int hub, const char *name, void *ctx)
{
	static const char *const parts[] = { "snapshots", "blobs", "trees", "refs", NULL };
	struct sweep s = { .h = ctx, .repository = open_dir(hub, name) };

	if (s.repository < 0)
		return;
	for_each_in(s.repository, "snapshots", drop_snapshot, &s);
	if (s.is_less || !s.h->is_swept) {
		for_each_in(s.repository, "blobs", drop_blob, &s);
		for_each_in(s.repository, "snapshots", make_blobs_again, &s);
	}
	if (unlinkat(s.repository, "snapshots", AT_REMOVEDIR) == 0 || errno == ENOENT) {
		(void)unlinkat(s.repository, NEW, 0);
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
	home = open_dir(h->root, HOME);
	if (home >= 0) {
		for_each_in(home, HUB, sweep_repository, h);
		(void)close(home);	/* only read */
	}
	h->is_swept = true;
	pthread_mutex_unlock(&h->lock);
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
