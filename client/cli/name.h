/* SPDX-License-Identifier: MIT */
/*
 * name - NODE:STORE/PATH, and the last parts of paths. Any thread.
 *
 * Only taken apart here. Whether a path is allowed is for the node that has the store to say:
 * nobody else can be trusted with it.
 */
#ifndef FM_CLIENT_NAME_H
#define FM_CLIENT_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/fmove.h"

struct fm_err;

#define FM_NAME_PART_MAX 64	/* bytes of a node's or store's name */

struct fm_name {
	char node[FM_NAME_PART_MAX + 1];
	char store[FM_NAME_PART_MAX + 1];
	char path[FMOVE_PATH_MAX + 1];	/* without trailing slashes */
	bool is_dir;			/* nothing, or a slash, stood at its end */
};

/* -EINVAL: not of that form. -ENAMETOOLONG. */
int fm_name_parse(const char *text, struct fm_name *out, struct fm_err *err);

/* Whether text is of the form NODE: */
bool fm_name_is_node(const char *text);

/* Make path/last of it; also "" + last. -ENAMETOOLONG. */
int fm_name_append(struct fm_name *name, const char *last, struct fm_err *err);

/* For libfmove. Lives as long as name. */
struct fmove_name fm_name_parts(const struct fm_name *name);

/* NODE:STORE/PATH as bytes, terminated; cut to cap. Returns the length. */
size_t fm_name_text(const struct fm_name *name, char *out, size_t cap);

/* What is behind the last slash of a path without trailing slash; points into it. */
const char *fm_name_last(const char *path);

#endif
