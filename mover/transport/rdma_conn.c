/* SPDX-License-Identifier: MIT */
/*
 * rdma_conn - what goes over a queue pair: struct fm_conn_ops for RDMA.
 *
 * Happy path of a send: send() puts it on `waiting`; the next look at the poller turns everything
 * waiting into one chain of work requests, per send its WRITEs (unsignaled) and its SEND (inline,
 * signaled), and rings the doorbell once; the completion of the SEND frees the slots of the send
 * queue that the WRITEs took and calls done(0). A send enters the queue whole or not at all, so
 * unsignaled work is always followed by signaled work and the queue cannot fill up with what nobody
 * will hear of. Happy path of a message: its payload is in place when the completion of its receive
 * is seen, since the peer posted the WRITEs before the SEND; the callback runs, the receive is
 * posted again. Memory is never looked at to learn that something came.
 *
 * Idle: an end that has nothing under way would never learn that its peer is gone, if the words of
 * the connection manager were lost. So after PROBE_NS without a sign of life it writes nothing,
 * zero bytes to nowhere, which the peer's card acknowledges.
 *
 * Failure: of all completions with an error only the first one means something, the rest are
 * flushes. At the end that did wrong nothing, the first one is a flush as well; then the reason may
 * come as an asynchronous event of the device, and REASON_NS is given to it. Sends come back with
 * -ECANCELED as they are flushed, at the latest when the queue pair is gone. Closing: queue pair to
 * ERR, wait for the flushes (DRAIN_NS at most; a dead device sends none), destroy it, deregister
 * the regions, closed(). Destroying is what ends the card's access to memory; the wait only keeps
 * it short.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/transport/addr.h"
#include "mover/transport/rdma_priv.h"

#define POLL_BATCH RDMA_POST_RECVS
/* batches of one look: a connection may not keep the lane for itself */
#define POLL_ROUNDS 4
/* ... and none is begun after so many bytes were looked at, whose CRCs take a while */
#define LOOK_BYTES (4u << 20)
#define POST_BATCH 128			/* work requests of one doorbell */
/* acknowledging completion events takes a lock, so not one by one */
#define ACK_BATCH 64
#define REASON_NS (200 * FM_NS_PER_MS)
#define DRAIN_NS (2 * FM_NS_PER_S)
#define PROBE_NS (5 * FM_NS_PER_S)

_Static_assert(RDMA_PIECES_MAX + 1 <= POST_BATCH, "a send must fit in one doorbell");
_Static_assert(RDMA_PIECES_MAX + 1 <= RDMA_SENDS, "a send must fit in the send queue");

struct post_batch {
	struct ibv_send_wr wr[POST_BATCH];
	struct ibv_sge sge[POST_BATCH];
	unsigned len;
};

static struct rdma_conn *conn_of(const struct fm_conn *conn)
{
	return fm_container_of(conn, struct rdma_conn, conn);
}

/* ---- lists of sends ---- */

static void sends_append(struct rdma_sends *sends, struct fm_send *send)
{
	send->next = NULL;
	if (sends->last)
		sends->last->next = send;
	else
		sends->first = send;
	sends->last = send;
}

static struct fm_send *sends_pop(struct rdma_sends *sends)
{
	struct fm_send *send = sends->first;

	if (send) {
		sends->first = send->next;
		if (!sends->first)
			sends->last = NULL;
	}
	return send;
}

void fm_rdma_cancel_sends(struct rdma_conn *c, struct rdma_sends *list)
{
	/* done() may send again; that one waits for the next time */
	struct rdma_sends sends = *list;
	struct fm_send *send;

	*list = (struct rdma_sends){ NULL, NULL };
	while ((send = sends_pop(&sends))) {
		c->under_way--;
		send->done(send, -ECANCELED);
	}
}

/* ---- breaking ---- */

static void conn_to_err(struct rdma_conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int ret = ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);

	/* What is left is to destroy it, which ends everything as well. */
	if (ret && !c->device->is_dead)
		fm_log_warn("rdma: %s: stop queue pair %u: %s", c->info.local, c->qp->qp_num,
			    fm_err_name(ret));
}

/* The first reason counts, but a sure one replaces a guess that was not told yet. */
static void conn_break(struct rdma_conn *c, const struct fm_err *why, bool is_sure)
{
	if (c->state == RDMA_CLOSING || c->is_reported || c->is_sure)
		return;
	if (c->state == RDMA_LIVE) {
		c->state = RDMA_BROKEN;
		conn_to_err(c);
	} else if (!is_sure) {
		return;
	}
	c->err = *why;
	c->is_sure = is_sure;
	fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop) + (is_sure ? 0 : REASON_NS));
}

static void conn_break_with(struct rdma_conn *c, int code, const char *what)
{
	struct fm_err err;

	if (code == -ENODEV || code == -EIO)
		fm_err_set(&err, -ENODEV, "%s: RDMA device %s failed or was removed", what,
			   c->info.local);
	else
		fm_err_sys(&err, code, "%s", what);
	conn_break(c, &err, true);
}

static void conn_break_by_wc(struct rdma_conn *c, const struct ibv_wc *wc)
{
	struct fm_err err;

	switch (wc->status) {
	case IBV_WC_WR_FLUSH_ERR:
		/* Nothing of ours failed and yet the queue pair is in error: that is the answer to
		 * a bad request. */
		fm_err_set(&err, -EPROTO,
			   "the peer wrote to memory that is not lent to it, or sent something "
			   "invalid");
		conn_break(c, &err, false);
		return;
	case IBV_WC_RETRY_EXC_ERR:
		/* Adapters answer by themselves, whatever their machine is at: the cable is cut, or
		 * that machine is down. */
		fm_err_set(&err, -ENETDOWN, "the peer does not answer (%d tries)",
			   RDMA_ACK_RETRIES + 1);
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		fm_err_set(&err, -EPROTO,
			   "the peer had no receive posted: more was sent than it gave credit for");
		break;
	case IBV_WC_REM_ACCESS_ERR:
		fm_err_set(
			&err, -EACCES,
			"the peer refused a write: the memory is not lent to us, or not any more");
		break;
	case IBV_WC_LOC_LEN_ERR:
		fm_err_set(&err, -EMSGSIZE, "the peer sent a message that is too long");
		break;
	case IBV_WC_LOC_PROT_ERR:
		fm_err_set(&err, -EFAULT,
			   "a payload lies outside the memory lent to the connection");
		break;
	case IBV_WC_FATAL_ERR:
		fm_err_set(&err, -ENODEV, "RDMA device %s failed", c->info.local);
		break;
	default:
		fm_err_set(&err, -EREMOTEIO, "%s (vendor code 0x%x)", ibv_wc_status_str(wc->status),
			   wc->vendor_err);
		break;
	}
	conn_break(c, &err, true);
}

static bool conn_has_link(const struct rdma_conn *c)
{
	struct ibv_port_attr port;

	return ibv_query_port(c->device->verbs, c->id->port_num, &port) != 0 ||
	       port.state == IBV_PORT_ACTIVE;
}

/* Whether the device knows better why the requests were flushed. */
static void conn_refine(struct rdma_conn *c)
{
	switch (atomic_load(&c->async_event)) {
	case IBV_EVENT_QP_ACCESS_ERR:
		fm_err_set(&c->err, -EACCES,
			   "the peer wrote to memory that is not lent to it, or not any more");
		break;
	case IBV_EVENT_QP_REQ_ERR:
		fm_err_set(&c->err, -EPROTO, "the peer sent an invalid request");
		break;
	case IBV_EVENT_QP_FATAL:
		fm_err_set(&c->err, -EIO, "RDMA device %s reported a fatal error of the queue pair",
			   c->info.local);
		break;
	default:
		if (c->device->is_dead)
			fm_err_set(&c->err, -ENODEV, "RDMA device %s failed or was removed",
				   c->info.local);
		else if (!conn_has_link(c))
			fm_err_set(&c->err, -ENETDOWN, "its link is down");
		break;
	}
}

/* ---- receiving ---- */

/* Returns whether the receive is to be posted again. */
static bool conn_recv_done(struct rdma_conn *c, const struct ibv_wc *wc)
{
	unsigned index = (unsigned)(wc->wr_id >> 2);
	struct fm_err err;

	c->recvs_posted--;
	c->is_heard = true;
	if (wc->status != IBV_WC_SUCCESS) {
		conn_break_by_wc(c, wc);
		return false;
	}
	if (c->state != RDMA_LIVE)
		return false;
	if (wc->opcode != IBV_WC_RECV || wc->byte_len != FM_DATA_MSG_LEN) {
		fm_err_set(&err, -EPROTO, "the peer sent a message of %u bytes, not %d",
			   wc->byte_len, FM_DATA_MSG_LEN);
		conn_break(c, &err, true);
		return false;
	}
	c->events->message(c->ctx, c->msgs + index * (size_t)FM_DATA_MSG_LEN);
	return c->state == RDMA_LIVE;
}

/* ---- sending ---- */

static unsigned conn_wrs_of(const struct rdma_conn *c, const struct fm_send *send)
{
	return send->payload ? (send->payload_len - 1) / c->piece + 2 : 1;
}

static struct ibv_send_wr *batch_add(struct post_batch *batch, uint64_t addr, uint32_t len,
				     uint32_t lkey)
{
	unsigned i = batch->len++;
	struct ibv_send_wr *wr = &batch->wr[i];

	batch->sge[i] = (struct ibv_sge){ .addr = addr, .length = len, .lkey = lkey };
	*wr = (struct ibv_send_wr){ .sg_list = &batch->sge[i], .num_sge = 1 };
	if (i > 0)
		batch->wr[i - 1].next = wr;
	return wr;
}

static void conn_batch_payload(struct rdma_conn *c, struct post_batch *batch, struct fm_send *send)
{
	for (uint32_t at = 0, len; at < send->payload_len; at += len) {
		struct ibv_send_wr *wr;

		len = send->payload_len - at < c->piece ? send->payload_len - at : c->piece;
		wr = batch_add(batch, (uintptr_t)send->payload + at, len, send->region->lkey);
		wr->wr_id = (uintptr_t)send | RDMA_WR_WRITE;
		wr->opcode = IBV_WR_RDMA_WRITE;
		wr->wr.rdma.remote_addr = send->remote + at;
		wr->wr.rdma.rkey = send->rkey;
	}
}

static void conn_batch_message(struct rdma_conn *c, struct post_batch *batch, struct fm_send *send)
{
	const uint8_t *msg = send->msg;
	struct ibv_send_wr *wr;

	if (!c->is_inline) {
		/* At most FM_DATA_MSGS_MAX are under way and they end in order, so the oldest
		 * buffer is free. */
		uint8_t *copy = c->msgs + (RDMA_RECVS + c->msg_next++ % FM_DATA_MSGS_MAX) *
						  (size_t)FM_DATA_MSG_LEN;

		memcpy(copy, send->msg, FM_DATA_MSG_LEN);
		msg = copy;
	}
	wr = batch_add(batch, (uintptr_t)msg, FM_DATA_MSG_LEN, c->msgs_mr->lkey);
	wr->wr_id = (uintptr_t)send | RDMA_WR_SEND;
	wr->opcode = IBV_WR_SEND;
	wr->send_flags = IBV_SEND_SIGNALED | (c->is_inline ? IBV_SEND_INLINE : 0);
}

/* Move as many sends as fit from waiting to posted. */
static void conn_fill_batch(struct rdma_conn *c, struct post_batch *batch)
{
	struct fm_send *send;

	batch->len = 0;
	while ((send = c->waiting.first)) {
		unsigned wrs = conn_wrs_of(c, send);

		if (batch->len + wrs > POST_BATCH || c->wrs_posted + wrs > RDMA_SENDS)
			break;
		sends_append(&c->posted, sends_pop(&c->waiting));
		if (send->payload)
			conn_batch_payload(c, batch, send);
		conn_batch_message(c, batch, send);
		send->posted = wrs;
		c->wrs_posted += wrs;
	}
}

/* Returns whether anything was posted. */
static bool conn_flush(struct rdma_conn *c)
{
	struct ibv_send_wr *bad;
	struct post_batch batch;
	bool has_posted = false;
	int ret;

	while (c->state == RDMA_LIVE && c->waiting.first) {
		conn_fill_batch(c, &batch);
		if (batch.len == 0)
			break;
		ret = FM_FAULT("rdma.post_send") ? ENOMEM : ibv_post_send(c->qp, batch.wr, &bad);
		/* those that were not taken come back when the queue pair is gone */
		if (ret)
			conn_break_with(c, -ret, "post a send");
		has_posted = true;
	}
	return has_posted;
}

static void conn_send_done(struct rdma_conn *c, const struct ibv_wc *wc)
{
	bool is_good = wc->status == IBV_WC_SUCCESS && c->state == RDMA_LIVE;
	struct fm_send *send;

	c->is_heard = true;
	if (wc->status != IBV_WC_SUCCESS)
		conn_break_by_wc(c, wc);
	if ((wc->wr_id & RDMA_WR_KIND_MASK) == RDMA_WR_PROBE) {
		c->is_probing = false;
		c->wrs_posted--;
	}
	if ((wc->wr_id & RDMA_WR_KIND_MASK) != RDMA_WR_SEND)
		return;
	send = sends_pop(&c->posted);
	assert(send && (uintptr_t)send == wc->wr_id);
	c->wrs_posted -= send->posted;
	c->under_way--;
	send->done(send, is_good ? 0 : -ECANCELED);
}

/* A write of nothing needs no memory at either end, and no receive. */
static void conn_probe(struct rdma_conn *c)
{
	struct ibv_send_wr wr = {.wr_id = RDMA_WR_PROBE,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int ret;

	fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop) + PROBE_NS);
	if (!c->is_heard && !c->is_probing && c->wrs_posted == 0) {
		ret = FM_FAULT("rdma.post_send") ? ENOMEM : ibv_post_send(c->qp, &wr, &bad);
		if (ret) {
			conn_break_with(c, -ret, "post a probe");
			return;
		}
		c->is_probing = true;
		c->wrs_posted++;
	}
	c->is_heard = false;
}

/* ---- the completion queue ---- */

static void conn_complete(struct rdma_conn *c, const struct ibv_wc *wc, unsigned count)
{
	unsigned again[POLL_BATCH], again_len = 0;
	int ret;

	for (unsigned i = 0; i < count; i++) {
		if ((wc[i].wr_id & RDMA_WR_KIND_MASK) != RDMA_WR_RECV)
			conn_send_done(c, &wc[i]);
		else if (conn_recv_done(c, &wc[i]))
			again[again_len++] = (unsigned)(wc[i].wr_id >> 2);
	}
	if (again_len == 0 || c->state != RDMA_LIVE)
		return;
	ret = fm_rdma_post_recvs(c, again, again_len);
	if (ret < 0)
		conn_break_with(c, ret, "post receives");
}

static bool conn_poll_cq(struct rdma_conn *c, unsigned rounds, uint64_t bytes)
{
	uint64_t looked_before = c->conn.looked;
	struct ibv_wc wc[POLL_BATCH];
	bool has_found = false;
	int n;

	do {
		n = FM_FAULT("rdma.poll_cq") ? -1 : ibv_poll_cq(c->cq, POLL_BATCH, wc);
		if (n < 0)
			conn_break_with(c, -EIO, "completion queue");
		if (n <= 0)
			break;
		has_found = true;
		conn_complete(c, wc, (unsigned)n);
	} while (--rounds > 0 && c->conn.looked - looked_before < bytes);
	return has_found;
}

static void conn_settle(struct rdma_conn *c)
{
	/*
	 * Whether a peer is about to write cannot be known; with memory lent it may be. The loop
	 * bounds the spinning.
	 */
	c->poller.is_busy = c->under_way > 0 || c->rx_regions > 0 || c->state == RDMA_CLOSING;
	if (c->state == RDMA_CLOSING && !c->posted.first && c->recvs_posted == 0)
		fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop));
}

static bool conn_poll(struct fm_poller *poller)
{
	struct rdma_conn *c = fm_container_of(poller, struct rdma_conn, poller);
	bool has_found;

	has_found = conn_poll_cq(c, POLL_ROUNDS, LOOK_BYTES);
	has_found |= conn_flush(c);
	conn_settle(c);
	return has_found;
}

/* What comes after arming makes an event; what came before is seen by looking once more. So none is
 * lost. */
static bool conn_before_sleep(struct fm_poller *poller)
{
	struct rdma_conn *c = fm_container_of(poller, struct rdma_conn, poller);
	int ret;

	if (c->is_armed)
		return false;
	ret = FM_FAULT("rdma.notify") ? EIO : ibv_req_notify_cq(c->cq, 0);
	if (ret) {
		conn_break_with(c, -ret, "completion queue");
		return false;
	}
	c->is_armed = true;
	return conn_poll(poller);
}

static void conn_comp_ready(struct fm_watch *watch, uint32_t events)
{
	struct rdma_conn *c = fm_container_of(watch, struct rdma_conn, comp_watch);
	struct ibv_cq *cq;
	void *ctx;

	(void)events;
	if (ibv_get_cq_event(c->comp, &cq, &ctx) < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		fm_watch_del(c->loop, &c->comp_watch);
		conn_break_with(c, -errno, "completion event");
		return;
	}
	c->is_armed = false;
	if (++c->events_unacked == ACK_BATCH) {
		ibv_ack_cq_events(c->cq, c->events_unacked);
		c->events_unacked = 0;
	}
}

/* ---- the connection manager, once attached ---- */

static void conn_note(struct rdma_conn *c, const struct rdma_note *note)
{
	struct fm_err err;

	switch (note->type) {
	case RDMA_CM_EVENT_DISCONNECTED:
		/* what it sent before comes first */
		(void)conn_poll_cq(c, RDMA_RECVS / POLL_BATCH + 1, UINT64_MAX);
		fm_err_set(&err, -ECONNRESET, "the peer closed the connection");
		/* If our end went into error by itself before, the peer's going is not the
		 * reason. */
		conn_break(c, &err, c->state == RDMA_LIVE && atomic_load(&c->async_event) == 0);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		c->device->is_dead = true;
		conn_break_with(c, -ENODEV, "connection manager");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		fm_err_set(&err, -ENETDOWN, "address %s moved to another device",
			   c->info.local_addr);
		conn_break(c, &err, true);
		break;
	/* only tells that the far end's number may be used again */
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	default:
		break;
	}
}

static void conn_cm_ready(struct fm_watch *watch, uint32_t events)
{
	struct rdma_conn *c = fm_container_of(watch, struct rdma_conn, cm_watch);
	struct rdma_note note;
	int ret;

	(void)events;
	while ((ret = fm_rdma_next_note(c->channel, &note)) == 0)
		conn_note(c, &note);
	if (ret != -EAGAIN) {
		fm_watch_del(c->loop, &c->cm_watch);
		conn_break_with(c, ret, "connection manager");
	}
}

/* ---- end ---- */

static void conn_close_step(struct rdma_conn *c)
{
	const struct fm_conn_events *events = c->events;
	void *ctx = c->ctx;
	bool is_drained = !c->posted.first && c->recvs_posted == 0;

	fm_rdma_cancel_sends(c, &c->waiting);
	if (!is_drained && !c->device->is_dead && fm_loop_now(c->loop) < c->drain_ns) {
		fm_timer_set(c->loop, &c->timer, c->drain_ns);
		return;
	}
	if (!is_drained && !c->device->is_dead)
		fm_log_warn("rdma: %s: queue pair %u was not flushed in time", c->info.local,
			    c->qp->qp_num);
	fm_rdma_conn_free(c);
	events->closed(ctx);
}

static void conn_timer(struct fm_timer *timer)
{
	struct rdma_conn *c = fm_container_of(timer, struct rdma_conn, timer);

	if (c->state == RDMA_CLOSING) {
		conn_close_step(c);
		return;
	}
	if (c->state == RDMA_LIVE) {
		conn_probe(c);
		return;
	}
	assert(c->state == RDMA_BROKEN);
	fm_rdma_cancel_sends(c, &c->waiting);
	if (c->state != RDMA_BROKEN || c->is_reported)	/* done() may have closed it */
		return;
	if (!c->is_sure)
		conn_refine(c);
	fm_err_wrap(&c->err, "%s to %s", c->info.local, c->info.remote_addr);
	c->is_reported = true;
	c->events->failed(c->ctx, &c->err);
}

/* ---- struct fm_conn_ops ---- */

static void op_attach(struct fm_conn *conn, struct fm_loop *loop,
		      const struct fm_conn_events *events, void *ctx)
{
	struct rdma_conn *c = conn_of(conn);
	struct fm_err err;

	assert(c->state == RDMA_READY && events && !c->events);
	c->loop = loop;
	c->events = events;
	c->ctx = ctx;
	c->state = RDMA_LIVE;
	c->timer.fire = conn_timer;
	c->cm_watch =
		(struct fm_watch){.ready = conn_cm_ready, .fd = c->channel->fd, .events = EPOLLIN};
	c->comp_watch =
		(struct fm_watch){.ready = conn_comp_ready, .fd = c->comp->fd, .events = EPOLLIN};
	c->poller = (struct fm_poller){ .poll = conn_poll, .before_sleep = conn_before_sleep };
	fm_poller_add(loop, &c->poller);
	fm_timer_set(loop, &c->timer, fm_loop_now(loop) + PROBE_NS);
	if (fm_watch_add(loop, &c->cm_watch, &err) < 0 ||
	    fm_watch_add(loop, &c->comp_watch, &err) < 0)
		conn_break(c, &err, true);
}

static int op_lend(struct fm_conn *conn, void *memory, size_t len, bool is_rx,
		   struct fm_region *out, struct fm_err *err)
{
	struct rdma_conn *c = conn_of(conn);
	int ret;

	if (c->state != RDMA_READY && c->state != RDMA_LIVE)
		return fm_err_set(err, -ENOTCONN, "the connection is broken");
	ret = fm_rdma_lend(c, memory, len, is_rx, out, err);
	if (ret < 0)
		return ret;
	c->rx_regions += is_rx;
	return 0;
}

static void op_take_back(struct fm_conn *conn, struct fm_region *region)
{
	struct rdma_conn *c = conn_of(conn);
	struct rdma_region *r = region->handle;

	assert(r);
	c->rx_regions -= r->is_rx;
	fm_rdma_take_back(c, r);
	region->handle = NULL;
}

static struct fm_lender *op_lender(struct fm_conn *conn)
{
	return fm_rdma_lender(conn_of(conn)->domain_pd);
}

static void op_send(struct fm_conn *conn, struct fm_send *send)
{
	struct rdma_conn *c = conn_of(conn);

	assert(c->state == RDMA_LIVE || c->state == RDMA_BROKEN);
	assert(c->under_way < FM_DATA_MSGS_MAX);
	if (send->payload) {
		assert(send->payload_len > 0 && conn_wrs_of(c, send) <= RDMA_PIECES_MAX + 1);
		assert((const uint8_t *)send->payload >= (const uint8_t *)send->region->memory);
		assert((const uint8_t *)send->payload + send->payload_len <=
		       (const uint8_t *)send->region->memory + send->region->len);
	}
	c->under_way++;
	c->poller.is_busy = true;
	sends_append(&c->waiting, send);
	if (c->state == RDMA_BROKEN && !fm_timer_is_set(&c->timer))
		fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop));
}

static void op_close(struct fm_conn *conn)
{
	struct rdma_conn *c = conn_of(conn);

	if (c->state == RDMA_READY) {
		fm_rdma_conn_free(c);
		return;
	}
	assert(c->state == RDMA_LIVE || c->state == RDMA_BROKEN);
	if (c->state == RDMA_LIVE)
		conn_to_err(c);
	c->state = RDMA_CLOSING;
	c->poller.is_busy = true;
	(void)rdma_disconnect(c->id);	/* fails when the peer was faster */
	c->drain_ns = fm_loop_now(c->loop) + DRAIN_NS;
	fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop));
}

static const struct fm_conn_info *op_info(const struct fm_conn *conn)
{
	return &conn_of(conn)->info;
}

const struct fm_conn_ops fm_rdma_conn_ops = {
	.attach = op_attach,
	.lend = op_lend,
	.take_back = op_take_back,
	.lender = op_lender,
	.send = op_send,
	.close = op_close,
	.info = op_info,
};

