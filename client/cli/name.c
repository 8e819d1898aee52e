/* SPDX-License-Identifier: MIT */
/* name - see name.h. */
#include "client/cli/name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/value.h"
#include "mover/base/err.h"

/* Takes len bytes of text as the name of a node or store, if they can be one. */
static bool part_take(const char *text, size_t len, char out[static FM_NAME_PART_MAX + 1])
{
	if (len == 0 || len > FM_NAME_PART_MAX)
		return false;
	memcpy(out, text, len);
	out[len] = '\0';
	return fm_value_is_name(out);
}

/*
 * Reports a text that is no name. A path as scp has it, or a node alone, gets a hint how to list
 * the stores.
 */
static int no_name(const char *text, struct fm_err *err)
{
	const char *colon = strchr(text, ':');
	char node[FM_NAME_PART_MAX + 1];

	if (colon && (!colon[1] || colon[1] == '/') &&
	    part_take(text, (size_t)(colon - text), node))
		return fm_err_set(err, -EINVAL,
				  "\"%.200s\" names no store, as NODE:STORE/PATH does; \"fmove ls "
				  "%s:\" lists the stores",
				  text, node);
	return fm_err_set(err, -EINVAL, "\"%.200s\" is not of the form NODE:STORE/PATH", text);
}

bool fm_name_is_node(const char *text)
{
	char node[FM_NAME_PART_MAX + 1];
	size_t len = strlen(text);

	return len > 1 && text[len - 1] == ':' && part_take(text, len - 1, node);
}

int fm_name_parse(const char *text, struct fm_name *out, struct fm_err *err)
{
	const char *colon = strchr(text, ':');
	const char *store = colon ? colon + 1 : "";
	size_t store_len = strcspn(store, "/");
	const char *path = store + store_len;
	size_t len;

	if (!colon || !part_take(text, (size_t)(colon - text), out->node) ||
	    !part_take(store, store_len, out->store))
		return no_name(text, err);
	if (*path == '/')
		path++;
	len = strlen(path);
	out->is_dir = len == 0 || path[len - 1] == '/';
	while (len > 0 && path[len - 1] == '/')
		len--;
	if (len == 0 && *path)	/* "//" is an absolute path, which the node has to refuse */
		len = 1;
	if (len > FMOVE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path of %zu bytes is longer than %d",
				  len, FMOVE_PATH_MAX);
	memcpy(out->path, path, len);
	out->path[len] = '\0';
	return 0;
}

int fm_name_append(struct fm_name *name, const char *last, struct fm_err *err)
{
	size_t len = strlen(name->path), last_len = strlen(last);
	size_t slash = len > 0;

	if (len + slash + last_len > FMOVE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path of %zu bytes is longer than %d",
				  len + slash + last_len, FMOVE_PATH_MAX);
	if (slash)
		name->path[len] = '/';
	memcpy(name->path + len + slash, last, last_len + 1);
	name->is_dir = false;
	return 0;
}

struct fmove_name fm_name_parts(const struct fm_name *name)
{
	return (struct fmove_name){ name->node, name->store, name->path };
}

size_t fm_name_text(const struct fm_name *name, char *out, size_t cap)
{
	size_t len = (size_t)snprintf(out, cap, "%s:%s/%s", name->node, name->store, name->path);

	return len < cap ? len : cap - 1;
}

const char *fm_name_last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
