/* SPDX-License-Identifier: MIT */
/*
 * Goal: a connection that ends lets go of all it has, whatever else is just about to happen, and
 * whatever cannot be had. Method: a real socket pair, a real holder; what is due is let come due in
 * one pass; a pipe tells by its end who has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/apart.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/loop.h"
#include "mover/base/packet_conn.h"
#include "tests/fm_test.h"

static const struct fm_packet_limits limits = {
	.receive_max = 1024,
	.send_max = 1024,
	.queue_max = 4096,
	.queue_total = {.what = "bytes", .total = 1 << 16},
	.unread_ms = 60000,
};

struct world {
	struct fm_loop *loop;
	struct fm_holders *holders;
	struct fm_packet_shared shared;
	struct fm_packet_conn *conn;
	char rx[1024];
	int peer;
	int ours;
	unsigned closed;
	struct fm_timer sends;
};

static void on_message(void *ctx, const struct fm_packet *msg)
{
	(void)ctx;
	fm_holder_close(msg->holder, msg->fds, msg->fd_count);
}

static void on_closed(void *ctx, const char *reason)
{
	struct world *w = ctx;

	(void)reason;
	w->closed++;
	fm_packet_conn_free(w->conn);
	w->conn = NULL;
}

static void begin(struct world *w)
{
	static const struct fm_packet_events events = { on_message, on_closed };
	struct fm_loop_opts loop_opts = { 0 };
	struct fm_holders_opts o = { .lanes = 0 };
	struct fm_err err;
	int fds[2];

	*w = (struct world){ .closed = 0 };
	CU_ASSERT_EQUAL_FATAL(fm_apart_start(&err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&loop_opts, &w->loop, &err), 0);
	o.loop = w->loop;
	CU_ASSERT_EQUAL_FATAL(fm_holders_new(&o, &w->holders, &err), 0);
	fm_packet_shared_init(&w->shared, w->loop, &limits);
	w->shared.rx = w->rx;
	w->shared.holders = w->holders;
	CU_ASSERT_EQUAL_FATAL(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	w->ours = fds[0];
	w->peer = fds[1];
	CU_ASSERT_TRUE_FATAL(fm_packet_may_take(&w->shared));
	CU_ASSERT_EQUAL_FATAL(
		fm_packet_conn_new(&w->shared, w->ours, 1, &events, w, &w->conn, &err), 0);
}

static void end(struct world *w)
{
	fm_packet_conn_free(w->conn);
	fm_packet_shared_end(&w->shared);
	CU_ASSERT_TRUE_FATAL(fm_holders_stop(w->holders, 60 * FM_NS_PER_S));
	while (fm_loop_step(w->loop, 0))
		;
	fm_holders_free(w->holders);
	fm_loop_free(w->loop);	/* asserts that it watches nothing and no timer is set */
	fm_apart_stop();
}

/* A message with the writing end of a pipe beside it, which is nowhere else then. Returns the
 * reading end. */
static int send_pipe(int socket)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { "x", 1 };
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fds[2];

	CU_ASSERT_EQUAL_FATAL(pipe2(fds, O_CLOEXEC), 0);
	control.align = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.align), &fds[1], sizeof(int));
	CU_ASSERT_EQUAL_FATAL(sendmsg(socket, &hdr, MSG_NOSIGNAL), 1);
	(void)close(fds[1]);
	return fds[0];
}

/* The fault is what keeps the message from its holder, so that it is tried again later. */
static void step_until_fault(struct world *w)
{
	for (int i = 0; i < 1000 && !fm_fault_fired(); i++)
		(void)fm_loop_step(w->loop, FM_NS_PER_MS);
	CU_ASSERT_TRUE_FATAL(fm_fault_fired());
	fm_fault_arm(NULL, 0);
}

static void send_something(struct fm_timer *timer)
{
	struct world *w = fm_container_of(timer, struct world, sends);

	fm_packet_conn_send(w->conn, "y", 1);
}

/*
 * Goal: when a connection breaks just before the time to look at it again, it is not looked at
 * again. Method: the client is gone; in one pass something is sent to it, which breaks it, and the
 * time has come. A fault that is armed where descriptors are watched tells whether that was tried.
 */
static void test_broken_in_the_pass_of_the_next_try(void)
{
	struct world w;
	int in;

	if (fm_test_lacks_faults())
		return;
	begin(&w);
	fm_fault_arm("packet.receiving", 1);
	in = send_pipe(w.peer);
	step_until_fault(&w);
	(void)close(w.peer);
	w.sends.fire = send_something;
	fm_timer_set(w.loop, &w.sends, fm_loop_now(w.loop) + FM_NS_PER_MS);
	(void)usleep(200000);	/* both are due */
	fm_fault_arm("loop.watch", 1);
	for (int i = 0; i < 1000 && w.closed == 0; i++)
		(void)fm_loop_step(w.loop, FM_NS_PER_MS);
	CU_ASSERT_EQUAL(w.closed, 1);
	CU_ASSERT_FALSE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	end(&w);
	(void)close(in);
}

/* Nobody has the writing end any more. */
static bool has_ended(int in)
{
	struct pollfd p = { .fd = in };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static void step_until_ended(struct world *w, int in)
{
	for (int i = 0; i < 6000 && !has_ended(in); i++)
		(void)fm_loop_step(w->loop, 10 * FM_NS_PER_MS);
	CU_ASSERT_TRUE(has_ended(in));
}

/* Goal: a connection is closed with what was sent to it, though there is no memory for anything. */
static void test_closed_without_memory(void)
{
	struct world w;
	int in;

	if (fm_test_lacks_faults())
		return;
	begin(&w);
	in = send_pipe(w.peer);
	fm_fault_arm("packet.spare", 1);
	CU_ASSERT_FALSE(fm_packet_may_take(&w.shared));	/* what it has was had before */
	fm_packet_conn_free(w.conn);
	w.conn = NULL;
	step_until_ended(&w, in);
	fm_fault_arm(NULL, 0);
	end(&w);
	(void)close(w.peer);
	(void)close(in);
}

/* Goal: a socket that nobody may be had to close is closed later, and at the end at the latest. */
static void closed_at_last(bool is_at_end)
{
	struct world w;
	int in;

	begin(&w);
	in = send_pipe(w.peer);
	fm_fault_arm("holder.new", 1);
	fm_packet_conn_free(w.conn);
	w.conn = NULL;
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_FALSE(has_ended(in));
	if (is_at_end)
		fm_packet_shared_end(&w.shared);
	step_until_ended(&w, in);
	CU_ASSERT_TRUE(fm_list_is_empty(&w.shared.shut));
	fm_fault_arm(NULL, 0);
	end(&w);
	(void)close(w.peer);
	(void)close(in);
}

static void test_closed_at_last(void)
{
	if (fm_test_lacks_faults())
		return;
	closed_at_last(false);
	closed_at_last(true);
}

/* Goal: if not even then, nothing is left but the socket itself, for the end of the process. */
static void test_left_open(void)
{
	struct world w;
	int in;

	if (fm_test_lacks_faults())
		return;
	begin(&w);
	in = send_pipe(w.peer);
	fm_fault_arm("holder.new", 1);
	fm_packet_conn_free(w.conn);
	w.conn = NULL;
	fm_fault_arm("packet.closer", 1);
	fm_packet_shared_end(&w.shared);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(fm_list_is_empty(&w.shared.shut));
	CU_ASSERT_FALSE(has_ended(in));
	(void)close(w.ours);
	CU_ASSERT_TRUE(has_ended(in));
	end(&w);
	(void)close(w.peer);
	(void)close(in);
}

static const struct fm_test tests[] = {
	{"a connection that breaks when it was to be tried again is not watched any more",
	 test_broken_in_the_pass_of_the_next_try},
	{"a connection is closed with what was sent to it when there is no memory",
	 test_closed_without_memory},
	{"what could not be closed is closed later, at the end too", test_closed_at_last},
	{"what cannot be closed at the end either is left to the end of the process, alone",
	 test_left_open},
};
FM_TEST_MAIN("packet_conn", tests)
