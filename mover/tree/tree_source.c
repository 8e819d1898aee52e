/* SPDX-License-Identifier: MIT */
/*
 * tree_source - a directory of this process that is sent: the functions of its table. See
 * source_priv.h.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/source_priv.h"

#define PER_ITEM_FIRST 8192u		/* a guess until the first pack is made */

static struct fm_source *source_of(struct fm_tree *t)
{
	return fm_container_of(t, struct fm_source, tree);
}

/* ---- fill ---- */

static struct fm_source_fill *fill_new(struct fm_source *s)
{
	struct fm_source_fill *f;
	struct fm_list *link;

	pthread_mutex_lock(&s->lock);
	link = fm_list_pop(&s->idle);
	pthread_mutex_unlock(&s->lock);
	if (link)
		return fm_container_of(link, struct fm_source_fill, link);
	f = FM_FAULT("source.fill_alloc") ? NULL : fm_budget_alloc(sizeof(*f));
	if (!f)
		return NULL;
	fm_list_init(&f->link);
	f->source = s;
	return f;
}

static void fill_free(struct fm_source_fill *f)
{
	fm_budget_free(f->xattrs);
	fm_budget_free(f->scratch);
	fm_budget_free(f);
}

static void add_counts(struct fm_tree_count *to, const struct fm_tree_count *found)
{
	to->files += found->files;
	to->dirs += found->dirs;
	to->links += found->links;
	to->hard_links += found->hard_links;
	to->bytes += found->bytes;
	to->seen += found->seen;
}

/*
 * Ends a call, also one that failed. Its batch and its place among the unanswered are given back.
 * The source keeps its first error.
 */
static int64_t fill_end(struct fm_source_fill *f, struct fm_source_sent *sent, int64_t ret)
{
	struct fm_source *s = f->source;

	if (ret < 0 && atomic_load(&s->is_stopped))
		ret = fm_err_set(f->err, -ECANCELED, "stopped");
	fm_source_leave_batch(f);
	pthread_mutex_lock(&s->lock);
	if (sent) {
		sent->next = *fm_source_sent_slot(s, sent->seq);
		*fm_source_sent_slot(s, sent->seq) = sent;
		s->per_item = (s->per_item * 3 + f->w.len / f->w.count) / 4;
	}
	if (f->mode == FM_SOURCE_OFFER && (!sent || sent->is_answered))
		s->unanswered--;	/* it holds no offers, so that there will be no answer */
	add_counts(&s->count, &f->found);
	if (ret < 0 && ret != -EAGAIN && ret != -ECANCELED && s->failed.code == 0)
		s->failed = *f->err;
	fm_source_become_idle(f);
	fm_list_append(&s->idle, &f->link);
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* Whether it is worth while to look for more. */
static bool is_nearly_full(const struct fm_source_fill *f)
{
	return f->w.count > 0 && fm_pack_room(&f->w, 0, 0, 0) < (int64_t)(f->w.cap / 32);
}

/* The items of the batch, one after the other: enum fm_source_put, or an error. */
static int put_batch(struct fm_source_fill *f)
{
	struct fm_source_batch *b = f->batch;
	int ret = FM_SOURCE_PUT;

	while (ret == FM_SOURCE_PUT && b->at < b->count) {
		if (atomic_load_explicit(&f->source->is_stopped, memory_order_relaxed))
			return fm_err_set(f->err, -ECANCELED, "stopped");
		ret = fm_source_put(f, &b->items[b->at]);
		if (ret == FM_SOURCE_PUT)
			fm_source_item_free(&b->items[b->at++]);
	}
	return ret;
}

/* 0, or an error; -EAGAIN: nothing now. */
static int put_work(struct fm_source_fill *f)
{
	int ret = 0;

	while (ret == FM_SOURCE_PUT && !is_nearly_full(f)) {
		ret = fm_source_take_work(f);
		if (ret <= 0)
			return ret;
		ret = put_batch(f);
		if (ret >= 0)
			fm_source_leave_batch(f);
	}
	if (ret == FM_SOURCE_BLOCKED && f->w.count == 0)
		return -EAGAIN;
	return ret < 0 ? ret : 0;
}

static int64_t fill_new_pack(struct fm_source_fill *f, uint64_t seq)
{
	const struct fm_source *s = f->source;
	struct fm_source_sent *sent = NULL;
	bool is_offer;
	int64_t ret = put_work(f);

	if (ret == 0) {
		is_offer = f->offers > 0;
		if (!is_offer)
			f->w.flags = 0;
		ret = (int64_t)fm_pack_end(&f->w);
		if (ret > 0)
			sent = fm_source_sent_new(seq, f->w.buf, (size_t)ret, is_offer,
						  is_offer && s->tree.is_compared ? f->ctimes
										  : NULL);
		if (ret > 0 && !sent)
			ret = fm_err_set(f->err, -ENOMEM, "allocate what is known of a pack");
	}
	return fill_end(f, sent, ret);
}

static int64_t fill_again(struct fm_source_fill *f, struct fm_source_sent *sent)
{
	struct fm_source *s = f->source;
	int64_t ret = fm_source_put_again(f, sent);

	if (ret == 0)
		ret = (int64_t)fm_pack_end(&f->w);
	pthread_mutex_lock(&s->lock);
	fm_source_sent_put(sent);
	pthread_mutex_unlock(&s->lock);
	return fill_end(f, NULL, ret);
}

static int64_t source_fill(struct fm_tree *t, uint64_t seq, void *buf, size_t len,
			   struct fm_err *err)
{
	struct fm_source *s = source_of(t);
	struct fm_source_fill *f;
	struct fm_source_sent *sent;
	struct fm_err own_err;
	int ret;

	if (len < FM_SOURCE_LEN_MIN)
		return fm_err_set(
			err, -EINVAL,
			"chunks of %zu bytes are too small for a tree; at least %u are needed", len,
			FM_SOURCE_LEN_MIN);
	f = fill_new(s);
	if (!f)
		return fm_err_set(err, -ENOMEM, "allocate what it takes to read a tree");
	f->err = err ? err : &own_err;
	f->mode = FM_SOURCE_ANY;
	f->offers = 0;
	f->found = (struct fm_tree_count){ .files = 0 };
	fm_pack_begin(&f->w, buf, len, 0);
	pthread_mutex_lock(&s->lock);
	ret = fm_source_check_state(f);
	sent = ret == 0 ? *fm_source_sent_slot(s, seq) : NULL;
	if (sent)
		sent->refs++;
	pthread_mutex_unlock(&s->lock);
	if (ret < 0)
		return fill_end(f, NULL, ret);
	return sent ? fill_again(f, sent) : fill_new_pack(f, seq);
}

/* ---- the other functions ---- */

static void source_acked(struct fm_tree *t, uint64_t seq)
{
	struct fm_source *s = source_of(t);
	struct fm_source_sent *sent;

	pthread_mutex_lock(&s->lock);
	sent = *fm_source_sent_slot(s, seq);
	if (sent && !sent->is_acked) {
		sent->is_acked = true;
		fm_source_sent_settle(s, sent);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Whether the answer is one to this pack. */
static bool is_answer_to(const struct fm_source_sent *sent, const uint8_t *bits, size_t count)
{
	if (!sent || sent->is_answered || count != sent->count)
		return false;
	for (size_t i = 0; i < (count + 7) / 8; i++)
		if ((bits[i] & ~sent->offered[i]) != 0)
			return false;
	return true;
}

/* Counts the offered files that the far end wants, and the others. Returns whether it wants any. */
static bool count_wanted(struct fm_source *s, const struct fm_source_sent *sent)
{
	struct fm_pack_reader r = sent->r;	/* that of sent stays at its start */
	uint64_t wanted_files = s->count.wanted_files;
	struct fm_pack_entry e;

	for (size_t i = 0; fm_pack_next(&r, &e) > 0; i++) {
		if (fm_source_has_bit(sent->wanted, i)) {
			s->count.wanted_files++;
			s->count.wanted_bytes += e.size;
		} else if (fm_source_has_bit(sent->offered, i)) {
			s->count.resumed_files++;
			s->count.resumed_bytes += e.size;
		}
	}
	return s->count.wanted_files > wanted_files;
}

static int source_need(struct fm_tree *t, uint64_t seq, const uint8_t *bits, size_t count,
		       struct fm_err *err)
{
	struct fm_source *s = source_of(t);
	struct fm_source_sent *sent;
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	sent = *fm_source_sent_slot(s, seq);
	if (is_answer_to(sent, bits, count)) {
		memcpy(sent->wanted, bits, (count + 7) / 8);
		sent->is_answered = true;
		s->unanswered--;
		if (count_wanted(s, sent)) {
			sent->refs++;
			fm_list_append(&s->needed, &sent->link);
		}
		fm_source_sent_settle(s, sent);
		fm_source_wake(s);
	} else {
		ret = fm_err_set(
			err, -EPROTO,
			"the far end asked for files of pack %llu, which did not offer them",
			(unsigned long long)seq);
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

static int source_next_large(struct fm_tree *t, struct fm_tree_large *out)
{
	struct fm_source *s = source_of(t);
	struct fm_source_large *l = NULL;
	struct fm_list *link;

	pthread_mutex_lock(&s->lock);
	link = fm_list_pop(&s->larges);
	if (link)
		s->larges_count--;
	pthread_mutex_unlock(&s->lock);
	if (!link)
		return 0;
	l = fm_container_of(link, struct fm_source_large, link);
	*out = l->file;
	fm_budget_free(l);
	return 1;
}

static void source_count(struct fm_tree *t, struct fm_tree_count *out)
{
	struct fm_source *s = source_of(t);

	pthread_mutex_lock(&s->lock);
	*out = s->count;
	pthread_mutex_unlock(&s->lock);
}

static void source_stop(struct fm_tree *t)
{
	struct fm_source *s = source_of(t);

	pthread_mutex_lock(&s->lock);
	atomic_store(&s->is_stopped, true);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void free_sent(struct fm_source *s)
{
	for (struct fm_list *at = fm_list_pop(&s->needed); at; at = fm_list_pop(&s->needed))
		fm_source_sent_put(fm_container_of(at, struct fm_source_sent, link));
	for (size_t i = 0; i < FM_SOURCE_SENT_BUCKETS; i++)
		while (s->sent[i]) {
			struct fm_source_sent *sent = s->sent[i];

			s->sent[i] = sent->next;
			fm_source_sent_put(sent);
		}
}

static void free_larges(struct fm_source *s)
{
	struct fm_tree_large large;

	while (source_next_large(&s->tree, &large))
		close(large.fd);
}

/* Also closes a source that was only made in part. */
static void source_close(struct fm_tree *t)
{
	struct fm_source *s = source_of(t);

	assert(s->active == 0 && s->waiting == 0);
	free_larges(s);
	free_sent(s);
	fm_source_batches_free(&s->left_data);
	fm_source_batches_free(&s->left_walk);
	for (struct fm_list *at = fm_list_pop(&s->idle); at; at = fm_list_pop(&s->idle))
		fill_free(fm_container_of(at, struct fm_source_fill, link));
	fm_hardlinks_free(&s->hardlinks);
	fm_scan_free(s->scan);
	fm_scan_dir_put(s->root);
	fm_exclude_free(&s->exclude);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->walk_lock);
	fm_budget_free(s);
}

/* No fill() ran yet, so no other thread reads these options now. */
static int source_begin(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err)
{
	struct fm_source *s = source_of(t);

	(void)err;
	s->is_offering = how->is_offering || how->is_dry;
	s->has_checksums = how->has_checksums;
	s->has_owners = how->has_owners;
	s->is_dry = how->is_dry;
	s->accepts_corrupt = how->accepts_corrupt;
	return 0;
}

static const struct fm_tree_ops source_ops = {
	.begin = source_begin,
	.fill = source_fill,
	.acked = source_acked,
	.need = source_need,
	.next_large = source_next_large,
	.count = source_count,
	.stop = source_stop,
	.close = source_close,
};

/* ---- making one ---- */

static struct fm_source *source_new(const struct fm_tree_source_opts *opts)
{
	struct fm_source *s = FM_FAULT("source.alloc") ? NULL : fm_budget_alloc(sizeof(*s));

	if (!s)
		return NULL;
	s->tree = (struct fm_tree){
		.ops = &source_ops, .is_source = true, .has_digests = opts->has_digests};
	s->is_offering = opts->is_offering || opts->is_dry;
	s->has_checksums = opts->has_checksums;
	s->has_owners = opts->has_owners;
	s->is_dry = opts->is_dry;
	s->follows_links = opts->follows_links;
	s->per_item = PER_ITEM_FIRST;
	pthread_mutex_init(&s->walk_lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	fm_list_init(&s->left_data);
	fm_list_init(&s->left_walk);
	fm_list_init(&s->needed);
	fm_list_init(&s->larges);
	fm_list_init(&s->idle);
	return s;
}

static int source_open(struct fm_source *s, const struct fm_tree_source_opts *opts,
		       struct fm_err *err)
{
	struct fm_scan_opts scan = { .exclude = &s->exclude };
	int ret = fm_exclude_init(&s->exclude, opts->excludes, err);

	if (ret < 0)
		return ret;
	scan.skips = opts->skips;
	scan.follows_links = opts->follows_links;
	scan.wants = opts->wants;
	scan.wants_ctx = opts->wants_ctx;
	scan.root = s->root;
	s->scan = fm_scan_new(&scan);
	return s->scan ? 0 : fm_err_set(err, -ENOMEM, "allocate the source");
}

int fm_tree_source_new(const struct fm_tree_source_opts *opts, struct fm_tree **out,
		       struct fm_err *err)
{
	struct fm_scan_dir *root = fm_scan_dir_new(opts->root, "", 0);
	struct fm_source *s = root ? source_new(opts) : NULL;
	int ret;

	if (!s) {
		fm_scan_dir_put(root);
		return fm_err_set(err, -ENOMEM, "allocate the source");
	}
	s->root = root;
	/* Who opened it may have read in it. */
	ret = FM_FAULT("source.seek") ? -EIO : lseek(root->fd, 0, SEEK_SET) < 0 ? -errno : 0;
	if (ret < 0)
		fm_err_sys(err, ret, "read the directory from its start");
	else
		ret = source_open(s, opts, err);
	if (ret < 0) {
		source_close(&s->tree);
		return ret;
	}
	*out = &s->tree;
	return 0;
}
