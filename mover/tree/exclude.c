/* SPDX-License-Identifier: MIT */
/*
 * exclude - which names of a tree are left out.
 */
#include "mover/tree/exclude.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"

static int add_pattern(struct fm_exclude *x, const char *text, struct fm_err *err)
{
	struct fm_exclude_pattern *p = &x->at[x->count];
	struct fm_path_shown shown;
	size_t len = strlen(text), skip = len > 0 && text[0] == '/' ? 1 : 0;

	if (len > FM_TREE_EXCLUDE_LEN_MAX)
		return fm_err_set(err, -E2BIG,
				  "an exclude pattern has %zu bytes; at most %d are allowed", len,
				  FM_TREE_EXCLUDE_LEN_MAX);
	*p = (struct fm_exclude_pattern){.is_path = skip > 0,
					 .is_for_dirs = len > skip && text[len - 1] == '/'};
	len -= skip + (p->is_for_dirs ? 1 : 0);
	if (len == 0)
		return fm_err_set(err, -EINVAL, "exclude pattern \"%s\" names nothing",
				  fm_path_show(text, &shown));
	p->text = FM_FAULT("exclude.alloc") ? NULL : strndup(text + skip, len);
	if (!p->text)
		return fm_err_set(err, -ENOMEM, "allocate an exclude pattern");
	p->is_path = p->is_path || strchr(p->text, '/');
	x->has_paths = x->has_paths || p->is_path;
	x->count++;
	return 0;
}

int fm_exclude_init(struct fm_exclude *x, const char *const *patterns, struct fm_err *err)
{
	int ret = 0;

	*x = (struct fm_exclude){ .count = 0 };
	for (; ret == 0 && patterns && *patterns; patterns++)
		ret = x->count < FM_TREE_EXCLUDES_MAX
			      ? add_pattern(x, *patterns, err)
			      : fm_err_set(err, -E2BIG, "more than %d exclude patterns",
					   FM_TREE_EXCLUDES_MAX);
	if (ret < 0)
		fm_exclude_free(x);
	return ret;
}

void fm_exclude_free(struct fm_exclude *x)
{
	for (size_t i = 0; i < x->count; i++)
		free(x->at[i].text);
	x->count = 0;
}

bool fm_exclude_matches(const struct fm_exclude *x, const char *path, const char *name, bool is_dir)
{
	for (size_t i = 0; i < x->count; i++) {
		const struct fm_exclude_pattern *p = &x->at[i];

		if (p->is_for_dirs && !is_dir)
			continue;
		if (fnmatch(p->text, p->is_path ? path : name, p->is_path ? FNM_PATHNAME : 0) == 0)
			return true;
	}
	return false;
}
