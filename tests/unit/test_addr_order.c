/* SPDX-License-Identifier: MIT */
/* links: fm_transport fm_wire */
/*
 * test_addr_order - which of our addresses come first where there are more than can be told: in a
 * network namespace of its own, the hardware of which is what a /sys made here says.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mover/transport/addr.h"
#include "net_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int make(const char *name, unsigned number)
{
	char command[256];

	(void)snprintf(command, sizeof(command),
		       "ip link add '%s' type veth peer name far%u && ip link set far%u up && "
		       "ip addr add 10.8.%u.1/24 dev '%s' && ip link set '%s' up && "
		       "mkdir -p '/sys/class/net/%s'",
		       name, number, number, number, name, name, name);
	return system(command);
}

/* Those that are not link-local, in their order; how many. The kernel says only after a moment that
 * a new link runs: until there are so many. */
static size_t list_until(size_t wanted, struct fm_addr list[static FM_ADDRS_MAX])
{
	size_t kept = 0;

	for (unsigned tries = 0; kept < wanted && tries < 1000; tries++) {
		int count = fm_addr_list(NULL, list, FM_ADDRS_MAX);

		CU_ASSERT_TRUE_FATAL(count >= 0);
		kept = 0;
		for (int i = 0; i < count; i++)
			if (!fm_addr_is_link_local(&list[i].sa))
				list[kept++] = list[i];
		if (kept < wanted)
			usleep(10000);
	}
	return kept;
}

/* in the order in which they should be listed */
static const char *const names[] = { "port1", "wbond", "xvlan", "ybridge",
				     "abridge", "bveth", "p*" };

/*
 * Goal:   what stands on hardware is hardware, however deep, and however its name sorts; what
 *         containers have comes after it. A name is no pattern.
 * Method: a port, a bond of it, a VLAN on the bond, a bridge on that; a container's bridge and its
 *         own end; a name that as a pattern is that of the port.
 */
static void test_hardware_first(void)
{
	struct fm_addr list[FM_ADDRS_MAX];

	for (size_t i = 0; i < COUNT(names); i++)
		CU_ASSERT_EQUAL_FATAL(make(names[i], (unsigned)i), 0);
	CU_ASSERT_EQUAL_FATAL(system("cd /sys/class/net && mkdir port1/device && "
				     "ln -s ../port1 wbond/lower_port1 && "
				     "ln -s ../wbond xvlan/lower_wbond && "
				     "ln -s ../xvlan ybridge/lower_xvlan && "
				     "ln -s ../bveth abridge/lower_bveth"),
			      0);
	CU_ASSERT_EQUAL_FATAL(list_until(COUNT(names), list), COUNT(names));
	for (size_t i = 0; i < COUNT(names); i++)
		CU_ASSERT_STRING_EQUAL(list[i].name, names[i]);
}

/* Goal: who has no descriptor left to look at what an interface stands on does not say that it is
 * nothing. */
static void test_no_descriptor(void)
{
	struct fm_addr list[FM_ADDRS_MAX];
	struct rlimit all, few;
	int next = dup(0);

	CU_ASSERT_TRUE_FATAL(next >= 0);
	close(next);
	CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = all;
	few.rlim_cur = (rlim_t)next + 1;	/* enough for what stands on nothing */
	CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &few), 0);
	CU_ASSERT_EQUAL(fm_addr_list(NULL, list, FM_ADDRS_MAX), -EMFILE);
	CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &all), 0);
	CU_ASSERT_EQUAL(list_until(COUNT(names), list), COUNT(names));
#ifdef FM_FAULTS
	fm_fault_arm("addr.value", 1);
	CU_ASSERT_EQUAL(fm_addr_list(NULL, list, FM_ADDRS_MAX), -EMFILE);
	fm_fault_arm(NULL, 0);
#endif
}

static const struct fm_test tests[] = {
	{ "what stands on hardware comes before what containers have", test_hardware_first },
	{ "without a descriptor an interface is not said to stand on nothing", test_no_descriptor },
};

int main(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/sys", "tmpfs", 0, NULL) < 0 ||
	    system("ip link add probe type veth && ip link del probe") != 0)
		fm_test_skip("a network namespace with a /sys of its own takes root and ip");
	return fm_test_main("addr_order", tests, sizeof(tests) / sizeof(tests[0]));
}
