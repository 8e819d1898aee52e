/* SPDX-License-Identifier: MIT */
/*
 * uevent: which of the kernel's messages are about NVMe.
 *
 * links: fm_nvmetcp
 */
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "nvmetcp/uevent.h"
#include "tests/fm_test.h"

static void test_filter(void)
{
	static const struct {
		const char *text;
		size_t len;
		bool is_nvme;
	} cases[] = {
#define TEXT(t) t, sizeof(t) - 1
		{TEXT("change@/devices/virtual/nvme-fabrics/ctl/"
		      "nvme1\0ACTION=change\0SUBSYSTEM=nvme\0NVME_EVENT=connected\0"),
		 true},
		{TEXT("add@/devices/virtual/nvme-subsystem/"
		      "nvme-subsys0\0SUBSYSTEM=nvme-subsystem\0"),
		 true},
		{TEXT("add@/x\0SUBSYSTEM=block\0DEVNAME=nvme0n1\0DEVTYPE=disk\0"), true},
		{TEXT("add@/x\0DEVNAME=nvme0n1\0SUBSYSTEM=block"), true},
		{TEXT("add@/x\0SUBSYSTEM=block\0DEVNAME=sda\0"), false},
		{TEXT("add@/x\0SUBSYSTEM=blocks\0DEVNAME=nvme0n1\0"), false},
		{TEXT("add@/devices/nvme\0SUBSYSTEM=net\0"), false},
		{TEXT("SUBSYSTEM=nvm"), false},
		{TEXT(""), false},
		{TEXT("\0\0\0"), false},
#undef TEXT
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_EQUAL(fm_uevent_is_nvme(cases[i].text, cases[i].len), cases[i].is_nvme);
}

static void is_connected(const char *text, size_t len, const char *controller)
{
	char is[FM_UEVENT_NAME_MAX];

	CU_ASSERT_EQUAL(fm_uevent_is_connected(text, len, is), controller != NULL);
	if (controller)
		CU_ASSERT_STRING_EQUAL(is, controller);
}

static void test_connected(void)
{
#define TEXT(t) t, sizeof(t) - 1
	is_connected(TEXT("change@/c/nvme1\0SUBSYSTEM=nvme\0DEVNAME=nvme1\0NVME_EVENT=connected\0"),
		     "nvme1");
	is_connected(TEXT("NVME_EVENT=connected\0DEVNAME=nvme12\0SUBSYSTEM=nvme"), "nvme12");
	is_connected(
		TEXT("change@/c/nvme1\0SUBSYSTEM=nvme\0DEVNAME=nvme1\0NVME_EVENT=rediscover\0"),
		NULL);
	is_connected(TEXT("add@/x\0SUBSYSTEM=block\0DEVNAME=nvme0n1\0NVME_EVENT=connected\0"),
		     NULL);
	is_connected(TEXT("change@/c/nvme1\0SUBSYSTEM=nvme\0NVME_EVENT=connected\0"), NULL);
	is_connected(TEXT("SUBSYSTEM=nvme\0NVME_EVENT=connected\0DEVNAME="
			  "nvme1111111111111111111111111111\0"),
		     NULL);
	is_connected(TEXT(""), NULL);
#undef TEXT
}

static void never(void *ctx)
{
	(void)ctx;
}

static void never_connected(void *ctx, const char *controller)
{
	(void)ctx;
	(void)controller;
}

static void test_listen(void)
{
	const struct fm_uevent_heard heard = { never, never_connected, NULL };
	struct fm_loop_opts opts = { 0 };
	struct fm_uevent *uevent = NULL;
	struct fm_loop *loop;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &loop, &err), 0);
	if (fm_uevent_new(loop, &heard, &uevent, &err) < 0)
		printf("(cannot listen here: %s) ", err.text);
	fm_loop_step(loop, 0);
	fm_uevent_free(uevent);
	fm_loop_free(loop);
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "only NVMe's own and its block devices count", test_filter },
		{ "a controller that has connected is named", test_connected },
		{ "it can be listened to", test_listen },
	};

	return fm_test_main("uevent", tests, sizeof(tests) / sizeof(tests[0]));
}
