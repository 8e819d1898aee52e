/* SPDX-License-Identifier: MIT */
/* latest - see latest.h. */
#include "client/cli/latest.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/show.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

#define KEEP_MAX 1000
#define SHOWN_MAX 1024

int fm_latest_take(const struct fm_args *args, const char **latest)
{
	*latest = args->value;
	return **latest && !strchr(*latest, '/')
		       ? 0
		       : fm_usage(args, "--latest %.200s: must be a name, beside PATH", *latest);
}

int fm_latest_take_keep(const struct fm_args *args, uint32_t *keep)
{
	const char *text = args->value;
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || n == 0 || n > KEEP_MAX)
		return fm_usage(args, "--keep-last %.40s: must be 1 to %d", text, KEEP_MAX);
	*keep = (uint32_t)n;
	return 0;
}

int fm_latest_check(const struct fm_args *args, const char *latest, uint32_t keep)
{
	return keep == 0 || latest
		       ? 0
		       : fm_usage(args, "--keep-last keeps the last of what one link was led to: "
					"say --latest NAME, too");
}

int fm_latest_lead(struct fmove *c, const struct fm_name *published, const char *latest,
		   uint32_t keep, bool is_group, struct fmove_rotated *rotated,
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
	*rotated = (struct fmove_rotated){.struct_size = sizeof(*rotated)};
	if (is_group)
		return fmove_lead(c, last, &parts, keep, rotated, why);
	return keep > 0 ? fmove_rotate(c, last, &parts, keep, rotated, why)
			: fmove_symlink(c, last, &parts, true, why);
}

void fm_latest_say(const char *verb, const struct fmove_rotated *rotated)
{
	char names[SHOWN_MAX];

	fm_show(rotated->names, strcspn(rotated->names, "\n"), names, sizeof(names));
	if (rotated->gone > 0 && !names[0])	/* none that one line of the names takes */
		fm_say("%s: removed %u (--keep-last)", verb, rotated->gone);
	else if (rotated->gone == 1)
		fm_say("%s: removed %s (--keep-last)", verb, names);
	else if (rotated->gone > 1)
		fm_say("%s: removed %s and %u more (--keep-last)", verb, names, rotated->gone - 1);
	if (rotated->stays[0])
		fm_say("%s: --keep-last: %s", verb, rotated->stays);
}

void fm_latest_json(struct fm_json_writer *w, const struct fmove_rotated *rotated)
{
	const char *at = rotated->names;

	fm_jw_object(w, "rotated");
	fm_jw_u64(w, "gone", rotated->gone);
	fm_jw_array(w, "names");
	while (*at) {
		size_t len = strcspn(at, "\n");

		fm_jw_name(w, NULL, at, len);
		at += len + (at[len] == '\n');
	}
	fm_jw_array_end(w);
	fm_jw_text(w, "stays", rotated->stays);
	fm_jw_object_end(w);
}
