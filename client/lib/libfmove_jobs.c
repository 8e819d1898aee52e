/* SPDX-License-Identifier: MIT */
/* libfmove_jobs - jobs of the daemon: detached ones, and what became of them. See fmove.h. */
#include "client/lib/libfmove_request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/own_file.h"
#include "mover/base/words.h"

static int detach(struct fm_lib_request *req, int fd, char job[FMOVE_JOB_MAX],
		  struct fmove_error *err)
{
	struct fm_json *done;
	int ret;

	fm_jw_bool(&req->json, "detach", true);
	ret = fm_lib_run_with(req, fd, &done, err);
	if (ret < 0)
		return ret;
	fm_lib_text(done, "job", job, FMOVE_JOB_MAX);
	fm_json_free(done);
	return 0;
}

int fmove_put_detached(struct fmove *c, int fd, const struct fmove_name *name,
		       const struct fmove_options *opts, char job[FMOVE_JOB_MAX],
		       struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_sized_call call;
	int ret = fd < 0 ? fm_lib_fail_fd(err) : fm_sized_call_begin(&call, opts, NULL, err);
	int own;

	if (ret < 0)
		return ret;
	own = fm_own_file_open(fd);
	fm_lib_put_begin(c, &req, name, &call.opts);
	ret = detach(&req, own >= 0 ? own : fd, job, err);
	fm_own_file_close(own);
	return ret;
}

int fmove_put_store_detached(struct fmove *c, const struct fmove_name *own,
			     const struct fmove_name *name, const struct fmove_options *opts,
			     char job[FMOVE_JOB_MAX], struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_sized_call call;
	int ret = fm_sized_call_begin(&call, opts, NULL, err);

	if (ret < 0)
		return ret;
	fm_lib_put_begin(c, &req, name, &call.opts);
	fm_lib_own_add(&req.json, own, &call.opts);
	return detach(&req, -1, job, err);
}

int fmove_get_store_detached(struct fmove *c, const struct fmove_name *name,
			     const struct fmove_name *own, const struct fmove_options *opts,
			     char job[FMOVE_JOB_MAX], struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_sized_call call;
	int ret = fm_sized_call_begin(&call, opts, NULL, err);

	if (ret < 0)
		return ret;
	fm_lib_get_begin(c, &req, name, &call.opts);
	fm_lib_own_add(&req.json, own, &call.opts);
	if (call.opts.may_replace)
		fm_jw_bool(&req.json, "force", true);
	return detach(&req, -1, job, err);
}

/* Reads the options of a job, so that an attended one can be asked for again. */
static void job_options_read(const struct fm_json *json, struct fmove_job *j)
{
	const struct fm_json *o = fm_json_get(json, "options");
	const struct fm_json *excludes = fm_json_get(o, "exclude");
	size_t count = excludes ? fm_json_count(excludes) : 0, len;

	j->transport =
		(enum fmove_transport)fm_lib_word(o, "transport", fm_words_transport, FMOVE_AUTO);
	j->durability = (enum fmove_durability)fm_lib_word(o, "durability", fm_words_durability,
							   FMOVE_DEFAULT);
	(void)fm_json_bool(fm_json_get(o, "force"), &j->may_replace);
	j->is_readback = fm_lib_word(o, "verify", fm_words_readback, 0) > 0;
	(void)fm_json_bool(fm_json_get(o, "accept_corrupt"), &j->accepts_corrupt);
	(void)fm_json_bool(fm_json_get(o, "update"), &j->is_update);
	(void)fm_json_bool(fm_json_get(o, "delete"), &j->is_delete);
	(void)fm_json_bool(fm_json_get(o, "checksum"), &j->has_checksums);
	(void)fm_json_bool(fm_json_get(o, "dry_run"), &j->is_dry_run);
	fm_lib_text(o, "group", j->group, sizeof(j->group));
	(void)fm_json_u64(fm_json_get(o, "limit"), &j->rate_bytes);
	(void)fm_json_u64(fm_json_get(o, "timeout_ms"), &j->timeout_ms);
	(void)fm_json_u64(fm_json_get(o, "retry_ms"), &j->retry_ms);
	for (size_t i = 0; i < count && i < FMOVE_EXCLUDES_MAX; i++)
		if (fm_json_name(fm_json_at(excludes, i), j->excludes[j->excludes_count],
				 sizeof(j->excludes[0]), &len) == 0)
			j->excludes_count++;
}

/* Reads a job. A key that is missing leaves its zero. */
static void job_read(const struct fm_json *json, struct fmove_job *j, uint64_t *seq)
{
	uint64_t user = 0, exit_status = 0;
	const char *op = "";
	size_t len;

	memset(j, 0, sizeof(*j));
	j->struct_size = sizeof(*j);
	j->size = UINT64_MAX;
	fm_lib_text(json, "job", j->id, sizeof(j->id));
	(void)fm_json_u64(fm_json_get(json, "seq"), seq);
	(void)fm_json_u64(fm_json_get(json, "user"), &user);
	(void)fm_json_text(fm_json_get(json, "op"), &op);
	j->user = (unsigned)user;
	j->is_put = strcmp(op, "put") == 0;
	if (fm_json_bool(fm_json_get(json, "own"), &j->is_own) < 0)
		j->is_own = j->user == geteuid();	/* an older daemon does not say */
	(void)fm_json_bool(fm_json_get(json, "detached"), &j->is_detached);
	(void)fm_json_bool(fm_json_get(json, "attended"), &j->is_attended);
	(void)fm_json_bool(fm_json_get(json, "tree"), &j->is_tree);
	if (fm_json_get(json, "options"))
		job_options_read(json, j);
	j->state =
		(enum fmove_job_state)fm_lib_word(json, "state", fm_words_state, FMOVE_JOB_OTHER);
	j->priority =
		(enum fmove_priority)fm_lib_word(json, "priority", fm_words_priority, FMOVE_NORMAL);
	fm_lib_text(json, "phase", j->phase, sizeof(j->phase));
	fm_lib_text(json, "node", j->node, sizeof(j->node));
	fm_lib_text(json, "store", j->store, sizeof(j->store));
	fm_lib_text(json, "local_node", j->local_node, sizeof(j->local_node));
	fm_lib_text(json, "local_store", j->local_store, sizeof(j->local_store));
	fm_lib_text(json, "text", j->text, sizeof(j->text));
	(void)fm_json_name(fm_json_get(json, "path"), j->path, sizeof(j->path), &len);
	(void)fm_json_name(fm_json_get(json, j->local_store[0] ? "local_path" : "file"),
			   j->local_path, sizeof(j->local_path), &len);
	(void)fm_json_u64(fm_json_get(json, "size"), &j->size);
	(void)fm_json_u64(fm_json_get(json, "bytes"), &j->bytes);
	(void)fm_json_u64(fm_json_get(json, "before"), &j->before);
	(void)fm_json_u64(fm_json_get(json, "again_ms"), &j->again_ms);
	(void)fm_json_u64(fm_json_get(json, "tries"), &j->tries);
	(void)fm_json_i64(fm_json_get(json, "created_ms"), &j->created_ms);
	(void)fm_json_i64(fm_json_get(json, "ended_ms"), &j->ended_ms);
	(void)fm_json_u64(fm_json_get(json, "exit"), &exit_status);
	j->exit = (int)exit_status;
}

/* Tells one page of jobs. Returns whether there are more, and the number of the last one. */
static bool jobs_show(const struct fm_json *done,
		      bool (*each)(void *ctx, const struct fmove_job *job), void *ctx,
		      struct fmove_job *job, uint64_t *seq)
{
	const struct fm_json *list = fm_json_get(done, "jobs");
	size_t count = fm_json_count(list);
	bool is_more = false;

	(void)fm_json_bool(fm_json_get(done, "more"), &is_more); /* false if it is missing */
	for (size_t i = 0; i < count; i++) {
		job_read(fm_json_at(list, i), job, seq);
		if (!each(ctx, job))
			return false;
	}
	return is_more && count > 0;
}

int fmove_jobs(struct fmove *c, bool is_all, bool (*each)(void *ctx, const struct fmove_job *job),
	       void *ctx, struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fmove_job job;
	struct fm_json *done;
	uint64_t seq = 0, before;
	bool is_more;
	int ret;

	do {
		before = seq;
		fm_lib_begin(c, &req, "jobs");
		fm_jw_u64(&req.json, "seq", seq);
		if (is_all)
			fm_jw_bool(&req.json, "all", true);
		ret = fm_lib_do(&req, &done, err);
		if (ret < 0)
			return ret;
		is_more = jobs_show(done, each, ctx, &job, &seq);
		fm_json_free(done);
	} while (is_more && seq > before);
	return is_more ? fm_lib_fail_again(err) : 0;
}

static void job_begin(struct fmove *c, struct fm_lib_request *req, const char *op, const char *job)
{
	fm_lib_begin(c, req, op);
	fm_jw_text(&req->json, "job", job);
}

int fmove_find_job(struct fmove *c, const char *job, struct fmove_job *out, struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fmove_job found;
	struct fm_json *done;
	uint64_t seq;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_job", err);

	if (ret < 0)
		return ret;
	job_begin(c, &req, "jobs", job);
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	job_read(fm_json_at(fm_json_get(done, "jobs"), 0), &found, &seq);
	fm_json_free(done);
	fm_sized_give(out, &found, sizeof(found));
	return 0;
}

int fmove_wait(struct fmove *c, const char *job, const struct fmove_options *opts,
	       struct fmove_result *result, struct fmove_error *err)
{
	const struct fm_lib_parcel with = {.count = 0};
	struct fm_sized_call call;
	struct fm_lib_waiting w = {
		.opts = &call.opts, .is_cancellable = true, .is_wait = true};
	struct fm_lib_request req;
	struct fm_json *done;
	int ret = fm_sized_call_begin(&call, opts, result, err);

	if (ret < 0)
		return ret;
	w.tree = call.opts.tree;
	job_begin(c, &req, "wait", job);
	if (call.opts.progress_ms > 0 && call.opts.progress)
		fm_jw_u64(&req.json, "progress_ms", call.opts.progress_ms);
	ret = fm_lib_run(&req, &with, &w, &done, err);
	if (ret < 0 && err && err->bytes < w.bytes)
		err->bytes = w.bytes;	/* the daemon is gone, and cannot say it */
	if (ret == 0) {
		fm_lib_result_read(done, &call.result);
		fm_json_free(done);
	}
	return fm_sized_call_end(&call, ret, result);
}

int fmove_cancel(struct fmove *c, const char *job, bool is_kept, struct fmove_error *err)
{
	struct fm_lib_request req;

	job_begin(c, &req, "cancel", job);
	if (is_kept)
		fm_jw_bool(&req.json, "keep", true);
	return fm_lib_do_simple(&req, err);
}

int fmove_resume(struct fmove *c, const char *job, int fd, struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	job_begin(c, &req, "resume", job);
	ret = fm_lib_run_with(&req, fd, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}
