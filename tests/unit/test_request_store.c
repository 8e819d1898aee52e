/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/* test_request_store - what is told of a request at a store whose path leads elsewhere by then. */
#include "mover/services/request_store.c"

#include <stdlib.h>

#include "mover/base/env.h"
#include "mover/node/node.h"
#include "tests/fm_test.h"

static const struct fm_service *const services[] = { &fm_request_service, NULL };
static const struct fm_store_ops ops = { .free = NULL };

static void take_result(void *ctx, const struct fm_request_result *result)
{
	*(struct fm_err *)ctx = result->err;
}

/* A request at a store that the path has left, which ended with that. */
static struct fm_err told(enum fm_verb verb, int ret)
{
	struct fm_engine *e = calloc(1, sizeof(*e));
	struct fm_store store = { .name = "t", .ops = &ops };
	struct fm_store_ref ref = { .store = &store, .refs = 2, .is_left = true };
	struct fm_err got = { 0 };
	struct fm_request *r;

	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	e->env.services = services;
	CU_ASSERT_EQUAL_FATAL(fm_services_init(e, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&(struct fm_loop_opts){ 0 }, &e->env.loop, NULL), 0);
	r = fm_request_new(e, "x", 1, NULL, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	r->is_ours = r->is_working = true;
	r->verb = verb;
	r->store_ref = &ref;
	r->done = take_result;
	r->ctx = &got;
	r->work_ret = ret < 0 ? fm_err_set(&r->work_err, ret, "for another reason") : 0;
	work_done(&r->work);
	while (!fm_request_service.is_idle(e))
		fm_loop_step(e->env.loop, FM_NEVER);
	CU_ASSERT_EQUAL(ref.refs, 1);
	fm_loop_free(e->env.loop);
	fm_services_free(e);
	free(e);
	return got;
}

/* Goal: nothing is told to be done in a directory where nobody looks for it. Reading went on. */
static void test_left(void)
{
	static const enum fm_verb changes[] = {FM_VERB_REMOVE,	    FM_VERB_MKDIR,
					       FM_VERB_MOVE,	    FM_VERB_LINK,
					       FM_VERB_GROUP_BEGIN, FM_VERB_GROUP_DISCARD};
	struct fm_err err;

	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		err = told(changes[i], 0);
		CU_ASSERT_EQUAL(err.code, -EAGAIN);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "store t: its path leads to another "
							"directory than the one that this was done "
							"in; do it again"));
	}
	err = told(FM_VERB_GROUP_COMMIT, 0);
	CU_ASSERT_EQUAL(err.code, -EAGAIN);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "put what is in it again"));
	CU_ASSERT_EQUAL(told(FM_VERB_STAT, 0).code, 0);
	CU_ASSERT_EQUAL(told(FM_VERB_LIST, 0).code, 0);
	err = told(FM_VERB_MOVE, -ENOENT);
	CU_ASSERT_EQUAL(err.code, -ENOENT);
	CU_ASSERT_STRING_EQUAL(err.text, "for another reason");
}

static const struct fm_test tests[] = {
	{ "nothing is told done in a directory that the path has left", test_left },
};
FM_TEST_MAIN("request_store", tests)
