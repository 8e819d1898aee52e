/* SPDX-License-Identifier: MIT */
/*
 * sink_pieces - small files that come in pieces, since a pack ended in the middle of them.
 *
 * A table has the files of which something is missing. Who writes a piece owns its file meanwhile:
 * others wait, so that nobody writes behind the one who sets the time of the finished file, and a
 * piece that comes twice at once is written once. Only files that this table created are written
 * to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

struct piece {
	struct fm_list link;
	bool is_owned;
	bool has_file;
	unsigned flags;		/* of all pieces: FM_PACK_IS_CORRUPT */
	uint64_t size;
	int64_t mtime_ns;
	uint64_t identity;
	struct fm_ranges there;
	uint32_t crc;		/* of those, xored */
	size_t path_len;
	char path[];
};

static struct fm_list *bucket_of(struct fm_sink *s, const char *path, size_t len)
{
	return &s->pieces[fm_crc32c(0, path, len) % FM_SINK_PIECE_BUCKETS];
}

static struct piece *find(struct fm_sink *s, const char *path, size_t len)
{
	struct fm_list *bucket = bucket_of(s, path, len);

	fm_list_each(at, next, bucket) {
		struct piece *p = fm_container_of(at, struct piece, link);

		if (p->path_len == len && memcmp(p->path, path, len) == 0)
			return p;
	}
	return NULL;
}

static void drop(struct fm_sink *s, struct piece *p)
{
	fm_list_del(&p->link);
	s->piece_count--;
	fm_ranges_free(&p->there);
	fm_tsys_free(p);
}

static int add(struct fm_sink *s, const struct fm_pack_entry *e, struct piece **out)
{
	struct piece *p;

	if (s->piece_count >= FM_SINK_PIECES_MAX)
		return -ENOBUFS;
	p = fm_tsys_alloc(sizeof(*p) + e->path_len);
	if (!p)
		return -ENOMEM;
	p->size = e->size;
	p->mtime_ns = e->mtime_ns;
	p->identity = e->identity;
	p->path_len = e->path_len;
	memcpy(p->path, e->path, e->path_len);
	fm_list_append(bucket_of(s, e->path, e->path_len), &p->link);
	s->piece_count++;
	*out = p;
	return 0;
}

/* The entry's file for this thread alone. */
static int own(struct fm_sink *s, const struct fm_pack_entry *e, struct piece **out)
{
	struct piece *p;
	int ret = 0;

	pthread_mutex_lock(&s->piecing);
	/* Looked for again each time: who owned it may have finished it. */
	while ((p = find(s, e->path, e->path_len)) && p->is_owned)
		pthread_cond_wait(&s->piece_done, &s->piecing);
	if (!p)
		ret = add(s, e, &p);
	if (ret == 0) {
		p->is_owned = true;
		*out = p;
	}
	pthread_mutex_unlock(&s->piecing);
	return ret;
}

/* Forgets a file of pieces: it is finished, or was never begun. */
static void disown(struct fm_sink *s, struct piece *p)
{
	pthread_mutex_lock(&s->piecing);
	p->is_owned = false;
	if (!p->has_file || fm_ranges_bytes(&p->there) == p->size)
		drop(s, p);
	pthread_cond_broadcast(&s->piece_done);
	pthread_mutex_unlock(&s->piecing);
}

/*
 * Gives the file its final size at once. A recount of the quota adds up file sizes, so it then
 * counts what was promised to this file.
 */
static int promise(struct fm_sink_call *call, const struct piece *p, int fd,
		   const struct fm_sink_at *at)
{
	int ret = fm_sink_take(call, p->size);

	if (ret < 0)
		return ret;
	ret = fm_tsys_truncate(fd, p->size);
	if (ret == 0)
		return 0;
	fm_sink_give(call->s, p->size);
	return fm_sink_fail(call->s, ret, "create", at->path, at->path_len, call->err);
}

/* -EEXIST, without a text: the name is taken. */
static int open_file(struct fm_sink_call *call, struct piece *p, const struct fm_sink_at *at,
		     const struct fm_pack_entry *e)
{
	int flags = O_WRONLY | (p->has_file ? 0 : O_CREAT | O_EXCL);
	int fd = fm_tsys_open(at->dir, at->name, flags, 0600);
	int ret;

	if (fd == -EEXIST)
		return fd;
	if (fd < 0)
		return fm_sink_fail(call->s, fd, "create", at->path, at->path_len, call->err);
	if (p->has_file)
		return fd;
	ret = promise(call, p, fd, at);
	if (ret < 0) {
		close(fd);
		unlinkat(at->dir, at->name, 0);
		return ret;
	}
	call->count.files++;
	call->count.bytes += p->size;
	fm_sink_name_file(call, e);
	p->has_file = true;
	return fd;
}

/* Finishes a file of pieces after its last piece. */
static int finish_file(struct fm_sink_call *call, const struct piece *p, int fd,
		       const struct fm_pack_entry *e)
{
	struct fm_pack_entry whole = *e;
	struct fm_digest digest;
	int ret;

	whole.flags = p->flags;
	ret = fm_sink_set_attrs(call->s, fd, &whole,
				fm_sink_digest(call->s, &whole, p->crc, &digest), false, call->err);
	return ret < 0 ? ret : fm_sink_finished(call, &whole, p->crc);
}

static int write_piece(struct fm_sink_call *call, struct piece *p, int fd,
		       const struct fm_pack_entry *e)
{
	int ret = fm_tsys_write_all(fd, e->data, e->data_len, e->offset);

	if (ret == 0)
		ret = fm_ranges_add(&p->there, e->offset, e->data_len, FM_SINK_PIECE_RANGES_MAX);
	/* Who reads a file from its start cannot have so many gaps in it; the disk has room. */
	if (ret == -ENOSPC && p->there.count == FM_SINK_PIECE_RANGES_MAX)
		return fm_sink_refuse(call->s, e->path, e->path_len,
				      "came in too many pieces that do not touch", call->err);
	if (ret < 0)
		return fm_sink_fail(call->s, ret, "write", e->path, e->path_len, call->err);
	p->crc ^= e->crc;
	p->flags |= e->flags;
	if (fm_ranges_bytes(&p->there) < p->size)
		return 0;
	ret = finish_file(call, p, fd, e);
	if (ret < 0) {	/* it is not finished: the piece may come again */
		fm_ranges_free(&p->there);
		p->there = (struct fm_ranges){ 0 };
		p->crc = 0;
	}
	return ret;
}

/* The name is taken and no piece is known: all of them came before, or it is something else. */
static int meet_finished(struct fm_sink_call *call, const struct fm_sink_at *at,
			 const struct fm_pack_entry *e)
{
	int ret = fm_sink_check_name(call, at);

	if (ret == 0)
		ret = fm_sink_is_complete(call, at, e);
	if (ret == 0)
		return fm_sink_refuse(call->s, at->path, at->path_len,
				      "came before, with another size or time", call->err);
	return ret < 0 ? ret : 0;
}

static int put_piece(struct fm_sink_call *call, struct piece *p, const struct fm_sink_at *at,
		     const struct fm_pack_entry *e)
{
	int fd, ret, close_ret;

	if (p->size != e->size || p->mtime_ns != e->mtime_ns || p->identity != e->identity)
		return fm_sink_refuse(call->s, at->path, at->path_len,
				      "came in pieces that do not belong together", call->err);
	if (fm_ranges_cover(&p->there, e->offset, e->data_len))
		return 0;
	if (fm_ranges_overlap(&p->there, e->offset, e->data_len))
		return fm_sink_refuse(call->s, at->path, at->path_len,
				      "came in pieces that overlap", call->err);
	fd = open_file(call, p, at, e);
	if (fd == -EEXIST)
		return meet_finished(call, at, e);
	if (fd < 0)
		return fd;
	ret = write_piece(call, p, fd, e);
	close_ret = fm_tsys_close(fd);
	if (ret == 0 && close_ret < 0)
		ret = fm_sink_fail(call->s, close_ret, "write", at->path, at->path_len, call->err);
	return ret;
}

int fm_sink_piece(struct fm_sink_call *call, const struct fm_sink_at *at,
		  const struct fm_pack_entry *e)
{
	struct piece *p;
	int ret = own(call->s, e, &p);

	if (ret == -ENOBUFS)
		return fm_sink_refuse(call->s, at->path, at->path_len,
				      "is one of too many files in pieces at once", call->err);
	if (ret < 0)
		return fm_sink_fail(call->s, ret, "write", at->path, at->path_len, call->err);
	ret = put_piece(call, p, at, e);
	disown(call->s, p);
	return ret;
}

bool fm_sink_has_pieces(struct fm_sink *s, char *path, size_t len)
{
	for (unsigned i = 0; i < FM_SINK_PIECE_BUCKETS; i++) {
		if (fm_list_is_empty(&s->pieces[i]))
			continue;
		const struct piece *p = fm_container_of(s->pieces[i].next, struct piece, link);

		snprintf(path, len, "%.*s", (int)p->path_len, p->path);
		return true;
	}
	return false;
}

void fm_sink_free_pieces(struct fm_sink *s)
{
	for (unsigned i = 0; i < FM_SINK_PIECE_BUCKETS; i++)
		while (!fm_list_is_empty(&s->pieces[i]))
			drop(s, fm_container_of(s->pieces[i].next, struct piece, link));
}
