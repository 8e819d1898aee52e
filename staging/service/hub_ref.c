/* SPDX-License-Identifier: MIT */
/* hub_ref - see hub_ref.h. */
#include "staging/service/hub_ref.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/hub_name.h"
#include "mover/store/hub.h"
#include "staging/service/hub_dir.h"

#define REFS "refs"
#define REF_PATH_MAX (sizeof(REFS "/") + FM_HUB_REVISION_MAX)
#define MODE_HERE 0644		/* a user of this node asked for it */
#define MODE_ANOTHER 0444	/* only another node did */

/* Removes a ref if it leads to the commit ("": to none), or such of a directory, and that if it is
 * empty then. */
static void drop_ref(int dir, const char *name, void *ctx)
{
	char commit[FM_HUB_COMMIT_LEN + 1];

	if (fm_hub_ref_read(dir, name, commit) == 0 && strcmp(commit, ctx) == 0) {
		(void)unlinkat(dir, name, 0);
		return;
	}
	fm_hub_dir_each(dir, name, drop_ref, ctx);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* ---- what may be made ---- */

struct count {
	const char *commit;		/* NULL: whatever they lead to */
	bool is_of_users;		/* none of those that were made for other nodes alone */
	uid_t uid;
	unsigned refs, his;		/* his: that user's */
};

static bool is_for_others(int dir, const char *name);

static void count_ref(int dir, const char *name, void *ctx)
{
	char commit[FM_HUB_COMMIT_LEN + 1];
	struct count *c = ctx;

	if (fm_hub_ref_read(dir, name, commit) < 0) {
		fm_hub_dir_each(dir, name, count_ref, c);
		return;
	}
	if ((c->is_of_users && is_for_others(dir, name)) ||
	    (c->commit && strcmp(commit, c->commit) != 0))
		return;
	c->refs++;
	c->his += c->is_of_users && fm_hub_dir_uid(dir, name) == c->uid;
}

/* Those of users, but for main, which is none that a user made up. */
static void count_users(int repository, struct count *c)
{
	struct count of_main = { .is_of_users = c->is_of_users, .uid = c->uid };
	char now[FM_HUB_COMMIT_LEN + 1];

	fm_hub_dir_each(repository, REFS, count_ref, c);
	if (!c->is_of_users || fm_hub_ref_read(repository, REFS "/main", now) < 0)
		return;
	count_ref(repository, REFS "/main", &of_main);
	c->refs -= of_main.refs;
	c->his -= of_main.his;
}

static bool leads_to(int repository, const char *revision, const char *commit)
{
	char path[REF_PATH_MAX], now[FM_HUB_COMMIT_LEN + 1];

	(void)snprintf(path, sizeof(path), REFS "/%s", revision);
	return fm_hub_ref_read(repository, path, now) == 0 && strcmp(now, commit) == 0;
}

/*
 * Whether a ref was made for another node, and no user here has asked for it. Its mode says so: it
 * comes with the ref itself, so no crash leaves one without the other.
 */
static bool is_for_others(int dir, const char *name)
{
	char commit[FM_HUB_COMMIT_LEN + 1];
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_mode & 0222) == 0 && fm_hub_ref_read(dir, name, commit) == 0;
}

/* main, and the refs of pull requests and conversions, are what they are in every repository. */
static bool is_in_the_way(const char *revision)
{
	static const char *const dirs[] = { "pr", "refs/pr", "refs/convert" };

	if (strncmp(revision, "main/", 5) == 0 || strcmp(revision, "refs") == 0)
		return true;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		size_t len = strlen(dirs[i]);

		if (strncmp(revision, dirs[i], len) == 0 &&
		    (!revision[len] || (revision[len] == '/' && strchr(revision + len + 1, '/'))))
			return true;
	}
	return false;
}

/* Each part but the last is a directory. */
static int check_parts(const char *revision, const char *whose, struct fm_err *err)
{
	unsigned parts = 1;

	for (const char *at = revision; (at = strchr(at, '/')); at++)
		parts++;
	if (parts <= FM_HUB_REF_PARTS_MAX)
		return 0;
	return fm_err_set(err, -ENAMETOOLONG,
			  "\"%.100s\" has %u parts: a revision %s has %d at most", revision, parts,
			  whose, FM_HUB_REF_PARTS_MAX);
}

static int check_another(int repository, const char *revision, const char *commit,
			 struct fm_err *err)
{
	struct count c = { .commit = commit };
	int ret = check_parts(revision, "for another node", err);

	if (ret < 0)
		return ret;
	if (is_in_the_way(revision))
		return fm_err_set(err, -EEXIST, "\"%.100s\" would be in the way of other names",
				  revision);
	fm_hub_dir_each(repository, REFS, count_ref, &c);
	if (c.refs >= FM_HUB_REFS_MAX)
		return fm_err_set(err, -EDQUOT,
				  "%u branches and tags lead to %s there, and no more are made for "
				  "another node: run it there",
				  c.refs, commit);
	return 0;
}

static int too_many(const struct count *c, const char *commit, struct fm_err *err)
{
	if (c->refs < FM_HUB_USERS_REFS_MAX)
		return fm_err_set(err, -EDQUOT,
				  "you have asked for %u branches and tags of that repository, and "
				  "others for %u, which leaves %u for those who come: ask for the "
				  "commit itself, %s, or fmove unstage what yours lead to",
				  c->his, c->refs - c->his, FM_HUB_USERS_REFS_MAX - c->refs,
				  commit);
	return fm_err_set(err, -EDQUOT,
			  "%u branches and tags of that repository are staged %s already: ask for "
			  "the commit itself, %s, or fmove unstage what they lead to",
			  c->refs, c->is_of_users ? "here" : "from your own hub cache", commit);
}

/*
 * For users of this node, in a hub of one of them or in that of all. One that moves takes no more
 * than it did; what was made for other nodes bars no user. main is everywhere, and no user's name
 * for it: those who fill a repository take it from nobody. One user leaves some to the others, by
 * the rule of base/share.h.
 */
static int check_users(int repository, const struct fm_hub_ref *ref, struct fm_err *err)
{
	char path[REF_PATH_MAX], now[FM_HUB_COMMIT_LEN + 1];
	const char *revision = ref->revision;
	bool is_own = ref->whom == FM_HUB_REF_FOR_OWN;
	struct count c = { .is_of_users = !is_own, .uid = ref->uid };
	int ret = is_own ? check_parts(revision, "of an own hub cache", err) : 0;

	(void)snprintf(path, sizeof(path), REFS "/%s", revision);
	if (ret < 0 || (!is_own && strcmp(revision, "main") == 0) ||
	    (fm_hub_ref_read(repository, path, now) == 0 &&
	     (is_own || !is_for_others(repository, path))))
		return ret;
	fm_hub_ref_drop(repository, "");	/* directories that a crash has left empty */
	count_users(repository, &c);
	if (c.refs < FM_HUB_USERS_REFS_MAX &&
	    (is_own || c.his == 0 || c.his + 1 <= 7 * (FM_HUB_USERS_REFS_MAX - 1 - c.refs)))
		return 0;
	return too_many(&c, ref->commit, err);
}

static void look_what_stays(int dir, const char *name, void *ctx)
{
	bool *does_stay = ctx;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		fm_hub_dir_each(dir, name, look_what_stays, ctx);
	else
		*does_stay |= !is_for_others(dir, name);
}

/* Whether the ref, or one of those in the directory, is none that was made for another node. */
static bool does_stay(int repository, const char *path)
{
	bool stays = false;

	look_what_stays(repository, path, &stays);
	return stays;
}

/*
 * What is a file cannot become a directory, nor a directory with refs a file. For a user here what
 * was made for other nodes gives way, so nothing that another node names bars him from a revision.
 * Nothing but the way of this revision is looked at: all other hubs wait meanwhile.
 */
static int check_way(int repository, const char *revision, bool is_for_another, struct fm_err *err)
{
	char path[REF_PATH_MAX], none[] = "";
	size_t len = sizeof(REFS "/") - 1;
	struct stat st;
	bool is_last;

	(void)snprintf(path, sizeof(path), REFS "/%s", revision);
	drop_ref(repository, path, none);	/* directories that a crash has left empty */
	do {
		char *end = path + len + strcspn(path + len, "/");

		is_last = *end == '\0';
		*end = '\0';
		if (fstatat(repository, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode) == is_last &&
		    (is_for_another || does_stay(repository, path)))
			return fm_err_set(err, -EEXIST,
					  "\"%.100s\" cannot be in the hub beside \"%.100s%s\", "
					  "which is there; fmove unstage that one first",
					  revision, path + sizeof(REFS), is_last ? "/..." : "");
		*end = is_last ? '\0' : '/';
		len = (size_t)(end - path) + 1;
	} while (!is_last);
	return 0;
}

/* Whether nothing is to be made: it leads there, and is not to become a user's. */
static bool is_made(int repository, const struct fm_hub_ref *ref)
{
	char path[REF_PATH_MAX];

	(void)snprintf(path, sizeof(path), REFS "/%s", ref->revision);
	return leads_to(repository, ref->revision, ref->commit) &&
	       (ref->whom == FM_HUB_REF_FOR_ANOTHER || !is_for_others(repository, path));
}

int fm_hub_ref_check(int repository, const struct fm_hub_ref *ref, struct fm_err *err)
{
	bool is_for_another = ref->whom == FM_HUB_REF_FOR_ANOTHER;
	int ret = 0;

	if (is_made(repository, ref))
		return 0;
	if (is_for_another)
		ret = check_another(repository, ref->revision, ref->commit, err);
	else
		ret = check_users(repository, ref, err);
	return ret == 0 ? check_way(repository, ref->revision, is_for_another, err) : ret;
}

/* ---- what appears ---- */

/* What a user here has asked for stays his, though another one or another node moves it. */
static int write_ref(int repository, int dir, const char *name, const struct fm_hub_ref *ref)
{
	bool is_for_another = ref->whom == FM_HUB_REF_FOR_ANOTHER;
	uid_t uid = ref->whom == FM_HUB_REF_FOR_USER ? ref->uid : FM_HUB_NOBODY;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !is_for_others(dir, name)) {
		is_for_another = false;
		uid = fm_hub_dir_uid(dir, name);
	}
	return fm_hub_dir_write(repository, ref->commit, is_for_another ? MODE_ANOTHER : MODE_HERE,
				uid);
}

/* Removes the ref, or those in the directory, that were made for other nodes. */
static void drop_others(int dir, const char *name, void *ctx)
{
	unsigned *gone = ctx;

	if (is_for_others(dir, name)) {
		*gone += unlinkat(dir, name, 0) == 0;
		return;
	}
	fm_hub_dir_each(dir, name, drop_others, ctx);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* The directory of a ref, a descriptor. *revision becomes the ref's name in it. */
static int make_dirs(int repository, const char **revision, bool is_for_another, unsigned *gone)
{
	int dir = fm_hub_dir_make(repository, REFS);
	char part[FM_HUB_REVISION_MAX + 1];
	const char *slash;

	while (dir >= 0 && (slash = strchr(*revision, '/'))) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - *revision), *revision);
		if (!is_for_another && is_for_others(dir, part))
			drop_others(dir, part, gone);
		dir = fm_hub_dir_enter(dir, part);
		*revision = slash + 1;
	}
	return dir;
}

int fm_hub_ref_make(int repository, const struct fm_hub_ref *ref, unsigned *gone)
{
	bool is_for_another = ref->whom == FM_HUB_REF_FOR_ANOTHER;
	const char *revision = ref->revision;
	int dir, ret;

	*gone = 0;
	if (is_made(repository, ref))
		return 0;
	dir = make_dirs(repository, &revision, is_for_another, gone);
	if (dir < 0)
		return dir;
	if (!is_for_another)
		fm_hub_dir_each(dir, revision, drop_others, gone);
	(void)unlinkat(dir, revision, AT_REMOVEDIR);	/* if nothing is left in it */
	ret = write_ref(repository, dir, revision, ref);
	if (ret == 0)
		ret = fm_hub_dir_name(repository, dir, revision);
	(void)close(dir);	/* synced */
	return ret;
}

/* ---- what goes ---- */

void fm_hub_ref_drop(int repository, const char *commit)
{
	char ctx[FM_HUB_COMMIT_LEN + 1];

	(void)snprintf(ctx, sizeof(ctx), "%s", commit);
	fm_hub_dir_each(repository, REFS, drop_ref, ctx);
}
