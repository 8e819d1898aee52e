/* SPDX-License-Identifier: MIT */
/* transfer - see transfer.h. */
#include "client/cli/transfer.h"

#include <errno.h>
#include <string.h>

#include "client/cli/interrupt.h"
#include "client/cli/latest.h"
#include "client/lib/tries.h"
#include "config/value.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/words.h"

#define PROGRESS_MS 200
#define ANSWER_MS 5000		/* for a node that one file took too long of */
#define LIMIT_MIN 1000		/* bytes a second */

void fm_transfer_init(struct fm_transfer *t, const char *verb)
{
	*t = (struct fm_transfer){ .outcomes = { .verb = verb } };
	t->opts.struct_size = sizeof(t->opts);
	t->dir.tree.struct_size = sizeof(t->dir.tree);
}

static int take_choice(struct fm_args *args, const char *option, const char *const *words,
		       const char *list, int *out)
{
	*out = fm_word_parse(words, args->value);
	return *out < 0 ? fm_usage(args, "--%s %s: must be %s", option, args->value, list) : 0;
}

static int take_limit(struct fm_transfer *t, struct fm_args *args)
{
	/* "500MB" says as much as "500MB/s". */
	if (fm_value_rate_typed(args->value, &t->opts.rate_bytes) < 0 &&
	    fm_value_size(args->value, &t->opts.rate_bytes) < 0)
		return fm_usage(args, "--limit %s: must be " FM_VALUE_RATE_FORM, args->value);
	/* A bare number is bytes: who says 5 means another unit. */
	if (t->opts.rate_bytes > 0 && t->opts.rate_bytes < LIMIT_MIN)
		return fm_usage(args,
				"--limit %s: less than 1kB/s is not taken; say the unit, for "
				"example 500MB/s",
				args->value);
	return 0;
}

int fm_transfer_take_time(struct fm_args *args, uint64_t *ms)
{
	uint64_t ns;

	if (fm_value_time_typed(args->value, &ns) < 0 || ns < FM_NS_PER_MS ||
	    ns / FM_NS_PER_MS > UINT64_C(366) * 24 * 3600 * 1000)
		return fm_usage(args,
				"--timeout %s: must be " FM_VALUE_TIME_FORM ", 1 ms to a year",
				args->value);
	*ms = ns / FM_NS_PER_MS;
	return 0;
}

static int take_retry(struct fm_transfer *t, struct fm_args *args)
{
	uint64_t ns;

	if (fm_value_time_typed(args->value, &ns) < 0 || (ns > 0 && ns < FM_NS_PER_MS) ||
	    ns / FM_NS_PER_MS > UINT64_C(366) * 24 * 3600 * 1000)
		return fm_usage(args, "--retry %s: must be " FM_VALUE_TIME_FORM ", up to a year",
				args->value);
	t->opts.retry_ms = ns / FM_NS_PER_MS;
	return 0;
}

static int take_ranges(struct fm_transfer *t, struct fm_args *args, bool is_file)
{
	struct fm_err err;
	int ret = is_file ? fm_range_args_read(&t->ranges, args->value, &err)
			  : fm_range_args_add(&t->ranges, args->value, &err);

	if (ret == 0)
		return 0;
	if (is_file)
		return fm_usage(args, "--ranges-from %.200s: %s", args->value, err.text);
	return fm_usage(args, "--range: %s", err.text);
}

/* Takes an option of put and get. Returns 0, or an exit status. */
static int take_option(struct fm_transfer *t, struct fm_args *args, int key)
{
	int place, ret = 0;

	switch ((enum fm_transfer_key)key) {
	case FM_TRANSFER_TRANSPORT:
		ret = take_choice(args, "transport", fm_words_transport, "auto, rdma or tcp",
				  &place);
		t->opts.transport = ret == 0 ? (enum fmove_transport)place : FMOVE_AUTO;
		break;
	case FM_TRANSFER_DURABILITY:
		ret = take_choice(args, "durability", fm_words_durability, "disk or memory",
				  &place);
		t->opts.durability = ret == 0 ? (enum fmove_durability)place : FMOVE_DEFAULT;
		break;
	case FM_TRANSFER_LIMIT:
		return take_limit(t, args);
	case FM_TRANSFER_TIMEOUT:
		return fm_transfer_take_time(args, &t->opts.timeout_ms);
	case FM_TRANSFER_RETRY:
		return take_retry(t, args);
	case FM_TRANSFER_PRIORITY:
		ret = take_choice(args, "priority", fm_words_priority, "low, normal or high",
				  &place);
		t->opts.priority = ret == 0 ? (enum fmove_priority)place : FMOVE_NORMAL;
		break;
	case FM_TRANSFER_DETACH:
		t->is_detached = true;
		break;
	case FM_TRANSFER_FORCE:
		t->is_forced = true;
		break;
	case FM_TRANSFER_KEEP:
		t->opts.keep_partial = true;
		break;
	case FM_TRANSFER_VERIFY:
		if (strcmp(args->value, "readback") != 0)
			return fm_usage(args, "--verify %s: must be readback", args->value);
		t->opts.is_readback = true;
		break;
	case FM_TRANSFER_CORRUPT:
		t->opts.accepts_corrupt = true;
		break;
	case FM_TRANSFER_RANGE:
		return take_ranges(t, args, false);
	case FM_TRANSFER_RANGES_FROM:
		return take_ranges(t, args, true);
	case FM_TRANSFER_WHOLE_BLOCKS:
		t->opts.whole_blocks = true;
		break;
	case FM_TRANSFER_GROUP:
		t->opts.group = args->value;
		break;
	case FM_TRANSFER_LATEST:
		return fm_latest_take(args, &t->latest);
	case FM_TRANSFER_KEEP_LAST:
		return fm_latest_take_keep(args, &t->keep_last);
	case FM_TRANSFER_QUIET:
		t->outcomes.is_quiet = true;
		break;
	case FM_TRANSFER_JSON:
		t->outcomes.is_json = true;
		break;
	}
	return ret;
}

void fm_transfer_set_kind(struct fm_transfer *t, bool is_tree)
{
	if (is_tree)
		t->opts.may_replace = t->dir.tree.is_update ? t->is_forced : t->dir.replaces;
	else
		t->opts.may_replace = t->is_forced || t->dir.tree.is_update;
}

int fm_transfer_args(struct fm_transfer *t, struct fm_args *args, int min, int max)
{
	int key;

	while ((key = fm_args_next(args)) > 0) {
		args->status = key >= FM_DIR_RECURSIVE ? fm_dir_option(&t->dir, args, key)
						       : take_option(t, args, key);
		if (args->status != 0)
			return -1;
	}
	if (fm_args_end(args, min, max) < 0)
		return -1;
	args->status = fm_dir_check(&t->dir, args);
	if (args->status == 0 && t->is_detached && t->dir.tree.is_dry_run)
		args->status = fm_usage(
			args, "--dry-run says at once what would be done: leave out --detach");
	if (args->status == 0 && t->is_detached && t->dir.tree.follows_links)
		args->status = fm_usage(args, "--copy-links is not kept with a job: leave out "
					      "--detach");
	if (args->status == 0 && t->is_detached && t->dir.is_verbose)
		args->status = fm_usage(
			args, "--verbose names what changes when it has: leave out --detach");
	if (args->status == 0 && t->is_detached && t->opts.keep_partial)
		args->status = fm_usage(args, "--keep-partial is of a command that is cancelled, "
					      "and a job goes on without it: leave out --detach; "
					      "fmove cancel --keep-partial keeps what a job has");
	fm_transfer_set_kind(t, false);
	return args->status != 0 ? -1 : 0;
}

int fm_transfer_open(struct fm_transfer *t, struct fm_err *err)
{
	struct fmove_error why;
	int ret;

	ret = fm_interrupt_start(err);
	if (ret < 0)
		return ret;
	t->opts.cancel_fd = fm_interrupt_fd();
	t->opts.progress = fm_progress_show;
	t->opts.ctx = &t->progress;
	fm_turn_init(&t->turn, t->outcomes.verb, t->outcomes.is_quiet);
	ret = fm_turn_connect(&t->turn, &t->conn, &why);
	return ret < 0 ? fm_transfer_error(err, &why) : 0;
}

void fm_transfer_close(struct fm_transfer *t)
{
	fmove_close(t->conn);
}

int fm_transfer_is_own(struct fm_transfer *t, const char *text, struct fm_name *out,
		       struct fm_err *err)
{
	struct fmove_error why;
	struct fm_err other;

	if (fm_name_parse(text, out, &other) < 0)
		return 0;
	if (!t->node[0] && fmove_node(t->conn, t->node, sizeof(t->node), &why) < 0)
		return fm_transfer_error(err, &why);
	return strcmp(out->node, t->node) == 0;
}

/* says: of a link itself; NULL: of what it leads to. */
static int stat_or_look(struct fm_transfer *t, const struct fm_name *name, struct fmove_entry *out,
			char *says, struct fmove_error *why)
{
	struct fmove_name parts = fm_name_parts(name);
	struct fm_tries tries;
	int ret;

	fm_tries_begin(&tries, &t->opts);
	tries.opts.progress_ms = 0;	/* no line has been begun */
	do {
		fmove_set_timeout(t->conn, tries.opts.timeout_ms);
		ret = says ? fmove_look(t->conn, &parts, out, says, why)
			   : fmove_stat(t->conn, &parts, out, why);
	} while (ret < 0 && fm_tries_again(&tries, t->conn, why));
	return ret;
}

int fm_transfer_stat(struct fm_transfer *t, const struct fm_name *name, struct fmove_entry *out,
		     struct fmove_error *why)
{
	return stat_or_look(t, name, out, NULL, why);
}

int fm_transfer_is_there(struct fm_transfer *t, const struct fm_name *name, struct fmove_error *why)
{
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	char says[FMOVE_PATH_MAX + 1];

	return stat_or_look(t, name, &entry, says, why);
}

/* ---- when others are not tried either ---- */

bool fm_transfer_gives_up(struct fm_transfer *t, int status, const struct fm_name *name)
{
	struct fmove_name parts = fm_name_parts(name);
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	char says[FMOVE_PATH_MAX + 1];
	struct fmove_error why;

	if (status != FM_EXIT_UNREACHABLE || t->opts.timeout_ms == 0)
		return status == FM_EXIT_UNREACHABLE;
	fmove_set_timeout(t->conn, ANSWER_MS);
	return fmove_look(t->conn, &parts, &entry, says, &why) < 0 &&
	       fm_api_exit(why.code) == FM_EXIT_UNREACHABLE;
}

void fm_transfer_skip(struct fm_transfer *t, const char *source, const char *target, int code)
{
	struct fm_outcome one = {.source = source, .target = target, .is_aside = true};
	bool is_away = fm_api_exit(code) == FM_EXIT_UNREACHABLE;

	(void)fm_err_set(&one.err, code, "not tried: %s",
			 is_away ? "the node could not be reached"
				 : code == -ECANCELED ? "cancelled" : fm_err_name(code));
	fm_outcomes_add(&t->outcomes, &one);
}

/* ---- what is looked at before it is moved ---- */

bool fm_transfer_looks(const struct fm_transfer *t)
{
	return t->dir.tree.is_update || t->dir.tree.is_dry_run || t->dir.is_verbose;
}

int fm_transfer_is_tree(struct fm_transfer *t, const struct fm_name *name,
			struct fmove_entry *entry, struct fm_outcome *one)
{
	bool is_recursive = t->dir.is_recursive;
	int ret = is_recursive || fm_transfer_looks(t) ? fm_dir_is_source(t, name, entry, one) : 0;

	if (ret > 0 && !is_recursive)
		return fm_dir_refuse(t, one->source, one);
	return ret;
}

/*
 * Looks at what has the target's name; in a directory, the name that the file will get there. 1:
 * something has it. Only a dry run reports an error: otherwise the transfer does.
 */
static int look_there(struct fm_transfer *t, const char *path, struct fm_name *target,
		      struct fmove_entry *there, struct fm_outcome *one)
{
	struct fmove_name parts = fm_name_parts(target);
	struct fmove_error why;
	int ret;

	fmove_set_timeout(t->conn, t->opts.timeout_ms);
	ret = fmove_stat(t->conn, &parts, there, &why);
	if (ret == 0 && there->type == FMOVE_DIRECTORY && path &&
	    fm_name_append(target, fm_name_last(path), &one->err) == 0) {
		parts = fm_name_parts(target);
		ret = fmove_stat(t->conn, &parts, there, &why);
	}
	if (ret == 0)
		return 1;
	return ret == -ENOENT || !t->dir.tree.is_dry_run
		       ? 0
		       : fm_transfer_fail(one, path ? path : one->source, &why);
}

/*
 * Refuses a dry run where the run would be refused. It cannot know whether the store replaces files
 * by itself.
 */
static int check_there(const struct fm_transfer *t, const char *label,
		       const struct fmove_entry *there, struct fm_err *err)
{
	if (!t->dir.tree.is_dry_run)
		return 0;
	if (there->type == FMOVE_DIRECTORY)
		return fm_err_set(err, -EISDIR,
				  "%s: a directory is there, which a file does not replace", label);
	if (!t->opts.may_replace)
		return fm_err_set(err, -EEXIST,
				  "%s: a file is there; it is replaced only if asked for "
				  "(--force), or if its "
				  "store is configured so",
				  label);
	return 0;
}

int fm_transfer_spares(struct fm_transfer *t, const char *path, const struct fmove_entry *file,
		       struct fm_name *target, struct fm_outcome *one)
{
	struct fm_name at = *target;
	struct fmove_entry there = {.struct_size = sizeof(there)};
	int ret;

	if (!fm_transfer_looks(t))
		return 0;
	fm_transfer_set_kind(t, false);
	ret = look_there(t, path, &at, &there, one);
	if (ret > 0 && check_there(t, path ? path : one->source, &there, &one->err) < 0)
		return one->err.code;
	one->is_looked = ret >= 0;
	one->is_there = ret > 0;
	/* A link is led to what is on the disk. Of a file that is the same nobody knows whether it
	 * is, and only putting it makes sure. */
	if (ret >= 0)
		ret = t->latest ? 0 : fm_dir_file(&t->dir, file, ret > 0 ? &there : NULL, one);
	if (ret > 0)
		*target = at;
	return ret;
}

void fm_transfer_name(struct fm_transfer *t, const struct fm_outcome *one)
{
	if (t->dir.is_verbose && one->is_looked && !one->is_same && one->err.code == 0)
		fm_outcomes_name(&t->outcomes, one, one->is_there ? FMOVE_REPLACED : FMOVE_ADDED,
				 ".");
}

void fm_transfer_begin(struct fm_transfer *t, const char *label)
{
	fm_progress_begin(&t->progress, label, t->outcomes.is_quiet);
	t->opts.progress_ms = t->progress.is_on ? PROGRESS_MS : 0;
}

void fm_transfer_end(struct fm_transfer *t)
{
	fm_progress_end(&t->progress);
}

int fm_transfer_error(struct fm_err *err, const struct fmove_error *from)
{
	if (fm_is_interrupted())
		return fm_err_set(err, -ECANCELED, "cancelled");
	return fm_err_set(err, from->code, "%s", from->text);
}

int fm_transfer_fail(struct fm_outcome *one, const char *label, const struct fmove_error *why)
{
	one->is_kept = why->is_kept;
	one->is_told = true;
	(void)fm_transfer_error(&one->err, why);
	return fm_err_wrap(&one->err, "%s", label);
}

int fm_transfer_latest(struct fm_transfer *t, const struct fm_name *target, struct fm_outcome *one)
{
	struct fmove_error why;

	if (!t->latest)
		return 0;
	fmove_set_timeout(t->conn, t->opts.timeout_ms);
	one->is_rotated = t->keep_last > 0;
	if (fm_latest_lead(t->conn, target, t->latest, t->keep_last, false,
			   &one->rotated, &why) == 0)
		return 0;
	one->is_told = true;
	(void)fm_transfer_error(&one->err, &why);
	return fm_err_wrap(&one->err, "\"%.200s\" is put, and the link %.200s does not lead to it",
			   target->path, t->latest);
}

/* ---- from store to store ---- */

int fm_transfer_stores(struct fm_transfer *t, bool is_put, const struct fm_name *from,
		       const struct fm_name *to, bool is_tree, struct fm_outcome *one)
{
	struct fmove_name source = fm_name_parts(from), target = fm_name_parts(to);
	struct fmove_error why;
	int ret;

	t->opts.tree = is_tree ? &t->dir.tree : NULL;
	fm_transfer_set_kind(t, is_tree);
	fm_transfer_begin(t, is_put ? one->source : from->path);
	one->result.struct_size = sizeof(one->result);
	if (is_tree)
		fm_dir_name(t, one);
	if (t->is_detached)
		ret = (is_put ? fmove_put_store_detached : fmove_get_store_detached)(
			t->conn, &source, &target, &t->opts, one->job, &why);
	else
		ret = (is_put ? fmove_put_store : fmove_get_store)(t->conn, &source, &target,
								   &t->opts, &one->result, &why);
	fm_transfer_end(t);
	one->is_handed_over = t->is_detached;
	if (is_tree && !one->is_handed_over)
		fm_dir_outcome(&t->dir, one);
	return ret == 0 ? 0 : fm_transfer_fail(one, one->source, &why);
}
