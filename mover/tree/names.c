/* SPDX-License-Identifier: MIT */
/* names - see names.h. */
#include "mover/tree/names.h"

#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/tree/tree.h"

int fm_tree_names_next(const uint8_t *at, size_t len, size_t *pos, struct fm_tree_name *out)
{
	struct fm_reader r = { .at = at + *pos, .end = at + len };
	uint8_t change;

	if (*pos >= len)
		return 0;
	change = fm_get_u8(&r);
	out->change = (enum fm_tree_change)change;
	out->len = fm_get_le16(&r);
	out->path = (const char *)fm_get_span(&r, out->len);
	if (r.failed || change < FM_TREE_ADDED || change > FM_TREE_REMOVED || out->len < 1 ||
	    out->len > FM_TREE_PATH_MAX || memchr(out->path, '\0', out->len))
		return -EBADMSG;
	*pos = (size_t)(r.at - at);
	return 1;
}
