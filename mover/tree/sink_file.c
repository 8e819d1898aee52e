/* SPDX-License-Identifier: MIT */
/*
 * sink_file - small files that come whole: five system calls each.
 *
 * Happy path: create (exclusively), write, set digest and time, close.
 * Taken:      The pack came twice, perhaps at this moment in another thread. A file that is
 *             finished (the time is set last) is left alone. Else the content goes into a file of
 *             its own, which then takes the name: nothing that exists is ever written to, since it
 *             may be a link to a file of the version that is replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

#define TEMP_MAX 40

/* What becomes of a time is seen by giving it to the lock file, whose own nobody looks at. */
static bool is_kept_as(struct fm_sink *s, int64_t mtime_ns, int64_t kept_ns)
{
	struct stat st;
	bool is;

	if (s->lock < 0)
		return false;
	pthread_mutex_lock(&s->timing);
	is = fm_tsys_set_mtime(s->lock, mtime_ns) == 0 && fm_tsys_fstat(s->lock, &st) == 0 &&
	     fm_tsys_mtime(&st) == kept_ns;
	pthread_mutex_unlock(&s->timing);
	return is;
}

bool fm_sink_has_time(struct fm_sink *s, const struct stat *st, int64_t mtime_ns)
{
	int64_t has_ns = fm_tsys_mtime(st);

	return has_ns == mtime_ns || is_kept_as(s, mtime_ns, has_ns);
}

int fm_sink_is_complete(struct fm_sink_call *call, const struct fm_sink_at *at,
			const struct fm_pack_entry *e)
{
	struct stat st;
	int ret = fm_tsys_fstatat(at->dir, at->name, &st);

	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return fm_sink_fail(call->s, ret, "look at", at->path, at->path_len, call->err);
	if (!S_ISREG(st.st_mode))
		return fm_sink_clash(call, at);
	if (call->s->opts.has_owners && (st.st_uid != e->uid || st.st_gid != e->gid))
		return 0;
	return (uint64_t)st.st_size == e->size && fm_sink_has_time(call->s, &st, e->mtime_ns);
}

int fm_sink_finished(struct fm_sink_call *call, const struct fm_pack_entry *e, uint32_t crc)
{
	const struct fm_journal_entry entry = {.path = e->path,
					       .path_len = e->path_len,
					       .size = e->size,
					       .mtime_ns = e->mtime_ns,
					       .identity = e->identity,
					       .len = e->size,
					       .crc = crc};
	int ret;

	while ((ret = fm_sink_made(call->s, &entry)) == -ENOBUFS) {
		ret = fm_sink_log(call->s, call->err);
		if (ret < 0)
			return ret;
	}
	if (ret < 0)
		return fm_sink_fail(call->s, ret, "note", e->path, e->path_len, call->err);
	crc = fm_crc32c_whole(crc, e->size);
	return fm_sink_list_file(
		call, e,
		call->s->opts.has_digests && !(e->flags & FM_PACK_IS_CORRUPT) ? &crc : NULL);
}

/* Content and attributes into a new file, which is closed then. */
static int fill_file(struct fm_sink_call *call, int fd, const struct fm_pack_entry *e,
		     bool is_final)
{
	struct fm_digest digest;
	int ret = fm_tsys_write_all(fd, e->data, e->data_len, 0), close_ret;

	if (ret < 0)
		(void)fm_sink_fail(call->s, ret, "write", e->path, e->path_len, call->err);
	else
		ret = fm_sink_set_attrs(call->s, fd, e, fm_sink_digest(call->s, e, e->crc, &digest),
					is_final, call->err);
	close_ret = fm_tsys_close(fd);
	if (ret == 0 && close_ret < 0)
		ret = fm_sink_fail(call->s, close_ret, "write", e->path, e->path_len, call->err);
	return ret;
}

/* A name that was free. -EEXIST, without a text: it is not. */
static int make_file(struct fm_sink_call *call, const struct fm_sink_at *at,
		     const struct fm_pack_entry *e)
{
	bool is_final;
	mode_t mode = fm_sink_create_mode(call->s, e, &is_final);
	int fd = fm_tsys_open(at->dir, at->name, O_WRONLY | O_CREAT | O_EXCL, mode);
	int ret;

	if (fd == -EEXIST)
		return fd;
	if (fd < 0)
		return fm_sink_fail(call->s, fd, "create", e->path, e->path_len, call->err);
	ret = fm_sink_take(call, e->size);
	if (ret < 0) {
		close(fd);
		unlinkat(at->dir, at->name, 0);
		return ret;
	}
	/* Counted once: whoever replaces it because this write fails does not count. */
	call->count.files++;
	call->count.bytes += e->size;
	fm_sink_name_file(call, e);
	return fill_file(call, fd, e, is_final);
}

/* A name that is taken by a file which is not finished. */
static int replace_file(struct fm_sink_call *call, const struct fm_sink_at *at,
			const struct fm_pack_entry *e)
{
	char temp[TEMP_MAX];
	bool is_final;
	mode_t mode = fm_sink_create_mode(call->s, e, &is_final);
	int fd, ret;

	snprintf(temp, sizeof(temp), FM_STAGING_PREFIX "again.%u",
		 atomic_fetch_add(&call->s->temp_number, 1));
	fd = fm_tsys_open(at->dir, temp, O_WRONLY | O_CREAT | O_EXCL, mode);
	if (fd < 0)
		return fm_sink_fail(call->s, fd, "create again", e->path, e->path_len, call->err);
	ret = fill_file(call, fd, e, is_final);
	if (ret == 0) {
		ret = fm_tsys_rename(at->dir, temp, at->dir, at->name, 0);
		if (ret < 0)
			(void)fm_sink_fail(call->s, ret, "create again", e->path, e->path_len,
					   call->err);
	}
	if (ret < 0)
		unlinkat(at->dir, temp, 0);
	return ret;
}

static int whole_file(struct fm_sink_call *call, const struct fm_sink_at *at,
		      const struct fm_pack_entry *e)
{
	int ret = make_file(call, at, e);

	if (ret == -EEXIST) {
		ret = fm_sink_check_name(call, at);
		if (ret == 0)
			ret = fm_sink_is_complete(call, at, e);
		if (ret == 0)
			ret = replace_file(call, at, e);
	}
	if (ret < 0)
		return ret;
	return ret == 0 ? fm_sink_finished(call, e, e->crc) : 0;
}

int fm_sink_file(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	struct fm_sink_at at;
	int ret;

	if (e->size > FM_TREE_LARGE)
		return fm_sink_refuse(call->s, e->path, e->path_len, "is a large file in a pack",
				      call->err);
	ret = fm_sink_at(call, e->path, e->path_len, &at);
	if (ret < 0)
		return ret;
	if (call->s->was_count > 0) {
		ret = fm_sink_resume(call, &at, e);
		if (ret != 0)
			return ret < 0 ? ret : 0;
	}
	return e->data_len == e->size ? whole_file(call, &at, e) : fm_sink_piece(call, &at, e);
}

int fm_sink_offer(struct fm_sink_call *call, const struct fm_pack_entry *e)
{
	struct fm_sink_at at;
	uint64_t same = call->tally.same;
	int dry, ret = call->s->opts.is_dry ? 0 : fm_sink_meet(call, e);

	if (ret >= 0)
		ret = fm_sink_at(call, e->path, e->path_len, &at);
	if (ret == 0 && call->s->was_count > 0)
		ret = fm_sink_resume(call, &at, e);
	if (ret == 0 && call->s->old >= 0 && call->s->opts.is_update && !call->s->is_old_unsure)
		ret = fm_sink_reuse(call, &at, e);
	dry = ret >= 0 && call->s->opts.is_dry ? fm_sink_meet_dry(call, e, call->tally.same > same)
					       : 0;
	return dry < 0 ? dry : ret;
}
