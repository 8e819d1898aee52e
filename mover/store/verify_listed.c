/* SPDX-License-Identifier: MIT */
/*
 * verify_listed - what the manifest of a tree lists (../tree/manifest.h), compared with what is
 * there.
 *
 * Happy path: each entry in turn, its directory opened once for those that follow one another; what
 * was listed is remembered, so that the walk that follows passes over it. Failure modes: it is not
 * there: a finding. The manifest is damaged: a finding, and the rest of the tree is told by the
 * digests that were kept with its files. A directory in the tree has a manifest of its own, since a
 * tree was put into it later: what is below is its business.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/store/sys.h"
#include "mover/store/verify_priv.h"
#include "mover/tree/manifest.h"
#include "mover/tree/tsys.h"

#define SEEN_FIRST 4096u

/* One manifest, on its way. */
struct listing {
	struct fm_verify_run *r;
	struct fm_manifest_reader m;
	char top[FM_VERIFY_PATH_MAX];		/* of its directory */
	int parent;				/* where it was ... */
	const char *name;			/* ... and under which name */
	struct fm_manifest_key key;
	int root;				/* that directory */
	bool is_gone;				/* it is another one's name now */
	const char *below;			/* only what is there; "": all */
	int64_t met;
	/* Of the directory of the entry before: */
	bool has_dir;
	bool is_nested;				/* it is another manifest's business */
	int dir;				/* or the error of opening it */
	size_t dir_len;
	char dir_path[FM_TREE_PATH_MAX + 1];
};

/* ---- what was listed ---- */

static uint64_t hash_of(const struct fm_verify_seen *seen, const char *path)
{
	uint64_t hash = fm_siphash(&seen->key, path, strlen(path)).low;

	return hash ? hash : 1;
}

/* Where it is, or where it goes. */
static uint64_t *slot_of(const struct fm_verify_seen *seen, uint64_t hash)
{
	size_t i = hash & (seen->cap - 1);

	while (seen->at[i] != 0 && seen->at[i] != hash)
		i = (i + 1) & (seen->cap - 1);
	return &seen->at[i];
}

static bool seen_grow(struct fm_verify_seen *seen)
{
	struct fm_verify_seen wider = {.key = seen->key,
				       .cap = seen->cap ? seen->cap * 2 : SEEN_FIRST};

	wider.at = fm_budget_alloc(wider.cap * sizeof(*wider.at));
	if (!wider.at)
		return false;
	for (size_t i = 0; i < seen->cap; i++)
		if (seen->at[i] != 0)
			*slot_of(&wider, seen->at[i]) = seen->at[i];
	wider.count = seen->count;
	fm_budget_free(seen->at);
	*seen = wider;
	return true;
}

/* Whether the path may have been cut. Then it might be any. */
static bool is_cut(const struct fm_verify_run *r)
{
	return strlen(r->path) == sizeof(r->path) - 1;
}

/*
 * Remembers a file that was compared. Without memory for it, it is compared once more: more work,
 * and no harm.
 */
static void remember(struct fm_verify_run *r)
{
	struct fm_verify_seen *seen = &r->seen;
	uint64_t hash, *slot;

	if (is_cut(r))
		return;
	if (seen->cap == 0)
		fm_random_real.fill(fm_random_real.ctx, &seen->key, sizeof(seen->key));
	if (seen->count >= seen->cap / 4 * 3 && !seen_grow(seen) && seen->count + 1 >= seen->cap)
		return;
	hash = hash_of(seen, r->path);
	slot = slot_of(seen, hash);
	seen->count += *slot == 0;
	*slot = hash;
}

bool fm_verify_was_listed(const struct fm_verify_run *r)
{
	return r->seen.cap > 0 && !is_cut(r) && *slot_of(&r->seen, hash_of(&r->seen, r->path)) != 0;
}

void fm_verify_forget(struct fm_verify_run *r)
{
	fm_budget_free(r->seen.at);
	r->seen = (struct fm_verify_seen){ .count = 0 };
}

/* ---- the directory of an entry ---- */

static bool has_manifest(int parent, const char *name)
{
	char manifest[FM_MANIFEST_NAME_LEN + 1];
	struct fm_manifest_key key;
	struct stat st;

	if (fm_manifest_key_at(parent, name, &key) < 0)
		return false;
	fm_manifest_name(&key, manifest);
	return fstatat(parent, manifest, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether the directory or one above it, below the manifest's own, has a manifest of its own. */
static bool is_nested(const struct listing *l)
{
	char path[FM_TREE_PATH_MAX + 1];
	bool is = false;

	memcpy(path, l->dir_path, l->dir_len + 1);
	for (char *name = path; !is && *name;) {
		char *end = strchr(name, '/');
		int parent;

		if (name > path)
			name[-1] = '\0';
		parent = fm_tsys_open_below(l->root, name > path ? path : ".");
		if (name > path)
			name[-1] = '/';
		if (end)
			*end = '\0';
		is = parent >= 0 && has_manifest(parent, name);
		if (parent >= 0)
			close(parent);
		if (!end)
			break;
		*end = '/';
		name = end + 1;
	}
	return is;
}

static void close_dir(struct listing *l)
{
	if (l->has_dir && l->dir >= 0)
		close(l->dir);
	l->has_dir = false;
}

/* Opens the directory of an entry's path, unless it is open. Returns the name in it. */
static const char *enter(struct listing *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (!l->has_dir || l->dir_len != len || memcmp(l->dir_path, path, len) != 0) {
		close_dir(l);
		memcpy(l->dir_path, path, len);
		l->dir_path[len] = '\0';
		l->dir_len = len;
		l->has_dir = true;
		l->is_nested = is_nested(l);
		l->dir = fm_tsys_open_below(l->root, len > 0 ? l->dir_path : ".");
	}
	return slash ? slash + 1 : path;
}

/* ---- one entry ---- */

/*
 * Whether the version that is read was replaced meanwhile. Then it is being removed, and nothing of
 * it counts as missing.
 */
static bool is_replaced(const struct listing *l)
{
	struct fm_manifest_key now;
	int ret = fm_manifest_key_at(l->parent, l->name, &now);

	return ret == -ENOENT ||
	       (ret == 0 && (now.ino != l->key.ino || now.birth_ns != l->key.birth_ns));
}

static int say_missing(struct listing *l, uint64_t size)
{
	l->is_gone = is_replaced(l);
	if (l->is_gone)
		return 0;
	fm_verify_add(l->r->v, &l->r->v->count.files, 1);
	return fm_verify_say(l->r, FM_FINDING_MISSING, 0, size);
}

static int check_file(struct listing *l, const char *name, const struct fm_pack_entry *e)
{
	const struct fm_verify_listed listed = {.size = e->size,
						.mtime_ns = e->mtime_ns,
						.has_crc = (e->flags & FM_PACK_HAS_CRC) != 0,
						.crc = e->crc};
	int ret = l->dir < 0 ? -ENOENT : fm_verify_file(l->r, l->dir, name, &listed);

	return ret == -ENOENT ? say_missing(l, e->size) : ret;
}

/* Looks at the file that a hard link's entry names. */
static int look_at_first(struct listing *l, const struct fm_pack_entry *e, struct stat *out)
{
	char path[FM_TREE_PATH_MAX + 1];
	char *slash;
	int dir, ret;

	memcpy(path, e->target, e->target_len);
	path[e->target_len] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	dir = fm_tsys_open_below(l->root, slash ? path : ".");
	if (dir < 0)
		return dir;
	ret = fm_sys_fstatat(dir, slash ? slash + 1 : path, out);
	close(dir);
	return ret;
}

/* Checks a hard link: it must lead to the same file as the entry that it names. */
static int check_hard(struct listing *l, const char *name, const struct fm_pack_entry *e)
{
	struct stat st, first;
	int ret = l->dir < 0 ? -ENOENT : fm_sys_fstatat(l->dir, name, &st);

	if (ret < 0)
		return ret == -ENOENT ? say_missing(l, 0) : ret;
	ret = look_at_first(l, e, &first);
	if (ret == 0 && first.st_ino == st.st_ino && first.st_dev == st.st_dev)
		return 0;
	fm_verify_add(l->r->v, &l->r->v->count.files, 1);
	return fm_verify_say(l->r, FM_FINDING_CHANGED, 0, 0);
}

static int check_link(struct listing *l, const char *name, const struct fm_pack_entry *e)
{
	char target[FM_TREE_PATH_MAX + 1];
	ssize_t len = l->dir < 0 ? -1 : readlinkat(l->dir, name, target, sizeof(target));

	if (len == (ssize_t)e->target_len && memcmp(target, e->target, e->target_len) == 0)
		return 0;
	if (l->dir < 0 || (len < 0 && errno == ENOENT))
		return say_missing(l, 0);
	fm_verify_add(l->r->v, &l->r->v->count.files, 1);
	return fm_verify_say(l->r, FM_FINDING_CHANGED, 0, 0);
}

/*
 * Judges an entry whose directory cannot be opened: for want of descriptors or memory, which says
 * nothing of the entry, or because nobody may open it.
 */
static int meet_closed(struct listing *l)
{
	if (l->dir != -EACCES && l->dir != -EPERM && l->dir != -EIO)
		return l->dir;
	fm_verify_add(l->r->v, &l->r->v->count.files, 1);
	return fm_verify_say(l->r, FM_FINDING_UNREADABLE, 0, 0);
}

static bool is_below(const char *path, const char *below)
{
	size_t len = strlen(below);

	return len == 0 ||
	       (strncmp(path, below, len) == 0 && (path[len] == '\0' || path[len] == '/'));
}

static void set_path(struct listing *l, const char *path)
{
	struct fm_verify_run *r = l->r;
	size_t len =
		(size_t)snprintf(r->path, sizeof(r->path), "%s%s", l->top, l->top[0] ? "/" : "");

	if (len < sizeof(r->path))
		/* cut: for people */
		(void)snprintf(r->path + len, sizeof(r->path) - len, "%s", path);
}

static int check_entry(struct listing *l, const struct fm_pack_entry *e)
{
	struct fm_verify_run *r = l->r;
	char path[FM_TREE_PATH_MAX + 1];
	const char *name;

	memcpy(path, e->path, e->path_len);
	path[e->path_len] = '\0';
	if (!is_below(path, l->below))
		return 0;
	name = enter(l, path);
	set_path(l, path);
	if (l->is_nested || fm_verify_was_listed(r))
		return 0;
	remember(r);
	l->met++;
	if (l->dir < 0 && l->dir != -ENOENT && l->dir != -ENOTDIR && l->dir != -ELOOP)
		return meet_closed(l);
	switch (e->type) {
	case FM_PACK_HARD:
		return check_hard(l, name, e);
	case FM_PACK_LINK:
		return check_link(l, name, e);
	default:
		return check_file(l, name, e);
	}
}

static int check_all(struct listing *l)
{
	struct fm_pack_entry e;
	int ret = 0, more = 0;

	while (ret == 0 && !l->is_gone && (more = fm_manifest_next(&l->m, &e)) > 0)
		ret = fm_verify_is_stopped(l->r->v) ? -ECANCELED : check_entry(l, &e);
	if (ret < 0 || more >= 0)
		return ret;
	/* What it listed is not known: that is damage, too. */
	(void)snprintf(l->r->path, sizeof(l->r->path), "%s", l->top);
	return fm_verify_say(l->r, more == -EBADMSG ? FM_FINDING_CORRUPT : FM_FINDING_UNREADABLE, 0,
			     0);
}

/*
 * Whether an error is a failure of the verification itself, and says nothing of what it looks at.
 */
static bool is_ours(int ret)
{
	return ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE;
}

/*
 * Opens the manifest of the directory. 1: it is open; 0: there is none. It is found by the open
 * directory, whatever has its name now.
 */
static int open_manifest(struct listing *l)
{
	int ret = fm_manifest_key(l->root, &l->key);

	if (ret == 0)
		ret = fm_manifest_open(&l->m, l->parent, &l->key);
	if (ret == 0)
		return 1;
	if (ret == -ENOENT || ret == -EOPNOTSUPP)
		return 0;
	if (is_ours(ret))
		return ret;
	/* What is missing is not told without it: to say nothing would be that nothing is. */
	return fm_verify_say(l->r, ret == -EBADMSG ? FM_FINDING_CORRUPT : FM_FINDING_UNREADABLE, 0,
			     0);
}

int64_t fm_verify_listed(struct fm_verify_run *r, int parent, const char *name, const char *below)
{
	struct listing *l = fm_sys_alloc(sizeof(*l));
	int64_t ret;

	if (!l)
		return -ENOMEM;
	l->r = r;
	l->below = below;
	l->parent = parent;
	l->name = name;
	memcpy(l->top, r->path, sizeof(l->top));
	l->root = fm_tsys_open(parent, name, O_RDONLY | O_DIRECTORY, 0);
	ret = l->root >= 0 ? open_manifest(l) : is_ours(l->root) ? l->root : 0;
	if (ret > 0) {
		ret = check_all(l);
		close_dir(l);
		fm_manifest_free(&l->m);
		if (ret == 0)
			ret = l->met;
	}
	if (l->root >= 0)
		close(l->root);
	memcpy(r->path, l->top, sizeof(l->top));
	free(l);
	return ret;
}
