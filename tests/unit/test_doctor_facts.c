/* SPDX-License-Identifier: MIT */
/* The document of facts: written, read, refused. links: fm_cli */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "tests/unit/doctor_scene.h"

static char first[1u << 20], second[1u << 20];

static int parse(const char *text, struct fm_facts **out, struct fm_err *err)
{
	fm_err_clear(err);
	return fm_facts_parse(text, strlen(text), out, err);
}

/*
 * Goal:   nothing is lost between nodes.
 * Method: every machine, with names that are no UTF-8 and facts that are unknown, is written, read
 * and written again.
 */
static void test_round_trip(void)
{
	struct fm_facts *nodes[SCENE_NODES_MAX], *again;
	struct fm_facts_store *s;
	struct fm_err err;

	for (unsigned scene = 0; scene < SCENES; scene++) {
		unsigned count = scene_all(scene, nodes);

		s = fm_facts_add(nodes[0], nodes[0]->stores, &nodes[0]->stores_count);
		text(&s->directory, "/data/\xff\x01 \"x\"");
		fm_fact_unknown(&s->mode, "stat: %s", "Permission denied");
		fm_fact_unknown(&nodes[0]->rails_read, "no daemon");
		nodes[0]->left_out = 7;
		CU_ASSERT_TRUE_FATAL(fm_facts_write(nodes[0], first, sizeof(first)) > 0);
		CU_ASSERT_EQUAL_FATAL(parse(first, &again, &err), 0);
		CU_ASSERT_TRUE(fm_facts_write(again, second, sizeof(second)) > 0);
		CU_ASSERT_STRING_EQUAL(first, second);
		CU_ASSERT_STRING_EQUAL(fm_text_of(&again->stores[0].directory),
				       "/data/\xff\x01 \"x\"");
		CU_ASSERT_STRING_EQUAL(again->stores[0].mode.text, "stat: Permission denied");
		CU_ASSERT_PTR_NULL(again->stores[0].disk.text); /* it was not looked for */
		CU_ASSERT_TRUE(!again->rails_read.is_known && again->left_out == 7);
		fm_facts_free(again);
		scene_free(nodes, count);
	}
}

/*
 * What an older fmove did not write is unknown; what a newer one of this version wrote beside it is
 * passed over.
 */
static void test_missing(void)
{
	struct fm_facts *f;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(parse("{\"fmove_facts\":1,\"future\":[{}],\"interfaces\":[{\"name\":"
				    "\"eth0\",\"colour\":3}]}",
				    &f, &err),
			      0);
	CU_ASSERT_TRUE(f->interfaces_read.is_known && f->interfaces_count == 1 &&
		       fm_fact_is(&f->interfaces[0].name, "eth0"));
	CU_ASSERT_TRUE(!f->interfaces[0].mtu.is_known && !f->ports_read.is_known);
	CU_ASSERT_STRING_EQUAL(f->interfaces[0].mtu.text, "the document does not have it");
	fm_facts_free(f);
}

static void test_refused(void)
{
	static const struct {
		const char *text;
		int code;
		const char *why;
	} bad[] = {
		{ "", -EINVAL, "not a JSON object" },
		{ "[1]", -EINVAL, "not a JSON object" },
		{ "{}", -EINVAL, "not a document of facts" },
		{ "{\"fmove_facts\":\"1\"}", -EINVAL, "not a document of facts" },
		{ "{\"fmove_facts\":0}", -EINVAL, "not a document of facts" },
		{ "{\"fmove_facts\":2}", -EOPNOTSUPP, "facts of version 2, this fmove knows 1" },
		{ "{\"fmove_facts\":1,\"node\":[]}", -EINVAL, "node: not an object" },
		{ "{\"fmove_facts\":1,\"ports\":{}}", -EINVAL, "ports: not an array" },
		{ "{\"fmove_facts\":1,\"ports\":[3]}", -EINVAL, "ports: not an object" },
		{ "{\"fmove_facts\":1,\"interfaces\":[{\"mtu\":-1}]}", -EINVAL,
		  "interfaces.mtu: not a value" },
		{ "{\"fmove_facts\":1,\"interfaces\":[{\"mtu\":\"9000\"}]}", -EINVAL,
		  "interfaces.mtu: not a value" },
		{ "{\"fmove_facts\":1,\"interfaces\":[{\"mtu\":1e3}]}", -EINVAL,
		  "interfaces.mtu: not a value" },
		{ "{\"fmove_facts\":1,\"ports\":[{\"pcie_lanes\":65}]}", -EINVAL,
		  "ports.pcie_lanes: not a value" },
		{ "{\"fmove_facts\":1,\"interfaces\":[{\"has_master\":1}]}", -EINVAL,
		  "interfaces.has_master: not a value" },
		{ "{\"fmove_facts\":1,\"interfaces\":[{\"name\":\"eth0; reboot\"}]}", -EINVAL,
		  "interfaces.name: not a value" },
		{ "{\"fmove_facts\":1,\"interfaces\":[{\"name\":\"-x\"}]}", -EINVAL,
		  "interfaces.name: not a value" },
		{ "{\"fmove_facts\":1,\"interfaces\":[{\"name\":\"\"}]}", -EINVAL,
		  "interfaces.name: not a value" },
		{ "{\"fmove_facts\":1,\"addresses\":[{\"address\":\"10.0.0.1 # x\"}]}", -EINVAL,
		  "addresses.address: not a value" },
		{ "{\"fmove_facts\":1,\"stores\":[{\"name\":\"a\\u0000b\"}]}", -EINVAL,
		  "stores.name: not a value" },
		{ "{\"fmove_facts\":1,\"stores\":[{\"name\":{\"bytes\":\"!\"}}]}", -EINVAL,
		  "stores.name: not a value" },
	};
	struct fm_facts *f;
	struct fm_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(parse(bad[i].text, &f, &err), bad[i].code);
		if (!strstr(err.text, bad[i].why))
			printf("%s: %s\n", bad[i].text, err.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, bad[i].why));
	}
}

/* As many items as a list has room for, and one more. */
static void test_too_many(void)
{
	struct fm_facts *f;
	struct fm_err err;
	size_t len;

	for (unsigned more = 0; more < 2; more++) {
		len = (size_t)snprintf(first, sizeof(first),
				       "{\"fmove_facts\":1,\"processes\":[{}");
		for (unsigned i = 1; i < FM_FACTS_PROCESSES_MAX + more; i++)
			len += (size_t)snprintf(first + len, sizeof(first) - len, ",{}");
		(void)snprintf(first + len, sizeof(first) - len, "]}");
		if (more == 0) {
			CU_ASSERT_EQUAL_FATAL(parse(first, &f, &err), 0);
			CU_ASSERT_EQUAL(f->processes_count, FM_FACTS_PROCESSES_MAX);
			CU_ASSERT_PTR_NULL(fm_facts_add(f, f->processes, &f->processes_count));
			CU_ASSERT_EQUAL(f->left_out, 1);
			fm_facts_free(f);
		} else {
			CU_ASSERT_EQUAL(parse(first, &f, &err), -EINVAL);
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "processes: has 65 entries"));
		}
	}
}

/* A file is read to its limit and no further: this one has no end. */
static void test_files(void)
{
	struct fm_facts *f;
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_facts_load("/dev/zero", &f, &err), -E2BIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/dev/zero: longer than"));
	CU_ASSERT_EQUAL(fm_facts_load("/dev/null", &f, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_facts_load("/", &f, &err), -EISDIR);
	CU_ASSERT_EQUAL(fm_facts_load("/nowhere/at/all", &f, &err), -ENOENT);
	CU_ASSERT_STRING_EQUAL(err.text, "/nowhere/at/all: open: No such file or directory");
}

/* Neither a name nor an address, nor a reason that has one in it. */
static void test_anonymous(void)
{
	static const char *const own[] = { "n1", "10.0.0.1", "ffff:10.0.0.1", "/data/mine",
					   "10.0.0.0" };
	struct fm_facts *nodes[2];
	struct fm_facts_store *s;

	scene_spark_pair(nodes);
	s = fm_facts_add(nodes[0], nodes[0]->stores, &nodes[0]->stores_count);
	text(&s->directory, "/data/mine");
	fm_fact_unknown(&s->mode, "/data/mine: Permission denied");
	fm_fact_unknown(&nodes[0]->files_read, "/data/mine/fmove.conf:3: wrong");
	CU_ASSERT_TRUE(fm_facts_write(nodes[0], first, sizeof(first)) > 0);
	fm_facts_anonymize(nodes[0]);
	CU_ASSERT_TRUE(fm_facts_write(nodes[0], second, sizeof(second)) > 0);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		char quoted[64];

		(void)snprintf(quoted, sizeof(quoted), i == 0 ? "\"%s\"" : "%s", own[i]);
		CU_ASSERT_PTR_NOT_NULL(strstr(first, quoted));
		CU_ASSERT_PTR_NULL(strstr(second, quoted));
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(second, "enp1s0f0np0"));
	scene_free(nodes, 2);
}

/* It is told that it does not fit, whatever the size. */
static void test_small_buffer(void)
{
	struct fm_facts *f = scene_v100("n1", 1);
	int len = fm_facts_write(f, first, sizeof(first));

	CU_ASSERT_TRUE_FATAL(len > 0);
	for (size_t cap = 1; cap <= (size_t)len; cap += 97)
		CU_ASSERT_EQUAL(fm_facts_write(f, second, cap), -EMSGSIZE);
	CU_ASSERT_EQUAL(fm_facts_write(f, second, (size_t)len + 1), len);
	fm_facts_free(f);
}

/* The asterisk behind a key of the manual, or not; at its section. false: the key is not there. */
static bool is_documented(const char *section, const char *end, const char *key, bool is_personal)
{
	size_t len = strlen(key);

	for (const char *at = section; (at = strstr(at, key)) != NULL && at < end; at += len) {
		bool is_word = strchr(" \"\n", at[-1]) && strchr(" \"\n*", at[len]) && at[len];
		const char *star = at + len + strspn(at + len, " \"");

		if (is_word && (*star == '*') == is_personal)
			return true;
	}
	return false;
}

/* Every key is in its section of fmove-facts(5), with an asterisk if --anonymous leaves it out. */
static void test_manual(void)
{
	static char page[64u << 10];
	FILE *file = fopen(FM_SOURCE_DIR "/client/man/fmove-facts.5", "re");
	char heading[64];

	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
	fclose(file);
	for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++) {
		const char *section, *end;

		(void)snprintf(heading, sizeof(heading), ".SH \"%s\"\n", s->key);
		section = strstr(page, heading);
		CU_ASSERT_PTR_NOT_NULL_FATAL(section);
		section += strlen(heading);
		end = strstr(section, ".SH ");
		for (const struct fm_facts_row *row = s->rows; row->key; row++) {
			bool is = is_documented(section, end, row->key, row->is_personal);

			if (!is)
				printf("fmove-facts(5), %s: %s\n", s->key, row->key);
			CU_ASSERT_TRUE(is);
		}
	}
}

static const struct fm_test tests[] = {
	{ "what is written is read again", test_round_trip },
	{ "what a document lacks is unknown, what it has beside is passed over", test_missing },
	{ "what is no facts, of a newer version, or a lie is refused", test_refused },
	{ "a list has room for so many and no more", test_too_many },
	{ "a file is read to its limit", test_files },
	{ "anonymous facts have no names and no addresses", test_anonymous },
	{ "a document that does not fit is told", test_small_buffer },
	{ "the manual has every key, and says which are personal", test_manual },
};
FM_TEST_MAIN("doctor_facts", tests)
