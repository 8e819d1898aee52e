/* SPDX-License-Identifier: MIT */
/*
 * address: which address of this machine is told to others.
 *
 * Method: a network namespace of our own, which has no route at first, then one over IPv6, then one
 * over IPv4.
 *
 * links: fm_config
 */
#include "config/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"

/* linux/ipv6.h has it, and does not go with netinet/in.h. */
struct addr6 {
	struct in6_addr addr;
	uint32_t prefix_len;
	int index;
};

static struct fm_err err;
static struct fm_addresses told;

static int tell(const char *listen, const char *address)
{
	char at[64], said[64];
	const struct fm_config_node node = { .listen = at, .address = said };

	(void)snprintf(at, sizeof(at), "%s", listen);
	(void)snprintf(said, sizeof(said), "%s", address);
	return fm_address_of_node(&node, &told, &err);
}

static void is_told(const char *listen, const char *address, const char *wanted)
{
	CU_ASSERT_EQUAL(tell(listen, address), 0);
	CU_ASSERT_EQUAL(told.count, 1);
	CU_ASSERT_STRING_EQUAL(told.text[0], wanted);
}

static void is_refused(const char *listen, const char *text)
{
	CU_ASSERT_EQUAL(tell(listen, ""), -EADDRNOTAVAIL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, text));
}

static void do_ioctl(int family, unsigned long request, void *arg)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(ioctl(fd, request, arg), 0);
	close(fd);
}

static void link_up(void)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	do_ioctl(AF_INET, SIOCSIFFLAGS, &req);
}

static void route6(const char *address)
{
	struct addr6 addr = {.addr = IN6ADDR_LOOPBACK_INIT,
			     .prefix_len = 128,
			     .index = (int)if_nametoindex("lo")};
	struct in6_rtmsg route = {
		.rtmsg_flags = RTF_UP, .rtmsg_metric = 1, .rtmsg_ifindex = addr.index};

	do_ioctl(AF_INET6, SIOCDIFADDR, &addr);		/* it would be preferred */
	CU_ASSERT_EQUAL_FATAL(inet_pton(AF_INET6, address, &addr.addr), 1);
	do_ioctl(AF_INET6, SIOCSIFADDR, &addr);
	do_ioctl(AF_INET6, SIOCADDRT, &route);
}

/* The kernel makes it one that can be used in its own time. */
static void wait_for_address6(const char *listen)
{
	time_t end = time(NULL) + FM_TEST_HANG_S;

	while (tell(listen, "") < 0 && time(NULL) < end)
		(void)usleep(1000);
}

static void route4(const char *address)
{
	struct ifreq req = { .ifr_name = "lo" };
	struct sockaddr_in sa = { .sin_family = AF_INET };
	struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = req.ifr_name };

	memcpy(&route.rt_dst, &sa, sizeof(sa));
	memcpy(&route.rt_genmask, &sa, sizeof(sa));
	CU_ASSERT_EQUAL_FATAL(inet_pton(AF_INET, address, &sa.sin_addr), 1);
	memcpy(&req.ifr_addr, &sa, sizeof(sa));
	do_ioctl(AF_INET, SIOCSIFADDR, &req);
	do_ioctl(AF_INET, SIOCADDRT, &route);
}

static void test_said(void)
{
	is_told("0.0.0.0:7471", "spark-1.lan:7000", "spark-1.lan:7000");
	is_told("10.0.0.1:7471", "", "10.0.0.1:7471");
	is_told("[fd00::1]:7471", "", "[fd00::1]:7471");
}

static void test_no_fixed_port(void)
{
	is_refused("10.0.0.1:0", "no fixed port: say --address");
	is_refused("10.0.0.1", "no fixed port: say --address");
}

static void is_complete(const char *text, const char *wanted)
{
	char out[FM_ADDRESS_TEXT_MAX];

	CU_ASSERT_EQUAL(fm_address_complete(text, 7471, out), 0);
	CU_ASSERT_STRING_EQUAL(out, wanted);
}

static void test_port_is_added(void)
{
	static const char *const none[] = { "", "a b", ":", "[fd00::1", "spark:0", "spark:70000" };
	char out[FM_ADDRESS_TEXT_MAX];

	is_complete("spark-1.lan", "spark-1.lan:7471");
	is_complete("spark-1.lan:7000", "spark-1.lan:7000");
	is_complete("10.0.0.1", "10.0.0.1:7471");
	is_complete("fd00::1", "[fd00::1]:7471");
	is_complete("[fd00::1]", "[fd00::1]:7471");
	is_complete("[fd00::1]:7000", "[fd00::1]:7000");
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		CU_ASSERT_EQUAL(fm_address_complete(none[i], 7471, out), -EINVAL);
}

static void test_from_routes(void)
{
	static const char *const any[] = { "0.0.0.0:7471", "[::]:7471" };

	for (unsigned i = 0; i < 2; i++)
		is_refused(any[i], "no interface of this machine is up");
	link_up();
	route6("fd00::7");
	wait_for_address6(any[0]);
	for (unsigned i = 0; i < 2; i++)
		is_told(any[i], "", "[fd00::7]:7471");
	route4("10.9.8.7");
	for (unsigned i = 0; i < 2; i++)
		is_told(any[i], "", "10.9.8.7:7471");
}

static const struct fm_test tests[] = {
	{ "an address that is said is told", test_said },
	{ "without a fixed port there is none to tell", test_no_fixed_port },
	{ "what a person says of an address gets a port", test_port_is_added },
	{ "else it is the one that leads out of this machine, IPv4 first", test_from_routes },
};

int main(void)
{
	if (unshare(CLONE_NEWNET) < 0)
		fm_test_skip("a network namespace takes root");
	return fm_test_main("address", tests, sizeof(tests) / sizeof(tests[0]));
}
