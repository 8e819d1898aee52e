/* SPDX-License-Identifier: MIT */
/*
 * build - see build.h.
 *
 * The listing of one file is made by the writer of manifests, too, which then writes nowhere: so it
 * has the same checks, limits and extents.
 *
 * Small files that follow each other are read at once, and written down in their order.
 */
#include "staging/build.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"
#include "mover/tree/hardlinks.h"
#include "mover/tree/reading.h"
#include "mover/tree/tree.h"
#include "staging/at_once.h"
#include "staging/chunk.h"
#include "staging/walk.h"

#define SMALL_MAX 32u		/* open at once */
#define READERS 8u		/* threads that read them */

/* A file of one chunk at most. */
struct small {
	struct fm_reading *r;
	struct fm_stage_entry e;
	char path[FM_TREE_PATH_MAX + 1];
	struct fm_stage_chunk chunk;
	int ret;
};

struct build {
	const struct fm_stage_build_opts *opts;
	struct fm_stage_writer *w;
	struct fm_hardlinks hardlinks;
	uint8_t *buf;			/* of a chunk */
	struct fm_stage_some more[READERS];	/* of each reader but the first, which has that */
	struct small *small;		/* met, and not written down */
	unsigned count;
	atomic_uint next;		/* of these, to be read */
	char target[FM_TREE_PATH_MAX + 1];
	struct fm_stage_reader *draft;	/* NULL: there is none */
	struct fm_stage_entry listed;	/* its entry that was reached */
	bool is_listed;			/* there is one */
};

/* What reading the directory, or what is in it, ended with. */
static int note_read(const struct build *b, int ret)
{
	if (ret == -EIO && b->opts->is_unreadable)
		atomic_store(b->opts->is_unreadable, true);
	return ret;
}

/* ---- the chunks of a file ---- */

static int read_chunk(struct build *b, struct fm_reading *r, uint64_t n, uint8_t *buf,
		      struct fm_stage_chunk *c, bool *is_whole)
{
	uint32_t len = fm_stage_chunk_len((uint64_t)r->st.st_size, n);
	int ret = note_read(b, fm_stage_chunk_read(r, n, buf, c));

	if (ret < 0)
		return ret;
	*is_whole = fm_reading_count(r, fm_crc32c_part(c->crc, n * FM_STAGE_CHUNK, len), len);
	if (b->opts->bytes_done)
		atomic_fetch_add_explicit(b->opts->bytes_done, len, memory_order_relaxed);
	return 0;
}

/*
 * What wrote it left it in memory, which is the GPU's on some machines. It is on the disk: it was
 * read from there.
 */
static void let_go(struct fm_reading *r)
{
	(void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED);
	fm_reading_put(r);
}

static int add_chunks(struct build *b, struct fm_reading *r, struct fm_err *err)
{
	uint64_t size = (uint64_t)r->st.st_size;
	struct fm_stage_chunk c;
	bool is_whole = true;
	int ret = note_read(b, fm_reading_expect(r));

	for (uint64_t n = 0; ret == 0 && n < fm_stage_chunks(size); n++) {
		if (b->opts->is_stopped && atomic_load(b->opts->is_stopped))
			return fm_err_set(err, -ECANCELED, "stopped");
		ret = read_chunk(b, r, n, b->buf, &c, &is_whole);
		if (ret == 0)
			ret = fm_stage_writer_chunk(b->w, &c);
	}
	if (ret == 0)
		ret = note_read(b, fm_reading_check(r));
	return ret == 0 && !is_whole ? -EILSEQ : ret;
}

static int fail(int code, const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;

	if (err && err->code == code)
		return code;	/* said already */
	if (code == -EILSEQ)
		return fm_err_set(err, code,
				  "\"%s\" is damaged: it is not what the CRC32C kept with it "
				  "says",
				  fm_path_show(path, &shown));
	if (code == -EPERM || code == -EACCES)
		return fm_err_set(err, -EPERM, "cannot read \"%s\": permission denied",
				  fm_path_show(path, &shown));
	if (code == -EFBIG)
		return fm_err_set(err, code,
				  "with \"%s\" it is too large for one dataset: stage its "
				  "directories, each by itself",
				  fm_path_show(path, &shown));
	return fm_reading_fail(err, code, path);
}

/* ---- small files ---- */

static int read_small(struct build *b, struct small *f, uint8_t *buf)
{
	bool is_whole = true;
	int ret = note_read(b, fm_reading_expect(f->r));

	if (ret == 0 && f->e.size > 0)
		ret = read_chunk(b, f->r, 0, buf, &f->chunk, &is_whole);
	if (ret == 0)
		ret = note_read(b, fm_reading_check(f->r));
	return ret == 0 && !is_whole ? -EILSEQ : ret;
}

/* One of several threads. */
static void read_smalls(void *ctx, unsigned n)
{
	struct build *b = ctx;
	uint8_t *buf = n == 0 ? b->buf : b->more[n].at;
	unsigned i;

	while ((i = atomic_fetch_add(&b->next, 1)) < b->count)
		b->small[i].ret = read_small(b, &b->small[i], buf);
}

/* For as many readers as have memory for the largest of those that were met. */
static unsigned readers_for(struct build *b)
{
	unsigned n = 1;
	size_t largest = 0;

	for (unsigned i = 0; i < b->count; i++)
		if (b->small[i].e.size > largest)
			largest = b->small[i].e.size;
	while (n < READERS && n < b->count && fm_stage_some_for(&b->more[n], largest))
		n++;
	return n;
}

static int write_small(struct build *b, const struct small *f, struct fm_err *err)
{
	int ret = f->ret;

	if (ret == 0)
		ret = fm_stage_writer_entry(b->w, &f->e);
	if (ret == 0 && f->e.size > 0)
		ret = fm_stage_writer_chunk(b->w, &f->chunk);
	return ret < 0 ? fail(ret, f->path, err) : 0;
}

/* Those that were met are read, and written down. */
static int add_smalls(struct build *b, struct fm_err *err)
{
	int ret = 0;

	if (b->count == 0)
		return 0;
	atomic_store(&b->next, 0);
	fm_stage_at_once(readers_for(b), read_smalls, b);
	for (unsigned i = 0; ret == 0 && i < b->count; i++)
		ret = write_small(b, &b->small[i], err);
	for (unsigned i = 0; i < b->count; i++)
		let_go(b->small[i].r);
	b->count = 0;
	return ret;
}

/* r is taken over. */
static int meet_small(struct build *b, struct fm_reading *r, const struct fm_stage_entry *e,
		      struct fm_err *err)
{
	struct small *f = &b->small[b->count++];

	f->r = r;
	f->e = *e;
	memcpy(f->path, e->path, e->path_len);
	f->path[e->path_len] = '\0';
	f->e.path = f->path;
	return b->count == SMALL_MAX ? add_smalls(b, err) : 0;
}

/* ---- one name ---- */

static int add_large(struct build *b, struct fm_reading *r, const struct fm_stage_entry *e,
		     struct fm_err *err)
{
	int ret = add_smalls(b, err);

	if (ret == 0)
		ret = fm_stage_writer_entry(b->w, e);
	if (ret == 0)
		ret = add_chunks(b, r, err);
	let_go(r);
	return ret;
}

static int add_file(struct build *b, const struct fm_stage_met *m, struct fm_stage_entry *e,
		    struct fm_err *err)
{
	struct fm_reading *r;
	int ret = note_read(b, fm_stage_chunk_open(m->dir, m->name, &r));

	if (ret < 0)
		return ret;
	e->size = (uint64_t)r->st.st_size;
	e->mtime_ns = fm_reading_mtime(&r->st);
	return e->size > FM_STAGE_CHUNK ? add_large(b, r, e, err) : meet_small(b, r, e, err);
}

/* What is no file that is read, behind those that are. */
static int add_entry(struct build *b, const struct fm_stage_entry *e, struct fm_err *err)
{
	int ret = add_smalls(b, err);

	return ret < 0 ? ret : fm_stage_writer_entry(b->w, e);
}

/* Both are in one order. A file that the draft has not is another listing: told at the end. */
static int find_mode(struct build *b, const struct fm_stage_met *m, uint16_t *mode)
{
	int ret = 1, order = -1;

	*mode = m->st.st_mode & 01777;
	while (b->draft && ret > 0) {
		if (b->is_listed)
			order = fm_stage_path_compare(b->listed.path, b->listed.path_len, m->path,
						      m->path_len);
		if (b->is_listed && order >= 0)
			break;
		ret = fm_stage_reader_next(b->draft, &b->listed);
		b->is_listed = ret > 0;
	}
	if (b->is_listed && order == 0 && b->listed.type == FM_STAGE_FILE)
		*mode = b->listed.mode;
	return ret < 0 ? ret : 0;
}

static int add_regular(struct build *b, const struct fm_stage_met *m, struct fm_stage_entry *e,
		       struct fm_err *err)
{
	struct fm_hardlink_id id;
	int ret = 0;
	const char *first = NULL;

	if (m->st.st_nlink > 1) {
		fm_hardlinks_id(&m->st, m->dir, m->name, AT_SYMLINK_NOFOLLOW, &id);
		first = fm_hardlinks_meet(&b->hardlinks, &id, m->path, &e->target_len, &ret);
	}
	if (first) {
		e->type = FM_STAGE_HARD;
		e->target = first;
		return add_entry(b, e, err);
	}
	if (ret < 0 && ret != -ENOSPC)	/* too many to remember: then it is a file of its own */
		return ret;
	e->target_len = 0;
	e->type = FM_STAGE_FILE;
	ret = find_mode(b, m, &e->mode);
	return ret < 0 ? ret : add_file(b, m, e, err);
}

static int add_link(struct build *b, const struct fm_stage_met *m, struct fm_stage_entry *e,
		    struct fm_err *err)
{
	int n = FM_FAULT("stage.readlink")
			? -EIO
			: fm_call(readlinkat(m->dir, m->name, b->target, sizeof(b->target)));

	if (n < 0)
		return n == -EINVAL ? -ESTALE : note_read(b, n);
	if (n == 0 || n > FM_TREE_PATH_MAX)
		return -ESTALE;
	e->type = FM_STAGE_LINK;
	e->mtime_ns = fm_reading_mtime(&m->st);
	e->target = b->target;
	e->target_len = (size_t)n;
	return add_entry(b, e, err);
}

static int refuse_special(const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -EINVAL,
			  "\"%s\" is a special file: only files, directories and links can be "
			  "staged",
			  fm_path_show(path, &shown));
}

static int add(struct build *b, const struct fm_stage_met *m, struct fm_err *err)
{
	struct fm_stage_entry e = { .path = m->path, .path_len = m->path_len };
	int ret;

	if (S_ISDIR(m->st.st_mode)) {
		e.type = FM_STAGE_DIR;
		e.mode = m->st.st_mode & 01777;
		ret = add_entry(b, &e, err);
	} else if (S_ISREG(m->st.st_mode)) {
		ret = add_regular(b, m, &e, err);
	} else if (S_ISLNK(m->st.st_mode)) {
		ret = add_link(b, m, &e, err);
	} else {
		return refuse_special(m->path, err);
	}
	return ret < 0 ? fail(ret, m->path, err) : 0;
}

/* ---- all of it ---- */

static int add_tree(struct build *b, struct fm_err *err)
{
	struct fm_stage_walk *walk;
	struct fm_stage_met m;
	int ret = note_read(b, fm_stage_walk_new(b->opts->root, FM_STAGE_NAMES_MAX, &walk));

	if (ret < 0)
		return fm_err_sys(err, ret, "read a directory");
	while ((ret = note_read(b, fm_stage_walk_next(walk, &m, err))) > 0) {
		if (b->opts->is_stopped && atomic_load(b->opts->is_stopped))
			ret = fm_err_set(err, -ECANCELED, "stopped");
		if (ret > 0)
			ret = add(b, &m, err);
		if (ret < 0)
			break;
	}
	fm_stage_walk_free(walk);
	return ret;
}

static int add_one_file(struct build *b, struct fm_err *err)
{
	const char *file = b->opts->file;
	struct fm_stage_met m = { .dir = b->opts->root, .name = file, .path = file,
				  .path_len = strlen(file) };
	int ret = FM_FAULT("stage.fstatat") ? -EIO : fm_call_fstatat(m.dir, file, &m.st);

	ret = note_read(b, ret);
	if (ret == 0 && !S_ISREG(m.st.st_mode))
		ret = -ESTALE;
	m.st.st_nlink = 1;	/* further names of it are no part of the dataset */
	return ret < 0 ? fail(ret, file, err) : add(b, &m, err);
}

static int run(struct build *b, int fd, uint8_t version[FM_SHA256_LEN],
	       struct fm_stage_totals *totals, struct fm_err *err)
{
	int ret = fm_stage_writer_new(fd, b->opts->file != NULL, &b->w);

	if (ret < 0)
		return fm_err_sys(err, ret, "begin a manifest");
	if (b->opts->draft)
		ret = fm_stage_reader_new(*b->opts->draft, &b->draft);
	if (ret < 0)
		(void)fm_err_sys(err, ret, "read the draft of a manifest");
	else
		ret = b->opts->file ? add_one_file(b, err) : add_tree(b, err);
	if (ret == 0)
		ret = add_smalls(b, err);
	while (b->count > 0)
		fm_reading_put(b->small[--b->count].r);
	if (ret == 0) {
		ret = fm_stage_writer_end(b->w, version, totals);
		if (ret < 0)
			(void)fm_err_sys(err, ret, "write a manifest");
	}
	fm_stage_writer_free(b->w);
	fm_stage_reader_free(b->draft);
	fm_hardlinks_free(&b->hardlinks);
	return ret;
}

int fm_stage_build(const struct fm_stage_build_opts *opts, int fd, uint8_t version[FM_SHA256_LEN],
		   struct fm_stage_totals *totals, struct fm_err *err)
{
	struct build b = { .opts = opts, .buf = fm_stage_chunk_buf_new() };
	int ret;

	fm_err_clear(err);
	b.small = FM_FAULT("stage.alloc") ? NULL : fm_budget_alloc(SMALL_MAX * sizeof(*b.small));
	ret = b.buf && b.small ? run(&b, fd, version, totals, err)
			       : fm_err_sys(err, -ENOMEM, "read files");
	for (unsigned n = 1; n < READERS; n++)
		fm_stage_some_free(&b.more[n]);
	fm_stage_chunk_buf_free(b.buf);
	fm_budget_free(b.small);
	return ret;
}

int fm_stage_list_file(const struct fm_stage_entry *file, int fd, struct fm_stage_totals *totals,
		       struct fm_err *err)
{
	const struct fm_stage_chunk unknown = { .crc = 0 };
	struct fm_stage_writer *w = NULL;
	uint8_t none[FM_SHA256_LEN];
	int ret = fm_stage_writer_new(fd, true, &w);

	if (ret == 0)
		ret = fm_stage_writer_entry(w, file);
	for (uint64_t n = 0; fd >= 0 && ret == 0 && n < fm_stage_chunks(file->size); n++)
		ret = fm_stage_writer_chunk(w, &unknown);
	if (ret == 0)
		ret = fm_stage_writer_end(w, none, totals);
	fm_stage_writer_free(w);
	return ret < 0 ? fm_err_sys(err, ret, "list a file") : 0;
}
