/* SPDX-License-Identifier: MIT */
/*
 * api - the operations of the local API that stage and look at what is staged. See
 * mover/api/api_op.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_op.h"
#include "mover/api/api_request.h"
#include "mover/api/api_task.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/base/words.h"
#include "mover/base/worker.h"
#include "staging/key.h"
#include "staging/service/afar.h"
#include "staging/service/api_ops.h"
#include "staging/service/hub.h"
#include "staging/service/hub_ask.h"
#include "staging/service/own_ask.h"
#include "staging/service/run.h"
#include "staging/service/stage_ask.h"
#include "staging/service/stager.h"
#include "staging/service/together.h"
#include "staging/sha256.h"

/* Of a path in a list there is always room for so much, escaped, for 64 nodes. */
#define NODE_PATH_MAX 256u
/* ... and for the rest of a node. */
#define NODE_REST_MAX (256 * 2 + 64 * 6 + 256)
#define UNKEPT_MAX    256u
#define UNKEPT_WHY    (UNKEPT_MAX - 48)	/* of it, for what the other node said */
_Static_assert(FM_RUN_NODES_MAX * (NODE_PATH_MAX * 6 + NODE_REST_MAX) + FM_HUB_NOTE_MAX * 2 +
			       64 + FM_STAGE_API_DATASET_MAX <=
		       FM_API_MSG_MAX,
	       "all nodes fit a message");

int fm_stage_api_stager(struct fm_api_tasks *tasks, struct fm_stager **out, struct fm_err *err)
{
	const struct fm_err *why = fm_stager_why(tasks->engine);

	*out = fm_stager_of(tasks->engine);
	if (*out)
		return 0;
	if (why->code)
		return fm_err_set(err, -EOPNOTSUPP,
				  "this node stages nothing until fmoved is started again: %s",
				  why->text);
	return fm_err_set(err, -EOPNOTSUPP,
			  "this node stages nothing: staging = { directory = \"...\"; }; in "
			  "fmove.conf says where what is staged is kept, and is read when "
			  "fmoved starts");
}

void fm_stage_api_dataset(struct fm_json_writer *w, const struct fm_cache_info *info,
			  const char *state, const char *path)
{
	char version[FM_SHA256_HEX + 1];

	fm_sha256_hex(info->version.bytes, version);
	fm_jw_name(w, "name", info->name, strlen(info->name));
	fm_jw_text(w, "state", state);
	fm_jw_text(w, "version", info->state == FM_CACHE_READY ? version : "");
	fm_jw_name(w, "source", info->source, strlen(info->source));
	fm_jw_name(w, "path", path, strlen(path));
	fm_jw_u64(w, "bytes", info->bytes);
	fm_jw_u64(w, "holds", info->holds);
	fm_jw_u64(w, "pins", info->pins);
	fm_jw_i64(w, "created_ms", info->created_ns / (int64_t)FM_NS_PER_MS);
	fm_jw_i64(w, "requested_ms", info->requested_ns / (int64_t)FM_NS_PER_MS);
	fm_jw_i64(w, "used_ms", info->used_ns / (int64_t)FM_NS_PER_MS);
	fm_jw_i64(w, "verified_ms", info->verified_ns / (int64_t)FM_NS_PER_MS);
}

/* ---- stage ---- */

static const struct fm_api_op op_stage_hub, op_stage_own;

_Static_assert(FM_STAGE_BY_LISTING == 0 && FM_STAGE_UNASKED == 1 && FM_STAGE_BY_CONTENT == 2 &&
		       FM_STAGE_BY_SEAL == 3,
	       "order of fm_words_freshness");

/* Whether there is room for the path of a node, and behind it for so many more nodes. */
static bool has_room(const struct fm_json_writer *w, const char *path, unsigned more)
{
	size_t len = strlen(path);

	return len < NODE_PATH_MAX ||
	       fm_jw_room(w) >= len * 6 + NODE_REST_MAX +
					(size_t)more * (NODE_PATH_MAX * 6 + NODE_REST_MAX);
}

/*
 * Adds a node to the answer: one that was asked for, or that takes a part worth telling. So many
 * more may follow.
 */
static void node_add(struct fm_json_writer *w, const struct fm_together_node *n, unsigned more)
{
	bool has_path = has_room(w, n->path, more);
	const char *text = has_path || n->text[0]
				   ? n->text
				   : "its path is too long to be told here: fmove datasets --json "
				     "says it there";

	fm_jw_object(w, NULL);
	fm_jw_name(w, "node", n->name, strlen(n->name));
	fm_jw_text(w, "state", n->state);
	fm_jw_u64(w, "bytes", n->done);
	fm_jw_u64(w, "read", n->read);
	fm_jw_bool(w, "wanted", n->is_wanted);
	if (n->path[0] && has_path)
		fm_jw_name(w, "path", n->path, strlen(n->path));
	if (n->code < 0 && strcmp(n->state, "ready") != 0)
		fm_jw_text(w, "code", fm_api_errno_name(n->code));
	if (text[0] && (n->code == 0 || strcmp(n->state, "ready") != 0))
		fm_jw_text(w, "text", text);
	fm_jw_object_end(w);
}

/* What is of a hub is found at the snapshot of the node's hub, when that has it. */
static const char *hub_path(const struct fm_together_node *n, const struct fm_stage_result *r)
{
	const char *text = "";

	if (n->is_here)
		return r->is_here ? r->path : "";
	if (r->shown && n->is_wanted && fm_afar_look_at(r->shown, n->name, &text) < 0)
		return "";
	return text;
}

/*
 * Whether a copy of another node is of the version that is here. Where a node has the same bytes of
 * another store, too, one of the two copies has that of its store (key.h).
 */
static bool has_its_version(const char *path, const struct fm_stage_result *r)
{
	struct fm_cache_key plain = r->manifest, stores = r->manifest;
	char version[FM_SHA256_HEX + 1];

	fm_sha256_hex(plain.bytes, version);
	if (strstr(path, version))
		return true;
	if (fm_stage_store_version(r->info.source, stores.bytes) < 0)
		return false;
	fm_sha256_hex(stores.bytes, version);
	return strstr(path, version);
}

/*
 * With --check content this node has compared its copy with the source. Another one's is as good if
 * it has the same version: of its listing it is.
 */
static int check_content(struct fm_together_node *n, const struct fm_stage_result *r,
			 char why[static UNKEPT_MAX])
{
	bool is_known = r->is_here && n->path[0];

	if (r->check != FM_STAGE_BY_CONTENT)
		return 0;
	if (is_known && has_its_version(n->path, r))
		return 0;
	(void)snprintf(why, UNKEPT_MAX, "%s",
		       is_known ? "its copy is of another version than the source (other bytes, or "
				  "modes): fmove unstage it there, and stage it again"
				: "it is there, and was not found to be what the source has: what "
				  "is said of the node that asked says why");
	n->state = "failed";
	n->code = is_known ? -EBADMSG : r->err.code < 0 ? r->err.code : -ECANCELED;
	n->text = why;
	return n->code;
}

/*
 * A node that has it, and does not keep it for the caller, or not show it in its hub, counts as one
 * that failed, this one too: it may be gone there when his job comes to it, or not be found.
 */
static void check_kept(struct fm_together_node *n, const struct fm_stage_result *r,
		       char why[static UNKEPT_MAX])
{
	const char *text = r->keep_err.text, *what = "held";
	int code = n->is_here ? r->err.code : r->keep_err.code;

	if (strcmp(n->state, "ready") != 0 || !n->is_wanted)
		return;
	if (n->is_here)
		text = r->err.text;
	else if (check_content(n, r, why) < 0)
		return;
	if (code == 0 && r->held)
		code = fm_afar_look_at(r->held, n->name, &text);
	if (code == 0 && r->pinned) {
		code = fm_afar_look_at(r->pinned, n->name, &text);
		what = "pinned";
	}
	if (code == 0 && r->let) {
		code = fm_afar_look_at(r->let, n->name, &text);
		what = "to be read by you";
	}
	if (code == 0 && r->shown) {
		code = fm_afar_look_at(r->shown, n->name, &text);
		what = "in its hub cache";
	}
	if (code == 0)
		return;
	if (n->is_here)
		(void)snprintf(why, UNKEPT_MAX, "%.*s", (int)UNKEPT_MAX - 1, text);
	else
		(void)snprintf(why, UNKEPT_MAX, "it is there, but not %s: %.*s", what,
			       (int)UNKEPT_WHY, text);
	n->state = "failed";
	n->code = code;
	n->text = why;
}

/* r NULL: it is not over. */
static void nodes_add(struct fm_json_writer *w, const struct fm_together *t,
		      const struct fm_stage_result *r)
{
	char why[UNKEPT_MAX];
	uint64_t read = 0;

	fm_jw_array(w, "nodes");
	for (unsigned i = 0; i < fm_together_count(t); i++) {
		struct fm_together_node n;

		fm_together_look(t, i, &n);
		if (r)
			check_kept(&n, r, why);
		if (r && r->is_hub)
			n.path = hub_path(&n, r);
		read += n.read;
		if (n.is_wanted || n.read > 0 || (n.text[0] && n.code == 0))
			node_add(w, &n, fm_together_count(t) - i - 1);
	}
	fm_jw_array_end(w);
	fm_jw_u64(w, "source_bytes", read);
}

static void stage_progress(struct fm_timer *timer)
{
	struct fm_api_task *t = fm_container_of(timer, struct fm_api_task, progress);
	struct fm_stage_progress p;
	struct fm_json_writer w;

	if (!t->owner->is_slow(t->owner->ctx)) {
		if (t->op == &op_stage_hub)
			fm_hub_ask_look(t->work, &p);
		else if (t->op == &op_stage_own)
			fm_own_ask_look(t->work, &p);
		else
			fm_stage_ask_look(t->work, &p);
		fm_api_event_begin(&w, t->tasks->tx, FM_API_MSG_MAX, t->id, "progress");
		fm_jw_text(&w, "phase", p.phase);
		fm_jw_u64(&w, "bytes", p.bytes);
		fm_jw_u64(&w, "size", p.size);
		fm_jw_text(&w, "job", p.job);
		if (p.together)
			nodes_add(&w, p.together, NULL);
		fm_api_task_send(t, fm_api_event_end(&w));
	}
	fm_timer_set(t->tasks->loop, timer,
		     fm_loop_now(t->tasks->loop) + t->progress_ms * FM_NS_PER_MS);
}

/* Answers a request. home: HF_HOME; NULL: the copy is not of a hub. */
static void answer(struct fm_api_task *t, const struct fm_stage_result *result, const char *home)
{
	struct fm_json_writer w;

	t->work = NULL;
	if (result->err.code < 0 && !result->together) {
		fm_api_task_send_error(t, &result->err);
	} else {
		fm_api_event_begin(&w, t->tasks->tx, FM_API_MSG_MAX, t->id, "done");
		if (result->is_here)
			fm_stage_api_dataset(&w, &result->info,
					     fm_cache_state_name(result->info.state), result->path);
		fm_jw_text(&w, "job", result->job);
		fm_jw_bool(&w, "fetched", !result->was_ready);
		fm_jw_text(&w, "check", fm_words_freshness[result->check]);
		if (result->is_same_disk)
			fm_jw_bool(&w, "same_disk", true);
		if (home)
			fm_jw_name(&w, "hf_home", home, strlen(home));
		if (result->note[0])
			fm_jw_text(&w, "note", result->note);
		if (result->together)
			nodes_add(&w, result->together, result);
		fm_api_task_send(t, fm_api_event_end(&w));
	}
	fm_api_task_free(t);
}

static void staged(void *ctx, const struct fm_stage_result *result)
{
	answer(ctx, result, NULL);
}

static void forget_ask(struct fm_api_task *t)
{
	fm_stage_ask_forget(t->work);
}

static const char *name_of(const struct fm_api_request *a)
{
	const char *slash = strrchr(a->path, '/');

	if (a->name[0])
		return a->name;
	return slash ? slash + 1 : a->path;
}

static void begin_work(struct fm_api_task *t, void *work, void (*forget)(struct fm_api_task *t),
		       const char *job)
{
	t->work = work;
	t->work_forget = forget;
	fm_api_task_begin_progress(t, stage_progress, job);
}

/* Stops waiting for the request. What was begun goes on. */
static void leave(struct fm_api_task *t, bool is_kept)
{
	struct fm_err err;

	(void)is_kept;
	(void)fm_err_set(&err, -ECANCELED, "not waited for any longer; what was begun goes on");
	fm_api_task_send_error(t, &err);
	fm_api_task_free(t);
}

static int start_stage(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	const struct fm_api_request *a = call->ask;
	char job[FM_QUEUE_ID_LEN + 1];
	const struct fm_stage_request r = {
		.job = job,
		.node = a->node, .store = a->store, .path = a->path, .path_len = a->path_len,
		.name = name_of(a), .who = t->owner->who, .pid = (pid_t)a->pid,
		.is_pinned = a->is_pinned, .check = (enum fm_stage_freshness)a->check,
		.is_live = a->is_force, .nodes = a->nodes,
	};
	struct fm_stage_ask *ask;
	struct fm_stager *s;
	int ret = fm_stage_api_stager(call->tasks, &s, err);

	fm_queue_make_id(call->tasks->queue, job);
	if (ret == 0)
		ret = fm_stager_ask(s, &r, staged, t, &ask, err);
	if (ret < 0)
		return ret;
	begin_work(t, ask, forget_ask, job);
	return 0;
}

static const struct fm_api_op op_stage = {
	.name = "stage",
	.takes = FM_API_KEY(NAME) | FM_API_KEY(PIN) | FM_API_KEY(PID) | FM_API_KEY(CHECK) |
		 FM_API_KEY(PROGRESS_MS) | FM_API_KEY(NODES) | FM_API_KEY(FORCE),
	.needs = FM_API_KEY(NODE) | FM_API_KEY(STORE) | FM_API_KEY(PATH),
	.start = start_stage,
	.cancel = leave,
	.abandon = fm_api_task_free,	/* what it began goes on */
};

static void hub_staged(void *ctx, const struct fm_stage_result *result, const char *home)
{
	answer(ctx, result, home);
}

static void forget_hub_ask(struct fm_api_task *t)
{
	fm_hub_ask_forget(t->work);
}

static int start_stage_hub(struct fm_api_task *t, const struct fm_api_call *call,
			   struct fm_err *err)
{
	const struct fm_api_request *a = call->ask;
	char job[FM_QUEUE_ID_LEN + 1];
	const struct fm_hub_ask_opts o = { .job = job, .path = a->path, .name = a->name,
					   .who = t->owner->who,
					   .pid = (pid_t)a->pid, .is_pinned = a->is_pinned,
					   .check = (enum fm_stage_freshness)a->check,
					   .is_live = a->is_force, .nodes = a->nodes };
	struct fm_hub_ask *ask;
	struct fm_stager *s;
	int ret = fm_stage_api_stager(call->tasks, &s, err);

	fm_queue_make_id(call->tasks->queue, job);
	if (ret == 0 && o.check == FM_STAGE_UNASKED)
		ret = fm_err_set(err, -EINVAL,
				 "check: only a node that has the hub can say which commit it is: "
				 "leave it out; what is staged is in HF_HOME=%.200s, with "
				 "HF_HUB_OFFLINE=1",
				 fm_hub_home(fm_stager_hub(s)));
	if (ret == 0)
		ret = fm_hub_ask(s, &o, hub_staged, t, &ask, err);
	if (ret == 0)
		begin_work(t, ask, forget_hub_ask, job);
	return ret;
}

static const struct fm_api_op op_stage_hub = {
	.name = "stage_hub",
	.takes = FM_API_KEY(NAME) | FM_API_KEY(PIN) | FM_API_KEY(PID) | FM_API_KEY(CHECK) |
		 FM_API_KEY(PROGRESS_MS) | FM_API_KEY(NODES) | FM_API_KEY(FORCE),
	.needs = FM_API_KEY(PATH),
	.start = start_stage_hub,
	.cancel = leave,
	.abandon = fm_api_task_free,	/* what it began goes on */
};

/* ---- of the caller's own hub cache ---- */

static void forget_own_ask(struct fm_api_task *t)
{
	fm_own_ask_forget(t->work);
}

static int start_stage_own(struct fm_api_task *t, const struct fm_api_call *call,
			   struct fm_err *err)
{
	const struct fm_api_request *a = call->ask;
	char job[FM_QUEUE_ID_LEN + 1];
	const struct fm_own_ask_opts o = { .job = job, .path = a->path, .revision = a->to,
					   .name = a->name,
					   .who = t->owner->who, .pid = (pid_t)a->pid,
					   .is_pinned = a->is_pinned, .fds = call->fds,
					   .holder = call->holder };
	struct fm_own_ask *ask;
	struct fm_stager *s;
	int ret = fm_stage_api_stager(call->tasks, &s, err);

	_Static_assert(FM_OWN_FDS <= FM_API_FDS_MAX, "all descriptors come with one message");
	fm_queue_make_id(call->tasks->queue, job);
	if (ret == 0)
		ret = fm_own_ask(s, &o, hub_staged, t, &ask, err);
	if (ret == 0)
		begin_work(t, ask, forget_own_ask, job);
	return ret;
}

/* Without the caller nothing goes on. */
static void cancel_own(struct fm_api_task *t, bool is_kept)
{
	(void)is_kept;
	fm_own_ask_cancel(t->work);
}

static void own_fds(const struct fm_api_request *ask, unsigned *least, unsigned *most)
{
	(void)ask;
	*least = *most = FM_OWN_FDS;
}

static const struct fm_api_op op_stage_own = {
	.name = "stage_own",
	.takes = FM_API_KEY(NAME) | FM_API_KEY(PIN) | FM_API_KEY(PID) | FM_API_KEY(PROGRESS_MS),
	.needs = FM_API_KEY(PATH) | FM_API_KEY(TO),
	.fds = own_fds,
	.start = start_stage_own,
	.cancel = cancel_own,
	.abandon = fm_api_task_free,	/* which ends it */
};

const struct fm_api_op *const fm_stage_ops[] = {
	&fm_stage_op_locate, &fm_stage_op_check, &op_stage, &op_stage_hub, &op_stage_own,
	&fm_stage_op_datasets, &fm_stage_op_pin, &fm_stage_op_unpin, &fm_stage_op_unstage, NULL,
};
