/* SPDX-License-Identifier: MIT */
/* joining - see joining.h. */
#include "client/cli/joining.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/join/join_addrs.h"
#include "mover/transport/net.h"

#define DIAL_NS (10 * FM_NS_PER_S)
/* a daemon that is busy may take so long to see a new invitation ... */
#define NOTICE_NS (3 * FM_NS_PER_S)
#define NOTICE_STEP_NS (100 * FM_NS_PER_MS)	/* ... and is asked again after this */
#define ANSWER_NS (20 * FM_NS_PER_S)	/* after it was asked; longer than it may take there */

struct talk {
	const struct fm_joining *joining;
	struct fm_loop *loop;
	struct fm_net *net;
	struct fm_ctl *ctl;
	struct fm_timer deadline;
	struct fm_timer again;
	struct fm_watch cancel;
	uint64_t notice_ns;		/* until when it is asked again */
	struct fm_join_answer *answer;
	struct fm_err *err;
	int ret;
	bool is_asked;
	bool is_answered;
};

static void stop(struct talk *t, int ret)
{
	t->ret = ret;
	fm_loop_stop(t->loop);
}

static void deadline_fire(struct fm_timer *timer)
{
	struct talk *t = fm_container_of(timer, struct talk, deadline);

	stop(t, fm_err_set(t->err, -ETIMEDOUT, "%s:%u does not answer", t->joining->host,
			  t->joining->port));
}

static void cancel_ready(struct fm_watch *watch, uint32_t ready)
{
	struct talk *t = fm_container_of(watch, struct talk, cancel);

	(void)ready;
	stop(t, fm_err_set(t->err, -ECANCELED, "cancelled"));
}

static void no_cancel(struct talk *t)
{
	if (t->cancel.is_added)
		fm_watch_del(t->loop, &t->cancel);
}

static size_t own_addrs(const struct talk *t, struct fm_addr own[static FM_ADDRS_MAX])
{
	return t->net->ops->addrs(t->net, own, FM_ADDRS_MAX);
}

static void opened(void *ctx)
{
	struct talk *t = ctx;
	struct fm_join_request request = t->joining->request;
	struct fm_addr own[FM_ADDRS_MAX];
	uint8_t buf[FM_JOIN_MSG_MAX];
	int ret;

	if (t->joining->everywhere)
		fm_join_addrs_own(own, own_addrs(t, own), t->joining->everywhere, &request.further);
	ret = t->net->ops->ctl_send(t->ctl, buf, fm_join_request_encode(&request, buf));
	if (ret < 0) {
		stop(t, fm_err_sys(t->err, ret, "ask to join"));
		return;
	}
	t->is_asked = true;
	no_cancel(t);		/* it may be a peer there already: its answer says */
	fm_timer_set(t->loop, &t->deadline, fm_loop_now(t->loop) + ANSWER_NS);
}

static void take_answer(struct talk *t)
{
	struct fm_addr own[FM_ADDRS_MAX];

	fm_join_addrs_keep(&t->answer->further, own, own_addrs(t, own));
	stop(t, 0);
}

static void message(void *ctx, const uint8_t *msg, size_t len)
{
	struct talk *t = ctx;

	if (t->is_answered)
		return;
	t->is_answered = true;
	if (fm_join_answer_decode(msg, len, t->answer) < 0)
		stop(t, fm_err_set(t->err, -EPROTO,
				  "%s:%u answers what this version does not understand",
				  t->joining->host, t->joining->port));
	else if (t->answer->code)
		stop(t, fm_err_set(t->err, -(int)t->answer->code, "%s", t->answer->text));
	else
		take_answer(t);
}

static void closed(void *ctx, const struct fm_err *err)
{
	struct talk *t = ctx;

	if (t->is_answered)
		return;
	*t->err = *err;
	if (err->code == -EKEYREJECTED)
		fm_err_set(t->err, err->code,
			   "%s:%u has not the key that the token says: the line of fmove invite "
			   "was copied "
			   "wrongly, or is of another node",
			   t->joining->host, t->joining->port);
	if (err->code == -ENOKEY && fm_loop_now(t->loop) < t->notice_ns) {
		fm_timer_set(t->loop, &t->again, fm_loop_now(t->loop) + NOTICE_STEP_NS);
		return;
	}
	if (err->code == -ENOKEY)
		t->err->code = -EACCES;		/* what it is to the caller: he may not */
	stop(t, t->err->code);
}

static const struct fm_ctl_events events = {.opened = opened, .message = message, .closed = closed};

/*
 * Opens the network with the daemon's key. The transport takes only a key of the present user, so
 * root becomes the key's owner while it is read.
 */
static int open_net(struct talk *t, struct fm_err *err)
{
	struct fm_net_opts opts = {
		.listen = "127.0.0.1:0", .key_file = t->joining->key_file, .is_tcp_allowed = true};
	bool is_other;
	struct stat st;
	int ret;

	if (stat(opts.key_file, &st) < 0)
		return fm_err_sys(err, -errno, "%s", opts.key_file);
	is_other = geteuid() == 0 && st.st_uid != 0;
	if (is_other && seteuid(st.st_uid) < 0)
		return fm_err_sys(err, -errno, "become the owner of %s", opts.key_file);
	ret = fm_net_new(t->loop, &opts, &t->net, err);
	if (is_other && seteuid(0) < 0 && ret == 0)
		ret = fm_err_sys(err, -errno, "become root again");
	return ret;
}

static bool dial_once(struct talk *t)
{
	struct fm_ctl_dial how = {
		.host = t->joining->host,
		.port = t->joining->port,
		.events = &events,
		.ctx = t,
		.timeout_ns = DIAL_NS,
	};

	memcpy(how.key, t->joining->key, FM_KEY_LEN);
	t->ctl = FM_FAULT("joining.dial") ? NULL : fm_net_join_dial(t->net, &how);
	return t->ctl;
}

static void dial_again(struct fm_timer *timer)
{
	struct talk *t = fm_container_of(timer, struct talk, again);

	t->net->ops->ctl_close(t->ctl);
	if (!dial_once(t))
		stop(t, fm_err_set(t->err, -ENOMEM, "out of memory"));
}

static int dial(struct talk *t, struct fm_err *err)
{
	t->cancel = (struct fm_watch){
		.ready = cancel_ready, .fd = t->joining->cancel_fd, .events = EPOLLIN};
	if (t->cancel.fd > 0 && fm_watch_add(t->loop, &t->cancel, err) < 0)
		return err->code;
	if (!dial_once(t)) {
		no_cancel(t);
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	t->deadline.fire = deadline_fire;
	t->again.fire = dial_again;
	t->notice_ns = fm_loop_now(t->loop) + NOTICE_NS;
	fm_timer_set(t->loop, &t->deadline, fm_loop_now(t->loop) + DIAL_NS + ANSWER_NS);
	fm_loop_run(t->loop);
	fm_timer_clear(t->loop, &t->deadline);
	fm_timer_clear(t->loop, &t->again);
	no_cancel(t);
	if (t->ctl)
		t->net->ops->ctl_close(t->ctl);
	while (fm_loop_step(t->loop, 0))
		;
	return t->ret;
}

/*
 * What is known after an error. -EACCES is an answer: only the node that has the key can give it.
 */
static enum fm_joining_end end_of(const struct talk *t, int ret)
{
	if (t->is_answered || ret == -EACCES)
		return FM_JOINING_SETTLED;
	return t->is_asked ? FM_JOINING_UNKNOWN : FM_JOINING_NOT_THERE;
}

int fm_joining_run(const struct fm_joining *joining, struct fm_join_answer *answer,
		   enum fm_joining_end *end, struct fm_err *err)
{
	struct fm_loop_opts loop_opts = { 0 };
	struct talk t = { .joining = joining, .answer = answer, .err = err };
	int ret;

	assert(err);
	*end = FM_JOINING_SETTLED;
	ret = fm_loop_new(&loop_opts, &t.loop, err);
	if (ret < 0)
		return ret;
	ret = open_net(&t, err);
	if (ret == 0) {
		ret = dial(&t, err);
		*end = end_of(&t, ret);
	}
	fm_net_free(t.net);
	fm_loop_free(t.loop);
	return ret;
}
