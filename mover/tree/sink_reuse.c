/* SPDX-License-Identifier: MIT */
/*
 * sink_reuse - unchanged files come from the version that is replaced.
 *
 * A reflink is a file of its own that shares the blocks, and gets the source's mode, time and
 * owner. Where the file system has none, a hard link does if the file has all of these already: it
 * is the same file then, so setting anything would change the old version. Everything else is asked
 * from the source, and so is a file that was written to between the look at it and the reflink:
 * that has what was written, and must not get the source's time and digest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/journal/written.h"
#include "mover/tree/digest.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

#define READ_LEN (256u << 10)

/* A file of the old version. */
struct old_file {
	int dir;
	int fd;			/* -1: may not be read */
	struct stat st;
	bool is_written;	/* while it was looked at */
};

/* ------------------------------------------------------------------------------- is it the same */

/* Computes the CRC of a whole file. */
static int read_crc(const struct fm_sink_call *call, int fd, uint8_t *buf, uint32_t *crc)
{
	off_t at = 0;
	ssize_t n;

	*crc = 0;
	for (;;) {
		if (atomic_load(&call->s->is_stopped))
			return -ECANCELED;
		n = FM_FAULT("tree.read") ? (errno = EIO, -1) : pread(fd, buf, READ_LEN, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		*crc = fm_crc32c(*crc, buf, (size_t)n);
		at += n;
	}
}

/*
 * Whether the file has that CRC: 1, 0 or -ECANCELED. A file that cannot be read counts as changed,
 * so it is sent.
 */
static int has_crc(const struct fm_sink_call *call, int fd, uint32_t wanted)
{
	uint8_t *buf = fm_tsys_alloc(READ_LEN);
	uint32_t crc = 0;
	int ret = buf ? read_crc(call, fd, buf, &crc) : -ENOMEM;

	fm_tsys_free(buf);
	if (ret == -ECANCELED)
		return fm_sink_may_go_on(call->s, call->err);
	return ret == 0 && crc == wanted;
}

/* 1, 0, or an error. */
static int is_unchanged(const struct fm_sink_call *call, const struct old_file *old,
			const struct fm_pack_entry *e)
{
	if ((uint64_t)old->st.st_size != e->size)
		return 0;
	/* A copy becomes the caller's. He can have moved another's file into a directory of his. */
	if (call->s->opts.has_one_owner && call->s->opts.has_owners && old->st.st_uid != e->uid)
		return 0;
	if (!call->s->opts.has_checksums)
		return fm_tsys_mtime(&old->st) == e->mtime_ns;
	if (!(e->flags & FM_PACK_HAS_CRC) || old->fd < 0)
		return 0;
	return has_crc(call, old->fd, e->crc);
}

/* 1: there is a regular file of that name. */
static int open_old(struct fm_sink_call *call, const struct fm_sink_at *at, struct old_file *old)
{
	size_t dir_len = at->path_len - strlen(at->name);

	old->fd = -1;
	old->is_written = false;
	old->dir = fm_sink_dir_find(&call->old, at->path, dir_len > 0 ? dir_len - 1 : 0);
	if (old->dir < 0 || fm_tsys_fstatat(old->dir, at->name, &old->st) < 0 ||
	    !S_ISREG(old->st.st_mode))
		return 0;
	return 1;
}

/* Opens the file for its content. From here on old->st describes the open file, not the name. */
static int open_content(struct old_file *old, const char *name)
{
	old->fd = fm_tsys_open(old->dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (old->fd < 0)
		return 0;
	return fm_tsys_fstat(old->fd, &old->st) == 0 && S_ISREG(old->st.st_mode);
}

/* The same for a clone: whatever is written to it from here on can be seen. */
static int open_to_clone(struct old_file *old, const char *name)
{
	if (!open_content(old, name))
		return 0;
	/* All of it is written back: the clone does that, too. */
	old->is_written = fm_look_before_read(old->fd, true, UINT64_MAX, &old->st) < 0;
	return !old->is_written;
}

static bool was_written(const struct old_file *old)
{
	struct stat now;

	return fm_tsys_fstat(old->fd, &now) < 0 || fm_is_written(old->fd, &old->st, &now);
}

/* ------------------------------------------------------------------------------------ taking it */

/* is_same: the file differs in nothing from the old version's, attributes included. */
static void count_reused(struct fm_sink_call *call, const struct fm_pack_entry *e, bool is_reflink,
			 bool is_same)
{
	call->tally.same += is_same;
	call->count.files++;
	call->count.bytes += e->size;
	call->count.reused_files++;
	call->count.reused_bytes += e->size;
	call->count.is_reflinked |= is_reflink;
	if (!is_same && !call->s->opts.is_dry)
		fm_sink_name_as(call->s, FM_SINK_MET_OTHER, e);
}

/* The name is taken: the same offer came before. 1: by a finished file. */
static int meet_taken(struct fm_sink_call *call, const struct fm_sink_at *at,
		      const struct fm_pack_entry *e)
{
	int ret = fm_sink_check_name(call, at);

	return ret < 0 ? ret : fm_sink_is_complete(call, at, e);
}

static int fill_clone(struct fm_sink_call *call, int fd, const struct old_file *old,
		      const struct fm_pack_entry *e, bool is_final)
{
	struct fm_digest digest = { .crc = e->crc };
	bool is_known = fm_digest_get(old->fd, &digest) == 0 && digest.size == e->size &&
			digest.mtime_ns == fm_tsys_mtime(&old->st);

	if ((e->flags & FM_PACK_HAS_CRC) && (!is_known || digest.crc != e->crc)) {
		digest = (struct fm_digest){ .crc = e->crc, .size = e->size };
		is_known = true;
	}
	digest.mtime_ns = e->mtime_ns;
	return fm_sink_set_attrs(call->s, fd, e, is_known ? &digest : NULL, is_final, call->err);
}

/* Whether all but the content is what the entry says. */
static bool has_all_attrs(struct fm_sink_call *call, const struct fm_sink_at *at,
			  const struct old_file *old, const struct fm_pack_entry *e)
{
	const struct fm_sink_seen seen = { old->dir, at->name, &old->st };

	return fm_tsys_mtime(&old->st) == e->mtime_ns &&
	       (call->s->opts.has_any_mode ||
		fm_sink_has_attrs(call->s, &seen, e) > 0);
}

/* 1: cloned. 0: this file system cannot, or not this file, or (is_written) nobody should. */
static int try_clone(struct fm_sink_call *call, const struct fm_sink_at *at, struct old_file *old,
		     const struct fm_pack_entry *e)
{
	bool is_final;
	mode_t mode = fm_sink_create_mode(call->s, e, &is_final);
	int fd, ret;

	if (atomic_load(&call->s->has_no_clone) || old->fd < 0)
		return 0;
	fd = fm_tsys_open(at->dir, at->name, O_WRONLY | O_CREAT | O_EXCL, mode);
	if (fd == -EEXIST)
		return meet_taken(call, at, e);
	if (fd < 0)
		return fm_sink_fail(call->s, fd, "create", at->path, at->path_len, call->err);
	ret = fm_tsys_clone(fd, old->fd);
	if (ret < 0) {
		/* EINVAL is of this one file: of no bytes, or with a tail that cannot be shared. */
		if (ret != -EINVAL)
			atomic_store(&call->s->has_no_clone, true);
		ret = 0;
	} else if (was_written(old)) {
		old->is_written = true;
		ret = 0;
	} else {
		ret = fm_sink_take_old(call, e->size);
		if (ret == 0)
			ret = fill_clone(call, fd, old, e, is_final);
		ret = ret < 0 ? ret : 1;
	}
	if (ret <= 0)
		unlinkat(at->dir, at->name, 0);
	close(fd);
	if (ret > 0)
		count_reused(call, e, true, has_all_attrs(call, at, old, e));
	return ret;
}

/* A file of another's the kernel may not let us link, and a file system has a limit of names that
 * is not told. */
#define NAMES_MAX 1000

static bool is_linkable(const struct fm_sink *s, const struct stat *st)
{
	return st->st_nlink < NAMES_MAX && (s->uid == 0 || st->st_uid == s->uid);
}

/*
 * Whether the new link is the file that was looked at. A user who can write to the old directory
 * could have replaced that file before the link was made, but cannot reach the new directory.
 */
static bool is_linked(const struct fm_sink_call *call, const struct fm_sink_at *at,
		      const struct old_file *old, const struct fm_pack_entry *e)
{
	struct stat st;
	const struct fm_sink_seen seen = { at->dir, at->name, &st };

	return fm_tsys_fstatat(at->dir, at->name, &st) == 0 && st.st_ino == old->st.st_ino &&
	       st.st_dev == old->st.st_dev &&
	       (call->s->opts.has_any_mode ||
		fm_sink_has_attrs(call->s, &seen, e) > 0);
}

static int try_link(struct fm_sink_call *call, const struct fm_sink_at *at,
		    const struct old_file *old, const struct fm_pack_entry *e)
{
	int ret;

	if (!has_all_attrs(call, at, old, e))
		return 0;
	ret = fm_tsys_link(old->dir, at->name, at->dir, at->name);
	if (ret == -EEXIST)
		return meet_taken(call, at, e);
	if (ret < 0)	/* too many links, not our file, no hard links there: it comes */
		return 0;
	if (!is_linked(call, at, old, e)) {
		unlinkat(at->dir, at->name, 0);
		return 0;
	}
	ret = fm_sink_take_old(call, e->size);
	if (ret < 0) {
		unlinkat(at->dir, at->name, 0);
		return ret;
	}
	count_reused(call, e, false, true);
	return 1;
}

/* Whether the file system can share its blocks: tried with a file that has no name. */
static bool may_clone(struct fm_sink_call *call, const struct fm_sink_at *at, struct old_file *old)
{
	int fd, ret;

	if (atomic_load(&call->s->has_no_clone) || (old->fd < 0 && !open_content(old, at->name)))
		return false;
	fd = fm_tsys_open(call->s->opts.parent, ".", O_TMPFILE | O_WRONLY, 0600);
	if (fd < 0)
		return false;
	ret = fm_tsys_clone(fd, old->fd);
	close(fd);
	if (ret < 0 && ret != -EINVAL)
		atomic_store(&call->s->has_no_clone, true);
	return ret == 0;
}

/* Counts what take() would do, and changes nothing. */
static int take_dry(struct fm_sink_call *call, const struct fm_sink_at *at, struct old_file *old,
		    const struct fm_pack_entry *e)
{
	bool is_same = has_all_attrs(call, at, old, e);

	if (!(is_same && is_linkable(call->s, &old->st)) && !may_clone(call, at, old))
		return 0;
	count_reused(call, e, false, is_same);
	return 1;
}

static int take(struct fm_sink_call *call, const struct fm_sink_at *at, struct old_file *old,
		const struct fm_pack_entry *e)
{
	int ret = is_unchanged(call, old, e);

	if (ret <= 0)
		return ret;
	if (call->s->opts.is_dry)
		return take_dry(call, at, old, e);
	/* What has other names keeps them in a merge. */
	ret = call->s->is_merging && old->st.st_nlink > 1 ? try_link(call, at, old, e) : 0;
	if (ret == 0)
		ret = try_clone(call, at, old, e);
	return ret != 0 || old->is_written ? ret : try_link(call, at, old, e);
}

/*
 * Lists a reused file in the manifest, with the digest that the old version had. It is valid if
 * nobody wrote to the file since.
 */
static int list_reused(struct fm_sink_call *call, const struct fm_sink_at *at, struct old_file *old,
		       const struct fm_pack_entry *e)
{
	struct fm_digest digest = { .crc = e->crc };
	bool is_known = e->flags & FM_PACK_HAS_CRC;

	if (!call->s->has_manifest || call->s->opts.is_dry)
		return 1;
	if (!is_known && (old->fd >= 0 || open_content(old, at->name)))
		is_known = fm_digest_of(old->fd, &old->st, &digest) > 0;
	return fm_sink_list_file(call, e, is_known ? &digest.crc : NULL) < 0 ? call->err->code : 1;
}

int fm_sink_is_same_file(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	const char *slash = memrchr(e->path, '/', e->path_len), *last = slash ? slash + 1 : e->path;
	size_t len = e->path_len - (size_t)(last - e->path);
	struct fm_sink_at at = { .dir = -1, .path = e->path, .path_len = e->path_len };
	struct old_file old;
	int ret;

	if (len > FM_SINK_NAME_MAX)
		return 0;
	memcpy(at.name, last, len);
	if (!open_old(call, &at, &old) || !is_linkable(call->s, &old.st))
		return 0;
	if (call->s->opts.has_checksums && !open_content(&old, at.name))
		ret = 0;
	else
		ret = is_unchanged(call, &old, e);
	if (ret > 0)
		ret = has_all_attrs(call, &at, &old, e);
	if (old.fd >= 0)
		close(old.fd);
	return ret;
}

int fm_sink_reuse(struct fm_sink_call *call, const struct fm_sink_at *at,
		  const struct fm_pack_entry *e)
{
	struct old_file old;
	bool is_cloned = !call->s->opts.is_dry && !atomic_load(&call->s->has_no_clone), is_open;
	uint64_t before = call->count.reused_files;
	int ret;

	if (!open_old(call, at, &old))
		return 0;
	/* Most that changed is told by its size or time, without opening it. */
	if ((uint64_t)old.st.st_size != e->size ||
	    (!call->s->opts.has_checksums && fm_tsys_mtime(&old.st) != e->mtime_ns))
		return 0;
	is_open = is_cloned	? open_to_clone(&old, at->name)
		  : call->s->opts.has_checksums ? open_content(&old, at->name)
						: false;
	if (old.is_written || (call->s->opts.has_checksums && !is_open))
		ret = 0;
	else
		ret = take(call, at, &old, e);
	/* who offers it again finds it made, and listed */
	if (ret > 0 && call->count.reused_files > before)
		ret = list_reused(call, at, &old, e);
	if (old.fd >= 0)
		close(old.fd);
	return ret;
}
