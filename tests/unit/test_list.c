/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include "mover/base/list.h"
#include "tests/fm_test.h"

struct member {
	int value;
	struct fm_list link;
};

static struct member members[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};

/* The values of the list as one decimal number, 312 for 3, 1, 2. */
static int list_digits(struct fm_list *head)
{
	int digits = 0;

	fm_list_each(at, next, head)
		digits = digits * 10 + fm_container_of(at, struct member, link)->value;
	return digits;
}

static void test_order(void)
{
	struct fm_list head;

	fm_list_init(&head);
	CU_ASSERT_TRUE(fm_list_is_empty(&head));
	fm_list_append(&head, &members[1].link);
	fm_list_append(&head, &members[2].link);
	fm_list_prepend(&head, &members[3].link);
	CU_ASSERT_EQUAL(list_digits(&head), 312);
	CU_ASSERT_FALSE(fm_list_is_empty(&head));
}

static void test_del(void)
{
	struct fm_list head;

	fm_list_init(&head);
	for (int i = 1; i < 4; i++)
		fm_list_append(&head, &members[i].link);
	fm_list_del(&members[2].link);
	CU_ASSERT_EQUAL(list_digits(&head), 13);
	fm_list_del(&members[2].link);
	CU_ASSERT_EQUAL(list_digits(&head), 13);
	CU_ASSERT_TRUE(fm_list_is_empty(&members[2].link));
}

static void test_pop(void)
{
	struct fm_list head;

	fm_list_init(&head);
	CU_ASSERT_PTR_NULL(fm_list_pop(&head));
	fm_list_append(&head, &members[1].link);
	fm_list_append(&head, &members[2].link);
	CU_ASSERT_PTR_EQUAL(fm_list_pop(&head), &members[1].link);
	CU_ASSERT_PTR_EQUAL(fm_list_pop(&head), &members[2].link);
	CU_ASSERT_PTR_NULL(fm_list_pop(&head));
}

static void test_each_unlinks(void)
{
	struct fm_list head;

	fm_list_init(&head);
	for (int i = 1; i < 4; i++)
		fm_list_append(&head, &members[i].link);
	fm_list_each(at, next, &head)
		if (fm_container_of(at, struct member, link)->value != 2)
			fm_list_del(at);
	CU_ASSERT_EQUAL(list_digits(&head), 2);
	fm_list_each(at, next, &head)
		fm_list_del(at);
	CU_ASSERT_TRUE(fm_list_is_empty(&head));
}

static const struct fm_test tests[] = {
	{ "members come in the order appended, prepended ones first", test_order },
	{ "a member may be taken off twice", test_del },
	{ "pop takes from the front until nothing is left", test_pop },
	{ "the body of a walk may unlink the member it is at", test_each_unlinks },
};
FM_TEST_MAIN("list", tests)
