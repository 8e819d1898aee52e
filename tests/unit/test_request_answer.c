/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/* test_request_answer - what a peer is told of why it gets nothing. */
#include "mover/node/session.h"
#include "tests/fm_test.h"

static unsigned code;		/* that was told */

static void note_code(struct fm_session *s, const struct fm_wire_msg *m)
{
	(void)s;
	code = m->reply.code;
}

#define fm_session_send note_code
#include "mover/services/request_answer.c"

static unsigned told(const struct fm_err *why)
{
	struct fm_request *r = calloc(1, sizeof(*r));

	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	r->verb = FM_VERB_STAT;
	r->code = why->code;
	r->err = *why;
	code = 0;
	fm_request_answer(r);
	free(r);
	return code;
}

/* A directory that the service itself may not open forbids that no user. */
static void test_rule(void)
{
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(told(&err), 0);
	(void)fm_err_sys(&err, -EACCES, "open \"models--a--b\"");
	CU_ASSERT_EQUAL(told(&err), EPERM);
	(void)fm_err_rule(&err, "peer a may not read here");
	CU_ASSERT_EQUAL(told(&err), EACCES);
}

static const struct fm_test tests[] = {
	{ "that its rules refuse is told of a store's rules alone", test_rule },
};
FM_TEST_MAIN("request_answer", tests)
