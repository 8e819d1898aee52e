/* SPDX-License-Identifier: MIT */
/*
 * reservation: the key, what statuses mean, who a report says has it. Taking one is for
 * tests/lab/t/reservation.sh.
 *
 * links: fm_nvmetcp
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <linux/pr.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/json.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/nvme_command.h"
#include "nvmetcp/reservation.h"
#include "nvmetcp/write_protect.h"
#include "tests/fm_test.h"

static struct fm_err err;

/* What a device does that fails at a moment: no kernel here can be made to. */
static struct {
	bool is_there, is_known, is_reserved;
	bool is_nvme;
	int reserve_says;		/* of IOC_PR_RESERVE */
	int report_says;		/* of a reservation report: status or -errno; 0: it does */
	uint8_t generation;		/* in it */
} fake;

static int say(int ret)
{
	errno = ret < 0 ? -ret : 0;
	return ret < 0 ? -1 : ret;
}

static int fake_report(const struct nvme_passthru_cmd *cmd)
{
	uint8_t *report = (uint8_t *)(uintptr_t)cmd->addr;

	report[0] = fake.generation;
	return say(fake.report_says);
}

static int fake_identify(const struct nvme_passthru_cmd *cmd)
{
	memset((uint8_t *)(uintptr_t)cmd->addr, 0xff, cmd->data_len);
	return 0;
}

static int fake_ioctl(unsigned long request, void *arg)
{
	const struct pr_registration *r = arg;

	switch (request) {
	case NVME_IOCTL_ID:
		return fake.is_nvme ? 1 : say(-ENOTTY);
	case NVME_IOCTL_ADMIN_CMD:
		return fake.is_nvme ? fake_identify(arg) : say(-ENOTTY);
	case NVME_IOCTL_IO_CMD:
		return fake.is_nvme ? fake_report(arg) : say(-ENOTTY);
	case IOC_PR_REGISTER:
		fake.is_known = r->new_key != 0;
		fake.is_reserved = fake.is_reserved && fake.is_known;
		return 0;
	case IOC_PR_RESERVE:
		fake.is_reserved = fake.is_reserved || fake.reserve_says == 0;
		return say(fake.reserve_says);
	default:
		return say(-ENOTTY);
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return fake.is_there ? fake_ioctl(request, arg) :
			       (int)syscall(SYS_ioctl, fd, request, arg);
}

static uint64_t key_of(const char *host_id)
{
	uint64_t key = 0;

	CU_ASSERT_EQUAL(fm_reservation_key(host_id, &key, &err), 0);
	return key;
}

/* People find the host id in it. */
static void test_key(void)
{
	uint64_t none;

	CU_ASSERT_EQUAL(key_of("11111111-2222-3333-4444-555555555555"), 0x1111111122223333);
	CU_ASSERT_EQUAL(key_of("fEdcBa98-7654-3210-0000-000000000000"), 0xfedcba9876543210);
	CU_ASSERT_EQUAL(key_of("00000000-0000-0000-8001-00000000000f"), 0x800100000000000f);
	CU_ASSERT_EQUAL(fm_reservation_key("00000000-0000-0000-0000-000000000000", &none, &err),
			-EINVAL);
	CU_ASSERT_EQUAL(fm_reservation_key("", &none, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_reservation_key("11111111-2222-3333-4444-55555555555", &none, &err),
			-EINVAL);
	CU_ASSERT_EQUAL(fm_reservation_key("11111111-2222-3333-4444-5555555555555", &none, &err),
			-EINVAL);
	CU_ASSERT_EQUAL(fm_reservation_key("11111111222233334444555555555555", &none, &err),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no UUID"));
}

static void test_status(void)
{
	static const struct {
		int ret;
		enum fm_reservation_status status;
	} cases[] = {
		{ 0, FM_RESERVATION_OK },
		/* Since 6.3. */
		{ 0x18, FM_RESERVATION_CONFLICT },
		{ 0x2, FM_RESERVATION_FAILED },
		{ 0x10000, FM_RESERVATION_NO_PATH },
		{ 0xe0000, FM_RESERVATION_NO_PATH },
		{ 0xf0000, FM_RESERVATION_NO_PATH },
		/* Before: NVMe's own, with and without "do not retry" and "more". */
		{ 0x83, FM_RESERVATION_CONFLICT },
		{ 0x4083, FM_RESERVATION_CONFLICT },
		{ 0x6083, FM_RESERVATION_CONFLICT },
		{ 0x1, FM_RESERVATION_NOT_OFFERED },
		{ 0x4001, FM_RESERVATION_NOT_OFFERED },
		{ 0x4002, FM_RESERVATION_NOT_OFFERED },
		{ 0x370, FM_RESERVATION_NO_PATH },
		{ 0x371, FM_RESERVATION_NO_PATH },
		{ 0x303, FM_RESERVATION_NO_PATH },
		{ 0x4006, FM_RESERVATION_FAILED },
		{ 0x281, FM_RESERVATION_FAILED },
		{ -EOPNOTSUPP, FM_RESERVATION_NOT_OFFERED },
		{ -ENOTTY, FM_RESERVATION_NOT_OFFERED },
		{ -EINVAL, FM_RESERVATION_NOT_OFFERED },
		{ -EAGAIN, FM_RESERVATION_NO_PATH },
		{ -EPERM, FM_RESERVATION_FAILED },
		{ -EIO, FM_RESERVATION_FAILED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (fm_reservation_status(cases[i].ret) != cases[i].status)
			printf("0x%x: %d\n", (unsigned)cases[i].ret,
			       fm_reservation_status(cases[i].ret));
		CU_ASSERT_EQUAL(fm_reservation_status(cases[i].ret), cases[i].status);
	}
}

/* Two registrants; who has it is the second. */
static void test_holder(void)
{
	static const uint8_t id[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
				       0x44, 0x44, 0xa5, 0x5a, 0x55, 0x55, 0x55, 0xff};
	uint8_t report[64 + 2 * 64] = { [5] = 2 };
	char out[FM_RESERVATION_HOLDER_MAX];

	memcpy(report + 128 + 16, id, sizeof(id));
	CU_ASSERT_FALSE(fm_reservation_holder(report, sizeof(report), out));
	CU_ASSERT_STRING_EQUAL(out, "");
	report[128 + 2] = 1;
	CU_ASSERT_TRUE(fm_reservation_holder(report, sizeof(report), out));
	CU_ASSERT_STRING_EQUAL(out, "11111111-2222-3333-4444-a55a555555ff");
	/* More than there is room for, and cut. */
	report[6] = 0xff;
	CU_ASSERT_TRUE(fm_reservation_holder(report, sizeof(report), out));
	CU_ASSERT_FALSE(fm_reservation_holder(report, sizeof(report) - 1, out));
	CU_ASSERT_FALSE(fm_reservation_holder(report, 63, out));
	CU_ASSERT_FALSE(fm_reservation_holder(report, 0, out));
}

/* A file has neither. */
static void test_no_device(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(fm_nvme_offers(fd, FM_NVME_IDENTIFY_CONTROLLER, 0, 1, &err), -ENOTTY);
	CU_ASSERT_EQUAL(fm_reservation_take(fd, 1, &err), 0);
	CU_ASSERT_EQUAL(fm_reservation_release(fd, 1, &err), 0);
	CU_ASSERT_EQUAL(fm_write_protect_set(fd, true, &err), 0);
	CU_ASSERT_EQUAL(fm_write_protect_set(fd, false, &err), 0);
	close(fd);
	CU_ASSERT_EQUAL(fm_reservation_take(fd, 1, &err), -EBADF);
	CU_ASSERT_EQUAL(fm_write_protect_set(fd, true, &err), -EBADF);
}

static bool is_missed_by(const uint8_t *report, size_t len, uint64_t key)
{
	return fm_reservation_tells_missed(report, len, key,
					   "11111111-2222-3333-4444-55555555555A");
}

/* What a target says that has forgotten this host: how often others came and left, and who is
 * known. */
static void test_missed(void)
{
	uint8_t report[64 + 2 * 64] = { 0 };

	CU_ASSERT_FALSE(is_missed_by(report, sizeof(report), 0x0102));
	report[0] = 2;		/* one came and left */
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report), 0x0102));
	CU_ASSERT_FALSE(is_missed_by(report, 63, 0x0102));
	report[0] = 1;		/* this one, which could not reserve it then */
	report[5] = 1;
	report[64 + 8] = 2;
	report[64 + 9] = 1;
	CU_ASSERT_FALSE(is_missed_by(report, sizeof(report), 0x0102));
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report), 0x0103));
	report[0] = 3;
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report), 0x0102));
	/* Nothing was forgotten: somebody has it, this host or who is asked about next. */
	report[64 + 2] = 1;
	CU_ASSERT_FALSE(is_missed_by(report, sizeof(report), 0x0102));
	/* The count is of 32 bits. */
	report[64 + 2] = report[0] = 0;
	report[3] = 1;
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report), 0x0102));
}

/* It is known with each of its controllers. Of another host that has the same key the id tells. */
static void test_missed_by_none(void)
{
	static const uint8_t id[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
				       0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x5a};
	uint8_t report[64 + 2 * 64] = { [0] = 1, [5] = 2 };

	report[64 + 8] = report[128 + 8] = 2;
	report[64 + 9] = report[128 + 9] = 1;
	CU_ASSERT_FALSE(is_missed_by(report, sizeof(report), 0x0102));
	memcpy(report + 64 + 16, id, sizeof(id));
	memcpy(report + 128 + 16, id, sizeof(id));
	CU_ASSERT_FALSE(is_missed_by(report, sizeof(report), 0x0102));
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report) - 1, 0x0102));
	report[128 + 16 + 15]++;
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report), 0x0102));
	report[128 + 16 + 15]--;
	report[128 + 8]++;
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report), 0x0102));
	report[128 + 8]--;
	report[0] = 2;
	CU_ASSERT_TRUE(is_missed_by(report, sizeof(report), 0x0102));
}

/* What this host has it keeps when it asks for it again, and that fails: to leave would let another
 * host have it. */
static void test_failed(void)
{
	static const int failed[] = { -EAGAIN, -EIO, -EINTR, 0x10000 };

	fake.is_there = true;
	CU_ASSERT_EQUAL(fm_reservation_take(-1, 1, &err), 1);
	for (size_t i = 0; i < sizeof(failed) / sizeof(failed[0]); i++) {
		fake.reserve_says = failed[i];
		CU_ASSERT_TRUE(fm_reservation_take(-1, 1, &err) < 0);
		CU_ASSERT_TRUE(fake.is_known && fake.is_reserved);
	}
	CU_ASSERT_EQUAL(fm_reservation_release(-1, 1, &err), 0);
	CU_ASSERT_FALSE(fake.is_known || fake.is_reserved);
	/* Refused, it is not known there. */
	fake.reserve_says = 0x18;
	CU_ASSERT_EQUAL(fm_reservation_take(-1, 1, &err), -EBADE);
	CU_ASSERT_FALSE(fake.is_known);
	fake.reserve_says = -EOPNOTSUPP;
	CU_ASSERT_EQUAL(fm_reservation_take(-1, 1, &err), 0);
	CU_ASSERT_FALSE(fake.is_known);
	fake.is_there = false;
}

/* Sets *is_missed by the answer to "keep". */
static int keep(bool *is_missed)
{
	struct fm_json *target = fm_json_pack("{s:s}", "reserve_as",
					      "11111111-2222-3333-4444-555555555555");
	struct fm_json *answer = fm_json_object();
	int ret = fm_helper_target_keep(-1, target, answer, &err);

	*is_missed = fm_json_is_true(fm_json_get(answer, "missed"));
	fm_json_free(target);
	fm_json_free(answer);
	return ret;
}

/* That somebody came and left is told whatever else fails, and is not taken for told by a target
 * that was not reached. One that does not tell is no worse than one that knows of nobody. */
static void test_missed_told(void)
{
	static const int not_reached[] = { -EAGAIN, -EINTR, -ENOMEM, -EIO, 0x371, 0x4302 };
	static const int refused[] = { 0x4001, 0x4002, 0x2002, 0x0286, -EINVAL, -EOPNOTSUPP };
	bool is_missed;

	memset(&fake, 0, sizeof(fake));
	fake.is_there = fake.is_nvme = true;
	fake.generation = 2;
	fake.reserve_says = -EAGAIN;
	CU_ASSERT_TRUE(keep(&is_missed) < 0 && is_missed);
	fake.reserve_says = 0;
	for (size_t i = 0; i < sizeof(not_reached) / sizeof(not_reached[0]); i++) {
		fake.is_known = fake.is_reserved = false;
		fake.report_says = not_reached[i];
		CU_ASSERT_TRUE(keep(&is_missed) < 0);
		CU_ASSERT_FALSE(fake.is_known || fake.is_reserved);
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		fake.is_known = fake.is_reserved = false;
		fake.report_says = refused[i];
		CU_ASSERT_EQUAL(keep(&is_missed), 0);
		CU_ASSERT_TRUE(fake.is_reserved && !is_missed);
	}
	fake.is_known = fake.is_reserved = false;
	fake.report_says = 0;
	CU_ASSERT_TRUE(keep(&is_missed) == 0 && is_missed && fake.is_reserved);
	memset(&fake, 0, sizeof(fake));
	CU_ASSERT_EQUAL(fm_reservation_is_missed(-1, 1, "", &err), -EBADF);
}

static const struct fm_test tests[] = {
	{ "the key is the beginning of the host's id", test_key },
	{ "what the kernel says of a reservation, old kernels and new", test_status },
	{ "who has it is read from a report", test_holder },
	{ "that another host came and left is read from it, too", test_missed },
	{ "this host is not another one, with however many controllers", test_missed_by_none },
	{ "and is told though the rest fails, and asked again where nobody was reached",
	  test_missed_told },
	{ "what is no such device offers nothing", test_no_device },
	{ "what was had is not given back when a try to have it again fails", test_failed },
};

FM_TEST_MAIN("reservation", tests)
