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
static const struct fm_process one = { 7, 70 }, other = { 7, 71 };

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

	CU_ASSERT_EQUAL(fm_owned_expect(&list, NQN, "fd00::1", "4420", &one, &err), 0);
	CU_ASSERT_EQUAL(list.count, 1);
	fm_owned_made(&list, &one, "nvme3", 17);
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

static struct fm_owned_list expecting(void)
{
	struct fm_owned_list list = { 0 };

	CU_ASSERT_EQUAL(fm_owned_expect(&list, NQN, "10.0.0.1", "4420", &one, &err), 0);
	return list;
}

static void test_doubt(void)
{
	struct fm_inv_controller of_other_host = controller("nvme1", 7, NQN, "10.0.0.1");
	struct fm_owned_list list = expecting();

	strcpy(of_other_host.hostnqn, "nqn.other");
	CU_ASSERT_FALSE(settle(&list, of_other_host));
	CU_ASSERT_TRUE(settle(&list, controller("nvme1", 7, "(efault)", "10.0.0.1")));
	CU_ASSERT_STRING_EQUAL(list.entry[0].controller, "nvme1");
	/* It was somebody else's: the helper process says so afterwards. */
	fm_owned_forget(&list, &one);
	CU_ASSERT_EQUAL(list.count, 0);
	fm_owned_clear(&list);
	list = expecting();
	fm_owned_made(&list, &one, "nvme1", 7);
	fm_owned_forget(&list, &one);
	CU_ASSERT_EQUAL_FATAL(list.count, 1);
	CU_ASSERT_FALSE(list.entry[0].is_guessed);
	fm_owned_clear(&list);
}

/* The next look after its process has ended decides. */
static void test_over(void)
{
	const struct fm_inv_controller is = controller("nvme1", 7, NQN, "10.0.0.1");
	struct fm_owned_list list = expecting();
	struct fm_inventory cut = { .is_cut = true };

	fm_owned_doubt(&list, &one);
	CU_ASSERT_FALSE(settle(&list, controller("", 0, "", "")));
	CU_ASSERT_EQUAL_FATAL(list.count, 1);
	list.entry[0].is_over = true;
	CU_ASSERT_FALSE(fm_owned_settle(&list, &cut, HOST));
	CU_ASSERT_EQUAL(list.count, 1);
	CU_ASSERT_TRUE(settle(&list, controller("", 0, "", "")));
	CU_ASSERT_EQUAL(list.count, 0);
	CU_ASSERT_FALSE(settle(&list, is));
	fm_owned_clear(&list);
	list = expecting();
	fm_owned_doubt(&list, &one);
	list.entry[0].is_over = true;
	CU_ASSERT_TRUE(settle(&list, is));
	CU_ASSERT_EQUAL_FATAL(list.count, 1);
	CU_ASSERT_FALSE(list.entry[0].is_expected);
	CU_ASSERT_TRUE(list.entry[0].is_guessed);
	fm_owned_clear(&list);
}

/* What was seen of it is given up again: what comes later is not its work. One that turns out to
 * lead elsewhere was never seen. */
static void test_spent(void)
{
	struct fm_owned_list list = expecting();

	CU_ASSERT_TRUE(settle(&list, controller("nvme1", 7, NQN, "10.0.0.1")));
	CU_ASSERT_TRUE(settle(&list, controller("", 0, "", "")));
	CU_ASSERT_FALSE(settle(&list, controller("nvme2", 8, NQN, "10.0.0.1")));
	CU_ASSERT_EQUAL(list.count, 1);
	/* Unless it says so. */
	fm_owned_made(&list, &one, "nvme2", 9);
	CU_ASSERT_TRUE(settle(&list, controller("nvme2", 8, NQN, "10.0.0.1")));
	CU_ASSERT_EQUAL(list.count, 1);
	fm_owned_clear(&list);
	list = expecting();
	CU_ASSERT_TRUE(settle(&list, controller("nvme1", 7, "(efault)", "10.0.0.1")));
	CU_ASSERT_TRUE(settle(&list, controller("nvme1", 7, "other", "10.0.0.1")));
	CU_ASSERT_TRUE(settle(&list, controller("nvme2", 8, NQN, "10.0.0.1")));
	CU_ASSERT_STRING_EQUAL(list.entry[0].controller, "nvme2");
	fm_owned_clear(&list);
}

/* Two connects of one path, of which one hangs: the controller is whose process says so. */
static void test_two(void)
{
	struct fm_owned_list list = expecting();

	CU_ASSERT_EQUAL(fm_owned_expect(&list, NQN, "10.0.0.1", "4420", &other, &err), 0);
	CU_ASSERT_EQUAL(list.count, 2);
	CU_ASSERT_TRUE(settle(&list, controller("nvme1", 7, NQN, "10.0.0.1")));
	fm_owned_made(&list, &one, "nvme1", 3);
	fm_owned_doubt(&list, &other);
	(void)settle(&list, controller("nvme1", 7, NQN, "10.0.0.1"));
	for (unsigned i = 0; i < list.count; i++) {
		CU_ASSERT_EQUAL(list.entry[i].is_expected, list.entry[i].process.start == 71);
		CU_ASSERT_EQUAL(list.entry[i].controller[0] == '\0', list.entry[i].is_expected);
	}
	fm_owned_forget(&list, &other);
	CU_ASSERT_EQUAL(list.count, 1);
	fm_owned_clear(&list);
}

static void test_text(void)
{
	struct fm_owned_list list = made(), again;
	char *text;

	CU_ASSERT_EQUAL(fm_owned_expect(&list, "disk1", "10.0.0.1", "4420", &other, &err), 0);
	text = fm_owned_write(&list, "boot-1");
	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	CU_ASSERT_EQUAL(fm_owned_read(&again, text, "boot-1", &err), 0);
	CU_ASSERT_EQUAL_FATAL(again.count, 2);
	CU_ASSERT_EQUAL(again.entry[0].id, 100);
	CU_ASSERT_EQUAL(again.entry[0].cntlid, 17);
	CU_ASSERT_STRING_EQUAL(again.entry[0].controller, "nvme3");
	CU_ASSERT_FALSE(again.entry[0].is_expected);
	CU_ASSERT_TRUE(again.entry[1].is_expected);
	CU_ASSERT_TRUE(again.entry[1].is_doubtful);
	CU_ASSERT_EQUAL(again.entry[1].process.pid, 7);
	CU_ASSERT_EQUAL(again.entry[1].process.start, 71);
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

/* One that was seen is in doubt as before; what an earlier version has written is read. */
static void test_text_of_doubt(void)
{
	static const char before[] =
		"{\"boot\": \"b\", \"controllers\": ["
		"{\"controller\": \"\", \"id\": 0, \"cntlid\": 0, \"subsystem\": \"s\", "
		"\"address\": \"10.0.0.1\", \"port\": \"4420\"}]}";
	struct fm_owned_list list = expecting(), again;
	char *text;

	CU_ASSERT_TRUE(settle(&list, controller("nvme1", 7, NQN, "10.0.0.1")));
	text = fm_owned_write(&list, "b");
	CU_ASSERT_EQUAL(fm_owned_read(&again, text, "b", &err), 0);
	CU_ASSERT_EQUAL_FATAL(again.count, 1);
	CU_ASSERT_STRING_EQUAL(again.entry[0].controller, "nvme1");
	CU_ASSERT_TRUE(again.entry[0].is_expected);
	free(text);
	fm_owned_clear(&again);
	list.entry[0].is_over = true;
	(void)settle(&list, controller("nvme1", 7, NQN, "10.0.0.1"));
	text = fm_owned_write(&list, "b");
	CU_ASSERT_EQUAL(fm_owned_read(&again, text, "b", &err), 0);
	CU_ASSERT_FALSE(again.entry[0].is_expected);
	CU_ASSERT_TRUE(again.entry[0].is_guessed);
	free(text);
	fm_owned_clear(&again);
	CU_ASSERT_EQUAL(fm_owned_read(&again, before, "b", &err), 0);
	CU_ASSERT_EQUAL_FATAL(again.count, 1);
	CU_ASSERT_TRUE(again.entry[0].is_expected);
	CU_ASSERT_EQUAL(again.entry[0].process.pid, 0);
	fm_owned_clear(&again);
	fm_owned_clear(&list);
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "it stays its own as long as it is the same object", test_stays },
		{ "another one under its name, or another place, is not", test_goes },
		{ "what was expected is found, and given back", test_doubt },
		{ "what nobody hears of is in doubt until one look after its end", test_over },
		{ "what was seen and went is not sought again", test_spent },
		{ "of two connects that of whose process it is", test_two },
		{ "as a text, of this boot only", test_text },
		{ "what is in doubt as a text", test_text_of_doubt },
	};

	return fm_test_main("owned", tests, sizeof(tests) / sizeof(tests[0]));
}
