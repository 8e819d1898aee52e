/* SPDX-License-Identifier: MIT */
/*
 * fuzz_rotation_record - any bytes as the record of what a link led to by turns: names of one
 * directory that are not fmove's own, and the same when they are written down and read again, or
 * refused. What is of version 1 is written down as version 2.
 *
 * links: fm_store
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/component.h"
#include "mover/store/path.h"
#include "mover/store/rotation_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_name(const char *name)
{
	check(fm_is_component(name) && !fm_path_is_reserved(name));
	check(strlen(name) <= FM_NAME_LEN_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char once[FM_ROTATION_RECORD_MAX], twice[FM_ROTATION_RECORD_MAX];
	static struct fm_rotation_record r;
	size_t len;

	if (fm_rotation_record_parse((const char *)data, size, &r) < 0)
		return 0;
	check(r.count <= FM_ROTATION_ENTRIES_MAX);
	check_name(r.link);
	for (unsigned i = 0; i < r.count; i++)
		check_name(r.entry[i].name);
	len = fm_rotation_record_print(&r, once);
	check(fm_rotation_record_parse(once, len, &r) == 0);
	check(fm_rotation_record_print(&r, twice) == len && memcmp(once, twice, len) == 0);
	check(data[15] != '2' ||
	      (len == size && memcmp(data, once, size) == 0));
	return 0;
}
