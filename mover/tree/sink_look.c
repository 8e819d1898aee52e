/* SPDX-License-Identifier: MIT */
/*
 * sink_look - an update looks first, and makes nothing as long as nothing differs.
 *
 * Happy path: each pack that offers what the old version has, exactly, is put aside (in a file
 * without a name, beside the tree) and answered: nothing is needed. At the end nothing differed,
 * and nothing was made. Something differs, or cannot be put aside: the staging directory is made,
 * what was put aside is made now, and the update goes on as if it never had looked. A file was the
 * same, and is not any more when it is made: -ESTALE, since it was said that it need not come.
 *
 * The old version is surveyed before something is made, and not for looking: where nothing is
 * replaced, whatever is mounted or another user's stays. So its names alone are counted at the end.
 *
 * A dry run looks in the same way, so it refuses what the update refuses and nothing else. Where
 * something differs it counts what was put aside, instead of making it.
 *
 * What was taken for the same must be sure to be taken over: by hard link, whatever else the file
 * system can. An earlier try has left something: it is gone on with at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/show.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

static bool is_free(const struct fm_sink *s, const char *name)
{
	struct stat st;

	return fstatat(s->opts.parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

bool fm_sink_looks(struct fm_sink *s)
{
	struct fm_sink_look *l = &s->look;

	if (!s->opts.is_update || s->old < 0 || s->is_old_unsure || !is_free(s, s->tree_name) ||
	    !is_free(s, s->new_name))
		return false;
	l->fd = fm_tsys_open(s->opts.parent, ".", O_TMPFILE | O_RDWR, 0600);
	if (l->fd < 0)
		return false;
	atomic_store(&l->state, FM_SINK_LOOKING);
	return true;
}

/* -------------------------------------------------------------------------------------- looking */

/* A source offers each name once, so the first one tells packs apart: one may come twice. */
static bool is_known(const struct fm_sink_look *l, uint64_t first)
{
	for (unsigned i = 0; i < l->packs; i++)
		if (l->first[i] == first)
			return true;
	return false;
}

/* With the lock: puts a pack aside. False: there is no room for it. */
static bool put_aside(struct fm_sink_look *l, const void *pack, uint32_t len, uint64_t first)
{
	if (l->packs == FM_SINK_LOOK_PACKS_MAX ||
	    l->bytes + sizeof(len) + len > FM_SINK_LOOK_BYTES_MAX || FM_FAULT("tree.look_full") ||
	    fm_tsys_write_all(l->fd, &len, sizeof(len), l->bytes) < 0 ||
	    fm_tsys_write_all(l->fd, pack, len, l->bytes + sizeof(len)) < 0)
		return false;
	l->bytes += sizeof(len) + len;
	l->first[l->packs++] = first;
	return true;
}

static void count_same(struct fm_tree_count *n, const struct fm_pack_entry *e)
{
	n->files += e->type == FM_PACK_FILE;
	n->reused_files += e->type == FM_PACK_FILE;
	n->bytes += e->type == FM_PACK_FILE ? e->size : 0;
	n->reused_bytes += e->type == FM_PACK_FILE ? e->size : 0;
	n->dirs += e->type == FM_PACK_DIR && e->path_len > 0;
	n->links += e->type == FM_PACK_LINK;
	n->hard_links += e->type == FM_PACK_HARD;
}

/* 1: the old version has exactly that. */
static int is_same(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	if (e->type == FM_PACK_FILE)
		return fm_sink_is_same_file(call, e);
	return fm_sink_meet(call, e) == FM_SINK_MET_SAME;
}

/*
 * Whether all entries of a pack are the same in the old version. *first tells this pack from
 * others.
 */
static int are_same(struct fm_sink_call *call, struct fm_pack_reader *r, struct fm_tree_count *n,
		    uint64_t *first)
{
	struct fm_pack_entry e = { 0 };
	bool is_first = true;
	int ret = 1, more;

	while (ret > 0) {
		more = fm_sink_next(r, &e);
		if (more <= 0)
			return more == 0;	/* a damaged one is refused where it is made */
		if (is_first)
			*first = fm_sink_hash(call->s, e.path, e.path_len) ^ e.type;
		is_first = false;
		fm_sink_adapt(call->s, &e);
		ret = fm_sink_may_go_on(call->s, call->err);
		if (ret == 0 && e.type == FM_PACK_ATTR)	/* it is compared with its file's offer */
			ret = e.xattr_len == 0 || fm_sink_is_offered_next(*r, &e);
		else if (ret == 0)
			ret = is_same(call, &e);
		count_same(n, &e);
	}
	return ret;
}

int fm_sink_look_at(struct fm_sink *s, const void *pack, size_t len, struct fm_err *err)
{
	struct fm_sink_look *l = &s->look;
	struct fm_tree_count n = { 0 };
	struct fm_sink_call call;
	struct fm_pack_reader r;
	struct fm_err why = { 0 };
	uint64_t first = 0;
	int ret;

	if (atomic_load(&l->state) != FM_SINK_LOOKING || len > UINT32_MAX ||
	    fm_pack_open(&r, pack, len) < 0 || !(r.flags & FM_PACK_OFFER))
		return 0;
	fm_sink_begin(&call, s, &why);
	ret = are_same(&call, &r, &n, &first);
	call.count = (struct fm_tree_count){ 0 };
	fm_sink_end(&call);
	if (ret == -ECANCELED)
		return fm_err_set(err, ret, "%s", why.text);
	if (ret <= 0)
		return 0;
	pthread_mutex_lock(&l->lock);
	ret = atomic_load(&l->state) == FM_SINK_LOOKING;
	if (ret > 0 && !is_known(l, first)) {
		ret = put_aside(l, pack, (uint32_t)len, first);
		if (ret > 0)
			fm_sink_add_count(&l->count, &n);
	}
	pthread_mutex_unlock(&l->lock);
	return ret;
}

/* -------------------------------------------------------------------------- making it after all */

static int fail_read(const struct fm_sink *s, struct fm_err *err)
{
	return fm_sink_fail(s, -EIO, "read what was compared of", NULL, 0, err);
}

static bool read_at(const struct fm_sink_look *l, void *buf, size_t len, uint64_t at)
{
	return !FM_FAULT("tree.read") && pread(l->fd, buf, len, (off_t)at) == (ssize_t)len;
}

static int make_pack(struct fm_sink *s, const void *pack, size_t len, struct fm_err *err)
{
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	struct fm_path_shown shown;
	size_t count;
	int ret = fm_sink_make(s, pack, len, bits, &count, err);

	for (size_t i = 0; ret == 0 && i < (count + 7) / 8; i++)
		if (bits[i] != 0)
			return fm_err_set(err, -ESTALE,
					  "\"%s\": something in it changed while it was compared; "
					  "run it again",
					  fm_path_show(s->opts.path, &shown));
	return ret;
}

static int make_all(struct fm_sink *s, struct fm_err *err)
{
	const struct fm_sink_look *l = &s->look;
	uint64_t at = 0;
	int ret = 0;

	while (ret == 0 && at < l->bytes) {
		uint8_t *pack;
		uint32_t len;

		if (!read_at(l, &len, sizeof(len), at))
			return fail_read(s, err);
		pack = fm_tsys_alloc(len);
		if (!pack)
			return fm_sink_fail(s, -ENOMEM, "make what was compared of", NULL, 0, err);
		ret = read_at(l, pack, len, at + sizeof(len)) ? make_pack(s, pack, len, err)
							      : fail_read(s, err);
		fm_tsys_free(pack);
		at += sizeof(len) + len;
	}
	return ret;
}

static bool stop_looking(struct fm_sink_look *l)
{
	bool was_looking;

	pthread_mutex_lock(&l->lock);
	was_looking = atomic_load(&l->state) == FM_SINK_LOOKING;
	if (was_looking)
		atomic_store(&l->state, FM_SINK_BUILDING);
	pthread_mutex_unlock(&l->lock);
	return was_looking;
}

int fm_sink_build(struct fm_sink *s, struct fm_err *err)
{
	int ret;

	if (atomic_load(&s->look.state) == FM_SINK_BUILT)
		return 0;
	pthread_mutex_lock(&s->beginning);
	if (stop_looking(&s->look)) {
		ret = fm_sink_survey(s, &s->begin_err);
		if (ret == 0)
			ret = fm_sink_stage(s, &s->begin_err);
		if (ret == 0)
			ret = make_all(s, &s->begin_err);
		if (ret < 0)
			/* the error is everybody's from now on */
			atomic_store(&s->is_begun, false);
		atomic_store(&s->look.state, FM_SINK_BUILT);
	}
	ret = s->begin_err.code;
	if (ret < 0)
		fm_err_set(err, ret, "%s", s->begin_err.text);
	pthread_mutex_unlock(&s->beginning);
	return ret;
}

int fm_sink_settle_look(struct fm_sink *s, bool is_durable, struct fm_err *err)
{
	const struct fm_tree_count *n = &s->look.count;
	uint64_t met, old;
	int ret;

	if (atomic_load(&s->look.state) != FM_SINK_LOOKING)
		return fm_sink_build(s, err);
	pthread_mutex_lock(&s->look.lock);	/* other threads added, whose calls are over */
	met = n->files + n->dirs + n->links + n->hard_links;
	pthread_mutex_unlock(&s->look.lock);
	ret = fm_sink_count_old(s, is_durable, &old, err);
	if (ret < 0 && (s->is_merging || ret == -ECANCELED))
		return ret;
	if (ret < 0 || (!s->is_merging && old != met)) {	/* something goes */
		fm_err_clear(err);
		return fm_sink_build(s, err);
	}
	pthread_mutex_lock(&s->counting);
	fm_sink_add_count(&s->total, n);
	s->total.kept = old > met ? old - met : 0;
	pthread_mutex_unlock(&s->counting);
	s->is_same = true;
	return 0;
}
