/* SPDX-License-Identifier: MIT */
/*
 * rdma_rate - how fast the transport is: one end grants 16 slots of 1 MiB and acknowledges what
 * arrives, the other one fills them. The lane is a thread of its own, as in the daemon; nothing
 * else is, so what limits is the transport.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "mover/base/log.h"
#include "tests/lab/rdma_nodes.h"

#define SLOT MIB
#define SLOTS 16u

/* One lane in a thread of its own, as in the daemon. The other members are the lane's from when it
 * is attached. */
struct rate {
	struct node node;
	struct end end;
	struct fm_task task;
	struct fm_loop *lane;
	bool is_server;
	bool is_waiting;		/* server: does nothing, so that it can be killed */
	bool is_slot_free[SLOTS];
	struct test_send send[SLOTS], ack[SLOTS];
	uint8_t *arena;
	uint64_t chunks, sent, acked, start_ns, elapsed_ns;
	struct rusage usage;
};

static struct rate rate;

static void rate_stop(void)
{
	rate.end.conn->ops->close(rate.end.conn);
}

static void rate_send(struct test_send *s, uint64_t a, uint64_t b, uint64_t c, unsigned slot)
{
	memset(s, 0, sizeof(*s));
	s->end = &rate.end;
	s->send.done = send_done;
	put_u64(s->send.msg, 0, a);
	put_u64(s->send.msg, 8, b);
	put_u64(s->send.msg, 16, c);
	if (!rate.is_server) {
		s->send.payload = rate.arena + (size_t)slot * SLOT;
		s->send.payload_len = SLOT;
		s->send.region = &rate.end.tx;
		s->send.remote = rate.end.remote + (uint64_t)slot * SLOT;
		s->send.rkey = rate.end.rkey;
	}
	rate.end.conn->ops->send(rate.end.conn, &s->send);
}

static void rate_push(void)
{
	for (unsigned i = 0; i < SLOTS && rate.sent < rate.chunks; i++) {
		if (!rate.is_slot_free[i] || !rate.send[i].is_free)
			continue;
		rate.is_slot_free[i] = false;
		rate.sent++;
		rate_send(&rate.send[i], i, 0, 0, i);
	}
}

static void rate_message(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN])
{
	struct rusage end;
	uint64_t slot = get_u64(msg, 0);

	(void)ctx;
	if (rate.is_server) {
		if (!rate.is_waiting)
			rate_send(&rate.ack[slot % SLOTS], slot, 0, 0, 0);
		return;
	}
	if (rate.start_ns == 0) {		/* the grant */
		rate.end.remote = get_u64(msg, 8);
		rate.end.rkey = (uint32_t)get_u64(msg, 16);
		rate.start_ns = now_ns();
		getrusage(RUSAGE_SELF, &rate.usage);
		rate_push();
		return;
	}
	rate.is_slot_free[slot % SLOTS] = true;
	if (++rate.acked == rate.chunks) {
		rate.elapsed_ns = now_ns() - rate.start_ns;
		getrusage(RUSAGE_SELF, &end);
		timersub(&end.ru_utime, &rate.usage.ru_utime, &rate.usage.ru_utime);
		timersub(&end.ru_stime, &rate.usage.ru_stime, &rate.usage.ru_stime);
		rate_stop();
		return;
	}
	rate_push();
}

static void rate_failed(void *ctx, const struct fm_err *err)
{
	(void)ctx;
	if (!rate.is_server)
		fprintf(stderr, "rdma_transport: %s\n", err->text);
	rate_stop();
}

static void rate_closed(void *ctx)
{
	(void)ctx;
	fm_loop_stop(rate.lane);
	fm_loop_stop(rate.node.ctl);
}

static const struct fm_conn_events rate_events = {
	.message = rate_message,
	.failed = rate_failed,
	.closed = rate_closed,
};

static void rate_begin(struct fm_task *task)
{
	struct fm_conn *conn = rate.end.conn;
	struct fm_region *region = rate.is_server ? &rate.end.rx : &rate.end.tx;
	struct fm_err err;

	(void)task;
	if (!rate.is_server) {
		const struct fm_conn_info *info = conn->ops->info(conn);

		fprintf(stderr, "%s %s -> %s, MTU %u, %s\n", info->local, info->local_addr,
			info->remote_addr, info->mtu, info->note);
	}
	conn->ops->attach(conn, rate.lane, &rate_events, &rate);
	if (conn->ops->lend(conn, rate.arena, SLOTS * (size_t)SLOT, rate.is_server, region, &err) <
	    0) {
		fprintf(stderr, "rdma_transport: %s\n", err.text);
		exit(1);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		rate.is_slot_free[i] = rate.send[i].is_free = true;
	if (rate.is_server)
		rate_send(&rate.ack[0], 0, rate.end.rx.remote, rate.end.rx.rkey, 0);
}

static void *lane_main(void *arg)
{
	(void)arg;
	fm_loop_run(rate.lane);
	return NULL;
}

/* The control loop until there is a connection; then the lane in its own thread, while the control
 * loop goes on. */
static int rate_run(void)
{
	pthread_t thread;

	for (;;) {
		struct fm_conn *conn = rate.is_server ? rate.node.arrived : rate.node.dialled;

		if (!rate.is_server && rate.node.is_dialled && !conn) {
			fprintf(stderr, "rdma_transport: %s\n", rate.node.dial_err.text);
			return 1;
		}
		if (conn) {
			rate.end.conn = conn;
			break;
		}
		fm_loop_step(rate.node.ctl, FM_NS_PER_S);
	}
	rate.task.run = rate_begin;
	fm_loop_post(rate.lane, &rate.task);
	if (pthread_create(&thread, NULL, lane_main, NULL) != 0)
		return 1;
	fm_loop_run(rate.node.ctl);
	pthread_join(thread, NULL);
	fm_loop_free(rate.lane);
	node_close(&rate.node);
	return 0;
}

static void rate_open(const char *addr, uint16_t port)
{
	const char *spin = getenv("RDMA_SPIN_US");
	struct fm_loop_opts opts = { .spin_ns = spin ? strtoull(spin, NULL, 10) * 1000 : 50000 };
	struct fm_err err;

	fm_log_set_level(FM_LOG_WARN);
	rate.arena = map_arena(SLOTS * (size_t)SLOT);
	node_open(&rate.node, addr, port);
	if (fm_loop_new(&opts, &rate.lane, &err) < 0) {
		fprintf(stderr, "rdma_transport: %s\n", err.text);
		exit(1);
	}
}

int serve_main(const char *addr, const char *port, bool is_waiting)
{
	rate.is_server = true;
	rate.is_waiting = is_waiting;
	rate_open(addr, (uint16_t)strtoul(port, NULL, 10));
	printf("serving\n");
	fflush(stdout);
	return rate_run();
}

int send_main(const char *local, const char *addr, const char *port, const char *chunks)
{
	struct sockaddr_storage to;
	double cpu_s;
	int ret;

	rate.chunks = strtoull(chunks, NULL, 10);
	rate_open(local, PORT_A);
	parse_addr(addr, &to);
	node_dial(&rate.node, &to, (uint16_t)strtoul(port, NULL, 10), TOKEN, WAIT_NS);
	ret = rate_run();
	if (ret != 0 || rate.acked < rate.chunks)
		return 1;
	cpu_s = (double)(rate.usage.ru_utime.tv_sec + rate.usage.ru_stime.tv_sec) +
		(double)(rate.usage.ru_utime.tv_usec + rate.usage.ru_stime.tv_usec) / 1e6;
	printf("%.2f MiB/s, %.2f s, %.2f s of CPU here\n",
	       (double)rate.chunks / ((double)rate.elapsed_ns / 1e9), (double)rate.elapsed_ns / 1e9,
	       cpu_s);
	return 0;
}
