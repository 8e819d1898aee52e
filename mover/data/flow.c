/* SPDX-License-Identifier: MIT */
/*
 * flow - see flow.h. Here: a flow's life, from start to end. flow_tx.c sends, flow_rx.c receives.
 */
#include "mover/data/flow.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/data/link.h"
#include "mover/data/registered.h"

/* A network that is well answers every second. */
#define SILENT_NS (1200 * FM_NS_PER_MS)

void fm_flow_wake(struct fm_flow *f)
{
	fm_loop_post(f->lane->io.loop, &f->step_task);
}

void fm_flow_fail(struct fm_flow *f, int code, const char *fmt, ...)
{
	va_list ap;

	if (fm_flow_is_ending(f))
		return;
	f->state = FM_FLOW_FAILED;
	f->lost_ns = f->is_silent ? f->silent_ns : fm_loop_now(f->lane->io.loop);
	f->err.code = code;
	va_start(ap, fmt);
	/* a cut text is still a text */
	(void)vsnprintf(f->err.text, sizeof(f->err.text), fmt, ap);
	va_end(ap);
	atomic_store(&f->is_up, false);
	fm_flow_wake(f);
}

static void note_done(struct fm_send *send, int res)
{
	struct fm_note *n = fm_container_of(send, struct fm_note, send);
	struct fm_flow *f = n->flow;

	(void)res;	/* a connection that failed says so by itself */
	n->next = f->note_free;
	f->note_free = n;
	f->notes_out--;
	if (fm_flow_is_ending(f))
		fm_flow_wake(f);
}

int fm_flow_note(struct fm_flow *f, const struct fm_data_msg *m)
{
	struct fm_note *n = f->note_free;

	if (!n)
		return -ENOBUFS;
	n->send = (struct fm_send){ .done = note_done };
	if (fm_data_encode(m, n->send.msg) < 0)
		return -EINVAL;
	f->note_free = n->next;
	f->notes_out++;
	f->conn->ops->send(f->conn, &n->send);
	return 0;
}

int fm_flow_lease(struct fm_flow *f, struct fm_lease *lease, bool is_rx)
{
	enum fm_slab_use use = is_rx ? FM_SLAB_RX : FM_SLAB_TX;
	struct fm_err err = { 0 };
	int slab = fm_link_take_slab(f->link, use, fm_loop_now(f->lane->io.loop)), ret;

	if (slab < 0) {
		fm_lane_wake_at(f->lane, fm_loop_now(f->lane->io.loop) + FM_FLOW_RETRY_NS);
		return slab;
	}
	/* TCP lets in no chunk but with its bytes (fm_flow_rx_may_write()). */
	if (is_rx && f->kind != FM_KIND_TCP)
		fm_link_clear_slab(f->link, slab);
	ret = f->conn->ops->lend(f->conn, fm_slabs_at(f->link->slabs, slab),
				 fm_slabs_bytes(f->link->slabs), is_rx, &lease->region, &err);
	if (ret < 0) {
		fm_link_put_slab(f->link, use, slab, false);
		fm_flow_fail(f, ret, "lend a slab to the connection: %s", err.text);
		return ret;
	}
	lease->slab = slab;
	lease->is_giving = false;
	lease->used_ns = fm_loop_now(f->lane->io.loop);
	return 0;
}

void fm_flow_unlease(struct fm_flow *f, struct fm_lease *lease, bool is_rx)
{
	if (lease->slab < 0)
		return;
	/* A connection that is gone took its regions with it. */
	if (f->state < FM_FLOW_CLOSED)
		f->conn->ops->take_back(f->conn, &lease->region);
	fm_link_put_slab(f->link, is_rx ? FM_SLAB_RX : FM_SLAB_TX, lease->slab, lease->is_giving);
	lease->slab = -1;
	lease->is_giving = false;
}

static int dispatch(struct fm_flow *f, const struct fm_data_msg *m)
{
	switch ((enum fm_data_type)m->type) {
	case FM_DATA_WANT:
		return fm_flow_rx_want(f);
	case FM_DATA_CHUNK:
		return fm_flow_rx_chunk(f, m);
	case FM_DATA_RETURN:
		return fm_flow_rx_return(f, m);
	case FM_DATA_GRANT:
		return fm_flow_tx_grant(f, m);
	case FM_DATA_ACK:
		return fm_flow_tx_ack(f, m);
	case FM_DATA_REVOKE:
		return fm_flow_tx_revoke(f, m);
	}
	return -EPROTO;
}

static bool conn_may_write(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN], uint64_t remote,
			   uint32_t len)
{
	struct fm_data_msg m;

	if (fm_data_decode(msg, &m) < 0)
		return len == 0;	/* conn_message() says what is wrong with it */
	return fm_flow_rx_may_write(ctx, &m, remote, len);
}

static void *conn_place(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN], uint32_t len)
{
	struct fm_flow *f = ctx;
	struct fm_data_msg m;

	(void)len;	/* what may be written is as long as it says */
	if (fm_flow_is_ending(f) || fm_data_decode(msg, &m) < 0)
		return NULL;
	return fm_flow_rx_place(f, &m);
}

static void conn_message(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN])
{
	struct fm_flow *f = ctx;
	struct fm_data_msg m;
	int ret;

	if (fm_flow_is_ending(f))
		return;
	ret = fm_data_decode(msg, &m);
	if (ret == 0)
		ret = dispatch(f, &m);
	if (ret < 0)
		fm_flow_fail(f, ret,
			     "the peer sent a data message that breaks the protocol (type %u: %s)",
			     msg[0], fm_err_name(ret));
}

static void conn_failed(void *ctx, const struct fm_err *err)
{
	fm_flow_fail(ctx, err->code, "%s", err->text);
}

static void conn_closed(void *ctx)
{
	struct fm_flow *f = ctx;

	assert(f->state == FM_FLOW_CLOSING);
	f->state = FM_FLOW_CLOSED;
	f->conn = NULL;
	atomic_fetch_sub(&f->link->flows[f->kind], 1);
	fm_flow_tx_lose(f);
	fm_registered_leave(f->place);
	f->place = NULL;
	fm_loop_post(f->control, &f->down_task);	/* who wakes the others for them */
	fm_flow_wake(f);
}

static const struct fm_conn_events conn_events = {
	.may_write = conn_may_write,
	.place = conn_place,
	.message = conn_message,
	.failed = conn_failed,
	.closed = conn_closed,
};

/* The way out: close the connection, wait for it and for our own I/O, give everything back. */
static void drain(struct fm_flow *f)
{
	if (f->state == FM_FLOW_FAILED) {
		f->state = FM_FLOW_CLOSING;
		f->conn->ops->close(f->conn);
		fm_flow_rx_closing(f);
	}
	if (f->state != FM_FLOW_CLOSED || f->io_count > 0 || f->notes_out > 0)
		return;
	f->state = FM_FLOW_FINISHED;
	fm_flow_tx_finish(f);
	fm_flow_rx_finish(f);
	fm_lane_leave(f->lane, &f->user);
	fm_loop_post(f->control, &f->gone_task);
}

/* Chunks of transfers that were removed. (What of these waits for a pipe is no chunk here: fill.h,
 * drain.h.) */
static void cancel_removed(struct fm_flow *f)
{
	unsigned stops = atomic_load(&f->link->stops);

	if (stops == f->stops_seen && f->state == FM_FLOW_UP)
		return;
	f->stops_seen = stops;
	fm_flow_tx_cancel_removed(f);
	fm_flow_rx_cancel_removed(f);
}

static void step(struct fm_flow *f)
{
	uint64_t now_ns = fm_loop_now(f->lane->io.loop);

	if (f->state == FM_FLOW_NEW || f->state == FM_FLOW_FINISHED)
		return;
	cancel_removed(f);
	if (f->state == FM_FLOW_UP)
		fm_flow_rx_step(f, now_ns);
	if (f->state == FM_FLOW_UP)
		fm_flow_tx_step(f, now_ns);
	if (fm_flow_is_ending(f))
		drain(f);
}

static void step_run(struct fm_task *task)
{
	step(fm_container_of(task, struct fm_flow, step_task));
}

static void user_step(struct fm_lane_user *user)
{
	step(fm_container_of(user, struct fm_flow, user));
}

static void attach_run(struct fm_task *task)
{
	struct fm_flow *f = fm_container_of(task, struct fm_flow, attach_task);

	assert(f->state == FM_FLOW_NEW);
	f->state = FM_FLOW_UP;
	fm_lane_join(f->lane, &f->user);
	f->conn->ops->attach(f->conn, f->lane->io.loop, &conn_events, f);
	fm_flow_wake(f);
}

/*
 * Ends a connection whose network is silent while the peer is heard over the session. The peer is
 * there, so the path of this connection is dead; TCP would take tens of seconds to notice. Two
 * looks must find this, because a machine that was stopped itself hears all others late.
 */
static void look_run(struct fm_task *task)
{
	struct fm_flow *f = fm_container_of(task, struct fm_flow, look_task);
	uint64_t heard_ns = atomic_load(&f->link->heard_ns);

	if (f->state != FM_FLOW_UP || !f->conn->ops->is_silent)
		return;
	if (!f->conn->ops->is_silent(f->conn, SILENT_NS)) {
		f->is_silent = false;
	} else if (!f->is_silent) {
		f->is_silent = true;
		f->silent_ns = fm_loop_now(f->lane->io.loop) - SILENT_NS;
		f->silent_heard_ns = heard_ns;
	} else if (heard_ns > f->silent_heard_ns) {
		fm_flow_fail(f, -ENETDOWN,
			     "nothing comes back over it, though the peer answers elsewhere: is "
			     "this cable plugged in at both ends?");
	}
}

static void close_run(struct fm_task *task)
{
	struct fm_flow *f = fm_container_of(task, struct fm_flow, close_task);

	fm_flow_fail(f, f->cut_why ? -ENETDOWN : 0, "%s", f->cut_why ? f->cut_why : "closed");
}

static void down_run(struct fm_task *task)
{
	struct fm_flow *f = fm_container_of(task, struct fm_flow, down_task);

	f->down(f);
}

static void gone_run(struct fm_task *task)
{
	struct fm_flow *f = fm_container_of(task, struct fm_flow, gone_task);

	f->is_leaving = true;
	fm_loop_post(f->lane->io.loop, &f->last_task);
}

/* Tasks that were posted to the lane before this one have run: nothing there refers to the flow any
 * more. */
static void last_run(struct fm_task *task)
{
	struct fm_flow *f = fm_container_of(task, struct fm_flow, last_task);

	fm_loop_post(f->control, &f->free_task);
}

static void free_run(struct fm_task *task)
{
	struct fm_flow *f = fm_container_of(task, struct fm_flow, free_task);

	f->gone(f);
}

int fm_flow_new(const struct fm_flow_opts *o, struct fm_flow **out, struct fm_err *err)
{
	struct fm_flow *f = FM_FAULT("flow.new") ? NULL : fm_budget_alloc_link(sizeof(*f));

	if (!f) {
		o->conn->ops->close(o->conn);
		return fm_err_sys(err, -ENOMEM, "allocate a flow");
	}
	f->conn = o->conn;
	f->lane = o->lane;
	f->link = o->link;
	f->control = o->control;
	f->owner = o->owner;
	f->down = o->down;
	f->gone = o->gone;
	f->made_ns = fm_loop_now(o->control);
	f->info = *o->conn->ops->info(o->conn);
	f->kind = f->info.kind;
	f->place = fm_registered_join(f->link->registered, f->conn);
	fm_link_ref(f->link);
	atomic_fetch_add(&f->link->flows[f->kind], 1);
	fm_list_init(&f->user.at);
	f->user.step = user_step;
	fm_list_init(&f->owner_at);
	f->attach_task.run = attach_run;
	f->look_task.run = look_run;
	f->close_task.run = close_run;
	f->down_task.run = down_run;
	f->gone_task.run = gone_run;
	f->last_task.run = last_run;
	f->free_task.run = free_run;
	f->step_task.run = step_run;
	atomic_init(&f->is_up, true);
	f->stops_seen = atomic_load(&f->link->stops);
	fm_flow_tx_init(f);
	fm_flow_rx_init(f);
	for (unsigned i = 0; i < FM_FLOW_ACKS_MAX; i++) {
		f->notes[i].flow = f;
		f->notes[i].next = f->note_free;
		f->note_free = &f->notes[i];
	}
	fm_loop_post(f->lane->io.loop, &f->attach_task);
	*out = f;
	return 0;
}

void fm_flow_look(struct fm_flow *f)
{
	if (!f->is_leaving)
		fm_loop_post(f->lane->io.loop, &f->look_task);
}

void fm_flow_cut(struct fm_flow *f, const char *why)
{
	if (f->is_leaving || f->cut_why)
		return;
	f->cut_why = why;
	fm_loop_post(f->lane->io.loop, &f->close_task);
}

void fm_flow_close(struct fm_flow *f)
{
	if (!f->is_leaving)
		fm_loop_post(f->lane->io.loop, &f->close_task);
}

void fm_flow_free(struct fm_flow *f)
{
	assert(f->state == FM_FLOW_FINISHED);
	fm_link_unref(f->link);
	fm_budget_free(f);
}
