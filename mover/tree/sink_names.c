/* SPDX-License-Identifier: MIT */
/* sink_names - see sink_names.h. */
#include "mover/tree/sink_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/bytes.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

_Static_assert(FM_TREE_NAME_HEAD + FM_TREE_PATH_MAX <= FM_TREE_NAMES_LEN,
	       "the longest path fits a page");

/* -------------------------------------------------------------------------------------- keeping */

static int open_file(const struct fm_sink *s)
{
	int fd = fm_tsys_open(s->opts.parent, ".", O_TMPFILE | O_RDWR, 0600);

	if (fd < 0)
		fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

void fm_sink_names_open(struct fm_sink *s)
{
	struct fm_sink_names *n = &s->names;

	pthread_mutex_init(&n->lock, NULL);
	n->is_wanted = s->opts.has_names;
	n->fd = n->is_wanted ? open_file(s) : -1;
	n->page = n->is_wanted ? fm_tsys_alloc(sizeof(*n->page)) : NULL;
	if (n->is_wanted && n->fd < 0)
		n->error = n->fd;
	else if (n->is_wanted && !n->page)
		n->error = -ENOMEM;
	fm_random_real.fill(fm_random_real.ctx, n->key, sizeof(n->key));
}

void fm_sink_names_close(struct fm_sink *s)
{
	struct fm_sink_names *n = &s->names;

	if (n->fd >= 0)
		close(n->fd);
	fm_tsys_free(n->page);
	fm_budget_free(n->met);
	pthread_mutex_destroy(&n->lock);
}

static int flush(struct fm_sink_names *n)
{
	int ret;

	if (n->bytes + n->len > FM_SINK_NAMES_BYTES_MAX)
		return -EFBIG;
	ret = n->len > 0 ? fm_tsys_write_all(n->fd, n->page->at, n->len, n->bytes) : 0;
	if (ret < 0)
		return ret;
	n->bytes += n->len;
	n->len = 0;
	return 0;
}

static void add(struct fm_sink_names *n, enum fm_tree_change change, const char *path, size_t len)
{
	struct fm_writer w;

	if (n->len + FM_TREE_NAME_HEAD + len > FM_TREE_NAMES_LEN)
		n->error = flush(n);
	if (n->error < 0)
		return;
	w = (struct fm_writer){.at = n->page->at + n->len, .end = n->page->at + FM_TREE_NAMES_LEN};
	fm_put_u8(&w, (uint8_t)change);
	fm_put_le16(&w, (uint16_t)len);
	fm_put_bytes(&w, path, len);
	n->len += FM_TREE_NAME_HEAD + len;
}

void fm_sink_name(struct fm_sink *s, enum fm_tree_change change, const char *path, size_t len)
{
	struct fm_sink_names *n = &s->names;

	if (!n->is_wanted || len > FM_TREE_PATH_MAX)
		return;
	pthread_mutex_lock(&n->lock);
	if (n->error == 0)
		add(n, change, len > 0 ? path : ".", len > 0 ? len : 1);
	pthread_mutex_unlock(&n->lock);
}

void fm_sink_name_as(struct fm_sink *s, int met, const struct fm_pack_entry *e)
{
	if (met == FM_SINK_MET_NOTHING || met == FM_SINK_MET_OTHER)
		fm_sink_name(s, met == FM_SINK_MET_NOTHING ? FM_TREE_ADDED : FM_TREE_REPLACED,
			     e->path, e->path_len);
}

/*
 * As fm_sink_meet(), without its error: the entry may not be allowed to replace what is there. That
 * error is reported when the entry itself is made.
 */
static int look_for(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	struct fm_err none;
	struct fm_err *err = call->err;
	int met;

	call->err = &none;
	met = fm_sink_meet(call, e);
	call->err = err;
	return met < 0 ? FM_SINK_MET_OTHER : met;
}

void fm_sink_name_dir(struct fm_sink_call *call, const char *path, size_t len)
{
	const struct fm_pack_entry e = { .type = FM_PACK_DIR, .path = path, .path_len = len };

	if (call->s->names.is_wanted && look_for(call, &e) == FM_SINK_MET_NOTHING)
		fm_sink_name(call->s, FM_TREE_ADDED, path, len);
}

void fm_sink_name_file(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	if (call->s->names.is_wanted)
		fm_sink_name_as(call->s, look_for(call, e), e);
}

/* -------------------------------------------------------------------- what was met in a dry run */

static uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

/* SipHash-2-4: whoever chooses the paths does not know the key, so no two of his are one for us. */
uint64_t fm_sink_hash(const struct fm_sink *s, const char *path, size_t len)
{
	const struct fm_sink_names *n = &s->names;
	uint64_t v[4] = {
		n->key[0] ^ UINT64_C(0x736f6d6570736575), n->key[1] ^ UINT64_C(0x646f72616e646f6d),
		n->key[0] ^ UINT64_C(0x6c7967656e657261), n->key[1] ^ UINT64_C(0x7465646279746573)};
	uint64_t word;
	size_t at = 0;

	for (; len - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, path + at, sizeof(word));
		sip_word(v, word);
	}
	word = 0;
	memcpy(&word, path + at, len - at);
	sip_word(v, word | (uint64_t)len << 56);
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static int grow(struct fm_sink_names *n)
{
	size_t cap = n->met_cap ? 2 * n->met_cap : 1024;
	uint64_t *met = n->met_cap >= FM_SINK_MET_MAX || FM_FAULT("names.met")
				? NULL
				: fm_budget_realloc(n->met, cap * sizeof(*met));

	if (!met)
		return n->met_cap >= FM_SINK_MET_MAX ? -E2BIG : -ENOMEM;
	n->met = met;
	n->met_cap = cap;
	return 0;
}

void fm_sink_name_met(struct fm_sink *s, const char *path, size_t len)
{
	struct fm_sink_names *n = &s->names;

	if (!n->is_wanted || s->is_merging)
		return;
	pthread_mutex_lock(&n->lock);
	if (n->error == 0 && !n->is_sorted && n->met_count == n->met_cap)
		n->error = grow(n);
	if (n->error == 0 && !n->is_sorted)
		n->met[n->met_count++] = fm_sink_hash(s, path, len);
	pthread_mutex_unlock(&n->lock);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

bool fm_sink_is_met(const struct fm_sink *s, const char *path, size_t len)
{
	const struct fm_sink_names *n = &s->names;
	uint64_t wanted = fm_sink_hash(s, path, len);

	return n->met_count > 0 && bsearch(&wanted, n->met, n->met_count, sizeof(*n->met), compare);
}

/* -------------------------------------------------------------------------------------- reading */

static int fail(const struct fm_sink *s, int ret, struct fm_err *err)
{
	struct fm_path_shown shown;

	if (ret == -E2BIG)
		return fm_err_set(
			err, ret,
			"more than %u names are too many to tell which of \"%s\" would go",
			FM_SINK_MET_MAX, fm_path_show(s->opts.path, &shown));
	return fm_sink_fail(s, ret, "keep the names that differ in", NULL, 0, err);
}

/* Nothing is met behind this: fm_sink_is_met() looks without the lock. */
static void sort_met(struct fm_sink_names *n)
{
	pthread_mutex_lock(&n->lock);
	n->is_sorted = true;
	if (n->met_count > 0)
		qsort(n->met, n->met_count, sizeof(*n->met), compare);
	pthread_mutex_unlock(&n->lock);
}

static int flush_last(struct fm_sink_names *n)
{
	int ret;

	pthread_mutex_lock(&n->lock);
	if (n->error == 0)
		n->error = flush(n);
	ret = n->error;
	pthread_mutex_unlock(&n->lock);
	return ret;
}

/* Completes the names of a dry run: adds the entries of the old version that nothing met. */
static int complete(struct fm_sink *s, struct fm_err *err)
{
	struct fm_sink_names *n = &s->names;
	int ret = 0, kept;

	sort_met(n);
	if (n->error == 0 && s->opts.is_dry && !s->is_merging && !s->is_same)
		ret = fm_sink_name_unmet(s, err);
	if (ret < 0)
		return ret;
	kept = flush_last(n);
	n->is_complete = kept == 0;
	return kept < 0 ? fail(s, kept, err) : 0;
}

/* Cut behind the last whole name. */
static int cut(struct fm_tree_names *page)
{
	struct fm_tree_name name;
	size_t pos = 0;

	while (fm_tree_names_next(page->at, page->len, &pos, &name) > 0)
		;
	page->len = pos;
	return pos > 0 ? 0 : -EIO;	/* not what was written: the disk's fault */
}

static int read_page(const struct fm_sink *s, uint64_t at, struct fm_tree_names *out,
		     struct fm_err *err)
{
	ssize_t got = FM_FAULT("tree.read")
			      ? (errno = EIO, -1)
			      : pread(s->names.fd, out->at, FM_TREE_NAMES_LEN, (off_t)at);
	int ret = got < 0 ? -errno : 0;

	out->len = got > 0 ? (size_t)got : 0;
	if (ret == 0)
		ret = cut(out);
	return ret < 0 ? fail(s, ret, err) : 0;
}

int fm_sink_names(struct fm_tree *t, uint64_t *at, struct fm_tree_names *out, struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);
	const struct fm_sink_names *n = &s->names;
	int ret = n->is_wanted && !n->is_complete ? complete(s, err) : 0;

	out->len = 0;
	if (ret == 0 && *at < n->bytes)
		ret = read_page(s, *at, out, err);
	if (ret < 0 && ret != -ECANCELED)
		fm_sink_note(s, "the names that differ cannot all be told, the numbers are right");
	if (ret == 0)
		*at += out->len;
	return ret;
}
