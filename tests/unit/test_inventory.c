/* SPDX-License-Identifier: MIT */
/*
 * The inventory of a machine's NVMe, read from trees that look like /sys. links: fm_nvmetcp
 */
#include "tests/unit/sysfs_tree.h"

#include <sys/sysmacros.h>

#include "mover/base/err.h"
#include "nvmetcp/inventory.h"

#define NQN "nqn.2026-01.org.fmove:test1"
#define UUID "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
#define NGUID "0123456789abcdef0123456789abcdef"
#define HEAD SUBSYSTEMS "/nvme-subsys1/nvme1n1"

static struct fm_err err;

static struct fm_inventory *inventory(void)
{
	struct fm_inventory *inv = NULL;

	fm_err_clear(&err);
	CU_ASSERT_EQUAL_FATAL(fm_inventory_read(tree_root, &inv, &err), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(inv);
	return inv;
}

static struct fm_inv_namespace identified(unsigned minor_no)
{
	struct fm_inv_namespace ns;

	fm_err_clear(&err);
	CU_ASSERT_EQUAL(fm_inventory_identify(tree_root, makedev(259, minor_no), &ns, &err), 0);
	return ns;
}

/* Subsystem 1 with controllers 1 and 2, two paths to one namespace. */
static void make_multipath(void)
{
	tree_make();
	tree_tcp("nvme1", NQN, "192.0.2.1", "4420");
	tree_tcp("nvme2", NQN, "fe80::1%eth1", "4421");
	tree_attr(FABRICS "/nvme2", "cntlid", "2");
	tree_subsystem("nvme-subsys1", NQN);
	tree_join("nvme-subsys1", "nvme1");
	tree_join("nvme-subsys1", "nvme2");
	tree_namespace(SUBSYSTEMS "/nvme-subsys1", "nvme1n1", "259:1", "uuid." UUID);
	tree_attr(HEAD, "uuid", UUID);
	tree_mkdirs(SUBSYSTEMS "/nvme-subsys1/ng1n1");	/* the character device of the same */
	tree_mkdirs(SUBSYSTEMS "/nvme-subsys1/power");
	tree_namespace(FABRICS "/nvme1", "nvme1c1n1", NULL, "uuid." UUID);
	tree_attr(FABRICS "/nvme1/nvme1c1n1", "ana_state", "optimized");
	tree_namespace(FABRICS "/nvme2", "nvme1c2n1", NULL, "uuid." UUID);
	tree_attr(FABRICS "/nvme2/nvme1c2n1", "ana_state", "non-optimized");
	tree_mkdirs(FABRICS "/nvme2/hwmon3");
}

static void test_none(void)
{
	struct fm_inventory *inv;

	tree_make();
	inv = inventory();
	CU_ASSERT_EQUAL(inv->controller_count + inv->subsystem_count + inv->namespace_count, 0);
	CU_ASSERT_FALSE(inv->is_cut);
	fm_inventory_free(inv);
	fm_inventory_free(NULL);
	tree_mkdirs("sys/class/nvme");		/* the module is there, no controller is */
	tree_mkdirs("sys/class/nvme-subsystem");
	inv = inventory();
	CU_ASSERT_EQUAL(inv->controller_count + inv->subsystem_count, 0);
	fm_inventory_free(inv);
	tree_free();
}

static void test_no_sysfs(void)
{
	struct fm_inventory *inv;

	tree_make();
	tree_remove("sys/class");		/* nothing is mounted there */
	CU_ASSERT_EQUAL(fm_inventory_read(tree_root, &inv, &err), -ENOENT);
	CU_ASSERT_PTR_NULL(inv);
	tree_remove("sys");
	CU_ASSERT_EQUAL(fm_inventory_read(tree_root, &inv, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/sys"));
	tree_free();
}

/* What is made of a namespace has devices of its own. */
static void test_parts(void)
{
	struct fm_inventory *inv;
	char name[64];

	tree_make();
	tree_tcp("nvme1", NQN, "192.0.2.1", "4420");
	tree_attr(FABRICS "/nvme1/nvme1n1", "size", "2048");
	tree_attr(FABRICS "/nvme1/nvme1n1", "dev", "259:1");
	tree_mkdirs(FABRICS "/nvme1/nvme1n1/holders");
	tree_attr(FABRICS "/nvme1/nvme1n1/nvme1n1p2", "dev", "259:3");
	tree_attr(FABRICS "/nvme1/nvme1n1/nvme1n1p1", "dev", "259:2");
	tree_mkdirs(FABRICS "/nvme1/nvme1n1/nvme1n1p1/holders");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->namespace_count, 1);
	CU_ASSERT_EQUAL(inv->namespaces[0].part_count, 2);
	CU_ASSERT_EQUAL(inv->namespaces[0].part[0], makedev(259, 2));
	CU_ASSERT_EQUAL(inv->namespaces[0].part[1], makedev(259, 3));
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].holder, "");
	fm_inventory_free(inv);
	tree_mkdirs(FABRICS "/nvme1/nvme1n1/nvme1n1p1/holders/dm-3");
	inv = inventory();
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].holder, "dm-3");
	fm_inventory_free(inv);
	tree_mkdirs(FABRICS "/nvme1/nvme1n1/holders/md0");
	inv = inventory();
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].holder, "md0");
	fm_inventory_free(inv);
	/* What multipathd has is the same once more; what is made of that is a use. */
	tree_remove(FABRICS "/nvme1/nvme1n1/holders/md0");
	tree_remove(FABRICS "/nvme1/nvme1n1/nvme1n1p1/holders/dm-3");
	tree_attr(FABRICS "/nvme1/nvme1n1/holders/dm-4", "dev", "253:4");
	tree_attr(FABRICS "/nvme1/nvme1n1/holders/dm-4/dm", "uuid", "mpath-uuid.1");
	inv = inventory();
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].holder, "");
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].mapper, "dm-4");
	CU_ASSERT_EQUAL(inv->namespaces[0].mapper_dev, makedev(253, 4));
	CU_ASSERT_EQUAL(inv->namespaces[0].part[0], makedev(253, 4));
	fm_inventory_free(inv);
	tree_mkdirs(FABRICS "/nvme1/nvme1n1/holders/dm-4/holders/dm-5");
	inv = inventory();
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].holder, "dm-5");
	fm_inventory_free(inv);
	tree_remove(FABRICS "/nvme1/nvme1n1/holders/dm-4");
	/* Of more than there is room for nothing is known. */
	for (unsigned i = 1; i <= FM_INV_PARTS_MAX + 2; i++) {
		snprintf(name, sizeof(name), FABRICS "/nvme1/nvme1n1/nvme1n1p%u", i);
		tree_attr(name, "dev", "259:9");
	}
	inv = inventory();
	CU_ASSERT_EQUAL(inv->namespaces[0].part_count, FM_INV_PARTS_MAX);
	CU_ASSERT_EQUAL(strncmp(inv->namespaces[0].holder, "nvme1n1p", 8), 0);
	fm_inventory_free(inv);
	tree_free();
}

/* This machine's own, whatever it has. */
static void test_here(void)
{
	struct fm_inventory *inv = NULL, *again = NULL;

	if (access("/sys/class", R_OK) < 0)
		return;
	CU_ASSERT_EQUAL(fm_inventory_read("/", &inv, &err), 0);
	CU_ASSERT_EQUAL(fm_inventory_read("", &again, &err), 0);
	CU_ASSERT_EQUAL(inv->controller_count, again->controller_count);
	fm_inventory_free(inv);
	fm_inventory_free(again);
}

static void check_settings(const char *controller, int queue_count, int keep_alive_s,
			   int reconnect_delay_s, int ctrl_loss_s, int fast_io_fail_s)
{
	struct fm_inv_settings is;

	fm_inventory_settings(tree_root, controller, &is);
	CU_ASSERT_EQUAL(is.queue_count, queue_count);
	CU_ASSERT_EQUAL(is.keep_alive_s, keep_alive_s);
	CU_ASSERT_EQUAL(is.reconnect_delay_s, reconnect_delay_s);
	CU_ASSERT_EQUAL(is.ctrl_loss_s, ctrl_loss_s);
	CU_ASSERT_EQUAL(is.fast_io_fail_s, fast_io_fail_s);
}

static void check_controllers(const struct fm_inventory *inv)
{
	const struct fm_inv_controller *c = inv->controllers;

	CU_ASSERT_EQUAL_FATAL(inv->controller_count, 2);
	CU_ASSERT_STRING_EQUAL(c[0].name, "nvme1");
	CU_ASSERT_STRING_EQUAL(c[0].state, "live");
	CU_ASSERT_STRING_EQUAL(c[0].transport, "tcp");
	CU_ASSERT_STRING_EQUAL(c[0].subsysnqn, NQN);
	CU_ASSERT_STRING_EQUAL(c[0].hostnqn, "nqn.2014-08.org.nvmexpress:uuid:" HOST_UUID);
	CU_ASSERT_STRING_EQUAL(c[0].traddr, "192.0.2.1");
	CU_ASSERT_STRING_EQUAL(c[0].trsvcid, "4420");
	CU_ASSERT_EQUAL(c[0].cntlid, 1);
	CU_ASSERT_EQUAL(c[0].subsystem, 0);
	CU_ASSERT_STRING_EQUAL(c[1].name, "nvme2");
	CU_ASSERT_STRING_EQUAL(c[1].traddr, "fe80::1%eth1");
	CU_ASSERT_EQUAL(c[1].subsystem, 0);
}

static void test_multipath(void)
{
	struct fm_inventory *inv;
	const struct fm_inv_namespace *ns;

	make_multipath();
	inv = inventory();
	check_controllers(inv);
	check_settings("nvme1", 3, 5, 10, 600, FM_INVENTORY_OFF);
	check_settings("nvme7", FM_INVENTORY_UNKNOWN, FM_INVENTORY_UNKNOWN, FM_INVENTORY_UNKNOWN,
		       FM_INVENTORY_UNKNOWN, FM_INVENTORY_UNKNOWN);
	CU_ASSERT_EQUAL_FATAL(inv->subsystem_count, 1);
	CU_ASSERT_STRING_EQUAL(inv->subsystems[0].name, "nvme-subsys1");
	CU_ASSERT_STRING_EQUAL(inv->subsystems[0].nqn, NQN);
	CU_ASSERT_STRING_EQUAL(inv->subsystems[0].iopolicy, "numa");
	CU_ASSERT_EQUAL_FATAL(inv->namespace_count, 1);
	ns = &inv->namespaces[0];
	CU_ASSERT_STRING_EQUAL(ns->name, "nvme1n1");
	CU_ASSERT_EQUAL(ns->nsid, 1);
	CU_ASSERT_STRING_EQUAL(ns->wwid, "uuid." UUID);
	CU_ASSERT_STRING_EQUAL(ns->uuid, UUID);
	CU_ASSERT_STRING_EQUAL(ns->nguid, "");
	CU_ASSERT_EQUAL(ns->size_bytes, 256u << 20);
	CU_ASSERT_FALSE(ns->is_read_only);
	CU_ASSERT_EQUAL(ns->dev, makedev(259, 1));
	CU_ASSERT_EQUAL(ns->subsystem, 0);
	CU_ASSERT_EQUAL_FATAL(ns->path_count, 2);
	CU_ASSERT_EQUAL(ns->path[0].controller, 0);
	CU_ASSERT_STRING_EQUAL(ns->path[0].ana_state, "optimized");
	CU_ASSERT_EQUAL(ns->path[1].controller, 1);
	CU_ASSERT_STRING_EQUAL(ns->path[1].ana_state, "non-optimized");
	CU_ASSERT_FALSE(inv->is_cut);
	fm_inventory_free(inv);
	tree_free();
}

/* nvme_core.multipath=N: two block devices of one namespace, one below each controller. */
static void test_no_multipath(void)
{
	struct fm_inventory *inv;

	make_multipath();
	tree_remove(HEAD);
	tree_remove("sys/dev/block/259:1");
	tree_remove(FABRICS "/nvme1/nvme1c1n1");
	tree_remove(FABRICS "/nvme2/nvme1c2n1");
	tree_namespace(FABRICS "/nvme1", "nvme1n1", "259:1", "uuid." UUID);
	tree_namespace(FABRICS "/nvme2", "nvme2n1", "259:2", "uuid." UUID);
	tree_attr(FABRICS "/nvme2/nvme2n1", "ro", "1");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->namespace_count, 2);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(inv->namespaces[i].path_count, 1);
		CU_ASSERT_EQUAL(inv->namespaces[i].path[0].controller, (int)i);
		CU_ASSERT_STRING_EQUAL(inv->namespaces[i].path[0].ana_state, "");
		CU_ASSERT_EQUAL(inv->namespaces[i].subsystem, 0);
		CU_ASSERT_EQUAL(inv->namespaces[i].is_read_only, i == 1);
	}
	CU_ASSERT_STRING_EQUAL(inv->namespaces[1].name, "nvme2n1");
	fm_inventory_free(inv);
	tree_free();
}

/* A disk that is plugged in: no `opts`, so few attributes; its namespace is named after its
 * subsystem, not itself. */
static void test_pcie(void)
{
	struct fm_inventory *inv;
	const struct fm_inv_controller *c;

	tree_make();
	tree_controller(PCI, "nvme0", "nqn.1994-11.com.samsung:nvme:990", "pcie");
	tree_attr(PCI "/nvme0", "address", "0000:01:00.0");
	tree_subsystem("nvme-subsys3", "nqn.1994-11.com.samsung:nvme:990");
	tree_link("../../../pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0",
		  SUBSYSTEMS "/nvme-subsys3/nvme0");
	tree_namespace(PCI "/nvme0", "nvme3n1", "259:0", "eui.0025385b21404a55");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->controller_count, 1);
	c = inv->controllers;
	CU_ASSERT_STRING_EQUAL(c->transport, "pcie");
	CU_ASSERT_STRING_EQUAL(c->traddr, "");
	CU_ASSERT_STRING_EQUAL(c->hostnqn, "");
	check_settings("nvme0", 3, 0, FM_INVENTORY_UNKNOWN, FM_INVENTORY_UNKNOWN,
		       FM_INVENTORY_UNKNOWN);
	CU_ASSERT_EQUAL_FATAL(inv->namespace_count, 1);
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].name, "nvme3n1");
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].uuid, "");
	CU_ASSERT_EQUAL(inv->namespaces[0].subsystem, 0);
	fm_inventory_free(inv);
	tree_free();
}

static void test_discovery(void)
{
	struct fm_inventory *inv;

	make_multipath();
	tree_tcp("nvme10", DISCOVERY, "192.0.2.1", "8009");
	tree_subsystem("nvme-subsys10", DISCOVERY);
	tree_join("nvme-subsys10", "nvme10");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->controller_count, 3);
	CU_ASSERT_STRING_EQUAL(inv->controllers[2].name, "nvme10");	/* behind nvme2 */
	CU_ASSERT_EQUAL(inv->controllers[2].subsystem, 1);
	CU_ASSERT_EQUAL(inv->namespace_count, 1);
	fm_inventory_free(inv);
	tree_free();
}

/* While it connects the kernel has no subsystem for it, and prints a pointer that leads nowhere. */
static void test_connecting(void)
{
	struct fm_inv_settings settings;
	struct fm_inventory *inv;
	const struct fm_inv_controller *c;

	tree_make();
	tree_tcp("nvme0", "(efault)", "192.0.2.1", "4420");
	tree_attr(FABRICS "/nvme0", "state", "connecting");
	tree_attr(FABRICS "/nvme0", "cntlid", "65535");
	tree_attr(FABRICS "/nvme0", "ctrl_loss_tmo", "off");
	tree_attr(FABRICS "/nvme0", "fast_io_fail_tmo", "30");
	tree_attr(FABRICS "/nvme0", "reconnect_delay", "-1");
	tree_attr(FABRICS "/nvme0", "kato", "soon");
	tree_attr(FABRICS "/nvme0", "dhchap_secret",
		  "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:");
	tree_attr(FABRICS "/nvme0", "dhchap_ctrl_secret", "none");
	tree_attr(FABRICS "/nvme0", "queue_count", "99999999999999999999");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->controller_count, 1);
	c = inv->controllers;
	CU_ASSERT_STRING_EQUAL(c->state, "connecting");
	CU_ASSERT_STRING_EQUAL(c->subsysnqn, "");
	CU_ASSERT_EQUAL(c->cntlid, 65535);
	check_settings("nvme0", FM_INVENTORY_UNKNOWN, FM_INVENTORY_UNKNOWN, FM_INVENTORY_OFF,
		       FM_INVENTORY_OFF, 30);
	fm_inventory_settings(tree_root, "nvme0", &settings);
	CU_ASSERT_TRUE(settings.has_secret && !settings.has_controller_secret && !settings.has_tls);
	CU_ASSERT_EQUAL(c->subsystem, -1);
	fm_inventory_free(inv);
	tree_free();
}

/* What the kernel takes away first, and links that lead to nothing any more. */
static void test_vanishing(void)
{
	struct fm_inventory *inv;

	make_multipath();
	tree_remove(FABRICS "/nvme1");		/* the link in the class is still there */
	tree_namespace(SUBSYSTEMS "/nvme-subsys1", "nvme1n2", NULL, "");
	tree_attr(SUBSYSTEMS "/nvme-subsys1/nvme1n2", "size", NULL);
	/* of a namespace that has gone */
	tree_namespace(FABRICS "/nvme2", "nvme1c2n7", NULL, "");
	tree_tcp("nvme3", NQN, "", "");
	tree_attr(FABRICS "/nvme3", "state", NULL);
	tree_join("nvme-subsys1", "nvme3");
	tree_subsystem("nvme-subsys2", NQN);
	tree_attr(SUBSYSTEMS "/nvme-subsys2", "subsysnqn", NULL);
	tree_join("nvme-subsys2", "nvme2");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->controller_count, 1);
	CU_ASSERT_STRING_EQUAL(inv->controllers[0].name, "nvme2");
	CU_ASSERT_EQUAL(inv->controllers[0].subsystem, 0);
	CU_ASSERT_EQUAL(inv->subsystem_count, 1);
	CU_ASSERT_EQUAL_FATAL(inv->namespace_count, 1);
	CU_ASSERT_EQUAL(inv->namespaces[0].path_count, 1);
	CU_ASSERT_EQUAL(inv->namespaces[0].path[0].controller, 0);
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].path[0].ana_state, "non-optimized");
	fm_inventory_free(inv);
	tree_free();
}

/* The number has gone to a controller of another subsystem since the subsystem was looked at. */
static void test_number_reused(void)
{
	struct fm_inventory *inv;

	make_multipath();
	tree_attr(FABRICS "/nvme2", "subsysnqn", "disk1");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->controller_count, 2);
	CU_ASSERT_EQUAL(inv->controllers[0].subsystem, 0);
	CU_ASSERT_EQUAL(inv->controllers[1].subsystem, -1);
	fm_inventory_free(inv);
	tree_free();
}

/* Attributes may follow their directory by a second. */
static void test_not_filled_in(void)
{
	struct fm_inventory *inv;
	const struct fm_inv_namespace *ns;

	make_multipath();
	tree_attr(HEAD, "wwid", NULL);
	tree_attr(HEAD, "uuid", "");
	tree_attr(HEAD, "nguid", "(efault)");
	tree_attr(HEAD, "dev", NULL);
	tree_attr(HEAD, "size", "0");
	inv = inventory();
	CU_ASSERT_EQUAL_FATAL(inv->namespace_count, 1);
	ns = inv->namespaces;
	CU_ASSERT_STRING_EQUAL(ns->wwid, "");
	CU_ASSERT_STRING_EQUAL(ns->uuid, "");
	CU_ASSERT_STRING_EQUAL(ns->nguid, "");
	CU_ASSERT_EQUAL(ns->size_bytes, 0);
	CU_ASSERT_EQUAL(ns->dev, 0);
	CU_ASSERT_EQUAL(ns->path_count, 2);
	fm_inventory_free(inv);
	tree_free();
}

static void test_identity(void)
{
	static const struct {
		const char *wwid, *uuid, *nguid;	/* in sysfs */
		const char *is_uuid, *is_nguid;
	} cases[] = {
		{"uuid." UUID, "AAAAAAAA-BBBB-CCCC-DDDD-EEEEEEEEEEEE", NULL, UUID, ""},
		{"uuid." UUID, UUID, "01234567-89AB-CDEF-0123-456789abcdef", UUID, NGUID},
		/* No UUID: the kernel shows the NGUID in its place. */
		{"eui." NGUID, "01234567-89ab-cdef-0123-456789abcdef",
		 "01234567-89ab-cdef-0123-456789abcdef", "", NGUID},
		{"", "01234567-89ab-cdef-0123-456789abcdef", NGUID, "", NGUID},
		/* A target that really gives the same to both. */
		{"uuid.01234567-89ab-cdef-0123-456789abcdef",
		 "01234567-89ab-cdef-0123-456789abcdef", NGUID,
		 "01234567-89ab-cdef-0123-456789abcdef", NGUID},
		{"nvme.1af4-30-30-00000001", "00000000-0000-0000-0000-000000000000",
		 "00000000-0000-0000-0000-000000000000", "", ""},
		{"nvme.1af4-30-30-00000001", NULL, NULL, "", ""},
		{"uuid." UUID, UUID "0", NGUID "0", "", ""},
		{"uuid." UUID, "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeeg", "012345678", "", ""},
	};
	struct fm_inv_namespace ns;

	make_multipath();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tree_attr(HEAD, "wwid", cases[i].wwid);
		tree_attr(HEAD, "uuid", cases[i].uuid);
		tree_attr(HEAD, "nguid", cases[i].nguid);
		ns = identified(1);
		CU_ASSERT_STRING_EQUAL(ns.wwid, cases[i].wwid);
		CU_ASSERT_STRING_EQUAL(ns.uuid, cases[i].is_uuid);
		CU_ASSERT_STRING_EQUAL(ns.nguid, cases[i].is_nguid);
	}
	tree_free();
}

/* Model and serial as long as they can be, in hexadecimal; and longer than anything that a kernel
 * makes. */
static void test_long(void)
{
	char text[1200], wwid[160];
	struct fm_inventory *inv;

	make_multipath();
	snprintf(wwid, sizeof(wwid), "nvme.1af4-%040d-%080d-ffffffff", 1, 2);
	tree_attr(HEAD, "wwid", wwid);
	tree_attr(HEAD, "uuid", NULL);
	memset(text, 'x', sizeof(text));
	text[223] = '\0';
	tree_attr(FABRICS "/nvme1", "subsysnqn", text);
	tree_attr(SUBSYSTEMS "/nvme-subsys1", "subsysnqn", text);
	text[223] = 'x';
	text[300] = '\0';
	tree_attr(FABRICS "/nvme1", "hostnqn", text);
	text[300] = 'x';
	text[sizeof(text) - 1] = '\0';
	tree_attr(FABRICS "/nvme2", "hostnqn", text);
	tree_attr(SUBSYSTEMS "/nvme-subsys1", "iopolicy", text);
	memcpy(text, "NVME_TRSVCID=", 13);
	strcpy(text + 200, "\nbare\nNVME_TRADDRESS=no\nNVME_TRADDR=192.0.2.1\nNEW=1\n");
	tree_attr(FABRICS "/nvme2", "uevent", text);
	inv = inventory();
	CU_ASSERT_STRING_EQUAL(inv->namespaces[0].wwid, wwid);
	CU_ASSERT_EQUAL(strlen(inv->controllers[0].subsysnqn), 223);
	CU_ASSERT_EQUAL(inv->controllers[0].subsystem, 0);
	CU_ASSERT_STRING_EQUAL(inv->controllers[0].hostnqn, "");
	CU_ASSERT_STRING_EQUAL(inv->controllers[1].hostnqn, "");
	CU_ASSERT_STRING_EQUAL(inv->subsystems[0].iopolicy, "");
	CU_ASSERT_STRING_EQUAL(inv->controllers[1].traddr, "192.0.2.1");
	CU_ASSERT_STRING_EQUAL(inv->controllers[1].trsvcid, "");
	fm_inventory_free(inv);
	tree_free();
}

/* Reading `nuse` sends a command to the target and waits: here it would wait for ever. */
static void test_nothing_that_waits(void)
{
	char path[PATH_MAX];
	struct fm_inventory *inv;

	make_multipath();
	tree_path(path, HEAD "/nuse");
	CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
	inv = inventory();
	CU_ASSERT_EQUAL(inv->namespace_count, 1);
	fm_inventory_free(inv);
	tree_free();
}

static void test_names(void)
{
	static const char *const others[] = {"nvme",	     "nvmex",	       "nvme1x",
					     "nvme-subsys1", "nvme1234567890", "nvme1n1p1"};
	struct fm_inventory *inv;
	char path[PATH_MAX];

	make_multipath();
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(path, sizeof(path), "sys/class/nvme/%s", others[i]);
		tree_attr(path, "state", "live");
		snprintf(path, sizeof(path), FABRICS "/nvme1/%s", others[i]);
		tree_attr(path, "size", "8");
	}
	inv = inventory();
	CU_ASSERT_EQUAL(inv->controller_count, 2);
	CU_ASSERT_EQUAL(inv->namespace_count, 1);
	fm_inventory_free(inv);
	tree_free();
}

/* One more of each than there may be. */
static void test_limits(void)
{
	struct fm_inventory *inv;
	char path[PATH_MAX];

	make_multipath();
	for (unsigned i = 0; i <= FM_INV_PATHS_MAX; i++) {
		snprintf(path, sizeof(path), "sys/class/nvme/nvme%u/nvme1c%un1", i + 100, i + 100);
		tree_mkdirs(path);
		snprintf(path, sizeof(path), "sys/class/nvme/nvme%u", i + 100);
		tree_attr(path, "state", "live");
	}
	inv = inventory();
	CU_ASSERT_EQUAL(inv->namespaces[0].path_count, FM_INV_PATHS_MAX);
	CU_ASSERT_TRUE(inv->is_cut);
	fm_inventory_free(inv);
	tree_free();
	make_multipath();
	tree_attr(FABRICS "/nvme1/another", "size", "8");
	for (unsigned i = 0; i < FM_INVENTORY_NAMESPACES_MAX; i++) {
		snprintf(path, sizeof(path), FABRICS "/nvme1/nvme1n%u", i + 2);
		tree_link("another", path);
	}
	inv = inventory();
	CU_ASSERT_EQUAL(inv->namespace_count, FM_INVENTORY_NAMESPACES_MAX);
	CU_ASSERT_TRUE(inv->is_cut);
	fm_inventory_free(inv);
	tree_free();
	make_multipath();
	tree_attr("sys/class/nvme-subsystem/another", "subsysnqn", NQN);
	for (unsigned i = 0; i < FM_INVENTORY_CONTROLLERS_MAX; i++) {
		snprintf(path, sizeof(path), "sys/class/nvme/nvme%u", i + 3);
		tree_link("nvme2", path);
		snprintf(path, sizeof(path), "sys/class/nvme-subsystem/nvme-subsys%u", i + 3);
		tree_link("another", path);
	}
	inv = inventory();
	CU_ASSERT_EQUAL(inv->controller_count, FM_INVENTORY_CONTROLLERS_MAX);
	CU_ASSERT_EQUAL(inv->subsystem_count, FM_INVENTORY_SUBSYSTEMS_MAX);
	CU_ASSERT_TRUE(inv->is_cut);
	fm_inventory_free(inv);
	tree_free();
}

static int identify_code(unsigned minor_no)
{
	struct fm_inv_namespace ns;

	fm_err_clear(&err);
	return fm_inventory_identify(tree_root, makedev(259, minor_no), &ns, &err);
}

static void test_identify(void)
{
	struct fm_inv_namespace ns;

	make_multipath();
	ns = identified(1);
	CU_ASSERT_STRING_EQUAL(ns.name, "nvme1n1");
	CU_ASSERT_STRING_EQUAL(ns.wwid, "uuid." UUID);
	CU_ASSERT_EQUAL(ns.dev, makedev(259, 1));
	CU_ASSERT_EQUAL(ns.nsid, 1);
	CU_ASSERT_EQUAL(ns.size_bytes, 256u << 20);
	CU_ASSERT_EQUAL(ns.subsystem, -1);
	CU_ASSERT_EQUAL(ns.path_count, 0);
	CU_ASSERT_EQUAL(identify_code(2), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "259:2"));
	tree_attr(HEAD, "dev", "259:7");	/* the number has another meaning by now */
	CU_ASSERT_EQUAL(identify_code(1), -ENODEV);
	tree_attr(HEAD, "dev", "259:1");
	tree_attr(HEAD, "nsid", NULL);
	CU_ASSERT_EQUAL(identify_code(1), -ENODEV);
	tree_namespace(HEAD, "nvme1n1p1", "259:3", NULL);	/* a partition */
	CU_ASSERT_EQUAL(identify_code(3), -ENODEV);
	tree_namespace("sys/devices/virtual/block", "loop0", "259:4", NULL);
	CU_ASSERT_EQUAL(identify_code(4), -ENODEV);
	tree_remove(HEAD);
	CU_ASSERT_EQUAL(identify_code(1), -ENODEV);
	tree_remove("sys");
	CU_ASSERT_EQUAL(identify_code(1), -ENOENT);
	tree_free();
}

static const struct fm_test tests[] = {
	{"a machine without NVMe has an empty inventory", test_none},
	{"without sysfs nothing can be said", test_no_sysfs},
	{"this machine's own can be read", test_here},
	{"partitions, and what is made of a namespace", test_parts},
	{"two controllers of one subsystem are two paths to one namespace", test_multipath},
	{"without native multipath each controller has its own block device", test_no_multipath},
	{"a local disk has few attributes", test_pcie},
	{"a discovery controller is known by its NQN where the kernel does not say",
	 test_discovery},
	{"a controller that connects has no subsystem yet", test_connecting},
	{"what has gone is left out", test_vanishing},
	{"a number that was given to another controller", test_number_reused},
	{"what is not filled in yet is empty", test_not_filled_in},
	{"UUID and NGUID are told apart", test_identity},
	{"what is too long is not there, rather than half there", test_long},
	{"no attribute is read that asks the controller", test_nothing_that_waits},
	{"other names are not looked at", test_names},
	{"limits", test_limits},
	{"a device number is identified, or refused", test_identify},
};

FM_TEST_MAIN("inventory", tests)
