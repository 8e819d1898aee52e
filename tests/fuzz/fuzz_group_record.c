/* SPDX-License-Identifier: MIT */
/*
 * fuzz_group_record - any bytes as the record of a publication group: one within its limits, of
 * which a line can be said, and which is the same when it is written down and read again, or
 * refused with a line.
 *
 * links: fm_store
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/plain.h"
#include "mover/store/group_dir.h"
#include "mover/store/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_plain(const char *text)
{
	size_t len;

	for (const char *end = text + strlen(text); text < end; text += len) {
		len = fm_plain_len(text, (size_t)(end - text));
		check(len > 0);
	}
}

static void check_record(const struct fm_group_record *r)
{
	check(strlen(r->digest) == FM_GROUP_DIGEST_LEN);
	check(r->name[0] && strlen(r->name) <= FM_NAME_LEN_MAX && !strchr(r->name, '/'));
	check(!fm_path_is_reserved(r->name));
	check(strlen(r->peer) <= FM_GROUP_PEER_MAX);
	check(r->expect_len <= FM_GROUP_EXPECT_MAX && strlen(r->expect) == r->expect_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char once[FM_GROUP_RECORD_MAX], twice[FM_GROUP_RECORD_MAX];
	static struct fm_group_dir g;
	struct fm_group_begun begun;
	struct fm_err err = {0};
	int len;

	if (fm_group_record_parse((const char *)data, size, &g.record, &err) < 0) {
		check(err.code < 0 && err.text[0]);
		return 0;
	}
	check_record(&g.record);
	(void)fm_group_dir_is_over(&g);
	fm_group_dir_begun(&g, &begun);
	check_plain(begun.text);	/* it stands in errors and in the log */
	len = fm_group_record_print(&g.record, once, sizeof(once));
	check(len > 0);
	check(fm_group_record_parse(once, (size_t)len, &g.record, &err) == 0);
	check(fm_group_record_print(&g.record, twice, sizeof(twice)) == len);
	check(memcmp(once, twice, (size_t)len) == 0);
	return 0;
}
