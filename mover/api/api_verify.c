/* SPDX-License-Identifier: MIT */
/*
 * api_verify - reading again what is stored. See api_op.h; its events: api_event.h.
 *
 * The engine's; progress; findings; the done event; gone. One whose client is gone ends in its own
 * time, unanswered.
 */
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/services/verification.h"
#include "mover/store/verify.h"

/* The longest path of a finding: 4095 bytes twice, each escaped as six. */
_Static_assert(2 * 4096 * 6 + 256 <= FM_API_MSG_MAX, "a finding does not fit a message");

static int count_event(char *buf, size_t cap, uint64_t id, const char *event,
		       const struct fm_verify_count *c)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, event);
	fm_jw_u64(&w, "files", c->files);
	fm_jw_u64(&w, "bytes", c->bytes);
	fm_jw_u64(&w, "corrupt", c->corrupt);
	fm_jw_u64(&w, "unreadable", c->unreadable);
	fm_jw_u64(&w, "changed", c->changed);
	fm_jw_u64(&w, "missing", c->missing);
	fm_jw_u64(&w, "swapped", c->swapped);
	fm_jw_u64(&w, "without", c->without);
	fm_jw_u64(&w, "unlisted", c->unlisted);
	return fm_api_event_end(&w);
}

int fm_api_event_verifying(char *buf, size_t cap, uint64_t id, const struct fm_verify_count *c)
{
	return count_event(buf, cap, id, "progress", c);
}

int fm_api_event_verified(char *buf, size_t cap, uint64_t id, const struct fm_verify_count *c)
{
	return count_event(buf, cap, id, "done", c);
}

int fm_api_event_finding(char *buf, size_t cap, uint64_t id, enum fm_finding_kind kind,
			 uint64_t offset, uint64_t length, const char *path)
{
	static const char *const kinds[] = {[FM_FINDING_CORRUPT] = "corrupt",
					    [FM_FINDING_UNREADABLE] = "unreadable",
					    [FM_FINDING_CHANGED] = "changed",
					    [FM_FINDING_MISSING] = "missing",
					    [FM_FINDING_SWAPPED] = "swapped"};
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "finding");
	fm_jw_text(&w, "kind", kinds[kind]);
	fm_jw_u64(&w, "offset", offset);
	fm_jw_u64(&w, "length", length);
	fm_jw_name(&w, "path", path, strlen(path));
	return fm_api_event_end(&w);
}

/* ---- verifying ---- */

/*
 * Tells the client how far a verification is. The engine calls this at its own pace, so the client
 * may be gone.
 */
static void task_verifying(void *ctx, const struct fm_verify_count *count)
{
	struct fm_api_task *t = ctx;

	if (t->owner && t->progress_ms > 0 && !t->owner->is_slow(t->owner->ctx))
		fm_api_task_send(
			t, fm_api_event_verifying(t->tasks->tx, FM_API_MSG_MAX, t->id, count));
}

static void task_finding(void *ctx, enum fm_finding_kind kind, uint64_t offset, uint64_t length,
			 const char *path)
{
	struct fm_api_task *t = ctx;

	if (t->owner)
		fm_api_task_send(t, fm_api_event_finding(t->tasks->tx, FM_API_MSG_MAX, t->id, kind,
							 offset, length, path));
}

static void task_verified(void *ctx, const struct fm_err *err, const struct fm_verify_count *count)
{
	struct fm_api_task *t = ctx;

	if (err->code < 0)
		fm_api_task_send_error(t, err);
	else
		fm_api_task_send(t,
				 fm_api_event_verified(t->tasks->tx, FM_API_MSG_MAX, t->id, count));
	fm_api_task_free(t);
}

static int start_verifying(struct fm_api_task *t, const struct fm_api_call *call,
			   struct fm_err *err)
{
	const struct fm_api_request *a = call->ask;
	static const struct fm_verification_events events = {task_verifying, task_finding,
							     task_verified};
	const struct fm_verification_opts opts = {
		.node = a->node[0] ? a->node : NULL,
		.store = a->store,
		.path = a->path,
		.path_len = a->path_len,
		.who = t->owner->who,
	};

	struct fm_verification *started;
	int ret = fm_verification_start(t->tasks->engine, &opts, &events, t, &started, err);

	if (ret == 0)
		t->work = started;
	return ret;
}

static void cancel_verifying(struct fm_api_task *t, bool is_kept)
{
	(void)is_kept;
	fm_verification_cancel(t->work);
}

static void abandon_verifying(struct fm_api_task *t)
{
	fm_api_task_detach(t);
	fm_verification_cancel(t->work);
}

const struct fm_api_op fm_api_verify = {
	.name = "verify",
	.takes = FM_API_KEY(NODE) | FM_API_KEY(PROGRESS_MS),
	.needs = FM_API_KEY(STORE) | FM_API_KEY(PATH),
	.start = start_verifying,
	.cancel = cancel_verifying,
	.abandon = abandon_verifying,
};
