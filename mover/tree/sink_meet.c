/* SPDX-License-Identifier: MIT */
/*
 * sink_meet - what an entry that comes meets under its name in the version that is replaced.
 *
 * Asked for three reasons: whether anything differs at all, since nothing is published if not; what
 * a dry run would add and replace; and whether a file would take the place of a directory, or the
 * other way, which is refused while nothing of it has come.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/show.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

int fm_sink_refuse_kind(const struct fm_sink *s, const char *path, size_t len, bool is_dir_there,
			struct fm_err *err)
{
	char whole[2 * FM_TREE_PATH_MAX + 2];
	struct fm_path_shown shown;

	snprintf(whole, sizeof(whole), "%s/%.*s", s->opts.path, (int)len, path);
	return fm_err_set(err, -EEXIST,
			  "\"%s\" exists and is %s, and what would take its place is %s; --force "
			  "or --delete lets that happen",
			  fm_path_show(whole, &shown),
			  is_dir_there ? "a directory" : "no directory",
			  is_dir_there ? "none" : "one");
}

/* The last component of a good path. */
static const char *last_of(const struct fm_pack_entry *e, char name[FM_SINK_NAME_MAX + 1],
			   size_t *dir_len)
{
	const char *slash = memrchr(e->path, '/', e->path_len);
	const char *last = slash ? slash + 1 : e->path;
	size_t len = e->path_len - (size_t)(last - e->path);

	if (len > FM_SINK_NAME_MAX)
		return NULL;
	memcpy(name, last, len);
	name[len] = '\0';
	*dir_len = slash ? (size_t)(slash - e->path) : 0;
	return name;
}

/* 0: something is there. */
static int look(struct fm_sink_call *call, const char *path, size_t path_len, struct stat *st)
{
	const struct fm_pack_entry e = { .path = path, .path_len = path_len };
	char name[FM_SINK_NAME_MAX + 1];
	size_t dir_len;
	int dir;

	if (path_len == 0)
		return fm_tsys_fstat(call->s->old, st);
	if (!last_of(&e, name, &dir_len))
		return -ENOENT;
	dir = fm_sink_dir_find(&call->old, path, dir_len);
	return dir < 0 ? dir : fm_tsys_fstatat(dir, name, st);
}

static bool has_owner(const struct fm_sink *s, const struct stat *st, const struct fm_pack_entry *e)
{
	return !s->opts.has_owners || (st->st_uid == e->uid && st->st_gid == e->gid);
}

static bool is_same_dir(struct fm_sink_call *call, const struct stat *st,
			const struct fm_pack_entry *e)
{
	const struct fm_sink *s = call->s;
	char name[FM_SINK_NAME_MAX + 1];
	size_t dir_len;
	int dir, fd, ret;

	if ((st->st_mode & 07777) != fm_sink_mode(s, e) || !has_owner(s, st, e))
		return false;
	if (!s->opts.has_owners)
		return true;
	if (e->path_len == 0)
		return fm_sink_has_xattrs(s->old, e) > 0;
	dir = last_of(e, name, &dir_len) ? fm_sink_dir_find(&call->old, e->path, dir_len) : -ENOENT;
	fd = dir < 0 ? dir : fm_tsys_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return false;
	ret = fm_sink_has_xattrs(fd, e);
	close(fd);
	return ret > 0;
}

static bool is_same_link(struct fm_sink_call *call, const struct stat *st,
			 const struct fm_pack_entry *e)
{
	char name[FM_SINK_NAME_MAX + 1], target[FM_TREE_PATH_MAX + 1];
	size_t dir_len;
	ssize_t len;
	int dir;

	if (!S_ISLNK(st->st_mode) || !has_owner(call->s, st, e))
		return false;
	dir = last_of(e, name, &dir_len) ? fm_sink_dir_find(&call->old, e->path, dir_len) : -ENOENT;
	len = dir < 0 ? -1 : readlinkat(dir, name, target, sizeof(target));
	return len == (ssize_t)e->target_len && memcmp(target, e->target, e->target_len) == 0;
}

static bool is_same_hard(struct fm_sink_call *call, const struct stat *st,
			 const struct fm_pack_entry *e)
{
	struct stat first;

	return look(call, e->target, e->target_len, &first) == 0 &&
	       first.st_ino == st->st_ino && first.st_dev == st->st_dev;
}

static bool is_same(struct fm_sink_call *call, const struct stat *st, const struct fm_pack_entry *e)
{
	switch (e->type) {
	case FM_PACK_DIR:
		return is_same_dir(call, st, e);
	case FM_PACK_LINK:
		return is_same_link(call, st, e);
	case FM_PACK_HARD:
		return is_same_hard(call, st, e);
	default:
		return false;
	}
}

int fm_sink_meet(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	const struct fm_sink *s = call->s;
	bool is_dir = e->type == FM_PACK_DIR;
	struct stat st;

	if (s->old < 0 || look(call, e->path, e->path_len, &st) < 0)
		return FM_SINK_MET_NOTHING;
	if (is_dir == S_ISDIR(st.st_mode))
		return is_same(call, &st, e) ? FM_SINK_MET_SAME : FM_SINK_MET_OTHER;
	if (s->is_merging && !s->opts.may_replace)
		return fm_sink_refuse_kind(s, e->path, e->path_len, !is_dir, call->err);
	return FM_SINK_MET_OTHER;
}

/* What takes the place of a directory leaves nothing of what is in it, where all else stays. */
static bool may_lose(const struct fm_sink *s, const struct fm_pack_entry *e)
{
	return s->is_merging && s->opts.may_replace && e->type != FM_PACK_DIR;
}

int fm_sink_meet_dry(struct fm_sink_call *call, const struct fm_pack_entry *e, bool is_same_file)
{
	int lost = 0, ret = fm_sink_meet(call, e);

	if (ret == FM_SINK_MET_OTHER && !is_same_file && may_lose(call->s, e))
		lost = fm_sink_lose_dir(call, e->path, e->path_len);
	if (ret < 0 || lost < 0)
		return ret < 0 ? ret : lost;
	/* The root does not count as a name that was met, but a difference of it counts. */
	call->tally.met += ret != FM_SINK_MET_NOTHING && e->path_len > 0;
	if (ret != FM_SINK_MET_NOTHING && e->path_len > 0) {
		fm_sink_name_met(call->s, e->path, e->path_len);
		fm_sink_foreign_met(call->s, e->path, e->path_len);
	}
	if (!is_same_file)
		fm_sink_name_as(call->s, ret, e);
	call->count.added += ret == FM_SINK_MET_NOTHING;
	call->count.replaced += ret == FM_SINK_MET_OTHER && !is_same_file;
	return 0;
}
