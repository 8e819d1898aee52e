/* SPDX-License-Identifier: MIT */
/*
 * systemd: whether a mount unit says what is wanted. The bus itself is tried in the lab
 * (tests/lab/t/nvme_boot.sh).
 *
 * links: fm_nvmetcp
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "nvmetcp/systemd.h"
#include "tests/fm_test.h"

static void test_options(void)
{
	static const struct {
		const char *unit, *wanted;
		const char *lacking;	/* NULL: it fits */
	} cases[] = {
		{ "_netdev,nofail,rw", "rw", NULL },
		{ "_netdev,nofail", "rw", NULL },
		{ "", "", NULL },
		{ "", "rw", NULL },
		{ "_netdev,nofail,rw,noatime", "noatime,rw", NULL },
		{ "_netdev,nofail,ro,noload", "ro,noload", NULL },
		{ "ro,norecovery,noatime", "noatime,ro,norecovery", NULL },
		{ "_netdev,nofail,rw", "ro,noload", "ro" },
		{ "_netdev,nofail,ro", "ro,noload", "noload" },
		{ "_netdev,nofail,ro,noload", "rw", "ro" },
		{ "rw", "noatime,rw", "noatime" },
		{ "rw,noatimes", "noatime,rw", "noatime" },
		{ "rw,errors=remount-ro", "rw", NULL },
		{ "rw,noatim", "noatime,rw", "noatime" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_systemd_mount mount = { .has_file = true };
		const char *lacking = "";
		int len = 0;

		strcpy(mount.options, cases[i].unit);
		CU_ASSERT_EQUAL(fm_systemd_has_options(&mount, cases[i].wanted, &lacking, &len),
				!cases[i].lacking);
		if (cases[i].lacking)
			CU_ASSERT_TRUE((size_t)len == strlen(cases[i].lacking) &&
				       strncmp(lacking, cases[i].lacking, (size_t)len) == 0);
	}
}

/* Whoever is process 1 here: without systemd it says so, and never waits. */
static void test_nobody(void)
{
	struct fm_systemd *systemd = NULL;
	struct fm_err err = { 0 };

	if (access("/run/systemd/system", F_OK) == 0)
		return;
	CU_ASSERT_EQUAL(fm_systemd_open(&systemd, &err), -ENOENT);
	CU_ASSERT_PTR_NULL(systemd);
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "a unit that says what is wanted", test_options },
		{ "no systemd", test_nobody },
	};

	return fm_test_main("systemd", tests, sizeof(tests) / sizeof(tests[0]));
}
