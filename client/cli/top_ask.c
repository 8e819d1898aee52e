/* SPDX-License-Identifier: MIT */
/*
 * top_ask - see top_ask.h.
 *
 * Happy path of a thread: it asks, with the answer in tables of its own; takes the lock; gives
 * these tables away for those that were shown; wakes who looks; sleeps.
 */
#include "client/cli/top_ask.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "client/cli/ask.h"
#include "client/cli/nvmed.h"
#include "client/cli/show.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

#define ANSWER_MS      10000u		    /* for stores and fmove-nvmed */
#define SECOND_LOOK_NS (400 * FM_NS_PER_MS) /* behind the first one: a rate takes two */

/* What a question had as its answer. */
struct answer {
	struct fm_top_table *tables[2]; /* of its sections, in their order */
	char error[256];
	const char *absent; /* as of struct fm_top_part */
};

struct question {
	/* fills in the tables, which are empty, or else the error */
	void (*ask)(struct answer *answer);
	enum fm_top_section first; /* section, of one or two */
	unsigned sections;
};

static struct {
	pthread_mutex_t lock; /* of the state */
	struct fm_top_state state;
	bool has_rates;
	struct fmove *c;
	int woken; /* an eventfd */
	/* of the thread that asks for the status only: its last look */
	struct fm_json *before;
	uint64_t before_ns;
} top = {.lock = PTHREAD_MUTEX_INITIALIZER, .woken = -1};

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

static void fail(struct answer *answer, const char *text)
{
	(void)fm_show(text, strlen(text), answer->error, sizeof(answer->error));
}

/* ---- the questions ---- */

static bool add_space(void *ctx, const struct fmove_space *space)
{
	fm_top_space(ctx, space);
	return true;
}

static bool add_job(void *ctx, const struct fmove_job *job)
{
	fm_top_job(ctx, job);
	return true;
}

static bool add_dataset(void *ctx, const struct fmove_dataset *dataset)
{
	fm_top_dataset(ctx, dataset);
	return true;
}

static void ask_jobs(struct answer *answer)
{
	struct fmove_error why;

	if (fmove_jobs(top.c, false, add_job, answer->tables[0], &why) < 0)
		fail(answer, why.text);
}

static void ask_space(struct answer *answer)
{
	const struct fmove_name own = {NULL, "", ""};
	struct fmove_error why;

	if (fmove_space(top.c, &own, add_space, answer->tables[0], &why) < 0)
		fail(answer, why.text);
}

static void ask_datasets(struct answer *answer)
{
	struct fmove_cache cache = {.struct_size = sizeof(cache)};
	struct fmove_error why;
	int ret = fmove_cache(top.c, &cache, &why);

	if (ret == 0) {
		fm_top_cache(answer->tables[0], &cache);
		ret = fmove_datasets(top.c, add_dataset, answer->tables[0], &why);
	}
	if (ret == -EOPNOTSUPP)
		answer->absent = "this node stages nothing (staging.directory of fmove.conf)";
	else if (ret < 0)
		fail(answer, why.text);
}

static void ask_volumes(struct answer *answer)
{
	const struct fm_nvmed_request request = {.op = "status"};
	struct fm_nvmed *nvmed;
	struct fm_json *done;
	struct fm_err err;
	int ret = fm_nvmed_connect(NULL, &nvmed, &err);

	if (ret == -ECONNREFUSED) {
		answer->absent = "fmove-nvmed does not run";
		return;
	}
	if (ret < 0) {
		fail(answer, err.text);
		return;
	}
	ret = fm_nvmed_ask(nvmed, &request, ANSWER_MS, &done, &err);
	fm_nvmed_close(nvmed);
	if (ret < 0) {
		fail(answer, err.text);
		return;
	}
	fm_top_volumes(answer->tables[0], done);
	fm_json_free(done);
}

/* Rails and transfers, and the node itself. */
static void ask_status(struct answer *answer)
{
	const struct fm_top_table *transfers = top.state.part[FM_TOP_TRANSFERS].table;
	struct fmove_error why;
	struct fm_json *json;
	uint64_t at_ns;
	double seconds;

	if (fm_ask_status(top.c, &json, &why) < 0) {
		fail(answer, why.text);
		return;
	}
	at_ns = now_ns();
	seconds = (double)(at_ns - top.before_ns) / (double)FM_NS_PER_S;
	fm_top_rails(answer->tables[0], json, top.before, seconds);
	/* only this thread changes what was shown */
	fm_top_transfers(answer->tables[1], json, top.before ? transfers : NULL, seconds);
	(void)pthread_mutex_lock(&top.lock);
	fm_top_node(&top.state.node, json, top.before, seconds);
	top.has_rates = top.before != NULL;
	(void)pthread_mutex_unlock(&top.lock);
	fm_json_free(top.before);
	top.before = json;
	top.before_ns = at_ns;
}

static const struct question questions[] = {
	{ask_status, FM_TOP_RAILS, 2},	 {ask_jobs, FM_TOP_WAITING, 1},
	{ask_space, FM_TOP_STORES, 1},	 {ask_volumes, FM_TOP_VOLUMES, 1},
	{ask_datasets, FM_TOP_CACHE, 1},
};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* ---- asking again and again ---- */

static void publish(const struct question *q, struct answer *answer)
{
	uint64_t at_ns = now_ns();

	(void)pthread_mutex_lock(&top.lock);
	for (unsigned i = 0; i < q->sections; i++) {
		struct fm_top_part *part = &top.state.part[q->first + i];
		struct fm_top_table *shown = part->table;

		part->table = answer->tables[i];
		answer->tables[i] = shown;
		part->answered_ns = at_ns;
		part->absent = answer->absent;
		memcpy(part->error, answer->error, sizeof(part->error));
	}
	(void)pthread_mutex_unlock(&top.lock);
	(void)eventfd_write(top.woken, 1); /* cannot fail: it is never that full */
}

static void rest(const struct question *q)
{
	const bool is_first = q->ask == ask_status && !top.has_rates;
	uint64_t ns = top.state.every_ns;

	ns = is_first && ns > SECOND_LOOK_NS ? SECOND_LOOK_NS : ns;
	/* no longer, no shorter: no signal comes here */
	(void)poll(NULL, 0, (int)(ns / FM_NS_PER_MS));
}

static void *ask_on(void *ctx)
{
	const struct question *q = ctx;
	struct answer answer = {.error = ""};

	for (unsigned i = 0; i < q->sections; i++) {
		answer.tables[i] = calloc(1, sizeof(*answer.tables[i]));
		if (!answer.tables[i])
			return NULL; /* it is shown as one that does not answer */
	}
	for (;;) {
		for (unsigned i = 0; i < q->sections; i++)
			fm_top_clear(answer.tables[i]);
		answer.error[0] = '\0';
		answer.absent = NULL;
		q->ask(&answer);
		publish(q, &answer);
		rest(q);
	}
	return NULL;
}

/* Signals are for who looks. */
static int start_threads(void)
{
	sigset_t all, before;
	int ret = 0;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t i = 0; i < QUESTIONS && ret == 0; i++) {
		pthread_t thread;

		ret = pthread_create(&thread, NULL, ask_on, (void *)&questions[i]);
		if (ret == 0)
			(void)pthread_detach(thread);
	}
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

int fm_top_ask_start(struct fmove *c, uint64_t every_ns, struct fm_err *err)
{
	int ret;

	for (unsigned i = 0; i < FM_TOP_SECTIONS; i++) {
		top.state.part[i].table = calloc(1, sizeof(*top.state.part[i].table));
		if (!top.state.part[i].table)
			return fm_err_set(err, -ENOMEM, "no memory for what is shown");
	}
	top.woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (top.woken < 0)
		return fm_err_sys(err, -errno, "make an eventfd");
	fmove_set_timeout(c, ANSWER_MS);
	fmove_set_again(c, NULL, NULL); /* what is refused is asked again soon enough */
	top.c = c;
	top.state.every_ns = every_ns;
	top.state.since_ns = now_ns();
	ret = start_threads();
	return ret < 0 ? fm_err_sys(err, ret, "start a thread") : 0;
}

/* ---- for who looks ---- */

int fm_top_ask_fd(void)
{
	return top.woken;
}

const struct fm_top_state *fm_top_ask_lock(void)
{
	eventfd_t count;

	(void)eventfd_read(top.woken, &count); /* nothing came: that is no matter */
	(void)pthread_mutex_lock(&top.lock);
	return &top.state;
}

void fm_top_ask_unlock(void)
{
	(void)pthread_mutex_unlock(&top.lock);
}

bool fm_top_ask_has_all(const struct fm_top_state *state)
{
	for (unsigned i = 0; i < FM_TOP_SECTIONS; i++)
		if (state->part[i].answered_ns == 0)
			return false;
	return top.has_rates || state->part[FM_TOP_RAILS].error[0];
}
