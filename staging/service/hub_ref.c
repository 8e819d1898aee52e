/* SPDX-License-Identifier: MIT */
/* hub_ref - see hub_ref.h. */
#include "staging/service/hub_ref.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/store/hub.h"
#include "staging/service/hub_dir.h"

#define REFS "refs"
#define SOURCE "user.fmove.source"
#define SOURCE_MAX 512	/* more than a source of a hub has; this is on the stack of each level */

/* ---- what is there ---- */

static void read_source(int root, const char *path, char *out, size_t max)
{
	int fd = fm_call(openat(root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	ssize_t len = fd < 0 ? -1 : fgetxattr(fd, SOURCE, out, max - 1);

	out[len > 0 ? len : 0] = '\0';
	if (fd >= 0)
		(void)close(fd);	/* only read */
}

bool fm_hub_ref_look(int repository, const char *revision, char commit[FM_HUB_COMMIT_LEN + 1],
		     char *source, size_t max)
{
	char path[FM_HUB_REVISION_MAX + sizeof(REFS "/")];

	(void)snprintf(path, sizeof(path), REFS "/%s", revision);
	if (fm_hub_ref_read(repository, path, commit) < 0)
		return false;
	if (source)
		read_source(repository, path, source, max);
	return true;
}

struct count {
	const char *commit;
	bool (*is_own)(const char *source, const void *ctx);	/* NULL: all are counted */
	const void *ctx;
	unsigned refs;
};

static void count_ref(int dir, const char *name, void *ctx)
{
	char commit[FM_HUB_COMMIT_LEN + 1], source[SOURCE_MAX];
	struct count *c = ctx;

	if (fm_hub_ref_read(dir, name, commit) < 0) {
		fm_hub_dir_each(dir, name, count_ref, c);
		return;
	}
	if (strcmp(commit, c->commit) != 0)
		return;
	if (c->is_own)
		read_source(dir, name, source, sizeof(source));
	c->refs += !c->is_own || !c->is_own(source, c->ctx);
}

bool fm_hub_ref_is_others(int repository, const char *commit,
			  bool (*is_own)(const char *source, const void *ctx), const void *ctx)
{
	struct count c = { .commit = commit, .is_own = is_own, .ctx = ctx };

	fm_hub_dir_each(repository, REFS, count_ref, &c);
	return c.refs > 0;
}

/* ---- what another node may make ---- */

/*
 * What is no directory cannot become one, and what is one no ref. main and the pr/ of pull requests
 * are for what they are everywhere.
 */
static int check_way(int repository, const char *revision, struct fm_err *err)
{
	char path[FM_HUB_REVISION_MAX + sizeof(REFS "/")];
	size_t len = sizeof(REFS "/") - 1;
	struct stat st;
	bool is_last;

	if (strncmp(revision, "main/", 5) == 0 || strcmp(revision, "pr") == 0)
		return fm_err_set(err, -EEXIST, "\"%s\" would be in the way of other names there",
				  revision);
	(void)snprintf(path, sizeof(path), REFS "/%s", revision);
	do {
		char *end = path + len + strcspn(path + len, "/");

		is_last = *end == '\0';
		*end = '\0';
		if (fstatat(repository, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode) == is_last)
			return fm_err_set(err, -EEXIST, "\"%s\" cannot be there: it has \"%s%s\"",
					  revision, path + sizeof(REFS), is_last ? "/..." : "");
		*end = is_last ? '\0' : '/';
		len = (size_t)(end - path) + 1;
	} while (!is_last);
	return 0;
}

int fm_hub_ref_check(int repository, const char *revision, const char *commit, struct fm_err *err)
{
	struct count c = { .commit = commit };
	char now[FM_HUB_COMMIT_LEN + 1];
	unsigned parts = 1;

	for (const char *at = revision; (at = strchr(at, '/')); at++)
		parts++;
	if (parts > FM_HUB_REF_PARTS_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "\"%.100s\" has %u parts: a revision for another node has %d at "
				  "most",
				  revision, parts, FM_HUB_REF_PARTS_MAX);
	if (fm_hub_ref_look(repository, revision, now, NULL, 0) && strcmp(now, commit) == 0)
		return 0;
	fm_hub_dir_each(repository, REFS, count_ref, &c);
	if (c.refs >= FM_HUB_REFS_MAX)
		return fm_err_set(err, -EDQUOT,
				  "%u branches and tags lead to %s there, and no more are made for "
				  "another node",
				  c.refs, commit);
	return check_way(repository, revision, err);
}

/* ---- what appears ---- */

static int write_ref(int repository, int dir, const char *name, const char *commit,
		     const char *source)
{
	int fd, ret;

	fm_hub_dir_clear(repository);
	fd = fm_call(openat(repository, FM_HUB_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
	if (fd < 0)
		return fd;
	ret = FM_FAULT("hub.ref") ? -ENOSPC : fm_call_write_all(fd, commit, strlen(commit), 0);
	if (ret == 0)
		ret = fm_call(fchmod(fd, 0644));
	/* one without it is nobody's, which is never wrong */
	if (ret == 0)
		(void)fsetxattr(fd, SOURCE, source, strlen(source), 0);
	if (ret == 0)
		ret = fm_call(fsync(fd));
	(void)close(fd);	/* synced */
	return ret < 0 ? ret : fm_hub_dir_name(repository, dir, name);
}

static void remove_ref(int dir, const char *name, void *ctx)
{
	if (unlinkat(dir, name, 0) == 0)
		return;
	fm_hub_dir_each(dir, name, remove_ref, ctx);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* Opens refs, or makes it, and so on up to the directory of the last part: *last. */
static int open_parts(int repository, const char *revision, bool may_replace, const char **last)
{
	char part[FM_HUB_REVISION_MAX + 1];
	int dir = fm_hub_dir_make(repository, REFS);
	const char *slash;

	while (dir >= 0 && (slash = strchr(revision, '/'))) {
		struct stat st;

		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - revision), revision);
		if (may_replace && fstatat(dir, part, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !S_ISDIR(st.st_mode))
			(void)unlinkat(dir, part, 0);
		dir = fm_hub_dir_enter(dir, part);
		revision = slash + 1;
	}
	*last = revision;
	return dir;
}

int fm_hub_ref_make(int repository, const char *revision, const char *commit, const char *source,
		    bool is_for_another)
{
	char now[FM_HUB_COMMIT_LEN + 1], whose[SOURCE_MAX];
	const char *name;
	struct stat st;
	int dir, ret;

	if (fm_hub_ref_look(repository, revision, now, whose, sizeof(whose)) &&
	    strcmp(now, commit) == 0 && (is_for_another || strcmp(whose, source) == 0))
		return 0;
	dir = open_parts(repository, revision, !is_for_another, &name);
	if (dir < 0)
		return dir;
	if (!is_for_another && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		remove_ref(dir, name, NULL);
	ret = write_ref(repository, dir, name, commit, source);
	(void)close(dir);	/* synced */
	return ret;
}

/* ---- what goes ---- */

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

void fm_hub_ref_drop(int repository, const char *commit)
{
	char ctx[FM_HUB_COMMIT_LEN + 1];

	(void)snprintf(ctx, sizeof(ctx), "%s", commit);
	fm_hub_dir_each(repository, REFS, drop_ref, ctx);
}
