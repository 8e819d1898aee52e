/* SPDX-License-Identifier: MIT */
/*
 * listen: who goes, waits and is turned away when as many connections are half-open as may be.
 *
 * links: fm_transport
 */
#include "mover/transport/listen.c"	/* whose sources no test here could connect from */

#include <arpa/inet.h>

#include "tests/fm_test.h"

struct comer {
	struct fm_half half;
	unsigned dropped;
};

static struct comer comers[FM_HALF_OPEN_MAX];
static struct fm_loop *loop;
static struct fm_listener *listener;
static unsigned taken;
static uint64_t moved_ns;

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return FM_NS_PER_S + moved_ns;
}

static const struct fm_clock test_clock = { .now_ns = clock_now };

static void drop(struct fm_half *half, const char *why)
{
	(void)why;
	fm_container_of(half, struct comer, half)->dropped++;
}

static void take(void *ctx, int fd, const struct sockaddr_storage *peer)
{
	(void)ctx;
	(void)peer;
	close(fd);
	taken++;
}

static const struct fm_listener_events events = { .tls = take, .data = take };

static void begin(void)
{
	struct fm_loop_opts opts = { .clock = &test_clock };

	memset(comers, 0, sizeof(comers));
	taken = 0;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_listener_new(loop, "127.0.0.1:0", &listener, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_listener_start(listener, &events, NULL, NULL), 0);
}

static void end(void)
{
	fm_listener_stop(listener);
	fm_listener_free(listener);
	fm_loop_free(loop);
}

static struct sockaddr_storage address(const char *text, uint32_t link)
{
	struct sockaddr_storage sa = { 0 };
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&sa;
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&sa;

	sa.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (sa.ss_family == AF_INET6) {
		in6->sin6_scope_id = link;
		CU_ASSERT_EQUAL(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
	} else {
		CU_ASSERT_EQUAL(inet_pton(AF_INET, text, &in->sin_addr), 1);
	}
	return sa;
}

/* So many of them, of one address or each of one of its own in the same network. */
static void come(unsigned from, unsigned count, bool are_many)
{
	char text[INET6_ADDRSTRLEN];
	struct sockaddr_storage sa;

	for (unsigned i = from; i < from + count; i++) {
		(void)snprintf(text, sizeof(text), "2001:db8::%x", are_many ? i + 1 : 0xbad);
		sa = address(text, 0);
		comers[i].half.drop = drop;
		fm_half_enter(listener, &comers[i].half, &sa);
	}
}

static enum room room_for(const char *text)
{
	struct sockaddr_storage sa = address(text, 0);

	return listener_make_room(listener, &sa);
}

static unsigned dropped(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FM_HALF_OPEN_MAX; i++)
		n += comers[i].dropped;
	return n;
}

static bool are_one(const char *a, uint32_t link_a, const char *b, uint32_t link_b)
{
	const struct sockaddr_storage sa = address(a, link_a), sb = address(b, link_b);
	struct fm_half half = { .from = from_of(&sa) };
	struct fm_half_from other = from_of(&sb);

	return is_source(&half, &other);
}

static void test_sources(void)
{
	CU_ASSERT_TRUE(are_one("2001:db8::1", 0, "2001:db8::2", 0));
	CU_ASSERT_TRUE(are_one("192.0.2.1", 0, "192.0.2.1", 0));
	CU_ASSERT_FALSE(are_one("192.0.2.1", 0, "192.0.2.2", 0));
	CU_ASSERT_FALSE(are_one("2001:db8::1", 0, "2001:db8:0:1::1", 0));
	CU_ASSERT_TRUE(are_one("fe80::1", 2, "fe80::2", 2));
	CU_ASSERT_FALSE(are_one("fe80::1", 2, "fe80::1", 3));
}

/* Goal: nodes of one network that come back together wait for each other, and nobody for them. */
static void test_network(void)
{
	begin();
	come(0, FM_HALF_OPEN_MAX, true);
	CU_ASSERT_EQUAL(room_for("2001:db8::ffff"), ROOM_LATER);
	CU_ASSERT_EQUAL(dropped(), 0);
	CU_ASSERT_EQUAL(room_for("192.0.2.1"), ROOM);
	CU_ASSERT_EQUAL(comers[0].dropped, 1);
	come(0, 1, true);
	CU_ASSERT_EQUAL(room_for("2001:db8:0:1::1"), ROOM);
	CU_ASSERT_EQUAL(comers[1].dropped, 1);
	come(1, 1, true);
	moved_ns += FAIR_NS;
	(void)fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(room_for("2001:db8::ffff"), ROOM);
	CU_ASSERT_EQUAL(comers[2].dropped, 1);
	end();
}

/* Goal: who floods from one address makes room for others of his network, and is turned away. */
static void test_flooder(void)
{
	const unsigned others = FM_HALF_CROWD_MAX;

	begin();
	come(0, others, true);
	come(others, FM_HALF_OPEN_MAX - others, false);
	CU_ASSERT_EQUAL(room_for("2001:db8::bad"), ROOM_NEVER);
	CU_ASSERT_EQUAL(dropped(), 0);
	CU_ASSERT_EQUAL(room_for("2001:db8::ffff"), ROOM);
	CU_ASSERT_EQUAL(comers[others].dropped, 1);
	come(others, 1, false);
	CU_ASSERT_EQUAL(room_for("192.0.2.1"), ROOM);
	CU_ASSERT_EQUAL(comers[others + 1].dropped, 1);
	end();
}

static bool is_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* Returns the other end. */
static int wait_here(void)
{
	const struct sockaddr_storage sa = address("2001:db8::ffff", 0);
	int pair[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CU_ASSERT_EQUAL(write(pair[0], "x", 1), 1);
	let_wait(listener, pair[1], &sa);
	return pair[0];
}

/* Goal: who waits is taken when there is room, or after a fair time. */
static void test_waiting(void)
{
	int fd[2];

	begin();
	come(0, FM_HALF_OPEN_MAX, true);
	fd[0] = wait_here();
	(void)fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(taken, 0);
	fm_half_leave(&comers[7].half);
	(void)fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(taken, 1);
	CU_ASSERT_EQUAL(dropped(), 0);

	come(7, 1, true);
	fd[1] = wait_here();
	(void)fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(taken, 1);
	moved_ns += FAIR_NS;
	(void)fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(taken, 2);
	CU_ASSERT_EQUAL(comers[0].dropped, 1);
	end();
	close(fd[0]);
	close(fd[1]);
}

/* Goal: one address of a network does not take the places from the others that wait there. */
static void test_waiting_share(void)
{
	int fd[FM_HALF_CROWD_MAX + 1];
	unsigned n = 0;

	begin();
	come(0, FM_HALF_OPEN_MAX, true);
	while (n <= FM_HALF_CROWD_MAX && room_for("2001:db8::ffff") == ROOM_LATER)
		fd[n++] = wait_here();
	CU_ASSERT_EQUAL(n, FM_HALF_CROWD_MAX + 1);
	CU_ASSERT_EQUAL(room_for("2001:db8::ffff"), ROOM_NEVER);
	CU_ASSERT_EQUAL(room_for("2001:db8::fffe"), ROOM_LATER);
	/* the last one that waits is none too many by itself */
	moved_ns += FAIR_NS;
	(void)fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(taken, n);
	end();
	while (n > 0)
		close(fd[--n]);
}

/* Goal: no more wait than may, and nobody after a stop. */
static void test_waiting_ends(void)
{
	int fd[FM_WAITING_MAX + 1];

	begin();
	come(0, FM_HALF_OPEN_MAX, true);
	for (unsigned i = 0; i <= FM_WAITING_MAX; i++)
		fd[i] = wait_here();
	CU_ASSERT_TRUE(is_closed(fd[FM_WAITING_MAX]));
	CU_ASSERT_FALSE(is_closed(fd[0]));
	CU_ASSERT_EQUAL(listener->waiting_count, FM_WAITING_MAX);
	end();
	CU_ASSERT_EQUAL(taken, 0);
	for (unsigned i = 0; i <= FM_WAITING_MAX; i++) {
		CU_ASSERT_TRUE(is_closed(fd[i]));
		close(fd[i]);
	}
}

static const struct fm_test tests[] = {
	{ "a source is an address, of IPv6 a network of a link", test_sources },
	{ "nodes of one network wait for each other, and nobody for them", test_network },
	{ "who floods makes room for his network, and is turned away", test_flooder },
	{ "who waits is taken when there is room, or after a fair time", test_waiting },
	{ "one address does not take the places of all that wait", test_waiting_share },
	{ "not all may wait, and nobody after a stop", test_waiting_ends },
};

FM_TEST_MAIN("listen", tests)
