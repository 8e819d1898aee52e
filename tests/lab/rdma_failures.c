/* SPDX-License-Identifier: MIT */
/*
 * rdma_failures - what rdma_transport checks of endings: closing, peers that break the rules, die
 * or fall silent, devices that go, limits, and every single call that can fail.
 */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "tests/lab/rdma_nodes.h"

#define PORT_CHILD 7483

/* ---- closing and failing ---- */

/*
 * Goal:   after closed(), every send is done and nothing is written any more, though both ends were
 *         full of sends.
 * Method: the memory is overwritten in closed()'s aftermath and looked at again later.
 */
static void test_close_in_flight(void)
{
	static struct test_send sa[64], sb[64];
	struct end a, b;

	for (unsigned round = 0; round < 4; round++) {
		connect_ends(&a, &b);
		fill(a.tx.memory, MIB, 1);
		fill(b.tx.memory, MIB, 2);
		for (unsigned i = 0; i < 64; i++) {
			send_to(&a, &sa[i], i, 0, 0, MIB);
			send_to(&b, &sb[i], i, 0, 0, MIB);
		}
		for (unsigned i = 0; i < 10 * round; i++)
			step();
		b.conn->ops->close(b.conn);
		if (round % 2)		/* else a hears of it first */
			a.conn->ops->close(a.conn);
		CU_ASSERT_TRUE_FATAL(UNTIL(b.closes == 1));
		CU_ASSERT_EQUAL(b.sends_good + b.sends_cancelled, 64);
		memset(arena_b, 0x55, ARENA / 2);
		if (round % 2 == 0) {
			CU_ASSERT_TRUE(UNTIL(a.failures == 1));
			CU_ASSERT_TRUE(UNTIL(a.sends_good + a.sends_cancelled == 64));
			CU_ASSERT_PTR_NOT_NULL(strstr(a.err.text, "peer"));
			send_to(&a, &sa[0], 0, 0, 0, 0);	/* broken: comes back, but later */
			CU_ASSERT_FALSE(sa[0].is_free);
			CU_ASSERT_TRUE(UNTIL(sa[0].is_free));
			a.conn->ops->close(a.conn);
		}
		CU_ASSERT_TRUE_FATAL(UNTIL(a.closes == 1));
		CU_ASSERT_EQUAL(a.sends_good + a.sends_cancelled, round % 2 ? 64 : 65);
		for (size_t i = 0; i < ARENA / 2; i++)
			if (arena_b[i] != 0x55) {
				CU_FAIL_FATAL("written after closed()");
			}
	}
}

/*
 * Goal:   memory that a connection had is lent again only when nothing of the old one can land
 *         there: from closed() on, writes that are still on the wire are dropped, though their
 *         sender knows of nothing.
 * Method: RDMA_DELAY holds back what a sends, so that writes are under way when b's end is closed
 * and its memory is lent to another connection, which finds it as it was and writes to it as ever.
 */
static void test_lent_again(void)
{
	const char *delay = getenv("RDMA_DELAY"), *mend = getenv("RDMA_MEND");
	static struct test_send s[64], s2;
	struct end a, b, a2, b2;
	size_t changed = 0;

	if (!delay || !mend) {
		printf("(RDMA_DELAY and RDMA_MEND are not set) ... ");
		return;
	}
	connect_ends(&a, &b);
	CU_ASSERT_EQUAL_FATAL(system(delay), 0);
	fill(a.tx.memory, MIB, 1);
	for (unsigned i = 0; i < 64; i++)
		send_to(&a, &s[i], i, 0, i % 4 * MIB, MIB);
	CU_ASSERT_TRUE_FATAL(UNTIL(b.messages > 0));
	b.conn->ops->close(b.conn);
	CU_ASSERT_TRUE_FATAL(UNTIL(b.closes == 1));
	CU_ASSERT_TRUE(a.sends_good < 64);
	memset(arena_b, 0x55, ARENA / 2);

	/* The frames of this set-up wait behind all that was on the wire. */
	connect_ends(&a2, &b2);
	CU_ASSERT_EQUAL_FATAL(system(mend), 0);
	CU_ASSERT_TRUE(UNTIL(a.failures == 1));
	for (size_t i = 0; i < ARENA / 2; i++)
		changed += arena_b[i] != 0x55;
	CU_ASSERT_EQUAL(changed, 0);
	fill(a2.tx.memory, 4096, 0);
	b2.on_message = on_message_check;
	send_to(&a2, &s2, 0, 0, 0, 4096);
	CU_ASSERT_TRUE(UNTIL(a2.sends_good == 1 && b2.messages == 1));
	CU_ASSERT_EQUAL(b2.order_errors, 0);
	close_end(&a);
	close_end(&a2);
	close_end(&b2);
}

static void test_take_back(void)
{
	struct end a, b, a2, b2;
	struct test_send s, s2;

	connect_ends(&a, &b);
	connect_ends(&a2, &b2);		/* same memory, lent a second time: other regions */
	b.conn->ops->take_back(b.conn, &b.rx);
	memset(arena_b, 0x77, ARENA / 2);
	send_to(&a, &s, 0, 0, 0, 4096);
	CU_ASSERT_TRUE_FATAL(UNTIL(a.failures == 1 && b.failures == 1));
	printf("\n    %s\n    %s ... ", a.err.text, b.err.text);
	CU_ASSERT_EQUAL(a.err.code, -EACCES);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.err.text, "refused a write"));
	/* Soft-RoCE does not say what it refused; cards do. */
	CU_ASSERT_TRUE(b.err.code == -EACCES || b.err.code == -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(b.err.text, "not lent to it"));
	CU_ASSERT_EQUAL(a.sends_cancelled, 1);
	CU_ASSERT_EQUAL(arena_b[0], 0x77);

	/* The other connection of the same session goes on. */
	fill(a2.tx.memory, 4096, 0);
	b2.on_message = on_message_check;
	send_to(&a2, &s2, 0, 0, 0, 4096);
	CU_ASSERT_TRUE(UNTIL(a2.sends_good == 1 && b2.messages == 1));
	CU_ASSERT_EQUAL(b2.order_errors + a2.failures + b2.failures, 0);
	close_end(&a);
	close_end(&b);
	close_end(&a2);
	close_end(&b2);
}

/*
 * Goal: memory lent in one session cannot be reached over a connection of another, even with the
 * right key and address.
 */
static void test_other_session(void)
{
	struct fm_domain other = { 0 };
	struct end a, b, a2, b2;
	struct test_send s;

	connect_ends(&a, &b);
	CU_ASSERT_EQUAL_FATAL(fm_rdma_domain_new(node_b.rdma, &other.rdma), 0);
	node_b.accept_domain = &other;
	connect_ends(&a2, &b2);
	node_b.accept_domain = &node_b.domain;
	memset(arena_b, 0x33, ARENA / 2);
	a2.remote = a.remote;
	a2.rkey = a.rkey;
	send_to(&a2, &s, 0, 0, 0, 4096);
	CU_ASSERT_TRUE_FATAL(UNTIL(a2.failures == 1 && b2.failures == 1));
	CU_ASSERT_EQUAL(a2.err.code, -EACCES);
	CU_ASSERT_EQUAL(arena_b[0], 0x33);
	CU_ASSERT_EQUAL(a.failures + b.failures, 0);
	close_end(&a2);
	close_end(&b2);
	fm_rdma_domain_free(other.rdma);
	close_end(&a);
	close_end(&b);
}

/* Goal: more messages than receives is a bug of the engine's, and is called one. */
static void test_no_credit(void)
{
	static struct test_send s[3 * FM_DATA_MSGS_MAX];
	uint64_t end = now_ns() + WAIT_NS;
	struct end a, b;
	unsigned sent = 0;

	connect_ends(&a, &b);
	while (a.failures == 0 && now_ns() < end) {
		while (a.failures == 0 && sent < 3 * FM_DATA_MSGS_MAX &&
		       sent - a.sends_good - a.sends_cancelled < FM_DATA_MSGS_MAX) {
			send_to(&a, &s[sent], sent, 0, 0, 0);
			sent++;
		}
		node_step(&node_a, FM_NS_PER_MS);	/* b does not get to run */
	}
	CU_ASSERT_EQUAL(a.failures, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.err.text, "credit"));
	CU_ASSERT_EQUAL(a.sends_good, 2 * FM_DATA_MSGS_MAX);
	close_end(&a);
	close_end(&b);
	CU_ASSERT_EQUAL(b.messages, 2 * FM_DATA_MSGS_MAX);
}

/* ---- another process ---- */

static pid_t start_child(const char *mode)
{
	int fds[2];
	char c;
	pid_t pid;

	if (pipe(fds) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		execl("/proc/self/exe", "rdma_transport", "serve", getenv("RDMA_B"), "7483", mode,
		      (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	if (read(fds[0], &c, 1) != 1)		/* it listens */
		pid = -1;
	close(fds[0]);
	return pid;
}

static void kill_child_while(bool is_sending)
{
	static struct test_send s[64];
	uint64_t start;
	struct end a;
	pid_t pid = start_child("wait");

	CU_ASSERT_TRUE_FATAL(pid > 0);
	node_dial(&node_a, &node_b.sa, PORT_CHILD, TOKEN, WAIT_NS);
	CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled));
	CU_ASSERT_EQUAL_FATAL(node_a.dial_res, 0);
	end_attach(&a, &node_a, node_a.dialled);
	CU_ASSERT_TRUE(UNTIL(a.messages == 1));	/* it is attached at its end */
	for (unsigned i = 0; is_sending && i < 64; i++)
		send_to(&a, &s[i], i, 0, 0, 0);
	start = now_ns();
	kill(pid, SIGKILL);
	CU_ASSERT_TRUE_FATAL(UNTIL(a.failures == 1));
	printf("\n    after %llu ms: %s ... ",
	       (unsigned long long)((now_ns() - start) / FM_NS_PER_MS), a.err.text);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.err.text, "peer"));
	close_end(&a);
	CU_ASSERT_EQUAL(a.sends_good + a.sends_cancelled, is_sending ? 64 : 0);
	waitpid(pid, NULL, 0);
}

static void test_peer_killed(void)
{
	kill_child_while(false);
	kill_child_while(true);
}

/*
 * Goal:   a peer that falls silent is noticed by what is under way and by an end that is idle, and
 *         new connections to it end when their time is up.
 * Method: RDMA_CUT makes the network between the two lose every frame, RDMA_MEND undoes it. How
 * soon is printed; what the adapter is told of it is asserted where it is told (rdma_qp.c).
 */
static void test_silent_peer(void)
{
	const char *cut = getenv("RDMA_CUT"), *mend = getenv("RDMA_MEND");
	struct test_send s;
	struct end a, b;
	uint64_t start;

	if (!cut || !mend) {
		printf("(RDMA_CUT and RDMA_MEND are not set) ... ");
		return;
	}
	connect_ends(&a, &b);
	CU_ASSERT_EQUAL_FATAL(system(cut), 0);
	start = now_ns();
	send_to(&a, &s, 0, 0, 0, 4096);
	CU_ASSERT_TRUE(UNTIL(a.failures == 1));
	printf("\n    after %llu ms: %s", (unsigned long long)((now_ns() - start) / FM_NS_PER_MS),
	       a.err.text);
	CU_ASSERT_EQUAL(a.err.code, -ENETDOWN);	/* what goes with it: session.c, cut_same_cable() */
	CU_ASSERT_PTR_NOT_NULL(strstr(a.err.text, "does not answer"));
	/* it has nothing under way, and asks from time to time */
	CU_ASSERT_TRUE(UNTIL(b.failures == 1));
	CU_ASSERT_EQUAL(b.err.code, -ENETDOWN);
	close_end(&a);
	close_end(&b);
	CU_ASSERT_EQUAL(a.sends_cancelled, 1);

	node_dial(&node_a, &node_b.sa, PORT_B, TOKEN, 2 * FM_NS_PER_S);
	CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled));
	CU_ASSERT_EQUAL(node_a.dial_res, -ETIMEDOUT);
	printf("\n    %s ... ", node_a.dial_err.text);
	CU_ASSERT_EQUAL_FATAL(system(mend), 0);
}

/*
 * Goal:   a device that is unplugged takes its connections with it, in words, and nothing else.
 * Method: RDMA_REMOVE begins to remove b's device; soft-RoCE is not gone before this process has
 * let go of it.
 */
static void test_device_removed(void)
{
	const char *remove = getenv("RDMA_REMOVE");
	struct end a, b;

	if (!remove) {
		printf("(RDMA_REMOVE is not set) ... ");
		return;
	}
	connect_ends(&a, &b);
	CU_ASSERT_EQUAL_FATAL(system(remove), 0);
	CU_ASSERT_TRUE(UNTIL(b.failures == 1));
	printf("\n    %s\n    %s ... ", b.err.text, a.err.text);
	CU_ASSERT_EQUAL(b.err.code, -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(b.err.text, "removed"));
	close_end(&b);
	close_end(&a);
}

/*
 * Goal:   a device that came late can be removed, though its address was looked at and nothing was
 *         ever dialled from it.
 * Method: as above; RDMA_LATE is an address that RDMA_LATE_ADD makes a device for, and
 * RDMA_LATE_DEL begins to remove it.
 */
static void test_late_device_removed(void)
{
	const char *late = getenv("RDMA_LATE"), *add = getenv("RDMA_LATE_ADD"),
		   *del = getenv("RDMA_LATE_DEL");
	char name[FM_RAIL_NAME_MAX], path[64];
	struct fm_addr addr = { .prefix_len = 0 };
	uint32_t speed;

	if (!late || !add || !del) {
		printf("(RDMA_LATE is not set) ... ");
		return;
	}
	parse_addr(late, &addr.sa);
	CU_ASSERT_EQUAL_FATAL(system(add), 0);
	CU_ASSERT_TRUE_FATAL(UNTIL(fm_rdma_is_rail(node_a.rdma, &addr, name, &speed)));
	CU_ASSERT_EQUAL_FATAL(system(del), 0);
	(void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s", name);
	CU_ASSERT_TRUE(UNTIL(access(path, F_OK) < 0));
}

/* ---- limits ---- */

static int drop_ipc_lock(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* In a child: a process that changes its rights may not use the connection manager it opened
 * before. */
static void lend_without_rights(struct end *e, int out_fd)
{
	const struct rlimit small = { MIB / 2, MIB / 2 };
	struct fm_region region;
	struct fm_err err = { 0 };

	struct fm_lender *lender = e->conn->ops->lender(e->conn);

	if (setrlimit(RLIMIT_MEMLOCK, &small) == 0 && drop_ipc_lock() == 0 &&
	    (e->conn->ops->lend(e->conn, arena_a, 4 * MIB, true, &region, &err) == 0 ||
	     lender->ops->lend(lender, arena_a, 4 * MIB, &region, &err) != -ENOMEM))
		fm_err_set(&err, -1, "lent all the same");
	_exit(write(out_fd, err.text, sizeof(err.text)) < 0);
}

static void test_memlock(void)
{
	char text[FM_ERR_TEXT_MAX] = "";
	struct end a, b;
	int fds[2];
	pid_t pid;

	connect_ends(&a, &b);
	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	pid = fork();
	if (pid == 0)
		lend_without_rights(&a, fds[1]);
	close(fds[1]);
	CU_ASSERT_TRUE(read(fds[0], text, sizeof(text)) > 0);
	close(fds[0]);
	waitpid(pid, NULL, 0);
	printf("\n    %s ... ", text);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "RLIMIT_MEMLOCK is 512 KiB"));
	CU_ASSERT_EQUAL(a.failures, 0);
	close_end(&a);
	close_end(&b);
}

/* Goal: stopping in the middle of connections being made leaves nothing, ends dials, and the port
 * can be used again. */
static void test_stop_half_made(void)
{
	for (unsigned steps = 0; steps < 8; steps++) {
		node_b.arrived = NULL;
		node_dial(&node_a, &node_b.sa, PORT_B, TOKEN, WAIT_NS);
		for (unsigned i = 0; i < steps; i++)
			step();
		fm_rdma_stop(node_a.rdma);
		fm_rdma_stop(node_b.rdma);
		CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled));
		CU_ASSERT_TRUE(node_a.dial_res == 0 || node_a.dial_res == -ECANCELED);
		if (node_a.dialled)
			node_a.dialled->ops->close(node_a.dialled);
		if (node_b.arrived)
			node_b.arrived->ops->close(node_b.arrived);
		node_close(&node_a);
		node_close(&node_b);
		node_open(&node_a, getenv("RDMA_A"), PORT_A);
		node_open(&node_b, getenv("RDMA_B"), PORT_B);
	}
}

/* ---- faults ---- */

#ifdef FM_FAULTS
static const char *const fault_names[] = {
	"rdma.alloc",	     "rdma.device_list",  "rdma.device_alloc",	"rdma.device_open",
	"rdma.channel",	     "rdma.domain_alloc", "rdma.listen_id",	"rdma.bind",
	"rdma.listen",	     "rdma.listener",	  "rdma.probe",		"rdma.conn_alloc",
	"rdma.id",	     "rdma.resolve_addr", "rdma.resolve_route", "rdma.pd_struct",
	"rdma.pd",	     "rdma.query_port",	  "rdma.comp_channel",	"rdma.cq",
	"rdma.memory", "rdma.msgs", "rdma.msgs_mr", "rdma.qp_inline",
	"rdma.qp", "rdma.init_attr", "rdma.modify_qp", "rdma.post_recv",
	"rdma.connect", "rdma.migrate", "rdma.accept", "rdma.establish",
	"rdma.cm_event", "rdma.region_alloc", "rdma.reg_mr", "rdma.post_send",
	"rdma.poll_cq", "rdma.notify", "loop.watch",
};

#define FAULT_TIMES 6	/* of one point: some are passed in every pass of the loop */
#define FAULT_DIAL_NS (3 * FM_NS_PER_S)	/* for an event that a fault has swallowed */

static int fault_connect(struct node *from, struct node *to, uint64_t dial_ns)
{
	to->arrived = NULL;
	to->arrivals = 0;
	to->tokens_seen = 0;
	node_dial(from, &to->sa, to->port, TOKEN, dial_ns);
	CU_ASSERT_TRUE_FATAL(UNTIL(from->is_dialled));
	/* Whoever was asked for a token hears what became of it. */
	CU_ASSERT_TRUE_FATAL(UNTIL(to->arrivals == to->tokens_seen));
	if (from->dial_res < 0) {
		CU_ASSERT_TRUE(strlen(from->dial_err.text) > 0);
		if (to->arrived)
			to->arrived->ops->close(to->arrived);
		return from->dial_res;
	}
	if (!to->arrived) {
		from->dialled->ops->close(from->dialled);
		return -ECONNRESET;
	}
	return 0;
}

/* Either all of it works, or it says once and in words what did not. Returns whether all worked. */
static bool fault_transfer(struct end *a, struct end *b)
{
	struct fm_err err = { 0 };
	static struct test_send s;
	bool is_good = false;

	end_attach(a, &node_a, node_a.dialled);
	end_attach(b, &node_b, node_b.arrived);
	b->on_message = on_message_check;
	if (b->conn->ops->lend(b->conn, arena_b, MIB, true, &b->rx, &err) == 0 &&
	    a->conn->ops->lend(a->conn, arena_a, MIB, false, &a->tx, &err) == 0) {
		a->remote = b->rx.remote;
		a->rkey = b->rx.rkey;
		fill(arena_a, 4096, 0);
		send_to(a, &s, 0, 0, 0, 4096);
		CU_ASSERT_TRUE_FATAL(
			UNTIL((s.is_free && b->messages == 1) || a->failures || b->failures));
		is_good = a->failures + b->failures == 0;
		CU_ASSERT_TRUE(!a->failures || strlen(a->err.text) > 0);
		CU_ASSERT_TRUE(!b->failures || strlen(b->err.text) > 0);
		CU_ASSERT_EQUAL(b->order_errors, 0);
	} else {
		CU_ASSERT_TRUE(strlen(err.text) > 0);
	}
	close_end(a);
	close_end(b);
	return is_good;
}

static bool fault_round(uint64_t dial_ns)
{
	struct fm_err err = { 0 };
	struct end a, b;
	bool is_good = false;

	if (node_try_open(&node_a, getenv("RDMA_A"), PORT_A, &err) < 0) {
		CU_ASSERT_TRUE(strlen(err.text) > 0);
		return false;
	}
	if (node_try_open(&node_b, getenv("RDMA_B"), PORT_B, &err) == 0) {
		if (fault_connect(&node_a, &node_b, dial_ns) == 0)
			is_good = fault_transfer(&a, &b);
		node_close(&node_b);
	}
	node_close(&node_a);
	return is_good;
}

static void test_faults(void)
{
	unsigned rounds = 0, fired = 0;

	node_close(&node_a);
	node_close(&node_b);
	for (unsigned i = 0; i < sizeof(fault_names) / sizeof(fault_names[0]); i++) {
		for (unsigned n = 1; n <= FAULT_TIMES; n++) {
			bool has_fired;

			fm_fault_arm(fault_names[i], n);
			(void)fault_round(FAULT_DIAL_NS);
			has_fired = fm_fault_fired();
			fm_fault_arm(NULL, 0);
			rounds++;
			fired += has_fired;
			if (!has_fired)
				break;
		}
		/* nothing was left behind that would be in the way */
		CU_ASSERT_TRUE(fault_round(WAIT_NS));
	}
	printf("\n    %u rounds, %u faults ... ", rounds, fired);
	node_open(&node_a, getenv("RDMA_A"), PORT_A);
	node_open(&node_b, getenv("RDMA_B"), PORT_B);
}
/* As the session does: until it comes about. */
static void connect_in_the_end(void)
{
	uint64_t end_ns = now_ns() + WAIT_NS;
	int ret = -1;

	while (ret < 0 && now_ns() < end_ns)
		ret = fault_connect(&node_a, &node_b, FAULT_DIAL_NS);
	CU_ASSERT_EQUAL_FATAL(ret, 0);
	node_a.dialled->ops->close(node_a.dialled);
	node_b.arrived->ops->close(node_b.arrived);
}

/* Other parts of the node pass the first and the last of these points, too, and before the listener
 * does. */
static void open_without_listener(const char *fault)
{
	struct fm_err err = { 0 };

	for (unsigned n = 1; n <= FAULT_TIMES; n++) {
		fm_fault_arm(fault, n);
		if (node_try_open(&node_b, getenv("RDMA_B"), PORT_B, &err) < 0)
			continue;
		if (fm_rdma_trouble(node_b.rdma))
			break;
		node_close(&node_b);
	}
	CU_ASSERT_TRUE_FATAL(fm_fault_fired() && fm_rdma_trouble(node_b.rdma));
	fm_fault_arm(NULL, 0);
}

/*
 * Goal:   a listener that fails, or cannot be made, is made anew, and what is the matter is told
 *         until then.
 * Method: the event of a request is none; then each step of making the listener fails when the node
 *         starts, as where the port is not free yet.
 */
static void test_listener_fails(void)
{
	static const char *const steps[] = {"rdma.channel", "rdma.listen_id", "rdma.bind",
					    "rdma.listen", "loop.watch"};

	fm_fault_arm("rdma.listener", 1);
	node_dial(&node_a, &node_b.sa, PORT_B, TOKEN, FAULT_DIAL_NS);
	CU_ASSERT_TRUE_FATAL(UNTIL(fm_fault_fired() && node_a.is_dialled));
	CU_ASSERT_TRUE(node_a.dial_res < 0);
	fm_fault_arm(NULL, 0);
	connect_in_the_end();
	CU_ASSERT_PTR_NULL(fm_rdma_trouble(node_b.rdma));
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		node_close(&node_b);
		open_without_listener(steps[i]);
		connect_in_the_end();
		CU_ASSERT_PTR_NULL(fm_rdma_trouble(node_b.rdma));
	}
}
#else
static void test_faults(void)
{
	printf("(no fault points in this build) ... ");
}

static void test_listener_fails(void)
{
	test_faults();
}
#endif

const struct fm_test rdma_failure_tests[] = {
	{"closing with sends in flight ends them all and fences writes", test_close_in_flight},
	{"memory lent again is out of reach for the connection that had it", test_lent_again},
	{"a write to memory taken back breaks that connection only", test_take_back},
	{"memory of one session is out of reach for another", test_other_session},
	{"a message without credit breaks the connection and says so", test_no_credit},
	{"a killed peer is noticed", test_peer_killed},
	{"a silent peer is noticed, with sends under way and without", test_silent_peer},
	{"too little lockable memory is explained", test_memlock},
	{"stopping half-way leaves nothing", test_stop_half_made},
	{"every failure is told once and leaves nothing", test_faults},
	{"a listener that fails is made anew", test_listener_fails},
	{"a device that was only looked at is let go when it is removed", test_late_device_removed},
	{"a device that is removed takes its connections with it", test_device_removed},
};
const size_t rdma_failure_count = sizeof(rdma_failure_tests) / sizeof(rdma_failure_tests[0]);
