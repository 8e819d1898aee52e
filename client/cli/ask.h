/* SPDX-License-Identifier: MIT */
/*
 * ask - what ls, stat, rm, mkdir, cancel and resume have in common: one connection, names or jobs,
 * --json.
 */
#ifndef FM_CLIENT_ASK_H
#define FM_CLIENT_ASK_H

#include "client/cli/cmd.h"
#include "client/lib/fmove.h"
#include "client/cli/name.h"

struct fm_json;
struct fm_json_writer;

#define FM_ASK_JSON { "json", 0, 1, NULL, "the answer as one JSON object on standard output", NULL }
#define FM_ASK_JSON_KEY 1

#define FM_ASK_NAME_TEXT_MAX (FMOVE_PATH_MAX + 2 * FM_NAME_PART_MAX + 4)

/* Say the error of the library, "fmove: VERB: NAME: ...", and return the exit status. */
int fm_ask_fail(const char *verb, const char *name, const struct fmove_error *why);

/* The same of a verb that takes names as they are: a pattern that is no name is told so. */
int fm_ask_fail_literal(const char *verb, const char *name, struct fmove_error *why);

/* "error" of the object in w. */
void fm_ask_error_json(struct fm_json_writer *w, const struct fmove_error *why);

/*
 * What became of name as one object: {"name": .., key: other, "exit": ..} and the error, if there
 * is one. key may be NULL: then there is nothing beside the name.
 */
void fm_ask_outcome_json(const char *name, const char *key, const char *other, int status,
			 const struct fmove_error *why);

/* Connect, or say why not: -1 and *status. Once in a process. */
int fm_ask_open(const char *verb, bool is_quiet, struct fmove **out, int *status);

/* What fmove_status() tells, parsed; the caller frees it. */
int fm_ask_status(struct fmove *c, struct fm_json **out, struct fmove_error *why);

/* What is done to each name that was said. */
struct fm_ask_names {
	int (*do_one)(struct fmove *c, const struct fmove_name *name, void *ctx,
		      struct fmove_error *why);
	/* NULL, or adds to the row of a name what do_one(), which did it, found out */
	void (*row_json)(struct fm_json_writer *w, void *ctx);
	void *ctx;
	bool has_patterns;		/* what does not exist may be a pattern (glob.h) ... */
	bool may_match_nothing;		/* ... and then is done as it stands */
};

/*
 * do_one() for each operand, going on after failures. With --json {"names": [{"name": .., "exit":
 * n}, ..], "exit": n}; is_json was taken out of the options by the verb. Returns the exit status: 3
 * if only some failed.
 */
int fm_ask_each_name(const struct fm_args *args, bool is_json, const struct fm_ask_names *names);

/* The same for jobs: {"jobs": [{"job": .., "exit": n}, ..], "exit": n}. */
int fm_ask_each_job(const struct fm_args *args, bool is_json,
		    int (*do_one)(struct fmove *c, const char *job, void *ctx,
				  struct fmove_error *why),
		    void *ctx);

/* "type", "size", "mode", "mtime_ns" of an entry. */
void fm_ask_entry_json(struct fm_json_writer *w, const struct fmove_entry *e);

/* "leads_to": what a link says; nothing if it is "". */
void fm_ask_says_json(struct fm_json_writer *w, const char *says);

/* "-rw-r--r--" and "2025-01-31 12:34:56" */
void fm_ask_mode_text(const struct fmove_entry *e, char out[static 11]);
void fm_ask_time_text(const struct fmove_entry *e, char out[static 32]);

#endif
