/* SPDX-License-Identifier: MIT */
/* links: fm_parts fm_api */
/*
 * test_tables - the rows that the engine and the local API walk: a message that nobody takes, or an
 * operation that nothing begins, would be found by whoever sends it only.
 */
#include <string.h>

#include "mover/api/api_op.h"
#include "mover/daemon/parts.h"
#include "mover/node/engine.h"
#include "mover/node/service.h"
#include "mover/services/services.h"
#include "tests/fm_test.h"

#define TYPES_MAX 256

/* What a session takes itself. */
static bool is_sessions(unsigned type)
{
	switch (type) {
	case FM_WIRE_HELLO:
	case FM_WIRE_BYE:
	case FM_WIRE_PING:
	case FM_WIRE_PONG:
	case FM_WIRE_RECEIVED:
	case FM_WIRE_RESUME:
	case FM_WIRE_ADDRS:
	case FM_WIRE_TOKENS_WANT:
	case FM_WIRE_TOKENS:
		return true;
	default:
		return false;
	}
}

static unsigned takers(unsigned type)
{
	const struct fm_service *const *all = fm_parts_services();
	unsigned n = 0;

	for (unsigned i = 0; all[i]; i++)
		for (unsigned k = 0; k < all[i]->message_count; k++)
			n += all[i]->messages[k].type == type;
	return n;
}

static void test_every_message_has_a_taker(void)
{
	unsigned types = 0;

	for (unsigned type = 0; type < TYPES_MAX; type++) {
		unsigned n = takers(type);

		if (strcmp(fm_wire_type_name(type), "?") == 0 || is_sessions(type)) {
			CU_ASSERT_EQUAL(n, 0);
			continue;
		}
		types++;
		/* Of a transfer, or of a verification. */
		CU_ASSERT_EQUAL(n, type == FM_WIRE_ABORT ? 2 : 1);
	}
	CU_ASSERT_TRUE(types > 15);
}

static void test_every_service_can_end(void)
{
	const struct fm_service *const *all = fm_parts_services();
	unsigned n = 0;

	for (; all[n]; n++) {
		const struct fm_service *s = all[n];

		CU_ASSERT_PTR_NOT_NULL(s->name);
		/* What is told to stop says when it has, and what the engine would wait for is
		 * told. */
		CU_ASSERT_EQUAL(s->stop != NULL, s->is_idle != NULL);
	}
	CU_ASSERT_TRUE(n > 0 && n <= FM_SERVICES_MAX);
}

static void test_every_operation_begins(void)
{
	const struct fm_api_op *const *ops = fm_parts_ops();
	unsigned n = 0;

	for (unsigned i = 0; ops[i]; i++, n++) {
		const struct fm_api_op *op = ops[i];

		CU_ASSERT_TRUE(op->answer || op->start);
		CU_ASSERT_TRUE(op->start || (!op->cancel && !op->abandon));
		for (unsigned k = 0; k < i; k++)
			CU_ASSERT_STRING_NOT_EQUAL(op->name, ops[k]->name);
	}
	CU_ASSERT_TRUE(n > 0 && ops == fm_parts_ops());
}

static const struct fm_test tests[] = {
	{ "every message has somebody who takes it", test_every_message_has_a_taker },
	{ "every service can be ended", test_every_service_can_end },
	{ "every operation has what begins it", test_every_operation_begins },
};
FM_TEST_MAIN("tables", tests)
