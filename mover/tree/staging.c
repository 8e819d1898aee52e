/* SPDX-License-Identifier: MIT */
/*
 * staging - the directory in which a tree is made.
 *
 * The lock file has 16 hex digits, the inode of data; an m if what only the old version has comes
 * into the new one, else a dash; 16 more, the inode of the old version; and behind an @ 16 more,
 * when data was made. Earlier versions wrote less of that.
 */
#include "mover/tree/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/tree/stash.h"
#include "mover/tree/manifest.h"
#include "mover/tree/tsys.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)
#define GONE_NAME "gone"	/* the name in a stash of a tree that is being removed */
#define LOCK_TRIES_MAX 64
#define HEX_LEN	       16
#define HEX_AT (sizeof(FM_STAGING_PREFIX) - 1)
#define STATE_LEN      (HEX_LEN + 1 + HEX_LEN + 1 + HEX_LEN)

/* ---------------------------------------------------------------------------------------- names */

bool fm_staging_is_ours(const char *name)
{
	return fm_staging_kind(name) != FM_STAGING_NONE ||
	       fm_partial_parse(name, NULL) != FM_PARTIAL_NONE || fm_manifest_is_name(name);
}

/* ----------------------------------------------------------------------------------------- lock */

/* Whether the name still leads to what fd refers to. */
static bool is_still(int dir, const char *name, int fd)
{
	struct stat by_name, by_fd;

	return fstatat(dir, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &by_fd) == 0 &&
	       by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

/* 0, -EBUSY, -EAGAIN: it was removed meanwhile. */
static int try_lock(int parent, const char *name, int dir, int lock)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (FM_FAULT("tree.lock"))
		return -EIO;
	if (fcntl(lock, F_OFD_SETLK, &whole) < 0)
		return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
	return is_still(parent, name, dir) && is_still(dir, FM_STAGED_LOCK, lock) ? 0 : -EAGAIN;
}

/* Refuses a staging directory that another user can change: the parent may be anybody's. */
static int check_owner(int dir)
{
	struct stat st;
	int ret = fm_tsys_fstat(dir, &st);

	if (ret < 0)
		return ret;
	return fm_tsys_is_private(&st) ? 0 : -EPERM;
}

static bool is_lock(int dir, const char *name)
{
	(void)dir;
	return strcmp(name, FM_STAGED_LOCK) == 0;
}

static int is_any(void *ctx, int dir, const char *name)
{
	(void)ctx;
	(void)dir;
	(void)name;
	return 1;
}

static bool is_empty_dir(int parent, const char *name)
{
	int dir = fm_tsys_open(parent, name, DIR_FLAGS, 0);
	bool is = dir >= 0 && fm_tsys_each_name(dir, is_any, NULL) == 0;

	if (dir >= 0)
		close(dir);
	return is;
}

/*
 * What is made in there. An entry on its way from there may have changed places with what somebody
 * saved just then, which is nowhere else: only an empty directory of that name is surely ours.
 */
static bool is_of_staging(int dir, const char *name)
{
	static const char *const names[] = {FM_STAGED_LOCK,  FM_STAGED_JOURNAL,	 FM_STAGED_DATA,
					    FM_STAGED_SPOOL, FM_STAGED_MANIFEST, FM_STAGED_CARRIED};

	if (strcmp(name, FM_STAGED_MADE) == 0)
		return is_empty_dir(dir, name);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, FM_STAGED_WAS, strlen(FM_STAGED_WAS)) == 0 ||
	       strncmp(name, FM_STAGED_PROBE, strlen(FM_STAGED_PROBE)) == 0;
}

static int is_other(void *ctx, int dir, const char *name)
{
	bool (*const *is_one)(int dir, const char *name) = ctx;

	return !(*is_one)(dir, name);
}

/* Whether it has names but those; also if nobody can say. */
static bool has_names_but(int dir, bool (*is_one)(int dir, const char *name))
{
	return fm_tsys_each_name(dir, is_other, &is_one) != 0;
}

/*
 * Whether it is empty or all zeros: what a power cut left of a lock whose content nobody waited
 * for. ext4 can have its length on the disk before its content.
 */
static bool is_lost_lock(int lock)
{
	char text[STATE_LEN + 1];
	ssize_t len = pread(lock, text, sizeof(text), 0);

	for (ssize_t i = 0; i < len; i++)
		if (text[i] != '\0')
			return false;
	return len >= 0 && len <= STATE_LEN;
}

/* Whether the directory has a journal of fmove, or what a power cut left of one. */
static bool has_journal(int dir)
{
	int fd = fm_tsys_open(dir, FM_STAGED_JOURNAL, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct fm_journal_opts journal;
	uint64_t bytes;
	struct stat st;
	bool has = fd >= 0 && fm_tsys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		   (fm_journal_is_blank(fd) || fm_journal_peek(fd, &journal, &bytes) == 0);

	if (fd >= 0)
		close(fd);
	return has;
}

/* Another one may make the first things in it just now, the lock first; or have removed it. -EPERM:
 * it is none. */
static int make_lock(int parent, const char *name, int dir)
{
	int flags = has_names_but(dir, is_lock) ? O_RDWR : O_RDWR | O_CREAT;
	int ret = fm_tsys_open(dir, FM_STAGED_LOCK, flags, 0600);

	if (ret != -ENOENT)
		return ret;
	return is_still(parent, name, dir) ? -EPERM : -EAGAIN;
}

/* The directory and its lock file, both open. */
static int open_both(int parent, const char *name, int *dir, int *lock, bool makes_lock)
{
	int ret;

	*dir = fm_tsys_open(parent, name, DIR_FLAGS, 0);
	if (*dir < 0)
		return *dir;
	ret = check_owner(*dir);
	if (ret == 0)
		ret = *lock = fm_tsys_open(*dir, FM_STAGED_LOCK, O_RDWR, 0);
	if (ret == -ENOENT && makes_lock)
		ret = *lock = make_lock(parent, name, *dir);
	if (ret >= 0)
		return 0;
	close(*dir);
	return ret;
}

/*
 * Locked. Any directory may have a file of that name: what is no staging directory yet must be
 * empty. But nobody waits for the disk to have what the lock says, and a power cut leaves one that
 * says nothing, with the journal, which is made next. Such a directory has no names but ours.
 */
static int take(int dir, int lock)
{
	struct fm_staging_state state;
	int ret = fm_staging_read(lock, &state);

	if (ret != -EBADMSG)
		return ret;
	if (has_names_but(dir, is_lock))
		return is_lost_lock(lock) && has_journal(dir) && !has_names_but(dir, is_of_staging)
			       ? 0
			       : -EPERM;
	return fm_staging_write(lock, &(struct fm_staging_state){ .data_ino = 0 });
}

int fm_staging_lock(int parent, const char *tree_name, int *dir_fd, int *lock_fd)
{
	int dir, lock, ret = -EAGAIN;

	for (int i = 0; i < LOCK_TRIES_MAX && (ret == -EAGAIN || ret == -ENOENT); i++) {
		ret = fm_tsys_mkdir(parent, tree_name);
		if (ret == 0 || ret == -EEXIST)
			ret = open_both(parent, tree_name, &dir, &lock, true);
		if (ret < 0)
			continue;
		ret = try_lock(parent, tree_name, dir, lock);
		if (ret == 0)
			ret = take(dir, lock);
		if (ret == 0) {
			*dir_fd = dir;
			*lock_fd = lock;
			return 0;
		}
		fm_staging_unlock(lock);
		close(dir);
	}
	return ret;
}

/* To close it is not enough: the lock belongs to the description, which a child may have, too. */
void fm_staging_unlock(int lock_fd)
{
	struct flock whole = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	(void)fcntl(lock_fd, F_OFD_SETLK, &whole);
	close(lock_fd);
}

int fm_staging_write(int lock_fd, const struct fm_staging_state *state)
{
	char text[STATE_LEN + 1];

	(void)snprintf(text, sizeof(text), "%016" PRIx64 "%c%016" PRIx64 "@%016" PRIx64,
		       state->data_ino, state->is_merging ? 'm' : '-', state->old_ino,
		       state->begun_ns);
	return fm_tsys_write_all(lock_fd, text, STATE_LEN, 0);
}

int fm_staging_read(int lock_fd, struct fm_staging_state *state)
{
	char text[STATE_LEN + 1] = "", *end = text;

	if (pread(lock_fd, text, STATE_LEN, 0) < 0)
		return -errno;
	if (strspn(text, "0123456789abcdef") != HEX_LEN)
		return -EBADMSG;
	*state = (struct fm_staging_state){.data_ino = strtoull(text, NULL, 16),
					   .is_merging = text[HEX_LEN] == 'm'};
	if (text[HEX_LEN])
		state->old_ino = strtoull(text + HEX_LEN + 1, &end, 16);
	if (*end == '@')
		state->begun_ns = strtoull(end + 1, NULL, 16);
	return 0;
}

/* -------------------------------------------------------------------------------------- removal */

/*
 * Removes the directory with that inode. It moves into a stash first: so it loses its name at once,
 * and a sweep removes the rest if this process dies. A full disk may have no room for a stash.
 */
static int remove_known(int parent, const char *name, uint64_t ino,
			const struct fm_tree_freed *freed, void (*first)(void *ctx), void *ctx)
{
	const struct fm_stash_what what = {
		.dir = parent, .from = name, .ino = ino, .name = GONE_NAME};
	char stash[FM_STAGING_NAME_LEN + 1];
	int ret = fm_stash_keep(&what, parent, FM_STAGING_OLD, stash);

	if (first)
		first(ctx);
	if (ret == 0) {
		ret = fm_stash_remove(parent, stash, ino, freed);
		/* the stash has another name now, and goes later */
		return ret == -ESTALE ? -EAGAIN : ret;
	}
	return ret == -ESTALE ? ret : fm_tree_remove_known(parent, name, ino, freed);
}

int fm_staging_remove_opened(int parent, const char *name, int fd,
			     const struct fm_tree_freed *freed, void (*first)(void *ctx), void *ctx)
{
	struct stat st;
	int ret = fm_tsys_fstat(fd, &st);

	if (ret == 0)
		return remove_known(parent, name, st.st_ino, freed, first, ctx);
	if (first)
		first(ctx);
	return ret;
}

/* The names of the .tree that guards a .tree or .new, and of its .new. */
static void guard_of(const char *name, char tree[FM_STAGING_NAME_LEN + 1])
{
	snprintf(tree, FM_STAGING_NAME_LEN + 1, "%.*s.tree", (int)(HEX_AT + HEX_LEN), name);
}

static void new_of(const char *name, char new[FM_STAGING_NAME_LEN + 1])
{
	snprintf(new, FM_STAGING_NAME_LEN + 1, "%.*s.new", (int)(HEX_AT + HEX_LEN), name);
}

/* -EPERM: no staging directory of ours, whatever its name, so that nothing is known by it. */
static bool is_none(int ret)
{
	return ret == -ENOENT || ret == -ENOTDIR || ret == -ELOOP || ret == -EPERM;
}

/*
 * What the .new name holds, which any user may have made. FM_STAGING_NEW: the finished tree, or
 * nothing. On an error nobody can say.
 */
static int kind_of_new(int parent, const char *new, const struct fm_staging_state *state,
		       enum fm_staging_kind *kind)
{
	struct stat st;
	int ret = state->data_ino ? fm_tsys_fstatat(parent, new, &st) : -ENOENT;

	*kind = FM_STAGING_NEW;
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (st.st_ino == state->data_ino)
		return 0;
	if (state->is_merging)
		*kind = FM_STAGING_KEPT;
	else if (st.st_ino == state->old_ino)
		*kind = FM_STAGING_OLD;
	return 0;
}

int fm_staging_look(int parent, const char *name, enum fm_staging_kind *kind)
{
	struct fm_staging_state state;
	char tree[FM_STAGING_NAME_LEN + 1];
	int dir, lock, ret;

	*kind = fm_staging_kind(name);
	if (*kind != FM_STAGING_NEW)
		return 0;
	guard_of(name, tree);
	ret = open_both(parent, tree, &dir, &lock, false);
	if (ret < 0)
		return is_none(ret) ? 0 : ret;
	ret = fm_staging_read(lock, &state);
	if (ret == 0)
		ret = kind_of_new(parent, name, &state, kind);
	close(lock);
	close(dir);
	return ret == -EBADMSG ? 0 : ret;
}

enum fm_staging_kind fm_staging_kind_at(int parent, const char *name)
{
	enum fm_staging_kind kind;

	/* on an error, the kind that the name says */
	(void)fm_staging_look(parent, name, &kind);
	return kind;
}

/* A .new of fmove has its .tree beside it. One without a .tree is somebody else's: -EPERM. */
static int lock_guard(int parent, const char *tree, int *dir, int *lock)
{
	int ret = open_both(parent, tree, dir, lock, false);

	if (ret < 0)
		return ret == -ENOENT ? -EPERM : ret;
	ret = try_lock(parent, tree, *dir, *lock);
	if (ret < 0) {
		fm_staging_unlock(*lock);
		close(*dir);
	}
	return ret;
}

/*
 * A process died after it had replaced a version: puts that version aside, as the process would
 * have done. 1: done. 0: there is none. -EPERM: what has its name is somebody else's.
 */
static int put_new_aside(int parent, const char *new, const struct fm_staging_state *state)
{
	const struct fm_stash_what what = {
		.dir = parent, .from = new, .ino = state->old_ino, .name = GONE_NAME};
	enum fm_staging_kind kind;
	char stash[FM_STAGING_NAME_LEN + 1];
	int ret = kind_of_new(parent, new, state, &kind);

	if (ret < 0 || kind == FM_STAGING_NEW)
		return ret;
	ret = state->old_ino == 0 ? -EPERM : fm_stash_keep(&what, parent, kind, stash);
	return ret == 0 ? 1 : ret == -ESTALE ? -EPERM : ret;
}

/*
 * Whether the locked tree is old enough. A .new is looked at by name, and must be the inode that
 * the lock file names.
 */
static int ask_age(int parent, const char *name, int dir, const struct fm_staging_state *state,
		   const struct fm_staging_age *age)
{
	bool is_new = fm_staging_kind(name) == FM_STAGING_NEW;
	struct stat st, journal;
	int ret = is_new ? fm_tsys_fstatat(parent, name, &st) : fm_tsys_fstat(dir, &st);

	if (ret < 0)
		return ret;
	if (is_new && st.st_ino != state->data_ino)
		return -EPERM;
	ret = is_new ? -ENOENT : fm_tsys_fstatat(dir, FM_STAGED_JOURNAL, &journal);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	return age->is_old(age->ctx, &st, ret == 0 ? &journal : NULL) ? 0 : -EAGAIN;
}

/* Under the lock. */
static int sweep_locked(int parent, const char *name, int dir, int lock,
			const struct fm_staging_age *age, const struct fm_tree_freed *freed)
{
	struct fm_staging_state state = { .data_ino = 0 };
	char new[FM_STAGING_NAME_LEN + 1], tree[FM_STAGING_NAME_LEN + 1];
	bool is_new = fm_staging_kind(name) == FM_STAGING_NEW;
	int ret;

	new_of(name, new);
	guard_of(name, tree);
	ret = fm_staging_read(lock, &state);
	if (ret < 0 && ret != -EBADMSG)		/* that says nothing, so it knows none */
		return ret;
	ret = put_new_aside(parent, new, &state);
	if (ret < 0 && (is_new || ret != -EPERM))
		return ret;
	if (is_new && ret > 0)
		return -EAGAIN;
	ret = ask_age(parent, name, dir, &state, age);
	if (ret < 0)
		return ret;
	ret = state.data_ino == 0 ? -ESTALE
				  : remove_known(parent, new, state.data_ino, freed, NULL, NULL);
	if (ret == -ESTALE)	/* somebody else's */
		ret = is_new ? -EPERM : 0;
	return ret < 0 ? ret : fm_staging_remove_opened(parent, tree, dir, freed, NULL, NULL);
}

/*
 * Removes an old unfinished tree with what belongs to it. Its lock is held until all of it is
 * removed.
 */
static int sweep_guarded(int parent, const char *name, const struct fm_staging_age *age,
			 const struct fm_tree_freed *freed)
{
	char tree[FM_STAGING_NAME_LEN + 1];
	int dir, lock, ret;

	guard_of(name, tree);
	ret = fm_staging_kind(name) == FM_STAGING_NEW ? lock_guard(parent, tree, &dir, &lock)
						      : fm_staging_lock(parent, tree, &dir, &lock);
	if (ret < 0)
		return ret;
	ret = sweep_locked(parent, name, dir, lock, age, freed);
	fm_staging_unlock(lock);
	close(dir);
	return ret;
}

int fm_staging_sweep(int parent, const char *name, const struct fm_staging_age *age,
		     const struct fm_tree_freed *freed)
{
	switch (fm_staging_kind(name)) {
	case FM_STAGING_OLD:
	case FM_STAGING_KEPT:
		return fm_stash_remove_by(parent, name,
					  &(struct fm_stash_rule){age->at_most, age->ctx}, freed);
	case FM_STAGING_TREE:
	case FM_STAGING_NEW:
		return sweep_guarded(parent, name, age, freed);
	case FM_STAGING_NONE:
		break;
	}
	return -EINVAL;
}

/* Asked, not taken: a transfer that begins just now must not find it busy. */
static int is_locked(int lock)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (FM_FAULT("tree.asklock") || fcntl(lock, F_OFD_GETLK, &whole) < 0)
		return -ENOLCK;
	return whole.l_type != F_UNLCK;
}

int fm_staging_is_busy(int parent, const char *name)
{
	int dir = fm_tsys_open(parent, name, DIR_FLAGS, 0), lock, ret;

	if (dir < 0)
		return is_none(dir) ? 0 : dir;
	ret = lock = fm_tsys_open(dir, FM_STAGED_LOCK, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (lock >= 0) {
		ret = is_locked(lock);
		close(lock);
	}
	close(dir);
	return is_none(ret) || ret == -ENXIO ? 0 : ret;
}

int fm_staging_peek(int parent, const char *name, struct fm_staging_info *out)
{
	struct fm_staging_state state = { .data_ino = 0 };
	int dir, lock, journal;
	int ret = open_both(parent, name, &dir, &lock, false);

	*out = (struct fm_staging_info){ .is_busy = false };
	if (ret < 0)
		return ret;
	out->is_busy = is_locked(lock) > 0;
	out->is_lost = fm_staging_read(lock, &state) == -EBADMSG;
	out->data_ino = state.data_ino;
	close(lock);
	journal = fm_tsys_open(dir, FM_STAGED_JOURNAL, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	close(dir);
	if (journal < 0)
		return 0;
	out->has_journal = fm_journal_peek(journal, &out->journal, &out->bytes_there) == 0;
	close(journal);
	return 0;
}
