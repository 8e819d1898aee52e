/* SPDX-License-Identifier: MIT */
/* sized - see sized.h. */
#include "client/lib/sized.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "client/lib/fail.h"

/* What theirs says: the first thing in it. */
static size_t size_of(const void *theirs)
{
	return *(const size_t *)theirs;
}

int fm_sized_check(const void *theirs, size_t size, const char *name, struct fmove_error *err)
{
	size_t said = size_of(theirs);

	if (said > sizeof(size_t) && said <= size + FM_SIZED_BEYOND_MAX)
		return 0;
	return fm_lib_fail(err, -EINVAL,
			   "struct_size of a struct %s is %zu: it must be set to sizeof the struct",
			   name, said);
}

static bool is_zero(const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i])
			return false;
	return true;
}

int fm_sized_take(void *ours, size_t size, const void *theirs, const char *name,
		  struct fmove_error *err)
{
	size_t said = theirs ? size_of(theirs) : 0;
	int ret = theirs ? fm_sized_check(theirs, size, name, err) : 0;

	if (ret < 0)
		return ret;
	if (said > size && !is_zero((const char *)theirs + size, said - size))
		return fm_lib_fail(err, -E2BIG,
				   "a struct %s asks for what this libfmove does not know: the "
				   "program was made for a newer one",
				   name);
	memset(ours, 0, size);
	if (theirs)
		memcpy(ours, theirs, said < size ? said : size);
	*(size_t *)ours = size;
	return 0;
}

void fm_sized_give(void *theirs, const void *ours, size_t size)
{
	const size_t head = sizeof(size_t), said = size_of(theirs);
	const size_t known = said < size ? said : size;

	memcpy((char *)theirs + head, (const char *)ours + head, known - head);
	if (said > size)
		memset((char *)theirs + size, 0, said - size);
}

/* ---- a transfer ---- */

int fm_sized_call_begin(struct fm_sized_call *call, const struct fmove_options *opts,
			const struct fmove_result *result, struct fmove_error *err)
{
	int ret = result ? fm_sized_check(result, sizeof(*result), "fmove_result", err) : 0;

	if (ret == 0)
		ret = fm_sized_take(&call->opts, sizeof(call->opts), opts, "fmove_options", err);
	call->result.struct_size = sizeof(call->result);
	if (ret == 0 && call->opts.tree) {
		ret = fm_sized_take(&call->tree, sizeof(call->tree), call->opts.tree,
				    "fmove_tree_options", err);
		call->opts.tree = &call->tree;
	}
	if (ret == 0 && call->opts.only) {
		ret = fm_sized_take(&call->only, sizeof(call->only), call->opts.only, "fmove_only",
				    err);
		call->opts.only = &call->only;
	}
	return ret;
}

int fm_sized_call_end(const struct fm_sized_call *call, int ret, struct fmove_result *result)
{
	if (ret == 0 && result)
		fm_sized_give(result, &call->result, sizeof(call->result));
	return ret;
}
