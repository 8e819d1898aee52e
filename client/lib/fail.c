/* SPDX-License-Identifier: MIT */
/* fail - see fail.h. */
#include "client/lib/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "mover/base/err.h"
#include "mover/base/exit_code.h"

_Static_assert(FMOVE_TEXT_MAX == FM_ERR_TEXT_MAX, "errors of the daemon fit those of the library");

int fm_lib_fail(struct fmove_error *err, int code, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->exit = (int)fm_api_exit(code);
	err->is_kept = err->is_full = false;
	err->bytes = 0;
	err->node[0] = err->store[0] = err->path[0] = '\0';
	va_start(args, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, args); /* cut if it is too long */
	va_end(args);
	return code;
}

static void copy(char *to, size_t cap, const char *text)
{
	(void)snprintf(to, cap, "%s", text ? text : ""); /* cut if it is too long */
}

void fm_lib_about(struct fmove_error *err, const struct fmove_name *name)
{
	copy(err->node, sizeof(err->node), name->node);
	copy(err->store, sizeof(err->store), name->store);
	copy(err->path, sizeof(err->path), name->path);
}

int fm_lib_fail_fd(struct fmove_error *err)
{
	return fm_lib_fail(err, -EBADF, "the descriptor of the file is below zero: it is not open");
}

int fm_lib_fail_again(struct fmove_error *err)
{
	return fm_lib_fail(err, -EPROTO,
			   "fmoved tells the same part of a list again: another version?");
}

int fm_lib_fail_forked(struct fmove_error *err)
{
	return fm_lib_fail(err, -ECONNRESET,
			   "this process was forked in the midst of a call, which is its parent's");
}
