/* SPDX-License-Identifier: MIT */
/*
 * fuzz_mounts - any bytes as the kernel's table of mounts.
 *
 * What was accepted has a mount for each line, strings that are words of it, and a mount that is
 * seen at a point is one of that point. links: fm_nvmetcp
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "nvmetcp/mounts.h"

/* points: each look-up goes through the whole table, more than once */
#define LOOKED_UP_MAX 32u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static size_t lines_of(const uint8_t *data, size_t size)
{
	size_t lines = size > 0 && data[size - 1] != '\n';

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	return lines;
}

/* All but the two numbers and the separators of a line may be in its strings. */
static size_t check_mount(const struct fm_mount *m)
{
	const char *comma = strchr(m->options, ',');

	check(m->id >= 0 && m->parent >= 0);
	check(m->point[0] == '/' && m->fs_type[0] != '\0' && comma);
	return strlen(m->root) + strlen(m->point) + strlen(m->fs_type) + strlen(m->source) +
	       strlen(m->options);
}

static void check_lookups(const struct fm_mounts *mounts)
{
	const struct fm_mount *m;

	for (size_t i = 0; i < mounts->count && i < LOOKED_UP_MAX; i++) {
		m = fm_mounts_at(mounts, mounts->mounts[i].point);
		check(!m || strcmp(m->point, mounts->mounts[i].point) == 0);
		m = fm_mounts_of(mounts, mounts->mounts[i].dev, NULL);
		check(m && m->dev == mounts->mounts[i].dev && m <= &mounts->mounts[i]);
		check(fm_mounts_of(mounts, m->dev, m) != m);
	}
	(void)fm_mounts_at(mounts, "/a/b");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_err err = { 0 };
	struct fm_mounts mounts;
	size_t bytes = 0;
	int ret = fm_mounts_parse((const char *)data, size, &mounts, &err);

	check(ret == 0 || ret == -EINVAL || ret == -E2BIG);
	check(ret == err.code && (ret == 0) == (err.text[0] == '\0'));
	if (ret < 0) {
		check(!mounts.mounts && !mounts.text && mounts.count == 0);
		return 0;
	}
	check(mounts.count == lines_of(data, size));
	for (size_t i = 0; i < mounts.count; i++)
		bytes += check_mount(&mounts.mounts[i]);
	check(bytes <= size);
	check_lookups(&mounts);
	fm_mounts_free(&mounts);
	return 0;
}
