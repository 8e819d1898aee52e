/* SPDX-License-Identifier: MIT */
/* links: fm_transport */
#include "mover/transport/netlink.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "tests/fm_test.h"

static unsigned changes;

static void changed(void *ctx)
{
	(void)ctx;
	changes++;
}

/* The loopback interface of a network namespace of our own: nobody else sees it. */
static void set_link(bool is_up)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = (short)(is_up ? IFF_UP : 0) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_EQUAL_FATAL(ioctl(fd, SIOCSIFFLAGS, &req), 0);
	close(fd);
}

/* To 192.0.2.0/24, over the loopback interface. */
static void set_route(bool is_there)
{
	struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = (char[]){ "lo" } };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000200) };
	struct sockaddr_in mask = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xffffff00) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&route.rt_dst, &to, sizeof(to));
	memcpy(&route.rt_genmask, &mask, sizeof(mask));
	CU_ASSERT_EQUAL_FATAL(ioctl(fd, is_there ? SIOCADDRT : SIOCDELRT, &route), 0);
	close(fd);
}

/* Until the kernel has nothing more to say. */
static void read_all(struct fm_loop *loop)
{
	while (fm_loop_step(loop, 0))
		;
}

static void wait_for_change(struct fm_loop *loop)
{
	uint64_t end_ns = fm_loop_now(loop) + FM_TEST_HANG_S * FM_NS_PER_S;
	unsigned before = changes;

	while (changes == before && fm_loop_now(loop) < end_ns)
		(void)fm_loop_step(loop, FM_NS_PER_S);
	CU_ASSERT_NOT_EQUAL(changes, before);
}

static void test_links(void)
{
	struct fm_loop_opts opts = { 0 };
	struct fm_netlink *n = NULL;
	struct fm_err err = { 0 };
	struct fm_loop *loop;

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &loop, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_netlink_open(loop, changed, NULL, &n, &err), 0);
	CU_ASSERT_EQUAL(changes, 0);
	set_link(true);
	wait_for_change(loop);
	read_all(loop);
	set_route(true);
	wait_for_change(loop);
	read_all(loop);
	set_route(false);
	wait_for_change(loop);
	set_link(false);
	wait_for_change(loop);
	fm_netlink_close(n);
	fm_netlink_close(NULL);
	fm_loop_free(loop);
}

static const struct fm_test tests[] = {
	{ "a link or a route that comes or goes is told at once", test_links },
};

int main(void)
{
	if (unshare(CLONE_NEWNET) < 0)
		fm_test_skip("a network namespace takes root");
	return fm_test_main("netlink", tests, sizeof(tests) / sizeof(tests[0]));
}
