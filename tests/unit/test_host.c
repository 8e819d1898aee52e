/* SPDX-License-Identifier: MIT */
/*
 * host: the name of this host and its UUID, from the configuration or from files, are a pair.
 *
 * links: fm_nvmed
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "nvmetcp/daemon/host.h"
#include "tests/fm_test.h"

#define A "11111111-2222-3333-4444-aaaaaaaaaaaa"
#define A_UPPER "11111111-2222-3333-4444-AAAAAAAAAAAA"
#define B "11111111-2222-3333-4444-bbbbbbbbbbbb"
#define OF(uuid) "nqn.2014-08.org.nvmexpress:uuid:" uuid
#define PLAIN "nqn.2026-01.org.example:node7"

static char dir[64];

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *to;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)unlink(path);
	if (!text)
		return;
	to = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(to);
	CU_ASSERT_TRUE(fputs(text, to) >= 0);
	CU_ASSERT_EQUAL(fclose(to), 0);
}

static void test_pairs(void)
{
	static const struct {
		const char *nqn, *id, *nqn_file, *id_file;	/* NULL: no such file */
		int ret;
		const char *got_nqn, *got_id;
	} cases[] = {
		{ OF(A), "", NULL, NULL, 0, OF(A), A },
		{ OF(A), A_UPPER, NULL, NULL, 0, OF(A), A_UPPER },
		{ OF(A), B, NULL, NULL, -EINVAL, NULL, NULL },
		{ PLAIN, B, NULL, NULL, 0, PLAIN, B },
		{ PLAIN, "", NULL, A "\n", 0, PLAIN, A },
		{ PLAIN, "", NULL, NULL, -ENOENT, NULL, NULL },
		{ PLAIN, "", NULL, "no uuid\n", -EINVAL, NULL, NULL },
		{ "", "", OF(A) "\n", A "\n", 0, OF(A), A },
		/* As a distribution's own tools make them; the name wins. */
		{ "", "", OF(A) "\n", B "\n", 0, OF(A), A },
		{ "", "", PLAIN, B, 0, PLAIN, B },
		{ "", "", "", A, -EINVAL, NULL, NULL },
		{ "", "", NULL, A, -ENOENT, NULL, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char nqn_file[128], id_file[128];
		struct fm_config_nvme cfg = {.host_nqn = (char *)cases[i].nqn,
					     .host_id = (char *)cases[i].id,
					     .host_nqn_file = nqn_file,
					     .host_id_file = id_file};
		struct fm_host host;
		struct fm_err err;

		snprintf(nqn_file, sizeof(nqn_file), "%s/nqn", dir);
		snprintf(id_file, sizeof(id_file), "%s/id", dir);
		write_file("nqn", cases[i].nqn_file);
		write_file("id", cases[i].id_file);
		CU_ASSERT_EQUAL(fm_host_read(&cfg, &host, &err), cases[i].ret);
		if (cases[i].ret == 0) {
			CU_ASSERT_STRING_EQUAL(host.nqn, cases[i].got_nqn);
			CU_ASSERT_STRING_EQUAL(host.id, cases[i].got_id);
		}
	}
	write_file("nqn", NULL);
	write_file("id", NULL);
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "the name, and the UUID that goes with it", test_pairs },
	};
	int ret;

	fm_log_set_level(FM_LOG_ERROR);
	strcpy(dir, "/tmp/fm-host.XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	ret = fm_test_main("host", tests, sizeof(tests) / sizeof(tests[0]));
	(void)rmdir(dir);
	return ret;
}
