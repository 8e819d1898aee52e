/* SPDX-License-Identifier: MIT */
/*
 * sink_large - files that travel by themselves: the sink opens and seals them, somebody else
 * writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

/* A large file as an entry, without owner and extended attributes: an ATTR entry brings those. */
static int entry_of(const struct fm_sink *s, const struct fm_tree_large *how,
		    struct fm_pack_entry *e, struct fm_err *err)
{
	size_t len = strnlen(how->path, sizeof(how->path));

	*e = (struct fm_pack_entry){.type = FM_PACK_FILE,
				    .mode = s->opts.is_for_group ? fm_mode_for_group(how->mode)
								 : how->mode,
				    .size = how->size,
				    .mtime_ns = how->mtime_ns,
				    .identity = fm_identity_hash(&how->id),
				    .path = how->path,
				    .path_len = len};
	if (!fm_pack_is_good_path(how->path, len))
		return fm_err_set(err, -EPROTO, "a large file came under a path that is none");
	if (how->size > INT64_MAX || (how->mode & ~01777u) != 0)
		return fm_sink_refuse(s, how->path, len,
				      "came with a size or mode that no file has", err);
	return 0;
}

/* It had its final mode already, and perhaps its owner: it gets both again at the end. It has no
 * other name. */
static int take_back(const struct fm_sink *s, const struct fm_sink_at *at)
{
	int ret = s->opts.has_owners ? fm_tsys_own_link(at->dir, at->name, s->uid, (gid_t)-1) : 0;

	return ret < 0 ? ret : fm_tsys_chmod_at(at->dir, at->name, 0600);
}

static int open_existing(const struct fm_sink *s, const struct fm_sink_at *at, int flags)
{
	int fd = fm_tsys_open(at->dir, at->name, O_RDWR | flags, 0);

	if (fd == -EACCES && take_back(s, at) == 0)
		fd = fm_tsys_open(at->dir, at->name, O_RDWR | flags, 0);
	return fd;
}

/*
 * Opens a large file that was begun before in this try. The ranges in the journal count; the rest
 * is sent again.
 */
static int open_again(struct fm_sink_call *call, const struct fm_sink_at *at,
		      const struct fm_pack_entry *e, struct fm_have *have)
{
	struct stat st;
	int ret = fm_sink_check_name(call, at);

	/*
	 * The list of written ranges is logged first: otherwise ranges from before would be logged
	 * of a file that is emptied now.
	 */
	if (ret == 0)
		ret = fm_sink_log(call->s, call->err);
	if (ret == 0)
		ret = fm_sink_resume_part(call, at, e, have);
	if (ret != 0)
		return ret < 0 ? ret : open_existing(call->s, at, 0);
	ret = fm_tsys_fstatat(at->dir, at->name, &st);
	if (ret < 0)
		return ret;
	/* A file with other names may be one of the version that is replaced. */
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return fm_sink_clash(call, at);
	ret = open_existing(call->s, at, O_TRUNC);
	if (ret >= 0)
		fm_sink_give(call->s, (uint64_t)st.st_size);
	return ret;
}

static int open_large(struct fm_sink_call *call, const struct fm_sink_at *at,
		      const struct fm_pack_entry *e, struct fm_have *have)
{
	int ret = 0;

	if (call->s->was_count > 0)
		ret = fm_sink_resume_part(call, at, e, have);
	if (ret < 0)
		return ret;
	ret = ret > 0 ? open_existing(call->s, at, 0)
		      : fm_tsys_open(at->dir, at->name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (ret == -EEXIST)
		return open_again(call, at, e, have);
	return ret;
}

static int set_size(int fd, const struct fm_tree_large *how)
{
	return how->has_holes ? fm_tsys_truncate(fd, how->size) : fm_tsys_allocate(fd, how->size);
}

/* The room for it, so that a disk that is too small is found out now; and its size, which the quota
 * counts from now on. */
static int make_room(struct fm_sink_call *call, int fd, const struct fm_tree_large *how)
{
	uint64_t there, more;
	struct stat st;
	int ret = fm_tsys_fstat(fd, &st);

	if (ret < 0)
		return ret;
	there = (uint64_t)st.st_size;
	more = how->size > there ? how->size - there : 0;
	ret = fm_sink_take(call, more);
	if (ret < 0)
		return ret;
	ret = set_size(fd, how);
	if (ret < 0)
		fm_sink_give(call->s, more);
	else if (there > how->size)
		fm_sink_give(call->s, there - how->size);
	return ret;
}

static int create(struct fm_sink_call *call, const struct fm_tree_large *how, int *fd,
		  struct fm_have *have)
{
	struct fm_sink_at at;
	struct fm_pack_entry e;
	int ret = entry_of(call->s, how, &e, call->err);

	if (ret == 0)
		ret = fm_sink_at(call, e.path, e.path_len, &at);
	if (ret < 0)
		return ret;
	*fd = open_large(call, &at, &e, have);
	ret = *fd < 0 ? *fd : make_room(call, *fd, how);
	/* The text is there if somebody nearer to it set one. */
	if (ret < 0 && call->err->code == 0)
		(void)fm_sink_fail(call->s, ret, "create", e.path, e.path_len, call->err);
	if (ret < 0 && *fd >= 0)
		close(*fd);
	return ret < 0 ? call->err->code : 0;
}

int fm_sink_create_large(struct fm_tree *t, const struct fm_tree_large *how, int *fd,
			 struct fm_have *have, struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);
	struct fm_sink_call call;
	struct fm_err ours = { 0 };
	int ret = fm_sink_enter(s, err);

	*have = (struct fm_have){ .crc = 0 };
	if (ret == 0 && s->opts.is_dry)
		ret = fm_err_set(err, -EPROTO, "a large file came in a dry run");
	if (ret == 0)
		ret = fm_sink_build(s, err);
	if (ret < 0)
		return ret;
	fm_sink_begin(&call, s, &ours);
	ret = create(&call, how, fd, have);
	fm_sink_end(&call);
	if (ret < 0) {
		fm_have_free(have);
		fm_err_set(err, ret, "%s", ours.text);
	}
	return ret;
}

int fm_sink_wrote_large(struct fm_tree *t, const struct fm_journal_entry *entry, struct fm_err *err)
{
	(void)err;
	fm_sink_goes_on(fm_sink_of(t));
	/* What does not fit is not in the journal: it would come again after a failure, no more. */
	(void)fm_sink_made(fm_sink_of(t), entry);
	return 0;
}

/* Notes the whole file as there, including its holes, which were never written. */
static void note_whole(struct fm_sink *s, const struct fm_pack_entry *e,
		       const struct fm_digest *digest)
{
	const struct fm_journal_entry entry = {.path = e->path,
					       .path_len = e->path_len,
					       .size = e->size,
					       .mtime_ns = e->mtime_ns,
					       .identity = e->identity,
					       .len = e->size,
					       .crc = fm_crc32c_part(digest->crc, 0, e->size)};

	fm_sink_made_anew(s, &entry);
}

int fm_sink_seal_large(struct fm_tree *t, const struct fm_tree_large *how, int fd,
		       const struct fm_digest *digest, struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);
	struct fm_sink_call call;
	struct fm_pack_entry e;
	int ret = fm_sink_enter(s, err);

	if (ret == 0)
		ret = entry_of(s, how, &e, err);
	if (ret < 0)
		return ret;
	ret = fm_tsys_truncate(fd, e.size);
	if (ret < 0)
		return fm_sink_fail(s, ret, "set the size of", e.path, e.path_len, err);
	ret = fm_sink_set_mode(s, fd, &e, digest, false, err);
	if (ret < 0)
		return ret;
	if (digest)
		note_whole(s, &e, digest);
	fm_sink_begin(&call, s, err);
	call.count.files++;
	call.count.bytes += e.size;
	fm_sink_name_file(&call, &e);
	ret = fm_sink_list_file(&call, &e, digest ? &digest->crc : NULL);
	fm_sink_end(&call);
	return ret;
}
