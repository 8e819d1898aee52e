/* SPDX-License-Identifier: MIT */
/*
 * rdma_qp - making a queue pair and what belongs to it (completion queue, message buffers), and
 * ending them.
 *
 * On the control loop, except for the end, which is on the lane's once the connection is attached.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/transport/addr.h"
#include "mover/transport/rdma_priv.h"

#define MSGS_ALIGN 4096
#define MSGS_LEN ((RDMA_RECVS + FM_DATA_MSGS_MAX) * (size_t)FM_DATA_MSG_LEN)

/*
 * Receives are posted before the peer is allowed to send (credits), so "receiver not ready" is a
 * bug, not something to wait out.
 */
#define RNR_RETRIES 0

_Static_assert(MSGS_LEN % MSGS_ALIGN == 0, "aligned_alloc wants a multiple");
_Static_assert(MSGS_LEN + (RDMA_SENDS + RDMA_RECVS) * 128 <= FM_RDMA_DATA_BYTES,
	       "messages, and an entry in a ring and in the completion queue for each");
_Static_assert(RDMA_RECVS % RDMA_POST_RECVS == 0, "receives are posted by whole batches");
_Static_assert((UINT64_C(4096) << RDMA_ACK_TIMEOUT) * (RDMA_ACK_RETRIES + 1) <= 2 * FM_NS_PER_S,
	       "a silent peer is noticed within seconds");

int fm_rdma_post_recvs(struct rdma_conn *c, const unsigned *index, unsigned count)
{
	struct ibv_recv_wr wr[RDMA_POST_RECVS], *bad = NULL;
	struct ibv_sge sge[RDMA_POST_RECVS];
	int ret;

	assert(count > 0 && count <= RDMA_POST_RECVS);
	for (unsigned i = 0; i < count; i++) {
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)(c->msgs + index[i] * (size_t)FM_DATA_MSG_LEN),
			.length = FM_DATA_MSG_LEN,
			.lkey = c->msgs_mr->lkey,
		};
		wr[i] = (struct ibv_recv_wr){
			.wr_id = ((uint64_t)index[i] << 2) | RDMA_WR_RECV,
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
		};
	}
	c->recvs_posted += count;
	ret = FM_FAULT("rdma.post_recv") ? ENOMEM : ibv_post_recv(c->qp, wr, &bad);
	if (ret) {
		c->recvs_posted -= bad ? count - (unsigned)(bad - wr) : count;
		return -ret;
	}
	return 0;
}

static int qp_make_cq(struct rdma_conn *c, struct fm_err *err)
{
	struct ibv_context *verbs = c->device->verbs;
	int vector, ret;

	c->comp = FM_FAULT("rdma.comp_channel") ? (errno = EMFILE, NULL)
						: ibv_create_comp_channel(verbs);
	if (!c->comp)
		return fm_err_sys(err, -errno, "create completion channel");
	ret = fm_rdma_set_nonblocking(c->comp->fd);
	if (ret < 0)
		return fm_err_sys(err, ret, "completion channel");
	vector = (int)(c->device->vector_next++ % (unsigned)verbs->num_comp_vectors);
	c->cq = FM_FAULT("rdma.cq")
			? (errno = ENOMEM, NULL)
			: ibv_create_cq(verbs, RDMA_SENDS + RDMA_RECVS, NULL, c->comp, vector);
	if (!c->cq)
		return fm_err_sys(err, -errno, "create completion queue of %d",
				  RDMA_SENDS + RDMA_RECVS);
	return 0;
}

/* A queue pair's rings are the device's library's, which takes them where it likes. */
static int qp_take_memory(struct rdma_conn *c, struct fm_err *err)
{
	c->has_memory = !FM_FAULT("rdma.memory") && fm_budget_take(FM_RDMA_DATA_BYTES);
	return c->has_memory ? 0 : fm_err_set(err, -ENOMEM, "no memory for a connection");
}

static int qp_make_msgs(struct rdma_conn *c, struct fm_err *err)
{
	c->msgs = FM_FAULT("rdma.msgs") ? NULL : aligned_alloc(MSGS_ALIGN, MSGS_LEN);
	if (!c->msgs)
		return fm_err_set(err, -ENOMEM, "allocate message buffers");
	memset(c->msgs, 0, MSGS_LEN);
	c->msgs_mr = FM_FAULT("rdma.msgs_mr")
			     ? (errno = ENOMEM, NULL)
			     : ibv_reg_mr(c->pd, c->msgs, MSGS_LEN, IBV_ACCESS_LOCAL_WRITE);
	if (!c->msgs_mr)
		return fm_err_sys(err, -errno, "register message buffers (RLIMIT_MEMLOCK?)");
	return 0;
}

/* Inline if the device can; the message then needs no read of host memory by the card. */
static int qp_make_qp(struct rdma_conn *c, struct fm_err *err)
{
	struct ibv_qp_init_attr init = {
		.qp_context = c,
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = RDMA_SENDS,
			.max_recv_wr = RDMA_RECVS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = FM_DATA_MSG_LEN,
		},
	};
	struct ibv_qp_init_attr want = init;

	c->qp = FM_FAULT("rdma.qp_inline") ? NULL : ibv_create_qp(c->pd, &want);
	if (!c->qp) {
		want = init;
		want.cap.max_inline_data = 0;
		c->qp = FM_FAULT("rdma.qp") ? (errno = ENOMEM, NULL) : ibv_create_qp(c->pd, &want);
	}
	if (!c->qp)
		return fm_err_sys(err, -errno, "create queue pair of %d + %d requests", RDMA_SENDS,
				  RDMA_RECVS);
	c->is_inline = want.cap.max_inline_data >= FM_DATA_MSG_LEN;
	pthread_mutex_lock(&c->device->lock);
	fm_list_append(&c->device->qps, &c->device_at);
	pthread_mutex_unlock(&c->device->lock);
	return 0;
}

/* The connection manager knows the addresses; what it leaves to chance, or to the peer, is set
 * here. */
static int qp_modify(struct rdma_conn *c, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		     struct fm_err *err)
{
	static const char *const names[] = { "INIT", "RTR", "RTS" };
	int mask = 0, ret;

	assert(state >= IBV_QPS_INIT && state <= IBV_QPS_RTS);
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (FM_FAULT("rdma.init_attr") ? (errno = EINVAL, true)
				       : rdma_init_qp_attr(c->id, attr, &mask) != 0)
		return fm_err_sys(err, -errno, "queue pair to %s: attributes",
				  names[state - IBV_QPS_INIT]);
	/* nobody reads here, nor does atomics */
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (attr->path_mtu > c->mtu)
		attr->path_mtu = c->mtu;
	attr->timeout = RDMA_ACK_TIMEOUT;
	attr->retry_cnt = RDMA_ACK_RETRIES;
	attr->rnr_retry = RNR_RETRIES;
	ret = FM_FAULT("rdma.modify_qp") ? EINVAL : ibv_modify_qp(c->qp, attr, mask);
	if (ret)
		return fm_err_sys(err, -ret, "queue pair to %s", names[state - IBV_QPS_INIT]);
	return 0;
}

static int qp_post_recvs(struct rdma_conn *c, struct fm_err *err)
{
	unsigned index[RDMA_POST_RECVS];
	int ret;

	for (unsigned at = 0; at < RDMA_RECVS; at += RDMA_POST_RECVS) {
		for (unsigned i = 0; i < RDMA_POST_RECVS; i++)
			index[i] = at + i;
		ret = fm_rdma_post_recvs(c, index, RDMA_POST_RECVS);
		if (ret < 0)
			return fm_err_sys(err, ret, "post receives");
	}
	return 0;
}

static int qp_query_port(struct rdma_conn *c, struct fm_err *err)
{
	struct ibv_port_attr port;
	int ret;

	ret = FM_FAULT("rdma.query_port")
		      ? EIO
		      : ibv_query_port(c->device->verbs, c->id->port_num, &port);
	if (ret)
		return fm_err_sys(err, -ret, "query port %u of %s", c->id->port_num, c->info.local);
	c->mtu = port.active_mtu;
	c->piece = port.max_msg_sz < RDMA_PIECE ? port.max_msg_sz : RDMA_PIECE;
	return 0;
}

int fm_rdma_qp_new(struct rdma_conn *c, struct fm_err *err)
{
	struct ibv_qp_attr attr;
	const char *name = ibv_get_device_name(c->id->verbs->device);
	int ret;

	snprintf(c->info.local, sizeof(c->info.local), "%s", name);
	ret = fm_rdma_device_get(c->rdma, name, &c->device, err);
	if (ret < 0)
		return ret;
	atomic_fetch_add(&c->device->users, 1);
	ret = fm_rdma_domain_pd(c->domain, c->device, &c->domain_pd, err);
	if (ret < 0)
		return ret;
	c->pd = c->domain_pd->pd;
	ret = qp_query_port(c, err);
	if (ret < 0)
		return ret;
	ret = qp_take_memory(c, err);
	if (ret < 0)
		return ret;
	ret = qp_make_cq(c, err);
	if (ret < 0)
		return ret;
	ret = qp_make_msgs(c, err);
	if (ret < 0)
		return ret;
	ret = qp_make_qp(c, err);
	if (ret < 0)
		return ret;
	ret = qp_modify(c, IBV_QPS_INIT, &attr, err);
	if (ret < 0)
		return ret;
	return qp_post_recvs(c, err);
}

/* "RoCE v1" is what a ConnectX-3 speaks; a network that routes needs v2. */
static const char *qp_roce_version(struct rdma_conn *c, const struct ibv_qp_attr *rtr)
{
	struct ibv_gid_entry gid;

	if (ibv_query_gid_ex(c->device->verbs, c->id->port_num, rtr->ah_attr.grh.sgid_index, &gid,
			     0))
		return "RDMA";
	switch (gid.gid_type) {
	case IBV_GID_TYPE_ROCE_V2:
		return c->mtu < IBV_MTU_4096 ? "RoCE v2, short frames: an MTU of 1500 on an "
					       "interface? 9000 carries more"
					     : "RoCE v2";
	case IBV_GID_TYPE_ROCE_V1:
		return c->mtu < IBV_MTU_4096 ? "RoCE v1, short frames: an MTU of 1500 on an "
					       "interface? 9000 carries more"
					     : "RoCE v1";
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	default:
		return "RDMA";
	}
}

int fm_rdma_qp_connect(struct rdma_conn *c, enum ibv_mtu mtu_max, struct fm_err *err)
{
	struct ibv_qp_attr attr;
	int ret;

	if (mtu_max < c->mtu)
		c->mtu = mtu_max;
	ret = qp_modify(c, IBV_QPS_RTR, &attr, err);
	if (ret < 0)
		return ret;
	c->mtu = attr.path_mtu;
	c->info.note = qp_roce_version(c, &attr);
	return qp_modify(c, IBV_QPS_RTS, &attr, err);
}

static void qp_text_addr(struct sockaddr_storage *sa, char *out)
{
	fm_addr_unmap(sa);
	fm_addr_text(sa, out);
}

void fm_rdma_qp_ready(struct rdma_conn *c)
{
	_Static_assert(sizeof(c->info.local_addr) >= FM_ADDR_TEXT_MAX, "an address must fit");
	c->info.kind = FM_KIND_RDMA;
	qp_text_addr(&c->id->route.addr.src_storage, c->info.local_addr);
	qp_text_addr(&c->id->route.addr.dst_storage, c->info.remote_addr);
	c->info.mtu = 128u << c->mtu;
	c->info.speed_mbps =
		fm_rdma_port_speed(ibv_get_device_name(c->id->verbs->device), c->id->port_num);
	c->conn.ops = &fm_rdma_conn_ops;
	c->state = RDMA_READY;
}

/* ---- the end ---- */

static void qp_destroy(struct rdma_conn *c)
{
	int ret;

	if (!c->qp)
		return;
	pthread_mutex_lock(&c->device->lock);
	fm_list_del(&c->device_at);
	pthread_mutex_unlock(&c->device->lock);
	ret = ibv_destroy_qp(c->qp);
	if (ret && !c->device->is_dead)
		fm_log_error("rdma: %s: destroy a queue pair: %s", c->info.local, fm_err_name(ret));
	c->qp = NULL;
}

static void cq_destroy(struct rdma_conn *c)
{
	int ret;

	if (!c->cq)
		return;
	if (c->events_unacked > 0)	/* it would wait for them */
		ibv_ack_cq_events(c->cq, c->events_unacked);
	ret = ibv_destroy_cq(c->cq);
	if (ret && !c->device->is_dead)
		fm_log_error("rdma: %s: destroy a completion queue: %s", c->info.local,
			     fm_err_name(ret));
	c->cq = NULL;
}

void fm_rdma_conn_release(struct rdma_conn *c)
{
	fm_watch_del(c->loop, &c->cm_watch);
	if (c->events) {
		fm_watch_del(c->loop, &c->comp_watch);
		fm_poller_del(c->loop, &c->poller);
	}
	qp_destroy(c);
	fm_rdma_cancel_sends(c, &c->posted);
	fm_rdma_cancel_sends(c, &c->waiting);
	fm_list_each(at, next, &c->regions)
		fm_rdma_take_back(c, fm_container_of(at, struct rdma_region, link));
	cq_destroy(c);
	if (c->comp)
		ibv_destroy_comp_channel(c->comp);
	c->comp = NULL;
	if (c->msgs_mr)
		ibv_dereg_mr(c->msgs_mr);
	c->msgs_mr = NULL;
	free(c->msgs);
	c->msgs = NULL;
	if (c->has_memory)
		fm_budget_give(FM_RDMA_DATA_BYTES);
	c->has_memory = false;
	if (c->id)
		fm_rdma_id_destroy(c->id);		/* tells the peer, if it was not told */
	c->id = NULL;
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	c->channel = NULL;
}

void fm_rdma_conn_free(struct rdma_conn *c)
{
	fm_rdma_conn_release(c);
	fm_timer_clear(c->loop, &c->timer);
	fm_list_del(&c->half);
	if (c->device)
		atomic_fetch_sub(&c->device->users, 1);
	atomic_fetch_sub(&c->rdma->conns, 1);
	free(c);
}
