/* SPDX-License-Identifier: MIT */
/*
 * The n-th-failure loop over the inventory. links: fm_nvmetcp
 *
 * Goal:   whatever fails, there is one error and nothing is left open; and whatever vanishes while
 *         it is read, what is left of the snapshot holds together. An error of this process (no
 *         descriptors, no memory) is never taken for something that is not there: a supervisor
 *         would connect it once more.
 * Method: fail the n-th fault point, n = 1, 2, 3 ... until all goes without the fault.
 */
#include "tests/unit/sysfs_tree.h"

#include <sys/sysmacros.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "nvmetcp/inventory.h"

#define NQN "nqn.2026-01.org.fmove:test1"
#define POINTS_MAX 2000

static struct fm_err err;

/* One namespace with two paths, and one that is below its controller. */
static void make_tree(void)
{
	tree_make();
	tree_tcp("nvme1", NQN, "192.0.2.1", "4420");
	tree_tcp("nvme2", NQN, "192.0.2.2", "4420");
	tree_tcp("nvme3", "disk1", "192.0.2.3", "4420");
	tree_subsystem("nvme-subsys1", NQN);
	tree_join("nvme-subsys1", "nvme1");
	tree_join("nvme-subsys1", "nvme2");
	tree_subsystem("nvme-subsys3", "disk1");
	tree_join("nvme-subsys3", "nvme3");
	tree_namespace(SUBSYSTEMS "/nvme-subsys1", "nvme1n1", "259:1", "eui.0025385b21404a55");
	tree_namespace(FABRICS "/nvme1", "nvme1c1n1", NULL, "eui.0025385b21404a55");
	tree_namespace(FABRICS "/nvme2", "nvme1c2n1", NULL, "eui.0025385b21404a55");
	tree_namespace(FABRICS "/nvme3", "nvme3n1", "259:2", "eui.0025385b21404a56");
}

static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static bool is_subsystem_of(const struct fm_inventory *inv, int index)
{
	return index >= -1 && index < (int)inv->subsystem_count;
}

static void check_whole(const struct fm_inventory *inv)
{
	for (unsigned i = 0; i < inv->controller_count; i++) {
		const struct fm_inv_controller *c = &inv->controllers[i];

		CU_ASSERT_TRUE(is_subsystem_of(inv, c->subsystem));
		CU_ASSERT_TRUE(c->name[0] != '\0' && c->state[0] != '\0');
		if (c->subsystem >= 0 && c->subsysnqn[0] != '\0')
			CU_ASSERT_STRING_EQUAL(c->subsysnqn, inv->subsystems[c->subsystem].nqn);
	}
	for (unsigned i = 0; i < inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &inv->namespaces[i];

		CU_ASSERT_TRUE(is_subsystem_of(inv, ns->subsystem));
		CU_ASSERT_TRUE(ns->name[0] != '\0' && ns->size_bytes > 0 && ns->path_count <= 2);
		for (unsigned p = 0; p < ns->path_count; p++)
			CU_ASSERT_TRUE(ns->path[p].controller >= 0 &&
				       ns->path[p].controller < (int)inv->controller_count);
	}
}

static bool is_complete(const struct fm_inventory *inv)
{
	return inv->controller_count == 3 && inv->subsystem_count == 2 && inv->namespace_count == 2;
}

static void check_error(int ret)
{
	CU_ASSERT_TRUE(ret < 0);
	CU_ASSERT_EQUAL(ret, err.code);
	CU_ASSERT_TRUE(strlen(err.text) > 10);
}

/* Whether it came to the fault. is_ours: the fault is an error, else something that vanished. */
static bool fail_read(const char *name, unsigned n, bool is_ours)
{
	struct fm_inventory *inv = NULL;
	unsigned fds = fds_open();
	bool has_fired;
	int ret;

	fm_err_clear(&err);
	fm_fault_arm(name, n);
	ret = fm_inventory_read(tree_root, &inv, &err);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(fds_open(), fds);
	if (is_ours)
		CU_ASSERT_EQUAL(ret < 0, has_fired);
	if (ret < 0)
		check_error(ret);
	else
		check_whole(inv);
	CU_ASSERT_EQUAL(ret < 0, inv == NULL);
	if (!has_fired)
		CU_ASSERT_TRUE(inv && is_complete(inv));
	fm_inventory_free(inv);
	return has_fired;
}

static unsigned fail_all(const char *name, bool is_ours)
{
	unsigned n = 1;

	make_tree();
	while (n < POINTS_MAX && fail_read(name, n, is_ours))
		n++;
	CU_ASSERT_TRUE(n < POINTS_MAX);
	tree_free();
	return n - 1;
}

/* What cannot be read of a controller's settings is not known, and the rest is right. */
static bool settings_fail(const char *name, const char *controller, unsigned n)
{
	struct fm_inv_settings is;
	unsigned fds = fds_open();
	bool has_fired;

	fm_fault_arm(name, n);
	fm_inventory_settings(tree_root, controller, &is);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(fds_open(), fds);
	CU_ASSERT_TRUE(is.keep_alive_s == 5 ||
		       (has_fired && is.keep_alive_s == FM_INVENTORY_UNKNOWN));
	CU_ASSERT_TRUE(is.ctrl_loss_s == 600 ||
		       (has_fired && is.ctrl_loss_s == FM_INVENTORY_UNKNOWN));
	return has_fired;
}

static unsigned settings_fail_all(const char *name)
{
	static const char *const controllers[] = { "nvme1", "nvme2", "nvme3" };
	unsigned points = 0;

	make_tree();
	for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++)
		for (unsigned n = 1; n < POINTS_MAX && settings_fail(name, controllers[i], n); n++)
			points++;
	tree_free();
	return points;
}

static void test_errors(void)
{
	static const char *const ours[] = {"sysfs.open",	   "sysfs.names",
					   "sysfs.list",	   "sysfs.stream",
					   "inventory.new",	   "inventory.controllers",
					   "inventory.subsystems", "inventory.namespaces"};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		CU_ASSERT_TRUE(fail_all(ours[i], true) > 0);
}

static void test_vanishing(void)
{
	CU_ASSERT_TRUE(fail_all("sysfs.gone", false) > 50);
	CU_ASSERT_TRUE(fail_all("sysfs.read", false) > 30);
	/* five of each controller */
	CU_ASSERT_EQUAL(settings_fail_all("sysfs.read"), 15);
	/* the two directories, and three that are not there, as well */
	CU_ASSERT_EQUAL(settings_fail_all("sysfs.gone"), 30);
	CU_ASSERT_EQUAL(settings_fail_all("sysfs.open"), 30);
}

static void test_any(void)
{
	CU_ASSERT_TRUE(fail_all(NULL, false) > 150);
}

/* It never answers with another identity than the whole one. */
static bool fail_identify(unsigned n)
{
	struct fm_inv_namespace ns;
	unsigned fds = fds_open();
	bool has_fired;
	int ret;

	fm_err_clear(&err);
	fm_fault_arm(NULL, n);
	ret = fm_inventory_identify(tree_root, makedev(259, 1), &ns, &err);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(fds_open(), fds);
	if (ret < 0)
		check_error(ret);
	else
		CU_ASSERT_TRUE(ns.wwid[0] == '\0' || strcmp(ns.wwid, "eui.0025385b21404a55") == 0);
	return has_fired;
}

static void test_identify(void)
{
	unsigned n = 1;

	make_tree();
	while (n < POINTS_MAX && fail_identify(n))
		n++;
	CU_ASSERT_TRUE(n > 10 && n < POINTS_MAX);
	tree_free();
}

static const struct fm_test tests[] = {
	{ "what fails here is an error, never something that is not there", test_errors },
	{ "whatever vanishes, the rest holds together", test_vanishing },
	{ "whatever happens, it ends well", test_any },
	{ "a device is identified, or there is one error", test_identify },
};

int main(void)
{
#ifndef FM_FAULTS
	fm_test_skip("built without fault points");
#endif
	return fm_test_main("inventory fault", tests, sizeof(tests) / sizeof(tests[0]));
}
