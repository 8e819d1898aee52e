/* SPDX-License-Identifier: MIT */
/*
 * stage_source - the operand of fmove stage, which names what is staged: [NODE:]STORE/PATH, an
 * absolute path in a store of this node, or hf:ORG/NAME.
 */
#ifndef FM_CLIENT_STAGE_SOURCE_H
#define FM_CLIENT_STAGE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/name.h"
#include "mover/base/hub_name.h"

struct fm_args;
struct fmove;

struct fm_stage_source {
	struct fm_name name;
	const char *repository;		/* as it was said: hf:ORG/NAME; NULL: it is none */
	struct fm_hub_name hub;
};

/* hf:ORG/NAME */
bool fm_stage_is_repository(const char *text);

/*
 * What can be said of the first operand before the daemon is asked. has_as: --as says what the
 * dataset is called. The exit status.
 */
int fm_stage_source_check(struct fm_stage_source *s, const struct fm_args *args, bool has_as);

/* What only the daemon knows: this node's name, the store of a path. -1: said, *status is set. */
int fm_stage_source_find(struct fm_stage_source *s, struct fmove *c, const char *text, int *status);

/*
 * Whether the caller's own hub cache, as huggingface_hub finds it in the environment, has something
 * of that repository and revision. out: where that cache is. Waits for its file system.
 */
bool fm_stage_source_is_own(const struct fm_stage_source *s, char *out, size_t cap);

/* What is said of it: short, while it comes; all of it. */
const char *fm_stage_source_short(const struct fm_stage_source *s);
void fm_stage_source_text(const struct fm_stage_source *s, char *out, size_t cap);

#endif
