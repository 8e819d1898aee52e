/* SPDX-License-Identifier: MIT */
/* links: fm_transport fm_wire */
/*
 * test_dead_port - which of our ports carries nothing, and when the error of a dial says so: over
 * cables of a network namespace of its own, the far plugs of which are pulled.
 */
#include <sched.h>
#include <stdlib.h>

#include "mover/transport/addr.h"
#include "tcp_scene.h"

#define CABLES \
	"ip link set lo up && ip link add w0 type veth peer name w1 && " \
	"ip link add x0 type veth peer name x1 && ip addr add 10.9.0.1/24 dev w0 && " \
	"ip addr add 10.9.0.3/24 dev x0 && ip link set w0 up && ip link set x0 up && " \
	"ip link set x1 up"

static struct sockaddr_storage in4(const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_storage sa = { 0 };

	CU_ASSERT_EQUAL_FATAL(inet_pton(AF_INET, text, &in.sin_addr), 1);
	memcpy(&sa, &in, sizeof(in));
	return sa;
}

/* The name of the port found for that address; "": none. */
static const char *dead(const char *text)
{
	static struct fm_addr out;
	struct sockaddr_storage to = in4(text);

	return fm_addr_find_dead(&to, &out) ? out.name : "";
}

/* The kernel says it up to a second later. */
static void wait_for(const char *text, bool is_dead)
{
	time_t end = time(NULL) + FM_TEST_HANG_S;

	while ((dead(text)[0] != '\0') != is_dead && time(NULL) < end)
		(void)usleep(1000);
}

/*
 * Goal:   of a port of ours that port alone is told, of a peer whether any could lead to it.
 * Method: two ports in the peer's network, first one of them dead, then both.
 */
static void test_found(void)
{
	wait_for("10.9.0.3", false);
	CU_ASSERT_STRING_EQUAL(dead("10.9.0.1"), "w0");
	CU_ASSERT_STRING_EQUAL(dead("10.9.0.3"), "");
	CU_ASSERT_STRING_EQUAL(dead("10.9.0.9"), "");
	CU_ASSERT_EQUAL_FATAL(system("ip link set x1 down"), 0);
	wait_for("10.9.0.9", true);
	CU_ASSERT_STRING_EQUAL(dead("10.9.0.1"), "w0");
	CU_ASSERT_STRING_EQUAL(dead("10.9.0.3"), "x0");
	CU_ASSERT_STRING_NOT_EQUAL(dead("10.9.0.9"), "");
}

static struct fm_err closed_err;

static void ctl_opened(void *ctx)
{
	(void)ctx;
}

static void ctl_message(void *ctx, const uint8_t *msg, size_t len)
{
	(void)ctx;
	(void)msg;
	(void)len;
}

static void ctl_closed(void *ctx, const struct fm_err *err)
{
	(void)ctx;
	closed_err = *err;
}

/*
 * Goal:   a dial that goes over a dead port is over soon, and names it, however long others may
 *         take.
 * Method: the kernel is told where the peer is, so it sends for long and has nothing to say. The
 * clock is moved by hand.
 */
static void test_dial_over_dead_port(void)
{
	static const struct fm_ctl_events events = { ctl_opened, ctl_message, ctl_closed };
	struct fm_ctl_dial dial = {
		.host = "10.9.0.2", .port = 7471, .events = &events, .timeout_ns = 10 * WAIT_NS};
	struct fm_loop *loop = loop_new();
	struct fm_ctl *ctl;
	struct node n;

	wait_for("10.9.0.2", true);
	for (const char *port = "w0"; port; port = *port == 'w' ? "x0" : NULL) {
		char known[128];

		(void)snprintf(
			known, sizeof(known),
			"ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:01 dev %s nud permanent",
			port);
		CU_ASSERT_EQUAL_FATAL(system(known), 0);
	}
	node_new(loop, &n, 1);
	closed_err.code = 0;
	ctl = n.net->ops->ctl_dial(n.net, &dial);
	while (fm_loop_step(loop, 0))
		;
	clock_skip(FM_NS_PER_S);
	while (fm_loop_step(loop, 0))
		;
	CU_ASSERT_EQUAL(closed_err.code, -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(closed_err.text, "carries nothing: 10.9.0.2:7471"));
	n.net->ops->ctl_close(ctl);
	node_free(&n);
	fm_loop_free(loop);
	closed_err.code = 0;
}

/*
 * Goal:   whoever was reached some other way, and hung up, is no matter of our dead port.
 * Method: the peer's network has a dead port of ours, and its address is reached by a route.
 */
static void test_reached_another_way(void)
{
	static const struct fm_ctl_events events = { ctl_opened, ctl_message, ctl_closed };
	struct fm_ctl_dial dial = { .host = "10.9.0.2", .events = &events };
	struct sockaddr_storage sa = in4("10.9.0.2");
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	struct fm_loop *loop = loop_new();
	struct fm_ctl *ctl;
	struct node n;
	int listener, fd;

	CU_ASSERT_EQUAL_FATAL(system("ip route add local 10.9.0.2 dev lo src 127.0.0.1"), 0);
	wait_for("10.9.0.2", true);
	CU_ASSERT_STRING_NOT_EQUAL(dead("10.9.0.2"), "");
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&sa, len), 0);
	CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
	CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&in, &len), 0);
	dial.port = ntohs(in.sin_port);
	node_new(loop, &n, 1);
	ctl = n.net->ops->ctl_dial(n.net, &dial);
	CU_ASSERT_TRUE_FATAL(WAIT_FOR(loop, (fd = accept(listener, NULL, NULL)) >= 0));
	close(fd);
	CU_ASSERT_TRUE(WAIT_FOR(loop, closed_err.code));
	CU_ASSERT_PTR_NOT_NULL(strstr(closed_err.text, "10.9.0.2:"));
	CU_ASSERT_PTR_NULL(strstr(closed_err.text, "carries nothing"));
	n.net->ops->ctl_close(ctl);
	node_free(&n);
	fm_loop_free(loop);
	close(listener);
	test_dir_remove();
}

static const struct fm_test tests[] = {
	{"of a port of ours that port alone is told", test_found},
	{"a dial over a port that carries nothing does not take its time",
	 test_dial_over_dead_port},
	{"who was reached another way is not blamed on a dead port", test_reached_another_way},
};

int main(void)
{
	if (unshare(CLONE_NEWNET) < 0 || system(CABLES) != 0)
		fm_test_skip("a network namespace with cables takes root and ip");
	return fm_test_main("dead_port", tests, sizeof(tests) / sizeof(tests[0]));
}
