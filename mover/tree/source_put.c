/* SPDX-License-Identifier: MIT */
/*
 * source_put - what the walk found, as entries of a pack.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/show.h"
#include "mover/tree/digest.h"
#include "mover/tree/leads_out.h"
#include "mover/tree/source_priv.h"

#define MODE_MASK 01777u

static int fail(struct fm_source_fill *f, int code)
{
	return fm_reading_fail(f->err, code, f->path);
}

static void make_path(struct fm_source_fill *f, const struct fm_source_item *it)
{
	size_t at = 0;

	if (it->dir) {
		at = it->dir->path_len;
		memcpy(f->path, it->dir->path, at);
		if (at > 0 && it->name_len > 0)
			f->path[at++] = '/';
	}
	assert(at + it->name_len < sizeof(f->path));	/* the scan refused longer ones */
	memcpy(f->path + at, it->name, it->name_len);
	f->path_len = at + it->name_len;
	f->path[f->path_len] = '\0';
}

/* An entry for the current path, with the fields that all types have. */
static struct fm_pack_entry entry_of(const struct fm_source_fill *f, enum fm_pack_type type,
				     const struct stat *st)
{
	struct fm_pack_entry e = {
		.type = type,
		.path = f->path,
		.path_len = f->path_len,
		.mode = type == FM_PACK_LINK ? 0 : st->st_mode & MODE_MASK,
		.mtime_ns = fm_reading_mtime(st),
	};

	if (f->source->has_owners) {
		e.uid = st->st_uid;
		e.gid = st->st_gid;
	}
	return e;
}

/* Adds the extended attributes of fd to the entry, if they are to be sent. */
static int add_xattrs(struct fm_source_fill *f, int fd, struct fm_pack_entry *e)
{
	int ret;

	if (!f->source->has_owners)
		return 0;
	if (!f->xattrs)
		f->xattrs = FM_FAULT("source.xattrs_alloc")
				    ? NULL
				    : fm_budget_realloc(NULL, sizeof(*f->xattrs));
	ret = f->xattrs ? fm_xattrs_read(f->xattrs, fd) : -ENOMEM;
	if (ret == -E2BIG) {
		struct fm_path_shown shown;

		return fm_err_set(
			f->err, ret,
			"\"%s\" has more than %u bytes of extended "
			"attributes; " FM_READING_WAY_OUT,
			fm_path_show(f->path, &shown), FM_TREE_XATTRS_MAX);
	}
	if (ret < 0)
		return fail(f, ret);
	e->xattrs = f->xattrs->packed;
	e->xattr_len = f->xattrs->len;
	return 0;
}

/* No room for the entry: in this pack, or in any. */
static int no_room(struct fm_source_fill *f, const struct fm_pack_entry *e)
{
	struct fm_path_shown shown;

	if (f->w.count > 0)
		return FM_SOURCE_FULL;
	return fm_err_set(
		f->err, -EMSGSIZE,
		"\"%s\" has %zu bytes of extended attributes, too many for chunks of %zu; "
		"use larger chunks",
		fm_path_show(f->path, &shown), e->xattr_len, f->w.cap);
}

static bool has_room(const struct fm_source_fill *f, const struct fm_pack_entry *e)
{
	return fm_pack_room(&f->w, e->path_len, e->target_len, e->xattr_len) >= 0;
}

/* NULL: no far end would take it. What a file system says of a file is not always what can be. */
static uint8_t *add(struct fm_source_fill *f, const struct fm_pack_entry *e)
{
	return FM_FAULT("source.add") ? NULL : fm_pack_add(&f->w, e);
}

/* An entry without data. */
static int put_entry(struct fm_source_fill *f, const struct fm_pack_entry *e)
{
	if (!has_room(f, e))
		return no_room(f, e);
	return add(f, e) ? FM_SOURCE_PUT : fail(f, -EINVAL);
}

/*
 * Notes which version of the current path is sent, in a sum that does not depend on the order. The
 * change time tells a version that took the place of another, or was written over it with its old
 * time; inodes of some file systems are others each time. Of a directory what is in it tells.
 */
static void note_seen(struct fm_source_fill *f, const struct stat *st)
{
	struct fm_identity id = {.dev = fm_crc32c(0, f->path, f->path_len), .ino = st->st_mode};

	if (!S_ISDIR(st->st_mode)) {
		id.size = (uint64_t)st->st_size;
		id.mtime_ns = fm_reading_mtime(st);
		id.ctime_ns = fm_time_ns(&st->st_ctim);
	}
	f->found.seen += fm_identity_hash(&id);
}

/* ---- directories and links ---- */

static int put_dir(struct fm_source_fill *f, const struct fm_source_item *it)
{
	struct fm_pack_entry e;
	struct stat st;
	int ret;

	if (FM_FAULT("source.fstat_dir"))
		return fail(f, -EIO);
	if (fstat(it->dir->fd, &st) < 0)
		return fail(f, -errno);
	e = entry_of(f, FM_PACK_DIR, &st);
	ret = add_xattrs(f, it->dir->fd, &e);
	if (ret == 0)
		ret = put_entry(f, &e);
	if (ret == FM_SOURCE_PUT)
		note_seen(f, &st);
	if (ret == FM_SOURCE_PUT && f->path_len > 0)
		f->found.dirs++;
	return ret;
}

/* lstat() of an item that is not opened, into f->st. */
static int look_at(struct fm_source_fill *f, const struct fm_source_item *it, mode_t type)
{
	if (FM_FAULT("source.fstatat"))
		return -EIO;
	if (fstatat(it->dir->fd, it->name, &f->st,
		    f->source->follows_links ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return (f->st.st_mode & S_IFMT) == type ? 0 : -ESTALE;
}

/* Into f->target; its bytes. */
static ssize_t read_link(struct fm_source_fill *f, const struct fm_source_item *it)
{
	ssize_t len;

	if (FM_FAULT("source.readlink"))
		return -EIO;
	len = readlinkat(it->dir->fd, it->name, f->target, sizeof(f->target));
	if (len < 0)
		return errno == EINVAL ? -ESTALE : -errno;	/* it is no link any more */
	if (len == 0)
		return -ESTALE;
	return len < (ssize_t)sizeof(f->target) ? len : -ENAMETOOLONG;
}

/* Which file it is: of the open one, or of the name. */
static void identify(const struct fm_source_fill *f, const struct fm_source_item *it,
		     const struct stat *st, struct fm_hardlink_id *out)
{
	if (it->file)
		fm_hardlinks_id(st, it->file->fd, "", AT_EMPTY_PATH, out);
	else
		fm_hardlinks_id(st, it->dir->fd, it->name,
				f->source->follows_links ? 0 : AT_SYMLINK_NOFOLLOW, out);
}

/* A further name of a file or symbolic link that was met before: FM_SOURCE_PUT or FM_SOURCE_FULL.
 * Else -ENOENT, or an error. */
static int put_hard(struct fm_source_fill *f, const struct fm_source_item *it,
		    const struct stat *st)
{
	struct fm_pack_entry e = {.type = FM_PACK_HARD,
				  .path = f->path,
				  .path_len = f->path_len,
				  .target = f->target};
	struct fm_hardlink_id id;
	int ret;

	identify(f, it, st, &id);
	ret = fm_source_meet_hardlink(f, &id, &e.target_len);
	if (ret < 0)
		return fail(f, ret);
	if (ret == 0)
		return -ENOENT;
	ret = put_entry(f, &e);
	if (ret != FM_SOURCE_PUT)
		return ret;
	f->found.hard_links++;
	note_seen(f, st);
	return ret;
}

static int put_link(struct fm_source_fill *f, const struct fm_source_item *it)
{
	int ret = look_at(f, it, S_IFLNK);
	struct fm_pack_entry e;
	ssize_t len;

	if (ret < 0)
		return fail(f, ret);
	if (f->st.st_nlink > 1) {
		ret = put_hard(f, it, &f->st);
		if (ret != -ENOENT)
			return ret;
	}
	len = read_link(f, it);
	if (len < 0)
		return fail(f, (int)len);
	e = entry_of(f, FM_PACK_LINK, &f->st);
	e.target = f->target;
	e.target_len = (size_t)len;
	ret = put_entry(f, &e);
	if (ret != FM_SOURCE_PUT)
		return ret;
	f->found.links++;
	note_seen(f, &f->st);
	if (fm_leads_out(f->path, f->path_len, f->target, e.target_len))
		atomic_fetch_add(&f->source->tree.leaving_links, 1);
	return ret;
}

/* ---- files ---- */

static enum fm_reading_way way_of(const struct fm_source_fill *f, bool is_path)
{
	if (f->source->follows_links)
		return FM_READING_FOLLOW;
	return is_path ? FM_READING_PATH : FM_READING_NAME;
}

static int open_file(struct fm_source_fill *f, struct fm_source_item *it)
{
	int dir = it->dir ? it->dir->fd : f->source->root->fd;
	int ret = fm_reading_open(dir, it->name, way_of(f, !it->dir), &it->file);

	if (ret == 0 && f->source->tree.has_digests)
		ret = fm_reading_expect(it->file);
	return ret;
}

/* An offer needs no open file, unless what is in it is to be told. */
static bool may_stay_closed(const struct fm_source *s, const struct fm_source_item *it)
{
	return s->is_offering && !it->is_wanted && !s->has_checksums && !s->has_owners;
}

static bool is_as_offered(const struct fm_source_item *it, const struct stat *st)
{
	return (uint64_t)st->st_size == it->size && fm_reading_mtime(st) == it->mtime_ns &&
	       (!it->is_compared || fm_time_ns(&st->st_ctim) == it->ctime_ns);
}

/* Looks at a file, into *st, and opens it if its content or attributes are needed. */
static int look_at_file(struct fm_source_fill *f, struct fm_source_item *it, const struct stat **st)
{
	int ret = 0;

	if (!it->file && may_stay_closed(f->source, it)) {
		ret = look_at(f, it, S_IFREG);
		*st = &f->st;
		if (ret < 0 || !fm_reading_may_have_holes(&f->st))
			return ret;
	}
	if (!it->file)
		ret = open_file(f, it);
	if (ret < 0)
		return ret;
	*st = &it->file->st;
	return it->is_wanted && !is_as_offered(it, *st) ? -ESTALE : 0;
}

static void count_file(struct fm_source_fill *f, const struct stat *st)
{
	f->found.files++;
	f->found.bytes += (uint64_t)st->st_size;
	note_seen(f, st);
}

static uint64_t identity_of(const struct stat *st)
{
	struct fm_identity id;

	fm_reading_identity(st, &id);
	return fm_identity_hash(&id);
}

/* Computes the CRC32C of the whole file. */
static int sum_file(struct fm_source_fill *f, struct fm_reading *file, uint32_t *crc)
{
	uint64_t left = (uint64_t)file->st.st_size, at = 0;
	int ret = 0;

	if (!f->scratch)
		f->scratch = FM_FAULT("source.scratch_alloc")
				     ? NULL
				     : fm_budget_realloc(NULL, FM_SOURCE_SCRATCH_LEN);
	if (!f->scratch)
		return -ENOMEM;
	*crc = 0;
	while (ret == 0 && left > 0) {
		size_t len = left < FM_SOURCE_SCRATCH_LEN ? (size_t)left : FM_SOURCE_SCRATCH_LEN;

		if (atomic_load_explicit(&f->source->is_stopped, memory_order_relaxed))
			return -ECANCELED;
		ret = fm_reading_read(file, f->scratch, len, at);
		*crc = fm_crc32c(*crc, f->scratch, len);
		at += len;
		left -= len;
	}
	return ret < 0 ? ret : fm_reading_check(file);
}

/* Mode, owner and the like of a large file, for who gets no entry with its data. e is that of its
 * offer. */
static struct fm_pack_entry attr_of(const struct fm_pack_entry *e)
{
	struct fm_pack_entry attr = *e;

	attr.type = FM_PACK_ATTR;
	attr.flags = 0;
	attr.size = attr.identity = 0;
	attr.crc = 0;
	return attr;
}

static int put_offer(struct fm_source_fill *f, struct fm_source_item *it, const struct stat *st,
		     bool is_large)
{
	bool has_attr = is_large && f->source->has_owners;
	struct fm_pack_entry e = entry_of(f, FM_PACK_FILE, st), attr;
	int ret = it->file ? add_xattrs(f, it->file->fd, &e) : 0;
	size_t before = f->w.len;

	if (ret < 0)
		return ret;
	e.size = (uint64_t)st->st_size;
	e.identity = identity_of(st);
	e.flags = is_large ? FM_PACK_IS_LARGE : 0;
	attr = attr_of(&e);
	if (has_attr)
		e.xattr_len = 0;	/* once is enough */
	/* Its attributes first: if the offer has no room behind them they are taken back. */
	ret = has_attr ? put_entry(f, &attr) : FM_SOURCE_PUT;
	if (ret == FM_SOURCE_PUT && !has_room(f, &e)) {
		if (has_attr)
			fm_pack_cut(&f->w, before);
		ret = no_room(f, &e);
	}
	if (ret != FM_SOURCE_PUT)
		return ret;
	if (f->source->has_checksums) {
		e.flags |= FM_PACK_HAS_CRC;
		ret = sum_file(f, it->file, &e.crc);
		if (ret < 0)
			return fail(f, ret);
	}
	f->ctimes[f->w.count] = fm_time_ns(&st->st_ctim);
	if (!add(f, &e))
		return fail(f, -EINVAL);
	f->offers++;
	count_file(f, st);
	return FM_SOURCE_PUT;
}

/*
 * A large file is a transfer of its own. Its owner and extended attributes have no place there, so
 * they go into the pack.
 */
static int put_large(struct fm_source_fill *f, struct fm_source_item *it, bool has_holes)
{
	bool has_attr = f->source->has_owners && !it->is_wanted;	/* its offer brought them */
	const struct stat st = it->file->st;
	struct fm_pack_entry attr = entry_of(f, FM_PACK_ATTR, &st);
	int ret = has_attr ? add_xattrs(f, it->file->fd, &attr) : 0;

	if (ret < 0)
		return ret;
	if (has_attr && !has_room(f, &attr))
		return no_room(f, &attr);
	ret = fm_source_add_large(f, it, has_holes);
	if (ret < 0)
		return fail(f, ret);
	if (ret != FM_SOURCE_PUT)
		return ret;
	if (has_attr && !add(f, &attr))
		return fail(f, -EINVAL);
	if (!it->is_wanted)
		count_file(f, &st);
	return FM_SOURCE_PUT;
}

/*
 * How many bytes of the file go into this pack: the whole rest if it fits. A file that would not
 * fit even into an empty pack is cut to the room that is left. -1: nothing goes into this pack.
 */
static int64_t piece_len(const struct fm_source_fill *f, const struct fm_source_item *it,
			 const struct fm_pack_entry *e)
{
	uint64_t left = e->size - it->from;
	int64_t room = fm_pack_room(&f->w, e->path_len, 0, e->xattr_len);
	int64_t most = room + (int64_t)(f->w.len - FM_PACK_HEAD);	/* in a pack of its own */

	if (room < 0)
		return -1;
	if (left <= (uint64_t)room)
		return (int64_t)left;
	if (it->from == 0 && left <= (uint64_t)most)
		return -1;
	room -= room % FM_BLOCK;	/* so that the next piece begins at a block */
	return room > 0 ? room : -1;
}

/*
 * The file differs from the digest that was kept when it came, or that is damaged. This is found
 * out with its last piece.
 */
static int meet_corrupt(struct fm_source_fill *f, const struct fm_reading *file,
			const struct fm_pack_entry *e, uint8_t *data)
{
	struct fm_path_shown shown;

	fm_path_show(f->path, &shown);
	if (!f->source->accepts_corrupt && file->is_kept_damaged)
		return fm_err_set(f->err, -EBADMSG,
				  "\"%s\": " FM_DIGEST_DAMAGED "; fmove verify names all such "
				  "files, --accept-corrupt takes them as they are",
				  shown.text);
	if (!f->source->accepts_corrupt)
		return fm_err_set(f->err, -EBADMSG,
				  "\"%s\" is corrupt from byte 0 on, somewhere in %llu bytes: this "
				  "is not what was put there; "
				  "fmove verify names all such files, --accept-corrupt takes them "
				  "as they are",
				  shown.text, (unsigned long long)e->size);
	fm_log_some(&f->source->corrupt_lines, fm_clock_real.now_ns(fm_clock_real.ctx), FM_LOG_WARN,
		    "\"%s\" is corrupt, and taken all the same", shown.text);
	fm_pack_set_corrupt(data, e);
	atomic_store(&f->source->tree.has_corrupt, true);
	return FM_SOURCE_PUT;
}

static int read_piece(struct fm_source_fill *f, struct fm_reading *file,
		      const struct fm_pack_entry *e, uint8_t *data)
{
	int ret = fm_reading_read(file, data, e->data_len, e->offset);
	uint32_t part;

	if (ret == 0)
		ret = fm_reading_check(file);
	if (ret < 0)
		return fail(f, ret);
	part = fm_crc32c_part(fm_crc32c(0, data, e->data_len), e->offset, e->data_len);
	fm_pack_set_crc(data, e, part);
	if (fm_reading_count(file, part, e->data_len))
		return FM_SOURCE_PUT;
	return meet_corrupt(f, file, e, data);
}

static int put_piece(struct fm_source_fill *f, struct fm_source_item *it, const struct stat *st)
{
	struct fm_pack_entry e = entry_of(f, FM_PACK_FILE, st);
	int ret = add_xattrs(f, it->file->fd, &e);
	uint8_t *data;
	int64_t len;

	if (ret < 0)
		return ret;
	e.size = (uint64_t)st->st_size;
	e.identity = identity_of(st);
	e.offset = it->from;
	len = piece_len(f, it, &e);
	if (len < 0)
		return no_room(f, &e);
	e.data_len = (uint32_t)len;
	/* Before it is read, so that others can read the rest at the same time. */
	if (e.offset + e.data_len < e.size)
		ret = fm_source_leave_rest(f, it, e.offset + e.data_len);
	if (ret < 0)
		return fail(f, ret);
	if (it->from == 0 && !it->is_wanted)
		count_file(f, st);
	data = add(f, &e);
	if (!data)
		return fail(f, -EINVAL);
	return e.data_len > 0 ? read_piece(f, it->file, &e, data) : FM_SOURCE_PUT;
}

static int put_file(struct fm_source_fill *f, struct fm_source_item *it)
{
	const struct stat *st;
	bool has_holes, is_large;
	int ret = look_at_file(f, it, &st);

	if (ret < 0)
		return fail(f, ret);
	if (it->is_wanted && f->source->is_dry)
		return FM_SOURCE_PUT;	/* it may be read, which is all that a dry run asks */
	if (it->from > 0)
		return put_piece(f, it, st);
	if (!it->is_wanted && st->st_nlink > 1) {
		ret = put_hard(f, it, st);
		if (ret != -ENOENT)
			return ret;
	}
	has_holes = it->file && fm_reading_has_holes(it->file);
	is_large = it->is_wanted ? it->is_large : has_holes || st->st_size > FM_TREE_LARGE;
	if (f->source->is_offering && !it->is_wanted)
		return put_offer(f, it, st, is_large);
	return is_large ? put_large(f, it, has_holes) : put_piece(f, it, st);
}

int fm_source_put(struct fm_source_fill *f, struct fm_source_item *it)
{
	make_path(f, it);
	switch (it->type) {
	case DT_DIR:
		return put_dir(f, it);
	case DT_LNK:
		return put_link(f, it);
	default:
		return put_file(f, it);
	}
}

/* ---- again ---- */

/* The piece's bytes as they were, which its CRC shows. */
static int read_again(struct fm_source_fill *f, const struct fm_pack_entry *e, uint8_t *data)
{
	struct fm_reading *file;
	int ret = fm_reading_open(f->source->root->fd, f->path, way_of(f, true), &file);

	if (ret < 0)
		return ret;
	if ((uint64_t)file->st.st_size != e->size || fm_reading_mtime(&file->st) != e->mtime_ns)
		ret = -ESTALE;
	if (ret == 0)
		ret = fm_reading_read(file, data, e->data_len, e->offset);
	if (ret == 0)
		ret = fm_reading_check(file);
	if (ret == 0 &&
	    fm_crc32c_part(fm_crc32c(0, data, e->data_len), e->offset, e->data_len) != e->crc)
		ret = -ESTALE;
	fm_reading_put(file);
	return ret;
}

int fm_source_put_again(struct fm_source_fill *f, const struct fm_source_sent *sent)
{
	struct fm_pack_reader r;
	struct fm_pack_entry e;
	int ret = fm_pack_open_outline(&r, sent->outline, sent->len);

	assert(ret == 0);
	f->w.flags = r.flags;
	while (ret == 0 && fm_pack_next(&r, &e) > 0) {
		uint8_t *data;

		if (fm_pack_room(&f->w, e.path_len, e.target_len, e.xattr_len) <
		    (int64_t)e.data_len)
			return fm_err_set(f->err, -EINVAL,
					  "a pack is to be made again in a shorter buffer");
		memcpy(f->path, e.path, e.path_len);
		f->path[e.path_len] = '\0';
		data = add(f, &e);
		if (!data)
			return fail(f, -EINVAL);
		ret = e.data_len > 0 ? read_again(f, &e, data) : 0;
	}
	return ret < 0 ? fail(f, ret) : 0;
}
