/* SPDX-License-Identifier: MIT */
/* group_dir - see group_dir.h. */
#include "mover/store/group_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/show.h"
#include "mover/journal/host.h"
#include "mover/store/origin.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/tree/stash.h"
#include "mover/tree/tsys.h"

#define SUFFIX ".group"
#define HEX_LEN 16

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return fm_time_ns(&now);
}

void fm_group_dir_name(const char *final, char out[static FM_GROUP_NAME_LEN + 1])
{
	(void)snprintf(out, FM_GROUP_NAME_LEN + 1, FM_PATH_RESERVED "%016" PRIx64 SUFFIX,
		       fm_partial_hash(final));
}

bool fm_group_is_name(const char *name)
{
	const char *hex = name + sizeof(FM_PATH_RESERVED) - 1;

	return fm_path_is_reserved(name) && strspn(hex, "0123456789abcdef") == HEX_LEN &&
	       strcmp(hex + HEX_LEN, SUFFIX) == 0;
}

int fm_group_dir_open(int parent, const char *name, struct fm_group_dir *out)
{
	struct stat st;
	int ret;

	(void)snprintf(out->name, sizeof(out->name), "%s", name);
	out->fd = fm_sys_open_dir(parent, name, true);
	if (out->fd == -ELOOP || out->fd == -ENOTDIR || out->fd == -EXDEV || out->fd == -EACCES)
		return -EPERM;
	if (out->fd < 0)
		return out->fd;
	ret = fm_sys_fstat(out->fd, &st);
	if (ret == 0 && !fm_tsys_is_private(&st))
		ret = -EPERM;
	if (ret < 0) {
		close(out->fd);
		return ret;
	}
	out->key = (struct fm_group_key){ st.st_dev, st.st_ino };
	return 0;
}

enum unsynced {
	UNSYNCED_NOTHING,
	UNSYNCED_NOW,
	/* an earlier start of this machine, or another machine; or it is not known any more */
	UNSYNCED_BEFORE,
};

/* Whether members came without a sync, and when; or an error. */
static int look_for_unsynced(int dir)
{
	uint8_t boot[FM_JOURNAL_ID_LEN];
	struct fm_journal_host here;
	int fd = fm_tsys_open(dir, FM_GROUP_UNSYNCED, O_RDONLY | O_NONBLOCK, 0), ret;
	int64_t len;

	if (fd < 0)
		return fd == -ENOENT ? UNSYNCED_NOTHING : fd;
	len = fm_call_read_all(fd, boot, sizeof(boot), 0);
	close(fd);
	if (len < (int64_t)sizeof(boot))
		return len < 0 ? (int)len : UNSYNCED_BEFORE;
	ret = fm_journal_host_here(&here);
	if (ret < 0)
		return ret;
	return fm_journal_host_is_same(boot, here.boot) ? UNSYNCED_NOW : UNSYNCED_BEFORE;
}

int fm_group_dir_read(struct fm_group_dir *g, struct fm_err *err)
{
	struct stat st;
	int ret = fm_group_record_read(g->fd, &g->record, err);

	if (ret < 0)
		return ret;
	if (g->record.dir_ino != g->key.ino)
		return fm_err_set(err, -EBADMSG, "the record of the group was copied");
	ret = fm_sys_fstatat(g->fd, FM_GROUP_MEMBERS, &st);
	if (ret < 0 && ret != -ENOENT)
		return fm_err_sys(err, ret, "look at the members of the group");
	g->is_open = ret == 0 && S_ISDIR(st.st_mode) && st.st_ino == g->record.ino;
	ret = fm_sys_fstatat(g->fd, FM_GROUP_LOST, &st);
	if (ret < 0 && ret != -ENOENT)
		return fm_err_sys(err, ret, "look whether a sync of the group failed");
	g->is_lost = ret == 0;
	ret = look_for_unsynced(g->fd);
	if (ret < 0)
		return fm_err_sys(err, ret, "look whether members of the group were synced");
	g->is_stale = ret == UNSYNCED_BEFORE;
	g->is_synced = ret == UNSYNCED_NOTHING && g->record.has_notes;
	return 0;
}

/* Where no origin is told, or the other way round than it was, the inode decides. */
static bool has_origin(int dir, const char *name, uint64_t origin)
{
	uint64_t now;

	return origin == 0 || fm_origin_find_lasting(dir, name, &now) < 0 ||
	       !fm_origin_is_alike(now, origin) || now == origin;
}

int fm_group_dir_is_at(const struct fm_group_dir *g, int parent, const char *name)
{
	struct stat st;
	int ret = fm_sys_fstatat(parent, name, &st);

	return ret < 0 ? ret
		       : S_ISDIR(st.st_mode) && st.st_ino == g->record.ino &&
				 has_origin(parent, name, g->record.origin);
}

static int write_boot(int dir, const char *name, const struct fm_journal_host *here,
		      bool is_synced)
{
	int fd = fm_tsys_open(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600), ret = fd;

	if (fd >= 0)
		ret = fm_tsys_write_all(fd, here->boot, sizeof(here->boot), 0);
	if (ret == 0 && is_synced)
		ret = fm_sys_fsync(fd);
	if (fd >= 0)
		(void)close(fd);	/* it was synced, or need not be */
	return ret;
}

/* By a rename: members that come at the same time meet a whole note, or none. */
static int write_note(int dir, bool is_synced)
{
	char name[sizeof(FM_GROUP_UNSYNCED) + 1 + HEX_LEN];
	struct fm_journal_host here;
	uint64_t random;
	int ret = fm_journal_host_here(&here);

	if (ret < 0)
		return ret;
	fm_random_real.fill(fm_random_real.ctx, &random, sizeof(random));
	(void)snprintf(name, sizeof(name), FM_GROUP_UNSYNCED ".%016" PRIx64, random);
	ret = write_boot(dir, name, &here, is_synced);
	if (ret == 0)
		ret = fm_tsys_rename(dir, name, dir, FM_GROUP_UNSYNCED, 0);
	if (ret < 0)
		(void)unlinkat(dir, name, 0);
	return ret == 0 && is_synced ? fm_tsys_fsync(dir) : ret;
}

/*
 * Where nothing is synced the note comes to the disk no later than the members' names, which are
 * made after it; what of it comes there in part is no boot's that goes on.
 */
int fm_group_dir_note_unsynced(struct fm_store_dir *sd, const struct fm_group_dir *g,
			       struct fm_err *err)
{
	int ret = fm_group_count_is_noted(&sd->groups, &g->key)
			  ? 1
			  : write_note(g->fd, sd->store.is_durable);

	if (ret == 0)
		fm_group_count_note(&sd->groups, &g->key);
	return ret < 0 ? fm_err_sys(err, ret, "write down that a member comes without a sync") : 0;
}

void fm_group_dir_published(struct fm_store_dir *sd, const struct fm_group_dir *g)
{
	if (sd->store.is_durable)
		fm_group_count_drop(&sd->groups, &g->key);
	else
		fm_group_count_publish(&sd->groups, &g->key);
}

void fm_group_dir_lose(struct fm_group_dir *g, const char *path, int why)
{
	int fd = fm_tsys_open(g->fd, FM_GROUP_LOST, O_WRONLY | O_CREAT, 0600);
	int ret = fd < 0 ? fd : fm_sys_fsync(fd);
	struct fm_path_shown shown;

	if (fd >= 0)
		(void)close(fd);	/* it was synced */
	if (ret == 0)
		ret = fm_tsys_fsync(g->fd);
	fm_log_error("the group for \"%s\": its members cannot be synced: %s%s%s",
		     fm_path_show(path, &shown), fm_err_name(why),
		     ret < 0 ? "; nor can it be written down that it must be discarded: " : "",
		     ret < 0 ? fm_err_name(ret) : "");
	g->is_lost = true;
}

int fm_group_dir_check_lost(const struct fm_group_dir *g, const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;

	if (!g->is_lost && !g->is_stale)
		return 0;
	return fm_err_set(err, -EIO,
			  "\"%s\": %s, and which of them are on the disk cannot be known any more: "
			  "discard the group (fmove group discard), and put them again in another "
			  "one",
			  fm_path_show(path, &shown),
			  g->is_lost ? "its members could not be synced"
				     : "members came without a sync (--durability memory) before "
				       "this machine was started anew");
}

void fm_group_dir_close(struct fm_group_dir *g)
{
	close(g->fd);
}

bool fm_group_dir_is_over(const struct fm_group_dir *g)
{
	return now_ns() >= g->record.expires_ns;
}

void fm_group_dir_begun(const struct fm_group_dir *g, struct fm_group_begun *out)
{
	int64_t ago_s = (now_ns() - g->record.begun_ns) / (int64_t)FM_NS_PER_S;

	(void)snprintf(out->text, sizeof(out->text), "uid %" PRIu32 "%s%s, %" PRId64 " s ago",
		       g->record.uid, g->record.peer[0] ? " of " : "", g->record.peer, ago_s);
}

static void freed(void *ctx, int64_t bytes)
{
	fm_usage_sub(&((struct fm_store_dir *)ctx)->usage, bytes < 0 ? (uint64_t)-bytes : 0);
}

/* Tells the index of what is kept aside where that is: beside the group's name. */
static void note_aside(struct fm_store_dir *sd, const char *path, const char *stash)
{
	const char *slash = strrchr(path, '/');
	char aside[FM_PATH_LEN_MAX + 1];
	int len = snprintf(aside, sizeof(aside), "%.*s%s", slash ? (int)(slash + 1 - path) : 0,
			   path, stash);

	if (len > 0 && (size_t)len < sizeof(aside))
		fm_aside_add(sd, aside);
}

int fm_group_dir_settle(struct fm_store_dir *sd, int parent, const char *path,
			const struct fm_group_dir *g)
{
	const struct fm_tree_freed told = { .used = freed, .ctx = sd };
	struct fm_stash_what what = {
		.dir = g->fd, .from = FM_GROUP_MEMBERS, .name = g->record.name};
	char stash[FM_STAGING_NAME_LEN + 1];
	struct stat st;
	int ret = g->is_open ? -ENOENT : fm_sys_fstatat(g->fd, FM_GROUP_MEMBERS, &st);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	what.ino = st.st_ino;
	ret = fm_stash_keep(&what, parent, FM_STAGING_OLD, stash);
	if (ret < 0)
		return ret;
	if (sd->old_keep_ns > 0 || fm_stash_remove_unwanted(parent, stash, &told) < 0)
		note_aside(sd, path, stash);
	return 0;
}

int fm_group_dir_remove(struct fm_store_dir *sd, int parent, const struct fm_group_dir *g)
{
	const struct fm_tree_freed told = { .used = freed, .ctx = sd };
	const struct fm_stash_what what = {
		.dir = parent, .from = g->name, .ino = g->key.ino, .name = g->name};
	char stash[FM_STAGING_NAME_LEN + 1];
	int ret = fm_stash_keep(&what, parent, FM_STAGING_OLD, stash);

	if (ret < 0)
		return ret;
	/* It has no name any more; what cannot go now is swept. */
	(void)fm_stash_remove(parent, stash, g->key.ino, &told);
	fm_group_count_drop(&sd->groups, &g->key);
	return 0;
}
