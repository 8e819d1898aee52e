/* SPDX-License-Identifier: MIT */
/*
 * owned: which controllers are the supervisor's, whatever they are called by now.
 *
 * links: fm_nvmetcp
 */
#include <errno.h>
#include <string.h>

#include "mover/base/err.h"
#include "nvmetcp/owned.h"
#include "tests/fm_test.h"

#define NQN "nqn.2026-01.org.fmove:data"
#define HOST "nqn.host"

static struct fm_err err;

static struct fm_inv_controller controller(const char *name, uint64_t id, const char *nqn,
					   const char *address)
{
	struct fm_inv_controller c = { .id = id };

	strcpy(c.name, name);
	strcpy(c.transport, "tcp");
	strcpy(c.subsysnqn, nqn);
	strcpy(c.hostnqn, HOST);
	strcpy(c.traddr, address);
	strcpy(c.trsvcid, "4420");
	return c;
}

static bool settle(struct fm_owned_list *list, struct fm_inv_controller c)
{
	struct fm_inventory inv = { .controllers = &c, .controller_count = c.name[0] != '\0' };

	return fm_owned_settle(list, &inv, HOST);
}

static struct fm_owned_list made(void)
{
	struct fm_owned_list list = { 0 };

	CU_ASSERT_EQUAL(fm_owned_expect(&list, NQN, "fd00::1", "4420", &err), 0);
	CU_ASSERT_EQUAL(fm_owned_expect(&list, NQN, "fd00:0::1", "4420", &err), 0);
	CU_ASSERT_EQUAL(list.count, 1);
	fm_owned_made(&list, NQN, "fd00::1", "4420", "nvme3", 17);
	CU_ASSERT_TRUE(settle(&list, controller("nvme3", 100, NQN, "FD00:0::1")));
	CU_ASSERT_EQUAL_FATAL(list.count, 1);
	CU_ASSERT_EQUAL(list.entry[0].id, 100);
	return list;
}

static void test_stays(void)
{
	struct fm_owned_list list = made();

	CU_ASSERT_FALSE(settle(&list, controller("nvme3", 100, NQN, "fd00::1")));
	/* It reconnects, and its kernel does not say where to. */
	CU_ASSERT_FALSE(settle(&list, controller("nvme3", 100, "(efault)", "fd00::1")));
	CU_ASSERT_EQUAL(list.count, 1);
	fm_owned_clear(&list);
}

static void test_goes(void)
{
	const struct fm_inv_controller others[] = {
		controller("nvme3", 101, NQN, "fd00::1"),	/* made anew by somebody */
		controller("nvme3", 100, "other", "fd00::1"),
		controller("nvme3", 100, NQN, "fd00::2"),
		controller("nvme4", 100, NQN, "fd00::1"),
		{ .name = "" },
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct fm_owned_list list = made();

		CU_ASSERT_TRUE(settle(&list, others[i]));
		CU_ASSERT_EQUAL(list.count, 0);
		fm_owned_clear(&list);
	}
}

static void test_doubt(void)
{
	struct fm_inv_controller of_other_host = controller("nvme1", 7, NQN, "10.0.0.1");
	struct fm_owned_list list = { 0 };

	CU_ASSERT_EQUAL(fm_owned_expect(&list, NQN, "10.0.0.1", "4420", &err), 0);
	strcpy(of_other_host.hostnqn, "nqn.other");
	CU_ASSERT_FALSE(settle(&list, of_other_host));
	CU_ASSERT_TRUE(settle(&list, controller("nvme1", 7, "(efault)", "10.0.0.1")));
	CU_ASSERT_STRING_EQUAL(list.entry[0].controller, "nvme1");
	/* It was somebody else's: the helper process says so afterwards. */
	fm_owned_forget(&list, NQN, "10.0.0.1", "4420");
	CU_ASSERT_EQUAL(list.count, 0);
	CU_ASSERT_EQUAL(fm_owned_expect(&list, NQN, "10.0.0.1", "4420", &err), 0);
	fm_owned_made(&list, NQN, "10.0.0.1", "4420", "nvme1", 7);
	fm_owned_forget(&list, NQN, "10.0.0.1", "4420");
	CU_ASSERT_EQUAL(list.count, 1);
	fm_owned_clear(&list);
}

static void test_text(void)
{
	struct fm_owned_list list = made(), again;
	char *text;

	CU_ASSERT_EQUAL(fm_owned_expect(&list, "disk1", "10.0.0.1", "4420", &err), 0);
	text = fm_owned_write(&list, "boot-1");
	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	CU_ASSERT_EQUAL(fm_owned_read(&again, text, "boot-1", &err), 0);
	CU_ASSERT_EQUAL_FATAL(again.count, 2);
	CU_ASSERT_EQUAL(again.entry[0].id, 100);
	CU_ASSERT_EQUAL(again.entry[0].cntlid, 17);
	CU_ASSERT_STRING_EQUAL(again.entry[0].controller, "nvme3");
	CU_ASSERT_FALSE(again.entry[0].is_expected);
	CU_ASSERT_TRUE(again.entry[1].is_expected);
	fm_owned_clear(&again);
	CU_ASSERT_EQUAL(fm_owned_read(&again, text, "boot-2", &err), 0);
	CU_ASSERT_EQUAL(again.count, 0);
	for (size_t len = strlen(text) - 2; len > 0; len--) {
		text[len] = '\0';
		CU_ASSERT_EQUAL(fm_owned_read(&again, text, "boot-1", &err), -EINVAL);
		CU_ASSERT_EQUAL(again.count, 0);
	}
	free(text);
	fm_owned_clear(&list);
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "it stays its own as long as it is the same object", test_stays },
		{ "another one under its name, or another place, is not", test_goes },
		{ "what was expected is found, and given back", test_doubt },
		{ "as a text, of this boot only", test_text },
	};

	return fm_test_main("owned", tests, sizeof(tests) / sizeof(tests[0]));
}
