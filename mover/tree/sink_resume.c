/* SPDX-License-Identifier: MIT */
/*
 * sink_resume - files that earlier tries made.
 *
 * A try begins with an empty data directory; what earlier ones made lies in was.<n>. A file moves
 * from there into data if the journal says that it is what the source has now, and it still has the
 * content that the journal says. So whatever the source has no more does not come along, and no
 * file that exists is ever trusted for its name. Directories that got their mode already and may
 * not be entered are not opened up: what is in them is sent again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/journal/reread.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

/* What an offer says of a file that the journal has. */
struct wanted {
	uint64_t size_min;	/* it has at least these bytes */
	bool is_whole;		/* it is finished: exactly these, and the time is the source's */
	int64_t mtime_ns;
	uint32_t crc;		/* of one that is whole: its contribution */
	const struct fm_pack_entry *e;	/* what one that is whole is to be */
};

static int open_caches(struct fm_sink_call *call)
{
	const struct fm_sink *s = call->s;

	if (call->was)
		return 0;
	call->was = fm_tsys_alloc(s->was_count * sizeof(*call->was));
	if (!call->was)
		return -ENOMEM;
	for (unsigned i = 0; i < s->was_count; i++) {
		call->was[i].root = s->was[i];
		call->was[i].is_fixed = true;
	}
	return 0;
}

static bool is_wanted(struct fm_sink *s, const struct stat *st, const struct wanted *w)
{
	if (!S_ISREG(st->st_mode) || (uint64_t)st->st_size < w->size_min)
		return false;
	/* A part is written to: it must have no name but this. */
	if (!w->is_whole)
		return st->st_nlink == 1;
	return (uint64_t)st->st_size == w->size_min && fm_sink_has_time(s, st, w->mtime_ns);
}

/* Opens a file for reading past the page cache, where the file system can do that. */
static int open_direct(int dir, const char *name)
{
	int fd = fm_tsys_open(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_DIRECT, 0);

	return fd == -EINVAL ? fm_tsys_open(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0) : fd;
}

static bool has_other_attrs(const struct fm_sink *s, const struct stat *st,
			    const struct fm_pack_entry *e)
{
	bool has_other_mode = (st->st_mode & 07777) != e->mode;

	if (!s->opts.has_owners)
		return s->opts.is_for_group && has_other_mode;
	return has_other_mode || st->st_uid != e->uid || st->st_gid != e->gid;
}

/*
 * Whether its attributes can become what the entry says. Extended ones take the right to write to
 * it, which another user's file does not give. A file of several names may be one of the version
 * that is replaced.
 */
static bool is_changeable(const struct fm_sink_call *call, int fd, const struct stat *st,
			  const struct fm_pack_entry *e)
{
	if (!has_other_attrs(call->s, st, e))
		return true;
	return st->st_nlink == 1 && (!call->s->opts.has_owners || fm_sink_has_xattrs(fd, e) > 0);
}

/* Whether it has the content that the journal says. One that cannot be read has not. */
static int is_intact(struct fm_sink_call *call, int fd, const struct wanted *w)
{
	uint32_t part = 0;
	int ret = fd < 0 ? fd : w->size_min > 0 ? fm_reread(fd, 0, w->size_min, &part) : 0;

	if (ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE)
		return ret;
	if (ret == 0 && (w->size_min == 0 || part == w->crc))
		return 1;
	if (ret == -EACCES || ret == -EPERM)	/* another user's: no damage */
		return 0;
	call->count.damaged_files++;
	call->count.damaged_bytes += w->size_min;
	return 0;
}

/* Whether a whole one is as wanted, and can get the attributes that are. */
static int is_usable(struct fm_sink_call *call, int dir, const char *name, const struct stat *st,
		     const struct wanted *w)
{
	int fd = open_direct(dir, name), ret = is_intact(call, fd, w);

	if (ret > 0)
		ret = is_changeable(call, fd, st, w->e);
	if (fd >= 0)
		(void)close(fd);	/* only read */
	return ret;
}

/* A directory that got its mode already may forbid it. */
static int move_here(const struct fm_sink_at *at, int dir)
{
	int ret = fm_tsys_rename_free(dir, at->name, at->dir, at->name);

	if (ret == -EACCES && fm_tsys_chmod_at(dir, ".", 0700) == 0)
		ret = fm_tsys_rename_free(dir, at->name, at->dir, at->name);
	return ret;
}

/* 1: moved. 0: not there, or not as wanted. -ENOMEM and the like: nobody can say. */
static int try_move(struct fm_sink_call *call, unsigned i, const struct fm_sink_at *at,
		    const struct wanted *w)
{
	size_t dir_len = at->path_len - strlen(at->name);
	int dir = fm_sink_dir_find(&call->was[i], at->path, dir_len > 0 ? dir_len - 1 : 0);
	struct stat st;
	int ret;

	if (dir < 0)
		return 0;
	ret = fm_tsys_fstatat(dir, at->name, &st);
	if (ret < 0 || !is_wanted(call->s, &st, w))
		return 0;
	/*
	 * Check it before it moves: a file in data counts as intact for everybody who finds it
	 * there.
	 */
	ret = w->is_whole ? is_usable(call, dir, at->name, &st, w) : 1;
	if (ret <= 0)
		return ret;
	ret = move_here(at, dir);
	/* EEXIST: it is in data already, in whatever state; ENOENT: another thread was faster. */
	return ret == 0;
}

/* 1: moved now. 2: moved or made before. 0: nowhere. */
static int get_here(struct fm_sink_call *call, const struct fm_sink_at *at, const struct wanted *w)
{
	struct stat st;
	int ret = open_caches(call);

	if (ret < 0)
		return fm_sink_fail(call->s, ret, "look for", at->path, at->path_len, call->err);
	for (unsigned i = call->s->was_count; i > 0 && ret == 0; i--)
		ret = try_move(call, i - 1, at, w);
	if (ret < 0)
		return fm_sink_fail(call->s, ret, "read again", at->path, at->path_len, call->err);
	if (ret > 0)
		return 1;
	ret = fm_tsys_fstatat(at->dir, at->name, &st);
	if (ret < 0 || !is_wanted(call->s, &st, w))
		return 0;
	ret = fm_sink_check_name(call, at);
	return ret < 0 ? ret : 2;
}

static bool is_same(const struct fm_journal_file *f, const struct fm_pack_entry *e)
{
	return f->size == e->size && f->mtime_ns == e->mtime_ns && f->identity == e->identity;
}

/* 1: the journal has something of that file; *have: a copy of it, if asked for; *crc: its
 * contributions. */
static int look_up(struct fm_sink *s, const struct fm_pack_entry *e, bool *is_whole,
		   struct fm_have *have, uint32_t *crc)
{
	const struct fm_journal_file *f;
	int ret = 0;

	pthread_mutex_lock(&s->journaling);
	f = fm_journal_find(s->journal, e->path, e->path_len);
	if (f && is_same(f, e)) {
		*is_whole = fm_ranges_bytes(&f->ranges) == f->size;
		*crc = f->crc;
		ret = have ? fm_have_copy(have, f) : 0;
		ret = ret < 0 ? ret : 1;
	}
	pthread_mutex_unlock(&s->journaling);
	return ret;
}

static void count_resumed(struct fm_sink_call *call, const struct fm_pack_entry *e, uint64_t bytes)
{
	call->count.resumed_files += bytes == e->size;
	call->count.resumed_bytes += bytes;
}

/*
 * An earlier try may have been another user's, or of the same with another group: then the file has
 * what that gave it. At the source nothing changed, or it would not be gone on with. Extended
 * attributes are there, or it would not be here: is_changeable().
 */
static int give_attrs(struct fm_sink_call *call, const struct fm_sink_at *at,
		      const struct fm_pack_entry *e)
{
	struct fm_pack_entry bare = *e;
	struct stat st;
	int fd, ret = fm_tsys_fstatat(at->dir, at->name, &st);

	bare.xattrs = NULL;
	bare.xattr_len = 0;
	if (ret == 0 && !has_other_attrs(call->s, &st, e))
		return 0;
	fd = ret < 0 ? ret
		     : fm_tsys_open(at->dir, at->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fm_sink_fail(call->s, fd, "open", at->path, at->path_len, call->err);
	ret = fm_sink_set_attrs(call->s, fd, &bare, NULL, false, call->err);
	close(fd);
	return ret;
}

int fm_sink_resume(struct fm_sink_call *call, const struct fm_sink_at *at,
		   const struct fm_pack_entry *e)
{
	struct wanted w = {
		.size_min = e->size, .is_whole = true, .mtime_ns = e->mtime_ns, .e = e};
	bool is_whole = false;
	uint32_t crc;
	int ret;

	/*
	 * A large file is a transfer of its own. That transfer goes on from what is there, and
	 * reads it again.
	 */
	if (e->size > FM_TREE_LARGE)
		return 0;
	ret = look_up(call->s, e, &is_whole, NULL, &w.crc);

	if (ret <= 0 || !is_whole)
		return ret < 0 ? fm_sink_fail(call->s, ret, "look for", e->path, e->path_len,
					      call->err)
			       : 0;
	ret = get_here(call, at, &w);
	if (ret < 0)
		return ret;
	if (ret == 0)
		return fm_sink_forget(call->s, e->path, e->path_len, call->err);
	if (ret == 2)	/* and listed */
		return 1;
	call->count.files++;
	call->count.bytes += e->size;
	fm_sink_name_file(call, e);
	count_resumed(call, e, e->size);
	ret = give_attrs(call, at, e);
	if (ret < 0)
		return ret;
	crc = fm_crc32c_whole(w.crc, e->size);
	ret = fm_sink_list_file(call, e, call->s->opts.has_digests ? &crc : NULL);
	return ret < 0 ? ret : 1;
}

static uint64_t end_of(const struct fm_ranges *r)
{
	return r->count ? r->at[r->count - 1].offset + r->at[r->count - 1].len : 0;
}

int fm_sink_resume_part(struct fm_sink_call *call, const struct fm_sink_at *at,
			const struct fm_pack_entry *e, struct fm_have *have)
{
	struct wanted w = { .mtime_ns = e->mtime_ns };
	bool is_whole;
	int ret = look_up(call->s, e, &is_whole, have, &w.crc);

	if (ret < 0)
		return fm_sink_fail(call->s, ret, "look for", e->path, e->path_len, call->err);
	if (ret == 0)
		return 0;
	w.size_min = end_of(&have->ranges);
	ret = get_here(call, at, &w);
	if (ret > 0) {
		count_resumed(call, e, ret == 1 ? fm_ranges_bytes(&have->ranges) : 0);
		return 1;
	}
	fm_have_free(have);
	return ret < 0 ? ret : fm_sink_forget(call->s, e->path, e->path_len, call->err);
}
