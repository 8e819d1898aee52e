/* SPDX-License-Identifier: MIT */
/* libfmove_group - groups: what many put gets its place in one step. See fmove.h. */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/group_id.h"

#define COMMIT_MS (3600u * 1000) /* all that came may have to get to the disk */

_Static_assert(FMOVE_GROUP_ID_LEN == FM_GROUP_ID_TEXT_LEN, "an ID is one text for all");

void fmove_group_id(char id[FMOVE_GROUP_ID_LEN + 1])
{
	uint8_t bytes[FM_GROUP_ID_LEN];

	fm_random_real.fill(fm_random_real.ctx, bytes, sizeof(bytes));
	fm_group_id_print(bytes, id);
}

static void options_add(struct fm_json_writer *w, const struct fmove_group_options *o)
{
	if (!o)
		return;
	if (o->may_replace)
		fm_jw_bool(w, "force", true);
	if (o->members > 0)
		fm_jw_u64(w, "members", o->members);
	if (o->expect)
		fm_jw_name(w, "expect", o->expect, strlen(o->expect));
	if (o->expires_ms > 0)
		fm_jw_u64(w, "expires_ms", o->expires_ms);
}

/* Asks for something that may take its time. */
static int ask(struct fmove *c, const char *op, const struct fmove_name *name, const char *id,
	       const struct fmove_group_options *o, bool is_check, struct fmove_error *err)
{
	const struct fmove_options opts = {.timeout_ms = c->timeout_ms ? c->timeout_ms : COMMIT_MS};
	const struct fm_lib_parcel with = {.count = 0};
	struct fm_lib_waiting waiting = {.opts = &opts};
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	fm_lib_begin(c, &w, op);
	fm_lib_add_name(&w, name);
	fm_jw_text(&w, "group", id);
	options_add(&w, o);
	if (is_check)
		fm_jw_bool(&w, "check_only", true);
	c->limit_ms = opts.timeout_ms;
	ret = fm_lib_run(c, &w, &with, &waiting, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

int fmove_group_begin(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_error *err)
{
	return ask(c, "group_begin", name, id, opts, false, err);
}

int fmove_group_check(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_error *err)
{
	return ask(c, "group_commit", name, id, opts, true, err);
}

int fmove_group_commit(struct fmove *c, const struct fmove_name *name, const char *id,
		       const struct fmove_group_options *opts, struct fmove_error *err)
{
	return ask(c, "group_commit", name, id, opts, false, err);
}

int fmove_group_discard(struct fmove *c, const struct fmove_name *name, const char *id,
			struct fmove_error *err)
{
	return ask(c, "group_discard", name, id, NULL, false, err);
}
