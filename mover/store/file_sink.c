/* SPDX-License-Identifier: MIT */
/*
 * file_sink - a file that comes into a directory store.
 *
 * Happy path: the target may be written (else nothing is begun), the partial file of an earlier try
 * is opened or one is made beside the target, the room is there, what the earlier try left is told
 * (begin), the rest is written, and every second the journal hears what is on the disk (log);
 * publish: size, data, mode, owner, time to the disk, then the final name, then the directory to
 * the disk. Failure modes: a write fails: the engine sees it in io->res and keeps or discards.
 * publish fails: the final name is as it was, keep or discard follows. A sync fails: nothing of the
 * file is kept. The process dies: the next put to that name goes on with what the journal says; or
 * a sweep removes it, some day.
 *
 * Small files, what comes of streams, and a second put to a name that has one under way have a
 * partial file with a random name, which nobody goes on with.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/log.h"
#include "mover/journal/partial.h"
#include "mover/journal/reread.h"
#include "mover/store/done_list.h"
#include "mover/store/fileio.h"
#include "mover/store/group.h"
#include "mover/store/place.h"
#include "mover/store/placing.h"
#include "mover/store/resume.h"
#include "mover/store/seal.h"
#include "mover/store/room.h"
#include "mover/store/space.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"

#define TEMP_TRIES_MAX 8
/* bytes: what is smaller is sent again faster than it is looked up */
#define RESUME_MIN (UINT64_C(1) << 20)
#define FOLLOWED_MAX 4		/* directories, one in the place of the other */

enum sink_state { SINK_OPEN, SINK_PREPARED, SINK_PUBLISHED, SINK_KEPT, SINK_DISCARDED };

struct sink {
	struct fm_file file;
	struct fm_fileio io;
	struct fm_store_dir *dir;
	enum sink_state state;
	struct fm_path_parent parent;
	char *path;
	struct fm_partial partial;
	struct fm_resume resume;
	bool is_dense;
	/* of the partial file and its journal: a power cut leaves them there */
	bool has_synced_names;
	bool may_replace;
	struct fm_path_make owner;
	struct fm_group_use *member;	/* of a group; NULL: of none */
	struct fm_placing placing;	/* while it is published */
	uint64_t size;			/* or FM_SIZE_UNKNOWN */
	/* bytes that the quota counted for what an earlier try left */
	uint64_t counted;
	/* of the quota; the whole size as soon as it is known, before that what was written */
	_Atomic uint64_t reserved;
};

static struct sink *sink_of(struct fm_file *file)
{
	return fm_container_of(file, struct sink, file);
}

/* -------------------------------------------------------------------------------------- writing */

/*
 * Reserves quota up to `end`, for a sink whose size was not known at first. Of several callers, the
 * one that moves `reserved` up asks for the bytes. err: it may wait, and says why it failed; NULL:
 * it does not wait.
 */
static int sink_grow(struct sink *s, uint64_t end, struct fm_err *err)
{
	struct fm_usage *usage = &s->dir->usage;
	uint64_t old = atomic_load(&s->reserved);
	int ret;

	do {
		if (end <= old)
			return 0;
	} while (!atomic_compare_exchange_weak(&s->reserved, &old, end));
	ret = err ? fm_room_ask(s->dir, end - old, err) : fm_usage_reserve(usage, end - old);
	/* What was not granted must not be given back by release(): other lanes may have moved it
	 * on meanwhile. */
	if (ret < 0)
		atomic_fetch_sub(&s->reserved, end - old);
	return ret;
}

/* Reads back what was written, to compare it. */
static void sink_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	fm_fileio_read(&sink_of(file)->io, lane, io);
}

static void sink_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct sink *s = sink_of(file);
	uint64_t end = io->offset + io->len;
	int ret = 0;

	assert(s->state == SINK_OPEN);
	if (end < io->offset || end > FM_SIZE_LIMIT || (file->has_fixed_size && end > s->size))
		ret = -EFBIG;
	else if (!file->has_fixed_size && s->dir->usage.quota > 0)
		ret = sink_grow(s, end, NULL);
	if (ret < 0)
		fm_done_list_add(lane->done, io, ret);
	else
		fm_fileio_write(&s->io, lane, io);
}

static int sink_write_now(struct fm_file *file, void *buf, uint32_t len)
{
	struct sink *s = sink_of(file);

	assert(s->state == SINK_OPEN && file->has_fixed_size && len <= s->size);
	return fm_fileio_write_now(&s->io, buf, len);
}

/* ------------------------------------------------------------------------------------- going on */

static int sink_fail(const struct sink *s, int ret, const char *what, struct fm_err *err)
{
	struct fm_path_shown shown;

	fm_err_wrap(err, "store %s: %s \"%s\"", s->dir->store.name, what,
		    fm_path_show(s->path, &shown));
	fm_group_name_as_asked(s->member, err);
	return ret;
}

/* The same of an error that names the file. */
static int sink_fail_named(const struct sink *s, int ret, struct fm_err *err)
{
	fm_err_wrap(err, "store %s", s->dir->store.name);
	fm_group_name_as_asked(s->member, err);
	return ret;
}

static int sink_begin(struct fm_file *file, const struct fm_identity *source, struct fm_have *have,
		      struct fm_err *err)
{
	struct sink *s = sink_of(file);
	int ret = source->size == FM_SIZE_UNKNOWN ? 0 : sink_grow(s, source->size, err);

	if (ret == 0)
		ret = fm_resume_begin(&s->resume, source, have, err);
	if (s->resume.note[0])
		file->resume_note = s->resume.note;
	/* Not earlier: it makes the file longer, and its length is what the journal is checked
	 * against. */
	if (ret == 0 && file->has_partial && s->is_dense)
		ret = fm_room_reserve(s->dir, s->io.fd, s->size, err);
	return ret < 0 ? sink_fail(s, ret, "go on with", err) : 0;
}

static int sink_make_room(struct fm_file *file, uint64_t size, struct fm_err *err)
{
	struct sink *s = sink_of(file);
	uint64_t missing;
	int ret = fm_space_missing(s->io.fd, size, &missing, err);

	if (ret == 0 && missing > 0)
		ret = fm_room_check(s->dir, s->parent.fd, missing, err);
	if (ret == 0)
		ret = fm_room_reserve(s->dir, s->io.fd, size, err);
	if (ret < 0)
		return sink_fail(s, ret, "write", err);
	fm_fileio_expect(&s->io, size);
	return 0;
}

static int sink_reread(struct fm_file *file, uint64_t offset, uint64_t len, uint32_t *part)
{
	return fm_reread(sink_of(file)->io.fd, offset, len, part);
}

static int sink_sync_up(struct sink *s, struct fm_err *err)
{
	return fm_sync_note(&s->file.sync,
			    fm_path_sync_up(s->dir->root, s->parent.fd, s->path, err));
}

static int sink_sync_names(struct sink *s, struct fm_err *err)
{
	int ret = sink_sync_up(s, err);

	if (ret < 0)
		return ret;
	ret = fm_sync_dir(&s->file.sync, s->parent.fd);
	if (ret < 0)
		return fm_path_fail(err, ret, "sync the directory of", s->path);
	s->has_synced_names = true;
	return 0;
}

static int sink_log(struct fm_file *file, const struct fm_written *written, size_t count,
		    struct fm_err *err)
{
	struct sink *s = sink_of(file);
	int ret = fm_resume_log(&s->resume, written, count, err);

	if (ret == 0 && s->resume.sync && !s->has_synced_names)
		ret = sink_sync_names(s, err);
	return ret < 0 ? sink_fail(s, ret, "write", err) : 0;
}

/* --------------------------------------------------------------------------------------- ending */

/*
 * Whether publishing waits for the disk, and where failures of syncs are kept. A file system in
 * memory has no disk.
 */
static struct fm_sync *sink_sync(struct sink *s, bool is_durable)
{
	return is_durable && !s->io.is_memory ? &s->file.sync : NULL;
}

static struct fm_place sink_place(struct sink *s, bool is_durable)
{
	return (struct fm_place){
		.from = s->parent.fd,
		.dir = s->parent.fd,
		.temp = s->partial.name,
		.fd = s->io.fd,
		.name = s->parent.name,
		.path = s->path,
		.journal = s->partial.journal_name[0] ? s->partial.journal_name : NULL,
		.may_replace = s->may_replace,
		.sync = sink_sync(s, is_durable),
		.placing = &s->placing,
	};
}

static void sink_release_quota(struct sink *s)
{
	fm_usage_unreserve(&s->dir->usage, atomic_exchange(&s->reserved, 0));
}

static int sink_prepare(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct sink *s = sink_of(file);
	struct fm_seal seal = {.size = size,
			       .attr = attr,
			       .sync = sink_sync(s, is_durable),
			       .has_owner = s->owner.has_owner,
			       .uid = s->owner.uid,
			       .gid = s->owner.gid,
			       .is_for_group = s->owner.is_for_group};
	int ret;

	assert(s->state == SINK_OPEN && attr);
	s->state = SINK_PREPARED;	/* also if it fails half-way: keep() has to undo it */
	fm_fileio_end(&s->io);
	ret = sink_grow(s, size, err);	/* a hole at the end was never written */
	if (ret == 0)
		ret = fm_seal(s->io.fd, &seal, err);
	if (ret < 0)
		return sink_fail(s, ret, "write", err);
	if (seal.sync && !s->has_synced_names)
		ret = sink_sync_up(s, err);
	return ret < 0 ? sink_fail_named(s, ret, err) : 0;
}

/*
 * Whether the file has its name in that directory too, because the version that replaced ours took
 * it over.
 */
static bool is_taken_over(const struct sink *s, int dir)
{
	struct stat file, there;

	return fm_sys_fstat(s->io.fd, &file) == 0 &&
	       fm_sys_fstatat(dir, s->parent.name, &there) == 0 && file.st_dev == there.st_dev &&
	       file.st_ino == there.st_ino;
}

/* Where the path leads by now: 1 and *dir, 0: to place->dir, or an error. */
static int find_other(const struct sink *s, const struct fm_place *place, int *dir,
		      struct fm_err *err)
{
	return fm_path_find_other(s->dir->root, s->path, place->dir, &s->owner, dir, err);
}

/* That directory, which is taken over, is the one that the file comes into. */
static int go_to(struct sink *s, struct fm_place *place, int dir, struct fm_err *err)
{
	if (place->dir != s->parent.fd)
		close(place->dir);
	place->dir = dir;
	return place->sync ? fm_sync_note(place->sync,
					  fm_path_sync_up(s->dir->root, dir, s->path, err))
			   : 0;
}

/* fm_place(); the file may have the name already, since a new version took it over. */
static int place_there(const struct sink *s, const struct fm_place *place, struct fm_placed *placed,
		       struct fm_err *err)
{
	int ret = fm_place(place, placed, err);

	if (ret != -EEXIST || !is_taken_over(s, place->dir))
		return ret;
	fm_err_clear(err);
	*placed = (struct fm_placed){ .how = FM_PLACED_LINKED };
	return 0;
}

/* 0: the file has its name, where its path leads. 1: the path leads to *dir, nothing has changed.
 */
static int place_once(const struct sink *s, const struct fm_place *place, struct fm_placed *placed,
		      int *dir, struct fm_err *err)
{
	int ret = place_there(s, place, placed, err), undone;

	if (ret < 0)
		return ret;
	ret = find_other(s, place, dir, err);
	if (ret == 0 || (ret > 0 && is_taken_over(s, *dir))) {
		if (ret > 0)
			close(*dir);
		fm_place_end(place, placed);
		return 0;
	}
	undone = fm_place_undo(place, placed, ret < 0 ? NULL : err);
	if (ret > 0 && undone < 0)
		close(*dir);
	return ret > 0 && undone < 0 ? undone : ret;
}

/*
 * While the file was sent its directory may have been moved away, or replaced by a new version. In
 * there nobody would find the file, and what has its name there is somebody's, who kept it. So it
 * is looked where the path leads before the file gets its name, and again when it has it: what was
 * replaced elsewhere meanwhile is there again then. A directory that is missing is made again.
 */
static int place_where_it_leads(struct sink *s, bool is_durable, struct fm_placed *placed,
				struct fm_err *err)
{
	struct fm_place place = sink_place(s, is_durable);
	struct fm_path_shown shown;
	int dir = -1, ret = find_other(s, &place, &dir, err);

	for (int i = 0; ret >= 0 && i < FOLLOWED_MAX; i++) {
		if (ret > 0)
			ret = go_to(s, &place, dir, err);
		if (ret == 0)
			ret = place_once(s, &place, placed, &dir, err);
		if (ret <= 0)
			break;
	}
	if (ret > 0) {
		close(dir);
		ret = fm_err_set(err, -ESTALE,
				 "\"%s\": its directory is replaced again and again; run it again",
				 fm_path_show(s->path, &shown));
	}
	if (place.dir != s->parent.fd)
		close(place.dir);
	return ret;
}

static int sink_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	struct sink *s = sink_of(file);
	struct fm_placed placed;
	int ret = s->state == SINK_OPEN ? sink_prepare(file, size, attr, is_durable, err) : 0;

	if (ret < 0)
		return ret;
	ret = fm_file_sync_error(file);
	if (ret < 0)
		return sink_fail(s, fm_err_sys(err, ret, "go on after a failed sync"), "write",
				 err);
	assert(s->state == SINK_PREPARED);
	fm_placing_begin(&s->placing, s->io.fd);
	ret = place_where_it_leads(s, is_durable, &placed, err);
	fm_placing_end(&s->placing);
	if (ret < 0)
		return sink_fail_named(s, ret, err);
	s->state = SINK_PUBLISHED;
	fm_usage_add(&s->dir->usage, size);
	fm_usage_sub(&s->dir->usage, placed.old_bytes);
	sink_release_quota(s);
	return 0;
}

static void sink_discard(struct fm_file *file)
{
	struct sink *s = sink_of(file);
	int ret;

	assert(s->state == SINK_OPEN || s->state == SINK_PREPARED);
	/* It may be gone: somebody removed the directory, partial file and all. */
	ret = fm_partial_remove(&s->partial);
	if (ret < 0)
		fm_log_warn("store %s: cannot remove the partial file %s of \"%s\": %s",
			    s->dir->store.name, s->partial.name, s->path, fm_err_name(ret));
	s->state = SINK_DISCARDED;
	sink_release_quota(s);
}

/* Leaves the file as the next try expects it: only what the journal counts, for our user alone. */
static int sink_trim(struct sink *s)
{
	int ret = s->resume.end > 0 ? fm_sys_ftruncate(s->io.fd, s->resume.end) : 0;

	return ret < 0 || s->state != SINK_PREPARED ? ret : fm_sys_fchmod(s->io.fd, 0600);
}

/*
 * Whether the file was given to another user, if only for a moment. He may have it open, or have
 * given himself rights that apply later, so it must never become somebody else's.
 */
static bool was_given(const struct sink *s)
{
	return s->state == SINK_PREPARED && s->owner.has_owner;
}

static void sink_keep(struct fm_file *file)
{
	struct sink *s = sink_of(file);
	struct stat st;

	assert(s->state == SINK_OPEN || s->state == SINK_PREPARED);
	if (fm_file_sync_error(file) < 0 || !fm_resume_has_something(&s->resume) || was_given(s) ||
	    sink_trim(s) < 0 || fm_sys_fstat(s->io.fd, &st) < 0) {
		sink_discard(file);
		return;
	}
	s->state = SINK_KEPT;
	fm_usage_add(&s->dir->usage, (uint64_t)st.st_size);
	sink_release_quota(s);
}

static void sink_free(struct sink *s)
{
	fm_fileio_end(&s->io);
	fm_resume_end(&s->resume);
	fm_partial_close(&s->partial);
	if (s->parent.fd >= 0)
		close(s->parent.fd);
	fm_group_let_go(s->member);
	fm_store_dir_put(s->dir);
	free(s->path);
	free(s);
}

static void sink_close(struct fm_file *file)
{
	struct sink *s = sink_of(file);

	if (s->state == SINK_OPEN || s->state == SINK_PREPARED)
		sink_discard(file);
	sink_free(s);
}

static const struct fm_file_ops sink_ops = {
	.read = sink_read,
	.write = sink_write,
	.write_now = sink_write_now,
	.begin = sink_begin,
	.make_room = sink_make_room,
	.prepare = sink_prepare,
	.publish = sink_publish,
	.discard = sink_discard,
	.close = sink_close,
};

static const struct fm_file_ops resumable_ops = {
	.read = sink_read,
	.write = sink_write,
	.begin = sink_begin,
	.make_room = sink_make_room,
	.reread = sink_reread,
	.log = sink_log,
	.prepare = sink_prepare,
	.publish = sink_publish,
	.discard = sink_discard,
	.keep = sink_keep,
	.close = sink_close,
};

/* ------------------------------------------------------------------------------------ beginning */

static struct sink *sink_alloc(struct fm_store_dir *dir, const char *path)
{
	struct sink *s = fm_sys_alloc(sizeof(*s));
	size_t path_len = strlen(path);

	if (!s)
		return NULL;
	s->path = fm_sys_alloc(path_len + 1);
	if (!s->path) {
		free(s);
		return NULL;
	}
	memcpy(s->path, path, path_len);
	s->file.ops = &sink_ops;
	s->file.store = dir->store.name;
	s->parent.fd = -1;
	s->partial.fd = -1;
	s->partial.journal = -1;
	s->dir = dir;
	fm_store_dir_get(dir);
	return s;
}

/* Opens a partial file under a name that nobody can guess. */
static int open_random(int parent, struct fm_partial *out)
{
	uint64_t random;
	int ret = -EEXIST;

	for (int i = 0; i < TEMP_TRIES_MAX && ret == -EEXIST; i++) {
		fm_random_real.fill(fm_random_real.ctx, &random, sizeof(random));
		ret = fm_partial_open_random(parent, random, out);
	}
	return ret;
}

/* Opens the partial file that an earlier try may have left. */
static int sink_open_old(struct sink *s)
{
	unsigned wait_ms = fm_store_dir_begin_wait(s->dir);
	int ret = fm_partial_open(s->parent.fd, s->parent.name, wait_ms, &s->partial);

	fm_store_dir_end_wait(s->dir);
	return ret;
}

/*
 * Opens the partial file of this name. If that is impossible, it opens one that no later try will
 * go on with.
 */
static int sink_open_partial(struct sink *s, const struct fm_create *how, struct fm_err *err)
{
	/* which an unknown size is */
	bool is_resumable = how->is_resumable && how->size >= RESUME_MIN;
	int ret = -EAGAIN;

	if (is_resumable)
		ret = sink_open_old(s);
	if (is_resumable && ret == -EAGAIN)
		s->file.resume_note =
			"cannot be resumed: another transfer to this name is under way";
	else if (is_resumable && ret < 0)
		s->file.resume_note = "cannot be resumed: no journal can be kept there";
	if (ret < 0)
		ret = open_random(s->parent.fd, &s->partial);
	if (ret < 0)
		return fm_path_fail_making(err, ret, s->parent.fd, "make a partial file beside",
					   s->path);
	s->io.fd = s->partial.fd;
	s->file.has_partial = s->partial.has_content;
	if (s->partial.journal >= 0)
		s->file.ops = &resumable_ops;
	return 0;
}

/* Asks for the room that the file still needs. What an earlier try left has its room already. */
static int sink_ask_room(struct sink *s, struct fm_err *err)
{
	struct stat st = { 0 };
	uint64_t there, wanted;
	int ret = s->partial.has_content ? fm_sys_fstat(s->partial.fd, &st) : 0;

	if (ret < 0)
		return fm_path_fail(err, ret, "look at the partial file of", s->path);
	there = (uint64_t)st.st_blocks * 512;
	if (s->is_dense && there < s->size)
		ret = fm_room_check(s->dir, s->parent.fd, s->size - there, err);
	if (ret < 0)
		return ret;
	s->counted = (uint64_t)st.st_size;
	wanted = s->file.has_fixed_size ? s->size : s->counted;
	fm_usage_sub(&s->dir->usage, s->counted);
	if (wanted > 0)
		ret = fm_room_ask(s->dir, wanted, err);
	if (ret == 0)
		atomic_store(&s->reserved, wanted);
	return ret;
}

/*
 * Tries whether a file can be given to its owner, so that a failure shows before the first byte. It
 * tries with another file, without a name: the user may hold that open after it is taken back.
 */
static int sink_try_owner(struct sink *s, struct fm_err *err)
{
	struct fm_partial other;
	int ret;

	if (!s->owner.has_owner)
		return 0;
	ret = open_random(s->parent.fd, &other);
	if (ret < 0)
		return fm_path_fail_making(err, ret, s->parent.fd, "make a partial file beside",
					   s->path);
	ret = fm_partial_remove(&other);
	if (ret == 0)
		ret = fm_sys_fchown(other.fd, s->owner.uid, s->owner.gid);
	fm_partial_close(&other);
	if (ret == 0)
		return 0;
	return fm_err_sys(err, ret,
			  "give a file to uid %u, gid %u (the service needs CAP_CHOWN for owner = "
			  "\"caller\")",
			  s->owner.uid, s->owner.gid);
}

static int sink_set_up(struct sink *s, const struct fm_create *how, struct fm_err *err)
{
	int ret = fm_fileio_init(&s->io, s->io.fd, !s->file.has_partial, s->dir->is_buffered,
				 &s->file.note, err);

	s->file.is_direct = s->io.is_direct;
	s->file.is_instant = s->io.is_memory;
	s->file.may_stand = s->io.may_stand;
	s->resume = (struct fm_resume){ .fd = s->io.fd,
					.lock = s->partial.journal,
					.has_content = s->file.has_partial,
					.sync = sink_sync(s, how->is_synced),
					.name = s->parent.name };
	if (ret == 0)
		ret = sink_try_owner(s, err);
	if (ret == 0 && s->is_dense && !s->file.has_partial)
		ret = fm_room_reserve(s->dir, s->io.fd, s->size, err);
	if (ret == 0 && s->is_dense)
		fm_fileio_expect(&s->io, s->size);
	return ret;
}

/* What has the name already is on the disk, and so is the way to it: -EEXIST, as err says. */
static int sync_above(struct sink *s, struct fm_err *err)
{
	struct fm_err why = { 0 };
	int ret = fm_path_sync_up(s->dir->root, s->parent.fd, s->path, &why);

	if (ret < 0)
		*err = why;
	return ret < 0 ? ret : -EEXIST;
}

/* Checks the name, opens the partial file, and asks for room. */
static int sink_open(struct sink *s, const struct fm_create *how, struct fm_err *err)
{
	struct fm_place place = sink_place(s, how->is_synced);
	uint64_t old_bytes;
	int ret = fm_place_check(&place, &old_bytes, err);

	/* Who tried before takes it for his own: see placing.h. */
	if (ret == -EEXIST && how->is_synced)
		ret = sync_above(s, err);
	if (ret < 0)
		return ret;
	if (s->file.has_fixed_size && how->size > FM_SIZE_LIMIT)
		return fm_err_set(err, -EFBIG, "%llu bytes are more than any file can have",
				  (unsigned long long)how->size);
	ret = sink_open_partial(s, how, err);
	if (ret == 0)
		ret = sink_ask_room(s, err);
	if (ret == 0)
		ret = sink_set_up(s, how, err);
	return ret;
}

/* Frees a sink that is refused. What an earlier try left stays for one that is not. */
static void sink_refuse(struct sink *s)
{
	if (s->partial.fd >= 0 && !s->partial.has_content)
		(void)fm_partial_remove(&s->partial);
	fm_usage_add(&s->dir->usage, s->counted);
	sink_release_quota(s);
	sink_free(s);
}

int fm_file_sink_new(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		     const struct fm_create *how, struct fm_group_use *member,
		     struct fm_file **out, struct fm_err *err)
{
	struct sink *s = sink_alloc(dir, path);
	int ret;

	if (!s)
		return fm_err_set(err, -ENOMEM, "allocate the sink");
	s->size = how->size;
	s->file.has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	s->is_dense = how->is_dense && s->file.has_fixed_size;
	s->may_replace = how->may_replace || dir->may_replace;
	s->owner = fm_store_dir_make(dir, who);
	ret = fm_path_open_parent(dir->root, s->path, &s->owner, &s->parent, err);
	if (ret == 0)
		ret = sink_open(s, how, err);
	if (ret < 0) {
		sink_refuse(s);
		return ret;
	}
	s->member = member;
	*out = &s->file;
	return 0;
}
