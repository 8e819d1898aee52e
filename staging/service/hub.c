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
#include <time.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/show.h"
#include "mover/store/hub.h"
#include "staging/blob.h"
#include "staging/cache.h"
#include "staging/service/hub_dir.h"
#include "staging/service/hub_mark.h"
#include "staging/service/hub_ref.h"
#include "staging/sha256.h"
#include "staging/walk.h"

#define HOME "hf"
#define HUB "hub"
#define SNAPSHOTS "snapshots"
#define TREES "trees"
#define SNAPSHOT_MAX (sizeof(SNAPSHOTS "/") + FM_HUB_COMMIT_LEN)
#define READY "../../../../ready/"	/* from snapshots, blobs and trees */
#define FROM_ROOT (sizeof("../../../../") - 1) /* behind it a link says what is below the root */
#define NS_PER_S INT64_C(1000000000)
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* One hub: that of all, or that of what came of one user's own cache. */
struct place {
	struct fm_cache *cache;
	int root;			/* the cache's directory */
	bool is_swept;			/* once since the start */
	bool is_own;			/* a user's: all names are of his cache */
	uid_t uid;			/* then */
	char name[sizeof(HOME "-") + 10];	/* of its directory in the cache's */
	char home[FM_PATH_LEN_MAX + 1];
};

struct fm_hub {
	struct place all;
	pthread_mutex_t lock;		/* of all that is in the directories of hubs */
	const char *directory;		/* the cache's */
};

static void own_place(const struct fm_hub *h, uid_t uid, struct place *out)
{
	*out = (struct place){ .cache = h->all.cache, .root = h->all.root,
			       .is_swept = h->all.is_swept, .is_own = true, .uid = uid };
	(void)snprintf(out->name, sizeof(out->name), HOME "-%u", (unsigned)uid);
	(void)snprintf(out->home, sizeof(out->home), "%.*s/%s",
		       (int)(sizeof(out->home) - sizeof(out->name) - 1), h->directory, out->name);
}

/* ---- what a name leads to ---- */

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

/* Whether a name leads to a dataset that is here. What is no link of ours does: it stays. */
static bool leads_to_one(const struct place *h, int dir, const char *name)
{
	struct fm_cache_key version;
	struct fm_cache_info info;

	return !version_of(dir, name, &version) ||
	       fm_cache_look(h->cache, fm_cache_find_version(h->cache, &version), &info);
}

/*
 * Whether a path below the cache's root leads to a file there. A link in what another node brought
 * is followed no further: out there may be a file system that does not answer.
 */
static bool is_file(const struct place *h, const char *path)
{
	int fd = fm_call_open_below(h->root, path, O_PATH, 0, 0);
	struct stat st;
	bool is = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

	if (fd >= 0)
		(void)close(fd);	/* O_PATH */
	return is;
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

/*
 * Whether a link was made for the dataset. One that went, and came again with the same CRCs, has
 * the same path, and may be of another source. A link's time is when its dataset was begun, or,
 * of older versions of fmove, when it was made itself; a dataset's own is later if it came again.
 * The clock may be put back at any time between: the times are as they were noted.
 */
static bool is_made_for(int dir, const char *name, const struct fm_cache_info *info)
{
	struct stat st;
	int64_t ns;

	/* nothing else says that it is another one's */
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT;
	ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
	/* not every file system has more than seconds */
	return ns >=
	       (st.st_mtim.tv_nsec ? info->begun_ns : info->begun_ns / NS_PER_S * NS_PER_S);
}

static int set_time(int repository, int64_t ns)
{
	const struct timespec at = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	return fm_call(utimensat(repository, FM_HUB_NEW, (const struct timespec[]){ at, at },
				 AT_SYMLINK_NOFOLLOW));
}

/* Makes a link to something in that dataset. */
static int make_link(int repository, const struct fm_cache_info *info, const char *in,
		     const char *name, const char *target)
{
	int dir = fm_hub_dir_make(repository, in), ret = 0;

	if (dir < 0)
		return dir;
	if (!is_link_to(dir, name, target) || !is_made_for(dir, name, info)) {
		ret = new_link(repository, target);
		if (ret == 0)
			ret = set_time(repository, info->begun_ns);
		if (ret == 0)
			ret = fm_hub_dir_name(repository, dir, name);
	}
	(void)close(dir);	/* synced */
	return ret;
}

/* ---- blobs ---- */

struct blobs {
	const struct place *h;
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
	if (b->ret < 0 || (fstatat(b->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			   leads_to_one(b->h, b->dir, name)))
		return;
	len = snprintf(target, sizeof(target), "%s/blobs/%s", b->from, name);
	if (len > 0 && (size_t)len < sizeof(target) && !is_file(b->h, target + FROM_ROOT))
		return;
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
static int make_blobs(const struct place *h, int repository, const char *from)
{
	struct blobs b = { .h = h, .repository = repository,
			   .dir = fm_hub_dir_make(repository, "blobs"), .from = from };
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

/* Makes the link in/name to the same name in the dataset, at `from`, READY... */
static int make_same(int repository, const struct fm_cache_info *info, const char *from,
		     const char *in, const char *name)
{
	char target[FM_PATH_LEN_MAX + 1];
	int len = snprintf(target, sizeof(target), "%s/%s/%s", from, in, name);

	return len < 0 || (size_t)len >= sizeof(target) ? -ENAMETOOLONG
							: make_link(repository, info, in, name,
								    target);
}

/*
 * Makes a link to the list of what the snapshot should have. Not every dataset has one: then there
 * is none, since another one's would be of another snapshot.
 */
static int make_list(const struct place *h, int repository, const struct fm_cache_info *info,
		     const char *from, const char *commit)
{
	char path[FM_PATH_LEN_MAX + 1], list[sizeof(TREES "/.json") + FM_HUB_COMMIT_LEN];
	int len;

	(void)snprintf(list, sizeof(list), TREES "/%.*s.json", FM_HUB_COMMIT_LEN, commit);
	len = snprintf(path, sizeof(path), "%s/%s", from + FROM_ROOT, list);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	if (is_file(h, path))
		return make_same(repository, info, from, TREES, list + sizeof(TREES));
	(void)unlinkat(repository, list, 0);
	return 0;
}

/* ---- whose the names are ---- */

/* What is to be shown. */
struct show {
	const struct fm_cache_info *info;
	const struct fm_hub_source *source;	/* of the dataset */
	const char *revision;
	const char *asked;		/* the source that a user here asked for; NULL: not here */
	uid_t uid;			/* who; 0: not here */
	char *note;			/* FM_HUB_NOTE_MAX; "": nothing is to be told */
};

static void mark_of(const struct fm_hub_source *source, char from[static FM_HUB_MARK_MAX + 1])
{
	(void)snprintf(from, FM_HUB_MARK_MAX + 1, "%.*s:%.*s", FM_WIRE_NAME_MAX, source->node,
		       FM_WIRE_NAME_MAX, source->store);
}

struct mark {
	char from[FM_HUB_MARK_MAX + 1];	/* of what is to be shown; "": not of what was asked for */
	char now[FM_HUB_MARK_MAX + 1];	/* the repository's; "": of several */
	bool is_asked;			/* a user here asked for what is from there */
	bool is_missing;		/* it has none, */
	bool is_new;			/* since it is not there itself */
};

/*
 * Whether this may be shown in the repository.
 *
 * All names of a repository are of one source, until a user of this node asks for another one
 * there. So nothing that another node brings, or shows, changes what a name of another source leads
 * to, or adds one to these: not its copy of the same commit, nor another commit under the same
 * branch, nor either of them when a dataset that was shown is gone. For another node a name is made
 * only
 *
 * - in a repository that is not there, or whose mark is the dataset's own source. A mark that is
 *   damaged, missing or of several is nobody's;
 * - of a dataset that this node has fetched from that source: it listed it there by itself, over a
 *   connection whose key is that node's, and compared blobs with their names (stage_ask.h);
 * - that the source, asked again by this node, says leads to that commit (keeper.c).
 *
 * All of it is done while h->lock is held, so of two sources at once the second one finds the mark
 * of the first. The mark is synced before there is a name, and goes after the repository: a crash
 * leaves a mark without names, which says nothing, or names with their mark. What leads to datasets
 * that are gone, or that are not what a name was made for, is swept first: it is nobody's.
 *
 * What a user here asks for is made, as it is what he asked for. If the mark is another source, it
 * is of several from then on. So it is if the bytes are of another source than he asked for, which
 * had the same: neither of these shall lead him elsewhere.
 */
static int claim(const struct show *s, const struct mark *m, struct fm_err *err)
{
	if (m->is_new || s->asked || (m->now[0] && strcmp(m->now, m->from) == 0))
		return 0;
	return fm_err_set(err, -EEXIST,
			  "its hub has %s from %.130s, and this is from %.130s: ask for it there, "
			  "or fmove unstage what it has, by the sources in its fmove datasets",
			  s->source->name.dir,
			  m->now[0] ? m->now : "several sources, or one that is not known",
			  m->from);
}

/*
 * Has the mark on the disk, before the first name of that source. What a user here asks for
 * confirms it: only such a mark says later which of the other nodes is asked first.
 */
static int write_mark(int home, const struct show *s, const struct mark *m, struct fm_err *err)
{
	const char *dir = s->source->name.dir;
	bool is_same = m->now[0] && strcmp(m->now, m->from) == 0;
	bool is_right = !m->is_new && !m->is_missing &&
			(!m->now[0] || (is_same && (m->is_asked || !s->asked)));
	const char *from = m->is_new || is_same ? m->from : "";
	int ret = is_right ? fm_hub_mark_sync(home)
			   : fm_hub_mark_write(home, dir, from, s->asked);

	return ret < 0 ? fm_err_sys(err, ret, "note the source of %s", dir) : 0;
}

/*
 * Tells a user here that what he asked for makes the repository one of several: his own request is
 * well, but others for the nodes fail from then on. It may be so only because the store that the
 * repository is from was away just now.
 */
static void note_several(const struct place *h, const struct show *s, const struct mark *m)
{
	char how[384], of[FM_HUB_MARK_MAX + 1];
	bool is_told = m->is_new ? !m->from[0] : m->now[0] && strcmp(m->now, m->from) != 0;

	if (!s->asked || !is_told)
		return;
	mark_of(s->source, of);
	if (m->is_new || strcmp(s->asked, s->info->source) != 0)
		(void)snprintf(how, sizeof(how), "the copy here, of the same files, is from %.130s",
			       of);
	else
		(void)snprintf(how, sizeof(how), "it was from %.130s, and this is from %.130s",
			       m->now, of);
	(void)snprintf(s->note, FM_HUB_NOTE_MAX,
		       "%.110s in the hub cache of this node is of several sources from now on: "
		       "%s; so fmove stage --nodes hf: fails for it here, and its next request "
		       "may find either; to end that, fmove unstage all that it has (fmove "
		       "datasets shows it), and stage it while the store that you want answers",
		       s->source->name.dir, how);
	fm_log_warn("%s/" HUB ": %s", h->home, s->note);
}

/* Whether the snapshot leads to another dataset that is here, and was made after this one. */
static bool has_newer(const struct place *h, int repository, const struct show *s)
{
	char path[SNAPSHOT_MAX];
	struct fm_cache_key version;
	struct fm_cache_info now;

	(void)snprintf(path, sizeof(path), SNAPSHOTS "/%.*s", FM_HUB_COMMIT_LEN,
		       s->source->name.revision);
	return version_of(repository, path, &version) &&
	       fm_cache_look(h->cache, fm_cache_find_version(h->cache, &version), &now) &&
	       now.id != s->info->id && now.begun_ns > s->info->begun_ns;
}

/* ---- what is shown ---- */

static int show_data(const struct place *h, int repository, const struct show *s)
{
	char version[FM_SHA256_HEX + 1], from[FM_PATH_LEN_MAX + 1];
	const char *commit = s->source->name.revision;
	int len, ret;

	fm_sha256_hex(s->info->version.bytes, version);
	len = snprintf(from, sizeof(from), READY "%s/%s/%s", version, s->info->name,
		       s->source->name.dir);
	if (len < 0 || (size_t)len >= sizeof(from))
		return -ENAMETOOLONG;
	ret = make_blobs(h, repository, from);
	if (ret == 0)
		ret = make_list(h, repository, s->info, from, commit);
	return ret == 0 ? make_same(repository, s->info, from, SNAPSHOTS, commit) : ret;
}

static struct fm_hub_ref ref_of(const struct place *h, const struct show *s)
{
	return (struct fm_hub_ref){ .revision = s->revision, .commit = s->source->name.revision,
				    .whom = h->is_own  ? FM_HUB_REF_FOR_OWN
					    : s->asked ? FM_HUB_REF_FOR_USER
						       : FM_HUB_REF_FOR_ANOTHER,
				    .uid = s->uid };
}

/* repository: negative if there is none yet. */
static int check_in(const struct place *h, int repository, const struct show *s,
		    struct fm_err *err)
{
	const struct fm_hub_ref ref = ref_of(h, s);
	const char *commit = ref.commit;

	if (!s->asked && has_newer(h, repository, s))
		return fm_err_set(err, -ESTALE, "there is a newer copy of %s; run it again",
				  commit);
	if (strcmp(s->revision, commit) == 0)
		return 0;
	return fm_hub_ref_check(repository, &ref, err);
}

static int make_ref(const struct place *h, int repository, const struct show *s)
{
	const struct fm_hub_ref ref = ref_of(h, s);
	unsigned gone;
	int ret = fm_hub_ref_make(repository, &ref, &gone);

	if (gone > 0)
		fm_log_info("%s/" HUB "/%s: %u refs that were made for other nodes were in the way "
			    "of \"%s\", and are gone",
			    h->home, s->source->name.dir, gone, s->revision);
	return ret;
}

static int show_in(const struct place *h, int repository, const struct show *s,
		   struct fm_err *err)
{
	const char *commit = s->source->name.revision;
	int ret = show_data(h, repository, s);

	if (ret == 0 && strcmp(s->revision, commit) != 0)
		ret = make_ref(h, repository, s);
	return ret < 0 ? fm_err_sys(err, ret, "make %s of %s in %s/" HUB, s->revision,
				    s->source->name.dir, h->home)
		       : 0;
}

/* All in a user's own hub is of his cache, and asked for by him: there are no marks. */
static int check_own(const struct place *h, int hub, const struct show *s, struct fm_err *err)
{
	const char *dir = s->source->name.dir;
	int repository = fm_hub_dir_open(hub, dir), ret;

	if (repository < 0 && repository != -ENOENT)
		return fm_err_sys(err, repository, "open %s in %s/" HUB, dir, h->home);
	ret = check_in(h, repository, s, err);
	if (repository >= 0)
		(void)close(repository);	/* only read */
	return ret;
}

static int check(const struct place *h, int home, int hub, const struct show *s,
		 struct fm_err *err)
{
	const char *dir = s->source->name.dir;
	int repository, ret;
	struct mark m;

	if (h->is_own)
		return check_own(h, hub, s, err);
	mark_of(s->source, m.from);
	if (s->asked && strcmp(s->asked, s->info->source) != 0)
		m.from[0] = '\0';
	ret = fm_hub_mark_read(home, dir, m.now, &m.is_asked);
	if (ret < 0 && ret != -ENOENT)
		return fm_err_sys(err, ret, "read the source of %s", dir);
	repository = fm_hub_dir_open(hub, dir);
	if (repository < 0 && repository != -ENOENT)
		return fm_err_sys(err, repository, "open %s in %s/" HUB, dir, h->home);
	m.is_missing = ret == -ENOENT;
	m.is_new = repository == -ENOENT;
	ret = claim(s, &m, err);
	if (ret == 0)
		ret = check_in(h, repository, s, err);
	if (repository >= 0)
		(void)close(repository);	/* only read */
	if (ret == 0)
		ret = write_mark(home, s, &m, err);
	if (ret == 0)
		note_several(h, s, &m);
	return ret;
}

static void sweep_repository(const struct place *h, int home, int hub, const char *name);

static int show_below(const struct place *h, int home, const struct show *s, struct fm_err *err)
{
	const char *dir = s->source->name.dir;
	int hub = fm_hub_dir_make(home, HUB), repository, ret;

	if (hub < 0)
		return fm_err_sys(err, hub, "make %s/" HUB, h->home);
	sweep_repository(h, home, hub, dir);	/* what is gone is in nobody's way */
	ret = check(h, home, hub, s, err);
	if (ret < 0) {
		(void)close(hub);	/* only read */
		return ret;
	}
	repository = fm_hub_dir_enter(hub, dir);
	if (repository < 0)
		return fm_err_sys(err, repository, "make %s in %s/" HUB, dir, h->home);
	ret = show_in(h, repository, s, err);
	(void)close(repository);	/* what was made in it is synced */
	return ret;
}

/* The directory of a user's own hub: nobody else may look into it. */
static int make_own_home(const struct place *h)
{
	int ret = FM_FAULT("hub.mkdir") ? -ENOSPC : fm_call_mkdirat(h->root, h->name, 0700), fd;

	if (ret < 0 && ret != -EEXIST)
		return ret;
	fd = fm_hub_dir_open(h->root, h->name);
	if (fd < 0)
		return fd;
	ret = ret == 0 ? fm_call(fsync(h->root)) : 0;
	if (ret == 0)
		ret = fm_cache_allow_dir(fd, h->uid);
	if (ret < 0)
		(void)close(fd);	/* only made */
	return ret < 0 ? ret : fd;
}

static int show(const struct place *h, const struct show *s, struct fm_err *err)
{
	int home = h->is_own ? make_own_home(h) : fm_hub_dir_make(h->root, h->name), ret;

	if (home < 0)
		return fm_err_sys(err, home, "make %s", h->home);
	ret = show_below(h, home, s, err);
	(void)close(home);	/* what was made in it is synced */
	return ret;
}

/* Takes the source apart, and finds the hub in which its names are. */
static int find_place(const struct fm_hub *h, const char *text, struct fm_hub_source *source,
		      struct place *out)
{
	uid_t uid;

	if (!fm_hub_is_own(text)) {
		*out = h->all;
		return fm_hub_source_parse(text, source);
	}
	*source = (struct fm_hub_source){ .node = "" };
	if (fm_hub_own_parse(text, &uid, &source->name) < 0)
		return -EINVAL;
	own_place(h, uid, out);
	return 0;
}

int fm_hub_show(struct fm_hub *h, uint64_t id, const char *revision,
		const struct fm_hub_asked *asked, char *path, size_t max,
		char note[static FM_HUB_NOTE_MAX], struct fm_err *err)
{
	struct fm_hub_source source;
	struct fm_cache_info info;
	const struct show s = {
		.info = &info, .source = &source, .revision = revision,
		.asked = asked ? asked->source : NULL, .uid = asked ? asked->uid : 0, .note = note
	};
	struct place in;
	int len, ret;

	note[0] = '\0';
	if (!fm_cache_look(h->all.cache, id, &info) || info.state != FM_CACHE_READY)
		return fm_err_set(err, -ENOENT, "it was removed meanwhile; run it again");
	/* no other node asks for what is of a user's own cache */
	if (!fm_hub_is_revision(revision) || (!asked && fm_hub_is_own(info.source)) ||
	    find_place(h, info.source, &source, &in) < 0)
		return fm_err_set(err, -EINVAL, "%.300s is no commit of a repository", info.source);
	/* huggingface_hub looks for a ref before it looks for a commit */
	if (!fm_hub_can_be(revision, source.name.revision))
		return fm_err_set(err, -EINVAL, "%.300s is not the commit %s", info.source,
				  revision);
	pthread_mutex_lock(&h->lock);
	in.is_swept = h->all.is_swept;
	ret = show(&in, &s, err);
	pthread_mutex_unlock(&h->lock);
	if (ret < 0)
		return ret;
	len = snprintf(path, max, "%s/" HUB "/%s/" SNAPSHOTS "/%s", in.home, source.name.dir,
		       source.name.revision);
	if (len < 0 || (size_t)len >= max)
		return fm_err_set(err, -ENAMETOOLONG,
				  "its path is too long: give staging.directory a shorter name");
	return 0;
}

_Static_assert(FM_HUB_FROM_MAX == FM_HUB_MARK_MAX, "a mark is a source");

int fm_hub_from(struct fm_hub *h, const char *repository, char out[static FM_HUB_FROM_MAX + 1])
{
	bool is_asked = false;
	int home, ret;

	out[0] = '\0';
	pthread_mutex_lock(&h->lock);
	home = ret = fm_hub_dir_open(h->all.root, HOME);
	if (home >= 0) {
		ret = fm_hub_mark_read(home, repository, out, &is_asked);
		(void)close(home);	/* only read */
	}
	pthread_mutex_unlock(&h->lock);
	if (!is_asked)
		out[0] = '\0';
	return ret == -ENOENT ? 0 : ret;
}

/* ---- what goes ---- */

/*
 * Whether a name leads to what is there and not in the cache: a dataset that the disk could not
 * read when the daemon started may be read at the next start, and nobody would name it again.
 */
static bool leads_to_unread(const struct place *h, int dir, const char *name)
{
	struct stat st;

	return fm_cache_has_unread(h->cache) &&
	       (fstatat(dir, name, &st, 0) == 0 || errno != ENOENT);
}

struct sweep {
	const struct place *h;
	int repository;
	bool is_less;			/* a snapshot went */
	bool has_odd;			/* a snapshot is no name of ours */
	bool has_several;		/* snapshots are of several sources */
	char from[FM_HUB_MARK_MAX + 1];	/* the first one; "": none */
};

/*
 * Whether a snapshot leads to the dataset that it was made for. What is no link of ours is left
 * alone.
 */
static bool is_there(const struct place *h, int dir, const char *name)
{
	struct fm_cache_key version;
	struct fm_cache_info info;

	if (!version_of(dir, name, &version))
		return true;
	if (!fm_cache_look(h->cache, fm_cache_find_version(h->cache, &version), &info))
		return leads_to_unread(h, dir, name);
	return is_made_for(dir, name, &info);
}

static void drop_snapshot(int dir, const char *name, void *ctx)
{
	struct sweep *s = ctx;
	char list[FM_NAME_LEN_MAX + sizeof(TREES "/.json")];

	if (!fm_hub_is_commit(name) || is_there(s->h, dir, name))
		return;
	s->is_less = true;
	fm_hub_ref_drop(s->repository, name);
	(void)snprintf(list, sizeof(list), TREES "/%s.json", name);
	(void)unlinkat(s->repository, list, 0);
	if (unlinkat(dir, name, 0) < 0)
		fm_log_warn("%s/" HUB ": snapshots/%s of a dataset that is gone cannot be removed: "
			    "%s",
			    s->h->home, name, fm_err_name(errno));
}

static void drop_blob(int dir, const char *name, void *ctx)
{
	const struct sweep *s = ctx;

	if (!leads_to_one(s->h, dir, name) && !leads_to_unread(s->h, dir, name))
		(void)unlinkat(dir, name, 0);
}

static void drop_ours(int dir, const char *name, void *ctx)
{
	struct fm_cache_key version;

	(void)ctx;
	if (version_of(dir, name, &version))
		(void)unlinkat(dir, name, 0);
}

/*
 * Makes the blobs of this snapshot again: one that was removed with another dataset may be in this
 * one too.
 */
static void make_blobs_again(int dir, const char *name, void *ctx)
{
	char from[FM_PATH_LEN_MAX + 1], *end = NULL;
	const struct sweep *s = ctx;
	ssize_t len = readlinkat(dir, name, from, sizeof(from) - 1);
	int ret;

	from[len > 0 ? len : 0] = '\0';
	/* the last one: the dataset may be called so, too */
	for (char *at = from; (at = strstr(at, "/" SNAPSHOTS "/")); at++)
		end = at;
	if (!end || memcmp(from, READY, sizeof(READY) - 1) != 0)
		return;
	*end = '\0';
	ret = make_blobs(s->h, s->repository, from);
	if (ret < 0)
		fm_log_warn("%s/" HUB ": the blobs of snapshots/%s cannot be named: %s",
			    s->h->home, name, fm_err_name(ret));
}

/* ---- marks, at the first look after a start ---- */

static void look_at_source(int dir, const char *name, void *ctx)
{
	char from[FM_HUB_MARK_MAX + 1];
	struct fm_hub_source source;
	struct fm_cache_key version;
	struct fm_cache_info info;
	struct sweep *s = ctx;

	if (!version_of(dir, name, &version) ||
	    !fm_cache_look(s->h->cache, fm_cache_find_version(s->h->cache, &version), &info) ||
	    fm_hub_source_parse(info.source, &source) < 0) {
		s->has_odd = true;
		return;
	}
	mark_of(&source, from);
	s->has_several |= s->from[0] && strcmp(s->from, from) != 0;
	(void)snprintf(s->from, sizeof(s->from), "%s", from);
}

/*
 * Makes the mark right, since another version of fmove may have made names meanwhile. One that knew
 * of no marks has left none: if all snapshots are of one source, it is that. Names that are not of
 * the mark's source were not made by this version: they stay, and the repository is of several.
 */
static void mend_mark(struct sweep *s, int home, const char *name)
{
	char now[FM_HUB_MARK_MAX + 1];
	bool is_asked;
	int ret = fm_hub_mark_read(home, name, now, &is_asked);

	fm_hub_dir_each(s->repository, SNAPSHOTS, look_at_source, s);
	if (ret == -ENOENT && s->from[0] && !s->has_several && !s->has_odd)
		ret = fm_hub_mark_write(home, name, s->from, false);
	else if (ret == 0 && now[0] && s->from[0] &&
		 (s->has_several || strcmp(now, s->from) != 0))
		ret = fm_hub_mark_write(home, name, "", false);
	else
		return;
	if (ret < 0)
		fm_log_warn("%s/" HUB ": the source of %s cannot be noted: %s", s->h->home, name,
			    fm_err_name(ret));
}

/*
 * Removes what leads to datasets that are gone. A repository without snapshots goes, with what a
 * request left in it that failed before its snapshot was there.
 */
static void sweep_repository(const struct place *h, int home, int hub, const char *name)
{
	static const char *const parts[] = { "blobs", TREES, "refs", NULL };
	struct sweep s = { .h = h, .repository = fm_hub_dir_open(hub, name) };

	if (s.repository < 0)
		return;
	fm_hub_dir_each(s.repository, SNAPSHOTS, drop_snapshot, &s);
	if (!h->is_swept && !h->is_own)
		mend_mark(&s, home, name);
	if (s.is_less || !h->is_swept) {
		fm_hub_dir_each(s.repository, "blobs", drop_blob, &s);
		fm_hub_dir_each(s.repository, SNAPSHOTS, make_blobs_again, &s);
	}
	if (unlinkat(s.repository, SNAPSHOTS, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		fm_hub_dir_clear(s.repository);
		fm_hub_dir_each(s.repository, "blobs", drop_ours, NULL);
		fm_hub_dir_each(s.repository, TREES, drop_ours, NULL);
		for (const char *const *p = parts; *p; p++)
			(void)unlinkat(s.repository, *p, AT_REMOVEDIR);
		(void)unlinkat(hub, name, AT_REMOVEDIR);	/* unless there is more in it */
	}
	(void)close(s.repository);	/* only read */
}

struct sweeping {
	const struct place *h;
	int home;			/* HOME */
};

static void sweep_one(int hub, const char *name, void *ctx)
{
	const struct sweeping *all = ctx;

	sweep_repository(all->h, all->home, hub, name);
}

static void sweep_home(const struct place *h, int home)
{
	struct sweeping all = { .h = h, .home = home };
	int hub = fm_hub_dir_open(home, HUB);

	fm_hub_dir_each(home, HUB, sweep_one, &all);
	if (hub < 0)
		return;
	if (!h->is_own)
		fm_hub_mark_sweep(home, hub);
	(void)close(hub);	/* only read */
}

static void sweep_place(const struct place *h)
{
	int home = fm_hub_dir_open(h->root, h->name);

	if (home < 0)
		return;
	sweep_home(h, home);
	if (h->is_own)		/* unless there is more in it */
		(void)unlinkat(home, HUB, AT_REMOVEDIR);
	(void)close(home);	/* only read */
	if (h->is_own)
		(void)unlinkat(h->root, h->name, AT_REMOVEDIR);	/* as above */
}

/* Of the names in the cache's directory: a hub of one user's. */
static void sweep_own(int root, const char *name, void *ctx)
{
	const struct fm_hub *h = ctx;
	struct place own;
	unsigned long uid;

	(void)root;
	if (strncmp(name, HOME "-", sizeof(HOME "-") - 1) != 0)
		return;
	uid = strtoul(name + sizeof(HOME "-") - 1, NULL, 10);
	own_place(h, (uid_t)uid, &own);
	if (strcmp(name, own.name) == 0)	/* else it is not ours */
		sweep_place(&own);
}

void fm_hub_sweep(struct fm_hub *h)
{
	pthread_mutex_lock(&h->lock);
	sweep_place(&h->all);
	fm_hub_dir_each(h->all.root, ".", sweep_own, h);
	h->all.is_swept = true;
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

void fm_hub_own_source(uid_t uid, const char *path, char *out, size_t size)
{
	(void)snprintf(out, size, FM_HUB_OWN_SOURCE "%u/%s", (unsigned)uid, path);
}

bool fm_hub_is_own(const char *source)
{
	const char *at = source + strlen(FM_HUB_OWN_SOURCE);

	if (strncmp(source, FM_HUB_OWN_SOURCE, strlen(FM_HUB_OWN_SOURCE)) != 0)
		return false;
	return at[0] >= '0' && at[0] <= '9' && at[strspn(at, "0123456789")] == '/';
}

int fm_hub_own_parse(const char *source, uid_t *uid, struct fm_hub_name *out)
{
	const char *at = source + strlen(FM_HUB_OWN_SOURCE);
	unsigned long number;
	char *end;

	if (!fm_hub_is_own(source))
		return -EINVAL;
	errno = 0;
	number = strtoul(at, &end, 10);
	if (errno || number > UINT32_MAX || fm_hub_path_parse(end + 1, out) < 0 ||
	    !fm_hub_is_commit(out->revision))
		return -EINVAL;
	*uid = (uid_t)number;
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
	return ret;
}

/*
 * Whether the bytes of a name are compared with a hash: of files in blobs of the repository, and of
 * what links there lead to. The list in trees counts as such, though it is compared with nothing:
 * it is what its source says, or a node that sent it in a run of several, and leads to no bytes.
 */
static bool is_hashed(const struct fm_stage_met *m, const char *repository)
{
	char dir[FM_PATH_LEN_MAX + 1], target[FM_PATH_LEN_MAX + 1], path[FM_PATH_LEN_MAX + 1];
	const size_t len = strlen(repository);
	const char *in = m->path + len + 1, *slash = strrchr(m->path, '/');
	ssize_t got;

	if (S_ISDIR(m->st.st_mode) || strncmp(m->path, "blobs/", 6) == 0)
		return true;
	if (strncmp(m->path, repository, len) != 0 || m->path[len] != '/' || !slash)
		return false;
	if (strncmp(in, "blobs/", 6) == 0 || strncmp(in, TREES "/", sizeof(TREES)) == 0)
		return true;
	got = S_ISLNK(m->st.st_mode) ? readlinkat(m->dir, m->name, target, sizeof(target) - 1) : -1;
	target[got > 0 ? got : 0] = '\0';
	(void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - m->path), m->path);
	return got > 0 && fm_hub_link(dir, target, path, sizeof(path)) == 0 &&
	       strncmp(path, repository, len) == 0 && strncmp(path + len, "/blobs/", 7) == 0;
}

/*
 * All that is there is what the view has. A name besides it was compared with nothing, and may lead
 * anywhere.
 */
static int verify_names(int data, const struct fm_hub_view *v, const char *repository,
			bool *is_hash, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct fm_stage_walk *w;
	struct fm_stage_met met;
	int ret = fm_stage_walk_new(data, FM_STAGE_NAMES_MAX, &w);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at what came");
	while ((ret = fm_stage_walk_next(w, &met, err)) > 0 && fm_hub_view_has(v, met.path))
		*is_hash &= is_hashed(&met, repository);
	if (ret > 0)
		ret = fm_err_set(err, -EBADMSG,
				 "\"%s\" is not of the revision, so it is not taken: remove it "
				 "from the hub cache that it came from",
				 fm_path_show(met.path, &shown));
	fm_stage_walk_free(w);
	return ret;
}

int fm_hub_verify(int data, const char *path, const atomic_bool *is_stopped,
		  _Atomic uint64_t *done, bool *is_hash, struct fm_err *err)
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
	*is_hash = true;
	ret = verify_names(data, v, name.dir, is_hash, err);
	while (ret >= 0 && (blob = fm_hub_view_blob(v, &at))) {
		ret = verify_blob(data, blob, is_stopped, done, err);
		*is_hash &= ret != 0;
	}
	fm_hub_view_free(v);
	return ret < 0 ? ret : 0;
}

/* ---- the whole ---- */

int fm_hub_new(struct fm_cache *cache, const char *directory, struct fm_hub **out,
	       struct fm_err *err)
{
	struct fm_hub *h = FM_FAULT("hub.alloc") ? NULL : calloc(1, sizeof(*h));

	if (!h)
		return fm_err_sys(err, -ENOMEM, "open the hub");
	h->directory = directory;
	h->all = (struct place){ .cache = cache, .name = HOME };
	(void)snprintf(h->all.home, sizeof(h->all.home), "%s/" HOME, directory);
	h->all.root = fm_call(open(directory, DIR_FLAGS & ~O_NOFOLLOW));
	if (h->all.root < 0) {
		int ret = fm_err_sys(err, h->all.root, "directory %s", directory);

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
	(void)close(h->all.root);	/* only read */
	pthread_mutex_destroy(&h->lock);
	free(h);
}

const char *fm_hub_home(const struct fm_hub *h)
{
	return h->all.home;
}

void fm_hub_own_home(const struct fm_hub *h, uid_t uid, char out[static FM_PATH_LEN_MAX + 1])
{
	struct place own;

	own_place(h, uid, &own);
	memcpy(out, own.home, sizeof(own.home));
}
