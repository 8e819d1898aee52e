/* SPDX-License-Identifier: MIT */
/* Modes of secrets and stores. links: fm_cli */
#include "tests/unit/doctor_scene.h"

static void check(struct fm_facts *f)
{
	scene_check(fm_check_security, &f, 1);
}

/* What is printed into a command is one word of a shell, or no command. */
static void test_key(void)
{
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_file *s = fm_facts_add(f, f->files, &f->files_count);

	text(&s->role, "key");
	text(&s->path, "/etc/fmove/node.key");
	fm_fact_number(&s->mode, 0600);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&s->mode, 0640);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("secret-open", FM_ERROR,
				     "key file /etc/fmove/node.key has mode 0640",
				     "chmod 600 -- '/etc/fmove/node.key'"));
	text(&s->path, "/a'; rm -rf ~; '");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("secret-open", FM_ERROR, "",
				     "chmod 600 -- '/a'\\''; rm -rf ~; '\\'''"));
	text(&s->path, "/a\nrm -rf ~");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("secret-open", FM_ERROR, "", "fmove keygen"));
	CU_ASSERT_PTR_NULL(strstr(scene_found.at[0].mend, "rm -rf"));
	fm_fact_unknown(&s->path, "left out");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("secret-open", FM_ERROR, "(not known)", "fmove keygen"));
	CU_ASSERT_PTR_NULL(strstr(scene_found.at[0].mend, "chmod"));
	fm_facts_free(f);
}

static void test_store(void)
{
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_store *s = fm_facts_add(f, f->stores, &f->stores_count);

	text(&s->name, "data");
	text(&s->directory, "/data");
	fm_fact_number(&s->mode, 0775);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&s->mode, 01777);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("store-writable", FM_WARNING,
				     "/data of store data has mode 1777", "chmod o-w -- '/data'"));
	fm_facts_free(f);
}

/* Goal: a port that is open to the LAN is told if no peer is reached there. */
static void test_listens(void)
{
	struct fm_facts *f = scene_v100("n1", 1);
	struct fm_facts_rail *rail = fm_facts_add(f, f->rails, &f->rails_count);
	struct fm_facts_route *r = fm_facts_add(f, f->routes, &f->routes_count);

	fm_fact_text(&rail->local, FM_FACT_ADDRESS, "10.4.0.1");
	fm_fact_text(&r->destination, FM_FACT_ADDRESS, "0.0.0.0");
	fm_fact_number(&r->bits, 0);
	fm_fact_text(&r->interface, FM_FACT_NAME, "eno1");
	text(&f->daemon.listen, "10.4.0.1:7471");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	text(&f->daemon.listen, "[::]:7471");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("listens-on-lan", FM_NOTE, "listens at [::]:7471, so at eno1",
				     "iifname eno1 tcp dport 7471 drop"));
	fm_fact_text(&rail->local, FM_FACT_ADDRESS, "192.168.1.1"); /* it is needed */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_unknown(&rail->local, "anonymous"); /* it may be */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_text(&rail->local, FM_FACT_ADDRESS, "10.4.0.1");
	fm_fact_text(&r->interface, FM_FACT_NAME, "ens1f0np0"); /* all goes over the one port */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "a secret can be read by others, and no path becomes another command", test_key },
	{ "a store can be written by every user", test_store },
	{ "a port is open where no peer is reached", test_listens },
};
FM_TEST_MAIN("doctor_security", tests)
