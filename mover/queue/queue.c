/* SPDX-License-Identifier: MIT */
/*
 * queue - see queue.h. Here: limits, who may, by id, looking. queue_run.c takes a job from its
 * place to its end, queue_dir.c and queue_json.c keep it on disk.
 */
#include "mover/queue/queue_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/log.h"
#include "mover/base/words.h"
#include "mover/store/held_file.h"

/* of the descriptors this process may have, one in so many is for jobs that wait */
#define FDS_SHARE 4
#define FDS_MIN 64
#define FDS_MAX 8192
#define RANK_NS (100 * FM_NS_PER_MS)	/* how often places are counted: nobody sees more */

_Static_assert(FM_QUEUE_QUEUED == 0 && FM_QUEUE_RUNNING == 1 && FM_QUEUE_WAITING == 2 &&
		       FM_QUEUE_PAUSED == 3 && FM_QUEUE_DONE == 4 && FM_QUEUE_FAILED == 5 &&
		       FM_QUEUE_CANCELLED == 6,
	       "order of fm_words_state");
_Static_assert(FM_QUEUE_NORMAL == 0 && FM_QUEUE_LOW == 1 && FM_QUEUE_HIGH == 2,
	       "order of fm_words_priority");

const enum fm_queue_priority fm_queue_ranks[FM_QUEUE_PRIORITY_COUNT] = {
	FM_QUEUE_HIGH, FM_QUEUE_NORMAL, FM_QUEUE_LOW};

const char *fm_queue_id(const struct fm_queue_job *j)
{
	return j->id;
}

int64_t fm_queue_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void fm_queue_keep(struct fm_queue_job *j)
{
	int64_t past_ms = fm_queue_now_ms() - j->ended_ms;
	uint64_t left_ms = FM_QUEUE_KEPT_MS;

	if (past_ms > 0)
		left_ms -= (uint64_t)past_ms < left_ms ? (uint64_t)past_ms : left_ms;
	j->kept_until_ns = fm_loop_now(j->queue->c.loop) + left_ms * FM_NS_PER_MS;
}

bool fm_queue_has_ended(const struct fm_queue_job *j)
{
	return j->state >= FM_QUEUE_DONE;
}

enum fm_queue_state fm_queue_shown(const struct fm_queue_job *j)
{
	return j->is_end_unsaved ? FM_QUEUE_RUNNING : j->state;
}

void fm_queue_work(struct fm_queue *q, struct fm_holder *holder, struct fm_work *work)
{
	if (holder) {
		fm_holder_work(holder, work);
		return;
	}
	if (!q->is_worker_gone) {
		fm_worker_submit(q->c.worker, work, q->c.loop);
		return;
	}
	work->run(work);
	work->done(work);
}

void fm_queue_set_why(struct fm_queue_job *j, int code, const char *text)
{
	j->code = code;
	free(j->why);
	j->why = code ? strdup(text) : NULL;	/* without memory: the code alone */
}

/* ---- life ---- */

static unsigned fds_for_jobs(void)
{
	struct rlimit limit;
	rlim_t share;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return FDS_MIN;
	share = limit.rlim_cur / FDS_SHARE;
	return share < FDS_MIN ? FDS_MIN : share > FDS_MAX ? FDS_MAX : (unsigned)share;
}

static void set_running(struct fm_queue *q, unsigned max)
{
	bool is_shared = max >= FM_QUEUE_RUNNING_SHARED;

	q->c.running_max = max;
	q->shares.running.limits.root = is_shared ? max / FM_QUEUE_RUNNING_SHARED : 0;
	q->shares.running.limits.times = is_shared ? 7 : 0;
	fm_share_set_total(&q->shares.running, max);
}

static void init_shares(struct fm_queue *q)
{
	struct fm_queue_shares *s = &q->shares;
	unsigned fds = fds_for_jobs();

	fm_share_init(&s->jobs, &(struct fm_share_limits){"places for jobs that have not ended",
							  FM_QUEUE_JOBS_MAX, FM_QUEUE_JOBS_ROOT,
							  FM_QUEUE_JOBS_USER_MAX, 7});
	fm_share_init(&s->bytes,
		      &(struct fm_share_limits){"bytes of memory for jobs", FM_QUEUE_BYTES_MAX,
						FM_QUEUE_BYTES_ROOT, 0, 7});
	fm_share_init(&s->fds, &(struct fm_share_limits){"places for jobs with an open file", fds,
							 fds / 8, 0, 7});
	fm_share_init(&s->trees,
		      &(struct fm_share_limits){"places for directories", FM_TREES_LOCAL_MAX,
						FM_QUEUE_TREES_ROOT, 0, 7});
	fm_share_init(&s->attended, &(struct fm_share_limits){
					    "places for jobs with a command in the background",
					    FM_QUEUE_ATTENDED_MAX, FM_QUEUE_ATTENDED_ROOT, 0, 7});
	fm_share_init(&s->running,
		      &(struct fm_share_limits){"places for running jobs", 0, 0, 0, 7});
	fm_share_init(&s->prompt,
		      &(struct fm_share_limits){"places for transfers that begin at once",
						FM_QUEUE_PROMPT_MAX, FM_QUEUE_PROMPT_ROOT, 0, 7});
	fm_share_init(&s->lingering, &(struct fm_share_limits){"places for files that do not close",
							       FM_QUEUE_LINGERING_MAX,
							       FM_QUEUE_LINGERING_ROOT, 0, 3});
	set_running(q, q->c.running_max);
}

int fm_queue_new(const struct fm_queue_config *config, struct fm_queue **out, struct fm_err *err)
{
	struct fm_queue *q = FM_FAULT("queue.new") ? NULL : calloc(1, sizeof(*q));

	if (!q)
		return fm_err_set(err, -ENOMEM, "no memory for the queue of jobs");
	q->c = *config;
	q->c.node = strdup(config->node);
	q->c.directory = config->directory ? strdup(config->directory) : NULL;
	q->dir = q->lock = -1;
	if (!q->c.node || (config->directory && !q->c.directory)) {
		free((char *)q->c.node);
		free((char *)q->c.directory);
		free(q);
		return fm_err_set(err, -ENOMEM, "no memory for the queue of jobs");
	}
	fm_list_init(&q->jobs);
	fm_list_init(&q->users);
	fm_list_init(&q->prompts);
	for (unsigned i = 0; i < FM_QUEUE_PRIORITY_COUNT; i++)
		fm_list_init(&q->pending[i]);
	q->kick.run = fm_queue_kick_run;
	q->next_seq = 1;
	init_shares(q);
	fm_queue_boot_read(q->boot);
	fm_queue_dir_open(q);
	*out = q;
	return 0;
}

void fm_queue_stop(struct fm_queue *q)
{
	q->is_stopping = true;
	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		fm_timer_clear(q->c.loop, &j->timer);
		if (!j->o.is_detached || !j->is_accepted)
			fm_queue_end_with(j, -EHOSTDOWN, true, "fmoved is stopping");
		else
			fm_queue_close_opened(j);
	}
}

void fm_queue_worker_ends(struct fm_queue *q)
{
	if (q)
		q->is_worker_gone = true;
}

void fm_queue_free(struct fm_queue *q)
{
	if (!q)
		return;
	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		assert(!j->try && !j->is_saving && !j->tell.is_posted);
		fm_timer_clear(q->c.loop, &j->timer);
		fm_queue_job_free(j);
	}
	fm_queue_dir_close(q);
	free((char *)q->c.node);
	free((char *)q->c.directory);
	free(q);
}

void fm_queue_set_running_max(struct fm_queue *q, unsigned running_max)
{
	set_running(q, running_max);
	fm_queue_kick(q);
}

/* ---- users ---- */

static struct fm_queue_user *user_find(struct fm_queue *q, uid_t uid)
{
	fm_list_each(at, next, &q->users) {
		struct fm_queue_user *u = fm_container_of(at, struct fm_queue_user, at);

		if (u->uid == uid)
			return u;
	}
	return NULL;
}

static struct fm_queue_user *user_get(struct fm_queue *q, uid_t uid)
{
	struct fm_queue_user *u = user_find(q, uid);

	if (u)
		return u;
	u = FM_FAULT("queue.user") ? NULL : calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	fm_list_append(&q->users, &u->at);
	return u;
}

static void user_put(struct fm_queue_user *u)
{
	if (u->jobs > 0)
		return;
	fm_list_del(&u->at);
	free(u);
}

/* What another node has this one do in the name of a user takes nothing from him. */
static struct fm_share_id who_of(const struct fm_queue_opts *o)
{
	return o->peer && o->peer[0] ? fm_share_name(o->peer) : fm_share_user(o->job.who.uid);
}

struct fm_share_id fm_queue_who(const struct fm_queue_job *j)
{
	return who_of(&j->o);
}

static void hold(struct fm_queue_job *j, struct fm_share *share, struct fm_share_held *held,
		 uint64_t count)
{
	if (!held->share)
		fm_share_force(share, fm_queue_who(j), count, held);
}

void fm_queue_hold(struct fm_queue_job *j)
{
	struct fm_queue_shares *s = &j->queue->shares;

	if (j->o.fd >= 0)
		hold(j, &s->fds, &j->held.fd, 1);
	if (fm_queue_is_callers_tree(&j->o))
		hold(j, &s->trees, &j->held.tree, 1);
	if (j->o.is_attended)
		hold(j, &s->attended, &j->held.attended, 1);
}

/* ---- the memory of a job ---- */

struct copying {
	char *at;
	size_t bytes;
};

/*
 * Copies a text into the block at c->at. If c->at is NULL, it only adds up the room that is needed.
 */
static const char *copy(struct copying *c, const char *text, size_t len)
{
	char *to = c->at;

	c->bytes += len + 1;
	if (!to)
		return text;
	memcpy(to, text, len);
	to[len] = '\0';
	c->at += len + 1;
	return to;
}

static void copy_all(struct copying *c, const struct fm_queue_opts *from, struct fm_queue_opts *to,
		     const char **excludes)
{
	to->job.node = copy(c, from->job.node, strlen(from->job.node));
	to->job.store = copy(c, from->job.store, strlen(from->job.store));
	to->peer = copy(c, from->peer ? from->peer : "", from->peer ? strlen(from->peer) : 0);
	to->job.path = copy(c, from->job.path, from->job.path_len);
	to->file = copy(c, from->file ? from->file : "", from->file ? from->file_len : 0);
	to->own_store = copy(c, from->own_store ? from->own_store : "",
			     from->own_store ? strlen(from->own_store) : 0);
	to->own_path = copy(c, from->own_path ? from->own_path : "",
			    from->own_path ? from->own_path_len : 0);
	for (unsigned i = 0; from->job.excludes && from->job.excludes[i]; i++) {
		const char *one = copy(c, from->job.excludes[i], strlen(from->job.excludes[i]));

		if (excludes)
			excludes[i] = one;
	}
}

static size_t ranges_bytes(const struct fm_queue_opts *o)
{
	return o->job.range_count * sizeof(*o->job.ranges);
}

static size_t excludes_bytes(const struct fm_queue_opts *o)
{
	size_t n = 0;

	while (o->job.excludes && o->job.excludes[n])
		n++;
	return o->job.excludes ? (n + 1) * sizeof(char *) : 0;
}

static size_t text_bytes(const struct fm_queue_opts *o)
{
	struct fm_queue_opts scratch = *o;
	struct copying count = { 0 };

	copy_all(&count, o, &scratch, NULL);
	return ranges_bytes(o) + excludes_bytes(o) + count.bytes;
}

struct fm_queue_job *fm_queue_job_new(struct fm_queue *q, const struct fm_queue_opts *o)
{
	struct copying real = { 0 };
	size_t ranges = ranges_bytes(o), list = excludes_bytes(o), bytes = text_bytes(o);
	struct fm_queue_job *j = FM_FAULT("queue.job") ? NULL : calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->text = calloc(1, bytes);
	j->user = user_get(q, o->job.who.uid);
	if (!j->text || !j->user) {
		if (j->user)
			user_put(j->user);
		free(j->text);
		free(j);
		return NULL;
	}
	j->o = *o;
	real.at = j->text + ranges + list;
	copy_all(&real, o, &j->o, list ? (const char **)(void *)(j->text + ranges) : NULL);
	j->o.job.excludes = list ? (const char *const *)(void *)(j->text + ranges) : NULL;
	if (ranges > 0)
		memcpy(j->text, o->job.ranges, ranges);
	j->o.job.ranges = ranges > 0 ? (const struct fm_range *)(void *)j->text : NULL;
	j->bytes = sizeof(*j) + bytes;
	j->queue = q;
	j->user->jobs++;
	j->timer.fire = fm_queue_timer_fire;
	j->tell.run = fm_queue_tell_run;
	fm_list_init(&j->pending_at);
	fm_list_init(&j->watches);
	fm_list_init(&j->cancels);
	fm_list_init(&j->at);
	return j;
}

void fm_queue_job_add(struct fm_queue_job *j)
{
	struct fm_queue *q = j->queue;
	struct fm_list *after = q->jobs.prev;

	/* New ones come last; only what is read back may belong before others. */
	while (after != &q->jobs && fm_container_of(after, struct fm_queue_job, at)->seq > j->seq)
		after = after->prev;
	fm_list_prepend(after, &j->at);
	hold(j, &q->shares.bytes, &j->held.bytes, j->bytes);
	if (fm_queue_has_ended(j)) {
		q->kept++;
		j->user->kept++;
	} else {
		hold(j, &q->shares.jobs, &j->held.job, 1);
	}
}

static void give_all(struct fm_queue_job *j)
{
	fm_share_give_all(&j->held.job);
	fm_share_give_all(&j->held.bytes);
	fm_share_give_all(&j->held.fd);
	fm_share_give_all(&j->held.tree);
	fm_share_give_all(&j->held.attended);
	fm_share_give_all(&j->held.place);
}

void fm_queue_close_fds(struct fm_queue_opts *o)
{
	const int fds[] = { o->fd, o->journal };

	fm_holder_close(o->holder, fds, 2);	/* nothing was written through them here */
	fm_holder_put(o->holder);
	o->holder = NULL;
	o->fd = o->journal = -1;
}

/* It is not one of those that have ended and are known, if it was. */
static void count_out(const struct fm_queue_job *j)
{
	if (!fm_queue_has_ended(j))
		return;
	j->queue->kept--;
	j->user->kept--;
}

void fm_queue_set_forgotten(struct fm_queue_job *j)
{
	if (!j->is_forgotten)
		count_out(j);
	j->is_forgotten = true;
}

void fm_queue_job_drop(struct fm_queue_job *j)
{
	fm_queue_set_forgotten(j);
	if (!j->try && !j->is_saving && !j->tell.is_posted)
		fm_queue_job_free(j);
}

/*
 * Frees a job, whether it is in the lists or was not put there yet. No try of it may be under way.
 */
void fm_queue_job_free(struct fm_queue_job *j)
{
	assert(fm_list_is_empty(&j->watches) && fm_list_is_empty(&j->cancels));
	fm_list_del(&j->pending_at);
	if (!fm_list_is_empty(&j->at) && !j->is_forgotten)
		count_out(j);
	give_all(j);
	fm_list_del(&j->at);
	fm_queue_close_fds(&j->o);
	j->user->jobs--;
	user_put(j->user);
	free(j->save_text);
	free(j->result);
	free(j->why);
	free(j->text);
	free(j);
}

/* ---- submitting ---- */

static struct fm_queue_job *find(struct fm_queue *q, const char *id)
{
	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		if (strcmp(j->id, id) == 0 && !j->is_forgotten)
			return j;
	}
	return NULL;
}

void fm_queue_make_id(struct fm_queue *q, char id[static FM_QUEUE_ID_LEN + 1])
{
	uint8_t random[FM_QUEUE_ID_LEN];

	do {
		q->c.random->fill(q->c.random->ctx, random, sizeof(random));
		for (unsigned i = 0; i < FM_QUEUE_ID_LEN; i++)
			id[i] = "abcdefghijklmnopqrstuvwxyz234567"[random[i] % 32];
		id[FM_QUEUE_ID_LEN] = '\0';
	} while (find(q, id));
}

static void take_id(struct fm_queue *q, const char *wanted, char id[static FM_QUEUE_ID_LEN + 1])
{
	if (!wanted || !wanted[0] || find(q, wanted))
		fm_queue_make_id(q, id);
	else
		memcpy(id, wanted, FM_QUEUE_ID_LEN + 1);
}

bool fm_queue_is_callers_tree(const struct fm_queue_opts *o)
{
	return o->end == FM_QUEUE_FILE && o->job.file->tree;
}

static int check_limits(struct fm_queue *q, const struct fm_queue_opts *o, struct fm_err *err)
{
	struct fm_share_id who = who_of(o);
	const struct fm_queue_shares *s = &q->shares;
	int ret = fm_share_check(&s->jobs, who, 1, err);

	if (ret == 0)
		ret = fm_share_check(&s->bytes, who, sizeof(struct fm_queue_job) + text_bytes(o),
				     err);
	if (ret == 0 && fm_queue_is_callers_tree(o))
		ret = fm_share_check(&s->trees, who, 1, err);
	if (ret == 0 && o->is_attended)
		ret = fm_share_check(&s->attended, who, 1, err);
	if (ret == 0 && o->end == FM_QUEUE_FD)
		ret = fm_share_check(&s->fds, who, 1, err);
	return ret;
}

/* Whether a job may go on without its caller, as its options ask for. */
static int check_end(struct fm_queue *q, const struct fm_queue_opts *o, struct fm_err *err)
{
	if (o->is_attended)
		return fm_queue_attended_check(o, err);
	if (o->is_detached && (o->end == FM_QUEUE_FILE || o->job.is_held))
		return fm_err_set(err, -EINVAL,
				  "this cannot go on without you: leave out --detach");
	if (o->is_detached && o->end == FM_QUEUE_FD && !o->job.is_put)
		return fm_err_set(err, -EINVAL,
				  "only you can give what was received its name: let it go into a "
				  "store of this node "
				  "(%s:STORE/PATH), or leave out --detach",
				  q->c.node);
	return 0;
}

static int check(struct fm_queue *q, const struct fm_queue_opts *o, struct fm_err *err)
{
	int ret;

	assert(!o->peer || !o->peer[0] || !o->is_detached);	/* no file of it says so */
	assert(!o->id || !o->id[0] || strlen(o->id) == FM_QUEUE_ID_LEN);
	assert(o->priority < FM_QUEUE_PRIORITY_COUNT && (o->end == FM_QUEUE_FD) == (o->fd >= 0));
	assert(o->journal < 0 || (o->fd >= 0 && !o->job.is_put));
	if (q->is_stopping)
		return fm_err_set(err, -EHOSTDOWN, "fmoved is stopping");
	ret = check_end(q, o, err);
	if (ret < 0)
		return ret;
	if (o->is_detached && q->dir < 0)
		return fm_err_set(err, -EOPNOTSUPP, "this node keeps no jobs: %s", q->no_dir.text);
	ret = q->c.needs->check(q->c.engine, &o->job, err);
	if (ret < 0 && ret != -EBUSY)	/* busy now is no reason not to wait */
		return ret;
	fm_queue_prune(q, NULL);
	return check_limits(q, o, err);
}

/*
 * Closes what came with a job that is not accepted. Nothing was done with it yet, so this does not
 * wait for a disk.
 */
static void drop(const struct fm_queue_opts *o)
{
	struct fm_queue_opts fds = *o;

	fm_queue_close_fds(&fds);
	if (o->end == FM_QUEUE_FILE && o->job.file)
		fm_file_give_up(o->job.file, false);
}

bool fm_queue_is_like(const struct fm_queue_opts *a, const struct fm_queue_opts *b)
{
	return a->end == b->end && a->job.who.uid == b->job.who.uid &&
	       a->job.is_put == b->job.is_put && a->file_len == b->file_len &&
	       a->job.path_len == b->job.path_len && memcmp(a->file, b->file, a->file_len) == 0 &&
	       memcmp(a->job.path, b->job.path, a->job.path_len) == 0 &&
	       strcmp(a->job.node, b->job.node) == 0 && strcmp(a->job.store, b->job.store) == 0;
}

static void forget_abandoned(struct fm_queue_job *j)
{
	fm_queue_count_end(j);
	j->queue->counts.ended[FM_QUEUE_CANCELLED]++;
	j->state = FM_QUEUE_CANCELLED;
	fm_queue_set_why(j, -ECANCELED, "its caller did not come back for it");
	fm_queue_forget(j);
}

/*
 * Forgets the paused jobs that `new` goes on with: running the same command again is one way to
 * resume.
 */
static void forget_abandoned_like(struct fm_queue *q, const struct fm_queue_job *new)
{
	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		if (j != new && j->state == FM_QUEUE_PAUSED && j->is_abandoned &&
		    !j->o.is_attended &&fm_queue_is_like(&j->o, &new->o))
			forget_abandoned(j);
	}
}

void fm_queue_watch_as_submitter(struct fm_queue_job *j, struct fm_queue_watch *watch)
{
	watch->job = j;
	j->submitter = watch;
	fm_list_append(&j->watches, &watch->at);
}

static int submit_new(struct fm_queue *q, const struct fm_queue_opts *o,
		      struct fm_queue_watch *watch)
{
	struct fm_queue_job *j = fm_queue_job_new(q, o);

	if (!j)
		return -ENOMEM;
	take_id(q, o->id, j->id);
	j->o.id = NULL;		/* the caller's */
	j->seq = q->next_seq++;
	j->created_ms = fm_queue_now_ms();
	if (o->job.timeout_ns)
		j->deadline_ns = fm_loop_now(q->c.loop) + o->job.timeout_ns;
	j->is_prompt = o->job.is_held || (o->end == FM_QUEUE_FILE && o->job.file->is_stream);
	fm_queue_job_add(j);
	fm_queue_hold(j);
	if (j->o.end == FM_QUEUE_FD && j->o.file_len > 0)
		forget_abandoned_like(q, j);
	fm_queue_watch_as_submitter(j, watch);
	fm_queue_probe(j);
	return 0;
}

int fm_queue_submit(struct fm_queue *q, const struct fm_queue_opts *o, struct fm_queue_watch *watch,
		    struct fm_err *err)
{
	struct fm_queue_job *again = NULL;
	int ret = check(q, o, err);

	watch->job = NULL;
	fm_list_init(&watch->at);
	if (ret == 0 && o->is_attended)
		ret = fm_queue_attended_find(q, o, &again, err);
	if (ret == 0) {
		ret = again ? fm_queue_attended_again(again, o) : submit_new(q, o, watch);
		if (ret < 0)
			(void)fm_err_set(err, ret, "no memory for a job");
		else if (again)
			fm_queue_watch_as_submitter(again, watch);
	}
	if (ret < 0)
		drop(o);
	return ret;
}

/* ---- the watched one ---- */

void fm_queue_end_job(struct fm_queue_watch *watch, int code, bool is_kept, const char *reason)
{
	if (watch->job)
		fm_queue_end_with(watch->job, code, is_kept, reason);
}

void fm_queue_abandon(struct fm_queue_watch *watch)
{
	struct fm_queue_job *j = watch->job;

	if (!j)
		return;
	fm_queue_unwatch(watch);
	j->is_abandoned =
		j->is_accepted && !j->is_unseen && !j->end_code &&
		(j->o.is_attended || (j->o.end == FM_QUEUE_FD && j->o.job.is_put &&
				      j->o.file_len > 0 && !j->is_prompt && !j->o.is_detached));
	fm_queue_end_with(j, -ECANCELED, true, "its client went away");
}

void fm_queue_unwatch(struct fm_queue_watch *watch)
{
	if (!watch->job)
		return;
	if (watch->job->submitter == watch)
		watch->job->submitter = NULL;
	watch->job = NULL;
	fm_list_del(&watch->at);
}

/* ---- by id ---- */

static bool may(const struct fm_queue_job *j, uid_t who)
{
	return who == 0 || j->o.job.who.uid == who;
}

int fm_queue_find_for(struct fm_queue *q, const char *id, uid_t who, struct fm_queue_job **out,
		      struct fm_err *err)
{
	*out = find(q, id);
	if (!*out || !may(*out, who))
		return fm_err_set(err, -ENOENT,
				  "you have no job %.32s here; fmove jobs lists those you have",
				  id);
	return 0;
}

int fm_queue_watch_id(struct fm_queue *q, const char *id, uid_t who, struct fm_queue_watch *watch,
		      struct fm_err *err)
{
	struct fm_queue_job *j;
	int ret = fm_queue_find_for(q, id, who, &j, err);

	watch->job = NULL;
	fm_list_init(&watch->at);
	if (ret < 0)
		return ret;
	watch->job = j;
	fm_list_append(&j->watches, &watch->at);
	if (fm_queue_has_ended(j) || j->state == FM_QUEUE_PAUSED)
		fm_loop_post(q->c.loop, &j->tell);
	return 0;
}

/* Whether what ends the job, or is to end it, has yet to be written down. */
static bool is_end_to_come(const struct fm_queue_job *j)
{
	if (fm_queue_has_ended(j))
		return j->is_end_unsaved;
	return fm_queue_is_ending(j) && j->is_saving;
}

int fm_queue_cancel(struct fm_queue *q, const char *id, uid_t who, bool is_kept,
		    struct fm_queue_watch *watch, struct fm_err *err)
{
	struct fm_queue_job *j;
	int ret = fm_queue_find_for(q, id, who, &j, err);

	if (ret < 0)
		return ret;
	if (fm_queue_has_ended(j) && !j->is_end_unsaved)
		return fm_err_set(err, -EALREADY, "job %s has ended already: it is %s", id,
				  fm_words_state[j->state]);
	if (j->is_naming && j->state == FM_QUEUE_RUNNING)
		return fm_err_set(err, -EALREADY, "job %s is complete: it is being given its name",
				  id);
	if (j->is_abandoned && j->state != FM_QUEUE_PAUSED) {
		j->is_abandoned = false;	/* nor is it kept for who went away */
		if (fm_queue_is_ending(j))
			fm_queue_save(j);
	}
	fm_queue_end_with(j, -ECANCELED, is_kept, "cancelled");
	if (!is_end_to_come(j))
		return 0;
	if (watch) {
		watch->job = j;
		fm_list_init(&watch->at);
		fm_list_append(&j->cancels, &watch->at);
	}
	return 1;
}

int fm_queue_still_there(const struct fm_queue_job *j, struct fm_err *err)
{
	return fm_err_set(err, -EBUSY,
			  "job %s has not come back from the file system of its file yet, which "
			  "does not answer",
			  j->id);
}

/* A file comes from the job's own user only: root may read what that one may not. */
static int check_giver(const struct fm_queue_job *j, uid_t who, struct fm_err *err)
{
	uid_t owner = j->o.job.who.uid;

	if (who == owner)
		return 0;
	return fm_err_set(err, -EPERM, "job %s takes its file from its own user only, uid %u",
			  j->id, (unsigned)owner);
}

static int check_resume(const struct fm_queue_job *j, int fd, struct fm_err *err)
{
	bool needs_fd = j->o.end == FM_QUEUE_FD && j->state != FM_QUEUE_WAITING;
	int ret = 0;

	if (j->state == FM_QUEUE_QUEUED || fm_queue_shown(j) == FM_QUEUE_RUNNING ||
	    j->state == FM_QUEUE_DONE || !j->o.is_detached)
		return fm_err_set(err, -EALREADY, "job %s is %s: there is nothing to resume", j->id,
				  fm_words_state[fm_queue_shown(j)]);
	if (j->o.is_attended && j->state != FM_QUEUE_WAITING &&
	    !(fm_queue_needs_name(j) && fd >= 0))
		return fm_err_set(err, -EINVAL,
				  "job %s needs a command of yours: fmove resume starts one",
				  j->id);
	if (j->try && j->try->is_left)
		return fm_queue_still_there(j, err);
	if (needs_fd != (fd >= 0))
		return fm_err_set(err, -EINVAL,
				  needs_fd ? "job %s needs its file again, and none came"
					   : "job %s needs no file, and one "
					     "came",
				  j->id);
	if (needs_fd)
		ret = fm_share_check(&j->queue->shares.fds, fm_queue_who(j), 1, err);
	if (ret == 0 && fm_queue_has_ended(j))
		ret = fm_share_check(&j->queue->shares.jobs, fm_queue_who(j), 1, err);
	return ret;
}

void fm_queue_revive(struct fm_queue_job *j)
{
	struct fm_queue *q = j->queue;

	if (fm_queue_has_ended(j)) {
		q->kept--;
		j->user->kept--;
		hold(j, &q->shares.jobs, &j->held.job, 1);
	}
	free(j->result);
	j->result = NULL;
	j->ended_ms = 0;
	j->is_abandoned = j->is_naming = false;
	j->end_code = 0;
	j->retry = (struct fm_retry){ .tries = 0 };
	j->deadline_ns = j->o.job.timeout_ns ? fm_loop_now(q->c.loop) + j->o.job.timeout_ns : 0;
	fm_queue_set_why(j, 0, "");
}

int fm_queue_resume(struct fm_queue *q, const char *id, uid_t who, int fd, struct fm_holder *holder,
		    struct fm_err *err)
{
	struct fm_queue_job *j;
	int ret = q->is_stopping ? fm_err_set(err, -EHOSTDOWN, "fmoved is stopping")
				 : fm_queue_find_for(q, id, who, &j, err);

	if (ret == 0 && fd >= 0)
		ret = check_giver(j, who, err);
	if (ret == 0)
		ret = check_resume(j, fd, err);
	if (ret < 0) {
		fm_holder_close(holder, &fd, 1);	/* unused */
		fm_holder_put(holder);
		return ret;
	}
	fm_timer_clear(q->c.loop, &j->timer);
	fm_queue_revive(j);
	if (fd >= 0) {
		assert(j->o.fd < 0);
		j->o.fd = fd;
		j->o.holder = holder;
		j->is_whole = false;
		j->is_found = fm_queue_needs_name(j);
		j->has_gone_far |= j->is_found;
		hold(j, &q->shares.fds, &j->held.fd, 1);
	}
	fm_queue_enqueue(j);
	fm_queue_save(j);
	return 0;
}

/* ---- looking ---- */

/*
 * Counts how many jobs stand before each pending one, if no more come. It is done at intervals
 * only, since it visits all of them.
 */
static void rank(struct fm_queue *q)
{
	uint64_t now_ns = fm_loop_now(q->c.loop);
	unsigned before = 0;

	if (q->ranked_ns && now_ns < q->ranked_ns + RANK_NS)
		return;
	q->ranked_ns = now_ns;
	for (unsigned i = 0; i < FM_QUEUE_PRIORITY_COUNT; i++)
		fm_list_each(at, next, &q->pending[fm_queue_ranks[i]])
			fm_container_of(at, struct fm_queue_job, pending_at)->before = before++;
}

const char *fm_queue_paused_text(const struct fm_queue_job *j)
{
	if (!j->o.is_attended)
		return "it needs your file again: fmove resume hands it over";
	if (j->is_naming)
		return "its command has gone away while it gave it its name: fmove resume looks "
		       "whether it has it, or goes on";
	return "its command has gone away: fmove resume goes on";
}

void fm_queue_progress(const struct fm_queue_job *j, struct fm_queue_progress *out)
{
	uint64_t now_ns = fm_loop_now(j->queue->c.loop);

	*out = (struct fm_queue_progress){
		.job = {.size = FM_SIZE_UNKNOWN, .state = fm_words_state[j->state]}, .text = ""};
	if (j->is_end_unsaved) {
		out->job.state = "committing";
		return;
	}
	switch (j->state) {
	case FM_QUEUE_QUEUED:
		if (!fm_list_is_empty(&j->pending_at)) {
			rank(j->queue);
			out->before = j->before;
		}
		break;
	case FM_QUEUE_RUNNING:
		out->job.state = "opening";
		if (j->job)
			j->queue->c.needs->progress(j->job, &out->job);
		else if (j->is_naming)
			out->job = (struct fm_job_progress){.size = j->result->size,
							    .bytes_done = j->result->data_bytes,
							    .state = "committing"};
		break;
	case FM_QUEUE_WAITING:
		out->again_ns = j->again_ns > now_ns ? j->again_ns - now_ns : 0;
		break;
	case FM_QUEUE_DONE:
		if (j->result) {
			out->job.size = j->result->size;
			out->job.bytes_done = j->result->data_bytes;
		}
		break;
	default:
		break;
	}
	if (j->code && j->state != FM_QUEUE_RUNNING)
		out->text = j->why ? j->why : fm_err_name(j->code);
	else if (j->state == FM_QUEUE_PAUSED)
		out->text = fm_queue_paused_text(j);
}

static void describe(const struct fm_queue_job *j, struct fm_queue_info *out)
{
	*out = (struct fm_queue_info){ .id = j->id,
				       .seq = j->seq,
				       .uid = j->o.job.who.uid,
				       .state = fm_queue_shown(j),
				       .node = j->queue->c.node,
				       .opts = &j->o,
				       .tries = j->tries,
				       .created_ms = j->created_ms,
				       .ended_ms = j->is_end_unsaved ? 0 : j->ended_ms,
				       .result = j->is_end_unsaved ? NULL : j->result,
				       .code = j->is_end_unsaved ? 0 : j->code };
	fm_queue_progress(j, &out->progress);
}

void fm_queue_visit(struct fm_queue *q, uid_t uid, bool is_all, uint64_t after,
		    bool (*visit)(void *ctx, const struct fm_queue_info *info), void *ctx)
{
	struct fm_queue_info info;

	fm_queue_prune(q, NULL);
	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		if (j->seq <= after || j->is_forgotten || (!is_all && j->o.job.who.uid != uid))
			continue;
		describe(j, &info);
		if (!visit(ctx, &info))
			return;
	}
}

void fm_queue_counts(const struct fm_queue *q, struct fm_queue_counts *out)
{
	*out = q->counts;
	fm_list_each(at, next, &q->jobs) {
		const struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		out->jobs[fm_queue_shown(j)] += !j->is_forgotten;
		out->with_file += (j->state == FM_QUEUE_QUEUED || j->state == FM_QUEUE_WAITING) &&
				  j->o.is_detached && j->o.end != FM_QUEUE_STORE;
	}
}

int fm_queue_find(struct fm_queue *q, const char *id, uid_t who, struct fm_queue_info *out,
		  struct fm_err *err)
{
	struct fm_queue_job *j;
	int ret = fm_queue_find_for(q, id, who, &j, err);

	if (ret == 0)
		describe(j, out);
	return ret;
}

/* ---- those that have ended ---- */

static bool is_kept(const struct fm_queue_job *j)
{
	return fm_queue_has_ended(j) && !j->is_end_unsaved && j->o.is_detached && !j->is_forgotten;
}

/* The kept job that ended first, of one user, or of all users if user is NULL. */
static struct fm_queue_job *oldest_kept(struct fm_queue *q, const struct fm_queue_user *user)
{
	struct fm_queue_job *oldest = NULL;

	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		if (is_kept(j) && (!user || j->user == user) &&
		    (!oldest || j->ended_ms < oldest->ended_ms))
			oldest = j;
	}
	return oldest;
}

void fm_queue_prune(struct fm_queue *q, struct fm_queue_user *user)
{
	uint64_t now_ns = fm_loop_now(q->c.loop);
	struct fm_queue_job *j;

	if (user && user->kept > FM_QUEUE_KEPT_USER_MAX) {
		j = oldest_kept(q, user);
		if (j)
			fm_queue_forget(j);
	}
	if (q->kept > FM_QUEUE_KEPT_MAX) {
		j = oldest_kept(q, NULL);
		if (j)
			fm_queue_forget(j);
	}
	fm_list_each(at, next, &q->jobs) {
		j = fm_container_of(at, struct fm_queue_job, at);
		if (now_ns < j->kept_until_ns)
			continue;
		if (j->state == FM_QUEUE_PAUSED && j->is_abandoned)
			forget_abandoned(j);
		else if (is_kept(j))
			fm_queue_forget(j);
	}
}
