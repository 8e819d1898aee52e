/* SPDX-License-Identifier: MIT */
/*
 * sink_log - finished files go into the journal, once they are on the disk.
 *
 * The list of those that are made is taken away, then the file system is synced, then what was on
 * the list is appended: nothing is in the journal that the sync did not cover. A sync that fails
 * tells so once; what it lost cannot be known, so nothing of this try is logged, published or kept
 * any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

#define FIRST_CAP 256u
#define FIRST_PATHS (16u << 10)
#define MERGE_LOOK_BACK 8u

/* ------------------------------------------------------------------------------------- the list */

static int grow(struct fm_sink_made *m, size_t path_len)
{
	size_t cap = m->count < m->cap ? m->cap : m->cap ? 2 * m->cap : FIRST_CAP;
	size_t paths_cap = m->paths_cap ? m->paths_cap : FIRST_PATHS;
	void *at;

	while (paths_cap - m->paths_len < path_len)
		paths_cap *= 2;
	if (cap != m->cap) {
		at = fm_budget_realloc(m->at, cap * sizeof(*m->at));
		if (!at)
			return -ENOMEM;
		m->at = at;
		m->cap = cap;
	}
	if (paths_cap != m->paths_cap) {
		at = fm_budget_realloc(m->paths, paths_cap);
		if (!at)
			return -ENOMEM;
		m->paths = at;
		m->paths_cap = paths_cap;
	}
	return 0;
}

static bool is_full(const struct fm_sink_made *m, size_t path_len)
{
	return m->count >= FM_SINK_MADE_MAX || path_len > FM_SINK_MADE_PATHS_MAX - m->paths_len;
}

static bool follows(const struct fm_journal_entry *last, const struct fm_journal_entry *e)
{
	return last->offset + last->len == e->offset &&
	       last->len + e->len <= FM_JOURNAL_PIECE_BYTES && last->path_len == e->path_len &&
	       last->size == e->size && last->mtime_ns == e->mtime_ns &&
	       last->identity == e->identity;
}

/* Chunks of one large file mostly follow each other: one of the last entries grows. */
static bool merge(struct fm_sink_made *m, const struct fm_journal_entry *e)
{
	size_t path_at = m->paths_len;

	if (e->offset == 0)
		return false;
	for (size_t i = m->count; i > 0 && m->count - i < MERGE_LOOK_BACK; i--) {
		struct fm_journal_entry *last = &m->at[i - 1];

		path_at -= last->path_len;
		if (!follows(last, e) || memcmp(m->paths + path_at, e->path, e->path_len) != 0)
			continue;
		last->len += e->len;
		last->crc ^= e->crc;
		return true;
	}
	return false;
}

int fm_sink_made(struct fm_sink *s, const struct fm_journal_entry *e)
{
	struct fm_sink_made *m = &s->made;
	int ret = 0;

	pthread_mutex_lock(&s->making);
	if (merge(m, e))
		goto unlock;
	ret = is_full(m, e->path_len) ? -ENOBUFS : 0;
	if (ret == 0 && (m->count == m->cap || m->paths_cap - m->paths_len < e->path_len))
		ret = grow(m, e->path_len);
	if (ret == -ENOMEM && m->count > 0)	/* log() makes room as well */
		ret = -ENOBUFS;
	if (ret < 0)
		goto unlock;
	m->at[m->count++] = *e;
	memcpy(m->paths + m->paths_len, e->path, e->path_len);
	m->paths_len += e->path_len;
unlock:
	pthread_mutex_unlock(&s->making);
	return ret;
}

/* Takes the list of files that were made so far, to log it. The sink begins a new list. */
static void take_made(struct fm_sink *s)
{
	struct fm_sink_made taken;
	const char *path;

	pthread_mutex_lock(&s->making);
	taken = s->made;
	s->made = s->logged;
	s->made.count = 0;
	s->made.paths_len = 0;
	pthread_mutex_unlock(&s->making);
	path = taken.paths;
	for (size_t i = 0; i < taken.count; i++) {
		taken.at[i].path = path;
		path += taken.at[i].path_len;
	}
	s->logged = taken;
}

void fm_sink_free_made(struct fm_sink *s)
{
	fm_budget_free(s->made.at);
	fm_budget_free(s->made.paths);
	fm_budget_free(s->logged.at);
	fm_budget_free(s->logged.paths);
}

/* ---------------------------------------------------------------------------------- the journal */

/*
 * A stretch that overlaps in part what is there (its chunk was cut otherwise by an earlier try) is
 * refused with all that comes along. Half as many are tried then, until it is alone and is left
 * out: it would be sent again, no more.
 */
static int append_some(struct fm_sink *s, const struct fm_journal_entry *entries, size_t count,
		       struct fm_err *err)
{
	size_t n = count;

	for (size_t at = 0; at < count;) {
		int ret = fm_journal_append(s->journal, entries + at, n, err);

		if (ret < 0 && ret != -EINVAL)
			return ret;
		if (ret < 0)
			fm_err_clear(err);
		if (ret < 0 && n > 1) {
			n /= 2;
			continue;
		}
		at += n;
		n = count - at;
	}
	return 0;
}

static int append(struct fm_sink *s, const struct fm_journal_entry *entries, size_t count,
		  struct fm_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&s->journaling);
	if (!s->is_journal_full)
		ret = append_some(s, entries, count, err);
	if (ret == -EFBIG) {	/* what is beyond is sent again after a failure, no more */
		s->is_journal_full = true;
		fm_err_clear(err);
		ret = 0;
	}
	pthread_mutex_unlock(&s->journaling);
	return ret;
}

int fm_sink_log(struct fm_sink *s, struct fm_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&s->logging);
	take_made(s);
	if (s->logged.count > 0) {
		ret = s->opts.is_synced ? fm_sink_sync(s, err) : 0;
		if (ret == 0)
			ret = append(s, s->logged.at, s->logged.count, err);
	}
	pthread_mutex_unlock(&s->logging);
	return ret;
}

/* No source has this: whatever is asked for later is another file. */
static struct fm_journal_entry nothing_of(const char *path, size_t len)
{
	return (struct fm_journal_entry){ .path = path, .path_len = len };
}

int fm_sink_forget(struct fm_sink *s, const char *path, size_t len, struct fm_err *err)
{
	const struct fm_journal_entry nothing = nothing_of(path, len);

	return append(s, &nothing, 1, err);
}

void fm_sink_made_anew(struct fm_sink *s, const struct fm_journal_entry *e)
{
	const struct fm_journal_entry nothing = nothing_of(e->path, e->path_len);

	if (fm_sink_made(s, &nothing) == 0)
		(void)fm_sink_made(s, e);
}
