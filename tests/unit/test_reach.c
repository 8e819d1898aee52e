/* SPDX-License-Identifier: MIT */
/* links: fm_node */
#include "mover/node/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "tests/fm_test.h"

static struct fm_addr own_addr(const char *text, uint8_t prefix_len)
{
	struct fm_addr a = { .prefix_len = prefix_len };
	struct sockaddr_in *in = (struct sockaddr_in *)&a.sa;

	in->sin_family = AF_INET;
	if (inet_pton(AF_INET, text, &in->sin_addr) != 1)
		abort();
	return a;
}

static void say(struct fm_wire_addrs *said, const char *text)
{
	struct fm_wire_addr *a = &said->addr[said->count++];

	memset(a, 0, sizeof(*a));
	a->family = strchr(text, ':') ? 6 : 4;
	if (inet_pton(a->family == 4 ? AF_INET : AF_INET6, text, a->address) != 1)
		abort();
}

/* The next host of the round, or "". */
static const char *next(struct fm_reach *r, const struct fm_addr *own, size_t count,
			char local[INET_ADDRSTRLEN])
{
	struct fm_reach_dial to;

	local[0] = '\0';
	if (!fm_reach_next(r, own, count, &to))
		return "";
	if (to.local.sa.ss_family)
		(void)inet_ntop(AF_INET, &((struct sockaddr_in *)&to.local.sa)->sin_addr, local,
				INET_ADDRSTRLEN);
	return to.to->host;
}

static const struct fm_endpoint more[] = { { "10.2.0.2", 7471 }, { "there.example", 7471 } };
static const struct fm_peer_opts opts = {
	.name = "n2", .host = "10.1.0.2", .port = 7471, .more = more, .more_count = 2};

static void test_in_turn(void)
{
	struct fm_addr own[] = { own_addr("10.1.0.1", 24), own_addr("10.2.0.1", 24) };
	char local[INET_ADDRSTRLEN];
	struct fm_reach r;

	CU_ASSERT_EQUAL_FATAL(fm_reach_init(&r, &opts, NULL), 0);
	for (unsigned round = 0; round < 2; round++) {
		CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.1.0.2");
		CU_ASSERT_STRING_EQUAL(local, "10.1.0.1");
		CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.2.0.2");
		CU_ASSERT_STRING_EQUAL(local, "10.2.0.1");
		CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "there.example");
		CU_ASSERT_STRING_EQUAL(local, "");
		CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "");
	}
	/* The second one worked, until it did not. */
	(void)next(&r, own, 2, local);
	(void)next(&r, own, 2, local);
	fm_reach_begin(&r);
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "there.example");
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.1.0.2");
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.2.0.2");
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "");
}

/*
 * Goal: whatever the peer says of its addresses meanwhile, the way that is dialled first when a
 * session has to leave its cable is another one than its own.
 */
static void test_last_stays_last(void)
{
	struct fm_addr own[] = { own_addr("10.1.0.1", 24), own_addr("10.2.0.1", 24) };
	struct fm_peer_opts one = { .name = "n2", .host = "10.1.0.2", .port = 7471 };
	struct fm_wire_addrs both = { .tcp_port = 7471 }, first = both;
	char local[INET_ADDRSTRLEN];
	struct fm_reach r;

	say(&both, "10.1.0.2");
	say(&both, "10.2.0.2");
	say(&first, "10.1.0.2");
	CU_ASSERT_EQUAL_FATAL(fm_reach_init(&r, &one, NULL), 0);
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.1.0.2");
	CU_ASSERT_TRUE(fm_reach_learn(&r, &both));
	fm_reach_begin(&r);
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.2.0.2");
	fm_reach_begin(&r);
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.1.0.2");
	CU_ASSERT_TRUE(fm_reach_learn(&r, &first));	/* the other one's cable is cut ... */
	CU_ASSERT_TRUE(fm_reach_learn(&r, &both));	/* ... and mended */
	fm_reach_begin(&r);
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "10.2.0.2");
}

static void test_two_ports_in_one_subnet(void)
{
	struct fm_addr own[] = { own_addr("10.1.0.1", 24), own_addr("10.1.0.3", 24) };
	struct fm_peer_opts one = { .name = "n2", .host = "10.1.0.2", .port = 7471 };
	char local[INET_ADDRSTRLEN];
	struct fm_reach r;

	CU_ASSERT_EQUAL_FATAL(fm_reach_init(&r, &one, NULL), 0);
	(void)next(&r, own, 2, local);
	CU_ASSERT_STRING_EQUAL(local, "10.1.0.1");
	CU_ASSERT_STRING_EQUAL(next(&r, own, 2, local), "");
	(void)next(&r, own, 2, local);
	CU_ASSERT_STRING_EQUAL(local, "10.1.0.3");
}

static void test_learned(void)
{
	static const char *const refused[] = {
		"127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "169.254.1.1", "fe80::1",
		"ff02::1",   "::1",	"::",	     "::ffff:10.2.0.2"};
	struct fm_addr own[] = {own_addr("10.1.0.1", 24), own_addr("10.3.0.1", 24),
				own_addr("172.17.0.1", 16)};
	struct fm_peer_opts one = { .name = "n2", .host = "10.1.0.2", .port = 7471 };
	struct fm_wire_addrs said = { .tcp_port = 7471 };
	char local[INET_ADDRSTRLEN];
	struct fm_reach r;

	CU_ASSERT_EQUAL_FATAL(fm_reach_init(&r, &one, NULL), 0);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		say(&said, refused[i]);
	CU_ASSERT_FALSE(fm_reach_learn(&r, &said));
	CU_ASSERT_EQUAL(r.count, 1);
	say(&said, "10.1.0.2");		/* which the configuration names */
	say(&said, "10.3.0.2");
	say(&said, "172.17.0.1");	/* every machine has it */
	say(&said, "192.0.2.9");	/* far away */
	CU_ASSERT_TRUE(fm_reach_learn(&r, &said));
	CU_ASSERT_FALSE(fm_reach_learn(&r, &said));
	CU_ASSERT_TRUE(fm_reach_is_same(&r, &one));
	CU_ASSERT_FALSE(fm_reach_is_same(&r, &opts));
	CU_ASSERT_STRING_EQUAL(next(&r, own, 3, local), "10.1.0.2");
	CU_ASSERT_STRING_EQUAL(next(&r, own, 3, local), "10.3.0.2");
	CU_ASSERT_STRING_EQUAL(local, "10.3.0.1");
	CU_ASSERT_STRING_EQUAL(next(&r, own, 3, local), "");
	/* It says something else: what it said before is forgotten, what the configuration names is
	 * not. */
	said.count = 0;
	CU_ASSERT_TRUE(fm_reach_learn(&r, &said));
	CU_ASSERT_EQUAL(r.count, 1);
}

static void test_bounds(void)
{
	static struct fm_endpoint many[FM_PEER_ADDRS_MAX + 1];
	struct fm_peer_opts o = {.name = "n2",
				 .host = "a",
				 .port = 1,
				 .more = many,
				 .more_count = FM_PEER_ADDRS_MAX};
	struct fm_wire_addrs said = { .tcp_port = 7471 };
	struct fm_err err = { 0 };
	struct fm_reach r;
	char text[300];

	for (unsigned i = 0; i <= FM_PEER_ADDRS_MAX; i++)
		(void)snprintf(many[i].host, sizeof(many[i].host), "h%u", i);
	CU_ASSERT_EQUAL(fm_reach_init(&r, &o, &err), -E2BIG);
	o.more_count--;
	CU_ASSERT_EQUAL(fm_reach_init(&r, &o, &err), 0);
	for (unsigned i = 0; i < FM_WIRE_ADDRS_MAX; i++) {
		(void)snprintf(text, sizeof(text), "10.9.0.%u", i + 1);
		say(&said, text);
	}
	CU_ASSERT_TRUE(fm_reach_learn(&r, &said));
	CU_ASSERT_EQUAL(r.count, 2 * FM_PEER_ADDRS_MAX);
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	o.host = text;
	CU_ASSERT_EQUAL(fm_reach_init(&r, &o, &err), -EINVAL);
}

static const struct fm_test tests[] = {
	{"addresses are tried in turn, one that was given up last", test_in_turn},
	{"the address that was dialled last is tried last, whatever is learned meanwhile",
	 test_last_stays_last},
	{"of two ports in one subnet each has its turn", test_two_ports_in_one_subnet},
	{"what a peer says is dialled where a subnet is shared, and nothing that leads elsewhere",
	 test_learned},
	{"addresses have a limit", test_bounds},
};
FM_TEST_MAIN("reach", tests)
