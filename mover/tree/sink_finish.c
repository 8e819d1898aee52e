/* SPDX-License-Identifier: MIT */
/*
 * sink_finish - everything came: what had to wait is done, and the tree moves beside its final
 * name.
 *
 * Order: attributes of large files, before any of them gets a second name (a file with other names
 * may be one of the version that is replaced, and is not touched). Hard links, which move the times
 * of directories. What only the replaced version has (sink_merge.c). Directories: first those that
 * may be entered when they have their mode, then the others, the deepest first. The root, when the
 * tree has been moved: its mode may forbid that. Then one sync for all of it,
 * or for what stays since nothing differs.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

struct finish {
	struct fm_sink_call call;
	struct fm_sink_call first;		/* of hard links: where the first names are */
	/* at that depth are directories that may not be entered */
	bool is_deep[FM_TREE_DEPTH_MAX + 2];
	unsigned depth;				/* the one whose turn it is */
	bool has_root;
};

static int fail_at(struct finish *f, int ret, const char *verb, const struct fm_pack_entry *e)
{
	return fm_sink_fail(f->call.s, ret, verb, e->path, e->path_len, f->call.err);
}

/* ---------------------------------------------------------------------------------- large files */

/* Open for setting attributes, whatever mode it has. */
static int open_attr(const struct fm_sink_at *at, int flags)
{
	int fd = fm_tsys_open(at->dir, at->name, flags, 0);

	if (fd == -EACCES &&
	    fm_tsys_chmod_at(at->dir, at->name, flags & O_DIRECTORY ? 0700 : 0600) == 0)
		fd = fm_tsys_open(at->dir, at->name, flags, 0);
	return fd;
}

static int set_file_attrs(struct finish *f, int fd, const struct fm_pack_entry *e)
{
	struct stat st;
	int ret = fm_tsys_fstat(fd, &st);

	if (ret < 0)
		return fail_at(f, ret, "look at", e);
	if (!S_ISREG(st.st_mode))
		return fm_sink_refuse(f->call.s, e->path, e->path_len,
				      "came as attributes of a file and is none", f->call.err);
	if (st.st_nlink > 1)	/* reused because all of them were the same */
		return 0;
	/* Extended attributes need the right to write. */
	ret = e->xattr_len > 0 ? fm_tsys_chmod(fd, 0600) : 0;
	if (ret < 0)
		return fail_at(f, ret, "set the mode of", e);
	return fm_sink_set_attrs(f->call.s, fd, e, NULL, false, f->call.err);
}

static int finish_attr(struct finish *f, const struct fm_pack_entry *e)
{
	struct fm_sink_at at;
	int fd, ret = fm_sink_at(&f->call, e->path, e->path_len, &at);

	if (ret < 0)
		return ret;
	fd = open_attr(&at, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd == -ENOENT || fd == -ELOOP)
		return fm_sink_refuse(f->call.s, e->path, e->path_len, "is a file that never came",
				      f->call.err);
	if (fd < 0)
		return fail_at(f, fd, "open", e);
	ret = set_file_attrs(f, fd, e);
	close(fd);
	return ret;
}

/* ----------------------------------------------------------------------------------- hard links */

/* Taken: by the same file, since the entry came twice, or not. */
static int meet_hard(struct finish *f, const struct fm_sink_at *at, const struct fm_sink_at *first)
{
	struct stat st, first_st;
	int ret = fm_sink_check_name(&f->call, at);

	if (ret < 0)
		return ret;
	ret = fm_tsys_fstatat(at->dir, at->name, &st);
	if (ret == 0)
		ret = fm_tsys_fstatat(first->dir, first->name, &first_st);
	if (ret < 0)
		return fm_sink_fail(f->call.s, ret, "look at", at->path, at->path_len, f->call.err);
	return st.st_ino == first_st.st_ino ? 0 : fm_sink_clash(&f->call, at);
}

/* A quota counts names. */
static int take_hard(struct finish *f, const struct fm_sink_at *at)
{
	struct stat st;
	int ret = 0;

	if (f->call.s->opts.take && fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode))
		ret = fm_sink_take_old(&f->call, (uint64_t)st.st_size);
	if (ret == 0)
		f->call.count.hard_links++;
	else
		unlinkat(at->dir, at->name, 0);
	return ret;
}

static int link_hard(struct finish *f, const struct fm_sink_at *first, const struct fm_sink_at *at,
		     int met, const struct fm_pack_entry *e)
{
	int ret = fm_tsys_link(first->dir, first->name, at->dir, at->name);

	if (ret == -EEXIST)
		return meet_hard(f, at, first);
	if (ret == -ENOENT)
		return fm_sink_refuse(f->call.s, first->path, first->path_len,
				      "is a file that never came, but another name of it did",
				      f->call.err);
	if (ret < 0)
		return fm_sink_fail(f->call.s, ret, "make the hard link", at->path, at->path_len,
				    f->call.err);
	ret = take_hard(f, at);
	if (ret < 0)
		return ret;
	f->call.tally.same += met == FM_SINK_MET_SAME;
	fm_sink_name_as(f->call.s, met, e);
	return 0;
}

static int finish_hard(struct finish *f, const struct fm_pack_entry *e)
{
	struct fm_sink_at first, at;
	int met = fm_sink_meet(&f->call, e);
	int ret = met < 0 ? met : fm_sink_at(&f->call, e->path, e->path_len, &at);

	if (ret == 0)
		ret = fm_sink_at(&f->first, e->target, e->target_len, &first);
	if (ret == 0)
		ret = link_hard(f, &first, &at, met, e);
	return ret < 0 ? ret : fm_sink_list(&f->call, e);
}

/* ---------------------------------------------------------------------------------- directories */

static unsigned depth_of(const struct fm_pack_entry *e)
{
	unsigned depth = 1;

	for (size_t i = 0; i < e->path_len; i++)
		depth += e->path[i] == '/';
	return depth;
}

static int set_dir(struct finish *f, const struct fm_pack_entry *e)
{
	struct fm_sink_at at;
	int fd, ret = fm_sink_at(&f->call, e->path, e->path_len, &at);

	if (ret < 0)
		return ret;
	fd = open_attr(&at, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fail_at(f, fd, "open the directory", e);
	ret = fm_sink_set_attrs(f->call.s, fd, e, NULL, false, f->call.err);
	close(fd);
	return ret;
}

/*
 * Sets mode and time of a directory that can still be entered afterwards. The others come last;
 * their depths are noted.
 */
static int finish_dir(struct finish *f, const struct fm_pack_entry *e)
{
	if (e->path_len == 0)
		f->has_root = true;
	else if (e->mode & S_IXUSR)
		return set_dir(f, e);
	else
		f->is_deep[depth_of(e)] = true;
	return 0;
}

static int finish_closed_dir(struct finish *f, const struct fm_pack_entry *e)
{
	if (e->path_len == 0 || (e->mode & S_IXUSR) || depth_of(e) != f->depth)
		return 0;
	return set_dir(f, e);
}

static int finish_root(struct finish *f, const struct fm_pack_entry *e)
{
	return e->path_len > 0
		       ? 0
		       : fm_sink_set_attrs(f->call.s, f->call.s->data, e, NULL, false, f->call.err);
}

/* --------------------------------------------------------------------------------------- passes */

struct pass {
	struct finish *f;
	enum fm_pack_type type;
	int (*fn)(struct finish *f, const struct fm_pack_entry *e);
};

static int visit(void *ctx, const struct fm_pack_entry *e)
{
	const struct pass *p = ctx;
	int ret;

	if (e->type != p->type)
		return 0;
	ret = fm_sink_may_go_on(p->f->call.s, p->f->call.err);
	return ret < 0 ? ret : p->fn(p->f, e);
}

/* fn for each entry of that type. */
static int run_pass(struct finish *f, enum fm_pack_type type,
		    int (*fn)(struct finish *f, const struct fm_pack_entry *e))
{
	struct pass p = { .f = f, .type = type, .fn = fn };
	struct fm_sink *s = f->call.s;
	int ret;

	if (s->deferred.added[type] == 0)
		return 0;
	fm_err_clear(f->call.err);
	ret = fm_deferred_each(&s->deferred, visit, &p);
	if (ret < 0 && f->call.err->code == 0)
		(void)fm_sink_fail(s, ret, "read what was kept for the end of", NULL, 0,
				   f->call.err);
	return ret;
}

static int finish_entries(struct finish *f)
{
	int ret = run_pass(f, FM_PACK_ATTR, finish_attr);

	if (ret == 0)
		ret = run_pass(f, FM_PACK_HARD, finish_hard);
	if (ret == 0)
		ret = fm_sink_merge(&f->call);
	if (ret == 0)
		ret = fm_sink_finish_carried(&f->call);
	if (ret == 0)
		ret = run_pass(f, FM_PACK_DIR, finish_dir);
	for (f->depth = FM_TREE_DEPTH_MAX + 1; ret == 0 && f->depth > 0; f->depth--)
		if (f->is_deep[f->depth])
			ret = run_pass(f, FM_PACK_DIR, finish_closed_dir);
	return ret;
}

/* Beside the final name; only then does the root get its mode. */
static int move_out(struct finish *f)
{
	struct fm_sink *s = f->call.s;
	int ret = fm_tsys_rename_free(s->stage, FM_STAGED_DATA, s->opts.parent, s->new_name);

	if (ret < 0)
		return fm_sink_fail(s, ret, "move out of its staging directory", NULL, 0,
				    f->call.err);
	s->is_moved = true;
	if (f->has_root)
		return run_pass(f, FM_PACK_DIR, finish_root);
	ret = fm_tsys_chmod(s->data, 0777 & ~s->umask);
	return ret < 0 ? fm_sink_fail(s, ret, "set the mode of", NULL, 0, f->call.err) : 0;
}

static int refuse_pieces(struct fm_sink *s, struct fm_err *err)
{
	char path[FM_TREE_PATH_MAX + 1];

	if (!fm_sink_has_pieces(s, path, sizeof(path)))
		return 0;
	return fm_sink_refuse(s, path, strlen(path), "is a file that came only in part", err);
}

static void note_lost(struct fm_sink *s)
{
	if (atomic_load(&s->has_lost_xattrs))
		fm_sink_note(s, "some extended attributes could not be kept there");
	if (atomic_load(&s->has_cut_times))
		fm_sink_note(s, FM_TIME_CUT_NOTE);
}

/*
 * Nothing differs, so what there is stays. It may have come without a sync, and this update says of
 * it what it says of what it makes.
 */
static int sync_same(struct fm_sink *s, struct fm_err *err)
{
	int ret = fm_sink_may_go_on(s, err);

	return ret < 0 ? ret
		       : fm_sink_note_sync(s, fm_tsys_syncfs(s->old), "sync the file system of",
					   err);
}

static int sync_all(struct fm_sink *s, bool is_durable, struct fm_err *err)
{
	if (!is_durable || s->opts.is_dry)
		return fm_sink_may_go_on(s, err);
	return s->is_same ? sync_same(s, err) : fm_sink_sync(s, err);
}

int fm_sink_prepare(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);
	struct finish f = { .has_root = false };
	struct fm_err ours = { 0 };
	int ret;

	assert(s->state == FM_SINK_OPEN && !s->is_moved);
	ret = fm_sink_enter(s, &ours);	/* before the calls begin: they use what it makes */
	if (ret == 0)
		ret = fm_sink_settle_look(s, is_durable && !s->opts.is_dry, &ours);
	if (ret == 0 && s->is_same)
		return sync_all(s, is_durable, err);
	if (ret == 0 && s->opts.is_dry)
		return fm_sink_refuse_foreign(s, err);
	fm_sink_begin(&f.call, s, &ours);
	fm_sink_begin(&f.first, s, &ours);
	if (ret == 0)
		ret = refuse_pieces(s, &ours);
	if (ret == 0)
		ret = fm_sink_survey(s, &ours);
	if (ret == 0)
		ret = finish_entries(&f);
	fm_sink_end(&f.call);		/* its counts are wanted now */
	fm_sink_begin(&f.call, s, &ours);
	if (ret == 0)
		fm_sink_settle(s);
	if (ret == 0 && !s->is_same)
		ret = move_out(&f);
	if (ret == 0 && !s->is_same)
		ret = fm_sink_place_manifest(s, &ours);
	if (ret == 0)
		ret = sync_all(s, is_durable, &ours);
	fm_sink_end(&f.call);
	fm_sink_end(&f.first);
	note_lost(s);
	return ret < 0 ? fm_err_set(err, ours.code, "%s", ours.text) : 0;
}
