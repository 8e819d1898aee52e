/* SPDX-License-Identifier: MIT */
/*
 * cmd_get - fmove get NODE:STORE/PATH... DST. The target is made here, with the caller's rights,
 * and filled by the daemon.
 */
#include "client/cli/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/background.h"
#include "client/cli/glob.h"
#include "client/cli/interrupt.h"
#include "client/cli/name.h"
#include "client/cli/part.h"
#include "client/cli/pump.h"
#include "client/cli/show.h"
#include "client/lib/former.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"

const struct fm_opt fm_opts_get[] = {
	{"range", 0, FM_TRANSFER_RANGE, "OFF:LEN[,...]",
	 "these bytes only, one range after the other; without LEN up to the end, for example "
	 "0:4096,1M:64k",
	 NULL},
	{"ranges-from", 0, FM_TRANSFER_RANGES_FROM, "FILE",
	 "the same from a file, \"OFF LEN\" a line; - is standard input", "FILE"},
	{"verify", 0, FM_TRANSFER_WHOLE_BLOCKS, NULL,
	 "with ranges: compare with the kept digest also blocks that they cover in part", NULL},
	FM_TRANSFER_OPTS,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define SOURCE_TEXT_MAX (FMOVE_PATH_MAX + 2 * FM_NAME_PART_MAX + 4)
#define DST_MAX (2 * FMOVE_PATH_MAX + 2)

static int receive(struct fm_transfer *t, int fd, const struct fm_name *source,
		   struct fm_outcome *one)
{
	struct fmove_name parts = fm_name_parts(source);
	struct fmove_error why;
	int ret;

	fm_transfer_begin(t, source->path);
	one->result.struct_size = sizeof(one->result);
	if (t->ranges.count > 0)
		ret = fmove_get_ranges(t->conn, fd, &parts, t->ranges.at, t->ranges.count, &t->opts,
				       &one->result, &why);
	else
		ret = fmove_get(t->conn, fd, &parts, &t->opts, &one->result, &why);
	fm_transfer_end(t);
	if (ret == 0)
		return 0;
	return fm_transfer_fail(one, one->source, &why);
}

/* ---- standard output ---- */

/*
 * Whether the daemon may write to standard output itself: a pipe or socket. A file, a device or a
 * terminal is written to here, as whoever opened it meant it.
 */
static bool can_hand_over(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* Gets into a descriptor that the daemon does not have; what: its name in an error. */
static int get_pumped(struct fm_transfer *t, const struct fm_name *source, int to, const char *what,
		      struct fm_outcome *one)
{
	struct fm_pump *pump;
	int fd, ret, written = 0;

	ret = fm_pump_to(to, &pump, &fd, &one->err);
	if (ret < 0)
		return ret;
	ret = receive(t, fd, source, one);
	(void)close(fd);	/* our end of a pipe */
	if (ret < 0 && to != STDOUT_FILENO)
		fm_pump_stop(pump);	/* a file of ours is closed next, and its number reused */
	if (ret == 0)
		written = fm_pump_finish(pump);
	else
		written = fm_pump_error(pump);	/* the daemon saw a broken pipe only */
	return written < 0 ? fm_err_sys(&one->err, written, "%s", what) : ret;
}

static int get_stdout(struct fm_transfer *t, const struct fm_name *source, struct fm_outcome *one)
{
	int ret;

	t->turn.is_off = true;
	if (can_hand_over(STDOUT_FILENO))
		ret = receive(t, STDOUT_FILENO, source, one);
	else
		ret = get_pumped(t, source, STDOUT_FILENO, "standard output", one);
	one->result.is_durable = false;		/* nobody synced what is behind it */
	one->is_kept = false;
	return ret;
}

/* ---- a file ---- */

/* Resolves the target. A directory means: in it, under the name that the source has. */
static int dst_resolve(const char *dst, const struct fm_name *source, char out[static DST_MAX],
		       struct fm_err *err)
{
	size_t len = strlen(dst);
	bool is_dir = len > 0 && dst[len - 1] == '/';
	struct stat st;

	if (len == 0)
		return fm_err_set(err, -ENOENT, "the name of the target is empty");
	if (len > FMOVE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "the target's path of %zu bytes is longer than %d", len,
				  FMOVE_PATH_MAX);
	if (!is_dir)
		is_dir = stat(dst, &st) == 0 && S_ISDIR(st.st_mode);
	(void)snprintf(out, DST_MAX, "%s%s%s", dst, is_dir && dst[len - 1] != '/' ? "/" : "",
		       is_dir ? fm_name_last(source->path) : ""); /* fits: twice the longest path */
	return 0;
}

/*
 * Whether a later get may go on with a file that did not come whole. The daemon empties the journal
 * of one that may not; this gives the same answer without waiting for that.
 */
static bool is_worth_keeping(const struct fm_transfer *t, const struct fm_outcome *one)
{
	if (one->err.code == -ECANCELED)
		return fm_is_interrupted() ? t->opts.keep_partial : one->is_kept;
	return one->is_kept || fm_errno_keeps_partial(one->err.code);
}

/*
 * There was no room for a file. Removes what gets have put aside beside it, if that is enough, and
 * tells whether there is room now.
 */
static bool makes_room(struct fm_transfer *t, const struct fm_name *source,
		       const struct fm_part *part)
{
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;
	uint64_t there;
	struct stat st;

	if (t->is_detached || t->ranges.count > 0 || fm_is_interrupted() ||
	    fm_transfer_stat(t, source, &entry, &why) < 0 || fstat(part->file.fd, &st) < 0)
		return false;
	there = (uint64_t)st.st_blocks * 512;
	return entry.size > there && fm_former_make_room(part->file.dir, entry.size - there);
}

/* Whether the ranges come in several requests, which a file does not take, but a pipe. */
static bool has_many_ranges(const struct fm_transfer *t)
{
	return t->ranges.count > FMOVE_RANGES_MAX;
}

/* Gets many ranges into a file, from its beginning: nothing can go on with it later. */
static int receive_many(struct fm_transfer *t, const struct fm_name *source,
			const struct fm_part *part, struct fm_outcome *one)
{
	int fd = part->file.fd, ret;

	t->opts.journal_fd = 0;
	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    (part->file.journal > 0 && ftruncate(part->file.journal, 0) < 0))
		return fm_err_sys(&one->err, -errno, "empty the file");
	ret = get_pumped(t, source, fd, "write the file", one);
	if (ret < 0 || t->opts.durability == FMOVE_MEMORY)
		return ret;
	if (fsync(fd) < 0)
		return fm_err_sys(&one->err, -errno, "sync the file");
	one->result.is_durable = true;
	return 0;
}

static int receive_part(struct fm_transfer *t, const struct fm_name *source,
			const struct fm_part *part, struct fm_outcome *one)
{
	int ret = has_many_ranges(t) ? receive_many(t, source, part, one)
				     : receive(t, part->file.fd, source, one);

	if (ret != -ENOSPC || !makes_room(t, source, part))
		return ret;
	one->err.code = 0;
	return receive(t, part->file.fd, source, one);
}

static int get_file(struct fm_transfer *t, const struct fm_name *source, const char *dst,
		    struct fm_outcome *one)
{
	struct fm_part_opts opts = {.may_replace = t->opts.may_replace,
				    .is_kept = t->opts.keep_partial};
	struct fm_part part;
	bool is_published;
	int ret;

	ret = fm_part_open(dst, &opts, &part, &one->err);
	if (ret < 0)
		return ret;
	t->opts.journal_fd = part.file.journal > 0 ? part.file.journal : 0;
	fm_background_part(t, &part);
	ret = receive_part(t, source, &part, one);
	t->opts.journal_fd = 0;
	if (fm_background_is_over(t, &is_published))
		/* else the daemon did not hear that it has its name */
		return is_published && ret != -ECONNRESET ? 0 : ret;
	if (ret < 0) {
		if (!has_many_ranges(t) && is_worth_keeping(t, one))
			one->is_kept = fm_part_leave(&part);
		else
			fm_part_discard(&part);
		return ret;
	}
	return fm_part_publish(&part,
			       &(struct fm_part_attr){ one->result.mode, one->result.mtime_ns,
						       one->result.is_durable },
			       &one->err);
}

struct file_get {
	const struct fm_name *source;
	const char *path;
};

static int get_in_background(struct fm_transfer *t, void *ctx, struct fm_outcome *one)
{
	const struct file_get *get = ctx;

	return get_file(t, get->source, get->path, one);
}

int fm_transfer_get_file(struct fm_transfer *t, const struct fm_name *source, const char *path,
			 struct fm_outcome *one)
{
	struct file_get get = { source, path };

	if (!t->is_detached)
		return get_file(t, source, path, one);
	return fm_background_run(t, path, true, get_in_background, &get, one);
}

/* ---- a store of this node ---- */

/* Whether a name in a store of this node is a directory's: a file then goes into it. */
static bool is_own_dir(struct fm_transfer *t, const struct fm_name *own)
{
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;

	return own->is_dir || (fm_transfer_stat(t, own, &entry, &why) == 0 &&
			       entry.type == FMOVE_DIRECTORY);
}

/* Gets into a store of this node: the daemon makes the file and gives it its name. */
static int get_own(struct fm_transfer *t, const struct fm_name *source, struct fm_name *own,
		   struct fm_outcome *one)
{
	const char *last = fm_name_last(source->path);
	struct fmove_entry file = {.struct_size = sizeof(file)};
	int is_tree, ret = 0;

	if (own->is_dir && !*last)
		return fm_err_set(
			&one->err, -EISDIR,
			"a whole store has no name of its own: say which directory to make of it");
	is_tree = fm_transfer_is_tree(t, source, &file, one);
	if (is_tree < 0)
		return is_tree;
	/* a directory becomes the target itself, there already or not */
	if (is_tree ? own->is_dir : is_own_dir(t, own))
		ret = fm_name_append(own, last, &one->err);
	if (ret == 0 && !is_tree)
		ret = fm_transfer_spares(t, NULL, &file, own, one);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return fm_transfer_stores(t, false, source, own, is_tree, one);
}

/*
 * With --update or --dry-run: 1: the file need not be moved. A dry run is refused as the run itself
 * would be.
 */
static int is_spared(struct fm_transfer *t, const struct fmove_entry *file, const char *path,
		     struct fm_outcome *one)
{
	struct fmove_entry there = {.struct_size = sizeof(there)};
	struct stat st;
	bool is_there = lstat(path, &st) == 0;

	if (!fm_transfer_looks(t))
		return 0;
	one->is_looked = true;
	one->is_there = is_there;
	fm_transfer_set_kind(t, false);
	if (t->dir.tree.is_dry_run && fm_part_check(path, t->opts.may_replace, &one->err) < 0)
		return one->err.code;
	if (is_there)
		there = fm_dir_entry(&st);
	return fm_dir_file(&t->dir, file, is_there ? &there : NULL, one);
}

static int get_into(struct fm_transfer *t, const struct fm_name *source, const char *dst,
		    struct fm_outcome *one)
{
	static char path[DST_MAX];	/* one->target stays */
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fm_name own;
	int ret = fm_transfer_is_own(t, dst, &own, &one->err);

	if (ret < 0)
		return ret;
	if (ret > 0 && t->ranges.count > 0)
		return fm_err_set(&one->err, -EINVAL,
				  "ranges come into a file of yours or to standard output, and not "
				  "into a store");
	if (ret > 0)
		return get_own(t, source, &own, one);
	/* The peer, who knows whether it is one, may be away. */
	if (t->dir.is_recursive)
		ret = fm_dir_check_background(t, &one->err);
	if (ret == 0)
		ret = fm_transfer_is_tree(t, source, &entry, one);
	if (ret != 0)
		return ret < 0 ? ret : fm_dir_get(t, source, dst, path, one);
	if (strcmp(dst, "-") == 0 && t->dir.tree.is_dry_run)
		return fm_err_set(&one->err, -EINVAL,
				  "standard output has nothing that could be replaced: leave out "
				  "--dry-run");
	if (strcmp(dst, "-") == 0 && t->is_detached)
		return fm_err_set(&one->err, -EINVAL,
				  "standard output ends with this command: leave out --detach, or "
				  "say a file");
	if (strcmp(dst, "-") == 0)
		return get_stdout(t, source, one);
	ret = dst_resolve(dst, source, path, &one->err);
	if (ret < 0)
		return ret;
	one->target = path;
	ret = is_spared(t, &entry, path, one);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	ret = fm_transfer_get_file(t, source, path, one);
	/* what was found here is of the target */
	if (ret != -EISDIR || !one->is_told)
		return ret;
	if (t->ranges.count > 0)
		return fm_err_set(&one->err, -EISDIR, "%s is a directory: ranges are of a file",
				  one->source);
	return t->dir.is_recursive ? ret : fm_dir_refuse(t, one->source, one);
}

/*
 * Adds to an error for want of room what fmove purge could remove there. It goes by itself only if
 * it is enough, and never for a job in the background.
 */
static void name_kept(const char *path, struct fm_err *err)
{
	int len = (int)(fm_name_last(path) - path);
	struct fm_err why = *err, other;
	uint64_t count = 0, bytes;
	char shown[FM_SHOW_MAX];
	int dir;

	if (why.code != -ENOSPC || strcmp(path, "-") == 0)
		return;
	dir = fm_part_open_dir(path, &other);
	if (dir < 0)
		return;
	if (fm_former_sum(dir, &count, &bytes, &other) == 0 && count > 0)
		(void)fm_err_set(err, why.code,
				 "%s; fmove purge %.*s removes %s of what was replaced there",
				 why.text, len > 0 ? len : 2, len > 0 ? path : "./",
				 fm_show_bytes(bytes, shown));
	(void)close(dir);	/* only read */
}

/* Gets one source. Returns its error's code. */
static int get_one(struct fm_transfer *t, const struct fm_name *source, const char *dst)
{
	char text[SOURCE_TEXT_MAX];
	struct fm_outcome one = { .source = text, .target = dst };

	(void)fm_name_text(source, text, sizeof(text));
	(void)get_into(t, source, dst, &one);	/* one.err has it */
	name_kept(one.target, &one.err);
	fm_transfer_name(t, &one);
	fm_outcomes_add(&t->outcomes, &one);
	return one.err.code;
}

/* ---- several sources ---- */

/* What an operand stands for: itself, or the names that it matches. */
struct operand {
	const char *text;
	struct fm_name name;
	bool is_pattern;
	struct fm_glob matches;
	struct fm_err err;		/* why there are none */
	int away;			/* the error of its node, which could not be reached */
};

struct gets {
	struct operand *operands;
	unsigned count;			/* of the sources */
	const char *dst;
	char in_dir[DST_MAX];		/* dst with a slash at its end */
};

/*
 * Finds what a pattern matches. A name that exists stands for itself, even if it looks like a
 * pattern, and if it is of a link that leads nowhere.
 */
static int expand(struct fm_transfer *t, struct operand *o)
{
	struct fmove_error why;
	int ret;

	if (!fm_glob_is_pattern(o->name.path))
		return 0;
	ret = fm_transfer_is_there(t, &o->name, &why);
	if (ret == 0)
		return 0;
	o->is_pattern = true;
	ret = fm_glob_instead(t->conn, &o->name, ret, &o->matches, &why);
	if (ret == 0)
		return 0;
	(void)fm_transfer_error(&o->err, &why);
	return fm_err_wrap(&o->err, "%s", o->text);
}

/* How many sources an operand stands for. A pattern that failed counts as one failure. */
static size_t count_of(const struct operand *o)
{
	return o->is_pattern && o->err.code == 0 ? o->matches.count : 1;
}

static size_t count_all(const struct gets *g)
{
	size_t count = 0;

	for (unsigned k = 0; k < g->count; k++)
		count += count_of(&g->operands[k]);
	return count;
}

/* The path below the store of the i-th source of an operand. */
static const char *path_of(const struct operand *o, size_t i)
{
	return i < o->matches.count ? o->matches.paths[i] : o->name.path;
}

static int by_last_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(fm_name_last(*x), fm_name_last(*y));
}

/*
 * Refuses two sources that would have one name in the directory: the later would replace the
 * earlier.
 */
static int check_twins(const struct gets *g, struct fm_err *err)
{
	size_t count = count_all(g), at = 0;
	const char **paths = calloc(count, sizeof(*paths));
	int ret = 0;

	if (!paths)
		return fm_err_set(err, -ENOMEM, "no memory for %zu names", count);
	for (unsigned k = 0; k < g->count; k++)
		for (size_t i = 0; i < count_of(&g->operands[k]) && g->operands[k].err.code == 0;
		     i++)
			paths[at++] = path_of(&g->operands[k], i);
	qsort(paths, at, sizeof(*paths), by_last_name);
	for (size_t i = 1; i < at && ret == 0; i++)
		if (by_last_name(&paths[i - 1], &paths[i]) == 0)
			ret = fm_err_set(err, -EEXIST,
					 "%.200s and %.200s would both become \"%.100s\" in that "
					 "directory: get them one by one",
					 paths[i - 1], paths[i], fm_name_last(paths[i]));
	free(paths);
	return ret;
}

/* What makes a directory of a name that is none. */
static const char *how_to_make(const char *dst, bool is_own)
{
	struct stat st;

	if (is_own)
		return "; end it with / to make it one";
	return stat(dst, &st) < 0 && errno == ENOENT ? "; \"mkdir -p\" makes it" : "";
}

/* Several go into a directory, which is there, or in a store of this node is spelled as one. */
static int find_dir(struct fm_transfer *t, struct gets *g, struct fm_err *err)
{
	size_t len = strlen(g->dst);
	bool is_own, is_dir;
	struct fm_name own;
	struct stat st;
	int ret = fm_transfer_is_own(t, g->dst, &own, err);

	if (ret < 0)
		return ret;
	is_own = ret > 0;
	if (is_own)
		is_dir = is_own_dir(t, &own);
	else	/* is not made: one that is missing is said once, and not by each source */
		is_dir = stat(g->dst, &st) == 0 && S_ISDIR(st.st_mode);
	if (!is_dir || len > FMOVE_PATH_MAX)
		return fm_err_set(err, -ENOTDIR,
				  "several sources go into a directory: \"%.200s\" is none%s",
				  g->dst, how_to_make(g->dst, is_own));
	(void)snprintf(g->in_dir, sizeof(g->in_dir), "%s%s", g->dst,
		       g->dst[len - 1] == '/' ? "" : "/");
	g->dst = g->in_dir;
	return 0;
}

/* The i-th source of an operand. */
static struct fm_name source_of(const struct operand *o, size_t i)
{
	struct fm_name source = o->name;

	/* fits: it is no longer than a path may be */
	(void)snprintf(source.path, sizeof(source.path), "%s", path_of(o, i));
	return source;
}

/* Gets it. Returns its error's code. */
static int get_of(struct fm_transfer *t, const struct gets *g, const struct operand *o, size_t i)
{
	struct fm_outcome none = {
		.source = o->text, .target = g->dst, .err = o->err, .is_told = true};
	struct fm_name source = source_of(o, i);

	if (o->err.code == 0)
		return get_one(t, &source, g->dst);
	fm_outcomes_add(&t->outcomes, &none);
	return o->err.code;
}

/* It is not tried, for the reason that code is. */
static void skip(struct fm_transfer *t, const struct gets *g, const struct operand *o, size_t i,
		 int code)
{
	char text[SOURCE_TEXT_MAX];
	struct fm_name source = source_of(o, i);

	(void)fm_name_text(&source, text, sizeof(text));
	fm_transfer_skip(t, o->err.code == 0 ? text : o->text, g->dst, code);
}

/* All that is to come from there would fare no better. */
static void give_up_node(struct gets *g, const char *node, int code)
{
	for (unsigned k = 0; k < g->count; k++)
		if (strcmp(g->operands[k].name.node, node) == 0)
			g->operands[k].away = code;
}

static void get_all(struct fm_transfer *t, struct gets *g)
{
	size_t rest = count_all(g), left = 0;
	int code = 0;

	for (unsigned k = 0; k < g->count; k++) {
		const struct operand *o = &g->operands[k];

		for (size_t i = 0; i < count_of(o); i++, rest--) {
			if (code == -ECANCELED || o->away) {
				left++;
				skip(t, g, o, i, code == -ECANCELED ? code : o->away);
				continue;
			}
			code = get_of(t, g, o, i);
			if (rest > 1 && fm_transfer_gives_up(t, (int)fm_api_exit(code), &o->name))
				give_up_node(g, o->name.node, code);
		}
	}
	if (left > 0)
		fm_say("get: %zu more not tried", left);
}

/* Reports once, with the first source, an error that keeps all of them from being received. */
static void get_none(struct fm_transfer *t, const struct gets *g, const struct fm_err *err)
{
	struct fm_outcome one = {.source = g->operands[0].text, .target = g->dst, .err = *err};

	fm_outcomes_add(&t->outcomes, &one);
	t->outcomes.failed += (unsigned)count_all(g) - 1;
}

static int get(struct fm_transfer *t, struct gets *g)
{
	struct fm_err err = {.code = 0};
	int ret = fm_transfer_open(t, &err);

	t->outcomes.is_many = g->count > 1;
	for (unsigned i = 0; i < g->count && ret == 0; i++) {
		/* what is wrong with one is its own outcome */
		(void)expand(t, &g->operands[i]);
		t->outcomes.is_many |= g->operands[i].is_pattern;
	}
	if (ret == 0 && t->outcomes.is_many)
		ret = find_dir(t, g, &err);
	if (ret == 0 && t->outcomes.is_many)
		ret = check_twins(g, &err);
	fm_outcomes_begin(&t->outcomes);
	if (ret == 0)
		get_all(t, g);
	else
		get_none(t, g, &err);
	fm_transfer_close(t);
	return fm_outcomes_end(&t->outcomes);
}

/* ---- the command ---- */

static int no_source(const struct fm_args *args, const struct fm_err *err)
{
	struct fm_name name;
	struct fm_err other;

	if (fm_name_parse(args->operands[args->count - 1], &name, &other) == 0)
		return fm_usage(args, "%s; to send a file there: fmove put", err->text);
	return fm_usage(args, "%s", err->text);
}

/* Reads the operands. Returns 0, or an exit status. */
static int take_sources(struct fm_transfer *t, struct fm_args *args, struct gets *g)
{
	struct fm_err err;

	for (unsigned i = 0; i < g->count; i++) {
		struct operand *o = &g->operands[i];

		o->text = args->operands[i];
		if (fm_name_parse(o->text, &o->name, &err) < 0)
			return no_source(args, &err);
		if (!t->dir.is_recursive && (o->name.path[0] == '\0' || o->name.is_dir))
			return fm_usage(args,
					"%s is a directory: get -r brings all that is in it",
					o->text);
	}
	if (strcmp(g->dst, "-") != 0)
		return 0;
	if (g->count > 1)
		return fm_usage(args,
				"several sources go into a directory, not to standard output");
	if (t->outcomes.is_json)
		return fm_usage(args, "--json and - both want standard output");
	return 0;
}

/* What has no meaning for ranges. Returns 0, or an exit status. */
static int check_ranges(const struct fm_transfer *t, const struct fm_args *args)
{
	if (t->ranges.count == 0)
		return t->opts.whole_blocks ? fm_usage(args, "--verify is for ranges: a whole file "
							     "is always compared")
					    : 0;
	if (t->dir.is_recursive || fm_transfer_looks(t))
		return fm_usage(args, "ranges are of one file: leave out --recursive, --update, "
				      "--dry-run and --verbose");
	if (t->is_detached)
		return fm_usage(args, "ranges are not kept with a job: leave out --detach");
	return 0;
}

static int get_args(struct fm_transfer *t, struct fm_args *args)
{
	static struct gets g;
	int status;

	if (fm_transfer_args(t, args, 2, -1) < 0)
		return args->status;
	g.count = (unsigned)args->count - 1;
	g.dst = args->operands[args->count - 1];
	g.operands = calloc(g.count, sizeof(*g.operands));
	if (!g.operands)
		return fm_usage(args, "no memory for %u sources", g.count);
	status = check_ranges(t, args);
	if (status == 0)
		status = take_sources(t, args, &g);
	if (status == 0)
		status = get(t, &g);
	for (unsigned i = 0; i < g.count; i++)
		fm_glob_free(&g.operands[i].matches);
	free(g.operands);
	return status;
}

int fm_cmd_get(int argc, char **argv)
{
	struct fm_transfer t;
	struct fm_args args;
	int status;

	fm_transfer_init(&t, "get");
	fm_args_begin(&args, "get", argc, argv);
	status = get_args(&t, &args);
	fm_range_args_free(&t.ranges);
	return status;
}
