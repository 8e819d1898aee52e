/* SPDX-License-Identifier: MIT */
/*
 * api_check - "check": a dataset that is READY is read again and compared with its manifest. See
 * api_op.h.
 *
 * Happy path: the dataset is held, and no other check of it is under way, or that has ended. Its
 * manifest is the one that its version names, and all that is there is what the manifest says, or
 * damaged chunks came again from the source or a node that has it, too; then it is written down
 * that it was verified. What was not so is told at the end: the first FINDINGS_MAX,
 * which are the ones that are mended, and how many there were. A client that goes away ends it.
 * It has an id, under which it is logged, and what it brings on both nodes, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_op.h"
#include "mover/api/api_request.h"
#include "mover/api/api_task.h"
#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/node/node.h"
#include "staging/check.h"
#include "staging/key.h"
#include "staging/manifest.h"
#include "staging/service/api_ops.h"
#include "staging/service/check_runs.h"
#include "staging/service/hub.h"
#include "staging/service/mending.h"
#include "staging/service/mending_opts.h"
#include "staging/service/stager.h"

#define FINDINGS_MAX 64u

struct finding {
	enum fm_stage_found found;
	char *path;
	uint64_t offset, len;
	bool is_mended;
	const char *from;		/* mended: the node whose bytes it got */
};

struct check {
	struct fm_stage_check_run run;
	struct fm_work work;
	struct fm_api_task *task;	/* NULL: it is gone */
	struct fm_cache *cache;
	char name[FM_NAME_LEN_MAX + 1];
	char job[FM_QUEUE_ID_LEN + 1];	/* what is done for it is logged under */
	uid_t uid;
	uint64_t id;
	_Atomic uint64_t size, done;	/* bytes */
	uint64_t found;			/* how many, told or not */
	struct finding findings[FINDINGS_MAX];
	unsigned count;
	struct fm_stager *stager;
	struct fm_who who;
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_cache_key listing;
	bool is_file;
	uint64_t hold;			/* 0: none */
	int root;			/* of the data; -1: it was not compared */
	struct fm_mending_chunk chunks[FINDINGS_MAX];	/* of the findings */
	unsigned of[FINDINGS_MAX];	/* which they are */
	unsigned chunk_count, mended;
	struct fm_err why;		/* not all of it was mended */
	bool is_beyond;			/* not all of it can be */
	struct fm_err err;
};

/* ---- worker ---- */

static void note(void *ctx, const struct fm_stage_finding *f)
{
	struct check *c = ctx;
	char *path = c->count < FINDINGS_MAX ? strdup(f->path) : NULL;

	c->found++;
	c->is_beyond |= !f->is_chunk;
	if (!path)
		return;
	if (f->is_chunk) {
		c->of[c->chunk_count] = c->count;
		c->chunks[c->chunk_count++] = (struct fm_mending_chunk){
			.path = path, .bad = { f->offset, (uint32_t)f->len, f->crc },
		};
	}
	c->findings[c->count++] = (struct finding){ .found = f->found, .path = path,
						    .offset = f->offset, .len = f->len };
}

/* Whether the dataset has that version, of its manifest: plain, or as one of its store. */
static bool has_version(const struct fm_cache_info *info, uint8_t *version)
{
	return memcmp(version, info->version.bytes, FM_SHA256_LEN) == 0 ||
	       (fm_stage_store_version(info->source, version) == 0 &&
		memcmp(version, info->version.bytes, FM_SHA256_LEN) == 0);
}

/*
 * Checks that the manifest is the one that the version names. Otherwise it says nothing about the
 * data.
 */
static int check_manifest(struct check *c, int fd, struct fm_stage_totals *totals)
{
	uint8_t version[FM_SHA256_LEN];
	struct fm_cache_info info;
	int ret = fm_stage_manifest_check(fd, version, totals);

	if (ret == 0 && !fm_cache_look(c->cache, c->id, &info))
		return fm_err_set(&c->err, -ENOENT, "%s was removed meanwhile; stage it again",
				  c->name);
	if (ret == 0 && fm_hub_is_own(info.source))
		ret = fm_stage_own_version(info.source, version);
	if (ret == 0) {
		(void)snprintf(c->source, sizeof(c->source), "%s", info.source);
		c->listing = info.listing;
	}
	if (ret == -EBADMSG || (ret == 0 && !has_version(&info, version)))
		return fm_err_set(&c->err, -EBADMSG,
				  "the manifest of %s is damaged: fmove unstage %s, and stage it "
				  "again",
				  c->name, c->name);
	return ret < 0 ? fm_err_sys(&c->err, ret, "read the manifest of %s", c->name) : 0;
}

static int compare(struct check *c, int dir, int manifest)
{
	struct fm_stage_totals totals;
	int ret = check_manifest(c, manifest, &totals);
	struct fm_stage_check_opts o = { .manifest = manifest, .is_stopped = &c->run.is_stopped,
					 .bytes_done = &c->done, .found = note, .ctx = c };

	if (ret < 0)
		return ret;
	atomic_store(&c->size, totals.bytes);
	c->is_file = totals.is_file;
	o.file = totals.is_file ? c->name : NULL;
	c->root = o.root = fm_call_open_below(dir, totals.is_file ? "." : c->name,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, 0);
	if (o.root < 0)
		return fm_err_sys(&c->err, o.root, "open %s", c->name);
	return fm_stage_check(&o, &c->err);
}

/* Opens DIRECTORY/ready/VERSION, in which the data has its name. */
static int open_dataset(struct check *c)
{
	char path[FM_PATH_LEN_MAX + 1];
	int dir;

	if (fm_cache_path(c->cache, c->id, path, sizeof(path)) < 0)
		return fm_err_set(&c->err, -EAGAIN, "%s is not here yet: fmove datasets says how "
						    "far it is", c->name);
	*strrchr(path, '/') = '\0';
	dir = fm_call(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (dir == -ENOENT)
		return fm_err_set(&c->err, dir,
				  "somebody removed it from the cache's directory; \"fmove unstage "
				  "%s\", and stage it again",
				  c->name);
	return dir < 0 ? fm_err_sys(&c->err, dir, "open %s", path) : dir;
}

static void check_held(struct check *c)
{
	int dir = open_dataset(c), manifest;

	if (dir < 0)
		return;
	/* O_NONBLOCK: if the name is a pipe, open() must not wait for a writer. */
	manifest = fm_call_open_below(dir, FM_CACHE_MANIFEST_NAME,
				      O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, 0);
	if (manifest < 0) {
		(void)fm_err_sys(&c->err, manifest, "open the manifest of %s", c->name);
	} else {
		(void)compare(c, dir, manifest);
		(void)close(manifest);	/* only read */
	}
	(void)close(dir);
}

static void find_run(struct fm_work *work)
{
	struct check *c = fm_container_of(work, struct check, work);
	const struct fm_cache_holder who = { .uid = c->uid };

	if (fm_stage_find_his(c->cache, c->name, c->uid, true, &c->id, &c->err) == 0)
		(void)fm_cache_hold(c->cache, c->id, &who, &c->hold, &c->err);
}

static void check_run(struct fm_work *work)
{
	check_held(fm_container_of(work, struct check, work));
}

static void end_run(struct fm_work *work)
{
	struct check *c = fm_container_of(work, struct check, work);

	if (c->err.code == 0 && c->found == c->mended)
		(void)fm_cache_verified(c->cache, c->id, &c->err);
	if (c->root >= 0)
		(void)close(c->root);	/* what was mended is synced */
	if (c->hold)
		fm_cache_release(c->cache, c->hold);
}

/* ---- control thread ---- */

static void begin(struct fm_json_writer *w, struct fm_api_task *t, const char *event)
{
	fm_api_event_begin(w, t->tasks->tx, FM_API_MSG_MAX, t->id, event);
}

static void send_event(struct fm_json_writer *w, struct fm_api_task *t)
{
	fm_jw_object_end(w);
	fm_api_task_send(t, fm_jw_end(w));
}

static void tell(struct fm_api_task *t, const struct finding *f)
{
	static const char *const kinds[] = { [FM_STAGE_MISSING] = "missing",
					     [FM_STAGE_EXTRA] = "extra",
					     [FM_STAGE_OTHER] = "changed",
					     [FM_STAGE_DAMAGED] = "corrupt",
					     [FM_STAGE_UNREADABLE] = "unreadable" };
	struct fm_json_writer w;

	begin(&w, t, "finding");
	fm_jw_text(&w, "kind", kinds[f->found]);
	fm_jw_name(&w, "path", f->path, strlen(f->path));
	fm_jw_u64(&w, "offset", f->offset);
	fm_jw_u64(&w, "length", f->len);
	fm_jw_bool(&w, "mended", f->is_mended);
	if (f->is_mended)
		fm_jw_text(&w, "from", f->from);
	send_event(&w, t);
}

/* Why not everything was mended; NULL: there is nothing to say. */
static const char *why_not(const struct check *c)
{
	if (c->why.code < 0)
		return c->why.text;
	return c->is_beyond ? "only what is corrupt in a file of the right size and time is mended"
			    : NULL;
}

static void answer(struct check *c, struct fm_api_task *t)
{
	const char *why = why_not(c);
	struct fm_json_writer w;

	for (unsigned i = 0; i < c->count; i++)
		tell(t, &c->findings[i]);
	if (c->err.code == -ECANCELED)	/* who asked is here, so the daemon ended it */
		(void)fm_err_set(&c->err, -EHOSTDOWN, "fmoved stops");
	if (c->err.code < 0) {
		fm_api_task_send_error(t, &c->err);
		return;
	}
	begin(&w, t, "done");
	fm_jw_text(&w, "job", c->job);
	fm_jw_u64(&w, "bytes", atomic_load(&c->size));
	fm_jw_u64(&w, "findings", c->found);
	fm_jw_u64(&w, "mended", c->mended);
	if (why)
		fm_jw_text(&w, "text", why);
	send_event(&w, t);
}

static void log_mended(const struct check *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->findings[i].is_mended)
			fm_stage_check_run_log(&c->run, c->job,
					       "check of %s: byte %llu of %s came again from %s",
					       c->name, (unsigned long long)c->findings[i].offset,
					       c->findings[i].path, c->findings[i].from);
}

static void log_end(const struct check *c)
{
	log_mended(c);
	if (c->err.code < 0)
		fm_stage_check_run_log(&c->run, c->job, "check of %s ended: %s", c->name,
				       c->err.text);
	else
		fm_stage_check_run_log(&c->run, c->job,
				       "check of %s is done: %llu places were not as its manifest "
				       "says, %u are mended%s%s",
				       c->name, (unsigned long long)c->found, c->mended,
				       why_not(c) ? ": " : "", why_not(c) ? why_not(c) : "");
}

static void ended(struct fm_work *work)
{
	struct check *c = fm_container_of(work, struct check, work);

	log_end(c);
	if (c->task) {
		answer(c, c->task);
		c->task->work = NULL;
		fm_api_task_free(c->task);
	}
	while (c->count > 0)
		free(c->findings[--c->count].path);
	fm_stage_check_run_end(&c->run);
	free(c);
}

static void submit(struct check *c, void (*run)(struct fm_work *work),
		   void (*done)(struct fm_work *work))
{
	c->work = (struct fm_work){ .run = run, .done = done,
				    .who = fm_share_user(c->uid) };
	fm_worker_submit(fm_stager_worker(c->stager), &c->work, fm_stager_loop(c->stager));
}

static void mended(void *ctx, const struct fm_err *why)
{
	struct check *c = ctx;

	c->why = *why;
	for (unsigned i = 0; i < c->chunk_count; i++) {
		struct finding *f = &c->findings[c->of[i]];

		f->is_mended = c->chunks[i].is_mended;
		f->from = c->chunks[i].from;
		c->mended += c->chunks[i].is_mended;
	}
	submit(c, end_run, ended);
}

static void check_done(struct fm_work *work)
{
	struct check *c = fm_container_of(work, struct check, work);
	const struct fm_mending_opts o = {
		.stager = c->stager, .job = c->job, .name = c->name,
		.source = c->source, .listing = c->listing,
		.is_file = c->is_file, .root = c->root, .who = c->who,
		 .chunks = c->chunks, .count = c->chunk_count,
		.run = &c->run,
	};

	if (c->err.code < 0 || c->chunk_count == 0 ||
	    fm_mending_start(&o, mended, c, &c->why) < 0)
		submit(c, end_run, ended);
}

/* No other check of that dataset is under way. */
static void turn(struct fm_stage_check_run *run)
{
	struct check *c = fm_container_of(run, struct check, run);

	if (!atomic_load(&run->is_stopped)) {
		submit(c, check_run, check_done);
		return;
	}
	(void)fm_err_set(&c->err, -ECANCELED, "the check was ended");
	submit(c, end_run, ended);
}

static void find_done(struct fm_work *work)
{
	struct check *c = fm_container_of(work, struct check, work);

	if (c->err.code < 0)
		submit(c, end_run, ended);
	else
		fm_stage_check_run_enter(&c->run, c->id, turn);
}

static void forget(struct fm_api_task *t)
{
	struct check *c = t->work;

	c->task = NULL;
	fm_stage_check_run_stop(&c->run);
}

static void show_progress(struct fm_timer *timer)
{
	struct fm_api_task *t = fm_container_of(timer, struct fm_api_task, progress);
	struct check *c = t->work;
	struct fm_json_writer w;

	if (!t->owner->is_slow(t->owner->ctx)) {
		begin(&w, t, "progress");
		fm_jw_text(&w, "phase", "reading");
		fm_jw_u64(&w, "bytes", atomic_load(&c->done));
		fm_jw_u64(&w, "size", atomic_load(&c->size));
		send_event(&w, t);
	}
	fm_timer_set(t->tasks->loop, timer,
		     fm_loop_now(t->tasks->loop) + t->progress_ms * FM_NS_PER_MS);
}

static int start_check(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	struct fm_stager *s;
	struct check *c;
	int ret = fm_stage_api_stager(call->tasks, &s, err);

	if (ret < 0)
		return ret;
	c = FM_FAULT("stage.check") ? NULL : calloc(1, sizeof(*c));
	if (!c)
		return fm_err_set(err, -ENOMEM, "no memory for a request");
	c->task = t;
	c->cache = fm_stager_cache(s);
	c->stager = s;
	c->who = t->owner->who;
	c->uid = c->who.uid;
	c->root = -1;
	(void)snprintf(c->name, sizeof(c->name), "%s", call->ask->name);
	fm_queue_make_id(call->tasks->queue, c->job);
	fm_stage_check_run_begin(fm_stager_checks(s), &c->run, c->uid);
	fm_stage_check_run_log(&c->run, c->job, "check of %s for user %u begins", c->name,
			       (unsigned)c->uid);
	t->work = c;
	t->work_forget = forget;
	submit(c, find_run, find_done);
	fm_api_task_begin_progress(t, show_progress, c->job);
	return 0;
}

const struct fm_api_op fm_stage_op_check = {
	.name = "check",
	.takes = FM_API_KEY(PROGRESS_MS),
	.needs = FM_API_KEY(NAME),
	.start = start_check,
	.abandon = fm_api_task_free,
};
