/* SPDX-License-Identifier: MIT */
/* All checks together. links: fm_cli */
#include <stdlib.h>

#include "mover/base/err.h"
#include "tests/unit/doctor_scene.h"

/*
 * Goal:   no false alarm.
 * Method: every healthy machine, all checks, its nodes together and each alone.
 */
static void test_healthy(void)
{
	struct fm_facts *nodes[SCENE_NODES_MAX];

	for (unsigned i = 0; i < SCENES; i++) {
		unsigned count = scene_all(i, nodes);

		scene_check(fm_check_all, nodes, count);
		CU_ASSERT_PTR_NULL(scene_finding(""));
		CU_ASSERT_EQUAL(scene_found.count, 0);
		for (unsigned k = 0; k < count; k++) {
			scene_check(fm_check_all, &nodes[k], 1);
			CU_ASSERT_EQUAL(scene_found.count, 0);
		}
		scene_free(nodes, count);
	}
}

static void forget(struct fm_facts *f, const struct fm_facts_section *s, size_t i,
		   const struct fm_facts_row *row)
{
	fm_fact_unknown(fm_facts_fact(f, s, i, row), "the test took it away");
}

/*
 * Goal:   what is unknown is no finding.
 * Method: of every machine each kind of fact becomes unknown, alone, in every item and node; and
 * all of them at once.
 */
static void test_unknown(void)
{
	struct fm_facts *nodes[SCENE_NODES_MAX];
	unsigned tried = 0;

	for (unsigned scene = 0; scene < SCENES; scene++)
		for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++)
			for (const struct fm_facts_row *row = s->rows; row->key; row++) {
				unsigned count = scene_all(scene, nodes);

				for (unsigned k = 0; k < count; k++)
					for (size_t i = 0; i < fm_facts_count(nodes[k], s); i++)
						forget(nodes[k], s, i, row);
				scene_check(fm_check_all, nodes, count);
				if (scene_found.count > 0)
					printf("scene %u without %s.%s: %s\n", scene, s->key,
					       row->key, scene_found.at[0].id);
				CU_ASSERT_EQUAL(scene_found.count, 0);
				scene_free(nodes, count);
				tried++;
			}
	CU_ASSERT_TRUE(tried > 100 * SCENES);
}

static bool says(const char *text)
{
	for (size_t i = 0; i < scene_found.count; i++) {
		const struct fm_finding *f = &scene_found.at[i];

		if (strstr(f->read, text) || strstr(f->means, text) || strstr(f->mend, text))
			return true;
	}
	return false;
}

/* The machine with most that is wrong, and one beside it whose addresses and MTU do not fit. */
static void load_broken(struct fm_facts *nodes[static 2])
{
	struct fm_err err;

	if (fm_facts_load(FM_SOURCE_DIR "/tests/fuzz/corpus/facts/many_findings.json", &nodes[0],
			  &err) < 0)
		abort();
	nodes[1] = scene_connectx3("n2", 2);
	for (size_t i = 0; i < 2; i++) {
		fm_fact_text(&nodes[1]->addresses[i].address, FM_FACT_ADDRESS,
			     i == 0 ? "10.0.0.1" : "10.0.0.2");
		fm_fact_number(&nodes[1]->addresses[i].bits, 30);
		fm_fact_number(&nodes[1]->interfaces[i].nm_managed, true);
	}
}

/*
 * Goal:   a finding says nothing of what is unknown, least of all in a command.
 * Method: of two nodes with much that is wrong each kind of fact becomes unknown, alone; the reason
 *         of it, or a null, must not be in any finding.
 */
static void test_broken_and_unknown(void)
{
	struct fm_facts *nodes[2];
	bool has_reason = true;

	load_broken(nodes);
	scene_check(fm_check_all, nodes, 2);
	CU_ASSERT_TRUE(scene_found.count > 18);
	scene_free(nodes, 2);
	for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++)
		for (const struct fm_facts_row *row = s->rows; row->key; row++) {
			load_broken(nodes);
			for (unsigned k = 0; k < 2; k++)
				for (size_t i = 0; i < fm_facts_count(nodes[k], s); i++)
					forget(nodes[k], s, i, row);
			scene_check(fm_check_all, nodes, 2);
			has_reason = says("the test took it away") || says("(null)");
			if (has_reason)
				printf("without %s.%s\n", s->key, row->key);
			CU_ASSERT_FALSE(has_reason);
			scene_free(nodes, 2);
		}
}

/* Nothing at all is known, as on a machine whose sysfs cannot be read. */
static void test_nothing(void)
{
	struct fm_facts *f = fm_facts_new();

	scene_check(fm_check_all, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

/* A line that does not fit is left out whole, and the lines around it stay. */
static void test_long_lines(void)
{
	struct fm_facts *f = scene_node("n1");
	char path[3000];
	struct fm_finding *finding;

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	memset(&scene_found, 0, sizeof(scene_found));
	finding = fm_finding_add(&scene_found, "id", FM_NOTE, f);
	fm_finding_mend(finding, "one");
	fm_finding_mend(finding, "rm -- %s", path);
	fm_finding_mend(finding, "two");
	CU_ASSERT_STRING_EQUAL(finding->mend, "one\ntwo");
	for (unsigned i = 0; i < FM_FINDINGS_MAX + 3; i++)
		(void)fm_finding_add(&scene_found, "id", FM_NOTE, f);
	CU_ASSERT_EQUAL(scene_found.count, FM_FINDINGS_MAX);
	CU_ASSERT_EQUAL(scene_found.left_out, 4);
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "a healthy machine has no finding", test_healthy },
	{ "what is unknown is no finding", test_unknown },
	{ "a finding says nothing of what is unknown", test_broken_and_unknown },
	{ "a machine of which nothing is known has no finding", test_nothing },
	{ "a line that does not fit is left out whole", test_long_lines },
};
FM_TEST_MAIN("doctor", tests)
