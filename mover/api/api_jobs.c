/* SPDX-License-Identifier: MIT */
/* api_jobs - the jobs of the queue as an event of the local API. See api_event.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/exit_code.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/group_id.h"
#include "mover/base/words.h"
#include "mover/queue/queue.h"

/* The largest: two paths, every byte escaped as six, a text escaped as well, and the rest. */
#define JOB_TEXT_MAX (2 * 4096 * 6 + FM_ERR_TEXT_MAX * 6 + 2048)
#define END_TEXT_MAX 64
/* Of one that is asked for alone: patterns, every byte escaped as six, and numbers. */
#define OPTIONS_TEXT_MAX (FM_TREE_EXCLUDES_MAX * (FM_TREE_EXCLUDE_LEN_MAX * 6 + 3) + 1024)
_Static_assert(JOB_TEXT_MAX + OPTIONS_TEXT_MAX + 1024 <= FM_API_MSG_MAX,
	       "a job does not fit a message");

struct page {
	struct fm_json_writer w;
	uid_t uid;		/* of who asks */
	bool is_more;
};

static void our_end_add(struct fm_json_writer *w, const struct fm_queue_info *info)
{
	const struct fm_queue_opts *o = info->opts;

	if (o->end == FM_QUEUE_STORE) {
		fm_jw_text(w, "local_node", info->node);
		fm_jw_text(w, "local_store", o->own_store);
		fm_jw_name(w, "local_path", o->own_path, o->own_path_len);
	} else {
		fm_jw_name(w, "file", o->file, o->file_len);
	}
}

static void progress_add(struct fm_json_writer *w, const struct fm_queue_info *info)
{
	const struct fm_queue_progress *p = &info->progress;

	fm_jw_text(w, "phase", info->state == FM_QUEUE_RUNNING ? p->job.state : "");
	fm_jw_u64_or_null(w, "size", p->job.size, FM_SIZE_UNKNOWN);
	fm_jw_u64(w, "bytes", p->job.bytes_done);
	fm_jw_u64(w, "before", p->before);
	fm_jw_u64(w, "again_ms", p->again_ns / FM_NS_PER_MS);
	fm_jw_text(w, "text", p->text);
	fm_jw_text(w, "code", info->code ? fm_api_errno_name(info->code) : "");
	fm_jw_u64(w, "exit", (uint64_t)fm_api_exit(info->code));
}

/* Of an attended job its user asks for the same again, and knows the ID. */
static void group_add(struct fm_json_writer *w, const struct fm_queue_opts *o)
{
	char id[FM_GROUP_ID_TEXT_LEN + 1];

	if (!o->job.has_group || !o->is_attended)
		return;
	fm_group_id_print(o->job.group, id);
	fm_jw_text(w, "group", id);
}

/* Adds the options of a job, so that its client can ask for the same again. */
static void options_add(struct fm_json_writer *w, const struct fm_queue_opts *o)
{
	fm_jw_object(w, "options");
	fm_jw_text(w, "transport", fm_words_transport[o->job.transport]);
	fm_jw_text(w, "durability", fm_words_durability[o->job.durability]);
	fm_jw_bool(w, "force", o->job.may_replace);
	fm_jw_text(w, "verify", fm_words_readback[o->job.is_readback]);
	fm_jw_bool(w, "accept_corrupt", o->job.accepts_corrupt);
	fm_jw_u64(w, "limit", o->job.rate_bytes);
	fm_jw_u64(w, "timeout_ms", o->job.timeout_ns / FM_NS_PER_MS);
	if (o->retry_ns != FM_RETRY_ALWAYS)
		fm_jw_u64(w, "retry_ms", o->retry_ns / FM_NS_PER_MS);
	fm_jw_bool(w, "update", o->job.is_update);
	fm_jw_bool(w, "delete", o->job.is_delete);
	fm_jw_bool(w, "checksum", o->job.has_checksums);
	fm_jw_bool(w, "dry_run", o->job.is_dry);
	group_add(w, o);
	fm_jw_array(w, "exclude");
	for (unsigned i = 0; o->job.excludes && o->job.excludes[i]; i++)
		fm_jw_name(w, NULL, o->job.excludes[i], strlen(o->job.excludes[i]));
	fm_jw_array_end(w);
	fm_jw_object_end(w);
}

static void job_add(struct page *page, const struct fm_queue_info *info, bool is_whole)
{
	const struct fm_queue_opts *o = info->opts;
	struct fm_json_writer *w = &page->w;

	fm_jw_object(w, NULL);
	fm_jw_text(w, "job", info->id);
	fm_jw_u64(w, "seq", info->seq);
	fm_jw_u64(w, "user", info->uid);
	fm_jw_bool(w, "own", info->uid == page->uid);
	fm_jw_text(w, "op", o->job.is_put ? "put" : "get");
	fm_jw_text(w, "state", fm_words_state[info->state]);
	fm_jw_text(w, "priority", fm_words_priority[o->priority]);
	fm_jw_bool(w, "detached", o->is_detached);
	fm_jw_bool(w, "attended", o->is_attended);
	fm_jw_bool(w, "tree", o->is_tree || (o->job.file && o->job.file->tree));
	fm_jw_text(w, "node", o->job.node);
	fm_jw_text(w, "store", o->job.store);
	fm_jw_name(w, "path", o->job.path, o->job.path_len);
	our_end_add(w, info);
	progress_add(w, info);
	fm_jw_u64(w, "tries", info->tries);
	fm_jw_i64(w, "created_ms", info->created_ms);
	fm_jw_i64(w, "ended_ms", info->ended_ms);
	if (is_whole && o->is_attended)
		options_add(w, o);
	fm_jw_object_end(w);
}

static bool page_add(void *ctx, const struct fm_queue_info *info)
{
	struct page *page = ctx;

	if (fm_jw_room(&page->w) < JOB_TEXT_MAX + END_TEXT_MAX) {
		page->is_more = true;
		return false;
	}
	job_add(page, info, false);
	return true;
}

static void page_begin(struct page *page, char *buf, size_t cap, uint64_t id, uid_t uid)
{
	assert(cap >= FM_API_MSG_MAX);
	page->uid = uid;
	page->is_more = false;
	fm_jw_begin(&page->w, buf, cap);
	fm_jw_object(&page->w, NULL);
	fm_jw_u64(&page->w, "id", id);
	fm_jw_text(&page->w, "event", "done");
	fm_jw_array(&page->w, "jobs");
}

static int page_end(struct page *page)
{
	fm_jw_array_end(&page->w);
	fm_jw_bool(&page->w, "more", page->is_more);
	fm_jw_object_end(&page->w);
	return fm_jw_end(&page->w);
}

int fm_api_event_jobs(char *buf, size_t cap, uint64_t id, struct fm_queue *queue, uid_t uid,
		      bool is_all, uint64_t seq)
{
	struct page page;

	page_begin(&page, buf, cap, id, uid);
	fm_queue_visit(queue, uid, is_all, seq, page_add, &page);
	return page_end(&page);
}

int fm_api_event_one_job(char *buf, size_t cap, uint64_t id, struct fm_queue *queue, uid_t uid,
			 const char *job, struct fm_err *err)
{
	struct fm_queue_info info;
	struct page page;
	int ret = fm_queue_find(queue, job, uid, &info, err);

	if (ret < 0)
		return ret;
	page_begin(&page, buf, cap, id, uid);
	job_add(&page, &info, true);
	return page_end(&page);
}

static int jobs(const struct fm_api_call *call, struct fm_err *err)
{
	const struct fm_api_request *ask = call->ask;
	struct fm_queue *queue = call->tasks->queue;
	uid_t uid = call->owner->who.uid;
	char *tx = call->tasks->tx;
	int len;

	if (ask->is_all && uid != 0)
		return fm_err_set(err, -EPERM, "the jobs of all users are for root");
	if (ask->job_id[0])
		len = fm_api_event_one_job(tx, FM_API_MSG_MAX, ask->id, queue, uid, ask->job_id,
					   err);
	else
		len = fm_api_event_jobs(tx, FM_API_MSG_MAX, ask->id, queue, uid, ask->is_all,
					ask->after_seq);
	if (len < 0)
		return len;
	fm_api_answer(call, len);
	return 0;
}

const struct fm_api_op fm_api_jobs = {
	.name = "jobs",
	.takes = FM_API_KEY(JOB) | FM_API_KEY(ALL) | FM_API_KEY(SEQ),
	.answer = jobs,
};
