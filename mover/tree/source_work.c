/* SPDX-License-Identifier: MIT */
/*
 * source_work - which names a call of fill() works on, and what it leaves over. See source_priv.h.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/source_priv.h"
#include "mover/tree/staging_names.h"

_Static_assert(FM_SOURCE_BATCH_MAX * 256 <= FM_SOURCE_NAMES_LEN,
	       "a batch of the longest names fits");
_Static_assert(FM_TREE_PATH_MAX + 1 <= FM_SOURCE_NAMES_LEN, "a batch of one path fits");

/* ---- batches ---- */

void fm_source_item_free(struct fm_source_item *it)
{
	fm_scan_dir_put(it->dir);
	fm_reading_put(it->file);
	it->dir = NULL;
	it->file = NULL;
}

static struct fm_source_batch *batch_new(void)
{
	struct fm_source_batch *b =
		FM_FAULT("source.batch_alloc") ? NULL : fm_budget_realloc(NULL, sizeof(*b));

	if (!b)
		return NULL;
	fm_list_init(&b->link);
	b->at = b->count = 0;
	b->names_len = 0;
	b->is_data = false;
	return b;
}

static void batch_free(struct fm_source_batch *b)
{
	for (; b && b->at < b->count; b->at++)
		fm_source_item_free(&b->items[b->at]);
	fm_budget_free(b);
}

void fm_source_batches_free(struct fm_list *head)
{
	for (struct fm_list *at = fm_list_pop(head); at; at = fm_list_pop(head))
		batch_free(fm_container_of(at, struct fm_source_batch, link));
}

/* Adds an item with that name to a batch that has room. The caller sets its other fields. */
static struct fm_source_item *batch_add(struct fm_source_batch *b, const char *name, size_t len)
{
	struct fm_source_item *it = &b->items[b->count++];
	char *copy = b->names + b->names_len;

	assert(b->count <= FM_SOURCE_BATCH_MAX && b->names_len + len < sizeof(b->names));
	memcpy(copy, name, len);
	copy[len] = '\0';
	b->names_len += len + 1;
	*it = (struct fm_source_item){ .name = copy, .name_len = len };
	return it;
}

static bool batch_has_room(const struct fm_source_batch *b, size_t len)
{
	return b->count < FM_SOURCE_BATCH_MAX && b->names_len + len < sizeof(b->names);
}

/* ---- work ---- */

void fm_source_wake(struct fm_source *s)
{
	if (s->waiting > 0)
		pthread_cond_broadcast(&s->changed);
}

static void become_active(struct fm_source_fill *f)
{
	if (!f->is_active)
		f->source->active++;
	f->is_active = true;
}

void fm_source_become_idle(struct fm_source_fill *f)
{
	if (!f->is_active)
		return;
	f->is_active = false;
	f->source->active--;
	fm_source_wake(f->source);
}

/*
 * Sets what the pack is for: offers or files. With the lock held; the pack must be empty if the
 * mode changes. False: too many offers wait for their answers.
 */
static bool set_mode(struct fm_source_fill *f, enum fm_source_mode mode)
{
	struct fm_source *s = f->source;

	if (mode == f->mode)
		return true;
	assert(f->w.count == 0);
	if (mode == FM_SOURCE_OFFER && s->unanswered == FM_SOURCE_UNANSWERED_MAX)
		return false;
	if (mode == FM_SOURCE_OFFER)
		s->unanswered++;
	if (f->mode == FM_SOURCE_OFFER)
		s->unanswered--;
	f->mode = mode;
	f->w.flags = mode == FM_SOURCE_OFFER ? FM_PACK_OFFER : 0;
	return true;
}

/* Whether this fill may take work with data, or from the walk. */
static bool may_take(struct fm_source_fill *f, bool is_data)
{
	if (!f->source->is_offering)
		return set_mode(f, FM_SOURCE_ALL);
	if (f->w.count > 0)
		return f->mode == (is_data ? FM_SOURCE_DATA : FM_SOURCE_OFFER);
	return set_mode(f, is_data ? FM_SOURCE_DATA : FM_SOURCE_OFFER);
}

/* As many names as there will be room for, so that few are left over. */
static unsigned batch_want(const struct fm_source_fill *f)
{
	size_t n = f->mode == FM_SOURCE_OFFER ? FM_SOURCE_BATCH_MAX
					      : (f->w.cap - f->w.len) / f->source->per_item + 1;

	return n < FM_SOURCE_BATCH_MAX ? (unsigned)n : FM_SOURCE_BATCH_MAX;
}

/* The next names of the walk. Its lock is held. 0: it is over. */
static int walk_names(struct fm_source_fill *f, unsigned want)
{
	struct fm_source_batch *b = f->batch;
	unsigned dirs = 0;
	int ret = 1;

	while (ret > 0 && b->count < want && dirs < FM_SOURCE_BATCH_DIRS_MAX) {
		struct fm_source_item *it;
		struct fm_scan_met met;

		ret = fm_scan_next(f->source->scan, &met, f->err);
		if (ret <= 0)
			break;
		it = batch_add(b, met.name, met.name_len);
		it->dir = fm_scan_dir_get(met.dir);
		it->type = met.type;
		dirs += met.type == DT_DIR ? 1 : 0;
	}
	return ret < 0 ? ret : b->count > 0;
}

/*
 * Walks the next names into f->batch. Called with the lock held, which is released during the walk.
 */
static int take_walk(struct fm_source_fill *f)
{
	struct fm_source *s = f->source;
	unsigned want = batch_want(f);
	bool has_left_out;
	int ret;

	become_active(f);
	pthread_mutex_unlock(&s->lock);
	f->batch = batch_new();
	pthread_mutex_lock(&s->walk_lock);
	ret = f->batch ? walk_names(f, want)
		       : fm_err_set(f->err, -ENOMEM, "allocate names of the tree");
	has_left_out = fm_scan_has_left_out(s->scan);
	pthread_mutex_unlock(&s->walk_lock);
	if (has_left_out)
		fm_source_note(s, FM_SOURCE_NOTE_RESERVED);
	pthread_mutex_lock(&s->lock);
	if (ret == 0) {
		s->is_walked = true;
		batch_free(f->batch);
		f->batch = NULL;
	}
	return ret;
}

/* The next entries of sent that are wanted. 1: there may be more. */
static int read_wanted(struct fm_source_sent *sent, struct fm_source_batch *b)
{
	struct fm_pack_reader before = sent->r;
	struct fm_pack_entry e;

	for (; fm_pack_next(&sent->r, &e) > 0; before = sent->r) {
		struct fm_source_item *it;
		size_t i;

		i = sent->count - sent->r.left - 1;
		if (!fm_source_has_bit(sent->wanted, i))
			continue;
		if (!batch_has_room(b, e.path_len)) {
			sent->r = before;
			return 1;
		}
		it = batch_add(b, e.path, e.path_len);
		it->type = DT_REG;
		it->is_wanted = true;
		it->is_large = (e.flags & FM_PACK_IS_LARGE) != 0;
		it->size = e.size;
		it->mtime_ns = e.mtime_ns;
		it->is_compared = sent->ctimes != NULL;
		if (it->is_compared)
			it->ctime_ns = sent->ctimes[i];
	}
	return 0;
}

/* As take_walk(), of what the far end asked for. */
static int take_needed(struct fm_source_fill *f)
{
	struct fm_source *s = f->source;
	struct fm_source_sent *sent =
		fm_container_of(fm_list_pop(&s->needed), struct fm_source_sent, link);
	bool has_more;

	become_active(f);
	pthread_mutex_unlock(&s->lock);
	f->batch = batch_new();
	has_more = f->batch && read_wanted(sent, f->batch);
	pthread_mutex_lock(&s->lock);
	if (has_more)
		fm_list_prepend(&s->needed, &sent->link);
	else
		fm_source_sent_put(sent);
	if (!f->batch)
		return fm_err_set(f->err, -ENOMEM, "allocate names of the tree");
	f->batch->is_data = true;
	return 1;
}

static int take_left(struct fm_source_fill *f, struct fm_list *from)
{
	struct fm_list *link = fm_list_pop(from);

	if (!link)
		return 0;
	become_active(f);
	f->batch = fm_container_of(link, struct fm_source_batch, link);
	return 1;
}

/* Finds work for this fill. 1: it is in f->batch. 0: there is none. Or an error. */
static int take_any(struct fm_source_fill *f)
{
	struct fm_source *s = f->source;
	bool has_data = !fm_list_is_empty(&s->left_data) || !fm_list_is_empty(&s->needed);
	int ret = 0;

	if (has_data && may_take(f, true)) {
		ret = take_left(f, &s->left_data);
		return ret != 0 ? ret : take_needed(f);
	}
	if (fm_list_is_empty(&s->left_walk) && s->is_walked)
		return 0;
	if (may_take(f, false)) {
		ret = take_left(f, &s->left_walk);
		if (ret == 0)
			ret = take_walk(f);
	}
	return ret;
}

int fm_source_check_state(struct fm_source_fill *f)
{
	struct fm_source *s = f->source;

	if (atomic_load_explicit(&s->is_stopped, memory_order_relaxed))
		return fm_err_set(f->err, -ECANCELED, "stopped");
	if (s->failed.code != 0 && f->err)
		*f->err = s->failed;
	return s->failed.code;
}

/* Whether nothing will come any more. Nobody holds work. */
static bool is_over(const struct fm_source *s)
{
	return s->is_walked && s->unanswered == 0 && fm_list_is_empty(&s->left_walk) &&
	       fm_list_is_empty(&s->left_data) && fm_list_is_empty(&s->needed);
}

int fm_source_take_work(struct fm_source_fill *f)
{
	struct fm_source *s = f->source;
	int ret;

	pthread_mutex_lock(&s->lock);
	while ((ret = fm_source_check_state(f)) == 0) {
		ret = take_any(f);
		if (ret != 0 || f->w.count > 0)
			break;
		set_mode(f, FM_SOURCE_ANY);
		fm_source_become_idle(f);
		if (s->active == 0) {
			ret = is_over(s) ? 0 : -EAGAIN;
			break;
		}
		s->waiting++;
		pthread_cond_wait(&s->changed, &s->lock);
		s->waiting--;
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

void fm_source_leave_batch(struct fm_source_fill *f)
{
	struct fm_source *s = f->source;
	struct fm_source_batch *b = f->batch;

	f->batch = NULL;
	if (!b || b->at == b->count) {
		batch_free(b);
		return;
	}
	pthread_mutex_lock(&s->lock);
	fm_list_prepend(b->is_data ? &s->left_data : &s->left_walk, &b->link);
	fm_source_wake(s);
	pthread_mutex_unlock(&s->lock);
}

int fm_source_leave_rest(struct fm_source_fill *f, const struct fm_source_item *it, uint64_t from)
{
	struct fm_source *s = f->source;
	struct fm_source_batch *b = batch_new();
	struct fm_source_item *rest;
	const char *name;

	if (!b)
		return -ENOMEM;
	rest = batch_add(b, it->name, it->name_len);
	name = rest->name;
	*rest = *it;
	rest->name = name;
	rest->dir = it->dir ? fm_scan_dir_get(it->dir) : NULL;
	rest->file = fm_reading_get(it->file);
	rest->from = from;
	b->is_data = true;
	pthread_mutex_lock(&s->lock);
	fm_list_prepend(&s->left_data, &b->link);
	fm_source_wake(s);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* ---- what the entries need to know ---- */

void fm_source_note(struct fm_source *s, enum fm_source_note what)
{
	static const char *const texts[FM_SOURCE_NOTES] = {
		[FM_SOURCE_NOTE_HARD_LINKS] =
			"more files have several names than can be remembered: further ones are "
			"sent as copies",
		[FM_SOURCE_NOTE_RESERVED] =
			"names that begin with " FM_STAGING_PREFIX " are fmove's own: not sent",
	};
	const char *before;

	pthread_mutex_lock(&s->lock);
	if (!s->is_noted[what]) {
		before = s->notes_said > 0 ? s->notes[s->notes_said - 1] : "";
		(void)snprintf(s->notes[s->notes_said], FM_SOURCE_NOTE_LEN, "%s%s%s", before,
			       before[0] ? "; " : "", texts[what]);
		__atomic_store_n(&s->tree.note, s->notes[s->notes_said++], __ATOMIC_RELEASE);
		s->is_noted[what] = true;
	}
	pthread_mutex_unlock(&s->lock);
}

int fm_source_add_large(struct fm_source_fill *f, struct fm_source_item *it, bool has_holes)
{
	struct fm_source *s = f->source;
	struct fm_source_large *l =
		FM_FAULT("source.large_alloc") ? NULL : fm_budget_alloc(sizeof(*l));
	const struct stat *st = &it->file->st;
	bool is_blocked;

	if (!l)
		return -ENOMEM;
	memcpy(l->file.path, f->path, f->path_len + 1);
	l->file.size = (uint64_t)st->st_size;
	l->file.mode = st->st_mode & 01777u;
	l->file.mtime_ns = fm_reading_mtime(st);
	l->file.has_holes = has_holes;
	fm_reading_identity(st, &l->file.id);
	pthread_mutex_lock(&s->lock);
	is_blocked = s->larges_count >= FM_TREE_LARGE_WAITING_MAX;
	if (!is_blocked) {
		l->file.fd = fm_reading_take_fd(it->file);
		it->file = NULL;
		fm_list_append(&s->larges, &l->link);
		s->larges_count++;
	}
	pthread_mutex_unlock(&s->lock);
	if (is_blocked)
		fm_budget_free(l);
	return is_blocked ? FM_SOURCE_BLOCKED : FM_SOURCE_PUT;
}

int fm_source_meet_hardlink(struct fm_source_fill *f, const struct fm_hardlink_id *id, size_t *len)
{
	struct fm_source *s = f->source;
	const char *first;
	int ret;

	pthread_mutex_lock(&s->lock);
	first = fm_hardlinks_meet(&s->hardlinks, id, f->path, len, &ret);
	if (first)
		memcpy(f->target, first, *len + 1);
	pthread_mutex_unlock(&s->lock);
	if (ret == -ENOSPC) {
		fm_source_note(s, FM_SOURCE_NOTE_HARD_LINKS);
		ret = 0;
	}
	return first ? 1 : ret;
}
