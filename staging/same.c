/* SPDX-License-Identifier: MIT */
/* same - see same.h. */
#include "staging/same.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/show.h"
#include "mover/tree/reading.h"
#include "staging/chunk.h"
#include "staging/walk.h"

struct pair {
	struct fm_reading *r[2];
	uint8_t *buf[2];
};

/* 1: the same; 0: not. */
static int compare_chunk(const struct pair *p, uint64_t n)
{
	struct fm_stage_chunk c[2];

	for (int i = 0; i < 2; i++) {
		int ret = fm_stage_chunk_read(p->r[i], n, p->buf[i], &c[i]);

		if (ret < 0)
			return ret;
	}
	return memcmp(p->buf[0], p->buf[1],
		      fm_stage_chunk_len((uint64_t)p->r[0]->st.st_size, n)) == 0;
}

static int compare_opened(const struct pair *p)
{
	uint64_t size = (uint64_t)p->r[0]->st.st_size;
	int ret = size == (uint64_t)p->r[1]->st.st_size;

	for (uint64_t n = 0; ret == 1 && n < fm_stage_chunks(size); n++)
		ret = compare_chunk(p, n);
	return ret;
}

static int compare_file(struct pair *p, const struct fm_stage_met *m, int b)
{
	int ret = fm_stage_chunk_open(m->dir, m->name, &p->r[0]);

	if (ret < 0)
		return ret;
	ret = fm_stage_chunk_open_path(b, m->path, &p->r[1]);
	if (ret == 0) {
		ret = compare_opened(p);
		fm_reading_put(p->r[1]);
	}
	fm_reading_put(p->r[0]);
	return ret;
}

static int compare_met(struct pair *p, const struct fm_stage_met *m, int b, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret = compare_file(p, m, b);

	if (ret == 0)
		return fm_err_set(err, -EEXIST, "the bytes of \"%s\" differ",
				  fm_path_show(m->path, &shown));
	return ret < 0 ? fm_reading_fail(err, ret, m->path) : 0;
}

static int compare_all(struct pair *p, struct fm_stage_walk *walk, int b,
		       const atomic_bool *is_stopped, struct fm_err *err)
{
	struct fm_stage_met m;
	int ret;

	while ((ret = fm_stage_walk_next(walk, &m, err)) > 0) {
		if (atomic_load(is_stopped))
			return fm_err_set(err, -ECANCELED, "stopped");
		if (!S_ISREG(m.st.st_mode))
			continue;
		ret = compare_met(p, &m, b, err);
		if (ret < 0)
			return ret;
	}
	return ret;
}

int fm_stage_same(int a, int b, const char *file, const atomic_bool *is_stopped,
		  struct fm_err *err)
{
	const struct fm_stage_met one = { .dir = a, .name = file, .path = file };
	struct pair p = { .buf = { fm_stage_chunk_buf_new(), fm_stage_chunk_buf_new() } };
	struct fm_stage_walk *walk = NULL;
	int ret = p.buf[0] && p.buf[1] ? 0 : -ENOMEM;

	if (ret == 0 && !file)
		ret = fm_stage_walk_new(a, FM_STAGE_NAMES_MAX, &walk);
	if (ret < 0)
		(void)fm_err_sys(err, ret, "compare two datasets");
	else if (file)
		ret = compare_met(&p, &one, b, err);
	else
		ret = compare_all(&p, walk, b, is_stopped, err);
	fm_stage_walk_free(walk);
	fm_stage_chunk_buf_free(p.buf[0]);
	fm_stage_chunk_buf_free(p.buf[1]);
	return ret;
}
