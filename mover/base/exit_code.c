/* SPDX-License-Identifier: MIT */
/* exit_code - see exit_code.h. */
#include "mover/base/exit_code.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define ERRNO_MAX 4095	/* the kernel's own limit */

enum fm_exit fm_api_exit(int code)
{
	switch (code < 0 && code != INT_MIN ? -code : code) {
	case 0:
		return FM_EXIT_DONE;
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case ENOTCONN:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case ENETRESET:
	case ENONET:
	case ETIMEDOUT:
	case ETIME:
	case EPROTONOSUPPORT:	/* the two speak different versions */
		return FM_EXIT_UNREACHABLE;
	case EBADMSG:
	case EILSEQ:
		return FM_EXIT_CORRUPT;
	case EACCES:
	case EPERM:
	case EROFS:
	case EEXIST:
	case EDQUOT:
	case EXDEV:		/* a path that leaves its store */
	case EKEYREJECTED:
	case EKEYREVOKED:
		return FM_EXIT_REFUSED;
	case ECANCELED:
		return FM_EXIT_CANCELLED;
	default:
		return FM_EXIT_FAILED;
	}
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
