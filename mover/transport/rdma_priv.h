/* SPDX-License-Identifier: MIT */
/*
 * rdma_priv - what the RDMA files share: rdma_cm.c (set-up), rdma_qp.c (queue pairs), rdma_conn.c
 * (what goes over them), rdma_mem.c (devices, protection domains, regions).
 *
 * Devices and domains belong to the control loop. A connection belongs to the control loop until it
 * is attached, then to its lane's loop; nothing of it is locked. What both sides touch is atomic.
 */
#ifndef FM_TRANSPORT_RDMA_PRIV_H
#define FM_TRANSPORT_RDMA_PRIV_H

#include <pthread.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/transport/rdma.h"
#include "mover/transport/transport.h"

/* opened in the life of the process; one that went and came back counts twice */
#define RDMA_DEVICES_MAX 64
#define RDMA_HALF_MAX 64	/* connections being accepted at once */
#define RDMA_BACKLOG 128
#define RDMA_LOOK_NS (2 * FM_NS_PER_S)		/* for devices that went */
#define RDMA_MISSING_NS (4 * FM_NS_PER_S)	/* for the first one */
#define RDMA_PRIVATE_MAX 56	/* private data of a connection request */

/*
 * Twice the messages that may be under way: a sender learns that its message left from our card,
 * not from us, so the next ones can come before the receives of the last were posted again.
 */
#define RDMA_RECVS (2 * FM_DATA_MSGS_MAX)

/* Work requests of the send queue: each message is one SEND and one WRITE per RDMA_PIECE of
 * payload. */
#define RDMA_SENDS (2 * FM_DATA_MSGS_MAX)
#define RDMA_PIECE (1u << 20)
#define RDMA_PIECES_MAX 64u
#define RDMA_POST_RECVS 32	/* receives posted, completions taken, at once */

/*
 * 4.096 us * 2^16 = 0.27 s, seven times: a silent peer is noticed after 1.9 s (some cards wait up
 * to four times longer). Not 7 retries, which is the most there can be: soft-RoCE takes that for
 * endless.
 */
#define RDMA_ACK_TIMEOUT 16
#define RDMA_ACK_RETRIES 6

/* The low bits of a wr_id tell what it is; the rest is the fm_send, or the number of the receive
 * buffer, or nothing. */
enum rdma_wr_kind {
	RDMA_WR_SEND,
	RDMA_WR_WRITE,
	RDMA_WR_RECV,
	RDMA_WR_PROBE,
	RDMA_WR_KIND_MASK = 3
};

struct rdma_device {
	struct fm_list link;
	struct fm_rdma *rdma;
	struct ibv_context *verbs;
	struct fm_watch async;
	unsigned vector_next;
	_Atomic bool is_dead;		/* unplugged: kept as long as connections point to it */
	_Atomic unsigned users;		/* that point to it: connections, and who has a lender */
	pthread_mutex_t lock;		/* of qps */
	struct fm_list qps;		/* rdma_conn.device_at of those that have one */
};

/* Of one domain on one device. */
struct rdma_pd {
	struct fm_list link;		/* domain->pds, as long as the domain is there */
	struct fm_lender lender;
	_Atomic unsigned refs;		/* the domain's, and one for each that has the lender */
	struct rdma_device *device;
	struct ibv_pd *pd;
};

struct fm_rdma_domain {
	struct fm_list link;		/* of rdma->domains */
	struct fm_rdma *rdma;
	struct fm_list pds;
};

struct rdma_region {
	struct fm_list link;
	struct ibv_mr *mr;
	bool is_rx;
};

/* What a half-made connection waits for. */
enum rdma_step { RDMA_STEP_ADDR, RDMA_STEP_ROUTE, RDMA_STEP_CONNECT, RDMA_STEP_ACCEPT };

enum rdma_state {
	RDMA_HALF,			/* being set up, or failed at it and about to say so */
	RDMA_READY,			/* established, not attached */
	RDMA_LIVE,
	RDMA_BROKEN,			/* failed() was called, or will be when the timer fires */
	RDMA_CLOSING,			/* draining; closed() follows */
};

struct rdma_sends {
	struct fm_send *first;
	struct fm_send *last;
};

struct rdma_conn {
	struct fm_conn conn;
	struct fm_rdma *rdma;
	enum rdma_state state;
	struct fm_loop *loop;		/* control, then the lane's */
	/* half-made: deadline; attached: probes, reports, end of draining */
	struct fm_timer timer;

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct fm_watch cm_watch;

	/* Set-up. */
	struct fm_list half;
	enum rdma_step step;
	bool is_dialled;
	bool is_failed;			/* err says why; the timer reports it */
	struct fm_data_dial dial;
	struct fm_rdma_domain *domain;
	void *tag;
	struct fm_err err;		/* of the set-up, later of the connection */

	/* Queue pair. */
	struct rdma_device *device;	/* counted there until the connection is freed */
	struct fm_list device_at;
	struct rdma_pd *domain_pd;	/* the domain's */
	struct ibv_pd *pd;		/* of that */
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *msgs_mr;
	bool has_memory;			/* of the budget */
	/* RDMA_RECVS messages received, then FM_DATA_MSGS_MAX to send if not inline */
	uint8_t *msgs;
	enum ibv_mtu mtu;		/* of the port, then of the path */
	uint32_t piece;			/* most bytes of one WRITE */
	bool is_inline;
	struct fm_conn_info info;

	/* Attached. */
	const struct fm_conn_events *events;
	void *ctx;
	struct fm_watch comp_watch;
	struct fm_poller poller;
	bool is_armed;			/* a notification was asked for and has not come */
	bool is_sure;			/* err is the reason, not a guess */
	bool is_reported;		/* failed() was called */
	bool is_heard;			/* something completed since the timer looked last */
	bool is_probing;		/* a write of nothing is under way */
	unsigned events_unacked;
	struct rdma_sends waiting;	/* not in the send queue yet */
	struct rdma_sends posted;	/* in the send queue, oldest first */
	unsigned under_way;		/* both */
	unsigned wrs_posted;		/* work requests in the send queue */
	unsigned recvs_posted;
	unsigned msg_next;		/* next of the buffers for messages that are not inline */
	unsigned rx_regions;
	struct fm_list regions;
	uint64_t drain_ns;		/* when to stop waiting for flushes */

	/* Written by the control loop when the device reports something about the queue pair; 0:
	 * nothing. */
	_Atomic int async_event;
};

struct fm_rdma {
	struct fm_loop *loop;
	uint16_t port;
	uint8_t dscp;
	char missing[FM_ERR_TEXT_MAX];		/* why there is no RDMA here; empty: there is */
	/* for fm_rdma_is_rail(); never has an event. NULL: missing */
	struct rdma_event_channel *probe;
	struct rdma_event_channel *channel;	/* the listener's */
	/* NULL: not started, or it failed and is made anew */
	struct rdma_cm_id *listener;
	struct fm_watch listen_watch;
	struct fm_timer listen_timer;
	struct fm_log_limit lines;		/* of others' connections that did not come about */
	uint64_t listen_pause_ns;		/* after the next failure */
	char listen_why[FM_ERR_TEXT_MAX];	/* why there is none; empty: there is */
	const struct fm_net_events *events;
	void *ctx;
	struct fm_list devices;
	struct fm_list domains;
	struct fm_timer look;			/* for devices that went away; for the first one */
	unsigned device_count;
	unsigned domain_count;
	struct fm_list half;			/* both dialled and accepted, oldest first */
	_Atomic unsigned conns;
	_Atomic unsigned lenders;	/* references that others have */
	_Atomic uint64_t bytes_registered;
};

/*
 * One event of the connection manager, acknowledged already: an id with events not acknowledged
 * cannot be destroyed.
 */
struct rdma_note {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	size_t data_len;
	uint8_t data[RDMA_PRIVATE_MAX];
};

/* ---- rdma_cm.c ---- */

/* 0, -EAGAIN when there is none, or a negative errno: the channel is dead. */
int fm_rdma_next_note(struct rdma_event_channel *channel, struct rdma_note *out);

void fm_rdma_id_destroy(struct rdma_cm_id *id);

/* Connections being accepted; of: of this session alone, NULL: of all. */
unsigned fm_rdma_accepting(const struct fm_rdma *rdma, const struct fm_rdma_domain *of);

/* The oldest of them, of the session that has most, if it has more than that one. NULL: none
 * has. */
struct rdma_conn *fm_rdma_find_crowd(const struct fm_rdma *rdma, const struct fm_rdma_domain *by);

/* ---- rdma_mem.c ---- */

/* Open every device. -ENODEV if none can be opened; the text says why. */
int fm_rdma_devices_open(struct fm_rdma *rdma, struct fm_err *err);
void fm_rdma_devices_close(struct fm_rdma *rdma);

/*
 * A device that is being removed stays until the last of its users is gone, and not every driver
 * says so: the removal would wait for us for ever. So it is looked for every RDMA_LOOK_NS;
 * connections on one that went away end, and when the last is freed it is closed.
 */
void fm_rdma_devices_look(struct fm_rdma *rdma);

/* The device of that name, opened if it came later. */
int fm_rdma_device_get(struct fm_rdma *rdma, const char *name, struct rdma_device **out,
		       struct fm_err *err);

int fm_rdma_set_nonblocking(int fd);

/* Of a port in Mb/s, 0 if not known. */
uint32_t fm_rdma_port_speed(const char *device, unsigned port);

/* The domain's protection domain on a device. It lives as long as the domain, at least. */
int fm_rdma_domain_pd(struct fm_rdma_domain *domain, struct rdma_device *device,
		      struct rdma_pd **out, struct fm_err *err);

/* One more reference. */
struct fm_lender *fm_rdma_lender(struct rdma_pd *pd);
extern const struct fm_lender_ops fm_rdma_lender_ops;

int fm_rdma_lend(struct rdma_conn *c, void *memory, size_t len, bool is_rx, struct fm_region *out,
		 struct fm_err *err);
void fm_rdma_take_back(struct rdma_conn *c, struct rdma_region *region);

/* ---- rdma_qp.c ---- */

/*
 * On the device that c->id is bound to: queue pair in INIT, receives posted. fm_rdma_conn_release()
 * undoes it, also half of it.
 */
int fm_rdma_qp_new(struct rdma_conn *c, struct fm_err *err);

/* Ready to receive and to send, with a path MTU of at most mtu_max. */
int fm_rdma_qp_connect(struct rdma_conn *c, enum ibv_mtu mtu_max, struct fm_err *err);

/* Established: conn.ops and info can be used. */
void fm_rdma_qp_ready(struct rdma_conn *c);

/* Of these message buffers, at most RDMA_POST_RECVS. */
int fm_rdma_post_recvs(struct rdma_conn *c, const unsigned *index, unsigned count);

/*
 * Everything of it but the struct and its timer, also of one that is half made. No callback comes
 * but done() of sends.
 */
void fm_rdma_conn_release(struct rdma_conn *c);

/* The rest as well. */
void fm_rdma_conn_free(struct rdma_conn *c);

/* ---- rdma_conn.c ---- */

extern const struct fm_conn_ops fm_rdma_conn_ops;

void fm_rdma_cancel_sends(struct rdma_conn *c, struct rdma_sends *list);

#endif
