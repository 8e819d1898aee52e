/* SPDX-License-Identifier: MIT */
/* links: fm_transport fm_wire */
#include "mover/transport/addr.h"

#include <net/if.h>

#include "net_test.h"

static struct sockaddr_storage in4(const char *text, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_storage sa = { 0 };

	CU_ASSERT_EQUAL(inet_pton(AF_INET, text, &in.sin_addr), 1);
	memcpy(&sa, &in, sizeof(in));
	return sa;
}

static struct sockaddr_storage in6(const char *text, uint16_t port, uint32_t scope)
{
	struct sockaddr_in6 in = {
		.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = scope};
	struct sockaddr_storage sa = { 0 };

	CU_ASSERT_EQUAL(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
	memcpy(&sa, &in, sizeof(in));
	return sa;
}

static void test_text(void)
{
	struct sockaddr_storage sa;
	char text[FM_ADDR_TEXT_MAX], port[FM_ADDR_PORT_TEXT_MAX], wanted[96];

	sa = in4("10.0.0.2", 7471);
	fm_addr_text(&sa, text);
	CU_ASSERT_STRING_EQUAL(text, "10.0.0.2");
	fm_addr_port_text(&sa, port);
	CU_ASSERT_STRING_EQUAL(port, "10.0.0.2:7471");

	sa = in6("fe80::1", 7471, 1);
	CU_ASSERT_TRUE(if_indextoname(1, text) != NULL);
	snprintf(wanted, sizeof(wanted), "[fe80::1%%%s]:7471", text);
	fm_addr_port_text(&sa, port);
	CU_ASSERT_STRING_EQUAL(port, wanted);

	sa = in6("fe80::1", 1, 4000000);	/* no such interface */
	fm_addr_text(&sa, text);
	CU_ASSERT_STRING_EQUAL(text, "fe80::1%4000000");

	memset(&sa, 0, sizeof(sa));
	fm_addr_text(&sa, text);
	CU_ASSERT_STRING_EQUAL(text, "?");
}

static void test_ports_and_lengths(void)
{
	struct sockaddr_storage four = in4("10.0.0.2", 1), six = in6("::1", 2, 0), none = { 0 };

	fm_addr_set_port(&four, 40000);
	fm_addr_set_port(&six, 40001);
	fm_addr_set_port(&none, 40002);
	CU_ASSERT_EQUAL(fm_addr_port(&four), 40000);
	CU_ASSERT_EQUAL(fm_addr_port(&six), 40001);
	CU_ASSERT_EQUAL(fm_addr_port(&none), 0);
	CU_ASSERT_EQUAL(fm_addr_len(&four), sizeof(struct sockaddr_in));
	CU_ASSERT_EQUAL(fm_addr_len(&six), sizeof(struct sockaddr_in6));
	CU_ASSERT_EQUAL(fm_addr_len(&none), 0);
}

static void test_equal(void)
{
	struct sockaddr_storage a = in4("10.0.0.2", 1), b = in4("10.0.0.2", 2),
				c = in4("10.0.0.3", 1);
	struct sockaddr_storage d = in6("fe80::1", 1, 1), e = in6("fe80::1", 1, 2), none = { 0 };

	CU_ASSERT_TRUE(fm_addr_is_equal(&a, &b));
	CU_ASSERT_FALSE(fm_addr_is_equal(&a, &c));
	CU_ASSERT_FALSE(fm_addr_is_equal(&a, &d));
	CU_ASSERT_TRUE(fm_addr_is_equal(&d, &d));
	CU_ASSERT_FALSE(fm_addr_is_equal(&d, &e));
	CU_ASSERT_FALSE(fm_addr_is_equal(&none, &none));
}

static void test_unmap(void)
{
	struct sockaddr_storage mapped = in6("::ffff:10.0.0.2", 7471, 0),
				four = in4("10.0.0.2", 7471);
	struct sockaddr_storage six = in6("2001:db8::1", 7471, 0), six_before = six;

	fm_addr_unmap(&mapped);
	CU_ASSERT_TRUE(fm_addr_is_equal(&mapped, &four));
	CU_ASSERT_EQUAL(fm_addr_port(&mapped), 7471);
	fm_addr_unmap(&six);
	CU_ASSERT_EQUAL(memcmp(&six, &six_before, sizeof(six)), 0);
}

static void test_link_local(void)
{
	struct sockaddr_storage a = in6("fe80::1", 1, 1), b = in6("2001:db8::1", 1, 0),
				c = in4("169.254.1.1", 1), d = in4("10.0.0.1", 1);

	CU_ASSERT_TRUE(fm_addr_is_link_local(&a));
	CU_ASSERT_FALSE(fm_addr_is_link_local(&b));
	CU_ASSERT_TRUE(fm_addr_is_link_local(&c));
	CU_ASSERT_FALSE(fm_addr_is_link_local(&d));
}

static void test_describe(void)
{
	struct fm_addr lo = { .sa = in4("127.0.0.1", 0) }, nobody = { .sa = in4("192.0.2.1", 0) };
	uint32_t mtu = 0;

	fm_addr_describe(&lo, NULL, &mtu);
	CU_ASSERT_STRING_EQUAL(lo.name, "lo");
	CU_ASSERT_EQUAL(lo.prefix_len, 8);
	CU_ASSERT_TRUE(mtu >= 1500);
	CU_ASSERT_EQUAL(lo.speed_mbps, 0);	/* the loopback says none */
	CU_ASSERT_FALSE(lo.is_rdma);

	fm_addr_describe(&nobody, NULL, &mtu);
	CU_ASSERT_STRING_EQUAL(nobody.name, "");
	CU_ASSERT_EQUAL(mtu, 0);
}

/*
 * Goal:   the list is what the kernel says: ours, no loopback, no more than asked for, an interface
 *         for each.
 * Method: this machine's own interfaces, whatever they are; each address must be one that can be
 * bound.
 */
static void test_list(void)
{
	struct fm_addr list[FM_ADDRS_MAX];
	int count = fm_addr_list(NULL, list, FM_ADDRS_MAX);

	CU_ASSERT_TRUE(count >= 0 && count <= FM_ADDRS_MAX);
	for (int i = 0; i < count; i++) {
		CU_ASSERT_NOT_EQUAL(list[i].name[0], '\0');
		CU_ASSERT_PTR_NULL(strchr(list[i].name, ':'));
		CU_ASSERT_STRING_NOT_EQUAL(list[i].name, "lo");
		CU_ASSERT_TRUE(if_nametoindex(list[i].name) > 0);
		CU_ASSERT_TRUE(list[i].prefix_len > 0 && list[i].prefix_len <= 128);
		CU_ASSERT_FALSE(list[i].is_rdma);
		CU_ASSERT_TRUE(list[i].speed_mbps < 10000000);
		for (int k = 0; k < i; k++)
			CU_ASSERT_FALSE(fm_addr_is_equal(&list[i].sa, &list[k].sa));
	}
	CU_ASSERT_EQUAL(fm_addr_list(NULL, list, 0), 0);
	if (count > 1)
		CU_ASSERT_EQUAL(fm_addr_list(NULL, list, 1), 1);
#ifdef FM_FAULTS
	fm_fault_arm("addr.list", 1);
	CU_ASSERT_EQUAL(fm_addr_list(NULL, list, FM_ADDRS_MAX), -EMFILE);
	fm_fault_arm(NULL, 0);
#endif
}

static void test_connect_errors(void)
{
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_addr_connect_err(&err, -ECONNREFUSED), -ECONNREFUSED);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is fmoved running there?"));
	CU_ASSERT_EQUAL(fm_addr_connect_err(&err, -EHOSTUNREACH), -EHOSTUNREACH);
	CU_ASSERT_EQUAL(fm_addr_connect_err(&err, -ETIMEDOUT), -ETIMEDOUT);
	CU_ASSERT_EQUAL(fm_addr_connect_err(&err, -EADDRNOTAVAIL), -EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(fm_addr_connect_err(&err, -EACCES), -EACCES);
	CU_ASSERT_EQUAL(err.code, -EACCES);
}

/* An unconnected socket has no peer; a connected one has two ends that agree. */
static void test_of_socket(void)
{
	struct sockaddr_storage local, remote, local_back, remote_back;
	uint16_t port;
	int listener = raw_listen(&port), fd, back;

	CU_ASSERT_TRUE(fm_addr_of_socket(listener, &local, &remote) < 0);
	fd = raw_connect(port);
	back = accept(listener, NULL, NULL);
	CU_ASSERT_EQUAL(fm_addr_of_socket(fd, &local, &remote), 0);
	CU_ASSERT_EQUAL(fm_addr_of_socket(back, &local_back, &remote_back), 0);
	CU_ASSERT_EQUAL(fm_addr_port(&remote), port);
	CU_ASSERT_EQUAL(fm_addr_port(&local), fm_addr_port(&remote_back));
	CU_ASSERT_TRUE(fm_addr_is_equal(&local, &remote_back));
	close(back);
	close(fd);
	close(listener);
}

static const struct fm_test tests[] = {
	{ "addresses read as people write them", test_text },
	{ "ports and lengths of both families", test_ports_and_lengths },
	{ "equality counts the scope, not the port", test_equal },
	{ "a mapped IPv4 address becomes one", test_unmap },
	{ "link-local addresses are known", test_link_local },
	{ "the loopback is described from its interface", test_describe },
	{ "the list is ours, without loopback, bounded", test_list },
	{ "connect errors say what to do", test_connect_errors },
	{ "both ends of a socket", test_of_socket },
};

FM_TEST_MAIN("addr", tests)
