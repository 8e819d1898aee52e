/* SPDX-License-Identifier: MIT */
/*
 * tree_sink - the end of a transfer where a tree is made.
 *
 * Happy path: lock a staging directory beside the final name, make the tree in it as packs come,
 * journal what is on the disk, and when all is there, one sync and one rename. Failure modes: a
 * pack is refused or the disk is full: the final name is as it was, keep() leaves what came for the
 * next try. The process dies: the lock goes with it, the next try finds the directory by its name.
 * The tree was renamed and the process dies then: the replaced version is under the .new or an .old
 * name, and is swept or removed by the next try.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/show.h"
#include "mover/tree/sink_merge.h"
#include "mover/tree/tsys.h"

/* ------------------------------------------------------------------------------------- messages */

static const struct {
	int code;
	const char *text;
} reasons[] = {
	{-ENOSPC, "no space left on the file system; make room and run the same again"},
	{-EDQUOT, "over the file system's quota for this user; make room and run the same again"},
	{-EPERM, "this user may not; look at owner and mode there"},
	{-EROFS, "the file system is mounted read-only"},
	{-EIO,
	 "input/output error; look at the disk and the kernel's log, then run the same again"},
	{-ENAMETOOLONG, "the file system takes no name as long as that"},
	{-EMFILE, "too many open files; raise the limit of this process (LimitNOFILE=)"},
	{-EMLINK, "the file system takes no more names of one file"},
	{-EFBIG, "larger than the file system takes, or too many entries to be kept for the end"},
	{-ENOMEM, "out of memory"},
};

int fm_sink_fail(const struct fm_sink *s, int code, const char *verb, const char *path, size_t len,
		 struct fm_err *err)
{
	char whole[2 * FM_TREE_PATH_MAX + 2];
	struct fm_path_shown shown;

	assert(code < 0);
	if (code == -EACCES)
		code = -EPERM;
	snprintf(whole, sizeof(whole), "%s%s%.*s", s->opts.path, len > 0 ? "/" : "", (int)len,
		 len > 0 ? path : "");
	fm_path_show(whole, &shown);
	if (code == -ENOSPC && fm_call_lacks_inodes(s->opts.parent))
		return fm_err_set(err, code,
				  "%s \"%s\": no inodes left on the file system, though it has "
				  "room; remove files there (df -i shows how many it takes) and "
				  "run the same again",
				  verb, shown.text);
	if (code == -ENOSPC && s->had_room)
		return fm_err_set(
			err, code,
			"%s \"%s\": no space left on the file system, though there was enough "
			"when it began: others may have taken it meanwhile; make room and run "
			"the same again",
			verb, shown.text);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].code == code)
			return fm_err_set(err, code, "%s \"%s\": %s", verb, shown.text,
					  reasons[i].text);
	return fm_err_sys(err, code, "%s \"%s\"", verb, shown.text);
}

int fm_sink_refuse(const struct fm_sink *s, const char *path, size_t len, const char *why,
		   struct fm_err *err)
{
	char whole[2 * FM_TREE_PATH_MAX + 2];
	struct fm_path_shown shown;

	snprintf(whole, sizeof(whole), "%s/%.*s", s->opts.path, (int)len, path);
	return fm_err_set(err, -EPROTO, "\"%s\": %s", fm_path_show(whole, &shown), why);
}

/* Cut if it is too long. */
static void note_both(struct fm_sink *s, const char *first, const char *then)
{
	char both[sizeof(s->note)];

	(void)snprintf(both, sizeof(both), "%s%s%s", first, first[0] && then[0] ? "; " : "", then);
	memcpy(s->note, both, sizeof(both));
	s->tree.note = s->note;
}

void fm_sink_note(struct fm_sink *s, const char *text)
{
	note_both(s, s->note, text);
}

void fm_sink_warn(struct fm_sink *s, const char *text)
{
	note_both(s, text, s->note);
}

static int check_syncs(const struct fm_sink *s, struct fm_err *err)
{
	int ret = atomic_load(&s->tree.sync_error);

	return ret == 0 ? 0 : fm_sink_fail(s, ret, "go on after a failed sync of", NULL, 0, err);
}

int fm_sink_sync(struct fm_sink *s, struct fm_err *err)
{
	int ret = check_syncs(s, err);

	if (ret == 0)
		ret = fm_tsys_syncfs(s->data);
	return fm_sink_note_sync(s, ret, "sync the file system of", err);
}

/* The next update would take what is there for what is on the disk. err may be NULL. */
static void advise_to_replace(struct fm_err *err)
{
	if (!err)
		return;
	(void)fm_err_set(err, err->code,
			 "%s; put it with --replace then: that what is there may not be on the "
			 "disk either cannot be written down, so --update would not know it",
			 err->text);
}

/* What has the final name, and what that shares with others, may not be on the disk. */
static int mark_unsure(const struct fm_sink *s)
{
	if (s->has_final_name)
		return fm_sink_mark_unsure(s, s->data);
	return s->old >= 0 && s->opts.is_update ? fm_sink_mark_unsure(s, s->old) : 0;
}

int fm_sink_note_sync(struct fm_sink *s, int ret, const char *verb, struct fm_err *err)
{
	int first = 0;

	if (ret == 0)
		return 0;
	if (!atomic_compare_exchange_strong(&s->tree.sync_error, &first, ret))
		return check_syncs(s, err);
	(void)fm_sink_fail(s, ret, verb, NULL, 0, err);
	if (mark_unsure(s) < 0)
		advise_to_replace(err);
	return ret;
}

int fm_sink_may_go_on(const struct fm_sink *s, struct fm_err *err)
{
	if (atomic_load_explicit(&s->is_stopped, memory_order_relaxed))
		return fm_err_set(err, -ECANCELED, "stopped");
	return atomic_load_explicit(&s->tree.sync_error, memory_order_relaxed) ? check_syncs(s, err)
									       : 0;
}

/* -------------------------------------------------------------------------------- the beginning */

/* Once, whether it succeeds or not; several threads may want it at once. */
static int begin_once(struct fm_sink *s, struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&s->beginning);
	if (!atomic_load(&s->is_begun) && s->begin_err.code == 0 &&
	    (fm_sink_looks(s) || fm_sink_stage(s, &s->begin_err) == 0))
		atomic_store(&s->is_begun, true);
	ret = s->begin_err.code;
	if (ret < 0)
		fm_err_set(err, ret, "%s", s->begin_err.text);
	pthread_mutex_unlock(&s->beginning);
	return ret;
}

int fm_sink_enter(struct fm_sink *s, struct fm_err *err)
{
	int ret = fm_sink_may_go_on(s, err);

	return ret < 0 || atomic_load(&s->is_begun) ? ret : begin_once(s, err);
}

/*
 * Sets the identity of the source. Size and times of its root do not count: they change whenever an
 * entry does.
 */
static void set_source(struct fm_sink *s, const struct fm_identity *source)
{
	s->opts.source = *source;
	s->opts.source.size = 0;
	s->opts.source.mtime_ns = s->opts.source.ctime_ns = 0;
}

static bool is_source_known(const struct fm_sink *s)
{
	return s->opts.source.dev != 0 || s->opts.source.ino != 0;
}

static int sink_begin(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);

	int ret = fm_sink_check_room(s, how->source.size, err);

	/* there is room; whether all can be kept is looked at, too */
	if (ret == -ECANCELED && s->opts.is_look) {
		struct fm_err why = { 0 };

		if (fm_sink_survey(s, &why) == -ENOSPC)
			return fm_err_set(err, why.code, "%s", why.text);
	}
	if (ret < 0)
		return ret;
	if (!atomic_load(&s->is_begun))
		set_source(s, &how->source);
	return fm_sink_enter(s, err);
}

/* ------------------------------------------------------------------------------------- one call */

void fm_sink_begin(struct fm_sink_call *call, struct fm_sink *s, struct fm_err *err)
{
	/* Not zeroed as a whole: the paths are long. */
	call->s = s;
	call->err = err;
	call->data.root = s->data;
	call->data.is_fixed = call->data.has_path = false;
	call->old.root = s->old;
	call->old.is_fixed = true;
	call->old.has_path = false;
	call->was = NULL;
	call->count = (struct fm_tree_count){ 0 };
	call->tally = (struct fm_sink_tally){ 0 };
	fm_sink_goes_on(s);
}

void fm_sink_add_count(struct fm_tree_count *to, const struct fm_tree_count *n)
{
	to->files += n->files;
	to->dirs += n->dirs;
	to->links += n->links;
	to->hard_links += n->hard_links;
	to->bytes += n->bytes;
	to->reused_files += n->reused_files;
	to->reused_bytes += n->reused_bytes;
	to->resumed_files += n->resumed_files;
	to->resumed_bytes += n->resumed_bytes;
	to->damaged_files += n->damaged_files;
	to->damaged_bytes += n->damaged_bytes;
	to->wanted_files += n->wanted_files;
	to->wanted_bytes += n->wanted_bytes;
	to->added += n->added;
	to->replaced += n->replaced;
	to->removed += n->removed;
	to->kept += n->kept;
	to->is_reflinked |= n->is_reflinked;
}

static void add_tally(struct fm_sink_tally *to, const struct fm_sink_tally *n)
{
	to->met += n->met;
	to->other += n->other;
	to->same += n->same;
	to->dirs += n->dirs;
}

void fm_sink_end(struct fm_sink_call *call)
{
	struct fm_sink *s = call->s;

	fm_sink_dir_close(&call->data);
	fm_sink_dir_close(&call->old);
	for (unsigned i = 0; call->was && i < s->was_count; i++)
		fm_sink_dir_close(&call->was[i]);
	fm_tsys_free(call->was);
	pthread_mutex_lock(&s->counting);
	fm_sink_add_count(&s->total, &call->count);
	add_tally(&s->tally, &call->tally);
	pthread_mutex_unlock(&s->counting);
}

static int take(struct fm_sink_call *call, uint64_t bytes, bool is_sent)
{
	const struct fm_tree_sink_opts *opts = &call->s->opts;

	return opts->take && bytes > 0 ? opts->take(opts->ctx, bytes, is_sent, call->err) : 0;
}

int fm_sink_take(struct fm_sink_call *call, uint64_t bytes)
{
	return take(call, bytes, true);
}

int fm_sink_take_old(struct fm_sink_call *call, uint64_t bytes)
{
	return take(call, bytes, false);
}

void fm_sink_goes_on(const struct fm_sink *s)
{
	if (s->opts.goes_on)
		s->opts.goes_on(s->opts.ctx);
}

void fm_sink_give(const struct fm_sink *s, uint64_t bytes)
{
	if (s->opts.used)
		s->opts.used(s->opts.ctx, -(int64_t)bytes);
}

/* ------------------------------------------------------------------------------------ the table */

static int sink_log(struct fm_tree *t, struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);
	int ret = fm_sink_enter(s, err);

	return ret < 0 || s->opts.is_dry || atomic_load(&s->look.state) != FM_SINK_BUILT
		       ? ret
		       : fm_sink_log(s, err);
}

/*
 * A dry run in which something differs: counts the entries that only the old version has, which are
 * those that nothing met.
 */
static void count_rest(const struct fm_sink *s, struct fm_tree_count *out)
{
	uint64_t old = atomic_load(&s->old_names),
		 rest = old > s->tally.met ? old - s->tally.met : 0;

	if (s->old < 0 || !s->opts.is_dry || s->is_same)
		return;
	if (s->is_merging)
		out->kept = rest > out->removed ? rest - out->removed : 0;
	else
		out->removed = rest;
}

static void sink_count(struct fm_tree *t, struct fm_tree_count *out)
{
	struct fm_sink *s = fm_sink_of(t);

	pthread_mutex_lock(&s->counting);
	*out = s->total;
	count_rest(s, out);
	pthread_mutex_unlock(&s->counting);
}

static void sink_stop(struct fm_tree *t)
{
	atomic_store(&fm_sink_of(t)->is_stopped, true);
}

/* The lock would last as long as the child. */
static void sink_forked(struct fm_tree *t)
{
	struct fm_sink *s = fm_sink_of(t);

	if (s->lock >= 0)
		close(s->lock);
	s->lock = -1;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void sink_free(struct fm_sink *s)
{
	fm_sink_free_pieces(s);
	fm_sink_free_made(s);
	if (s->has_deferred)
		fm_deferred_close(&s->deferred);
	if (s->has_carried)
		fm_deferred_close(&s->carried);
	if (s->has_manifest)
		fm_manifest_close(&s->manifest);
	fm_sink_names_close(s);
	fm_foreign_free(&s->foreign);
	close_if_open(s->look.fd);
	pthread_mutex_destroy(&s->look.lock);
	fm_journal_close(s->journal);
	for (unsigned i = 0; i < s->was_count; i++)
		close(s->was[i]);
	close_if_open(s->data);
	close_if_open(s->old);
	if (s->lock >= 0)
		fm_staging_unlock(s->lock);
	close_if_open(s->stage);
	close_if_open(s->opts.parent);
	pthread_mutex_destroy(&s->beginning);
	pthread_mutex_destroy(&s->counting);
	pthread_mutex_destroy(&s->surveying);
	pthread_mutex_destroy(&s->journaling);
	pthread_mutex_destroy(&s->logging);
	pthread_mutex_destroy(&s->making);
	pthread_mutex_destroy(&s->timing);
	pthread_mutex_destroy(&s->piecing);
	pthread_cond_destroy(&s->piece_done);
	fm_tsys_free((char *)s->opts.name);
	fm_tsys_free((char *)s->opts.path);
	fm_tsys_free(s);
}

static void sink_close(struct fm_tree *t)
{
	struct fm_sink *s = fm_sink_of(t);

	if (s->state == FM_SINK_OPEN)
		fm_sink_discard(t);
	sink_free(s);
}

static const struct fm_tree_ops sink_ops = {
	.begin = sink_begin,
	.apply = fm_sink_apply,
	.create_large = fm_sink_create_large,
	.wrote_large = fm_sink_wrote_large,
	.seal_large = fm_sink_seal_large,
	.log = sink_log,
	.prepare = fm_sink_prepare,
	.publish = fm_sink_publish,
	.keep = fm_sink_keep,
	.discard = fm_sink_discard,
	.names = fm_sink_names,
	.count = sink_count,
	.stop = sink_stop,
	.forked = sink_forked,
	.close = sink_close,
};

/* ------------------------------------------------------------------------------------ beginning */

static char *copy_of(const char *text)
{
	size_t len = strlen(text) + 1;
	char *copy = fm_tsys_alloc(len);

	return copy ? memcpy(copy, text, len) : NULL;
}

static void init(struct fm_sink *s, const struct fm_tree_sink_opts *opts)
{
	s->uid = geteuid();
	s->opts = *opts;
	s->bytes = opts->source.size;
	set_source(s, &opts->source);
	s->tree.ops = &sink_ops;
	s->tree.has_owners = opts->has_owners;
	s->stage = s->lock = s->data = s->old = s->look.fd = -1;
	atomic_init(&s->look.state, FM_SINK_BUILT);
	pthread_mutex_init(&s->look.lock, NULL);
	atomic_init(&s->folds, -1);
	pthread_mutex_init(&s->beginning, NULL);
	pthread_mutex_init(&s->counting, NULL);
	pthread_mutex_init(&s->surveying, NULL);
	pthread_mutex_init(&s->journaling, NULL);
	pthread_mutex_init(&s->logging, NULL);
	pthread_mutex_init(&s->making, NULL);
	pthread_mutex_init(&s->timing, NULL);
	pthread_mutex_init(&s->piecing, NULL);
	pthread_cond_init(&s->piece_done, NULL);
	for (unsigned i = 0; i < FM_SINK_PIECE_BUCKETS; i++)
		fm_list_init(&s->pieces[i]);
	s->opts.name = copy_of(opts->name);
	s->opts.path = copy_of(opts->path);
	fm_sink_names_open(s);
}

static bool is_good_name(const char *name)
{
	size_t len = strlen(name);

	return len <= FM_STAGING_FINAL_MAX && fm_pack_is_good_path(name, len) &&
	       !strchr(name, '/') &&
	       strncmp(name, FM_STAGING_PREFIX, strlen(FM_STAGING_PREFIX)) != 0;
}

static int start(struct fm_sink *s, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret;

	if (!s->opts.name || !s->opts.path)
		return fm_err_set(err, -ENOMEM, "allocate the sink");
	if (!is_good_name(s->opts.name))
		return fm_err_set(err, -EINVAL, "\"%s\": a tree cannot have that name",
				  fm_path_show(s->opts.name, &shown));
	fm_staging_name(FM_STAGING_TREE, s->opts.name, s->tree_name);
	fm_staging_name(FM_STAGING_NEW, s->opts.name, s->new_name);
	ret = fm_sink_look(s, err);
	if (ret == 0 && is_source_known(s)) {
		ret = fm_sink_check_room(s, 0, err);
		if (ret == 0)
			ret = fm_sink_enter(s, err);
	}
	return ret;
}

int fm_tree_sink_new(const struct fm_tree_sink_opts *opts, struct fm_tree **out, struct fm_err *err)
{
	struct fm_sink *s = fm_tsys_alloc(sizeof(*s));
	int ret;

	if (!s) {
		close(opts->parent);
		return fm_err_set(err, -ENOMEM, "allocate the sink");
	}
	init(s, opts);
	ret = start(s, err);
	if (ret < 0) {
		sink_free(s);
		return ret;
	}
	*out = &s->tree;
	return 0;
}
