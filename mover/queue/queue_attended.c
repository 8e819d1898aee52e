/* SPDX-License-Identifier: MIT */
/*
 * queue_attended - jobs on what only their caller can touch, which a process of the caller attends
 * to. See queue.h.
 *
 * Happy path of a get: the engine is done; is_naming: the caller is told, gives the file its name
 * and commits; DONE. Only then, so that what is said of it is true. A directory has its name when
 * the engine is done: its caller gave it that when the engine asked for it.
 *
 * The caller goes away: PAUSED (fm_queue_abandon()). When the same is asked for again, the paused
 * job takes over the new descriptors or directory, and is what was submitted.
 */
#include "mover/queue/queue_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/fault.h"
#include "mover/base/words.h"

int fm_queue_attended_check(const struct fm_queue_opts *o, struct fm_err *err)
{
	bool is_get = o->end == FM_QUEUE_FD && !o->job.is_put;

	assert(o->is_detached);
	if (o->job.is_held || (!is_get && !fm_queue_is_callers_tree(o)))
		return fm_err_set(
			err, -EINVAL,
			"only a file that is received, or a directory, is attended by its client");
	if (o->file_len == 0)
		return fm_err_set(err, -EINVAL,
				  "what is attended needs the path of the client's file");
	return 0;
}

/* ---- going on ---- */

/* Whether two jobs differ at most in the path of the caller's own file. */
static bool is_same_far_end(const struct fm_queue_opts *a, const struct fm_queue_opts *b)
{
	struct fm_queue_opts moved = *b;

	moved.file = a->file;
	moved.file_len = a->file_len;
	return fm_queue_is_like(a, &moved);
}

static int find_by_id(struct fm_queue *q, const struct fm_queue_opts *o, struct fm_queue_job **out,
		      struct fm_err *err)
{
	int ret = fm_queue_find_for(q, o->again, o->job.who.uid, out, err);
	enum fm_queue_state state;

	if (ret < 0)
		return ret;
	if ((*out)->o.job.who.uid != o->job.who.uid)	/* root may look, and cancel */
		return fm_err_set(err, -EPERM, "job %s is its own user's to resume, uid %u",
				  (*out)->id, (unsigned)(*out)->o.job.who.uid);
	if (!(*out)->o.is_attended || !is_same_far_end(&(*out)->o, o))
		return fm_err_set(err, -EINVAL, "job %s moves something else", (*out)->id);
	state = fm_queue_shown(*out);
	if (state != FM_QUEUE_PAUSED && state != FM_QUEUE_FAILED && state != FM_QUEUE_CANCELLED)
		return fm_err_set(err, -EALREADY, "job %s is %s: there is nothing to resume",
				  (*out)->id, fm_words_state[state]);
	if ((*out)->try)
		return fm_queue_still_there(*out, err);
	return 0;
}

int fm_queue_attended_find(struct fm_queue *q, const struct fm_queue_opts *o,
			   struct fm_queue_job **out, struct fm_err *err)
{
	*out = NULL;
	if (o->again && o->again[0])
		return find_by_id(q, o, out, err);
	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		if (j->state == FM_QUEUE_PAUSED && j->o.is_attended && !j->is_forgotten &&
		    !j->try && fm_queue_is_like(&j->o, o))
			*out = j;
	}
	return 0;
}

/* Its options and their memory become those of `with`, whose become the old ones. */
static void swap_opts(struct fm_queue_job *j, struct fm_queue_job *with)
{
	struct fm_queue_opts o = j->o;
	char *text = j->text;
	size_t bytes = j->bytes;

	j->o = with->o;
	j->text = with->text;
	j->bytes = with->bytes;
	fm_share_give_all(&j->held.bytes);
	fm_share_force(&j->queue->shares.bytes, fm_queue_who(j), j->bytes, &j->held.bytes);
	with->o = o;
	with->text = text;
	with->bytes = bytes;
}

int fm_queue_attended_again(struct fm_queue_job *j, const struct fm_queue_opts *o)
{
	struct fm_queue_job *new = fm_queue_job_new(j->queue, o);

	if (!new)
		return -ENOMEM;
	assert(!j->try && !j->job && j->o.fd < 0 && !j->o.job.file && !j->held.tree.share);
	swap_opts(j, new);
	fm_queue_job_free(new);
	fm_queue_revive(j);
	j->is_found = false;
	fm_queue_hold(j);
	j->is_told = false;
	fm_queue_enqueue(j);
	fm_queue_save(j);
	fm_loop_post(j->queue->c.loop, &j->tell);
	return 0;
}

bool fm_queue_has_lost_client(struct fm_queue_job *j, int code)
{
	/* What tree/channel_remote.c says of a directory whose client does not answer any more. */
	if (!j->o.is_attended || j->o.end != FM_QUEUE_FILE || code != -EPIPE || j->end_code ||
	    !j->is_accepted)
		return false;
	j->is_abandoned = true;
	return true;
}

/* ---- its name ---- */

bool fm_queue_needs_name(const struct fm_queue_job *j)
{
	return j->o.is_attended && j->o.end == FM_QUEUE_FD && !j->o.job.is_put;
}

/* All of it was there already when it was told to end. */
static void take_end_back(struct fm_queue_job *j)
{
	struct fm_err late;

	if (!j->end_code)
		return;
	j->end_code = 0;
	fm_queue_save(j);
	(void)fm_err_set(&late, -EALREADY, "job %s is complete: it is being given its name", j->id);
	fm_queue_cancels_said(j, &late);
}

void fm_queue_let_name(struct fm_queue_job *j, const struct fm_job_result *result)
{
	if (!j->submitter) {	/* paused, unless it was cancelled before */
		fm_queue_fail(j, -ECANCELED, "its client went away");
		return;
	}
	j->result = FM_FAULT("queue.naming") ? NULL : malloc(sizeof(*j->result));
	if (!j->result) {
		fm_queue_fail(j, -ENOMEM, "no memory for what became of a job");
		return;
	}
	*j->result = *result;
	j->is_naming = true;
	take_end_back(j);
	if (j->submitter->events->prepared)
		j->submitter->events->prepared(j->submitter, j->result, 0);
}

static void named(struct fm_queue_job *j, const struct fm_err *err)
{
	struct fm_job_result result = *j->result;

	j->is_naming = false;
	if (err)
		fm_queue_fail(j, err->code, err->text);
	else
		fm_queue_end(j, FM_QUEUE_DONE, &result);
}

void fm_queue_commit(struct fm_queue_watch *watch, const struct fm_err *err)
{
	struct fm_queue_job *j = watch->job;

	if (j && j->job)
		j->queue->c.needs->commit(j->job);
	else if (j && j->is_naming && !fm_queue_has_ended(j))
		named(j, err);
}
