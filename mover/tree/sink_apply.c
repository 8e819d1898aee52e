/* SPDX-License-Identifier: MIT */
/*
 * sink_apply - a pack is made: each entry where it belongs, or kept for the end.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/show.h"
#include "mover/tree/leads_out.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

/* Puts off an entry to the end. */
static int defer(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	int ret = fm_deferred_add(&call->s->deferred, e);

	return ret < 0 ? fm_sink_fail(call->s, ret, "note", e->path, e->path_len, call->err) : 0;
}

static int meet_dir(struct fm_sink_call *call, const struct fm_sink_at *at)
{
	struct stat st;
	int ret = fm_sink_check_name(call, at);

	if (ret < 0)
		return ret;
	ret = fm_tsys_fstatat(at->dir, at->name, &st);
	if (ret < 0)
		return fm_sink_fail(call->s, ret, "look at", at->path, at->path_len, call->err);
	return S_ISDIR(st.st_mode) ? 0 : fm_sink_clash(call, at);
}

/* The pack that it is in may come twice. */
static void name_root(struct fm_sink_call *call, int met, const struct fm_pack_entry *e)
{
	struct fm_sink *s = call->s;
	bool is_told;

	pthread_mutex_lock(&s->counting);
	is_told = s->is_root_told;
	s->is_root_told = true;
	pthread_mutex_unlock(&s->counting);
	if (!is_told)
		fm_sink_name_as(s, met, e);
}

static int apply_dir(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	struct fm_sink_at at;
	int met = fm_sink_meet(call, e), ret = met;

	if (ret < 0)
		return ret;
	call->tally.dirs += ret == FM_SINK_MET_OTHER;
	if (e->path_len == 0) {
		name_root(call, met, e);
		return defer(call, e);
	}
	ret = fm_sink_at(call, e->path, e->path_len, &at);
	if (ret < 0)
		return ret;
	if (met == FM_SINK_MET_OTHER)
		fm_sink_name_as(call->s, met, e);
	ret = fm_tsys_mkdir(at.dir, at.name);
	if (ret == 0) {
		call->count.dirs++;
		fm_sink_name_dir(call, e->path, e->path_len);
	} else if (ret == -EEXIST) {
		ret = meet_dir(call, &at);
	} else {
		return fm_sink_fail(call->s, ret, "make the directory", e->path, e->path_len,
				    call->err);
	}
	return ret < 0 ? ret : defer(call, e);
}

static int meet_link(struct fm_sink_call *call, const struct fm_sink_at *at,
		     const struct fm_pack_entry *e)
{
	char target[FM_TREE_PATH_MAX + 1];
	int ret = fm_sink_check_name(call, at);
	ssize_t len;

	if (ret < 0)
		return ret;
	len = readlinkat(at->dir, at->name, target, sizeof(target));
	return len == (ssize_t)e->target_len && memcmp(target, e->target, e->target_len) == 0
		       ? 0
		       : fm_sink_clash(call, at);
}

/*
 * Explains why a link could not be made. For "too long" the kernel does not say whether the name or
 * the target is meant.
 */
static int fail_link(struct fm_sink_call *call, const struct fm_sink_at *at,
		     const struct fm_pack_entry *e, int ret)
{
	char path[FM_TREE_PATH_MAX + 1];
	struct fm_path_shown shown;
	struct stat st;

	if (ret != -ENAMETOOLONG || fm_tsys_fstatat(at->dir, at->name, &st) != -ENOENT)
		return fm_sink_fail(call->s, ret, "make the symbolic link", e->path, e->path_len,
				    call->err);
	memcpy(path, e->path, e->path_len);
	path[e->path_len] = '\0';
	return fm_err_set(call->err, ret,
			  "make the symbolic link \"%s\": the file system takes no target as long "
			  "as its %zu bytes (XFS: at most 1024); leave it out with --exclude",
			  fm_path_show(path, &shown), e->target_len);
}

static int apply_link(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	char target[FM_TREE_PATH_MAX + 1];
	struct fm_sink_at at;
	int met = fm_sink_meet(call, e);
	int ret = met < 0 ? met : fm_sink_at(call, e->path, e->path_len, &at);

	if (ret < 0)
		return ret;
	memcpy(target, e->target, e->target_len);
	target[e->target_len] = '\0';
	ret = fm_tsys_symlink(target, at.dir, at.name);
	if (ret == -EEXIST)
		return meet_link(call, &at, e);
	if (ret < 0)
		return fail_link(call, &at, e, ret);
	call->count.links++;
	if (fm_leads_out(e->path, e->path_len, e->target, e->target_len))
		atomic_fetch_add(&call->s->tree.leaving_links, 1);
	call->tally.same += met == FM_SINK_MET_SAME;
	fm_sink_name_as(call->s, met, e);
	if (call->s->opts.has_owners)
		ret = fm_tsys_own_link(at.dir, at.name, e->uid, e->gid);
	if (ret == 0)
		ret = fm_tsys_set_link(at.dir, at.name, e->mtime_ns);
	if (ret < 0)
		return fm_sink_fail(call->s, ret, "set owner and time of", e->path, e->path_len,
				    call->err);
	return fm_sink_list(call, e);
}

/*
 * Puts off an entry to the end. Its directory is made at once, so that a bad path is refused at
 * once.
 */
static int apply_later(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	struct fm_sink_at at;
	int ret = e->type == FM_PACK_HARD ? fm_sink_meet(call, e) : 0;

	if (ret >= 0)
		ret = fm_sink_at(call, e->path, e->path_len, &at);
	return ret < 0 ? ret : defer(call, e);
}

/* Makes an entry, or looks at an offer. 1: the offered file is needed. */
static int apply_entry(struct fm_sink_call *call, const struct fm_pack_entry *e, bool is_offer)
{
	int ret;

	if (e->type != FM_PACK_FILE && call->s->opts.is_dry)
		return e->type == FM_PACK_ATTR ? 0 : fm_sink_meet_dry(call, e, false);
	switch (e->type) {
	case FM_PACK_FILE:
		if (!is_offer && call->s->opts.is_dry)
			return fm_err_set(call->err, -EPROTO, "a file came in a dry run");
		if (!is_offer)
			return fm_sink_file(call, e);
		ret = fm_sink_offer(call, e);
		return ret < 0 ? ret : ret == 0;
	case FM_PACK_DIR:
		return apply_dir(call, e);
	case FM_PACK_LINK:
		return apply_link(call, e);
	case FM_PACK_HARD:
	case FM_PACK_ATTR:
		return apply_later(call, e);
	}
	return fm_sink_refuse(call->s, e->path, e->path_len, "is of a kind that there is not",
			      call->err);
}

/*
 * Replaces mode and owner of an entry as the store demands. This comes before anything looks at the
 * entry, so no later step can forget it.
 */
void fm_sink_adapt(const struct fm_sink *s, struct fm_pack_entry *e)
{
	if (s->opts.is_for_group)	/* of links 0 */
		e->mode = fm_mode_for_group(e->mode);
	if (!s->opts.has_one_owner || e->type == FM_PACK_HARD)	/* which has none */
		return;
	e->uid = s->opts.uid;
	e->gid = s->opts.gid;
}

static bool is_of(const struct fm_pack_entry *attr, const struct fm_pack_entry *e)
{
	return attr->type == FM_PACK_ATTR && e->type == FM_PACK_FILE &&
	       (e->flags & FM_PACK_IS_LARGE) && attr->path_len == e->path_len &&
	       memcmp(attr->path, e->path, e->path_len) == 0;
}

int fm_sink_next(struct fm_pack_reader *r, struct fm_pack_entry *e)
{
	struct fm_pack_entry before = *e;
	int ret = fm_pack_next(r, e);

	if (ret > 0 && (r->flags & FM_PACK_OFFER) && is_of(&before, e)) {
		e->xattrs = before.xattrs;
		e->xattr_len = before.xattr_len;
	}
	return ret;
}

bool fm_sink_is_offered_next(struct fm_pack_reader r, const struct fm_pack_entry *attr)
{
	struct fm_pack_entry e;

	return fm_pack_next(&r, &e) > 0 && is_of(attr, &e);
}

static int apply_all(struct fm_sink_call *call, struct fm_pack_reader *r, uint8_t *bits)
{
	bool is_offer = r->flags & FM_PACK_OFFER;
	struct fm_pack_entry e = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0; i++) {
		ret = fm_sink_next(r, &e);
		if (ret == 0)
			return 0;
		if (ret < 0)
			return fm_err_set(call->err, -EPROTO, "a damaged pack came (entry %zu)", i);
		fm_sink_adapt(call->s, &e);
		ret = fm_sink_may_go_on(call->s, call->err);
		if (ret == 0)
			ret = apply_entry(call, &e, is_offer);
		if (ret > 0) {
			bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
			call->count.wanted_files++;
			call->count.wanted_bytes += e.size;
			ret = 0;
		}
	}
	return ret;
}

int fm_sink_make(struct fm_sink *s, const void *pack, size_t len, uint8_t *bits, size_t *count,
		 struct fm_err *err)
{
	struct fm_sink_call call;
	struct fm_pack_reader r;
	int ret;

	*count = 0;
	if (fm_pack_open(&r, pack, len) < 0)
		return fm_err_set(err, -EPROTO, "a damaged pack came");
	if (r.flags & FM_PACK_OFFER) {
		*count = r.count;
		memset(bits, 0, FM_TREE_OFFERS_MAX / 8);
	}
	fm_sink_begin(&call, s, err);
	ret = apply_all(&call, &r, bits);
	fm_sink_end(&call);
	return ret;
}

/* Answers an offer: none of its files is needed. */
static int answer_same(const void *pack, size_t len, uint8_t *bits, size_t *count)
{
	struct fm_pack_reader r;

	(void)fm_pack_open(&r, pack, len);	/* it could be read before */
	*count = r.count;
	memset(bits, 0, FM_TREE_OFFERS_MAX / 8);
	return 0;
}

int fm_sink_apply(struct fm_tree *t, const void *pack, size_t len, uint8_t *bits, size_t *count,
		  struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);
	int ret = fm_sink_enter(s, err);

	*count = 0;
	if (ret == 0)
		ret = fm_sink_look_at(s, pack, len, err);
	if (ret > 0)
		return answer_same(pack, len, bits, count);
	if (ret == 0)
		ret = fm_sink_survey(s, err);
	if (ret == 0)
		ret = fm_sink_build(s, err);
	return ret < 0 ? ret : fm_sink_make(s, pack, len, bits, count, err);
}
