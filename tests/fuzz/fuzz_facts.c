/* SPDX-License-Identifier: MIT */
/*
 * fuzz_facts - any bytes as a document of facts that somebody sent.
 *
 * What was accepted is the same when written and read again, and every check may look at it, alone
 * and beside itself. What would stand in a command is of harmless characters. links: fm_cli
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/ceiling.h"
#include "client/doctor/check.h"
#include "client/doctor/unknown.h"
#include "mover/base/err.h"

#define WRITTEN_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_names(struct fm_facts *f)
{
	static const char harmless[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@-";

	for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++)
		for (size_t i = 0; i < fm_facts_count(f, s); i++)
			for (const struct fm_facts_row *row = s->rows; row->key; row++) {
				const char *text = fm_text_of(fm_facts_fact(f, s, i, row));

				if (row->kind == FM_FACT_NAME || row->kind == FM_FACT_ADDRESS)
					check(strspn(text, harmless) == strlen(text) &&
					      *text != '-');
			}
}

static void check_written(const struct fm_facts *f)
{
	static char first[WRITTEN_MAX], second[WRITTEN_MAX];
	struct fm_facts *again;
	struct fm_err err;
	int len = fm_facts_write(f, first, sizeof(first));

	check(len > 0 && (size_t)len == strlen(first));
	check(fm_facts_parse(first, (size_t)len, &again, &err) == 0);
	check(fm_facts_write(again, second, sizeof(second)) == len &&
	      memcmp(first, second, (size_t)len) == 0);
	fm_facts_free(again);
}

static void count_one(void *ctx, const struct fm_facts *f, const char *name, const char *why)
{
	check(f && *name && why);
	++*(size_t *)ctx;
}

static void check_findings(const struct fm_facts *f)
{
	static struct fm_findings found;
	static struct fm_ceiling ceilings[FM_CEILINGS_MAX];
	const struct fm_facts_set set = { .at = { f, f }, .count = 2 };
	size_t unknown = 0;

	found.count = found.left_out = 0;
	fm_check_all(&set, &found);
	check(found.count <= FM_FINDINGS_MAX);
	for (size_t i = 0; i < found.count; i++)
		check(found.at[i].node == f && found.at[i].id && found.at[i].read[0]);
	check(fm_ceilings(&set, ceilings) <= FM_CEILINGS_MAX);
	fm_unknown_each(f, count_one, &unknown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_facts *f = NULL;
	struct fm_err err = { 0 };
	int ret = fm_facts_parse((const char *)data, size, &f, &err);

	check(ret == 0 || ret == -EINVAL || ret == -EOPNOTSUPP || ret == -E2BIG);
	check((ret == 0) == (err.text[0] == '\0'));
	if (ret < 0) {
		check(!f);
		return 0;
	}
	check_names(f);
	check_written(f);
	check_findings(f);
	fm_facts_free(f);
	return 0;
}
