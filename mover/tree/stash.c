/* SPDX-License-Identifier: MIT */
/* stash - see stash.h. */
#include "mover/tree/stash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/tree/manifest.h"
#include "mover/tree/remove.h"
#include "mover/tree/tsys.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)
#define MARK_PREFIX ".fmove.held."
#define KEPT_PREFIX ".fmove.kept."	/* as long */
#define FORMER_MARK ".fmove.former"
#define HEX "0123456789abcdef"
#define HEX_LEN 16
#define MARK_LEN (sizeof(MARK_PREFIX) - 1 + HEX_LEN)
#define TRIES_MAX 16

static void mark_of(uint64_t ino, enum fm_staging_kind kind, char mark[static MARK_LEN + 1])
{
	const char *prefix = kind == FM_STAGING_KEPT ? KEPT_PREFIX : MARK_PREFIX;

	_Static_assert(sizeof(KEPT_PREFIX) == sizeof(MARK_PREFIX), "marks are of one length");
	(void)snprintf(mark, MARK_LEN + 1, "%s%016" PRIx64, prefix, ino);
}

/* FM_STAGING_NONE: it is no mark. */
static enum fm_staging_kind kind_of_mark(const char *name)
{
	const char *hex = name + sizeof(MARK_PREFIX) - 1;
	bool is_kept = strncmp(name, KEPT_PREFIX, sizeof(KEPT_PREFIX) - 1) == 0;

	if (!is_kept && strncmp(name, MARK_PREFIX, sizeof(MARK_PREFIX) - 1) != 0)
		return FM_STAGING_NONE;
	if (strlen(hex) != HEX_LEN || strspn(hex, HEX) != HEX_LEN)
		return FM_STAGING_NONE;
	return is_kept ? FM_STAGING_KEPT : FM_STAGING_OLD;
}

/* ---------------------------------------------------------------------------------- finding one */

struct found {
	int fd;
	struct stat st;
	enum fm_staging_kind kind;		/* OLD; KEPT, if its name or its mark says so */
	char mark[MARK_LEN + 1];		/* "": it has none */
	uint64_t ino;				/* that the mark names */
	char name[FM_STAGING_FINAL_MAX + 1];	/* of that; "": it is not there */
	bool has_any;				/* it is not empty */
};

/* What went meanwhile is not there. */
static int unless_gone(int ret)
{
	return ret == -ENOENT ? 0 : ret;
}

/* Gets of earlier versions made a mark of this name, and wrote the inode into it. */
static int read_former_mark(struct found *f)
{
	int fd = fm_tsys_open(f->fd, FORMER_MARK, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	char hex[HEX_LEN + 1] = "";
	ssize_t len;

	if (fd < 0)
		return fd;
	len = pread(fd, hex, HEX_LEN, 0);
	(void)close(fd);	/* only read */
	if (len < 0 || strspn(hex, HEX) != HEX_LEN)
		return len < 0 ? -EIO : 0;
	(void)snprintf(f->mark, sizeof(f->mark), "%s", FORMER_MARK);
	f->ino = strtoull(hex, NULL, 16);
	return 0;
}

static int look_for_mark(void *ctx, int dir, const char *name)
{
	bool is_former = strcmp(name, FORMER_MARK) == 0;
	enum fm_staging_kind kind = kind_of_mark(name);
	struct found *f = ctx;
	struct stat st;
	int ret;

	f->has_any = true;
	if (!is_former && kind == FM_STAGING_NONE)
		return 0;
	ret = fm_tsys_fstatat(dir, name, &st);
	if (ret < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return unless_gone(ret);
	if (is_former)
		return unless_gone(read_former_mark(f));
	memcpy(f->mark, name, MARK_LEN + 1);
	f->ino = strtoull(name + sizeof(MARK_PREFIX) - 1, NULL, 16);
	if (kind == FM_STAGING_KEPT)
		f->kind = kind;
	return 0;
}

static int look_for_held(void *ctx, int dir, const char *name)
{
	struct found *f = ctx;
	struct stat st;
	int ret = fm_tsys_fstatat(dir, name, &st);

	if (ret == 0 && S_ISDIR(st.st_mode) && st.st_ino == f->ino)
		(void)snprintf(f->name, sizeof(f->name), "%s", name);
	return unless_gone(ret);
}

/* 0: it is one, or empty (it has no mark then), and f->fd is the caller's. -EPERM: it is none. */
static int find(int parent, const char *stash, struct found *f)
{
	bool is_kept = fm_staging_kind(stash) == FM_STAGING_KEPT;
	int ret;

	*f = (struct found){ .fd = fm_tsys_open_unmounted(parent, stash, DIR_FLAGS),
			     .kind = is_kept ? FM_STAGING_KEPT : FM_STAGING_OLD };
	if (f->fd == -EACCES || f->fd == -ENOTDIR || f->fd == -ELOOP || f->fd == -EXDEV)
		return -EPERM;
	if (f->fd < 0)
		return f->fd;
	ret = fm_tsys_fstat(f->fd, &f->st);
	if (ret == 0)
		ret = fm_tsys_is_private(&f->st) ? fm_tsys_each_name(f->fd, look_for_mark, f)
						 : -EPERM;
	if (ret == 0 && f->mark[0])
		ret = fm_tsys_each_name(f->fd, look_for_held, f);
	else if (ret == 0 && f->has_any)
		ret = -EPERM;
	if (ret < 0) {
		(void)close(f->fd);	/* only read */
		return ret;
	}
	return 0;
}

int fm_stash_look(int parent, const char *stash, char name[FM_STAGING_FINAL_MAX + 1])
{
	struct found f;
	int ret = find(parent, stash, &f);

	name[0] = '\0';
	if (ret < 0)
		return ret == -EPERM ? 0 : ret;
	(void)close(f.fd);	/* only read */
	memcpy(name, f.name, sizeof(f.name));
	return 1;
}

/* ----------------------------------------------------------------------------------- making one */

/*
 * Removes a stash that holds nothing. If that fails, what is left is empty or has a mark without a
 * tree, and a later sweep removes it.
 */
static void drop(int parent, const char *stash, int fd, const char *mark)
{
	(void)unlinkat(fd, mark, 0);
	(void)unlinkat(parent, stash, AT_REMOVEDIR);
	(void)close(fd);	/* only read */
}

static int put_mark(int stash, const char *mark)
{
	int fd = fm_tsys_open(stash, mark, O_WRONLY | O_CREAT | O_EXCL, 0600);

	return fd < 0 ? fd : fm_tsys_close(fd);
}

/*
 * Makes a stash with its mark, and returns it open. Another user may replace it by something else
 * between two calls. Everybody may search it, because the tree in it keeps its own mode.
 */
static int make(int parent, enum fm_staging_kind kind, const char *mark,
		char stash[FM_STAGING_NAME_LEN + 1])
{
	struct found f;
	int ret;

	fm_staging_name(kind, "", stash);
	ret = fm_tsys_mkdir(parent, stash);
	if (ret < 0)
		return ret;
	ret = find(parent, stash, &f);
	if (ret < 0) {
		/* best effort: an empty one goes later */
		(void)unlinkat(parent, stash, AT_REMOVEDIR);
		return ret;
	}
	ret = f.mark[0] ? -EPERM : put_mark(f.fd, mark);
	if (ret == 0)
		ret = fm_tsys_chmod(f.fd, 0755);
	if (ret == 0)
		return f.fd;
	drop(parent, stash, f.fd, mark);
	return ret;
}

/*
 * Opens the tree that will move, to look at its mode. -ESTALE: the name leads to
 * something else by now.
 */
static int open_what(const struct fm_stash_what *what, mode_t *mode)
{
	int fd = fm_tsys_open(what->dir, what->from, O_PATH | O_DIRECTORY, 0);
	struct stat st;
	int ret = fd < 0 ? fd : fm_tsys_fstat(fd, &st);

	if (ret == 0 && st.st_ino != what->ino)
		ret = -ESTALE;
	if (ret < 0 && fd >= 0)
		(void)close(fd);	/* only looked at */
	*mode = ret < 0 ? 0 : st.st_mode & 07777;
	return ret < 0 ? ret : fd;
}

/*
 * Moves the tree to where its name is free: into the stash, or back. Moving a directory to another
 * parent needs the right to write to it, so its mode is changed for that moment.
 */
static int rename_to(const struct fm_stash_what *what, int dir)
{
	int ret = fm_tsys_rename_free(what->dir, what->from, dir, what->name), fd;
	mode_t mode;

	if (ret != -EACCES)
		return ret;
	fd = open_what(what, &mode);
	if (fd < 0)
		return fd;
	if (fm_tsys_chmod_opened(fd, 0700) == 0) {
		ret = fm_tsys_rename_free(what->dir, what->from, dir, what->name);
		(void)fm_tsys_chmod_opened(fd, mode);	/* it was possible just now */
	}
	(void)close(fd);	/* only looked at */
	return ret;
}

void fm_stash_put_back(int stash, const char *name, int dir, const char *from)
{
	char beside[FM_STAGING_NAME_LEN + 1];
	int ret = fm_tsys_rename_free(stash, name, dir, from);

	if (ret == 0)
		return;
	fm_staging_name(FM_STAGING_KEPT, "", beside);
	ret = fm_tsys_rename_free(stash, name, dir, beside);
	if (ret == 0)
		fm_log_warn("what somebody called %s just now is %s beside it: that name was taken "
			    "again",
			    from, beside);
	else
		fm_log_warn("what somebody called %s just now lies in a .fmove.HASH.old and stays "
			    "there: %s",
			    from, fm_err_name(ret));
}

/*
 * Moves the tree into the open stash. The name may lead to something else by then: that is moved
 * back, -ESTALE. After any other error nothing has moved. A tree that cannot be looked at is moved
 * back. If that fails too, it stays in the stash and 0 is returned: only the inode that the mark
 * names is ever removed from a stash.
 */
static int move_in(const struct fm_stash_what *what, int stash)
{
	struct stat st;
	int ret = rename_to(what, stash);

	if (ret < 0)
		return ret;
	ret = fm_tsys_fstatat(stash, what->name, &st);
	if (ret < 0)
		return fm_tsys_rename_free(stash, what->name, what->dir, what->from) == 0 ? ret : 0;
	if (st.st_ino == what->ino)
		return 0;
	fm_stash_put_back(stash, what->name, what->dir, what->from);
	return -ESTALE;
}

static bool is_file(int dir, const char *name)
{
	struct stat st;

	return fm_tsys_fstatat(dir, name, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Best effort: without it nothing can be verified with it any more. A directory of that name is
 * somebody's, who could not move it out again.
 */
static void bring_manifest(const struct fm_stash_what *what, int dir)
{
	char manifest[FM_MANIFEST_NAME_LEN + 1];
	struct fm_manifest_key key;

	if (fm_manifest_key_at(dir, what->name, &key) < 0)
		return;
	fm_manifest_name(&key, manifest);
	if (is_file(what->dir, manifest) && renameat(what->dir, manifest, dir, manifest) == 0 &&
	    !is_file(dir, manifest))
		fm_stash_put_back(dir, manifest, what->dir, manifest);
}

int fm_stash_keep(const struct fm_stash_what *what, int parent, enum fm_staging_kind kind,
		   char stash[FM_STAGING_NAME_LEN + 1])
{
	char mark[MARK_LEN + 1];
	int ret = -EEXIST, fd;

	mark_of(what->ino, kind, mark);
	/* -ENOENT: somebody who clears up found the stash while nothing was in it. */
	for (int i = 0; i < TRIES_MAX && (ret == -EEXIST || ret == -ENOENT); i++) {
		ret = fd = make(parent, kind, mark, stash);
		if (fd < 0)
			continue;
		ret = move_in(what, fd);
		if (ret < 0) {
			drop(parent, stash, fd, mark);
			continue;
		}
		bring_manifest(what, fd);
		(void)close(fd);	/* only read */
	}
	return ret;
}

/* -------------------------------------------------------------------------------------- its end */

/*
 * Removes a stash that holds nothing: its mark, then the directory, if it is empty. Another user
 * may have made that directory, but a user who could make it could also remove it. -ENOTEMPTY:
 * something was put into it meanwhile, and it has its mark again.
 */
static int remove_empty(int parent, const char *stash, const struct found *f)
{
	int ret = f->mark[0] ? fm_tsys_unlink(f->fd, f->mark, 0) : 0;
	char mark[MARK_LEN + 1];

	if (ret == 0 || ret == -ENOENT)
		ret = fm_tsys_unlink(parent, stash, AT_REMOVEDIR);
	if (ret != -ENOTEMPTY && ret != -EEXIST)
		return ret == -ENOENT ? 0 : ret;
	if (f->mark[0]) {
		mark_of(f->ino, f->kind, mark);
		(void)put_mark(f->fd, mark);
	}
	return -ENOTEMPTY;
}

int fm_stash_give_back(int parent, const char *stash, uint64_t ino)
{
	struct found f;
	int ret = find(parent, stash, &f);
	struct fm_stash_what what = {.dir = f.fd, .from = f.name, .ino = ino, .name = f.name};

	if (ret < 0)
		return ret;
	ret = f.ino == ino && f.name[0] ? rename_to(&what, parent) : -ESTALE;
	if (ret == 0) {
		bring_manifest(&what, parent);
		(void)remove_empty(parent, stash, &f);	/* it holds nothing: a sweep removes it */
	}
	(void)close(f.fd);	/* only read */
	return ret;
}

static int wanted_in(const struct found *f)
{
	int wanted = f->name[0] ? fm_wanted_in(f->fd, f->name) : FM_WANTED_NOTHING;
	bool is_kept = f->name[0] && f->kind == FM_STAGING_KEPT;

	return is_kept && wanted == FM_WANTED_NOTHING ? FM_WANTED_KEPT : wanted;
}

int fm_stash_wanted(int parent, const char *stash)
{
	struct found f;
	int ret = find(parent, stash, &f);

	if (ret < 0)
		return ret;
	ret = wanted_in(&f);
	(void)close(f.fd);	/* only read */
	return ret;
}

static int may_go(const struct found *f, const struct fm_stash_rule *rule)
{
	int at_most = rule->at_most(rule->ctx, f->kind, &f->st), wanted;

	if (at_most < 0 || at_most == FM_WANTED_BUSY)
		return at_most < 0 ? at_most : 0;
	wanted = wanted_in(f);
	if (wanted < 0)
		return wanted;
	return wanted > at_most ? -EBUSY : 0;
}

/* ino: of what it must hold; 0: whatever. */
static int remove_stash(int parent, const char *stash, uint64_t ino,
			const struct fm_stash_rule *rule, const struct fm_tree_freed *freed)
{
	struct found f;
	int ret = find(parent, stash, &f);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = ino && f.ino != ino ? -ESTALE : may_go(&f, rule);
	if (ret == 0 && f.name[0])
		ret = fm_tree_remove_known(f.fd, f.name, f.ino, freed);
	if (ret == 0)
		ret = remove_empty(parent, stash, &f);
	(void)close(f.fd);	/* only read */
	return ret;
}

int fm_stash_remove_by(int parent, const char *stash, const struct fm_stash_rule *rule,
		       const struct fm_tree_freed *freed)
{
	return remove_stash(parent, stash, 0, rule, freed);
}

static int always(const void *ctx, enum fm_staging_kind kind, const struct stat *stash)
{
	(void)kind;
	(void)stash;
	return (int)*(const enum fm_wanted *)ctx;
}

int fm_stash_remove_unwanted(int parent, const char *stash, const struct fm_tree_freed *freed)
{
	static const enum fm_wanted nothing = FM_WANTED_NOTHING;

	return fm_stash_remove_by(parent, stash, &(struct fm_stash_rule){always, &nothing}, freed);
}

int fm_stash_remove(int parent, const char *stash, uint64_t ino, const struct fm_tree_freed *freed)
{
	static const enum fm_wanted anything = FM_WANTED_BUSY;

	return remove_stash(parent, stash, ino, &(struct fm_stash_rule){always, &anything}, freed);
}
