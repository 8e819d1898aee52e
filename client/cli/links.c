/* SPDX-License-Identifier: MIT */
/* links - see links.h. */
#include "client/cli/links.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cmd.h"

/*
 * Whether the path is HUB/models--ORG--NAME/snapshots/REVISION, whose files are links into
 * HUB/models--ORG--NAME/blobs. Then it is named as fmove stage names the repository.
 */
static bool is_snapshot(const char *source, bool is_remote, char hf[static PATH_MAX])
{
	char *path = is_remote ? strdup(source) : realpath(source, NULL), *end, *repository, *name;
	bool is_found = false;

	end = path ? strstr(path, "/snapshots/") : NULL;
	if (end) {
		*end = '\0';
		repository = strrchr(path, '/');
		name = repository ? strstr(repository, "--") : NULL;
		is_found = name && strchr("md", repository[1]) != NULL;
		if (is_found)
			(void)snprintf(hf, PATH_MAX, "%s", name + 2);
	}
	free(path);
	name = is_found ? strstr(hf, "--") : NULL;
	if (name) {	/* ORG--NAME; without it a name that has no ORG */
		*name = '/';
		memmove(name + 1, name + 2, strlen(name + 2) + 1);
	}
	return is_found;
}

void fm_links_say(const char *source, uint64_t count, bool is_get)
{
	const char *links = count == 1 ? "link leads" : "links lead";
	char hf[PATH_MAX];

	if (!is_snapshot(source, is_get, hf))
		fm_say("%s: %" PRIu64 " symbolic %s out of it, to what did not come: %s "
		       "sends what they lead to",
		       source, count, links,
		       is_get ? "put -r -L, run at the node that has it," : "put -r -L");
	else if (is_get)
		fm_say("%s: %" PRIu64 " symbolic %s into the blobs of that hub cache, which did "
		       "not come: fmove stage hf:%s brings the files",
		       source, count, links, hf);
	else
		fm_say("%s: %" PRIu64 " symbolic %s into the blobs of this hub cache, which did "
		       "not come: put -r -L sends the files; fmove stage hf:%s, run there, has the "
		       "cache",
		       source, count, links, hf);
}
