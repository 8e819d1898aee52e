/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include "mover/base/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/fm_test.h"

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage sa = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };
	void *at = sa.ss_family == AF_INET
			   ? (void *)&((struct sockaddr_in *)(void *)&sa)->sin_addr
			   : (void *)&((struct sockaddr_in6 *)(void *)&sa)->sin6_addr;

	if (inet_pton(sa.ss_family, text, at) != 1)
		abort();
	return sa;
}

static struct fm_networks list(const char *const *texts)
{
	struct fm_networks n = { .count = 0 };

	for (; *texts; texts++)
		CU_ASSERT_EQUAL(fm_network_parse(*texts, &n.network[n.count++]), 0);
	return n;
}

static uint8_t bits(const struct fm_networks *n, const char *text)
{
	struct sockaddr_storage sa = address(text);

	return fm_networks_bits(n, &sa);
}

static bool is_shared(const char *a, const char *b, unsigned n)
{
	struct sockaddr_storage sa = address(a), sb = address(b);

	return fm_network_is_shared(&sa, &sb, n);
}

/* Goal: what is a network and what is not. Method: each form; what is good is printed as it was. */
static void test_parse(void)
{
	static const char *const good[] = {"10.0.0.0/8",     "10.1.2.0/30", "10.1.2.3/32",
					   "192.168.4.2/31", "fd00::/64",   "fc00::/7",
					   "fd00:1::4/126",  "::1/128"};
	static const char *const bad[] = {
		"",
		"/",
		"10.0.0.0",
		"10.0.0.0/",
		"10.0.0.0/33",
		"10.0.0.0/6",
		"0.0.0.0/0",
		"10.0.0.1/30",
		"10.0.0/24",
		"10.0.0.0/+8",
		"10.0.0.0/8 ",
		" 10.0.0.0/8",
		"10.0.0.0/8/8",
		"10.0.0.0/a",
		"10.0.0.0/99999999999999999999",
		"fd00::/129",
		"fd00::1/64",
		"::/0",
		"fe80::/10",
		"fe80::/64",
		"fe80::1/128",
		"fe00::/7",
		"febf::/16",
		"fe80::1%eth0/128",
		"host/24",
		"fd00::/-1",
		"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/64"};
	struct fm_network n = { .bits = 99 };
	char text[FM_NETWORK_TEXT_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (fm_network_parse(bad[i], &n) != -EINVAL)
			printf("\n    \"%s\" is taken", bad[i]);
		CU_ASSERT_EQUAL(fm_network_parse(bad[i], &n), -EINVAL);
	}
	CU_ASSERT_EQUAL(n.bits, 99);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CU_ASSERT_EQUAL(fm_network_parse(good[i], &n), 0);
		fm_network_print(&n, text);
		CU_ASSERT_STRING_EQUAL(text, good[i]);
	}
}

/* Goal: the widest network that has an address counts, and families do not mix. */
static void test_bits(void)
{
	const struct fm_networks n = list((const char *const[]){"10.1.0.0/30", "10.1.0.0/16",
								"10.2.0.4/31", "fd00::/64", NULL});
	const struct fm_networks none = { .count = 0 };
	struct sockaddr_storage other = { .ss_family = AF_UNIX };

	CU_ASSERT_EQUAL(bits(&n, "10.1.0.1"), 16);
	CU_ASSERT_EQUAL(bits(&n, "10.1.255.255"), 16);
	CU_ASSERT_EQUAL(bits(&n, "10.2.0.4"), 31);
	CU_ASSERT_EQUAL(bits(&n, "10.2.0.6"), 0);
	CU_ASSERT_EQUAL(bits(&n, "11.1.0.1"), 0);
	CU_ASSERT_EQUAL(bits(&n, "fd00::9"), 64);
	CU_ASSERT_EQUAL(bits(&n, "fd00:0:0:1::9"), 0);
	CU_ASSERT_EQUAL(bits(&n, "::ffff:10.1.0.1"), 0);
	CU_ASSERT_EQUAL(bits(&none, "10.1.0.1"), 0);
	CU_ASSERT_EQUAL(fm_networks_bits(&n, &other), 0);
}

static void test_shared(void)
{
	struct sockaddr_storage loop[] = {address("127.0.0.1"), address("127.9.9.9"),
					  address("::1")};
	struct sockaddr_storage not [] = {address("128.0.0.1"), address("10.0.0.1"), address("::2"),
					  address("::ffff:127.0.0.1")};

	CU_ASSERT_TRUE(is_shared("10.1.0.1", "10.1.0.2", 30));
	CU_ASSERT_TRUE(is_shared("10.1.0.1", "10.1.0.1", 32));
	CU_ASSERT_FALSE(is_shared("10.1.0.1", "10.1.0.2", 31));
	CU_ASSERT_FALSE(is_shared("10.1.0.1", "10.1.0.2", 32));
	CU_ASSERT_FALSE(is_shared("10.1.0.1", "10.1.0.1", 33));
	CU_ASSERT_TRUE(is_shared("fd00::1", "fd00::2", 64));
	CU_ASSERT_FALSE(is_shared("fd00::1", "fd00:0:0:1::2", 64));
	CU_ASSERT_FALSE(is_shared("10.1.0.1", "fd00::1", 7));
	for (size_t i = 0; i < 3; i++)
		CU_ASSERT_TRUE(fm_network_is_loopback(&loop[i]));
	for (size_t i = 0; i < 4; i++)
		CU_ASSERT_FALSE(fm_network_is_loopback(&not[i]));
}

static const struct fm_test tests[] = {
	{ "a network is an address with zeros behind its bits", test_parse },
	{ "the widest network that has an address counts", test_bits },
	{ "two addresses share their first bits", test_shared },
};
FM_TEST_MAIN("network", tests)
