/* SPDX-License-Identifier: MIT */
/* libfmove_transfer - put and get, of files and directories. See fmove.h. */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "client/lib/own_file.h"
#include "client/lib/tries.h"
#include "mover/base/env.h"
#include "mover/base/words.h"

_Static_assert(FMOVE_NORMAL == 0 && FMOVE_LOW == 1 && FMOVE_HIGH == 2,
	       "order of fm_words_priority");
_Static_assert(FMOVE_AUTO == 0 && FMOVE_RDMA == 1 && FMOVE_TCP == 2, "order of fm_words_transport");
_Static_assert(FMOVE_DEFAULT == 0 && FMOVE_DISK == 1 && FMOVE_MEMORY == 2,
	       "order of fm_words_durability");
_Static_assert(FMOVE_JOB_QUEUED == 0 && FMOVE_JOB_CANCELLED + 1 == FMOVE_JOB_OTHER &&
		       FMOVE_JOB_OTHER == 7,
	       "order of fm_words_state");

static void transfer_options(struct fm_json_writer *w, const struct fmove_options *o)
{
	fm_jw_text(w, "priority", fm_lib_word_of(fm_words_priority, o->priority));
	if (o->retry_ms > 0)
		fm_jw_u64(w, "retry_ms", o->retry_ms);
	if (o->file)
		fm_jw_name(w, "file", o->file, strlen(o->file));
	fm_jw_text(w, "transport", fm_lib_word_of(fm_words_transport, o->transport));
	fm_jw_text(w, "durability", fm_lib_word_of(fm_words_durability, o->durability));
	if (o->accepts_corrupt)
		fm_jw_bool(w, "accept_corrupt", true);
	if (o->rate_bytes > 0)
		fm_jw_u64(w, "limit", o->rate_bytes);
	if (o->progress_ms > 0)
		fm_jw_u64(w, "progress_ms", o->progress_ms);
	if (o->is_attended)
		fm_jw_bool(w, "attended", true);
	if (o->is_attended && o->again)
		fm_jw_text(w, "job", o->again);
}

static void tree_read(const struct fm_json *done, struct fmove_result *r)
{
	(void)fm_json_bool(fm_json_get(done, "tree"), &r->is_tree);
	(void)fm_json_u64(fm_json_get(done, "files"), &r->files);
	(void)fm_json_u64(fm_json_get(done, "dirs"), &r->dirs);
	(void)fm_json_u64(fm_json_get(done, "links"), &r->links);
	(void)fm_json_u64(fm_json_get(done, "hard_links"), &r->hard_links);
	(void)fm_json_u64(fm_json_get(done, "reused_files"), &r->reused_files);
	(void)fm_json_u64(fm_json_get(done, "reused_bytes"), &r->reused_bytes);
	(void)fm_json_bool(fm_json_get(done, "reflinked"), &r->is_reflinked);
	(void)fm_json_u64(fm_json_get(done, "resumed_files"), &r->resumed_files);
	(void)fm_json_u64(fm_json_get(done, "added"), &r->added);
	(void)fm_json_u64(fm_json_get(done, "replaced"), &r->replaced);
	(void)fm_json_u64(fm_json_get(done, "removed"), &r->removed);
	(void)fm_json_u64(fm_json_get(done, "kept"), &r->kept);
	(void)fm_json_u64(fm_json_get(done, "wanted_files"), &r->wanted_files);
	(void)fm_json_u64(fm_json_get(done, "wanted_bytes"), &r->wanted_bytes);
}

/* Reads a result. A key that is missing leaves its zero. */
void fm_lib_result_read(const struct fm_json *done, struct fmove_result *r)
{
	uint64_t connections = 0, corrupt = 0;
	char crc[16];

	*r = (struct fmove_result){.struct_size = sizeof(*r)};
	(void)fm_json_u64(fm_json_get(done, "bytes"), &r->bytes);
	(void)fm_json_u64(fm_json_get(done, "data_bytes"), &r->data_bytes);
	(void)fm_json_real(fm_json_get(done, "seconds"), &r->seconds);
	(void)fm_json_real(fm_json_get(done, "gb_per_s"), &r->gb_per_s);
	(void)fm_json_u64(fm_json_get(done, "connections"), &connections);
	(void)fm_json_bool(fm_json_get(done, "durable"), &r->is_durable);
	(void)fm_json_bool(fm_json_get(done, "checked"), &r->is_checked);
	(void)fm_json_u64(fm_json_get(done, "resent_bytes"), &r->resent_bytes);
	(void)fm_json_u64(fm_json_get(done, "direct_bytes"), &r->direct_bytes);
	(void)fm_json_u64(fm_json_get(done, "resumed_bytes"), &r->resumed_bytes);
	(void)fm_json_u64(fm_json_get(done, "damaged_bytes"), &r->damaged_bytes);
	tree_read(done, r);
	(void)fm_json_u64(fm_json_get(done, "corrupt_chunks"), &corrupt);
	(void)fm_json_i64(fm_json_get(done, "mtime_ns"), &r->mtime_ns);
	fm_lib_text(done, "version", r->version, sizeof(r->version));
	fm_lib_text(done, "transport", r->transport, sizeof(r->transport));
	(void)fm_json_u64(fm_json_get(done, "rdma_bytes"), &r->rdma_bytes);
	(void)fm_json_u64(fm_json_get(done, "tcp_bytes"), &r->tcp_bytes);
	fm_lib_text(done, "encryption", r->encryption, sizeof(r->encryption));
	fm_lib_text(done, "why", r->why, sizeof(r->why));
	fm_lib_text(done, "note", r->note, sizeof(r->note));
	fm_lib_text(done, "crc32c", crc, sizeof(crc));
	r->has_crc32c = crc[0] != '\0' && !r->is_tree;
	r->crc32c = (uint32_t)strtoul(crc, NULL, 16);
	r->mode = fm_lib_mode(done);
	r->connections = (unsigned)connections;
	r->corrupt_chunks = (unsigned)corrupt;
}

static int transfer_do_with(struct fm_lib_request *req, const struct fm_lib_parcel *with,
			    const struct fmove_options *opts, struct fmove_result *result,
			    struct fmove_error *err)
{
	struct fm_lib_waiting w = {.opts = opts, .is_cancellable = true, .tree = opts->tree};
	struct fm_json *done;
	int ret = fm_lib_run(req, with, &w, &done, err);

	if (ret < 0 && err && err->bytes < w.bytes)
		err->bytes = w.bytes; /* the daemon is gone, and cannot say it */
	if (ret < 0)
		return ret;
	fm_lib_result_read(done, result);
	fm_json_free(done);
	return 0;
}

int fm_lib_transfer_do(struct fm_lib_request *req, int fd, const struct fmove_options *opts,
		       struct fmove_result *result, struct fmove_error *err)
{
	struct fm_lib_parcel with = fm_lib_parcel_of(&fd);

	return transfer_do_with(req, &with, opts, result, err);
}

static void begin(struct fmove *c, struct fm_lib_request *req, const char *op,
		  const struct fmove_name *name, const struct fmove_options *opts)
{
	fm_lib_begin(c, req, op);
	fm_lib_add_name(req, name);
	transfer_options(&req->json, opts);
	req->limit_ms = opts->timeout_ms;
}

void fm_lib_put_begin(struct fmove *c, struct fm_lib_request *req, const struct fmove_name *name,
		      const struct fmove_options *opts)
{
	begin(c, req, "put", name, opts);
	if (opts->may_replace)
		fm_jw_bool(&req->json, "force", true);
	if (opts->is_readback)
		fm_jw_text(&req->json, "verify", "readback");
	if (opts->group)
		fm_jw_text(&req->json, "group", opts->group);
	if (opts->is_buffered)
		fm_jw_bool(&req->json, "buffered", true);
	if (opts->hold_fd > 0)
		fm_jw_bool(&req->json, "hold", true);
}

static void ranges_add(struct fm_json_writer *w, const struct fmove_options *o)
{
	fm_jw_array(w, "ranges");
	for (size_t i = 0; i < o->range_count; i++) {
		fm_jw_array(w, NULL);
		fm_jw_u64(w, NULL, o->ranges[i].offset);
		if (o->ranges[i].length != FMOVE_TO_END)
			fm_jw_u64(w, NULL, o->ranges[i].length);
		fm_jw_array_end(w);
	}
	fm_jw_array_end(w);
	if (o->whole_blocks)
		fm_jw_bool(w, "whole_blocks", true);
}

void fm_lib_get_begin(struct fmove *c, struct fm_lib_request *req, const struct fmove_name *name,
		      const struct fmove_options *opts)
{
	begin(c, req, "get", name, opts);
	if (opts->is_attended && opts->may_replace)
		/* our own affair, but what it is begun again with */
		fm_jw_bool(&req->json, "force", true);
	if (opts->ranges)
		ranges_add(&req->json, opts);
}

static void excludes_add(struct fm_json_writer *w, const char *const *excludes)
{
	fm_jw_array(w, "exclude");
	for (; *excludes; excludes++)
		fm_jw_name(w, NULL, *excludes, strlen(*excludes));
	fm_jw_array_end(w);
}

static void tree_add(struct fm_json_writer *w, const struct fmove_tree_options *o)
{
	fm_jw_bool(w, "tree", true);
	if (o->is_update)
		fm_jw_bool(w, "update", true);
	if (o->is_delete)
		fm_jw_bool(w, "delete", true);
	if (o->has_checksums)
		fm_jw_bool(w, "checksum", true);
	if (o->is_dry_run)
		fm_jw_bool(w, "dry_run", true);
	if (o->named)
		fm_jw_bool(w, "names", true);
}

static void tree_begin(struct fmove *c, struct fm_lib_request *req, const struct fm_lib_tree *t)
{
	const struct fmove_tree_options *o = t->tree;

	if (t->is_put) {
		fm_lib_put_begin(c, req, t->name, t->opts);
		fm_jw_u64(&req->json, "dev", t->dev);
		fm_jw_u64(&req->json, "ino", t->ino);
		if (t->bytes > 0)
			fm_jw_u64(&req->json, "tree_bytes", t->bytes);
	} else {
		fm_lib_get_begin(c, req, t->name, t->opts);
	}
	/* What is put leaves them out by itself; a job remembers them. */
	if (o->excludes && (!t->is_put || t->opts->is_attended))
		excludes_add(&req->json, o->excludes);
	tree_add(&req->json, o);
}

int fm_lib_tree_do(struct fmove *c, struct fm_lib_tree *t, struct fmove_result *result,
		   struct fmove_error *err)
{
	struct fm_lib_parcel with = {
		.fds = t->fds, .count = t->fds_count, .passed = t->passed, .ctx = t->ctx};
	struct fm_lib_waiting waiting = {.opts = t->opts,
					 .is_cancellable = true,
					 .tree = t->tree,
					 .source = t->source};
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	tree_begin(c, &req, t);
	ret = fm_lib_try(&req, &with, &waiting, &t->turns, &done, err);
	fm_lib_end(&req);
	if (ret < 0) {
		if (err->bytes < waiting.bytes)
			err->bytes = waiting.bytes; /* the daemon is gone, and cannot say it */
		return ret;
	}
	fm_lib_result_read(done, result);
	fm_json_free(done);
	return 0;
}

void fm_lib_own_add(struct fm_json_writer *w, const struct fmove_name *own,
		    const struct fmove_options *opts)
{
	fm_lib_add_parts(w, "local_store", own->store, "local_path", own->path);
	if (!opts->tree)
		return;
	tree_add(w, opts->tree);
	if (opts->tree->excludes)
		excludes_add(w, opts->tree->excludes);
}

/* A transfer that the daemon does by itself. */
struct move {
	bool is_put;
	const struct fmove_name *name;
	const struct fmove_name *own; /* in a store of this node; NULL: fd */
	int fd;
	uint64_t bytes_max; /* get: that may come into fd; 0: any number */
};

static void move_begin(struct fmove *c, struct fm_lib_request *req, const struct move *m,
		       const struct fmove_options *opts)
{
	if (m->is_put)
		fm_lib_put_begin(c, req, m->name, opts);
	else
		fm_lib_get_begin(c, req, m->name, opts);
	if (m->own)
		fm_lib_own_add(&req->json, m->own, opts);
	if (m->own && !m->is_put && opts->may_replace)
		fm_jw_bool(&req->json, "force", true);
	if (m->bytes_max > 0)
		fm_jw_u64(&req->json, "bytes", m->bytes_max);
}

/*
 * Whether the move can begin again. What a pipe gave or took is gone, and so is the beginning of a
 * file that was handed over in its middle. The daemon moves the position of a file when it looks
 * for holes.
 */
static bool can_move_again(const struct move *m)
{
	struct stat st;

	return m->own || (fstat(m->fd, &st) == 0 && S_ISREG(st.st_mode) &&
			  (!m->is_put || lseek(m->fd, 0, SEEK_CUR) == 0));
}

/*
 * Whether the target of a get has nothing, and no journal that tells what will have come: what is
 * in it after a try that was lost came by that, and is no use.
 */
static bool is_empty_target(const struct move *m, const struct fmove_options *opts)
{
	struct stat st;

	return !m->is_put && !m->own && opts->journal_fd <= 0 && fstat(m->fd, &st) == 0 &&
	       S_ISREG(st.st_mode) && st.st_size == 0;
}

static bool begin_again(const struct move *m, bool was_empty)
{
	if (m->own)
		return true;
	if (m->is_put)
		return lseek(m->fd, 0, SEEK_SET) == 0;
	return !was_empty || ftruncate(m->fd, 0) == 0;
}

static int stat_own(struct fmove *c, const struct move *m, struct fmove_entry *out)
{
	struct fmove_error err;
	struct stat st;

	*out = (struct fmove_entry){.struct_size = sizeof(*out)};
	if (m->own)
		return fmove_stat(c, m->own, out, &err);
	if (fstat(m->fd, &st) < 0)
		return -errno;
	out->type = S_ISREG(st.st_mode) ? FMOVE_FILE : FMOVE_OTHER;
	out->size = (uint64_t)st.st_size;
	out->mtime_ns = fm_time_ns(&st.st_mtim);
	return 0;
}

/*
 * Whether an earlier try, whose answer was lost, moved the file. The name is taken now; size and
 * time are compared with the source. The daemon judges in the same way.
 */
static bool was_moved(struct fmove *c, const struct move *m, const struct fmove_options *opts,
		      struct fmove_result *result)
{
	struct fmove_entry own, far = {.struct_size = sizeof(far)};
	struct fmove_error err;

	if (opts->tree || stat_own(c, m, &own) < 0 || fmove_stat(c, m->name, &far, &err) < 0 ||
	    own.type != FMOVE_FILE || far.type != FMOVE_FILE || own.size != far.size ||
	    own.mtime_ns != far.mtime_ns)
		return false;
	*result = (struct fmove_result){.struct_size = sizeof(*result),
					.bytes = far.size,
					.data_bytes = far.size,
					.resumed_bytes = far.size};
	result->mode = far.mode;
	result->mtime_ns = far.mtime_ns;
	/* which the refusal of a durable put has made sure of; nobody compared the bytes */
	result->is_durable = opts->durability == FMOVE_DISK;
	(void)snprintf(result->note, sizeof(result->note),
		       "an earlier try, of which no answer came, had got it there");
	return true;
}

/* Whether the options ask for a decision of the caller without the function that decides. */
static bool lacks_answer(const struct move *m, const struct fmove_options *o)
{
	bool is_our_file = !m->is_put && !m->own;

	return (o->hold_fd > 0 && !o->decide) || (is_our_file && o->is_attended && !o->publish);
}

/* Moves a file. The daemon tries again by itself; this loop is for a daemon that went away. */
static int move_file(struct fmove *c, const struct move *m, const struct fmove_options *opts,
		struct fmove_result *result, struct fmove_error *err)
{
	/* a get into a file has a journal beside it */
	const int fds[] = {m->fd, opts->journal_fd};
	const unsigned count = m->is_put || opts->journal_fd <= 0 ? 1 : 2;
	struct fm_lib_parcel with = {.fds = fds, .count = m->own ? 0 : count};
	struct fm_lib_request req;
	struct fmove_error own;
	struct fm_tries tries;
	bool can_again = can_move_again(m), is_again = false, was_empty = is_empty_target(m, opts);
	int ret;

	err = err ? err : &own;
	if (lacks_answer(m, opts))
		return fm_lib_fail(err, -EINVAL,
				   "hold_fd needs decide(), an attended get needs publish()");
	fm_tries_begin(&tries, opts);
	for (;; is_again = true) {
		move_begin(c, &req, m, &tries.opts);
		ret = transfer_do_with(&req, &with, &tries.opts, result, err);
		if (ret == -EEXIST && is_again && was_moved(c, m, &tries.opts, result))
			return 0;
		if (ret == 0 || !req.is_lost || !can_again || !fm_tries_again(&tries, c, err) ||
		    !begin_again(m, was_empty))
			return ret < 0 ? err->code : ret;
	}
}

static int move(struct fmove *c, const struct move *m, const struct fmove_options *opts,
		struct fmove_result *result, struct fmove_error *err)
{
	struct fm_sized_call call;
	struct move mine = *m;
	int ret = fm_sized_call_begin(&call, opts, result, err);
	int own = ret == 0 && m->is_put && !m->own ? fm_own_file_open(m->fd) : -1;

	if (own >= 0)
		mine.fd = own;
	if (ret == 0)
		ret = move_file(c, &mine, &call.opts, &call.result, err);
	fm_own_file_close(own);
	return fm_sized_call_end(&call, ret, result);
}

int fmove_put(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err)
{
	const struct move m = {.is_put = true, .name = name, .fd = fd};

	if (fd < 0)
		return fm_lib_fail_fd(err);
	return move(c, &m, opts, result, err);
}

int fmove_get(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err)
{
	const struct move m = {.name = name, .fd = fd};

	if (fd < 0)
		return fm_lib_fail_fd(err);
	return move(c, &m, opts, result, err);
}

int fm_lib_get_at_most(struct fmove *c, int fd, uint64_t bytes_max, const struct fmove_name *name,
		       const struct fmove_options *opts, struct fmove_result *result,
		       struct fmove_error *err)
{
	struct move m = {.name = name, .fd = fd, .bytes_max = bytes_max};
	int ret = move(c, &m, opts, result, err);

	if (ret != -EINVAL || ftruncate(fd, 0) < 0)
		return ret;
	m.bytes_max = 0;
	return move(c, &m, opts, result, err);
}

int fmove_put_store(struct fmove *c, const struct fmove_name *own, const struct fmove_name *name,
		    const struct fmove_options *opts, struct fmove_result *result,
		    struct fmove_error *err)
{
	const struct move m = {.is_put = true, .name = name, .own = own};

	return move(c, &m, opts, result, err);
}

int fmove_get_store(struct fmove *c, const struct fmove_name *name, const struct fmove_name *own,
		    const struct fmove_options *opts, struct fmove_result *result,
		    struct fmove_error *err)
{
	const struct move m = {.name = name, .own = own};

	return move(c, &m, opts, result, err);
}

static void only_add(struct fm_json_writer *w, const struct fmove_only *only)
{
	if (only->device)
		fm_jw_text(w, "device", only->device);
	if (only->local)
		fm_jw_text(w, "local", only->local);
	if (only->remote)
		fm_jw_text(w, "remote", only->remote);
	if (only->connections > 0)
		fm_jw_u64(w, "connections", only->connections);
}

/* Runs a transfer of which one end is nothing. */
static int measure(struct fm_lib_request *req, const struct fmove_options *opts,
		   struct fmove_result *result, struct fmove_error *err)
{
	if (opts->only)
		only_add(&req->json, opts->only);
	return fm_lib_transfer_do(req, -1, opts, result, err);
}

int fmove_put_generated(struct fmove *c, uint64_t bytes, const struct fmove_name *name,
			const struct fmove_options *opts, struct fmove_result *result,
			struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_sized_call call;
	int ret = fm_sized_call_begin(&call, opts, result, err);

	if (ret < 0)
		return ret;
	fm_lib_put_begin(c, &req, name, &call.opts);
	fm_jw_u64(&req.json, "generate", bytes);
	ret = measure(&req, &call.opts, &call.result, err);
	return fm_sized_call_end(&call, ret, result);
}

int fmove_get_discarded(struct fmove *c, const struct fmove_name *name,
			const struct fmove_options *opts, struct fmove_result *result,
			struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_sized_call call;
	int ret = fm_sized_call_begin(&call, opts, result, err);

	if (ret < 0)
		return ret;
	fm_lib_get_begin(c, &req, name, &call.opts);
	fm_jw_bool(&req.json, "discard", true);
	ret = measure(&req, &call.opts, &call.result, err);
	return fm_sized_call_end(&call, ret, result);
}
