/* SPDX-License-Identifier: MIT */
/* links: fm_transport fm_wire */
/*
 * test_addr_order - which of our addresses come first where there are more than can be told: in a
 * network namespace of its own, the hardware of which is what a /sys made here says.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>

#include "mover/transport/addr.h"
#include "net_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int make(const char *name, unsigned number)
{
	char command[256];

	(void)snprintf(command, sizeof(command),
		       "ip link add %s type veth peer name far%u && ip link set far%u up && "
		       "ip addr add 10.8.%u.1/24 dev %s && ip link set %s up && "
		       "mkdir -p /sys/class/net/%s",
		       name, number, number, number, name, name, name);
	return system(command);
}

/*
 * Goal:   what stands on hardware is hardware, however its name sorts; what containers have comes
 *         after it.
 * Method: a port, a bond of it, a VLAN on the bond; a container's bridge and its own end.
 */
static void test_hardware_first(void)
{
	/* in the order in which they should be listed */
	static const char *const names[] = { "port1", "wbond", "xvlan", "abridge", "bveth" };
	struct fm_addr list[FM_ADDRS_MAX];
	size_t at = 0;
	int count;

	for (size_t i = 0; i < COUNT(names); i++)
		CU_ASSERT_EQUAL_FATAL(make(names[i], (unsigned)i), 0);
	CU_ASSERT_EQUAL_FATAL(system("cd /sys/class/net && mkdir port1/device && "
				     "ln -s ../port1 wbond/lower_port1 && "
				     "ln -s ../wbond xvlan/lower_wbond && "
				     "ln -s ../bveth abridge/lower_bveth"),
			      0);
	count = fm_addr_list(NULL, list, FM_ADDRS_MAX);
	CU_ASSERT_TRUE(count >= (int)COUNT(names));
	for (int i = 0; i < count; i++) {
		if (fm_addr_is_link_local(&list[i].sa))
			continue;
		CU_ASSERT_TRUE_FATAL(at < COUNT(names));
		CU_ASSERT_STRING_EQUAL(list[i].name, names[at++]);
	}
	CU_ASSERT_EQUAL(at, COUNT(names));
}

static const struct fm_test tests[] = {
	{ "what stands on hardware comes before what containers have", test_hardware_first },
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
