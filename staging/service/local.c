/* SPDX-License-Identifier: MIT */
/* local - see local.h. */
#include "staging/service/local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/bytes.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/page.h"
#include "mover/base/show.h"
#include "mover/journal/journal.h"
#include "mover/store/held_file.h"
#include "mover/store/tree_file.h"
#include "mover/tree/digest.h"
#include "mover/tree/reading.h"
#include "mover/tree/tree.h"
#include "staging/build.h"
#include "staging/cache.h"
#include "staging/chunk.h"
#include "staging/service/served.h"

#define PACK_BYTES (4u << 20)
/* Bytes of a copy that are in memory, on their way to the disk, with the piece that comes next. */
#define BEHIND_MAX (16u << 20)

struct move {
	const struct fm_stage_local *l;
	struct fm_tree *from, *to;
	void *buf;
	off_t gone; /* of a large file: what is before it is on the disk, and not in memory */
};

static int check_stopped(const struct move *m, struct fm_err *err)
{
	return atomic_load(m->l->is_stopped) ? fm_err_set(err, -EHOSTDOWN, "fmoved stops") : 0;
}

static void add_done(const struct move *m, uint64_t bytes)
{
	if (m->l->bytes_done)
		atomic_fetch_add(m->l->bytes_done, bytes);
}

/* ---- a large file ---- */

static int fail_file(const struct fm_tree_large *f, int code, const char *what, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_sys(err, code, "%s \"%s\"", what, fm_path_show(f->path, &shown));
}

static int fail_changed(const struct fm_tree_large *f, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -ESTALE,
			  "\"%s\" changed while it was copied; run it again when nothing writes "
			  "there",
			  fm_path_show(f->path, &shown));
}

/* Reads a piece past the page cache, in whole blocks. */
static int64_t read_piece(struct move *m, int from, off_t at, size_t len)
{
	size_t whole = (size_t)fm_block_up(len);
	int64_t n = FM_FAULT("stage.copy")
			    ? -EIO
			    : fm_call_read_direct(from, m->buf, whole, (uint64_t)at);

	return n > (int64_t)len ? (int64_t)len : n;
}

static int write_back(int to, off_t from, off_t end, unsigned flags)
{
	return FM_FAULT("stage.write_back")
		       ? -EIO
		       : fm_call_write_back(to, (uint64_t)from, (uint64_t)(end - from), flags);
}

/*
 * Waits until the copy is on the disk up to there, and takes it out of memory, which is the GPU's
 * on some machines.
 */
static int let_go(struct move *m, int to, off_t end)
{
	off_t from = m->gone;
	int ret;

	if (end <= from)
		return 0;
	ret = write_back(to, from, end,
			 SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
				 SYNC_FILE_RANGE_WAIT_AFTER);
	fm_page_drop(to, (uint64_t)from, (uint64_t)(end - from));
	m->gone = end;
	return ret;
}

/* What was copied is written while the next pieces are read. */
static int write_behind(struct move *m, int to, off_t at, off_t len)
{
	int ret = write_back(to, at, at + len, SYNC_FILE_RANGE_WRITE);

	return ret < 0 ? ret : let_go(m, to, at + len + (off_t)PACK_BYTES - (off_t)BEHIND_MAX);
}

/* Copies a piece of a file. */
static int copy_piece(struct move *m, int from, int to, off_t at, size_t len)
{
	int64_t n = read_piece(m, from, at, len);
	int ret = n > 0 ? fm_call_write_all(to, m->buf, (size_t)n, (uint64_t)at) : 0;

	if (ret == 0 && n > 0)
		ret = write_behind(m, to, at, (off_t)n);
	return ret < 0 ? ret : (int)n;
}

static int copy_data(struct move *m, const struct fm_tree_large *f, int to, off_t at, off_t end,
		     struct fm_err *err)
{
	while (at < end) {
		size_t len = end - at < (off_t)PACK_BYTES ? (size_t)(end - at) : PACK_BYTES;
		int n = check_stopped(m, err);

		if (n < 0)
			return n;
		n = copy_piece(m, f->fd, to, at, len);
		if (n == 0)
			return fail_changed(f, err);
		if (n < 0)
			return fail_file(f, n, "copy", err);
		at += n;
		add_done(m, (uint64_t)n);
	}
	return 0;
}

/* Copies the data of a file; holes stay holes. */
static int copy_content(struct move *m, const struct fm_tree_large *f, int to, struct fm_err *err)
{
	off_t at = 0, end, size = (off_t)f->size;
	int ret = fm_call_ftruncate(to, 0);

	m->gone = 0;
	if (ret == 0 && !FM_FAULT("stage.clone") && fm_call(ioctl(to, FICLONE, f->fd)) == 0) {
		add_done(m, f->size);
		return 0;
	}
	if (ret == 0)
		ret = fm_call_ftruncate(to, f->size);
	if (ret < 0)
		return fail_file(f, ret, "make the copy of", err);
	(void)fcntl(f->fd, F_SETFL, fcntl(f->fd, F_GETFL) | O_DIRECT);	/* where it can be */
	while (ret == 0 && at < size) {
		at = lseek(f->fd, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : fail_file(f, -errno, "look for holes of", err);
		end = lseek(f->fd, at, SEEK_HOLE);
		if (end < 0)
			return fail_file(f, -errno, "look for holes of", err);
		end = end < size ? end : size;
		ret = copy_data(m, f, to, at, end, err);
		at = end;
	}
	return ret;
}

/* The same, with nothing of the copy left in memory. */
static int copy_past_memory(struct move *m, const struct fm_tree_large *f, int to,
			    struct fm_err *err)
{
	int ret = copy_content(m, f, to, err), waited;

	if (ret < 0)
		return ret;
	waited = let_go(m, to, (off_t)f->size);
	return waited < 0 ? fail_file(f, waited, "write the copy of", err) : 0;
}

/* ---- a large file that a caller serves: it is open in his holder only ---- */

/* Nobody here can look for his holes: what has only zeros is one in the copy. */
static int write_served(int to, const uint8_t *bytes, size_t len, uint64_t at)
{
	int ret = 0;

	for (size_t done = 0, n; ret == 0 && done < len; done += n) {
		n = len - done < FM_STAGE_GRANULE ? len - done : FM_STAGE_GRANULE;
		if (!fm_stage_is_zero(bytes + done, n))
			ret = fm_call_write_all(to, bytes + done, n, at + done);
	}
	return ret;
}

/* The bytes of one, also of its holes. */
static int copy_served_data(struct move *m, const struct fm_tree_large *f, int to,
			    struct fm_err *err)
{
	const uint8_t *bytes;

	for (uint64_t at = 0; at < f->size;) {
		size_t len = f->size - at < FM_SERVED_READ ? (size_t)(f->size - at)
							   : FM_SERVED_READ;
		int64_t n = check_stopped(m, err);
		int ret;

		if (n < 0)
			return (int)n;
		n = fm_served_read(m->l->served, f->fd, at, len, &bytes);
		if (n < 0)
			return fail_file(f, (int)n, "read", err);
		if ((size_t)n < len)
			return fail_changed(f, err);
		ret = write_served(to, bytes, len, at);
		if (ret == 0)
			ret = write_behind(m, to, (off_t)at, (off_t)len);
		if (ret < 0)
			return fail_file(f, ret, "make the copy of", err);
		at += len;
		add_done(m, len);
	}
	return 0;
}

static int copy_served(struct move *m, const struct fm_tree_large *f, int to, struct fm_err *err)
{
	int ret = fm_call_ftruncate(to, 0);

	m->gone = 0;
	if (ret == 0)
		ret = fm_call_ftruncate(to, f->size);
	if (ret < 0)
		return fail_file(f, ret, "make the copy of", err);
	ret = copy_served_data(m, f, to, err);
	if (ret < 0)
		return ret;
	ret = let_go(m, to, (off_t)f->size);
	return ret < 0 ? fail_file(f, ret, "write the copy of", err) : 0;
}

/* ---- a large file, whosesoever ---- */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int look_at(const struct move *m, const struct fm_tree_large *f, struct stat *out)
{
	return m->l->served ? fm_served_stat(m->l->served, f->fd, out)
			    : fm_call(fstat(f->fd, out));
}

static int copy_unchanged(struct move *m, const struct fm_tree_large *f, int to, struct fm_err *err)
{
	struct stat before, after;
	int ret = look_at(m, f, &before);

	if (ret < 0)
		return fail_file(f, ret, "look at", err);
	ret = m->l->served ? copy_served(m, f, to, err) : copy_past_memory(m, f, to, err);
	if (ret == 0 && (look_at(m, f, &after) < 0 || !is_same(&before, &after) ||
			 (uint64_t)after.st_size != f->size))
		ret = fail_changed(f, err);
	return ret;
}

/*
 * Seals a copied file. It gets the digest that was kept with its source, although nobody has read
 * the copy yet: building the manifest reads the copy and compares.
 */
static int seal(struct move *m, const struct fm_tree_large *f, int to, struct fm_err *err)
{
	struct fm_digest digest;
	struct stat st;
	int ret = m->l->served ? 0 : fm_call(fstat(f->fd, &st));

	if (ret == 0 && !m->l->served)
		ret = fm_digest_of(f->fd, &st, &digest);
	if (ret < 0)
		return fail_file(f, ret, "read the CRC32C that is kept with", err);
	return m->to->ops->seal_large(m->to, f, to, ret > 0 ? &digest : NULL, err);
}

/* Copies a large file. What an earlier try left of it is written again. */
static int move_large(struct move *m, const struct fm_tree_large *f, struct fm_err *err)
{
	struct fm_have have = { .crc = 0 };
	int fd = -1, ret = m->to->ops->create_large(m->to, f, &fd, &have, err);

	if (ret == 0)
		ret = copy_unchanged(m, f, fd, err);
	if (ret == 0)
		ret = seal(m, f, fd, err);
	fm_have_free(&have);
	if (fd >= 0)
		(void)close(fd);	/* the tree syncs what it made */
	return ret;
}

/*
 * Whether what a caller serves is no more than was listed, with so many bytes more: the cache has
 * room for that, and who asked may have so much.
 */
static int check_room(const struct move *m, uint64_t more, struct fm_err *err)
{
	const struct fm_stage_totals *listed = m->l->totals;
	struct fm_tree_count came;

	if (!m->l->served || !listed)
		return 0;
	m->to->ops->count(m->to, &came);
	if (more <= listed->bytes && came.bytes <= listed->bytes - more &&
	    came.files + came.dirs + came.links + came.hard_links <= listed->entries + 1)
		return 0;
	return fm_err_set(err, -ESTALE, "it changed while it was copied; run it again when nothing "
					"writes there");
}

/* Copies all large files that the source has found. 1: there was at least one. */
static int move_larges(struct move *m, struct fm_err *err)
{
	struct fm_tree_large f;
	int ret = 0, moved = 0;

	while (ret == 0 && m->from->ops->next_large(m->from, &f) > 0) {
		ret = check_room(m, f.size, err);
		if (ret == 0)
			ret = move_large(m, &f, err);
		if (m->l->served)
			fm_served_drop(m->l->served, f.fd);
		else
			(void)close(f.fd);	/* only read */
		moved = 1;
	}
	return ret < 0 ? ret : moved;
}

/* ---- the tree ---- */

static int move_pack(struct move *m, uint64_t seq, size_t len, struct fm_err *err)
{
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	size_t count = 0;
	int ret = m->to->ops->apply(m->to, m->buf, len, bits, &count, err);

	if (ret < 0)
		return ret;
	m->from->ops->acked(m->from, seq);
	return count > 0 ? m->from->ops->need(m->from, seq, bits, count, err) : 0;
}

/*
 * Copies a tree. Offers are answered and large files taken at once, so a source that waits for
 * neither is at fault.
 */
static int move_all(struct move *m, struct fm_err *err)
{
	for (uint64_t seq = 0;;) {
		int ret = check_stopped(m, err), moved;
		int64_t n =
			ret < 0 ? ret : m->from->ops->fill(m->from, seq, m->buf, PACK_BYTES, err);

		if (n < 0 && n != -EAGAIN)
			return (int)n;
		ret = n > 0 ? move_pack(m, seq, (size_t)n, err) : 0;
		if (ret == 0)
			ret = check_room(m, 0, err);
		if (ret < 0)
			return ret;
		seq += n > 0;
		moved = move_larges(m, err);
		if (moved < 0)
			return moved;
		if (n == 0 && !moved)
			return 0;
		if (n == -EAGAIN && !moved)
			return fm_err_set(err, -EIO,
					  "the source is not read any further, and says no reason: "
					  "run it again");
	}
}

static int new_buf(struct move *m, struct fm_err *err)
{
	m->buf = FM_FAULT("stage.alloc") ? NULL : aligned_alloc(4096, PACK_BYTES);
	return m->buf ? 0 : fm_err_set(err, -ENOMEM, "no memory to read a directory");
}

static int move_served(const struct fm_stage_local *l, const struct fm_tree_begin *how,
		       struct fm_tree *to, struct fm_err *err)
{
	struct move m = { .l = l, .to = to, .from = fm_served_tree(l->served) };
	int ret = new_buf(&m, err);

	if (ret == 0)
		ret = m.from->ops->begin(m.from, how, err);
	if (ret == 0)
		ret = move_all(&m, err);
	free(m.buf);
	return ret;
}

static int move(const struct fm_stage_local *l, const struct fm_tree_begin *how, struct fm_tree *to,
		struct fm_err *err)
{
	struct move m = { .l = l, .to = to };
	struct fm_file *source;
	struct fm_attr attr;
	int ret = l->store->ops->open_tree ? l->store->ops->open_tree(l->store, l->path, &l->who,
								      NULL, &source, &attr, err)
					   : fm_err_set(err, -EOPNOTSUPP,
							"store %s has no directories: stage from a "
							"store that has a directory",
							l->store->name);

	if (ret < 0)
		return ret;
	m.from = source->tree;
	ret = new_buf(&m, err);
	if (ret == 0)
		ret = fm_tree_file_begin(source, how, err);
	if (ret == 0)
		ret = move_all(&m, err);
	free(m.buf);
	fm_file_close(source);
	return ret;
}

int fm_stage_local_list(const struct fm_stage_local *l, struct fm_stage_offered *o,
			struct fm_err *err)
{
	const struct fm_tree_begin how = { .is_offering = true, .is_dry = true,
					   .has_checksums = l->has_checksums };
	struct fm_tree *to = fm_stage_offered_tree(o);
	int ret = l->served ? move_served(l, &how, to, err) : move(l, &how, to, err);

	if (ret == 0)
		ret = to->ops->prepare(to, false, err);
	to->ops->close(to);
	return ret;
}

int fm_stage_local_copy(const struct fm_stage_local *l, const uint8_t listing[FM_SHA256_LEN],
			struct fm_file *sink, struct fm_err *err)
{
	const struct fm_attr attr = { .type = FM_NODE_DIR, .size = FM_SIZE_UNKNOWN };
	/* Of what a partial is one: of this listing, not of an inode. */
	struct fm_identity id = { .uid = l->who.uid, .dev = 1 };
	struct fm_tree_begin how = { .is_offering = false };
	struct fm_have have = { .crc = 0 };
	int ret;

	memcpy(&id.ino, listing, sizeof(id.ino));
	ret = sink->ops->begin(sink, &id, &have, err);
	fm_have_free(&have);
	how.is_offering = ret == 0 && (l->is_update || sink->tree->is_partial);
	if (ret == 0)
		ret = l->served ? move_served(l, &how, sink->tree, err)
				: move(l, &how, sink->tree, err);
	if (ret == 0)
		ret = sink->ops->prepare(sink, 0, &attr, true, err);
	if (ret == 0)
		ret = sink->ops->publish(sink, 0, &attr, true, err);
	return ret;
}

/* ---- one file ---- */

/*
 * Gives a copied file its digest, mode and time. The digest is compared when the manifest is made.
 */
static int dress(const struct fm_tree_large *f, int to, struct fm_err *err)
{
	struct fm_digest digest;
	struct stat st;
	int ret = fm_call(fstat(f->fd, &st));

	if (ret == 0)
		ret = fm_digest_of(f->fd, &st, &digest);
	if (ret > 0)
		ret = fm_digest_set(to, &digest);
	if (ret == -EOPNOTSUPP)
		ret = 0;	/* the cache's file system keeps none */
	if (ret == 0)
		ret = fm_call(fchmod(to, st.st_mode & 0777));
	if (ret == 0)
		ret = fm_call(futimens(to, (const struct timespec[]){ st.st_atim, st.st_mtim }));
	if (ret == 0)
		ret = fm_call(fsync(to));
	return ret < 0 ? fail_file(f, ret, "finish the copy of", err) : 0;
}

static int copy_to(struct move *m, const struct fm_tree_large *f, int dir, const char *name,
		   struct fm_err *err)
{
	int to = fm_call(openat(dir, FM_CACHE_SCRATCH_NAME,
				O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
	int ret;

	if (to < 0)
		return fail_file(f, to, "make the copy of", err);
	ret = copy_unchanged(m, f, to, err);
	if (ret == 0)
		ret = dress(f, to, err);
	(void)close(to);	/* it is synced */
	if (ret < 0)
		return ret;
	ret = fm_call_renameat(dir, FM_CACHE_SCRATCH_NAME, dir, name, RENAME_NOREPLACE);
	return ret < 0 ? fail_file(f, ret, "name the copy of", err) : 0;
}

static int open_file(const struct fm_stage_local *l, struct fm_tree_large *f, struct fm_err *err)
{
	struct stat st;
	int ret;

	if (!l->store->ops->open_fd)
		return fm_err_set(err, -EOPNOTSUPP,
				  "store %s has no files: stage from a store that has a directory",
				  l->store->name);
	f->fd = l->store->ops->open_fd(l->store, l->path, &l->who, err);
	if (f->fd < 0)
		return f->fd;
	ret = fm_call(fstat(f->fd, &st));
	if (ret == 0) {
		f->size = (uint64_t)st.st_size;
		return 0;
	}
	(void)close(f->fd);	/* only read */
	return fail_file(f, ret, "look at", err);
}

int fm_stage_local_copy_file(const struct fm_stage_local *l, int dir, const char *name,
			     struct fm_err *err)
{
	struct fm_tree_large f = { .fd = -1 };
	struct move m = { .l = l };
	int ret;

	(void)snprintf(f.path, sizeof(f.path), "%s", l->path);
	ret = open_file(l, &f, err);
	if (ret < 0)
		return ret;
	m.buf = FM_FAULT("stage.alloc") ? NULL : aligned_alloc(4096, PACK_BYTES);
	ret = m.buf ? copy_to(&m, &f, dir, name, err)
		    : fm_err_set(err, -ENOMEM, "no memory to read a file");
	free(m.buf);
	(void)close(f.fd);	/* only read */
	return ret;
}

/* ---- the listing and the CRC32C of one ---- */

int fm_stage_local_open_parent(const struct fm_stage_local *l, const char **name,
			       struct fm_err *err)
{
	const char *slash = strrchr(l->path, '/');
	char parent[FM_PATH_LEN_MAX + 1];

	if (!l->store->ops->open_dir)
		return fm_err_set(err, -EOPNOTSUPP,
				  "store %s has no files: stage from a store that has a directory",
				  l->store->name);
	(void)snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - l->path) : 0, l->path);
	*name = slash ? slash + 1 : l->path;
	return l->store->ops->open_dir(l->store, parent, &l->who, err);
}

static int open_reading(const struct fm_stage_local *l, struct fm_reading **out, struct fm_err *err)
{
	const char *name;
	int dir = fm_stage_local_open_parent(l, &name, err), ret;

	if (dir < 0)
		return dir;
	ret = fm_stage_chunk_open(dir, name, out);
	(void)close(dir);	/* only read */
	return ret < 0 ? fm_reading_fail(err, ret, l->path) : 0;
}

int fm_stage_local_list_file(const struct fm_stage_local *l, const char *name, int draft,
			     struct fm_stage_totals *totals, struct fm_err *err)
{
	struct fm_reading *r = NULL;
	int ret = open_reading(l, &r, err);

	if (ret == 0) {
		const struct fm_stage_entry file = {
			.type = FM_STAGE_FILE, .size = (uint64_t)r->st.st_size,
			.mode = (uint16_t)(r->st.st_mode & 0777),
			.mtime_ns = fm_reading_mtime(&r->st), .path = name,
			.path_len = strlen(name),
		};

		ret = fm_stage_list_file(&file, draft, totals, err);
	}
	fm_reading_put(r);
	return ret;
}

static int read_crc(const struct fm_stage_local *l, struct fm_reading *r, uint8_t *buf,
		    uint32_t *crc)
{
	uint64_t size = (uint64_t)r->st.st_size;
	struct fm_stage_chunk chunk;
	uint32_t parts = 0;
	int ret = 0;

	for (uint64_t n = 0; ret == 0 && n < fm_stage_chunks(size); n++) {
		ret = atomic_load(l->is_stopped) ? -ECANCELED
						 : fm_stage_chunk_read(r, n, buf, &chunk);
		if (ret == 0)
			parts ^= fm_crc32c_part(chunk.crc, n * FM_STAGE_CHUNK,
						fm_stage_chunk_len(size, n));
	}
	*crc = fm_crc32c_whole(parts, size);
	return ret < 0 ? ret : fm_reading_check(r);
}

int fm_stage_local_crc(const struct fm_stage_local *l, struct fm_attr *attr, uint32_t *crc,
		       struct fm_err *err)
{
	uint8_t *buf = fm_stage_chunk_buf_new();
	struct fm_reading *r = NULL;
	int ret = buf ? open_reading(l, &r, err)
		      : fm_err_set(err, -ENOMEM, "no memory to read a file");

	if (ret == 0) {
		*attr = (struct fm_attr){ .type = FM_NODE_FILE,
					  .size = (uint64_t)r->st.st_size,
					  .mtime_ns = fm_reading_mtime(&r->st) };
		ret = read_crc(l, r, buf, crc);
		if (ret < 0)
			(void)fm_reading_fail(err, ret, l->path);
	}
	fm_reading_put(r);
	fm_stage_chunk_buf_free(buf);
	return ret;
}
