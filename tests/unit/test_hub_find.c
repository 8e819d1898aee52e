/* SPDX-License-Identifier: MIT */
/*
 * test_hub_find - the nodes that are asked who has a repository are peers, and may answer anything.
 *
 * The requests are answered here, by a peer that names one store behind the other.
 */
#define fm_request_start answer_later
#include "staging/service/hub_find.c"

#include "tests/fm_test.h"

static struct {
	struct fm_request_opts o;
	void (*done)(void *ctx, const struct fm_request_result *r);
	void *ctx;
	bool is_waiting;
} asked;
static unsigned requests;
static const char *from = "";	/* what is asked first */
static bool has_none;		/* this node has no store */
static bool lacks_first;	/* that has nothing */
static const char *commit;	/* that each store names; NULL: none has anything */

int answer_later(struct fm_engine *engine, const struct fm_request_opts *o,
		 void (*done)(void *ctx, const struct fm_request_result *r), void *ctx,
		 struct fm_err *err)
{
	(void)engine;
	(void)err;
	CU_ASSERT_FALSE(asked.is_waiting);
	asked.o = *o;
	asked.done = done;
	asked.ctx = ctx;
	asked.is_waiting = true;
	return 0;
}

/* Names a store behind the last one, which may be read. */
static void answer(void)
{
	struct fm_space_page page = { .space.may_read = true };
	struct fm_request_result r = { .code = 0, .page = &page };
	struct fm_entry entry = { .whole = 0 };
	char name[32];

	requests++;
	(void)snprintf(name, sizeof(name), "s%09u", requests);
	asked.is_waiting = false;
	(void)snprintf(entry.name, sizeof(entry.name), "%s", commit ? commit : "");
	r.entries = &entry;
	if (asked.o.verb == FM_VERB_LIST && commit && !(lacks_first && requests == 1))
		r.count = 1;
	else if (asked.o.verb == FM_VERB_LIST)
		r.code = -ENOENT;
	else
		r.store = has_none ? NULL : name;
	asked.done(asked.ctx, &r);
}

static void found_it(void *ctx, const struct fm_hub_found *found)
{
	*(struct fm_hub_found *)ctx = *found;
}

/* What is found of a revision, when each store says that it is the commit. */
static struct fm_hub_found find(const char *revision, const char *says)
{
	struct fm_hub_name name = { .dir = "models--org--name" };
	const struct fm_who who = { .uid = 1 };
	struct fm_engine engine = { .name = "n1" };
	struct fm_hub_found found = { .node = "" };
	struct fm_err err;

	(void)snprintf(name.revision, sizeof(name.revision), "%s", revision);
	fm_list_init(&engine.peers);
	commit = says;
	CU_ASSERT_EQUAL_FATAL(fm_hub_find(&engine, &name, &who, from, found_it, &found, &err), 0);
	while (asked.is_waiting)
		answer();
	commit = NULL;
	return found;
}

static void test_other_commit(void)
{
	static const char one[] = "1111111111111111111111111111111111111111";
	static const char two[] = "2222222222222222222222222222222222222222";

	CU_ASSERT_STRING_EQUAL(find("main", two).commit, two);
	CU_ASSERT_STRING_EQUAL(find(two, two).commit, two);
	CU_ASSERT_EQUAL(find(one, two).err.code, -ENOENT);
	requests = 0;
}

/* A store of this node that it is from is asked before all others, and these if it has nothing. */
static void test_first(void)
{
	static const char one[] = "1111111111111111111111111111111111111111";
	struct fm_hub_found found;

	from = "n1:ours";
	found = find("main", one);
	CU_ASSERT_EQUAL(requests, 1);
	CU_ASSERT_STRING_EQUAL(found.node, "n1");
	CU_ASSERT_STRING_EQUAL(found.store, "ours");
	requests = 0;
	lacks_first = true;
	found = find("main", one);
	CU_ASSERT_STRING_EQUAL(found.node, "n1");
	CU_ASSERT_STRING_EQUAL(found.commit, one);
	lacks_first = false;
	from = "";
	requests = 0;
}

/* A store of another node comes behind those of this one, and before those of other nodes. */
static void test_first_of_another(void)
{
	static const char one[] = "1111111111111111111111111111111111111111";
	struct fm_hub_found found;

	from = "n7:theirs";
	CU_ASSERT_STRING_EQUAL(find("main", one).node, "n1");
	requests = 0;
	has_none = true;
	found = find("main", one);
	CU_ASSERT_STRING_EQUAL(found.node, "n7");
	CU_ASSERT_STRING_EQUAL(found.store, "theirs");
	has_none = false;
	from = "";
	requests = 0;
}

static void found_none(void *ctx, const struct fm_hub_found *found)
{
	*(int *)ctx = found->err.code;
}

static void test_endless_stores(void)
{
	const struct fm_hub_name name = { .dir = "models--org--name", .revision = "main" };
	const struct fm_who who = { .uid = 1 };
	struct fm_engine engine = { .name = "n1" };
	struct fm_err err;
	int code = 0;

	fm_list_init(&engine.peers);
	CU_ASSERT_EQUAL_FATAL(fm_hub_find(&engine, &name, &who, "", found_none, &code, &err), 0);
	while (asked.is_waiting && requests < 4 * FM_STORES_MAX)
		answer();
	CU_ASSERT_EQUAL(code, -ENOENT);
	CU_ASSERT_FALSE(asked.is_waiting);
	CU_ASSERT_EQUAL(requests, 2 * FM_STORES_MAX + 1);
}

static const struct fm_test tests[] = {
	{ "a node that says of a commit that it is another one is passed over", test_other_commit },
	{ "the store that it is from is asked first", test_first },
	{ "a store of another node comes behind this node's", test_first_of_another },
	{ "a node that names stores without end is asked no more", test_endless_stores },
};

int main(void)
{
	return fm_test_main("hub_find", tests, sizeof(tests) / sizeof(tests[0]));
}
