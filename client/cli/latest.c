/* SPDX-License-Identifier: MIT */
/* latest - see latest.h. */
#include "client/cli/latest.h"

#include <string.h>

#include "mover/base/err.h"

int fm_latest_take(const struct fm_args *args, const char **latest)
{
	*latest = args->value;
	return **latest && !strchr(*latest, '/')
		       ? 0
		       : fm_usage(args, "--latest %.200s: must be a name, beside PATH", *latest);
}

int fm_latest_lead(struct fmove *c, const struct fm_name *published, const char *latest,
		   struct fmove_error *why)
{
	const char *last = fm_name_last(published->path);
	struct fm_name link = *published;
	struct fmove_name parts;
	struct fm_err err;

	link.path[last > published->path ? last - 1 - published->path : 0] = '\0';
	if (fm_name_append(&link, latest, &err) < 0)
		return fm_found_wrong(why, err.code, err.text);
	parts = fm_name_parts(&link);
	return fmove_symlink(c, last, &parts, true, why);
}
