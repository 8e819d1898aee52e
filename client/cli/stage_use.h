/* SPDX-License-Identifier: MIT */
/*
 * stage_use - what fmove stage does with a copy that is here, with the rights of who asks: links
 * to it, reading it into memory, a command that uses it.
 */
#ifndef FM_CLIENT_STAGE_USE_H
#define FM_CLIENT_STAGE_USE_H

#include <stdbool.h>

#include "client/lib/fmove.h"

struct fm_err;

struct fm_stage_use {
	const char *link;		/* --link DIR; NULL: not given */
	bool has_warm;			/* --warm */
	char **command;			/* behind "--"; NULL: none */
	const char *what;		/* the copy is of, for the line on a terminal */
	const char *hf_home;		/* of a repository of Hugging Face; NULL: it is none */
	/* What came of it: */
	char path[FMOVE_PATH_MAX + 1];	/* that is printed: of the copy, or of the links to it */
	bool is_warm;			/* it was read into memory */
};

/* The option that needs a copy here, for messages; NULL: none was given. */
const char *fm_stage_use_option(const struct fm_stage_use *u);

/* --link and --warm of what is at path; "": it is not on this node, and nothing is done. */
int fm_stage_use(struct fm_stage_use *u, const char *path, struct fm_err *err);

/* The command takes our place and number: what holds the data is the command then. Else, status. */
int fm_stage_run(const struct fm_stage_use *u);

#endif
