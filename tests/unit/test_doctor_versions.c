/* SPDX-License-Identifier: MIT */
/* Versions with known faults, and those that only look like them. links: fm_cli */
#include "tests/unit/doctor_scene.h"

#define DEBIAN(version) "#1 SMP PREEMPT_DYNAMIC Debian " version " (2023-11-30)"

static void store(struct fm_facts *f, const char *type)
{
	struct fm_facts_store *s = fm_facts_add(f, f->stores, &f->stores_count);

	text(&s->name, "s");
	text(&s->type, type);
}

static void controller(struct fm_facts *f, const char *transport)
{
	struct fm_facts_controller *c = fm_facts_add(f, f->controllers, &f->controllers_count);

	fm_fact_text(&c->name, FM_FACT_NAME, "nvme0");
	text(&c->transport, transport);
}

/* How many findings a node with a store of each kind and a connection has. */
static size_t found(const char *kernel, const char *build, const char *zfs)
{
	struct fm_facts *f = scene_node("n1");

	store(f, "ext4");
	store(f, "zfs");
	controller(f, "tcp");
	if (kernel)
		text(&f->node.kernel, kernel);
	if (build)
		text(&f->node.kernel_build, build);
	if (zfs)
		text(&f->node.zfs, zfs);
	scene_check(fm_check_versions, &f, 1);
	for (size_t i = 0; i < scene_found.count; i++)
		scene_found.at[i].node = NULL; /* it ends here */
	fm_facts_free(f);
	return scene_found.count;
}

/* Goal: the first and the last version that has a fault, and their neighbours. */
static void test_ranges(void)
{
	static const struct {
		const char *debian;
		size_t found;
	} of[] = {
		{DEBIAN("6.1.63-1"), 0},  {DEBIAN("6.1.64-1"), 1},  {DEBIAN("6.1.65-1"), 1},
		{DEBIAN("6.1.66-1"), 0},  {DEBIAN("6.1.8-1"), 1},   {DEBIAN("6.1.15-1"), 1},
		{DEBIAN("6.1.20-1"), 0},  {DEBIAN("6.0.64-1"), 0},  {DEBIAN("5.10.64-1"), 0},
		{DEBIAN("6.12.64-1"), 0}, {DEBIAN("6.1.640-1"), 0},
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		size_t n = found("6.1.0-14-amd64", of[i].debian, NULL);

		if (n != of[i].found)
			printf("%s: %zu findings\n", of[i].debian, n);
		CU_ASSERT_EQUAL(n, of[i].found);
	}
	CU_ASSERT_EQUAL(found("6.1.0-14-amd64", DEBIAN("6.1.64-1"), NULL), 1);
	CU_ASSERT_TRUE(scene_is_only("version-ext4-direct", FM_WARNING, "Linux 6.1.64 runs.",
				     "Linux 6.1.66 or newer"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].means, "bugs.debian.org/1057843"));
	CU_ASSERT_EQUAL(found("6.1.17", "#1 SMP Sun Mar 12 2023", NULL), 1);
	CU_ASSERT_TRUE(scene_is_only("version-nvme-address", FM_WARNING, "Linux 6.1.17 runs.",
				     "Linux 6.1.18 or newer"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].means, "ChangeLog-6.1.18"));
	CU_ASSERT_EQUAL(found("6.1.18", "#1 SMP Sun Mar 12 2023", NULL), 0);
	CU_ASSERT_EQUAL(found("6.12.5", "#1 SMP", "2.2.1-1"), 1);
	CU_ASSERT_TRUE(scene_is_only("version-zfs-holes", FM_ERROR, "OpenZFS 2.2.1 runs.",
				     "OpenZFS 2.2.2 or newer"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].means, "zfs/issues/15526"));
	CU_ASSERT_EQUAL(found("6.12.5", "#1 SMP", "2.2.2-1"), 0);
	CU_ASSERT_EQUAL(found("6.12.5", "#1 SMP", "2.1.13-1"), 1);
	CU_ASSERT_EQUAL(found("6.12.5", "#1 SMP", "2.1.14-1"), 0);
}

/*
 * Goal:   a distribution's kernel or OpenZFS that has the number of a faulty one, and perhaps the
 *         mend, is no finding; nor is what cannot be read.
 */
static void test_distributions(void)
{
	static const struct {
		const char *kernel, *build, *zfs;
	} quiet[] = {
		{"6.1.64-060164-generic", "#202311281123 SMP PREEMPT_DYNAMIC", NULL},
		{"6.1.0-1017-oem", "#17-Ubuntu SMP PREEMPT_DYNAMIC", NULL},
		{"6.1.64-200.fc38.x86_64", "#1 SMP PREEMPT_DYNAMIC", NULL},
		{"6.1.64-v8+", "#1702 SMP PREEMPT", NULL},
		{"6.1.64", NULL, NULL}, /* who built it is not known */
		{NULL, DEBIAN("6.1.66-1"), NULL},
		{NULL, DEBIAN("x"), NULL},
		{NULL, DEBIAN("6.1"), NULL},
		{NULL, "#1 SMP Debian ", NULL},
		{"6.1.64", "#1 SMP PREEMPT Debian 6.1.66-1", NULL},
		{"", "", ""},
		{"99999999999999999999.1.1", "#1", "4294967298.2.1-1"},
		{"6.12.5", "#1 SMP", "2.2.0-0ubuntu1~23.10.1"},
		{"6.12.5", "#1 SMP", "2.2.0-1+deb12u1"},
		{"6.12.5", "#1 SMP", "2.2.0"},
		{NULL, NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
		CU_ASSERT_EQUAL(found(quiet[i].kernel, quiet[i].build, quiet[i].zfs), 0);
}

/* Goal: who has nothing that the fault is about hears nothing of it. */
static void test_not_concerned(void)
{
	struct fm_facts *f = scene_node("n1");

	store(f, "xfs");
	controller(f, "pcie");
	text(&f->node.kernel, "6.1.0-14-amd64");
	text(&f->node.kernel_build, DEBIAN("6.1.64-1"));
	text(&f->node.zfs, "2.2.0-1");
	scene_check(fm_check_all, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	store(f, "ext4");
	scene_check(fm_check_versions, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 1);
	text(&f->node.kernel_build, DEBIAN("6.1.8-1"));
	scene_check(fm_check_versions, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{"each fault in its versions, and in no other", test_ranges},
	{"distributions mend without another number", test_distributions},
	{"what a node does not have cannot concern it", test_not_concerned},
};
FM_TEST_MAIN("doctor_versions", tests)
