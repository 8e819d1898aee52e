/* SPDX-License-Identifier: MIT */
/* exit_code - see exit_code.h. */
#include "mover/base/exit_code.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define ERRNO_MAX 4095	/* the kernel's own limit */

/* Any other failed, does not pass by itself, and says nothing of what came. */
static const struct meaning {
	int code;
	enum fm_exit exit;
	bool may_pass;
	bool keeps_partial;
} meanings[] = {
	/* The far end, or the way there: it may be back soon. */
	{ ECONNREFUSED, FM_EXIT_UNREACHABLE, true, true },
	{ ECONNRESET, FM_EXIT_UNREACHABLE, true, true },
	{ ECONNABORTED, FM_EXIT_UNREACHABLE, true, true },
	{ ENOTCONN, FM_EXIT_UNREACHABLE, true, true },
	{ EHOSTUNREACH, FM_EXIT_UNREACHABLE, true, true },
	{ EHOSTDOWN, FM_EXIT_UNREACHABLE, true, true },
	{ ENETUNREACH, FM_EXIT_UNREACHABLE, true, true },
	{ ENETDOWN, FM_EXIT_UNREACHABLE, true, true },
	{ ENETRESET, FM_EXIT_UNREACHABLE, true, true },
	{ ETIMEDOUT, FM_EXIT_UNREACHABLE, true, true },
	{ EPIPE, FM_EXIT_FAILED, true, true },	/* of a command in a pipe, too */
	{ ENONET, FM_EXIT_UNREACHABLE, false, true },
	{ ETIME, FM_EXIT_UNREACHABLE, false, true },
	/* the two speak different versions */
	{ EPROTONOSUPPORT, FM_EXIT_UNREACHABLE, false, true },
	/* There is no room for it now, of something that comes free by itself. */
	{ EBUSY, FM_EXIT_FAILED, true, true },
	{ EAGAIN, FM_EXIT_FAILED, true, true },
	{ ENOMEM, FM_EXIT_FAILED, true, true },
	{ ENFILE, FM_EXIT_FAILED, true, true },
	{ EMFILE, FM_EXIT_FAILED, true, true },
	/* It was told to end by who wanted it; a daemon that stops says EHOSTDOWN. */
	{ ECANCELED, FM_EXIT_CANCELLED, true, true },
	/* A disk that is full is not kept full. */
	{ ENOSPC, FM_EXIT_FAILED, false, false },
	{ EFBIG, FM_EXIT_FAILED, false, false },
	{ EDQUOT, FM_EXIT_REFUSED, false, false },
	/* What came is damaged, or of a source that is another one now. */
	{ EBADMSG, FM_EXIT_CORRUPT, false, false },
	{ EILSEQ, FM_EXIT_CORRUPT, false, true },	/* a name, not the bytes */
	{ ESTALE, FM_EXIT_FAILED, false, false },
	{ EPROTO, FM_EXIT_FAILED, false, false },
	/* The name was taken meanwhile. */
	{ EEXIST, FM_EXIT_REFUSED, false, false },
	{ EISDIR, FM_EXIT_USAGE, false, false },	/* -r is missing, or a name in it */
	{ ENOTDIR, FM_EXIT_FAILED, false, false },
	/* It may not be done: no fault of the bytes, so whoever is let in again goes on with
	 * them. */
	{ EACCES, FM_EXIT_REFUSED, false, true },
	{ EPERM, FM_EXIT_REFUSED, false, true },
	{ EROFS, FM_EXIT_REFUSED, false, true },
	{ EXDEV, FM_EXIT_REFUSED, false, true },	/* a path that leaves its store */
	{ EKEYREJECTED, FM_EXIT_REFUSED, false, true },
	{ EKEYREVOKED, FM_EXIT_REFUSED, false, true },
};

static const struct meaning *meaning_of(int code)
{
	static const struct meaning other = { 0, FM_EXIT_FAILED, false, true };
	int positive = code < 0 && code != INT_MIN ? -code : code;

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (meanings[i].code == positive)
			return &meanings[i];
	return &other;
}

enum fm_exit fm_api_exit(int code)
{
	return code == 0 ? FM_EXIT_DONE : meaning_of(code)->exit;
}

bool fm_errno_may_pass(int code)
{
	return meaning_of(code)->may_pass;
}

bool fm_errno_keeps_partial(int code)
{
	return meaning_of(code)->keeps_partial;
}

const char *fm_api_errno_name(int code)
{
	const char *name = NULL;

	if (code != INT_MIN)
		name = strerrorname_np(code < 0 ? -code : code);
	return name ? name : "EIO";
}

int fm_api_errno(const char *name)
{
	for (int i = 1; i <= ERRNO_MAX; i++) {
		const char *known = strerrorname_np(i);

		if (known && strcmp(known, name) == 0)
			return -i;
	}
	return -EIO;
}
