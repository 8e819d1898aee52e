/* SPDX-License-Identifier: MIT */
/* laid - see laid.h. */
#include "staging/laid.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/base/page.h"
#include "mover/tree/reading.h"
#include "mover/tree/tree.h"
#include "staging/at_once.h"
#include "staging/chunk.h"
#include "staging/direct.h"

#define FM_NS INT64_C(1000000000)
#define INSIDE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
#define LET_GO_MIN (UINT64_C(1) << 20) /* smaller ones are not worth a wait for the disk each */

/* ---- the files of an extent ---- */

/* A file, or the part of it that is in the extent. */
struct piece {
	char path[FM_TREE_PATH_MAX + 1];
	uint64_t size, offset, len;
	uint64_t begin;			/* in the extent */
	uint64_t chunks_at;		/* in the manifest: of the file */
	int64_t mtime_ns;
};

struct pieces;

/* chunk: of a thread's own; NULL unless the source is read. */
typedef int piece_fn(struct pieces *all, const struct piece *p, uint8_t *at, uint8_t *chunk);

/* What the threads share that work on one extent. */
struct pieces {
	int manifest;
	int root;			/* -1: only the manifest is worked on */
	const char *file;		/* what the one file is called there; NULL: as it says */
	uint8_t *buf;
	size_t len;			/* of buf */
	piece_fn *fn;
	uint8_t *chunk;			/* of the first thread; NULL: no thread needs one */
	pthread_mutex_t lock;		/* of all below */
	struct fm_stage_reader *r;
	struct fm_stage_extent x;
	uint32_t left;			/* files that nobody has taken */
	uint64_t done;			/* bytes of those that were taken */
	struct piece kept;		/* read from the manifest, and not taken */
	bool is_kept;
	bool is_filling;		/* the draft, with what is written */
	uint32_t crc;			/* of the extent: what the pieces contribute */
	int ret;			/* the first that went wrong */
};

static void text(char out[static FM_TREE_PATH_MAX + 1], const char *at, size_t len)
{
	memcpy(out, at, len);
	out[len] = '\0';
}

/* The next file of it that is not empty. */
static int next_piece(struct pieces *all, struct piece *p)
{
	const struct fm_stage_extent *x = &all->x;
	struct fm_stage_entry e;
	int ret;

	do {
		ret = fm_stage_reader_next(all->r, &e);
		if (ret <= 0)
			return ret < 0 ? ret : -EBADMSG;
	} while (e.type != FM_STAGE_FILE || e.size == 0);
	text(p->path, e.path, e.path_len);
	p->size = e.size;
	p->mtime_ns = e.mtime_ns;
	p->offset = x->offset;
	p->begin = all->done;
	p->chunks_at = fm_stage_reader_chunks_at(all->r);
	p->len = e.size >= FM_STAGE_EXTENT ? x->bytes : e.size;
	return p->len > x->bytes - all->done ? -EBADMSG : 0;
}

/* Under the lock: the first of those that nobody has taken. */
static bool find_piece(struct pieces *all)
{
	if (all->ret == 0 && all->left > 0 && !all->is_kept) {
		all->ret = next_piece(all, &all->kept);
		all->is_kept = all->ret == 0;
	}
	return all->ret == 0 && all->is_kept;
}

/*
 * False: there is none any more, something went wrong, or this thread has no memory for it. The
 * first one has, so it takes what the others left. own: NULL where no thread needs any.
 */
static bool take_piece(struct pieces *all, struct piece *p, struct fm_stage_some *own, uint8_t **at)
{
	bool is_one;

	pthread_mutex_lock(&all->lock);
	is_one = find_piece(all);
	if (is_one && own)
		is_one = fm_stage_some_for(own, fm_stage_chunk_len(all->kept.len, 0));
	if (is_one) {
		*p = all->kept;
		all->is_kept = false;
		*at = all->buf + all->done;
		all->done += p->len;
		all->left--;
	}
	pthread_mutex_unlock(&all->lock);
	return is_one;
}

static void note(struct pieces *all, int ret)
{
	pthread_mutex_lock(&all->lock);
	if (all->ret == 0)
		all->ret = ret;
	pthread_mutex_unlock(&all->lock);
}

/* One of several. The first has memory for any chunk, if chunks are read. */
static void work_on_pieces(void *ctx, unsigned n)
{
	struct pieces *all = ctx;
	struct fm_stage_some own = { 0 };
	bool is_own = all->chunk && n > 0;
	struct piece p;
	uint8_t *at;

	while (take_piece(all, &p, is_own ? &own : NULL, &at))
		note(all, all->fn(all, &p, at, is_own ? own.at : all->chunk));
	fm_stage_some_free(&own);
}

static int each_of(struct pieces *all)
{
	unsigned several = all->x.files < FM_STAGE_AT_ONCE ? all->x.files : FM_STAGE_AT_ONCE;

	if (several == 0)
		return -EBADMSG;
	all->left = all->x.files;
	fm_stage_reader_seek(all->r, &all->x);
	pthread_mutex_init(&all->lock, NULL);
	fm_stage_at_once(several, work_on_pieces, all);
	pthread_mutex_destroy(&all->lock);
	return all->ret;
}

static int each_piece(uint32_t n, struct pieces *all)
{
	int ret = fm_stage_reader_new(all->manifest, &all->r);

	if (ret < 0)
		return ret;
	ret = fm_stage_reader_extent(all->r, n, &all->x);
	if (ret == 0 && all->x.bytes != all->len)
		ret = -EBADMSG;
	if (ret == 0)
		ret = each_of(all);
	fm_stage_reader_free(all->r);
	return ret;
}

/* ---- reading ---- */

static void contribute(struct pieces *all, uint32_t crc)
{
	pthread_mutex_lock(&all->lock);
	all->crc ^= crc;
	pthread_mutex_unlock(&all->lock);
}

static int read_chunks(struct pieces *all, struct fm_reading *r, const struct piece *p, uint8_t *at,
		       uint8_t *chunk)
{
	uint32_t crc = 0;
	int ret = 0;

	for (uint64_t done = 0; ret == 0 && done < p->len;) {
		uint64_t n = (p->offset + done) / FM_STAGE_CHUNK;
		uint32_t len = fm_stage_chunk_len(p->size, n);
		struct fm_stage_chunk c;

		ret = fm_stage_chunk_read(r, n, chunk, &c);
		if (ret == 0) {
			memcpy(at + done, chunk, len);
			crc ^= fm_crc32c_part(c.crc, p->begin + done, len);
		}
		done += len;
	}
	contribute(all, crc);
	return ret < 0 ? ret : fm_reading_check(r);
}

static int read_source(struct pieces *all, const struct piece *p, uint8_t *at, uint8_t *chunk)
{
	struct fm_reading *r;
	int ret = fm_stage_chunk_open_path(all->root, all->file ? all->file : p->path, &r);

	if (ret < 0)
		return ret == -ENOENT || ret == -ELOOP ? -ESTALE : ret;
	if ((uint64_t)r->st.st_size != p->size || fm_reading_mtime(&r->st) != p->mtime_ns) {
		fm_reading_put(r);
		return -ESTALE;
	}
	ret = read_chunks(all, r, p, at, chunk);
	fm_reading_put(r);
	return ret;
}

int fm_stage_extent_read_source(int manifest, int root, const char *file, uint32_t n, uint8_t *buf,
				size_t len, uint8_t *chunk, uint32_t *crc)
{
	struct pieces all = { .manifest = manifest, .root = root, .file = file, .buf = buf,
			      .len = len, .fn = read_source, .chunk = chunk };
	int ret = each_piece(n, &all);

	*crc = fm_crc32c_whole(all.crc, all.done);
	return ret;
}

static int read_laid(struct pieces *all, const struct piece *p, uint8_t *at, uint8_t *chunk)
{
	/* A pipe that somebody put in its place must not keep us. */
	int fd = fm_call_open_below(all->root, p->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0,
				    INSIDE);
	int64_t n;

	(void)chunk;
	if (fd < 0)
		return fd;
	n = fm_call_read_all(fd, at, p->len, p->offset);
	/* It is not wanted in the page cache, and nothing is lost where it stays. */
	fm_page_drop(fd, p->offset, p->len);
	(void)close(fd);	/* only read */
	if (n < 0)
		return (int)n;
	return (uint64_t)n == p->len ? 0 : -EBADMSG;
}

int fm_stage_extent_read(int manifest, int root, uint32_t n, uint8_t *buf, size_t len)
{
	struct pieces all = { .manifest = manifest, .root = root, .buf = buf, .len = len,
			      .fn = read_laid };

	return each_piece(n, &all);
}

/* ---- writing ---- */

static int write_zeros(int fd, const uint8_t *at, size_t len, uint64_t offset)
{
	int ret = fm_call(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
				    (off_t)len));

	return ret == 0 ? 0 : fm_call_write_all(fd, at, len, offset);
}

static size_t granule_at(const struct piece *p, uint64_t at)
{
	return p->len - at < FM_STAGE_GRANULE ? p->len - at : FM_STAGE_GRANULE;
}

static int write_runs(int fd, const struct piece *p, const uint8_t *at)
{
	int ret = 0;

	for (uint64_t from = 0, to; ret == 0 && from < p->len; from = to) {
		bool are_zeros = fm_stage_is_zero(at + from, granule_at(p, from));

		to = from;
		do
			to += granule_at(p, to);
		while (to < p->len && fm_stage_is_zero(at + to, granule_at(p, to)) == are_zeros);
		ret = are_zeros ? write_zeros(fd, at + from, to - from, p->offset + from)
				: fm_stage_write_direct(fd, at + from, to - from, p->offset + from);
	}
	return ret;
}

/*
 * What went through the page cache leaves it when it is on the disk: most files of a pack do not
 * begin on a block's boundary in memory, and of large files that is the end.
 */
static int let_go(int fd, const struct piece *p)
{
	int ret;

	if (p->len < LET_GO_MIN)
		return 0;
	ret = FM_FAULT("stage.laid_write_back")
		      ? -EIO
		      : fm_call_write_back(fd, p->offset, p->len,
					   SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
						   SYNC_FILE_RANGE_WAIT_AFTER);
	fm_page_drop(fd, p->offset, p->len);
	return ret;
}

static int fill_chunks(struct pieces *all, const struct piece *p, uint8_t *at, uint8_t *chunk)
{
	uint32_t crc = 0;
	int ret = 0;

	(void)chunk;
	for (uint64_t done = 0; ret == 0 && done < p->len;) {
		uint64_t n = (p->offset + done) / FM_STAGE_CHUNK;
		uint32_t len = fm_stage_chunk_len(p->size, n);
		struct fm_stage_chunk c = fm_stage_chunk_of(at + done, len);

		ret = fm_stage_draft_fill(all->manifest, p->chunks_at, n, &c);
		crc ^= fm_crc32c_part(c.crc, p->begin + done, len);
		done += len;
	}
	contribute(all, crc);
	return ret;
}

/* The file, of that size: what an earlier try has left, or a new one. */
static int open_laid(int root, const char *path, uint64_t size)
{
	const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW;
	int fd = fm_call_open_below(root, path, flags, 0600, INSIDE), ret;

	if (fd == -EACCES && fm_call(fchmodat(root, path, 0600, 0)) == 0)
		fd = fm_call_open_below(root, path, flags, 0600, INSIDE);
	if (fd < 0)
		return fd;
	ret = fm_call_ftruncate(fd, size);
	if (ret == 0)
		return fd;
	(void)close(fd);	/* nothing was written */
	return ret;
}

static int write_laid(struct pieces *all, const struct piece *p, uint8_t *at, uint8_t *chunk)
{
	int fd = FM_FAULT("stage.laid_write") ? -EIO : open_laid(all->root, p->path, p->size);
	int ret = fd < 0 ? fd : write_runs(fd, p, at);

	if (ret == 0)
		ret = let_go(fd, p);
	if (fd >= 0 && close(fd) < 0 && ret == 0)
		ret = -errno;
	return ret == 0 && all->is_filling ? fill_chunks(all, p, at, chunk) : ret;
}

int fm_stage_extent_write(int manifest, int root, uint32_t n, const uint8_t *buf, size_t len,
			  uint32_t *crc)
{
	struct pieces all = { .manifest = manifest, .root = root, .is_filling = crc != NULL,
			      .buf = (uint8_t *)(uintptr_t)buf, .len = len, .fn = write_laid };
	int ret = each_piece(n, &all);

	if (crc)
		*crc = fm_crc32c_whole(all.crc, all.done);
	return ret;
}

int fm_stage_extent_fill(int draft, uint32_t n, const uint8_t *buf, size_t len, uint32_t *crc)
{
	struct pieces all = { .manifest = draft, .root = -1, .buf = (uint8_t *)(uintptr_t)buf,
			      .len = len, .fn = fill_chunks };
	int ret = each_piece(n, &all);

	*crc = fm_crc32c_whole(all.crc, all.done);
	return ret;
}

/* ---- CRCs of a manifest ---- */

struct crcs {
	struct fm_stage_reader *r;
	uint32_t *out;
	uint32_t count;
	uint32_t n;			/* the extent */
	uint64_t done;			/* bytes of it */
	struct fm_stage_extent x;
};

/* The chunk belongs to the extent that is open; at its end the next one is. */
static int add_chunk(struct crcs *c, uint32_t crc, uint32_t len)
{
	int ret = 0;

	if (c->done == 0) {
		ret = c->n < c->count ? fm_stage_reader_extent(c->r, c->n, &c->x) : -EBADMSG;
		if (ret < 0)
			return ret;
		c->out[c->n] = 0;
	}
	c->out[c->n] ^= fm_crc32c_part(crc, c->done, len);
	c->done += len;
	if (c->done > c->x.bytes)
		return -EBADMSG;
	if (c->done == c->x.bytes) {
		c->out[c->n] = fm_crc32c_whole(c->out[c->n], c->done);
		c->n++;
		c->done = 0;
	}
	return 0;
}

static int add_file(struct crcs *c, uint64_t size)
{
	struct fm_stage_chunk chunk;
	int ret = 1;

	for (uint64_t n = 0; ret > 0 && n < fm_stage_chunks(size); n++) {
		ret = fm_stage_reader_chunk(c->r, &chunk);
		if (ret > 0 && add_chunk(c, chunk.crc, fm_stage_chunk_len(size, n)) < 0)
			ret = -EBADMSG;
	}
	return ret > 0 ? 0 : -EBADMSG;
}

int fm_stage_extent_crcs(int manifest, uint32_t count, uint32_t *out)
{
	struct crcs c = { .out = out, .count = count };
	struct fm_stage_entry e;
	int ret = fm_stage_reader_new(manifest, &c.r);

	if (ret < 0)
		return ret;
	while ((ret = fm_stage_reader_next(c.r, &e)) > 0) {
		ret = e.type == FM_STAGE_FILE ? add_file(&c, e.size) : 0;
		if (ret < 0)
			break;
	}
	fm_stage_reader_free(c.r);
	return ret == 0 && (c.n != count || c.done != 0) ? -EBADMSG : ret;
}

/* ---- CRCs of what did not change ---- */

struct older {
	struct fm_stage_reader *r;
	struct fm_stage_entry e;	/* the next file of it */
	bool is_any;
};

static int older_next(struct older *o)
{
	int ret;

	do
		ret = fm_stage_reader_next(o->r, &o->e);
	while (ret > 0 && o->e.type != FM_STAGE_FILE);
	o->is_any = ret > 0;
	return ret < 0 ? ret : 0;
}

/* Both are in canonical order. 1: the older version has that file, and its chunks come next. */
static int find_older(struct older *o, const struct fm_stage_entry *e)
{
	int ret = 0, order = 1;

	while (ret == 0 && o->is_any) {
		order = fm_stage_path_compare(o->e.path, o->e.path_len, e->path, e->path_len);
		if (order >= 0)
			break;
		ret = older_next(o);
	}
	if (ret < 0)
		return ret;
	return o->is_any && order == 0 && o->e.size == e->size && o->e.mtime_ns == e->mtime_ns;
}

/* The chunks of a file, with the CRCs of the older version, or as not known. */
static int add_older(struct crcs *c, struct older *o, uint64_t size, bool is_same, uint64_t *known)
{
	struct fm_stage_chunk chunk = { .crc = 0 };
	int ret = 0;

	for (uint64_t n = 0; ret == 0 && n < fm_stage_chunks(size); n++) {
		if (c->n >= c->count || (is_same && fm_stage_reader_chunk(o->r, &chunk) <= 0))
			return -EBADMSG;
		if (!is_same)
			known[c->n / 64] &= ~(UINT64_C(1) << (c->n % 64));
		ret = add_chunk(c, chunk.crc, fm_stage_chunk_len(size, n));
	}
	return ret;
}

static int add_all_older(struct crcs *c, struct older *o, uint64_t *known)
{
	struct fm_stage_entry e;
	int ret = older_next(o);

	while (ret == 0 && (ret = fm_stage_reader_next(c->r, &e)) > 0) {
		ret = 0;
		if (e.type != FM_STAGE_FILE || e.size == 0)
			continue;
		ret = find_older(o, &e);
		if (ret >= 0)
			ret = add_older(c, o, e.size, ret > 0, known);
	}
	return ret == 0 && (c->n != c->count || c->done != 0) ? -EBADMSG : ret;
}

int fm_stage_extent_crcs_of_older(int draft, int older, uint32_t count, uint32_t *out,
				  uint64_t *known)
{
	struct crcs c = { .out = out, .count = count };
	struct older o = { .r = NULL };
	int ret = fm_stage_reader_new(draft, &c.r);

	if (ret == 0)
		ret = fm_stage_reader_new(older, &o.r);
	memset(known, 0xff, (count + 63) / 64 * sizeof(*known));
	if (ret == 0)
		ret = add_all_older(&c, &o, known);
	fm_stage_reader_free(c.r);
	fm_stage_reader_free(o.r);
	return ret;
}

/*
 * ---- the whole ----
 *
 * Paths of a manifest do not lead out of it, links come last, and nobody else writes there.
 */

typedef int entry_fn(int root, const char *path, const char *target,
		     const struct fm_stage_entry *e);

static int each_entry(int manifest, int root, entry_fn *fn)
{
	char path[FM_TREE_PATH_MAX + 1], target[FM_TREE_PATH_MAX + 1];
	struct fm_stage_entry e;
	struct fm_stage_reader *r;
	int ret = fm_stage_reader_new(manifest, &r);

	if (ret < 0)
		return ret;
	while ((ret = fm_stage_reader_next(r, &e)) > 0) {
		text(path, e.path, e.path_len);
		text(target, e.target, e.target_len);
		ret = fn(root, path, target, &e);
		if (ret < 0)
			break;
	}
	fm_stage_reader_free(r);
	return ret;
}

static int make_dir(int root, const char *path)
{
	int ret = fm_call(mkdirat(root, path, 0700));

	return ret == -EEXIST ? fm_call(fchmodat(root, path, 0700, 0)) : ret;
}

static int begin_one(int root, const char *path, const char *target,
		     const struct fm_stage_entry *e)
{
	(void)target;
	return e->type == FM_STAGE_DIR ? make_dir(root, path) : 0;
}

int fm_stage_lay_begin(int manifest, int root)
{
	return each_entry(manifest, root, begin_one);
}

static int set_mtime(int root, const char *path, int64_t mtime_ns)
{
	int64_t s = mtime_ns / FM_NS, ns = mtime_ns % FM_NS;
	const struct timespec times[] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = ns < 0 ? s - 1 : s, .tv_nsec = ns < 0 ? ns + FM_NS : ns },
	};

	return fm_call(utimensat(root, path, times, AT_SYMLINK_NOFOLLOW));
}

/* One without bytes is in no extent. */
static int end_file(int root, const char *path, const struct fm_stage_entry *e)
{
	int fd = e->size > 0 ? -1 : open_laid(root, path, 0);

	if (e->size == 0 && fd < 0)
		return fd;
	if (fd >= 0)
		(void)close(fd);	/* nothing was written */
	return fm_call(fchmodat(root, path, e->mode, 0));
}

/* What went through the page cache goes from there, if it is on the disk by now; else no matter. */
static void drop_small(int root, const char *path, uint64_t size)
{
	int fd = fm_call_open_below(root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, INSIDE);

	if (fd < 0)
		return;
	fm_page_drop(fd, 0, size);
	(void)close(fd);	/* nothing was written */
}

/* Whether the file system has kept what it was given: one may round times. -ESTALE: not so. */
static int check_one(int root, const char *path, const char *target, const struct fm_stage_entry *e)
{
	struct stat st;
	int ret;

	(void)target;
	if (e->type != FM_STAGE_FILE && e->type != FM_STAGE_LINK)
		return 0;
	ret = fm_call(fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW));
	if (ret < 0)
		return ret;
	if (fm_reading_mtime(&st) != e->mtime_ns)
		return -ESTALE;
	if (e->type == FM_STAGE_LINK)
		return S_ISLNK(st.st_mode) ? 0 : -ESTALE;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size)
		return -ESTALE;
	if (e->size > 0 && e->size < LET_GO_MIN)
		drop_small(root, path, e->size);
	return 0;
}

static int end_one(int root, const char *path, const char *target, const struct fm_stage_entry *e)
{
	int ret = 0;

	if (e->type == FM_STAGE_DIR)
		return 0;
	if (e->type != FM_STAGE_FILE)
		(void)unlinkat(root, path, 0);	/* of an earlier try */
	if (e->type == FM_STAGE_HARD)
		return fm_call(linkat(root, target, root, path, 0));
	if (e->type == FM_STAGE_LINK)
		ret = fm_call(symlinkat(target, root, path));
	else
		ret = end_file(root, path, e);
	return ret < 0 ? ret : set_mtime(root, path, e->mtime_ns);
}

/* When nothing is made in it any more. */
static int end_dir(int root, const char *path, const char *target, const struct fm_stage_entry *e)
{
	(void)target;
	return e->type == FM_STAGE_DIR ? fm_call(fchmodat(root, path, e->mode, 0)) : 0;
}

int fm_stage_lay_end(int manifest, int root)
{
	int ret = each_entry(manifest, root, end_one);

	if (ret == 0)
		ret = each_entry(manifest, root, check_one);
	return ret < 0 ? ret : each_entry(manifest, root, end_dir);
}
